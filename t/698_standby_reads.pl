# Reads of zen tables on a hot standby (zen.standby_reads): the rows of each zen table beside those of its twin on heap.
#
# A load changes both twins in the same transactions: inserts, updates in place and of the key, deletes, savepoints,
# two-phase commit, spilled rows, TRUNCATE, rewrites, VACUUM.  Readers on the standby compare the twins by one snapshot,
# once and again within REPEATABLE READ transactions.  In between the primary, the standby or the walreceiver is killed.
#
# ROUNDS=n rounds of load and kill (default 2), LOAD_S=n seconds for each (default 8), LOAD_RATE=n transactions a second
# (default: as many as it can), COMMITS=n commits that the next read must see (default 300).  HOLD_S=n: two more readers
# hold each REPEATABLE READ snapshot for n seconds, with hot_standby_feedback.  ZEN_ONLY=1: without it, as only the zen
# tables change, and a snapshot is compared with itself.  A note says how many snapshots were compared.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(sleep time);
use Twins;
use ZenTest;

my $rounds = $ENV{ROUNDS} || 2;
my $load_s = $ENV{LOAD_S} || 8;
my $commits = $ENV{COMMITS} || 300;

skip_unless_zen();
my $seed = choose_seed();

my $primary = twin_primary();
$primary->start;
my $dbh = connect_db($primary);
create_twins($dbh);
$primary->backup('base');
run_all($dbh, map { "UPDATE ${_}_account SET balance = balance + 1 WHERE id % 10 = 3" } qw(heap zen));
my $standby = twin_standby($primary, 'standby', 'base');
$standby->start;
caught_up();
my $on_standby = connect_db($standby);

test_access();
test_plans();
test_transactions();
test_scan();
test_tables();
test_snapshots();
test_hot_row();
for my $round (1 .. $rounds)
{
	test_load($round);
	test_kill($round);
}
test_remote_apply();
test_promotion();
tell_compared();
done_testing();

sub caught_up
{
	value($dbh, 'SELECT pg_current_wal_lsn()');    # flushes
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

sub test_access
{
	are_twins($on_standby, 'a base backup and what came behind it');
	is(value($on_standby, 'SELECT count(*) FROM zen_account WHERE id = 3'), 1, 'a row by its key');
	is(value($on_standby, q{SELECT sum(length(body)) FROM zen_note}),
		value($on_standby, q{SELECT sum(length(body)) FROM heap_note}), 'long values');
	is(value($on_standby, q{SELECT substr(body, 2500, 20) FROM zen_note WHERE id = 7}),
		value($on_standby, q{SELECT substr(body, 2500, 20) FROM heap_note WHERE id = 7}), 'a part of one');
	my $tid = run_sql($on_standby, 'SELECT ctid, id FROM zen_account WHERE id IN (4, 13) ORDER BY id')->{rows};
	is(value($on_standby, "SELECT id FROM zen_account WHERE ctid = '$_->[0]'"), $_->[1], "by its TID $_->[0]")
	  for @$tid;
	is(value($on_standby, q{SELECT count(*) FROM zen_account WHERE ctid < '(5,1)'}), 5 * 64, 'a range of TIDs');
	cmp_ok(value($on_standby, 'SELECT count(*) FROM zen_account TABLESAMPLE BERNOULLI (50) REPEATABLE (1)'), '>', 300,
		'a sample');
	run_all($on_standby, 'SET max_parallel_workers_per_gather = 2', 'SET parallel_setup_cost = 0',
		'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0');
	like(plan_of('SELECT * FROM zen_account WHERE balance > 0'), qr/Parallel Seq Scan/, 'a parallel plan');
	is(scalar @{ run_sql($on_standby, "SELECT * FROM zen_account WHERE id % 3 = $_")->{rows} }, $_ == 1 ? 334 : 333,
		'... finds all') for 0 .. 2;
	run_all($on_standby, 'RESET ALL');
	is(state_of($on_standby, 'UPDATE zen_account SET balance = 0'), '25006', 'a change is refused as with heap');
	return;
}

sub plan_of { return join "\n", map { $_->[0] } @{ run_sql($on_standby, "EXPLAIN $_[0]")->{rows} }; }

sub test_plans
{
	run_all($on_standby, 'SET enable_seqscan = off', 'SET zen.standby_indexes = off');
	like(plan_of('SELECT * FROM zen_account WHERE id = 3'), qr/Seq Scan/, 'without trees no index in a plan');
	unlike(plan_of('SELECT * FROM heap_account WHERE id = 3'), qr/Seq Scan/, '... but of heap');
	like(plan_of('SELECT * FROM zen_account a JOIN zen_item i USING (id) WHERE a.id = 3'), qr/Seq Scan.*Seq Scan/s,
		'a join');
	run_all($on_standby, 'PREPARE p (int) AS SELECT balance FROM zen_account WHERE id = $1');
	is(value($on_standby, "EXECUTE p ($_)"), value($on_standby, "SELECT balance FROM heap_account WHERE id = $_"),
		'a prepared statement') for 3 .. 10;
	run_all($on_standby, 'RESET ALL', 'DEALLOCATE p');
	return;
}

sub test_transactions
{
	my $other = connect_db($primary);
	run_all($dbh, 'BEGIN', both('UPDATE AM_account SET balance = 5 WHERE id < 10',
			'DELETE FROM AM_account WHERE id = 20',
			q{INSERT INTO AM_item SELECT g, g, 'open' FROM generate_series(1, 50) g}));
	run_all($other, both('UPDATE AM_account SET balance = 7 WHERE id = 30'));
	caught_up();
	are_twins($on_standby, 'beside an open transaction');
	run_all($dbh, 'SAVEPOINT s', both('UPDATE AM_account SET balance = 6 WHERE id < 10', 'DELETE FROM AM_item'),
		'ROLLBACK TO s', both('UPDATE AM_account SET balance = 8 WHERE id = 5'), 'COMMIT');
	caught_up();
	are_twins($on_standby, 'it has committed');
	is(value($on_standby, 'SELECT balance FROM zen_account WHERE id = 5'), 8, '... behind a savepoint');
	run_all($dbh, 'BEGIN', both('UPDATE AM_account SET balance = 0'), 'ROLLBACK');
	run_all($dbh, 'BEGIN', both('UPDATE AM_account SET balance = 9 WHERE id BETWEEN 40 AND 60'),
		q{PREPARE TRANSACTION 'p'});
	caught_up();
	are_twins($on_standby, 'a prepared transaction');
	is(value($on_standby, 'SELECT count(*) FROM zen_account WHERE balance = 9'), 0, '... is not seen');
	$standby->restart;
	$on_standby = connect_db($standby);
	are_twins($on_standby, '... nor after a restart');
	run_all($dbh, q{COMMIT PREPARED 'p'});
	caught_up();
	are_twins($on_standby, '... but when it has committed');

	# rows that are spilled, once and again, and rolled back in part
	run_all($dbh, 'BEGIN', both(q{INSERT INTO AM_item SELECT g, g, repeat('s', 300) FROM generate_series(1, 3000) g}));
	caught_up();
	are_twins($on_standby, 'spilled rows of an open transaction');
	$standby->restart;
	$on_standby = connect_db($standby);
	run_all($dbh, both('UPDATE AM_item SET v = v + 1 WHERE id % 3 = 0'), 'SAVEPOINT s',
		both(q{UPDATE AM_item SET w = repeat('t', 300)}), 'ROLLBACK TO s',
		both('DELETE FROM AM_item WHERE id % 7 = 0'), 'COMMIT');
	caught_up();
	are_twins($on_standby, '... which has committed');
	cmp_ok(value($on_standby, 'SELECT count(*) FROM zen_item'), '>', 2000, '... and is seen');
	run_all($dbh, 'BEGIN', both(q{UPDATE AM_item SET w = repeat('u', 300)}), 'ROLLBACK');
	caught_up();
	are_twins($on_standby, '... and of one that has not');
	$other->disconnect;
	return;
}

# A snapshot from before a table was rewritten or truncated.
# Sessions that change the same rows, each in a region of its own.  No checkpoint tells of what has ended when the maps
# are made.  A transaction that had changed heap, too, would tell of its end (COVERED).
sub test_scan
{
	my @session = map { connect_db($primary) } 0 .. 2;
	for my $s (0 .. 2)
	{
		run_all($session[$s], 'BEGIN', both("UPDATE AM_account SET balance = balance WHERE id = 100 + $s"),
			"PREPARE TRANSACTION 'session$s'");
	}
	run_all($session[$_], "COMMIT PREPARED 'session$_'") for 0 .. 2;
	for my $order ([ 0, 1, 2 ], [ 2, 1, 0 ], [ 0, 1, 0, 2 ], [ 0, 2, 0, 1, 2 ])
	{
		for my $at (0 .. $#$order)
		{
			my $from = 100 + 10 * $at;
			run_all($session[ $order->[$at] ], map { (
					'BEGIN', "UPDATE ${_}_account SET balance = balance + $at WHERE id BETWEEN $from AND 200",
					"DELETE FROM ${_}_item WHERE id BETWEEN $from AND $from + 4",
					"INSERT INTO ${_}_item SELECT g, $at, 'scan' FROM generate_series($from + 5, $from + 14) g",
					'COMMIT') } qw(heap zen));
		}
		caught_up();
		$on_standby->disconnect;
		$standby->restart;
		$on_standby = connect_db($standby);
		are_twins($on_standby, "a restart behind changes by sessions @$order");
	}
	$_->disconnect for @session;
	return;
}

sub test_rewritten
{
	for my $how ('VACUUM FULL zen_note', 'CLUSTER zen_note USING zen_note_pkey', 'TRUNCATE zen_item')
	{
		my $old = connect_db($standby);
		run_all($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM heap_account');
		run_all($dbh, $how);
		caught_up();
		my ($table) = $how =~ /(zen_\w+)/;
		like(run_sql($old, "SELECT count(*) FROM $table")->{message}, qr/made or rewritten after the snapshot/,
			"$how: an older snapshot reads nothing");
		$old->disconnect;
	}
	run_all($dbh, 'TRUNCATE heap_item');
	caught_up();
	return;
}

sub test_tables
{
	test_rewritten();
	run_all($dbh, both('TRUNCATE AM_item', 'INSERT INTO AM_item VALUES (1, 1)'));
	caught_up();
	are_twins($on_standby, 'TRUNCATE');
	run_all($dbh, both('ALTER TABLE AM_item ALTER v TYPE bigint', 'VACUUM FULL AM_account', 'VACUUM AM_note'));
	caught_up();
	are_twins($on_standby, 'rewrites');
	run_all($dbh, 'BEGIN',
		both('TRUNCATE AM_item', q{INSERT INTO AM_item SELECT g, g, 'a' FROM generate_series(1, 100) g}), 'ROLLBACK',
		map { ("CREATE TABLE ${_}_gone USING $_ AS SELECT * FROM generate_series(1, 1000) g") } qw(heap zen));
	caught_up();
	are_twins($on_standby, 'a TRUNCATE that is rolled back');
	is(value($on_standby, 'SELECT count(*) FROM zen_gone'), 1000, 'a new table');
	run_all($dbh, both('DROP TABLE AM_gone'));
	caught_up();
	is(state_of($on_standby, 'SELECT count(*) FROM zen_gone'), '42P01', '... is dropped');
	return;
}


# Snapshots that are held while rows change, go and come, and while VACUUM lets TIDs be used again.
sub test_snapshots
{
	my $holder = connect_db($standby);
	run_all($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $before = run_sql($holder, 'SELECT ' . join ', ', map { rows_of("zen_$_") } TWINS)->{rows}[0];
	# cursors of scans that read columns in place, and some whole rows; they stand amid a block
	my $query = 'SELECT id, balance, CASE WHEN id % 20 = 0 THEN a END FROM zen_account a';
	run_all($holder, 'SET LOCAL enable_seqscan = off', 'SET LOCAL enable_bitmapscan = off',
		"DECLARE i CURSOR FOR $query ORDER BY id", 'MOVE 100 FROM i', 'SET LOCAL enable_seqscan = on',
		"DECLARE s CURSOR FOR $query", 'MOVE 100 FROM s');
	my %rest = (i => run_sql($holder, "$query ORDER BY id OFFSET 100")->{rows},
		s => run_sql($holder, "$query OFFSET 100")->{rows});
	# of heap later: its own changes would wait for the snapshot
	my @later;
	for my $i (1 .. 30)
	{
		my @changes = ("UPDATE AM_account SET balance = balance + $i WHERE id % 5 = $i % 5",
			"DELETE FROM AM_account WHERE id = 500 + $i",
			"UPDATE AM_note SET body = repeat('$i', 4000) WHERE id <= $i");
		push @changes, 'VACUUM AM_account', 'VACUUM AM_note',
		  "INSERT INTO AM_account SELECT 2000 + $i * 10 + g, 1, 'again' FROM generate_series(1, 5) g" if $i % 10 == 0;
		run_all($dbh, map { s/AM_/zen_/r } @changes);
		push @later, map { s/AM_/heap_/r } @changes;
	}
	caught_up();
	is_deeply(run_sql($holder, 'SELECT ' . join ', ', map { rows_of("zen_$_") } TWINS)->{rows}[0], $before,
		'a held snapshot sees what it saw');
	is_deeply(run_sql($holder, "FETCH ALL FROM $_")->{rows}, $rest{$_}, "... and so does its cursor $_") for qw(s i);
	run_all($holder, 'COMMIT');
	run_all($dbh, @later);
	caught_up();
	are_twins($on_standby, '... and a new one what is there');
	$holder->disconnect;
	return;
}

# S5: one row is updated often while a snapshot is held.
sub test_hot_row
{
	my $holder = connect_db($standby);
	my $hot = sub { run_all($dbh, q{DO $$BEGIN FOR i IN 1..2000 LOOP UPDATE zen_account SET balance = i WHERE id = 2;
		COMMIT; END LOOP; END$$}); caught_up(); };
	run_all($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $balance = value($holder, 'SELECT balance FROM zen_account WHERE id = 2');
	$hot->() for 1 .. 3;
	is(value($holder, 'SELECT balance FROM zen_account WHERE id = 2'), $balance, 'a hot row, by a held snapshot');
	is(value($on_standby, 'SELECT balance FROM zen_account WHERE id = 2'), 2000, '... and by a new one');
	run_all($holder, 'COMMIT');
	$holder->disconnect;
	wait_for('what nobody needs to go (S7)', sub { value($on_standby,
			q{SELECT unfrozen FROM _zen_table_versions('zen_account')}) == 0 });
	run_all($dbh, 'UPDATE heap_account SET balance = 2000 WHERE id = 2');
	return;
}

# The twins by one snapshot, and the sum that never changes.
sub compare
{
	my ($reader, $seen) = @_;
	my $got = run_sql($reader, twins() . ', (SELECT sum(balance) FROM zen_account WHERE id <= 1000)');
	return $got->{state} if $got->{state};
	my @row = @{ $got->{rows}[0] };
	my $sum = pop @row;
	my $wrong = grep({ !$_ } @row) || $sum ne ($seen->{sum} // $sum);
	$seen->{sum} = $sum;
	return $wrong ? "equal twins: @row, and the sum is $sum" : '';
}

# The zen tables by a snapshot as it has shown them before.
sub compare_zen
{
	my ($reader, $seen) = @_;
	my $got = run_sql($reader, 'SELECT ' . join ', ', map { rows_of("zen_$_") } TWINS);
	return $got->{state} if $got->{state};
	my $rows = join ' ', @{ $got->{rows}[0] };
	my $before = $seen->{rows} // $rows;
	$seen->{rows} = $rows;
	return $rows eq $before ? '' : "the same rows: $before, and $rows";
}

sub test_load
{
	my ($round) = @_;
	load_beside($primary, $standby, "round $round", $load_s, compare => $ENV{ZEN_ONLY} ? \&compare_zen : \&compare,
		alone => !$ENV{ZEN_ONLY}, hold => $ENV{HOLD_S}, zen_only => $ENV{ZEN_ONLY});
	run_all($dbh, map { ("TRUNCATE heap_$_", "INSERT INTO heap_$_ TABLE zen_$_") } TWINS) if $ENV{ZEN_ONLY};
	caught_up();
	are_twins($on_standby, '... and equal at rest');
	return;
}

sub test_kill
{
	my ($round) = @_;
	my $victim = qw(standby primary walreceiver) [ ($round + $seed) % 3 ];
	kill_beside($primary, $standby, $victim);
	$dbh = connect_db($primary);
	wait_recovered($dbh);
	$on_standby = connect_db($standby);
	run_sql($dbh, "ROLLBACK PREPARED '$_->[0]'") for @{ run_sql($dbh, 'SELECT gid FROM pg_prepared_xacts')->{rows} };
	are_twins($dbh, "the $victim was killed: the primary");
	caught_up();
	are_twins($on_standby, '... the standby behind it');
	return;
}

sub test_remote_apply
{
	set_conf($primary, "synchronous_standby_names = '*'");
	$primary->restart;
	$dbh = connect_db($primary);
	run_all($dbh, 'SET synchronous_commit = remote_apply');
	my $missed = 0;
	for my $i (1 .. $commits)
	{
		run_all($dbh, "UPDATE zen_account SET balance = $i WHERE id = 1");
		$missed++ if value($on_standby, 'SELECT balance FROM zen_account WHERE id = 1') ne $i;
	}
	is($missed, 0, "remote_apply: the next read sees each of $commits commits");
	run_all($dbh, "UPDATE heap_account SET balance = $commits WHERE id = 1");
	are_twins($on_standby, '... also behind a restart of the primary in order');
	return;
}

sub test_promotion
{
	my ($zen, $heap, $late) = map { connect_db($standby) } 1 .. 3;
	run_all($_, 'BEGIN ISOLATION LEVEL REPEATABLE READ') for $zen, $heap, $late;
	are_twins($zen, 'a transaction before the promotion');
	my $sum = value($heap, 'SELECT sum(balance) FROM heap_account');
	value($late, 'SELECT count(*) FROM heap_item');
	run_all($dbh, both('UPDATE AM_account SET balance = balance + 1'));
	caught_up();
	my $promoted = promoted($standby);
	are_twins($promoted, 'the promoted server');
	isnt(state_of($zen, 'SELECT count(*) FROM heap_account'), '', 'the transaction has ended');
	is(value($heap, 'SELECT sum(balance) FROM heap_account'), $sum, 'one that has read heap tables goes on');
	is(state_of($late, 'SELECT count(*) FROM zen_account'), '40001', '... and reads no zen table by its snapshot');
	run_all($promoted, 'INSERT INTO zen_account VALUES (9999, 1)', 'SET enable_seqscan = off');
	is(value($promoted, 'SELECT count(*) FROM zen_account WHERE id = 9999'), 1, 'indexes are kept');
	is(state_of($on_standby, 'INSERT INTO zen_account VALUES (9998, 1)'), '', 'a session from before inserts');
	is(value($promoted, 'SELECT count(*) FROM zen_account WHERE id = 9998'), 1, '... into the index, too');
	$_->disconnect for $zen, $heap, $late, $promoted;
	return;
}
