# The rebuild of indexes after a crash, where it cannot be had or several wait for each other:
#
# - a table whose index cannot be rebuilt, or takes for ever, is in nobody's way but of who names it;
# - its index goes out of use after some tries, whatever error its function raises;
# - an index dropped before the rebuild and brought back by a rollback is rebuilt like the others;
# - functions in indexes that read each other's tables, or their own;
# - a rebuild that waits for a prepared transaction does not keep that from ending;
# - who has rebuilt a table does not keep the next one from rebuilding it once more;
# - commands that give an index new files before the old one is rebuilt;
# - a process that is terminated in the middle of a rebuild.
#
# ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
# In mode wal there is no server without zen's worker.
my $node = new_node('rebuild', pool_size => '256MB', dram_size => '128MB',
	conf => "zen.pool_mode = emulated\nmax_worker_processes = 1");
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_bystanders();
test_dropped_index();
test_own_table();
test_circle();
test_circle_of_two();
test_caught_inside();
test_prepared();
test_again();
test_retired();
test_no_room();
test_vacuum_leaves_out();
test_first_statement();
test_unbuildable();
test_terminated();
is_sound($dbh, 'at the end');
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

# With one worker process, which the launcher of logical replication has, nobody rebuilds in the background.
sub set_background
{
	my ($on) = @_;
	set_conf($node, 'max_worker_processes = ' . ($on ? 8 : 1));
	$dbh = clean_restart($node, $dbh);
	return;
}

# make_function -- one that says it is immutable.
sub make_function
{
	my ($name, $body) = @_;
	run_all($dbh, "CREATE OR REPLACE FUNCTION $name(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \$f\$ $body \$f\$");
	return;
}

sub make_table
{
	my ($table, $rows) = @_;
	run_all($dbh, "CREATE TABLE $table (id int PRIMARY KEY, k int) USING zen",
		"INSERT INTO $table SELECT g, g % 10 FROM generate_series(1, $rows) g");
	return;
}

# by_index -- the rows that an index condition finds.
sub by_index
{
	my ($handle, $table, $where) = @_;
	value($handle, "SET enable_$_ = off") for qw(seqscan bitmapscan);
	my $result = run_sql($handle, "SELECT count(*) FROM $table WHERE $where");
	value($handle, "RESET enable_$_") for qw(seqscan bitmapscan);
	return $result->{state} || $result->{rows}[0][0];
}

# send_query -- from a session of its own.
sub send_query
{
	my ($sql, @before) = @_;
	my $handle = connect_db($node);
	run_all($handle, @before);
	return start_statement($handle, $sql);
}

# --- the rebuild that cannot be done ----------------------------------------

# Statements that have nothing to do with the table failed, or hung, until its index was rebuilt.
sub test_bystanders
{
	make_table('bad', 20);
	run_all($dbh, 'CREATE TABLE trouble (what text)');
	make_function('bad_f', q{BEGIN
		IF EXISTS (SELECT FROM public.trouble WHERE what = 'error') THEN RAISE 'not now' USING ERRCODE = '55000';
			END IF;
		IF EXISTS (SELECT FROM public.trouble WHERE what = 'sleep') THEN PERFORM pg_sleep(1000); END IF;
		RETURN $1; END});
	run_all($dbh, 'CREATE INDEX bad_e ON bad (bad_f(k))');
	for my $what ('error', 'sleep')
	{
		run_all($dbh, 'DROP TABLE IF EXISTS h, z', 'TRUNCATE trouble', "INSERT INTO trouble VALUES ('$what')");
		run_all($dbh, "CREATE TABLE $_->[0] (id int PRIMARY KEY) USING $_->[1]", "INSERT INTO $_->[0] VALUES (1)")
		  for [ 'h', 'heap' ], [ 'z', 'zen' ];
		$dbh = crash_restart($node);
		run_all($dbh, q{SET statement_timeout = '10s'});
		for my $table ('h', 'z')
		{
			my $am = $table eq 'h' ? 'heap' : 'zen';
			is(state_of($dbh, $_), '', "bystander of a rebuild ($what): $_") for
			  "CREATE TABLE ${table}2 (id int PRIMARY KEY) USING $am", "CREATE INDEX ON $table (id)",
				"VACUUM ANALYZE $table",
			  "ALTER TABLE $table ADD c int", "REINDEX TABLE $table", "CLUSTER $table USING ${table}_pkey",
				"VACUUM FULL $table",
			  "TRUNCATE $table", "DROP TABLE $table", "DROP TABLE ${table}2";
		}
		is(state_of($dbh, $_), '', "bystander of a rebuild ($what): $_") for 'VACUUM', "ANALYZE pg_class";
		isnt(state_of($dbh, 'SELECT * FROM bad WHERE id = 1'), '',
			"who reads the table has to wait for its indexes ($what)");
		isnt(state_of($dbh, 'ALTER TABLE bad ADD c int'), '', "so has who alters it ($what)") if $what eq 'error';
		like(run_sql($dbh, 'SELECT * FROM bad')->{message}, qr/not now.*rebuilding index "bad_e" of table "bad"/s,
			'and the error names the index')
		  if $what eq 'error';
	}
	is(state_of($dbh, 'TRUNCATE bad'), '', 'the table itself can be emptied');
	$dbh = crash_restart($node);
	run_all($dbh, q{SET statement_timeout = '10s'});
	is(state_of($dbh, 'DROP INDEX bad_e'), '', 'and its index dropped');
	is(state_of($dbh, 'INSERT INTO bad VALUES (1)'), '', 'then it can be used');
	is(state_of($dbh, 'INSERT INTO bad VALUES (1)'), '23505', 'and has its other index');
	run_all($dbh, 'DROP TABLE bad');
	return;
}

# The rebuild after the drop knew nothing of the index, and the rollback brought it back, empty.
sub test_dropped_index
{
	make_table($_, 1000), run_all($dbh, "CREATE INDEX ${_}_k ON $_ (k)") for 'd1', 'd2', 'd3';
	$dbh = crash_restart($node);
	run_all($dbh, 'BEGIN', 'DROP INDEX d1_k', inject() ? 'COMMIT' : (), 'INSERT INTO d1 VALUES (2000, 5)');
	is(by_index($dbh, 'd1', 'id > 0'), 1001, 'index dropped: another one is there');
	is(state_of($dbh, 'INSERT INTO d1 VALUES (7)'), '23505', 'index dropped: and is unique');
	run_all($dbh, 'ROLLBACK');
	is(by_index($dbh, 'd1', 'k = 5'), 100, 'index dropped and brought back');
	run_all($dbh, 'BEGIN', 'SAVEPOINT a', 'DROP INDEX d2_k', 'INSERT INTO d2 VALUES (2000, 5)', 'ROLLBACK TO a');
	is(by_index($dbh, 'd2', 'k = 5'), 100, 'index dropped and brought back by a savepoint');
	run_all($dbh, 'COMMIT');
	is(by_index($dbh, 'd2', 'k = 5'), 100, 'index dropped and brought back by a savepoint, afterwards');
	run_all($dbh, 'DROP TABLE d2'), make_table('d2', 1000);
	run_all($dbh, "CREATE INDEX d2_$_ ON d2 ($_)") for 'k', 'id';
	$dbh = crash_restart($node);
	run_all($dbh, 'BEGIN', 'DROP INDEX d2_k', 'SELECT count(*) FROM d2', 'SAVEPOINT a', 'DROP INDEX d2_id',
		'SELECT count(*) FROM d2', 'ROLLBACK TO a',
		'DROP INDEX d2_id', 'ROLLBACK TO a');
	is(by_index($dbh, 'd2', 'id > 0'), 1000, 'two indexes dropped, one brought back by a savepoint');
	run_all($dbh, 'ROLLBACK');
	is(by_index($dbh, 'd2', 'k = 5'), 100, 'two indexes dropped, the other brought back by the end');
	run_all($dbh, 'BEGIN', 'DROP INDEX d3_k', 'SELECT count(*) FROM d3', 'COMMIT');
	is(by_index($dbh, 'd3', 'id > 0'), 1000, 'index dropped: the other one after the commit');
	$dbh->disconnect;
	$node->restart;
	$dbh = connect_db($node);
	is_sound($dbh, 'indexes dropped');
	run_all($dbh, 'DROP TABLE d1, d2, d3');
	return;
}

# --- functions that read ----------------------------------------------------

# A function that reads its own table found nothing by an index that comes later.
sub test_own_table
{
	run_all($dbh, 'CREATE TABLE own (id int, k int) USING zen');
	make_function('own_f', q{BEGIN RETURN (SELECT k + 100 FROM public.own WHERE id = $1); END});
	run_all($dbh, 'CREATE INDEX own_e ON own (own_f(id))', 'CREATE UNIQUE INDEX own_id ON own (id)',
		'INSERT INTO own SELECT g, g FROM generate_series(1, 300) g');
	$dbh = crash_restart($node);
	is(by_index($dbh, 'own', 'own_f(id) BETWEEN 200 AND 219'), 20, 'own table: every row is found');
	run_all($dbh, 'SET enable_seqscan = off');
	like(join("\n", map { $_->[0] } @{ run_sql($dbh, 'EXPLAIN SELECT k FROM own WHERE id = 1')->{rows} }), qr/own_id/,
		'own table: its indexes are used afterwards');
	run_all($dbh, 'RESET enable_seqscan', 'DROP TABLE own');
	return;
}

# Two tables, a function in an index of each reads the other; $wait: they wait at their first row.
sub make_circle
{
	my ($wait) = @_;
	make_table($_, 100) for 'c1', 'c2';
	for ([ 1, 2 ], [ 2, 1 ])
	{
		my ($own, $other) = @$_;
		make_function("c${own}_f", 'BEGIN '
			  . ($wait ? 'IF $1 = 1 THEN PERFORM pg_advisory_lock_shared(1); '
				  . 'PERFORM pg_advisory_unlock_shared(1); END IF; ' : '')
			  . "RETURN (SELECT k + 1000 FROM public.c$other WHERE id = \$1); END");
		run_all($dbh, "CREATE INDEX c${own}_e ON c$own (c${own}_f(id))");
	}
	return;
}

sub circle_is_right
{
	my ($when) = @_;
	is(by_index($dbh, "c$_", "c${_}_f(id) = 1003"), 10, "$when: index of c$_") for 1, 2;
	is(by_index($dbh, "c$_", 'id > 0'), 100, "$when: primary key of c$_") for 1, 2;
	return;
}

# The process waited for itself.
sub test_circle
{
	make_circle(0);
	$dbh = crash_restart($node);
	run_all($dbh, q{SET statement_timeout = '20s'});
	is(state_of($dbh, 'SELECT count(*) FROM c1'), '', 'circle: one reads');
	circle_is_right('circle');
	run_all($dbh, 'DROP TABLE c1, c2');
	return;
}

# Two processes waited for each other, and nobody could know.
sub test_circle_of_two
{
	make_circle(1);
	$dbh = crash_restart($node);
	my @queries;
	run_all($dbh, 'SELECT pg_advisory_lock(1)');
	for my $table ('c1', 'c2')
	{
		my $query = send_query("SELECT count(*) FROM $table", q{SET statement_timeout = '20s'});
		push @queries, $query;
		wait_for('it to rebuild', sub {
			value($dbh, "SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = $query->{dbh}{pg_pid}") });
	}
	run_all($dbh, 'SELECT pg_advisory_unlock(1)');
	my @ends = sort map { finish_statement($_) } @queries;
	is_deeply(\@ends, [ '40P01', 'SELECT 1' ], 'circle of two: one is told of a deadlock, the other goes on');
	circle_is_right('circle of two');
	run_all($dbh, 'DROP TABLE c1, c2');
	return;
}

# A function that catches the error of a rebuild inside it: the process forgot what it was rebuilding itself, and waited
# for it.
sub test_caught_inside
{
	run_all($dbh, "CREATE TABLE $_ (id int PRIMARY KEY, k int) USING zen") for 'o', 'i';
	make_function('i_f',
		q{BEGIN IF EXISTS (SELECT FROM public.trouble WHERE what = 'inside') THEN RAISE 'inside'; END IF;
		RETURN $1; END});
	make_function('o_f', q{BEGIN BEGIN PERFORM FROM public.i WHERE id = $1; EXCEPTION WHEN OTHERS THEN NULL; END;
		RETURN (SELECT k FROM public.o WHERE id = $1); END});
	run_all($dbh, 'CREATE INDEX i_e ON i (i_f(id))', 'CREATE INDEX o_e ON o (o_f(id))',
		(map { "INSERT INTO $_ SELECT g, g % 10 FROM generate_series(1, 50) g" } 'o', 'i'),
		q{INSERT INTO trouble VALUES ('inside')});
	$dbh = crash_restart($node);
	run_all($dbh, q{SET statement_timeout = '20s'});
	is(by_index($dbh, 'o', 'o_f(id) = 3'), 5, 'error caught inside: the outer table');
	is(state_of($dbh, 'SELECT count(*) FROM i'), 'P0001', 'error caught inside: the inner one');
	run_all($dbh, 'TRUNCATE trouble');
	is(by_index($dbh, 'i', 'i_f(id) = 3'), 1, 'error caught inside: which is rebuilt later');
	run_all($dbh, 'DROP TABLE o, i');
	return;
}

# COMMIT PREPARED waited for a rebuild, and that for a lock of the prepared transaction.
sub test_prepared
{
	for my $end ('COMMIT', 'ROLLBACK')
	{
		make_table('p', 200);
		run_all($dbh, 'CREATE TABLE locked (id int)', 'INSERT INTO locked VALUES (1)');
		make_function('p_f', q{BEGIN PERFORM FROM public.locked; RETURN $1; END});
		run_all($dbh, 'CREATE INDEX p_e ON p (p_f(id))',
			'BEGIN', 'LOCK TABLE locked', 'CREATE UNIQUE INDEX p_new ON p ((k * 1000 + id))',
			q{PREPARE TRANSACTION 'p'});
		$dbh = crash_restart($node);
		my $waiting = send_query('SELECT count(*) FROM p WHERE id > 0', q{SET statement_timeout = '30s'},
			'SET enable_seqscan = off');
		wait_for('it to wait for the prepared transaction',
			sub { value($dbh, "SELECT count(*) FROM pg_locks WHERE pid = $waiting->{dbh}{pg_pid} AND NOT granted") });
		run_all($dbh, q{SET statement_timeout = '20s'});
		is(state_of($dbh, "$end PREPARED 'p'"), '', "a rebuild waits for a prepared transaction: $end");
		is(finish_statement($waiting), 'SELECT 1', "a rebuild waits for a prepared transaction, $end: it goes on");
		is(by_index($dbh, 'p', 'p_f(id) = 5'), 1, "a rebuild waits for a prepared transaction, $end: index");
		is(by_index($dbh, 'p', 'k * 1000 + id = 5005'), 1,
			"a rebuild waits for a prepared transaction, $end: the new index")
		  if $end eq 'COMMIT';
		is_sound($dbh, "a rebuild waits for a prepared transaction, $end");
		run_all($dbh, 'DROP TABLE p, locked');
	}
	return;
}

# COMMIT PREPARED has a table built once more.  Who has built it before must not have its indexes locked for that: it
# may come to wait for the second rebuild, and then one of the two ended with an error, deadlock detected.
sub test_again
{
	make_table('again', 2000);
	run_all($dbh, 'BEGIN', 'CREATE INDEX again_k ON again (k)', q{PREPARE TRANSACTION 'again'});
	$dbh = crash_restart($node);
	my $built = sub { value($dbh, q{SELECT pg_relation_size('again_pkey') > 8192 OR
		EXISTS (SELECT FROM zen_stat_indexes WHERE indexrelid = 'again_pkey'::regclass AND nodes > 0)}) };
	ok(!$built->(), 'rebuilt again: not yet built');
	my $first = connect_db($node);
	# without a plan, which locks the indexes of its tables
	run_all($first, 'BEGIN', q{COPY again TO '/dev/null'});
	ok($built->(), 'rebuilt again: built by COPY');
	is(value($first, q{SELECT count(*) FROM pg_locks l JOIN pg_index i ON l.relation = i.indexrelid
		WHERE l.pid = pg_backend_pid() AND i.indrelid = 'again'::regclass}), 0, 'rebuilt again: which locks no index');
	run_all($dbh, q{COMMIT PREPARED 'again'}, q{SET lock_timeout = '20s'});
	is(by_index($dbh, 'again', 'k = 5'), 200, 'rebuilt again: a new index of a prepared transaction');
	is(by_index($first, 'again', 'k = 5'), 200, 'rebuilt again: in the first process');
	$first->disconnect;
	run_all($dbh, 'RESET lock_timeout', 'DROP TABLE again');
	return;
}

# --- in the background ------------------------------------------------------

# Errors of some classes were taken for passing ones, however often they came.
sub test_retired
{
	make_table('r', 50);
	run_all($dbh, 'TRUNCATE trouble');
	make_function('r_f', q{BEGIN IF EXISTS (SELECT FROM public.trouble WHERE what = 'retire') THEN
		RAISE 'never' USING ERRCODE = '55000'; END IF; RETURN $1; END});
	run_all($dbh, 'CREATE INDEX r_e ON r (r_f(k))', 'CREATE INDEX r_e2 ON r (r_f(id))',
		q{INSERT INTO trouble VALUES ('retire')});
	make_table('r2', 50);
	set_background(1);
	my $from = log_size($node);
	$dbh = crash_restart($node);
	wait_for('the table to be readable', sub { state_of($dbh, 'SELECT count(*) FROM r') eq '' });
	is(value($dbh, q{SELECT string_agg(indexrelid::regclass || ' ' || indisvalid, ', ' ORDER BY indexrelid)
		FROM pg_index WHERE indrelid = 'r'::regclass}), 'r_pkey true, r_e false, r_e2 false',
			'retired: the indexes are not valid');
	is(by_index($dbh, 'r', 'id > 0'), 50, 'retired: the other one is there');
	my $said = log_since($node, $from);
	my $cause = qr/DETAIL:  [^\n]*never.*HINT:  [^\n]*REINDEX/s;
	like($said, qr/WARNING:  XX002: index "$_" of table "r" could not be rebuilt.*$cause/s,
		"retired: the log says so of $_") for 'r_e', 'r_e2';
	run_all($dbh, 'TRUNCATE trouble', 'REINDEX INDEX r_e', 'REINDEX INDEX r_e2');
	is(by_index($dbh, 'r', 'r_f(k) = 3'), 5, 'retired: REINDEX brings it back');
	set_background(0);
	run_all($dbh, 'DROP TABLE r, r2');
	return;
}

# What is missing for the moment is no reason to lose a primary key, after which duplicates would come in.
sub test_no_room
{
	run_all($dbh, 'CREATE TABLE room (id int PRIMARY KEY) USING zen',
		'INSERT INTO room SELECT i * 7919 % 200003 FROM generate_series(1, 200000) i');
	set_background(1);
	set_conf($node, "temp_file_limit = 64kB\nmaintenance_work_mem = 1MB");
	my $from = log_size($node);
	$dbh = crash_restart($node);
	wait_for('the worker to leave it', sub { log_since($node, $from) =~ /index "room_pkey" could not be rebuilt/ });
	my $said = log_since($node, $from);
	like($said, qr/WARNING:  53400: .*"room" is not available.*DETAIL:.*temp_file_limit.*HINT:  Remove the cause/s,
		'no room: the log says so');
	is(value($dbh, q{SELECT indisvalid FROM pg_index WHERE indexrelid = 'room_pkey'::regclass}), 1,
		'no room: the primary key stays valid');
	is(state_of($dbh, 'SELECT count(*) FROM room'), '53400', 'no room: who comes to the table is told');
	reload_conf($node, 'temp_file_limit = -1');
	wait_for('the reload', sub { value($dbh, 'SHOW temp_file_limit') eq '-1' });
	is(by_index($dbh, 'room', 'id >= 0'), 200000, 'no room: with room it is there, without a restart');
	is(state_of($dbh, 'INSERT INTO room VALUES (7)'), '23505', 'no room: and unique');
	set_conf($node, 'maintenance_work_mem = 64MB');
	set_background(0);
	run_all($dbh, 'DROP TABLE room');
	return;
}

# VACUUM of a table whose indexes are not there yet: by name it has them rebuilt; of all tables, it says that it leaves
# it out.
sub test_vacuum_leaves_out
{
	make_table('v', 50);
	run_all($dbh, 'DELETE FROM v WHERE id > 10');
	$dbh = crash_restart($node);
	my @warnings;
	my $left = sub { value($dbh, 'SELECT tables_to_reindex FROM zen_recovery') };
	value($dbh, 'SELECT count(*) FROM zen_stat_tables');
	ok($left->(), 'vacuum: there is a table to rebuild');
	my $from = log_size($node);
	run_all($dbh, q{SET log_min_messages = 'warning'}, 'VACUUM');
	like(log_since($node, $from), qr/WARNING:  55000: "v" is not vacuumed.*HINT: /s,
		'vacuum: of all tables it says what is left out');
	ok($left->(), 'vacuum: and rebuilds nothing');
	run_all($dbh, 'VACUUM v');
	is($left->(), 0, 'vacuum: by name the table has its indexes rebuilt');
	is(by_index($dbh, 'v', 'id > 0'), 10, 'vacuum: which are whole');
	run_all($dbh, 'DROP TABLE v');
	return;
}

# --- what comes first, or between -------------------------------------------

# Commands that give an index new files came before the rebuild of the old ones: they
# failed, or left indexes without rows.
sub test_first_statement
{
	my @first = (
		[ 'REINDEX TABLE %s' ], [ 'REINDEX INDEX %s_k' ], [ 'REINDEX INDEX %s_pkey' ],
		[ 'CREATE INDEX ON %s (v)' ], [ 'DROP INDEX %s_k' ], [ 'TRUNCATE %s' ],
		[ 'BEGIN', 'ALTER TABLE %s DROP CONSTRAINT %1$s_pkey', 'ROLLBACK' ],
		[ 'BEGIN', 'TRUNCATE %s', 'ROLLBACK' ], [ 'BEGIN', 'REINDEX TABLE %s', 'ROLLBACK' ]);
	my @sums = map { make_rows($dbh, "f$_", 3000) } 0 .. $#first;
	$dbh = clean_restart($node, $dbh);
	for my $i (0 .. $#first)
	{
		run_all($dbh, 'UPDATE f0 SET v = 0 WHERE id = 1');
		$dbh = crash_restart($node);
		is(value($dbh, 'SELECT state FROM zen_recovery'), 'waiting', 'first statement: nobody has rebuilt anything');
		my @sql = map { sprintf($_, "f$i") } @{ $first[$i] };
		my $all = join('; ', @sql);
		is(run_sql($dbh, $_)->{message}, '', "first statement after a crash: $_ ($all)") for @sql;
		same_by_index($dbh, "f$i", $all =~ /^TRUNCATE/ ? '0 ' : $sums[$i], $all);
		is(state_of($dbh, "INSERT INTO f$i VALUES (7)"), $all =~ /^TRUNCATE/ ? '' : '23505', "$all: primary key");
		is(contents($dbh, "f$i", 'bitmapscan', 'k = 77'), contents($dbh, "f$i", 'seqscan', 'k = 77'), "$all: k")
		  unless $all =~ /DROP INDEX/;
	}
	run_all($dbh, map { "DROP TABLE f$_" } 0 .. $#first);
	return;
}

# An index whose expression fails on a row that it has accepted kept the whole table from being
# used.  Now it is out of use, the log says so, and REINDEX brings it back.
sub test_unbuildable
{
	set_background(1);
	my $sum = make_rows($dbh, 'ub', 500);
	my $is_valid = sub { value($dbh,
		q{SELECT string_agg(indexrelid::regclass || ' ' || indisvalid, ', ' ORDER BY indexrelid)
		FROM pg_index WHERE indrelid = 'ub'::regclass}) };
	run_all($dbh, 'CREATE TABLE ub_forbidden (k int)',
		q{CREATE FUNCTION ub_f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
			$$ BEGIN IF EXISTS (SELECT FROM public.ub_forbidden WHERE k = $1) THEN RAISE '% is forbidden',
				$1; END IF; RETURN $1; END $$},
		'CREATE INDEX ub_e ON ub (ub_f(k))', 'INSERT INTO ub_forbidden VALUES (77)');
	for my $when ('a crash', 'another crash')
	{
		my $offset = log_size($node);
		$dbh = crash_restart($node);
		wait_for('the table to be readable', sub { state_of($dbh, 'SELECT count(*) FROM ub') eq '' });
		is($is_valid->(), 'ub_pkey true, ub_k true, ub_e false', "unbuildable index, $when: it alone is not valid");
		same_by_index($dbh, 'ub', $sum, "unbuildable index, $when");
		my $said = log_since($node, $offset);
		my $cause = qr/DETAIL:  [^\n]*77 is forbidden.*HINT: /s;
		like($said, qr/WARNING:  XX002: index "ub_e" of table "ub" could not be rebuilt.*$cause/s,
			"unbuildable index, $when: the log says so") if $when eq 'a crash';
		run_all($dbh, 'SET enable_seqscan = off');
		unlike(join("\n", map { $_->[0] } @{ run_sql($dbh, 'EXPLAIN SELECT * FROM ub WHERE ub_f(k) = 78')->{rows} }),
			qr/ub_e/,
			"unbuildable index, $when: it is not used");
		run_all($dbh, 'RESET enable_seqscan');
		is(state_of($dbh, 'REINDEX INDEX ub_e'), 'P0001',
			"unbuildable index, $when: REINDEX fails before the cause is gone");
	}
	is(state_of($dbh, 'INSERT INTO ub VALUES (1001, 5)'), '', 'unbuildable index: new rows');
	run_all($dbh, 'TRUNCATE ub_forbidden', 'REINDEX INDEX ub_e');
	is($is_valid->(), 'ub_pkey true, ub_k true, ub_e true', 'unbuildable index: REINDEX brings it back');
	is(value($dbh, 'SELECT count(*) FROM ub WHERE ub_f(k) = 5'), 2, 'unbuildable index: with all rows');
	is_sound($dbh, 'unbuildable index');
	run_all($dbh, 'DROP TABLE ub, ub_forbidden');
	set_background(0);
	return;
}

# A process that was terminated in the middle of a rebuild left the table as being
# rebuilt, and everybody waited for ever.
sub test_terminated
{
	my $sum = make_rows($dbh, 'big', 300000);
	run_all($dbh, 'CREATE INDEX big_t ON big (md5(id::text))');
	for my $kind ('zen index rebuild', 'client backend')
	{
		my $self = $kind =~ /client/;
		set_conf($node, 'max_worker_processes = ' . ($self ? 1 : 8));
		$dbh = crash_restart($node);
		my $query = $self && send_query('SELECT count(*) FROM big WHERE id > 0');
		my ($pid, $left);
		wait_for("$kind to be seen", sub {
				($pid) = map { $_->[0] } @{ run_sql($dbh, qq{SELECT pid FROM pg_stat_activity JOIN pg_locks USING (pid)
				  WHERE backend_type = '$kind' AND relation IN
				  (SELECT indexrelid FROM pg_index WHERE indrelid = 'big'::regclass)})->{rows} };
				return $pid || value($dbh, q{SELECT state = 'ready' AND tables_to_reindex = 0 FROM zen_recovery}); });
		if ($pid)
		{
			value($dbh, "SELECT pg_terminate_backend($pid)");
			wait_for("$kind to go", sub { !value($dbh, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") });
			$left = value($dbh, 'SELECT tables_to_reindex FROM zen_recovery');
		}
	  SKIP: {
			skip "$kind was too fast", 4 unless $left;
			run_all($dbh, q{SET statement_timeout = '20s'});
			same_by_index($dbh, 'big', $sum, "$kind terminated");
			is(value($dbh, "SELECT count(*) FROM big WHERE md5(id::text) = md5('4711')"), 1,
				"$kind terminated: third index");
			is(state_of($dbh, 'INSERT INTO big VALUES (299999)'), '23505', "$kind terminated: unique");
		}
		$query->{dbh}->pg_cancel if $self && !$pid;
	}
	set_background(0);
	run_all($dbh, 'DROP TABLE big');
	return;
}
