# Copies of the pool (zen.stream = replica): base backups of running servers, standbys, promotion, archives.
#
# - a base backup is taken under load, and a standby follows: at rest its pool has the primary's bytes, but for LP and
#   what is each server's own; promoted, it has the primary's rows
# - what the WAL loses in a crash of the primary reaches the standby once
# - starts: each line of the table in src/stream/README
#
# In mode wal the WAL loses nothing that was committed, a killed primary has no row that the WAL lacks, and zen.stream =
# off is no time without the stream.
#
# ROUNDS=n rounds of backup, load, kill and promotion (default 2).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers qw(pools_differ set_copy_mode);
use IPC::Run ();
use PoolImage;
use PoolLayout;
use File::Path qw(rmtree);
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(sleep);
use ZenTest;

skip_unless_zen();
choose_seed();


my $rounds = $ENV{ROUNDS} || 2;
my $points = $ENV{POINTS} || 4;
my $archive = PostgreSQL::Test::Utils::tempdir();
my $primary = new_primary();
my $has_tail = !by_wal($primary);
my $dbh = connect_db($primary);
run_all($dbh, 'CREATE EXTENSION zen',
	'CREATE TABLE account (id int PRIMARY KEY, balance int, filler text) USING zen',
	'CREATE TABLE journal (id bigserial PRIMARY KEY, account int, delta int) USING zen',
	'CREATE TABLE noise (id bigserial PRIMARY KEY, v text) USING zen',
	'CREATE TABLE heap_journal (id bigserial PRIMARY KEY, delta int) USING heap',
	'CREATE TABLE steps (id int PRIMARY KEY) USING zen',
	q{INSERT INTO account SELECT g, 0, repeat('x', g % 300) FROM generate_series(1, 2000) g});
test_round($_) for 1 .. $rounds;
test_points();
test_open_transactions();
test_growth();
test_starts();
test_switchover();
$has_tail ? test_time_without() : test_stream_implied();
$dbh->disconnect;
$primary->stop;
done_testing();

sub new_primary
{
	my $node = new_node('primary', pool_size => '128MB', dram_size => '128MB', pool_path => 'zen.pool',
		init => { allows_streaming => 1 }, conf => <<"END");
zen.stream = replica
zen.pool_max_size = 512MB
wal_level = replica
max_wal_senders = 10
wal_buffers = 4MB
wal_keep_size = 512MB
archive_mode = on
archive_command = 'cp %p $archive/%f'
END
	$node->start;
	return $node;
}

sub new_backup
{
	my ($name) = @_;
	$primary->backup($name);
	return;
}

# new_copy -- a server from a backup, as it comes; not started.
sub new_copy
{
	my ($name, $backup, @options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($primary, $backup, @options);
	set_conf($node, 'archive_mode = off');
	set_copy_mode($node);
	return $node;
}

# end_copy -- stopped; its files, and those of its backup if that is named, go unless something has failed: they are in
# memory.
sub end_copy
{
	my ($node, $backup) = @_;
	$node->stop;
	return if !Test::More->builder->is_passing;
	$node->clean_node;
	rmtree($primary->backup_dir . "/$backup") if $backup;
	return;
}

# --- a load whose transactions leave sum(balance) = sum(delta) ----------------

sub start_load
{
	my ($seconds) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
	PostgreSQL::Test::Utils::append_to_file($script, <<'END');
\set a random(1, 2000)
\set d random(-50, 50)
\set what random(1, 20)
\if :what = 1
BEGIN;
UPDATE account SET balance = balance + :d, filler = repeat('y', (:a % 700)::int) WHERE id = :a;
SAVEPOINT s;
INSERT INTO journal (account, delta) SELECT :a, 1 FROM generate_series(1, 20);
ROLLBACK TO s;
INSERT INTO journal (account, delta) VALUES (:a, :d);
COMMIT;
\elif :what = 2
BEGIN;
INSERT INTO journal (account, delta) VALUES (:a, :d);
UPDATE account SET balance = balance + :d WHERE id = :a;
ROLLBACK;
\elif :what = 3
BEGIN;
INSERT INTO heap_journal (delta) VALUES (:d);
INSERT INTO journal (account, delta) VALUES (:a, :d);
UPDATE account SET balance = balance + :d WHERE id = :a;
COMMIT;
\elif :what = 4
INSERT INTO noise (v) SELECT repeat('n', (:a % 1500)::int) FROM generate_series(1, 20);
\elif :what <= 6
DELETE FROM noise WHERE id IN (SELECT id FROM noise ORDER BY id LIMIT 40);
\elif :what = 7
BEGIN;
CREATE TABLE ddl_:client_id (a int) USING zen;
INSERT INTO ddl_:client_id SELECT generate_series(1, 100);
DROP TABLE ddl_:client_id;
COMMIT;
\elif :what = 8
BEGIN;
INSERT INTO journal (account, delta) VALUES (:a, :d);
UPDATE account SET balance = balance + :d WHERE id = :a;
PREPARE TRANSACTION 'p:client_id';
COMMIT PREPARED 'p:client_id';
\else
BEGIN;
UPDATE account SET balance = balance + :d WHERE id = :a;
INSERT INTO journal (account, delta) VALUES (:a, :d);
COMMIT;
\endif
END
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ 'pgbench', '-n', '-c', 8, '-j', 2, '-T', $seconds, '-f', $script,
			'-h', $primary->host, '-p', $primary->port, 'postgres' ], '>', \$out, '2>', \$err);
	return { run => $run, err => \$err };
}

sub end_load { return $_[0]{run}->finish; }

sub rows
{
	my ($handle) = @_;
	return join ' ',
	  map { value($handle, "SELECT count(*) || ':' || md5(string_agg(t::text, ',' ORDER BY id)) FROM $_ t") }
	  qw(account journal noise heap_journal steps);
}

# is_whole -- what holds after each transaction of the load.
sub is_whole
{
	my ($handle, $name) = @_;
	is(value($handle, 'SELECT (SELECT sum(balance) FROM account) - (SELECT sum(delta) FROM journal)'), 0,
		"$name: transactions are whole");
	is(value($handle, q{SELECT count(*) FROM pg_class WHERE relname LIKE 'ddl\_%'}), 0, "$name: so is DDL");
	is_sound($handle, $name);
	return;
}

sub promoted
{
	my ($node) = @_;
	$node->promote;
	my $handle = connect_db($node);
	wait_recovered($handle);
	return $handle;
}

# is_equal -- at rest: the pool of a standby that has replayed all is the primary's.
sub is_equal
{
	my ($standby, $name) = @_;
	is(pools_differ($primary, $dbh, $standby), '', "$name: the pools are equal");
	return;
}

# --- rounds -------------------------------------------------------------------

sub test_round
{
	my ($round) = @_;
	my $load = start_load(8);
	new_backup("backup_$round");
	my $standby = new_copy("standby_$round", "backup_$round", has_streaming => 1);
	$standby->start;
	value($dbh, 'VACUUM account, journal, noise');
	my $handle = connect_db($standby);
	is(state_of($handle, 'SELECT * FROM account'), '0A000', "round $round: no zen table is read on a standby");
	$handle->disconnect;
	end_load($load);
	is_equal($standby, "round $round");
	is(value($dbh, q{SELECT role || ' ' || copied || ' ' || (replay_lsn IS NULL) FROM zen_stat_stream}),
		'primary true true', "round $round: zen_stat_stream tells of a primary");

	# the primary is killed: what the WAL has lost reaches the standby
	stop_wal_writer($dbh);
	run_all($dbh, map { "INSERT INTO steps VALUES ($_)" } map { $round * 100 + $_ } 1 .. 20);
	run_all($dbh, 'UPDATE account SET balance = balance WHERE id <= 30');
	my $offset = log_size($primary);
	$dbh = crash_restart($primary);
	wait_recovered($dbh);
	my ($again) = log_since($primary, $offset) =~ /zen has logged (\d+) transactions again/;
	is($again ? 'some' : 'none', $has_tail ? 'some' : 'none', "round $round: transactions were logged again");
	is_equal($standby, "round $round, after the crash of the primary");

	# and the standby, in redo
	$load = start_load(4);
	for (1 .. 3)
	{
		sleep 0.7;
		crash($standby);
		start_again($standby);
	}
	end_load($load);
	is_equal($standby, "round $round, after crashes of the standby");

	my $expected = rows($dbh);
	$handle = connect_db($standby);
	is(value($handle,
		q{SELECT role || ' ' || copied || ' ' || (replay_lsn <= pg_last_wal_replay_lsn()) FROM zen_stat_stream}),
		'replica true true', "round $round: and of a replica");
	$handle->disconnect;
	$handle = promoted($standby);
	is(value($handle, 'SELECT role FROM zen_stat_stream'), 'primary', "round $round: promoted, it is none");
	is(rows($handle), $expected, "round $round: the promoted standby has the primary's rows");
	is_whole($handle, "round $round: the promoted standby");
	run_all($handle, 'UPDATE account SET balance = balance + 0', q{INSERT INTO noise (v) VALUES ('after')});
	$expected = rows($handle);
	$handle->disconnect;
	crash($standby);
	start_again($standby);
	$handle = connect_db($standby);
	wait_recovered($handle);
	is(rows($handle), $expected, "round $round: and keeps its own through a crash");
	is_sound($handle, "round $round: after it");
	$handle->disconnect;
	end_copy($standby, "backup_$round");
	# so that the pool has room for any number of rounds; transactions stay whole
	run_all($dbh, 'DELETE FROM noise', 'WITH d AS (DELETE FROM journal RETURNING delta)'
		  . ' INSERT INTO journal (delta) SELECT sum(delta) FROM d');
	return;
}

# --- points in time -------------------------------------------------------------

# One archive; a session writes a step before each restore point, others go on.
sub test_points
{
	new_backup('archived');
	my $load = start_load(3 * $points);
	for my $point (1 .. $points)
	{
		run_all($dbh, "INSERT INTO steps VALUES (10000 + $point)", "SELECT pg_create_restore_point('point_$point')");
		run_all($dbh, "DELETE FROM steps WHERE id = 10000 + $point - 1") if $point % 2 == 0;
		sleep 1;
	}
	end_load($load);
	my $last = value($dbh, 'SELECT pg_walfile_name(pg_switch_wal())');
	wait_for('the archive', sub { value($dbh, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") });
	for my $point (1 .. $points)
	{
		my $copy = new_copy("point_$point", 'archived');
		set_conf($copy, <<"END");
restore_command = 'cp $archive/%f %p'
recovery_target_name = 'point_$point'
recovery_target_action = promote
END
		PostgreSQL::Test::Utils::append_to_file($copy->data_dir . '/recovery.signal', '');
		$copy->start;
		my $handle = connect_db($copy);
		wait_for('the promotion', sub { value($handle, 'SELECT NOT pg_is_in_recovery()') });
		wait_recovered($handle);
		my $expected = join ' ', map { 10000 + $_ } grep { $_ % 2 == 0 || $_ + 1 >= $point } 1 .. $point;
		is(value($handle, q{SELECT string_agg(id::text, ' ' ORDER BY id) FROM steps WHERE id > 10000}), $expected,
			"point $point: the steps as of that moment");
		is_whole($handle, "point $point");
		$handle->disconnect;
		end_copy($copy);
	}
	return;
}

# --- transactions under way at a promotion ------------------------------------

sub test_open_transactions
{
	new_backup('open');
	my $standby = new_copy('open', 'open', has_streaming => 1);
	$standby->start;
	my @other = map { connect_db($primary) } 1 .. 3;
	run_all($other[0], 'BEGIN', 'SET zen.spill_threshold = 0',
		'INSERT INTO noise (v) SELECT repeat(\'s\', 100) FROM generate_series(1, 3000)', 'SAVEPOINT a',
		'UPDATE noise SET v = \'t\' WHERE id % 3 = 0', 'ROLLBACK TO a');
	run_all($other[1], 'BEGIN', 'SET zen.spill_threshold = 0',
		q{INSERT INTO noise SELECT -g, 'prepared' FROM generate_series(1, 500) g},
		'SELECT * FROM account WHERE id = 5 FOR UPDATE', q{PREPARE TRANSACTION 'open'});
	run_all($other[2], 'BEGIN', q{INSERT INTO noise SELECT -g, 'rolled back' FROM generate_series(1001, 1500) g},
		q{PREPARE TRANSACTION 'back'});
	is_equal($standby, 'open transactions');
	my $handle = promoted($standby);
	is(value($handle, q{SELECT count(*) FROM noise WHERE v IN ('prepared', 'rolled back') OR v LIKE 's%'}), 0,
		'open transactions: nothing of them is seen');
	is(value($handle, q{SELECT string_agg(gid, ' ' ORDER BY gid) FROM pg_prepared_xacts}), 'back open',
		'prepared ones are there');
	is(state_of($handle, 'SELECT * FROM account WHERE id = 5 FOR UPDATE NOWAIT'), '55P03', 'and hold their locks');
	run_all($handle, q{COMMIT PREPARED 'open'}, q{ROLLBACK PREPARED 'back'});
	is(value($handle, q{SELECT count(*) || ' ' || min(id) FROM noise WHERE id < 0}), '500 -500', 'and end as asked');
	is_sound($handle, 'open transactions');
	$handle->disconnect;
	$standby->stop;
	run_all($other[0], 'COMMIT');
	run_all($other[1], q{COMMIT PREPARED 'open'}, q{ROLLBACK PREPARED 'back'});
	$_->disconnect for @other;
	return;
}

# --- a pool that grows ----------------------------------------------------------

sub test_growth
{
	new_backup('small');
	my $standby = new_copy('small', 'small', has_streaming => 1);
	$standby->start;

	# recovery tells of the new pages first that they hold losers
	my $other = connect_db($primary);
	stop_wal_writer($dbh);
	run_all($other, q{SELECT zen_pool_grow('136MB')}, 'BEGIN', 'SET zen.spill_threshold = 0',
		q{INSERT INTO noise SELECT -10000 - g, repeat('g', 1000) FROM generate_series(1, 500) g});
	$dbh = crash_restart($primary);
	wait_recovered($dbh);
	is_equal($standby, 'a pool that grew before a crash');
	run_all($dbh, q{SELECT zen_pool_grow('160MB')},
		q{INSERT INTO noise (v) SELECT repeat('g', 1000) FROM generate_series(1, 90000)});
	is_equal($standby, 'a pool that grew');
	set_conf($primary, 'zen.pool_size = 256MB');
	$dbh = clean_restart($primary, $dbh);
	wait_recovered($dbh);
	run_all($dbh, q{INSERT INTO noise (v) SELECT repeat('h', 1000) FROM generate_series(1, 80000)});
	is_equal($standby, 'a pool that grew at a restart');
	my $expected = rows($dbh);
	my $handle = promoted($standby);
	is(rows($handle), $expected, 'and its copy has all rows');
	is_sound($handle, 'a pool that grew');
	$handle->disconnect;
	$standby->stop;
	run_all($dbh, q{DELETE FROM noise WHERE v LIKE 'g%' OR v LIKE 'h%'}, 'VACUUM noise');
	return;
}

# --- starts -----------------------------------------------------------------------

sub signal_file { return PostgreSQL::Test::Utils::append_to_file($_[0]->data_dir . "/$_[1].signal", ''); }

sub refuses
{
	my ($node, $like, $name) = @_;
	my $said = start_failing($node) // 'it started';
	like($said, $like, "$name: refused");
	like($said, qr/HINT:/, "$name: with a hint");
	return;
}

sub test_starts
{
	new_backup('starts');
	my $expected = rows($dbh);

	# a backup alone: to the end of its WAL; its file is longer than its superblock says, as if the pool was growing;
	# and a region's descriptor is torn, as if it was being written
	my $copy = new_copy('alone', 'starts');
	PostgreSQL::Test::Utils::append_to_file($copy->data_dir . '/zen.pool', 'x' x 65536);
	my $pool = PoolImage->new($copy->data_dir . '/zen.pool');
	$pool->put(region_offset(REGIONS - 1) + 32, pack 'Q<3', 1000, 1001, 0x1234567 << 32 | 1);
	$pool->save;
	$copy->start;
	my $handle = connect_db($copy);
	wait_recovered($handle);
	is(rows($handle), $expected, 'a backup without a signal file: all rows');
	unlike(PostgreSQL::Test::Utils::slurp_file($copy->logfile), qr/is damaged/,
		'and nobody hears of a torn descriptor');
	run_all($handle, q{INSERT INTO noise (v) VALUES ('alone')});
	$handle->disconnect;

	# a primary that was killed may be ahead of the WAL; in mode wal it replays all of its own WAL first
	crash($copy);
	signal_file($copy, 'standby');
	if (by_wal($copy))
	{
		start_again($copy);
		$handle = connect_db($copy);
		is(state_of($handle, 'SELECT * FROM noise'), '0A000', 'a killed primary as a standby: follows');
		$handle->disconnect;
		crash($copy);
	}
	else
	{
		refuses($copy, qr/cannot follow a server that replays WAL from elsewhere/, 'a killed primary as a standby');
	}
	unlink $copy->data_dir . '/standby.signal';
	start_again($copy);
	$handle = connect_db($copy);
	wait_recovered($handle);
	is(value($handle, q{SELECT count(*) FROM noise WHERE v = 'alone'}), 1, 'and is a primary still');
	$handle->disconnect;
	$copy->stop;

	# the pool of the backup, and no other
	$copy = new_copy('elsewhere', 'starts');
	my $elsewhere = PostgreSQL::Test::Utils::tempdir() . '/zen.pool';
	system('mv', $copy->data_dir . '/zen.pool', $elsewhere) == 0 or die 'mv';
	set_conf($copy, "zen.pool_path = '$elsewhere'");
	refuses($copy, qr/is not part of the base backup/, 'a pool from elsewhere');

	# a standby that is taken back behind where it was
	run_all($dbh, q{SELECT pg_create_restore_point('back')}, q{INSERT INTO noise (v) VALUES ('behind')});
	$copy = new_copy('ahead', 'starts', has_streaming => 1);
	$copy->start;
	$primary->wait_for_catchup($copy, 'replay', $primary->lsn('insert'));
	$copy->stop('immediate');
	set_conf($copy, "recovery_target_name = 'back'\nrecovery_target_action = promote");
	$copy->start;
	$handle = connect_db($copy);
	my $result;
	wait_for('the promotion', sub {
			$result = run_sql($handle, 'SELECT * FROM noise');
			return $result->{message} !~ /in recovery/; });
	like($result->{message}, qr/is ahead of this server|recovery of the pool has failed/,
		'a standby that is taken back: refused');
	like(PostgreSQL::Test::Utils::slurp_file($copy->logfile), qr/the zen pool is ahead of this server/,
		'a standby that is taken back: why');
	# nor when its own WAL has come to that place
	run_all($handle, 'INSERT INTO heap_journal (delta) SELECT generate_series(1, 10000)', 'CHECKPOINT',
		'INSERT INTO heap_journal (delta) VALUES (1)');
	$handle->disconnect;
	crash($copy);
	start_again($copy);
	$handle = connect_db($copy);
	is(state_of($handle, 'SELECT * FROM noise'), '55000', 'a standby that is taken back: still, after a crash');
	$handle->disconnect;
	$copy->stop('immediate');
	$expected = rows($dbh);

	# a standby whose signal file somebody removes
	$copy = new_copy('unsignalled', 'starts', has_streaming => 1);
	$copy->start;
	$primary->wait_for_catchup($copy, 'replay', $primary->lsn('insert'));
	crash($copy);
	unlink $copy->data_dir . '/standby.signal';
	start_again($copy);
	$handle = connect_db($copy);
	wait_recovered($handle);
	is(rows($handle), $expected, 'a standby without its signal file has all rows');
	is_sound($handle, 'a standby without its signal file');
	$handle->disconnect;
	$copy->stop;
	return;
}

# --- switchover -------------------------------------------------------------------

sub test_switchover
{
	my $old = new_copy('old', 'starts');
	$old->start;
	$old->backup('second');
	my $new = PostgreSQL::Test::Cluster->new('new');
	$new->init_from_backup($old, 'second', has_streaming => 1);
	$new->start;
	my $handle = connect_db($old);
	wait_recovered($handle);
	run_all($handle, q{INSERT INTO noise (v) SELECT 'before' FROM generate_series(1, 50)});
	my $expected = rows($handle);
	$handle->disconnect;
	$old->stop('fast');
	$handle = promoted($new);
	is(rows($handle), $expected, 'switchover: the new primary has all rows');
	$old->enable_streaming($new);
	$old->start;
	like(PostgreSQL::Test::Utils::slurp_file($old->logfile), qr/is a copy that follows/, 'the old one follows');
	run_all($handle, q{UPDATE noise SET v = 'after' WHERE v = 'before'}, 'VACUUM noise');
	is(pools_differ($new, $handle, $old), '', 'switchover: the pools are equal');
	$expected = rows($handle);
	$handle->disconnect;
	$new->stop('fast');
	$handle = promoted($old);
	is(rows($handle), $expected, 'switchover and back: all rows');
	is_sound($handle, 'switchover');
	$handle->disconnect;
	$old->stop;
	return;
}

# --- a time without the stream ------------------------------------------------------

# In mode wal zen.stream = off changes nothing.
sub test_stream_implied
{
	my $standby = new_copy('without', 'starts', has_streaming => 1);
	$standby->start;
	set_conf($primary, 'zen.stream = off');
	$dbh = clean_restart($primary, $dbh);
	run_all($dbh, q{INSERT INTO noise (v) VALUES ('logged')});
	is_equal($standby, 'stream off, but mode wal');
	new_backup('off');
	my $copy = new_copy('off', 'off');
	$copy->start;
	my $handle = connect_db($copy);
	wait_recovered($handle);
	is(rows($handle), rows($dbh), 'stream off, but mode wal: a backup has all rows');
	$handle->disconnect;
	$_->stop for $copy, $standby;
	return;
}

sub test_time_without
{
	my $standby = new_copy('without', 'starts', has_streaming => 1);
	$standby->start;
	# the setting lets it go on, which is what is looked at here (688_copies_without.pl)
	set_conf($_, 'zen.allow_copies_without_rows = on') for $primary, $standby;
	$standby->reload;
	set_conf($primary, 'zen.stream = off');
	$dbh = clean_restart($primary, $dbh);
	run_all($dbh, q{INSERT INTO noise (v) VALUES ('unlogged')}, 'CHECKPOINT');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	like(PostgreSQL::Test::Utils::slurp_file($standby->logfile), qr/WARNING:.*does not follow the primary/,
		'stream off: the standby says so');
	my $handle = connect_db($standby);
	my $row = run_sql($handle, 'SELECT role, copied, replay_lsn IS NULL FROM zen_stat_stream')->{rows}[0];
	is("@$row", 'replica 0 0', 'stream off: so does zen_stat_stream there');
	$handle->disconnect;
	$standby->promote;
	$handle = connect_db($standby);
	my $result;
	wait_for('the end of recovery', sub {
			$result = run_sql($handle, 'SELECT * FROM noise');
			return $result->{message} !~ /in recovery/; });
	is($result->{state}, '55000', 'stream off: no stale row is shown after a promotion');
	$handle->disconnect;
	$standby->stop('immediate');
	new_backup('off');
	refuses(new_copy('off', 'off'), qr/copied while its server was running/, 'a backup with the stream off');
	set_conf($primary, 'zen.stream = replica');
	$dbh = clean_restart($primary, $dbh);
	wait_recovered($dbh);
	new_backup('on');
	my $copy = new_copy('on', 'on');
	$copy->start;
	$handle = connect_db($copy);
	wait_recovered($handle);
	is(rows($handle), rows($dbh), 'stream on again: a new backup has all rows');
	$handle->disconnect;
	$copy->stop;
	return;
}
