# Mode wal: the syncer and checkpoints, and what a commit waits for.
#
#   checkpoints  one waits for the sync of the pool: with the syncer stopped it does not end, and pg_control stays as it
#                is; nobody else waits for the syncer, and it holds no horizon back
#   signals      pg_terminate_backend() and pg_cancel_backend() of the syncer: it goes on
#   orphans      the postmaster is killed while a checkpoint is under way: no process is left
#   commits      one flush of the WAL each, none with synchronous_commit = off, as on heap
#   standby      levels of synchronous_commit with a synchronous receiver that sleeps: zen waits where heap does

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run ();
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $POLLS  = 50;     # looks of a process that waits, 10 ms apart
my $COMMITS = 50;

my $node = new_node('checkpoints', pool_size => '64MB', dram_size => '64MB', init => { allows_streaming => 1 },
	conf => "zen.pool_mode = wal\nfsync = on\ncheckpoint_timeout = 1h\nwal_writer_delay = 10s\n"
	  . "restart_after_crash = on");
$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v int) USING zen',
	'CREATE TABLE h (id int PRIMARY KEY, v int) USING heap',
	map { "INSERT INTO $_ SELECT g, 0 FROM generate_series(1, 1000) g" } 't', 'h');
wait_for('the syncer', sub { defined syncer() });

test_checkpoints();
test_signals();
test_orphans();
test_commits();
test_standby();
is_sound($dbh, 'at the end');
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub pid_of { return value($dbh, "SELECT pid FROM pg_stat_activity WHERE backend_type = '$_[0]'"); }

sub syncer { return pid_of('zen syncer'); }

sub control { return value($dbh, 'SELECT checkpoint_lsn FROM pg_control_checkpoint()'); }

# sleeps -- how often a process has gone to sleep.
sub sleeps
{
	my ($pid) = @_;
	my ($n) = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m;
	return $n;
}

# polls -- until a process has slept and looked again often, and nothing it does comes to an end.
sub polls
{
	my ($pid, $statement) = @_;
	my $until = sleeps($pid) + $POLLS;
	wait_for("process $pid to wait", sub { sleeps($pid) >= $until || $statement->{dbh}->pg_ready });
	return;
}

# --- the tests --------------------------------------------------------------

sub test_checkpoints
{
	my $other = connect_db($node);
	value($dbh, 'CHECKPOINT');
	run_all($dbh, 'UPDATE t SET v = v + 1', 'DELETE FROM h WHERE id > 10');
	is(value($dbh, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'zen syncer'
		AND backend_xid IS NULL AND backend_xmin IS NULL}), 1, 'checkpoints: the syncer has neither xid nor snapshot');
	my $before = control();
	my $pid = stop_asleep($dbh, 'zen syncer');
	my $checkpoint = start_statement($other, 'CHECKPOINT');
	polls(pid_of('checkpointer'), $checkpoint);
	ok(!$other->pg_ready, 'checkpoints: CHECKPOINT waits for the syncer');

	is(state_of($dbh, $_), '', "checkpoints: meanwhile: $_") for 'CREATE INDEX CONCURRENTLY t_v ON t (v)',
	  'REINDEX INDEX CONCURRENTLY t_v', 'DROP INDEX CONCURRENTLY t_v', 'CREATE INDEX CONCURRENTLY h_v ON h (v)',
	  'VACUUM t', 'VACUUM FREEZE h', 'VACUUM FULL h', 'UPDATE t SET v = v + 1', 'TRUNCATE h', 'DROP TABLE h';
	run_all($dbh, 'CREATE TABLE h (id int, v int) USING heap',
		'INSERT INTO h SELECT g, 0 FROM generate_series(1, 1000) g', 'DELETE FROM h', 'VACUUM h');
	is(value($dbh, q{SELECT pg_relation_size('h')}), 0, 'checkpoints: meanwhile: VACUUM removes all dead rows');
	ok(!$other->pg_ready, 'checkpoints: CHECKPOINT still waits');
	is(control(), $before, 'checkpoints: pg_control is as it was');

	kill 'CONT', $pid;
	is(finish_statement($checkpoint), 'CHECKPOINT', 'checkpoints: it ends when the syncer goes on');
	isnt(control(), $before, 'checkpoints: pg_control has moved');
	is(state_of($dbh, 'CHECKPOINT'), '', 'checkpoints: the next one ends, too');
	$other->disconnect;
	run_all($dbh, 'DROP TABLE h', 'CREATE TABLE h (id int PRIMARY KEY, v int) USING heap',
		'INSERT INTO h SELECT g, 0 FROM generate_series(1, 1000) g');
	return;
}

sub test_signals
{
	my $pid = syncer();
	for my $function ('pg_cancel_backend', 'pg_terminate_backend')
	{
		is(value($dbh, "SELECT $function($pid)"), 1, "signals: $function");
		# a round of the syncer behind the signal
		value($dbh, 'CHECKPOINT');
		my $before = control();
		run_all($dbh, 'UPDATE t SET v = v + 1', 'CHECKPOINT');
		isnt(control(), $before, "signals: $function: checkpoints end");
		is(syncer(), $pid, "signals: $function: the syncer is there");
	}
	# it does not take that for the stop of the server, at which it ends walsenders that have written
	my $walsender = DBI->connect(
		sprintf('dbi:Pg:dbname=postgres;host=%s;port=%d;replication=database', $node->host, $node->port),
		'', '', { PrintError => 0, AutoInactiveDestroy => 1 })
	  or die DBI->errstr;
	run_all($walsender, 'BEGIN', 'UPDATE t SET v = v + 1 WHERE id = 1');
	run_all($dbh, 'CHECKPOINT', 'UPDATE t SET v = v + 1 WHERE id = 4', 'CHECKPOINT');
	is(state_of($walsender, 'COMMIT'), '', 'signals: a walsender that has written goes on');
	$walsender->disconnect;
	test_left_alone($pid);
	my $sum = contents($dbh, 't');
	crash($node);
	start_again($node);
	$dbh = connect_db($node);
	is(contents($dbh, 't'), $sum, 'signals: after a crash all is there');
	return;
}

# The syncer stays when it has been told to end, and no other process is there for a while.
sub test_left_alone
{
	my ($pid) = @_;
	my $worker = pid_of('zen worker');
	value($dbh, q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()
		AND backend_type IN ('zen worker', 'zen flusher', 'zen syncer', 'logical replication launcher')});
	$dbh->disconnect;
	wait_for("the worker's end", sub { ZenTest::is_gone($worker) });
	wait_for('another worker', sub {
			grep { (eval { PostgreSQL::Test::Utils::slurp_file("/proc/$_/cmdline") } // '') =~ /zen worker/ }
			  ZenTest::descendants(ZenTest::postmaster_pid($node)) });
	$dbh = connect_db($node);
	is(syncer(), $pid, 'signals: alone, the syncer stays');
	return;
}

# stop_in_checkpoint -- stop the checkpointer in the middle of its work; returns its number, and the statement.
sub stop_in_checkpoint
{
	my ($other) = @_;
	my $pid = pid_of('checkpointer');
	for my $n (1 .. 100)
	{
		value($dbh, "INSERT INTO many_$_ VALUES ($n)") for 1 .. 100;
		my $from = log_size($node);
		my $checkpoint = start_statement($other, 'CHECKPOINT');
		wait_for('a checkpoint', sub { log_since($node, $from) =~ /checkpoint starting/ });
		kill 'STOP', $pid;
		wait_for('the checkpointer to stop', sub { my ($state) = ZenTest::proc_stat($pid); $state eq 'T' });
		return ($pid, $checkpoint) if log_since($node, $from) !~ /checkpoint complete/;
		kill 'CONT', $pid;
		finish_statement($checkpoint);
	}
	die 'no checkpoint takes long enough';
}

# An orphan that waits for the syncer would keep the next server from starting.
sub test_orphans
{
	reload_conf($node, 'log_checkpoints = on');
	wait_for('the reload', sub { value($dbh, 'SHOW log_checkpoints') eq 'on' });
	value($dbh, "CREATE TABLE many_$_ (i int) USING heap") for 1 .. 100;
	run_all($dbh, 'CHECKPOINT', 'UPDATE t SET v = v + 1');
	my $sum    = contents($dbh, 't');
	my $before = control();
	my $syncer = syncer();
	my $other  = connect_db($node);
	my ($pid, $checkpoint) = stop_in_checkpoint($other);
	my $postmaster = ZenTest::postmaster_pid($node);
	my @processes  = ZenTest::descendants($postmaster);
	$node->kill9;
	wait_for('the end of the syncer', sub { ZenTest::is_gone($syncer) });
	kill 'CONT', $pid;
	wait_for('the end of all processes', sub { !grep { !ZenTest::is_gone($_) } @processes });
	ZenTest::remove_lock_files($node);
	start_again($node);
	$dbh = connect_db($node);
	is(contents($dbh, 't'), $sum, 'orphans: nothing is lost');
	return;
}

# syncs -- of the WAL, by this session and by those that have reported them.
sub syncs
{
	my $version = value($dbh, q{SELECT current_setting('server_version_num')::int / 10000});
	value($dbh, 'SELECT pg_stat_force_next_flush()');
	return value($dbh, $version >= 18 ? q{SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'} :
		  'SELECT wal_sync FROM pg_stat_wal');
}

sub test_commits
{
	wait_recovered($dbh);
	value($dbh, 'CHECKPOINT');
	my @stopped = stop_wal_writer($dbh);
	my %n;
	for my $table ('t', 'h')
	{
		for my $level ('on', 'local', 'remote_write', 'remote_apply', 'off')
		{
			value($dbh, "SET synchronous_commit = $level");
			value($dbh, "UPDATE $table SET v = v + 1 WHERE id = 1");
			my $before = syncs();
			value($dbh, "UPDATE $table SET v = v + 1 WHERE id = $_") for 1 .. $COMMITS;
			$n{$table}{$level} = syncs() - $before;
		}
	}
	for my $level (sort keys %{ $n{t} })
	{
		is($n{t}{$level}, $level eq 'off' ? 0 : $COMMITS, "commits: flushes of $COMMITS with $level");
		is($n{h}{$level}, $n{t}{$level}, "commits: heap, with $level");
	}
	value($dbh, 'RESET synchronous_commit');
	kill 'CONT', @stopped;
	return;
}

# A receiver of the WAL that flushes what it gets, and says so.
sub start_receiver
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my ($in, $out) = ('', '');
	my $receiver = IPC::Run::start([ 'pg_receivewal', '--synchronous', '-n', '-D', $dir, '-d',
			sprintf(q{host='%s' port=%d application_name=receiver}, $node->host, $node->port) ],
		'<', \$in, '>&', \$out);
	wait_for('the receiver', sub {
			value($dbh, q{SELECT count(*) FROM pg_stat_replication WHERE application_name = 'receiver'
				AND state = 'streaming'}) });
	return $receiver;
}

# It waits for the receiver, or has come to its end.
sub waits
{
	my ($pid, $statement) = @_;
	wait_for('the commit to wait or end', sub {
			$statement->{dbh}->pg_ready || waits_for_standby($dbh, $pid) });
	return waits_for_standby($dbh, $pid);
}

sub test_standby
{
	my $receiver = start_receiver();
	my ($pid) = map { $_->{PID} // $_->pid } grep { ref } @{ $receiver->{KIDS} };
	reload_conf($node, q{synchronous_standby_names = 'receiver'});
	wait_for('the receiver to be synchronous', sub {
			value($dbh, q{SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'}) });
	value($dbh, 'UPDATE t SET v = v + 1 WHERE id = 1');
	my $other = connect_db($node);
	my $backend = value($other, 'SELECT pg_backend_pid()');
	kill 'STOP', $pid;
	wait_until_synchronous($dbh, $other);
	for my $level ('on', 'remote_write', 'remote_apply', 'local', 'off')
	{
		for my $table ('h', 't')
		{
			value($other, "SET synchronous_commit = $level");
			my $statement = start_statement($other, "UPDATE $table SET v = v + 1 WHERE id = 2");
			is(waits($backend, $statement), $level =~ /^local|off$/ ? 0 : 1, "standby: $level, table $table");
			# the commit is done, and the wait is given up
			value($dbh, "SELECT pg_cancel_backend($backend)") if !$other->pg_ready;
			is(finish_statement($statement), 'UPDATE 1', "standby: $level, table $table: committed");
		}
	}
	value($other, 'SET synchronous_commit = on');
	my $statement = start_statement($other, 'UPDATE t SET v = v + 1 WHERE id = 2');
	is(waits($backend, $statement), 1, 'standby: a commit waits');
	kill 'CONT', $pid;
	is(finish_statement($statement), 'UPDATE 1', 'standby: it ends when the receiver goes on');
	is(value($dbh, 'SELECT v FROM t WHERE id = 2'), value($dbh, 'SELECT v FROM t WHERE id = 3') + 6,
		'standby: all commits are there');
	reload_conf($node, q{synchronous_standby_names = ''});
	$other->disconnect;
	$receiver->signal('INT');
	$receiver->finish;
	return;
}
