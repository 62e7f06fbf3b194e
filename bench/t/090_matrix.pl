# bench/matrix: refuses bad arguments; each operation runs on each peer; its table has all of them, the worst on top.
# It ends with an error if a plan is not the one that an operation names, or if peers answer differently.
#
# With 2,000 rows the times mean nothing: only that all of it works, and with the right plans.

use strict;
use warnings;

use File::Temp ();
use FindBin;
use lib "$FindBin::RealBin/../../t/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
plan skip_all => 'the kernel does not count the time of processes in ns' unless -e '/proc/self/schedstat';

my $base = $ENV{TMPDIR} && length $ENV{TMPDIR} < 40 ? $ENV{TMPDIR} : '/tmp';
my $dir  = File::Temp->newdir('matrix.XXXXXX', DIR => $base);
my @peers = qw(heap zen zen-tree);

# Output and status.
sub matrix
{
	my $command = join ' ', map { "'$_'" } "$FindBin::RealBin/../matrix", @_;
	my $output = qx($command 2>&1 </dev/null);
	return ($output, $? >> 8);
}

sub slices
{
	my ($head, @lines) = split /\n/, PostgreSQL::Test::Utils::slurp_file("$_[0]/matrix.csv");
	my @columns = split /,/, $head;
	return map { my %slice; @slice{@columns} = split /,/, $_, -1; \%slice } @lines;
}

# A file of operations for a short run.
sub operations
{
	my ($name, $text) = @_;
	open my $file, '>', "$dir/$name" or die $!;
	print $file $text;
	close $file or die $!;
	return ('--operations', "$dir/$name", '--rows', 2000, '--rounds', 1, '--out', "$dir/$name.out");
}

for my $case (
	[ [qw(--peers pg)],          qr/--peers is a list of heap zen zen-tree, not 'pg'/ ],
	[ [qw(--state new)],         qr/--state is loaded, updated or beyond, not 'new'/ ],
	[ [qw(--rows 1234)],         qr/--rows is a multiple of 1000, not 1234/ ],
	[ [qw(--rows 2000 --sessions 8)], qr/a session has 500 rows at least/ ],
	[ [qw{--only (}],            qr/--only is a regular expression, not '\('/ ],
	[ [qw(--only nosuch)],       qr/--only nosuch is no operation/ ],
	[ [ operations('bad', "count scan pln=Seq_Scan | SELECT 1\n") ], qr/what is "pln=Seq_Scan" of count/ ],
	[ [ operations('twice', "a scan | SELECT 1\n" x 2) ], qr/a is there twice/ ])
{
	my ($output, $status) = matrix('--out', "$dir/out", @{ $case->[0] });
	is($status, 2, "@{ $case->[0] }[0, 1]: its status");
	like($output, $case->[1], 'what it says');
}

my @names = (matrix('--list'))[0] =~ /^(\S+) +\S+$/mg;
cmp_ok(scalar @names, '>=', 160, 'operations');
my ($output, $status) = matrix('--out', "$dir/out", '--rows', 2000, '--rounds', 1);
is($status, 0, 'its status') or diag $output;
my (%ran, $no_time);
for my $slice (slices("$dir/out"))
{
	$ran{ $slice->{operation} } .= "$slice->{peer} ";
	# what is measured in steps of 10 ms may be less than one
	$no_time .= "$slice->{operation} on $slice->{peer}, " unless $slice->{cpu_ms} > 0 || $slice->{group} eq 'session';
}
is($no_time, undef, 'each took processor time');
my @missing = grep { join(' ', sort split / /, $ran{$_} // '') ne "@peers" } @names;
is("@missing", '', 'each operation ran once on each peer');

my ($table) = PostgreSQL::Test::Utils::slurp_file("$dir/out/matrix.md") =~ /^(\| operation .*?)\n(?:\n|\z)/ms;
my (undef, undef, @lines) = split /\n/, $table // '';
my @cells = map { [ split / *\| */ ] } @lines;
is(join(' ', sort map { $_->[1] } @cells), join(' ', sort @names), 'the table has each of them');
my @worst = map { $_->[3] > $_->[4] ? $_->[3] : $_->[4] } grep { $_->[2] ne 'session' } @cells;
is(join(' ', @worst), join(' ', sort { $b <=> $a } @worst), 'the worst on top');
note($_) for (split /\n/, $table // '')[ 0 .. 21 ];    # the worst twenty

($output, $status) = matrix(operations('plan', "a scan plan=Merge_Join | SELECT count(*) FROM t\n"));
is($status, 1, 'a plan that is not the wanted one: its status');
like($output, qr/no Merge Join in the plan of a:/, 'what it says');
($output, $status) = matrix(operations('answer', "a scan | SELECT current_setting('default_table_access_method')\n"));
is($status, 1, 'answers that differ: its status');
like($output, qr/a differs:/, 'what it says');
($output, $status) = matrix(operations('table', "a insert | INSERT INTO r SELECT current_setting("
	  . "'default_table_access_method')\n\tbefore | CREATE TABLE r (a text)\n"));
is($status, 1, 'tables that differ: its status');
like($output, qr/a differs:/, 'what it says');

for my $case ([ 'updated', 2 ], [ 'beyond', 1 ])
{
	my ($state, $sessions) = @$case;
	($output, $status) = matrix('--out', "$dir/$state", '--rows', 2000, '--rounds', 1, '--state', $state,
		'--sessions', $sessions, '--only', '^(update-all|select-key|session|hash-join|copy-in)$');
	is($status, 0, "$state, $sessions sessions: its status") or diag $output;
	is(scalar(slices("$dir/$state")), 15, 'a line for each operation and peer');
}
done_testing();
