# Rows that are in NVM only are changed and locked without a copy in DRAM: a header stands for the old version.
#
# - no header is left over when the change is rolled back, or the lock released
# - snapshots from before see the old rows, by the slots
# - a lock keeps others off, and goes with its transaction
# - sessions that change and lock the same rows at the same time: no change is lost, and a lock is held by one; with
#   zen.fault = stored_blind, which the check must see, they are
# - the same after a crash

use strict;
use warnings;

use DBD::Pg ':async';
use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

use constant ROWS     => 640;
use constant SESSIONS => 3;

skip_unless_zen();
my ($node, $dbh) = begin('');
test_rollback();
test_locks();
test_snapshots();
my ($lost, $stolen) = race();
is($lost, 0, 'sessions update the same rows: no update is lost');
is($stolen, 0, 'sessions lock the same rows: each lock is held by one');
is_sound($dbh, 'at the end');
my $before = contents($dbh, 't') . contents($dbh, 'u');
$dbh = crash_restart($node);
is(contents($dbh, 't') . contents($dbh, 'u'), $before, 'the same after a crash');
is_sound($dbh, 'after a crash');
$dbh->disconnect;
$node->stop;
SKIP:
{
	skip('no server with faults', 1) if !$ENV{ZEN_FAULT_SERVER};
	($node, $dbh) = begin('stored_blind');
	# assertions may end the server
	($lost, $stolen) = eval { race() };
	my $found = defined $lost ? "$lost updates lost, $stolen locks held twice" : "an error: $@";
	ok(!defined $lost || $lost + $stolen > 0, 'stored_blind is seen') or diag($found);
	note($found);
	$dbh->disconnect;
	$node->stop('immediate');
}
done_testing();

sub begin
{
	my ($fault) = @_;
	my $server = new_node("stored$fault", pool_size => '128MB', dram_size => '128MB', faults => $fault ne '',
		conf => "autovacuum = off\nenable_indexscan = off\nenable_bitmapscan = off\nenable_indexonlyscan = off\n"
			. ($fault ne '' ? "zen.fault = $fault" : ''));
	$server->start;
	my $session = connect_db($server);
	value($session, 'CREATE EXTENSION zen');
	load($session, 't');
	return ($server, $session);
}

# A table whose rows are in NVM only, read by sequential scans.
sub load
{
	my ($session, $table) = @_;
	value($session, $_) for
		"DROP TABLE IF EXISTS $table",
		"CREATE TABLE $table (id int PRIMARY KEY, n int, s text) USING zen",
		'SET zen.spill_threshold = 0',
		"INSERT INTO $table SELECT g, 0, repeat('x', g % 300) FROM generate_series(1, " . ROWS . ') g',
		'RESET zen.spill_threshold',
		"VACUUM $table";
	# the last row was not spilled
	cmp_ok(entries($session, $table), '<=', 1, "$table: rows are in NVM only");
	return;
}

sub entries
{
	my ($session, $table) = @_;
	return value($session, "SELECT entries FROM _zen_table_versions('$table')");
}

sub test_rollback
{
	my $rows = contents($dbh, 't');
	my $few = entries($dbh, 't');
	for my $change ("UPDATE t SET n = 7, s = 'new' WHERE id % 3 = 0", 'DELETE FROM t WHERE id % 3 = 0',
		'UPDATE t SET id = id + 10000 WHERE id % 3 = 0', 'SELECT count(*) FROM (SELECT FROM t FOR UPDATE) x',
		"UPDATE t SET n = 7 WHERE id % 3 = 0; UPDATE t SET n = 8 WHERE id % 3 = 0; DELETE FROM t WHERE id % 6 = 0")
	{
		$dbh->do("BEGIN; $change");
		cmp_ok(entries($dbh, 't'), '>=', int(ROWS / 3), "$change: rows have entries");
		$dbh->do('ROLLBACK');
		is(contents($dbh, 't'), $rows, "$change: rolled back");
		is(entries($dbh, 't'), $few, '... and no entry is left');
		$dbh->do("BEGIN; SAVEPOINT s; $change; ROLLBACK TO s");
		is(entries($dbh, 't'), $few, '... nor by a savepoint');
		$dbh->do('COMMIT');
		is(contents($dbh, 't'), $rows, '... which changes nothing');
	}
	return;
}

sub test_locks
{
	my $other = connect_db($node);
	for my $lock ('FOR UPDATE', 'FOR KEY SHARE')
	{
		value($dbh, 'BEGIN');
		is(value($dbh, "SELECT count(*) FROM (SELECT FROM t WHERE id <= 100 $lock) x"), 100, "$lock: rows are locked");
		is(value($other, 'SELECT count(*) FROM (SELECT FROM t FOR UPDATE SKIP LOCKED) x'), ROWS - 100,
			"$lock: and are skipped by another session");
		is(value($other, 'SELECT sum(length(s)) FROM t WHERE id <= 100'), 5050, "$lock: others read them");
		value($dbh, 'COMMIT');
		cmp_ok(entries($dbh, 't'), '<=', 1, "$lock: no entry is left");
	}
	value($dbh, 'BEGIN');
	value($dbh, 'SELECT count(*) FROM (SELECT FROM t WHERE id <= 100 FOR UPDATE) x');
	value($dbh, 'UPDATE t SET n = n + 1 WHERE id <= 50');
	value($dbh, 'DELETE FROM t WHERE id BETWEEN 51 AND 60');
	value($dbh, 'COMMIT');
	is(value($other, q{SELECT concat_ws(' ', count(*), sum(n)) FROM t}), (ROWS - 10) . ' 50', 'locked, then changed');
	load($dbh, 't');
	$other->disconnect;
	return;
}

sub test_snapshots
{
	my $other = connect_db($node);
	my $query = q{SELECT md5(string_agg(concat_ws(' ', id, n, s, xmin), ',' ORDER BY id)) FROM t};
	value($other, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $rows = value($other, $query);
	value($dbh, $_) for 'UPDATE t SET n = 1 WHERE id % 3 = 0', 'DELETE FROM t WHERE id % 3 = 1',
		"UPDATE t SET s = 'y' WHERE id % 6 = 0";
	is(value($other, $query), $rows, 'an older snapshot sees the rows as they were, with their xids');
	isnt(value($dbh, $query), $rows, 'a newer one does not');
	value($other, 'COMMIT');
	$other->disconnect;
	return;
}

# How many updates were lost, and how many locks were held by two?
sub race
{
	my @sessions = map { connect_db($node) } 1 .. SESSIONS;
	load($dbh, 'u');
	value($dbh, "CREATE TABLE got (id int, n int) USING heap") if !value($dbh, q{SELECT to_regclass('got')});
	my $updates = sprintf(
		'DO $$ BEGIN FOR i IN 1 .. %d LOOP UPDATE u SET n = n + 1 WHERE id = i; COMMIT; END LOOP; END $$', ROWS);
	$_->do($updates, { pg_async => PG_ASYNC }) for @sessions;
	$_->pg_result for @sessions;
	my $missing = SESSIONS * ROWS - value($dbh, 'SELECT sum(n) FROM u');
	load($dbh, 'u');
	$_->do(<<'SQL', { pg_async => PG_ASYNC }) for @sessions;
DO $$
DECLARE i int; deleted int;
BEGIN
	LOOP
		SELECT id INTO i FROM u LIMIT 1 FOR UPDATE SKIP LOCKED;
		EXIT WHEN NOT FOUND;
		DELETE FROM u WHERE id = i;
		GET DIAGNOSTICS deleted = ROW_COUNT;
		INSERT INTO got VALUES (i, deleted);
		COMMIT;
	END LOOP;
END $$
SQL
	my $twice = 0;
	for my $session (@sessions)
	{
		# two that hold the same lock may wait for each other
		$twice++ if !defined $session->pg_result;
		$session->disconnect;
	}
	$twice += value($dbh, 'SELECT count(*) - count(DISTINCT id) + count(*) FILTER (WHERE n <> 1) FROM got');
	return ($missing, $twice);
}
