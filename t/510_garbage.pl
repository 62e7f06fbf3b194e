# What is no longer seen goes, in bounded time, whoever left it; and if it cannot go, the
# server log says who keeps it.
#
# - what idle sessions have left, and pages that have become empty, are the worker's
# - pages of writers that the server had before a restart come back, too, when they are empty
# - room that one session's rows have left is used by others before they take pages
# - rows that come and go leave nothing in DRAM
# - an old snapshot, a prepared transaction, a replication slot keep garbage: each is named in
#   zen_stat_garbage and once in the log, and sees what it must see
# - a logical slot that nobody reads keeps nothing; a snapshot in another database keeps what it sees
# - who finds the pool full of such garbage waits for it, up to zen.full_timeout
# - versions of large updates stay while others look at them
# - what such a snapshot keeps takes little DRAM, however large the rows are
# - no transaction id stays in DRAM (in a build for tests, where sweeps can be frequent): neither that of a locker
#   whose row has moved away, nor that of a version whose region a prepared transaction keeps

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg qw(:async);
use POSIX ();
use Test::More;
use Time::HiRes ();
use ZenTest;

skip_unless_zen();
my ($node, $dbh);
# the server log names whoever keeps garbage at any level
open_server('garbage', init => { allows_streaming => 1 },
	conf => "wal_level = logical\nzen.warning_level = 1\nzen.allow_copies_without_rows = on");
test_idle();
test_pace();
test_pages();
test_churn();
test_room_elsewhere();
test_process();
test_prepared();
test_slot();
test_unread_slot();
test_one_row();
test_large_update();
is_sound($dbh, 'at the end');
test_fewer_writers();
$node->stop;
SKIP:
{
	skip 'no server with zen.freeze_age', 1 if !$ENV{ZEN_FAULT_SERVER};
	open_server('sweeps', faults => 1);
	test_moved_locker();
	test_kept_region();
	test_one_row();
	test_large_update();
	is_sound($dbh, 'after sweeps');
	$node->stop;
}
test_low_pool();
test_low_dram();
done_testing();

# --- tools ------------------------------------------------------------------

sub open_server
{
	my ($name, %opt) = @_;
	$node = new_node($name, %opt);
	$node->start;
	$dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, k int, v text) USING zen',
		'CREATE INDEX ON t (k)', 'CREATE TABLE other (id int) USING zen',
		q{INSERT INTO t SELECT g, g, repeat('x', 100) FROM generate_series(1, 2000) g});
	return;
}

sub garbage { return value($dbh, "SELECT $_[0] FROM zen_stat_garbage"); }

sub versions { return value($dbh, "SELECT $_[0] FROM _zen_table_versions('t')"); }

sub update_all { return value($dbh, q{UPDATE t SET v = v || 'y'}); }

sub wait_until_clean
{
	wait_for('garbage to be collected', sub { garbage('pending') == 0 });
	is(versions('unfrozen + superseded'), 0, "$_[0]: everything is collected and frozen");
	return;
}

# The log names a holder, once.
sub is_warned
{
	my ($offset, $pattern, $name) = @_;
	wait_for("the warning about $name", sub { log_since($node, $offset) =~ $pattern });
	pass("$name is named in the log");
	return;
}

sub burn_xids { value($dbh, 'SELECT txid_current()') for 1 .. $_[0]; return; }

# --- what is left behind ----------------------------------------------------

# Nobody else is there when the last commit has been made.
sub test_idle
{
	update_all() for 1 .. 3;
	wait_until_clean('idle');
	is(garbage('bytes'), 0, 'idle: no bytes are left');
	is(garbage('oldest'), undef, 'idle: nobody waits');
	return;
}

# A busy server has some rounds of the worker a second, not one for each commit.
sub test_pace
{
	my ($pid) = map { $_->[0] } @{
		run_sql($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'zen worker'})->{rows} };
	my $naps = sub {
		open my $fh, '<', "/proc/$pid/status" or die "no process $pid: $!";
		my ($n) = map { /^voluntary_ctxt_switches:\s+(\d+)/ ? $1 : () } <$fh>;
		return $n;
	};
	value($dbh, $_) for 'CREATE TABLE pace (id int, v int) USING zen', 'INSERT INTO pace VALUES (1, 0)';
	my $before = $naps->();
	my $began  = Time::HiRes::time();
	my $n      = 0;
	while (Time::HiRes::time() < $began + 4 || $n < 1000) { value($dbh, 'UPDATE pace SET v = v + 1'); $n++; }
	my $seconds = Time::HiRes::time() - $began;
	cmp_ok($naps->() - $before, '<', 10 + 10 * $seconds, "pace: rounds of the worker during $n commits");
	value($dbh, 'DROP TABLE pace');
	return;
}

# Of a row that one transaction has changed again and again the commit queues the newest version, under each TID that it
# has had, and that one takes the others along.
sub test_one_row
{
	wait_until_clean('before one row');
	my $reader = connect_db($node);
	value($reader, $_) for 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1';
	for my $end ('COMMIT', q{PREPARE TRANSACTION 'one'; COMMIT PREPARED 'one'})
	{
		my $pending = garbage('pending');
		value($dbh, 'BEGIN');
		value($dbh, q{DO $$ BEGIN FOR i IN 1 .. 3000 LOOP UPDATE t SET v = 'v' || i WHERE id = 7; END LOOP; END $$});
		value($dbh, 'SAVEPOINT a');
		value($dbh, q{UPDATE t SET v = 'rolled back' WHERE id = 7});
		value($dbh, 'ROLLBACK TO a');
		value($dbh, $_) for split /; /, $end;
		cmp_ok(garbage('pending') - $pending, '<', 20, "one row, $end: few items");
		is(value($dbh, 'SELECT v FROM t WHERE id = 7'), 'v3000', "one row, $end: its value");
		is(value($reader, 'SELECT length(v) > 10 FROM t WHERE id = 7'), 1,
			"one row, $end: an old snapshot sees the old one")
		  if $end eq 'COMMIT';
	}
	cmp_ok(versions('superseded'), '>', 5900, 'one row: versions are kept for the snapshot');
	value($reader, 'COMMIT');
	$reader->disconnect;
	wait_until_clean('one row');
	is_sound($dbh, 'one row');
	return;
}

sub test_pages
{
	my $free = value($dbh, 'SELECT pages_free FROM zen_stat');
	value($dbh, q{CREATE TABLE wide (id int, v text) USING zen});
	value($dbh, q{INSERT INTO wide SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 20000) g});
	my $used = $free - value($dbh, 'SELECT pages_free FROM zen_stat');
	cmp_ok($used, '>', 200, 'pages: a table takes its pages');
	value($dbh, 'DELETE FROM wide');
	wait_for('pages to come back', sub { $free - value($dbh, 'SELECT pages_free FROM zen_stat') < $used / 10 });
	pass('pages: the worker gives those of deleted rows back, without VACUUM');
	value($dbh, 'DROP TABLE wide');
	return;
}

# Rows that come and go leave nothing in DRAM, though the Met-Cache has room for all: its CLOCK drops their items.
sub test_churn
{
	my $rows = 10_000;
	my @used;
	value($dbh, 'CREATE TABLE queue (id int PRIMARY KEY) USING zen');
	for my $round (1 .. 60)
	{
		value($dbh, "INSERT INTO queue SELECT g FROM generate_series($round * $rows, ($round + 1) * $rows - 1) g");
		value($dbh, "DELETE FROM queue WHERE id < ($round - 1) * $rows");
		next if $round % 10 != 0;
		value($dbh, 'VACUUM queue');
		wait_until_clean();
		push @used, value($dbh, 'SELECT dram_used_bytes FROM zen_stat');
	}
	cmp_ok($used[-1] - $used[0], '<', 3_000_000,
		"churn: bytes of DRAM after each 100000 rows that came and went: @used");
	value($dbh, 'DROP TABLE queue');
	return;
}

# Half of the rows of a table that was loaded while a prepared transaction held the region that every session tries
# first.
sub test_room_elsewhere
{
	my $free   = sub { value($dbh, 'SELECT pages_free FROM zen_stat') };
	my $insert = q{INSERT INTO wide SELECT g, repeat(md5(g::text), 30) FROM generate_series(%d, %d) g};
	my ($first, $loader, $writer) = map { connect_db($node) } 1 .. 3;
	value($first, $_) for 'BEGIN', 'INSERT INTO other VALUES (0)', q{PREPARE TRANSACTION 'first'};
	my $before = $free->();
	value($loader, $_) for 'CREATE TABLE wide (id int, v text) USING zen', sprintf($insert, 1, 20000);
	my $used = $before - $free->();
	value($first,  q{ROLLBACK PREPARED 'first'});
	value($loader, 'DELETE FROM wide WHERE id % 2 = 0');
	wait_for('the deleted rows to be collected', sub { garbage('pending') == 0 });

	$before = $free->();
	value($writer, sprintf($insert, 20001 + 100 * $_, 20100 + 100 * $_)) for 0 .. 89;
	cmp_ok($before - $free->(), '<', $used / 20, 'room elsewhere: 9,000 new rows take hardly a page');
	value($writer, 'DROP TABLE wide');
	$_->disconnect for $first, $loader, $writer;
	return;
}

# --- who keeps it -----------------------------------------------------------

sub test_process
{
	my $old = connect_db($node);
	my $pid = value($old, 'SELECT pg_backend_pid()');
	my $offset = log_size($node);
	value($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $before = value($old, 'SELECT sum(length(v)) FROM t');
	update_all() for 1 .. 2;

	my $more = qr/DETAIL:  Process $pid keeps xmin \d+, .*\n.*HINT:.*pg_terminate_backend\($pid\)/;
	is_warned($offset, qr/WARNING:.*keeps the predecessors of \d+ row changes.*\n.*$more/, 'a process');
	is(garbage('holder'),     'process', 'process: zen_stat_garbage says so');
	is(garbage('holder_pid'), $pid,      'process: and which one');
	ok(garbage('horizon = holder_xid::text::xid8'), 'process: it holds the horizon');
	ok(garbage('holder_age > 0 AND oldest >= horizon'), 'process: something waits for it');
	cmp_ok(versions('superseded'), '>=', 2000, 'process: the versions that it sees stay');
	cmp_ok(garbage('bytes'), '>', 2000 * 100, 'process: what they take is known');
	is(value($old, 'SELECT sum(length(v)) FROM t'), $before, 'process: it sees them');
	# that nothing more is said takes time to be seen: three rounds of the worker
	value($dbh, 'SELECT pg_sleep(3)');
	my @said = log_since($node, $offset) =~ /Process $pid keeps/g;
	is(scalar @said, 1, 'process: it is named once, not at every look');

	value($old, 'COMMIT');
	wait_until_clean('after the old snapshot');
	$old->disconnect;
	return;
}

sub test_prepared
{
	my $offset = log_size($node);
	value($dbh, 'BEGIN');
	my $xid = value($dbh, 'SELECT txid_current()');
	value($dbh, 'INSERT INTO other VALUES (1)');
	value($dbh, q{PREPARE TRANSACTION 'p'});
	update_all() for 1 .. 2;
	is_warned($offset, qr/DETAIL:  Prepared transaction $xid has been open.*\n.*HINT:.*pg_prepared_xacts/,
		'a prepared transaction');
	is(garbage(q{concat_ws(' ', holder, holder_pid, holder_xid)}), "prepared transaction $xid",
		'prepared: zen_stat_garbage says so');
	value($dbh, q{ROLLBACK PREPARED 'p'});
	wait_until_clean('after the prepared transaction');
	isnt(garbage('coalesce(holder, $$$$)'), 'prepared transaction', 'prepared: it is named no more');
	return;
}

# The standby has no rows of zen tables, and no zen; but in mode wal it must know the records of zen.
sub standby_conf { return by_wal($node) ? q{zen.pool_path = 'zen.pool'} : q{shared_preload_libraries = ''}; }

# A slot keeps for its standby what the standby's snapshots may see.  (catalog_xmin, which each logical slot has, keeps
# nothing of tables.)
sub test_slot
{
	my $offset  = log_size($node);
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	value($dbh, q{SELECT pg_create_physical_replication_slot('keeper')});
	$node->backup('base');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\n" .
		"primary_slot_name = 'keeper'\nwal_receiver_status_interval = 1s\n" . standby_conf());
	unlink $standby->data_dir . '/zen.state';
	$standby->start;
	my $reader = connect_db($standby);
	value($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	value($reader, 'SELECT count(*) FROM pg_class');
	wait_for('feedback', sub { value($dbh, q{SELECT xmin IS NOT NULL FROM pg_replication_slots}) });
	update_all() for 1 .. 2;
	is_warned($offset, qr/DETAIL:  Replication slot "keeper" keeps xmin.*\n.*HINT:.*pg_drop_replication_slot/,
		'a replication slot');
	is(garbage(q{concat_ws(' ', holder, holder_slot)}), 'replication slot keeper', 'slot: zen_stat_garbage says so');
	cmp_ok(versions('superseded'), '>=', 2000, 'slot: what its standby may see stays');
	$reader->disconnect;
	$standby->stop;
	value($dbh, q{SELECT pg_drop_replication_slot('keeper')});
	wait_until_clean('after the slot');
	return;
}

# A publication of a heap table whose subscriber does not come keeps catalogs, and no rows; a snapshot in another
# database does keep rows there, and here.
sub test_unread_slot
{
	value($dbh, $_) for 'CREATE TABLE published (id int) USING heap', 'CREATE PUBLICATION p FOR TABLE published',
	  q{SELECT pg_create_logical_replication_slot('unread', 'pgoutput')}, 'CREATE DATABASE elsewhere';
	my ($writer, $old) = map { connect_db($node, 'elsewhere') } 1 .. 2;
	value($writer, $_) for 'CREATE EXTENSION zen', 'CREATE TABLE e (id int PRIMARY KEY, v int) USING zen',
	  'INSERT INTO e SELECT g, 0 FROM generate_series(1, 1000) g';
	value($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	is(value($old, 'SELECT count(*) FROM e WHERE v = 0'), 1000, 'unread slot: a snapshot in another database');
	value($writer, 'UPDATE e SET v = v + 1');
	value($writer, 'DELETE FROM e WHERE id > 500');
	value($dbh, 'UPDATE t SET k = k + 1') for 1 .. 30;
	my $rounds = value($dbh, 'SELECT horizon_looks FROM zen_stat') + 3;
	wait_for('the collectors to look', sub { value($dbh, 'SELECT horizon_looks FROM zen_stat') >= $rounds });
	cmp_ok(garbage('pending'), '>=', 60_000, 'unread slot: the snapshot keeps what it may see');
	is(garbage('holder'), 'process', 'unread slot: it is named, and not the slot');
	is(value($old, 'SELECT count(*) FROM e WHERE v = 0'), 1000, 'unread slot: it sees all rows as they were');
	is(value($old, 'SELECT count(*) FROM e WHERE id > 0 AND v = 0'), 1000, 'unread slot: by its index, too');
	value($old, 'COMMIT');
	wait_until_clean('unread slot');
	is(garbage(q{coalesce(holder_slot, '')}), '', 'unread slot: it is not named');
	$_->disconnect for $writer, $old;
	value($dbh, $_) for q{SELECT pg_drop_replication_slot('unread')}, 'DROP PUBLICATION p', 'DROP TABLE published',
		'DROP DATABASE elsewhere';
	return;
}

# Few changes wait, but there is little room left.
sub test_low_pool
{
	$node = new_node('small', pool_size => '32MB');
	$node->start;
	$dbh = connect_db($node);
	value($dbh, 'CREATE EXTENSION zen');
	value($dbh, 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen');
	value($dbh, q{INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 2000) g});
	my $old = connect_db($node);
	my $pid = value($old, 'SELECT pg_backend_pid()');
	value($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	value($old, 'SELECT count(*) FROM t');
	my $offset = log_size($node);
	my $low = 'SELECT pages_free * 100 / pages_total < 8 FROM zen_stat';
	for (1 .. 30)
	{
		last if value($dbh, $low);
		value($dbh, q{UPDATE t SET v = v || 'y'});
	}
	ok(value($dbh, $low), 'low: the pool is nearly full of what an old snapshot keeps');
	is_warned($offset, qr/DETAIL:  Process $pid keeps.* \d % of the pool's pages/, 'who fills the pool');
	is(value($old, q{SELECT count(*) FROM t WHERE length(v) = 1000}), 2000, 'low: it sees what it saw');

	my $update = q{UPDATE t SET v = v || 'y'};
	value($dbh, 'SET zen.full_timeout = 0');
	is((map { state_of($dbh, $update) } 1 .. 20)[-1], '53100', 'full: an error, as told');
	my @waiting = map { my $handle = connect_db($node); value($handle, q{SET zen.full_timeout = '100s'});
		$handle } 1 .. 3;
	my %seen;    # they look for room again and again, so they are not seen waiting all at once
	my $all_wait = sub {
		$seen{$_} = 1 for map { $_->[0] } @{
			run_sql($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
				AND wait_event_type = 'Extension'})->{rows} };
		return 3 == grep { $seen{ $_->{pg_pid} } } @waiting;
	};
	value($waiting[1], 'SET zen.spill_threshold = 0');
	my @queries = map { $waiting[$_]->prepare("UPDATE t SET v = v || 'z' WHERE id % 3 = $_",
		{ pg_direct => 1, pg_async => PG_ASYNC }) } 0 .. 2;
	$_->execute for @queries;
	wait_for('all to wait', $all_wait);
	value($dbh, "SELECT pg_cancel_backend($waiting[2]->{pg_pid})");
	wait_for('the end of it', sub { $waiting[2]->pg_ready });
	$waiting[2]->pg_result;
	is($waiting[2]->state, '57014', 'full: who waits can be cancelled');
	pop @waiting;
	value($old, 'COMMIT');
	wait_for('both updates', sub { $_->pg_ready || return for @waiting; 1 });
	$_->pg_result for @waiting;
	is(value($dbh, q{SELECT count(*) FROM t WHERE v ~ 'z$' AND id % 3 < 2}), 1333,
		'full: the others wait for the old snapshot, and go on');
	is_sound($dbh, 'full');
	wait_for('room', sub { value($dbh, 'SELECT pages_free * 2 > pages_total FROM zen_stat') });
	pass('low: without it, the pages come back');
	$node->stop;
	return;
}

# Versions of 1 KB that an old snapshot keeps, twenty times as many as the Met-Cache holds.
sub test_low_dram
{
	my $rows   = 8000;
	my $rounds = 10;
	my $header = 160;    # bytes of DRAM for a version without its data, and its place in a queue
	$node = new_node('lean', pool_size => '512MB', conf => q{zen.met_cache_size = '4MB'});
	$node->start;
	$dbh = connect_db($node);
	value($dbh, 'CREATE EXTENSION zen');
	value($dbh, 'CREATE TABLE t (id int PRIMARY KEY, n int, v text) USING zen');
	value($dbh, qq{INSERT INTO t SELECT g, 0, repeat(md5(g::text), 31) FROM generate_series(1, $rows) g});
	my $state = q{SELECT md5(string_agg(id || ' ' || n || ' ' || v, ',' ORDER BY id)) FROM t};
	my $dram  = sub { value($dbh, 'SELECT metcache_bytes FROM zen_stat') };
	my $seen  = value($dbh, $state);
	my $old   = connect_db($node);
	value($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	# with no lock on the table left, which is to be rewritten
	my $look = sub {
		value($old, 'SAVEPOINT look');
		my $result = value($old, $state);
		value($old, 'ROLLBACK TO look');
		return $result;
	};
	is($look->(), $seen, 'lean: the old snapshot');

	for my $n (1 .. $rounds)
	{
		value($dbh, "UPDATE t SET n = $n, v = md5(v) || substr(v, 33) WHERE id > $_ AND id <= $_ + 100")
		  for map { 100 * $_ } 0 .. $rows / 100 - 1;
	}
	my $now = value($dbh, $state);
	cmp_ok($dram->(), '<', 5_000_000 + $rows * ($rounds + 1) * $header, 'lean: DRAM, with ten times the rows kept');
	is(value($dbh, 'SELECT count(*) FROM t WHERE n <> 10'), 0, 'lean: a new snapshot sees the newest rows');
	is($look->(), $seen, 'lean: the old one those that it saw');
	is_sound($dbh, 'lean');

	# Changed, locked, taken back, and copied, with chains that have no data in DRAM.
	value($dbh, $_) for 'BEGIN', 'SELECT count(*) FROM (SELECT FROM t WHERE id <= 1000 FOR UPDATE) l',
	  'SAVEPOINT s', 'UPDATE t SET n = -1 WHERE id BETWEEN 500 AND 1500', 'ROLLBACK TO s',
		'DELETE FROM t WHERE id > 7900', 'ROLLBACK';
	is(value($dbh, $state), $now, 'lean: as it was after a rollback');
	value($dbh, 'VACUUM FULL t');
	is(value($dbh, $state), $now, 'lean: the rows after VACUUM FULL');
	is($look->(), $seen, 'lean: which the old one sees there, too');
	value($old, 'COMMIT');
	wait_for('garbage to be collected', sub { garbage('pending') == 0 });
	wait_for('DRAM to be freed', sub { $dram->() < 4.5 * 1024 * 1024 });
	is(value($dbh, $state), $now, 'lean: the rows when all is collected');
	is_sound($dbh, 'lean, collected');
	$node->restart;
	$dbh = connect_db($node);
	is(value($dbh, $state), $now, 'lean: the rows after a restart');
	$node->stop;
	return;
}

# --- old transaction ids ----------------------------------------------------

# A locker follows its row to a new TID, and the link to there stays until it ends.
sub test_moved_locker
{
	my $mover  = connect_db($node);
	my $locker = connect_db($node);
	value($mover, 'BEGIN');
	value($mover, 'INSERT INTO other VALUES (2)');    # the older transaction
	value($locker, 'BEGIN');
	value($locker, 'SELECT id FROM t WHERE id = 1 FOR KEY SHARE');
	value($mover, 'UPDATE t SET k = k + 1 WHERE id = 1');
	value($mover, 'COMMIT');
	wait_for('the trace of the row to be collected', sub { garbage('pending') == 0 });
	value($locker, 'COMMIT');
	is(versions('lockers'), 0, 'moved: the lock goes with its transaction');

	my $sweeps = garbage('sweeps');
	reload_conf($node, 'zen.freeze_age = 50');
	burn_xids(60);
	wait_for('a sweep', sub { garbage('sweeps') > $sweeps });
	is(versions('lockers'), 0, 'moved: a sweep takes it out');
	is(versions('oldest'), undef, 'moved: no transaction id is left');
	ok(garbage('frozen_to <= horizon AND frozen_to::text::bigint > 0'), 'moved: zen_stat_garbage says how far');
	$_->disconnect for $mover, $locker;
	reload_conf($node, 'zen.freeze_age = 100000000');
	return;
}

# The queue of a region that a prepared transaction keeps is nobody's.
sub test_kept_region
{
	my $old = connect_db($node);
	value($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	value($old, 'SELECT count(*) FROM t');
	update_all();
	value($dbh, 'BEGIN');
	value($dbh, 'INSERT INTO other VALUES (3)');
	value($dbh, q{PREPARE TRANSACTION 'q'});
	value($old, 'COMMIT');
	$old->disconnect;
	cmp_ok(garbage('pending'), '>=', 2000, 'kept region: its garbage waits');
	cmp_ok(versions('unfrozen'), '>=', 2000, 'kept region: and is not frozen');

	my $sweeps = garbage('sweeps');
	my $locked = connect_db($node);
	value($locked, 'BEGIN');
	value($locked, 'SELECT id FROM t WHERE id = 7 FOR UPDATE');
	reload_conf($node, 'zen.freeze_age = 50');
	burn_xids(60);
	wait_for('a sweep', sub { garbage('sweeps') > $sweeps });
	cmp_ok(garbage('pending'), '>=', 2000, 'kept region: its queue is as it was');
	is(versions('unfrozen + superseded'), 0, 'kept region: a sweep freezes and collects');
	is(versions('lockers'), 1, 'kept region: the lock of a running transaction stays');
	is(value($dbh, 'SELECT count(*) FROM t'), 2000, 'kept region: no row is lost');
	value($locked, 'COMMIT');
	value($dbh, q{COMMIT PREPARED 'q'});
	wait_until_clean('after the kept region');
	is(value($dbh, 'SELECT count(*) FROM other WHERE id = 3'), 1, 'kept region: the prepared row is there');
	return;
}

# hot_client -- a process that updates random rows until SIGTERM, and then says how
# many, or what went wrong.
sub hot_client
{
	pipe(my $read, my $write) or die "pipe: $!";
	my $pid = fork() // die "fork: $!";
	return close($write) && { pid => $pid, pipe => $read } if $pid;
	my ($count, $stop, $error) = (0, 0, '');
	local $SIG{TERM} = sub { $stop = 1 };
	srand($$);
	my $own = eval { connect_db($node) } or $error = $@;
	until ($stop || $error)
	{
		my $id     = between(1, 100000);
		my $result = run_sql($own, "UPDATE hot SET v = v + 1 WHERE id = (SELECT id FROM hot WHERE id = $id "
			  . 'FOR UPDATE SKIP LOCKED)');
		$count++ if $result->{tag} eq 'UPDATE 1';
		$error = $result->{message};
	}
	syswrite $write, $error || $count;
	POSIX::_exit(0);
}

# Versions of a large update were freed while others still looked at them.
sub test_large_update
{
	make_rows($dbh, 'hot', 100000);
	my ($start, $from) = (value($dbh, 'SELECT pg_postmaster_start_time()'), log_size($node));
	my @clients = map { hot_client() } 1 .. 4;
	run_all($dbh, map { 'UPDATE hot SET v = v + 1' } 1 .. 5);
	my $sum = 500000;
	for my $client (@clients)
	{
		kill 'TERM', $client->{pid};
		my $count = readline $client->{pipe};
		like($count // '', qr/^[1-9]\d*$/, 'large update: a client at the same time');
		$sum += $count || 0;
		waitpid $client->{pid}, 0;
	}
	is(eval { value($dbh, 'SELECT sum(v) FROM hot') }, $sum, 'large update: sum');
	is(eval { value($dbh, 'SELECT count(*) FROM hot WHERE id > 0') }, 100000, 'large update: count');
	is(eval { value($dbh, 'SELECT pg_postmaster_start_time()') }, $start, 'large update: no restart');
	unlike(log_since($node, $from), qr/terminated by signal|PANIC|TRAP/, 'large update: no crash');
	value($dbh, 'DROP TABLE hot');
	return;
}

# Prepared transactions take a region each.  After a restart with fewer writers nobody writes to the last ones: VACUUM
# leaves no page there that is empty.
sub test_fewer_writers
{
	value($dbh, $_) for 'CREATE TABLE many (id int, v text) USING zen', 'DROP TABLE t, other';
	for my $i (1 .. 30)
	{
		value($dbh, $_) for 'BEGIN', "INSERT INTO many SELECT $i, repeat('x', 200) FROM generate_series(1, 1500)",
		  "PREPARE TRANSACTION 'many$i'";
	}
	value($dbh, "COMMIT PREPARED 'many$_'") for 1 .. 30;
	$dbh->disconnect;
	$node->append_conf('postgresql.conf', join "\n", 'max_connections = 5', 'superuser_reserved_connections = 1',
		'max_wal_senders = 0',
		'wal_level = replica', 'autovacuum_max_workers = 1',
		'max_worker_processes = ' . (by_wal($node) ? 3 : 1), 'max_prepared_transactions = 0');
	value($dbh = connect_db($node), 'SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots');
	$dbh->disconnect;
	$node->restart;
	$dbh = connect_db($node);
	my $used = sub { value($dbh, 'SELECT pages_total - pages_free FROM zen_stat') };
	is(value($dbh, 'SELECT count(*) FROM many'), 45000, 'fewer writers: all rows are there');
	my $before = $used->();
	value($dbh, $_) for 'DELETE FROM many', 'VACUUM many', 'VACUUM many';
	my $after = $used->();
	cmp_ok($before, '>', 30 * 4, "fewer writers: $before pages before");
	# a region may keep a page; since 18 each of 32 I/O workers and 15 more autovacuum workers has one
	my $kept = $node->pg_version < 18 ? 40 : 40 + 32 + 15;
	cmp_ok($after, '<', $kept, 'fewer writers: empty pages of all regions come back');
	value($dbh, 'INSERT INTO many SELECT g FROM generate_series(1, 1000) g');
	is_sound($dbh, 'fewer writers');
	return;
}
