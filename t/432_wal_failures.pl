# Mode wal: something fails under a random load.  The server starts again by itself, the WAL is replayed to the pool,
# nothing that was acknowledged is lost (as in 200_crash.pl, from the clients' journals), and the server works on.
#
#   killed    SIGKILL to the syncer, at any moment and while a checkpoint waits for it; to the checkpointer, with a
#             checkpoint under way; to a backend; to zen's worker
#   disk      a sync of the pool that fails, at a checkpoint, in replay, and for good; an msync that fails; a WAL file
#             that cannot be written, as its disk is full
#   room      the pool's blocks are allocated before they are used; where there is no room to grow, an error says why
#
#   CLIENTS=n, SEED=n as in 200_crash.pl; FAILURES="a b" only these

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CrashRound;
use IPC::Run ();
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $dir     = PostgreSQL::Test::Utils::tempdir();
my $control = "$dir/control";
my $library = compile_library('failing', "$dir/failing.so");
my @calls   = qw(sync_pool msync allocate_pool write_wal);    # of failing.c
my $seed    = choose_seed();
my $node    = new_node('failures', pool_size => '128MB', conf => "zen.pool_mode = wal\nfsync = on\n"
	  . "restart_after_crash = on\nstatement_timeout = 0\ncheckpoint_timeout = 1h\nmax_wal_size = 64MB\n"
	  . 'zen.pool_max_size = 512MB');
my $load = CrashRound->new(node => $node, clients => $ENV{CLIENTS} || 4, seed => $seed);
my $pool = pool_path($node);
my $dbh;

fail_calls();
start();
$load->prepare_database;
$load->{no_prepare} = stops_by_itself();

my @failures = (
	[ 'syncer', \&kill_syncer ],
	[ 'syncer that is waited for', \&kill_syncer_waited_for ],
	[ 'checkpointer', sub { kill_process('checkpointer') } ],
	[ 'backend', sub { kill_process('client backend') } ],
	[ 'worker', sub { kill_process('zen worker') } ],
	[ 'sync', sub { fail_checkpoint(sync_pool => 1) } ],
	[ 'sync, and in replay', sub { fail_checkpoint(sync_pool => 2) } ],
	[ 'sync, for good', sub { fail_checkpoint(sync_pool => -1) } ],
	[ 'msync', \&fail_msync ],
	[ 'WAL', sub { under_load(); fail_calls(write_wal => 1); return } ]);
my %wanted = map { $_ => 1 } split ' ', $ENV{FAILURES} // '';
my $round = 0;
for my $failure (grep { !%wanted || $wanted{ $_->[0] } } @failures)
{
	test_failure(++$round, @$failure);
}
test_room();
$load->print_counts;
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

# fail_calls -- how often each call is to fail from now on.
sub fail_calls
{
	my (%left) = @_;
	my $text = pack 'l<4l<4', map({ $left{$_} // 0 } @calls), (0) x 4;
	PostgreSQL::Test::Utils::append_to_file($control, $text) if !-e $control;
	open(my $fh, '+<', $control) or die "cannot write $control: $!";
	binmode $fh;
	syswrite($fh, $text) == length $text or die "cannot write $control: $!";
	close $fh;
	return;
}

# failed -- how often a call has failed since then.
sub failed
{
	my ($call) = @_;
	my @n = unpack 'l<8', PostgreSQL::Test::Utils::slurp_file($control);
	my ($i) = grep { $calls[$_] eq $call } 0 .. $#calls;
	return $n[ @calls + $i ];
}

# stops_by_itself -- does this server not start behind a checkpoint that did not end, if transactions were prepared
# before?  17 and 18 with assertions do not (PowerServer::failed_by_itself).
sub stops_by_itself
{
	my $admin = connect_db($node);
	return value($admin, q{SELECT (current_setting('debug_assertions') = 'on'
		AND current_setting('server_version_num')::int >= 170000)::int});
}

sub start
{
	local $ENV{LD_PRELOAD}      = $library;
	local $ENV{FAILING_CONTROL} = $control;
	start_again($node);
	return;
}

sub pid_of
{
	my ($kind) = @_;
	return value($dbh,
		"SELECT max(pid) FROM pg_stat_activity WHERE backend_type = '$kind' AND pid <> pg_backend_pid()");
}

# wait_wal -- until the clients have written so much WAL.
sub wait_wal
{
	my ($bytes) = @_;
	my $lsn = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	wait_for('the load', sub { value($dbh, "SELECT pg_current_wal_insert_lsn() - '$lsn' > $bytes") });
	return;
}

# under_load -- connect; return in the middle of the load, some way behind a checkpoint.
sub under_load
{
	$dbh = connect_db($node);
	wait_wal(200_000);
	value($dbh, 'CHECKPOINT');
	wait_wal(between(20_000, 600_000));
	return;
}

sub is_alive { return -e $node->data_dir . '/postmaster.pid'; }

# reconnect -- as soon as the server is there again, and nobody else is.
sub reconnect
{
	wait_for('the server', sub {
			$dbh = eval { connect_db($node) } or return 0;
			my $others = run_sql($dbh, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'});
			return !$others->{state} && $others->{rows}[0][0] == 1; });
	return;
}

# --- what fails ---------------------------------------------------------------

sub kill_process
{
	my ($kind) = @_;
	under_load();
	my $checkpoint = start_statement(connect_db($node), 'CHECKPOINT');
	kill 'KILL', pid_of($kind);
	return;
}

sub kill_syncer
{
	under_load();
	kill 'KILL', pid_of('zen syncer');
	return;
}

# The checkpoint has done all but for the syncer, and no record says so.
sub kill_syncer_waited_for
{
	under_load();
	my $before = value($dbh, 'SELECT checkpoint_lsn FROM pg_control_checkpoint()');
	my $pid = stop_asleep($dbh, 'zen syncer');
	my $checkpoint = start_statement(connect_db($node), 'CHECKPOINT');
	wait_wal(500_000);
	is(value($dbh, 'SELECT checkpoint_lsn FROM pg_control_checkpoint()'), $before, 'no checkpoint passes the syncer');
	kill 'KILL', $pid;
	return;
}

sub fail_checkpoint
{
	my (@calls) = @_;
	under_load();
	fail_calls(@calls);
	run_sql($dbh, 'CHECKPOINT');
	return;
}

sub fail_msync
{
	under_load();
	fail_calls(msync => 1);
	# writes superblocks, which have their own sync
	my $size = (-s $pool) / 1048576 + 32;
	run_sql($dbh, "SELECT zen_pool_grow('${size}MB')");
	return;
}

# --- the tests --------------------------------------------------------------

my %panic;

BEGIN
{
	%panic = (
		sync  => qr/PANIC: .*could not write zen pool file "[^"]*" to its medium: Input\/output error/,
		msync => qr/PANIC: .*msync of \d+ bytes failed/s,
		WAL   => qr/PANIC: .*could not write to (?:log|WAL) file .*No space left on device/);
}

sub test_failure
{
	my ($number, $name, $do) = @_;
	my $from = log_size($node);
	my @wrong = $load->run_load($number, $do);
	push @wrong, $load->read_journals;
	diag("$name: $_") for @wrong;

	my ($first) = $name =~ /^(\w+)/;
	if ($name =~ /replay|for good/)
	{
		# an end of the startup process ends the server
		wait_for('the server to end', sub { !is_alive() });
		$node->_update_pid(0);
		cmp_ok(failed('sync_pool'), '>=', 2, "$name: failed in replay, too");
		fail_calls();
		start();
	}
	reconnect();
	$load->verify($dbh, \@wrong);
	diag("$name: $_") for @wrong;
	ok(!@wrong, "$name: nothing is lost");
	my $log = log_since($node, $from);
	like($log, $panic{$first}, "$name: PANIC") if $panic{$first};
	unlike($log, qr/TRAP:/, "$name: no assertion fails");
	like($log, qr/was not left in order: the write-ahead log is replayed/, "$name: the WAL was replayed");
	value($dbh, 'CHECKPOINT');
	is(value($dbh, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'zen syncer'}), 1,
		"$name: there is a syncer");
	fail_calls();
	return;
}

sub test_room
{
	is((stat $pool)[12] * 512 >= -s $pool, 1, 'room: all blocks are allocated');
	my $size = -s $pool;
	fail_calls(allocate_pool => -1);
	my $result = run_sql($dbh, q{SELECT zen_pool_grow('480MB')});
	is($result->{state}, '53100', 'room: SQLSTATE');
	like($result->{message}, qr/No space left on device.*HINT:/s, 'room: the error says why');
	is(-s $pool, $size, 'room: the file is as it was');
	fail_calls();
	is(state_of($dbh, q{SELECT zen_pool_grow('480MB')}), '', 'room: it grows when there is room');
	is((stat $pool)[12] * 512 >= -s $pool, 1, 'room: all new blocks are allocated');
	my $sum = contents($dbh, 'item');
	crash($node);
	start();
	reconnect();
	is(contents($dbh, 'item'), $sum, 'room: and nothing is lost');
	is(-s $pool, 480 << 20, 'room: the size, after a crash');
	is_sound($dbh, 'room');
	return;
}
