# After a crash, a restart or an awkward load: bugs that were there once.  Each sub
# says what went wrong.  ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;
use File::Spec;
use FindBin;
use lib "$FindBin::RealBin/lib";
use DBD::Pg qw(:async);
use IPC::Run ();
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;
skip_unless_zen();
my $node = new_node('after_crash', fsync => 1,
	conf => "restart_after_crash = on\nshared_buffers = 64MB\nwal_writer_delay = 10s\nmax_wal_size = 1GB");
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_sequence();
test_sequence_waited_for();
test_carried_numbers();
test_number_of_others();
test_async_ddl();
test_rolled_back_index();
set_conf("fsync = off\nwal_writer_delay = 200ms");
$_->() for (
	\&test_cancelled_commit, \&test_prepared_ddl, \&test_moved_and_emptied, \&test_prepared_moves, \&test_first_statement,
	\&test_moved_row_locks, \&test_rebuild_terminated, \&test_unbuildable_index, \&test_lost_backend, \&test_large_update, \&test_frozen_not_evicted,
	\&test_sound,
	\&test_many_loads, \&test_base_backup, \&test_sound, \&test_unknown_tables);
$node->stop;
done_testing();

sub test_sound { is_sound($dbh, 'so far'); return; }
sub reconnect { $dbh = connect_db($node); return; }
sub clean_restart { $dbh->disconnect; $node->restart; reconnect(); return; }
sub crash_restart { crash($node); start_again($node); reconnect(); return; }
sub set_conf { $node->append_conf('postgresql.conf', $_[0]); return; }
sub run_all { my ($handle, @sql) = @_; value($handle, $_) for @sql; return; }

# same_by_index -- the table has this checksum, by sequential scan and by primary key.
sub same_by_index
{
	my ($table, $sum, $when) = @_;
	is(eval { contents($dbh, $table) } // $@, $sum, "$when: table");
	is(eval { contents($dbh, $table, 'indexscan', 'id > 0') } // $@, $sum, "$when: by index");
}

# make_table -- $rows rows, an index on k, none on n and v.
sub make_table
{
	my ($table, $rows) = @_;
	run_all($dbh,
		"CREATE TABLE $table (id int PRIMARY KEY, k int, n int DEFAULT 0, v int DEFAULT 0) USING zen",
		"CREATE INDEX ${table}_k ON $table (k)",
		"INSERT INTO $table SELECT g, g % 1000 FROM generate_series(1, $rows) g");
	return contents($dbh, $table);
}

# stop_wal_writer -- until the next crash nobody flushes the WAL unasked.
sub stop_wal_writer
{
	my $pid = value($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'});
	kill 'STOP', $pid;
	wait_for('the WAL writer to stop',
		sub { PostgreSQL::Test::Utils::slurp_file("/proc/$pid/stat") =~ /\) T / });
}

# The files of an index that was built and rolled back were removed, but an empty one
# stays until the next checkpoint; when the WAL that reached the disk ended before the
# abort, the server did not start: "could not create file: File exists".
sub test_rolled_back_index
{
	make_table('rb', 100);
	my @cases = (
		[ 'CREATE INDEX', 'BEGIN', 'CREATE INDEX ON rb (v)', undef, 'ROLLBACK' ],
		[ 'REINDEX', 'BEGIN', 'REINDEX TABLE rb', undef, 'ROLLBACK' ],
		[ 'a savepoint', 'BEGIN', 'SAVEPOINT a', 'TRUNCATE rb', undef, 'ROLLBACK TO a' ]);
	for my $case (@cases)
	{
		my ($what, @sql) = @$case;
		run_all($dbh, 'CHECKPOINT');
		stop_wal_writer();
		my $other = connect_db($node);
		value($_ ? $dbh : $other, $_ // 'CREATE TABLE flush' . between(1, 1e9) . ' ()') for @sql;
		crash_restart();
		is(value($dbh, 'SELECT count(*) FROM rb WHERE id > 0'), 100, "$what rolled back, crash: the server starts");
	}
}

# nextval() logs 32 values ahead; if that was in a transaction that was rolled back,
# later ones committed in NVM without a flush of that record, and a crash handed their
# values out again.
sub test_sequence
{
	# Twice, so that the catalogs are pruned and that an insertion writes no WAL.
	my $mixed = 'SELECT commits_mixed FROM zen_stat()';
	run_all($dbh, 'CREATE TABLE s (id serial PRIMARY KEY, v text) USING zen',
		(q{INSERT INTO s (v) VALUES ('x')}) x 2, 'CHECKPOINT');
	stop_wal_writer();
	run_all($dbh, 'BEGIN', q{SELECT nextval('s_id_seq')}, 'ROLLBACK');
	my $before = value($dbh, $mixed);
	run_all($dbh, q{INSERT INTO s (v) VALUES ('a')}, q{INSERT INTO s (v) VALUES ('b')});
	is(value($dbh, $mixed), $before, 'sequence: nothing else has flushed the WAL');
	crash_restart();
	is(value($dbh, 'SELECT count(*) FROM s'), 4, 'sequence: rows are there');
	my $max = value($dbh, 'SELECT max(id) FROM s');
	cmp_ok(value($dbh, q{SELECT nextval('s_id_seq')}), '>', $max, 'sequence: no value comes twice');
	is(state_of($dbh, q{INSERT INTO s (v) VALUES ('c')}), '', 'sequence: insert');
}

# The same when the lock by which a sequence's use is told has left its fast path, because somebody waits for a stronger one.
sub test_sequence_waited_for
{
	my $mixed = 'SELECT commits_mixed FROM zen_stat()';
	run_all($dbh, 'CREATE TABLE sw (id serial PRIMARY KEY, v text) USING zen', (q{INSERT INTO sw (v) VALUES ('x')}) x 2, 'CHECKPOINT');
	stop_wal_writer();
	my $other = connect_db($node);
	my $before = value($dbh, $mixed);
	run_all($dbh, 'BEGIN', q{SELECT nextval('sw_id_seq')}, 'ROLLBACK', 'BEGIN', q{INSERT INTO sw (v) VALUES ('a')});
	$other->do('BEGIN');
	$other->do('ALTER SEQUENCE sw_id_seq CACHE 1', { pg_async => PG_ASYNC });
	wait_for('the lock', sub { lock_wait_pid($dbh, $other->{pg_pid}) });
	run_all($dbh, 'COMMIT');
	is(value($dbh, $mixed), $before, 'sequence waited for: nothing else has flushed the WAL');
	crash_restart();
	my $max = value($dbh, 'SELECT max(id) FROM sw');
	cmp_ok(value($dbh, q{SELECT nextval('sw_id_seq')}), '>', $max, 'sequence waited for: no value comes twice');
}

# Numbers go from the transactions that take them to another session's zen-only commit.  T0 writes nextval()'s WAL record, and
# stays open; nothing flushed it, as T0 had not ended, and T1, which takes the next number, had written no WAL.
sub carry
{
	my ($name, $t0, $take) = @_;
	run_all($dbh, "CREATE SEQUENCE q_$name", 'CHECKPOINT');
	run_all($t0, 'BEGIN', "SELECT nextval('q_$name')");
	my $record = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	my $number = $take->("q_$name");
	like($number, qr/^\d+$/, "$name: a number");
	cmp_ok(value($dbh, "SELECT pg_current_wal_flush_lsn() < '$record'"), 'eq', '1', "$name: the record is not on disk");
	my $mixed = value($dbh, 'SELECT commits_mixed FROM zen_stat()');
	run_all($dbh, "INSERT INTO carried VALUES ($number)");
	is(value($dbh, 'SELECT commits_mixed FROM zen_stat()'), $mixed, "$name: nothing else has flushed the WAL");
	cmp_ok(value($dbh, "SELECT pg_current_wal_flush_lsn() >= '$record'"), 'eq', '1', "$name: now it is");
	return;
}

sub test_carried_numbers
{
	run_all($dbh, 'CREATE TABLE carried (n bigint) USING zen', 'INSERT INTO carried VALUES (0)');
	stop_wal_writer();
	my ($t0, $t1) = map { connect_db($node) } 1 .. 2;
	my $next = sub { value($t1, "SELECT nextval('$_[0]')") };
	my $in   = sub { my ($begin, $end) = @_; return sub { value($t1, $begin); my $n = $next->(@_); value($t1, $end) if $end; return $n; } };
	my %take = (
		ended       => $next,
		rolled_back => $in->('BEGIN', 'ROLLBACK'),
		still_open  => $in->('BEGIN'),
		second      => sub { $next->(@_); $next->(@_) },
		error       => sub { $t1->do("DO \$\$ BEGIN RAISE 'number %', nextval('$_[0]'); END \$\$"); ($t1->errstr =~ /number (\d+)/)[0] },
		copied      => sub { value($t1, 'BEGIN'); $t1->do("COPY (SELECT nextval('$_[0]')) TO STDOUT"); my $n = '';
			$t1->pg_getcopydata($n); chomp $n; my $rest; 1 while $t1->pg_getcopydata($rest) >= 0; $n },
		own         => sub { value($t0, "SELECT currval('$_[0]')") });
	for my $name (sort keys %take)
	{
		carry($name, $t0, $take{$name});
		$_->do('ROLLBACK') for $t0, $t1;
	}
	$_->disconnect for $t0, $t1;
	crash_restart();
	return;
}

# The same, seen by what it must not come to.
sub test_number_of_others
{
	run_all($dbh, 'CREATE SEQUENCE handed_out START 1000', 'CHECKPOINT');
	stop_wal_writer();
	my ($t0, $t1) = map { connect_db($node) } 1 .. 2;
	run_all($t0, 'BEGIN', q{SELECT nextval('handed_out')});
	my $number = value($t1, q{SELECT nextval('handed_out')});
	run_all($dbh, "INSERT INTO carried VALUES ($number)");
	crash_restart();
	is(value($dbh, "SELECT count(*) FROM carried WHERE n = $number"), 1, 'number of others: the row is there');
	cmp_ok(value($dbh, q{SELECT nextval('handed_out')}), '>', $number, 'number of others: it does not come again');
	return;
}

# With synchronous_commit off the catalog must not lose what rows already written depend on.
sub test_async_ddl
{
	run_all($dbh, 'CREATE TABLE ad (a int) USING zen', 'INSERT INTO ad VALUES (0)', (map { ("ALTER TABLE ad ADD COLUMN x$_ int", "ALTER TABLE ad DROP COLUMN x$_",
		'INSERT INTO ad VALUES (0)') } 1 .. 3), 'VACUUM pg_attribute', 'VACUUM pg_class', 'CHECKPOINT');
	stop_wal_writer();
	my $mixed = 'SELECT commits_mixed FROM zen_stat()';
	run_all($dbh, 'SET synchronous_commit = off', 'ALTER TABLE ad ADD COLUMN b int');
	my $before = value($dbh, $mixed);
	run_all($dbh, 'INSERT INTO ad VALUES (1, 42)');
	is(value($dbh, $mixed), $before, 'asynchronous DDL: nothing else has flushed the WAL');
	crash_restart();
	is(eval { value($dbh, 'SELECT sum(b) FROM ad') }, 42, 'asynchronous DDL: the column of a row that is there is there');
}

# A table that only the pool knows, or only the catalog: both are said, nothing is guessed.
sub test_unknown_tables
{
	run_all($dbh, map { ("CREATE TABLE $_ (id int) USING zen", "INSERT INTO $_ VALUES (1)") } 'only_pool', 'only_catalog', 'in_both');
	my ($pool_number, $catalog_number) = map { value($dbh, "SELECT pg_relation_filenode('$_')") } 'only_pool', 'only_catalog';
	run_all($dbh, 'SET allow_system_table_mods = on', q{DELETE FROM pg_class WHERE relname = 'only_pool'}, 'RESET allow_system_table_mods');
	$dbh->disconnect;
	$node->stop;
	forget_htable($catalog_number);
	$node->start;
	my $from = log_size($node);
	reconnect();
	my $result = run_sql($dbh, 'SELECT * FROM only_catalog');
	is($result->{state}, 'XX001', 'table that the pool does not know: SQLSTATE');
	like($result->{message}, qr/pool does not know table "only_catalog".*HINT:.*same moment/s, 'table that the pool does not know: hint');
	is(state_of($dbh, 'INSERT INTO only_catalog VALUES (2)'), 'XX001', 'table that the pool does not know: no row goes there');
	is(value($dbh, 'SELECT id FROM in_both'), 1, 'table that the pool does not know: others are readable');
	is(state_of($dbh, 'DROP TABLE only_catalog'), '', 'table that the pool does not know: it can be dropped');
	crash_restart();
	my $said = qr/WARNING: .*catalog does not know.*relfilenode $pool_number /s;
	wait_for('the report', sub { log_since($node, $from) =~ $said });
	is(() = log_since($node, $from) =~ /catalog does not know/g, 1, 'table that the catalog does not know: one is reported, once');
}

# forget_htable -- make the entry of a table in the HTable directory free (src/nvm/layout.h).
sub forget_htable
{
	my ($number) = @_;
	open(my $fh, '+<:raw', pool_path($node)) or die "pool: $!";
	for my $i (1 .. 32767)
	{
		my $at = 2 * 1024 * 1024 + 128 * $i;
		seek $fh, $at, 0;
		read $fh, my $entry, 48;
		next unless (unpack 'L3', $entry)[2] == $number && (unpack 'Q6', $entry)[5];
		seek $fh, $at + 40, 0;
		print $fh pack 'Q', 0;
		close $fh;
		return;
	}
	die "no entry for $number";
}

# Who sends a notification waits in the middle of his commit for others who do, and they
# may wait for a standby: on zen nothing could end that, and no shutdown either.
sub test_cancelled_commit
{
	my $sync = new_node('sync', pool_size => '64MB', dram_size => '64MB', init => { allows_streaming => 1 });
	$sync->start;
	my $handle = connect_db($sync);
	run_all($handle, 'CREATE EXTENSION zen', 'CREATE TABLE n (id int) USING zen', 'CREATE TABLE n_h (id int) USING heap');
	run_all($handle, q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'}, 'SELECT pg_reload_conf()');
	my $holder = connect_db($sync);
	wait_for('the setting', sub { value($holder, 'SHOW synchronous_standby_names') eq 'nobody' });
	run_all($holder, 'BEGIN', 'NOTIFY a', 'INSERT INTO n_h VALUES (0)');
	my $held = start_statement($holder, 'COMMIT');
	wait_for('the holder', sub { value($handle, "SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = $holder->{pg_pid}") });
	for my $case (
		[ 'zen-only', 'cancel', '57014', 'INSERT INTO n VALUES (1)' ],
		[ 'zen-only', 'terminate', '08000', 'INSERT INTO n VALUES (2)' ],
		[ 'mixed', 'cancel', '57014', 'INSERT INTO n VALUES (3)', 'INSERT INTO n_h VALUES (3)' ],
		[ 'mixed', 'terminate', '08000', 'INSERT INTO n VALUES (4)', 'INSERT INTO n_h VALUES (4)' ])
	{
		my ($kind, $how, $state, @sql) = @$case;
		my $who = connect_db($sync);
		run_all($who, 'BEGIN', @sql, 'NOTIFY a');
		my $commit = start_statement($who, 'COMMIT');
		wait_for('the lock', sub { lock_wait_pid($handle, $who->{pg_pid}) });
		value($handle, "SELECT pg_${how}_backend($who->{pg_pid})");
		my $got = eval { finish_statement($commit) } // $@;
		is($got, $state, "$kind commit, $how while it waits: SQLSTATE");
		$who->disconnect;
		BAIL_OUT('a commit that cannot be ended') if $got =~ /timed out/;
		is(value($handle, 'SELECT count(*) FROM n'), 0, "$kind commit, $how while it waits: nothing happened");
	}
	run_all($handle, q{ALTER SYSTEM RESET synchronous_standby_names}, 'SELECT pg_reload_conf()');
	is(finish_statement($held), 'COMMIT', 'cancelled commit: the holder goes on');
	run_all($handle, 'INSERT INTO n VALUES (5)');
	crash($sync);
	start_again($sync);
	$handle = connect_db($sync);
	is(value($handle, 'SELECT string_agg(id::text, $$ $$) FROM n'), '5', 'cancelled commit: nothing comes back');
	$sync->stop;
}

# A prepared transaction that had changed no row left nothing in the pool: over a
# restart its end did not reach the table's directory entry, and the table was lost.
sub test_prepared_ddl
{
	my $dir = File::Spec->rel2abs(PostgreSQL::Test::Utils::tempdir());
	my %sum = map { $_ => make_table($_, 2000) } qw(m d);
	run_all($dbh, "CREATE TABLESPACE ts LOCATION '$dir'",
		'BEGIN', 'ALTER TABLE m SET TABLESPACE ts', q{PREPARE TRANSACTION 'm'},
		'BEGIN', 'DROP TABLE d', q{PREPARE TRANSACTION 'd'});
	clean_restart();
	is(state_of($dbh, q{COMMIT PREPARED 'm'}), '', 'prepared SET TABLESPACE: commit');
	is(state_of($dbh, q{ROLLBACK PREPARED 'd'}), '', 'prepared DROP TABLE: rollback');
	same_by_index($_, $sum{$_}, "prepared DDL on $_, restart") for qw(m d);
	clean_restart();
	same_by_index($_, $sum{$_}, "prepared DDL on $_, two restarts") for qw(m d);

	run_all($dbh, 'BEGIN');
	$sum{c} = make_table('c', 2000);
	run_all($dbh, q{PREPARE TRANSACTION 'c'});
	crash_restart();
	is(state_of($dbh, q{COMMIT PREPARED 'c'}), '', 'prepared CREATE TABLE: commit after a crash');
	same_by_index('c', $sum{c}, 'prepared CREATE TABLE');
	crash_restart();
	same_by_index($_, $sum{$_}, "prepared DDL on $_, another crash") for qw(m d c);
}

# A table that one transaction moves and empties: its entry in the directory moves, is to be destroyed, and has a
# successor, in either order.
sub test_moved_and_emptied
{
	my @orders = (
		[ 'ALTER TABLE %s SET TABLESPACE ts', 'TRUNCATE %s', 'INSERT INTO %s VALUES (5)' ],
		[ 'TRUNCATE %s', 'INSERT INTO %s VALUES (5)', 'ALTER TABLE %s SET TABLESPACE ts' ]);
	my @ends = (
		[ 'COMMIT' ], [ 'ROLLBACK' ], [ 'nothing' ], [ 'PREPARE', 'COMMIT PREPARED' ], [ 'PREPARE', 'ROLLBACK PREPARED' ]);
	my @cases = map { my $order = $_; map { [ $order, @$_ ] } @ends } @orders;
	my @sums  = map { make_table("me$_", 500) } 0 .. $#cases;
	run_all($dbh, 'CREATE TABLE one (LIKE me0 INCLUDING DEFAULTS) USING zen', 'INSERT INTO one VALUES (5)');
	my $new = contents($dbh, 'one');

	my @open;
	for my $i (0 .. $#cases)
	{
		my ($order, $end) = @{ $cases[$i] };
		my $handle = connect_db($node);
		run_all($handle, 'BEGIN', map { sprintf $_, "me$i" } @$order);
		run_all($handle, $end eq 'PREPARE' ? "PREPARE TRANSACTION 'me$i'" : $end) if $end ne 'nothing';
		same_by_index("me$i", $end eq 'COMMIT' ? $new : $sums[$i], "moved and emptied ($i), $end") if $end =~ /^(COMMIT|ROLLBACK)$/;
		push @open, $handle;
	}
	crash_restart();
	for my $i (0 .. $#cases)
	{
		my $last = $cases[$i][-1];
		is(state_of($dbh, "$last 'me$i'"), '', "moved and emptied ($i): $last after a crash") if $last =~ / PREPARED/;
		same_by_index("me$i", $last =~ /^COMMIT/ ? $new : $sums[$i], "moved and emptied ($i), crash, $last");
	}
	crash_restart();
	for my $i (0 .. $#cases)
	{
		same_by_index("me$i", $cases[$i][-1] =~ /^COMMIT/ ? $new : $sums[$i], "moved and emptied ($i), $cases[$i][-1], another crash");
		is(state_of($dbh, "INSERT INTO me$i VALUES (1000)"), '', "moved and emptied ($i): a new row");
		run_all($dbh, "DROP TABLE me$i");
	}
	return;
}

# start_statement -- send a statement and do not wait; finish_statement gives its command tag or
# SQLSTATE.
sub start_statement
{
	my ($handle, $sql) = @_;
	my $sth = $handle->prepare($sql, { pg_direct => 1, pg_async => PG_ASYNC });
	$sth->execute;
	return [ $handle, $sth ];
}

sub finish_statement
{
	my ($handle, $sth) = @{ $_[0] };
	wait_for('a statement', sub { $handle->pg_ready });
	return defined $handle->pg_result ? $sth->{pg_cmd_status} : $handle->state;
}

# A prepared transaction that had moved a row to another TID, or to another partition, came
# back from a crash as one that had deleted it: who had waited for it found no row.
sub test_prepared_moves
{
	# [ what, statements to prepare, tag after commit, n and k after commit ]
	my @cases = (
		[ 'moved',   ['UPDATE %s SET k = k + 100 WHERE id = 1'], 'UPDATE 1', '1 101' ],
		[ 'moved twice', [ ('UPDATE %s SET k = k + 100 WHERE id = 1') x 2 ], 'UPDATE 1', '1 201' ],
		[ 'changed, moved, changed, moved',
			[ map { "UPDATE %s SET $_ WHERE id = 1" } 'v = 1', 'k = k + 100', 'v = 2', 'k = k + 100', 'v = 3' ], 'UPDATE 1', '1 201' ],
		[ 'moved and deleted', [ 'UPDATE %s SET k = k + 100 WHERE id = 1', 'DELETE FROM %s WHERE id = 1' ], 'UPDATE 0', undef ],
		[ 'moved back to a savepoint',
			[ 'UPDATE %s SET k = k + 100 WHERE id = 1', 'SAVEPOINT a', 'UPDATE %s SET k = k + 100 WHERE id = 1', 'ROLLBACK TO a' ], 'UPDATE 1', '1 101' ],
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
		crash_restart();
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

# Commands that give an index new files came before the rebuild of the old ones: they
# failed, or left indexes without rows.  The launcher of logical replication has the one
# worker process, so that nobody recovers or rebuilds in the background.
sub test_first_statement
{
	my @first = (
		[ 'REINDEX TABLE %s' ], [ 'REINDEX INDEX %s_k' ], [ 'REINDEX INDEX %s_pkey' ],
		[ 'CREATE INDEX ON %s (v)' ], [ 'DROP INDEX %s_k' ], [ 'TRUNCATE %s' ],
		[ 'BEGIN', 'TRUNCATE %s', 'ROLLBACK' ], [ 'BEGIN', 'REINDEX TABLE %s', 'ROLLBACK' ]);
	my @sums = map { make_table("f$_", 3000) } 0 .. $#first;
	set_conf('max_worker_processes = 1');
	clean_restart();
	for my $i (0 .. $#first)
	{
		run_all($dbh, 'UPDATE f0 SET v = 0 WHERE id = 1');
		crash_restart();
		is(value($dbh, 'SELECT state FROM zen_recovery()'), 'waiting', 'first statement: nobody has rebuilt anything');
		my @sql = map { sprintf($_, "f$i") } @{ $first[$i] };
		my $all = join('; ', @sql);
		is(run_sql($dbh, $_)->{message}, '', "first statement after a crash: $_ ($all)") for @sql;
		same_by_index("f$i", $all =~ /^TRUNCATE/ ? '0 ' : $sums[$i], $all);
		is(state_of($dbh, "INSERT INTO f$i VALUES (7)"), $all =~ /^TRUNCATE/ ? '' : '23505', "$all: primary key");
		is(contents($dbh, "f$i", 'bitmapscan', 'k = 77'), contents($dbh, "f$i", 'seqscan', 'k = 77'), "$all: k")
		  unless $all =~ /DROP/;
	}
	set_conf('max_worker_processes = 8');
	clean_restart();
}

# Such locks were kept under the TID that the row had when it was locked: a row that
# moved was free after a crash, and its children became orphans.  So was one that an older
# transaction had moved and whose old TID was collected before the PREPARE.
sub test_moved_row_locks
{
	make_table('parent', 10);
	run_all($dbh, 'CREATE TABLE child (pid int REFERENCES parent) USING zen');
	my $other = connect_db($node);
	run_all($other, 'BEGIN', 'SELECT pg_current_xact_id()');
	run_all($dbh, 'BEGIN', 'INSERT INTO child VALUES (1), (2), (4)');
	run_all($other, 'UPDATE parent SET k = k + 100 WHERE id = 4', 'COMMIT');
	wait_for('the collection of what the update has left', sub { value($other, 'SELECT garbage_pending FROM zen_stat()') == 0 });
	my $tid = value($other, 'SELECT ctid FROM parent WHERE id = 1');
	run_all($other, 'UPDATE parent SET k = k + 100 WHERE id = 1');
	isnt(value($other, 'SELECT ctid FROM parent WHERE id = 1'), $tid, 'row locks: the row has moved');
	run_all($dbh, q{PREPARE TRANSACTION 'lock'});
	for my $when ('before the crash', 'after the crash', 'after two')
	{
		run_all($dbh, q{SET lock_timeout = '200ms'});
		for my $id (1, 2, 4)
		{
			is(state_of($dbh, "DELETE FROM parent WHERE id = $id"), '55P03', "row locks, $when: delete of $id waits");
			is(state_of($dbh, "UPDATE parent SET k = k + 100 WHERE id = $id"), '55P03', "row locks, $when: $id does not move");
			is(state_of($dbh, "UPDATE parent SET v = v + 1 WHERE id = $id"), '', "row locks, $when: update of $id in place");
		}
		is(state_of($dbh, 'UPDATE parent SET k = k + 100 WHERE id = 3'), '', "row locks, $when: others are free");
		crash_restart() unless $when eq 'after two';
	}
	run_all($dbh, 'RESET lock_timeout', q{COMMIT PREPARED 'lock'});
	is(state_of($dbh, "DELETE FROM parent WHERE id = $_"), '23503', "row locks: $_ has a child") for 1, 2, 4;
	is(state_of($dbh, 'UPDATE parent SET k = k + 100 WHERE id < 3'), '', 'row locks: rows may move again');
	is(value($dbh, 'SELECT count(*) FROM child LEFT JOIN parent ON pid = id WHERE id IS NULL'), 0, 'row locks: no orphan');
	is(value($dbh, 'SELECT string_agg(id || $$:$$ || v, $$ $$ ORDER BY id) FROM parent WHERE id < 5'), '1:3 2:3 3:0 4:3', 'row locks: updates');
}

# An index whose expression fails on a row that it has accepted kept the whole table from being
# used.  Now it is out of use, the log says so, and REINDEX brings it back.
sub test_unbuildable_index
{
	my $sum = make_table('ub', 500);
	my $is_valid = sub { value($dbh, q{SELECT string_agg(indexrelid::regclass || ' ' || indisvalid, ', ' ORDER BY indexrelid)
		FROM pg_index WHERE indrelid = 'ub'::regclass}) };
	run_all($dbh, 'CREATE TABLE ub_forbidden (k int)',
		q{CREATE FUNCTION ub_f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
			$$ BEGIN IF EXISTS (SELECT FROM public.ub_forbidden WHERE k = $1) THEN RAISE '% is forbidden', $1; END IF; RETURN $1; END $$},
		'CREATE INDEX ub_e ON ub (ub_f(k))', 'INSERT INTO ub_forbidden VALUES (77)');
	for my $when ('a crash', 'another crash')
	{
		my $offset = log_size($node);
		crash_restart();
		wait_for('the table to be readable', sub { state_of($dbh, 'SELECT count(*) FROM ub') eq '' });
		is($is_valid->(), 'ub_pkey true, ub_k true, ub_e false', "unbuildable index, $when: it alone is not valid");
		same_by_index('ub', $sum, "unbuildable index, $when");
		my $said = log_since($node, $offset);
		like($said, qr/WARNING:  XX002: index "ub_e" of table "ub" could not be rebuilt.*DETAIL:  [^\n]*77 is forbidden.*HINT: /s,
			"unbuildable index, $when: the log says so") if $when eq 'a crash';
		run_all($dbh, 'SET enable_seqscan = off');
		unlike(join("\n", map { $_->[0] } @{ run_sql($dbh, 'EXPLAIN SELECT * FROM ub WHERE ub_f(k) = 78')->{rows} }), qr/ub_e/,
			"unbuildable index, $when: it is not used");
		run_all($dbh, 'RESET enable_seqscan');
		is(state_of($dbh, 'REINDEX INDEX ub_e'), 'P0001', "unbuildable index, $when: REINDEX fails before the cause is gone");
	}
	is(state_of($dbh, 'INSERT INTO ub VALUES (1001, 5)'), '', 'unbuildable index: new rows');
	run_all($dbh, 'TRUNCATE ub_forbidden', 'REINDEX INDEX ub_e');
	is($is_valid->(), 'ub_pkey true, ub_k true, ub_e true', 'unbuildable index: REINDEX brings it back');
	is(value($dbh, 'SELECT count(*) FROM ub WHERE ub_f(k) = 5'), 2, 'unbuildable index: with all rows');
	is_sound($dbh, 'unbuildable index');
	run_all($dbh, 'DROP TABLE ub, ub_forbidden');
}

# A process that was terminated in the middle of a rebuild left the table as being
# rebuilt, and everybody waited for ever.
sub test_rebuild_terminated
{
	my $sum = make_table('big', 300000);
	run_all($dbh, 'CREATE INDEX big_t ON big (md5(id::text))');
	for my $kind ('zen index rebuild', 'client backend')
	{
		my $self = $kind =~ /client/;
		set_conf('max_worker_processes = ' . ($self ? 1 : 8));
		crash_restart();
		my $who = connect_db($node);
		my $sth = $who->prepare('SELECT count(*) FROM big WHERE id > 0', { pg_direct => 1, pg_async => PG_ASYNC });
		$sth->execute if $self;
		my ($pid, $left);
		wait_for("$kind to be seen", sub {
				($pid) = map { $_->[0] } @{ run_sql($dbh, qq{SELECT pid FROM pg_stat_activity JOIN pg_locks USING (pid)
				  WHERE backend_type = '$kind' AND relation IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'big'::regclass)})->{rows} };
				return $pid || value($dbh, q{SELECT state = 'ready' AND tables_to_reindex = 0 FROM zen_recovery()}); });
		if ($pid)
		{
			value($dbh, "SELECT pg_terminate_backend($pid)");
			wait_for("$kind to go", sub { !value($dbh, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") });
			$left = value($dbh, 'SELECT tables_to_reindex FROM zen_recovery()');
		}
	  SKIP: {
			skip "$kind was too fast", 4 unless $left;
			run_all($dbh, q{SET statement_timeout = '20s'});
			same_by_index('big', $sum, "$kind terminated");
			is(value($dbh, "SELECT count(*) FROM big WHERE md5(id::text) = md5('4711')"), 1, "$kind terminated: third index");
			is(state_of($dbh, 'INSERT INTO big VALUES (299999)'), '23505', "$kind terminated: unique");
		}
		$who->pg_cancel if $self && !$pid;
	}
	set_conf('max_worker_processes = 8');
	clean_restart();
}

# The server starts anew in the same postmaster: what was in shared memory before
# must not be taken for what is there now.
sub test_lost_backend
{
	make_table('acc', 20000);
	my $script = PostgreSQL::Test::Utils::tempdir() . '/move.sql';
	PostgreSQL::Test::Utils::append_to_file($script,
		"\\set a random(1, 19999)\n"
		  . "UPDATE acc SET n = n + 1, k = k + 1, v = v + CASE id WHEN :a THEN 1 ELSE -1 END WHERE id IN (:a, :a + 1);\n");
	for my $i (1 .. 3)
	{
		my $before = value($dbh, 'SELECT sum(n) FROM acc');
		my ($in, $out) = ('', '');
		my $bench = IPC::Run::start(
			[ 'pgbench', '-n', '-c', 4, '-T', 60, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
			'<', \$in, '>&', \$out);
		my $seen = 0;
		wait_for('pgbench at work', sub { ($seen = value($dbh, 'SELECT sum(n) FROM acc')) > $before + 500 });
		kill 'KILL', value($dbh, q{SELECT min(pid) FROM pg_stat_activity WHERE query LIKE 'UPDATE acc%' AND pid <> pg_backend_pid()});
		wait_for('the server to notice', sub { run_sql($dbh, 'SELECT 1')->{lost} });
		wait_for('the server to come back', sub { my $new = eval { connect_db($node) } or return 0; $dbh = $new; return 1; });
		$bench->finish;
		value($dbh, 'UPDATE acc SET v = v + 1 WHERE id = 5') if inject();
		my $sum = contents($dbh, 'acc');
		is(contents($dbh, 'acc', 'indexscan', 'id > 0'), $sum, "lost backend $i: primary key");
		is(contents($dbh, 'acc', 'bitmapscan', 'k >= 0'), $sum, "lost backend $i: second index");
		is(value($dbh, q{SELECT count(*) || ' ' || sum(v) || ' ' || sum(n) % 2 FROM acc}), '20000 0 0', "lost backend $i: whole transactions");
		cmp_ok(value($dbh, 'SELECT sum(n) FROM acc'), '>=', $seen, "lost backend $i: nothing seen is lost");
	}
}

# Rows of COPY FREEZE look old while their transaction is prepared.  What was queued for rows of a dropped table, whose
# number the new one has, let them be evicted, and ROLLBACK PREPARED freed them once more.
sub test_frozen_not_evicted
{
	set_conf("zen.met_cache_size = 1MB");
	clean_restart();
	my ($start, $from) = (value($dbh, 'SELECT pg_postmaster_start_time()'), log_size($node));
	my $insert = 'DO $$ BEGIN FOR i IN 1..%d LOOP INSERT INTO many VALUES (i); COMMIT; END LOOP; END $$';
	run_all($dbh, 'CREATE TABLE many (a int) USING zen', 'CREATE TABLE dropped (a int, t text) USING zen',
		"INSERT INTO dropped SELECT g, 'x' FROM generate_series(1, 3000) g", sprintf($insert, 300));
	my $number = "SELECT htable FROM zen_htables() WHERE relfilenode = pg_relation_filenode('%s')";
	my $htable = value($dbh, sprintf($number, 'dropped'));
	run_all($dbh, 'DROP TABLE dropped', 'BEGIN', 'CREATE TABLE frozen (a int, t text) USING zen');
	is(value($dbh, sprintf($number, 'frozen')), $htable, 'frozen rows: the table has the number of the dropped one');
	$dbh->do('COPY frozen FROM STDIN WITH (FREEZE)');
	$dbh->pg_putcopydata("$_\ty\n") for 1 .. 3000;
	$dbh->pg_putcopyend;
	run_all($dbh, "PREPARE TRANSACTION 'frozen'", sprintf($insert, 9000), "ROLLBACK PREPARED 'frozen'",
		sprintf($insert, 6000));
	ok(value($dbh, 'SELECT metcache_evictions > 0 FROM zen_stat()'), 'frozen rows: there were evictions');
	is(eval { value($dbh, 'SELECT count(*) FROM many') }, 15300, 'frozen rows: other rows are there');
	is_sound($dbh, 'frozen rows');
	is(eval { value($dbh, 'SELECT pg_postmaster_start_time()') }, $start, 'frozen rows: no restart');
	unlike(log_since($node, $from), qr/terminated by signal|PANIC|TRAP/, 'frozen rows: no crash');
	run_all($dbh, 'DROP TABLE many');
	set_conf("zen.met_cache_size = 256MB");
	clean_restart();
}

# Versions of a large update were freed while others still looked at them.
sub test_large_update
{
	make_table('hot', 100000);
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
		my $result = run_sql($own, "UPDATE hot SET v = v + 1 WHERE id = (SELECT id FROM hot WHERE id = $id FOR UPDATE SKIP LOCKED)");
		$count++ if $result->{tag} eq 'UPDATE 1';
		$error = $result->{message};
	}
	syswrite $write, $error || $count;
	POSIX::_exit(0);
}

# With a Met-Cache larger than all of DRAM nothing was evicted before memory ran out,
# and then a load failed with 53200 although nobody needed what was cached.
sub test_many_loads
{
	set_conf("zen.dram_size = '64MB'\nzen.met_cache_size = '1GB'");
	run_all($dbh, 'DROP TABLE IF EXISTS acc, big, hot, m, d, c, child, parent, s');
	clean_restart();
	for my $i (1 .. 10)
	{
		run_all($dbh, "CREATE TABLE load$i (id int, v text) USING zen");
		is(run_sql($dbh, "INSERT INTO load$i SELECT g, repeat('x', 100) FROM generate_series(1, 100000) g")->{message}, '', "load $i");
	}
	is(value($dbh, "SELECT count(*) || ' ' || sum(length(v)) FROM load$_"), '100000 10000000', "load $_: count") for 1 .. 10;
}

# A base backup holds a torn copy of a pool in the data directory, and once started.
sub test_base_backup
{
	my $source = new_node('source', pool_size => '64MB', dram_size => '64MB', init => { allows_streaming => 1 }, conf => q{zen.pool_path = 'zen.pool'});
	$source->start;
	my $handle = connect_db($source);
	run_all($handle, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int) USING zen', 'INSERT INTO t VALUES (1)');
	$source->backup('copy');
	(my $copy = PostgreSQL::Test::Cluster->new('copy'))->init_from_backup($source, 'copy');
	my $said = start_failing($copy);
	ok(defined $said, 'base backup: does not start');
	like($said // '', qr/FATAL:  55000: .*copied while its server was running.*zen pool ".*zen\.pool"/s, 'base backup: names the pool');
	like($said // '', qr/HINT:/, 'base backup: hint');
	is(value($handle, 'SELECT count(*) FROM t'), 1, 'base backup: the original is as it was');
}
