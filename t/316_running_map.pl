# The map saved while the server runs: after a crash a start reads only pages that have
# changed since (R21).
#
# - Saves are made while sessions write, and between them: after a kill both ways lead to the same, that start and one
#   that reads all: rows, their addresses, space; and at the next stop the same map is saved, byte for byte: states of
#   all TIDs, stale counts, free slots.
# - Crashes, stops and starts follow each other, with a new save in between or none.
# - A file that is missing, damaged, or of another moment is not believed: the pool is scanned, and the log says why.
# - Killed while it saves: the save before counts.
# - zen.save_map_interval, zen.save_map, mode wal, and who may call zen_save_map().
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
use ZenTest;

use constant { HEADER => 4096 };

skip_unless_zen();
choose_seed();
my $node = new_node('running_map', pool_size => '256MB', dram_size => '256MB',
	conf => "max_worker_processes = 16\nzen.pool_mode = emulated\nzen.spill_threshold = 64kB\n"
	  . 'restart_after_crash = on');
my $dir = PostgreSQL::Test::Utils::tempdir();
my $map = $node->data_dir . '/pgsql_tmp_zen.map';
my $from = 0;    # where the log of the present run begins
my $dbh;
start();
value($dbh, 'CREATE EXTENSION zen');

make_tables();
test_same();
test_chain();
test_not_believed();
test_killed();
test_settings();
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

sub log_now { return log_since($node, $from); }

sub save { return value($dbh, 'SELECT zen_save_map()'); }

# loaded -- has this start read only what has changed?
sub loaded { return log_now() =~ /zen is ready: .*\(changes/ ? 'changes' : 'scan'; }

sub wait_ready
{
	wait_for('recovery', sub { value($dbh, q{SELECT state = 'ready' AND
		tables_to_reindex <= (SELECT 2 * count(*) FROM pg_prepared_xacts) FROM zen_recovery}) });
	return;
}

# After a kill all indexes are rebuilt, so the addresses and the map hang on the rows alone.  How many pages a table has
# hangs on what the worker has collected by now; VACUUM collects the rest.
sub whole
{
	wait_ready();
	value($dbh, "VACUUM $_") for qw(h s gone);
	return join "\n", map { value($dbh, $_) // '' } (
		(map { "SELECT count(*) || md5(string_agg(x.ctid || ' ' || x::text, '|' ORDER BY x.ctid)) FROM $_ x" }
			qw(h s gone)),
		q{SELECT string_agg(concat_ws(',', htable, pages_owned, nvm_bytes), '|' ORDER BY htable)
			FROM _zen_stat_tables()},
		q{SELECT pages_free || '/' || pages_total FROM zen_pool},
		q{SELECT rows || ' ' || damaged FROM zen_recovery},
		q{SELECT string_agg(gid, ' ' ORDER BY gid) FROM pg_prepared_xacts});
}

# map_sum -- of the map that a stop has saved, but for its header, which counts starts.
sub map_sum
{
	open(my $fh, '<:raw', $node->data_dir . '/zen.map') or return "no file: $!";
	sysseek($fh, HEADER, 0);
	return (-s $fh) . ' ' . Digest::MD5->new->addfile($fh)->hexdigest;
}

# --- a history --------------------------------------------------------------

sub make_tables
{
	run_all($dbh,
		'CREATE TABLE h (id int PRIMARY KEY, n int, v text) USING zen', 'CREATE INDEX ON h (n)',
		'CREATE TABLE s (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO h SELECT g, g % 100, repeat('h', 50 + g % 200) FROM generate_series(1, 40000) g},
		q{INSERT INTO s SELECT g, repeat('s', g % 900) FROM generate_series(1, 4000) g});
	return;
}

# Statements that leave versions, tombstones, free TIDs and slots, pages that come and go.
sub statements
{
	my $k = between(2, 60);
	my $to = between(100000, 1000000);
	return (
		"UPDATE h SET v = v || 'x' WHERE id % $k = 1 AND id < 20000",
		"UPDATE h SET n = n + 1 WHERE id BETWEEN $k * 300 AND $k * 300 + 400",
		"DELETE FROM h WHERE id % 97 = $k",
		"INSERT INTO h SELECT $to + g, 0, 'new' FROM generate_series(1, 500) g ON CONFLICT DO NOTHING",
		"UPDATE s SET v = v || '.' WHERE id % $k = 1",
		"DELETE FROM s WHERE id BETWEEN $k * 60 AND $k * 60 + 100",
		"INSERT INTO s SELECT g, repeat('b', g % 500) FROM generate_series(1, 4000) g ON CONFLICT DO NOTHING",
		"TRUNCATE gone",
		"INSERT INTO gone SELECT g, repeat('g', 100) FROM generate_series(1, $k * 100) g",
		"DELETE FROM gone",
		"BEGIN; UPDATE h SET v = 'undone' WHERE id % $k = 0; INSERT INTO gone SELECT g, 'undone'
			FROM generate_series(1, 20000) g; ROLLBACK",
		"BEGIN; UPDATE s SET v = 'kept' WHERE id % $k = 3; SAVEPOINT a; DELETE FROM s WHERE id % 3 = 0; "
		  . "ROLLBACK TO a; COMMIT",
		'VACUUM ' . pick('h', 's', 'gone'));
}

# One session writes while another one saves, as often as it can.
sub history_with_saves
{
	my ($round) = @_;
	run_all($dbh, 'DROP TABLE IF EXISTS gone', 'CREATE TABLE gone (id int, v text) USING zen');
	my @others = map { connect_db($node) } 1 .. 3;
	my $saves = 0;
	for (1 .. 6)
	{
		my @busy = map { start_statement($_, pick(statements())) } @others;
		$saves++ unless state_of($dbh, 'SELECT zen_save_map()');
		# one of them may be the victim of a deadlock
		finish_statement($_) for @busy;
		for (@others) { $_->do('ROLLBACK') if $_->ping >= 3; }
	}
	ok($saves > 0, "round $round: saved");
	# in doubt, spilled, and open when the server is killed; some of it from before the last save
	my $open = connect_db($node);
	value($open, $_) for 'BEGIN', 'UPDATE h SET n = -2 WHERE id BETWEEN 25000 AND 29000';
	value($others[0], $_) for 'BEGIN', 'DELETE FROM s WHERE id % 50 = 7',
	  "UPDATE h SET n = -3 WHERE id BETWEEN 30000 AND 30500", "PREPARE TRANSACTION 'p$round'";
	save() if one_in(2);
	value($dbh, $_) for "UPDATE h SET v = v || 'y' WHERE id BETWEEN $round * 200 AND $round * 200 + 99",
	  "DELETE FROM h WHERE id % 300 = $round AND id < 20000", "DELETE FROM s WHERE id = 50 * $round",
	  'UPDATE s SET v = 0 WHERE id = 70';
	$_->disconnect for @others;
	return $open;
}

# --- both ways --------------------------------------------------------------

sub both_ways
{
	my ($what) = @_;
	my (%state, %again);
	save_server($node, "$dir/history");
	for my $way ('scan', 'changes')
	{
		restore_server($node, "$dir/history");
		unlink $map or die "no map: $!" if $way eq 'scan';
		start();
		value($dbh, 'UPDATE s SET v = 1 WHERE id = 70') if inject() && $way eq 'scan';
		$state{$way} = whole();
		is(loaded(), $way, "$what: $way");
		is_deeply([ findings($dbh) ], [], "$what, $way: verified");
		$dbh->disconnect;
		$node->stop;
		$again{$way} = map_sum();
	}
	is($state{changes}, $state{scan}, "$what: both ways lead to the same");
	is($again{changes}, $again{scan}, "$what: and the same is saved at a stop");
	restore_server($node, "$dir/history");
	start();
	wait_ready();
	return;
}

sub test_same
{
	for my $round (1 .. 3)
	{
		my $open = history_with_saves($round);
		crash($node);
		both_ways("round $round");
		value($dbh, pick('COMMIT', 'ROLLBACK') . qq{ PREPARED 'p$round'});
		wait_ready();
	}
	return;
}

# --- one save, several crashes and stops ------------------------------------

sub test_chain
{
	save();
	for my $turn (1 .. 4)
	{
		value($dbh, $_) for "UPDATE h SET n = n + 1 WHERE id BETWEEN $turn * 1000 AND $turn * 1000 + 50",
		  "DELETE FROM s WHERE id = $turn", "INSERT INTO s VALUES (-$turn, 'new')";
		if ($turn == 2) { $dbh->disconnect; $node->stop; start(); wait_ready(); next; }
		crash($node);
		if ($turn == 3) { both_ways('chain'); next; }
		start();
		wait_ready();
		is(loaded(), 'changes', "chain: crash $turn");
	}
	# a process crashes, the postmaster lives
	value($dbh, 'UPDATE h SET n = 77 WHERE id = 501');
	kill 'KILL', value($dbh, 'SELECT pg_backend_pid()');
	wait_for('the restart', sub { log_now() =~ /zen is ready: .*zen is ready: .*\(changes/s });
	$dbh = connect_db($node);
	is(value($dbh, 'SELECT n FROM h WHERE id = 501'), 77, 'chain: a process crashes');
	is_deeply([ findings($dbh) ], [], 'chain: verified');
	return;
}

# --- files that are not believed --------------------------------------------

sub test_not_believed
{
	save();
	copy_tree($map, "$dir/old.map");
	value($dbh, 'UPDATE h SET n = 5 WHERE id < 300');
	save();
	value($dbh, 'UPDATE h SET n = 6 WHERE id < 200');
	crash($node);
	save_server($node, "$dir/good");
	my $file = "$dir/good/pgsql_tmp_zen.map";
	my $size = -s $file;
	start();
	my $expected = whole();
	is(loaded(), 'changes', 'a good file is loaded');
	my @cases = (
		[ 'no file', qr/there is none/, sub { unlink $map } ],
		[ 'of an earlier save', qr/another moment/, sub { copy_tree("$dir/old.map", $map) } ],
		[ 'empty', qr/not complete/, sub { truncate $map, 0 } ],
		[ 'cut short', qr/size is wrong/, sub { truncate $map, between(HEADER, $size - 1) } ],
		[ 'header damaged', qr/header|version/,
			sub { with_file($map, sub { flip_bit($_[0], between(0, 87), between(0, 7)) }) } ],
		[ 'words damaged', qr/damaged/,
			sub { with_file($map, sub { flip_bit($_[0], between(HEADER, HEADER + 200000), between(0, 7)) }) } ],
		[ 'tail damaged', qr/damaged/,
			sub { with_file($map, sub { flip_bit($_[0], between($size - 1000, $size - 1), between(0, 7)) }) } ]);
	for my $case (@cases)
	{
		my ($what, $why, $spoil) = @$case;
		$node->stop('immediate') if $node->{_pid};
		restore_server($node, "$dir/good");
		$spoil->();
		start();
		is(whole(), $expected, "$what: the same is found");
		is(loaded(), 'scan', "$what: not loaded");
		like(log_now(), qr/the map .*(?:cannot be used: .*$why|damaged)/, "$what: in the log");
		# from here on no map is in force, even if the file comes back
		value($dbh, 'UPDATE h SET n = 8 WHERE id = 150');
		crash($node);
		copy_tree($file, $map);
		start();
		is(value($dbh, 'SELECT n FROM h WHERE id = 150'), 8, "$what: the file comes back, too late");
		is(loaded(), 'scan', "$what: nor is it loaded then");
		is_deeply([ findings($dbh) ], [], "$what: verified");
	}
	return;
}

# --- kills ------------------------------------------------------------------

sub test_killed
{
	for my $try (1 .. 3)
	{
		save();
		value($dbh, "UPDATE h SET n = $try WHERE id BETWEEN 2000 AND 2999");
		my $other = connect_db($node);
		start_statement($other, 'SELECT zen_save_map()');
		value($dbh, "UPDATE h SET n = $try WHERE id BETWEEN 3000 AND 3999");
		crash($node);
		start();
		wait_ready();
		is(loaded(), 'changes', "killed while it saves, $try");
		is(value($dbh, "SELECT count(*) FROM h WHERE n = $try AND id BETWEEN 2000 AND 3999"),
			value($dbh, 'SELECT count(*) FROM h WHERE id BETWEEN 2000 AND 3999'), "killed while it saves, $try: rows");
		is_deeply([ findings($dbh) ], [], "killed while it saves, $try: verified");
	}
	return;
}

# --- settings ---------------------------------------------------------------

sub test_settings
{
	value($dbh, q{CREATE ROLE nobody LOGIN});
	value($dbh, 'SET ROLE nobody');
	is(state_of($dbh, 'SELECT zen_save_map()'), '42501', 'not for all roles');
	value($dbh, 'RESET ROLE');
	unlink $map;
	reload_conf($node, "zen.save_map_interval = 1s\n");
	value($dbh, 'UPDATE h SET n = 1 WHERE id < 20000');
	wait_for('a save', sub { -e $map });
	reload_conf($node, "zen.save_map = off\n");
	wait_for('the log to say why nothing is saved',
		sub { log_now() =~ /LOG:.* zen does not save its map while it runs: zen\.save_map is off/ });
	reload_conf($node, "zen.save_map_interval = 0\n");
	wait_for('the setting', sub { value($dbh, 'SHOW zen.save_map') eq 'off' });
	is(state_of($dbh, 'SELECT zen_save_map()'), '55000', 'zen.save_map = off: nothing is saved');
	crash($node);
	start();
	wait_ready();
	is(loaded(), 'scan', 'zen.save_map = off: nothing is loaded');
	set_conf($node, "zen.save_map = on\n");
	return;
}
