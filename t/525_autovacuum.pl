# Autovacuum, and the statistics that it goes by and leaves.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('autovacuum', pool_size => '128MB', dram_size => '128MB');
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');
test_autovacuum();
$dbh->disconnect;
$node->stop;
done_testing();

# The daemon cleans up, analyzes and counts as it does for heap.
sub test_autovacuum
{
	run_all($dbh, q{ALTER SYSTEM SET autovacuum = on}, q{ALTER SYSTEM SET autovacuum_naptime = '1s'},
		'SELECT pg_reload_conf()',
		'CREATE TABLE av (id int PRIMARY KEY, v text) USING zen '
			  . 'WITH (autovacuum_vacuum_threshold = 100, autovacuum_analyze_threshold = 100)',
		q{INSERT INTO av SELECT g, 'v' || g FROM generate_series(1, 20000) g},
		'SELECT count(*) FROM av', 'SELECT count(*) FROM av WHERE id < 100',
		'UPDATE av SET v = v || id WHERE id % 10 = 0', 'DELETE FROM av WHERE id % 2 = 0',
		'SELECT pg_stat_force_next_flush()');
	wait_for('autovacuum', sub {
		value($dbh, q{SELECT autovacuum_count > 0 AND autoanalyze_count > 0 FROM pg_stat_user_tables
			WHERE relname = 'av'}) }, 600);

	# a session's counts may come after a VACUUM that has seen its rows already, and are added then, in heap as well
	run_all($dbh, 'ANALYZE av');
	is(value($dbh, q{SELECT concat_ws(' ', n_tup_ins, n_tup_upd, n_tup_del, n_live_tup) FROM pg_stat_user_tables
		WHERE relname = 'av'}),
		'20000 2000 10000 10000', 'rows written and alive are counted');
	is(value($dbh, q{SELECT heap_blks_read = 0 AND heap_blks_hit >= 313 FROM pg_statio_user_tables
		WHERE relname = 'av'}),
		1, 'blocks read are counted');
	is(value($dbh, q{SELECT reltuples FROM pg_class WHERE relname = 'av'}), 10000, 'reltuples');
	is(value($dbh, q{SELECT count(*) > 0 FROM pg_stats WHERE tablename = 'av'}), 1, 'column statistics');
	run_all($dbh, 'ALTER SYSTEM RESET ALL', 'SELECT pg_reload_conf()', 'DROP TABLE av');
	return;
}
