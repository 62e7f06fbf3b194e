# Power cuts with the pool on a disk (zen.pool_mode = msync): the medium forgets whatever was not synced, in pages of
# 4096 bytes and, at other cuts, in sectors of 512.  The scenarios and the checks are 400_power.pl's, the random load is
# 405_power_torture.pl's.  Then a zen that syncs too little must be caught, as in 415_faults_power.pl.
#
# Before that the medium itself: of random stores and syncs it must leave each unit as at its last sync or as later.
#
#   PAGES=4096,512  other units, in bytes: 64 is a line of a page that changes while it is written
#   POWER_MODE=mode another zen.pool_mode
#   SCENARIOS="a b" these, not SAMPLE (6) of them, chosen by seed; POINTS (3) and CANDIDATES (2) as for 400_power.pl
#   ROUNDS=n        cuts of the random load (3), each after 20 to 20 + FENCES (2000) syncs
#   FAULTS="a b"    instead of r2_sync_first_page/pages, which mode msync alone has; "" for none
#   POWER=long      all scenarios at all crash points
#   SEED=n          replays the choices; all other settings of these three tests work as well

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use File::Temp ();
use PostgreSQL::Test::Utils ();
use PowerMedium;
use PowerScenarios qw(scenarios);
use PowerSeries qw(run_test sample);
use Test::More;
use ZenTest;

skip_unless_zen();

my $long = ($ENV{POWER} // '') eq 'long';
my $seed = choose_seed() % 1_000_000;
$ENV{PAGES} ||= '4096,512';

test_medium($_) for 64, 512, 4096;
my %scenarios = scenarios();
my @names = sample($ENV{SAMPLE} || 6, grep { !$scenarios{$_}{long} } sort keys %scenarios);
run_test('scenarios', '400_power', SEED => $seed,
	$long ? () : (SCENARIOS => $ENV{SCENARIOS} || "@names", POINTS => $ENV{POINTS} // 3));
run_test('random load', '405_power_torture', SEED => $seed, ROUNDS => $ENV{ROUNDS} || 3,
	FENCES => $ENV{FENCES} || 2000);

my $faults = $ENV{FAULTS} // (($ENV{POWER_MODE} || 'msync') eq 'msync' ? 'r2_sync_first_page/pages' : '');
SKIP:
{
	skip('ZEN_FAULT_SERVER must name a server of tools/fault-server', 1) unless $ENV{ZEN_FAULT_SERVER};
	run_test('faults', '415_faults_power', SEED => $seed, FAULTS => $faults) if $faults;
}
done_testing();

# test_medium -- write a record, and compare what is left of it with a model that has the states of each unit.
sub test_medium
{
	my ($unit) = @_;
	my ($store, $flush, $fence, $sync) = (2, 4, 5, 9);    # of RecordType
	my $size   = 4 * 4096;
	my $dir    = File::Temp::tempdir(CLEANUP => 1);
	my $medium = PowerMedium->new(PowerMedium::build($dir), "$dir/medium", "$dir/none");
	my @states = map { ["\0" x $unit] } 1 .. $size / $unit;
	my $log    = '';
	my $record = sub {
		my ($type, $at, $len, $bytes) = @_;
		$log .= pack('LSSlLQQ', 32 + length $bytes, $type, 0, 1, length $bytes, $at, $len) . $bytes;
	};
	for my $n (1 .. 300)
	{
		my ($page, $at) = (int rand 3, 8 * int rand $size / 8);
		$record->($store, $at, 8, pack 'Q', $n);
		push @{ $states[ $at / $unit ] }, $states[ $at / $unit ][-1];
		substr($states[ $at / $unit ][-1], $at % $unit, 8) = pack 'Q', $n;
		$record->(@$_, '') for one_in(10) ? ([ $flush, 0, $size ], [ $fence, 0, 0 ]) : ();
		next unless one_in(30);
		# from the last byte of a page to the first one of the next
		$record->($sync, 4096 * $page + 4095, 2, '');
		@$_ = ($_->[-1]) for @states[ 4096 * $page / $unit .. 4096 * ($page + 2) / $unit - 1 ];
	}
	open(my $fh, '+<:raw', "$dir/medium/log") or die "log: $!";
	syswrite $fh, $log;
	close $fh;

	my (@wrong, @seen);
	for my $choice (0 .. 60)
	{
		$medium->state_after_cut(upto => length $log, seed => $choice, unit => $unit, pool => "$dir/pool",
			size => $size, wal => $dir);
		my @units = unpack "(a$unit)*", PostgreSQL::Test::Utils::slurp_file("$dir/pool");
		for my $i (0 .. $#units)
		{
			my ($at) = grep { $states[$i][$_] eq $units[$i] } 0 .. $#{ $states[$i] };
			push @wrong, "choice $choice, unit $i" if !defined $at || $choice < 2 && $at != $choice * $#{ $states[$i] };
			$seen[$i]{ $at // '' } = 1;
		}
	}
	is("@wrong", '', "units of $unit bytes: each as at its last sync or as later");
	my $missed = grep { keys %{ $seen[$_] } < 2 && @{ $states[$_] } > 1 } 0 .. $#states;
	is($missed, 0, '... and of each more than one state is seen');
	return;
}
