# Power cuts in mode wal (src/recovery/README, "Mode wal"; rules W1 to W7 of src/RULES).  The medium is that of a disk,
# which forgets in pages of 4096 bytes and, at other cuts, in sectors of 512: each page of the pool is as at its last
# sync or as at any later moment, and the WAL ends where it was flushed or later.  The tests are those of 400_power.pl,
# 405_power_torture.pl and 415_faults_power.pl:
#
# - Scenarios.  Those of PowerWalScenarios have checkpoints in the middle of statements: the redo pointer falls between
#   the stores and SLOTS, between SLOTS and the commit record, between the commit record and the transaction's end.
#   With asynchronous commits, what is lost must be a suffix, of heap tables' changes as well.
# - A random load, with synchronous_commit on, off, and off for every other client, and checkpoints all the time.
# - Faults: a zen that breaks one of the rules must be caught.
#
#   SCENARIOS="a b" these, not SAMPLE (4) of the scenarios of mode wal and half as many others, chosen by seed; POINTS
#                   (5) and CANDIDATES (2) as for 400_power.pl
#   PAGES=4096,512  other units, in bytes
#   ROUNDS=n        cuts of the random load (3), each after 20 to 20 + FENCES (600) syncs and flushes of WAL
#   ASYNC=off       synchronous_commit of the load (on,off,mixed by turns)
#   FAULTS="a b"    not one of mode wal, chosen by seed; "" for none, all for all
#   POWER=long      all scenarios at all crash points, and all faults of mode wal
#   SEED=n          replays the choices; all other settings of these three tests work as well

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use PowerSeries qw(run_test sample);
use Test::More;
use ZenTest;

BEGIN { $ENV{POWER_MODE} = 'wal'; }
use PowerScenarios qw(scenarios);

skip_unless_zen();

my $long = ($ENV{POWER} // '') eq 'long';
my $seed = choose_seed() % 1_000_000;
$ENV{PAGES} ||= '4096,512';

# the server of `first` has no worker for the syncer, and waits for it
my %scenarios = scenarios();
my @names  = grep { !$scenarios{$_}{first} && ($long || !$scenarios{$_}{long}) } sort keys %scenarios;
my $number = $ENV{SAMPLE} || 4;
@names = (sample($number, grep { /^wal_/ } @names), sample($number / 2, grep { !/^wal_/ } @names)) unless $long;
run_test('scenarios', '400_power', SEED => $seed, SCENARIOS => $ENV{SCENARIOS} || "@names",
	$long ? () : (POINTS => $ENV{POINTS} // 5));
run_test('random load', '405_power_torture', SEED => $seed, ROUNDS => $ENV{ROUNDS} || ($long ? 60 : 3),
	FENCES => $ENV{FENCES} || 600, ASYNC => $ENV{ASYNC} || 'on,off,mixed', CHECKPOINTS => 1);
SKIP:
{
	skip('ZEN_FAULT_SERVER must name a server of tools/fault-server', 1) unless $ENV{ZEN_FAULT_SERVER};
	my $faults = faults();
	run_test('faults', '415_faults_power', SEED => $seed, FAULTS => $faults) if $faults;
}
done_testing();

# faults -- those of mode wal that 415_faults_power.pl has, or one of them.
sub faults
{
	return $ENV{FAULTS} if defined $ENV{FAULTS} && $ENV{FAULTS} ne 'all';
	my @faults = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/415_faults_power.pl") =~ m{'(w\w+/wal)'}g;
	return join ' ', $long || $ENV{FAULTS} ? @faults : sample(1, @faults);
}
