# What a standby answers to statements on zen tables: the SQLSTATE by which drivers and poolers tell that a server is no
# primary is heap's (25006).  What only reads is refused by zen, with its own reason.
#
# The views answer there, with what the copy shows, and so do the functions of sizes.
#
# Each statement is sent for a heap table and for a zen table, plain and prepared.  Partitions count as their parent.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $primary = copy_primary('primary', pool_size => '32MB', conf => <<'END');
zen.pool_max_size = 128MB
zen.pool_grow_by = 16MB
END
$primary->start;
my $dbh = connect_db($primary);
run_all($dbh, 'CREATE EXTENSION zen',
	map { (
		"CREATE TABLE ${_}_t (id int PRIMARY KEY, v int) USING $_",
		"INSERT INTO ${_}_t SELECT i, i FROM generate_series(1, 100) i",
		"CREATE TABLE ${_}_p (id int, v int) PARTITION BY RANGE (id)",
		"CREATE TABLE ${_}_p1 PARTITION OF ${_}_p FOR VALUES FROM (0) TO (50) USING $_",
		"CREATE VIEW ${_}_v AS SELECT * FROM ${_}_t") } qw(heap zen));
run_all($dbh, 'CREATE TABLE large (id int PRIMARY KEY, v text) USING zen',
	q{INSERT INTO large SELECT g, repeat('x', 500) FROM generate_series(1, 20000) g});
$primary->backup('base');
my $standby = copy_of($primary, 'standby', 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
my $on_standby = connect_db($standby);

my @writing = (
	'INSERT INTO AM_t VALUES (1000, 1)',
	'INSERT INTO AM_t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = 0',
	'UPDATE AM_t SET v = 0 WHERE id = 1',
	'UPDATE AM_t SET v = 0',
	'UPDATE AM_v SET v = 0 WHERE id = 1',
	'UPDATE AM_p SET v = 0 WHERE id = 1',
	'DELETE FROM AM_t WHERE id = 1',
	'DELETE FROM AM_p',
	'SELECT * FROM AM_t WHERE id = 1 FOR UPDATE',
	'SELECT * FROM AM_p FOR SHARE',
	'SELECT * FROM AM_t x JOIN AM_p y USING (id) FOR NO KEY UPDATE OF x',
	'MERGE INTO AM_t t USING (VALUES (1)) s (id) ON t.id = s.id WHEN MATCHED THEN DELETE',
	'WITH gone AS (DELETE FROM AM_t RETURNING *) SELECT count(*) FROM gone',
	'UPDATE heap_t SET v = 0 FROM AM_t x WHERE x.id = heap_t.id');
for my $statement (@writing)
{
	my %said = map { $_ => said($statement, $_) } qw(heap zen);
	is($said{zen}, $said{heap}, $statement);
	like($said{heap}, qr/^25006: cannot execute .* in a read-only transaction$/, '... which says what it is');
	is(said_prepared($statement, 'zen'), said_prepared($statement, 'heap'), "prepared: $statement");
}
my @others = ('SELECT (SELECT v FROM AM_t WHERE id = 1 FOR UPDATE)', 'TRUNCATE AM_t', 'COPY AM_t FROM STDIN',
	'CREATE INDEX ON AM_t (v)', 'DROP TABLE AM_t', 'VACUUM AM_t', 'ALTER TABLE AM_t ADD COLUMN w int',
	'LOCK TABLE AM_t IN SHARE MODE', 'CLUSTER AM_t USING AM_t_pkey', 'ANALYZE AM_t', 'REINDEX TABLE AM_t',
	'CREATE TABLE AM_new (LIKE AM_t) USING AM');
is(said($_, 'zen') =~ s/: .*//r, said($_, 'heap') =~ s/: .*//r, $_) for @others;

# reading: zen says why, also behind a statement that was refused for what it writes
like(said('SELECT count(*) FROM AM_t', 'zen'), qr/^0A000: zen tables cannot be used/, 'SELECT');
like(said('EXPLAIN SELECT * FROM AM_p', 'zen'), qr/^0A000: zen tables cannot be used/, 'EXPLAIN of a SELECT');
is(said('EXPLAIN UPDATE AM_t SET v = 0', 'heap'), 'no error', 'EXPLAIN of a change of a heap table');
test_views();
$on_standby->disconnect;

# after its promotion the same server changes rows
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
my $after = connect_db($standby);
is(run_sql($after, 'UPDATE zen_t SET v = 0 WHERE id = 1')->{state}, '', 'promoted: a row is updated');
$after->disconnect;
$dbh->disconnect;
done_testing();

sub test_views
{
	my $views = run_sql($dbh, q{SELECT c.relname FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'e'
		JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = 'zen' AND c.relkind = 'v'})->{rows};
	cmp_ok(scalar @$views, '>', 10, 'zen has views');
	is(said("SELECT * FROM $_->[0]", ''), 'no error', "$_->[0] answers") for @$views;

	# a table of its own pages grows while the standby follows, and so does the pool
	my $pool = 'SELECT pages_total FROM zen_pool';
	my $before = value($on_standby, $pool);
	for my $more (20_001, 40_001, 60_001)
	{
		run_all($dbh, "INSERT INTO large SELECT g, repeat('x', 500) FROM generate_series($more, $more + 19999) g");
		$primary->wait_for_catchup($standby);
		my $own = q{SELECT pages_owned, pages_owned * 65536 FROM zen_stat_tables WHERE relname = 'large'};
		my $pages = run_sql($dbh, $own)->{rows}[0];
		cmp_ok($pages->[0], '>', 10, 'the table has pages of its own');
		is_deeply(run_sql($on_standby, $own)->{rows}[0], $pages, '... and on the standby');
		is(value($on_standby, q{SELECT nvm_bytes FROM zen_stat_tables WHERE relid = 'large'::regclass}), $pages->[1],
			'its size there');
		is(value($on_standby, q{SELECT zen_relation_size('large')}), $pages->[1], '... by a function');
	}
	cmp_ok(value($on_standby, $pool), '>', $before, 'the pool has grown');
	is(value($on_standby, q{SELECT zen_relation_size('zen_t')}), undef, 'a share of shared pages is not known');
	cmp_ok(value($on_standby, 'SELECT nvm_bytes FROM zen_stat_database WHERE datname = current_database()'), '>',
		10 * 65536, 'the database');
	is(value($on_standby, q{SELECT zen_total_relation_size('heap_t') = pg_total_relation_size('heap_t')}), 1, 'heap');
	return;
}

# said -- SQLSTATE and message of a statement on the standby, with AM for the access method.
sub said
{
	my ($statement, $am) = @_;
	my $result = run_sql($on_standby, $statement =~ s/\bAM(?=\b|_)/$am/gr);
	return $result->{state} eq '' ? 'no error' : "$result->{state}: " . $result->{message} =~ s/^ERROR:\s+|\n.*//grs;
}

# said_prepared -- what the first of these two says that fails.
sub said_prepared
{
	my ($statement, $am) = @_;
	my $said = said("PREPARE p AS $statement", $am);
	return $said if $said ne 'no error';
	$said = said('EXECUTE p', $am);
	run_sql($on_standby, 'DEALLOCATE p');
	return $said;
}
