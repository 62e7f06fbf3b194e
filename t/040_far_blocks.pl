# A table whose TIDs need more than one segment (1 GB) of a file as PostgreSQL counts: there are no rows in the file,
# but the executor may advise the kernel to prefetch any block of a bitmap from it.
#
# Eight million rows would take long: one row is given a far TID in the pool of a stopped server.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg ':async';
use PoolFile 'crc32c';
use PoolImage;
use Test::More;
use ZenTest;

use constant SEGMENT => 131072;    # blocks

skip_unless_zen();
my $node = new_node('far', pool_size => '64MB', dram_size => '256MB', conf => 'effective_io_concurrency = 100');
$node->start;
my $dbh = connect_db($node);
value($dbh, $_) for 'CREATE EXTENSION zen',
  'CREATE TABLE far (id int, k int, v text) USING zen', 'CREATE INDEX ON far (k)',
  q{INSERT INTO far SELECT g, 5, 'row number ' || g FROM generate_series(1, 200) g},
  'CREATE TABLE t (id int PRIMARY KEY, k int, v int) USING zen', 'INSERT INTO t VALUES (1, 5, 0)';

# The last block of the first segment, then beyond: the next rows come behind it.
move_row('row number 200', 2 * SEGMENT - 1);
test_prefetch('a far row');
$dbh->disconnect;
$node->restart;
$dbh = connect_db($node);
value($dbh, q{INSERT INTO far SELECT g, 5, 'new row' FROM generate_series(1001, 1200) g});
cmp_ok(value($dbh, q{SELECT max((ctid::text::point)[0]) FROM far}), '>=', 2 * SEGMENT,
	'new rows are in another segment');
my $path = $node->data_dir . '/' . value($dbh, q{SELECT pg_relation_filepath('far')});
ok(-e "$path.2", 'which exists');
cmp_ok((stat "$path.$_")[12] * 512, '<', 1024 * 1024, "segment $_ takes no space") for 1, 2;
test_prefetch('new rows behind it');
is_sound($dbh, 'at the end');
$node->stop;
done_testing();

# move_row -- the row with this text is in another block after a crash.
sub move_row
{
	my ($text, $block) = @_;
	value($dbh, 'CHECKPOINT') if by_wal($node);    # or replay stores the row as it was
	crash($node);
	my $pool = PoolImage->new(pool_path($node));
	my ($slot) = grep { index($pool->get($_->{offset}, $_->{size}), $text) >= 0 } $pool->slots;
	my $at = $slot->{offset};
	my $word1 = ($slot->{word1} & ~0xffffffff0000) | ($block << 16);
	my $crc = crc32c(pack('Q<Q<', $slot->{cts}, $word1) . $pool->get($at + 16, 4)
		. $pool->get($at + 24, $slot->{length} - 8));
	$pool->put($at + 8,  pack 'Q<', $word1);
	$pool->put($at + 20, pack 'L<', $crc);
	$pool->save;
	start_again($node);
	$dbh = connect_db($node);
	is(value($dbh, 'SELECT count(*) FROM far'), 200, 'all rows are there');
	return;
}

# The subquery's bitmap scan of an ordinary query, and of one that is checked again since the row has changed.
sub test_prefetch
{
	my ($name) = @_;
	my $other = connect_db($node);
	value($other, "SET enable_$_ = off") for qw(seqscan indexscan indexonlyscan);
	my $count = value($dbh, 'SELECT count(*) FROM far WHERE v IS NOT NULL');
	my $sql = 'UPDATE t SET v = (SELECT count(*) FROM far f WHERE f.k = t.k AND f.v IS NOT NULL) WHERE id = 1';
	like(join(' ', map { $_->[0] } @{ run_sql($other, "EXPLAIN $sql")->{rows} }), qr/Bitmap Heap Scan on far/,
		"$name: the plan");
	value($dbh, $_) for 'BEGIN', 'UPDATE t SET v = -1 WHERE id = 1';
	my $pid = value($other, 'SELECT pg_backend_pid()');
	$other->do($sql, { pg_async => PG_ASYNC });
	wait_for('the update to wait', sub { lock_wait_pid($dbh, $pid) });
	value($dbh, 'COMMIT');
	my $done = $other->pg_result;
	is($done // $other->errstr, 1, "$name: checked again");
	is(value($dbh, 'SELECT v FROM t'), $count, "$name: all rows were found");
	$other->disconnect;
	return;
}
