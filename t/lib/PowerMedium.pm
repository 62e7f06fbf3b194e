# PowerMedium -- the medium that forgets (t/power): compiled, put under a server, and
# asked at a crash point what pool and WAL may look like after a power cut.
#
#   my $programs = PowerMedium::build($dir);
#   my $medium   = PowerMedium->new($programs, $dir, $pool);    # before each start
#   exec with $medium->environment; $medium->{data} = its data directory
#   $medium->want('photo');
#   while (my $request = $medium->next_request($timeout)) { copy files; $medium->go_on($request) }
#   my $state = $medium->state_after_cut(upto => ..., seed => 5, pool => $file, wal => $pg_wal);

package PowerMedium;

use strict;
use warnings;

use Carp;
use Cwd ();
use Errno;
use Fcntl qw(O_RDWR O_CREAT SEEK_SET);
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils ();
use POSIX ();
use Time::HiRes qw(sleep time);
use ZenTest ();

# As in t/power/trace.h.
my %WORD = (want => 0, cut_at => 1, fences => 2, syncs => 3, stores => 4, log_used => 5, cut => 6, pids => 7,
	acked => 9, reset => 10,
	hold => 11, hold_pid => 12, hold_after => 13, held => 14,
	flushed => 15);    # acked and flushed are the driver's own
my %WANT = (nothing => 0, photo => 1, cut => 2);
my %HOLD = (nothing => 0, store => 1, wal_write => 2, wal_sync => 3, pool_sync => 4, notify => 5,
	settings => 6);
my $R_LINE        = 8;
my $PIDS_OFFSET   = 16 * 8 + 8 * 8;
my $CONTROL_BYTES = 64 * 1024;
my $POOL_BYTES    = 32 * 1024 * 1024;    # of a pool that is made under the medium
my $LOG_BYTES     = 8 * 1024 * 1024 * 1024;    # sparse

# build -- compile medium.so and cut into a directory.
sub build
{
	my ($dir) = @_;
	my $source = dirname(__FILE__) . '/../power';
	my $cc = $ENV{CC} || 'cc';
	my %programs = (medium => "$dir/medium.so", cut => "$dir/cut");
	for my $command (
		[ $cc, '-O2', '-Wall', '-Werror', '-fPIC', '-shared', '-o', $programs{medium}, "$source/medium.c", '-pthread' ],
		[ $cc, '-O2', '-Wall', '-Werror', '-o', $programs{cut}, "$source/cut.c" ])
	{
		system(@$command) == 0 or croak "cannot compile: @$command";
	}
	return \%programs;
}

# new -- a medium for one life of a server; $dir is made, $pool and @more are the pool's files, which
# may not exist yet, and are not running.  Copies of them are what the record begins with.
sub new
{
	my ($class, $programs, $dir, $pool, @more) = @_;
	my $self = bless { programs => $programs, dir => $dir, base => "$dir/base" }, $class;
	mkdir $dir or croak "mkdir $dir: $!";
	for my $file ([ 'control', $CONTROL_BYTES ], [ 'log', $LOG_BYTES ])
	{
		open(my $fh, '>', "$dir/$file->[0]") or croak "$file->[0]: $!";
		truncate($fh, $file->[1]) or croak "truncate: $!";
		close $fh;
	}
	POSIX::mkfifo("$dir/$_", 0600) or croak "mkfifo: $!" for qw(request reply);
	sysopen($self->{request}, "$dir/request", O_RDWR) or croak "request: $!";
	sysopen($self->{reply},   "$dir/reply",   O_RDWR) or croak "reply: $!";
	copy_sparse($pool, $self->{base}) if -e $pool;
	-e $more[$_] and copy_sparse($more[$_], "$self->{base}." . ($_ + 1)) for 0 .. $#more;
	return $self;
}

# keep_caches -- after a crash of processes alone: what the medium has for certain is in the
# file $durable, and the caches show the pool itself.
sub keep_caches
{
	my ($self, $durable, $pool) = @_;
	copy_sparse($durable, $self->{base});
	open(my $old, '<:raw', $durable) or croak "$durable: $!";
	open(my $new, '<:raw', $pool) or croak "$pool: $!";
	open(my $log, '+<:raw', "$self->{dir}/log") or croak "log: $!";
	my $used = 0;
	for (my $at = 0; sysread($old, my $before, 65536); $at += 65536)
	{
		sysread($new, my $after, 65536);
		next if $before eq $after;
		for my $line (grep { substr($before, 64 * $_, 64) ne substr($after, 64 * $_, 64) } 0 .. 1023)
		{
			my $bytes = substr $after, 64 * $line, 64;
			$used += syswrite $log, pack('LSSlLQQ', 32 + 64, $R_LINE, 0, 0, 64, $at + 64 * $line, 64) . $bytes;
		}
	}
	$self->word('log_used', $used);
	return;
}

sub copy_sparse
{
	my ($from, $to) = @_;
	system('cp', '--sparse=always', $from, $to) == 0 or croak "cannot copy $from";
	return;
}

sub environment
{
	my ($self) = @_;
	return (LD_PRELOAD => $self->{programs}{medium}, ZEN_MEDIUM => $self->{dir});
}

# control -- the control file.  Driver and client are processes that fork from each other and use it at the same time:
# each has a file position of its own.
sub control
{
	my ($self) = @_;
	if (($self->{opened_by} // 0) != $$)
	{
		sysopen($self->{control}, "$self->{dir}/control", O_RDWR) or croak "control: $!";
		$self->{opened_by} = $$;
	}
	return $self->{control};
}

# word -- read a word of the control file, or set it.
sub word
{
	my ($self, $name, $value) = @_;
	my $control = $self->control;
	sysseek($control, 8 * $WORD{$name}, SEEK_SET);
	if (defined $value)
	{
		syswrite($control, pack('Q<', $value), 8) == 8 or croak "control: $!";
		return $value;
	}
	sysread($control, my $bytes, 8) == 8 or croak "control: $!";
	return unpack('Q<', $bytes);
}

# want -- 'nothing', 'photo', or 'cut' at the crash point $at, counted from now on.
sub want
{
	my ($self, $what, $at) = @_;
	$self->word('reset', 1);    # to set the counts here would race with processes that count
	$self->word('cut_at', $at || 0);
	$self->word('want', $WANT{$what});
	return;
}

# hold -- process $pid is to stand still before it does $what for the next time, or $after times later; what held
# another one, or this one elsewhere, no longer does.  held -- is it there?
sub hold
{
	my ($self, $what, $pid, $after) = @_;
	croak "there is no place $what" unless defined $HOLD{$what};
	$self->word('held', 0);
	$self->word('hold_pid', $pid // 0);
	$self->word('hold_after', $after // 0);
	$self->word('hold', $HOLD{$what});
	return;
}

sub held { return $_[0]->word('held'); }

# pids -- the processes on this medium that have not ended.
sub pids
{
	my ($self) = @_;
	my $n = $self->word('pids') or return;
	my $control = $self->control;
	sysseek($control, $PIDS_OFFSET, SEEK_SET);
	sysread($control, my $bytes, 4 * $n);
	return processes_in($self->{data}, unpack('l<*', $bytes));
}

# processes_in -- those of the processes that work in this directory and have not ended; an ended one may
# have left its number to a stranger.
sub processes_in
{
	my ($directory, @pids) = @_;
	my $real = Cwd::realpath($directory);
	return grep { $_ && (readlink("/proc/$_/cwd") // '') eq $real } @pids;
}

# cut_now -- nothing that is not on the medium by now will ever be; kills all.
sub cut_now
{
	my ($self) = @_;
	$self->word('cut', 1);
	kill 'KILL', $_ for $self->pids;
	return;
}

# next_request -- wait up to $timeout seconds for a process that stands at a crash point, or for a client's snap():
# { point, upto, pid }, or undef; pid 0: a client's.
sub next_request
{
	my ($self, $timeout) = @_;
	my $bits = '';
	vec($bits, fileno $self->{request}, 1) = 1;
	return if select($bits, undef, undef, $timeout) <= 0;
	sysread($self->{request}, my $bytes, 24) == 24 or croak "request: $!";
	my %request;
	@request{qw(point upto pid)} = unpack('Q<3', $bytes);
	return \%request;
}

# snap -- by a client: have the driver take a photo of this moment, at which no process stands at a crash point.
sub snap
{
	my ($self) = @_;
	my $bits = '';
	vec($bits, fileno $self->{reply}, 1) = 1;
	syswrite($self->{request}, pack('Q<3', $self->word('fences') + $self->word('syncs'), 0, 0), 24) == 24
	  or croak "request: $!";
	select($bits, undef, undef, 300) > 0 && sysread($self->{reply}, my $reply, 1) == 1 or croak "no photo: $!";
	return;
}

sub go_on
{
	my ($self) = @_;
	syswrite($self->{reply}, 'x', 1) == 1 or croak "reply: $!";
	return;
}

# stopped -- run a sub while all processes, but the one at the crash point, are stopped.
sub stopped
{
	my ($self, $requester, $sub) = @_;
	my @others = grep { $_ != $requester } $self->pids;
	kill 'STOP', @others;
	ZenTest::wait_for(
		'processes to stop',
		sub {
			!grep { my ($state) = ZenTest::proc_stat($_); defined $state && $state !~ /[TtZX]/ } @others;
		});
	$sub->();
	kill 'CONT', @others;
	return;
}

# state_after_cut -- write to the file `pool` and to the copied folder `wal` what may be left after a
# cut when `upto` bytes were recorded: choice `seed`, or number `index`; `eadr`: a persistent
# cache; `unit`: a pool on a disk, which forgets in units of so many bytes; `size`: of the pool's file by then.
# Without `pool` nothing is written.
# `more`: the further files of the pool, as { path, size }, in their order; they must be mapped in that order.
# Returns { states, lines, sectors, digest }.
sub state_after_cut
{
	my ($self, %opt) = @_;
	my $state = $self->cut_file(\%opt, 0, $opt{pool}, $opt{size});
	for my $number (1 .. @{ $opt{more} || [] })
	{
		my $file = $opt{more}[ $number - 1 ];
		my $more = $self->cut_file(\%opt, $number, $opt{pool} && $file->{path}, $file->{size});
		$state->{states} = 1e9 if $more->{states} > 1;
		$state->{lines} += $more->{lines};
		$state->{digest} .= $more->{digest};
	}
	return $state;
}

# cut_file -- one file of the pool, and with the first the WAL.
sub cut_file
{
	my ($self, $opt, $number, $path, $size) = @_;
	my @command = (
		$self->{programs}{cut}, '-l', "$self->{dir}/log", '-u', $opt->{upto}, '-p', $number,
		'-b', $self->{base} . ($number ? ".$number" : ''), ($path ? ('-o', $path) : ()),
		'-z', $size || $POOL_BYTES, ($size ? ('-g', $size) : ()), ($number ? () : ('-w', $opt->{wal})),
		($opt->{eadr} ? '-e' : ()), ($opt->{unit} ? ('-a', $opt->{unit}) : ()),
		defined $opt->{index} ? ('-i', $number ? 0 : $opt->{index}) : ('-s', $opt->{seed}));
	my ($out, $err) = PostgreSQL::Test::Utils::run_command(\@command);
	$out =~ /^(\d+) (\d+) (\d+) (\w+)$/ or croak "@command: $out $err";
	return { states => $1, lines => $2, sectors => $3, digest => $4 };
}

1;
