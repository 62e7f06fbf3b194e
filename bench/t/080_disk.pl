# bench/disk: refuses bad arguments; it has a line for each slice, and its table one for each peer, load and number of
# clients.  And zen is in mode wal on the disk: a commit waits for a flush of the WAL.

use strict;
use warnings;

use File::Temp ();
use FindBin;
use lib "$FindBin::RealBin/../../t/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $base = $ENV{TMPDIR} && length $ENV{TMPDIR} < 40 ? $ENV{TMPDIR} : '/tmp';
my $dir  = File::Temp->newdir('disk.XXXXXX', DIR => $base);
chmod 01777, $dir or die $!;

# Output and status.
sub disk
{
	my $output = qx('$FindBin::RealBin/../disk' @_ 2>&1 </dev/null);
	return ($output, $? >> 8);
}

for my $case (
	[ '--loads all', qr/--loads is a list of update-key .* update-zipf, not 'all'/ ],
	[ '--peers pg', qr/--peers is a list of heap zen zen-tree, not 'pg'/ ],
	[ '--clients 0', qr/--clients is a list of numbers, not '0'/ ],
	[ '--memory 10', qr/--memory is a number of megabytes, at least 100, not '10'/ ],
	[ '--memory 500 --restarts 1', qr/--memory and --restarts do not go together/ ],
	[ '--dram 100', qr/--dram must be 512 or more/ ],
	[ '--dir /nowhere', qr{--dir /nowhere is no directory} ])
{
	my ($output, $status) = disk("--out $dir/out", $case->[0]);
	is($status, 2, "$case->[0]: its status");
	like($output, $case->[1], "$case->[0]: what it says");
}

my ($output, $status) = disk("--dir $dir --out $dir/out --loads update-key,copy --clients 2 --peers heap,zen,zen-tree",
	'--rounds 2 --seconds 1 --scale 1 --warehouses 1 --rows 1000 --dram 512');
is($status, 0, 'its status') or diag $output;
is(join(' ', glob "$dir/zen-disk.*"), '', 'it leaves no server');

my ($head, @lines) = split /\n/, PostgreSQL::Test::Utils::slurp_file("$dir/out/disk.csv");
my @columns = split /,/, $head;
my @slices  = map { my %slice; @slice{@columns} = split /,/, $_, -1; \%slice } @lines;
is(scalar(@slices), 2 * 2 * 3, 'a line for each slice');
is(join(' ', map { $_->{peer} } @slices[ 0 .. 5 ]), 'heap zen zen-tree zen-tree zen heap', 'peers have turns');
cmp_ok($_->{tps}, '>', 0, "$_->{load}, $_->{peer}: transactions per second") for @slices;

my @zen = grep { $_->{peer} ne 'heap' && $_->{load} eq 'update-key' } @slices;
cmp_ok($_->{wal_bytes_per_tx}, '>', 100, "$_->{peer}: an update is in the WAL")   for @zen;
cmp_ok($_->{wal_bytes_per_tx}, '<', 400, "$_->{peer}: without any page as a whole") for @zen;

my $table = PostgreSQL::Test::Utils::slurp_file("$dir/out/disk.md");
my @rows  = grep { /^\| \w/ } split /\n/, $table;
my $keys  = join ' ', map { join '/', (split / *\| */)[ 1 .. 3 ] } @rows[ 1 .. $#rows ];
is($keys, join(' ', map { ("$_/heap", "$_/zen", "$_/zen-tree") } 'update-key/2', 'copy/1'),
	'a row of the table for each peer; copy has one client');
my %columns = map { scalar(split /\|/) => 1 } @rows;
is(join(' ', keys %columns), 12, 'all have as many columns');

# What root may do only: memory that is limited, and starts with empty caches.
SKIP:
{
	skip 'only root limits memory by control groups', 4 if $> != 0 || !-w '/proc/sys/vm/drop_caches';
	my ($group) = grep { -e "$_/memory.limit_in_bytes" || -e "$_/memory.max" }
	  '/sys/fs/cgroup/memory', '/sys/fs/cgroup';
	skip 'no memory controller of control groups', 4 if !defined $group || !-w $group;
	my $short = "--dir $dir --out $dir/out --peers heap,zen --clients 2 --rounds 1 --seconds 1 --scale 1 --dram 512";
	($output, $status) = disk($short, '--loads read-zipf,update --user-rows 1000 --memory 900');
	is($status, 0, 'memory: its status') or diag $output;
	like(PostgreSQL::Test::Utils::slurp_file("$dir/out/disk.md"), qr/Each server has 900 MB of memory/,
		'memory: the table says so');
	is(join(' ', glob "$group/zen-disk*"), '', 'memory: it leaves no group');
	($output, $status) = disk($short, '--loads update-key --restarts 1');
	like($output, qr/^\| heap \| \d+\.\d+ .*\n\| zen \| \d+\.\d+ /m, 'restarts: seconds of each peer') or diag $output;
}
done_testing();
