# The saved map: after an orderly stop a start loads what it would otherwise find by
# reading the whole pool.
#
# - Both ways lead to the same: rows, their addresses, space; and at the next stop the
#   map is saved again, byte for byte: states of all TIDs, stale counts, free slots.
# - Writes, crashes and restarts go on from there.
# - A file that is missing, cut short, damaged, or of another moment is not believed:
#   the pool is scanned, and the log says why.
# - Killed while it stops, while it saves, while it loads, just after: nothing is lost.
# - Without room for the file the server still stops in order.
#
# SEED=n replays a run; ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;

use Digest::MD5;
use FindBin;
use lib "$FindBin::RealBin/lib";

use PoolFile;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep);
use ZenTest;

use constant { HEADER => 4096, HTABLES => 2 * 1024 * 1024 };

skip_unless_zen();
choose_seed();
my $node = new_node('saved_map', pool_size => '256MB', dram_size => '256MB', conf => 'max_worker_processes = 16');
my $dir = PostgreSQL::Test::Utils::tempdir();
my $map = $node->data_dir . '/zen.map';
my $from = 0;    # where the log of the present run begins
my $dbh;
start();
value($dbh, 'CREATE EXTENSION zen');

test_same();
test_not_believed();
test_killed();
test_no_room();
test_setting();
value($dbh, q{COMMIT PREPARED 'p4'});
is_deeply([ findings($dbh) ], [], 'at the end');
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub start
{
	$from = log_size($node);
	start_again($node);
	$dbh = connect_db($node);
	return;
}

sub stop { $dbh->disconnect; $node->stop; return; }

sub log_now { return log_since($node, $from); }

sub loaded { return log_now() =~ /zen is ready: .*\(directories/; }

sub wait_ready
{
	# a table that a prepared transaction has made, and its toast table, wait for its end
	wait_for('recovery', sub { value($dbh, q{SELECT state = 'ready' AND
		tables_to_reindex <= (SELECT 2 * count(*) FROM pg_prepared_xacts) FROM zen_recovery}) });
	return;
}

# map_sum -- of all but the header, which counts starts.
sub map_sum
{
	open(my $fh, '<:raw', $map) or return "no file: $!";
	sysseek($fh, HEADER, 0);
	return (-s $fh) . ' ' . Digest::MD5->new->addfile($fh)->hexdigest;
}

# --- a history --------------------------------------------------------------

sub make_tables
{
	run_all($dbh,
		'CREATE TABLE h (id int PRIMARY KEY, n int, v text) USING zen', 'CREATE INDEX ON h (n)',
		'CREATE TABLE s (id int PRIMARY KEY, v text) USING zen',
		'CREATE TABLE empty (id int) USING zen',
		q{INSERT INTO h SELECT g, g % 100, repeat('h', 50 + g % 200) FROM generate_series(1, 60000) g},
		q{INSERT INTO s SELECT g, 's' || g FROM generate_series(1, 3000) g});
	return;
}

# One round of everything that leaves versions, tombstones, dead and free TIDs and free slots.
sub make_history
{
	my @others = map { connect_db($node) } 1 .. 4;
	my $old = connect_db($node);
	run_all($dbh, 'DROP TABLE IF EXISTS gone', 'CREATE TABLE gone (id int, v text) USING zen',
		q{INSERT INTO gone SELECT g, repeat('g', 100) FROM generate_series(1, 5000) g}, 'TRUNCATE gone',
		q{INSERT INTO gone SELECT g, repeat('G', 9000) FROM generate_series(1, 5) g});
	my @snapshot = one_in(2) ? ('BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM s') : ();
	value($old, $_) for @snapshot;
	# rows from 40000 on, and in s from 2750 on, are for prepared transactions
	for my $round (1 .. 6)
	{
		my $k = between(2, 60);
		my $to = between(100000, 1000000);
		value(pick(@others), $_) for (
			"UPDATE h SET v = v || 'x' WHERE id % $k = 1 AND id < 40000",
			"UPDATE h SET n = n + 1 WHERE id % $k = 2 AND id < 20000",
			"DELETE FROM h WHERE id % 97 = $k AND id < 40000",
			"INSERT INTO h SELECT g, 0, 'again' FROM generate_series(1, 3000) g "
				  . 'ON CONFLICT (id) DO UPDATE SET n = -h.n',
			"INSERT INTO h SELECT $to + g, 0, 'new' FROM generate_series(1, 500) g ON CONFLICT DO NOTHING",
			"UPDATE s SET v = v || '.' WHERE id % $k = 1 AND id < 2750",
			"DELETE FROM s WHERE id % 37 = $k % 37 AND id < 2750",
			"INSERT INTO s SELECT g, 'back' FROM generate_series(1, 2749) g ON CONFLICT DO NOTHING");
		my $other = pick(@others);
		value($other, $_) for 'BEGIN', "DELETE FROM h WHERE id % $k = 3 AND id < 40000",
			"INSERT INTO s VALUES (-$to, 'no')",
		  'SAVEPOINT a', "UPDATE s SET v = 'no' WHERE id < $k", pick('ROLLBACK', 'COMMIT', 'ROLLBACK TO a'), 'ROLLBACK';
		value($other, 'VACUUM ' . pick('h', 's')) if one_in(3);
		value($dbh, 'SELECT count(*) FROM h WHERE id < 3000');
	}
	# with an open transaction when the server stops
	value($others[0], $_) for 'BEGIN', 'UPDATE h SET n = -2 WHERE id < 500', 'DELETE FROM s WHERE id < 40';
	return ($old, @others);
}

sub prepare
{
	my ($round) = @_;
	my $h = "id BETWEEN @{[40000 + $round * 1000]} AND @{[40700 + $round * 1000]}";
	my $s = 2700 + 60 * $round;
	# Free slots with old headers of these rows, which the prepared transaction writes over.
	run_all($dbh, map { "UPDATE h SET v = left(v, -1) || $_ WHERE $h" } 1 .. 4);
	wait_for('old versions to go', sub { value($dbh, 'SELECT garbage_pending FROM zen_stat') == 0 }) if $round == 1;
	value($dbh, $_) for "UPDATE h SET v = v || 'p' WHERE $h", "UPDATE h SET n = n + 1 WHERE $h AND id % 3 = 0", 'BEGIN',
	  "UPDATE h SET v = v || 'q' WHERE $h", "UPDATE h SET n = n + 1 WHERE $h AND id % 5 = 0",
	  "DELETE FROM s WHERE id BETWEEN $s AND $s + 40", "INSERT INTO s VALUES (-$round, 'p')",
	  "SELECT count(*) FROM (SELECT 1 FROM s WHERE id BETWEEN $s + 45 AND $s + 55 FOR UPDATE) x",
	  "CREATE TABLE made$round USING zen AS SELECT * FROM s WHERE id < 100", "PREPARE TRANSACTION 'p$round'";
	return;
}

sub whole_state
{
	wait_ready();
	return join "\n", map { value($dbh, $_) // '' } (
		q{SELECT md5(string_agg(h.ctid || ' ' || h::text, '|' ORDER BY id)) FROM h},
		q{SELECT md5(string_agg(s.ctid || ' ' || s::text, '|' ORDER BY id)) FROM s},
		q{SELECT md5(string_agg(gone.ctid || ' ' || gone::text, '|' ORDER BY id)) FROM gone},
		q{SELECT string_agg(concat_ws(',', htable, database, tablespace, relfilenode, blocks, map_bytes, pages_owned,
			nvm_bytes, reindex), '|' ORDER BY htable) FROM _zen_stat_tables()},
		q{SELECT pages_free || '/' || pages_total FROM zen_pool},
		q{SELECT rows || ' ' || losers || ' ' || damaged || ' ' || repaired FROM zen_recovery},
		q{SELECT string_agg(gid, ' ' ORDER BY gid) FROM pg_prepared_xacts},
		q{SET enable_seqscan = off}, q{SELECT count(*) || ' ' || sum(n) FROM h WHERE id > 0},
		q{SELECT count(*) FROM h WHERE n >= -100000}, q{RESET enable_seqscan});
}

# --- both ways --------------------------------------------------------------

sub test_same
{
	make_tables();
	for my $round (1 .. 3)
	{
		prepare($round) if $round < 3;
		my @open = make_history();
		stop();
		like(log_now(), qr/zen has saved its map/, "round $round: saved");
		save_server($node, "$dir/history");
		my (%state, %again);
		for my $way ('map', 'scan')
		{
			restore_server($node, "$dir/history");
			unlink $map or die "no map: $!" if $way eq 'scan';
			start();
			value($dbh, 'UPDATE s SET v = 0 WHERE id = 70') if inject() && $way eq 'scan';
			$state{$way} = whole_state();
			ok(!-e $map, "round $round, $way: the file is gone");
			is(loaded() ? 'map' : 'scan', $way, "round $round: $way");
			is_deeply([ findings($dbh) ], [], "round $round, $way: verified");
			stop();
			$again{$way} = map_sum();
		}
		is($state{map}, $state{scan}, "round $round: both ways lead to the same");
		is($again{map}, $again{scan}, "round $round: and the same is saved again");

		# It goes on, with the addresses and slots that are free now.
		restore_server($node, "$dir/history");
		start();
		value($dbh, pick('COMMIT', 'ROLLBACK') . qq{ PREPARED 'p@{[$round - 1]}'}) if $round > 1;
		@open = make_history();
		my $before = contents($dbh, 'h') . contents($dbh, 's');
		crash($node);
		start();
		is(contents($dbh, 'h') . contents($dbh, 's'), $before, "round $round: after writes and a crash");
		is_deeply([ findings($dbh) ], [], "round $round: verified after the crash");
		wait_ready();
	}
	is(value($dbh, 'SELECT count(*) FROM pg_prepared_xacts'), 0, 'prepared transactions have ended');
	prepare(4);
	return;
}

# --- files that are not believed --------------------------------------------

sub test_not_believed
{
	stop();
	copy_tree($map, "$dir/old.map");
	start();
	whole_state();
	stop();
	save_server($node, "$dir/good");
	start();
	my $expected = whole_state();
	ok(loaded(), 'a good file is loaded');
	stop();
	my $size = -s "$dir/good/zen.map";
	my @cases = (
		[ 'no file', qr/there is none/, sub { unlink $map } ],
		[ 'of an earlier stop', qr/not of the last stop/, sub { copy_tree("$dir/old.map", $map) } ],
		[ 'empty', qr/not complete/, sub { truncate $map, 0 } ],
		[ 'cut short', qr/size is wrong/, sub { truncate $map, between(HEADER, $size - 1) } ],
		[ 'longer', qr/size is wrong/, sub { truncate $map, $size + between(1, 10000) } ],
		[ 'without its second half', qr/damaged/, sub { truncate $map, int($size / 2); truncate $map, $size } ],
		[ 'not finished', qr/not complete/, sub { with_file($map, sub { syswrite($_[0], "\0" x HEADER) }) } ],
		[ 'header damaged', qr/header|version|complete/,
			sub { with_file($map, sub { flip_bit($_[0], between(0, 103), between(0, 7)) }) } ],
		[ 'of another pool', qr/header/, sub { with_file($map, sub { flip_bit($_[0], 16, between(0, 7)) }) } ],
		[ 'words damaged', qr/damaged/,
			sub { with_file($map, sub { flip_bit($_[0], between(HEADER, HEADER + 400000), between(0, 7)) }) } ],
		[ 'tail damaged', qr/damaged/,
			sub { with_file($map, sub { flip_bit($_[0], between($size - 20000, $size - 1), between(0, 7)) }) } ],
		[ 'pool changed', qr/the pool has changed/,
			sub { with_file(pool_path($node),
			sub { flip_bit($_[0], HTABLES + 128 * between(1, 3) + between(0, 47), between(0, 7)) }) } ]);
	for my $case (@cases)
	{
		my ($what, $why, $spoil) = @$case;
		restore_server($node, "$dir/good");
		$spoil->();
		start();
		my $state = whole_state();
		my $wanted = $expected;
		s/^(\d+ \d+ \d+) \d+$/$1/m for $state, $wanted;    # repaired
		is($state, $wanted, "$what: the pool is scanned");
		ok(!loaded(), "$what: not loaded");
		like(log_now(), qr/the map saved at the last stop cannot be used: .*$why/, "$what: in the log");
		ok(!-e $map, "$what: the file is gone");
		stop();
	}
	# After a crash nobody looks at it.
	restore_server($node, "$dir/good");
	start();
	wait_ready();
	value($dbh, q{UPDATE s SET v = 'late' WHERE id = 100});
	crash($node);
	copy_tree("$dir/good/zen.map", $map);
	start();
	is(value($dbh, 'SELECT v FROM s WHERE id = 100'), 'late', 'after a crash');
	wait_ready();
	ok(!loaded() && !-e $map, 'after a crash the file is not used');
	is_deeply([ findings($dbh) ], [], 'after a crash: verified');
	# Nor after the next stop, whatever was saved then.
	value($dbh, q{UPDATE s SET v = 'later' WHERE id = 100});
	stop();
	copy_tree("$dir/good/zen.map", $map);
	start();
	is(value($dbh, 'SELECT v FROM s WHERE id = 100'), 'later', 'an old file after another stop');
	like(log_now(), qr/not of the last stop/, 'an old file after another stop: in the log');
	return;
}

# --- kills ------------------------------------------------------------------

# stop_and_kill -- begin an orderly stop, and kill the server when $when says so.
sub stop_and_kill
{
	my ($when) = @_;
	my $postmaster = ZenTest::postmaster_pid($node);
	$dbh->disconnect;
	kill 'INT', $postmaster;
	wait_for('the moment to kill', sub { ZenTest::is_gone($postmaster) || $when->() });
	kill 'STOP', $postmaster;
	my @pids = (ZenTest::descendants($postmaster), $postmaster);
	kill 'KILL', @pids;
	$node->kill9;
	wait_for('killed processes to go', sub { !grep { !ZenTest::is_gone($_) } @pids });
	ZenTest::remove_lock_files($node);
	return;
}

sub test_killed
{
	run_all($dbh, 'CREATE TABLE big (id int) USING zen',
		map { "INSERT INTO big SELECT generate_series($_ * 100000 + 1, ($_ + 1) * 100000)" } 0 .. 4);
	my %seen = (map => 0, scan => 0);
	my $wrong = 0;
	for my $i (1 .. 16)
	{
		my $id = between(1, 900);
		value($dbh, "UPDATE s SET v = v || '$i' WHERE id % 7 = $i % 7 AND id < 2750");
		value($dbh, "DELETE FROM s WHERE id = $id");
		my $expected = contents($dbh, 's') . contents($dbh, 'h');
		my $part = rand(6e6);
		my $delay = rand(0.3);
		stop_and_kill($i % 2 ? sub { -e $map && -s $map >= $part } : sub { sleep $delay; 1 });
		start_and_crash($node, rand 0.3) if $i % 3 == 0;
		start();
		wait_ready();
		$seen{ loaded() ? 'map' : 'scan' }++;
		$wrong++ if contents($dbh, 's') . contents($dbh, 'h') ne $expected
			|| value($dbh, 'SELECT count(*) FROM big') != 500000;
	}
	is($wrong, 0, 'killed while it stops');
	cmp_ok($seen{scan}, '>', 0, 'the map was not always complete');
	$wrong = 0;
	for my $i (1 .. 10)
	{
		value($dbh, "UPDATE s SET v = v || '$i' WHERE id % 7 = $i % 7 AND id < 2750");
		my $expected = contents($dbh, 's') . contents($dbh, 'h');
		stop();
		start_and_crash($node, $i % 2 ? rand 0.05 : rand 0.3);
		start();
		$wrong++ if contents($dbh, 's') . contents($dbh, 'h') ne $expected
			|| value($dbh, 'SELECT count(*) FROM big') != 500000;
		wait_ready();
		$wrong++ if findings($dbh);
	}
	is($wrong, 0, 'killed while it loads, or just after');
	return;
}

# --- no room, and the setting -----------------------------------------------

sub test_no_room
{
	my $expected = contents($dbh, 's');
	my $postmaster = ZenTest::postmaster_pid($node);
	$dbh->disconnect;
	# its own files only: those of its children have no limit
	my $limit = log_size($node) + 1000000;
	system('prlimit', "--fsize=$limit", '--pid', $postmaster) == 0 or die 'no prlimit';
	$node->stop;
	like(log_now(), qr/zen has not saved its map: File too large/, 'no room: in the log');
	ok(!-e $map, 'no room: no file');
	start();
	is(contents($dbh, 's'), $expected, 'no room: the server has stopped in order');
	is(value($dbh, 'SELECT after_crash FROM zen_recovery'), 0, 'no room: zen says so');
	return;
}

sub test_setting
{
	$node->append_conf('postgresql.conf', 'zen.save_map = off');
	$node->reload;
	wait_for('the setting', sub { value(connect_db($node), 'SHOW zen.save_map') eq 'off' });
	stop();
	ok(!-e $map, 'zen.save_map = off: nothing is saved');
	$node->append_conf('postgresql.conf', 'zen.save_map = on');
	start();
	stop();
	$node->append_conf('postgresql.conf', 'zen.save_map = off');
	start();
	wait_ready();
	ok(!loaded() && !-e $map, 'zen.save_map = off: nothing is loaded');
	unlike(log_now(), qr/cannot be used/, 'zen.save_map = off: nothing is to be told');
	return;
}
