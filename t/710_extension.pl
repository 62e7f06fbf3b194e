# What users do with tables, beyond what PostgreSQL's own suites ask; sql/ has COPY, CLUSTER, VACUUM FULL, SET ACCESS
# METHOD, partitions, REFRESH CONCURRENTLY, roles, wide rows; 010_pool has CREATE DATABASE ... TEMPLATE and standbys.
#
# - pg_dump in its formats, parallel pg_restore, pg_dumpall; partitions come back attached
# - tablespaces; LISTEN and NOTIFY; advisory locks; 100 MB in one value
# - cancel and timeouts in scans, index builds and VACUUM; progress views; EXPLAIN (ANALYZE, BUFFERS)
# - autovacuum and statistics
# - thousands of small tables; since PostgreSQL 17, zen as the access method of partitioned tables
# - logical replication into a zen table; base backups of zen tables
# - zen tables that belong to an extension; DROP EXTENSION zen; ALTER EXTENSION zen UPDATE

use strict;
use warnings;

use File::Basename 'dirname';
use File::Copy 'copy';
use File::Spec;
use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('users', pool_size => '1GB', dram_size => '512MB', conf => "max_prepared_transactions = 0\n");
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_dump();
test_tablespace();
test_notify();
test_advisory_locks();
test_large_values();
test_interrupts();
test_progress();
test_explain();
test_autovacuum();
test_many_tables();
test_partitioned() if value($dbh, 'SHOW server_version_num') >= 170000;
test_extension_update();
test_extension_drop();
$dbh->disconnect;
$node->stop;
test_extension_member();
test_replication();
test_base_backup();
done_testing();

# --- tools ------------------------------------------------------------------

# execute -- statements, none of which may fail.
sub execute
{
	my ($handle, @statements) = @_;
	value($handle, $_) for @statements;
	return;
}

# start -- begin a statement without waiting for its end; pg_result waits.
sub start
{
	my ($handle, $sql) = @_;
	$handle->do($sql, { pg_async => DBD::Pg::PG_ASYNC(), pg_direct => 1 });
	return;
}

# program -- a program of PostgreSQL must succeed.
sub program
{
	my ($server, $name, @command) = @_;
	local $ENV{PGHOST} = $server->host;
	local $ENV{PGPORT} = $server->port;
	my ($out, $err);
	my $ok = IPC::Run::run(\@command, '>', \$out, '2>', \$err);
	ok($ok, $name) or diag($err);
	return $out;
}

# --- dump and restore -------------------------------------------------------

# What a dump must bring back, in one string.
sub dumped
{
	my ($handle) = @_;
	return join "\n", map { "$_ " . contents($handle, $_) } qw(d.parent d.child d.part d.part_b d.view d.big d.same);
}

# Names, access methods and index attachment of everything in the schema.
sub structure
{
	my ($handle) = @_;
	return value($handle, q{
		SELECT string_agg(concat_ws(' ', c.relname, c.relkind, am.amname, p.relname, i.indisvalid, i.indisprimary), E'\n' ORDER BY c.relname)
		FROM pg_class c LEFT JOIN pg_am am ON am.oid = c.relam LEFT JOIN pg_inherits h ON h.inhrelid = c.oid
		LEFT JOIN pg_class p ON p.oid = h.inhparent LEFT JOIN pg_index i ON i.indexrelid = c.oid
		WHERE c.relnamespace = 'd'::regnamespace});
}

sub test_dump
{
	execute($dbh, 'CREATE DATABASE source');
	my $source = connect_db($node, 'source');
	execute($source, 'CREATE EXTENSION zen', 'ALTER DATABASE source SET default_table_access_method = zen',
		'SET default_table_access_method = zen', 'CREATE SCHEMA d',
		'CREATE TABLE d.parent (id int PRIMARY KEY, v text UNIQUE)',
		'CREATE TABLE d.child (id serial PRIMARY KEY, p int REFERENCES d.parent ON DELETE CASCADE, n numeric CHECK (n > 0))',
		'CREATE INDEX ON d.child (p) INCLUDE (n)',
		'CREATE TABLE d.part (k int, v text, PRIMARY KEY (k)) PARTITION BY RANGE (k)',
		'CREATE TABLE d.part_a PARTITION OF d.part FOR VALUES FROM (0) TO (100)',
		'CREATE TABLE d.part_b (v text, k int NOT NULL)',
		'CREATE UNIQUE INDEX part_b_key ON d.part_b (k)',
		'CREATE INDEX part_v ON d.part (v)',
		'CREATE TABLE d.part_h (k int NOT NULL, v text) USING heap',
		q{INSERT INTO d.part_b SELECT 'b' || g, g FROM generate_series(100, 199) g},
		'ALTER TABLE d.part ATTACH PARTITION d.part_b FOR VALUES FROM (100) TO (200)',
		'ALTER TABLE d.part ATTACH PARTITION d.part_h FOR VALUES FROM (200) TO (300)',
		'CREATE TABLE d.part_c PARTITION OF d.part FOR VALUES FROM (300) TO (400)',
		q{INSERT INTO d.part SELECT g, 'p' || g FROM generate_series(0, 99) g},
		q{INSERT INTO d.part SELECT g, 'p' || g FROM generate_series(200, 399) g},
		'ALTER TABLE d.part DETACH PARTITION d.part_c',
		q{INSERT INTO d.parent SELECT g, 'parent ' || g FROM generate_series(1, 1000) g},
		'INSERT INTO d.child (p, n) SELECT g % 1000 + 1, g FROM generate_series(1, 5000) g',
		'CREATE MATERIALIZED VIEW d.view AS SELECT p, sum(n) FROM d.child GROUP BY p',
		'CREATE UNIQUE INDEX ON d.view (p)',
		q{CREATE TABLE d.big AS SELECT g AS id, repeat(md5(g::text), 2000) AS t, decode(repeat(md5(g::text), 500), 'hex') AS b FROM generate_series(1, 20) g},
		'CREATE TABLE d.same USING heap AS SELECT 1 AS a');
	my ($rows, $structure) = (dumped($source), structure($source));
	like($structure, qr/^part_b r zen part$/m, 'there is an attached zen partition');

	my $dir = PostgreSQL::Test::Utils::tempdir();
	my %restore = (
		custom    => [ [qw(-Fc)],      [qw(-j 4)] ],
		directory => [ [qw(-Fd -j 4)], [qw(-j 4)] ],
		tar       => [ [qw(-Ft)],      [] ]);
	for my $format (sort keys %restore)
	{
		my ($dump, $jobs) = @{ $restore{$format} };
		program($node, "pg_dump, $format", 'pg_dump', @$dump, '-f', "$dir/$format", 'source');
		program($node, "pg_restore, $format", 'pg_restore', @$jobs, '-C', '-d', 'postgres', "$dir/$format")
		  if rename_database('source', 'original');
		my $copy = connect_db($node, 'source');
		is(dumped($copy), $rows, "$format: all rows");
		is(structure($copy), $structure, "$format: all tables and indexes");
		is(contents($copy, 'd.parent', 'indexscan', 'id > 0'), contents($copy, 'd.parent'), "$format: indexes");
		is(state_of($copy, 'INSERT INTO d.child (p, n) VALUES (1, 1)'), '', "$format: sequence goes on");
		is(state_of($copy, 'INSERT INTO d.child (p, n) VALUES (-1, 1)'), '23503', "$format: foreign key");
		$copy->disconnect;
		value($dbh, 'DROP DATABASE source');
		rename_database('original', 'source');
	}

	$source->disconnect;
	program($node, 'pg_dumpall', 'pg_dumpall', '-f', "$dir/all");
	value($dbh, 'DROP DATABASE source');
	my $other = new_node('other', pool_size => '512MB');
	$other->start;
	program($other, 'psql', 'psql', '-X', '-q', '-o', '/dev/null', '-f', "$dir/all", 'postgres');
	my $copy = connect_db($other, 'source');
	is(dumped($copy), $rows, 'pg_dumpall: all rows');
	is(structure($copy), $structure, 'pg_dumpall: all tables and indexes');
	$copy->disconnect;
	$other->stop;
	return;
}

# Nobody is connected but $dbh and whoever is thrown out here.
sub rename_database
{
	my ($from, $to) = @_;
	value($dbh, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '$from'");
	value($dbh, "ALTER DATABASE $from RENAME TO $to");
	return 1;
}

# --- places and sessions ----------------------------------------------------

sub test_tablespace
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	execute($dbh, "CREATE TABLESPACE elsewhere LOCATION '$dir'",
		'CREATE TABLE ts (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO ts SELECT g, repeat('v', g * 10) FROM generate_series(1, 1000) g});
	my $rows = contents($dbh, 'ts');
	execute($dbh, 'ALTER TABLE ts SET TABLESPACE elsewhere', 'ALTER INDEX ts_pkey SET TABLESPACE elsewhere');
	is(contents($dbh, 'ts'), $rows, 'SET TABLESPACE keeps the rows');
	is(contents($dbh, 'ts', 'indexscan', 'id > 0'), $rows, 'and the index');
	execute($dbh, 'BEGIN', 'ALTER TABLE ts SET TABLESPACE pg_default', 'DELETE FROM ts', 'ROLLBACK');
	is(contents($dbh, 'ts'), $rows, 'SET TABLESPACE rolled back');
	execute($dbh, 'ALTER INDEX ALL IN TABLESPACE elsewhere SET TABLESPACE pg_default',
		'ALTER TABLE ALL IN TABLESPACE elsewhere SET TABLESPACE pg_default');
	is(contents($dbh, 'ts', 'indexscan', 'id > 0'), $rows, 'ALL IN TABLESPACE');
	$node->restart;
	$dbh = connect_db($node);
	is(contents($dbh, 'ts'), $rows, 'all there after a restart');
	execute($dbh, 'DROP TABLE ts', 'DROP TABLESPACE elsewhere');
	return;
}

# A notification comes when the zen transaction commits, and never when it does not.
sub test_notify
{
	my $listener = connect_db($node);
	execute($dbh, 'CREATE TABLE n (id int PRIMARY KEY) USING zen');
	value($listener, 'LISTEN news');
	execute($dbh, 'BEGIN', 'INSERT INTO n VALUES (1)', q{NOTIFY news, 'one'}, 'ROLLBACK',
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
	execute($dbh, 'CREATE TABLE counter (n int) USING zen', 'INSERT INTO counter VALUES (0)');
	my @sessions = map { connect_db($node) } 1 .. 2;
	for my $round (1 .. 20)
	{
		my ($first, $second) = $round % 2 ? @sessions : reverse @sessions;
		execute($first, 'BEGIN', 'SELECT pg_advisory_xact_lock(7)',
			'UPDATE counter SET n = (SELECT n FROM counter) + 1');
		is(value($second, 'SELECT pg_try_advisory_lock(7)'), 0, 'the lock is held') if $round == 1;
		value($first, 'COMMIT');
	}
	is(value($dbh, 'SELECT n FROM counter'), 20, 'no update was lost');
	$_->disconnect for @sessions;
	value($dbh, 'DROP TABLE counter');
	return;
}

sub test_large_values
{
	my $mb = 100;
	execute($dbh, 'CREATE TABLE large (id int PRIMARY KEY, t text, b bytea) USING zen',
		'ALTER TABLE large ALTER t SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL',
		"INSERT INTO large VALUES (1, repeat('0123456789abcdef', $mb * 65536))",
		"INSERT INTO large SELECT 2, NULL, decode(repeat('00ff10a5', $mb * 131072 * 2), 'hex')",
		"INSERT INTO large SELECT 3, repeat('compressible', $mb * 87381), NULL");
	my $sums = sub {
		return value($dbh, q{SELECT string_agg(concat_ws(' ', id, length(t), md5(t), length(b), md5(b)), ', ' ORDER BY id) FROM large});
	};
	my $before = $sums->();
	like($before, qr/1 104857600 .*2 104857600 /, '100 MB of text and of bytea');
	is(value($dbh, 'SELECT substr(t, 104857600 - 15) FROM large WHERE id = 1'), '0123456789abcdef', 'a slice from the end');
	is(state_of($dbh, "UPDATE large SET t = t || 'x' WHERE id = 3"), '', 'a large value changed');
	value($dbh, "UPDATE large SET t = left(t, -1) WHERE id = 3");
	is($sums->(), $before, 'and changed back');
	$dbh->disconnect;
	$node->restart;
	$dbh = connect_db($node);
	is($sums->(), $before, 'all there after a restart');
	execute($dbh, 'DROP TABLE large');
	return;
}

# --- long statements --------------------------------------------------------

# A statement that takes long must end soon after its timeout or a cancel, and leave nothing behind.
sub test_interrupts
{
	execute($dbh, 'CREATE TABLE long (id int, v text) USING zen',
		q{INSERT INTO long SELECT g, 'v' || g FROM generate_series(1, 200000) g},
		q{CREATE FUNCTION slow(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.001); RETURN $1; END'});
	my $rows = contents($dbh, 'long');
	my %statement = (
		'scan'                    => q{SELECT count(*) FROM long a, long b, long c},
		'scan that finds nothing' => q{SELECT count(*) FROM generate_series(1, 100000) g, LATERAL (SELECT 1 FROM long WHERE id = -g OFFSET 0) s},
		'index build'             => 'CREATE INDEX long_slow ON long (slow(id))',
		'concurrent index build'  => 'CREATE INDEX CONCURRENTLY long_slow ON long (slow(id))',
		'update'                  => 'UPDATE long SET v = slow(id)::text',
		'rewrite'                 => 'ALTER TABLE long ALTER id TYPE bigint USING slow(id)',
		'copy'                    => q{COPY (SELECT slow(id) FROM long) TO '/dev/null'});
	for my $name (sort keys %statement)
	{
		value($dbh, "SET statement_timeout = '200ms'");
		is(state_of($dbh, $statement{$name}), '57014', "$name: timeout");
		value($dbh, 'RESET statement_timeout');
		value($dbh, 'DROP INDEX IF EXISTS long_slow');
	}
	is(contents($dbh, 'long'), $rows, 'nothing was changed');

	# pg_cancel_backend() reaches an index build and a scan in parallel workers
	execute($dbh, 'SET max_parallel_workers_per_gather = 2', 'SET min_parallel_table_scan_size = 0',
		'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0');
	my $other = connect_db($node);
	my $pid   = value($dbh, 'SELECT pg_backend_pid()');
	for my $sql ('CREATE INDEX long_slow ON long (slow(id))', 'SELECT count(*) FROM long a JOIN long b ON a.id < b.id')
	{
		start($dbh, $sql);
		wait_for('the statement to run', sub {
			value($other, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND state = 'active'") });
		wait_for('the statement to end', sub {
			value($other, "SELECT pg_cancel_backend($pid)");
			return $dbh->pg_ready });
		$dbh->pg_result;
		is($dbh->state, '57014', "cancelled: $sql");
	}
	$other->disconnect;
	$dbh->disconnect;
	$dbh = connect_db($node);
	is(contents($dbh, 'long'), $rows, 'the table is as it was');
	is(value($dbh, q{SELECT count(*) FROM pg_class WHERE relname = 'long_slow'}), 0, 'no index is left');
	execute($dbh, 'DROP TABLE long', 'DROP FUNCTION slow');
	return;
}

# An index expression waits for an advisory lock, so that the build stands still while it is looked at.
sub test_progress
{
	execute($dbh, 'CREATE TABLE progress (id int) USING zen WITH (autovacuum_enabled = off)',
		'INSERT INTO progress SELECT generate_series(1, 6400)',
		q{CREATE FUNCTION stop_at(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
		  'BEGIN IF $1 = 3200 THEN PERFORM pg_advisory_xact_lock_shared(9); END IF; RETURN $1; END'});
	my $worker = connect_db($node);
	my @statements = (
		[ 'CREATE INDEX progress_i ON progress (stop_at(id))',
			q{SELECT concat_ws(' ', phase, blocks_total) FROM pg_stat_progress_create_index}, qr/^building index: scanning table 100$/ ],
		[ 'ANALYZE progress', 'SELECT phase FROM pg_stat_progress_analyze', qr/^computing statistics$/ ],
		[ 'VACUUM FULL progress', q{SELECT concat_ws(' ', command, phase) FROM pg_stat_progress_cluster}, qr/^VACUUM FULL rebuilding index$/ ],
		[ q{COPY (SELECT stop_at(id) FROM progress) TO '/dev/null'},
			q{SELECT concat_ws(' ', command, tuples_processed) FROM pg_stat_progress_copy}, qr/^COPY TO 3199$/ ]);
	my $pid = value($worker, 'SELECT pg_backend_pid()');
	for my $statement (@statements)
	{
		my ($sql, $query, $expected) = @$statement;
		execute($dbh, 'SELECT pg_advisory_lock(9)');
		start($worker, $sql);
		wait_for('the advisory lock to be waited for', sub { lock_wait_pid($dbh, $pid) });
		like(value($dbh, $query) // 'nothing', $expected, "progress: $sql");
		execute($dbh, 'SELECT pg_advisory_unlock(9)');
		$worker->pg_result;
		is($worker->state // '', '', 'and it ended well');
	}

	# VACUUM sleeps in the index, often
	execute($worker, 'CREATE INDEX ON progress (id)', 'DELETE FROM progress WHERE id % 2 = 0',
		'SET vacuum_cost_delay = 100', 'SET vacuum_cost_limit = 1');
	start($worker, 'VACUUM progress');
	my $phase;
	wait_for('VACUUM to show its progress', sub {
		$phase = value($dbh, q{SELECT phase FROM pg_stat_progress_vacuum WHERE heap_blks_total = 100 AND phase = 'vacuuming indexes'}) });
	is($phase, 'vacuuming indexes', 'progress: VACUUM');
	value($dbh, "SELECT pg_cancel_backend($pid)");
	$worker->pg_result;
	$worker->disconnect;
	execute($dbh, 'DROP TABLE progress', 'DROP FUNCTION stop_at');
	return;
}

sub test_explain
{
	execute($dbh, 'CREATE TABLE x (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO x SELECT g, 'v' || g FROM generate_series(1, 10000) g}, 'VACUUM ANALYZE x');
	for my $sql ('SELECT * FROM x', 'SELECT * FROM x WHERE id = 5', 'SELECT id FROM x WHERE id < 50',
		q{UPDATE x SET v = 'new' WHERE id < 100}, 'DELETE FROM x WHERE id = 7')
	{
		my $plan = join "\n", map { $_->[0] } @{ run_sql($dbh, "EXPLAIN (ANALYZE, BUFFERS, WAL, VERBOSE) $sql")->{rows} };
		like($plan, qr/actual time.*Execution Time/s, "EXPLAIN (ANALYZE, BUFFERS, WAL): $sql");
	}
	value($dbh, 'DROP TABLE x');
	return;
}

# --- statistics -------------------------------------------------------------

# The daemon cleans up, analyzes and counts as it does for heap.
sub test_autovacuum
{
	execute($dbh, q{ALTER SYSTEM SET autovacuum = on}, q{ALTER SYSTEM SET autovacuum_naptime = '1s'},
		'SELECT pg_reload_conf()',
		'CREATE TABLE av (id int PRIMARY KEY, v text) USING zen WITH (autovacuum_vacuum_threshold = 100, autovacuum_analyze_threshold = 100)',
		q{INSERT INTO av SELECT g, 'v' || g FROM generate_series(1, 20000) g},
		'SELECT count(*) FROM av', 'SELECT count(*) FROM av WHERE id < 100',
		'UPDATE av SET v = v || id WHERE id % 10 = 0', 'DELETE FROM av WHERE id % 2 = 0',
		'SELECT pg_stat_force_next_flush()');
	wait_for('autovacuum', sub {
		value($dbh, q{SELECT autovacuum_count > 0 AND autoanalyze_count > 0 FROM pg_stat_user_tables WHERE relname = 'av'}) }, 600);

	# a session's counts may come after a VACUUM that has seen its rows already, and are added then, in heap as well
	execute($dbh, 'ANALYZE av');
	is(value($dbh, q{SELECT concat_ws(' ', n_tup_ins, n_tup_upd, n_tup_del, n_live_tup) FROM pg_stat_user_tables WHERE relname = 'av'}),
		'20000 2000 10000 10000', 'rows written and alive are counted');
	is(value($dbh, q{SELECT heap_blks_read = 0 AND heap_blks_hit >= 313 FROM pg_statio_user_tables WHERE relname = 'av'}),
		1, 'blocks read are counted');
	is(value($dbh, q{SELECT reltuples FROM pg_class WHERE relname = 'av'}), 10000, 'reltuples');
	is(value($dbh, q{SELECT count(*) > 0 FROM pg_stats WHERE tablename = 'av'}), 1, 'column statistics');
	execute($dbh, 'ALTER SYSTEM RESET ALL', 'SELECT pg_reload_conf()', 'DROP TABLE av');
	return;
}

# --- thousands of tables ----------------------------------------------------

# A small table costs its slots, not a page per writer.
sub test_many_tables
{
	my $tables = 5000;
	my $free = value($dbh, 'SELECT pages_free FROM zen_stat()');
	my @writers = map { connect_db($node) } 1 .. 4;
	for my $n (1 .. $tables)
	{
		value($writers[ $n % 4 ], "CREATE TABLE many_$n (id int PRIMARY KEY, v text) USING zen");
		for my $w (@writers)
		{
			my $id = value($w, 'SELECT pg_backend_pid()');
			value($w, "INSERT INTO many_$n VALUES ($id, 'small')");
		}
	}
	$_->disconnect for @writers;
	my $used = ($free - value($dbh, 'SELECT pages_free FROM zen_stat()')) * 64;
	cmp_ok($used / $tables, '<', 2, "a table of four rows by four writers takes less than 2 KB of the pool ($used KB for $tables)");
	execute($dbh, map { 'DO $$ BEGIN FOR i IN ' . ($_ * 100 + 1) . ' .. ' . ($_ * 100 + 100)
		. q{ LOOP EXECUTE 'DROP TABLE many_' || i; END LOOP; END $$} } 0 .. $tables / 100 - 1);
	return;
}

# A partitioned table's access method is that of its new partitions; the default is not asked then.
sub test_partitioned
{
	my $ams = sub {
		value($dbh, q{SELECT string_agg(concat_ws(' ', c.relname, am.amname), ', ' ORDER BY c.relname) FROM pg_class c
		  LEFT JOIN pg_am am ON am.oid = c.relam WHERE c.relname ~ '^pam' AND c.relkind IN ('r', 'p')});
	};
	execute($dbh, 'CREATE TABLE pam (k int PRIMARY KEY, v text) PARTITION BY RANGE (k) USING zen',
		'CREATE TABLE pam1 PARTITION OF pam FOR VALUES FROM (0) TO (100)', 'ALTER TABLE pam SET ACCESS METHOD heap',
		'CREATE TABLE pam2 PARTITION OF pam FOR VALUES FROM (100) TO (200)', 'ALTER TABLE pam SET ACCESS METHOD DEFAULT',
		'SET default_table_access_method = zen', 'CREATE TABLE pam3 PARTITION OF pam FOR VALUES FROM (200) TO (300)',
		q{INSERT INTO pam SELECT g, 'p' || g FROM generate_series(0, 299) g});
	is($ams->(), 'pam, pam1 zen, pam2 heap, pam3 zen', 'partitions have the access method of the partitioned table');
	my $rows = contents($dbh, 'pam');
	execute($dbh, 'ALTER TABLE pam SET ACCESS METHOD zen', 'ALTER TABLE pam2 SET ACCESS METHOD DEFAULT', 'CREATE INDEX ON pam (v)');
	is($ams->(), 'pam zen, pam1 zen, pam2 zen, pam3 zen', 'SET ACCESS METHOD DEFAULT');
	is(contents($dbh, 'pam'), $rows, 'and no row is lost');
	is(contents($dbh, 'pam', 'indexscan', 'k >= 0'), $rows, 'nor in the index');
	execute($dbh, 'CREATE TEMP TABLE pam_temp (k int)', 'CREATE TEMP TABLE pam_parent (k int) PARTITION BY RANGE (k)');
	is(state_of($dbh, "ALTER TABLE $_"), '0A000', "a temporary table cannot get zen: $_")
	  for 'pam_temp SET ACCESS METHOD DEFAULT', 'pam_parent SET ACCESS METHOD zen';
	execute($dbh, 'ALTER TABLE pam_parent SET ACCESS METHOD DEFAULT', 'RESET default_table_access_method',
		'CREATE TEMP TABLE pam_child PARTITION OF pam_parent DEFAULT', 'INSERT INTO pam_parent VALUES (1)');
	is($ams->(), 'pam zen, pam1 zen, pam2 zen, pam3 zen, pam_child heap, pam_parent, pam_temp heap', 'temporary partitions are heap');
	execute($dbh, 'DROP TABLE pam, pam_parent, pam_temp');
	return;
}

# --- extensions -------------------------------------------------------------

sub test_extension_update
{
	is(state_of($dbh, 'ALTER EXTENSION zen UPDATE'), '', 'ALTER EXTENSION zen UPDATE');
	is(state_of($dbh, q{ALTER EXTENSION zen UPDATE TO '1.0'}), '', 'to the version that is there');
	is(state_of($dbh, q{ALTER EXTENSION zen UPDATE TO '0.0'}), '22023', 'to one that is not');
	is(value($dbh, q{SELECT count(*) FROM pg_extension_update_paths('zen') WHERE source <> target AND path IS NULL}), 0, 'every version leads to every later one');
	return;
}

sub test_extension_drop
{
	execute($dbh, 'CREATE DATABASE dropped');
	my $handle = connect_db($node, 'dropped');
	execute($handle, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY, t text) USING zen',
		q{INSERT INTO z SELECT g, repeat('x', 500) FROM generate_series(1, 20000) g},
		'CREATE TABLE h USING heap AS SELECT 1 AS a', 'CREATE VIEW v AS SELECT * FROM z');
	my $result = run_sql($handle, 'DROP EXTENSION zen');
	is($result->{state}, '2BP01', 'DROP EXTENSION zen is refused while there are zen tables');
	like($result->{message}, qr/table z depends on access method zen.*HINT/s, 'names them');
	is(value($handle, 'SELECT count(*) FROM z'), 20000, 'and they are as they were');
	execute($handle, 'BEGIN', 'DROP EXTENSION zen CASCADE', 'ROLLBACK');
	is(value($handle, 'SELECT count(*) FROM z'), 20000, 'CASCADE rolled back');
	my $free = value($dbh, 'SELECT pages_free FROM zen_stat()');
	value($handle, 'DROP EXTENSION zen CASCADE');
	is(value($handle, q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace}),
		'h', 'CASCADE drops zen tables only');
	wait_for('the pages of the dropped table', sub { value($dbh, 'SELECT pages_free FROM zen_stat()') > $free + 100 });
	pass('and gives their pages back');
	execute($handle, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY) USING zen', 'INSERT INTO z VALUES (1)');
	is(value($handle, 'SELECT count(*) FROM z'), 1, 'zen again');
	$handle->disconnect;
	value($dbh, 'DROP DATABASE dropped');
	return;
}

# A copy of the server's program that finds the files of extensions, by name, more. PostgreSQL looks for its files relative to the program.
sub private_installation
{
	my (%files) = @_;
	my ($bin)   = PostgreSQL::Test::Utils::run_command([ 'pg_config', '--bindir' ]);
	my ($share) = PostgreSQL::Test::Utils::run_command([ 'pg_config', '--sharedir' ]);
	my ($lib)   = PostgreSQL::Test::Utils::run_command([ 'pg_config', '--pkglibdir' ]);
	my $root = PostgreSQL::Test::Utils::tempdir();
	my $link_all = sub {
		my ($from, $to) = @_;
		system('mkdir', '-p', $to) == 0 or die;
		symlink($_, "$to/" . (File::Spec->splitpath($_))[2]) for glob("$from/*");
	};
	$link_all->($share, "$root$share");
	unlink "$root$share/extension";
	$link_all->("$share/extension", "$root$share/extension");
	system('mkdir', '-p', "$root$bin", dirname("$root$lib")) == 0 or die;
	symlink($lib, "$root$lib") unless -e "$root$lib";
	for my $program (glob("$bin/*"))
	{
		copy($program, "$root$bin/") or die "cannot copy $program: $!";
		chmod 0755, "$root$bin/" . (File::Spec->splitpath($program))[2];
	}
	PostgreSQL::Test::Utils::append_to_file("$root$share/extension/$_", $files{$_}) for keys %files;
	return "$root$bin";
}

# Extensions with a zen table of their own, with tables that say nothing of zen, and with none.
sub extension_files
{
	return (
		'owner.control' => "default_version = '1'\nrequires = 'zen'\nrelocatable = true\n",
		'owner--1.sql'  => <<'SQL',
CREATE TABLE owned (id int PRIMARY KEY, v text) USING zen;
CREATE INDEX ON owned (v);
INSERT INTO owned VALUES (1, 'by the script');
SELECT pg_extension_config_dump('owned', 'WHERE id > 1');
SQL
		'plain.control'    => "default_version = '1'\n",
		'plain--1.sql'     => <<'SQL',
CREATE TABLE e_plain (id int PRIMARY KEY, v text);
CREATE TABLE e_zen (id int) USING zen;
CREATE TABLE e_as AS SELECT 1 AS a;
CREATE TABLE e_as_zen USING zen AS SELECT 1 AS a;
SELECT 1 AS a INTO e_into;
CREATE MATERIALIZED VIEW e_view AS SELECT 1 AS a;
CREATE TABLE e_part (id int) PARTITION BY LIST (id);
CREATE TABLE e_part_1 PARTITION OF e_part FOR VALUES IN (1);
CREATE TABLE e_part_2 PARTITION OF e_part FOR VALUES IN (2) USING zen;
CREATE TABLE e_like (LIKE e_zen);
CREATE SCHEMA e_schema CREATE TABLE e_nested (id int);
DO $do$ BEGIN CREATE TABLE e_do (id int); EXECUTE 'CREATE TABLE e_do_as AS SELECT 1 AS a'; END $do$;
CREATE FUNCTION e_make(name text, am text) RETURNS void LANGUAGE plpgsql AS
$f$ BEGIN EXECUTE format('CREATE TABLE %I (id int) %s', name, am); END $f$;
SELECT e_make('e_called', ''), e_make('e_called_zen', 'USING zen');
ALTER TABLE e_zen ADD COLUMN w int DEFAULT random();
SQL
		'plain--1--2.sql' => "CREATE TABLE e_updated (id int);\nCREATE TABLE e_updated_zen (id int) USING zen;\nREFRESH MATERIALIZED VIEW e_view;\n",
		'parent.control'  => "default_version = '1'\nrequires = 'plain'\n",
		'parent--1.sql'   => "CREATE TABLE e_parent (id int);\n",
		'parts.control'   => "default_version = '1'\n",
		'parts--1.sql'    => <<'SQL',
CREATE TABLE p_zen (id int) PARTITION BY LIST (id) USING zen;
CREATE TABLE p_zen_1 PARTITION OF p_zen FOR VALUES IN (1);
CREATE TABLE p_zen_2 PARTITION OF p_zen FOR VALUES IN (2) USING heap;
CREATE TABLE p_default (id int) USING zen;
ALTER TABLE p_default SET ACCESS METHOD DEFAULT;
SQL
		'wrong.control'   => "default_version = '1'\n",
		'wrong--1.sql'    => "CREATE TABLE e_wrong (id int);\nSELECT 1 / 0;\n",
		'code.control'    => "default_version = '1'\n",
		'code--1.sql'     => "CREATE FUNCTION e_code() RETURNS int LANGUAGE sql AS 'SELECT 1';\nCREATE TABLE e_code_zen (id int) USING zen;\n");
}

sub methods
{
	my ($handle, $like) = @_;
	$like ||= 'e\_%';
	return value($handle, qq{SELECT string_agg(relname || ' ' || amname, ', ' ORDER BY relname) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE relname LIKE '$like' AND relkind IN ('r', 'm', 'p')});
}

# While zen is the default, tables of an extension are zen's if its script says so.
sub test_extension_default
{
	my ($handle) = @_;
	my @notices;
	local $handle->{PrintWarn} = 1;
	local $SIG{__WARN__} = sub { push @notices, @_ };
	execute($handle, 'SET default_table_access_method = zen', 'SET client_min_messages = notice', 'CREATE EXTENSION plain');
	is(methods($handle), join(', ', map { "$_ " . (/zen|_2$/ ? 'zen' : 'heap') }
		  qw(e_as e_as_zen e_called e_called_zen e_do e_do_as e_into e_like e_nested e_part_1 e_part_2 e_plain e_view e_zen)),
		'CREATE EXTENSION while zen is the default: heap but for what says zen');
	is(scalar(grep { /NOTICE: .*tables of extension "plain" are heap tables/ } @notices), 1, 'a notice says so');
	is(value($handle, 'SHOW default_table_access_method'), 'zen', 'the default is what it was');
	@notices = ();
	execute($handle, q{ALTER EXTENSION plain UPDATE TO '2'});
	like(methods($handle), qr/e_updated heap, e_updated_zen zen, e_view heap/, 'ALTER EXTENSION UPDATE does the same');
	is(scalar(grep { /NOTICE: .*tables of extension "plain" are heap tables/ } @notices), 1, 'with a notice');
	execute($handle, 'DROP EXTENSION plain', 'CREATE EXTENSION parent CASCADE');
	like(methods($handle), qr/e_parent heap.* e_plain heap/, 'CREATE EXTENSION CASCADE, too');
	execute($handle, 'CREATE TABLE e_user (id int)', q{SELECT e_make('e_later', '')});
	like(methods($handle), qr/e_later zen.* e_user zen/, 'tables of the user, and of functions called by the user, are zen tables');
	is(state_of($handle, 'CREATE EXTENSION wrong'), '22012', 'a script that fails');
	is(value($handle, 'SHOW default_table_access_method'), 'zen', 'leaves the default as it was');
	@notices = ();
	execute($handle, 'CREATE EXTENSION code', 'DROP EXTENSION code', 'BEGIN', 'CREATE EXTENSION code', 'CREATE TABLE e_same (id int)', 'COMMIT');
	is_deeply(\@notices, [], 'no notice where no table is meant');
	like(methods($handle), qr/e_same zen/, 'a table made after it in the same transaction is a zen table');
	execute($handle, 'SET default_table_access_method = heap', 'CREATE TABLE e_heap (id int)', 'DROP EXTENSION parent', 'DROP EXTENSION plain', 'CREATE EXTENSION plain');
	is_deeply(\@notices, [], 'no notice while heap is the default');
	return if value($handle, 'SHOW server_version_num') < 170000;
	execute($handle, 'SET default_table_access_method = zen', 'CREATE EXTENSION parts');
	is(methods($handle, 'p\_%'), 'p_default heap, p_zen zen, p_zen_1 zen, p_zen_2 heap', 'what a partitioned table says is said');
	return;
}

# An extension may bring zen tables along, with rows that pg_dump leaves to it and rows that it does not.
sub test_extension_member
{
	my $bin = private_installation(extension_files());
	local $ENV{PATH} = "$bin:$ENV{PATH}";
	my $server = new_node('extension', pool_size => '64MB', dram_size => '128MB');
	$server->start;
	my $handle = connect_db($server);
	execute($handle, 'CREATE EXTENSION owner CASCADE', q{INSERT INTO owned VALUES (2, 'by the user')});
	is(state_of($handle, 'DROP TABLE owned'), '2BP01', 'a table of an extension stays with it');
	is(state_of($handle, 'ALTER TABLE owned ADD COLUMN w int DEFAULT 3'), '', 'but can be changed');
	value($handle, 'ALTER TABLE owned DROP COLUMN w');
	my $dir = PostgreSQL::Test::Utils::tempdir();
	program($server, 'pg_dump with an extension', 'pg_dump', '-Fc', '-f', "$dir/dump", 'postgres');
	value($handle, 'CREATE DATABASE restored');
	program($server, 'pg_restore with an extension', 'pg_restore', '-d', 'restored', "$dir/dump");
	my $restored = connect_db($server, 'restored');
	is(value($restored, q{SELECT string_agg(v, ', ' ORDER BY id) FROM owned}), 'by the script, by the user', 'its rows');
	$restored->disconnect;
	value($handle, 'DROP EXTENSION owner');
	is(state_of($handle, 'SELECT * FROM owned'), '42P01', 'DROP EXTENSION takes its zen table along');
	test_extension_default($handle);
	$handle->disconnect;
	$server->stop;
	return;
}

# --- replication and backup -------------------------------------------------

# Changes of heap tables arrive in zen tables.  610_publications.pl has the other direction.
sub test_replication
{
	my $publisher = new_node('publisher', pool_size => '64MB', dram_size => '128MB', init => { allows_streaming => 'logical' });
	my $subscriber = new_node('subscriber', pool_size => '64MB', dram_size => '128MB', init => { allows_streaming => 'logical' },
		conf => q{wal_writer_delay = '10s'});
	$_->start for $publisher, $subscriber;
	my ($from, $to) = map { connect_db($_) } $publisher, $subscriber;
	execute($_, 'CREATE EXTENSION zen') for $from, $to;
	execute($from, 'CREATE TABLE r (id int PRIMARY KEY, v text) USING heap', 'CREATE TABLE full_row (a int, b text) USING heap',
		'ALTER TABLE full_row REPLICA IDENTITY FULL',
		q{INSERT INTO r SELECT g, 'first ' || g FROM generate_series(1, 1000) g}, q{INSERT INTO full_row VALUES (1, 'x'), (2, NULL)},
		'CREATE PUBLICATION p FOR TABLE r, full_row');
	execute($to, 'CREATE TABLE r (id int PRIMARY KEY, v text) USING zen', 'CREATE TABLE full_row (a int, b text) USING zen',
		sprintf q{CREATE SUBSCRIPTION s CONNECTION 'host=%s port=%d dbname=postgres' PUBLICATION p}, $publisher->host, $publisher->port);
	execute($from, q{UPDATE r SET v = 'second ' || id WHERE id % 2 = 0}, 'DELETE FROM r WHERE id % 5 = 0',
		'UPDATE r SET id = -id WHERE id % 3 = 0', q{UPDATE full_row SET b = 'y' WHERE a = 2}, 'DELETE FROM full_row WHERE a = 1',
		'BEGIN', q{INSERT INTO r VALUES (5000, 'third')}, 'SAVEPOINT a', 'DELETE FROM r', 'ROLLBACK TO a', 'COMMIT');
	my $same = sub { join("\n", map { contents($_[0], $_) } 'r', 'full_row') };
	wait_for('the changes', sub { $same->($from) eq $same->($to) }, 600);
	is($same->($to), $same->($from), 'a zen table follows a heap table');
	is(contents($to, 'r', 'indexscan', 'id > -10000'), contents($from, 'r'), 'its index, too');
	value($from, 'TRUNCATE r');
	wait_for('TRUNCATE', sub { value($to, 'SELECT count(*) FROM r') == 0 }, 600);
	# a transaction that was applied is in zen from its commit on; it must not come again
	value($from, q{INSERT INTO r VALUES (2, 'before the crash')});
	wait_for('the last change', sub { value($to, 'SELECT count(*) FROM r') == 1 }, 600);
	crash($subscriber);
	value($from, q{INSERT INTO r VALUES (1, 'after the crash')});
	$subscriber->start;
	$to = connect_db($subscriber);
	eval { wait_for('the subscriber to go on', sub { $same->($from) eq $same->($to) }, 60) };
	is($same->($to), $same->($from), 'after a crash of the subscriber, too');
	value($to, 'DROP SUBSCRIPTION s');
	$_->disconnect for $from, $to;
	$_->stop for $publisher, $subscriber;
	return;
}

# What pg_basebackup has copied is not the pool: such a server does not start with zen tables, and starts without.
sub test_base_backup
{
	my $server = new_node('backed_up', pool_size => '64MB', dram_size => '128MB', init => { allows_streaming => 1 });
	$server->start;
	my $handle = connect_db($server);
	execute($handle, 'CREATE EXTENSION zen', 'CREATE TABLE z (a int PRIMARY KEY) USING zen', 'INSERT INTO z VALUES (1)',
		'CREATE TABLE h USING heap AS SELECT 2 AS a');
	$server->backup('copy');
	$handle->disconnect;
	$server->stop;

	my $restored = PostgreSQL::Test::Cluster->new('restored');
	$restored->init_from_backup($server, 'copy');
	pool_conf($restored, pool_path => pool_path($server), pool_size => '64MB', dram_size => '128MB');
	my $said = start_failing($restored);
	like($said // 'it started', qr/FATAL:.*HINT:/s, 'a base backup does not start on the pool of the original');
	unlink $restored->data_dir . '/zen.state';
	pool_conf($restored, pool_path => pool_path($server) . '.restored', pool_size => '64MB', dram_size => '128MB');
	$restored->start;
	$handle = connect_db($restored);
	is(value($handle, 'SELECT a FROM h'), 2, 'with a pool of its own its heap tables are there');
	my $result = run_sql($handle, 'SELECT * FROM z');
	isnt($result->{state}, '', 'its zen tables are errors');
	like($result->{message}, qr/HINT:/, 'with a hint');
	is(state_of($handle, 'DROP TABLE z'), '', 'and can be dropped');
	$handle->disconnect;
	$restored->stop;
	return;
}
