# Mode wal: when the server takes it, from which mode to which a pool can go, and servers with little.
#
#   auto      an ordinary file: wal, and changes are logged whatever zen.stream says; persistent memory: pmem
#   switches  from each mode to each other one, after an orderly stop and after a crash: all rows are there, those of
#             open transactions are not, prepared transactions can be ended
#   little    wal_level = minimal, no walsenders, fsync = off
#   workers   no slot for the syncer, or none for any worker: the log says so at once, and all works
#   single    single-user mode, after an orderly stop and after a crash
#
#   SEED=n    replays the choice of switches

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run ();
use List::Util qw(shuffle);
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
choose_seed();

my $node = new_node('modes', pool_size => '64MB', dram_size => '64MB', init => { allows_streaming => 1 },
	conf => "zen.pool_max_size = 64MB\ncheckpoint_timeout = 1h\nrestart_after_crash = on\nzen.pool_mode = auto");
my $pool = pool_path($node);
my $dbh;
my $version = 0;

test_auto();
test_switches();
test_little();
test_workers();
test_single();
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub mode { return value($dbh, 'SELECT mode FROM zen_pool'); }

sub syncers { return value($dbh, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'zen syncer'}); }

# change -- transactions behind the last checkpoint: large and small ones, one prepared, and one that has not ended.
# Returns what must be there, and the connection of the last one.
sub change
{
	$version++;
	run_all($dbh, "UPDATE t SET v = $version WHERE id % 10 = $version % 10", 'DELETE FROM t WHERE id > 5000',
		"INSERT INTO t SELECT 5000 + g, $version, repeat('x', 300) FROM generate_series(1, 300) g",
		'BEGIN', "INSERT INTO h VALUES ($version)", "UPDATE t SET v = -$version WHERE id = 1", 'COMMIT',
		'BEGIN', "UPDATE t SET v = 100 + v WHERE id = 2", "PREPARE TRANSACTION 'p$version'");
	my $open = connect_db($node);
	run_all($open, 'BEGIN', 'UPDATE t SET v = 0 WHERE id BETWEEN 3 AND 2000',
		"INSERT INTO t SELECT 100000 + g, 0, repeat('lost', 100) FROM generate_series(1, 3000) g");
	return (contents($dbh, 't'), $open);
}

# Where no slot is left for it, no worker rebuilds indexes.
sub wait_ready { return wait_for('recovery', sub { value($dbh, q{SELECT state = 'ready' FROM zen_recovery}) }); }

sub is_there
{
	my ($expected, $name) = @_;
	wait_ready();
	same_by_index($dbh, 't', $expected, $name);
	is(value($dbh, 'SELECT max(i) FROM h'), $version, "$name: heap");
	my $v = value($dbh, 'SELECT v FROM t WHERE id = 2');
	value($dbh, "COMMIT PREPARED 'p$version'");
	is(value($dbh, 'SELECT v FROM t WHERE id = 2'), $v + 100, "$name: a prepared transaction");
	is_sound($dbh, $name);
	return;
}

# change_and_restart -- with other settings from then on.
sub change_and_restart
{
	my ($how, $settings, $name) = @_;
	my ($expected, $open) = change();
	set_conf($node, $settings);
	my $from = log_size($node);
	if ($how eq 'crash')
	{
		$dbh = crash_restart($node);
	}
	else
	{
		$open->disconnect;
		$dbh = clean_restart($node, $dbh);
	}
	is_there($expected, $name);
	return log_since($node, $from);
}

# --- the tests --------------------------------------------------------------

sub test_auto
{
	set_conf($node, 'zen.stream = off');
	$node->start;
	$dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v int, w text) USING zen',
		'INSERT INTO t SELECT g, 0 FROM generate_series(1, 5000) g', 'CREATE TABLE h (i int) USING heap');
	wait_recovered($dbh);
	is(mode(), 'wal', 'auto: an ordinary file');
	is(value($dbh, 'SHOW zen.pool_mode'), 'auto', 'auto: the setting stays');
	is(value($dbh, 'SHOW zen.stream'), 'replica', 'auto: zen.stream is implied');
	my $from = log_size($node);
	reload_conf($node, "zen.stream = logical\nwork_mem = 5MB");
	wait_for('the reload', sub { value($dbh, 'SHOW work_mem') eq '5MB' });
	is(value($dbh, 'SHOW zen.stream'), 'replica', 'auto: zen.stream, after a reload');
	is(value($dbh, 'SELECT count(*) FROM pg_settings WHERE pending_restart'), 0, 'auto: no restart is needed');
	unlike(log_since($node, $from), qr/cannot be changed/, 'auto: nor does the log say so');
	set_conf($node, 'zen.stream = off');
	is(syncers(), 1, 'auto: there is a syncer');
	ok(!glob("$pool*probe*"), 'auto: no other file is left');
	like(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/is not on persistent memory: the write-ahead log/,
		'auto: the log says so');
	change_and_restart($_, '', "auto, $_") for 'clean', 'crash';

	# libpmem is told so; a pool that can grow would be mapped again, with MAP_SYNC
	local $ENV{PMEM_IS_PMEM_FORCE} = 1;
	for my $how ('clean', 'crash')
	{
		change_and_restart($how, '', "auto, then persistent memory, $how");
		is(mode(), 'pmem', "auto, then persistent memory, $how: mode");
		is(value($dbh, 'SHOW zen.stream'), 'off', "auto, then persistent memory, $how: zen.stream");
		is(syncers(), 0, "auto, then persistent memory, $how: no syncer");
		local $ENV{PMEM_IS_PMEM_FORCE} = 0;
		change_and_restart($how, '', "auto, then an ordinary file, $how");
		is(mode(), 'wal', "auto, then an ordinary file, $how: mode");
	}
	return;
}

# A walk through all pairs of modes, half of them after a crash, twice.
sub test_switches
{
	my @pairs = shuffle(map { my $to = $_; map { [ $_, $to ] } 'clean', 'crash' } 'emulated', 'msync', 'wal');
	for my $pair (@pairs)
	{
		my ($how, $mode) = @$pair;
		for my $to ($mode, 'wal')
		{
			my $from = mode();
			my $log = change_and_restart($how, "zen.pool_mode = $to", "switches: $from, $how, $to");
			is(mode(), $to, "switches: $from, $how, $to: mode");
			is(scalar($log =~ /not left in order: the write-ahead log is replayed/),
				$from eq 'wal' && $how eq 'crash' ? 1 : '', "switches: $from, $how, $to: replayed");
			is(syncers(), $to eq 'wal' ? 1 : 0, "switches: $from, $how, $to: syncer");
		}
		# a second crash, in the other mode, before the next checkpoint
		change_and_restart('crash', 'zen.pool_mode = emulated', 'switches: once more');
		change_and_restart('crash', 'zen.pool_mode = wal', 'switches: and back');
	}
	return;
}

sub test_little
{
	change_and_restart('clean', "wal_level = minimal\nmax_wal_senders = 0\narchive_mode = off\nfsync = off", 'little');
	my $load = sub {
		my ($n) = @_;
		run_all($dbh, 'BEGIN', "CREATE TABLE z$n (id int PRIMARY KEY, v text) USING zen",
			"CREATE TABLE y$n USING heap AS SELECT g FROM generate_series(1, 1000) g",
			"INSERT INTO z$n SELECT g, repeat('z', 200) FROM generate_series(1, 20000) g", 'COMMIT',
			'BEGIN', "TRUNCATE z$n", "INSERT INTO z$n SELECT g, 'new' FROM generate_series(1, 700) g", 'COMMIT');
	};
	for my $how ('crash', 'clean', 'crash')
	{
		my $n = $version;
		$load->($n);
		my $sum = contents($dbh, "z$n");
		change_and_restart($how, '', "little, $how");
		same_by_index($dbh, "z$n", $sum, "little, $how: a table made and loaded in one transaction");
		is(value($dbh, "SELECT count(*) FROM y$n"), 1000, "little, $how: heap");
	}
	is(syncers(), 1, 'little: there is a syncer');
	change_and_restart('clean', "wal_level = replica\nmax_wal_senders = 10\nfsync = on", 'little no more');
	return;
}

sub test_workers
{
	my $expected = contents($dbh, 't');
	$dbh->disconnect;
	$node->stop;
	for my $n (0, 1)
	{
		set_conf($node, "max_worker_processes = $n");
		like(start_failing($node) // 'it has started', qr/zen.pool_mode = wal needs background workers.*HINT:/s,
			"workers: $n: refused");
	}
	# the launcher of logical replication has one of them, zen's worker the other
	set_conf($node, 'max_worker_processes = 2');
	my $from = log_size($node);
	$node->start;
	$dbh = connect_db($node);
	wait_ready();
	like(log_since($node, $from), qr/WARNING: .*syncer has not started.*HINT:.*max_worker_processes/s,
		'workers: 2: a WARNING tells that there is no syncer');
	is(contents($dbh, 't'), $expected, 'workers: 2: all rows are there');
	is(mode(), 'wal', 'workers: 2: mode');
	for my $how ('crash', 'clean', 'crash')
	{
		value($dbh, 'CHECKPOINT');
		change_and_restart($how, '', "workers: 2, $how");
		is(syncers(), 0, "workers: 2, $how: no syncer");
	}
	change_and_restart('crash', 'max_worker_processes = 3', 'workers: 3');
	is(syncers(), 1, 'workers: 3: there is a syncer');
	change_and_restart('crash', 'max_worker_processes = 2', 'workers: 2 after a crash');
	change_and_restart('clean', 'max_worker_processes = 8', 'workers: 8');
	is(syncers(), 1, 'workers: 8: there is a syncer');
	return;
}

# In single-user mode: what it prints.
sub single_user
{
	my (@statements) = @_;
	my $single = sprintf q{'%s' --single -D '%s' postgres}, $node->installed_command('postgres'), $node->data_dir;
	my ($in, $out) = (join('', map { "$_\n" } @statements), '');
	# after a crash a stranger may have the number of the server's process
	ZenTest::remove_lock_files($node);
	local %ENV = $node->_get_env();
	IPC::Run::run([ 'sh', '-c', $single ], '<', \$in, '>&', \$out) or die "single-user mode: $out";
	return $out;
}

sub test_single
{
	for my $how ('clean', 'crash')
	{
		my ($expected, $open) = change();
		if ($how eq 'clean')
		{
			$_->disconnect for $open, $dbh;
			$node->stop;
		}
		else
		{
			crash($node);
		}
		my $out = single_user('SELECT count(*) FROM t WHERE id > 0', 'CHECKPOINT', 'INSERT INTO h VALUES (-1)',
			'CREATE TABLE s (id int PRIMARY KEY) USING zen', 'INSERT INTO s SELECT generate_series(1, 5000)',
			'UPDATE s SET id = -id WHERE id < 100',
			# longer than the process's rounds of redo, which must have ended
			'SELECT pg_sleep(1.2)');
		like($out, qr/= "5300"/, "single, $how: rows");
		unlike($out, qr/ERROR|FATAL|PANIC|WARNING/, "single, $how: no error") or diag($out);
		start_again($node);
		$dbh = connect_db($node);
		is_there($expected, "single, $how");
		is(value($dbh, q{SELECT count(*) || ' ' || sum(id) FROM s}), '5000 ' . (12502500 - 2 * 4950),
			"single, $how: its own");
		value($dbh, 'DROP TABLE s');
	}
	return;
}
