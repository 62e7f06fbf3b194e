# zen.stream = logical: changes of zen tables are decoded, and reach a subscriber, as those of heap tables do.
#
# - the setting: what it needs, what is refused
# - test_decoding prints the same for a heap table and a zen table that have gone through the same statements
# - PREPARE writes no WAL before its own record, or a decoder would tell of COMMIT PREPARED only
# - pgoutput: first copy and changes reach a subscriber
# - zen.stream off for a while: slots from before say so, new ones and those moved on do not; one from before the first
#   time that it is on is as good as any
# - readers that go by what is written to the WAL miss no commit
#
# In mode wal the stream is on whatever the setting says, and for slots if wal_level is logical.

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_modules('test_decoding');
my $node = new_node('publisher', pool_size => '128MB', dram_size => '128MB',
	init => { allows_streaming => 'logical' }, conf => 'zen.stream = logical');
my $by_wal = by_wal($node);
my $subscriber = new_node('subscriber', preload => 0, init => { allows_streaming => 'logical' });

test_setting();
$_->start for $node, $subscriber;
my ($dbh, $to) = map { connect_db($_) } $node, $subscriber;
test_first_on();
test_prepare();
test_decoded();
test_subscribed();
test_off();
test_unwritten();
$_->disconnect for $dbh, $to;
$_->stop for $node, $subscriber;
done_testing();

sub test_setting
{
	my %needs = (
		logical => qr/zen\.stream = logical needs wal_level = logical/,
		replica => qr/zen\.stream = replica needs wal_level = replica or logical/,
		worker  => qr/zen\.stream = logical needs a background worker/);
	%needs = (logical => qr/^started/, replica => qr/^started/,
		worker => qr/zen\.pool_mode = wal needs background workers/) if $by_wal;
	set_conf($node, "\nwal_level = replica\n");
	like(start_failing($node) // 'started', $needs{logical}, 'what logical needs of wal_level');
	set_conf($node, "\nwal_level = minimal\nmax_wal_senders = 0\nzen.stream = replica\n");
	like(start_failing($node) // 'started', $needs{replica}, 'what replica needs of it');
	set_conf($node, "\nwal_level = logical\nmax_wal_senders = 10\n");
	set_conf($node, "\nzen.stream = logical\nmax_worker_processes = 1\n");
	like(start_failing($node) // 'started', $needs{worker}, 'it needs a worker');
	set_conf($node, "\nmax_worker_processes = 8\nzen.stream = off\n");
	return;
}

sub restart_with
{
	my ($stream) = @_;
	$dbh->disconnect;
	set_conf($node, "\nzen.stream = $stream\n");
	$node->restart;
	$dbh = connect_db($node);
	wait_recovered($dbh);
	return;
}

sub test_first_on
{
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE first (id int) USING zen', 'INSERT INTO first VALUES (1)',
		q{SELECT pg_create_logical_replication_slot('first', 'test_decoding')});
	restart_with('logical');
	value($dbh, 'INSERT INTO first VALUES (2)');
	is_deeply(inserted('first', 'first'), [2], 'a slot from before gets what follows');
	value($dbh, q{SELECT pg_drop_replication_slot('first')});
	return;
}

# --- PREPARE ----------------------------------------------------------------

# A page of pg_class waits for the next one who reads it, and prunes it then.  That would be PREPARE: the session has
# locked table p, and has heard that p was changed, so it does not know p's row any more.
sub test_prepare
{
	run_all($dbh, 'CREATE TABLE p (id int) USING zen', 'CREATE TABLE other (id int)',
		'SET allow_system_table_mods = on', 'ALTER TABLE pg_class SET (fillfactor = 10)');
	my $session = connect_db($node);
	run_all($session, 'BEGIN', 'LOCK TABLE other IN ACCESS SHARE MODE', 'DELETE FROM p WHERE false');
	run_all($dbh, 'ALTER TABLE p SET (autovacuum_enabled = off)',
		q{SELECT pg_create_logical_replication_slot('prepare', 'test_decoding', false, true)});
	run_all($session, 'LOCK TABLE other IN ROW SHARE MODE', q{PREPARE TRANSACTION 'p'}, q{COMMIT PREPARED 'p'});
	$session->disconnect;
	is_deeply(changes('prepare'), [], 'nothing is told of a prepared transaction that has changed nothing');
	run_all($dbh, q{SELECT pg_drop_replication_slot('prepare')}, 'ALTER TABLE pg_class RESET (fillfactor)',
		'RESET allow_system_table_mods', 'DROP TABLE p, other');
	return;
}

# --- the same for heap and zen ----------------------------------------------

# The changes that a slot has now, as text, without xids, with the table's name left out.
sub changes
{
	my ($slot, @options) = @_;
	# commits of zen tables do not wait for the WAL, and readers get what is flushed
	my $options = join '', map { ", '$_'" } 'include-xids', '0', 'skip-empty-xacts', '1', @options;
	my $rows = $dbh->selectcol_arrayref("SELECT data FROM pg_logical_slot_get_changes('$slot', NULL, NULL$options)");
	return $rows;
}

# Statements with T for the table are run for both; each statement is a transaction, or a list of statements is.
sub same_changes
{
	my ($what, @statements) = @_;
	my %got;
	for my $am ('heap', 'zen')
	{
		for my $s (@statements)
		{
			my @parts = map { s/\bT(?=_|\b)/t_$am/gr =~ s/\bAM\b/$am/gr } ref $s ? @$s : $s;
			run_all($dbh, ref $s ? ('BEGIN', @parts, 'COMMIT') : @parts);
		}
		$got{$am} = join "\n",
		  map { s/\bt_$am/T/gr =~ s/'([0-9a-f]{100,})'/"'" . md5_hex($1) . "'"/ger } @{ changes('same') };
	}
	is($got{zen}, $got{heap}, "the same changes: $what");
	return $got{zen};
}

sub test_decoded
{
	value($dbh, q{SELECT pg_create_logical_replication_slot('same', 'test_decoding')});
	same_changes('before there are any', 'CREATE TABLE T (id int PRIMARY KEY, v text, w text) USING AM');
	like(same_changes('insert', q{INSERT INTO T VALUES (1, 'a', 'x'), (2, 'b', NULL)}), qr/INSERT: id\[integer\]:1/,
		'they are told');
	same_changes('update', q{UPDATE T SET v = 'c' WHERE id = 1});
	same_changes('key update', 'UPDATE T SET id = 10 WHERE id = 1');
	same_changes('delete', 'DELETE FROM T WHERE id = 2');
	same_changes('several of one row',
		[ q{INSERT INTO T VALUES (3, 'a')}, q{UPDATE T SET v = 'b' WHERE id = 3}, 'UPDATE T SET id = 4 WHERE id = 3',
			'DELETE FROM T WHERE id = 4', q{INSERT INTO T VALUES (3, 'again')} ]);
	same_changes('savepoints',
		[ q{INSERT INTO T VALUES (20, 'a')}, 'SAVEPOINT a', 'DELETE FROM T', 'SAVEPOINT b',
			q{INSERT INTO T VALUES (21, 'lost')}, 'ROLLBACK TO a', q{INSERT INTO T VALUES (22, 'b')}, 'SAVEPOINT c',
			q{INSERT INTO T VALUES (23, 'c')}, 'RELEASE c', q{UPDATE T SET v = 'd' WHERE id = 23} ]);
	same_changes('an unchanged long value',
		q{INSERT INTO T SELECT 30, string_agg(md5(g::text), ''), 'x' FROM generate_series(1, 1000) g},
		q{UPDATE T SET w = 'y' WHERE id = 30}, 'UPDATE T SET id = 31 WHERE id = 30', 'DELETE FROM T WHERE id = 31');
	my $file = PostgreSQL::Test::Utils::tempdir() . '/rows';
	same_changes('COPY of long values',
		q{INSERT INTO T SELECT 100 + i, (SELECT string_agg(md5((g + i)::text), '') FROM generate_series(1, 200) g)
		  FROM generate_series(1, 150) i}, "COPY (SELECT * FROM T WHERE id > 100 ORDER BY id) TO '$file'",
		'DO $$ BEGIN FOR i IN 101 .. 250 LOOP DELETE FROM T WHERE id = i; END LOOP; END $$', "COPY T FROM '$file'",
		'DO $$ BEGIN FOR i IN 101 .. 250 LOOP DELETE FROM T WHERE id = i; END LOOP; END $$');
	same_changes('insert or update',
		q{INSERT INTO T VALUES (3, 'x'), (40, 'y') ON CONFLICT (id) DO UPDATE SET v = T.v || excluded.v},
		q{INSERT INTO T VALUES (3, 'x'), (41, 'y') ON CONFLICT DO NOTHING});
	same_changes('the whole old row', 'ALTER TABLE T REPLICA IDENTITY FULL', q{UPDATE T SET v = 'f' WHERE id = 40},
		q{INSERT INTO T SELECT 50, string_agg(md5(g::text), ''), 'x' FROM generate_series(1, 1000) g},
		q{UPDATE T SET w = 'y' WHERE id = 50}, q{UPDATE T SET v = 'short' WHERE id = 50},
		'DELETE FROM T WHERE id = 50');
	same_changes('nothing of the old row', 'ALTER TABLE T REPLICA IDENTITY NOTHING',
		'UPDATE T SET id = 42 WHERE id = 40', 'DELETE FROM T WHERE id = 42');
	same_changes('an index of the old row', 'CREATE UNIQUE INDEX T_other ON T (w)',
		'DO $$ BEGIN FOR i IN 1 .. 100 LOOP UPDATE T SET w = i WHERE id = i; END LOOP; END $$',
		'ALTER TABLE T ALTER w SET NOT NULL',
		'ALTER TABLE T REPLICA IDENTITY USING INDEX T_other', q{UPDATE T SET v = 'i' WHERE id = 3},
		q{UPDATE T SET w = 'changed' WHERE id = 3}, 'DELETE FROM T WHERE id = 20',
		'ALTER TABLE T REPLICA IDENTITY DEFAULT');
	same_changes('TRUNCATE', 'TRUNCATE T', [ q{INSERT INTO T VALUES (1, 'a', 'a')}, 'TRUNCATE T',
			q{INSERT INTO T VALUES (2, 'b', 'b')} ]);
	same_changes('changed definitions',
		[ q{INSERT INTO T VALUES (3, 'c', 'c')}, 'ALTER TABLE T ADD COLUMN n int DEFAULT 7',
			q{INSERT INTO T VALUES (4, 'd', 'd', 8)}, 'ALTER TABLE T ALTER n TYPE text',
			q{UPDATE T SET n = 'x' WHERE id = 4}, 'ALTER TABLE T DROP COLUMN v',
			q{INSERT INTO T VALUES (5, 'e', 'y')} ],
		'VACUUM FULL T', 'CLUSTER T USING T_other');
	same_changes('a table that comes and goes in one transaction',
		[ 'CREATE TABLE T_2 (a int) USING AM', 'INSERT INTO T_2 VALUES (1)', 'ALTER TABLE T_2 ALTER a TYPE text',
			q{INSERT INTO T_2 VALUES ('2')}, 'DROP TABLE T_2', q{INSERT INTO T VALUES (6, 'f', 'z')} ]);
	same_changes('CREATE TABLE AS, materialized views', 'CREATE TABLE T_as USING AM AS SELECT * FROM T',
		'CREATE MATERIALIZED VIEW T_mv USING AM AS SELECT * FROM T', 'REFRESH MATERIALIZED VIEW T_mv');
	same_changes('heap and zen in one transaction',
		'CREATE TABLE T_side (a int PRIMARY KEY)',
		[ 'INSERT INTO T_side VALUES (1)', q{INSERT INTO T VALUES (60, 's', 's')}, 'UPDATE T_side SET a = 2',
			q{UPDATE T SET n = 'm' WHERE id = 60} ]);
	return;
}

# --- a subscriber -----------------------------------------------------------

sub connection { return sprintf 'host=%s port=%d dbname=postgres', $node->host, $node->port; }

sub caught_up
{
	my $lsn = value($dbh, 'SELECT pg_current_wal_lsn()');
	wait_for('the subscriber',
		sub { value($dbh, "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = 's'") });
	return;
}

sub test_subscribed
{
	run_all($dbh, 'CREATE TABLE r (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO r SELECT g, 'first ' || g FROM generate_series(1, 1000) g}, 'CREATE PUBLICATION p FOR TABLE r');
	run_all($to, 'CREATE TABLE r (id int PRIMARY KEY, v text)',
		sprintf(q{CREATE SUBSCRIPTION s CONNECTION '%s' PUBLICATION p}, connection()));
	wait_for('the first copy', sub { value($to, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}) });
	is(contents($to, 'r'), contents($dbh, 'r'), 'the first copy');
	run_all($dbh, q{UPDATE r SET v = 'second ' || id WHERE id % 2 = 0}, 'DELETE FROM r WHERE id % 5 = 0',
		'UPDATE r SET id = -id WHERE id % 3 = 0', 'BEGIN', q{INSERT INTO r VALUES (5000, 'third')}, 'SAVEPOINT a',
		'DELETE FROM r', 'ROLLBACK TO a', 'COMMIT');
	caught_up();
	is(contents($to, 'r'), contents($dbh, 'r'), 'changes');
	value($dbh, 'TRUNCATE r');
	value($dbh, q{INSERT INTO r VALUES (1, 'after')});
	caught_up();
	is(contents($to, 'r'), contents($dbh, 'r'), 'TRUNCATE');
	value($to, 'DROP SUBSCRIPTION s');
	return;
}

# --- off for a while --------------------------------------------------------

# What a slot has now, or its error.
sub read_slot
{
	my ($slot) = @_;
	return run_sql($dbh, "SELECT data FROM pg_logical_slot_get_changes('$slot', NULL, NULL)");
}

# The ids that a slot says were inserted into a table.
sub inserted
{
	my ($slot, $table) = @_;
	my $result = read_slot($slot);
	return [ $result->{message} ] if $result->{state};
	return [ map { $_->[0] =~ /public\.$table: INSERT: id\[integer\]:(\d+)/ } @{ $result->{rows} } ];
}

sub test_off
{
	run_all($dbh, 'CREATE TABLE o (id int) USING zen',
		map { "SELECT pg_create_logical_replication_slot('$_', 'test_decoding')" } qw(old moved));
	value($dbh, 'INSERT INTO o VALUES (1)');
	restart_with('off');
	value($dbh, 'INSERT INTO o VALUES (2)');
	restart_with('logical');
	value($dbh, q{SELECT pg_create_logical_replication_slot('new', 'test_decoding')});
	value($dbh, 'INSERT INTO o VALUES (3)');
	return test_no_gap() if $by_wal;
	my $error = read_slot('old')->{message};
	like($error, qr/changes of zen tables are missing from the logical slot "old"/, 'the slot does not hide a gap');
	my ($until) = $error =~ m{zen\.stream was off before ([0-9A-F]+/[0-9A-F]+)};
	is(read_slot('old')->{message}, $error, 'and says so each time');
	value($dbh, "SELECT pg_replication_slot_advance('moved', '$until')");
	is_deeply(inserted('moved', 'o'), [3], 'behind the gap it goes on');
	is_deeply(inserted('new', 'o'), [3], 'a slot made later has no gap');
	restart_with('logical');
	value($dbh, 'INSERT INTO o VALUES (4)');
	is_deeply(inserted($_, 'o'), [4], "no gap at the next start: $_") for qw(moved new);
	return;
}

# The setting changes nothing.
sub test_no_gap
{
	is_deeply(inserted($_, 'o'), [ 1, 2, 3 ], "mode wal has no time without the stream: $_") for qw(old moved);
	is_deeply(inserted('new', 'o'), [3], 'a slot made later begins there');
	return;
}

# --- what nobody has written yet --------------------------------------------

# Readers of the WAL go by what is written: it is what has been committed.
sub test_unwritten
{
	run_all($dbh, 'CREATE TABLE w (id int) USING zen',
		q{SELECT pg_create_logical_replication_slot('unwritten', 'test_decoding')});
	my @writers = stop_wal_writer($dbh);
	value($dbh, 'INSERT INTO w VALUES (1)');
	my $end = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	is(value($dbh, "SELECT pg_current_wal_lsn() >= '$end'"), 1, 'pg_current_wal_lsn() is behind each commit');
	for my $id (2, 3)
	{
		value($dbh, "INSERT INTO w VALUES ($id)");
		my $verb = $id == 2 ? 'peek' : 'get';
		is(value($dbh, "SELECT count(*) FROM pg_logical_slot_${verb}_changes('unwritten', NULL, NULL)"
				  . " WHERE data LIKE '%INSERT%'"), $id, "a slot gives each commit: $verb");
	}
	kill 'CONT', @writers;
	return;
}
