# Random transactions, the same ones on a zen table and on a heap table: logical decoding tells the same changes of
# both, in the same order, and a subscriber ends with the same rows.
#
# Transactions have savepoints, changed keys, long values, bulk changes, DDL, TRUNCATE, two-phase commit and rows
# spilled before the commit.  The subscription streams large transactions (unless the server has assertions), and gets
# prepared ones at PREPARE.  Publisher and subscriber are killed now and then, the publisher also between the
# transaction on zen and the one on heap.
#
# TRANSACTIONS=n (default 300).  SEED=n replays a run.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_modules('test_decoding');
choose_seed();
my $transactions = $ENV{TRANSACTIONS} || 300;
my $node = new_node('publisher', pool_size => '256MB', dram_size => '128MB', init => { allows_streaming => 'logical' },
	conf => "zen.stream = logical\nlogical_decoding_work_mem = '64kB'");
my $subscriber = new_node('subscriber', preload => 0, init => { allows_streaming => 'logical' });
my ($dbh, $to, $extra, $identity, $wide);
my $serial = 0;
$_->start for $node, $subscriber;
set_up();
my $told = 0;
run_them();
cmp_ok($told, '>', $transactions, "$told changes were compared");
is_sound($dbh, 'at the end');
value($to, 'DROP SUBSCRIPTION s');
$_->disconnect for $dbh, $to;
$_->stop for $node, $subscriber;
done_testing();

sub set_up
{
	($dbh, $to) = map { connect_db($_) } $node, $subscriber;
	run_all($dbh, 'CREATE EXTENSION zen', "SELECT pg_create_logical_replication_slot('same', 'test_decoding')");
	for my $am ('zen', 'heap')
	{
		run_all($dbh, "CREATE TABLE t_$am (id int PRIMARY KEY, k bigint, v text, w text) USING $am",
			"CREATE UNIQUE INDEX t_${am}_k ON t_$am (k)");
		run_all($to, "CREATE TABLE t_$am (id int PRIMARY KEY, k bigint UNIQUE, v text, w text, x text)");
	}
	value($dbh, 'CREATE PUBLICATION p FOR TABLE t_zen, t_heap');
	# With tables of heap alone, too, large transactions fail assertions of PostgreSQL's own.  15: one was spilled, is
	# then streamed, and a savepoint of it has changed nothing.  18: one has savepoints and is rolled back, and nothing
	# of it was streamed.
	my $asserts = value($dbh, 'SHOW debug_assertions') eq 'on';
	reload_conf($node, 'logical_decoding_work_mem = 64MB') if $asserts && $node->pg_version >= 18;
	# By default the worker that applies changes does not wait for the disk.  One that comes after it has failed tells
	# the publisher that all of that is on the disk; if the subscriber dies then, rows are lost, those of heap, too.
	value($to, sprintf q{CREATE SUBSCRIPTION s CONNECTION 'host=%s port=%d dbname=postgres' PUBLICATION p
		WITH (streaming = %s, two_phase = on, synchronous_commit = on)},
		$node->host, $node->port, $asserts ? 'off' : 'on');
	wait_for('the first copy', sub { value($to, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}) });
	return;
}

# --- what is done -----------------------------------------------------------

sub id { return between(1, 60); }

sub long_value
{
	my $from = between(1, 1_000_000);
	my $n = between(1, 300);
	return "(SELECT string_agg(md5(g::text), '') FROM generate_series($from, $from + $n) g)";
}

sub small_value { return "'" . pick('a' .. 'z') . between(1, 1000) . "'"; }

sub change
{
	my $id = id();
	my $k = between(1, 80);
	return pick(
		sub { sprintf 'INSERT INTO T VALUES (%d, %d, %s, %s)', $id, $k, small_value(), small_value() },
		sub { sprintf 'INSERT INTO T VALUES (%d, %d, %s) ON CONFLICT DO NOTHING', $id, $k, small_value() },
		sub { sprintf 'INSERT INTO T VALUES (%d, NULL, %s, %s) ON CONFLICT (id) DO UPDATE SET w = excluded.w', $id,
			  small_value(), long_value() },
		sub { sprintf 'UPDATE T SET v = %s WHERE id = %d', small_value(), $id },
		sub { sprintf 'UPDATE T SET w = %s WHERE id = %d', long_value(), $id },
		sub { sprintf 'UPDATE T SET w = NULL WHERE id = %d', $id },
		sub { sprintf 'UPDATE T SET k = %d WHERE id = %d', $k, $id },
		sub { sprintf 'UPDATE T SET id = id + 100 WHERE id = %d', $id },
		sub { sprintf 'UPDATE T SET id = id - 100 WHERE id = %d', $id + 100 },
		sub { sprintf 'DELETE FROM T WHERE id = %d', $id },
		sub { sprintf 'DELETE FROM T WHERE id = %d', $id + 100 },
		sub { bulk() })->();
}

# Row by row, since a statement finds rows of heap and zen in another order.
sub bulk
{
	my ($low, $n) = (between(1, 5) * 1000, between(1, 200));
	my $high = $low + $n;
	my $value = small_value();
	return pick(
		"INSERT INTO T SELECT g, NULL, $value || g, repeat('x', g % 50) FROM generate_series($low, $high) g"
		  . ' ON CONFLICT DO NOTHING',
		(map { "DO \$\$ BEGIN FOR i IN $low .. $high LOOP $_; END LOOP; END \$\$" }
			"UPDATE T SET v = $value || i WHERE id = i", 'DELETE FROM T WHERE id = i',
			"UPDATE T SET id = i + 10000 WHERE id = i", "UPDATE T SET id = i WHERE id = i + 10000"));
}

sub ddl
{
	return pick(
		sub { $extra = !$extra; $extra ? 'ALTER TABLE T ADD COLUMN x text DEFAULT 5' : 'ALTER TABLE T DROP COLUMN x' },
		sub { $identity = !$identity; 'ALTER TABLE T REPLICA IDENTITY ' . ($identity ? 'FULL' : 'DEFAULT') },
		sub { $wide = !$wide; 'ALTER TABLE T ALTER k TYPE ' . ($wide ? 'int' : 'bigint') },
		sub { 'TRUNCATE T' })->();
}

sub part
{
	my ($no_ddl) = @_;
	my @statements = map { !$no_ddl && one_in(40) ? ddl() : change() } 1 .. between(1, 4);
	return @statements unless one_in(4);
	my $s = 's' . ++$serial;
	# definitions are not rolled back, since this script keeps track of them
	@statements = grep { !/^ALTER/ } @statements, part(1);
	return ("SAVEPOINT $s", @statements, one_in(2) ? "RELEASE $s" : "ROLLBACK TO $s");
}

# A transaction: a list of statements, with its end.
sub transaction
{
	return ([ change() ]) if one_in(3);
	return ([ pick('VACUUM FULL T', 'CLUSTER T USING T_k', 'VACUUM T') ]) if one_in(40);
	if (one_in(6))
	{
		my $gid = 'g' . ++$serial;
		my @end = ("PREPARE TRANSACTION '$gid'", pick('COMMIT', 'COMMIT', 'ROLLBACK') . " PREPARED '$gid'");
		return ([ 'BEGIN', part(1), part(1), @end ]);
	}
	my ($was_extra, $was_identity, $was_wide) = ($extra, $identity, $wide);
	my @statements = (part(), part());
	return ([ 'BEGIN', @statements, 'COMMIT' ]) if grep { /^ALTER/ } @statements or !one_in(6);
	return ([ 'BEGIN', @statements, 'ROLLBACK' ]);
}

# --- doing it, and looking --------------------------------------------------

# Run it on one of the tables.  Returns how its statements ended; after an error the transaction is rolled back.
sub run_on
{
	my ($am, $statements) = @_;
	my @states;
	for my $s (@$statements)
	{
		push @states, run_sql($dbh, $s =~ s/\bT(?=_|\b)/t_$am/gr)->{state};
		next unless $states[-1];
		run_sql($dbh, 'ROLLBACK') if @$statements > 1;
		last;
	}
	return join ' ', @states;
}

sub restart
{
	my ($which) = @_;
	if ($which eq 'publisher')
	{
		$dbh = crash_restart($node);
		wait_recovered($dbh);
	}
	else
	{
		$to = crash_restart($subscriber);
	}
	return;
}

# What the slot has told of each of the tables since the last time.
sub compare_changes
{
	my ($when) = @_;
	# what was read is read again after a crash, but for a checkpoint
	value($dbh, 'CHECKPOINT');
	my $rows = $dbh->selectcol_arrayref(
		q{SELECT data FROM pg_logical_slot_get_changes('same', NULL, NULL, 'include-xids', '0')});
	value($dbh, 'CHECKPOINT');
	my %told = (zen => [], heap => []);
	for (@$rows)
	{
		push @{ $told{$1} }, s/t_(zen|heap)/T/r if /^table public\.t_(zen|heap):/;
	}
	$told += @{ $told{zen} };
	return is_deeply($told{zen}, $told{heap}, "$when: the same changes");
}

sub compare_rows
{
	my ($when) = @_;
	my $lsn = value($dbh, 'SELECT pg_current_wal_flush_lsn()');
	wait_for('the subscriber',
		sub { value($dbh, "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = 's'") });
	my %rows;
	for my $am ('zen', 'heap')
	{
		my $t = "(SELECT id, k, v, w FROM t_$am)";
		$rows{$am} = contents($dbh, $t);
		is(contents($to, $t), $rows{$am}, "$when: the subscriber has the rows of $am");
	}
	return is($rows{zen}, $rows{heap}, "$when: both tables have the same rows");
}

sub run_them
{
	for my $i (1 .. $transactions)
	{
		my ($statements) = transaction();
		value($dbh, 'SET zen.spill_threshold = ' . pick(0, -1, 1024)) if one_in(10);
		my $on_zen = run_on('zen', $statements);
		restart('publisher') if one_in(60);
		my $on_heap = run_on('heap', $statements);
		is($on_zen, $on_heap, "$i: the same errors") or diag(join "\n", @$statements) if $on_zen ne $on_heap;
		restart('publisher') if one_in(100);
		restart('subscriber') if one_in(100);
		next if $i % 25 && $i < $transactions;
		compare_changes("after $i") && compare_rows("after $i") or last;
	}
	return;
}
