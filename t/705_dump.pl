# pg_dump in its formats, parallel pg_restore, and pg_dumpall bring back rows, indexes, and partitions as they were
# attached.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
# what a dump needs, although nobody can prepare a transaction
my $node = new_node('dump', pool_size => '512MB', conf => "max_prepared_transactions = 0\n");
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');
test_dump();
$dbh->disconnect;
$node->stop;
done_testing();

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
		SELECT string_agg(concat_ws(' ', c.relname, c.relkind, am.amname, p.relname, i.indisvalid, i.indisprimary),
			E'\n' ORDER BY c.relname)
		FROM pg_class c LEFT JOIN pg_am am ON am.oid = c.relam LEFT JOIN pg_inherits h ON h.inhrelid = c.oid
		LEFT JOIN pg_class p ON p.oid = h.inhparent LEFT JOIN pg_index i ON i.indexrelid = c.oid
		WHERE c.relnamespace = 'd'::regnamespace});
}

# Nobody is connected but $dbh and whoever is thrown out here.
sub rename_database
{
	my ($from, $to) = @_;
	value($dbh, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '$from'");
	value($dbh, "ALTER DATABASE $from RENAME TO $to");
	return 1;
}

sub test_dump
{
	run_all($dbh, 'CREATE DATABASE source');
	my $source = connect_db($node, 'source');
	run_all($source, 'CREATE EXTENSION zen', 'ALTER DATABASE source SET default_table_access_method = zen',
		'SET default_table_access_method = zen', 'CREATE SCHEMA d',
		'CREATE TABLE d.parent (id int PRIMARY KEY, v text UNIQUE)',
		'CREATE TABLE d.child (id serial PRIMARY KEY, p int REFERENCES d.parent '
			  . 'ON DELETE CASCADE, n numeric CHECK (n > 0))',
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
		q{CREATE TABLE d.big AS SELECT g AS id, repeat(md5(g::text), 2000) AS t,
			decode(repeat(md5(g::text), 500), 'hex') AS b FROM generate_series(1, 20) g},
		'CREATE TABLE d.same USING heap AS SELECT 1 AS a');
	my ($rows, $structure) = (dumped($source), structure($source));
	like($structure, qr/^part_b r zen part$/m, 'there is an attached zen partition');
	# A dump does not say of which method a key's index is.  part_c was a partition when it got its key.
	$structure =~ s/^part_c_pkey i \Kbtree/zentree/m if value($source, 'SHOW zen.default_index') eq 'zentree';

	my $dir = PostgreSQL::Test::Utils::tempdir();
	my %restore = (
		custom    => [ [qw(-Fc)],      [qw(-j 4)] ],
		directory => [ [qw(-Fd -j 4)], [qw(-j 4)] ],
		tar       => [ [qw(-Ft)],      [] ]);
	for my $format (sort keys %restore)
	{
		my ($dump, $jobs) = @{ $restore{$format} };
		run_program($node, "pg_dump, $format", 'pg_dump', @$dump, '-f', "$dir/$format", 'source');
		run_program($node, "pg_restore, $format", 'pg_restore', @$jobs, '-C', '-d', 'postgres', "$dir/$format")
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
	run_program($node, 'pg_dumpall', 'pg_dumpall', '-f', "$dir/all");
	value($dbh, 'DROP DATABASE source');
	my $other = new_node('other', pool_size => '512MB');
	$other->start;
	run_program($other, 'psql', 'psql', '-X', '-q', '-o', '/dev/null', '-f', "$dir/all", 'postgres');
	my $copy = connect_db($other, 'source');
	is(dumped($copy), $rows, 'pg_dumpall: all rows');
	is(structure($copy), $structure, 'pg_dumpall: all tables and indexes');
	$copy->disconnect;
	$other->stop;
	return;
}
