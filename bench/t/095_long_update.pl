# bench/long_update: refuses bad arguments; a long transaction that loses to writers commits within
# zen.exclusive_failures + 2 tries, in an exclusive stage; one that updates rows that nobody else does needs one try and
# no stage; and the time line has each second.

use strict;
use warnings;

use File::Temp ();
use FindBin;
use lib "$FindBin::RealBin/../../t/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $dir = File::Temp->newdir('long_update.XXXXXX', TMPDIR => 1);
chmod 01777, $dir or die $!;

# Output and status.
sub long_update
{
	my $output = qx('$FindBin::RealBin/../long_update' @_ 2>&1 </dev/null);
	return ($output, $? >> 8);
}

for my $case (
	[ '--rows 10', qr/--rows must be 1000 or more/ ],
	[ '--keys none', qr/--keys is all or others, not 'none'/ ],
	[ '--out /nowhere/it', qr{cannot write /nowhere/it} ],
	[ '--data /nowhere/it', qr{cannot write /nowhere/it\.csv} ])
{
	my ($output, $status) = long_update($case->[0]);
	is($status, 2, "$case->[0]: its status");
	like($output, $case->[1], "$case->[0]: what it says");
}

my $failures = 4;
my @run = ('--rows 100000 --clients 3 --seconds 2', "--out $dir/out.md", "--set zen.exclusive_failures=$failures");

# What a run has written: the events of a kind.
sub events
{
	my ($kind) = @_;
	return grep { $_->[0] eq $kind } map { [ split /,/, s/"//gr, 4 ] } split /\n/,
	  PostgreSQL::Test::Utils::slurp_file("$dir/line.csv");
}

my ($output, $status) = long_update(@run, "--data $dir/line");
is($status, 0, 'all keys: its status') or diag $output;
my @tries  = events('try');
my @stages = events('stage');
note scalar(@tries) . ' tries';
is($tries[-1][3], 'committed', 'all keys: it commits');
is(scalar(grep { $_->[3] eq 'lost' } @tries), @tries - 1, 'all keys: with the last try');
cmp_ok(scalar(@tries), '>', $failures, 'all keys: it loses to writers first');
cmp_ok(scalar(@tries), '<=', $failures + 2, 'all keys: it commits within zen.exclusive_failures + 2 tries');
is(scalar(@stages), 1, 'all keys: there is one stage') or diag $output;
is($stages[0][3], 'failures, committed', 'all keys: because it has lost, until it commits');
cmp_ok($stages[0][1], '<', $tries[-1][2], 'all keys: the stage begins before the commit');
like($output, qr/committed with try ${\scalar @tries}, /, 'all keys: the report has the number of tries');

my @writers = events('writers');
cmp_ok(scalar(@writers), '>=', 4, 'all keys: seconds before and after');
is(scalar(() = $output =~ /^\| \d+\.\d \| [\d,]+ \|/mg), scalar(@writers), 'all keys: each has a line');
cmp_ok($_->[3], '>', 0, "all keys: the writers write, until $_->[2] s") for $writers[0], $writers[-1];
is(PostgreSQL::Test::Utils::slurp_file("$dir/out.md"), $output =~ s/^\[.*\n//mgr, 'all keys: --out has the same');

($output, $status) = long_update(@run, '--keys others', "--data $dir/line");
is($status, 0, 'other keys: its status') or diag $output;
is(join(' ', map { $_->[3] } events('try')), 'committed', 'other keys: one try');
is(scalar(events('stage')), 0, 'other keys: no stage');
like($output, qr/^\* No exclusive stage\.$/m, 'other keys: the report says so');

# As the paper's 8 GB: the versions do not fit, and are not to be spilled.
($output, $status) = long_update(@run, '--keys others', "--data $dir/line",
	q{--set "zen.spill_threshold=-1 zen.met_cache_size=4MB"});
is($status, 0, 'a small cache: its status') or diag $output;
is(join(' ', map { $_->[3] } events('try')), 'committed', 'a small cache: one try');
is(join(' ', map { $_->[3] } events('stage')), 'memory, committed', 'a small cache: a stage because of its size');

SKIP:
{
	skip 'no matplotlib', 1 if system(q{/usr/bin/python3 -c 'import matplotlib' 2>/dev/null}) != 0;
	ok(-s "$dir/line.png", 'there is a plot');
}
done_testing();
