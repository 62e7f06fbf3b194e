# Isolation, checked from outside: clients note what random transactions on shared lists
# and registers have read and written, at each isolation level, on zen alone and on zen
# and heap in one transaction, across crashes (SIGKILL of all processes).  Most of the
# transactions run prepared statements that find rows by their keys, which zen runs as
# point accesses.  The checker (IsolationCheck) looks for what the level forbids, and for
# lost, torn or resurrected writes.
#
# That the load provokes anomalies is checked too: what READ COMMITTED lets through must
# show up when it is checked as REPEATABLE READ, and the same one level higher.
#
# ROUNDS=n    episodes of each kind (default 1)
# DURATION=n  seconds of one load, of which an episode has two (default 2.5)
# CLIENTS=n   number of clients (default 8)
# EPISODES=s  only episodes whose name contains s
# SEED=n      replays the random choices, though not how the clients meet
# ZEN_TEST_AM=heap  the same with heap in the place of zen; ZEN_TEST_INJECT=1: must fail
#
# What a crash is and how the server comes back are arguments of IsolationRun.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use IsolationCheck;
use IsolationRun;
use PostgreSQL::Test::Utils ();
use Storable ();
use Test::More;
use Time::HiRes qw(time);
use ZenTest;

use constant LOADS => 2;    # per episode

my @episodes = (
	[ 'zen, READ COMMITTED',             ['z'], ['RC'] ],
	[ 'zen, REPEATABLE READ',            ['z'], ['RR'] ],
	[ 'zen, SERIALIZABLE',               ['z'], ['SER'] ],
	[ 'zen and heap, READ COMMITTED',    [ 'z', 'h' ], ['RC'] ],
	[ 'zen and heap, REPEATABLE READ',   [ 'z', 'h' ], ['RR'] ],
	[ 'zen and heap, SERIALIZABLE',      [ 'z', 'h' ], ['SER'] ],
	[ 'zen and heap, all levels at once', [ 'z', 'h' ], [ 'RC', 'RR', 'SER' ] ],
);

my $seed = choose_seed();
my $node = new_node('isolation', pool_size => '128MB', dram_size => '96MB', conf => "deadlock_timeout = 20ms\n");

# So little DRAM that rows are read from NVM.
$node->append_conf('postgresql.conf', 'zen.met_cache_size = 64kB') if is_zen();
$node->start;
if (is_zen())
{
	my $dbh = connect_db($node);
	value($dbh, 'CREATE EXTENSION zen');
	$dbh->disconnect;
}

my $run = IsolationRun->new(
	node    => $node,
	clients => $ENV{CLIENTS} || 8,
	seconds => $ENV{DURATION} || 2.5,
	slots   => 6,
	seed    => $seed);
my %allowed;    # level => name of what is seen if checked one level higher => number
my $number = 0;

ROUND: for my $round (1 .. $ENV{ROUNDS} || 1)
{
	for my $episode (@episodes)
	{
		next if defined $ENV{EPISODES} && index($episode->[0], $ENV{EPISODES}) < 0;
		run_episode($round, @$episode) or last ROUND;
	}
}
check_load() if !defined $ENV{EPISODES} && $number >= @episodes;
$node->stop;
done_testing();

# run_episode -- false if nothing can be tested after it.
sub run_episode
{
	my ($round, $name, $prefixes, $levels) = @_;
	my $history = $run->episode(LOADS, prefixes => $prefixes, levels => $levels);
	my $done    = check_episode("$name, round $round", $history);
	note_allowed($history, 'RC', 'RR')  if $done && "@$levels" eq 'RC';
	note_allowed($history, 'RR', 'SER') if $done && "@$levels" eq 'RR';
	return $done;
}

sub check_episode
{
	my ($name, $history) = @_;
	my @wrong = @{ $history->{wrong} };
	$number++;
	my $start = time();
	my @found = $history->{final} ? check_history($history) : ();
	my %count;

	ok(!@wrong && !@found, $name);
	if (@wrong || @found)
	{
		diag("$name, SEED=$seed: $_") for @wrong;
		diag("$name, SEED=$seed:\n" . describe(@found)) if @found;
		my $path = "$PostgreSQL::Test::Utils::log_path/isolation_history_$number";
		Storable::nstore($history, $path);
		diag("history in $path");
	}
	$count{ $_->{status} . ($_->{in_doubt} ? ' (no answer)' : '') }++ for @{ $history->{txns} };
	$count{$_} = $history->{errors}{$_} for keys %{ $history->{errors} };
	note(sprintf "  %s; checked in %.1f s", join(', ', map { "$_ $count{$_}" } sort keys %count),
		time() - $start);
	return $history->{final};
}

# note_allowed -- what the level of the history allows and the next one forbids.
sub note_allowed
{
	my ($history, $level, $higher) = @_;
	my %seen;
	$seen{ $_->[0] }++ for check_history($history, level => $higher);
	note("  as $higher: $_: $seen{$_}") for sort keys %seen;
	$allowed{$level}{$_} += $seen{$_} for keys %seen;
	return;
}

# check_load -- the load is such that anomalies happen where they may; a slow machine
# needs more of it.
sub check_load
{
	my %expected = (
		RC => [ 'non-repeatable read', 'lost update' ],
		RR => ['write skew (G2)']);
	for my $episode (@episodes[ 0, 1 ])
	{
		my $level = $episode->[2][0];
		for (1 .. 5)
		{
			last unless grep { !$allowed{$level}{$_} } @{ $expected{$level} };
			run_episode('more', @$episode) or return;
		}
		ok($allowed{$level}{$_}, "$level shows: $_") for @{ $expected{$level} };
	}
	return unless is_zen();
	my %reads = %{ $run->{reads} };
	my $twice = delete $reads{own_row};
	note("keys that a snapshot sees twice: $twice statements");
	ok($reads{$_}, "$_: $reads{$_}") for sort keys %reads;
	cmp_ok($reads{point_accesses}, '>', $run->{statements} / 25, "of $run->{statements} statements");
	return;
}
