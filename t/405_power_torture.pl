# Power cuts under a random load: 8 clients run random transactions of all kinds, heap
# tables mixed in, on a medium that forgets (t/power), until the power fails at a random
# fence.  What is left, by seed, is recovered and compared with what each client was
# told, as in 200_crash.pl.  In one round of three the recovery is cut, too.
#
#   ROUNDS=n   number of cuts (default 3)
#   CLIENTS=n  number of clients (default 8)
#   FENCES=n   the cut comes after 20 to 20 + n fences, early ones more often (default 20000)
#   SEED=n     replays the random choices; how far the clients get by a given fence no seed
#              can repeat
#   EADR=1     a persistent cache
#   PAGES=4096,512   the pool is on a disk, which forgets in units of so many bytes; one of these numbers for each cut
#   POWER_MODE=mode  zen.pool_mode then (default msync)
#   POWER_CONF=a=b;c=d  more settings
#   ASYNC=off,on,mixed  synchronous_commit of the clients, by turns; mixed: off for every other one.  What is lost must
#              then be a suffix of all that was acknowledged.  Every other cut comes at any time, not at a fence
#   CHECKPOINTS=1  checkpoints all the time
#   POWER_KEEP=1        keep everything

use strict;
use warnings;

use File::Temp ();
use FindBin;
use lib "$FindBin::RealBin/lib";

use CrashRound;
use POSIX ();
use PowerMedium;
use PowerServer;
use PowerVerify ();
use Test::More;
use Time::HiRes qw(sleep time);
use ZenTest;

skip_unless_zen();

my $rounds = $ENV{ROUNDS} || 3;
my $fences = $ENV{FENCES} || 20000;
my $base   = ZenTest::pool_dir();
my $dir    = File::Temp::tempdir('powerXXXXX', DIR => length $base < 60 ? $base : '/dev/shm', CLEANUP => 0);
my $seed   = choose_seed() % 1_000_000_000;
my $programs = PowerMedium::build($dir);
my $server   = PowerServer->new("$dir/live");
my @async    = split /,/, $ENV{ASYNC} // '';
my $async;    # of this round
my $test = CrashRound->new(node => $server, clients => $ENV{CLIENTS} || 8, seed => $seed, keep => scalar @async,
	async => sub { ($async // 'on') eq 'off' || ($async // '') eq 'mixed' && $_[0] % 2 });
my $media    = 0;

$SIG{$_} = sub { PowerServer::crash_all(); die "ended by a signal\n" } for qw(TERM INT HUP);
{
	local $ENV{POWER_CONF} = join ';', 'zen.pool_size=256MB', 'zen.dram_size=128MB', 'max_connections=30',
		'max_prepared_transactions=30',
	  'shared_buffers=16MB', $ENV{POWER_CONF} // ();
	$server->initdb(1);
}
my $dbh = $server->start;
value($dbh, 'CREATE DATABASE postgres');
$test->prepare_database;
$dbh->disconnect;
$server->stop;

for my $round (1 .. $rounds)
{
	srand($seed + $round);
	my @wrong = eval { cut_and_verify($round) };
	push @wrong, $@ if $@;
	diag("round $round: $_") for @wrong;
	ok(!@wrong, "round $round");
	last if @wrong;
}
$test->print_counts;
PowerServer::crash_all();
system('rm', '-rf', $dir) unless $ENV{POWER_KEEP};
done_testing();

# new_medium -- for the files as they are now.
sub new_medium
{
	return PowerMedium->new($programs, sprintf('%s/medium%d', $dir, ++$media), $server->pool);
}

# after_cut -- replace pool and WAL by what the cut has left.
sub after_cut
{
	my ($medium) = @_;
	my $choice = int rand 1e6;
	my $unit   = $ENV{PAGES} ? pick(split /,/, $ENV{PAGES}) : undef;
	unlink $server->pool;
	my $state = $medium->state_after_cut(upto => $medium->word('log_used'), seed => $choice, eadr => $ENV{EADR},
		unit => $unit, pool => $server->pool, wal => $server->data_dir . '/pg_wal');
	my $what = $unit ? "units of $unit bytes" : 'lines';
	note(sprintf "cut after %d fences, %d stores, %d flushes of WAL: %d $what, %d sectors of WAL uncertain, choice %d"
		. ($async ? ", synchronous_commit $async" : ''),
		map({ $medium->word($_) } qw(fences stores syncs)), @$state{qw(lines sectors)}, $choice);
	$test->{counted}{$_} += $medium->word($_) for qw(fences stores syncs);
	$test->{counted}{"uncertain $what"} += $state->{lines};
	system('rm', '-rf', $medium->{dir}) unless $ENV{POWER_KEEP};
	return;
}

# wait_cut -- until the power has failed, or the time is over: then it fails now.
sub wait_cut
{
	my ($medium, $seconds) = @_;
	my $end = time() + $seconds;
	sleep 0.005 until $medium->word('cut') || $server->ended || time() > $end;
	$server->crash;
	return;
}

# cut_recovery -- the power fails while the server starts and recovers.
sub cut_recovery
{
	my $medium = new_medium();
	$medium->want('cut', between(1, 60));
	$server->launch($medium);
	wait_cut($medium, 3);
	after_cut($medium);
	$test->{counted}{'cut in recovery'}++;
	return;
}

# start_checkpoints -- a process that checkpoints until the power fails; now and then there is something in between that
# a checkpoint has not seen.
sub start_checkpoints
{
	my $pid = fork // die "fork: $!";
	return $pid if $pid;
	my $own = eval { connect_db($server) };
	sleep rand pick(0, 0.2, 2) until !$own || run_sql($own, 'CHECKPOINT')->{state};
	POSIX::_exit(0);
}

sub cut_and_verify
{
	my ($round) = @_;
	my $medium = new_medium();
	$server->start($medium)->disconnect;
	$async = $async[ $round % @async ] if @async;
	my $checkpoints = $ENV{CHECKPOINTS} && start_checkpoints();
	my @wrong = $test->run_load($round, sub {
			# asynchronous commits do not wait for a crash point
			my $any_time = @async && one_in(2);
			$medium->want('cut', 20 + int(exp(rand log $fences))) unless $any_time;
			wait_cut($medium, $any_time ? 0.5 + rand 5 : 20); });
	waitpid($checkpoints, 0) if $checkpoints;
	push @wrong, $test->read_journals;
	return @wrong if @wrong;
	after_cut($medium);
	cut_recovery() while one_in(3);

	$server->start->disconnect;
	$dbh = connect_db($server);
	$test->verify($dbh, \@wrong);
	PowerVerify::check_pool($dbh, \@wrong, 'at the end');
	$dbh->disconnect;
	one_in(2) ? $server->stop : $server->crash;
	return @wrong;
}
