# PowerSeries -- a test of power cuts that consists of others, which it runs with a medium of its own.

package PowerSeries;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use Test::More;
use ZenTest;

our @EXPORT_OK = qw(run_test sample);

# sample -- so many of these names, by chance.
sub sample
{
	my ($n, @names) = @_;
	splice @names, int rand @names, 1 while @names > $n;
	return @names;
}

# run_test -- another test, with these settings in the environment, is passed.
sub run_test
{
	my ($what, $name, %with) = @_;
	local %ENV = (%ENV, %with);
	my @includes = map { "'-I$_'" } @INC;
	my $output = qx($^X @includes '$FindBin::RealBin/$name.pl' 2>&1);
	ok($? == 0, "$what: $name") or diag($output);
	note($_) for grep { /\d cuts|^# cut after|^# (?:acknowledged|in flight|asynchronous)/ && !/^ok/ } split /\n/,
		$output;
	return;
}

1;
