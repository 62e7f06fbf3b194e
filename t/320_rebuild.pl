# The rebuild of indexes after a crash, where it cannot be had or several wait for each other:
#
# - a table whose index cannot be rebuilt, or takes for ever, is in nobody's way but of who names it;
# - its index goes out of use after some tries, whatever error its function raises;
# - an index dropped before the rebuild and brought back by a rollback is rebuilt like the others;
# - functions in indexes that read each other's tables, or their own;
# - a rebuild that waits for a prepared transaction does not keep that from ending.
#
# ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg qw(:async);
use Test::More;
use ZenTest;

skip_unless_zen();
my %sent;    # handle => statement sent
my $node = new_node('rebuild', pool_size => '64MB', dram_size => '64MB', conf => 'max_worker_processes = 1');
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
test_retired();
test_vacuum_leaves_out();
is_sound($dbh, 'at the end');
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub run_all { value($dbh, $_) for @_; return; }

sub crash_restart
{
	crash($node);
	start_again($node);
	$dbh = connect_db($node);
	return;
}

# With one worker process, which the launcher of logical replication has, nobody rebuilds in the background.
sub set_background
{
	my ($on) = @_;
	$node->append_conf('postgresql.conf', 'max_worker_processes = ' . ($on ? 8 : 1));
	$dbh->disconnect;
	$node->restart;
	$dbh = connect_db($node);
	return;
}

# make_function -- one that says it is immutable.
sub make_function
{
	my ($name, $body) = @_;
	run_all("CREATE OR REPLACE FUNCTION $name(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \$f\$ $body \$f\$");
	return;
}

sub make_table
{
	my ($table, $rows) = @_;
	run_all("CREATE TABLE $table (id int PRIMARY KEY, k int) USING zen",
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

sub send_query
{
	my ($sql, @before) = @_;
	my $handle = connect_db($node);
	value($handle, $_) for @before;
	my $sth = $handle->prepare($sql, { pg_direct => 1, pg_async => PG_ASYNC });
	$sth->execute;
	$sent{$handle} = $sth;
	return $handle;
}

# state_at_end -- SQLSTATE of a query sent, '' for success.
sub state_at_end
{
	my ($handle) = @_;
	wait_for('an answer', sub { $handle->pg_ready }, 60);
	return defined $handle->pg_result ? '' : $handle->state;
}

# --- the rebuild that cannot be done ----------------------------------------

# Statements that have nothing to do with the table failed, or hung, until its index was rebuilt.
sub test_bystanders
{
	make_table('bad', 20);
	run_all('CREATE TABLE trouble (what text)');
	make_function('bad_f', q{BEGIN
		IF EXISTS (SELECT FROM public.trouble WHERE what = 'error') THEN RAISE 'not now' USING ERRCODE = '55000'; END IF;
		IF EXISTS (SELECT FROM public.trouble WHERE what = 'sleep') THEN PERFORM pg_sleep(1000); END IF;
		RETURN $1; END});
	run_all('CREATE INDEX bad_e ON bad (bad_f(k))');
	for my $what ('error', 'sleep')
	{
		run_all('DROP TABLE IF EXISTS h, z', 'TRUNCATE trouble', "INSERT INTO trouble VALUES ('$what')");
		run_all("CREATE TABLE $_->[0] (id int PRIMARY KEY) USING $_->[1]", "INSERT INTO $_->[0] VALUES (1)") for [ 'h', 'heap' ], [ 'z', 'zen' ];
		crash_restart();
		run_all(q{SET statement_timeout = '10s'});
		for my $table ('h', 'z')
		{
			my $am = $table eq 'h' ? 'heap' : 'zen';
			is(state_of($dbh, $_), '', "bystander of a rebuild ($what): $_") for
			  "CREATE TABLE ${table}2 (id int PRIMARY KEY) USING $am", "CREATE INDEX ON $table (id)", "VACUUM ANALYZE $table",
			  "ALTER TABLE $table ADD c int", "REINDEX TABLE $table", "CLUSTER $table USING ${table}_pkey", "VACUUM FULL $table",
			  "TRUNCATE $table", "DROP TABLE $table", "DROP TABLE ${table}2";
		}
		is(state_of($dbh, $_), '', "bystander of a rebuild ($what): $_") for 'VACUUM', "ANALYZE pg_class";
		isnt(state_of($dbh, 'SELECT * FROM bad WHERE id = 1'), '', "who reads the table has to wait for its indexes ($what)");
		isnt(state_of($dbh, 'ALTER TABLE bad ADD c int'), '', "so has who alters it ($what)") if $what eq 'error';
		like(run_sql($dbh, 'SELECT * FROM bad')->{message}, qr/not now.*rebuilding index "bad_e" of table "bad"/s, 'and the error names the index')
		  if $what eq 'error';
	}
	is(state_of($dbh, 'TRUNCATE bad'), '', 'the table itself can be emptied');
	crash_restart();
	run_all(q{SET statement_timeout = '10s'});
	is(state_of($dbh, 'DROP INDEX bad_e'), '', 'and its index dropped');
	is(state_of($dbh, 'INSERT INTO bad VALUES (1)'), '', 'then it can be used');
	is(state_of($dbh, 'INSERT INTO bad VALUES (1)'), '23505', 'and has its other index');
	run_all('DROP TABLE bad');
	return;
}

# The rebuild after the drop knew nothing of the index, and the rollback brought it back, empty.
sub test_dropped_index
{
	make_table($_, 1000), run_all("CREATE INDEX ${_}_k ON $_ (k)") for 'd1', 'd2', 'd3';
	crash_restart();
	run_all('BEGIN', 'DROP INDEX d1_k', inject() ? 'COMMIT' : (), 'INSERT INTO d1 VALUES (2000, 5)');
	is(by_index($dbh, 'd1', 'id > 0'), 1001, 'index dropped: another one is there');
	is(state_of($dbh, 'INSERT INTO d1 VALUES (7)'), '23505', 'index dropped: and is unique');
	run_all('ROLLBACK');
	is(by_index($dbh, 'd1', 'k = 5'), 100, 'index dropped and brought back');
	run_all('BEGIN', 'SAVEPOINT a', 'DROP INDEX d2_k', 'INSERT INTO d2 VALUES (2000, 5)', 'ROLLBACK TO a');
	is(by_index($dbh, 'd2', 'k = 5'), 100, 'index dropped and brought back by a savepoint');
	run_all('COMMIT');
	is(by_index($dbh, 'd2', 'k = 5'), 100, 'index dropped and brought back by a savepoint, afterwards');
	run_all('DROP TABLE d2'), make_table('d2', 1000);
	run_all("CREATE INDEX d2_$_ ON d2 ($_)") for 'k', 'id';
	crash_restart();
	run_all('BEGIN', 'DROP INDEX d2_k', 'SELECT count(*) FROM d2', 'SAVEPOINT a', 'DROP INDEX d2_id', 'SELECT count(*) FROM d2', 'ROLLBACK TO a',
		'DROP INDEX d2_id', 'ROLLBACK TO a');
	is(by_index($dbh, 'd2', 'id > 0'), 1000, 'two indexes dropped, one brought back by a savepoint');
	run_all('ROLLBACK');
	is(by_index($dbh, 'd2', 'k = 5'), 100, 'two indexes dropped, the other brought back by the end');
	run_all('BEGIN', 'DROP INDEX d3_k', 'SELECT count(*) FROM d3', 'COMMIT');
	is(by_index($dbh, 'd3', 'id > 0'), 1000, 'index dropped: the other one after the commit');
	$dbh->disconnect;
	$node->restart;
	$dbh = connect_db($node);
	is_sound($dbh, 'indexes dropped');
	run_all('DROP TABLE d1, d2, d3');
	return;
}

# --- functions that read ----------------------------------------------------

# A function that reads its own table found nothing by an index that comes later.
sub test_own_table
{
	run_all('CREATE TABLE own (id int, k int) USING zen');
	make_function('own_f', q{BEGIN RETURN (SELECT k + 100 FROM public.own WHERE id = $1); END});
	run_all('CREATE INDEX own_e ON own (own_f(id))', 'CREATE UNIQUE INDEX own_id ON own (id)',
		'INSERT INTO own SELECT g, g FROM generate_series(1, 300) g');
	crash_restart();
	is(by_index($dbh, 'own', 'own_f(id) BETWEEN 200 AND 219'), 20, 'own table: every row is found');
	run_all('SET enable_seqscan = off');
	like(join("\n", map { $_->[0] } @{ run_sql($dbh, 'EXPLAIN SELECT k FROM own WHERE id = 1')->{rows} }), qr/own_id/,
		'own table: its indexes are used afterwards');
	run_all('RESET enable_seqscan', 'DROP TABLE own');
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
			  . ($wait ? 'IF $1 = 1 THEN PERFORM pg_advisory_lock_shared(1); PERFORM pg_advisory_unlock_shared(1); END IF; ' : '')
			  . "RETURN (SELECT k + 1000 FROM public.c$other WHERE id = \$1); END");
		run_all("CREATE INDEX c${own}_e ON c$own (c${own}_f(id))");
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
	crash_restart();
	run_all(q{SET statement_timeout = '20s'});
	is(state_of($dbh, 'SELECT count(*) FROM c1'), '', 'circle: one reads');
	circle_is_right('circle');
	run_all('DROP TABLE c1, c2');
	return;
}

# Two processes waited for each other, and nobody could know.
sub test_circle_of_two
{
	make_circle(1);
	crash_restart();
	my @queries;
	run_all('SELECT pg_advisory_lock(1)');
	for my $table ('c1', 'c2')
	{
		my $handle = send_query("SELECT count(*) FROM $table", q{SET statement_timeout = '20s'});
		push @queries, $handle;
		wait_for('it to rebuild', sub { value($dbh, "SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = $handle->{pg_pid}") });
	}
	run_all('SELECT pg_advisory_unlock(1)');
	my @states = sort map { state_at_end($_) } @queries;
	is_deeply(\@states, [ '', '40P01' ], 'circle of two: one is told of a deadlock, the other goes on');
	circle_is_right('circle of two');
	run_all('DROP TABLE c1, c2');
	return;
}

# A function that catches the error of a rebuild inside it: the process forgot what it was rebuilding itself, and waited for it.
sub test_caught_inside
{
	run_all("CREATE TABLE $_ (id int PRIMARY KEY, k int) USING zen") for 'o', 'i';
	make_function('i_f', q{BEGIN IF EXISTS (SELECT FROM public.trouble WHERE what = 'inside') THEN RAISE 'inside'; END IF; RETURN $1; END});
	make_function('o_f', q{BEGIN BEGIN PERFORM FROM public.i WHERE id = $1; EXCEPTION WHEN OTHERS THEN NULL; END;
		RETURN (SELECT k FROM public.o WHERE id = $1); END});
	run_all('CREATE INDEX i_e ON i (i_f(id))', 'CREATE INDEX o_e ON o (o_f(id))',
		(map { "INSERT INTO $_ SELECT g, g % 10 FROM generate_series(1, 50) g" } 'o', 'i'), q{INSERT INTO trouble VALUES ('inside')});
	crash_restart();
	run_all(q{SET statement_timeout = '20s'});
	is(by_index($dbh, 'o', 'o_f(id) = 3'), 5, 'error caught inside: the outer table');
	is(state_of($dbh, 'SELECT count(*) FROM i'), 'P0001', 'error caught inside: the inner one');
	run_all('TRUNCATE trouble');
	is(by_index($dbh, 'i', 'i_f(id) = 3'), 1, 'error caught inside: which is rebuilt later');
	run_all('DROP TABLE o, i');
	return;
}

# COMMIT PREPARED waited for a rebuild, and that for a lock of the prepared transaction.
sub test_prepared
{
	for my $end ('COMMIT', 'ROLLBACK')
	{
		make_table('p', 200);
		run_all('CREATE TABLE locked (id int)', 'INSERT INTO locked VALUES (1)');
		make_function('p_f', q{BEGIN PERFORM FROM public.locked; RETURN $1; END});
		run_all('CREATE INDEX p_e ON p (p_f(id))',
			'BEGIN', 'LOCK TABLE locked', 'CREATE UNIQUE INDEX p_new ON p ((k * 1000 + id))', q{PREPARE TRANSACTION 'p'});
		crash_restart();
		my $waiting = send_query('SELECT count(*) FROM p WHERE id > 0', q{SET statement_timeout = '30s'}, 'SET enable_seqscan = off');
		wait_for('it to wait for the prepared transaction',
			sub { value($dbh, "SELECT count(*) FROM pg_locks WHERE pid = $waiting->{pg_pid} AND NOT granted") });
		run_all(q{SET statement_timeout = '20s'});
		is(state_of($dbh, "$end PREPARED 'p'"), '', "a rebuild waits for a prepared transaction: $end");
		is(state_at_end($waiting), '', "a rebuild waits for a prepared transaction, $end: it goes on");
		is(by_index($dbh, 'p', 'p_f(id) = 5'), 1, "a rebuild waits for a prepared transaction, $end: index");
		is(by_index($dbh, 'p', 'k * 1000 + id = 5005'), 1, "a rebuild waits for a prepared transaction, $end: the new index")
		  if $end eq 'COMMIT';
		is_sound($dbh, "a rebuild waits for a prepared transaction, $end");
		run_all('DROP TABLE p, locked');
	}
	return;
}

# --- in the background ------------------------------------------------------

# Errors of some classes were taken for passing ones, however often they came.
sub test_retired
{
	make_table('r', 50);
	run_all('TRUNCATE trouble');
	make_function('r_f', q{BEGIN IF EXISTS (SELECT FROM public.trouble WHERE what = 'retire') THEN
		RAISE 'never' USING ERRCODE = '55000'; END IF; RETURN $1; END});
	run_all('CREATE INDEX r_e ON r (r_f(k))', 'CREATE INDEX r_e2 ON r (r_f(id))', q{INSERT INTO trouble VALUES ('retire')});
	make_table('r2', 50);
	set_background(1);
	my $from = log_size($node);
	crash_restart();
	wait_for('the table to be readable', sub { state_of($dbh, 'SELECT count(*) FROM r') eq '' });
	is(value($dbh, q{SELECT string_agg(indexrelid::regclass || ' ' || indisvalid, ', ' ORDER BY indexrelid)
		FROM pg_index WHERE indrelid = 'r'::regclass}), 'r_pkey true, r_e false, r_e2 false', 'retired: the indexes are not valid');
	is(by_index($dbh, 'r', 'id > 0'), 50, 'retired: the other one is there');
	like(log_since($node, $from), qr/WARNING:  XX002: index "$_" of table "r" could not be rebuilt.*DETAIL:  [^\n]*never.*HINT:  [^\n]*REINDEX/s,
		"retired: the log says so of $_") for 'r_e', 'r_e2';
	run_all('TRUNCATE trouble', 'REINDEX INDEX r_e', 'REINDEX INDEX r_e2');
	is(by_index($dbh, 'r', 'r_f(k) = 3'), 5, 'retired: REINDEX brings it back');
	set_background(0);
	run_all('DROP TABLE r, r2');
	return;
}

# VACUUM of a table whose indexes are not there yet: by name it has them rebuilt; of all tables, it says that it leaves it out.
sub test_vacuum_leaves_out
{
	make_table('v', 50);
	run_all('DELETE FROM v WHERE id > 10');
	crash_restart();
	my @warnings;
	my $left = sub { value($dbh, 'SELECT tables_to_reindex FROM zen_recovery()') };
	value($dbh, 'SELECT count(*) FROM zen_tables');
	ok($left->(), 'vacuum: there is a table to rebuild');
	my $from = log_size($node);
	run_all(q{SET log_min_messages = 'warning'}, 'VACUUM');
	like(log_since($node, $from), qr/WARNING:  55000: "v" is not vacuumed.*HINT: /s, 'vacuum: of all tables it says what is left out');
	ok($left->(), 'vacuum: and rebuilds nothing');
	run_all('VACUUM v');
	is($left->(), 0, 'vacuum: by name the table has its indexes rebuilt');
	is(by_index($dbh, 'v', 'id > 0'), 10, 'vacuum: which are whole');
	run_all('DROP TABLE v');
	return;
}
