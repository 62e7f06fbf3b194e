# Statements that nobody has prepared (shape of zen.executor), with what surrounds them:
#
#   libraries    pg_stat_statements and auto_explain behind zen, and in front of it: calls, query ids, rows, plans
#   protocols    the simple one and the extended one without names, with parameters and with constants
#   planning     a statement whose planning runs statements of the same shape, fails, or changes what it depends on
#   transactions loops that commit, cursors that outlive their transaction, subtransactions that roll back
#   memory       ten thousand shapes, and plans that are made anew again and again, take no more and more memory
#
# Needs the executor.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

use constant KEPT_FROM => 5;    # the execution from which on a shape has its plan

skip_unless_zen();
skip_unless_modules('pg_stat_statements', 'auto_explain');
my $node = new_node('unprepared', pool_size => '64MB', dram_size => '96MB',
	conf => "compute_query_id = on\nauto_explain.log_min_duration = -1\njit = off\n");
my $dbh;

for my $libraries ('zen, pg_stat_statements, auto_explain', 'pg_stat_statements, zen, auto_explain')
{
	start_with($libraries);
	test_libraries($libraries);
}
start_with('zen, pg_stat_statements, auto_explain');
test_protocols();
test_planning();
test_transactions();
test_memory();
$dbh->disconnect;
$node->stop;
done_testing();

sub start_with
{
	my ($libraries) = @_;
	if ($dbh) { $dbh->disconnect; $node->stop; }
	set_conf($node, "shared_preload_libraries = '$libraries'");
	$node->start;
	$dbh = connect_db($node);
	run_all($dbh, 'DROP EXTENSION IF EXISTS zen CASCADE', 'DROP EXTENSION IF EXISTS pg_stat_statements',
		'CREATE EXTENSION zen', 'CREATE EXTENSION pg_stat_statements',
		'CREATE TABLE t (id int PRIMARY KEY, v int, s text) USING zen',
		q{INSERT INTO t SELECT g, g, 's' || g FROM generate_series(1, 1000) g}, 'ANALYZE t');
	return;
}

sub shape_runs { return value($dbh, 'SELECT shape_runs FROM zen_stat'); }

# The statement with values 1 to $n; its answers.
sub each_value
{
	my ($n, $sql) = @_;
	return map { value($dbh, $sql =~ s/%d/$_/gr) } 1 .. $n;
}

# --- libraries --------------------------------------------------------------

sub test_libraries
{
	my ($name) = @_;
	# a library in front that takes the executor's hooks has the executor to itself
	my $kept = $name =~ /^zen/ ? 10 - KEPT_FROM + 1 : 0;
	run_all($dbh, 'SELECT pg_stat_statements_reset()', 'SET pg_stat_statements.track_planning = on');
	my $before = shape_runs();
	is(join(' ', each_value(10, 'SELECT s FROM t WHERE id = %d')), join(' ', map { "s$_" } 1 .. 10), "$name: answers");
	is(shape_runs() - $before, $kept, "$name: how many ran by the plan of their shape");
	my $seen = run_sql($dbh,
		q{SELECT query, calls, rows, plans FROM pg_stat_statements WHERE query LIKE 'SELECT s FROM%'});
	is(scalar @{ $seen->{rows} }, 1, "$name: one statement") or return;
	my ($query, $calls, $rows, $plans) = @{ $seen->{rows}[0] };
	is("$query, $calls, $rows", 'SELECT s FROM t WHERE id = $1, 10, 10', "$name: query, calls and rows");
	is($plans, $kept ? KEPT_FROM : 10, "$name: how often it was planned") if !$kept;
	cmp_ok($plans, '<=', 10, "$name: how often it was planned") if $kept;

	my $log = log_size($node);
	run_all($dbh, 'SET auto_explain.log_min_duration = 0', 'SELECT s FROM t WHERE id = 77',
		'SET auto_explain.log_analyze = on', 'SELECT s FROM t WHERE id = 78', 'RESET ALL');
	my ($plan, $analyzed) =
	  log_since($node, $log) =~ /Query Text: SELECT s FROM t WHERE id = 7[78]\n(.*?Index Cond[^\n]*)/sg;
	my $expected = $kept ? qr/ZenPointAccess.*Index Cond: \(id = \$1\)/s : qr/Index Cond: \(id = 77\)/;
	like($plan, $expected, "$name: auto_explain");
	like($analyzed, qr/actual time.*rows=1.*Index Cond: \(id = (?:\$1|78)\)/s, "$name: auto_explain.log_analyze");
	return;
}

# --- protocols --------------------------------------------------------------

sub test_protocols
{
	for my $case (
		[ 'a parameter', 'SELECT s FROM t WHERE id = $1 AND v > 0', sub { ($_[0]) } ],
		[ 'a parameter and a constant', 'SELECT s FROM t WHERE id = $1 AND v < 2000%d', sub { ($_[0]) } ],
		[ 'constants', 'SELECT s FROM t WHERE id = %d AND v > -1 AND s <> $$x$$', sub { () } ])
	{
		my ($name, $sql, $values) = @$case;
		my $before = shape_runs();
		for my $n (1 .. 12)
		{
			my $sth = $dbh->prepare($sql =~ s/%d/$n/gr, { pg_server_prepare => 0 });
			$sth->execute($values->($n)) or die $sth->errstr;
			my ($s) = $sth->fetchrow_array;
			die "$name: $s for $n" if $s ne "s$n";
			$sth->finish;
		}
		is(shape_runs() - $before, 12 - KEPT_FROM + 1, "without a name, $name: by the plan of the shape");
	}
	return;
}

# --- planning ---------------------------------------------------------------

sub test_planning
{
	# IMMUTABLE as it says: the planner calls it with a constant, and it runs statements of the same shape
	run_all($dbh, q{CREATE FUNCTION inside(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
		DECLARE r int; BEGIN EXECUTE 'SELECT v FROM t WHERE id = inside2(' || n || ')' INTO r; RETURN r; END $$},
		q{CREATE FUNCTION inside2(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN n; END'});
	is(join(' ', each_value(12, 'SELECT v FROM t WHERE id = inside(%d)')), join(' ', 1 .. 12),
		'planning runs statements of the same kind');

	# it fails: with the values, and then for the shape
	run_all($dbh, q{CREATE FUNCTION fails(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
		'BEGIN IF n % 4 = 0 THEN RAISE EXCEPTION USING ERRCODE = $$ZE001$$; END IF; RETURN n; END'});
	my $states = join ' ', map { state_of($dbh, "SELECT v FROM t WHERE id = fails($_)") || 'ok' } 1 .. 16;
	is($states, join(' ', ('ok', 'ok', 'ok', 'ZE001') x 4), 'planning fails for some values');

	# it changes what the plan depends on
	run_all($dbh, q{CREATE FUNCTION change() RETURNS void LANGUAGE plpgsql AS
			'BEGIN GRANT SELECT ON t TO PUBLIC; REVOKE SELECT ON t FROM PUBLIC; END'},
		q{CREATE FUNCTION changes(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
			'BEGIN PERFORM change(); RETURN n; END'});
	is(join(' ', each_value(12, 'SELECT v FROM t WHERE id = changes(%d)')), join(' ', 1 .. 12),
		'planning makes its own plan invalid');
	return;
}

# --- transactions -----------------------------------------------------------

sub test_transactions
{
	run_all($dbh, q{CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$
		DECLARE r record; n int := 0;
		BEGIN
			FOR i IN 1..8 LOOP
				FOR r IN EXECUTE 'SELECT id FROM t WHERE id BETWEEN ' || i || ' AND ' || i + 9 || ' ORDER BY id' LOOP
					EXECUTE 'UPDATE t SET v = v + 1 WHERE id = ' || r.id;
					COMMIT;
					n := n + 1;
					GRANT SELECT ON t TO PUBLIC;
				END LOOP;
			END LOOP;
			RAISE EXCEPTION USING ERRCODE = 'ZE' || lpad(n::text, 3, '0');
		END $$});
	is(state_of($dbh, 'CALL commits()'), 'ZE080', 'a loop over dynamic SQL that commits');
	is(value($dbh, 'SELECT sum(v - id) FROM t'), 80, 'each row was changed once');

	# cursors of one shape: some are closed, some outlive the transaction, in which their plan becomes invalid
	value($dbh, 'BEGIN');
	value($dbh, "DECLARE c$_ CURSOR WITH HOLD FOR SELECT id, s FROM t WHERE id = $_") for 1 .. 10;
	value($dbh, 'FETCH c7');
	value($dbh, 'GRANT SELECT ON t TO PUBLIC');
	value($dbh, 'SELECT id, s FROM t WHERE id = 11');
	value($dbh, 'CLOSE c6');
	value($dbh, 'COMMIT');
	is(join(' ', map { value($dbh, "FETCH c$_") } 8 .. 10), '8 9 10', 'cursors outlive their transaction');
	value($dbh, 'CLOSE ALL');

	# a subtransaction makes the plan, and its change of the table is rolled back
	value($dbh, "SELECT s FROM t WHERE id = $_ AND id > 0") for 1 .. 3;
	run_all($dbh, 'BEGIN', 'SAVEPOINT a', 'ALTER TABLE t RENAME s TO s2', 'ALTER TABLE t RENAME v TO s',
		'ALTER TABLE t RENAME s2 TO v');
	is(value($dbh, "SELECT s FROM t WHERE id = $_ AND id > 0"), $_, "renamed, $_") for 21 .. 27;
	run_all($dbh, 'ROLLBACK TO a');
	is(value($dbh, "SELECT s FROM t WHERE id = $_ AND id > 0"), "s$_", "not renamed, $_") for 21 .. 27;
	value($dbh, 'COMMIT');
	return;
}

# --- memory -----------------------------------------------------------------

# Bytes of the plans, and of all that lives as long as the session.
sub memory
{
	my ($which) = @_;
	return value($dbh, "SELECT coalesce(sum(total_bytes), 0) FROM pg_backend_memory_contexts WHERE $which");
}

# Runs a DO with one statement for each n, whose shape is its own, several times each.
sub run_shapes
{
	my ($name, $shapes, $times) = @_;
	value($dbh, "DO \$\$ BEGIN FOR i IN 1..$times LOOP FOR n IN 1..$shapes LOOP
		EXECUTE format('SELECT v AS $name%s FROM t WHERE id = %s', n, i); END LOOP; END LOOP; END \$\$");
	return;
}

# The number of shapes that have a tree.
sub trees { return value($dbh, q{SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'zen shape'}); }

# Which shapes get a tree (is_admitted).
sub test_admission
{
	my $before = trees();
	run_shapes('once', 300, 1);
	is(trees(), $before, 'a shape that has come once has no tree');
	run_shapes('once', 10, 1);
	is(trees(), $before + 10, 'one that has come twice has');
	return;
}

# Shapes come twice until one gets no tree: how much room there is before depends on the sizes of others.
sub fill_memory
{
	my ($n, $before) = (0, 0);
	do { $before = trees(); run_shapes('fill' . $n++, 1, 2); } while ($n < 1000 && trees() > $before);
	cmp_ok($n, '<', 1000, "memory is full after $n more");
	return;
}

# Memory is full: a shape gets in at its 16th time, is planned three times, and then used.
sub test_admission_when_full
{
	fill_memory();
	my $before = shape_runs();
	run_shapes('often', 1, 15);
	is(shape_runs() - $before, 0, 'memory is full: a shape that has come 15 times is not used');
	run_shapes('often', 1, 25);
	is(shape_runs() - $before, 22, 'it gets in at its 16th time');
	return;
}

sub test_memory
{
	my $plans = q{name IN ('zen shape', 'zen plan of a shape')};
	test_admission();
	my $before_many = shape_runs();
	value($dbh, q{SET zen.shape_memory = '1MB'});
	run_shapes('v', 10000, 8);
	cmp_ok(shape_runs() - $before_many, '>', 100, 'those that have found room stay, and are used');
	my $bytes = memory($plans);
	cmp_ok($bytes, '<=', 1024 * 1024, "plans of ten thousand shapes: $bytes bytes");
	cmp_ok($bytes, '>', 512 * 1024, 'and they use what they may');
	test_admission_when_full();

	# after each GRANT zen learns anew, and makes the plan anew
	my $anew = q{DO $$ BEGIN FOR i IN 1..100 LOOP GRANT SELECT ON t TO PUBLIC; FOR n IN 1..5 LOOP
		EXECUTE 'SELECT v AS a FROM t WHERE id = ' || n; END LOOP; END LOOP; END $$};
	value($dbh, $anew) for 1 .. 2;
	my ($before, $made) = (memory('true'), value($dbh, 'SELECT shape_plans_made FROM zen_stat'));
	value($dbh, $anew) for 1 .. 3;
	cmp_ok(value($dbh, 'SELECT shape_plans_made FROM zen_stat') - $made, '>=', 300, 'plans are made anew');
	my $after = memory('true');
	cmp_ok($after - $before, '<', 300_000, "they leave nothing behind: $before bytes, then $after");
	return;
}
