# Commits leave for readers of the WAL within milliseconds (streamclients.c), as heap's commits do, which flush it: for
# a standby, and for a client that receives the WAL.  Without a reader no process is woken, and zen_stat_stream shows
# the commits that wait.  The WAL writer has no part in it: it is asleep.
#
# In each of ROUNDS rounds all processes of a primary are killed under load, on a zen and a heap table side by side, and
# the standby is promoted.  Of what was acknowledged 10 ms before the kill, zen may have lost no more than heap.
#
# In mode wal commits flush the WAL themselves: none waits for a reader, and nothing is for the flusher to do.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(time);
use ZenTest;

use constant HELD_S => 0.010;
use constant CLIENTS => 2;    # for each table

skip_unless_zen();
my $rounds = $ENV{ROUNDS} || 3;
my $conf = "wal_writer_delay = 10s\nautovacuum = off\nmax_wal_senders = 5\n";

my $node = copy_primary('primary0', conf => $conf);
$node->start;
my $by_wal = by_wal($node);
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen', map { "CREATE TABLE $_ (id int PRIMARY KEY, client int) USING $_" } qw(zen heap));
my $id = 1_000_000;

test_without_reader('at first');
test_receiver();
my ($standby, $others) = (new_standby(0));
test_reader('a standby');
test_restarted_flusher();
test_exposure();

my %lost = map { $_ => 0 } qw(zen heap);
my $acknowledged = 0;
round($_) for 1 .. $rounds;
diag("$acknowledged commits acknowledged in $rounds rounds; lost: zen $lost{zen}, heap $lost{heap}");
is_sound($dbh, 'at the end');
$dbh->disconnect;
$node->stop;
done_testing();

# --- readers ------------------------------------------------------------------

sub new_standby
{
	my ($number) = @_;
	$node->backup("b$number");
	my $copy = copy_of($node, 'primary' . ($number + 1), "b$number", has_streaming => 1);
	$copy->start;
	$node->wait_for_catchup($copy, 'replay', $node->lsn('insert'));
	return $copy;
}

sub commit_one { return run_all($dbh, 'INSERT INTO zen VALUES (' . $id++ . ', 0)'); }

sub unflushed { return value($dbh, 'SELECT unflushed_transactions FROM zen_stat_stream'); }

# A commit leaves, long before the WAL writer is awake: the limit is for slow machines.
sub test_reader
{
	my ($who) = @_;
	for my $i (1 .. 3)
	{
		commit_one();
		my $begin = time;
		wait_for("a commit to leave for $who", sub { unflushed() == 0 });
		cmp_ok(time - $begin, '<', 2, "$who: commit $i has left");
	}
	return;
}

# Nobody flushes, and the view says so.
sub test_without_reader
{
	my ($when) = @_;
	wait_for('readers to go', sub { value($dbh, q{SELECT count(*) FROM pg_stat_activity
		WHERE backend_type = 'walsender'}) == 0 });
	commit_one();    # takes pages, which is flushed
	value($dbh, 'CHECKPOINT');
	my $writer = stop_asleep($dbh, 'walwriter');
	is(unflushed(), 0, "no reader, $when: all is flushed");
	commit_one() for 1 .. 5;
	my ($n, $bytes, $ms) = @{ run_sql($dbh, 'SELECT unflushed_transactions, unflushed_bytes, unflushed_ms
		FROM zen_stat_stream')->{rows}[0] };
	is($n, $by_wal ? 0 : 5, "no reader, $when: commits wait for the WAL writer");
	if ($by_wal) { is("$bytes $ms", '0 0', "no reader, $when: bytes and time"); }
	else
	{
		cmp_ok($bytes, '>', 5 * 40, "no reader, $when: bytes");
		cmp_ok($ms, '>', 0, "no reader, $when: for some time");
	}
	is(value($dbh, "SELECT wait_event_type FROM pg_stat_activity WHERE backend_type = 'zen flusher'"), 'Extension',
		"no reader, $when: the flusher sleeps");
	kill 'CONT', $writer;
	return;
}

sub test_receiver
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $pid = fork() // die "cannot fork: $!";
	if (!$pid)
	{
		$dbh->{InactiveDestroy} = 1;
		open STDERR, '>', '/dev/null';
		exec $node->config_data('--bindir') . '/pg_receivewal', '-D', $dir, '-h', $node->host, '-p', $node->port;
		POSIX::_exit(1);
	}
	wait_for('pg_receivewal', sub { value($dbh, 'SELECT count(*) FROM pg_stat_replication') == 1 });
	test_reader('pg_receivewal');
	kill 'TERM', $pid;
	waitpid $pid, 0;
	test_without_reader('after the last');
	return;
}

sub test_restarted_flusher
{
	my $pid = sub { value($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'zen flusher'}) // 0 };
	my $old = $pid->();
	value($dbh, "SELECT pg_terminate_backend($old)");
	wait_for('another flusher', sub { my $new = $pid->(); $new != 0 && $new != $old });
	test_reader('a standby, with another flusher');
	return;
}

# While the flusher cannot run, the view shows what waits.
sub test_exposure
{
	my $writer = stop_asleep($dbh, 'walwriter');
	my $flusher = stop_asleep($dbh, 'zen flusher');
	commit_one() for 1 .. 3;
	is(unflushed(), $by_wal ? 0 : 3, 'flusher stopped: commits wait');
	kill 'CONT', $flusher;
	wait_for('the flusher', sub { unflushed() == 0 });
	pass('flusher goes on: they have left');
	kill 'CONT', $writer;
	return;
}

# --- kill and promotion ---------------------------------------------------------

sub journal { return "$PostgreSQL::Test::Utils::tmp_check/acknowledged_$_[0]_$_[1]"; }

# Single-row transactions until the server is gone; what was acknowledged, and when.
sub start_client
{
	my ($table, $client, $first) = @_;
	my $pid = fork() // die "cannot fork: $!";
	return $pid if $pid;
	$dbh->{InactiveDestroy} = 1;
	eval {
		my $own = connect_db($node);
		open my $file, '>', journal($table, $client) or die $!;
		for (my $i = $first;; $i++)
		{
			last if state_of($own, "INSERT INTO $table VALUES ($i, $client)") ne '';
			syswrite $file, sprintf("%d %.6f\n", $i, time);
		}
		1;
	};
	POSIX::_exit(0);
}

# All at one moment, as far as that goes; returns when.
sub kill_all
{
	my $postmaster = ZenTest::postmaster_pid($node);
	my @pids = ($postmaster, ZenTest::descendants($postmaster));
	my $killed = time;
	kill 'KILL', @pids;
	crash($node);
	return $killed;
}

# Acknowledged and not there, of these how many HELD_S or longer before the kill.
sub count_lost
{
	my ($table, $killed) = @_;
	my %there = map { $_->[0] => 1 } @{ run_sql($dbh, "SELECT id FROM $table")->{rows} };
	my ($lost, $old) = (0, 0);
	for my $client (1 .. CLIENTS)
	{
		open my $file, '<', journal($table, $client) or die $!;
		while (<$file>)
		{
			next unless /^(\d+) (\S+)$/;
			$acknowledged++;
			next if $there{$1};
			$lost++;
			$old++ if $2 < $killed - HELD_S;
		}
	}
	return ($lost, $old);
}

sub round
{
	my ($round) = @_;
	my $before = value($dbh, 'SELECT count(*) FROM zen');
	my @pids = map { my $table = $_; map { start_client($table, $_, ($round * 10 + $_) * 10_000_000) } 1 .. CLIENTS }
	  qw(zen heap);
	wait_for('some load', sub { value($dbh, 'SELECT count(*) FROM zen') > $before + 500 });
	my $killed = kill_all();
	waitpid $_, 0 for @pids;
	PostgreSQL::Test::Utils::system_log('rm', '-rf', $node->data_dir, $node->backup_dir);
	$node = $standby;
	$dbh = promoted($node);
	my %old;
	for my $table (qw(zen heap))
	{
		my ($lost, $old) = count_lost($table, $killed);
		$lost{$table} += $lost;
		$old{$table} = $old;
		note("round $round: $table has lost $lost acknowledged commits, of these $old older than 10 ms");
	}
	cmp_ok($old{zen}, '<=', $old{heap}, "round $round: zen has lost nothing acknowledged 10 ms before");
	$standby = new_standby($round) if $round < $rounds;
	return;
}
