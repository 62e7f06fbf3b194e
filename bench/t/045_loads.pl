# bench/suite: loads of whole tables, beyond DRAM, and those where heap does not get its work done in the statement.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../t/lib";

use BenchSuite;
use Test::More;
use ZenTest;

my $dir = suite_dir();
my $cpu = first_cpu();

SKIP:
{
	skip '/dev/shm wants 5000 MB free', 1 if !has_room();
	skip 'tests what only zen has', 1 unless is_zen();
	mkdir "$dir/out" or die $!;
	check_scan();
	check_beyond();
}
done_testing();

# A load of whole tables: it reads them, and changes nothing.
sub check_scan
{
	my ($output, $status) = suite('--out', "$dir/out/scan",
		qw(--parts sql --workloads scan --clients 1 --rounds 2 --seconds 1 --peers zen));
	is($status, 0, 'scans') or diag $output;
	is(join(' ', $output =~ /round (\d+): loading zen/g), '1 2', 'each round has a server of its own') or diag $output;
	my ($slice, @others) = csv('scan/raw.csv');
	is(join(' ', map { $_->{round} } @others), 2, 'and a line in raw.csv');
	ok($slice->{transactions} > 0 && $slice->{rows_changed_per_tx} == 0, 'some are done, and nothing is changed');
	my %counter = map { ($_->{counter} => $_->{per_tx}) } csv('scan/counters.csv');
	cmp_ok($counter{metcache_hits} + $counter{metcache_misses}, '>', 499_000, 'each reads all 500,000 rows');
	return;
}

# Tables beyond DRAM, and loads where heap does not get its work done in the statement.
sub check_beyond
{
	my @beyond = qw(paper4-ba indexed-update indexed-insert full-pages copy create-index long);
	my %rows = ('paper4-ba' => 0.5, copy => 50_000, 'create-index' => 0);
	my ($output, $status) = suite('--out', "$dir/out/beyond", '--cpus', $cpu, '--loads', join(',', @beyond),
		qw(--parts sql --clients 1 --rounds 1 --seconds 1 --peers zen,heap --dram 32));
	is($status, 0, 'loads beyond DRAM') or diag $output;
	my @slices = csv('beyond/raw.csv');
	my @wanted = map { ("$_-zen", "$_-heap") } map { ($_) x ($_ eq 'paper4-ba' ? 2 : 1) } @beyond;
	is(join(' ', sort map { "$_->{workload}-$_->{peer}" } @slices), join(' ', sort @wanted),
		'a line for each slice, the paper setting with and without skew');
	my %changed = map { ("$_->{workload} $_->{peer}" => $_->{rows_changed_per_tx}) } @slices;
	for my $load (@beyond)
	{
		my $rows = $rows{$load} // 1;
		ok(abs($changed{"$load $_"} - $rows) < 0.1, "$load, $_: $rows rows changed")
		  or diag $changed{"$load $_"}
		  for qw(zen heap);
	}
	my ($long) = grep { $_->{workload} eq 'long' && $_->{peer} eq 'heap' } @slices;
	cmp_ok($long->{checkpoints}, '>', 1, 'a long run has checkpoints of heap');
	cmp_ok($long->{background_ms_per_tx}, '>', 0, 'and time of its background processes');
	cmp_ok($long->{background_ms_per_tx}, '<', $long->{cpu_ms_per_tx}, 'which is a part of all');

	my ($heap, @zen) = text_of('beyond/dram') =~ /shared_buffers of (\d+) MB\. zen has (\d+) \+ (\d+) \+ (\d+) MB/;
	is($heap, 32, 'heap has all of the DRAM as buffers');
	is($zen[0] + $zen[1] + $zen[2], 32, 'and zen has as much in all');
	my @misses = map { $_->{per_tx} }
	  grep { $_->{counter} eq 'metcache_misses' && $_->{theta} eq '0' } csv('beyond/counters.csv');
	cmp_ok($misses[0], '>', 0.5, 'most rows are not in the Met-Cache');
	return;
}
