# What functions of extensions remember for a query must not go into the next one with kept executor state
# (point of zen.executor).
#
# The functions of lib/remembers.c count their calls in a query.  They stand in each place of a statement and of its
# table where an expression can stand.  The same statements, executed again and again, give the same answers on zen
# tables and on heap, where each query has a memory of its own.
#
# Needs the executor.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

use constant RUNS => 30;

skip_unless_zen();
my $library = compile_library('remembers', PostgreSQL::Test::Utils::tempdir() . '/remembers.so');
my $node = new_node('memory', pool_size => '128MB', dram_size => '128MB',
	conf => 'plan_cache_mode = force_generic_plan');
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');
my $version = value($dbh, 'SHOW server_version_num');

make_functions();
make_tables($_) for qw(zen heap);
test_statement(1, @$_) for statements();
test_statement(0, @$_) for unknown_statements();
test_remakes();
$dbh->disconnect;
$node->stop;
done_testing();

sub make_functions
{
	my $c = "AS '$library', ";
	run_all($dbh,
		# STABLE is what most places allow; where IMMUTABLE is asked for, the function says that it is
		"CREATE FUNCTION calls(int) RETURNS int $c 'calls' LANGUAGE c STABLE STRICT",
		"CREATE FUNCTION icalls(int) RETURNS int $c 'calls' LANGUAGE c IMMUTABLE STRICT",
		"CREATE FUNCTION few_equal(int, int) RETURNS bool $c 'few_equal' LANGUAGE c IMMUTABLE STRICT",
		"CREATE FUNCTION few_hash(int) RETURNS int $c 'few_hash' LANGUAGE c IMMUTABLE STRICT",
		"CREATE FUNCTION few_trigger() RETURNS trigger $c 'few_trigger' LANGUAGE c",
		# an operator of an index, which the index itself does not call as its own function
		'CREATE OPERATOR =# (LEFTARG = int, RIGHTARG = int, FUNCTION = few_equal, COMMUTATOR = =#, HASHES,'
		  . ' RESTRICT = eqsel)',
		'CREATE OPERATOR CLASS few_tree FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =#,'
		  . ' OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int)',
		'CREATE OPERATOR CLASS few_list FOR TYPE int USING hash AS OPERATOR 1 =#, FUNCTION 1 few_hash(int)',
		# a type whose input, output and order remember
		'CREATE TYPE counted',
		"CREATE FUNCTION few_in(cstring) RETURNS counted $c 'few_in' LANGUAGE c STABLE STRICT",
		"CREATE FUNCTION few_out(counted) RETURNS cstring $c 'few_out' LANGUAGE c STABLE STRICT",
		"CREATE FUNCTION few_subscripts(internal) RETURNS internal $c 'few_subscripts' LANGUAGE c IMMUTABLE STRICT",
		'CREATE TYPE counted (INPUT = few_in, OUTPUT = few_out, LIKE = int, ELEMENT = int, SUBSCRIPT = few_subscripts)',
		q{CREATE FUNCTION hidden(int) RETURNS boolean LANGUAGE sql STABLE AS $$ SELECT ($1::text::counted)[1] < 3 $$},
		'CREATE DOMAIN subscripted AS counted CHECK (VALUE[1] < 3)');
	for ('<', '<=', '=', '>=', '>')
	{
		my $name = { '<' => 'lt', '<=' => 'le', '=' => 'eq', '>=' => 'ge', '>' => 'gt' }->{$_};
		run_all($dbh,
			"CREATE FUNCTION counted_$name(counted, counted) RETURNS bool AS 'int4$name' LANGUAGE internal"
			  . ' IMMUTABLE STRICT',
			"CREATE OPERATOR $_ (LEFTARG = counted, RIGHTARG = counted, FUNCTION = counted_$name)");
	}
	run_all($dbh,
		"CREATE FUNCTION few_compare(counted, counted) RETURNS int $c 'few_compare' LANGUAGE c IMMUTABLE STRICT",
		'CREATE OPERATOR CLASS counted_tree DEFAULT FOR TYPE counted USING btree AS OPERATOR 1 <, OPERATOR 2 <=,'
		  . ' OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 few_compare(counted, counted)',
		'CREATE DOMAIN first AS int CHECK (calls(VALUE) < 3)');
	return;
}

# Small tables, read by their indexes.
sub make_tables
{
	my ($am) = @_;
	run_all($dbh, "CREATE SCHEMA s_$am", "SET search_path = s_$am, public", "SET default_table_access_method = $am",
		'CREATE TABLE t (id int PRIMARY KEY, v int, w int, UNIQUE (w))',
		'INSERT INTO t SELECT g, g, g FROM generate_series(1, 40) g',
		'CREATE TABLE k (id int, v int)',
		'CREATE UNIQUE INDEX k_id ON k (id few_tree)',
		'INSERT INTO k SELECT g, g FROM generate_series(1, 40) g',
		'CREATE TABLE o (id int PRIMARY KEY, v int CHECK (calls(v) < 3), g int GENERATED ALWAYS AS (icalls(v)) STORED)',
		'INSERT INTO o SELECT 1, 1',
		'CREATE TRIGGER o_when AFTER UPDATE ON o FOR EACH ROW WHEN (calls(NEW.v) > 1) EXECUTE FUNCTION few_trigger()',
		'CREATE TRIGGER o_row AFTER INSERT OR UPDATE ON o FOR EACH ROW EXECUTE FUNCTION few_trigger()',
		'CREATE TRIGGER o_statement BEFORE UPDATE ON o FOR EACH STATEMENT EXECUTE FUNCTION few_trigger()',
		'CREATE TABLE d (id int PRIMARY KEY, v first)',
		'INSERT INTO d VALUES (1, 1)',
		'CREATE TABLE s (id int PRIMARY KEY, v int CHECK (hidden(v)))',
		'INSERT INTO s VALUES (1, 1)',
		'CREATE TABLE parts (id int, v int) PARTITION BY LIST (icalls(v))',
		'CREATE TABLE part PARTITION OF parts FOR VALUES IN (1)',
		'INSERT INTO part VALUES (1, 1)',
		'CREATE INDEX part_id ON part (id)',
		'CREATE TABLE e (id int PRIMARY KEY, v int)',
		'CREATE INDEX e_v ON e (icalls(v)) WHERE icalls(v) < 3',
		'INSERT INTO e VALUES (1, 1)',
		'CREATE TABLE ps (id int PRIMARY KEY, v int)',
		'INSERT INTO ps VALUES (1, 1)',
		'ANALYZE');
	return;
}

# Name, statement with its parameters' types, values.  $r in a value is the number of the run.
sub statements
{
	my @list = (
		[ 'list', 'int', 'SELECT id, calls(id), calls(v) FROM t WHERE id = $1', '5' ],
		[ 'qual', 'int', 'SELECT id FROM t WHERE id = $1 AND calls(v) < 2', '5' ],
		[ 'key', 'int', 'SELECT id FROM t WHERE id = calls($1)', '5' ],
		[ 'operator', 'int', 'SELECT id, v FROM k WHERE id =# $1', '5' ],
		[ 'operators', 'int[]', 'SELECT id, v FROM k WHERE id =# ANY ($1)', q{'{3, 5, 3, 9}'} ],
		[ 'range', 'int', 'SELECT id, calls(id) FROM t WHERE id > $1 AND calls(v) < 4', '20' ],
		[ 'index only', 'int', 'SELECT id, calls(id) FROM t WHERE id > $1', '38' ],
		[ 'limit', 'int', 'SELECT id FROM t WHERE id > $1 ORDER BY id LIMIT calls(1) + 1 OFFSET calls(1)', '20' ],
		[ 'locked', 'int', 'SELECT id, calls(v) > 0 FROM t WHERE id = $1 FOR UPDATE', '5' ],
		[ 'update', 'int', 'UPDATE t SET v = calls(v) WHERE id = $1 RETURNING v, calls(v)', '5' ],
		[ 'updates', 'int', 'UPDATE t SET v = calls(v) WHERE id < $1 RETURNING v, calls(v)', '4' ],
		[ 'delete', 'int', 'DELETE FROM t WHERE id = $1 AND calls(v) = 1 RETURNING id, calls(v)', '10 + $r % 5' ],
		[ 'insert', 'int', 'INSERT INTO t VALUES ($1, calls($1), $1) RETURNING v, calls(id)', '100 + $r' ],
		[
			'inserts', 'int', 'INSERT INTO t VALUES ($1, calls($1)), ($1 + 1, calls($1)) RETURNING v, calls(id)',
			'200 + 2 * $r'
		],
		[
			'conflict', 'int',
			'INSERT INTO t VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET v = calls(t.v) WHERE calls(t.v) = 1 '
			  . 'RETURNING v, calls(t.v)', '6'
		],
		[
			'join', 'int',
			'SELECT a.id, b.id, calls(b.v) FROM t a JOIN t b ON b.id = a.v AND calls(b.v + a.v) < 3 WHERE a.id > $1',
			'30'
		],
		[
			'operator join', 'int',
			'SELECT a.id, b.v FROM t a JOIN k b ON b.id =# a.id WHERE a.id BETWEEN $1 AND 34', '32'
		],
		[ 'result', 'int', 'INSERT INTO t SELECT $1, calls($1) WHERE calls($1) = 1 RETURNING v', '300 + $r' ],
		[ 'table', 'int', 'UPDATE o SET v = $1 WHERE id = 1 RETURNING g', '$r' ],
		[ 'table, whole', 'int', 'UPDATE o SET v = $1 WHERE id < 2 RETURNING g', '$r' ],
		[ 'table, new row', 'int', 'INSERT INTO o VALUES ($1, $1) RETURNING g', '100 + $r' ],
		[ 'domain of a table', 'int', 'UPDATE d SET v = $1 WHERE id = 1 RETURNING v', '$r' ],
		[ 'domain', 'int', 'SELECT $1::first, id FROM t WHERE id = $1', '5' ],
		[ 'partition', 'int', 'UPDATE part SET v = $1 WHERE id = 1 RETURNING v', '$r' ],
		[ 'partition, new row', 'int', 'INSERT INTO part VALUES ($1, $1) RETURNING id', '100 + $r' ],
		[ 'index', 'int', 'UPDATE e SET v = $1 WHERE id = 1 RETURNING v', '$r' ],
		[ 'index, whole', 'int', 'UPDATE e SET v = $1 WHERE id < 2 RETURNING v', '$r' ],
		[
			'distinct', 'int', 'SELECT id, calls(id) IS DISTINCT FROM 1, NULLIF(calls(id), 1) FROM t WHERE id = $1', '5'
		],
		[ 'any', 'int', 'SELECT id FROM t WHERE id = $1 AND v =# ANY (ARRAY[1, 5, $1])', '5' ],
		[
			'hashed', 'int', q{SELECT id FROM t WHERE id = $1 AND v =# ANY ('{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}')}, '5'
		],
		[
			'case', 'int',
			'SELECT CASE calls(id) WHEN 1 THEN coalesce(NULL, calls(v)) ELSE 0 END FROM t WHERE id = $1', '5'
		],
		[ 'input and output', 'int', 'SELECT $1::text::counted::text, id FROM t WHERE id = $1', '5' ],
		[ 'elements', 'text[]', 'SELECT $1::counted[]::text[], id FROM t WHERE id = 5', q{'{1, 2}'} ],
		[ 'row order', 'int', q{SELECT ('3'::text::counted, $1) < ('3'::counted, 9), id FROM t WHERE id = $1}, '5' ],
		[ 'greatest', 'int', q{SELECT GREATEST('3'::counted, $1::text::counted)::text, id FROM t WHERE id = $1}, '5' ]);
	push @list, [
		'JSON', 'int',
		q{SELECT JSON_VALUE(jsonb '{"a": 5}', '$.a' RETURNING counted)::text, id FROM t WHERE id = $1}, '5'
	] if $version >= 170000;
	return @list;
}

# An expression keeps something, where nobody can see it: in the statement, in a domain, in what a constraint becomes.
sub unknown_statements
{
	return (
		[ 'subscript', 'int', 'SELECT ($1::text::counted)[1], id FROM t WHERE id = $1', '5' ],
		[ 'subscript in a domain', 'int', 'SELECT $1::text::subscripted::text, id FROM t WHERE id = $1', '5' ],
		[ 'subscript in a constraint', 'int', 'UPDATE s SET v = $1 WHERE id = 1 RETURNING v', '$r' ]);
}

sub executions { return value($dbh, 'SELECT point_accesses + point_kept_plans FROM zen_stat') }

# All that the executions of a statement tell.
sub told
{
	my ($am, $types, $sql, $value) = @_;
	my @told;
	run_all($dbh, "SET search_path = s_$am, public", "PREPARE p($types) AS $sql");
	for my $r (1 .. RUNS)
	{
		my $result = run_sql($dbh, 'EXECUTE p(' . ($value =~ s/\$r/$r/gr) . ')');
		push @told, join '|', $result->{state}, $result->{message},
		  map { join ',', map { $_ // 'NULL' } @$_ } @{ $result->{rows} };
	}
	value($dbh, 'DEALLOCATE p');
	return \@told;
}

sub test_statement
{
	my ($kept, $name, @statement) = @_;
	run_all($dbh, map { "SET enable_$_ = off" } qw(seqscan bitmapscan hashjoin mergejoin material memoize));
	my $expected = told('heap', @statement);
	my $before = executions();
	is_deeply(told('zen', @statement), $expected, "$name: as with heap");
	cmp_ok(executions() - $before, '>=', RUNS - 1, "$name: with kept state") if $kept;
	return;
}

# States with domains are made anew when types change, those with functions only are not: memory stays small, too.
sub test_remakes
{
	value($dbh, 'SET search_path = s_zen, public');
	run_all($dbh, 'PREPARE f(int) AS SELECT calls(v) FROM t WHERE id = $1', 'EXECUTE f(5)', 'EXECUTE f(5)',
		'PREPARE g(int) AS SELECT $1::first FROM t WHERE id = $1', 'EXECUTE g(5)', 'EXECUTE g(5)');
	for ([ f => 0 ], [ g => 1 ])
	{
		my ($name, $made) = @$_;
		run_all($dbh, "EXECUTE $name(5)");
		my $before = value($dbh, 'SELECT point_states_made FROM zen_stat');
		run_all($dbh, 'CREATE TYPE another AS (a int)', 'DROP TYPE another', "EXECUTE $name(5)");
		is(value($dbh, 'SELECT point_states_made FROM zen_stat') - $before, $made,
			"$name: states made after a change");
	}
	run_all($dbh, map { "EXECUTE f(5)" } 1 .. 20000);
	cmp_ok(
		value($dbh, q{SELECT max(total_bytes) FROM pg_backend_memory_contexts WHERE name LIKE 'zen point access%'}),
		'<', 64 * 1024, 'what was remembered does not stay');
	return;
}
