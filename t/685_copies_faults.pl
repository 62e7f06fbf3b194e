# R18 broken: a copy of the pool that is not told of a change, too late, or that decides too early, must be seen to
# differ.
#
# A standby follows a primary.  Transactions are rolled back, pages and tables come and go, the primary is killed while
# nobody flushes its WAL.  Then the pools are compared; the standby is promoted before the last commit, and its rows are
# compared.  The same must go well with honest settings.
#
# The standby begins that at a restartpoint between the last commit but one and what follows it.  Or that commit is
# under way at the restartpoint: then the standby has the evidence of it in its pool, or nowhere.  It is killed while
# the evidence moves from the region's descriptor to the watermark.
#
# Or the standby dies at its promotion, when zen has been recovered, and what was written since is lost.  It begins
# again at that restartpoint, with pages free that were not.  Or it is killed, and has pages free of which the WAL of
# the primary has lost that they were given back: its recovery has told that they are free.
#
# In mode wal what the WAL loses is lost on both servers: asynchronous commits.
#
# FAULTS="a b"  only these

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers qw(pools_differ);
use PoolFile ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_faults();

# [ zen.fault, is it one, of which server; end: of the standby's last start, again: after it has died at its promotion;
# freed: after a page has become free that its records name ]
my @faults = (
	[ none                 => 0, 'primary' ],
	[ r17_no_tail          => 1, 'primary' ],
	[ r18_no_scrubs        => 1, 'primary' ],
	[ r18_scrubs_unflushed => 1, 'primary' ],
	[ r18_no_directories   => 1, 'primary' ],
	[ r18_no_image         => 1, 'primary' ],
	[ r18_no_zeroes        => 1, 'primary' ],
	[ r18_redo_on_primary  => 1, 'primary' ],
	[ r18_tail_stays       => 1, 'primary' ],
	[ r18_not_settled      => 1, 'standby' ],
	[ r18_decided_early    => 1, 'standby' ],
	[ r18_stop_settled     => 0, 'end' ],
	[ r18_descriptor_first => 1, 'end' ],
	[ none                 => 0, 'again' ],
	[ none                 => 0, 'freed' ],
	[ r18_stored_on_free   => 1, 'freed' ]);
# Mode wal has no tail, and replays from the last checkpoint on: what the primary stores before the WAL is flushed is
# replayed there, too, and no pool is a primary's in redo.  Pages are given back by ZERO.  A standby that dies on the
# way to a target is refused.
my %needless = map { $_ => 1 } qw(r17_no_tail r18_tail_stays r18_scrubs_unflushed r18_no_image r18_redo_on_primary
  r18_stored_on_free r18_stop_settled r18_descriptor_first);
@faults = grep { !$needless{ $_->[0] } } @faults if by_wal(new_node('mode'));
my %wanted = map { $_ => 1 } split ' ', $ENV{FAULTS} || '';
@faults = grep { !%wanted || $wanted{ $_->[0] } } @faults;

for (@faults)
{
	my ($fault, $breaks, $whose) = @$_;
	my $wrong = play($fault, $whose);
	if ($breaks) { isnt($wrong, '', "$fault is caught: " . substr($wrong, 0, 160)); }
	else { is($wrong, '', "$fault: the copy is equal"); }
}
done_testing();

sub set_fault
{
	my ($node, $fault) = @_;
	open(my $fh, '>', $node->data_dir . '/fault.conf') or die $!;
	print $fh "zen.fault = $fault\n";
	close $fh;
	$node->reload if $node->{_pid};
	return;
}

sub rows
{
	my ($dbh) = @_;
	my $result = run_sql($dbh, q{SELECT count(*) || ':' || md5(string_agg(t::text, ',' ORDER BY id)) FROM t});
	return $result->{message} || $result->{rows}[0][0];
}

# What goes wrong; '' for nothing.
sub play
{
	my ($fault, $whose) = @_;
	my $name = "${fault}_$whose";
	my $primary = new_node("primary_$name", pool_size => '64MB', dram_size => '64MB', faults => 1,
		pool_path => 'zen.pool', init => { allows_streaming => 1 },
		conf => "zen.stream = replica\nwal_keep_size = 256MB\ninclude 'fault.conf'");
	set_fault($primary, 'none');
	$primary->start;
	my $dbh = connect_db($primary);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 2000) g});
	$primary->backup('copy');
	my $standby = PostgreSQL::Test::Cluster->new("standby_$name", install_path => $ENV{ZEN_FAULT_SERVER});
	$standby->init_from_backup($primary, 'copy', has_streaming => 1);
	$standby->start;
	my %node = (primary => $primary, standby => $standby);
	set_fault($node{$whose}, $fault) if $node{$whose};
	my $wrong = differences($primary, $dbh, $standby, $fault, $whose);
	$_->stop('immediate') for $primary, $standby;
	return $wrong;
}

sub differences
{
	my ($primary, $dbh, $standby, $fault, $whose) = @_;
	$dbh->disconnect;
	$dbh = connect_db($primary);
	changes($dbh);
	small_changes($primary, $dbh);
	stop_wal_writer($dbh);
	lost_changes($primary, $dbh, $fault);
	my $before = rows($dbh);
	crash($primary);
	start_again($primary);
	$dbh = connect_db($primary);
	wait_recovered($dbh);
	my $wrong = pools_differ($primary, $dbh, $standby);
	my $after = rows($dbh);
	$wrong .= "rows of the primary: $after instead of $before" if $after ne $before && !by_wal($primary);
	$wrong .= $whose eq 'freed' ? wrong_freed($primary, $dbh, $standby, $fault) :
	  wrong_before_last($primary, $dbh, $standby, $fault, $whose);
	$dbh->disconnect;
	return $wrong;
}

# The standby is promoted between the records of a transaction and its commit record.  The transaction before it was of
# the same region.
sub wrong_before_last
{
	my ($primary, $dbh, $standby, $fault, $whose) = @_;
	my $session = connect_db($primary);
	# no other row is as large: its page is empty when it is deleted
	run_all($session, 'CREATE TABLE empty (id int, v text) USING zen',
		q{INSERT INTO empty VALUES (1, repeat('gone', 300))}, 'DELETE FROM empty');
	my $before = q{INSERT INTO t VALUES (40001, 'before the last')};
	if ($whose eq 'end') { commits_behind($primary, $dbh, $standby, $session, $before); }
	else
	{
		value($session, $before);
		stop_behind($primary, $dbh, $standby);
	}
	my $expected = rows($dbh);
	# else the record of the last one says what the standby has lost
	untell($primary, $session) if $fault eq 'r18_descriptor_first';
	my $insert = q{INSERT INTO empty VALUES (2, repeat('last', 300))};
	# or nothing is to be undone there, which would flush the WAL: the page is empty again
	run_all($session, $insert, 'DELETE FROM empty') if $whose eq 'again';
	run_all($session, 'BEGIN',
		$whose eq 'again' ? 'CREATE TABLE of_heap ()' : (q{UPDATE t SET v = 'last' WHERE id <= 20}, $insert));
	my $xid = value($session, 'SELECT pg_current_xact_id()');
	run_all($session, 'COMMIT');
	$session->disconnect;
	value($dbh, 'CHECKPOINT');
	set_conf($standby, "recovery_target_xid = '$xid'\nrecovery_target_inclusive = off\nrecovery_target_action = "
		  . ($whose eq 'again' ? 'pause' : 'promote'));
	die_promoted($standby) if $whose eq 'again';
	set_fault($standby, $fault) if $whose eq 'end' || $whose eq 'again';
	start_to_die($standby) if $whose eq 'end';
	set_fault($standby, 'none') if $whose eq 'end';
	start_again($standby);
	my $handle = connect_db($standby);
	wait_for('the promotion', sub { value($handle, 'SELECT NOT pg_is_in_recovery()') });
	wait_recovered($handle);
	my $rows = rows($handle);
	$handle->disconnect;
	my @wrong = map { "free page $_ is not zero" } PoolFile::dirty_free_pages($standby->data_dir . '/zen.pool');
	push @wrong, "rows: $rows instead of $expected" if $rows ne $expected;
	return join "\n", @wrong;
}

# untell -- records of transactions do not say how the one before has ended.
sub untell
{
	my ($primary, $session) = @_;
	set_fault($primary, 'r18_committed_unsaid');
	wait_for('the fault', sub { value($session, 'SHOW zen.fault') eq 'r18_committed_unsaid' });
	return;
}

# A standby replays rows again, on pages that are free.
sub wrong_freed
{
	my ($primary, $dbh, $standby, $fault) = @_;
	# so many rows that the table has pages of its own
	run_all($dbh, "CREATE TABLE freed USING zen AS SELECT g AS id, repeat('f', 300) AS v "
		  . "FROM generate_series(1, 1000) g");
	stop_behind($primary, $dbh, $standby);
	run_all($dbh, map { "INSERT INTO freed VALUES ($_, repeat('f', 300))" } 1001 .. 1020);
	stop_wal_writer($dbh);
	run_all($dbh, 'DROP TABLE freed');
	crash($primary);
	start_again($primary);
	my $handle = connect_db($primary);
	wait_recovered($handle);
	$standby->start;
	my $wrong = pools_differ($primary, $handle, $standby);
	crash($standby);
	set_fault($standby, $fault);
	start_again($standby);
	$wrong .= pools_differ($primary, $handle, $standby);
	$handle->disconnect;
	return $wrong;
}

# commits_behind -- stop_behind() while a statement commits.  Redo of a checkpoint settles what has committed.
sub commits_behind
{
	my ($primary, $dbh, $standby, $session, $sql) = @_;
	my $pid = value($session, 'SELECT pg_backend_pid()');
	set_fault($primary, 'r19_pause_decided');
	wait_for('the fault', sub { value($session, 'SHOW zen.fault') eq 'r19_pause_decided' });
	my $statement = start_statement($session, $sql);
	wait_for('the session to stop', sub { PostgreSQL::Test::Utils::slurp_file("/proc/$pid/stat") =~ /\)\s+T/ });
	set_fault($primary, 'none');
	wait_for('no fault', sub { value($dbh, 'SHOW zen.fault') eq 'none' });
	stop_behind($primary, $dbh, $standby);
	kill 'CONT', $pid;
	finish_statement($statement);
	return;
}

# die_promoted -- promote the standby; it dies when zen is recovered, and before anybody flushes or checkpoints.
sub die_promoted
{
	my ($standby) = @_;
	# its first round, at its start, leaves a page of WAL that is not full
	set_conf($standby, 'wal_writer_delay = 10s');
	set_fault($standby, 'r18_stop_recovered');
	$standby->start;
	my $handle = connect_db($standby);
	wait_for('the target', sub { value($handle, 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' });
	my $checkpointer = stop_asleep($handle, 'checkpointer');
	my $before = -s $standby->logfile;
	value($handle, 'SELECT pg_promote(false)');
	wait_for('the promoted server to die', sub { log_since($standby, $before) =~ /the server stops here/ });
	kill 'KILL', $checkpointer; # stopped, and so it makes no checkpoint before it ends
	wait_for('its end', sub { !-e $standby->data_dir . '/postmaster.pid' });
	$handle->disconnect;
	$standby->_update_pid(0);
	return;
}

# stop_behind -- stop the standby: it will start with what the primary writes from now on.
sub stop_behind
{
	my ($primary, $dbh, $standby) = @_;
	my $now = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	value($dbh, 'CHECKPOINT');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	$standby->stop;
	my ($control) = PostgreSQL::Test::Utils::run_command([ 'pg_controldata', $standby->data_dir ]);
	my ($redo) = $control =~ m{^Latest checkpoint's REDO location: *(\S+)$}m or die $control;
	die "a restartpoint at $redo, before $now" if !value($dbh, "SELECT '$redo'::pg_lsn >= '$now'");
	return;
}

sub changes
{
	my ($dbh) = @_;
	for my $i (1 .. 3)
	{
		run_all($dbh, 'BEGIN', 'SET LOCAL zen.spill_threshold = 0', 'SAVEPOINT s',
			q{UPDATE t SET v = repeat('r', 300) WHERE id > 1000}, 'ROLLBACK TO s',
			"INSERT INTO t VALUES (10000 + $i, 'kept')", 'COMMIT');
		run_all($dbh, "CREATE TABLE gone AS SELECT g AS id, repeat('g', 500) AS v FROM generate_series(1, 3000) g",
			'ALTER TABLE gone SET ACCESS METHOD zen') if $i == 1;
	}
	run_all($dbh, 'DROP TABLE gone', q{INSERT INTO t SELECT g, repeat('y', 50) FROM generate_series(20001, 20400) g});
	return;
}

# Rows of all sizes, and most of the size of a tail slot, which shares their pages and takes the places of old versions.
# A commit that fails when its tail slot is there (NOTIFY has no place for what it has to say) makes its place empty.
sub small_changes
{
	my ($primary, $dbh) = @_;
	my $notify = $primary->data_dir . '/pg_notify';
	run_all($dbh, 'CREATE TABLE small (id int PRIMARY KEY, v text) USING zen',
		'INSERT INTO small SELECT generate_series(1, 20)');
	for my $i (1 .. 300)
	{
		my $fails = $i % 60 == 0;
		my $length = $i % 3 ? 185 + $i % 40 : $i * 37 % 500;
		my $update = sprintf q{UPDATE small SET v = repeat('s', %d) WHERE id = %d}, $length, $i % 20 + 1;
		run_all($dbh, 'BEGIN', $update);
		value($dbh, q{SELECT count(pg_notify('x', g || repeat('y', 7000))) FROM generate_series(1, 40) g}) if $fails;
		chmod 0, $notify if $fails;
		my $state = state_of($dbh, 'COMMIT');
		chmod 0700, $notify;
		die "COMMIT: $state" if ($state ne '') != $fails;
	}
	return;
}

# What the WAL knows nothing of, but for the slots of a transaction that is rolled back.  Nobody takes a page after
# that, or gives one back, which would flush the WAL.
sub lost_changes
{
	my ($primary, $dbh, $fault) = @_;
	my $other = connect_db($primary);
	run_all($_, 'SET synchronous_commit = off') for by_wal($primary) ? ($dbh, $other) : ();
	run_all($other, q{INSERT INTO t VALUES (30000, 'z')});
	# so that no page is given back: the rows that are spilled come to a page that has others, and leave some behind
	run_all($dbh, 'VACUUM t', q{UPDATE t SET v = repeat('s', 200) WHERE id % 2 = 1});
	run_all($dbh, 'BEGIN', 'SET LOCAL zen.spill_threshold = 0',
		q{UPDATE t SET v = repeat('s', 200) WHERE id > 1800 AND id % 2 = 0}, q{SELECT pg_switch_wal()});
	run_all($other, map { "INSERT INTO t VALUES (30000 + $_, 'z')" } 1 .. 60);
	run_all($dbh, 'ROLLBACK');
	run_all($other, map { "INSERT INTO t VALUES (30100 + $_, 'z')" } 1 .. 30);
	# in slots that were rolled back; the others stay as they are for r18_scrubs_unflushed
	run_all($dbh, map { "INSERT INTO t VALUES (31000 + $_, repeat('t', 200))" } 1 .. 30)
	  if $fault eq 'r18_redo_on_primary' || $fault eq 'none';
	# the WAL is flushed by the commit, and has lost what becomes of the pages
	run_all($dbh, 'CREATE TABLE late USING zen AS SELECT g FROM generate_series(1, 10000) g', 'DROP TABLE late')
	  if $fault eq 'r18_no_image' || $fault eq 'none';
	$other->disconnect;
	return;
}
