# zen.numa = soft with a file of the pool on each NUMA node: a load like TPC-C's, by warehouse.  Warehouses are divided
# evenly among the nodes, sessions go where theirs are, and so most row reads are local; after sessions have exchanged
# their warehouses, too.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use Test::More;
use Time::HiRes qw(time);
use VmTest;

use constant {
	ITEMS   => 30,      # of a warehouse
	LINES   => 5,       # of an order; one in 50 is of any warehouse
	ORDERS  => 15,      # of each session, between two looks
	LOCAL   => 0.85,    # of row reads: issue and paper ask for so many
	SECONDS => 30,
};

my @files = map { "/pmem$_/zen.pool" } grep { -d "/pmem$_" } 0 .. 15;
my $n = @files;
plan skip_all => 'one node' if $n < 2;

server('create', 'zen.pool_size=64MB', 'zen.pool_path=' . join(', ', @files), 'zen.numa=soft',
	'zen.met_cache_size=64kB');
server('start');
my $db = connect_db();
value($db, 'CREATE EXTENSION zen');
value($db, 'CREATE TABLE stock (w int, i int, quantity int, v text, PRIMARY KEY (w, i)) USING zen');
value($db, 'CREATE TABLE district (w int PRIMARY KEY, next int) USING zen');
value($db, "SELECT zen_set_partition_key('$_', 'w')") for 'stock', 'district';

# A warehouse for each of 2 * n sessions, and at first all on one node.
my $part = '(hashint4(w)::bigint & 4294967295) % 2048';
my @all = map { $_->[0] } @{ $db->selectall_arrayref("SELECT min(w) FROM generate_series(1, 20000) w
	JOIN _zen_numa_partitions() p ON p.partition = $part WHERE node = 0 GROUP BY p.partition
	ORDER BY 1 LIMIT " . 2 * $n) };
my @mine = @all;
for my $w (@all)
{
	value($db, "INSERT INTO district VALUES ($w, 1)");
	value($db, "INSERT INTO stock SELECT $w, g, 1000, repeat('x', 1900) FROM generate_series(1, " . ITEMS . ') g');
}
my @session = map { connect_db() } 0 .. 2 * $n - 1;
my ($seconds, $local, $balance) = run_until_local();
cmp_ok($local, '>=', LOCAL, sprintf 'from one node to all: %.1f %% of reads are local', 100 * $local);
cmp_ok($balance, '<=', 1.1, sprintf 'balanced: the busiest node has %.2f of its share of accesses', $balance);
cmp_ok($seconds, '<', SECONDS, sprintf 'after %.1f s', $seconds);

# each session takes the warehouses of one that is elsewhere
my %node_of = map { @$_ } @{ $db->selectall_arrayref("SELECT w, node FROM district JOIN _zen_numa_partitions() p
	ON p.partition = $part") };
@mine = sort { $node_of{$a} <=> $node_of{$b} } @mine;
@session = sort { at($a) <=> at($b) } @session;
@mine = (@mine[ 2 .. $#mine ], @mine[ 0, 1 ]);
my $moves = value($db, 'SELECT sum(moves) FROM zen_stat_numa');
($seconds, $local, $balance) = run_until_local();
cmp_ok(value($db, 'SELECT sum(moves) FROM zen_stat_numa'), '>=', $moves + @session / 2,
	'exchanged: sessions have moved');
cmp_ok($local, '>=', LOCAL, sprintf 'exchanged: %.1f %% of reads are local', 100 * $local);
cmp_ok($balance, '<=', 1.1, sprintf 'exchanged: the busiest node has %.2f of its share of accesses', $balance);
cmp_ok($seconds, '<', SECONDS, sprintf 'exchanged: after %.1f s', $seconds);
is_sound($db, 'at the end');
$_->disconnect for @session, $db;
server('stop');
done_testing();

# order -- a transaction of a session.
sub order
{
	my ($s) = @_;
	my $home = $mine[$s];
	my $dbh = $session[$s];
	$dbh->begin_work;
	value($dbh, 'UPDATE district SET next = next + 1 WHERE w = $1', $home);
	for my $line (1 .. LINES)
	{
		my @key = ($line == 1 && one_in_ten() ? $all[ rand @all ] : $home, 1 + int rand ITEMS);
		value($dbh, 'SELECT v FROM stock WHERE w = $1 AND i = $2', @key);
		value($dbh, 'UPDATE stock SET quantity = quantity - 1 WHERE w = $1 AND i = $2', @key);
	}
	$dbh->commit;
	return;
}

sub one_in_ten { return rand(10) < 1; }

# counts -- rows read locally, and not; accesses by node.
sub counts
{
	return (@{ $db->selectrow_arrayref('SELECT sum(rows_read_local), sum(rows_read_remote) FROM zen_stat_numa') },
		map { $_->[0] } @{ $db->selectall_arrayref(
				'SELECT sum(accesses) FROM _zen_numa_partitions() GROUP BY node ORDER BY node') });
}

# run_until_local -- orders, until it is as it should be between two looks, or for too long.
sub run_until_local
{
	my $begin = time;
	while (1)
	{
		my $moved = value($db, 'SELECT sum(moves) FROM _zen_numa_partitions()');
		my @before = counts();
		for (1 .. ORDERS)
		{
			order($_) for 0 .. $#session;
		}
		my @after = counts();
		my ($near, $far, @accesses) = map { $after[$_] - $before[$_] } 0 .. $#after;
		my ($sum, $most) = (0, 0);
		for (@accesses)
		{
			$sum += $_;
			$most = $_ if $_ > $most;
		}
		my ($share, $busiest) = ($near / ($near + $far || 1), $most * $n / $sum);
		my $same = value($db, 'SELECT sum(moves) FROM _zen_numa_partitions()') == $moved;
		note(sprintf '%.1f s: %.3f of %d reads local, %.2f', time - $begin, $share, $near + $far, $busiest);
		return (time - $begin, $share, $busiest)
		  if ($same && $near > 0 && $share >= LOCAL && $busiest <= 1.1) || time - $begin > SECONDS;
	}
}

# at -- the processors that a session is bound to.
sub at
{
	my ($dbh) = @_;
	open my $file, '<', "/proc/$dbh->{pg_pid}/status" or die "status: $!";
	my ($list) = map { /^Cpus_allowed_list:\s*(\d+)/ } <$file>;
	return $list;
}
