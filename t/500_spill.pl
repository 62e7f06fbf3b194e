# Transactions larger than zen.spill_threshold: what they write to NVM before their commit
# is nobody's until then, and nothing when they roll back or the server crashes.
#
# - insert, update, delete of every row: rolled back, crashed, committed and crashed,
#   prepared and crashed, and the same with orderly restarts
# - COPY, whose rows are written to NVM as they come, also by several sessions to one table
# - savepoints rolled back before the commit; a commit for which no row is left to carry LP
# - mixed transactions
# - others meanwhile: readers, writers, lockers, verification
# - cancelled and terminated in the middle of a spilling; a fast stop while rows are spilled

use strict;
use warnings;

use DBD::Pg ':async';
use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

use constant ROWS => 20000;

my %CHANGE = (
	insert => [ 'INSERT INTO t SELECT g, g, md5(g::text) FROM generate_series(' . (ROWS + 1) . ', ' . 2 * ROWS
	. ') g' ],
	update => [ 'UPDATE t SET v = v + 1' ],
	move   => [ 'UPDATE t SET id = -id' ],
	delete => [ 'DELETE FROM t WHERE id % 100 > 0' ],
	mix    => [
		'INSERT INTO t SELECT g, g, md5(g::text) FROM generate_series(' . (ROWS + 1) . ', ' . (ROWS + 5000) . ') g',
		'UPDATE t SET v = v + 1 WHERE id % 2 = 0',
		'DELETE FROM t WHERE id % 3 = 0',
		'UPDATE t SET v = v + 1 WHERE id % 5 = 0' ],
);

# Loads: files of new rows, of more rows still, and of as many with long values.
my $dir = PostgreSQL::Test::Utils::tempdir();
sub file_of
{
	my ($name, $first, $last) = @_;
	PostgreSQL::Test::Utils::append_to_file("$dir/$name",
		join '', map { "$_\t$_\t" . ('x' x (1 + $_ % 400)) . "\n" } $first .. $last);
	chmod 0644, "$dir/$name";
	return "COPY t FROM '$dir/$name'";
}
$CHANGE{load} = [
	q{SET LOCAL zen.spill_threshold = '16MB'}, file_of('rows', ROWS + 1, 2 * ROWS), 'SAVEPOINT a',
	file_of('undone', 2 * ROWS + 1, 2 * ROWS + 3000), 'ROLLBACK TO a', file_of('more', 2 * ROWS + 1, 2 * ROWS + 1000),
	'UPDATE t SET v = v + 1 WHERE id % 10 = 0', 'DELETE FROM t WHERE id % 7 = 0' ];

skip_unless_zen();
my $node = new_node('spill', pool_size => '256MB', dram_size => '256MB',
	conf => "max_prepared_transactions = 4\nzen.spill_threshold = '64kB'\nautovacuum = off");
$node->start;
my $dbh = connect_db($node);
value($dbh, $_) for
	'CREATE EXTENSION zen',
	'CREATE TABLE t (id int PRIMARY KEY, v int, s text) USING zen',
	'CREATE TABLE h (id int) USING heap';

for my $change (sort keys %CHANGE)
{
	test_end($change, 'rolled back', 0);
	test_end($change, 'lost in a crash', 0);
	test_end($change, 'committed, then a crash', 1);
	test_end($change, 'committed with heap, then a crash', 1);
	test_end($change, 'prepared, a crash, committed', 1);
	test_end($change, 'prepared, a crash, rolled back', 0);
	test_end($change, 'prepared, rolled back', 0);
	test_end($change, 'committed, then a restart', 1);
	test_end($change, 'prepared, a restart, committed', 1);
}
test_loads();
test_savepoints();
test_moved_twice();
test_clustered();
test_rewritten();
test_no_carrier($_) for 0, 1;
test_others();
test_ended_inside($_) for 'terminated', 'terminated in a savepoint', 'cancelled', 'cancelled in a savepoint';
test_fast_stop();
test_pages_come_back();
done_testing();

# Fill the table anew; returns its contents.
sub refill
{
	value($dbh, $_) for
		'TRUNCATE t',
		'INSERT INTO t SELECT g, g, md5(g::text) FROM generate_series(1, ' . ROWS . ') g',
		'TRUNCATE h';
	return contents($dbh, 't');
}

sub spilled { return value($_[0], 'SELECT rows_spilled FROM zen_stat'); }

sub test_end
{
	my ($change, $end, $kept) = @_;
	my $name = "$change, $end";
	my $before = refill();
	my $spilled = spilled($dbh);
	value($dbh, 'BEGIN');
	value($dbh, $_) for @{ $CHANGE{$change} };
	my $after = contents($dbh, 't');
	cmp_ok(spilled($dbh) - $spilled, '>', ROWS / 20, "$name: spilled");
	value($dbh, 'INSERT INTO h VALUES (1)') if $end =~ /heap/;
	if ($end =~ /prepared/)
	{
		value($dbh, q{PREPARE TRANSACTION 'p'});
		is(contents($dbh, 't'), $before, "$name: not seen when prepared");
		if ($end =~ /(crash|restart)/)
		{
			$dbh = $1 eq 'crash' ? crash_restart($node) : clean_restart($node, $dbh);
			is(contents($dbh, 't'), $before, "$name: not seen after the $1");
		}
		value($dbh, $kept ? q{COMMIT PREPARED 'p'} : q{ROLLBACK PREPARED 'p'});
	}
	else
	{
		value($dbh, $kept ? 'COMMIT' : 'ROLLBACK') unless $end =~ /lost/;
		$dbh = crash_restart($node) if $end =~ /crash/;
		$dbh = clean_restart($node, $dbh) if $end =~ /restart/;
	}
	is(contents($dbh, 't'), $kept ? $after : $before, $name);
	is(contents($dbh, 't', 'indexscan', 'id > -1000000'), $kept ? $after : $before, "$name: by index");
	is_sound($dbh, $name);

	# and what is there can be changed, and outlives another crash
	value($dbh, 'UPDATE t SET v = v + 1');
	value($dbh, 'UPDATE t SET v = v - 1');
	$dbh = crash_restart($node);
	is(contents($dbh, 't'), $kept ? $after : $before, "$name: changed since, another crash");
	return;
}

# What a session does with keys of its own: statement, first key, last key, end.
sub load_steps
{
	my ($session, $statement) = @_;
	return [
		map {
			my $first = 1_000_000 * $session + 4000 * $_;
			[ $statement->("load$session.$_", $first, $first + 2999), $first, $first + 2999,
				$_ % 3 == 0 ? 'ROLLBACK' : 'COMMIT' ]
		} 1 .. 6 ];
}

# Sessions load into blocks that VACUUM has found room in, while others insert and delete there: no row is lost, none
# comes twice, none takes another's place.
sub test_loads
{
	value($dbh, $_) for 'TRUNCATE t', 'INSERT INTO t SELECT -g, g FROM generate_series(1, ' . ROWS . ') g',
		'DELETE FROM t WHERE id % 3 <> 0', 'VACUUM t', 'CREATE TABLE lasting (first int, last int) USING heap';
	my $insert = sub { "INSERT INTO t SELECT g, g, 'small' FROM generate_series($_[0], $_[1]) g" };
	my @work = ((map { load_steps($_, \&file_of) } 1 .. 3), load_steps(4, sub { $insert->(@_[ 1, 2 ]) }),
		[ map { [ "DELETE FROM t WHERE id < 0 AND id % 7 = $_", 0, -1, 'COMMIT' ] } 1 .. 6 ]);
	my @sessions = map { connect_db($node) } @work;
	my $left = 1;
	while ($left)
	{
		$left = 0;
		for my $s (0 .. $#work)
		{
			my $next = $sessions[$s]->{private_busy} ? undef : shift @{ $work[$s] };
			if ($next)
			{
				my ($sql, $first, $last, $end) = @$next;
				$sessions[$s]->do(
					"BEGIN; $sql; INSERT INTO lasting VALUES ($first, $last); $end", { pg_async => PG_ASYNC });
				$sessions[$s]->{private_busy} = 1;
			}
			if ($sessions[$s]->{private_busy} && $sessions[$s]->pg_ready)
			{
				$sessions[$s]->pg_result;
				$sessions[$s]->{private_busy} = 0;
			}
			$left ||= $sessions[$s]->{private_busy} || @{ $work[$s] };
		}
		value($dbh, 'VACUUM t');
	}
	$_->disconnect for @sessions;
	is(value($dbh, q{SELECT concat_ws(' ', count(*), count(DISTINCT id), sum(v)) FROM t WHERE id > 0}),
		value($dbh, q{SELECT concat_ws(' ', count(*), count(*), sum(g))
			FROM lasting, generate_series(first, last) g}), 'loads side by side');
	is_sound($dbh, 'loads side by side');
	my $before = contents($dbh, 't');
	$dbh = crash_restart($node);
	is(contents($dbh, 't'), $before, 'loads side by side: after a crash');
	is_sound($dbh, 'loads side by side: after a crash');
	value($dbh, 'DROP TABLE lasting');
	return;
}

sub test_savepoints
{
	refill();
	value($dbh, $_) for
		'BEGIN', 'UPDATE t SET v = v + 1 WHERE id <= 5000', 'SAVEPOINT a', 'UPDATE t SET v = v + 10 WHERE id > 2000',
		'SAVEPOINT b', 'DELETE FROM t WHERE id % 2 = 0', 'RELEASE b',
		'INSERT INTO t SELECT g, g FROM generate_series(100001, 105000) g', 'ROLLBACK TO a',
		'UPDATE t SET v = v + 100 WHERE id > 10000';
	my $after = contents($dbh, 't');
	value($dbh, 'COMMIT');
	is(contents($dbh, 't'), $after, 'savepoint rolled back: committed');
	$dbh = crash_restart($node);
	is(contents($dbh, 't'), $after, 'savepoint rolled back: after a crash');
	is_sound($dbh, 'savepoint rolled back');
	return;
}

# A row that is moved twice and then spilled, but for the place in between: who waits for the prepared transaction finds
# it.
sub test_moved_twice
{
	value($dbh, $_) for 'CREATE TABLE moved (id int PRIMARY KEY, k int, n int) USING zen', 'CREATE INDEX ON moved (k)',
	  'INSERT INTO moved VALUES (1, 0, 0)';
	$dbh = clean_restart($node, $dbh);
	value($dbh, $_) for 'BEGIN', ('UPDATE moved SET k = k + 100 WHERE id = 1') x 2,
	  q{INSERT INTO moved SELECT g, g, 0 FROM generate_series(1001, 6000) g}, q{PREPARE TRANSACTION 'moved'};
	$dbh = crash_restart($node);
	my $waiter = connect_db($node);
	my $pid = value($waiter, 'SELECT pg_backend_pid()');
	$waiter->do('UPDATE moved SET n = n + 1 WHERE id = 1', { pg_async => PG_ASYNC });
	wait_for('the update to wait', sub { lock_wait_pid($dbh, $pid) });
	value($dbh, q{COMMIT PREPARED 'moved'});
	is($waiter->pg_result, 1, 'moved twice: found by who has waited');
	is(value($dbh, 'SELECT k || $$ $$ || n FROM moved WHERE id = 1'), '200 1', 'moved twice: as it should be');
	is_sound($dbh, 'moved twice');
	$waiter->disconnect;
	return;
}

# CLUSTER keeps older versions for a snapshot; a savepoint that is rolled back afterwards takes none of them along.
sub test_clustered
{
	my $reader = connect_db($node);
	value($dbh, 'CREATE TABLE clustered (id int PRIMARY KEY) USING zen');
	value($reader, $_) for 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1';
	value($dbh, $_) for 'INSERT INTO clustered SELECT generate_series(1, 10)', 'SET zen.spill_threshold = 0', 'BEGIN',
	  'CLUSTER clustered USING clustered_pkey', 'SAVEPOINT a', 'INSERT INTO clustered VALUES (11)', 'ROLLBACK TO a',
		'COMMIT',
	  'RESET zen.spill_threshold';
	is(value($dbh, 'SELECT count(*) FROM clustered'), 10, 'clustered beside a snapshot, then a savepoint rolled back');
	value($reader, 'COMMIT');
	$reader->disconnect;
	$dbh = crash_restart($node);
	is(value($dbh, 'SELECT count(*) FROM clustered'), 10, 'and after a crash');
	is_sound($dbh, 'clustered');
	return;
}

# Of a row written again after it was spilled nothing stays when the prepared transaction is rolled back.
sub test_rewritten
{
	value($dbh, $_) for 'CREATE TABLE again (id int PRIMARY KEY, v int) USING zen', 'SET zen.spill_threshold = 0',
		'BEGIN',
	  'INSERT INTO again VALUES (1, 0)', 'INSERT INTO again VALUES (2, 0)', 'UPDATE again SET v = 1 WHERE id = 1',
	  q{PREPARE TRANSACTION 'again'}, q{ROLLBACK PREPARED 'again'}, 'RESET zen.spill_threshold';
	is(value($dbh, q{SELECT unfrozen FROM _zen_table_versions('again')}), 0,
		'rewritten, prepared, rolled back: no version is left');
	is_sound($dbh, 'rewritten, prepared, rolled back');
	return;
}

# Every row was spilled, so none is left for the commit to write.
sub test_no_carrier
{
	my ($mixed) = @_;
	my $name = $mixed ? 'no row left to write, mixed' : 'no row left to write';
	refill();
	value($dbh, $_) for
		'SET zen.spill_threshold = 0', 'BEGIN', 'UPDATE t SET v = v + 1', 'SAVEPOINT a',
			'UPDATE t SET v = 0 WHERE id = 1',
		'ROLLBACK TO a', $mixed ? 'INSERT INTO h VALUES (1)' : 'SELECT 1';
	my $written = value($dbh, 'SELECT slots_written FROM zen_stat');
	value($dbh, 'COMMIT');
	is(value($dbh, 'SELECT slots_written FROM zen_stat') - $written, 1, "$name: one slot carries LP");
	my $after = contents($dbh, 't');
	is_sound($dbh, $name);
	$dbh = crash_restart($node);
	is(contents($dbh, 't'), $after, "$name: after a crash");
	is_sound($dbh, "$name: after a crash");
	return;
}

sub test_others
{
	my $before = refill();
	my $other = connect_db($node);
	my $third = connect_db($node);
	value($other, q{SET lock_timeout = '50ms'});
	value($dbh, $_) for 'BEGIN', @{ $CHANGE{mix} };
	is(contents($other, 't'), $before, 'others: do not see it');
	is_sound($other, 'others: verification meanwhile');
	is(state_of($other, 'UPDATE t SET v = 0 WHERE id = 2'), '55P03', 'others: update waits');
	is(state_of($other, 'DELETE FROM t WHERE id = 3'), '55P03', 'others: delete waits');
	is(state_of($other, 'SELECT * FROM t WHERE id = 2 FOR SHARE'), '55P03', 'others: FOR SHARE waits');
	is(state_of($other, 'SELECT * FROM t WHERE id = 2 FOR KEY SHARE'), '', 'others: FOR KEY SHARE passes an update');
	is(state_of($other, 'SELECT * FROM t WHERE id = 3 FOR KEY SHARE'), '55P03',
		'others: FOR KEY SHARE waits for a delete');
	is(state_of($other, 'INSERT INTO t VALUES (' . (ROWS + 1) . ')'), '55P03', 'others: the same key waits');
	is(value($other, 'SELECT count(*) FROM (SELECT 1 FROM t WHERE id <= 6 FOR UPDATE SKIP LOCKED) s'), 1,
		'others: SKIP LOCKED');
	is(state_of($other, 'UPDATE t SET v = v WHERE id = 1'), '', 'others: rows not changed are free');
	value($other, 'SET lock_timeout = 0');
	my $pid = value($other, 'SELECT pg_backend_pid()');
	$other->do('UPDATE t SET v = v + 1000 WHERE id = 10', { pg_async => PG_ASYNC });
	wait_for("the other session to wait", sub { lock_wait_pid($third, $pid) });
	value($dbh, 'ROLLBACK');
	is($other->pg_result, 1, 'others: goes on when it is rolled back');
	is(value($third, 'SELECT v FROM t WHERE id = 10'), 1010, 'others: over the old version');

	value($dbh, $_) for 'BEGIN', @{ $CHANGE{mix} };
	$other->do('UPDATE t SET v = v + 1000 WHERE id = 10', { pg_async => PG_ASYNC });
	wait_for("the other session to wait", sub { lock_wait_pid($third, $pid) });
	value($dbh, 'COMMIT');
	is($other->pg_result, 1, 'others: goes on when it is committed');
	is(value($third, 'SELECT v FROM t WHERE id = 10'), 2012, 'others: over the new version');
	is_sound($third, 'others: in the end');
	$_->disconnect for $other, $third;
	return;
}

# A session whose signal arrives between two batches of one spilling: it is sent while the row is made whose insertion
# spills all that was written before.
sub test_ended_inside
{
	my ($how) = @_;
	my $before = refill();
	my $session = connect_db($node);
	my $offset = log_size($node);
	my $spilled = spilled($dbh);
	my $function = $how =~ /^terminated/ ? 'pg_terminate_backend' : 'pg_cancel_backend';
	value($session, $_) for 'BEGIN', 'SET zen.spill_threshold = -1', 'UPDATE t SET v = v + 1 WHERE id <= 5000';
	my $kept = contents($session, 't');
	value($session, 'SAVEPOINT a') if $how =~ /savepoint/;
	value($session, 'UPDATE t SET v = v + 1 WHERE id > 5000');
	my $result = run_sql($session,
		q{INSERT INTO t SELECT 100001, 0, CASE WHEN set_config('zen.spill_threshold', '0', false) IS NOT NULL
		AND } . "$function(pg_backend_pid()) THEN 'never' END");
	like($result->{message}, $how =~ /^terminated/ ? qr/terminating connection/ : qr/57014|canceling statement/,
		"$how in a spilling");
	if ($how eq 'cancelled in a savepoint')
	{
		value($session, 'ROLLBACK TO a');
		is_sound($dbh, "$how, rolled back to it");
		is(contents($session, 't'), $kept, "$how: the transaction goes on");
		value($session, 'COMMIT');
		$before = $kept;
	}
	$session->disconnect;
	wait_for('the session to end',
		sub { value($dbh, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'}) == 1 });
	my $n = spilled($dbh) - $spilled;
	ok($n > 0 && $n < ROWS, "$how: some rows were spilled, others were not ($n)");
	unlike(log_since($node, $offset), qr/terminated by signal|TRAP/, "$how: the server stayed up");
	is(contents($dbh, 't'), $before, "$how: rows");
	is_sound($dbh, $how);
	value($dbh, 'UPDATE t SET v = v + 1');
	my $after = contents($dbh, 't');
	$dbh = crash_restart($node);
	is(contents($dbh, 't'), $after, "$how: changed since, a crash");
	is_sound($dbh, "$how: after a crash");
	return;
}

sub test_fast_stop
{
	my $before = refill();
	my $session = connect_db($node);
	my $spilled = spilled($dbh);
	value($session, 'SET statement_timeout = 0');
	$session->do('INSERT INTO t SELECT g, g FROM generate_series(100001, 100000000) g', { pg_async => PG_ASYNC });
	wait_for('rows to be spilled', sub { spilled($dbh) > $spilled });
	my $offset = log_size($node);
	$dbh->disconnect;
	$node->stop('fast');
	unlike(log_since($node, $offset), qr/terminated by signal|TRAP/,
		'fast stop while rows are spilled: nobody crashes');
	$node->start;
	$dbh = connect_db($node);
	is(contents($dbh, 't'), $before, 'fast stop while rows are spilled: rows');
	is_sound($dbh, 'fast stop while rows are spilled');
	return;
}

sub test_pages_come_back
{
	value($dbh, $_) for 'DROP TABLE t', 'CREATE TABLE t (id int, v int, s text) USING zen';
	my $free = value($dbh, 'SELECT pages_free FROM zen_stat');
	value($dbh, $_) for 'BEGIN', q{INSERT INTO t SELECT g, g, repeat('x', 500) FROM generate_series(1, 100000) g};
	cmp_ok(value($dbh, 'SELECT pages_free FROM zen_stat'), '<', $free - 700, 'pages are taken before the commit');
	value($dbh, 'ROLLBACK');
	cmp_ok(value($dbh, 'SELECT pages_free FROM zen_stat'), '>=', $free - 20, 'pages come back after a rollback');
	value($dbh, $_) for 'BEGIN', q{INSERT INTO t SELECT g, g, repeat('x', 500) FROM generate_series(1, 100000) g};
	$dbh = crash_restart($node);
	is(value($dbh, 'SELECT count(*) FROM t'), 0, 'nothing is left after a crash');
	cmp_ok(value($dbh, 'SELECT pages_free FROM zen_stat'), '>=', $free - 20, 'pages come back after a crash');
	return;
}
