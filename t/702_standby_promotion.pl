# A hot standby that reads zen tables (zen.standby_reads) is promoted, and keeps its maps (S18).
#
# The primary is at work: a load that changes twins of zen and heap, prepared transactions, one that has spilled rows
# and has not ended, one that has rolled back in part.  The promoted server is compared by its twins, verified, killed
# and started again, which reads the whole pool, and stopped and started.  A standby that has followed it goes on with
# it to its new timeline, and is the one that is promoted next.
#
# ROUNDS=n promotions (default 2), LOAD_S=n seconds of load before each (default 4).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PoolFile;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep);
use Twins;
use ZenTest;

my $rounds = $ENV{ROUNDS} || 2;
my $load_s = $ENV{LOAD_S} || 4;

skip_unless_zen();
choose_seed();

my $primary = twin_primary(pool_size => '64MB', dram_size => '96MB',
	conf => "zen.pool_max_size = 256MB
max_prepared_transactions = 20
zen.deltas = on
log_min_messages = debug1
");
$primary->start;
my $dbh = connect_db($primary);
create_twins($dbh);
# pages of their own; of small tables they are shared
run_all($dbh, both(q{INSERT INTO AM_account SELECT g, 0, repeat('b', g % 100) FROM generate_series(10001, 40000) g},
		q{INSERT INTO AM_item SELECT g, g, repeat('c', g % 100) FROM generate_series(10001, 30000) g},
		q{INSERT INTO AM_account SELECT g, 0, repeat('w', 900) FROM generate_series(40001, 40400) g}));
# trees that a promotion keeps: with a key, without, of rows that get other keys, of some rows
run_all($dbh, 'CREATE INDEX account_tree ON zen_account USING zentree (id)',
	'CREATE INDEX item_tree ON zen_item USING zentree (id, v)', 'CREATE INDEX word_tree ON zen_item USING zentree (w)',
	'CREATE INDEX some_tree ON zen_account USING zentree (balance) WHERE balance > 1000',
	'CREATE INDEX long_tree ON zen_note USING zentree (left(body, 9))',
	'CREATE TABLE zen_read (id int, v int) USING zen', 'CREATE INDEX read_tree ON zen_read USING zentree (id)',
	'INSERT INTO zen_read SELECT g, g FROM generate_series(1, 3000) g');
my $standby = follower('standby0');

test_round($_) for 1 .. $rounds;
test_restarted();
test_trees($_) for 'read late', 'read early';
$primary->backup('last');
test_killed_at_once($_) for 0, 0.05, 0.2;
test_damaged();
test_dropped();
deleted(follower("save_map_$_", undef, 'last'), $_) for qw(on off);
done_testing();

# follower -- a new standby of the primary, or of a standby of that; from a new base backup, or from one.
sub follower
{
	my ($name, $upstream, $backup) = @_;
	$primary->backup($name) if !$backup;
	my $node = twin_standby($primary, $name, $backup // $name);
	set_conf($node, "primary_conninfo = '" . $upstream->connstr . " application_name=$name'") if $upstream;
	$node->start;
	caught_up($node);
	my $db = connect_db($node);
	are_twins($db, "$name reads");
	$db->disconnect;
	return $node;
}

sub caught_up
{
	my ($node) = @_;
	my $lsn = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	value($dbh, 'SELECT pg_current_wal_lsn()');    # flushes
	my $there = connect_db($node);
	wait_for('replay', sub { value($there, "SELECT pg_last_wal_replay_lsn() >= '$lsn'") });
	$there->disconnect;
	return;
}

# prepared_rows -- the first of the rows that a prepared transaction changes; it deletes others each time.
my $nprepared = 0;
sub prepared_rows { return $_[0] eq 'kept' ? 30000 : 33000; }
sub deleted_row { return prepared_rows($_[0]) + 600 + 30 * $nprepared; }

# at_work -- transactions that have not ended; returns their connections.
sub at_work
{
	$nprepared++;
	# versions that hold only what changed; a transaction that spills writes whole ones
	for (my $id = 40001; $id < 40400; $id += 20)
	{
		run_all($dbh, 'BEGIN', both("UPDATE AM_account SET balance = balance + 1 WHERE id BETWEEN $id AND $id + 10"),
			'COMMIT');
	}
	my @open = map { connect_db($primary) } 1 .. 3;
	run_all($open[0], 'BEGIN', both(
			q{INSERT INTO AM_item SELECT g, g, repeat('s', 300) FROM generate_series(1, 3000) g},
			q{UPDATE AM_account SET balance = balance + 7 WHERE id BETWEEN 15000 AND 18000}));
	run_all($open[1], 'BEGIN',
		both(q{UPDATE AM_account SET filler = repeat('t', 300) WHERE id BETWEEN 20000 AND 22000}),
		'SAVEPOINT s', both(q{DELETE FROM AM_account WHERE id BETWEEN 23000 AND 25000}), 'ROLLBACK TO s',
		both('DELETE FROM AM_item WHERE id BETWEEN 11000 AND 12000'));
	for my $gid ('kept', 'undone')
	{
		my ($from, $deleted) = (prepared_rows($gid), deleted_row($gid));
		run_all($open[2], 'BEGIN', both(
				"UPDATE AM_account SET balance = balance + 1 WHERE id BETWEEN $from AND $from + 500",
				"DELETE FROM AM_account WHERE id BETWEEN $deleted AND $deleted + 20",
				"INSERT INTO AM_item SELECT $from + g, g, 'prepared' FROM generate_series(1, 400) g",
				"SELECT count(*) FROM (SELECT 1 FROM AM_account WHERE id = 14000 + $from / 1000 FOR UPDATE) s"),
			"PREPARE TRANSACTION '$gid'");
	}
	return @open;
}

# reads_some -- the server has kept the maps, and says how many pages it has read; behind a place in its log.  The more
# the load has not ended, the more these are: half of all behind a slow one.
sub reads_some
{
	my ($node, $offset, $name) = @_;
	my ($read, $owned) = log_since($node, $offset) =~ /keeps the maps of the standby, and reads (\d+) of (\d+) pages/;
	return cmp_ok($read // 'all', '<', ($owned // 0) * 0.8, "$name: reads $read of $owned pages");
}

# read_trees -- trees stand in for all indexes of zentree, and have what is there now.
sub read_trees
{
	my ($node) = @_;
	my $there = connect_db($node);
	run_all($there, 'SET enable_seqscan = off', 'SET enable_bitmapscan = off',
		'SELECT id FROM zen_account ORDER BY id', 'SELECT id, v FROM zen_item ORDER BY id, v',
		'SELECT w FROM zen_item ORDER BY w', 'SELECT balance FROM zen_account WHERE balance > 1000 ORDER BY balance',
		'SELECT left(body, 9) FROM zen_note ORDER BY left(body, 9)', 'SELECT id FROM zen_read ORDER BY id');
	$there->disconnect;
	return;
}

# keeps_trees -- of tables that no prepared transaction has changed they are the indexes'; that of zen_read is.
sub keeps_trees
{
	my ($db, $node, $offset, $least) = @_;
	wait_recovered($db);
	wait_for('what is left of trees to go',
		sub { value($db, 'SELECT trees = 0 AND tree_bytes = 0 FROM zen_stat_standby') });
	my $kept = () = log_since($node, $offset) =~ /index "\w+" keeps the tree/g;
	return cmp_ok($kept, '>=', $least, "... trees are kept ($kept)");
}

# same_by_trees -- one test: zen tables have the keys of their twins, by their indexes of zentree.
sub same_by_trees
{
	my ($db, $name) = @_;
	run_all($db, 'SET enable_seqscan = off', 'SET enable_bitmapscan = off');
	my @differ = grep {
		my ($keys, $from, $order) = @$_;
		my @sums = map { value($db, "SELECT md5(string_agg(($keys)::text, ',')) FROM (SELECT $keys FROM ${_}_$from "
				  . "ORDER BY $order) t") } qw(heap zen);
		$sums[0] ne $sums[1];
	  } ([ 'id', 'account', 'id' ], [ 'id, v', 'item', 'id, v' ], [ 'w', 'item', 'w' ],
		[ 'balance', 'account WHERE balance > 1000', 'balance' ]);
	run_all($db, 'RESET enable_seqscan', 'RESET enable_bitmapscan');
	return is_deeply(\@differ, [], $name);
}

sub balances { return value($_[0], 'SELECT sum(balance) FROM zen_account WHERE id <= 1000'); }

sub test_round
{
	my ($round) = @_;
	# it has never more of the log than the one that is promoted
	my $other = follower("standby$round", $standby);
	my $heap = connect_db($standby);
	my @open = at_work();
	my $load = start_load($primary, $load_s + 20);
	read_trees($standby);
	sleep $load_s;
	# not one is lost for what it was told
	read_trees($standby);
	run_all($heap, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $sum = value($heap, 'SELECT sum(balance) FROM heap_account');
	my $offset = log_size($standby);
	$standby->promote;
	crash($primary);
	eval { $load->kill_kill; $load->finish };
	my $name = "promotion $round";
	$dbh = connect_db($standby);
	wait_for('the end of recovery', sub { !value($dbh, 'SELECT pg_is_in_recovery()') });
	are_twins($dbh, $name);
	reads_some($standby, $offset, $name);
	keeps_trees($dbh, $standby, $offset, 1);
	is(balances($dbh), 1000 * 1000, '... the sum of balances');
	is(value($heap, 'SELECT sum(balance) FROM heap_account'), $sum, '... a reader of heap goes on');
	is(state_of($heap, 'SELECT count(*) FROM zen_account'), '40001', '... and has no snapshot for zen');
	$heap->disconnect;
	end_prepared($dbh);
	are_twins($dbh, '... prepared transactions have ended');
	is_sound($dbh, '... and');
	change_all($dbh);
	are_twins($dbh, '... and what changes then');
	($primary, $standby) = ($standby, $other);
	follow($standby, $round % 2 == 0);
	test_crash($name);
	return;
}

# Locks and rows of prepared transactions are there, and each of them ends.
sub end_prepared
{
	my ($db) = @_;
	my %ends = (kept => 'COMMIT', undone => 'ROLLBACK');
	for my $gid (map { $_->[0] } @{ run_sql($db, 'SELECT gid FROM pg_prepared_xacts ORDER BY gid')->{rows} })
	{
		if ($ends{$gid})
		{
			my $from = prepared_rows($gid);
			is(state_of($db, "SELECT 1 FROM zen_account WHERE id = $_ FOR UPDATE NOWAIT"), '55P03',
				"... $gid has locked row $_")
			  for $from, deleted_row($gid), 14000 + $from / 1000;
		}
		run_all($db, ($ends{$gid} // pick('COMMIT', 'ROLLBACK')) . " PREPARED '$gid'");
	}
	return;
}

# Slots, pages and TIDs that were free are taken, and those of deleted rows become free.
sub change_all
{
	my ($db) = @_;
	run_all($db, both('DELETE FROM AM_item WHERE id % 3 = 0',
			'UPDATE AM_account SET balance = balance + 1 WHERE id > 1000',
			"INSERT INTO AM_item SELECT 50000 + g, g, 'new' FROM generate_series(1, 5000) g"));
	run_all($db, both('VACUUM AM_item', 'VACUUM AM_account',
			"INSERT INTO AM_item SELECT 60000 + g, g, 'again' FROM generate_series(1, 5000) g"));
	return;
}

# follow -- a standby of the promoted server goes on with it, on its timeline, also when it was stopped meanwhile.
sub follow
{
	my ($node, $restarts) = @_;
	$node->restart if $restarts;
	caught_up($node);
	my $db = connect_db($node);
	are_twins($db, '... another standby follows' . ($restarts ? ', which was restarted' : ''));
	is_sound($db, '...');
	$db->disconnect;
	return;
}

# The primary is killed while it works.  Its recovery reads the pool, and finds the same.
sub test_crash
{
	my ($name) = @_;
	my $load = start_load($primary, 20);
	sleep 1;
	crash($primary);
	eval { $load->kill_kill; $load->finish };
	start_again($primary);
	$dbh = connect_db($primary);
	wait_recovered($dbh);
	end_prepared($dbh);
	are_twins($dbh, "$name, killed later");
	is(balances($dbh), 1000 * 1000, '... the sum of balances');
	is_sound($dbh, '...');
	caught_up($standby);
	my $db = connect_db($standby);
	are_twins($db, '... and the standby');
	$db->disconnect;
	return;
}

# A standby that was stopped and started, and has the maps by another scan.
sub test_restarted
{
	my @open = at_work();
	$standby->restart;
	my $on_standby = connect_db($standby);
	are_twins($on_standby, 'a standby that was restarted');
	run_all($open[1], 'ROLLBACK TO s', both('UPDATE AM_item SET v = v + 1'), 'COMMIT');
	caught_up($standby);
	are_twins($on_standby, '... which follows');
	$on_standby->disconnect;
	my $offset = log_size($standby);
	my $promoted = promoted($standby);
	reads_some($standby, $offset, '... is promoted');
	are_twins($promoted, '... and has all');
	is_sound($promoted, '...');
	$promoted = clean_restart($standby, $promoted);
	are_twins($promoted, '... and so behind an orderly stop');
	end_prepared($promoted);
	change_all($promoted);
	are_twins($promoted, '... and more changes');
	is_sound($promoted, '...');
	$promoted = crash_restart($standby);
	wait_recovered($promoted);
	are_twins($promoted, '... and a kill');
	is_sound($promoted, '...');
	$_->disconnect for @open, $promoted;
	$standby->stop;
	run_all($dbh, "ROLLBACK PREPARED '$_'") for qw(kept undone);
	return;
}

# Without prepared transactions all trees are kept: brought up to date by readers, or by the promotion.  Rows were
# inserted, deleted and given other keys meanwhile, TIDs were used again, and transactions have not ended.
sub test_trees
{
	my ($how) = @_;
	my $node = follower($how =~ s/ /_/r);
	# so that none is lost for the rows that it is told of
	run_all($dbh, both(q{INSERT INTO AM_item SELECT g, g, repeat('k', g % 100)
		FROM generate_series(100001, 160000) g}));
	caught_up($node);
	read_trees($node);
	my $open = connect_db($primary);
	run_all($open, 'BEGIN', both(q{INSERT INTO AM_item SELECT g, g, repeat('s', 300) FROM generate_series(1, 3000) g}));
	ok(start_load($primary, $load_s)->finish, "$how: a load");
	run_all($dbh, both('DELETE FROM AM_item WHERE id % 300 = 7', 'VACUUM AM_item',
			q{INSERT INTO AM_item SELECT g, -g, 'again' FROM generate_series(200001, 200500) g},
			'UPDATE AM_account SET id = id + 500000 WHERE id % 50 = 3'));
	caught_up($node);
	read_trees($node) if $how eq 'read late';
	my $offset = log_size($node);
	my $promoted = promoted($node);
	keeps_trees($promoted, $node, $offset, 6);
	same_by_trees($promoted, '... they have all keys');
	are_twins($promoted, '... and the tables all rows');
	is_sound($promoted, '...');
	change_all($promoted);
	same_by_trees($promoted, '... also of what changes then');
	is_sound($promoted, '...');
	$_->disconnect for $open, $promoted;
	$node->stop;
	return;
}

# The server is killed while zen recovers, or a moment later, with nothing done.
sub test_killed_at_once
{
	my ($delay) = @_;
	my $node = follower("killed$delay" =~ s/\.//r, undef, 'last');
	my @open = at_work();
	caught_up($node);
	$node->promote;
	sleep $delay;
	crash($node);
	start_again($node);
	my $promoted = wait_promoted($node);
	are_twins($promoted, "killed $delay s behind the promotion");
	end_prepared($promoted);
	are_twins($promoted, '... prepared transactions have ended');
	is_sound($promoted, '...');
	$_->disconnect for @open, $promoted;
	$node->stop;
	run_all($dbh, "ROLLBACK PREPARED '$_'") for qw(kept undone);
	return;
}

# A bit has flipped in a standby's pool: of a row that the standby takes for one of no table, and of one that it cannot
# read.  The promotion reads their pages, and sets both right.
sub test_damaged
{
	my $node = follower('damaged', undef, 'last');
	my $there = connect_db($node);
	my $htable = value($there, q{SELECT htable FROM _zen_stat_tables() JOIN pg_class USING (relfilenode)
		WHERE relname = 'zen_account'});
	my ($none, $damaged) = map { value($there, "SELECT ctid FROM zen_account WHERE id = $_") } 26001, 28001;
	$there->disconnect;
	$node->stop;
	with_file($node->data_dir . '/zen.pool', sub {
			my ($fh) = @_;
			my %slot = map { $_->{tid} => $_->{offset} } slots_of($fh, $htable);    # the newest is the last
			flip_bit($fh, $slot{ PoolFile::row_of($none) } + 8, 62);       # of the table's number
			flip_bit($fh, $slot{ PoolFile::row_of($damaged) } + 8, 15); });    # of the version code
	$node->start;
	$there = connect_db($node);
	is(value($there, "SELECT count(*) FROM zen_account WHERE ctid = '$none'"), 0, 'a bit of a row has flipped');
	is(state_of($there, 'SELECT sum(balance) FROM zen_account'), 'XX001', '... and of another one');
	# a tree that lacks the latter
	run_all($there, 'SET enable_seqscan = off');
	is(value($there, 'SELECT count(*) FROM zen_account WHERE id = 28001'), 0, '... which no index has');
	$there->disconnect;
	my $offset = log_size($node);
	my $promoted = promoted($node);
	reads_some($node, $offset, '... promoted');
	are_twins($promoted, '... all rows are there');
	same_by_trees($promoted, '... also by trees');
	is_sound($promoted, '...');
	$promoted->disconnect;
	$node->stop;
	return;
}

# Replay ends with the commit record of a DROP, before the table's entry is free.  A new table takes its place.
sub test_dropped
{
	run_all($dbh, q{CREATE TABLE zen_gone USING zen
		AS SELECT g AS id, repeat('g', 300) FROM generate_series(1, 3000) g});
	my $node = follower('dropped', undef, 'last');
	run_all($dbh, 'BEGIN');
	my $xid = value($dbh, 'SELECT pg_current_xact_id()');
	set_conf($node, "recovery_target_xid = $xid\nrecovery_target_action = pause");
	$node->restart;
	my $there = connect_db($node);
	is(value($there, 'SELECT count(*) FROM zen_gone'), 3000, 'a table before it is dropped');
	run_all($dbh, 'DROP TABLE zen_gone', 'COMMIT', 'UPDATE heap_account SET balance = balance WHERE id = 1');
	wait_for('the end of replay', sub { value($there, 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' });
	my $offset = log_size($node);
	value($there, 'SELECT pg_wal_replay_resume()');
	$there->disconnect;
	my $promoted = wait_promoted($node);
	reads_some($node, $offset, '... promoted');
	run_all($promoted, 'CREATE TABLE zen_new (id int) USING zen');
	is(value($promoted, 'SELECT count(*) FROM zen_new'), 0, '... a new table has no rows');
	run_all($promoted, 'INSERT INTO zen_new SELECT generate_series(1, 3000)');
	is(value($promoted, 'SELECT count(*) FROM zen_new'), 3000, '... but its own');
	are_twins($promoted, '... and the others have theirs');
	is_sound($promoted, '...');
	$promoted->disconnect;
	$node->stop;
	return;
}

sub owned { return value($_[0], q{SELECT sum(pages_owned) FROM zen_stat_tables WHERE relname ~ 'account|item'}); }

# deleted -- the pages that tables have before and after all rows of a promoted server are deleted.
sub deleted
{
	my ($node, $save_map) = @_;
	set_conf($node, "zen.save_map = $save_map");
	$node->reload;
	my $offset = log_size($node);
	my $promoted = promoted($node);
	my $kept = log_since($node, $offset) =~ /keeps the maps/ ? 'on' : 'off';
	is($kept, $save_map, "zen.save_map = $save_map, and the maps");
	are_twins($promoted, '... nothing is missing');
	my $before = owned($promoted);
	run_all($promoted, both('DELETE FROM AM_account', 'DELETE FROM AM_item', 'VACUUM AM_account', 'VACUUM AM_item'));
	# those of rows, each of whose slots must be known to be free; tombstones keep theirs, with all maps as without
	wait_for('pages to be given back', sub { owned($promoted) < $before * 2 / 3 });
	my $rows = run_sql($promoted, 'SELECT count(*) FROM zen_account, zen_item')->{rows}[0][0];
	is($rows, 0, '... all rows go, and their pages');
	$promoted = crash_restart($node);
	wait_recovered($promoted);
	is(value($promoted, 'SELECT count(*) FROM zen_account'), 0, '... also behind a kill');
	$promoted->disconnect;
	$node->stop;
	return;
}
