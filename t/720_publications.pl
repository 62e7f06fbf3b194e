# Logical replication does not carry zen tables, and never in silence.
#
# - a publication that would send a zen table is refused, whichever comes first and whatever brings them together
# - where both came about all the same, changes of the table are refused
# - zen.publications = warning allows all that, with warnings
# - a subscriber's first copy of a zen table is refused, with row filters and partition roots, too
# - TRUNCATE of zen tables is not decoded, and otherwise like PostgreSQL's
# - indexes of zen tables stay unlogged when TRUNCATE is applied, which is no statement there

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('publisher', pool_size => '64MB', dram_size => '128MB', init => { allows_streaming => 'logical' });
$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen');

test_publications();
test_tables();
test_all_tables();
test_let_be();
test_race();
test_wal_level();
test_setting();
test_first_copy();
test_truncate();
test_truncate_published();
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
	like($result->{message}, qr/HINT:.*shard_transfer_mode => 'block_writes'.*zen\.publications = 'warning'/,
		'and says what to do');
	return;
}

sub allowed
{
	my ($sql) = @_;
	is(run_sql($dbh, $sql)->{message}, '', 'allowed: ' . $sql =~ s/\s+/ /gr);
	return;
}

sub warned
{
	my ($sql, $like) = @_;
	my @warnings;
	local $SIG{__WARN__} = sub { push @warnings, @_ };
	local $dbh->{PrintWarn} = 1;
	run_all($dbh, 'SET client_min_messages = warning', $sql, 'RESET client_min_messages');
	like(join('', @warnings), $like, 'warning: ' . $sql =~ s/\s+/ /gr);
	return;
}

sub set_publications
{
	my ($how) = @_;
	run_all($dbh, "ALTER SYSTEM SET zen.publications = $how", 'SELECT pg_reload_conf()');
	wait_for('the setting', sub { value($dbh, 'SHOW zen.publications') eq $how });
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
	run_all($dbh, 'DROP PUBLICATION p', 'DROP TABLE h, h2', 'DROP MATERIALIZED VIEW m');
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
	run_all($dbh, 'CREATE TABLE z (a int PRIMARY KEY, b int) USING zen', 'INSERT INTO z VALUES (1)');
	set_publications('warning');
	run_all($dbh, 'CREATE PUBLICATION p FOR TABLE z', 'CREATE TABLE h (a int) USING heap');
	set_publications('error');
	check_changes('published under another setting');
	allowed('ALTER TABLE z ADD COLUMN c int DEFAULT 1');
	allowed('ALTER TABLE z ALTER COLUMN b TYPE bigint');
	allowed('VACUUM FULL z');
	allowed('CREATE INDEX ON z (b)');
	allowed('ALTER TABLE z SET (fillfactor = 50)');
	allowed('ALTER TABLE z RENAME TO z2');
	allowed('ALTER TABLE z2 RENAME TO z');
	allowed('ALTER PUBLICATION p RENAME TO p2');
	allowed('ALTER TABLE z SET ACCESS METHOD heap');
	allowed('INSERT INTO z VALUES (2)');
	refused('z', 'ALTER TABLE z SET ACCESS METHOD zen');
	run_all($dbh, 'DROP PUBLICATION p2', 'DROP TABLE z, h');
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

sub restart_with
{
	my ($wal_level) = @_;
	set_conf($node, "wal_level = $wal_level");
	$dbh = clean_restart($node, $dbh);
	return;
}

sub test_wal_level
{
	restart_with('replica');
	allowed('CREATE TABLE z (a int PRIMARY KEY, b int) USING zen');
	allowed('CREATE PUBLICATION p FOR TABLE z');
	allowed('INSERT INTO z VALUES (1)');
	restart_with('logical');
	check_changes('published before wal_level was raised');
	allowed('ALTER PUBLICATION p DROP TABLE z');
	allowed('INSERT INTO z VALUES (2)');
	run_all($dbh, 'DROP PUBLICATION p', 'DROP TABLE z');
	return;
}

sub test_setting
{
	my $text = sub { qr/publication "$_[0]" does not send the changes of zen table "$_[1]"/ };
	set_publications('warning');
	run_all($dbh, 'CREATE TABLE z (a int PRIMARY KEY) USING zen', 'CREATE SCHEMA s');
	warned('CREATE PUBLICATION za FOR ALL TABLES', $text->('za', 'z'));
	warned('CREATE TABLE n (a int) USING zen', $text->('za', 'n'));
	run_all($dbh, 'DROP PUBLICATION za', 'DROP TABLE n');
	warned('CREATE PUBLICATION zp FOR TABLE z', $text->('zp', 'z'));
	run_all($dbh, 'CREATE PUBLICATION zs FOR TABLES IN SCHEMA s');
	warned('ALTER TABLE z SET SCHEMA s', $text->('z[ps]', 'z'));
	run_all($dbh, 'DROP PUBLICATION zp');
	allowed('INSERT INTO s.z VALUES (1)');
	allowed('UPDATE s.z SET a = 2');
	allowed('DELETE FROM s.z');
	run_all($dbh, 'DROP PUBLICATION zs', 'DROP SCHEMA s CASCADE');
	set_publications('error');
	like(run_sql($dbh, q{SET zen.publications = 'warning'})->{message}, qr/cannot be changed now/,
		'one setting for all sessions');
	return;
}

# By which way a subscriber copies depends on the publication.
sub test_first_copy
{
	my $subscriber = new_node('subscriber', pool_size => '64MB', dram_size => '128MB',
		init => { allows_streaming => 'logical' });
	$subscriber->start;
	my $to = connect_db($subscriber);
	set_publications('warning');
	my @tables = ('CREATE TABLE whole (a int PRIMARY KEY) USING %s',
		'CREATE TABLE filtered (a int PRIMARY KEY) USING %s',
		'CREATE TABLE root (a int PRIMARY KEY) PARTITION BY LIST (a)');
	run_all($dbh, (map { s/%s/zen/r } @tables), 'CREATE TABLE leaf PARTITION OF root FOR VALUES IN (1) USING zen',
		'CREATE TABLE h (a int PRIMARY KEY) USING heap', map { "INSERT INTO $_ VALUES (1)" } qw(whole filtered root h));
	value($to, $_ =~ s/%s/heap/r) for @tables, 'CREATE TABLE h (a int PRIMARY KEY) USING %s';
	value($to, 'CREATE TABLE leaf PARTITION OF root FOR VALUES IN (1)');
	run_all($dbh, 'CREATE PUBLICATION p FOR TABLE whole, filtered WHERE (a > 0), root, h WHERE (a > 0) '
		  . 'WITH (publish_via_partition_root)');
	my $log = log_size($node);
	value($to, sprintf q{CREATE SUBSCRIPTION s CONNECTION 'host=%s port=%d dbname=postgres' PUBLICATION p}, $node->host,
		$node->port);
	for my $table (qw(whole filtered leaf))
	{
		eval { wait_for('the refusal',
			sub { log_since($node, $log) =~ /ERROR:  0A000: zen table "$table" cannot be replicated/ }, 60) };
		is($@, '', "the first copy of $table is refused");
	}
	like(log_since($node, $log), qr/HINT:  Take it out of the publication/, 'with a hint');
	my $copied = q{SELECT string_agg(srrelid::regclass::text, ' ') FROM pg_subscription_rel
		WHERE srsubstate IN ('s', 'r')};
	wait_for('the heap table', sub { value($to, $copied) }, 600);
	is(value($to, 'SELECT count(*) FROM h'), 1, 'the heap table is copied');
	is(value($to, $copied), 'h', 'no other table counts as copied');
	value($to, 'DROP SUBSCRIPTION s');
	run_all($dbh, 'DROP PUBLICATION p', 'DROP TABLE whole, filtered, root, h');
	set_publications('error');
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

sub fails
{
	my ($sql, $state) = @_;
	is(state_of($dbh, $sql), $state, "$state: $sql");
	return;
}

sub test_truncate
{
	my $counts = sub { value($dbh, 'SELECT concat_ws(\' \', ' . join(', ', map { "(SELECT count(*) FROM $_)" } @_)
		. ')') };
	run_all($dbh, 'CREATE TABLE z (a int PRIMARY KEY) USING zen',
		'CREATE TABLE h (a int PRIMARY KEY REFERENCES z) USING heap',
		'CREATE TABLE zz (a int PRIMARY KEY REFERENCES h, b serial) USING zen', 'CREATE TABLE alone (a int) USING heap',
		'CREATE TABLE root (a int) PARTITION BY LIST (a)',
			'CREATE TABLE leaf1 PARTITION OF root FOR VALUES IN (1) USING heap',
		'CREATE TABLE leaf2 PARTITION OF root FOR VALUES IN (2) USING zen', 'CREATE VIEW v AS SELECT * FROM z',
		'CREATE TABLE parent (a int) USING heap', 'CREATE TABLE child () INHERITS (parent) USING zen',
		q{SELECT pg_create_logical_replication_slot('slot', 'test_decoding')});
	my $fill = sub {
		run_all($dbh, 'INSERT INTO z VALUES (1), (2)', 'INSERT INTO h VALUES (1), (2)',
			'INSERT INTO zz (a) VALUES (1), (2)',
			'INSERT INTO root VALUES (1), (2)', 'INSERT INTO parent VALUES (1)', 'INSERT INTO child VALUES (1)',
				'INSERT INTO alone VALUES (1)');
		decoded();
	};
	$fill->();
	run_all($dbh, 'TRUNCATE z, h, zz, alone');
	is(decoded(), 'table public.h, public.alone: TRUNCATE: (no-flags)', 'only heap tables are named');
	is($counts->(qw(z h zz alone)), '0 0 0 0', 'and all are empty');
	$fill->();
	fails('TRUNCATE z', '0A000');
	run_all($dbh, 'TRUNCATE z RESTART IDENTITY CASCADE');
	is(decoded(), 'table public.h: TRUNCATE: restart_seqs cascade', 'CASCADE reaches heap and zen tables');
	is($counts->(qw(z h zz)), '0 0 0', 'which are empty');
	run_all($dbh, 'INSERT INTO z VALUES (1)', 'INSERT INTO h VALUES (1)', 'INSERT INTO zz (a) VALUES (1)');
	is(value($dbh, 'SELECT b FROM zz'), 1, 'and RESTART IDENTITY');
	decoded();
	run_all($dbh, 'TRUNCATE zz, zz, root, parent');
	is(decoded(), 'table public.root, public.leaf1, public.parent: TRUNCATE: (no-flags)', 'partitions and children');
	is($counts->(qw(root parent)), '0 0', 'are truncated');
	run_all($dbh, 'TRUNCATE h CASCADE', 'DELETE FROM z', 'TRUNCATE alone');
	$fill->();
	run_all($dbh, 'TRUNCATE ONLY parent, ONLY zz');
	is(decoded(), 'table public.parent: TRUNCATE: (no-flags)', 'ONLY');
	is($counts->(qw(child z)), '1 2', 'leaves children alone');
	run_all($dbh, 'BEGIN', 'TRUNCATE zz', 'INSERT INTO zz (a) VALUES (1)', 'TRUNCATE zz', 'ROLLBACK', 'TRUNCATE zz',
		'INSERT INTO zz (a) VALUES (2)',
		'BEGIN', 'TRUNCATE zz', 'SAVEPOINT s', 'INSERT INTO zz (a) VALUES (1)', 'TRUNCATE zz', 'ROLLBACK TO s',
			'COMMIT');
	is($counts->('zz'), '0', 'in transactions');
	is(decoded(), '', 'zen tables alone: nothing is decoded');
	fails('TRUNCATE zz, v', '42809');
	fails('TRUNCATE zz, pg_class', '42501');
	fails('TRUNCATE zz, no_such_table', '42P01');
	fails('TRUNCATE zz, ONLY root', '42809');
	run_all($dbh, 'BEGIN READ ONLY');
	fails('TRUNCATE zz', '25006');
	run_all($dbh, 'ROLLBACK', 'BEGIN', 'DECLARE c CURSOR FOR SELECT * FROM zz', 'FETCH c');
	fails('TRUNCATE zz', '55006');
	run_all($dbh, 'ROLLBACK', 'CREATE ROLE clerk', 'GRANT ALL ON alone, root TO clerk', 'SET ROLE clerk');
	fails('TRUNCATE alone, zz', '42501');
	allowed('TRUNCATE root');
	run_all($dbh, 'RESET ROLE', 'GRANT TRUNCATE ON z TO clerk', 'SET ROLE clerk');
	fails('TRUNCATE z CASCADE', '42501');
	run_all($dbh, 'RESET ROLE', 'CREATE TABLE log (t text) USING heap',
		'CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO log VALUES (TG_WHEN || TG_TABLE_NAME); TRUNCATE z, h CASCADE; RETURN NULL; END $$',
		'CREATE TRIGGER a BEFORE TRUNCATE ON leaf2 EXECUTE FUNCTION note()',
			'CREATE TRIGGER b AFTER TRUNCATE ON leaf2 EXECUTE FUNCTION note()',
		'TRUNCATE leaf2');
	is(value($dbh, q{SELECT string_agg(t, ' ' ORDER BY t) FROM log}), 'AFTERleaf2 BEFOREleaf2',
		'triggers run, and may truncate');
	is($counts->(qw(z h zz)), '0 0 0', 'other tables');
	run_all($dbh, q{SELECT pg_drop_replication_slot('slot')}, 'DROP TABLE z, h, zz, root, parent, alone, log CASCADE',
		'DROP ROLE clerk');
	return;
}

# A publication that has zen tables by zen.publications = warning sends nothing of them, TRUNCATE neither.
sub test_truncate_published
{
	set_publications('warning');
	run_all($dbh, 'CREATE TABLE z (a int) USING zen', 'CREATE TABLE h (a int) USING heap',
		'CREATE PUBLICATION p FOR ALL TABLES',
		q{SELECT pg_create_logical_replication_slot('slot', 'test_decoding')});
	allowed('TRUNCATE z, h');
	is(decoded(), 'table public.h: TRUNCATE: (no-flags)', 'not decoded');
	$dbh->disconnect;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_stat_statements, zen'");
	$node->restart;
	$dbh = connect_db($node);
	fails('TRUNCATE z, h', '0A000');
	like(run_sql($dbh, 'TRUNCATE z')->{message}, qr/would send TRUNCATE of zen table "z".*HINT:  Put zen first/s,
		'behind a library with a hook it would be');
	run_all($dbh, q{ALTER PUBLICATION p SET (publish = 'insert, update, delete')});
	allowed('TRUNCATE z');
	run_all($dbh, q{SELECT pg_drop_replication_slot('slot')}, 'DROP PUBLICATION p', 'DROP TABLE z, h');
	set_publications('error');
	return;
}
