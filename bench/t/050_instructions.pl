# bench/instructions: what a SELECT and an UPDATE by key cost in user instructions, prepared and not. That number does
# not depend on the machine, so a limit is a limit: who makes the way of a statement longer sees it here.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../t/lib";

use Test::More;
use ZenTest;

# Instructions per transaction of zen on Debian's PostgreSQL 15, as measured by bench/instructions. A change that
# makes statements cheaper lowers them. The aims are 26,000 and 35,000, for statements that are prepared; 56,000 and
# 66,000 by the simple protocol; 80,000 and 98,000 by the extended one, for statements without a name.
my %measured = (
	prepared => { select => 25_750, update => 33_950 },
	simple   => { select => 49_750, update => 63_250 },
	extended => { select => 77_850, update => 95_550 });
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
	[ [ '--loads', 'distinct' ], qr/wants --protocol simple/ ],
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
	for my $case ([ 'prepared', 'zen', 10 ], [ 'prepared', 'heap', 5 ], [ 'simple', 'zen', 10 ],
		[ 'simple', 'heap', 3 ], [ 'extended', 'zen', 10 ], [ 'extended', 'heap', 3 ])
	{
		my ($protocol, $am, $transactions) = @$case;
		my $out = "$dir/$protocol-$am.csv";
		($output, my $status) = instructions('--am', $am, '--protocol', $protocol, '--transactions', $transactions,
			'--warmup', 5000, '--out', $out);
		skip 'ptrace is refused', 1 if $status == 3;
		is($status, 0, "status, $protocol, $am") or BAIL_OUT($output);
		for (split /\n/, PostgreSQL::Test::Utils::slurp_file($out))
		{
			my ($load, undef, $what, $median) = split /,/;
			$count{$protocol}{$load}{$am}{$what} = $median;
		}
	}
	for my $protocol (sort keys %measured)
	{
		for my $load (sort keys %{ $measured{$protocol} })
		{
			my ($zen, $heap) = map { $count{$protocol}{$load}{$_}{instructions} } qw(zen heap);
			my $limit = $measured{$protocol}{$load} * $margin;
			diag "$protocol, $load: $zen instructions, heap $heap";
			cmp_ok($zen, '<=', $limit, "$protocol, $load: not above the limit") if $major == 15;
			cmp_ok($zen, '<=', $heap * $same, "$protocol, $load: not above heap's");
			my $groups = $count{$protocol}{$load}{zen};
			cmp_ok($groups->{'engine: read rows'}, '>', 0, "$protocol, $load: the groups have their functions");
			cmp_ok($groups->{planner} || 0, '==', 0, "$protocol, $load: nothing is planned");
		}
	}
	like($output, qr/^\| update \| heap \| \d+ \| \d+ \| \d+ \| \d+ \| \d+ \|$/m, 'the table');
}

done_testing();
