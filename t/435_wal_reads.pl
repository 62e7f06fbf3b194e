# Mode wal with a pool that is not in memory: the kernel reads only the page that is touched, and scans ask for rows
# before they read them.  The pool's pages leave the page cache while the server is down.

use strict;
use warnings;

use Fcntl ();
use File::Temp ();
use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

use constant { ROWS => 40_000, POSIX_FADV_DONTNEED => 4 };

skip_unless_zen();
my $dir = File::Temp->newdir('zen_reads_XXXXXX', DIR => '/var/tmp');
my ($fs) = PostgreSQL::Test::Utils::run_command([ 'stat', '-f', '-c', '%T', "$dir" ]);
plan skip_all => "$dir is in memory" if $fs eq 'tmpfs';

my $pool = "$dir/pool";
my $node = new_node('reads', pool_path => $pool, pool_size => '128MB', dram_size => '128MB',
	conf => "zen.pool_mode = wal\nzen.met_cache_size = 1MB\nautovacuum = off\nmax_parallel_workers_per_gather = 0");
$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, n int, v text) USING zen',
	"INSERT INTO t SELECT g, g, repeat('x', 900) FROM generate_series(1, @{[ROWS]}) g",
	'CREATE TABLE warm (id int) USING zen', 'INSERT INTO warm VALUES (1)');
my $pages = ROWS / 4;    # a row takes 1 KB

# each way to read all rows, by a session of its own on a server that has just been started
for my $case (
	[ 'sequential scan', 'SELECT sum(length(v)) FROM t WHERE v IS NOT NULL', 'Seq Scan' ],
	[ 'aggregate by blocks', 'SELECT sum(n) FROM t', 'Seq Scan|Custom Scan' ],
	[ 'index scan', 'SELECT sum(length(v)) FROM (SELECT v FROM t ORDER BY id OFFSET 0) s', 'Index Scan' ])
{
	my ($what, $sql, $plan) = @$case;
	my $answer = value($dbh, $sql);
	start_cold();
	run_all($dbh, 'SET enable_sort = off', 'SET enable_bitmapscan = off');
	run_all($dbh, 'SET enable_seqscan = off') if $what eq 'index scan';
	my $lines = run_sql($dbh, "EXPLAIN (COSTS OFF) $sql")->{rows};
	like(join("\n", map { $_->[0] } @$lines), qr/$plan/, "$what: the plan");
	my $before = faults($dbh);
	is(value($dbh, $sql), $answer, "$what: all rows");
	my $waits = faults($dbh) - $before;
	note("$what: $waits waits for the disk, $pages pages");
	cmp_ok($waits, '>', 0, "$what: the pool was not in memory");
	cmp_ok($waits, '<', $pages / 8, "$what: few waits for the disk");
}

# left alone, the kernel would read 128 KB at least
start_cold();
my $read = read_bytes($dbh);
value($dbh, "SELECT v FROM t WHERE id = @{[ROWS / 2]}");
$read = read_bytes($dbh) - $read;
note("by key: $read bytes");
cmp_ok($read, '>', 0, 'by key: the row is read from the disk');
cmp_ok($read, '<', 65536, 'by key: little more than the row is read');
$dbh->disconnect;
$node->stop;
done_testing();

# start_cold -- the server starts, and nothing of the pool is in memory but what a start reads.
sub start_cold
{
	$dbh->disconnect;
	$node->stop;
	forget($pool);
	$node->start;
	$dbh = connect_db($node);
	value($dbh, 'SELECT count(*) FROM warm');
	return;
}

# faults -- of the session, so far, which waited for a disk.
sub faults
{
	my ($stat) = PostgreSQL::Test::Utils::slurp_file("/proc/$_[0]{pg_pid}/stat") =~ /\) (.*)/;
	return (split ' ', $stat)[9];
}

# forget -- have the kernel drop a file from its cache.
sub forget
{
	my ($path) = @_;
	require 'syscall.ph';
	open my $file, '+<', $path or die $!;
	syscall(SYS_fsync(), fileno $file) == 0 or die $!;
	syscall(SYS_fadvise64(), fileno $file, 0, 0, POSIX_FADV_DONTNEED) == 0 or die $!;
	close $file;
	return;
}

# read_bytes -- by the session, from disks, so far.
sub read_bytes
{
	my ($bytes) = PostgreSQL::Test::Utils::slurp_file("/proc/$_[0]{pg_pid}/io") =~ /^read_bytes: (\d+)/m;
	return $bytes;
}
