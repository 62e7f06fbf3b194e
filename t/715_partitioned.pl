# zen as the access method of partitioned tables, which PostgreSQL has since 17; sql/partitions has the rest.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('partitioned', pool_size => '64MB', dram_size => '64MB');
plan skip_all => 'before PostgreSQL 17 partitioned tables have no access method' if $node->pg_version < 17;
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');
test_partitioned();
$dbh->disconnect;
$node->stop;
done_testing();

# A partitioned table's access method is that of its new partitions; the default is not asked then.
sub test_partitioned
{
	my $ams = sub {
		value($dbh, q{SELECT string_agg(concat_ws(' ', c.relname, am.amname), ', ' ORDER BY c.relname) FROM pg_class c
		  LEFT JOIN pg_am am ON am.oid = c.relam WHERE c.relname ~ '^pam' AND c.relkind IN ('r', 'p')});
	};
	run_all($dbh, 'CREATE TABLE pam (k int PRIMARY KEY, v text) PARTITION BY RANGE (k) USING zen',
		'CREATE TABLE pam1 PARTITION OF pam FOR VALUES FROM (0) TO (100)', 'ALTER TABLE pam SET ACCESS METHOD heap',
		'CREATE TABLE pam2 PARTITION OF pam FOR VALUES FROM (100) TO (200)',
			'ALTER TABLE pam SET ACCESS METHOD DEFAULT',
		'SET default_table_access_method = zen', 'CREATE TABLE pam3 PARTITION OF pam FOR VALUES FROM (200) TO (300)',
		q{INSERT INTO pam SELECT g, 'p' || g FROM generate_series(0, 299) g});
	is($ams->(), 'pam, pam1 zen, pam2 heap, pam3 zen', 'partitions have the access method of the partitioned table');
	my $rows = contents($dbh, 'pam');
	run_all($dbh, 'ALTER TABLE pam SET ACCESS METHOD zen', 'ALTER TABLE pam2 SET ACCESS METHOD DEFAULT',
		'CREATE INDEX ON pam (v)');
	is($ams->(), 'pam zen, pam1 zen, pam2 zen, pam3 zen', 'SET ACCESS METHOD DEFAULT');
	is(contents($dbh, 'pam'), $rows, 'and no row is lost');
	is(contents($dbh, 'pam', 'indexscan', 'k >= 0'), $rows, 'nor in the index');
	run_all($dbh, 'CREATE TEMP TABLE pam_temp (k int)', 'CREATE TEMP TABLE pam_parent (k int) PARTITION BY RANGE (k)');
	is(state_of($dbh, "ALTER TABLE $_"), '0A000', "a temporary table cannot get zen: $_")
	  for 'pam_temp SET ACCESS METHOD DEFAULT', 'pam_parent SET ACCESS METHOD zen';
	run_all($dbh, 'ALTER TABLE pam_parent SET ACCESS METHOD DEFAULT', 'RESET default_table_access_method',
		'CREATE TEMP TABLE pam_child PARTITION OF pam_parent DEFAULT', 'INSERT INTO pam_parent VALUES (1)');
	is($ams->(), 'pam zen, pam1 zen, pam2 zen, pam3 zen, pam_child heap, pam_parent, pam_temp heap',
		'temporary partitions are heap');
	run_all($dbh, 'DROP TABLE pam, pam_parent, pam_temp');
	return;
}
