# Extensions: zen itself, and others whose scripts make tables.
#
# - ALTER EXTENSION zen UPDATE; DROP EXTENSION zen, refused while there are zen tables, and CASCADE
# - zen tables that belong to an extension; what pg_dump leaves to it
# - while zen is the default, tables of an extension are zen's if its script says so

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
my $node = new_node('zen', pool_size => '128MB', dram_size => '128MB');
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_extension_update();
test_extension_drop();
test_extension_drop_trees();
$dbh->disconnect;
$node->stop;
test_extension_member();
done_testing();

# --- zen itself -------------------------------------------------------------

sub test_extension_update
{
	is(state_of($dbh, 'ALTER EXTENSION zen UPDATE'), '', 'ALTER EXTENSION zen UPDATE');
	is(state_of($dbh, q{ALTER EXTENSION zen UPDATE TO '1.0'}), '', 'to the version that is there');
	is(state_of($dbh, q{ALTER EXTENSION zen UPDATE TO '0.0'}), '22023', 'to one that is not');
	is(value($dbh, q{SELECT count(*) FROM pg_extension_update_paths('zen') WHERE source <> target AND path IS NULL}), 0,
		'every version leads to every later one');
	return;
}

sub test_extension_drop
{
	run_all($dbh, 'CREATE DATABASE dropped');
	my $handle = connect_db($node, 'dropped');
	run_all($handle, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY, t text) USING zen',
		q{INSERT INTO z SELECT g, repeat('x', 500) FROM generate_series(1, 20000) g},
		'CREATE TABLE h USING heap AS SELECT 1 AS a', 'CREATE VIEW v AS SELECT * FROM z');
	my $result = run_sql($handle, 'DROP EXTENSION zen');
	is($result->{state}, '2BP01', 'DROP EXTENSION zen is refused while there are zen tables');
	like($result->{message}, qr/table z depends on access method zen.*HINT/s, 'names them');
	is(value($handle, 'SELECT count(*) FROM z'), 20000, 'and they are as they were');
	run_all($handle, 'BEGIN', 'DROP EXTENSION zen CASCADE', 'ROLLBACK');
	is(value($handle, 'SELECT count(*) FROM z'), 20000, 'CASCADE rolled back');
	my $free = value($dbh, 'SELECT pages_free FROM zen_stat');
	value($handle, 'DROP EXTENSION zen CASCADE');
	is(value($handle, q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class
		WHERE relnamespace = 'public'::regnamespace}),
		'h', 'CASCADE drops zen tables only');
	wait_for('the pages of the dropped table', sub { value($dbh, 'SELECT pages_free FROM zen_stat') > $free + 100 });
	pass('and gives their pages back');
	run_all($handle, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY) USING zen',
		'INSERT INTO z VALUES (1)');
	is(value($handle, 'SELECT count(*) FROM z'), 1, 'zen again');
	$handle->disconnect;
	value($dbh, 'DROP DATABASE dropped');
	return;
}

# What an index was made with, it depends on, and nothing else: a btree no more on zen, a tree on btree's classes.
sub test_extension_drop_trees
{
	run_all($dbh, 'CREATE DATABASE dropped');
	my $handle = connect_db($node, 'dropped');
	run_all($handle, 'CREATE EXTENSION zen', 'SET zen.default_index = zentree',
		'CREATE TABLE h (id int PRIMARY KEY, v text UNIQUE) USING zen', 'CREATE INDEX h_v ON h USING zentree (v, id)',
		q{INSERT INTO h SELECT g, g FROM generate_series(1, 100) g});
	is(value($handle, q{SELECT count(*) FROM pg_depend WHERE classid = 'pg_class'::regclass
		AND refclassid = 'pg_am'::regclass AND objid IN ('h_pkey'::regclass, 'h_v_key'::regclass, 'h_v'::regclass)}), 3,
		'trees depend on their access method');
	run_all($handle, 'REINDEX TABLE CONCURRENTLY h');
	is(state_of($handle, 'DROP EXTENSION zen'), '2BP01', 'which cannot go');
	value($handle, 'ALTER TABLE h SET ACCESS METHOD heap');
	value($handle, 'DROP EXTENSION zen CASCADE');
	is(value($handle, q{SELECT string_agg(indexrelid::regclass::text, ' ' ORDER BY indexrelid::regclass::text)
		FROM pg_index WHERE indrelid = 'h'::regclass AND indisvalid}), 'h_pkey h_v h_v_key',
		'the indexes of a table that was once zen\'s stay when zen goes');
	is(state_of($handle, q{INSERT INTO h VALUES (7, 'x')}), '23505', 'and work');

	run_all($handle, 'CREATE EXTENSION zen',
		'CREATE FUNCTION f(int, int) RETURNS int IMMUTABLE LANGUAGE internal AS $$btint4cmp$$',
		'CREATE OPERATOR FAMILY own USING btree', 'CREATE OPERATOR CLASS own FOR TYPE int USING btree FAMILY own
			AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 f(int, int)',
		'SELECT zen_copy_operator_classes()', 'CREATE TABLE z (id int) USING zen',
		'CREATE INDEX z_id ON z USING zentree (id own)', 'INSERT INTO z SELECT generate_series(1, 100)');
	is(state_of($handle, 'DROP OPERATOR FAMILY own USING btree'), '2BP01', 'the class of a tree cannot go');
	is(state_of($handle, 'DROP OPERATOR FAMILY own USING btree CASCADE'), '', 'but with the tree');
	is(value($handle, 'SELECT count(*) FROM z'), 100, 'whose table stays');
	is(value($handle, q{SELECT count(*) FROM pg_index WHERE indrelid = 'z'::regclass}), 0, 'without it');
	$handle->disconnect;
	value($dbh, 'DROP DATABASE dropped');
	return;
}

# --- extensions with tables -------------------------------------------------

# A copy of the server's program that finds the files of extensions, by name, more. PostgreSQL looks for its files
# relative to the program.
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
		'plain--1--2.sql' => "CREATE TABLE e_updated (id int);\n"
			  . "CREATE TABLE e_updated_zen (id int) USING zen;\nREFRESH MATERIALIZED VIEW e_view;\n",
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
		'code--1.sql'     => "CREATE FUNCTION e_code() RETURNS int LANGUAGE sql AS 'SELECT 1';\n"
			  . "CREATE TABLE e_code_zen (id int) USING zen;\n");
}

sub methods
{
	my ($handle, $like) = @_;
	$like ||= 'e\_%';
	return value($handle, qq{SELECT string_agg(relname || ' ' || amname, ', ' ORDER BY relname) FROM pg_class c
		JOIN pg_am a ON a.oid = c.relam
		WHERE relname LIKE '$like' AND relkind IN ('r', 'm', 'p')});
}

# While zen is the default, tables of an extension are zen's if its script says so.
sub test_extension_default
{
	my ($handle) = @_;
	my @notices;
	local $handle->{PrintWarn} = 1;
	local $SIG{__WARN__} = sub { push @notices, @_ };
	run_all($handle, 'SET default_table_access_method = zen', 'SET client_min_messages = notice',
		'CREATE EXTENSION plain');
	is(methods($handle), join(', ', map { "$_ " . (/zen|_2$/ ? 'zen' : 'heap') }
		  qw(e_as e_as_zen e_called e_called_zen e_do e_do_as e_into e_like e_nested e_part_1 e_part_2 e_plain e_view
		  e_zen)),
		'CREATE EXTENSION while zen is the default: heap but for what says zen');
	is(scalar(grep { /NOTICE: .*tables of extension "plain" are heap tables/ } @notices), 1, 'a notice says so');
	is(value($handle, 'SHOW default_table_access_method'), 'zen', 'the default is what it was');
	@notices = ();
	run_all($handle, q{ALTER EXTENSION plain UPDATE TO '2'});
	like(methods($handle), qr/e_updated heap, e_updated_zen zen, e_view heap/, 'ALTER EXTENSION UPDATE does the same');
	is(scalar(grep { /NOTICE: .*tables of extension "plain" are heap tables/ } @notices), 1, 'with a notice');
	run_all($handle, 'DROP EXTENSION plain', 'CREATE EXTENSION parent CASCADE');
	like(methods($handle), qr/e_parent heap.* e_plain heap/, 'CREATE EXTENSION CASCADE, too');
	run_all($handle, 'CREATE TABLE e_user (id int)', q{SELECT e_make('e_later', '')});
	like(methods($handle), qr/e_later zen.* e_user zen/,
		'tables of the user, and of functions called by the user, are zen tables');
	is(state_of($handle, 'CREATE EXTENSION wrong'), '22012', 'a script that fails');
	is(value($handle, 'SHOW default_table_access_method'), 'zen', 'leaves the default as it was');
	@notices = ();
	run_all($handle, 'CREATE EXTENSION code', 'DROP EXTENSION code', 'BEGIN', 'CREATE EXTENSION code',
		'CREATE TABLE e_same (id int)', 'COMMIT');
	is_deeply(\@notices, [], 'no notice where no table is meant');
	like(methods($handle), qr/e_same zen/, 'a table made after it in the same transaction is a zen table');
	run_all($handle, 'SET default_table_access_method = heap', 'CREATE TABLE e_heap (id int)', 'DROP EXTENSION parent',
		'DROP EXTENSION plain', 'CREATE EXTENSION plain');
	is_deeply(\@notices, [], 'no notice while heap is the default');
	return if value($handle, 'SHOW server_version_num') < 170000;
	run_all($handle, 'SET default_table_access_method = zen', 'CREATE EXTENSION parts');
	is(methods($handle, 'p\_%'), 'p_default heap, p_zen zen, p_zen_1 zen, p_zen_2 heap',
		'what a partitioned table says is said');
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
	run_all($handle, 'CREATE EXTENSION owner CASCADE', q{INSERT INTO owned VALUES (2, 'by the user')});
	is(state_of($handle, 'DROP TABLE owned'), '2BP01', 'a table of an extension stays with it');
	is(state_of($handle, 'ALTER TABLE owned ADD COLUMN w int DEFAULT 3'), '', 'but can be changed');
	value($handle, 'ALTER TABLE owned DROP COLUMN w');
	my $dir = PostgreSQL::Test::Utils::tempdir();
	run_program($server, 'pg_dump with an extension', 'pg_dump', '-Fc', '-f', "$dir/dump", 'postgres');
	value($handle, 'CREATE DATABASE restored');
	run_program($server, 'pg_restore with an extension', 'pg_restore', '-d', 'restored', "$dir/dump");
	my $restored = connect_db($server, 'restored');
	is(value($restored, q{SELECT string_agg(v, ', ' ORDER BY id) FROM owned}), 'by the script, by the user',
		'its rows');
	$restored->disconnect;
	value($handle, 'DROP EXTENSION owner');
	is(state_of($handle, 'SELECT * FROM owned'), '42P01', 'DROP EXTENSION takes its zen table along');
	test_extension_default($handle);
	$handle->disconnect;
	$server->stop;
	return;
}
