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
# ROUNDS=n   number of crashes (default 10; the long version is 100)
# CLIENTS=n  number of clients (default 8)
# SEED=n     replays the random choices; the moment of each kill decides how far the
#            clients get, and that no seed can repeat
# ZEN_TEST_AM=heap  the same on PostgreSQL's heap; ZEN_TEST_INJECT=1: must fail

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CrashClient;
use CrashModel;
use CrashVerify;
use POSIX ();
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep time);
use ZenTest;

my $rounds  = $ENV{ROUNDS}  || 10;
my $clients = $ENV{CLIENTS} || 8;
my $seed    = choose_seed();
my $node    = new_node('crash', pool_size => '1GB');

my %models  = map { $_ => { item => {}, led => {}, mix => {} } } 1 .. $clients;
my %counted = (acknowledged => 0, 'in flight, found committed' => 0, prepared => 0);
my %kinds;

$node->start;
my $amcheck = prepare_database();

for my $round (1 .. $rounds)
{
	my @wrong = crash_and_verify($round);
	diag("round $round: $_") for @wrong;
	ok(!@wrong, "round $round");
	last if @wrong;
}
is_deeply([ missing_kinds() ], [], 'transactions of every kind were acknowledged')
  if $rounds >= 10;
note("$_: $counted{$_}") for sort keys %counted;
note("  $_: $kinds{$_}") for sort keys %kinds;
$node->stop;
done_testing();

# Returns whether amcheck is there.
sub prepare_database
{
	my $dbh = connect_db($node);
	value($dbh, 'CREATE EXTENSION zen') if is_zen();
	my $result = run_sql($dbh, 'CREATE EXTENSION amcheck');
	create_tables($dbh);
	$dbh->disconnect;
	diag('no amcheck on this machine: btrees are compared by scans only')
	  if $result->{state};
	return !$result->{state};
}

sub journal_path
{
	my ($id) = @_;
	return "$PostgreSQL::Test::Utils::tmp_check/crash_journal_$id";
}

# run_load -- start the clients, kill the server in the middle, wait for the clients.
sub run_load
{
	my ($round) = @_;
	my %running;
	for my $id (1 .. $clients)
	{
		my $pid = fork;
		die "cannot fork: $!" unless defined $pid;
		if (!$pid)
		{
			# Leave without END blocks: the server is not ours to stop.
			eval {
				srand($seed + 1000 * $round + $id);
				CrashClient->new(
					node    => $node,
					id      => $id,
					model   => $models{$id},
					journal => journal_path($id),
					round   => $round)->run;
				1;
			} or POSIX::_exit(1);
			POSIX::_exit(0);
		}
		$running{$pid} = $id;
	}

	sleep(0.2 + rand 2.3);
	crash($node);

	my @wrong;
	wait_for(
		'the clients to notice the crash',
		sub {
			while ((my $pid = waitpid(-1, POSIX::WNOHANG())) > 0)
			{
				my $id = delete $running{$pid};
				push @wrong, "client $id ended with status $?" if defined $id && $?;
			}
			return !%running;
		});
	return @wrong;
}

sub crash_and_verify
{
	my ($round) = @_;
	my @wrong = run_load($round);

	my %journals = map { $_ => read_journal(journal_path($_), $models{$_}) } 1 .. $clients;
	for my $journal (values %journals)
	{
		push @wrong, @{ $journal->{failures} };
		$counted{acknowledged} += $journal->{acked};
		$counted{"rolled back for $_"} += $journal->{retries}{$_} for keys %{ $journal->{retries} };
		$counted{'in flight at the kill'}++ if $journal->{unknown};
		$kinds{$_} += $journal->{kinds}{$_} for keys %{ $journal->{kinds} };
	}
	return @wrong if @wrong;

	while (one_in(3))
	{
		start_and_crash($node, rand 0.5);
		$counted{'killed in recovery'}++;
	}
	start_again($node);
	my $dbh = connect_db($node);
	spoil($dbh) if inject();
	verify($dbh, \%journals, \@wrong);
	$dbh->disconnect;
	return @wrong;
}

sub verify
{
	my ($dbh, $journals, $wrong) = @_;

	check_prepared($dbh, \%models, $journals, $wrong);
	$counted{'in flight, found committed'} +=
	  check_rows($dbh, \%models, $journals, $wrong);
	return if @$wrong;
	my $count = settle_prepared($dbh, \%models, $journals, $wrong);
	$counted{prepared} += $count;
	check_rows($dbh, \%models, $journals, $wrong) if $count;
	check_sums($dbh, $wrong);
	check_indexes($dbh, $amcheck, $wrong);
	return if @$wrong;

	vacuum_all($dbh);
	check_rows($dbh, \%models, $journals, $wrong);
	check_sums($dbh, $wrong);
	check_indexes($dbh, $amcheck, $wrong);
	push @$wrong, findings($dbh);
	return;
}

# spoil -- ZEN_TEST_INJECT: take back one acknowledged change; the test must notice.
sub spoil
{
	my ($dbh) = @_;
	value($dbh, 'UPDATE item SET val = val + 1 WHERE key = (SELECT max(key) FROM item)');
	return;
}

# missing_kinds -- operations that no acknowledged transaction has done.
sub missing_kinds
{
	return grep { !$kinds{$_} } qw(insert insert_many insert_bulk copy upsert update_val
	  update_grp update_key update_body update_tags update_range delete delete_range
	  transfer transfer_mix mix lock duplicate look rollback_to commit_prepared);
}
