# Mode wal: the server stops under a random load, and nothing that was acknowledged is lost (as in 200_crash.pl).
#
#   modes       fast, smart and immediate; at once behind the start, again and again
#   prepared    transactions that are prepared live through each stop, and are ended later
#   walsenders  streams of WAL, of a receiver and of logical decoding, go on until all is sent; a walsender that has
#               written rows, and has not committed, does not keep the server from stopping
#   waiting     a CHECKPOINT waits for the syncer when the stop is asked for
#
#   CLIENTS=n, SEED=n as in 200_crash.pl

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CrashRound;
use IPC::Run ();
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_modules('test_decoding');

my $seed = choose_seed();
my $node = new_node('stops', pool_size => '128MB', init => { allows_streaming => 'logical' },
	conf => "zen.pool_mode = wal\nfsync = on\ncheckpoint_timeout = 1h\nwal_level = logical");
my $load = CrashRound->new(node => $node, clients => $ENV{CLIENTS} || 4, seed => $seed);
my $dbh;

$node->start;
$load->prepare_database;
$dbh = connect_db($node);
run_all($dbh, 'CREATE TABLE twophase (id int PRIMARY KEY, v int) USING zen',
	'INSERT INTO twophase SELECT g, 0 FROM generate_series(1, 1000) g');
# while no transaction is prepared: it would wait for that
value($dbh, q{SELECT pg_create_logical_replication_slot('slot', 'test_decoding')});
my $round = 0;
test_modes();
value($dbh, q{SELECT pg_drop_replication_slot('slot')});
test_walsender_writes();
test_at_once();
test_waiting();
$load->print_counts;
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub wait_wal
{
	my ($bytes) = @_;
	my $lsn = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	wait_for('the load', sub { value($dbh, "SELECT pg_current_wal_insert_lsn() - '$lsn' > $bytes") });
	return;
}

# stopped -- ask for a stop, and give it a time.
sub stopped
{
	my ($mode, $name) = @_;
	local $ENV{PGCTLTIMEOUT} = 60;
	is($node->stop($mode, fail_ok => 1), 1, "$name: the server stops");
	return;
}

# Streams of WAL.
sub start_receivers
{
	my $dir  = PostgreSQL::Test::Utils::tempdir();
	my @from = ('-d', sprintf q{host='%s' port=%d dbname=postgres}, $node->host, $node->port);
	my ($in, $out) = ('', '');
	my @receivers = map { IPC::Run::start($_, '<', \$in, '>&', \$out) }
	  [ 'pg_receivewal', '-n', '-D', $dir, @from ],
	  [ 'pg_recvlogical', '--start', '--no-loop', '-S', 'slot', '-f', "$dir/changes", @from ];
	wait_for('the receivers', sub {
			value($dbh, q{SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'}) == 2 });
	return { processes => \@receivers, changes => "$dir/changes", output => \$out };
}

# --- the tests --------------------------------------------------------------

sub test_modes
{
	for my $mode ('fast', 'smart', 'immediate')
	{
		for my $with ('', ', with walsenders')
		{
			stop_and_verify($mode, $with ne '', "$mode$with");
		}
	}
	return;
}

sub stop_and_verify
{
	my ($mode, $walsenders, $name) = @_;
	$round++;
	my $open = value($dbh, 'SELECT count(*) FROM twophase WHERE v <> 0');
	run_all($dbh, 'BEGIN', "UPDATE twophase SET v = 1 WHERE id = $round", "PREPARE TRANSACTION 'stops$round'");
	my $receivers = $walsenders && start_receivers();
	my @wrong = $load->run_load($round, sub {
			my (@clients) = @_;
			wait_wal(300_000);
			value($dbh, 'CHECKPOINT') if one_in(2);
			wait_wal(between(50_000, 500_000));
			value($dbh, "INSERT INTO twophase VALUES (10000 + $round, 7)");
			$dbh->disconnect if $mode eq 'smart';
			# a smart stop waits for the sessions
			kill 'KILL', @clients if $mode eq 'smart';
			stopped($mode, $name); });
	push @wrong, $load->read_journals;

	my $from = log_size($node);
	$_->finish for $receivers ? @{ $receivers->{processes} } : ();
	start_again($node);
	$dbh = connect_db($node);
	wait_recovered($dbh);
	is(value($dbh, 'SELECT after_crash FROM zen_recovery'), $mode eq 'immediate' ? 1 : 0, "$name: was it in order?");
	is(scalar(log_since($node, $from) =~ /not left in order: the write-ahead log is replayed/),
		$mode eq 'immediate' ? 1 : '', "$name: was the WAL replayed?");
	is(value($dbh, 'SELECT count(*) FROM twophase WHERE v <> 0'), $open + 1, "$name: prepared, and invisible");
	value($dbh, "COMMIT PREPARED 'stops$round'");
	is(value($dbh, "SELECT v FROM twophase WHERE id = $round"), 1, "$name: prepared, and committed");
	$load->verify($dbh, \@wrong);
	diag("$name: $_") for @wrong;
	ok(!@wrong, "$name: nothing is lost");
	if ($receivers)
	{
		my $last = 10000 + $round;
		like(PostgreSQL::Test::Utils::slurp_file($receivers->{changes}), qr/twophase: INSERT: id\[integer\]:$last /,
			"$name: the last change is decoded") if $mode ne 'immediate';
	}
	return;
}

# For such a connection the server starts a walsender, which also runs statements.
sub test_walsender_writes
{
	for my $mode ('fast', 'smart', 'immediate')
	{
		my $expected = contents($dbh, 'twophase');
		my $walsender = DBI->connect(
			sprintf('dbi:Pg:dbname=postgres;host=%s;port=%d;replication=database', $node->host, $node->port),
			'', '', { PrintError => 0, AutoInactiveDestroy => 1 })
		  or die DBI->errstr;
		run_all($walsender, 'BEGIN', 'UPDATE twophase SET v = 100');
		is(value($dbh, q{SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'walsender' AND backend_xid IS NOT NULL}), 1, "walsender, $mode: it has written");
		$dbh->disconnect;
		stopped($mode, "walsender, $mode");
		start_again($node);
		$dbh = connect_db($node);
		wait_recovered($dbh);
		is(contents($dbh, 'twophase'), $expected, "walsender, $mode: its transaction is undone");
	}
	return;
}

# Stops that come while recovery begins, and when the syncer goes on duty.
sub test_at_once
{
	my $expected = contents($dbh, 'twophase');
	$dbh->disconnect;
	stopped('fast', 'at once');
	for my $n (1 .. 12)
	{
		start_again($node);
		my $mode = pick('fast', 'immediate');
		if ($n % 3 == 0)
		{
			$dbh = connect_db($node);
			value($dbh, "UPDATE twophase SET v = 1 WHERE id = $n");
			$expected = contents($dbh, 'twophase');
			$dbh->disconnect;
		}
		stopped($mode, "at once, $n: $mode");
	}
	start_again($node);
	$dbh = connect_db($node);
	wait_recovered($dbh);
	is(contents($dbh, 'twophase'), $expected, 'at once: all is there');
	is_sound($dbh, 'at once');
	return;
}

sub test_waiting
{
	my $expected = contents($dbh, 'twophase');
	my $pid = stop_asleep($dbh, 'zen syncer');
	my $checkpoint = start_statement(connect_db($node), 'CHECKPOINT');
	my $stop = IPC::Run::start([ 'pg_ctl', '-D', $node->data_dir, '-m', 'fast', 'stop' ], '>', '/dev/null');
	my $postmaster = ZenTest::postmaster_pid($node);
	wait_for('the sessions to end', sub { run_sql($dbh, 'SELECT 1')->{lost} });
	ok(!ZenTest::is_gone($postmaster), 'waiting: the server waits for the syncer');
	kill 'CONT', $pid;
	ok($stop->finish, 'waiting: it stops when the syncer goes on');
	$node->_update_pid(0);
	start_again($node);
	$dbh = connect_db($node);
	wait_recovered($dbh);
	is(value($dbh, 'SELECT after_crash FROM zen_recovery'), 0, 'waiting: stopped in order');
	is(contents($dbh, 'twophase'), $expected, 'waiting: all is there');
	return;
}
