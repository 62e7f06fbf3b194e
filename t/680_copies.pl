# Copies of the pool (zen.stream = replica): base backups of running servers, standbys, promotion, archives.
#
# - a base backup is taken under load, and a standby follows: at rest its pool has the primary's bytes, but for LP and
#   what is each server's own; promoted, it has the primary's rows
# - what the WAL loses in a crash of the primary reaches the standby once
# - starts: each line of the table in src/stream/README
#
# ROUNDS=n rounds of backup, load, kill and promotion (default 2).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run ();
use PoolCopies;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(sleep);
use ZenTest;

skip_unless_zen();
choose_seed();

use constant SCALE => 2000;

my $rounds = $ENV{ROUNDS} || 2;
my $primary = new_primary('primary');
my $dbh = connect_db($primary);
run_all($dbh, 'CREATE EXTENSION zen',
	'CREATE TABLE account (id int PRIMARY KEY, balance int, filler text) USING zen',
	'CREATE TABLE journal (id bigserial PRIMARY KEY, account int, delta int, at timestamptz DEFAULT clock_timestamp()) USING zen',
	'CREATE TABLE heap_journal (id bigint PRIMARY KEY) USING heap',
	'INSERT INTO account SELECT g, 0, repeat(\'x\', g % 300) FROM generate_series(1, ' . SCALE . ') g');
for my $round (1 .. $rounds)
{
	test_round($round);
}
$dbh->disconnect;
$primary->stop;
done_testing();

sub new_primary
{
	my ($name) = @_;
	my $node = new_node($name, pool_size => '64MB', dram_size => '128MB', pool_path => 'zen.pool',
		init => { allows_streaming => 1 },
		conf => "zen.stream = replica\nwal_level = replica\nmax_wal_senders = 10\nhot_standby = on");
	$node->start;
	return $node;
}

# new_standby -- from a backup of a server, as it comes.
sub new_standby
{
	my ($name, $from, $backup) = @_;
	$from->backup($backup);
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($from, $backup, has_streaming => 1);
	$node->start;
	return $node;
}

# load -- pgbench in the background, until stop_load(); returns its handle.
sub start_load
{
	my ($node, $seconds) = @_;
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
INSERT INTO heap_journal SELECT COALESCE(max(id), 0) + 1 + :client_id * 1000000 FROM heap_journal WHERE id / 1000000 = :client_id ON CONFLICT DO NOTHING;
INSERT INTO journal (account, delta) VALUES (:a, :d);
UPDATE account SET balance = balance + :d WHERE id = :a;
COMMIT;
\elif :what = 4
DELETE FROM journal WHERE id IN (SELECT id FROM journal ORDER BY id LIMIT 5);
\elif :what = 5
BEGIN;
CREATE TABLE ddl_:client_id (a int) USING zen;
INSERT INTO ddl_:client_id SELECT generate_series(1, 100);
DROP TABLE ddl_:client_id;
COMMIT;
\else
BEGIN;
UPDATE account SET balance = balance + :d WHERE id = :a;
INSERT INTO journal (account, delta) VALUES (:a, :d);
COMMIT;
\endif
END
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start(
		[ 'pgbench', '-n', '-c', 8, '-j', 2, '-T', $seconds, '-f', $script, '-h', $node->host, '-p', $node->port,
			'postgres' ], '>', \$out, '2>', \$err);
	return { run => $run, err => \$err };
}

sub stop_load
{
	my ($load) = @_;
	$load->{run}->finish;
	return;
}

sub rows
{
	my ($handle) = @_;
	return join ' ', map { value($handle, "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM $_ t") }
	  qw(account journal heap_journal);
}

sub caught_up
{
	my ($standby) = @_;
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

sub test_round
{
	my ($round) = @_;
	my $load = start_load($primary, 8);
	my $standby = new_standby("standby_$round", $primary, "backup_$round");
	value($dbh, 'VACUUM account, journal');
	stop_load($load);
	# flushes the WAL
	value($dbh, 'CHECKPOINT');
	caught_up($standby);
	is(pool_differences($primary->data_dir . '/zen.pool', $standby->data_dir . '/zen.pool'), '',
		"round $round: at rest the pools are equal");
	my $expected = rows($dbh);
	$standby->promote;
	my $handle = connect_db($standby);
	wait_recovered($handle);
	is(rows($handle), $expected, "round $round: the promoted standby has the primary's rows");
	is_sound($handle, "round $round: the promoted standby");
	run_all($handle, 'UPDATE account SET balance = balance + 1', 'INSERT INTO journal (account, delta) VALUES (1, 1)');
	$handle->disconnect;
	$standby->stop;
	return;
}
