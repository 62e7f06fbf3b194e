# bench/instructions: what a SELECT and an UPDATE by key cost in user instructions. That number does not depend on the
# machine, so a limit is a limit: who makes the way of a statement longer sees it here.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../t/lib";

use Test::More;
use ZenTest;

# Instructions per transaction of zen on Debian's PostgreSQL 15, as measured by bench/instructions. A change that
# makes statements cheaper lowers them. The aims are 26,000 and 35,000.
my %measured = (select => 25_750, update => 33_950);
my $margin   = 1.05;    # another processor, another minor version
my $same     = 1.01;    # counts of the same code with other keys

skip_unless_zen();
my $tool = "$FindBin::RealBin/../instructions";
my $dir  = PostgreSQL::Test::Utils::tempdir();

# Output and status.
sub instructions
{
	my $command = join ' ', map { "'$_'" } $tool, @_;
	my $output = `$command 2>&1 </dev/null`;
	return ($output, $? >> 8);
}

for my $case (
	[ [ '--loads', 'select,tpch' ], qr/--loads is a list/ ],
	[ [ '--am', 'zen,columnar' ], qr/--am is a list/ ],
	[ [ '--set', 'zen.met_cache_size' ], qr/--set is a list/ ],
	[ [ '--transactions', '0' ], qr/--transactions wants a whole number/ ],
	[ [ '--out', "$dir/none/x" ], qr/cannot write/ ])
{
	my ($arguments, $message) = @$case;
	my ($output, $status) = instructions(@$arguments);
	ok($status == 2 && $output =~ $message, "refused: @$arguments") or diag $output;
}

my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
my ($major) = `$pg_config --version` =~ /(\d+)/;
SKIP:
{
	skip 'a server with assertions has other numbers', 1 if `$pg_config --configure` =~ /--enable-cassert/;

	my (%count, $output);
	for my $case ([ 'zen', 10 ], [ 'heap', 5 ])
	{
		my ($am, $transactions) = @$case;
		($output, my $status) = instructions('--am', $am, '--transactions', $transactions, '--warmup', 5000,
			'--out', "$dir/$am.csv");
		skip 'ptrace is refused', 1 if $status == 3;
		is($status, 0, "status, $am") or BAIL_OUT($output);
		for (split /\n/, PostgreSQL::Test::Utils::slurp_file("$dir/$am.csv"))
		{
			my ($load, undef, $what, $median) = split /,/;
			$count{$load}{$am}{$what} = $median;
		}
	}
	for my $load (sort keys %measured)
	{
		my ($zen, $heap) = map { $count{$load}{$_}{instructions} } qw(zen heap);
		diag "$load: $zen instructions, heap $heap";
		cmp_ok($zen, '<=', $measured{$load} * $margin, "$load: not above the limit") if $major == 15;
		cmp_ok($zen, '<=', $heap * $same, "$load: not above heap's");
		cmp_ok($count{$load}{zen}{'engine: read rows'}, '>', 0, "$load: the groups have their functions");
	}
	like($output, qr/^\| update \| heap \| \d+ \| \d+ \| \d+ \| \d+ \| \d+ \|$/m, 'the table');
}

done_testing();
