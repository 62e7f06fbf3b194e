# What a commit of zen tables costs with zen.stream, beside the same commit of a heap table: no wait for the disk, and
# bytes of WAL.
#
# - with the WAL writer stopped, the end of the flushed WAL stays where it is, whatever is committed: small rows, rows
#   of 1 KB, long values, many rows, savepoints, rolled back or not, exceptions that a function catches
# - what waits all the same is listed: more than the records that are kept, heap tables, PREPARE
# - thousands of commits, whose slots are those of commits before: two fences each, and no slot is scrubbed for one
# - bytes of WAL are at most heap's, without its full pages.  It is otherwise with zen.stream = replica: a record for
#   copies has whole versions, where heap's has what differs; with wal_level = logical it comes besides the changed rows
# - each start tells copies of the tables that there are; for a few that is one record
#
# In mode wal a commit waits for the WAL as heap's does, unless it is asynchronous.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_modules('pg_walinspect');
my $node = new_node('publisher', pool_size => '256MB', dram_size => '128MB', fsync => 1,
	init => { allows_streaming => 'logical' }, conf => 'full_page_writes = off');
$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE EXTENSION pg_walinspect');
my $by_wal = by_wal($node);
my @streams = ([ 'replica', 'replica' ], [ 'replica', 'logical' ]);
@streams = ([ 'logical', 'logical' ], @streams, [ 'off', 'logical' ]) if !$by_wal;
test_stream(@$_) for @streams;
$dbh->disconnect;
$node->stop;
done_testing();

sub restart_with
{
	my ($stream, $level) = @_;
	$dbh->disconnect;
	set_conf($node, "\nzen.stream = $stream\nwal_level = $level\n");
	$node->restart;
	$dbh = connect_db($node);
	wait_recovered($dbh);
	return;
}

sub test_stream
{
	my ($stream, $level) = @_;
	restart_with($stream, $level);
	test_start("$stream, wal_level = $level") if $stream eq 'replica';
	for my $am ('heap', 'zen')
	{
		run_all($dbh, "DROP TABLE IF EXISTS t_$am", "CREATE TABLE t_$am (id int PRIMARY KEY, n int, v text) USING $am",
			"ALTER TABLE t_$am ALTER v SET STORAGE EXTERNAL",
			"INSERT INTO t_$am SELECT g, 0, repeat('x', CASE WHEN g <= 200 THEN 10 ELSE 1000 END)"
			  . ' FROM generate_series(1, 1000) g');
	}
	value($dbh, 'CHECKPOINT');
	test_bytes("$stream, wal_level = $level", $stream, $level) if $stream ne 'off';
	test_waits("$stream, wal_level = $level", $stream);
	test_many("$stream, wal_level = $level", $stream);
	return;
}

# --- a start ----------------------------------------------------------------

# How many records of a kind are there from a place on?
sub records
{
	my ($kind, $from) = @_;
	return value($dbh, "SELECT count(*) FROM pg_get_wal_records_info('$from', pg_current_wal_flush_lsn())"
		  . " WHERE resource_manager = 'zen' AND record_type = '$kind'");
}

sub test_start
{
	my ($what) = @_;
	is(records('TABLES', value($dbh, 'SELECT redo_lsn FROM pg_control_checkpoint()')), 1,
		"$what: a start has one record of the tables");
	return;
}

# --- bytes ------------------------------------------------------------------

# Bytes of WAL for each execution of a statement, with T for the table and I for a number.
sub bytes
{
	my ($am, $statement) = @_;
	my $n = 100;
	my $from;
	for my $i (0 .. $n)
	{
		# the first one may open pages
		$from = value($dbh, 'SELECT pg_current_wal_insert_lsn()') if $i == 1;
		value($dbh, $statement =~ s/\bT\b/t_$am/gr =~ s/\bI\b/1 + $i/gre);
	}
	return value($dbh, "SELECT (pg_current_wal_insert_lsn() - '$from') / $n");
}

sub test_bytes
{
	my ($what, $stream, $level) = @_;
	for (
		[ 'small update', 'UPDATE T SET n = n + 1 WHERE id = I', 1, 1, 1.25 ],
		[ 'update of all of 1 KB', q{UPDATE T SET v = repeat('y', 1000) WHERE id = 500 + I}, 1, 1, 1.9 ],
		[ 'update of a column beside 1 KB', 'UPDATE T SET n = n + 1 WHERE id = 200 + I', 1, 2, 1.9 ],
		[ 'small insert', 'INSERT INTO T VALUES (1000 + I, 1)', 1, 1, 1.3 ],
		[ 'insert of 1 KB', q{INSERT INTO T VALUES (2000 + I, 1, repeat('z', 1000))}, 1, 1, 1.9 ],
		[ 'delete', 'DELETE FROM T WHERE id = I', 1, 1.25, 1.7 ])
	{
		my ($kind, $statement, @limits) = @$_;
		my $limit = $limits[ $stream eq 'logical' ? 0 : $level eq 'replica' ? 1 : 2 ];
		my ($heap, $zen) = map { bytes($_, $statement) } 'heap', 'zen';
		cmp_ok($zen, '<=', $heap * $limit, sprintf '%s: %s: %.0f bytes of WAL, heap %.0f', $what, $kind, $zen, $heap);
	}
	return;
}

# --- waits ------------------------------------------------------------------

sub flushed { return value($dbh, 'SELECT pg_current_wal_flush_lsn()'); }

# Has nobody flushed the WAL for these statements?
sub unflushed
{
	my (@statements) = @_;
	my $before = flushed();
	run_all($dbh, @statements);
	return flushed() eq $before;
}

sub test_waits
{
	my ($what, $stream) = @_;
	my $insert = "INSERT INTO t_zen VALUES";
	my $exception = sub { "BEGIN $insert ($_[0], 0); $_[1] EXCEPTION WHEN division_by_zero THEN END;" };
	my @short = (
		[ 'insert', 'INSERT INTO t_zen VALUES (-1, 0)' ],
		[ 'update', 'UPDATE t_zen SET n = n + 1 WHERE id = -1' ],
		[ 'delete', 'DELETE FROM t_zen WHERE id = -1' ],
		[ 'rows of 1 KB', q{INSERT INTO t_zen VALUES (-2, 0, repeat('a', 1000))},
			q{UPDATE t_zen SET v = repeat('b', 1000) WHERE id = -2} ],
		(map { [ "a value of $_ bytes", "INSERT INTO t_zen VALUES (-$_, 0, repeat('a', $_))",
				"UPDATE t_zen SET v = repeat('b', $_) WHERE id = -$_", "DELETE FROM t_zen WHERE id = -$_" ] }
			7000, 9000, 20000),
		[ 'a value of 50000 bytes', q{UPDATE t_zen SET v = repeat('c', 50000) WHERE id = -2} ],
		[ '200 rows', 'INSERT INTO t_zen SELECT -g, 0 FROM generate_series(10001, 10200) g',
			'UPDATE t_zen SET n = n + 1 WHERE id < -10000' ],
		[ 'a savepoint', 'BEGIN', 'SAVEPOINT a', 'INSERT INTO t_zen VALUES (-10, 0)', 'RELEASE a', 'COMMIT' ],
		[ 'a savepoint rolled back', 'BEGIN', 'INSERT INTO t_zen VALUES (-11, 0)', 'SAVEPOINT a',
			'INSERT INTO t_zen VALUES (-12, 0)', 'ROLLBACK TO a', 'INSERT INTO t_zen VALUES (-13, 0)', 'COMMIT' ],
		[ 'nothing but a savepoint rolled back', 'BEGIN', 'SAVEPOINT a', 'INSERT INTO t_zen VALUES (-14, 0)',
			'ROLLBACK TO a', 'COMMIT' ],
		[ 'savepoints in savepoints', 'BEGIN', 'SAVEPOINT a', 'INSERT INTO t_zen VALUES (-15, 0)', 'SAVEPOINT b',
			'INSERT INTO t_zen VALUES (-16, 0)', 'SAVEPOINT c', 'INSERT INTO t_zen VALUES (-17, 0)', 'RELEASE c',
			'ROLLBACK TO b', 'INSERT INTO t_zen VALUES (-18, 0)', 'COMMIT' ],
		[ 'exceptions', 'DO $$ BEGIN ' . $exception->(-20, '') . $exception->(-21, 'PERFORM 1 / 0;') . ' END $$' ]);
	# once before: who reads a page of a catalog first may write WAL, and then waits
	run_all($dbh, (map { @$_[ 1 .. $#$_ ] } @short), 'DELETE FROM t_zen WHERE id < 0', 'CHECKPOINT');
	my @writers = stop_wal_writer($dbh);
	if ($by_wal)
	{
		for (grep { $_->[0] !~ /nothing but/ } @short)
		{
			my ($kind, @statements) = @$_;
			ok(!unflushed(@statements), "$what: waits: $kind");
		}
		run_all($dbh, 'DELETE FROM t_zen WHERE id < 0', 'SET synchronous_commit = off');
	}
	for (@short)
	{
		my ($kind, @statements) = @$_;
		# what is kept has it twice
		next if $what eq 'replica, wal_level = logical' && $kind =~ /50000/;
		ok(unflushed(@statements), "$what: does not wait: $kind");
	}
	value($dbh, 'RESET synchronous_commit');
	for (
		[ 'more records than are kept', q{INSERT INTO t_zen VALUES (-30, 0, repeat('a', 100000))}, 1 ],
		[ 'a heap table, too', 'BEGIN; INSERT INTO t_zen VALUES (-31, 0); INSERT INTO t_heap VALUES (-31, 0); COMMIT' ],
		[ 'PREPARE', q{BEGIN; INSERT INTO t_zen VALUES (-32, 0); PREPARE TRANSACTION 'p'} ])
	{
		my ($kind, $statement, $streamed) = @$_;
		next if $streamed && $stream eq 'off';
		ok(!unflushed($statement), "$what: waits: $kind");
	}
	value($dbh, q{ROLLBACK PREPARED 'p'});
	is_sound($dbh, $what);
	kill 'CONT', @writers;
	return;
}

# --- many commits -----------------------------------------------------------

sub test_many
{
	my ($what, $stream) = @_;
	my $n = 5000;
	my $begin = value($dbh, 'SELECT pg_current_wal_lsn()');
	my $fences = value($dbh, 'SELECT fences FROM zen_stat');
	for my $i (1 .. $n)
	{
		$dbh->do('UPDATE t_zen SET n = n + 1 WHERE id = 300');
	}
	$fences = value($dbh, 'SELECT fences FROM zen_stat') - $fences;
	cmp_ok($fences / $n, '<', 2.1, sprintf '%s: %.3f fences a commit', $what, $fences / $n);
	return if $stream ne 'replica';
	my $scrubs = records('SCRUB', $begin);
	cmp_ok($scrubs, '<', $n / 1000, "$what: $scrubs of $n commits had to scrub a slot, and to wait for it");
	return;
}
