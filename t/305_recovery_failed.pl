# Recovery has failed, for want of memory here: zen's tables are not available, and everything else is, DDL included.
#
# ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('recovery_failed', pool_size => '96MB', dram_size => '64MB');
$node->start;
my $dbh = connect_db($node);

# A map of rows larger than the DRAM that will be left.
value($dbh, $_) for 'CREATE EXTENSION zen', 'CREATE TABLE long (id int) USING zen',
	'CREATE TABLE z (id int PRIMARY KEY) USING zen',
  'INSERT INTO z SELECT generate_series(1, 100)', 'CREATE DATABASE plain', 'CREATE DATABASE holds_zen',
	'CREATE DATABASE dropped';
for my $i (1 .. 12)
{
	value($dbh, $_) for 'INSERT INTO long SELECT generate_series(1, 200000)', 'DELETE FROM long';
	wait_for('old versions to go', sub { value($dbh, 'SELECT garbage_pending FROM zen_stat') == 0 });
}
value($dbh, 'INSERT INTO long VALUES (1)');
value($dbh, $_) for map { ("CREATE TABLE ${_}_old (id int PRIMARY KEY, k int) USING heap",
	"INSERT INTO ${_}_old SELECT g, g FROM generate_series(1, 100) g") } 'h';
my $other = connect_db($node, 'holds_zen');
value($other, $_) for 'CREATE EXTENSION zen', 'CREATE TABLE there (id int) USING zen';
$other->disconnect;
value($dbh, $_) for 'BEGIN', 'INSERT INTO h_old VALUES (1000)', q{PREPARE TRANSACTION 'p'};

crash($node);
$node->append_conf('postgresql.conf', q{zen.dram_size = '16MB'});
start_again($node);
$dbh = connect_db($node);
isnt(state_of($dbh, 'SELECT count(*) FROM z'), '', 'recovery fails');
wait_for('all to hear of it', sub { value($dbh, 'SELECT state FROM zen_recovery') eq 'failed' });
is(value($dbh, 'SELECT state FROM zen_recovery'), inject() ? 'ready' : 'failed', 'and says so');

is(run_sql($dbh, $_)->{message}, '', "recovery failed: $_") for
  'CREATE TABLE h (id int PRIMARY KEY, v text UNIQUE)', 'CREATE INDEX ON h (v)', q{INSERT INTO h VALUES (1, 'a')},
  'ALTER TABLE h ADD c int DEFAULT 5', 'ALTER TABLE h ALTER c TYPE bigint', 'CREATE TABLE h2 (id int REFERENCES h)',
  'REINDEX TABLE h', 'CLUSTER h USING h_pkey', 'VACUUM h', 'VACUUM FULL h', 'ANALYZE h',
	'CREATE MATERIALIZED VIEW m AS SELECT * FROM h',
  'REFRESH MATERIALIZED VIEW m', 'DROP INDEX h_v_idx', 'TRUNCATE h, h2', 'DROP TABLE h2', 'DROP MATERIALIZED VIEW m',
	'ALTER TABLE h DROP c', 'DROP TABLE h',
  'BEGIN', 'CREATE TEMP TABLE t (id int PRIMARY KEY) ON COMMIT DROP', 'COMMIT',
  'CREATE TEMP TABLE t2 (id int PRIMARY KEY) ON COMMIT DELETE ROWS', 'DROP TABLE t2',
  'CREATE SCHEMA s CREATE TABLE h (id int PRIMARY KEY)', 'REINDEX SCHEMA s', 'DROP SCHEMA s CASCADE',
  'VACUUM pg_class', 'CREATE DATABASE copy', 'CREATE DATABASE copy2 TEMPLATE plain',
	'ALTER DATABASE copy RENAME TO copy3', 'DROP DATABASE dropped',
  q{COMMIT PREPARED 'p'}, 'CREATE ROLE somebody', 'DROP OWNED BY somebody', 'DROP ROLE somebody', 'VACUUM';
is(value($dbh, 'SELECT count(*) FROM h_old'), 101, 'recovery failed: rows of the prepared transaction');

for ('INSERT INTO z VALUES (1)', 'CREATE TABLE z2 (id int) USING zen', 'DROP TABLE z', 'TRUNCATE z', 'VACUUM z',
	'CREATE INDEX ON z (id)',
	'CREATE DATABASE copy4 TEMPLATE holds_zen', 'DROP DATABASE holds_zen')
{
	my $result = run_sql($dbh, $_);
	is($result->{state}, '55000', "recovery failed: $_");
	like($result->{message}, qr/recovery of the pool has failed.*HINT: /s, "recovery failed: $_ says why");
}
is(state_of(connect_db($node, 'plain'), 'CREATE TABLE h (id int PRIMARY KEY)'), '',
	'recovery failed: another database');

$dbh->disconnect;
$node->stop;
$node->append_conf('postgresql.conf', q{zen.dram_size = '64MB'});
$node->start;
$dbh = connect_db($node);
is(value($dbh, 'SELECT count(*) FROM z WHERE id > 0'), 100, 'with more memory all is there');
is(state_of($dbh, $_), '', "with more memory: $_") for 'DROP TABLE z', 'DROP DATABASE holds_zen', 'VACUUM';
is_sound($dbh, 'with more memory');
$dbh->disconnect;
$node->stop;
done_testing();
