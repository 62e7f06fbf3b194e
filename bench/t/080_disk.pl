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
	[ '--loads all', qr/--loads is a list of update-key .* copy, not 'all'/ ],
	[ '--peers pg', qr/--peers is a list of heap zen zen-tree, not 'pg'/ ],
	[ '--clients 0', qr/--clients is a list of numbers, not '0'/ ],
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
done_testing();
