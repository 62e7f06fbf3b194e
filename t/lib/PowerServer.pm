# PowerServer -- a small server that starts and dies often.  PostgreSQL::Test::Cluster
# waits too long and hides the process.
#
#   my $server = PowerServer->new($dir);        # $dir/data, $dir/pool, $dir/log
#   $server->initdb or $server->copy_from($other);
#   $server->start($medium); my $dbh = $server->connect; $server->stop; $server->crash;

package PowerServer;

use strict;
use warnings;

use Carp;
use PostgreSQL::Test::Utils ();
use POSIX ();
use PowerMedium ();
use Time::HiRes qw(sleep time);
use ZenTest ();

my $START_TIMEOUT_S = 300;

my %running;    # by directory; of this process

# fsync is on: only so does PostgreSQL flush WAL, and the medium knows which flushes there
# were.  WAL stays in the cache as long as it may.
my $CONF = <<'END';
listen_addresses = ''
max_connections = 12
max_prepared_transactions = 5
max_worker_processes = 4
max_wal_senders = 0
shared_buffers = 2MB
dynamic_shared_memory_type = mmap
autovacuum = off
jit = off
allow_in_place_tablespaces = on
fsync = on
full_page_writes = off
wal_writer_delay = 10s
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1d
max_wal_size = 1GB
min_wal_size = 2MB
wal_recycle = off
restart_after_crash = off
deadlock_timeout = 100ms
lock_timeout = 60s
statement_timeout = 120s
log_min_messages = warning
log_error_verbosity = verbose
END

my $ZEN_CONF = <<'END';
shared_preload_libraries = 'zen'
default_table_access_method = zen
zen.pool_size = 32MB
zen.dram_size = 32MB
END
$ZEN_CONF .= "wal_level = logical\nzen.stream = $ENV{ZEN_TEST_STREAM}\n" if $ENV{ZEN_TEST_STREAM};

# new -- $dir is made; {options}: more for the command line.
sub new
{
	my ($class, $dir) = @_;
	-d $dir or mkdir $dir or croak "mkdir $dir: $!";
	return bless { dir => $dir, medium => undef, options => [] }, $class;
}

sub host     { return $_[0]{dir}; }
sub port     { return 5432; }
sub data_dir { return "$_[0]{dir}/data"; }
sub pool     { return "$_[0]{dir}/pool"; }

# files -- the pool's files, as many as $nfiles says.
our $nfiles = 1;
sub files { my ($self) = @_; return map { $self->pool . ($_ ? ".$_" : '') } 0 .. $nfiles - 1; }

sub logfile  { return "$_[0]{dir}/log"; }
sub connect  { return ZenTest::connect_db($_[0], $_[1] || 'template1'); }

# pool_mode -- of the servers with zen: POWER_MODE, or what fits the medium.
sub pool_mode
{
	my $mode = $ENV{POWER_MODE} || ($ENV{PAGES} ? 'msync' : 'emulated');
	croak "POWER_MODE=$mode: PAGES must say how a disk forgets" if $mode ne 'emulated' && !$ENV{PAGES};
	return $mode;
}

# initdb -- a fresh cluster of one database, template1, with a tablespace ts, with zen or without; POWER_CONF
# adds settings, separated by ;
sub initdb
{
	my ($self, $with_zen) = @_;
	my $data = $self->data_dir;
	PostgreSQL::Test::Utils::run_log(
		[ 'initdb', '--no-sync', '-A', 'trust', '--no-locale', '-E', 'UTF8', '--wal-segsize=1', '-D', $data ])
	  or croak 'initdb failed';

	my $more = join "\n", split /;/, $with_zen && $ENV{POWER_CONF} || '';
	PostgreSQL::Test::Utils::append_to_file("$data/postgresql.conf",
		$CONF . ($with_zen ? $ZEN_CONF . 'zen.pool_mode = ' . pool_mode() . "\n" : '') . "$more\n");
	my $dbh = $self->start;
	ZenTest::value($dbh, $_)
	  for 'UPDATE pg_database SET datistemplate = false WHERE datname = $$template0$$',
	  'DROP DATABASE template0', 'DROP DATABASE postgres', q{CREATE TABLESPACE ts LOCATION ''},
	  $with_zen ? 'CREATE EXTENSION zen' : ();
	$dbh->disconnect;
	$self->stop;
	return;
}

sub remove
{
	my ($self) = @_;
	system('rm', '-rf', $self->{dir});
	return;
}

# copy_data -- replace the data directory by a copy of another one.
sub copy_data
{
	my ($self, $from) = @_;
	system('rm', '-rf', $self->data_dir) == 0 && system('cp', '-a', $from, $self->data_dir) == 0
	  or croak "cannot copy $from";
	unlink $self->data_dir . '/postmaster.pid';
	return;
}

sub copy_from
{
	my ($self, $other) = @_;
	$self->copy_data($other->data_dir);
	unlink glob($self->pool . '*');
	my @to = $self->files;
	for my $from ($other->files)
	{
		my $to = shift @to;
		PowerMedium::copy_sparse($from, $to) if -e $from;
	}
	return;
}

# launch -- start the postmaster, under a medium if there is one.
sub launch
{
	my ($self, $medium) = @_;
	my $dir = $self->{dir};
	unlink "$dir/data/postmaster.pid", glob("$dir/.s.PGSQL*");
	$self->{medium} = $medium;
	$medium->{data} = $self->data_dir if $medium;
	my $pid = fork // croak "fork: $!";
	if (!$pid)
	{
		%ENV = (%ENV, $medium->environment) if $medium;
		open(STDIN,  '<',  '/dev/null');
		open(STDOUT, '>>', "$dir/log");
		open(STDERR, '>>', "$dir/log");
		POSIX::setsid();
		my @zen = slurp("$dir/data/postgresql.conf") =~ /^zen\./m
		  ? ('-c', 'zen.pool_path=' . join ',', $self->files) : ();
		exec 'postgres', '-D', "$dir/data", '-k', $dir, @zen, @{ $self->{options} } or POSIX::_exit(127);
	}
	$self->{pid} = $pid;
	$running{ $self->{dir} } = $self;
	return;
}

sub slurp { return PostgreSQL::Test::Utils::slurp_file($_[0]); }

# ended -- has the postmaster gone?
sub ended
{
	my ($self) = @_;
	return 1 unless $self->{pid};
	return 0 unless waitpid($self->{pid}, POSIX::WNOHANG()) > 0;
	delete $self->{pid};
	delete $running{ $self->{dir} };
	return 1;
}

# wait_ready -- a connection as soon as there is one, or undef when the server ended.
sub wait_ready
{
	my ($self) = @_;
	my $end = time() + $START_TIMEOUT_S;
	while (!$self->ended)
	{
		my $dbh = -e "$self->{dir}/.s.PGSQL.5432" && eval { $self->connect };
		return $dbh if $dbh;
		croak "the server does not accept connections: $self->{dir}" if time() > $end;
		sleep 0.005;
	}
	return;
}

# wait_ready_child -- the same for a process that is not the postmaster's parent.
sub wait_ready_child
{
	my ($self) = @_;
	my $dbh;
	ZenTest::wait_for('the server to accept connections', sub {
			$dbh = -e "$self->{dir}/.s.PGSQL.5432" && eval { $self->connect } });
	return $dbh;
}

sub start
{
	my ($self, $medium) = @_;
	$self->launch($medium);
	my $dbh = $self->wait_ready;
	croak "the server does not start:\n" . $self->last_words unless $dbh;
	return $dbh;
}

sub last_words
{
	my ($self) = @_;
	my @lines = split /\n/, slurp($self->logfile);
	return join "\n", @lines > 15 ? @lines[ -15 .. -1 ] : @lines;
}

my $future_xid = quotemeta 'TransactionIdPrecedesOrEquals(xid, XidFromFullTransactionId(nextFullXid))';

# failed_by_itself -- did PostgreSQL's own assertion about a state file of two-phase commit end the start?
#
# A cut between the flush of such a file and that of the checkpoint leaves one whose xid is beyond the checkpoint
# before. A release build removes it, with a warning, and reads the transaction from the log; 17 and 18 with assertions
# stop.
sub failed_by_itself
{
	my ($self) = @_;
	return slurp($self->logfile) =~ /^TRAP: .*$future_xid/m;
}

# stop -- an orderly stop; connections must be closed.
sub stop
{
	my ($self) = @_;
	return unless $self->{pid};
	kill 'INT', $self->{pid};
	ZenTest::wait_for('the server to stop', sub { $self->ended });
	return;
}

# crash -- kill all processes; none is left on return.
sub crash
{
	my ($self) = @_;
	my @pids = $self->{medium} ? $self->{medium}->pids : ();
	$self->{medium}->cut_now if $self->{medium};
	if (my $pid = $self->{pid})
	{
		kill 'STOP', $pid;
		push @pids, ZenTest::descendants($pid);
		kill 'KILL', @pids, $pid;
		ZenTest::wait_for('the postmaster to die', sub { $self->ended });
	}
	ZenTest::wait_for('killed processes to go', sub {
			my @left = PowerMedium::processes_in($self->data_dir, @pids);
			push @left, $self->{medium}->pids if $self->{medium};
			kill 'KILL', @left if $self->{medium};
			return !@left; });
	$self->remove_segment;
	return;
}

# crash_all -- whatever this process has left running.
sub crash_all
{
	for my $server (values %running) { eval { $server->crash } }
	return;
}

# A killed postmaster leaves a small System V segment, named in its lock file.
sub remove_segment
{
	my ($self) = @_;
	open(my $fh, '<', $self->data_dir . '/postmaster.pid') or return;
	my @lines = <$fh>;
	close $fh;
	system("ipcrm -m $1 2>/dev/null") if ($lines[6] // '') =~ /\s(\d+)\s*$/;
	return;
}

1;
