# Crashes: again and again the postmaster and all its children are killed by
# SIGKILL at a random moment under a random load of 8 clients.  After each crash:
#
# - every acknowledged transaction is there, no other one in part, deleted rows stay
#   deleted (each client keeps a journal of what it asked for and was told);
# - prepared transactions are listed, invisible, hold their locks, and can be ended;
# - the sum of all accounts is conserved, and each balance is what its transfers say;
# - transactions that wrote zen and heap tables are on both sides or on none;
# - sequential scan and every index agree, before and after VACUUM.
# In one round of three the server is killed again while it recovers.
#
# ROUNDS=n   number of crashes, at least (default 10; the long version is 100)
# CLIENTS=n  number of clients (default 8)
# SEED=n     replays the random choices; the moment of each kill decides how far the
#            clients get, and that no seed can repeat
# ZEN_TEST_AM=heap  the same on PostgreSQL's heap; ZEN_TEST_INJECT=1: must fail

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CrashRound;
use Test::More;
use Time::HiRes qw(sleep);
use ZenTest;

my $rounds = $ENV{ROUNDS} || 10;
my $seed   = choose_seed();
my $node   = new_node('crash', pool_size => '1GB');
my $test   = CrashRound->new(node => $node, clients => $ENV{CLIENTS} || 8, seed => $seed);

$node->start;
$test->prepare_database;

# A slow machine gets more rounds, and longer ones, until each kind of transaction was acknowledged.
my $wants_all = $rounds >= 10;
my $round = 0;
while ($round < $rounds || ($wants_all && $round < 10 * $rounds && $test->missing_kinds))
{
	my @wrong = crash_and_verify(++$round);
	diag("round $round: $_") for @wrong;
	ok(!@wrong, "round $round");
	last if @wrong;
}
is_deeply([ $test->missing_kinds ], [], 'transactions of every kind were acknowledged')
  if $wants_all;
$test->print_counts;
$node->stop;
done_testing();

sub crash_and_verify
{
	my ($round) = @_;
	my $longer = $round > $rounds ? 4 : 1;
	my @wrong = $test->run_load($round, sub { sleep((0.2 + rand 2.3) * $longer); crash($node) });
	push @wrong, $test->read_journals;
	return @wrong if @wrong;

	while (one_in(3))
	{
		start_and_crash($node, rand 0.5);
		$test->{counted}{'killed in recovery'}++;
	}
	start_again($node);
	my $dbh = connect_db($node);
	spoil($dbh) if inject();
	$test->verify($dbh, \@wrong);
	$dbh->disconnect;
	return @wrong;
}

# spoil -- ZEN_TEST_INJECT: take back one acknowledged change; the test must notice.
sub spoil
{
	my ($dbh) = @_;
	value($dbh, 'UPDATE item SET val = val + 1 WHERE key = (SELECT max(key) FROM item)');
	return;
}
