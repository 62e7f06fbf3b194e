# With zen.stream = off logical replication does not carry zen tables, and never in silence.
#
# - a statement that brings a zen table into a publication is refused, whichever of the two is there first
# - where both came about all the same, changes of the table are refused, and nothing else is
# - a server that has run with zen.stream = logical: a subscriber's copy stays right, as nothing changes
# - TRUNCATE of a zen table that is not published reaches no subscriber
# - indexes of zen tables stay unlogged when TRUNCATE is applied, which is no statement there

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
# in mode wal the stream is always on
my $node = new_node('publisher', pool_size => '64MB', dram_size => '128MB', init => { allows_streaming => 'logical' },
	conf => 'zen.pool_mode = emulated');
$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen');

test_publications();
test_tables();
test_all_tables();
test_no_statement();
test_race();
SKIP:
{
	skip 'the server has no test_decoding', 1 unless has_module('test_decoding');
	test_truncate();
}
test_wal_level();
test_let_be();
test_subscriber();
test_applied_truncate();
$dbh->disconnect;
$node->stop;
done_testing();

# Must be refused, for a table of this name.
sub refused
{
	my ($table, $sql) = @_;
	my $result = run_sql($dbh, $sql);
	my $what = $sql =~ s/\s+/ /gr;
	is($result->{state}, '0A000', "refused: $what");
	like($result->{message}, qr/publication "\w+" cannot send the changes of zen table "$table"/,
		'it names publication and table')
	  or return;
	like($result->{message}, qr/HINT:.*zen\.stream = logical.*FOR ALL TABLES.*shard_transfer_mode => 'block_writes'/,
		'and says what to do');
	return;
}

sub allowed
{
	my ($sql) = @_;
	is(run_sql($dbh, $sql)->{message}, '', 'allowed: ' . $sql =~ s/\s+/ /gr);
	return;
}

sub restart_with
{
	my ($settings) = @_;
	set_conf($node, $settings);
	$dbh = clean_restart($node, $dbh);
	return;
}

# A zen table is there first.
sub test_publications
{
	run_all($dbh, 'CREATE TABLE z (a int PRIMARY KEY, b text) USING zen',
		'CREATE TABLE h (a int PRIMARY KEY) USING heap',
		'CREATE TABLE root (a int PRIMARY KEY) PARTITION BY LIST (a)',
		'CREATE TABLE leaf1 PARTITION OF root FOR VALUES IN (1) USING heap',
		'CREATE TABLE leaf2 PARTITION OF root FOR VALUES IN (2) USING zen',
		'CREATE TABLE parent (a int) USING heap', 'CREATE TABLE child () INHERITS (parent) USING zen',
		'CREATE SCHEMA s', 'CREATE TABLE s.in_s (a int) USING zen', 'CREATE PUBLICATION p FOR TABLE h',
		q{CREATE PUBLICATION quiet FOR TABLE z WITH (publish = '')});
	refused('z', 'CREATE PUBLICATION q FOR TABLE h, z');
	refused('z', 'CREATE PUBLICATION q FOR TABLE z (a) WHERE (a > 0)');
	refused('z', q{CREATE PUBLICATION q FOR TABLE z WITH (publish = 'truncate')});
	refused('in_s', 'CREATE PUBLICATION q FOR TABLES IN SCHEMA s');
	refused('\w+', 'CREATE PUBLICATION q FOR ALL TABLES');
	refused('\w+', 'CREATE PUBLICATION q FOR ALL TABLES WITH (publish_via_partition_root)');
	refused('leaf2', 'CREATE PUBLICATION q FOR TABLE root');
	refused('leaf2', 'CREATE PUBLICATION q FOR TABLE root WHERE (a > 0) WITH (publish_via_partition_root)');
	refused('leaf2', 'CREATE PUBLICATION q FOR TABLE leaf2');
	refused('child', 'CREATE PUBLICATION q FOR TABLE parent');
	refused('z', 'ALTER PUBLICATION p ADD TABLE z');
	refused('z', 'ALTER PUBLICATION p SET TABLE z WHERE (a > 0)');
	refused('in_s', 'ALTER PUBLICATION p ADD TABLES IN SCHEMA s');
	refused('z', q{ALTER PUBLICATION quiet SET (publish = 'insert')});
	refused('z', q{DO $$ BEGIN EXECUTE 'CREATE PUBLICATION q FOR TABLE z'; END $$});
	is(value($dbh, 'SELECT count(*) FROM pg_publication_tables'), 2, 'nothing of that has stayed');
	allowed('CREATE PUBLICATION q FOR TABLE ONLY parent, TABLE leaf1');
	allowed('ALTER PUBLICATION q ADD TABLE h');
	run_all($dbh, 'DROP PUBLICATION p, q, quiet', 'DROP TABLE z, h, root, parent CASCADE', 'DROP SCHEMA s CASCADE');
	return;
}

# The publication is there first.
sub test_tables
{
	run_all($dbh, 'CREATE SCHEMA s', 'CREATE TABLE root (a int) PARTITION BY LIST (a)',
		'CREATE TABLE h (a int) USING heap',
		'CREATE PUBLICATION p FOR TABLE root, h',
			'CREATE PUBLICATION ps FOR TABLES IN SCHEMA s WITH (publish_via_partition_root)',
		'CREATE TABLE z (a int) USING zen', 'CREATE TABLE other_root (a int) PARTITION BY LIST (a)',
		'CREATE TABLE other_leaf PARTITION OF other_root FOR VALUES IN (1) USING zen',
		q{CREATE FUNCTION make() RETURNS void LANGUAGE plpgsql AS 'BEGIN CREATE TABLE s.made (a int) USING zen; END'});
	refused('n', 'CREATE TABLE s.n (a int) USING zen');
	refused('n', 'CREATE TABLE s.n USING zen AS SELECT 1 AS a WHERE false');
	refused('n', 'CREATE TABLE s.n USING zen AS SELECT 1 AS a');
	refused('n', 'CREATE TABLE n PARTITION OF root FOR VALUES IN (1) USING zen');
	refused('z', 'ALTER TABLE root ATTACH PARTITION z FOR VALUES IN (2)');
	refused('other_leaf', 'ALTER TABLE root ATTACH PARTITION other_root FOR VALUES IN (1)');
	refused('z', 'ALTER TABLE z SET SCHEMA s');
	refused('other_leaf', 'ALTER TABLE other_root SET SCHEMA s');
	refused('h', 'ALTER TABLE h SET ACCESS METHOD zen');
	refused('made', 'SELECT make()');
	run_all($dbh, q{SET default_table_access_method = 'zen'});
	refused('n', 'CREATE TABLE s.n (a int)');
	refused('n', 'SELECT 1 AS a INTO s.n');
	allowed('CREATE TEMP TABLE n (a int)');
	allowed('CREATE UNLOGGED TABLE s.n (a int)');
	allowed('CREATE MATERIALIZED VIEW s.m AS SELECT 1 AS a');
	allowed('REFRESH MATERIALIZED VIEW s.m');
	run_all($dbh, 'RESET default_table_access_method');
	allowed('CREATE TABLE s.wide (a int PRIMARY KEY, b text) USING heap');
	allowed('CREATE INDEX ON s.wide (b)');
	allowed('ALTER TABLE z RENAME TO zz');
	allowed('CREATE TABLE n PARTITION OF other_root FOR VALUES IN (2) USING zen');
	allowed('INSERT INTO zz VALUES (1)');
	# one statement undoes what another has done: what counts is how it ends
	my $result = run_sql($dbh, 'BEGIN; SAVEPOINT a; CREATE TABLE s.n2 (a int) USING zen');
	is($result->{state}, '0A000', 'refused in a subtransaction');
	allowed('ROLLBACK TO a');
	allowed('CREATE TABLE s.n2 (a int) USING heap');
	allowed('COMMIT');
	run_all($dbh, 'DROP PUBLICATION p, ps', 'DROP TABLE zz, h, root, other_root', 'DROP SCHEMA s CASCADE');
	return;
}

sub test_all_tables
{
	run_all($dbh, 'CREATE TABLE h (a int) USING heap', 'CREATE PUBLICATION p FOR ALL TABLES');
	refused('z', 'CREATE TABLE z (a int) USING zen');
	refused('h', 'ALTER TABLE h SET ACCESS METHOD zen');
	allowed('CREATE MATERIALIZED VIEW m USING zen AS SELECT 1 AS a');
	allowed('VACUUM FULL m');
	allowed('CREATE TABLE h2 (a int, b text) USING heap');
	allowed('CREATE TEMP TABLE z (a int)');
	refused('z', 'CREATE TABLE z (a int) USING zen');
	refused('z', 'CREATE TABLE z USING zen AS SELECT 1 AS a WHERE false');
	run_all($dbh, 'DROP PUBLICATION p', 'DROP TABLE h, h2, z', 'DROP MATERIALIZED VIEW m');
	return;
}

# No statement is seen that makes the table.
sub test_no_statement
{
	run_all($dbh, 'CREATE PUBLICATION p FOR ALL TABLES');
	allowed('EXPLAIN (ANALYZE, COSTS off) CREATE TABLE z (a, b) USING zen AS SELECT 1, 1 WHERE false');
	refused('n', 'EXPLAIN ANALYZE CREATE TABLE n USING zen AS SELECT 1 AS a');
	refused('z', 'INSERT INTO z VALUES (1)');
	run_all($dbh, 'DROP PUBLICATION p');
	allowed('INSERT INTO z VALUES (1)');
	run_all($dbh, 'DROP TABLE z');
	return;
}

# Published by an earlier configuration: changes are refused, and ALTER that does not bring more in is not.
sub check_changes
{
	my ($name) = @_;
	for my $change ('INSERT INTO z VALUES (3)', 'UPDATE z SET b = 1', 'DELETE FROM z',
		'COPY z (a) FROM PROGRAM $$echo 4$$',
		'INSERT INTO z VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 2',
		'MERGE INTO z USING (SELECT 1 AS a) s ON z.a = s.a WHEN MATCHED THEN DELETE', 'TRUNCATE z')
	{
		refused('z', $change);
	}
	is(value($dbh, 'SELECT count(*) FROM z'), 1, "$name: its row can be read");
	return;
}

sub test_let_be
{
	restart_with('zen.stream = logical');
	run_all($dbh, 'CREATE TABLE z (a int PRIMARY KEY, b int) USING zen', 'INSERT INTO z VALUES (1)',
		'CREATE TABLE z_too (a int) USING zen', 'CREATE PUBLICATION p FOR TABLE z, z_too',
		'CREATE TABLE h (a int) USING heap', 'CREATE PUBLICATION ph FOR TABLE h');
	restart_with('zen.stream = off');
	check_changes('published while the stream was on');
	allowed('ALTER TABLE z ADD COLUMN c int DEFAULT 1');
	allowed('ALTER TABLE z ALTER COLUMN b TYPE bigint');
	allowed('VACUUM FULL z');
	allowed('CREATE INDEX ON z (b)');
	allowed('ALTER TABLE z SET (fillfactor = 50)');
	allowed('ALTER TABLE z RENAME TO z2');
	allowed('ALTER TABLE z2 RENAME TO z');
	allowed('ALTER PUBLICATION p RENAME TO p2');
	allowed('ALTER PUBLICATION p2 OWNER TO CURRENT_USER');
	allowed('CREATE TABLE other (a int) USING zen');
	allowed('ALTER PUBLICATION ph SET TABLE h WHERE (a > 0)');
	refused('z\w*', 'ALTER PUBLICATION p2 ADD TABLE h');
	allowed('ALTER PUBLICATION p2 DROP TABLE z_too');
	allowed('INSERT INTO z_too VALUES (1)');
	allowed('ALTER TABLE z SET ACCESS METHOD heap');
	allowed('INSERT INTO z VALUES (2)');
	refused('z', 'ALTER TABLE z SET ACCESS METHOD zen');
	run_all($dbh, 'DROP PUBLICATION p2, ph', 'DROP TABLE z, z_too, h, other');
	return;
}

# Neither session sees what the other has not committed.
sub test_race
{
	my $other = connect_db($node);
	run_all($dbh, 'BEGIN', 'CREATE PUBLICATION p FOR ALL TABLES');
	value($other, 'CREATE TABLE z (a int PRIMARY KEY, b int) USING zen');
	value($other, 'INSERT INTO z VALUES (1)');
	run_all($dbh, 'COMMIT');
	is(state_of($other, 'INSERT INTO z VALUES (2)'), '0A000', 'a session that has changed the table before');
	check_changes('published by another session');
	allowed('ALTER PUBLICATION p OWNER TO CURRENT_USER');
	run_all($dbh, 'DROP PUBLICATION p');
	allowed('INSERT INTO z VALUES (2)');
	run_all($dbh, 'DROP TABLE z');
	$other->disconnect;
	return;
}

sub test_wal_level
{
	restart_with('wal_level = replica');
	allowed('CREATE TABLE z (a int PRIMARY KEY, b int) USING zen');
	allowed('CREATE PUBLICATION p FOR TABLE z');
	allowed('INSERT INTO z VALUES (1)');
	restart_with('wal_level = logical');
	check_changes('published before wal_level was raised');
	allowed('ALTER PUBLICATION p DROP TABLE z');
	allowed('INSERT INTO z VALUES (2)');
	run_all($dbh, 'DROP PUBLICATION p', 'DROP TABLE z');
	return;
}

# A subscriber, while the stream is off.  Its first copy comes to no harm: nothing changes behind it.
sub test_subscriber
{
	restart_with('zen.stream = logical');
	my $subscriber = new_node('subscriber', preload => 0, init => { allows_streaming => 'logical' });
	$subscriber->start;
	my $to = connect_db($subscriber);
	my @tables = ('CREATE TABLE z (a int PRIMARY KEY, b int)', 'CREATE TABLE h (a int PRIMARY KEY)',
		'CREATE TABLE unpublished (a int)');
	run_all($dbh, "$tables[0] USING zen", "$tables[1] USING heap", "$tables[2] USING zen", 'INSERT INTO z VALUES (1)',
		'INSERT INTO h VALUES (1)', 'CREATE PUBLICATION p FOR TABLE z, h');
	restart_with('zen.stream = off');
	value($to, $_)
	  for @tables, 'INSERT INTO unpublished VALUES (1)',
	  sprintf q{CREATE SUBSCRIPTION s CONNECTION 'host=%s port=%d dbname=postgres' PUBLICATION p}, $node->host,
	  $node->port;
	wait_for('the first copies', sub {
		value($to, q{SELECT count(*) FROM pg_subscription_rel WHERE srsubstate IN ('s', 'r')}) == 2 }, 600);
	check_changes('with a subscriber');
	refused('z', 'TRUNCATE h, z');
	run_all($dbh, 'INSERT INTO unpublished VALUES (1)', 'TRUNCATE unpublished, h', 'INSERT INTO h VALUES (2)');
	wait_for('the heap table', sub { contents($to, 'h') eq contents($dbh, 'h') }, 600);
	is(contents($to, 'z'), contents($dbh, 'z'), 'the zen table is the same on both');
	is(value($to, 'SELECT count(*) FROM unpublished'), 1, 'TRUNCATE of a table that is not published stays away');
	value($to, 'DROP SUBSCRIPTION s');
	run_all($dbh, 'DROP PUBLICATION p', 'DROP TABLE z, h, unpublished');
	$to->disconnect;
	$subscriber->stop;
	return;
}

# The indexes of a table that are not unlogged.
sub logged_indexes
{
	return value($_[0], q{SELECT string_agg(c.relname, ' ') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid IN ('t'::regclass, 'child'::regclass) AND c.relpersistence <> 'u'});
}

# The worker that applies changes calls no utility hook.
sub test_applied_truncate
{
	my $subscriber = new_node('target', pool_size => '64MB', dram_size => '128MB',
		init => { allows_streaming => 'logical' });
	$subscriber->start;
	my $to = connect_db($subscriber);
	my @tables = ('CREATE TABLE t (a int PRIMARY KEY, b int[], c point, d text, e int) USING %s',
		'CREATE TABLE child (a int PRIMARY KEY, t int REFERENCES t, p point) USING %s');
	my $fill = q{INSERT INTO t SELECT g, ARRAY[g], point(g, g), 'text ' || g, g FROM generate_series(1, 500) g};
	run_all($dbh, (map { s/%s/heap/r } @tables), $fill,
		'INSERT INTO child SELECT g, g, point(g, g) FROM generate_series(1, 500) g',
		'CREATE PUBLICATION p FOR TABLE t, child');
	value($to, $_)
	  for 'CREATE EXTENSION zen', (map { s/%s/zen/r } @tables),
	  'CREATE INDEX gin ON t USING gin (b)', 'CREATE INDEX gist ON t USING gist (c)',
	  'CREATE INDEX spgist ON t USING spgist (d)', 'CREATE INDEX brin ON t USING brin (e)',
		'CREATE INDEX hash ON t USING hash (d)',
	  'CREATE INDEX btree ON t (d)', 'CREATE INDEX child_gist ON child USING gist (p)',
	  sprintf q{CREATE SUBSCRIPTION s CONNECTION 'host=%s port=%d dbname=postgres' PUBLICATION p}, $node->host,
		$node->port;
	my $rows = sub { value($to, 'SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM child)') };
	wait_for('the first copies', sub {
		value($to, q{SELECT count(*) FROM pg_subscription_rel WHERE srsubstate IN ('s', 'r')}) == 2 }, 600);
	is(logged_indexes($to), undef, 'indexes are unlogged at first');
	run_all($dbh, 'TRUNCATE t CASCADE');
	wait_for('TRUNCATE', sub { $rows->() == 0 }, 600);
	is(logged_indexes($to), undef, 'and after a TRUNCATE that was applied');
	run_all($dbh, $fill);
	wait_for('the rows', sub { $rows->() == 500 }, 600);
	# in one transaction, with rows before and after
	run_all($dbh, 'BEGIN', 'INSERT INTO t (a) VALUES (0)', 'TRUNCATE t CASCADE', $fill, 'COMMIT',
		'DELETE FROM t WHERE a = 500');
	wait_for('all of it', sub { $rows->() == 499 }, 600);
	is(logged_indexes($to), undef, 'in a transaction with other changes, too');
	is_sound($to, 'after that');
	crash($subscriber);
	$subscriber->start;
	$to = connect_db($subscriber);
	value($to, 'SET enable_seqscan = off');
	is(value($to, "SELECT count(*) FROM t WHERE $_"), 1, "after a crash, too: $_")
	  for 'b @> ARRAY[7]', q{c <@ box '((7, 7), (7, 7))'}, q{d = 'text 7'}, 'e = 7';
	value($to, 'DROP SUBSCRIPTION s');
	run_all($dbh, 'DROP PUBLICATION p', 'DROP TABLE t, child');
	$to->disconnect;
	$subscriber->stop;
	return;
}

# What a reader of the WAL is told, without the rows of catalogs.
sub decoded
{
	return join "\n", map { $_->[0] } @{
		run_sql($dbh, q{SELECT data FROM pg_logical_slot_get_changes('slot', NULL, NULL, 'skip-empty-xacts', '1',
		'include-xids', '0') WHERE data LIKE 'table%'})->{rows} };
}

# Not published: PostgreSQL truncates it, and names it in the log as any table.
sub test_truncate
{
	run_all($dbh, 'CREATE TABLE z (a int PRIMARY KEY, b serial) USING zen',
		'CREATE TABLE h (a int PRIMARY KEY REFERENCES z) USING heap',
		'CREATE TABLE zz (a int PRIMARY KEY REFERENCES h) USING zen', 'CREATE PUBLICATION p FOR TABLE h',
		q{SELECT pg_create_logical_replication_slot('slot', 'test_decoding')},
		map { "INSERT INTO $_ VALUES (1), (2)" } qw(z h zz));
	is(decoded(), "table public.h: INSERT: a[integer]:1\ntable public.h: INSERT: a[integer]:2",
		'rows of heap tables are decoded');
	allowed('TRUNCATE z, h, zz RESTART IDENTITY');
	is(value($dbh, 'SELECT (SELECT count(*) FROM z) + (SELECT count(*) FROM h) + (SELECT count(*) FROM zz)'), 0,
		'all are empty');
	is(decoded(), 'table public.z, public.h, public.zz: TRUNCATE: restart_seqs', 'TRUNCATE names zen tables');
	run_all($dbh, 'BEGIN', 'INSERT INTO z VALUES (1)', 'TRUNCATE zz', 'INSERT INTO h VALUES (1)',
		'INSERT INTO zz VALUES (1)', 'ROLLBACK');
	is(decoded(), '', 'rolled back');
	run_all($dbh, q{SELECT pg_drop_replication_slot('slot')}, 'DROP PUBLICATION p', 'DROP TABLE z, h, zz');
	return;
}
