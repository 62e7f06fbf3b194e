# One process of the server dies under load: PostgreSQL ends all others and starts again
# in the same postmaster, and zen must build its DRAM anew from the pool.
#
# - SIGKILL and SIGSEGV to a random process, clients' backends and zen's worker among them;
#   now and then another one while recovery runs
# - SIGKILL to a backend, after which indexes and tables agree
# - immediate stop
# - memory that runs out at random (malloc fails): an error of a statement, or PostgreSQL's
#   own PANIC, but nothing that was acknowledged is lost
# - a clock that is set back, and forward again: nothing in zen goes by the clock
# - SIGKILL when one copy of the superblock is written, and not yet the other one
# - SIGBUS because the pool file was cut short: the server ends and says why, and does not
#   start before the pool is whole again
#
# ROUNDS=n (default 6), CLIENTS=n, SEED=n as in 200_crash.pl

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CrashRound;
use File::Copy 'copy';
use IPC::Run ();
use PoolFile;
use PoolLayout;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep time);
use ZenTest;

skip_unless_zen();

my $rounds  = $ENV{ROUNDS} || 6;
my $seed    = choose_seed();
my $shim    = build_shim();
my $control = "$PostgreSQL::Test::Utils::tmp_check/shim.control";
# A clock that leaps forward makes every timer of a waiting statement expire: none is set but those that the load
# retries.
my $node    = new_node('killed', pool_size => '256MB', conf => "restart_after_crash = on\nstatement_timeout = 0");
my $load    = CrashRound->new(node => $node, clients => $ENV{CLIENTS} || 8, seed => $seed, retry => ['53200']);
my $dbh;

set_shim(rate => 0, offset => 0);
start();
$load->prepare_database;

my @kinds = (\&sigkill, \&sigsegv, \&immediate_stop, $shim ? (\&out_of_memory, \&clock_set_back) : ());
my @names = ('SIGKILL', 'SIGSEGV', 'immediate stop', 'out of memory', 'clock set back');
for my $round (1 .. $rounds)
{
	my $kind = ($round - 1) % @kinds;
	my $offset = log_size($node);
	my @wrong = $load->run_load($round, $kinds[$kind]);
	push @wrong, $load->read_journals;
	if (!@wrong)
	{
		$dbh = reconnect();
		# An error inside a bucket's split leaves the split to a later insertion.  Until then a scan of the new bucket
		# that ends on a match does not go on with the old one (_hash_next(), 15 to 18): rows of heap are missed, too.
		$load->verify($dbh, \@wrong, $names[$kind] eq 'out of memory' ? 'REINDEX INDEX item_tag' : ());
		$dbh->disconnect;
	}
	my $said = log_since($node, $offset);
	push @wrong, 'an assertion has failed' if $said =~ /TRAP:/;
	push @wrong, 'the postmaster has gone' if $kind != 2 && $said =~ /database system is shut down/;
	diag("round $round, $names[$kind]: $_") for @wrong;
	ok(!@wrong, "round $round: $names[$kind]");
	last if @wrong;
}
$load->print_counts;
test_indexes();
test_superblock_copies();
test_sigbus();
done_testing();

# --- the shim ---------------------------------------------------------------

# build_shim -- a library to be preloaded, undef if there is no compiler.
sub build_shim
{
	my $dir = $PostgreSQL::Test::Utils::tmp_check;
	mkdir $dir;
	my $library = "$dir/shim.so";
	my $cc = $ENV{CC} || 'cc';
	my $command = "$cc -shared -fPIC -O1 -o '$library' '$FindBin::RealBin/lib/shim.c' -ldl";
	return $library if system("$command >'$dir/shim.log' 2>&1") == 0;
	diag('no C compiler: neither memory that runs out nor clocks set back are tested');
	return;
}

# set_shim -- what the preloaded library is to do from now on, and to which processes:
# one allocation out of rate fails, the clock is wrong by offset seconds.
sub set_shim
{
	my (%to) = @_;
	my @pids = @{ $to{pids} || [] };
	my $text = pack 'q<l<l<l<256', $to{offset}, $to{rate}, scalar @pids, @pids, (0) x (256 - @pids);
	if (!-e $control)
	{
		open(my $new, '>', $control) or die "cannot write $control: $!";
		close $new;
	}
	open(my $fh, '+<', $control) or die "cannot write $control: $!";
	binmode $fh;
	syswrite $fh, $text or die "cannot write $control: $!";
	close $fh;
	return;
}

sub start
{
	local $ENV{LD_PRELOAD}   = $shim    if $shim;
	local $ENV{SHIM_CONTROL} = $control if $shim;
	$node->start;
	return;
}

# --- what is done to the server ---------------------------------------------

sub backends
{
	my @pids = ZenTest::descendants(ZenTest::postmaster_pid($node));
	return @pids;
}

# may_die -- does PostgreSQL go on without this process?  When its startup process fails it ends for good.
sub may_die
{
	my ($pid) = @_;
	my $title = eval { PostgreSQL::Test::Utils::slurp_file("/proc/$pid/cmdline") } // '';
	return $title =~ /^postgres: / && $title !~ /: startup/;
}

sub kill_one
{
	my ($signal) = @_;
	sleep(0.3 + rand 1.5);
	kill $signal, pick(backends());
	# Again in the middle of the recovery that follows, now and then.
	if (one_in(3))
	{
		sleep rand 0.3;
		my @left = grep { may_die($_) } backends();
		kill $signal, pick(@left) if @left;
	}
	return;
}

sub sigkill { return kill_one('KILL'); }

sub sigsegv { return kill_one('SEGV'); }

sub immediate_stop
{
	sleep(0.3 + rand 1.5);
	$node->stop('immediate');
	start();
	return;
}

sub end_clients
{
	my (@clients) = @_;
	kill 'KILL', @clients;
	return;
}

# The backends of clients run out of memory, again and again.
sub out_of_memory
{
	my (@clients) = @_;
	my $watch = connect_db($node);
	for (1 .. 20)
	{
		my $result = run_sql($watch, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
			AND pid <> pg_backend_pid()});
		last if $result->{state};
		set_shim(rate => 40, offset => 0, pids => [ map { $_->[0] } @{ $result->{rows} } ]);
		sleep 0.1;
	}
	set_shim(rate => 0, offset => 0);
	sleep 0.1;
	end_clients(@clients);
	return;
}

sub clock_set_back
{
	my (@clients) = @_;
	sleep 0.5;
	for my $days (1, 400, -30, 0)
	{
		set_shim(rate => 0, offset => -86400 * $days);
		sleep 0.3;
	}
	set_shim(rate => 0, offset => -86400 * 400);
	sleep 0.3;
	crash($node);
	start_again_with_shim();
	set_shim(rate => 0, offset => 0);
	end_clients(@clients);
	return;
}

sub start_again_with_shim
{
	local $ENV{LD_PRELOAD}   = $shim;
	local $ENV{SHIM_CONTROL} = $control;
	start_again($node);
	return;
}

# reconnect -- as soon as the server is there again, and nobody else is.
sub reconnect
{
	my $handle;
	wait_for('the server', sub { $handle = eval { connect_db($node) }; $handle && $handle->ping });
	wait_for(
		'the backends of the clients to end',
		sub {
			# the server may still be on its way down
			my $result = run_sql($handle, q{SELECT count(*) FROM pg_stat_activity
				WHERE backend_type = 'client backend'});
			if ($result->{state}) { $handle = eval { connect_db($node) } || $handle; return 0; }
			return $result->{rows}[0][0] == 1;
		});
	return $handle;
}

# --- indexes ----------------------------------------------------------------

# The server starts anew in the same postmaster: what was in shared memory before
# must not be taken for what is there now.
sub test_indexes
{
	$dbh = reconnect();
	make_rows($dbh, 'acc', 20000);
	my $script = PostgreSQL::Test::Utils::tempdir() . '/move.sql';
	PostgreSQL::Test::Utils::append_to_file($script,
		"\\set a random(1, 19999)\n"
		  . "UPDATE acc SET n = n + 1, k = k + 1, v = v + CASE id WHEN :a THEN 1 ELSE -1 END "
			  . "WHERE id IN (:a, :a + 1);\n");
	for my $i (1 .. 3)
	{
		my $before = value($dbh, 'SELECT sum(n) FROM acc');
		my ($in, $out) = ('', '');
		my $bench = IPC::Run::start(
			[ 'pgbench', '-n', '-c', 4, '-T', 60, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
			'<', \$in, '>&', \$out);
		my $seen = 0;
		wait_for('pgbench at work', sub { ($seen = value($dbh, 'SELECT sum(n) FROM acc')) > $before + 500 });
		kill 'KILL', value($dbh, q{SELECT min(pid) FROM pg_stat_activity WHERE query LIKE 'UPDATE acc%'
			AND pid <> pg_backend_pid()});
		wait_for('the server to notice', sub { run_sql($dbh, 'SELECT 1')->{lost} });
		$bench->finish;
		$dbh = reconnect();
		value($dbh, 'UPDATE acc SET v = v + 1 WHERE id = 5') if inject();
		my $sum = contents($dbh, 'acc');
		is(contents($dbh, 'acc', 'indexscan', 'id > 0'), $sum, "lost backend $i: primary key");
		is(contents($dbh, 'acc', 'bitmapscan', 'k >= 0'), $sum, "lost backend $i: second index");
		is(value($dbh, q{SELECT count(*) || ' ' || sum(v) || ' ' || sum(n) % 2 FROM acc}), '20000 0 0',
			"lost backend $i: whole transactions");
		cmp_ok(value($dbh, 'SELECT sum(n) FROM acc'), '>=', $seen, "lost backend $i: nothing seen is lost");
	}
	value($dbh, 'DROP TABLE acc');
	$dbh->disconnect;
	return;
}

# --- copies of the superblock -----------------------------------------------

# The worker raises the mark in one copy of the superblock, and then in the other one.  It can be killed in between.
sub test_superblock_copies
{
	$dbh = reconnect();
	my $pool = open_pool(pool_path($node));
	# the worker may raise the mark just now
	wait_for('one copy with another mark', sub {
		mark_older_copy($pool);
		return grep { /superblock .* differs from the one in force/ } ZenTest::findings($dbh); });
	my $log = log_size($node);
	kill 'KILL', value($dbh, 'SELECT pg_backend_pid()');
	$dbh = reconnect();
	like(log_since($node, $log), qr/a copy of the superblock of .* was written again/, 'one copy marked: the log');
	is_sound($dbh, 'one copy marked, after a crash');
	$dbh->disconnect;
	return;
}

# mark_older_copy -- give it another mark than the copy in force has; its checksum is right.
sub mark_older_copy
{
	my ($pool) = @_;
	my ($older) = sort { super_field($pool, $a, 16, 'Q<') <=> super_field($pool, $b, 16, 'Q<') } super_offsets();
	my $mark  = super_field($pool, $older, 92, 'L<');
	my $bytes = peek($pool, $older, 96);
	substr($bytes, 92, 4) = pack('L<', $mark + 1000);
	substr($bytes, 12, 4) = pack('L<', 0);
	substr($bytes, 12, 4) = pack('L<', crc32c($bytes));
	poke($pool, $older, $bytes);
	return;
}

sub super_field
{
	my ($pool, $copy, $offset, $type) = @_;
	return unpack($type, peek($pool, $copy + $offset, length pack($type, 0)));
}

# --- SIGBUS -----------------------------------------------------------------

sub test_sigbus
{
	my $pool = pool_path($node);
	my $size = -s $pool;
	$dbh = reconnect();
	my $count = value($dbh, 'SELECT count(*) FROM item');
	$dbh->disconnect;
	$node->stop;
	copy($pool, "$pool.good") or die "cannot copy $pool: $!";
	start();
	$dbh = connect_db($node);
	is(value($dbh, 'SELECT count(*) FROM item'), $count, 'before the pool is cut short');

	my $offset     = log_size($node);
	my $postmaster = ZenTest::postmaster_pid($node);
	# its directories remain, its data do not
	truncate $pool, 8 * 1024 * 1024 or die "cannot truncate $pool: $!";
	$dbh->do(q{INSERT INTO item SELECT -g, 0, 0, 0, 'x' || g, 0, '{}', 0, repeat('x', 1000)
		FROM generate_series(1, 1000) g}) for 1 .. 3;
	wait_for('the server to end', sub { ZenTest::is_gone($postmaster) });
	$node->_update_pid(0);
	my $said = log_since($node, $offset);
	like($said, qr/terminated by signal 7/, 'pool cut short: SIGBUS');
	like($said, qr/FATAL:  XX001: zen pool file "\Q$pool\E" has the wrong size/,
		'pool cut short: the postmaster ends and says why');
	my @crashes = $said =~ /terminated by signal/g;
	cmp_ok(scalar @crashes, '<', 4, 'pool cut short: no crash loop');

	$said = start_failing($node);
	ok(defined $said, 'pool cut short: the server does not start again');
	like($said || '', qr/has the wrong size.*HINT/s, 'pool cut short: and says why');

	copy("$pool.good", $pool) or die "cannot copy: $!";
	# the copy is of a moment before the last start
	$said = start_failing($node);
	like($said || '', qr/HINT/, 'an older pool is refused, too');
	return;
}
