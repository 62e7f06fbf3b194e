# Prepared transactions that a restart brings back (205_restart.pl has the plain cases):
#
# - a damaged row under one, or locked by one, a damaged row of its own, a damaged list of its locks: the rest of the
#   pool is there, and what is damaged is an error until it is gone;
# - one that would not fit into DRAM;
# - its updates exclude what they excluded before: foreign keys wait for changes of the key only;
# - rows that it has moved are found by others, and its locks on rows that move stay;
# - its rows that look old, from COPY FREEZE, are not evicted;
# - one whose end zen has not been told of, since a logical replication worker has ended it: whoever meets its rows
#   sees to it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PoolImage;
use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('prepared', pool_size => '192MB', dram_size => '64MB',
	conf => "wal_level = logical\nmax_wal_senders = 4\nzen.met_cache_size = '8MB'\nmax_locks_per_transaction = 64");
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

for my $saved (0, 1)
{
	for my $end ('COMMIT', 'ROLLBACK')
	{
		test_damage($_, $saved, $end) for 0, 1;
	}
}
test_damaged_locks($_) for 0, 1;
test_larger_than_dram();
test_keys($_) for '-1', '0';
test_moves();
test_moved_row_locks();
test_frozen_not_evicted();
test_ended_by_a_worker();
is_sound($dbh, 'at the end');

$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub prepare
{
	my ($gid, @statements) = @_;
	value($dbh, $_) for 'BEGIN', @statements, "PREPARE TRANSACTION '$gid'";
	return;
}

# crash_behind -- kill the server; in mode wal behind a checkpoint, as replay would store again what is damaged then.
sub crash_behind
{
	value($dbh, 'CHECKPOINT') if by_wal($node);
	$dbh->disconnect;
	crash($node);
	return;
}

sub stop
{
	$dbh->disconnect;
	$node->stop;
	return;
}

# spoil -- stop the server (or kill it), damage the slots whose bodies hold one of these texts, and start it.
sub spoil
{
	my ($clean, $saved, @texts) = @_;
	value($dbh, 'SELECT pg_sleep(0)');
	$clean ? stop() : crash_behind();
	my $pool  = PoolImage->new(pool_path($node));
	my $found = 0;
	for my $slot ($pool->slots)
	{
		my $body = $pool->get($slot->{offset}, $slot->{size});
		for (@texts)
		{
			my $at = index $body, $_;
			next if $at < 0;
			$pool->flip($slot->{offset} + $at, $_) for 0, 9, 18;
			$found++;
		}
	}
	$pool->save;
	unlink $node->data_dir . '/zen.map' unless $saved;
	start_again($node);
	$dbh = connect_db($node);
	return $found;
}

# --- damage -----------------------------------------------------------------

# Row 1 is damaged under an update, row 2 under a delete, row 3 under a lock, row 4 under an update that moves it; the
# new row 5, the new versions of rows 6 and 7 (moved), and nothing else, are damaged themselves.
sub test_damage
{
	my ($clean, $saved, $end) = @_;
	return if $saved && !$clean;    # there is no saved map after a crash
	my $name = ($clean ? 'clean stop' : 'crash') . ($saved ? ', map loaded' : '') . ", $end";
	value($dbh, $_) for
	  'DROP TABLE IF EXISTS d, sound',
	  'CREATE TABLE d (id int PRIMARY KEY, v text, k int) USING zen',
	  'CREATE INDEX d_k ON d (k)',
	  'CREATE TABLE sound (id int PRIMARY KEY, v int) USING zen',
	  'INSERT INTO sound SELECT g, g FROM generate_series(1, 100) g',
	  q{INSERT INTO d SELECT g, 'plain and old number ' || g || '.' FROM generate_series(1, 10) g WHERE g <> 5};
	prepare('p',
		q{UPDATE d SET v = 'plain and new number 1.' WHERE id = 1},
		'DELETE FROM d WHERE id = 2',
		'SELECT count(*) FROM (SELECT 1 FROM d WHERE id = 3 FOR KEY SHARE) x',
		q{UPDATE d SET v = 'moved and new number 4.', k = 1 WHERE id = 4},
		q{INSERT INTO d VALUES (5, 'plain and new number 5.')},
		q{UPDATE d SET v = 'plain and new number 6.' WHERE id = 6},
		q{UPDATE d SET v = 'moved and new number 7.', k = 1 WHERE id = 7},
		q{UPDATE d SET v = 'plain and new number 8.' WHERE id = 8},
		'UPDATE sound SET v = 0 WHERE id = 1');
	is(spoil($clean, $saved, map { " $_." } 'old number 1', 'old number 2', 'old number 3', 'old number 4',
		'new number 5', 'new number 6', 'new number 7'),
		7, "$name: seven damaged");
	# an index cannot be built from them
	value($dbh, 'SET enable_indexscan = off');
	value($dbh, 'SET enable_bitmapscan = off');
	is(run_sql($dbh, 'SELECT sum(v) FROM sound')->{message} || 5050, 5050, "$name: other tables are there");
	is(rows_of_d(), '6o 7o 8o 9o 10o | 1 2 3 4', "$name: rows while it is prepared");
	is(state_of($dbh, q{SELECT 1 FROM sound WHERE id = 1 FOR UPDATE NOWAIT}), '55P03', "$name: it has its locks");
	is(state_of($dbh, "$end PREPARED 'p'"), '', "$name: it ends");
	is(rows_of_d(), $end eq 'COMMIT' ? '1n 4n 8n 9o 10o | 3 5 11 12' : '6o 7o 8o 9o 10o | 1 2 3 4',
		"$name: rows after it");
	value($dbh, 'SET enable_seqscan = off');
	value($dbh, 'SET enable_indexscan = on');
	is(run_sql($dbh, 'SELECT count(v) FROM d WHERE id = 6')->{state} || 'found', $end eq 'COMMIT' ? 'XX001' : 'found',
		"$name: an index knows the row");
	is(run_sql($dbh, 'SELECT v FROM d WHERE id = 6')->{rows}[0][0] // '', $end eq 'COMMIT' ? ''
		: 'plain and old number 6.', "$name: as it should be");
	value($dbh, 'RESET enable_seqscan');
	value($dbh, 'SET enable_indexscan = off');
	is(value($dbh, 'SELECT sum(v) FROM sound'), $end eq 'COMMIT' ? 5049 : 5050, "$name: another table after it");
	$dbh = crash_restart($node);
	value($dbh, 'SET enable_indexscan = off');
	value($dbh, 'SET enable_bitmapscan = off');
	is(rows_of_d(), $end eq 'COMMIT' ? '1n 4n 8n 9o 10o | 3 5 11 12' : '6o 7o 8o 9o 10o | 1 2 3 4',
		"$name: and after a crash");
	value($dbh, 'DROP TABLE d, sound');
	value($dbh, $_) for 'RESET enable_indexscan', 'RESET enable_bitmapscan';
	return;
}

# What a scan finds: the rows, o for the old version and n for the new one, and the places of damaged rows.
sub rows_of_d
{
	# also waits for those who build indexes and meet damaged rows, too
	is(state_of($dbh, 'SELECT count(v) FROM d'), 'XX001', 'some are an error to read');
	my $offset = log_size($node);
	value($dbh, 'SET zen.skip_damaged_rows = on');
	my $rows = join ' ', map { $_->[0] } @{ run_sql($dbh, 'SELECT id || substr(v, 11, 1) FROM d ORDER BY id')->{rows} };
	value($dbh, 'RESET zen.skip_damaged_rows');
	my %damaged = map { $_ => 1 } log_since($node, $offset) =~ /checksum of zen row \(0,(\d+)\)/g;
	my @damaged = sort { $a <=> $b } keys %damaged;
	return "$rows | @damaged";
}

# A lock of a list that is damaged holds, as far as it can be read; recovery goes on, and says what is uncertain.
sub test_damaged_locks
{
	my ($clean) = @_;
	my $name = $clean ? 'clean stop' : 'crash';
	value($dbh, $_) for 'CREATE TABLE l (id int PRIMARY KEY, v int) USING zen',
	  'INSERT INTO l SELECT g, 0 FROM generate_series(1, 100) g';
	prepare('locks', 'SELECT count(*) FROM (SELECT 1 FROM l WHERE id <= 50 FOR UPDATE) x');
	$clean ? stop() : crash_behind();
	my $pool = PoolImage->new(pool_path($node));
	# the lock list: of no table; its first lock, of 16 bytes, is 28 bytes behind the header
	my ($list) = grep { $_->{htable} == 0 && $_->{length} > 500 } $pool->slots;
	$pool->flip($list->{offset} + 16 + 16 + 7, $_) for 3, 4;
	$pool->save;
	my $offset = log_size($node);
	start_again($node);
	$dbh = connect_db($node);
	is(value($dbh, 'SELECT count(*) FROM l'), 100, "damaged list of locks, $name: the table is there");
	like(log_since($node, $offset), qr/WARNING:  XX001: .*locks of prepared transaction/,
		"damaged list of locks, $name: reported");
	value($dbh, q{SET lock_timeout = '30ms'});
	my $locked = grep { state_of($dbh, "UPDATE l SET v = 1 WHERE id = $_") eq '55P03' } 1 .. 50;
	cmp_ok($locked, '>=', 49, "damaged list of locks, $name: the other locks hold");
	value($dbh, $_) for 'RESET lock_timeout', q{ROLLBACK PREPARED 'locks'}, 'UPDATE l SET v = 2', 'DROP TABLE l';
	return;
}

# --- size -------------------------------------------------------------------

# 400000 rows, of which DRAM could not even hold the headers.
sub test_larger_than_dram
{
	value($dbh, $_) for 'CREATE TABLE large (id int, v int) USING zen',
	  'INSERT INTO large SELECT g, 0 FROM generate_series(1, 200000) g';
	my $before = contents($dbh, 'large');
	prepare('large', 'UPDATE large SET v = 1', 'INSERT INTO large SELECT g, 0 FROM generate_series(200001, 600000) g',
		'DELETE FROM large WHERE id % 1000 = 0');
	for my $step ([ 'crash', sub { $dbh = crash_restart($node) } ],
		[ 'clean restart', sub { $dbh = clean_restart($node, $dbh) } ])
	{
		$step->[1]->();
		is(run_sql($dbh, 'SELECT count(*) FROM large')->{message} || contents($dbh, 'large'), $before,
			"larger than DRAM, $step->[0]: not seen");
	}
	value($dbh, q{SET lock_timeout = '30ms'});
	is(state_of($dbh, 'UPDATE large SET v = 2 WHERE id = 77'), '55P03', 'larger than DRAM: its rows are locked');
	value($dbh, $_) for 'RESET lock_timeout', q{COMMIT PREPARED 'large'};
	is(value($dbh, 'SELECT count(*) || $$ $$ || sum(v) FROM large'), '599400 199800', 'larger than DRAM: committed');
	$dbh = crash_restart($node);
	is(value($dbh, 'SELECT count(*) || $$ $$ || sum(v) FROM large'), '599400 199800',
		'larger than DRAM: and after a crash');
	is_sound($dbh, 'larger than DRAM');
	value($dbh, 'DROP TABLE large');
	return;
}

# --- locks ------------------------------------------------------------------

# Updates of a row in place, of a column that has an index, of the key, and its deletion; whose children can be
# inserted?
sub test_keys
{
	my ($threshold) = @_;
	my $name = $threshold eq '0' ? 'spilled' : 'not spilled';
	value($dbh, $_) for 'CREATE TABLE parent (id int PRIMARY KEY, v int, w int) USING zen',
		'CREATE INDEX ON parent (w)',
	  'CREATE TABLE child (id int REFERENCES parent) USING zen',
		'INSERT INTO parent SELECT g, 0, 0 FROM generate_series(1, 6) g',
	  "SET zen.spill_threshold = $threshold";
	prepare('keys',
		'UPDATE parent SET v = 1 WHERE id = 1',
		'UPDATE parent SET w = 1 WHERE id = 2',
		'UPDATE parent SET id = 13 WHERE id = 3',
		'DELETE FROM parent WHERE id = 4',
		'UPDATE parent SET w = 1 WHERE id = 5', 'UPDATE parent SET id = 15 WHERE id = 5',
		'UPDATE parent SET w = 1 WHERE id = 6', 'UPDATE parent SET w = 2 WHERE id = 6',
		# so that there is something to be spilled before the end
		'INSERT INTO parent SELECT g, 0, 0 FROM generate_series(1001, 1200) g');
	my $free = sub {
		value($dbh, q{SET lock_timeout = '30ms'});
		my @free = grep { state_of($dbh, "INSERT INTO child VALUES ($_)") ne '55P03' } 1 .. 6;
		value($dbh, 'RESET lock_timeout');
		return "@free";
	};
	is($free->(), '1 2 6', "keys, $name: before");
	for my $step ([ 'crash', sub { $dbh = crash_restart($node) } ],
		[ 'clean restart', sub { $dbh = clean_restart($node, $dbh) } ])
	{
		$step->[1]->();
		is($free->(), '1 2 6', "keys, $name, $step->[0]: foreign keys wait for no other change");
	}
	value($dbh, $_) for q{COMMIT PREPARED 'keys'}, 'DROP TABLE child, parent';
	return;
}

# --- rows that move or look old -------------------------------------------------

# A prepared transaction that had moved a row to another TID, or to another partition, came
# back from a crash as one that had deleted it: who had waited for it found no row.
sub test_moves
{
	# [ what, statements to prepare, tag after commit, n and k after commit ]
	my @cases = (
		[ 'moved',   ['UPDATE %s SET k = k + 100 WHERE id = 1'], 'UPDATE 1', '1 101' ],
		[ 'moved twice', [ ('UPDATE %s SET k = k + 100 WHERE id = 1') x 2 ], 'UPDATE 1', '1 201' ],
		[ 'changed, moved, changed, moved',
			[ map { "UPDATE %s SET $_ WHERE id = 1" } 'v = 1', 'k = k + 100', 'v = 2', 'k = k + 100', 'v = 3' ],
			'UPDATE 1', '1 201' ],
		[ 'moved and deleted', [ 'UPDATE %s SET k = k + 100 WHERE id = 1', 'DELETE FROM %s WHERE id = 1' ], 'UPDATE 0',
			undef ],
		[ 'moved back to a savepoint',
			[ 'UPDATE %s SET k = k + 100 WHERE id = 1', 'SAVEPOINT a', 'UPDATE %s SET k = k + 100 WHERE id = 1',
			'ROLLBACK TO a' ], 'UPDATE 1', '1 101' ],
		[ 'to another partition', ['UPDATE %s SET p = 1 WHERE id = 1'], '40001', '0 1' ]);
	for my $end ('COMMIT', 'ROLLBACK')
	{
		for my $i (0 .. $#cases)
		{
			run_all($dbh, "CREATE TABLE mv$i (id int, k int, n int, v int, p int) PARTITION BY LIST (p)",
				(map { "CREATE TABLE mv${i}_$_ PARTITION OF mv$i FOR VALUES IN ($_) USING zen" } 0, 1),
				"CREATE INDEX ON mv$i (k)", "INSERT INTO mv$i VALUES (1, 1, 0, 0, 0)",
				'BEGIN', (map { sprintf $_, "mv$i" } @{ $cases[$i][1] }), "PREPARE TRANSACTION 'mv$i'");
		}
		$dbh = crash_restart($node);
		my @handles = map { connect_db($node) } @cases;
		my @started = map { start_statement($handles[$_], "UPDATE mv$_ SET n = n + 1 WHERE id = 1") } 0 .. $#cases;
		for my $i (0 .. $#cases)
		{
			my ($what, undef, $tag, $row) = @{ $cases[$i] };
			($tag, $row) = ('UPDATE 1', '1 1') if $end eq 'ROLLBACK';
			wait_for('the lock', sub { lock_wait_pid($dbh, $handles[$i]{pg_pid}) });
			run_all($dbh, "$end PREPARED 'mv$i'");
			is(finish_statement($started[$i]), $tag, "prepared and $what, crash, $end: the waiter");
			is(value($dbh, "SELECT n || ' ' || k FROM mv$i"), $row, "prepared and $what, crash, $end: the row");
			run_all($dbh, "DROP TABLE mv$i");
		}
	}
}

# A lock FOR KEY SHARE is kept in NVM under the TID where it was taken, and movers go on.  So what leads from there to
# the row must last as long as the lock, through collections, crashes and saved maps: where it did not, the row was
# free after a crash, and its children became orphans.
#
# Rows 4 and 5 are moved by older transactions, whose updates are collected while the prepared one goes on; the one of
# row 5 is under way at PREPARE.  Rows 1 and 6 are moved by younger ones, row 6 again and again.
sub test_moved_row_locks
{
	my ($other, $older) = map { connect_db($node) } 1 .. 2;
	# the rows are in another region than the one that the prepared transaction will keep
	run_all($dbh, 'CREATE TABLE holder (a int) USING zen');
	prepare('holder', 'INSERT INTO holder VALUES (1)');
	make_rows($older, 'parent', 10);
	run_all($dbh, 'CREATE TABLE child (pid int REFERENCES parent) USING zen');
	run_all($_, 'BEGIN', 'SELECT pg_current_xact_id()') for $other, $older;
	run_all($dbh, 'BEGIN', 'INSERT INTO child VALUES (1), (2), (4), (5), (6)');
	my $tid = value($other, 'SELECT ctid FROM parent WHERE id = 4');
	run_all($other, 'UPDATE parent SET k = k + 100 WHERE id = 4', 'COMMIT');
	isnt(value($other, 'SELECT ctid FROM parent WHERE id = 4'), $tid, 'row locks: the row has moved');
	run_all($older, 'UPDATE parent SET k = k + 100 WHERE id = 5');
	run_all($other, q{ROLLBACK PREPARED 'holder'});
	run_all($dbh, q{PREPARE TRANSACTION 'lock'});
	run_all($older, 'COMMIT');
	wait_for('the collection of what they have left',
		sub { value($other, q{SELECT superseded = 0 FROM _zen_table_versions('parent')}) });
	run_all($other, 'UPDATE parent SET k = k + 100 WHERE id = 1');
	run_all($older, 'UPDATE parent SET k = k + 1 WHERE id = 6') for 1 .. 20;
	take_free_slots($other, $older);
	$_->disconnect for $other, $older;
	check_moved_row_locks('before the crash');
	for my $how ('crash', 'crash', 'clean restart', 'clean restart', 'restart without the map', 'crash')
	{
		if ($how eq 'crash') { $dbh = crash_restart($node); }
		else
		{
			value($dbh, 'CHECKPOINT');
			$dbh->disconnect;
			$node->stop;
			unlink $node->data_dir . '/zen.map' if $how =~ /without/;
			$node->start;
			$dbh = connect_db($node);
		}
		is_sound($dbh, "row locks, $how");
		reuse_tids();
		check_moved_row_locks("after a $how");
	}
	run_all($dbh, q{COMMIT PREPARED 'lock'});
	is(state_of($dbh, "DELETE FROM parent WHERE id = $_"), '23503', "row locks: $_ has a child") for 1, 2, 4, 5, 6;
	is(value($dbh, 'SELECT count(*) FROM child LEFT JOIN parent ON pid = id WHERE id IS NULL'), 0,
		'row locks: no orphan');
	run_all($dbh, 'DROP TABLE holder');
	is(value($dbh, 'SELECT string_agg(id || $$:$$ || v, $$ $$ ORDER BY id) FROM parent WHERE id < 7'),
		'1:7 2:7 3:0 4:7 5:7 6:7', 'row locks: updates');
	run_all($dbh, 'DELETE FROM child', 'DELETE FROM parent WHERE id < 7');
	wait_for('the collection of what is left',
		sub { value($dbh, q{SELECT lockers = 0 AND unfrozen = 0 FROM _zen_table_versions('parent')}) });
	is_sound($dbh, 'row locks, at the end');
	run_all($dbh, 'VACUUM parent');
	cmp_ok(value($dbh, q{SELECT entries FROM _zen_table_versions('parent')}), '<=', 4,
		'row locks: no entry leads to what is gone');
	run_all($dbh, 'DROP TABLE child, parent');
}

# New rows where older versions of moved rows were: then nothing but the lock needs the tombstones.
sub take_free_slots
{
	my @sessions = @_;
	run_all($sessions[0], 'CREATE TABLE filler (id int PRIMARY KEY, k int, n int, v int) USING zen');
	for my $i (1 .. 30)
	{
		run_all($sessions[$_], 'INSERT INTO filler VALUES (' . ($i * 10 + $_) . ', 0, 0, 0)') for 0 .. $#sessions;
	}
	run_all($sessions[0], 'DROP TABLE filler');
}

# Rows under TIDs that are free: if one of these had led to a locked row, the lock would be at another one.
sub reuse_tids
{
	run_all($dbh, 'VACUUM parent', 'INSERT INTO parent SELECT g, 0, 0 FROM generate_series(1001, 1100) g');
	run_all($dbh, 'UPDATE parent SET k = k + 1 WHERE id > 1000');
	is(state_of($dbh, 'DELETE FROM parent WHERE id > 1000'), '', 'row locks: rows under free TIDs are free');
}

sub check_moved_row_locks
{
	my ($when) = @_;
	run_all($dbh, q{SET lock_timeout = '200ms'});
	for my $id (1, 2, 4, 5, 6)
	{
		is(state_of($dbh, "DELETE FROM parent WHERE id = $id"), '55P03', "row locks, $when: delete of $id waits");
		is(state_of($dbh, "UPDATE parent SET id = -id WHERE id = $id"), '55P03',
			"row locks, $when: a new key of $id waits");
		is(state_of($dbh, "UPDATE parent SET k = k + 100 WHERE id = $id"), '', "row locks, $when: $id moves");
		is(state_of($dbh, "DELETE FROM parent WHERE id = $id"), '55P03', "row locks, $when: and delete of $id waits");
		is(state_of($dbh, "UPDATE parent SET v = v + 1 WHERE id = $id"), '',
			"row locks, $when: update of $id in place");
	}
	is(state_of($dbh, 'UPDATE parent SET k = k + 100 WHERE id = 3'), '', "row locks, $when: others are free");
	run_all($dbh, 'RESET lock_timeout');
}

# Rows of COPY FREEZE look old while their transaction is prepared.  What was queued for rows of a dropped table, whose
# number the new one has, let them be evicted, and ROLLBACK PREPARED freed them once more.
sub test_frozen_not_evicted
{
	set_conf($node, "zen.met_cache_size = 1MB");
	$dbh = clean_restart($node, $dbh);
	my ($start, $from) = (value($dbh, 'SELECT pg_postmaster_start_time()'), log_size($node));
	my $insert = 'DO $$ BEGIN FOR i IN 1..%d LOOP INSERT INTO many VALUES (i); COMMIT; END LOOP; END $$';
	# A small cache would let the rows be spilled.  The prepared transaction keeps the garbage items of the dropped
	# table, and the region that this session takes again, so that the other session's items are in one of its own.
	my $other = connect_db($node);
	run_all($_, 'SET zen.spill_threshold = -1') for $dbh, $other;
	run_all($dbh, 'CREATE TABLE holder (a int) USING zen');
	prepare('holder', 'INSERT INTO holder VALUES (1)');
	run_all($other, 'CREATE TABLE many (a int) USING zen', 'CREATE TABLE dropped (a int, t text) USING zen',
		"INSERT INTO dropped SELECT g, 'x' FROM generate_series(1, 3000) g", sprintf($insert, 300));
	my $number = "SELECT htable FROM _zen_stat_tables() WHERE relfilenode = pg_relation_filenode('%s')";
	my $htable = value($dbh, sprintf($number, 'dropped'));
	run_all($dbh, 'DROP TABLE dropped', 'BEGIN', 'CREATE TABLE frozen (a int, t text) USING zen');
	is(value($dbh, sprintf($number, 'frozen')), $htable, 'frozen rows: the table has the number of the dropped one');
	$dbh->do('COPY frozen FROM STDIN WITH (FREEZE)');
	$dbh->pg_putcopydata("$_\ty\n") for 1 .. 3000;
	$dbh->pg_putcopyend;
	cmp_ok(value($other, 'SELECT garbage_pending FROM zen_stat'), '>=', 3000, 'frozen rows: items of the dropped');
	run_all($other, "COMMIT PREPARED 'holder'");
	run_all($dbh, "PREPARE TRANSACTION 'frozen'");
	run_all($other, sprintf($insert, 20000));
	# mostly at once; another process may be at it and have lost its processor
	my $more = 0;
	wait_for('items to be handled', sub {
			return 1 if value($other, 'SELECT garbage_pending FROM zen_stat') < 21000 + $more;
			run_all($other, sprintf($insert, 100));
			$more += 100;
			return 0; });
	ok(value($other, 'SELECT metcache_bytes > 1024 * 1024 FROM zen_stat'), 'frozen rows: room is wanted');
	run_all($dbh, "ROLLBACK PREPARED 'frozen'", sprintf($insert, 6000));
	$other->disconnect;
	ok(value($dbh, 'SELECT metcache_evictions > 0 FROM zen_stat'), 'frozen rows: there were evictions');
	is(eval { value($dbh, 'SELECT count(*) FROM many') }, 26300 + $more, 'frozen rows: other rows are there');
	is_sound($dbh, 'frozen rows');
	is(eval { value($dbh, 'SELECT pg_postmaster_start_time()') }, $start, 'frozen rows: no restart');
	unlike(log_since($node, $from), qr/terminated by signal|PANIC|TRAP/, 'frozen rows: no crash');
	run_all($dbh, 'RESET zen.spill_threshold', 'DROP TABLE many, holder');
	set_conf($node, "zen.met_cache_size = 8MB");
	$dbh = clean_restart($node, $dbh);
}

# --- an end that zen is not told of -----------------------------------------

# A subscription to a table of another database, whose trigger updates a zen table: its worker ends prepared
# transactions without a command that zen could see, and zen's own worker is stopped.
sub test_ended_by_a_worker
{
	value($dbh, $_) for 'CREATE TABLE changed (id int PRIMARY KEY, v int) USING zen',
	  'INSERT INTO changed SELECT g, 0 FROM generate_series(1, 1000) g';
	$dbh = clean_restart($node, $dbh);    # the slot keeps later rows from being old enough to be spilled
	value($dbh, 'CREATE DATABASE source');
	my $source = connect_db($node, 'source');
	value($source, $_) for 'CREATE TABLE copied (id int PRIMARY KEY)', 'CREATE PUBLICATION p FOR TABLE copied',
	  q{SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)};
	my $conninfo = sprintf q{host=%s port=%d dbname=source}, $node->host, $node->port;
	value($dbh, $_) for 'CREATE TABLE copied (id int PRIMARY KEY) USING heap',
	  q{CREATE FUNCTION change() RETURNS trigger SET search_path = public LANGUAGE plpgsql AS
	    'BEGIN UPDATE changed SET v = v + 1 WHERE id = NEW.id; RETURN NULL; END'},
	  'CREATE TRIGGER change AFTER INSERT ON copied FOR EACH ROW EXECUTE FUNCTION change()',
	  'ALTER TABLE copied ENABLE ALWAYS TRIGGER change', 'ALTER SYSTEM SET zen.spill_threshold = 0',
		'SELECT pg_reload_conf()',
	  "CREATE SUBSCRIPTION s CONNECTION '$conninfo' PUBLICATION p "
		  . "WITH (create_slot = false, slot_name = s, copy_data = false, two_phase = true)";
	my $spilled = value($dbh, 'SELECT rows_spilled FROM zen_stat');
	value($source, $_) for 'BEGIN', 'INSERT INTO copied SELECT generate_series(1, 1000)',
		q{PREPARE TRANSACTION 'there'};
	my $prepared = sub { value($dbh, q{SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'pg_gid_%'}) };
	wait_for('the prepared transaction to come', sub { $prepared->() == 1 });
	cmp_ok(value($dbh, 'SELECT rows_spilled FROM zen_stat') - $spilled, '>', 900, 'ended by a worker: spilled');

	my $worker = stop_asleep($dbh, 'zen worker');
	value($source, q{ROLLBACK PREPARED 'there'});
	wait_for('its end to come', sub { $prepared->() == 0 });
	value($dbh, q{SET statement_timeout = '10s'});
	is(state_of($dbh, 'UPDATE changed SET v = v + 10 WHERE id <= 10'), '', 'ended by a worker: an update gets on');
	is(state_of($dbh, 'SELECT 1 FROM changed WHERE id = 11 FOR UPDATE'), '', 'ended by a worker: so does a lock');
	kill 'CONT', $worker;
	value($dbh, 'RESET statement_timeout');
	is(value($dbh, 'SELECT sum(v) FROM changed'), 100, 'ended by a worker: rolled back');
	value($dbh, $_) for 'DROP SUBSCRIPTION s', 'ALTER SYSTEM RESET zen.spill_threshold', 'SELECT pg_reload_conf()',
		'DROP TABLE copied, changed';
	$source->disconnect;
	value($dbh, 'DROP DATABASE source');
	return;
}
