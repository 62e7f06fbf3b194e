# What sessions tell each other, and how a commit that waits for them ends:
#
# - NOTIFY comes with the commit of a zen transaction, and never without
# - two sessions that take turns under an advisory lock see what the other has committed
# - a commit that waits for the lock of NOTIFY can be cancelled and terminated, and then nothing has happened

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('sessions', pool_size => '64MB', dram_size => '64MB');
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_notify();
test_advisory_locks();
$dbh->disconnect;
$node->stop;
test_cancelled_commit();
done_testing();

# A notification comes when the zen transaction commits, and never when it does not.
sub test_notify
{
	my $listener = connect_db($node);
	run_all($dbh, 'CREATE TABLE n (id int PRIMARY KEY) USING zen');
	value($listener, 'LISTEN news');
	run_all($dbh, 'BEGIN', 'INSERT INTO n VALUES (1)', q{NOTIFY news, 'one'}, 'ROLLBACK',
		'BEGIN', 'INSERT INTO n VALUES (2)', q{NOTIFY news, 'two'});
	value($listener, 'SELECT 1');
	is($listener->pg_notifies, undef, 'no notification before the commit');
	value($dbh, 'COMMIT');
	my $got;
	wait_for('the notification', sub { $got = $listener->pg_notifies });
	is($got->[2], 'two', 'the committed notification came');
	is(value($listener, 'SELECT sum(id) FROM n'), 2, 'with what was committed');
	$listener->disconnect;
	value($dbh, 'DROP TABLE n');
	return;
}

# Two sessions take turns under an advisory lock of the transaction: each sees what the other committed.
sub test_advisory_locks
{
	run_all($dbh, 'CREATE TABLE counter (n int) USING zen', 'INSERT INTO counter VALUES (0)');
	my @sessions = map { connect_db($node) } 1 .. 2;
	for my $round (1 .. 20)
	{
		my ($first, $second) = $round % 2 ? @sessions : reverse @sessions;
		run_all($first, 'BEGIN', 'SELECT pg_advisory_xact_lock(7)',
			'UPDATE counter SET n = (SELECT n FROM counter) + 1');
		is(value($second, 'SELECT pg_try_advisory_lock(7)'), 0, 'the lock is held') if $round == 1;
		value($first, 'COMMIT');
	}
	is(value($dbh, 'SELECT n FROM counter'), 20, 'no update was lost');
	$_->disconnect for @sessions;
	value($dbh, 'DROP TABLE counter');
	return;
}

# Who sends a notification waits in the middle of his commit for others who do, and they
# may wait for a standby: on zen nothing could end that, and no shutdown either.
sub test_cancelled_commit
{
	my $sync = new_node('sync', pool_size => '64MB', dram_size => '64MB', init => { allows_streaming => 1 });
	$sync->start;
	my $handle = connect_db($sync);
	run_all($handle, 'CREATE EXTENSION zen', 'CREATE TABLE n (id int) USING zen',
		'CREATE TABLE n_h (id int) USING heap');
	run_all($handle, q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'}, 'SELECT pg_reload_conf()');
	my $holder = connect_db($sync);
	wait_until_synchronous($handle, $holder);
	run_all($holder, 'BEGIN', 'NOTIFY a', 'INSERT INTO n_h VALUES (0)');
	my $held = start_statement($holder, 'COMMIT');
	wait_for('the holder', sub { waits_for_standby($handle, $holder->{pg_pid}) });
	for my $case (
		[ 'zen-only', 'cancel', '57014', 'INSERT INTO n VALUES (1)' ],
		[ 'zen-only', 'terminate', '08000', 'INSERT INTO n VALUES (2)' ],
		[ 'mixed', 'cancel', '57014', 'INSERT INTO n VALUES (3)', 'INSERT INTO n_h VALUES (3)' ],
		[ 'mixed', 'terminate', '08000', 'INSERT INTO n VALUES (4)', 'INSERT INTO n_h VALUES (4)' ])
	{
		my ($kind, $how, $state, @sql) = @$case;
		my $who = connect_db($sync);
		run_all($who, 'BEGIN', @sql, 'NOTIFY a');
		my $commit = start_statement($who, 'COMMIT');
		wait_for('the lock', sub { lock_wait_pid($handle, $who->{pg_pid}) });
		value($handle, "SELECT pg_${how}_backend($who->{pg_pid})");
		my $got = eval { finish_statement($commit) } // $@;
		is($got, $state, "$kind commit, $how while it waits: SQLSTATE");
		$who->disconnect;
		BAIL_OUT('a commit that cannot be ended') if $got =~ /timed out/;
		is(value($handle, 'SELECT count(*) FROM n'), 0, "$kind commit, $how while it waits: nothing happened");
	}
	run_all($handle, q{ALTER SYSTEM RESET synchronous_standby_names}, 'SELECT pg_reload_conf()');
	is(finish_statement($held), 'COMMIT', 'cancelled commit: the holder goes on');
	run_all($handle, 'INSERT INTO n VALUES (5)');
	crash($sync);
	start_again($sync);
	$handle = connect_db($sync);
	is(value($handle, 'SELECT string_agg(id::text, $$ $$) FROM n'), '5', 'cancelled commit: nothing comes back');
	$sync->stop;
	return;
}
