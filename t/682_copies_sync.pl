# synchronous_standby_names with zen.stream: a commit on zen tables waits for a standby or a subscriber when one on heap
# tables does, and only then; and what was told to be committed is on the standby.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PostgreSQL::Test::Cluster;
use Test::More;
use ZenTest;

skip_unless_zen();

my ($primary, $dbh, $session, $pid);
my $id = 0;

# A subscriber may be synchronous, too.
open_primary(new_node('publisher', init => { allows_streaming => 'logical' }, conf => 'zen.stream = logical'));
want_standby();
test_levels('logical');
$_->disconnect for $session, $dbh;
$primary->stop;

open_primary(copy_primary('primary'));
$primary->backup('sync');
my $standby = copy_of($primary, 'standby', 'sync', has_streaming => 1);
want_standby();
test_levels('replica');
test_cancel();
test_terminate();
test_arrival();
test_failover();
$standby->stop;
done_testing();

sub open_primary
{
	($primary) = @_;
	$primary->start;
	$dbh = connect_db($primary);
	$session = connect_db($primary);
	$pid = value($session, 'SELECT pg_backend_pid()');
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY) USING zen',
		'CREATE TABLE h (id int PRIMARY KEY) USING heap');
	return;
}

sub want_standby
{
	reload_conf($primary, q{synchronous_standby_names = '*'});
	wait_until_synchronous($dbh, $session);
	return;
}

# No standby is there.
sub test_levels
{
	my ($stream) = @_;
	for my $level (qw(on remote_write remote_apply))
	{
		run_all($session, "SET synchronous_commit = $level");
		is(commit_of($_), 'waits', "$stream, $level: a commit on $_ waits") for qw(h z z+h savepoint prepared);
		is(commit_of($_), 'done', "$stream, $level: $_ does not wait") for qw(nothing rollback reading);
	}
	for my $level (qw(local off))
	{
		run_all($session, "SET synchronous_commit = $level");
		is(commit_of($_), 'done', "$stream, $level: a commit on $_ does not wait") for qw(h z z+h prepared);
	}
	return;
}

# statements -- of a transaction that changes these tables; the last one is its end.
sub statements
{
	my ($what) = @_;
	$id++;
	return ('BEGIN', 'SELECT count(*) FROM z', 'COMMIT') if $what eq 'reading';
	return ('BEGIN', "UPDATE z SET id = id WHERE id = -$id", 'COMMIT') if $what eq 'nothing';
	return ('BEGIN', "INSERT INTO z VALUES ($id)", 'ROLLBACK') if $what eq 'rollback';
	return ('BEGIN', 'SAVEPOINT s', "INSERT INTO z VALUES (-$id)", 'ROLLBACK TO s', "INSERT INTO z VALUES ($id)",
		'COMMIT')
	  if $what eq 'savepoint';
	if ($what eq 'prepared')
	{
		my @prepare = ('SET synchronous_commit = local', 'BEGIN', "INSERT INTO z VALUES ($id)",
			"PREPARE TRANSACTION 'p$id'");
		my $level = value($session, 'SHOW synchronous_commit');
		return (@prepare, "SET synchronous_commit = $level", "COMMIT PREPARED 'p$id'");
	}
	return ('BEGIN', (map { "INSERT INTO $_ VALUES ($id)" } split /\+/, $what), 'COMMIT');
}

# begin_commit -- begin to commit; 'done', or 'waits' and then the statement.
sub begin_commit
{
	my ($what) = @_;
	my @statements = statements($what);
	my $end = pop @statements;
	run_all($session, @statements);
	my $statement = start_statement($session, $end);
	my $outcome;
	wait_for('the commit', sub {
			$outcome = 'done' if $session->pg_ready;
			$outcome //= 'waits' if waits_for_standby($dbh, $pid);
			return $outcome; });
	finish_statement($statement) if $outcome eq 'done';
	return ($outcome, $statement);
}

sub visible { return value($dbh, "SELECT count(*) FROM z WHERE id = $id"); }

# commit_of -- does it wait?  The wait is cancelled.
sub commit_of
{
	my ($outcome, $statement) = begin_commit(@_);
	if ($outcome eq 'waits')
	{
		value($dbh, "SELECT pg_cancel_backend($pid)");
		finish_statement($statement);
	}
	return $outcome;
}

sub test_cancel
{
	run_all($session, 'SET synchronous_commit = on');
	my ($outcome, $statement) = begin_commit('z');
	is($outcome, 'waits', 'cancelled: it waits');
	is(visible(), 0, 'cancelled: nobody sees the row before');
	value($dbh, "SELECT pg_cancel_backend($pid)");
	is(finish_statement($statement), 'COMMIT', 'cancelled: the commit ends well, as of heap');
	is(visible(), 1, 'cancelled: the row is there');
	return;
}

sub test_terminate
{
	my ($outcome, $statement) = begin_commit('z');
	is($outcome, 'waits', 'terminated: it waits');
	value($dbh, "SELECT pg_terminate_backend($pid)");
	wait_for('the session to end', sub { !value($dbh, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") });
	is(visible(), 1, 'terminated: the row is there');
	$session->disconnect;
	$session = connect_db($primary);
	$pid = value($session, 'SELECT pg_backend_pid()');
	return;
}

# The standby comes while a commit waits.
sub test_arrival
{
	my ($outcome, $statement) = begin_commit('z');
	is($outcome, 'waits', 'arrival: a commit waits');
	$standby->start;
	is(finish_statement($statement), 'COMMIT', 'arrival: the standby lets it go');
	is(visible(), 1, 'arrival: the row is there');
	return;
}

# Nobody flushes the WAL unasked, and the primary is killed behind the last commit that it has told of.
sub test_failover
{
	my $kept = value($dbh, 'SELECT count(*) FROM z');
	stop_wal_writer($dbh);
	run_all($session, map { 'INSERT INTO z VALUES (' . ++$id . ')' } 1 .. 50);
	crash($primary);
	my $handle = promoted($standby);
	is(value($handle, 'SELECT count(*) FROM z'), $kept + 50, 'failover: the standby has each acknowledged row');
	is_sound($handle, 'failover');
	$handle->disconnect;
	return;
}
