# A file of the pool on each NUMA node: sessions that are bound to a node write there and nowhere else.  The kernel
# says on which node the pages lie that were written: get_mempolicy() of each page that has got an owner meanwhile.
# Of DRAM it says so in numa_maps.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use Test::More;
use VmTest;

use constant {
	MB             => 1 << 20,
	PAGE           => 65536,
	SYS_MMAP       => 9,
	SYS_MEMPOLICY  => 239,
	OF_ADDRESS     => 3,                  # MPOL_F_NODE | MPOL_F_ADDR
	OFF_DIRECTORY  => 6 << 20,            # src/nvm/layout.h
};

my @files = map { "/pmem$_/zen.pool" } grep { -d "/pmem$_" } 0 .. 15;
my $n = @files;
plan skip_all => 'one node' if $n < 2;

server('create', 'zen.pool_size=64MB', 'zen.pool_path=' . join(', ', @files));
server('start');
my $db = connect_db();
value($db, 'CREATE EXTENSION zen');
my @node = map { $_->[0] } @{ $db->selectall_arrayref('SELECT node FROM zen_pool_files ORDER BY file') };
is(join(' ', sort @node), join(' ', 0 .. $n - 1), 'each device tells its node');
is(value($db, 'SELECT mode FROM zen_pool'), 'pmem', 'all files are persistent memory');

# The pool as this process maps it: the addresses of its files.
my @address = map { map_file($_) } @files;
my $wrong = 0;
for my $i (0 .. $#files)
{
	my %owned = map { $_ => 1 } map { my $f = $_; map { "$f $_" } owned_pages($f) } 0 .. $#files;
	my $session = connect_db();
	bind_to($session, $node[$i]);
	value($session, "CREATE TABLE t$i (id int PRIMARY KEY, v text) USING zen");
	value($session, "INSERT INTO t$i SELECT g, repeat('x', 900) FROM generate_series(1, 3000) g");
	value($session, "UPDATE t$i SET v = v || 'y' WHERE id <= 1000");
	my @new = grep { !$owned{ join ' ', @$_ } } map { my $f = $_; map { [ $f, $_ ] } owned_pages($f) } 0 .. $#files;
	cmp_ok(scalar @new, '>', 40, "node $node[$i]: " . @new . ' pages were written');
	is(scalar(grep { node_of($address[ $_->[0] ] + $_->[1] * PAGE) != $node[$i] } @new), 0,
		"node $node[$i]: all of them are there, says the kernel");
	my ($there, $elsewhere) = dram_pages(value($session, 'SELECT pg_backend_pid()'));
	cmp_ok($there->{ $node[$i] } // 0, '>=', 3000 * 900 / 4096, "node $node[$i]: its DRAM has the row versions");
	is($elsewhere, 0, "node $node[$i]: all stripes of DRAM that it has touched are where they should be");
	$session->disconnect;
}
is(join(' ', map { $_->[0] } @{ $db->selectall_arrayref('SELECT dram_bytes >= 3000 * 900 FROM zen_stat_numa') }),
	join(' ', (1) x $n), 'row versions in DRAM: on all nodes');
is(node_of($address[$_]), $node[$_], "file $_ is on node $node[$_], says the kernel") for 0 .. $#files;
is(join(' ', map { "@$_" } @{ $db->selectall_arrayref(
		'SELECT DISTINCT rows_remote, lines_remote, pages_remote FROM zen_stat_numa') }),
	'0 0 0', 'no row, line or page was remote');
cmp_ok(value($db, 'SELECT min(lines_local) FROM zen_stat_numa'), '>', 3000 * 14, 'all lines are counted as local');

# again over a crash
$db->disconnect;
server('kill');
server('start');
$db = connect_db();
is(value($db, "SELECT count(*) FROM t$_"), 3000, "after a crash: t$_") for 0 .. $#files;
for my $i (0 .. $#files)
{
	my $session = connect_db();
	bind_to($session, $node[$i]);
	value($session, "UPDATE t$_ SET v = v || 'z' WHERE id <= 500") for 0 .. $#files;
	$session->disconnect;
}
is(value($db, 'SELECT sum(lines_remote) FROM zen_stat_numa'), 0, 'after a crash: nothing remote');
cmp_ok(value($db, 'SELECT min(rows_local) FROM zen_stat_numa'), '>=', 500 * $n, 'after a crash: rows of each node');
is_sound($db, 'at the end');
$db->disconnect;
server('stop');
done_testing();

sub bind_to
{
	my ($session, $node) = @_;
	my $pid = value($session, 'SELECT pg_backend_pid()');
	chomp(my $cpus = qx(cat /sys/devices/system/node/node$node/cpulist));
	system("taskset -pc $cpus $pid >/dev/null") == 0 or die "taskset: $?";
	return;
}

# map_file -- its address.
sub map_file
{
	my ($path) = @_;
	open my $fh, '<:raw', $path or die "$path: $!";
	my $address = syscall(SYS_MMAP, 0, -s $path, 1, 1, fileno $fh, 0);
	die "mmap $path: $!" if $address == -1;
	return $address;
}

# node_of -- where the page at an address is.
sub node_of
{
	my ($address) = @_;
	my $first = unpack 'P8', pack 'Q', $address;    # it must be mapped
	my $node = pack 'l', -1;
	syscall(SYS_MEMPOLICY, $node, 0, 0, $address, OF_ADDRESS) == 0 or die "get_mempolicy: $!";
	return unpack 'l', $node;
}

# dram_pages -- shared memory with a policy that a process has touched: pages by node, and how many are on another.
sub dram_pages
{
	my ($pid) = @_;
	my %there;
	my $elsewhere = 0;
	open my $maps, '<', "/proc/$pid/numa_maps" or die "numa_maps: $!";
	while (my $line = <$maps>)
	{
		my ($wanted) = $line =~ m{ prefer[:=](?:\S+?:)?(\d+) file=/dev/zero} or next;
		while ($line =~ / N(\d+)=(\d+)/g)
		{
			$there{$1} += $2;
			$elsewhere += $2 if $1 != $wanted;
		}
	}
	return (\%there, $elsewhere);
}

# owned_pages -- numbers, within the file, of those whose directory word is not zero.
sub owned_pages
{
	my ($file) = @_;
	open my $fh, '<:raw', $files[$file] or die "$files[$file]: $!";
	seek $fh, OFF_DIRECTORY, 0;
	read $fh, my $words, 8 * (64 * MB) / PAGE;
	my @words = unpack 'Q*', $words;
	return grep { $words[$_] } 0 .. $#words;
}
