# Power cuts with the pool on a disk (zen.pool_mode = msync): the medium forgets whatever was not synced, in pages of
# 4096 bytes and, at other cuts, in sectors of 512.  The scenarios and the checks are 400_power.pl's, the random load is
# 405_power_torture.pl's.  Then a zen that syncs too little must be caught, as in 415_faults_power.pl.
#
#   PAGES=4096,512  other units, in bytes: 64 is a line of a page that changes while it is written
#   POWER_MODE=mode another zen.pool_mode
#   SCENARIOS="a b" these, not SAMPLE (4) of them, chosen by seed; POINTS (3) and CANDIDATES (2) as for 400_power.pl
#   ROUNDS=n        cuts of the random load (1)
#   FAULTS="a b"    instead of r2_sync_first_page/pages; "" for none
#   POWER=long      all scenarios at all crash points
#   SEED=n          replays the choices; all other settings of these three tests work as well

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PowerScenarios qw(scenarios);
use Test::More;
use ZenTest;

skip_unless_zen();

my $long = ($ENV{POWER} // '') eq 'long';
my $seed = choose_seed() % 1_000_000;
$ENV{PAGES} ||= '4096,512';

run_test('scenarios', '400_power', $long ? () : (SCENARIOS => sample(), POINTS => $ENV{POINTS} // 3));
run_test('random load', '405_power_torture', ROUNDS => $ENV{ROUNDS} || 1);

my $faults = $ENV{FAULTS} // 'r2_sync_first_page/pages';
SKIP:
{
	skip('ZEN_FAULT_SERVER must name a server of tools/fault-server', 1) unless $ENV{ZEN_FAULT_SERVER};
	run_test('faults', '415_faults_power', FAULTS => $faults) if $faults;
}
done_testing();

sub sample
{
	return $ENV{SCENARIOS} if $ENV{SCENARIOS};
	my %scenarios = scenarios();
	my @names = grep { !$scenarios{$_}{long} } sort keys %scenarios;
	splice @names, int rand @names, 1 while @names > ($ENV{SAMPLE} || 4);
	return "@names";
}

# run_test -- another test, with this medium.
sub run_test
{
	my ($what, $name, %with) = @_;
	local %ENV = (%ENV, SEED => $seed, %with);
	my @includes = map { "'-I$_'" } @INC;
	my $output = qx($^X @includes '$FindBin::RealBin/$name.pl' 2>&1);
	ok($? == 0, "$what: $name") or diag($output);
	note($_) for grep { /\d cuts|^# cut after|^# (?:acknowledged|in flight)/ && !/^ok/ } split /\n/, $output;
	return;
}
