# Indexes of zen tables on a hot standby (zen.standby_reads): trees stand in for btrees and for trees of the primary.
#
# A load changes twins of zen and heap: keys, rows, TIDs that are used again, savepoints, two-phase commit, DDL, VACUUM.
# Readers on the standby read the zen tables by index scans of each kind, and compare them by one snapshot with their
# twins, once and again within REPEATABLE READ transactions.  In between the standby, the walreceiver or the primary is
# killed.
#
# ROUNDS=n rounds of load and kill (default 2), LOAD_S=n seconds for each (default 8), LOAD_RATE=n transactions a second
# (default: as many as it can).  HOLD_S=n: two more readers hold each REPEATABLE READ snapshot for n seconds.  A note
# says how many snapshots were compared.  DDL_S=n seconds of random DDL beside readers (default 3).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(sleep time);
use Twins;
use ZenTest;

my $rounds = $ENV{ROUNDS} || 2;
my $load_s = $ENV{LOAD_S} || 8;
my $ddl_s = $ENV{DDL_S} || 3;

skip_unless_zen();
my $seed = choose_seed();

# Settings that leave the planner one way to read a table.
my %way = (
	index => 'enable_seqscan = off, enable_bitmapscan = off, enable_indexonlyscan = off',
	only => 'enable_seqscan = off, enable_bitmapscan = off',
	bitmap => 'enable_seqscan = off, enable_indexscan = off, enable_indexonlyscan = off');

# By which condition and order an index of a table is read; what is shown of it by an index-only scan.
my @by = (
	[ account => 'id', 'id > -1', 'id' ],
	[ account => 'balance', 'balance > -1000000', 'balance, filler' ],
	[ item => 'id', 'id > -1', 'id' ],
	[ item => 'v, id', 'v > -1', 'v, id' ],
	[ item => 'w', q{w >= ''}, 'w' ],
	[ note => 'md5(body)', q{md5(body) >= ''}, 'id' ]);

my $primary = twin_primary(dram_size => '256MB');
$primary->start;
my $dbh = connect_db($primary);
create_twins($dbh);
run_all($dbh, both('CREATE INDEX AM_account_balance ON AM_account (balance) INCLUDE (filler)',
		'CREATE INDEX AM_item_w ON AM_item (w)', 'CREATE INDEX AM_note_body ON AM_note (md5(body))'),
	'CREATE INDEX ON zen_item USING zentree (v, id)', 'CREATE INDEX ON heap_item (v, id)',
	q{INSERT INTO heap_item SELECT g, g % 7, repeat('w', g % 30) FROM generate_series(1, 500) g},
	'INSERT INTO zen_item TABLE heap_item', 'ANALYZE',
	# of an index: who forms the key of 7 waits for a lock
	q{CREATE FUNCTION waiting(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
		$$BEGIN IF $1 = 7 THEN PERFORM pg_advisory_xact_lock(7); END IF; RETURN $1; END$$});
$primary->backup('base');
my $standby = twin_standby($primary, 'standby', 'base');
$standby->start;
caught_up();
my $on_standby = connect_db($standby);

test_plans();
test_rows();
test_reuse();
test_older_keys();
test_grown();
test_files();
test_dropped();
test_owner();
test_ddl();
test_full();
test_tail();
test_deadlock();
test_ddl_beside();
for my $round (1 .. $rounds)
{
	test_load($round);
	test_kill($round);
}
test_promotion();
tell_compared();
done_testing();

sub caught_up
{
	value($dbh, 'SELECT pg_current_wal_lsn()');    # flushes
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

# run_apart -- in a session that has no TIDs left, and so looks for some.
sub run_apart
{
	my $other = connect_db($primary);
	run_all($other, @_);
	$other->disconnect;
	return;
}

# by_tree -- what a query finds if tables are not scanned.
sub by_tree
{
	my ($db, $query) = @_;
	run_all($db, 'SET enable_seqscan = off');
	my $result = run_sql($db, $query);
	run_sql($db, 'RESET enable_seqscan');
	return $result->{state} || $result->{rows}[0][0];
}

sub trees { return value($on_standby, "SELECT $_[0] FROM zen_stat_standby"); }

sub plan_of
{
	my ($db, $query) = @_;
	return join "\n", map { $_->[0] } @{ run_sql($db, "EXPLAIN $query")->{rows} };
}

# read_by, any_way -- leave the planner one way to read a table, or all, until the transaction ends.
sub read_by
{
	my ($db, $way) = @_;
	run_sql($db, "SET LOCAL $_") for split /, /, $way{$way};
	return;
}

sub any_way
{
	my ($db) = @_;
	run_sql($db, "SET LOCAL enable_$_ = on") for qw(seqscan bitmapscan indexscan indexonlyscan);
	return;
}

# What a table shows by one of its indexes; the rows are put in order, so that those of one key do not differ.
sub shown
{
	my ($am, $by, $columns) = @_;
	my ($table, undef, $where) = @$by;
	return "SELECT md5(coalesce(string_agg(r::text, ',' ORDER BY r::text), '')) FROM "
	  . "(SELECT $columns FROM ${am}_$table t WHERE $where OFFSET 0) r";
}

# Are rows read by an index in its order?
sub disorder
{
	my ($by, $direction) = @_;
	my ($table, $key) = @$by;
	$key =~ s/, id//;
	my $order = join ', ', map { "$_ $direction" } split /, /, $by->[1];
	my $before = $direction eq 'ASC' ? '<' : '>';
	return "SELECT count(*) FROM (SELECT k, lag(k) OVER () AS l FROM "
	  . "(SELECT $key AS k FROM zen_$table WHERE $by->[2] ORDER BY $order) a) b WHERE k $before l";
}

# Compare the twins by each index, within a transaction; returns what differs, or the state of an error.
sub differences
{
	my ($db, $few) = @_;
	my @wrong;
	for my $by (@by)
	{
		next if $few && !one_in(2);
		for my $way (qw(index only bitmap))
		{
			my $columns = $way eq 'only' ? $by->[3] : $by->[0] eq 'note' ? 'id, md5(body)' : 't.*';
			next if $way eq 'only' && $by->[0] eq 'note';
			my $heap = run_sql($db, shown('heap', $by, $columns));
			return $heap->{state} if $heap->{state};
			read_by($db, $way);
			my $zen = run_sql($db, shown('zen', $by, $columns));
			any_way($db);
			return $zen->{state} if $zen->{state};
			push @wrong, "@$by by $way" if $heap->{rows}[0][0] ne $zen->{rows}[0][0];
		}
		read_by($db, 'only');
		for my $direction (qw(ASC DESC))
		{
			my $disorder = run_sql($db, disorder($by, $direction));
			return $disorder->{state} if $disorder->{state};
			push @wrong, "@$by: $direction" if $disorder->{rows}[0][0] != 0;
		}
		any_way($db);
	}
	return join "\n", @wrong;
}

sub are_same
{
	my ($name) = @_;
	run_sql($on_standby, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $wrong = differences($on_standby);
	run_sql($on_standby, 'ROLLBACK');
	return is($wrong, '', $name);
}

sub test_plans
{
	for my $by (@by)
	{
		run_sql($on_standby, 'BEGIN');
		for my $way (qw(index only bitmap))
		{
			next if $way eq 'only' && $by->[0] eq 'note';
			read_by($on_standby, $way);
			my $columns = $way eq 'only' ? $by->[3] : 't.*';
			my $kind = { index => qr/Index Scan/, only => qr/Index Only Scan/, bitmap => qr/Bitmap Index/ }->{$way};
			like(plan_of($on_standby, shown('zen', $by, $columns)), $kind, "@$by: $way");
			any_way($on_standby);
		}
		read_by($on_standby, 'only');
		unlike(plan_of($on_standby, disorder($by, $_)), qr/Sort/, "@$by: in order, $_") for qw(ASC DESC);
		run_sql($on_standby, 'ROLLBACK');
	}
	like(plan_of($on_standby, 'SELECT * FROM zen_account WHERE id = 7'), qr/Index Scan using zen_account_pkey/,
		'by the primary key, without a setting');
	is(value($on_standby, 'SELECT count(*) FROM zen_account a JOIN zen_item i USING (id) WHERE a.id < 5'), 4, 'a join');
	run_all($on_standby, 'SET zen.standby_indexes = off');
	like(plan_of($on_standby, 'SELECT * FROM zen_account WHERE id = 7'), qr/Seq Scan/, 'not if they are off');
	run_all($on_standby, 'RESET zen.standby_indexes',
		'PREPARE p (int) AS SELECT balance FROM zen_account WHERE id = $1');
	is(value($on_standby, "EXECUTE p ($_)"), 1000, 'a prepared statement') for 1 .. 8;
	run_all($on_standby, 'DEALLOCATE p', 'BEGIN', 'DECLARE c SCROLL CURSOR FOR SELECT id FROM zen_account ORDER BY id');
	is_deeply(run_sql($on_standby, 'FETCH 3 FROM c')->{rows}, [ [1], [2], [3] ], 'a cursor');
	is_deeply(run_sql($on_standby, 'FETCH BACKWARD 2 FROM c')->{rows}, [ [2], [1] ], '... backwards');
	run_all($on_standby, 'COMMIT', 'BEGIN', 'SET LOCAL min_parallel_index_scan_size = 0',
		'SET LOCAL enable_seqscan = off',
		'SET LOCAL parallel_setup_cost = 0', 'SET LOCAL parallel_tuple_cost = 0', 'SET LOCAL enable_bitmapscan = off',
		'SET LOCAL min_parallel_table_scan_size = 0');
	like(plan_of($on_standby, 'SELECT count(*) FROM zen_account WHERE id > 10'), qr/Parallel Index/, 'a parallel plan');
	is(value($on_standby, 'SELECT count(*) FROM zen_account WHERE id > 10'), 990, '... counts all rows');
	run_all($on_standby, 'COMMIT');
	cmp_ok(value($on_standby, 'SELECT trees FROM zen_stat_standby'), '>=', 1, 'trees are there');
	are_same('what a base backup has');
	return;
}

# Rows of transactions that have not ended, that come back, and that go on under another TID.
sub test_rows
{
	run_all($dbh, 'BEGIN', both('UPDATE AM_account SET balance = balance + 7 WHERE id < 50',
			q{INSERT INTO AM_item SELECT g, 3, 'open' FROM generate_series(600, 700) g}));
	caught_up();
	are_same('beside an open transaction');
	run_all($dbh, 'SAVEPOINT s', both('UPDATE AM_account SET balance = balance * 2',
			q{INSERT INTO AM_item SELECT g, 3, repeat('s', 300) FROM generate_series(1, 3000) g}), 'ROLLBACK TO s',
		both('UPDATE AM_account SET balance = -5 WHERE id = 5'), 'COMMIT');
	caught_up();
	are_same('it has committed');
	is(value($on_standby, 'SELECT id FROM zen_account WHERE balance = -5'), 5, '... and is found');
	run_all($dbh, 'BEGIN', both('UPDATE AM_account SET balance = 77777 WHERE id = 60'), q{PREPARE TRANSACTION 'p'});
	caught_up();
	are_same('a prepared transaction');
	is(value($on_standby, 'SELECT count(*) FROM zen_account WHERE balance = 77777'), 0, '... is not found');
	run_all($dbh, q{COMMIT PREPARED 'p'});
	caught_up();
	is(value($on_standby, 'SELECT id FROM zen_account WHERE balance = 77777'), 60, '... but when it has committed');
	run_all($dbh, 'BEGIN', both('UPDATE AM_account SET balance = balance + 1'), 'ROLLBACK', both('VACUUM AM_account'),
		both(q{UPDATE AM_note SET body = repeat('n', 3000 + id)}));
	caught_up();
	are_same('what was rolled back, and long values');
	return;
}

# A snapshot is held while rows go, and their TIDs come to have rows of other keys, and of the same.
sub test_reuse
{
	my $holder = connect_db($standby);
	run_all($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $query = q{SELECT count(*), sum(id), sum(balance), md5(string_agg(filler, ',' ORDER BY id)) FROM zen_account
		WHERE balance > -100000};
	read_by($holder, 'only');
	my $before = run_sql($holder, $query)->{rows}[0];
	my @later;
	my $again = 0;
	run_all($dbh, 'CREATE TABLE old (tid text)');
	for my $i (1 .. 8)
	{
		run_all($dbh, 'INSERT INTO old SELECT ctid FROM zen_account WHERE id BETWEEN 300 AND 900');
		my @changes = ('DELETE FROM AM_account WHERE id BETWEEN 300 AND 900', 'VACUUM AM_account',
			"INSERT INTO AM_account SELECT g, 1000 + $i, 'again' FROM generate_series(300, 900) g");
		run_apart(map { s/AM_/zen_/r } @changes);
		push @later, map { s/AM_/heap_/r } @changes;
		caught_up();
		is(value($on_standby, "SELECT count(*) FROM zen_account WHERE balance = 1000 + $i AND filler = 'again'"), 601,
			"rows come again, $i");
		$again += value($dbh, "SELECT count(*) FROM zen_account WHERE ctid::text IN (TABLE old) AND "
			  . "balance = 1000 + $i");
	}
	cmp_ok($again, '>', 0, 'TIDs are used again');
	is_deeply(run_sql($holder, $query)->{rows}[0], $before, 'a held snapshot shows what it has shown');
	is(value($holder, q{SELECT count(*) FROM zen_account WHERE filler = 'again'}), 0, '... and no row from later');
	run_all($holder, 'COMMIT');
	$holder->disconnect;
	run_all($dbh, @later);
	caught_up();
	are_same('a new one what is there');
	return;
}

# Rows come and go, and others get their TIDs, between two looks at a tree, or before it is made.  A held snapshot finds
# the first by their keys.
sub test_older_keys
{
	run_all($dbh, 'CREATE TABLE reused (id int, v int) USING zen', 'CREATE INDEX ON reused (id)',
		'CREATE INDEX ON reused (v)');
	caught_up();
	is(by_tree($on_standby, 'SELECT count(*) FROM reused WHERE id > 0'), 0, 'a tree without rows');
	run_all($dbh, 'INSERT INTO reused SELECT g, g FROM generate_series(1, 600) g',
		'CREATE TABLE tids AS SELECT ctid::text AS tid FROM reused');
	caught_up();
	my $holder = connect_db($standby);
	run_all($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1');
	my $again = 0;
	for my $i (1 .. 10)
	{
		run_apart('DELETE FROM reused', 'VACUUM reused',
			"INSERT INTO reused SELECT 1000 * $i + g, 1000 * $i + g FROM generate_series(1, 600) g");
		$again = value($dbh, 'SELECT count(*) FROM reused WHERE ctid::text IN (TABLE tids)');
		last if $again > 0;
	}
	cmp_ok($again, '>', 0, 'rows have their TIDs');
	caught_up();
	for my $key (qw(id v))
	{
		is(by_tree($holder, "SELECT count(*) FROM reused WHERE $key BETWEEN 1 AND 600"), 600, "older keys by $key");
		is(by_tree($on_standby, "SELECT count(*) FROM reused WHERE $key > 600"), 600, "... and new ones by $key");
	}
	$holder->disconnect;
	run_all($dbh, 'DROP TABLE reused, tids');
	return;
}

# While a reader enters what it was told, a transaction of which it has heard goes on under the next TIDs, and commits.
sub test_grown
{
	my ($writer, $holder, $reader) = (connect_db($primary), map { connect_db($standby) } 1 .. 2);
	run_all($dbh, 'CREATE TABLE grown (id int) USING zen', 'CREATE INDEX ON grown (waiting(id))');
	caught_up();
	my $query = 'SELECT count(*) FROM grown WHERE waiting(id) > 100';
	is(by_tree($on_standby, $query), 0, 'a tree by a function');
	run_all($dbh, 'INSERT INTO grown VALUES (7)');
	run_all($writer, 'SET zen.spill_threshold = 0', 'BEGIN', 'INSERT INTO grown SELECT generate_series(101, 200)');
	caught_up();
	run_all($holder, 'SELECT pg_advisory_lock(7)');
	run_all($reader, 'SET enable_seqscan = off');
	my $scan = start_statement($reader, $query);
	wait_for('the reader to wait', sub { lock_wait_pid($on_standby, $reader->{pg_pid}) });
	run_all($writer, 'INSERT INTO grown SELECT generate_series(201, 300)', 'COMMIT');
	caught_up();
	run_all($holder, 'SELECT pg_advisory_unlock(7)');
	finish_statement($scan);
	is(by_tree($on_standby, $query), 200, '... has what came while a reader entered rows');
	$_->disconnect for $writer, $holder, $reader;
	run_all($dbh, 'DROP TABLE grown');
	return;
}

sub test_ddl
{
	run_all($dbh, both('TRUNCATE AM_item', q{INSERT INTO AM_item SELECT g, g % 5, 'x' FROM generate_series(1, 300) g}));
	caught_up();
	are_same('TRUNCATE');
	run_all($dbh, 'REINDEX TABLE zen_account', 'REINDEX INDEX CONCURRENTLY zen_note_body', both('VACUUM FULL AM_item'),
		both('DROP INDEX AM_item_w', 'CREATE INDEX AM_item_w ON AM_item (w)'));
	caught_up();
	are_same('REINDEX, a rewrite, a new index');
	run_all($dbh, both('ALTER TABLE AM_item ALTER v TYPE bigint'));
	caught_up();
	are_same('another type');
	my $old = connect_db($standby);
	run_all($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM zen_account');
	run_all($dbh, 'UPDATE zen_account SET filler = upper(filler)', 'CREATE INDEX later ON zen_account (filler)');
	caught_up();
	run_sql($old, 'SET LOCAL enable_seqscan = off');
	like(plan_of($old, q{SELECT * FROM zen_account WHERE filler = 'X'}), qr/Seq Scan/,
		'an older snapshot does without a new index');
	$old->disconnect;
	run_all($dbh, 'UPDATE heap_account SET filler = upper(filler)', 'DROP INDEX later');
	caught_up();
	are_same('... which is dropped');
	wait_for('the trees of files that have gone to go',
		sub { value($on_standby, 'SELECT trees FROM zen_stat_standby') <= 9 });
	return;
}

# --- DDL beside readers (S4) --------------------------------------------------------

# Replay has a lock for which a reader waits, then waits for the reader, for ever if it must.  It looks for a deadlock,
# also when zen's records were replayed, whose stores are told of by a timer.
sub test_deadlock
{
	run_all($dbh, map { "CREATE TABLE dead$_ (id int) USING zen" } 1, 2);
	$primary->backup('deadlock');
	my $node = twin_standby($primary, 'deadlock', 'deadlock');
	set_conf($node, 'deadlock_timeout = 1s');    # the default: not sooner than the timer
	$node->start;
	run_all($dbh, 'INSERT INTO dead1 VALUES (1)');
	my $flushed = sub {
		value($dbh, q{SELECT pg_logical_emit_message(true, '', '')});
		$primary->wait_for_catchup($node, 'flush', value($dbh, 'SELECT pg_current_wal_flush_lsn()'));
	};
	$flushed->();
	my ($reader, $watch) = map { connect_db($node) } 1, 2;
	run_all($reader, q{SET deadlock_timeout = '10ms'}, 'SET log_lock_waits = on', 'BEGIN');
	wait_for('the row', sub { value($watch, 'SELECT count(*) FROM dead1') });
	value($reader, 'SELECT count(*) FROM dead1');
	my $locks = sub { return value($watch, "SELECT count(*) FROM pg_locks WHERE relation = '$_[0]'::regclass
		AND mode = 'AccessExclusiveLock' AND granted = $_[1]") };
	my $ddl = connect_db($primary);
	run_all($ddl, 'BEGIN', 'LOCK dead2 IN ACCESS EXCLUSIVE MODE');
	$flushed->();
	wait_for('the lock', sub { $locks->('dead2', 'true') });
	my $offset = log_size($node);
	my $waiting = start_statement($reader, 'SELECT count(*) FROM dead2');
	# it has looked for a deadlock, and found none
	wait_for('the reader', sub { log_since($node, $offset) =~ /still waiting for AccessShareLock/ });
	run_all($ddl, 'LOCK dead1 IN ACCESS EXCLUSIVE MODE');
	$flushed->();
	wait_for('replay', sub { $locks->('dead1', 'false') });
	my $ended = eval { wait_for('the deadlock', sub { $reader->pg_ready }, 20); 1 };
	is($ended ? finish_statement($waiting) : 'none', '40P01', 'replay finds a deadlock with a reader');
	run_all($ddl, 'COMMIT');
	$node->stop('immediate');
	$_->disconnect for $ddl;
	return;
}

use constant DDL_TABLES => map { "ddl$_" } 1 .. 4;
use constant STANDSTILL_S => 50;

sub new_table
{
	my ($table) = @_;
	return ("CREATE TABLE $table (id int PRIMARY KEY, v int, w text) USING zen",
		"INSERT INTO $table SELECT g, g % 10, repeat('d', g % 50) FROM generate_series(1, 300) g");
}

# ddl_task -- statements of the primary: rows, DDL, or a transaction of both.
sub ddl_task
{
	my $one = sub {
		my $t = pick(DDL_TABLES);
		return @{ pick([ "UPDATE $t SET v = v + 1 WHERE id % 5 = " . between(0, 4) ],
				[ "DELETE FROM $t WHERE id % 9 = " . between(0, 8) ],
				[ "INSERT INTO $t (id, v) SELECT g, 1 FROM generate_series(1, 300) g ON CONFLICT DO NOTHING" ],
				["TRUNCATE $t"], ["CREATE INDEX ${t}_v ON $t (v)"], ["DROP INDEX ${t}_v"], ["REINDEX TABLE $t"],
				["CLUSTER $t USING ${t}_pkey"], ["ALTER TABLE $t ADD x int DEFAULT 5"], ["ALTER TABLE $t DROP x"],
				[ "ALTER TABLE $t ALTER v TYPE " . pick('int', 'bigint') ],
				[ "DROP TABLE $t", new_table($t) ]) };
	};
	return ('BEGIN', (map { $one->() } 1 .. between(2, 4)), pick('COMMIT', 'COMMIT', 'ROLLBACK')) if one_in(3);
	my $t = pick(DDL_TABLES);
	return pick("VACUUM $t", "VACUUM FULL $t", "REINDEX TABLE CONCURRENTLY $t", "DROP INDEX CONCURRENTLY ${t}_v",
		"CREATE INDEX CONCURRENTLY ${t}_v ON $t (v)") if one_in(3);
	return $one->();
}

sub read_task
{
	my $one = sub {
		my ($t, $u) = (pick(DDL_TABLES), pick(DDL_TABLES));
		return pick("SELECT count(*), sum(v) FROM $t", "SELECT * FROM $t WHERE id = " . between(1, 300),
			"SELECT count(*) FROM $t a JOIN $u b USING (id) WHERE a.v = 1", "SELECT w FROM $t ORDER BY id LIMIT 20",
			"SELECT count(*) FROM $t, pg_sleep(0.05)");
	};
	return $one->() if one_in(2);
	return ('BEGIN ISOLATION LEVEL ' . pick('REPEATABLE READ', 'READ COMMITTED'), (map { $one->() } 1 .. between(2, 4)),
		'COMMIT');
}

# go_on -- a session whose statement has ended begins its next one.  Counts ends in $ends: 'done', or an SQLSTATE.
sub go_on
{
	my ($session, $ends) = @_;
	my $dbh = $session->{dbh};
	if ($session->{statement})
	{
		return if !$dbh->pg_ready;
		my $end = finish_statement($session->{statement});
		my $failed = $end =~ /^[0-9A-Z]{5}$/ && $end =~ /\d/;
		$ends->{ $failed ? $end : 'done' }++;
		push @{ $session->{said} }, "$end: " . $dbh->errstr if $failed;
		$session->{todo} = ['ROLLBACK'] if $failed && $session->{begun};
	}
	$session->{todo} = [ $session->{task}->() ] if !@{ $session->{todo} || [] };
	my $next = shift @{ $session->{todo} };
	$session->{begun} = 1 if $next =~ /^BEGIN/;
	$session->{begun} = 0 if $next =~ /^(COMMIT|ROLLBACK)/;
	# a handle that goes would wait for what its session does by then
	undef $session->{statement};
	$session->{statement} = start_statement($dbh, $next);
	return;
}

sub stop_session
{
	my ($session) = @_;
	finish_statement($session->{statement}) if $session->{statement};
	$session->{dbh}->disconnect;
	return;
}

# Replay waits without bound for readers, and they for its locks: it must go on all the same.  A mark is where the WAL
# is; when replay has come there, the next one is set.  If that takes long, DDL pauses, as each lock of it waits for
# readers.
#
# PostgreSQL misses a deadlock of replay and a reader if an alarm of an earlier timer comes within deadlock_timeout:
# each alarm begins its wait anew (ResolveRecoveryConflictWithLock).  lock_timeout ends that (55P03).
sub test_ddl_beside
{
	set_conf($standby, "max_standby_streaming_delay = -1\nhot_standby_feedback = on");
	$standby->reload;
	run_all($dbh, map { new_table($_) } DDL_TABLES);
	caught_up();
	my @ddl = map { { dbh => connect_db($primary), task => \&ddl_task } } 1 .. 2;
	my @readers = map { { dbh => connect_db($standby), task => \&read_task } } 1 .. 4;
	run_all($_->{dbh}, q{SET lock_timeout = '2s'}) for @readers;
	my ($begin, %changed, %read, $mark, @waited) = time;
	my ($place, $moved, $stood) = ('', time, 0);
	while (time < $begin + $ddl_s || $mark)
	{
		if (!$mark)
		{
			value($dbh, 'SELECT pg_current_wal_lsn()');    # flushes
			$mark = { lsn => value($dbh, 'SELECT pg_current_wal_insert_lsn()'), since => time };
		}
		for my $session (@ddl) { go_on($session, \%changed) if time < $mark->{since} + 2 }
		go_on($_, \%read) for @readers;
		my ($there, $is_at) = @{ run_sql($on_standby, "SELECT lsn >= '$mark->{lsn}', lsn FROM
			pg_last_wal_replay_lsn() AS lsn")->{rows}[0] };
		$moved = time if $is_at ne $place;
		$place = $is_at;
		$stood = time - $moved if time - $moved > $stood;
		last if time > $moved + STANDSTILL_S;
		if ($there)
		{
			push @waited, time - $mark->{since};
			$mark = undef;
			$moved = time;
		}
		sleep 0.005;    # the rate of statements
	}
	stop_session($_) for @readers, @ddl;
	my $times = @waited;
	@waited = sort { $a <=> $b } @waited ? @waited : 0;
	my $report = sprintf '%d times all is replayed, after %.2f s in the median, %.2f s at most, and %.2f s at most at '
	  . 'one place; DDL: %s; readers: %s', $times, $waited[ @waited / 2 ], $waited[-1], $stood,
	  map { my $ends = $_; join ', ', map { "$_ $ends->{$_}" } sort keys %$ends } \%changed, \%read;
	ok(!$mark, "replay goes on beside DDL and readers for which it waits: $report");
	note($report);
	cmp_ok($times, '>', $ddl_s / 8, '... and has replayed all again and again');
	my @said = map { @{ $_->{said} || [] } } @readers;
	is_deeply([ grep { /conflict with recovery/ } @said ], [], '... no reader is cancelled for it');
	my $done = delete $read{done};
	cmp_ok($done, '>', $ddl_s, '... they read');
	# The table or column has gone, is rewritten behind the snapshot, or deadlocks.  On a standby a reader also waits
	# for an index that goes: "could not open relation", of heap, too.
	delete @read{qw(42P01 42703 40001 40P01 55P03 XX000)};
	is(join(' ', %read), '', '... with errors of DDL only');
	is_deeply([ grep { /^XX000/ && !/could not open relation with OID/ } @said ], [], '... that are known');
	caught_up();
	for my $table (DDL_TABLES)
	{
		my $query = "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM $table t";
		is(value($on_standby, $query) // '', value($dbh, $query) // '', "... and $table is as on the primary");
	}
	run_all($dbh, 'DROP TABLE ' . join ', ', DDL_TABLES);
	reload_conf($standby, 'hot_standby_feedback = off');
	caught_up();
	return;
}

# The tree of an index that is dropped goes with its file, and no other one does.
sub test_files
{
	run_all($dbh, 'CREATE TABLE lone (id int, v int) USING zen',
		'INSERT INTO lone SELECT g, g FROM generate_series(1, 100) g', 'CREATE INDEX lone_id ON lone (id)',
		'CREATE INDEX lone_v ON lone USING zentree (v)');
	caught_up();
	is(by_tree($on_standby, "SELECT count(*) FROM lone WHERE $_ > 50"), 50, "a tree by $_") for qw(id v);
	my $lost = trees('trees_lost');
	run_all($dbh, 'DROP INDEX lone_id');
	caught_up();
	# of a table the newest is looked at first
	wait_for('the tree of a file that has gone to go', sub { trees('trees_lost') > $lost });
	is(trees('trees_lost') - $lost, 1, 'a tree goes with its file, and others stay');
	return;
}

# While an index is dropped CONCURRENTLY, rows change in its columns under their TIDs.
sub test_dropped
{
	my ($reader, $dropper, @open) = (connect_db($standby), map { connect_db($primary) } 1 .. 3);
	run_all($dbh, 'CREATE INDEX lone_id ON lone (id)');
	caught_up();
	# its locks are held, so a statement hears nothing of the drop
	run_all($reader, 'SET enable_seqscan = off', 'PREPARE p AS SELECT count(*) FROM lone WHERE id = -7', 'BEGIN');
	is(value($reader, 'EXECUTE p'), 0, 'before the index is dropped') for 1 .. 2;
	run_all($open[0], 'BEGIN', 'SELECT count(*) FROM lone');
	my $drop = start_statement($dropper, 'DROP INDEX CONCURRENTLY lone_id');
	wait_for('the drop to wait', sub { lock_wait_pid($dbh, $dropper->{pg_pid}) });
	run_all($open[1], 'BEGIN', 'SELECT count(*) FROM lone');
	run_all($open[0], 'COMMIT');
	wait_for('the index to be dead', sub { value($dbh, q{SELECT NOT indislive FROM pg_index
		WHERE indexrelid = 'lone_id'::regclass}) });
	run_all($dbh, 'UPDATE lone SET id = -7 WHERE id = 7');
	caught_up();
	is(state_of($reader, 'EXECUTE p'), '40001', 'a plan from before finds that its index is being dropped');
	$reader->disconnect;
	run_all($open[1], 'COMMIT');
	is(finish_statement($drop), 'DROP INDEX', '... which ends');
	$_->disconnect for $dropper, @open;
	run_all($dbh, 'DROP TABLE lone');
	return;
}

# A function of an index runs as the table's owner: when the tree is made, when it gets rows, and when one is looked at.
sub test_owner
{
	run_all($dbh, 'CREATE ROLE keeper', q{CREATE FUNCTION named(int) RETURNS text LANGUAGE plpgsql IMMUTABLE
			AS $$BEGIN RETURN current_user || $1; END$$},
		'CREATE TABLE kept (id int, v int) USING zen', 'INSERT INTO kept SELECT g FROM generate_series(1, 100) g',
		'ALTER TABLE kept OWNER TO keeper', 'CREATE INDEX ON kept (named(id))');
	caught_up();
	my $holder = connect_db($standby);
	run_all($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1');
	run_all($dbh, 'UPDATE kept SET v = 1 WHERE id = 8');
	caught_up();
	my $query = 'SELECT id FROM kept WHERE named(id) =';
	# the executor would check the condition of a bitmap again, as the reader
	run_all($on_standby, 'SET enable_bitmapscan = off');
	is(by_tree($on_standby, "$query 'keeper7'"), 7, 'an index knows what the owner of its table has made');
	is(by_tree($on_standby, "$query 'keeper8'"), 8, '... also of a row that is looked at');
	run_all($dbh, 'INSERT INTO kept VALUES (101)');
	caught_up();
	is(by_tree($on_standby, "$query 'keeper101'"), 101, '... and of one that comes later');
	run_all($on_standby, 'RESET enable_bitmapscan');
	$holder->disconnect;
	run_all($dbh, 'DROP TABLE kept');
	return;
}

# DRAM is full of trees: redo gets it back, and plans do without.
sub test_full
{
	my $trees = value($on_standby, 'SELECT trees_lost FROM zen_stat_standby');
	run_all($dbh, 'CREATE TABLE large (id int, a text, b text) USING zen',
		q{INSERT INTO large SELECT g, repeat('a', 100) || g, repeat('b', 100) || g FROM generate_series(1, 200000) g},
		'CREATE INDEX ON large (a, b)', 'CREATE INDEX ON large (b, a)', 'CREATE INDEX ON large (a) INCLUDE (b)',
		'ANALYZE large');
	caught_up();
	my @states = map { state_of($on_standby, "SELECT count(*) FROM large WHERE $_") } q{a > 'a'}, q{b > 'b'},
	  q{(a, b) > ('a', 'b')};
	is(value($on_standby, 'SELECT count(*) FROM large'), 200000, "a table with large indexes (@states)");
	run_all($dbh, 'UPDATE large SET id = id + 1', 'DROP TABLE large');
	caught_up();
	is(value($on_standby, 'SELECT state FROM zen_stat_standby'), 'live', '... leaves redo its memory');
	return;
}

# The primary has crashed, and logs again what its WAL has lost: the maps are made anew, and so are trees.
sub test_tail
{
	return if by_wal($primary);    # what the WAL has lost is lost
	my $query = 'SELECT count(*) FROM zen_account WHERE id = 90001';
	is(by_tree($on_standby, $query), 0, 'a tree from before a crash of the primary');
	my $offset = log_size($standby);
	stop_wal_writer($dbh);
	run_all($dbh, 'INSERT INTO zen_account VALUES (90001, 1)');
	$dbh = crash_restart($primary);
	wait_recovered($dbh);
	run_all($dbh, 'INSERT INTO heap_account VALUES (90001, 1)');
	caught_up();
	is(by_tree($on_standby, $query), 1, '... lacks a row that comes with it, and goes');
	like(log_since($standby, $offset), qr/the primary server has crashed/, '... with the maps');
	return;
}

sub test_load
{
	my ($round) = @_;
	load_beside($primary, $standby, "round $round", $load_s,
		compare => sub { differences($_[0], 1) }, hold => $ENV{HOLD_S},
		ddl => [ 'REINDEX TABLE zen_item', 'REINDEX INDEX zen_account_balance',
			'DROP INDEX zen_item_w; CREATE INDEX zen_item_w ON zen_item (w)' ]);
	caught_up();
	are_same('... and equal at rest');
	return;
}

sub test_kill
{
	my ($round) = @_;
	my $victim = qw(standby primary walreceiver) [ ($round + $seed) % 3 ];
	kill_beside($primary, $standby, $victim);
	$dbh = connect_db($primary);
	wait_recovered($dbh);
	$on_standby = connect_db($standby);
	run_sql($dbh, "ROLLBACK PREPARED '$_->[0]'") for @{ run_sql($dbh, 'SELECT gid FROM pg_prepared_xacts')->{rows} };
	caught_up();
	are_same("the $victim was killed, $round");
	return;
}

# Prepare a bitmap scan, which on some servers comes to its index before it comes to the table.  The index is built
# behind one that waits for the connection that is returned.
sub plan_before_rebuild
{
	run_all($dbh, 'CREATE TABLE late (id int) USING zen', 'INSERT INTO late SELECT generate_series(1, 100)',
		'CREATE INDEX ON late (waiting(id))', 'CREATE INDEX late_id ON late (id)');
	caught_up();
	run_all($on_standby, 'BEGIN');
	read_by($on_standby, 'bitmap');
	run_all($on_standby, 'PREPARE b AS SELECT count(*) FROM late WHERE id > -1');
	is(value($on_standby, 'EXECUTE b'), 100, 'a bitmap');
	run_all($on_standby, 'COMMIT');
	my $holder = connect_db($standby);
	run_all($holder, 'SELECT pg_advisory_lock(7)');
	return $holder;
}

# A transaction that reads by a tree ends, and nothing of trees is left.
sub test_promotion
{
	my $reader = connect_db($standby);
	run_all($reader, 'BEGIN', 'SET LOCAL enable_seqscan = off',
		'DECLARE c CURSOR FOR SELECT id FROM zen_account ORDER BY id', 'FETCH 5 FROM c');
	run_all($on_standby, 'PREPARE q (int) AS SELECT count(*) FROM zen_account WHERE id = $1');
	value($on_standby, "EXECUTE q ($_)") for 1 .. 7;
	my $holder = plan_before_rebuild();
	are_same('before the promotion');
	$standby->promote;
	my $execute = start_statement($on_standby, 'EXECUTE b');
	wait_for('a rebuild to wait', sub { value($holder, q{SELECT count(*) FROM pg_locks
		WHERE locktype = 'advisory' AND NOT granted}) });
	run_all($holder, 'SELECT pg_advisory_unlock(7)');
	is(finish_query($execute), 100, 'a plan from before it, by a bitmap');
	$holder->disconnect;
	my $promoted = wait_promoted($standby);
	isnt(state_of($reader, 'FETCH 5 FROM c'), '', 'a reader has ended');
	$reader->disconnect;
	is(value($on_standby, 'EXECUTE q (3)'), 1, '... and by an index');
	run_all($on_standby, 'INSERT INTO zen_account VALUES (99999, 1)', 'INSERT INTO heap_account VALUES (99999, 1)');
	is(value($on_standby, 'EXECUTE q (99999)'), 1, '... finds a new row');
	are_same('all indexes are there');
	wait_for('the trees to be gone',
		sub { value($promoted, 'SELECT trees = 0 AND tree_bytes = 0 FROM zen_stat_standby') });
	$promoted->disconnect;
	return;
}
