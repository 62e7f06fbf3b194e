# Trees (index access method zentree) over crashes, orderly stops and prepared transactions, and in a full DRAM.
#
# - after a crash and after an orderly stop each tree has all rows again, also one whose build needs a function
# - after an orderly stop only trees are built again: other indexes keep their files
# - trees of transactions that are prepared over a stop, and end after it
# - workers help to build them after a crash; one that ends meanwhile, its leader, or all, leave a table that is rebuilt
# - trees that go free their memory
# - DRAM full: 53200, nothing lost, and a btree is the way out
# - the first statement after a start may be one that needs a tree before it reads or writes a row
# - a tree for which the DRAM does not suffice at a start keeps its table closed; it is not lost
# - a unique tree whose function fails at a start lets no second row in with the same key

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $conf = join "\n", q{zen.met_cache_size = '8MB'}, 'min_parallel_table_scan_size = 0', 'maintenance_work_mem = 256MB',
	'log_min_messages = debug1';
my $node = new_node('trees', pool_size => '256MB', dram_size => '64MB', conf => $conf);
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_starts();
test_prepared();
test_workers();
test_memory();
test_full();
test_first_statement();
test_little_dram();
test_failing_function();
is_sound($dbh, 'at the end');
$dbh->disconnect;
$node->stop;
done_testing();

# by_index -- an aggregate that an index must answer.
sub by_index
{
	my ($sql) = @_;
	run_all($dbh, 'SET enable_seqscan = off');
	my $result = value($dbh, $sql);
	run_all($dbh, 'RESET enable_seqscan');
	return $result;
}

sub check_rows
{
	my ($when, $rows) = @_;
	is(value($dbh, 'SELECT count(*) FROM t'), $rows, "$when: rows");
	is(by_index('SELECT count(*) FROM t WHERE id > 0'), $rows, "$when: by primary key");
	is(by_index(q{SELECT count(*) FROM t WHERE v >= 'a'}), $rows, "$when: by text");
	is(by_index('SELECT count(*) FROM t WHERE twice(n) >= 0'), $rows, "$when: by expression");
	is(by_index('SELECT count(*) FROM t WHERE n >= 0'), $rows, "$when: by btree");
	is(state_of($dbh, q{INSERT INTO t VALUES (1, 0, 'x')}), '23505', "$when: unique");
	is_sound($dbh, $when);
	return;
}

sub filenode { return value($dbh, "SELECT pg_relation_filenode('$_[0]')"); }

sub test_starts
{
	run_all($dbh, 'SET zen.default_index = zentree',
		'CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN $1 * 2; END $$',
		'CREATE TABLE t (id int PRIMARY KEY, n int, v text) USING zen',
		'CREATE INDEX ON t USING zentree (v, n DESC)', 'CREATE INDEX ON t USING zentree (twice(n))',
		'CREATE INDEX t_n ON t USING btree (n)',
		q{INSERT INTO t SELECT i, i % 100, 'a' || i FROM generate_series(1, 5000) i},
		'DELETE FROM t WHERE id % 5 = 0');
	check_rows('made', 4000);
	$dbh = clean_restart($node, $dbh);
	# nobody has asked for the table yet, or the worker has been there first
	check_rows('an orderly stop', 4000);
	run_all($dbh, q{INSERT INTO t SELECT i, i % 100, 'a' || i FROM generate_series(5001, 6000) i});
	$dbh->disconnect;
	crash($node);
	start_again($node);
	$dbh = connect_db($node);
	check_rows('a crash', 5000);
	run_all($dbh, 'VACUUM t');
	$dbh = clean_restart($node, $dbh);
	$dbh = clean_restart($node, $dbh);
	check_rows('two orderly stops', 5000);
	my $size = value($dbh, q{SELECT pg_relation_size('t_n')});
	cmp_ok($size, '>', 0, 'the btree has its file');
	# a table without a tree is not waited for
	run_all($dbh, 'CREATE TABLE plain (id int) USING zen', 'CREATE INDEX ON plain (id)');
	run_all($dbh, 'DROP TABLE t, plain');
	return;
}

sub test_prepared
{
	for my $end (qw(COMMIT ROLLBACK))
	{
		for my $stop ('none', 'orderly', 'crash')
		{
			my $when = "$end PREPARED, stop: $stop";
			my $there = $end eq 'COMMIT' ? 1 : 0;
			run_all($dbh, 'CREATE TABLE p (id int, n int) USING zen', 'CREATE INDEX gone ON p USING zentree (n)',
				'INSERT INTO p SELECT i, i FROM generate_series(1, 1000) i',
				'BEGIN', 'CREATE UNIQUE INDEX made ON p USING zentree (id)', 'DROP INDEX gone',
				'INSERT INTO p VALUES (1001, 1001)', q{PREPARE TRANSACTION 'p'});
			if ($stop eq 'orderly')
			{
				$dbh = clean_restart($node, $dbh);
			}
			elsif ($stop eq 'crash')
			{
				$dbh->disconnect;
				crash($node);
				start_again($node);
				$dbh = connect_db($node);
			}
			run_all($dbh, "$end PREPARED 'p'");
			my $column = $there ? 'id' : 'n';
			is(by_index("SELECT count(*) FROM p WHERE $column > 0"), 1000 + $there, "$when: rows by index");
			is(value($dbh, q{SELECT string_agg(indexrelname, ',') FROM zen_stat_indexes WHERE relid = 'p'::regclass}),
				$there ? 'made' : 'gone', "$when: trees");
			is(state_of($dbh, 'INSERT INTO p VALUES (7, 7)'), $there ? '23505' : '', "$when: unique");
			is_sound($dbh, $when);
			run_all($dbh, 'DROP TABLE p');
			is(value($dbh, 'SELECT count(*) FROM _zen_stat_indexes()'), 0, "$when: no tree is left");
		}
	}
	return;
}

# The processes that build a tree: [ leader, one of its workers ], or nothing if all is rebuilt.
sub builders
{
	my $seen;
	wait_for('a worker, or the end of the rebuild', sub {
			($seen) = @{ run_sql($dbh, q{SELECT leader_pid, pid FROM pg_stat_activity
			  WHERE backend_type = 'parallel worker'})->{rows} };
			return $seen || value($dbh, q{SELECT state = 'ready' AND tables_to_reindex = 0 FROM zen_recovery}); });
	return $seen;
}

sub test_workers
{
	my $rows = 100_000;
	run_all($dbh, 'SET zen.default_index = zentree', 'CREATE TABLE w (id int PRIMARY KEY, v text) USING zen',
		'CREATE INDEX ON w USING zentree (v)',
		"INSERT INTO w SELECT i, md5(i::text) FROM generate_series(1, $rows) i", 'DELETE FROM w WHERE id % 10 = 0');
	for my $victim ('nobody', 'worker', 'leader', 'all')
	{
		my $offset = log_size($node);
		$dbh->disconnect;
		$dbh = crash_restart($node);
		my $seen = $victim eq 'nobody' ? undef : builders();
		diag("no worker was seen where $victim should end") if !$seen && $victim ne 'nobody';
		$dbh = crash_restart($node) if $victim eq 'all';
		value($dbh, "SELECT pg_terminate_backend($seen->[1])") if $seen && $victim eq 'worker';
		value($dbh, "SELECT pg_terminate_backend($seen->[0])") if $seen && $victim eq 'leader';
		is(by_index('SELECT count(*) FROM w WHERE id > 0'), $rows * 0.9, "$victim ends: by primary key");
		is(by_index(q{SELECT count(*) FROM w WHERE v >= ''}), $rows * 0.9, "$victim ends: by text");
		is(state_of($dbh, q{INSERT INTO w VALUES (1, 'x')}), '23505', "$victim ends: unique");
		is_sound($dbh, "$victim ends");
		is(value($dbh, 'SELECT count(*) FROM _zen_stat_indexes()'), 2, "$victim ends: trees");
		like(log_since($node, $offset), qr/starting background worker process "parallel worker for PID/,
			"$victim ends: workers helped");
	}
	run_all($dbh, 'DROP TABLE w');
	return;
}

# The same tree made and dropped in every way takes no more memory the tenth time.
sub test_memory
{
	my @used;
	for my $round (1 .. 10)
	{
		run_all($dbh, 'CREATE TABLE m (id int, v text) USING zen',
			q{INSERT INTO m SELECT i, 'v' || i FROM generate_series(1, 20000) i},
			'CREATE INDEX a ON m USING zentree (id)', 'CREATE INDEX b ON m USING zentree (v)',
			'REINDEX TABLE m', 'REINDEX INDEX CONCURRENTLY b',
			'BEGIN', 'REINDEX TABLE m', 'SAVEPOINT s', 'CREATE INDEX c ON m USING zentree (id, v)', 'ROLLBACK TO s',
			'ROLLBACK', 'TRUNCATE m', 'DROP TABLE m');
		is(value($dbh, 'SELECT count(*) FROM _zen_stat_indexes()'), 0, 'no tree is left') if $round == 1;
		push @used, value($dbh, 'SELECT dram_used_bytes FROM zen_stat');
	}
	cmp_ok($used[9], '<', $used[1] + 4 * 1024 * 1024, 'memory comes back') or diag(join ' ', @used);
	# entries that come at one end and go at the other
	run_all($dbh, 'CREATE TABLE q (id int) USING zen', 'CREATE INDEX ON q USING zentree (id)');
	my @bytes;
	for my $round (1 .. 8)
	{
		my $from = $round * 10000;
		run_all($dbh, "INSERT INTO q SELECT generate_series($from, $from + 9999)",
			"DELETE FROM q WHERE id < $from", 'VACUUM q');
		push @bytes, value($dbh, 'SELECT bytes FROM zen_stat_indexes');
	}
	cmp_ok($bytes[7], '<', 2 * $bytes[1], 'a queue does not grow') or diag(join ' ', @bytes);
	run_all($dbh, 'DROP TABLE q');
	return;
}

sub test_full
{
	run_all($dbh, 'CREATE TABLE f (id bigint, v text) USING zen', 'CREATE INDEX f_v ON f USING zentree (v)',
		'CREATE INDEX f_id ON f USING zentree (id)');
	my $rows = 0;
	my $state = '';
	for my $batch (0 .. 200)
	{
		my $from = $batch * 5000;
		$state = state_of($dbh,
			"INSERT INTO f SELECT i, md5(i::text) || md5((-i)::text) FROM generate_series($from, $from + 4999) i");
		last if $state;
		$rows += 5000;
	}
	is($state, '53200', "DRAM is full after $rows rows");
	cmp_ok($rows, '>', 0, 'some rows have found room');
	is(value($dbh, 'SELECT count(*) FROM f'), $rows, 'full: rows');
	is(by_index('SELECT count(*) FROM f WHERE id >= 0'), $rows, 'full: by index');
	is(by_index(q{SELECT count(*) FROM f WHERE v >= ''}), $rows, 'full: by the other index');
	is_sound($dbh, 'full');
	is(value($dbh, 'SELECT count(*) FROM (SELECT v FROM f ORDER BY v LIMIT 10) x'), 10, 'full: reads go on');
	# the way out
	run_all($dbh, 'DROP INDEX f_v', 'CREATE INDEX f_v ON f (v)');
	is(state_of($dbh, 'INSERT INTO f SELECT -i, md5(i::text) FROM generate_series(1, 2000) i'), '',
		'a btree in its place: rows find room');
	is(by_index('SELECT count(*) FROM f WHERE id < 0'), 2000, 'and are found');
	run_all($dbh, 'DELETE FROM f', 'VACUUM f', 'DROP TABLE f');
	return;
}

# stop_and_start -- in one way or the other.
sub stop_and_start
{
	my ($how) = @_;
	return $how eq 'orderly' ? clean_restart($node, $dbh) : crash_restart($node);
}

# No background worker has made the trees; in mode wal it may have.
sub test_first_statement
{
	set_conf($node, 'max_worker_processes = 1') if !by_wal($node);
	run_all($dbh, 'SET zen.default_index = zentree',
		'CREATE TABLE c (id int PRIMARY KEY, n int, v text, EXCLUDE USING zentree (n WITH =)) USING zen',
		q{INSERT INTO c SELECT i, i, 'old' FROM generate_series(1, 100) i});
	for my $how ('orderly', 'crash')
	{
		for my $sql (
			q{INSERT INTO c VALUES (7, 1000, 'new') ON CONFLICT (id) DO UPDATE SET v = 'new'},
			q{INSERT INTO c VALUES (7, 1000, 'new') ON CONFLICT DO NOTHING},
			q{INSERT INTO c VALUES (1000, 7, 'new') ON CONFLICT DO NOTHING},
			q{MERGE INTO c USING (VALUES (7)) x(id) ON c.id = x.id WHEN MATCHED THEN UPDATE SET v = 'new'},
			'VACUUM c', 'ANALYZE c', 'CLUSTER c USING c_pkey')
		{
			$dbh = stop_and_start($how);
			is(run_sql($dbh, $sql)->{message}, '', "first statement, $how: $sql");
			is(value($dbh, 'SELECT count(*) FROM c'), 100, 'and no row is new');
		}
	}
	is_sound($dbh, 'first statement');
	run_all($dbh, 'DROP TABLE c');
	set_conf($node, 'max_worker_processes = 8');
	return;
}

sub test_little_dram
{
	run_all($dbh, 'SET zen.default_index = zentree', 'CREATE TABLE l (id bigint, v text PRIMARY KEY) USING zen',
		'CREATE TABLE other (id int PRIMARY KEY) USING zen', 'INSERT INTO other VALUES (1)',
		q{INSERT INTO l SELECT i, repeat(md5(i::text), 3) FROM generate_series(1, 150000) i});
	for my $how ('orderly', 'crash')
	{
		set_conf($node, 'zen.dram_size = 16MB');
		my $offset = log_size($node);
		$dbh = stop_and_start($how);
		wait_for('the rebuild to be given up',
			sub { log_since($node, $offset) =~ /index "l_pkey" could not be rebuilt.*is not available/ });
		my $told = run_sql($dbh, 'SELECT count(*) FROM l');
		is($told->{state}, '53200', "little DRAM, $how: who comes to the table has the error");
		like($told->{message}, qr/rebuilding index "l_pkey"/, "little DRAM, $how: and is told of the index");
		is(value($dbh, q{SELECT indisvalid FROM pg_index WHERE indexrelid = 'l_pkey'::regclass}), 1,
			"little DRAM, $how: the primary key stays valid");
		is(state_of($dbh, 'INSERT INTO other VALUES (2)'), '', "little DRAM, $how: half a tree takes no memory");
		run_all($dbh, 'DELETE FROM other WHERE id = 2');
		set_conf($node, 'zen.dram_size = 64MB');
		$dbh = clean_restart($node, $dbh);
		is(by_index(q{SELECT count(*) FROM l WHERE v > ''}), 150000, "little DRAM, $how: with more DRAM it is there");
		is(state_of($dbh, q{INSERT INTO l VALUES (0, repeat(md5('7'), 3))}), '23505', "little DRAM, $how: and unique");
	}
	set_conf($node, 'zen.dram_size = 16MB');
	$dbh = clean_restart($node, $dbh);
	run_all($dbh, 'ALTER TABLE l DROP CONSTRAINT l_pkey');
	is(value($dbh, 'SELECT count(*) FROM l'), 150000, 'little DRAM: without the index the table opens');
	run_all($dbh, 'ALTER TABLE l ADD CONSTRAINT l_pkey PRIMARY KEY (id)', 'DROP TABLE l, other');
	set_conf($node, 'zen.dram_size = 64MB');
	$dbh = clean_restart($node, $dbh);
	return;
}

# Their functions want a setting that no background worker has: one when it is called, one when the index is opened.
sub test_failing_function
{
	run_all($dbh, q{SET app.factor = '1'},
		q{CREATE FUNCTION called(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
			$$ BEGIN RETURN $1 * current_setting('app.factor')::int; END $$},
		q{CREATE FUNCTION inlined() RETURNS int IMMUTABLE LANGUAGE sql AS
			$$ SELECT current_setting('app.factor')::int $$});
	for my $expression ('called(n)', 'n * inlined()')
	{
		run_all($dbh, 'SET zen.default_index = zentree', 'CREATE TABLE x (id int, n int) USING zen',
			'INSERT INTO x SELECT i, i FROM generate_series(1, 100) i',
			"CREATE UNIQUE INDEX x_e ON x USING zentree (($expression))");
		$dbh = clean_restart($node, $dbh);
		wait_for('the table to be readable', sub { state_of($dbh, 'SELECT count(*) FROM x') eq '' });
		isnt(state_of($dbh, 'INSERT INTO x VALUES (101, 7)'), '', "$expression: no second row of a key");
		run_all($dbh, q{SET app.factor = '1'});
		is(state_of($dbh, 'INSERT INTO x VALUES (101, 7)'), '55000', "$expression: nor where it could be called");
		is(value($dbh, 'SELECT count(*) FROM x WHERE n = 7'), 1, "$expression: rows can be read");
		run_all($dbh, 'DELETE FROM x WHERE id = 100', 'VACUUM x');
		run_all($dbh, 'REINDEX INDEX x_e');
		is(state_of($dbh, 'INSERT INTO x VALUES (101, 7)'), '23505', "$expression: REINDEX brings it back");
		is(state_of($dbh, 'INSERT INTO x VALUES (101, 101)'), '', "$expression: with room for others");
		is_sound($dbh, $expression);
		run_all($dbh, 'DROP TABLE x');
	}
	return;
}
