# What a standby answers to statements on zen tables: the SQLSTATE by which drivers and poolers tell that a server is no
# primary is heap's (25006).  What only reads is refused by zen, with its own reason.
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

my $primary = copy_primary('primary', pool_size => '128MB');
$primary->start;
my $dbh = connect_db($primary);
run_all($dbh, 'CREATE EXTENSION zen',
	map { (
		"CREATE TABLE ${_}_t (id int PRIMARY KEY, v int) USING $_",
		"INSERT INTO ${_}_t SELECT i, i FROM generate_series(1, 100) i",
		"CREATE TABLE ${_}_p (id int, v int) PARTITION BY RANGE (id)",
		"CREATE TABLE ${_}_p1 PARTITION OF ${_}_p FOR VALUES FROM (0) TO (50) USING $_",
		"CREATE VIEW ${_}_v AS SELECT * FROM ${_}_t") } qw(heap zen));
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
$on_standby->disconnect;

# after its promotion the same server changes rows
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
my $after = connect_db($standby);
is(run_sql($after, 'UPDATE zen_t SET v = 0 WHERE id = 1')->{state}, '', 'promoted: a row is updated');
$after->disconnect;
$dbh->disconnect;
done_testing();

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
