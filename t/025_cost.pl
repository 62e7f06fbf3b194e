# What a transaction on zen tables costs, by counters:
#
# - WAL: a zen-only transaction of one row writes at most 100 bytes, which is
#   PostgreSQL's own commit record, and nothing for table or indexes; the WAL writer
#   is not woken by each; numbers of a sequence cost few waits for the disk;
# - indexes: one on unchanged columns does not grow over many updates of others;
# - NVM: a single-row change that fits one line flushes one line with one fence; one
#   of n lines at most n + 1 lines with two fences; reads, and transactions rolled
#   back, write nothing;
# - zen.flush: where caches survive a power loss, a commit flushes nothing and fences
#   once, or, as a hint, flushes rows that are not hot;
# - zen.flush_delay and zen.fence_delay take the time that they say;
# - what costs when processors are many, waits and stores to memory that all share, is
#   counted, and is rare.
#
# In mode wal a transaction of one row writes its commit record, and one with the row; a commit flushes no line, and
# waits for the disk once.  zen.flush and the delays mean nothing there.
#
# The size of a row in NVM: 32 bytes, with which a row without nulls begins, and its
# column data; a line has 64 bytes.
#
# UPDATES=n  updates of the index test (default 1000000)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg ':async';
use List::Util qw(max sum0);
use PostgreSQL::Test::Utils 'slurp_file';
use Test::More;
use Time::HiRes 'time';
use ZenTest;

use constant {
	LINE       => 64,     # bytes
	ROW_HEADER => 32,     # bytes in NVM before the column data
	WAL_LIMIT  => 100,    # bytes per transaction
	WAL_PAGE   => 40,     # header of a WAL page, which any record may meet
	WAL_ROWS   => 100,    # mode wal: besides the rows' data, in the record that has them
	RUNS       => 300,    # transactions measured for each number
	TABLE_ROWS => 10_000, # of the index test
};

# Taking a fresh page or raising a high-water mark costs lines of its own, once in
# thousands of transactions: so many of the measured ones may cost more.
use constant MAY_EXCEED => 0.02;

skip_unless_zen();
my $updates = $ENV{UPDATES} || 1_000_000;
my $node    = new_node('cost', conf => <<'END');
wal_level = replica
checkpoint_timeout = 1h
max_wal_size = 4GB
statement_timeout = 0
END
my $by_wal = by_wal($node);
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_wal();
test_wal_writer();
test_sequence_syncs();
test_reindex_wal();
test_indexes();
test_lines();
test_nothing_written();
test_contention();
if ($by_wal) { test_no_domain(); }
else         { test_flush(); }

$dbh->disconnect;
$node->stop;
SKIP:
{
	skip 'no server with zen.flush_delay', 4 if !$ENV{ZEN_FAULT_SERVER};
	test_delays();
}
done_testing();

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return $sorted[ $#sorted / 2 ];
}

# --- WAL --------------------------------------------------------------------

sub wal_position { return value($dbh, q{SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn}); }

# wal_of -- WAL bytes of an autocommit statement for each of some numbers, which take
# the place of %d in it.
sub wal_of
{
	my ($sql, @numbers) = @_;
	my @bytes;
	my $before = wal_position();
	for my $i (@numbers)
	{
		value($dbh, $sql =~ s/%d/$i/gr);
		my $after = wal_position();
		push @bytes, $after - $before;
		$before = $after;
	}
	return @bytes;
}

sub test_wal
{
	value($dbh, $_) for (
		'CREATE TABLE w (id int PRIMARY KEY, k int, v int, t text) USING zen',
		'CREATE INDEX w_k ON w (k)', 'CREATE INDEX w_t ON w USING hash (t)',
		q{INSERT INTO w SELECT g, g, 0, 'text' FROM generate_series(1, 2000) g},
		'CREATE TABLE wide (id int PRIMARY KEY, v int, t text) USING zen',
		'ALTER TABLE wide ALTER t SET STORAGE EXTERNAL',
		q{INSERT INTO wide SELECT g, 0, repeat('x', 1500) FROM generate_series(1, 2000) g},
		'VACUUM ANALYZE w', 'VACUUM ANALYZE wide', 'CHECKPOINT');

	my %statement = (
		'update of an unindexed column' => 'UPDATE w SET v = v + 1 WHERE id = %d',
		'update of an indexed column'   => 'UPDATE w SET k = k + 10000 WHERE id = %d',
		'update of the key'             => 'UPDATE w SET id = -id WHERE id = 1000 + %d',
		'insert'                        => q{INSERT INTO w VALUES (5000 + %d, 1, 1, 'new')},
		'delete'                        => 'DELETE FROM w WHERE id = 5000 + %d',
		'update of a row of 24 lines'   => 'UPDATE wide SET v = v + 1 WHERE id = %d',
		'update of a toasted value'     => q{UPDATE wide SET t = repeat('y', 9000) WHERE id = 1000 + %d},
		'row lock'                      => 'SELECT v FROM w WHERE id = %d FOR UPDATE');
	# data of the rows that it writes
	my %data = ('update of a row of 24 lines' => 1500, 'update of a toasted value' => 9400);
	for my $name ('insert', sort grep { $_ ne 'insert' } keys %statement)
	{
		wal_of($statement{$name}, RUNS + 1 .. RUNS + 5);    # catalog caches, hint bits
		my @bytes = wal_of($statement{$name}, 1 .. RUNS);
		my $mean  = sum0(@bytes) / @bytes;
		my $limit = WAL_LIMIT;
		$limit += WAL_ROWS + ($data{$name} // 0) if $by_wal && $name ne 'row lock';
		cmp_ok($mean, '<=', $limit, sprintf 'WAL per %s: mean %.1f bytes', $name, $mean);
		cmp_ok($mean, '>', $data{$name}, '... and it has the row') if $by_wal && $data{$name};
		my @over = grep { $_ > $limit + WAL_PAGE * (1 + int($limit / 8192)) } @bytes;
		cmp_ok(@over, '<=', MAY_EXCEED * RUNS,
			sprintf 'WAL per %s: median %d, most %d bytes', $name, median(@bytes), max(@bytes));
	}

	# A thousand updates without anything in between, as a client sends them.
	my $before = wal_position();
	value($dbh, "UPDATE w SET v = v + 1 WHERE id = $_") for 1 .. 1000;
	my $mean = (wal_position() - $before) / 1000;
	my $limit = WAL_LIMIT + ($by_wal ? WAL_ROWS : 0);
	cmp_ok($mean, '<=', $limit, "WAL of 1000 updates in a row: $mean bytes each");

	# The measure works: the same on heap costs more.
	value($dbh, $_) for (
		'CREATE TABLE wh (id int PRIMARY KEY, v int) USING heap',
		'INSERT INTO wh SELECT g, 0 FROM generate_series(1, 2000) g', 'CHECKPOINT');
	my $heap = sum0(wal_of('UPDATE wh SET v = v + 1 WHERE id = %d', 1 .. RUNS)) / RUNS;
	cmp_ok($heap, '>', $limit, sprintf 'an update on heap costs more: %.1f bytes', $heap);
	return;
}

# wakings -- how often the WAL writer has slept while single rows were updated.
sub wakings
{
	my ($updates) = @_;
	my $pid = value($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'});
	my $sleeps = sub {
		my ($n) = slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m;
		return $n;
	};
	my $before = $sleeps->();
	value($dbh, "UPDATE w SET v = v + 1 WHERE id = $_ % 1000 + 1") for 1 .. $updates;
	return $sleeps->() - $before;
}

sub test_wal_writer
{
	my $updates = 5000;
	my $limit   = $updates / 20;    # one page of WAL holds some 200 commits, and a second has 5 delays
	my $n       = wakings($updates);
	cmp_ok($n, '<', $limit, "$updates updates have woken the WAL writer $n times");

	if ($by_wal)
	{
		is(value($dbh, 'SHOW wal_writer_flush_after'), '1MB', 'PostgreSQL has its default: commits flush');
		return;
	}

	# What the configuration says comes before zen's default, and shows that the measure works.
	return if value($dbh, 'SHOW server_version_num') >= 170000;
	is(value($dbh, 'SHOW wal_writer_flush_after'), '0', 'the WAL writer flushes what it writes');
	$node->append_conf('postgresql.conf', "wal_writer_flush_after = '1MB'");
	$node->restart;
	$dbh = connect_db($node);
	is(value($dbh, 'SHOW wal_writer_flush_after'), '1MB', 'the configuration comes before the default');
	$n = wakings($updates);
	cmp_ok($n, '>', $limit, "... and lets $updates updates wake it $n times");
	$node->adjust_conf('postgresql.conf', 'wal_writer_flush_after', undef);
	$node->restart;
	$dbh = connect_db($node);
	return;
}

# syncs_of -- how often the WAL has been synced during some inserts into a table, with the WAL writer stopped.
sub syncs_of
{
	my ($table, $inserts) = @_;
	my $sql = value($dbh, 'SHOW server_version_num') >= 180000
	  ? q{SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal' AND context = 'normal'}
	  : 'SELECT wal_sync FROM pg_stat_wal';
	my $syncs = sub { value($dbh, 'SELECT pg_stat_force_next_flush()'); return value($dbh, $sql); };
	value($dbh, "INSERT INTO $table (v) VALUES ('first')");
	my @writers = stop_wal_writer($dbh);
	my $before = $syncs->();
	value($dbh, "INSERT INTO $table (v) VALUES ('row $_')") for 1 .. $inserts;
	my $n = $syncs->() - $before;
	kill 'CONT', @writers;
	return $n;
}

sub test_sequence_syncs
{
	my $inserts = 1024;
	$node->append_conf('postgresql.conf', 'fsync = on');
	$node->reload;
	wait_for('fsync', sub { value($dbh, 'SHOW fsync') eq 'on' });
	value($dbh, "CREATE TABLE $_->[0] (id $_->[2], v text) USING $_->[1]") for
	  [ 'ident', 'zen', 'int GENERATED ALWAYS AS IDENTITY PRIMARY KEY' ], [ 'ser', 'zen', 'serial PRIMARY KEY' ],
	  [ 'small', 'zen', 'smallserial PRIMARY KEY' ],
		[ 'down', 'zen', 'int GENERATED ALWAYS AS IDENTITY (INCREMENT -3)' ],
	  [ 'ident_h', 'heap', 'int GENERATED ALWAYS AS IDENTITY PRIMARY KEY' ];
	my $mixed   = counter('commits_mixed');
	my $commits = $by_wal ? $inserts : 0;
	for my $table ('ident', 'ser', 'small', 'down')
	{
		my $n = syncs_of($table, $inserts);
		cmp_ok($n, '<=', $inserts / 256 + 1 + $commits, "$table: syncs of the WAL for $inserts inserts");
		cmp_ok($n, '>=', $commits, '... as many as commits that wait') if $by_wal;
		my ($rows, $span) = @{ run_sql($dbh, "SELECT count(*), max(id) - min(id) FROM $table")->{rows}[0] };
		is($span, ($rows - 1) * ($table eq 'down' ? 3 : 1), "$table: no number is left out");
	}
	value($dbh, 'SET zen.sequence_log_ahead = 0');
	cmp_ok(syncs_of('ident', $inserts), '<=', $inserts / 32 + 1 + $commits,
		"without logging ahead: syncs for $inserts inserts");
	value($dbh, 'RESET zen.sequence_log_ahead');
	cmp_ok(counter('commits_mixed') - $mixed, '<=', 5, '... and no commit record has decided, but of first inserts')
	  if !$by_wal;
	cmp_ok(syncs_of('ident_h', $inserts), '>=', $inserts, 'the measure works: heap syncs at each commit');
	$node->adjust_conf('postgresql.conf', 'fsync', 'off');
	$node->reload;
	return;
}

# --- indexes ----------------------------------------------------------------

# Half of the updates come one row at a time, half row by row in one statement.
# Commands that rebuild indexes build each btree and hash index once, and off the WAL; others
# are built twice, but end unlogged as well.
sub test_reindex_wal
{
	value($dbh, $_) for 'CREATE TABLE re (id int PRIMARY KEY, k int, a int[]) USING zen',
	  'INSERT INTO re SELECT g, g % 1000, ARRAY[g % 10] FROM generate_series(1, 20000) g',
	  'CREATE INDEX ON re (k)', 'CREATE INDEX ON re USING hash (id)';
	for my $workers (2, 0)
	{
		value($dbh, "SET max_parallel_maintenance_workers = $workers");
		for my $sql ('REINDEX TABLE re', 'CLUSTER re USING re_k_idx', 'VACUUM FULL re',
			'ALTER TABLE re ALTER k TYPE ' . ($workers ? 'bigint' : 'int'))
		{
			my $before = wal_position();
			value($dbh, $sql);
			my $rows = $by_wal && $sql !~ /^REINDEX/ ? 20_000 * 88 : 0;
			cmp_ok(wal_position() - $before, '<', 100_000 + $rows, "$sql, $workers workers: WAL");
			is(logged_indexes(), 0, "$sql, $workers workers: indexes are unlogged");
		}
	}
	value($dbh, $_) for "CREATE INDEX ON re USING gin (a)", 'CREATE INDEX ON re USING brin (id)',
	  'RESET max_parallel_maintenance_workers';
	for my $sql ('REINDEX TABLE re', 'VACUUM FULL re', 'TRUNCATE re', 'REINDEX SCHEMA public')
	{
		value($dbh, $sql);
		is(logged_indexes(), 0, "$sql: indexes of other kinds are unlogged");
	}
	return;
}

sub logged_indexes
{
	return value($dbh, q{SELECT count(*) FROM pg_index JOIN pg_class c ON c.oid = indexrelid
	  WHERE indrelid = 're'::regclass AND relpersistence <> 'u'});
}

sub test_indexes
{
	my $rows = TABLE_ROWS;
	value($dbh, $_) for (
		'CREATE TABLE g (id int PRIMARY KEY, k int, v int, t text) USING zen',
		q{INSERT INTO g SELECT i, i % 100, 0, 'text ' || i FROM generate_series(1, } . $rows . ') i',
		'CREATE INDEX g_k ON g (k)', 'CREATE INDEX g_t ON g USING hash (t)',
		'CREATE INDEX g_gin ON g USING gin ((ARRAY[k]))',
		<<'END', 'VACUUM ANALYZE g', 'CHECKPOINT');
CREATE PROCEDURE change(updates int, many boolean) LANGUAGE plpgsql AS $$
DECLARE
	size int := (SELECT count(*) FROM g);
	done int := 0;
BEGIN
	WHILE done < updates LOOP
		IF many THEN
			UPDATE g SET v = v + 1;
			done := done + size;
			COMMIT;
		ELSE
			UPDATE g SET v = v + 1 WHERE id = 1 + (done * 7919::bigint) % size;
			done := done + 1;
			IF done % 10 = 0 THEN COMMIT; END IF;
		END IF;
	END LOOP;
END $$
END
	my $sizes = q{SELECT string_agg(relname || ' ' || pg_relation_size(oid), ', ' ORDER BY relname)
		FROM pg_class WHERE relname IN ('g_pkey', 'g_k', 'g_t', 'g_gin')};
	my $before = value($dbh, $sizes);
	my $start  = time;
	my $half   = int($updates / 2);
	value($dbh, "CALL change($half, false)");
	value($dbh, "CALL change($updates - $half, true)");
	note(sprintf '%d updates in %.0f s', $updates, time - $start);

	cmp_ok(value($dbh, 'SELECT sum(v) FROM g'), '>=', $updates, 'all updates are there');
	is(value($dbh, $sizes), $before, "$updates updates of other columns: no index has grown");
	return;
}

# --- lines and fences -------------------------------------------------------

sub stat_now
{
	my $row = run_sql($dbh, 'SELECT lines_flushed, fences, slots_written, bytes_written FROM zen_stat')->{rows}[0];
	die 'zen_stat does not work' unless $row && @$row == 4;
	return $row;
}

# costs_of -- [lines, fences, slots, bytes] of each of some transactions; %d in their
# statements becomes the number of the run.
sub costs_of
{
	my ($runs, @sql) = @_;
	my @costs;
	my $before = stat_now();
	for my $i (1 .. $runs)
	{
		value($dbh, s/%d/$i/gr) for @sql;
		my $after = stat_now();
		push @costs, [ map { $after->[$_] - $before->[$_] } 0 .. 3 ];
		$before = $after;
	}
	return @costs;
}

# check_cost -- nearly every run flushes at most $lines lines with at most $fences
# fences (with $exactly: just as many).
# In mode wal it flushes no line; a fence is a barrier.
sub check_cost
{
	my ($name, $exactly, $lines, $fences, @costs) = @_;
	$lines = 0 if $by_wal;
	my %seen;
	$seen{"$_->[0] lines with $_->[1] fences"}++ for @costs;
	my $seen = join ', ', map { "$seen{$_} x $_" } sort { $seen{$b} <=> $seen{$a} } keys %seen;
	my $good = grep {
		$exactly
		  ? $_->[0] == $lines && $_->[1] == $fences
		  : $_->[0] <= $lines && $_->[1] <= $fences
	} @costs;
	cmp_ok($good, '>=', (1 - MAY_EXCEED) * @costs,
		"$name: " . ($exactly ? '' : 'at most ') . "$lines lines with $fences fences")
	  or diag("seen: $seen");
	note("$name: $seen");
	return;
}

sub test_lines
{
	# Column data of id, v and a text of $length: 4 + 4 + (1 or 4) + $length bytes.
	for my $length (16, 23, 0, 50, 100, 126, 127, 300, 700, 1000, 1800)
	{
		my $data  = 8 + ($length <= 126 ? 1 : 4) + $length;
		my $lines = int((ROW_HEADER + $data + LINE - 1) / LINE);
		my $table = "l$length";
		value($dbh, $_) for (
			"CREATE TABLE $table (id int PRIMARY KEY, v int NOT NULL, t text NOT NULL) USING zen",
			"ALTER TABLE $table ALTER t SET STORAGE EXTERNAL",
			"INSERT INTO $table SELECT g, 0, repeat('x', $length) FROM generate_series(1, 1000) g",
			"VACUUM ANALYZE $table");

		my $update = "UPDATE $table SET v = v + 1 WHERE id = %d";
		costs_of(50, $update);    # the first ones take pages
		my @costs = costs_of(RUNS, $update);
		my $name  = sprintf 'update of a row of %d bytes, %d lines', ROW_HEADER + $data, $lines;

		# More than 48 bytes: the slot is a line, and starts where a line starts.
		if ($lines == 1 && ROW_HEADER + $data > 48) { check_cost($name, 1, 1, 1, @costs); }
		else { check_cost($name, 0, $lines + 1, 2, @costs); }
		is((grep { $_->[2] != 1 } @costs), 0, "$name: one slot written each time");
	}

	my $row = q{VALUES (5000 + %d, 1, 'a text of 20 letters')};
	check_cost('insert of one line', 1, 1, 1, costs_of(RUNS, "INSERT INTO l16 $row"));
	check_cost('delete', 1, 1, 1, costs_of(RUNS, 'DELETE FROM l16 WHERE id = 5000 + %d'));
	check_cost('upsert of one line', 1, 1, 1,
		costs_of(RUNS, q{INSERT INTO l16 VALUES (%d, 1, 'x') ON CONFLICT (id) DO UPDATE SET v = l16.v + 1}));

	# Only the last version of a row is written, and all rows of a transaction with
	# two fences.
	my @many = ('BEGIN', ('UPDATE l16 SET v = v + 1 WHERE id = %d') x 10, 'COMMIT');
	check_cost('ten updates of one row in a transaction', 1, 1, 1, costs_of(RUNS, @many));
	check_cost('update of ten rows', 0, 10 + 1, 2,
		costs_of(RUNS, 'UPDATE l16 SET v = v + 1 WHERE id BETWEEN %d AND %d + 9'));
	return;
}

sub test_nothing_written
{
	my %quiet = (
		'select by key'    => ['SELECT * FROM l300 WHERE id = %d'],
		'sequential scan'  => ['SELECT count(v) FROM l300 WHERE id <> %d'],
		'row lock'         => ['SELECT * FROM l300 WHERE id = %d FOR UPDATE'],
		'update rolled back' => [ 'BEGIN', 'UPDATE l300 SET v = 0 WHERE id = %d', 'ROLLBACK' ],
		'insert rolled back' =>
		  [ 'BEGIN', q{INSERT INTO l300 VALUES (9000 + %d, 1, 'x')}, 'ROLLBACK' ],
		'delete rolled back' => [ 'BEGIN', 'DELETE FROM l300 WHERE id = %d', 'ROLLBACK' ]);
	for my $name (sort keys %quiet)
	{
		my @costs = costs_of(RUNS, @{ $quiet{$name} });
		check_cost($name, 1, 0, 0, @costs);
		is(sum0(map { $_->[2] } @costs), 0, "$name: no slot written");
	}
	return;
}

# --- caches that survive ------------------------------------------------------

# restart_flushing -- with this zen.flush, on a platform that flushes its caches at a power loss or not.
sub restart_flushing
{
	my ($flush, $survives) = @_;
	local $ENV{PMEM_NO_FLUSH} = $survives;
	set_conf($node, "zen.flush = $flush");
	$dbh = clean_restart($node, $dbh);
	wait_recovered($dbh);
	return;
}

# What zen.flush says counts for persistent memory only.
sub test_no_domain
{
	my $log = log_size($node);
	restart_flushing('never', 1);
	is(value($dbh, 'SELECT persistence_domain FROM zen_pool'), undef, 'mode wal: no domain');
	unlike(log_since($node, $log), qr/commits do not flush them/, 'mode wal: the log tells of none');
	my @prepare = ('BEGIN', 'UPDATE l300 SET v = v + 1 WHERE id = 7', q{PREPARE TRANSACTION 'p'},
		q{COMMIT PREPARED 'p'});
	check_cost('mode wal: prepared', 0, 0, 8, costs_of(20, @prepare));
	my $before = contents($dbh, 'l300');
	$dbh->disconnect;
	$dbh = crash_restart($node);
	is(contents($dbh, 'l300'), $before, 'mode wal: after a crash of the server');
	is_sound($dbh, 'mode wal');
	return;
}

# Domain, lines of a changed row of 332 bytes that is not hot and of one that is, and fences.
sub test_flush
{
	value($dbh, 'INSERT INTO l300 SELECT g, 0, repeat($$x$$, 300) FROM generate_series(20001, 30000) g');
	value($dbh, "UPDATE l300 SET v = v + 1 WHERE id = $_") for 1 .. 1001;    # what came before is long ago
	my $id = 20_000;
	for ([ 'auto', 0, 'memory_controller', 6, 6, 2 ], [ 'auto', 1, 'cpu_cache', 0, 0, 1 ],
		[ 'always', 1, 'memory_controller', 6, 6, 2 ], [ 'never', 0, 'cpu_cache', 0, 0, 1 ],
		[ 'hint', 0, 'memory_controller', 6, 6, 2 ], [ 'hint', 1, 'cpu_cache', 6, 0, 1 ])
	{
		my ($flush, $survives, $domain, $cold, $hot, $fences) = @$_;
		my $name = "zen.flush = $flush, caches " . ($survives ? 'survive' : 'do not survive');
		my $log = log_size($node);
		restart_flushing($flush, $survives);
		is(value($dbh, 'SELECT persistence_domain FROM zen_pool'), $domain, "$name: domain");
		is(scalar(log_since($node, $log) =~ /commits do not flush them/), $domain eq 'cpu_cache' ? 1 : '',
			"$name: the log tells");
		my @cold = costs_of(RUNS, "UPDATE l300 SET v = v + 1 WHERE id = $id + %d");
		$id += RUNS;
		my $slack = $domain eq 'cpu_cache' ? 0 : 1;
		check_cost("$name: rows that are not hot", $cold == 0, $cold + $slack, $fences, @cold);
		cmp_ok(max(map { $_->[0] } @cold), '>=', $cold, "$name: they are flushed") if $cold;
		check_cost("$name: a hot row", $hot == 0, $hot + $slack, $fences,
			costs_of(RUNS, 'UPDATE l300 SET v = v + 1 WHERE id = 7'));
		# Who reads a page of a catalog first after the start may prune it: its transaction has WAL, and commits by it.
		costs_of(1, 'UPDATE l300 SET v = v + 1 WHERE id BETWEEN 900 AND 909');
		check_cost("$name: ten rows, and perhaps a page taken", 0, 6 * 10 + $slack, $fences + $slack,
			costs_of(20, 'UPDATE l300 SET v = v + 1 WHERE id BETWEEN %d * 10 AND %d * 10 + 9'));
		my @prepare = ('BEGIN', 'UPDATE l300 SET v = v + 1 WHERE id = 7', q{PREPARE TRANSACTION 'p'},
			q{COMMIT PREPARED 'p'});
		costs_of(3, @prepare);
		check_cost("$name: prepared", 0, $domain eq 'cpu_cache' ? $cold : 20, 8, costs_of(20, @prepare));
		my $before = contents($dbh, 'l300');
		$dbh->disconnect;
		{
			local $ENV{PMEM_NO_FLUSH} = $survives;
			crash($node);
			start_again($node);
		}
		$dbh = connect_db($node);
		is(contents($dbh, 'l300'), $before, "$name: after a crash of the server");
		is_sound($dbh, $name);
	}
	return;
}

# --- a slower medium --------------------------------------------------------

# set_delays -- in ns, when the session has them.
sub set_delays
{
	my ($flush, $fence) = @_;
	value($dbh, "ALTER SYSTEM SET zen.flush_delay = $flush");
	value($dbh, "ALTER SYSTEM SET zen.fence_delay = $fence");
	value($dbh, 'SELECT pg_reload_conf()');
	wait_for('the delays',
		sub { value($dbh, 'SHOW zen.flush_delay') == $flush && value($dbh, 'SHOW zen.fence_delay') == $fence });
	return;
}

sub seconds_of_updates
{
	my $begin = time;
	value($dbh, "UPDATE l300 SET v = v + 1 WHERE id = $_") for 1 .. 100;
	return time() - $begin;
}

# On a server of its own, with the settings for tests.
sub test_delays
{
	$node   = new_node('delays', faults => 1, conf => 'zen.pool_mode = emulated');
	$by_wal = 0;
	$node->start;
	$dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE l300 (id int PRIMARY KEY, v int, filler text) USING zen',
		'INSERT INTO l300 SELECT g, 0, repeat($$x$$, 300) FROM generate_series(1, 100) g');
	seconds_of_updates();
	my $plain = seconds_of_updates();
	for my $delay ([ 0, 1_000_000 ], [ 1_000_000, 0 ])
	{
		my ($flush, $fence) = @$delay;
		set_delays($flush, $fence);
		my $before  = stat_now();
		my $seconds = seconds_of_updates();
		my $after   = stat_now();
		my $added   = (($after->[0] - $before->[0]) * $flush + ($after->[1] - $before->[1]) * $fence) / 1e9;
		cmp_ok($added, '>=', 0.1, sprintf 'delays of %d and %d ns: %.2f s wanted', $flush, $fence, $added);
		cmp_ok($seconds, '>=', 0.9 * $added, sprintf '... and taken: %.2f s instead of %.3f', $seconds, $plain);
	}
	$dbh->disconnect;
	$node->stop;
	return;
}

# --- contention -------------------------------------------------------------

sub counter { return value($dbh, "SELECT $_[0] FROM zen_stat"); }

sub test_contention
{
	my $updates = 2000;
	my %limit   = (
		arena_locks  => 0.5, epoch_raises => 0.2,  horizon_looks => 0.5,
		region_waits => 0.1, word_spins   => 0.01, row_waits     => 0);
	my %before = map { $_ => counter($_) } keys %limit;
	value($dbh, "UPDATE l300 SET v = v + 1 WHERE id = $_ % 500 + 1") for 1 .. $updates;
	for my $name (sort keys %limit)
	{
		my $each = (counter($name) - $before{$name}) / $updates;
		cmp_ok($each, '<=', $limit{$name}, "$name: $each per update");
	}

	# The measure works: a wait for a row is one.
	my $waiting = connect_db($node);
	my $before  = counter('row_waits');
	value($dbh, 'BEGIN');
	value($dbh, 'UPDATE l300 SET v = 0 WHERE id = 1');
	$waiting->do('UPDATE l300 SET v = 1 WHERE id = 1', { pg_async => PG_ASYNC });
	wait_for('the second session to wait', sub { lock_wait_pid($dbh, $waiting->{pg_pid}) });
	value($dbh, 'COMMIT');
	$waiting->pg_result;
	is(counter('row_waits') - $before, 1, 'a wait for a row is counted');
	$waiting->disconnect;
	return;
}
