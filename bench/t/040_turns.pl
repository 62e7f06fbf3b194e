# bench/lib/turns.py and latency.sh: while one load has its turn nothing of the others runs, and their times are those
# of their turns. Servers are processes that do nothing but have children and write down when these ran.
#
# Runs alone: turns are told by the clock.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../t/lib";

use POSIX qw(setsid);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $lib = "$FindBin::RealBin/../lib";
my $dir = PostgreSQL::Test::Utils::tempdir();

# --- latencies and rate from a log -------------------------------------------

# A line of pgbench's log: end in seconds, latency in ms, script.
sub log_line
{
	my ($end, $ms, $script) = @_;
	my $us = int($end * 1_000_000 + 0.5);
	return sprintf "0 1 %s %d %d %06d 0\n", $ms eq 'failed' ? $ms : $ms * 1000, $script,
		1_700_000_000 + $us / 1_000_000, $us % 1_000_000;
}

sub write_file
{
	my ($name, @lines) = @_;
	open(my $file, '>', "$dir/$name") or die $!;
	print $file @lines;
	close $file;
	return;
}

sub shell
{
	my ($turns, $command) = @_;
	local $ENV{BENCH_TURNS} = $turns;
	return `bash -c '. $lib/latency.sh; $command' 2>&1`;
}

# The second transaction has the 200 ms between two turns in it, the third one the end of all turns.
write_file('log.1', log_line(0.09, 40, 0), log_line(0.31, 220, 0), log_line(0.32, 'failed', 0));
write_file('log.2', log_line(0.35, 40, 1), log_line(0.60, 230, 1));
write_file('turns', "1700000000000000 1700000000100000\n", "1700000000300000 1700000000400000\n");
is(shell('', "log_latency $dir/log"), "4 132.500 40.000 230.000 230.000\n", 'latencies without turns');
is(shell('', "log_rate $dir/log"), "0.550 7.3\n", 'and the rate');
is(shell("$dir/turns", "log_latency $dir/log"), "4 32.500 30.000 40.000 40.000\n",
	'latencies in turns are without the time of others');
is(shell("$dir/turns", "log_latency $dir/log 0"), "2 30.000 20.000 40.000 40.000\n", 'by script, too');
is(shell("$dir/turns", "log_rate $dir/log"), "0.150 26.7\n", 'and so is the rate');

# --- the turns ---------------------------------------------------------------

# Writes down the time, in microseconds, each millisecond while the server lives.
sub stamp
{
	my ($name, $seconds, $server) = @_;
	open(my $file, '>>', "$dir/$name.stamps") or die $!;
	$file->autoflush;
	for (my $until = time + $seconds; time < $until && getppid() == $server; sleep 0.001)
	{
		printf $file "%.0f\n", time * 1_000_000;
	}
	POSIX::_exit(0);
}

# The PID of a process that bears children, sessions of their own as PostgreSQL's are, all the time: one that stays and
# others that live for some milliseconds.
sub start_server
{
	my ($name) = @_;
	my $pid = fork // die $!;
	return $pid if $pid;
	my $server = $$;
	$SIG{CHLD} = 'IGNORE';
	for (my $seconds = 60;; $seconds = 0.03, sleep 0.005)
	{
		next if fork;
		setsid();
		stamp($name, $seconds, $server);
	}
}

sub load
{
	my ($name, $pid, $script) = @_;
	return ('--load', $name, $pid, 'bash', '-c', "set -e; . $lib/gate.sh; $script");
}

sub turns_command { return ("$lib/turns.py", 50, $dir, @_); }

sub numbers { return map { [ split ] } split /\n/, PostgreSQL::Test::Utils::slurp_file("$dir/$_[0]"); }

# What files in /proc hold; those of processes that have just ended are left out.
sub proc
{
	my @texts;
	for my $path (glob $_[0])
	{
		open(my $file, '<', $path) or next;
		push @texts, join '', <$file>;
	}
	return @texts;
}

# Is neither of the servers stopped, nor a child of theirs? Signals arrive when they do.
sub all_run
{
	my %is_server = map { ($_ => 1) } @_;
	for (1 .. 50)
	{
		my @stopped = grep { /^(\d+) .*\) [Tt] (\d+) /
			&& ($is_server{$1} || $is_server{$2}) } proc('/proc/[0-9]*/stat');
		return 1 unless @stopped;
		sleep 0.1;
	}
	return 0;
}

my %server;
$server{$_} = start_server($_) for qw(a b);
my $test = $$;
END { kill 'KILL', values %server if $test && $$ == $test; }
my $end = "$dir/end";    # what a load does that comes to its end
my $alone = 'sleep 0.2';
my $work = "$alone; gate ready; sleep 1; gate done; $alone; echo all of it >$end";
my @output = `@{[ join ' ', map { "'$_'" } turns_command(map { load($_, $server{$_}, $work . ".$_") } qw(a b)) ]} 2>&1`;
is($?, 0, 'two loads in turns') or diag @output;
ok(-s "$end.$_", "$_ came to its end") for qw(a b);

my %turns = map { ($_ => [ numbers("$_.turns") ]) } qw(a b);
my @all = sort { $a->[0] <=> $b->[0] } map { my $name = $_; map { [ @$_, $name ] } @{ $turns{$name} } } qw(a b);
ok(!(grep { $all[$_]->[0] < $all[ $_ - 1 ]->[1] } 1 .. $#all), 'no turn begins before the last one has ended');
my @cycles = map { $all[ 2 * $_ ]->[2] . $all[ 2 * $_ + 1 ]->[2] } 0 .. 7;
is(join(' ', sort map { join '', sort split //, $_ } @cycles), join(' ', ('ab') x 8), 'each has one turn in a cycle')
	or diag "@cycles";
ok((grep { $_ eq 'ab' } @cycles) && (grep { $_ eq 'ba' } @cycles), 'and is the first of some') or diag "@cycles";
ok(!(grep { $_->[1] - $_->[0] < 50_000 } @all[ 0 .. 15 ]), 'no turn is shorter than it should be');

for my $name (qw(a b))
{
	my ($first, $last, $tolerance) = ($all[0]->[0], $all[-1]->[1], 15_000);
	my @stamps = grep { $_ > $first && $_ < $last } map { $_->[0] } numbers("$name.stamps");
	my @stray = grep { my $t = $_; !grep { $t > $_->[0] - $tolerance && $t < $_->[1] + $tolerance } @{
		$turns{$name} } } @stamps;
	cmp_ok(scalar @stamps, '>', 100, "$name ran in its turns");
	is(scalar @stray, 0, "$name did not run while it had no turn") or diag "of @{[ scalar @stamps ]}: @stray[0 .. 3]";
}
ok(all_run(values %server), 'the servers run in the end');

# --- failures ----------------------------------------------------------------

sub alive { my ($words) = @_; return grep { $_ eq $words } proc('/proc/[0-9]*/cmdline'); }

for my $case ([ 'before the load', 'echo broken; exit 3' ], [ 'in the load', 'gate ready; echo broken; exit 3' ],
	[ 'after it', 'gate ready; gate done; echo broken; exit 3' ])
{
	my ($when, $script) = @$case;
	my @command = turns_command(load('a', $server{a}, 'gate ready; sleep 2.789; gate done'),
		load('b', $server{b}, $script));
	my $output = `@{[ join ' ', map { "'$_'" } @command ]} 2>&1`;
	is("@{[ $? >> 8 ]} $output", "1 broken\n\n", "a load that fails $when ends all, and its output is shown");
	ok(!alive("sleep\0002.789\0"), 'the other one is gone');
	ok(all_run(values %server), 'the servers run');
}

my $pid = fork // die $!;
if (!$pid)
{
	exec turns_command(map { load($_, $server{$_}, "gate ready; touch $dir/begun; sleep 27.89; gate done") } qw(a b))
		or die $!;
}
for (1 .. 100)
{
	last if -e "$dir/begun";
	sleep 0.1;
}
sleep 0.03;    # somewhere in a turn
kill 'TERM', $pid;
waitpid $pid, 0;
is($? >> 8, 143, 'turns.py is ended');
ok(!alive("sleep\00027.89\0"), 'the loads are gone');
ok(all_run(values %server), 'the servers run');

done_testing();
