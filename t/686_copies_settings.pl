# Standbys that do not fit their primary at first, and what they become.
#
# - a pool that cannot grow, or has too few files, stops the replay; with the setting that the message names it goes on
# - a primary that crashes, and starts with zen.stream = logical: what the WAL has lost is for readers only
# - the same start dies, and the next has replica again: its standby knows that it has missed something
# - mode wal: logical changes nothing, and there is no tail; a start in mode emulated with logical is missed
# - pg_createsubscriber (PostgreSQL 17) makes a standby with zen tables a subscriber

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PoolCopies;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

test_growth();
SKIP:
{
	skip 'the server has no test_decoding', 1 unless has_module('test_decoding');
	test_no_longer_copied();
}
test_missed();
test_createsubscriber();
done_testing();

# stopped_with -- the standby's replay has stopped it; the message must say this.
sub stopped_with
{
	my ($standby, $offset, $what, $name) = @_;
	wait_for('the standby to stop', sub { !-e $standby->data_dir . '/postmaster.pid' });
	$standby->_update_pid(0);
	like(log_since($standby, $offset), $what, $name);
	return;
}

sub test_growth
{
	my $node = copy_primary('primary', conf => 'zen.pool_max_size = 256MB');
	$node->start;
	my $dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO t SELECT g, repeat('x', g % 200) FROM generate_series(1, 3000) g});
	$node->backup('copy');
	my $standby = copy_of($node, 'standby', 'copy', has_streaming => 1);
	set_conf($standby, 'zen.pool_max_size = 64MB');
	$standby->start;
	my $offset = log_size($standby);
	run_all($dbh, q{SELECT zen_pool_grow('128MB')}, q{INSERT INTO t SELECT g FROM generate_series(10001, 10100) g});
	stopped_with($standby, $offset, qr/PANIC:.*as large as.*HINT:  Raise zen.pool_max_size/s, 'it cannot grow');
	set_conf($standby, 'zen.pool_max_size = 256MB');
	$standby->start;
	is(pools_differ($node, $dbh, $standby), '', 'may it grow, it goes on');

	$dbh->disconnect;
	$offset = log_size($standby);
	set_conf($node, q{zen.pool_path = 'zen.pool, zen.pool.1'});
	$node->restart;
	stopped_with($standby, $offset, qr/PANIC:.*has more files.*HINT:  Add the name/s, 'a pool with too few files');
	set_conf($standby, q{zen.pool_path = 'zen.pool, zen.pool.1'});
	$standby->start;
	$dbh = connect_db($node);
	wait_recovered($dbh);
	run_all($dbh, q{INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(20001, 22000) g});
	is(pools_differ($node, $dbh, $standby), '', 'with one more, it goes on');
	my $rows = value($dbh, 'SELECT count(*) FROM t');
	$dbh->disconnect;
	$node->stop;
	my $handle = promoted($standby);
	is(value($handle, 'SELECT count(*) FROM t'), $rows, 'and has all rows');
	is_sound($handle, 'settings');
	$handle->disconnect;
	$standby->stop;
	return;
}

sub test_no_longer_copied
{
	my $what = 'a crash, and a start with logical';
	my $node = copy_primary('no_longer', init => { allows_streaming => 'logical' }, conf => 'wal_buffers = 4MB');
	$node->start;
	my $dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY) USING zen',
		q{SELECT pg_create_logical_replication_slot('s', 'test_decoding')}, 'CHECKPOINT');
	stop_wal_writer($dbh);
	value($dbh, "INSERT INTO t VALUES ($_)") for 1 .. 20;
	set_conf($node, 'zen.stream = logical');
	$dbh = crash_restart($node);
	wait_recovered($dbh);
	is(value($dbh, 'SELECT logged_again > 0 FROM zen_stat_stream'), by_wal($node) ? 0 : 1,
		"$what: there is a tail, or none");
	is(value($dbh, 'SELECT count(*) FROM t'), 20, "$what: all rows are there");
	value($dbh, 'CHECKPOINT');    # flushes the WAL
	is(value($dbh, q{SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL) WHERE data ~ 'INSERT'}), 20,
		"$what: and a reader gets them");
	is_sound($dbh, $what);
	$dbh->disconnect;
	$node->stop;
	return;
}

sub test_missed
{
	my $what = 'a start with logical that dies';
  SKIP: {
		skip "$what: no server with faults", 4 if !$ENV{ZEN_FAULT_SERVER};
		my $node = copy_primary('missed', faults => 1, init => { allows_streaming => 'logical' },
			conf => 'wal_buffers = 4MB');
		$node->start;
		my $dbh = connect_db($node);
		run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY) USING zen');
		$node->backup('copy');
		my $standby = copy_of($node, 'misses', 'copy', has_streaming => 1);
		$standby->start;
		value($dbh, 'CHECKPOINT');
		$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
		stop_wal_writer($dbh);
		value($dbh, "INSERT INTO t VALUES ($_)") for 1 .. 20;
		my $by_wal = by_wal($node);
		crash($node);
		if ($by_wal)
		{
			set_conf($node, "zen.pool_mode = emulated\nzen.stream = logical");
			start_again($node);
			wait_recovered(connect_db($node));
			crash($node);
			set_conf($node, "zen.pool_mode = wal\nzen.stream = replica");
		}
		else
		{
			set_conf($node, "zen.stream = logical\nzen.fault = r17_stop_logged");
			start_to_die($node);
			set_conf($node, "zen.stream = replica\nzen.fault = none");
		}
		start_again($node);
		$dbh = connect_db($node);
		wait_recovered($dbh);
		is(value($dbh, 'SELECT count(*) FROM t'), 20, "$what: the next has all rows");
		value($dbh, 'CHECKPOINT');
		stopped_with($standby, 0, qr/PANIC:.*the zen pool does not follow.*HINT:.*new base backup/s,
			"$what: the standby stops");
		$node->backup('new');
		my $new = copy_of($node, 'misses_none', 'new', has_streaming => 1);
		$new->start;
		my $handle = promoted($new);
		is(value($handle, 'SELECT count(*) FROM t'), 20, "$what: a new backup has all rows");
		is_sound($handle, $what);
		$_->disconnect for $handle, $dbh;
		$_->stop for $new, $node;
	}
	return;
}

sub test_createsubscriber
{
  SKIP: {
		my ($bin) = PostgreSQL::Test::Utils::run_command([ 'pg_config', '--bindir' ]);
		skip 'before PostgreSQL 17 there is no pg_createsubscriber', 3 if !-x "$bin/pg_createsubscriber";
		my $node = copy_primary('publisher', conf => 'wal_level = logical');
		$node->start;
		my $dbh = connect_db($node);
		run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY) USING zen',
			'CREATE TABLE h (id int PRIMARY KEY) USING heap', 'INSERT INTO t SELECT generate_series(1, 1000)');
		$node->backup('copy');
		my $copy = copy_of($node, 'subscriber', 'copy', has_streaming => 1);
		$copy->start;
		value($dbh, 'CHECKPOINT');
		$node->wait_for_catchup($copy, 'replay', $node->lsn('insert'));
		$copy->stop;
		PostgreSQL::Test::Utils::system_or_bail('pg_createsubscriber', '-D', $copy->data_dir, '-P',
			$node->connstr('postgres'), '-p', $copy->port, '-s', $copy->host, '-d', 'postgres');
		run_all($dbh, 'INSERT INTO h VALUES (7)');
		$copy->start;
		like(log_since($copy, 0), qr/gets the database cluster's new system identifier/, 'a subscriber takes its pool');
		my $handle = connect_db($copy);
		wait_recovered($handle);
		is(value($handle, 'SELECT count(*) FROM t'), 1000, 'with all rows');
		wait_for('the row of the heap table', sub { value($handle, 'SELECT count(*) FROM h') == 1 });
		is_sound($handle, 'pg_createsubscriber');
		$_->disconnect for $handle, $dbh;
		$_->stop for $copy, $node;
	}
	return;
}
