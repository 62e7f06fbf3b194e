# Transactions of zen tables are durable before the WAL is.  After a crash of the publisher, what the WAL has lost is
# logged again: each change reaches readers of logical slots once, and none is missing.
#
# - while nobody flushes the WAL, a slot gets exactly the changes that were committed; a second crash repeats none; nor
#   is it otherwise if one process dies and the others with it
# - rounds of kills under load: the subscriber has the publisher's rows, those of a table without a key, too
#
# In mode wal no transaction is durable before the WAL is, and nothing is logged again.
#
# ROUNDS=n rounds of kills (default 4).

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run ();
use Test::More;
use Time::HiRes qw(sleep);
use ZenTest;

skip_unless_zen();
skip_unless_modules('test_decoding');
choose_seed();
my $rounds = $ENV{ROUNDS} || 4;
my $node = new_node('publisher', pool_size => '128MB', dram_size => '128MB',
	init => { allows_streaming => 'logical' }, conf => "zen.stream = logical\nrestart_after_crash = on");
my $subscriber = new_node('subscriber', preload => 0, init => { allows_streaming => 'logical' });
my $has_tail = !by_wal($node);
$_->start for $node, $subscriber;
my ($dbh, $to) = map { connect_db($_) } $node, $subscriber;
run_all($dbh, 'CREATE EXTENSION zen');
test_exact();
test_load();
$_->disconnect for $dbh, $to;
$_->stop for $node, $subscriber;
done_testing();

# The server comes back by itself after the death of one process.
sub kill_backend
{
	my $offset = log_size($node);
	kill 'KILL', value($dbh, 'SELECT pg_backend_pid()');
	wait_for('the server to come back', sub { log_since($node, $offset) =~ /zen is ready/ });
	$dbh = connect_db($node);
	return;
}

sub restart_after_crash
{
	my ($one) = @_;
	my $offset = log_size($node);
	if ($one) { kill_backend(); }
	else { $dbh = crash_restart($node); }
	wait_recovered($dbh);
	my ($again) = log_since($node, $offset) =~ /zen has logged (\d+) transactions again/;
	is(value($dbh, 'SELECT logged_again FROM zen_stat_stream'), $again || 0, 'zen_stat_stream tells of it');
	return $again || 0;
}

# --- every change once ------------------------------------------------------

sub changes
{
	my $rows = $dbh->selectcol_arrayref(
		q{SELECT data FROM pg_logical_slot_get_changes('exact', NULL, NULL, 'include-xids', '0')});
	# else a crash would have the slot read it again
	value($dbh, 'CHECKPOINT');
	return [ map { s/.*public\.t: //r } grep { /public\.t:/ } @$rows ];
}

# What is kept of a transaction ends where a savepoint began that is rolled back.
sub savepoints
{
	my ($id) = @_;
	my $insert = sub { sprintf q{INSERT INTO t VALUES (%d, '%s')}, $id + $_[0], $_[1] };
	return ('BEGIN', 'SAVEPOINT s', $insert->(0, 'a'), 'SAVEPOINT s2', $insert->(1000, 'lost'), 'ROLLBACK TO s2',
		'RELEASE s', 'SAVEPOINT s', $insert->(2000, 'b'), 'SAVEPOINT s2', 'SAVEPOINT s3', $insert->(3000, 'lost'),
		'RELEASE s3', 'ROLLBACK TO s2', 'SAVEPOINT s4', $insert->(4000, 'c'), 'RELEASE s', 'SAVEPOINT s',
		$insert->(5000, 'lost'), 'ROLLBACK TO s', 'COMMIT');
}

# A value that fills several chunks and cannot be compressed.
sub large { return join '', map { md5_hex("$_[0] $_") } 1 .. 500; }

sub test_exact
{
	run_all($dbh, 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
		q{SELECT pg_create_logical_replication_slot('exact', 'test_decoding')}, 'CHECKPOINT');
	my ($lost, @expected) = (0);
	for my $round (1 .. 3)
	{
		# who reads a page of a catalog first may write WAL, and then waits
		run_all($dbh, 'BEGIN', sprintf(q{INSERT INTO t VALUES (0, '%s')}, large(0)), 'ROLLBACK');
		stop_wal_writer($dbh);
		my $mixed = value($dbh, 'SELECT commits_mixed FROM zen_stat');
		for my $i (map { $round * 100 + $_ } 1 .. 20)
		{
			my ($j, $long) = ($i + 1000, "long $i " x 400);
			run_all($dbh, "INSERT INTO t VALUES ($i, 'a')", "UPDATE t SET v = 'b' WHERE id = $i",
				"UPDATE t SET id = $j WHERE id = $i", 'BEGIN', "INSERT INTO t VALUES ($i, '$long')",
				"DELETE FROM t WHERE id = $j", 'COMMIT',
				'BEGIN', "INSERT INTO t VALUES ($j, 'lost')", 'ROLLBACK', savepoints($i + 10000),
				sprintf(q{INSERT INTO t VALUES (%d, '%s')}, $i + 20000, large($i)));
			push @expected, "INSERT: id[integer]:$i v[text]:'a'", "UPDATE: id[integer]:$i v[text]:'b'",
			  "UPDATE: old-key: id[integer]:$i new-tuple: id[integer]:$j v[text]:'b'",
			  "INSERT: id[integer]:$i v[text]:'$long'", "DELETE: id[integer]:$j",
			  (map { "INSERT: id[integer]:$_->[0] v[text]:'$_->[1]'" } [ $i + 10000, 'a' ], [ $i + 12000, 'b' ],
				[ $i + 14000, 'c' ], [ $i + 20000, large($i) ]);
		}
		my $tail = $has_tail ?
		  q{mode = 'logical' AND tail_transactions > 50 AND tail_bytes >= 256 * tail_transactions} :
		  q{mode = 'replica' AND tail_transactions = 0};
		ok(value($dbh, "SELECT records >= 100 AND bytes > records * 40 AND $tail FROM zen_stat_stream"),
			'zen_stat_stream tells of records and of the tail');
		is(value($dbh, 'SELECT commits_mixed FROM zen_stat') - $mixed, $has_tail ? 0 : 6 * 20,
			'so many commits have waited for the disk') if $round > 1;
		# the slot's reader has had some of it by a flush of the WAL in the first round, and all of it in the last
		my $before = contents($dbh, 't');
		my $again = restart_after_crash($round == 2);
		$lost += $again;
		is(contents($dbh, 't'), $before, 'the rows are there');
		is(restart_after_crash(), 0, 'a second crash finds nothing to be logged') if $round > 1;
		next if $round == 2;
		is_deeply(changes(), \@expected, 'the slot has each change once');
		@expected = ();
		is_sound($dbh, "round $round");
	}
	is($lost ? 'some' : 'none', $has_tail ? 'some' : 'none', "$lost transactions were logged again");
	value($dbh, q{SELECT pg_drop_replication_slot('exact')});
	return;
}

# --- kills under load -------------------------------------------------------

sub script
{
	return <<'END';
\set id random(1, 500)
\set other random(1, 500)
UPDATE acc SET n = n + 1 WHERE id = :id;
INSERT INTO log VALUES (:client_id, :id);
BEGIN;
DELETE FROM acc WHERE id = :other;
INSERT INTO acc VALUES (:other, :id, repeat('x', :other * 4)) ON CONFLICT (id) DO UPDATE SET n = excluded.n;
END;
UPDATE acc SET n = -n WHERE id = :other;
DELETE FROM log WHERE a = :client_id AND b = :other;
END
}

sub caught_up
{
	my $lsn = value($dbh, 'SELECT pg_current_wal_flush_lsn()');
	wait_for('the subscriber',
		sub { value($dbh, "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = 's'") });
	return;
}

sub test_load
{
	my $file = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
	PostgreSQL::Test::Utils::append_to_file($file, script());
	for ([ $dbh, 'USING zen' ], [ $to, '' ])
	{
		run_all($_->[0], "CREATE TABLE acc (id int PRIMARY KEY, n int, v text) $_->[1]",
			"CREATE TABLE log (a int, b int) $_->[1]", 'ALTER TABLE log REPLICA IDENTITY FULL');
	}
	run_all($dbh, 'INSERT INTO acc SELECT g, 0 FROM generate_series(1, 500) g',
		'CREATE PUBLICATION p FOR TABLE acc, log');
	run_all($to, sprintf q{CREATE SUBSCRIPTION s CONNECTION 'host=%s port=%d dbname=postgres' PUBLICATION p},
		$node->host, $node->port);
	wait_for('the first copy', sub { value($to, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}) });
	my $sum = 0;
	for my $round (1 .. $rounds)
	{
		my $before = value($dbh, q{SELECT pg_current_wal_insert_lsn()});
		my ($out, $err) = ('', '');
		my $bench = IPC::Run::start([ 'pgbench', '-n', '-c', '4', '-T', '100', '-f', $file, '-h', $node->host, '-p',
				$node->port, 'postgres' ], \undef, \$out, \$err);
		wait_for('some load', sub { value($dbh, "SELECT pg_current_wal_insert_lsn() - '$before' > 500000") });
		sleep rand 0.3;
		my $again = restart_after_crash();
		$bench->finish;
		$sum += $again;
		# something to be sent after the crash
		value($dbh, "INSERT INTO log VALUES (-1, $round)");
		value($dbh, 'CHECKPOINT');
		caught_up();
		is(contents($to, $_), contents($dbh, $_), "round $round ($again logged again): the same rows of $_")
		  for 'acc', 'log';
		is_sound($dbh, "round $round");
	}
	is($sum ? 'some' : 'none', $has_tail ? 'some' : 'none', "$sum transactions were logged again in all");
	value($to, 'DROP SUBSCRIPTION s');
	return;
}
