# bench/numa: refuses bad arguments; its table has a line for each mode; and rows are written where each mode says.
#
# How many reads of soft are local is not looked at: rows follow when they are written, and two seconds write few.
# Of 2 warehouses 52 to 54 % were local then (t/vm/tests/soft.pl waits until it is 85 %).
#
# Its server is that of ZEN_FAULT_SERVER: it has the settings that simulate nodes.

use strict;
use warnings;

use FindBin;

use Test::More;

my $processors = qx(nproc --all) + 0;
plan skip_all => 'one processor' if $processors < 2;
plan skip_all => 'not all processors are allowed' if qx(nproc) + 0 < $processors;

# Output and status.
sub numa
{
	my $output = qx('$FindBin::RealBin/../numa' @_ 2>&1 </dev/null);
	return ($output, $? >> 8);
}

for my $case (
	[ '--modes near', qr/--modes is a list of remote local naive local-write soft off, not 'near'/ ],
	[ '--delays fast', qr/--delays is a list of numbers, not 'fast'/ ],
	[ '--write-delay -2', qr/--write-delay is -1 or a number/ ])
{
	my ($output, $status) = numa($case->[0]);
	is($status, 2, "$case->[0]: its status");
	like($output, $case->[1], "$case->[0]: what it says");
}

my @modes = qw(remote naive local-write soft off);
my ($output, $status) = numa('--modes ' . join(',', @modes), '--warehouses 2 --rounds 1 --seconds 2 --delays 0,1000');
is($status, 0, 'its status') or diag $output;
for my $delay (0, 1000)
{
	my ($table) = $output =~ /^(\| $delay ns a line \|.*?)\n\n/ms;
	my ($head, undef, @lines) = split /\n/, $table // '';
	is(columns($head // ''), 8, "$delay ns: columns");
	my %line = map { my @cells = cells($_); shift @cells => \@cells } @lines;
	is(join(' ', map { (cells($_))[0] } @lines), "@modes", "$delay ns: a line for each mode");
	like($line{$_}[0], qr/^\d+\.\d{3} \(\d+\.\d{3} to \d+\.\d{3}\)$/, "$delay ns, $_: processor time") for @modes;
	like($line{naive}[1], qr/^1\.00 /, "$delay ns: naive / naive");
	is(join(' ', @{ $line{off} }[ 3 .. 6 ]), '- - - -', "$delay ns: off counts nothing");

	my %reads  = map { $_ => number($line{$_}[3]) } @modes[ 0 .. 3 ];
	my %writes = map { $_ => number($line{$_}[4]) } @modes[ 0 .. 3 ];
	is("$reads{remote} $writes{remote}", '0 0', "$delay ns, remote: nothing is local");
	is($line{soft}[6], '0.0', "$delay ns, soft: no remote line is written");
	cmp_ok($reads{naive}, '>=', 30, "$delay ns, naive: about half of the reads are local");
	cmp_ok($reads{naive}, '<=', 70, "$delay ns, naive: not more");
	cmp_ok($writes{naive}, '>=', 30, "$delay ns, naive: about half of the writes, too");
	cmp_ok($writes{naive}, '<=', 70, "$delay ns, naive: not more of them");
	is($writes{'local-write'}, 100, "$delay ns, local-write: all writes are local");
	is($writes{soft}, 100, "$delay ns, soft: all writes are local");
}
done_testing();

# cells -- of a line of a table.
sub cells
{
	my ($line) = @_;
	my (undef, @cells) = split / *\| */, $line;
	return @cells;
}

sub columns
{
	my @cells = cells($_[0]);
	return scalar @cells;
}

sub number { return $_[0] =~ s/ %//r; }
