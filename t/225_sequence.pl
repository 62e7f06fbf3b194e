# Numbers of sequences after a crash: none that a committed row of a zen table has comes again, although a zen-only
# commit flushes no WAL of its own.  In mode wal commits are mixed ones, and flush it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg qw(:async);
use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('sequence', fsync => 1,
	conf => "shared_buffers = 64MB\nwal_writer_delay = 10s\nmax_wal_size = 1GB");
$node->start;
my $mixed_each = by_wal($node);
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_sequence();
test_sequence_waited_for();
test_sequence_waited_for_unlogged($_) for 0, 100;
test_carried_numbers();
test_number_of_others();
is_sound($dbh, 'at the end');
$dbh->disconnect;
$node->stop;
done_testing();

# nextval() logs 32 values ahead; if that was in a transaction that was rolled back,
# later ones committed in NVM without a flush of that record, and a crash handed their
# values out again.
sub test_sequence
{
	# Twice, so that the catalogs are pruned and that an insertion writes no WAL.
	my $mixed = 'SELECT commits_mixed FROM zen_stat';
	run_all($dbh, 'CREATE TABLE s (id serial PRIMARY KEY, v text) USING zen',
		(q{INSERT INTO s (v) VALUES ('x')}) x 2, 'CHECKPOINT');
	stop_wal_writer($dbh);
	run_all($dbh, 'BEGIN', q{SELECT nextval('s_id_seq')}, 'ROLLBACK');
	my $before = value($dbh, $mixed);
	run_all($dbh, q{INSERT INTO s (v) VALUES ('a')}, q{INSERT INTO s (v) VALUES ('b')});
	is(value($dbh, $mixed), $before + 2 * $mixed_each, 'sequence: nothing else has flushed the WAL');
	$dbh = crash_restart($node);
	is(value($dbh, 'SELECT count(*) FROM s'), 4, 'sequence: rows are there');
	my $max = value($dbh, 'SELECT max(id) FROM s');
	cmp_ok(value($dbh, q{SELECT nextval('s_id_seq')}), '>', $max, 'sequence: no value comes twice');
	is(state_of($dbh, q{INSERT INTO s (v) VALUES ('c')}), '', 'sequence: insert');
}

# The same when the lock by which a sequence's use is told has left its fast path, because somebody waits for a stronger
# one.
sub test_sequence_waited_for
{
	my $mixed = 'SELECT commits_mixed FROM zen_stat';
	run_all($dbh, 'CREATE TABLE sw (id serial PRIMARY KEY, v text) USING zen', (q{INSERT INTO sw (v) VALUES ('x')}) x 2,
		'CHECKPOINT');
	stop_wal_writer($dbh);
	# what is looked at in catalogs may prune their pages, which writes WAL: another session looks
	my ($other, $watch) = map { connect_db($node) } 1 .. 2;
	my $before = value($watch, $mixed);
	run_all($dbh, 'BEGIN', q{SELECT nextval('sw_id_seq')}, 'ROLLBACK', 'BEGIN', q{INSERT INTO sw (v) VALUES ('a')});
	$other->do('BEGIN');
	$other->do('ALTER SEQUENCE sw_id_seq CACHE 1', { pg_async => PG_ASYNC });
	wait_for('the lock', sub { lock_wait_pid($watch, $other->{pg_pid}) });
	run_all($dbh, 'COMMIT');
	is(value($watch, $mixed), $before + $mixed_each, 'sequence waited for: nothing else has flushed the WAL');
	$dbh = crash_restart($node);
	my $max = value($dbh, 'SELECT max(id) FROM sw');
	cmp_ok(value($dbh, q{SELECT nextval('sw_id_seq')}), '>', $max, 'sequence waited for: no value comes twice');
}

# The same when the process that commits has written no record, nor has anybody told of the number: so only the lock in
# the main table says that it has used a sequence.  Locks on transactions stand there before it, if there are any.
sub test_sequence_waited_for_unlogged
{
	my ($savepoints) = @_;
	my $name = "sequence waited for, $savepoints savepoints";
	my $mixed = 'SELECT commits_mixed FROM zen_stat';
	run_all($dbh, 'DROP TABLE IF EXISTS sw, told', 'CREATE TABLE told (n bigint) USING zen',
		'CREATE TABLE sw (id serial PRIMARY KEY, v text) USING zen',
		(q{INSERT INTO sw (v) VALUES ('x')}) x 2, 'CHECKPOINT');
	stop_wal_writer($dbh);
	my ($t0, $other, $watch) = map { connect_db($node) } 1 .. 3;
	run_all($watch, 'INSERT INTO told VALUES (0)');
	my $before = value($watch, $mixed);
	run_all($t0, 'BEGIN', q{DO $$ BEGIN PERFORM nextval('sw_id_seq') FROM generate_series(1, 40); END $$});
	my $record = value($watch, 'SELECT pg_current_wal_insert_lsn()');
	run_all($dbh, 'BEGIN', (map { ('SAVEPOINT s', "INSERT INTO sw VALUES (-$_)") } 1 .. $savepoints),
		q{INSERT INTO sw (v) VALUES ('a')});
	$other->do('BEGIN');
	$other->do('ALTER SEQUENCE sw_id_seq CACHE 1', { pg_async => PG_ASYNC });
	wait_for('the lock', sub { lock_wait_pid($watch, $other->{pg_pid}) });
	is(value($watch, "SELECT pg_current_wal_flush_lsn() < '$record'"), 1, "$name: the record is not on disk");
	# released savepoints have no locks, so a number is told before they are
	$savepoints ? run_all($watch, 'INSERT INTO told VALUES (' . value($dbh, q{SELECT currval('sw_id_seq')}) . ')')
	  : run_all($dbh, 'COMMIT');
	is(value($watch, $mixed), $before + $mixed_each, "$name: nothing else has flushed the WAL");
	is(value($watch, "SELECT pg_current_wal_flush_lsn() >= '$record'"), 1, "$name: the commit has");
	run_all($dbh, 'COMMIT') if $savepoints;
	$dbh = crash_restart($node);
	my $max = value($dbh, 'SELECT max(id) FROM sw');
	cmp_ok(value($dbh, q{SELECT nextval('sw_id_seq')}), '>', $max, "$name: no value comes twice");
	return;
}

# Numbers go from the transactions that take them to another session's zen-only commit.  T0 writes nextval()'s WAL
# record, and stays open; nothing flushed it, as T0 had not ended, and T1, which takes the next number, had written no
# WAL.
sub carry
{
	my ($name, $t0, $take) = @_;
	run_all($dbh, "CREATE SEQUENCE q_$name", 'CHECKPOINT');
	run_all($t0, 'BEGIN', "SELECT nextval('q_$name')");
	my $record = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	my $number = $take->("q_$name");
	like($number, qr/^\d+$/, "$name: a number");
	cmp_ok(value($dbh, "SELECT pg_current_wal_flush_lsn() < '$record'"), 'eq', '1', "$name: the record is not on disk");
	my $mixed = value($dbh, 'SELECT commits_mixed FROM zen_stat');
	run_all($dbh, "INSERT INTO carried VALUES ($number)");
	is(value($dbh, 'SELECT commits_mixed FROM zen_stat'), $mixed + $mixed_each,
		"$name: nothing else has flushed the WAL");
	cmp_ok(value($dbh, "SELECT pg_current_wal_flush_lsn() >= '$record'"), 'eq', '1', "$name: now it is");
	return;
}

sub test_carried_numbers
{
	run_all($dbh, 'CREATE TABLE carried (n bigint) USING zen', 'INSERT INTO carried VALUES (0)');
	stop_wal_writer($dbh);
	my ($t0, $t1) = map { connect_db($node) } 1 .. 2;
	my $next = sub { value($t1, "SELECT nextval('$_[0]')") };
	my $in   = sub { my ($begin, $end) = @_; return sub { value($t1, $begin); my $n = $next->(@_); value($t1, $end)
	  if $end; return $n; } };
	my %take = (
		ended       => $next,
		rolled_back => $in->('BEGIN', 'ROLLBACK'),
		still_open  => $in->('BEGIN'),
		second      => sub { $next->(@_); $next->(@_) },
		error       => sub { $t1->do("DO \$\$ BEGIN RAISE 'number %', nextval('$_[0]'); END \$\$");
			($t1->errstr =~ /number (\d+)/)[0] },
		copied      => sub { value($t1, 'BEGIN'); $t1->do("COPY (SELECT nextval('$_[0]')) TO STDOUT"); my $n = '';
			$t1->pg_getcopydata($n); chomp $n; my $rest; 1 while $t1->pg_getcopydata($rest) >= 0; $n },
		own         => sub { value($t0, "SELECT currval('$_[0]')") });
	for my $name (sort keys %take)
	{
		carry($name, $t0, $take{$name});
		$_->do('ROLLBACK') for $t0, $t1;
	}
	$_->disconnect for $t0, $t1;
	$dbh = crash_restart($node);
	return;
}

# The same, seen by what it must not come to.
sub test_number_of_others
{
	run_all($dbh, 'CREATE SEQUENCE handed_out START 1000', 'CHECKPOINT');
	stop_wal_writer($dbh);
	my ($t0, $t1) = map { connect_db($node) } 1 .. 2;
	run_all($t0, 'BEGIN', q{SELECT nextval('handed_out')});
	my $number = value($t1, q{SELECT nextval('handed_out')});
	run_all($dbh, "INSERT INTO carried VALUES ($number)");
	$dbh = crash_restart($node);
	is(value($dbh, "SELECT count(*) FROM carried WHERE n = $number"), 1, 'number of others: the row is there');
	cmp_ok(value($dbh, q{SELECT nextval('handed_out')}), '>', $number, 'number of others: it does not come again');
	return;
}
