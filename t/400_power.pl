# Power cuts: a medium that forgets (t/power) stands under an unchanged zen, and each
# scenario (t/lib/PowerScenarios.pm) is cut at its crash points: just before each fence
# and each flush of WAL takes effect.  See PowerRun and PowerVerify.
#
#   SEED=n           replays the choices
#   SCENARIOS="a b"  only these
#   POWER=long       all crash points, CANDIDATES of each (make torture)
#   CANDIDATES=n     candidates per crash point at most (default 2, long 8)
#   POINTS=n         crash points per scenario, 0: all (default 6, long 0)
#   THOROUGH=n       one candidate of n goes on over a stop and a crash (default 4); 0: one of each
#                    crash point (default for long)
#   DONE=file        a scenario that passes is noted there, and skipped if it was noted with the same
#                    SEED and options: a long run that was stopped goes on
#   JOBS=n           scenarios at the same time (default: the number of processors)
#   EADR=1           a persistent cache: every store up to some instant is kept, at least those that their
#                    process has fenced; with zen.flush = never in POWER_CONF as zen uses such a platform
#   PAGES=4096,512   the pool is on a disk, and the medium forgets in units of so many bytes; with several numbers by
#                    turns.  zen.pool_mode is msync then
#   POWER_MODE=mode  another zen.pool_mode for such a pool
#   POWER_CONF=a=b;c=d  more settings for the servers under test
#   POWER_OF=standby the power is cut of a standby that replays the scenario (PowerStandby); POINTS are of each phase of
#                    its life
#   POWER_OF=copied  thorough candidates are compared with a copy that follows (PowerCopied)
#   STOP_AFTER=n     violations after which a scenario ends
#   POINT= CANDIDATE=   replay one candidate, as printed with a violation
#   POWER_KEEP=1     keep what failed

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use File::Temp ();
use POSIX ();
use PostgreSQL::Test::Utils ();
use PowerCopied;
use PowerMedium;
use PowerRun;
use PowerScenarios qw(scenarios);
use PowerServer;
use PowerStandby;
use Storable ();
use Test::More;
use Time::HiRes qw(time);
use ZenTest;

skip_unless_zen();

my $long = ($ENV{POWER} // '') eq 'long';
my $dir  = make_directory();
my $seed = choose_seed() % 1_000_000;
my %option = (
	candidates => $ENV{CANDIDATES} || ($long ? 8 : 2),
	points     => $ENV{POINTS} // ($long ? 0 : 6),
	thorough   => $ENV{THOROUGH} // ($long ? 0 : 4),
	recoveries => $long ? 4 : 0.5,
	eadr       => $ENV{EADR},
	pages      => $ENV{PAGES},
	stop_after => $ENV{STOP_AFTER},
	seed       => $seed,
	only => $ENV{POINT} ? { point => $ENV{POINT}, candidate => $ENV{CANDIDATE} } : undef);
my $jobs = $ENV{JOBS} || qx(nproc) + 0;

my @counted = qw(fences syncs cuts choices candidates thorough recoveries);

my %scenarios = scenarios();
my @names = $ENV{SCENARIOS} ? split(' ', $ENV{SCENARIOS})
	: grep { $long || !$scenarios{$_}{long} } sort keys %scenarios;
my %done = read_done();
my %total;
# the longest first
my @todo = sort { rank($b) <=> rank($a) || $a cmp $b } grep { !$done{$_} } @names;
report_done($_) for grep { $done{$_} } @names;

my $programs = PowerMedium::build($dir);
my $template = PowerServer->new("$dir/template");
$template->initdb(1);
my $plain = PowerServer->new("$dir/plain");
$plain->initdb(0);

my %running;
$SIG{$_} = sub { kill 'TERM', keys %running; die "ended by a signal\n" } for qw(TERM INT HUP);

my $begin = time;
while (@todo || %running)
{
	start_job(shift @todo) while @todo && keys %running < $jobs;
	my $pid = waitpid(-1, 0);
	finish_job($pid) if $running{$pid};
}
note(sprintf '%d scenarios: %s, %.0f s', scalar @names, counts_text(\%total), time - $begin);
system('rm', '-rf', $dir) unless $ENV{POWER_KEEP};
done_testing();

# make_directory -- in memory, and short enough for a socket's path.
sub make_directory
{
	my $base = ZenTest::pool_dir();
	my $path = File::Temp::tempdir("powerXXXXX", DIR => length $base < 60 ? $base : '/dev/shm', CLEANUP => 0);
	return $path;
}

sub start_job
{
	my ($name) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid)
	{
		$running{$pid} = { name => $name, begin => time };
		return;
	}
	$SIG{$_} = sub { die "ended by a signal\n" } for qw(TERM INT HUP);
	my ($count, $violations) = eval { run_scenario($name) };
	$violations = [$@] if $@;
	PowerServer::crash_all();
	Storable::store({ count => $count || {}, violations => $violations }, "$dir/$name.result");
	POSIX::_exit(0);
}

sub run_scenario
{
	my ($name) = @_;
	die "there is no scenario $name\n" unless $scenarios{$name};
	my $oracle = PowerServer->new("$dir/$name.oracle");
	$oracle->copy_from($plain);
	my $dbh = $oracle->start;
	my %class = (standby => 'PowerStandby', copied => 'PowerCopied');
	my $run = ($class{ $ENV{POWER_OF} // '' } || 'PowerRun')->new(%option, dir => "$dir/$name", programs => $programs,
		template => $template, oracle => $oracle, oracle_dbh => $dbh);
	my @result = $run->run($name, $scenarios{$name});
	$dbh->disconnect;
	$oracle->crash;
	$oracle->remove;
	system('rm', '-rf', "$dir/$name") unless $ENV{POWER_KEEP} && @{ $result[1] };
	return @result;
}

# rank -- what takes long comes first.
sub rank
{
	my ($name) = @_;
	my $scenario = $scenarios{$name} or return 0;
	return ($scenario->{recover} || 0) + ($scenario->{long} ? 9 : 0) + @{ $scenario->{steps} } / 100;
}

sub counts_text
{
	my ($count) = @_;
	return sprintf '%d fences, %d flushes of WAL, %d cuts, %d candidates, %d states chosen, %d thorough, '
	  . '%d recoveries cut',
	  map { $count->{$_} // 0 } qw(fences syncs cuts candidates choices thorough recoveries);
}

# options_text -- what a scenario that was done must have been done with.
sub options_text
{
	return join ',', map { "$_=" . ($option{$_} // '') } sort grep { $_ ne 'only' && $_ ne 'stop_after' } keys %option;
}

# read_done -- name => [ counts, in the order of @counted ] of the scenarios that need not be run again.
sub read_done
{
	my $file = $ENV{DONE};
	return unless $file && -e $file;
	my $options = options_text();
	my %known;
	for (split /\n/, PostgreSQL::Test::Utils::slurp_file($file))
	{
		my ($name, $with, @counts) = split ' ';
		$known{$name} = \@counts if $with eq $options;
	}
	return %known;
}

sub report_done
{
	my ($name) = @_;
	my %count;
	@count{@counted} = @{ $done{$name} };
	$total{$_} += $count{$_} for @counted;
	pass("$name: " . counts_text(\%count) . ', 0 violations, done before');
	return;
}

sub finish_job
{
	my ($pid) = @_;
	my $job = delete $running{$pid};
	my $name = $job->{name};
	my $result = -e "$dir/$name.result" ? Storable::retrieve("$dir/$name.result")
		: { count => {}, violations => ['no result'] };
	my $count = $result->{count};
	my @wrong = @{ $result->{violations} };
	$total{$_} += $count->{$_} // 0 for @counted;
	diag($_) for @wrong;
	my $report = sprintf '%s: %s, %d violations, %.1f s', $name, counts_text($count), scalar @wrong,
		time - $job->{begin};
	ok(!@wrong, $report);
	note($report) if $long;
	PostgreSQL::Test::Utils::append_to_file($ENV{DONE},
		join(' ', $name, options_text(), map { $count->{$_} // 0 } @counted) . "\n")
	  if $ENV{DONE} && !@wrong && !$option{only};
	return;
}
