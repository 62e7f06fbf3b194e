# Base backups that are taken from a standby.
#
# - pg_basebackup of a standby that is replaying; the copy is opened at the earliest place that PostgreSQL allows, and
#   as a standby of that standby, which is promoted later; zen and heap tables get the same changes, row by row
# - pg_backup_start() on a standby, files copied by hand
# - the standby is promoted while it is copied, and a server that has changed its role is copied
# - files of a backup from the standby and the others from its primary, as pgBackRest does with backup-standby = y; a
#   pool of which each server has given a file is refused
#
# ROUNDS=n rounds of load and backup (default 2).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use File::Path qw(rmtree);
use IPC::Run ();
use PoolCopies;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $rounds = $ENV{ROUNDS} || 2;
my $archive = PostgreSQL::Test::Utils::tempdir();
my $primary = copy_primary('primary', pool_size => '128MB', conf => <<"END");
archive_mode = on
archive_command = 'cp %p $archive/%f'
max_wal_senders = 10
# few pages of heap are written meanwhile, which would raise minRecoveryPoint
shared_buffers = 64MB
bgwriter_lru_maxpages = 0
END
$primary->start;
my $dbh = connect_db($primary);
make_tables($dbh);
$primary->backup('base');
my $standby = copy_of($primary, 'standby', 'base', has_streaming => 1);
$standby->start;
test_round($_) for 1 .. $rounds;
test_by_hand();
test_idle();
test_promoted();
$dbh->disconnect;
$primary->stop;
test_two_servers();
done_testing();

# --- load: each transaction makes the same changes to zen and to heap, or leaves sum(balance) = sum(delta) ------------

sub make_tables
{
	my ($handle) = @_;
	run_all($handle, 'CREATE EXTENSION zen',
		(map { "CREATE TABLE $_ (id int PRIMARY KEY, v int, filler text) USING $_" } qw(zen heap)),
		'CREATE TABLE account (id int PRIMARY KEY, balance int) USING zen',
		'CREATE TABLE journal (id bigserial PRIMARY KEY, account int, delta int) USING zen',
		(map { "INSERT INTO $_ SELECT g, 0, repeat('x', g % 200) FROM generate_series(1, 1000) g" } qw(zen heap)),
		'INSERT INTO account SELECT g, 0 FROM generate_series(1, 1000) g');
	return;
}

# Two tables are compared: a row that comes between two statements must not be in one of them alone.
sub start_load
{
	my ($node, $seconds) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
	PostgreSQL::Test::Utils::append_to_file($script, <<'END');
\set a random(1, 1000)
\set n random(1, 600)
\set d random(-50, 50)
\set what random(1, 12)
\if :what = 1
BEGIN;
SELECT pg_advisory_xact_lock(:a);
UPDATE zen SET v = v + :d, filler = repeat('y', :n) WHERE id = :a;
UPDATE heap SET v = v + :d, filler = repeat('y', :n) WHERE id = :a;
COMMIT;
\elif :what = 2
BEGIN;
SELECT pg_advisory_xact_lock(:a);
DELETE FROM zen WHERE id = :a;
DELETE FROM heap WHERE id = :a;
COMMIT;
\elif :what <= 4
BEGIN;
SELECT pg_advisory_xact_lock(:a);
INSERT INTO zen VALUES (:a, :d, repeat('z', :n)) ON CONFLICT (id) DO UPDATE SET v = zen.v + 1;
INSERT INTO heap VALUES (:a, :d, repeat('z', :n)) ON CONFLICT (id) DO UPDATE SET v = heap.v + 1;
COMMIT;
\elif :what = 5
BEGIN;
UPDATE zen SET v = -1 WHERE id = :a;
UPDATE account SET balance = balance + 1 WHERE id = :a;
ROLLBACK;
\elif :what = 6
BEGIN;
INSERT INTO journal (account, delta) VALUES (:a, :d);
UPDATE account SET balance = balance + :d WHERE id = :a;
PREPARE TRANSACTION 'p:client_id';
COMMIT PREPARED 'p:client_id';
\elif :what = 7
BEGIN;
WITH gone AS (DELETE FROM journal WHERE id IN (SELECT id FROM journal ORDER BY id LIMIT 20) RETURNING delta)
INSERT INTO journal (delta) SELECT coalesce(sum(delta), 0) FROM gone;
COMMIT;
\else
BEGIN;
UPDATE account SET balance = balance + :d WHERE id = :a;
INSERT INTO journal (account, delta) VALUES (:a, :d);
COMMIT;
\endif
END
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ 'pgbench', '-n', '-c', 6, '-j', 2, '-T', $seconds, '-f', $script,
			'-h', $node->host, '-p', $node->port, 'postgres' ], '>', \$out, '2>', \$err);
	return { run => $run, err => \$err };
}

sub end_load { return $_[0]{run}->finish; }

sub rows
{
	my ($handle) = @_;
	return join ' ',
	  map { value($handle, "SELECT count(*) || ':' || md5(string_agg(t::text, ',' ORDER BY id)) FROM $_ t") }
	  qw(zen heap account journal);
}

sub is_whole
{
	my ($handle, $name) = @_;
	my $different = q{SELECT count(*) FROM zen FULL JOIN heap USING (id)
		WHERE (zen.v, zen.filler) IS DISTINCT FROM (heap.v, heap.filler)};
	is(value($handle, $different), 0, "$name: zen and heap have the same rows");
	is(value($handle, 'SELECT (SELECT sum(balance) FROM account) - (SELECT sum(delta) FROM journal)'), 0,
		"$name: transactions are whole");
	is_sound($handle, $name);
	return;
}

sub end_copy
{
	my ($node) = @_;
	$node->stop('immediate');
	$node->clean_node if Test::More->builder->is_passing;
	return;
}

# open_earliest -- a backup of $node, opened at the first place at which PostgreSQL finds it consistent.
sub open_earliest
{
	my ($node, $name, $backup) = @_;
	my $copy = copy_of($node, $name, $backup);
	unlink $copy->data_dir . '/standby.signal';    # the standby's
	set_conf($copy, <<"END");
restore_command = 'cp $archive/%f %p'
recovery_target = immediate
recovery_target_action = promote
END
	signal_file($copy, 'recovery');
	$copy->start;
	return ($copy, wait_promoted($copy));
}

sub archive_all
{
	my $last = value($dbh, 'SELECT pg_walfile_name(pg_switch_wal())');
	wait_for('the archive', sub { value($dbh, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") });
	return;
}

# What the load has prepared and not yet committed, where the copy ends, holds its rows.
sub end_prepared
{
	my ($handle) = @_;
	my $prepared = run_sql($handle, 'SELECT gid FROM pg_prepared_xacts')->{rows};
	run_all($handle, map { "ROLLBACK PREPARED '$_->[0]'" } @$prepared);
	return;
}

# --- pg_basebackup under load -----------------------------------------------------

sub test_round
{
	my ($round) = @_;
	my $load = start_load($primary, 8);
	my @backup = map { "round_${round}_$_" } 1 .. 3;
	$standby->backup($_) for @backup;
	my $below = copy_of($standby, "below_$round", $backup[1], has_streaming => 1);
	$below->start;
	end_load($load);
	like(PostgreSQL::Test::Utils::slurp_file($standby->backup_dir . "/$backup[0]/backup_label"),
		qr/^BACKUP FROM: standby$/m, "round $round: a backup of a standby");
	archive_all();

	for my $n (0, 2)
	{
		my ($copy, $handle) = open_earliest($standby, "earliest_${round}_$n", $backup[$n]);
		is_whole($handle, "round $round, backup $n, opened as early as can be");
		end_prepared($handle);
		run_all($handle, 'UPDATE account SET balance = balance + 0');
		my $expected = rows($handle);
		$handle->disconnect;
		crash($copy);
		start_again($copy);
		$handle = connect_db($copy);
		wait_recovered($handle);
		is(rows($handle), $expected, "round $round, backup $n: it keeps its rows through a crash");
		$handle->disconnect;
		end_copy($copy);
	}

	is(pools_differ_below($below), '', "round $round: a standby of the standby has the primary's pool");
	my $expected = rows($dbh);
	my $handle = promoted($below);
	is(rows($handle), $expected, "round $round: promoted, it has the primary's rows");
	is_whole($handle, "round $round: promoted");
	$handle->disconnect;
	end_copy($below);
	rmtree($standby->backup_dir . "/$_") for @backup;
	return;
}

sub wait_replayed
{
	my ($node, $lsn) = @_;
	my $there = connect_db($node);
	wait_for('the copy', sub { value($there, "SELECT pg_last_wal_replay_lsn() >= '$lsn'") });
	$there->disconnect;
	return;
}

# pools_differ_below -- as pools_differ, of a standby that follows $standby.
sub pools_differ_below
{
	my ($below) = @_;
	my $wrong;
	wait_for('the primary to rest', sub {
			value($dbh, 'CHECKPOINT');
			my $lsn = $primary->lsn('insert');
			wait_replayed($below, $lsn);
			$wrong = pool_differences(map { $_->data_dir . '/zen.pool' } $primary, $below);
			return $primary->lsn('insert') eq $lsn; });
	return $wrong;
}

# --- copied by hand ----------------------------------------------------------------

# start_backup, stop_backup -- of a session; the label and the tablespaces are written into a copy.
sub start_backup
{
	my ($node) = @_;
	my $session = connect_db($node);
	value($session, q{SELECT pg_backup_start('by hand', true)});
	return $session;
}

sub stop_backup
{
	my ($session, $directory) = @_;
	my $row = run_sql($session, 'SELECT labelfile, spcmapfile FROM pg_backup_stop(false)')->{rows}[0];
	PostgreSQL::Test::Utils::append_to_file("$directory/backup_label", $row->[0]);
	PostgreSQL::Test::Utils::append_to_file("$directory/tablespace_map", $row->[1]) if $row->[1];
	$session->disconnect;
	return;
}

# A file that is gone meanwhile is none of a backup's business.
sub copy_files
{
	my ($from, $to, @options) = @_;
	my $status = system('rsync', '-a', '--exclude=postmaster.*', '--exclude=/pg_wal/*', '--exclude=/pg_replslot/*',
		@options, "$from/", "$to/");
	die "rsync: $status" if $status != 0 && $status >> 8 != 24;
	return;
}

sub test_by_hand
{
	my $load = start_load($primary, 6);
	my $session = start_backup($standby);
	my $directory = $standby->backup_dir . '/by_hand';
	copy_files($standby->data_dir, $directory, '--exclude=/global/pg_control');
	PostgreSQL::Test::Utils::system_or_bail('cp', $standby->data_dir . '/global/pg_control', "$directory/global/");
	stop_backup($session, $directory);
	end_load($load);
	archive_all();
	my ($copy, $handle) = open_earliest($standby, 'by_hand', 'by_hand');
	is_whole($handle, 'pg_backup_start() on a standby');
	$handle->disconnect;
	end_copy($copy);
	return;
}

# The last changes come before the backup, and nothing after: it ends behind them.
sub test_idle
{
	run_all($dbh, 'CHECKPOINT', 'UPDATE account SET balance = balance + 1 WHERE id <= 100',
		'INSERT INTO journal (account, delta) VALUES (0, (SELECT sum(balance) FROM account) -'
		  . ' (SELECT sum(delta) FROM journal))');
	my $expected = rows($dbh);
	value($dbh, 'SELECT pg_current_wal_lsn()');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
	$standby->backup('idle');
	archive_all();
	my ($copy, $handle) = open_earliest($standby, 'idle', 'idle');
	is(rows($handle), $expected, 'a standby at rest: a copy, opened as early as can be, has all rows');
	is_whole($handle, 'a standby at rest');
	$handle->disconnect;
	end_copy($copy);
	return;
}

# --- a promotion meanwhile ------------------------------------------------------------

# A replica is made while the servers change their roles.  What was copied from a standby that was promoted meanwhile is
# no backup, and PostgreSQL says so.  The next try has the rows.
sub test_promoted
{
	my $load = start_load($primary, 3);
	my $session = start_backup($standby);
	end_load($load);
	value($dbh, 'CHECKPOINT');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	$dbh->disconnect;
	$primary->stop;
	my $handle = promoted($standby);
	is(state_of($session, 'SELECT pg_backup_stop(false)'), '55000', 'promoted while it was copied: no backup');
	$session->disconnect;

	# the old primary follows; it is copied as a standby
	$primary->enable_streaming($standby);
	set_conf($primary, 'archive_mode = off');
	$primary->start;
	$load = start_load($standby, 4);
	$primary->backup('changed');
	end_load($load);
	my $copy = copy_of($primary, 'changed', 'changed', has_streaming => 1);
	$copy->start;
	my $expected = rows($handle);
	value($handle, 'CHECKPOINT');
	wait_replayed($copy, $standby->lsn('insert'));
	my $there = promoted($copy);
	is(rows($there), $expected, 'made from the old primary, which follows now: all rows');
	is_whole($there, 'made from the old primary');
	$there->disconnect;
	end_copy($copy);

	# and from the new primary
	$standby->backup('new');
	$copy = copy_of($standby, 'new', 'new');
	$copy->start;
	$there = connect_db($copy);
	wait_recovered($there);
	is(rows($there), $expected, 'made from the new primary: all rows');
	$there->disconnect;
	end_copy($copy);
	$handle->disconnect;
	$standby->stop;
	$dbh = connect_db($primary);
	return;
}

# --- files of two servers ---------------------------------------------------------------

# pgBackRest takes these from the standby, pg_control and all others from the primary.
my @from_standby = qw(/base /global /pg_xact /pg_multixact);

# make_pair -- a primary and its standby, with tablespaces; the files of the pool are named below the data directory
# (then they are in a tablespace that both have there, which is a test's liberty) or in the tablespace.
sub make_pair
{
	my ($name, @files) = @_;
	my @dir = map { PostgreSQL::Test::Utils::tempdir() } 1 .. 3;
	my $node = copy_primary("${name}_primary", conf => q{shared_preload_libraries = ''});
	$node->start;
	my $handle = connect_db($node);
	run_all($handle, "CREATE TABLESPACE dax LOCATION '$dir[0]'");
	$handle->disconnect;
	$node->stop;
	my ($version) = map { s{.*/}{}r } glob "$dir[0]/PG_*";
	my @path = map { my $d = $_; join ', ', map { s{^DAX}{$d/$version}r } @files } @dir;
	set_conf($node, "shared_preload_libraries = 'zen'\nzen.pool_path = '$path[0]'\n"
		  . "archive_mode = on\narchive_command = 'cp %p $archive/%f'");
	$node->start;
	$handle = connect_db($node);
	make_tables($handle);
	my $copy = PostgreSQL::Test::Cluster->new("${name}_standby");
	PostgreSQL::Test::Utils::system_or_bail('pg_basebackup', '-D', $copy->data_dir, '-h', $node->host,
		'-p', $node->port, '-c', 'fast', '-X', 'stream', '--no-sync', "--tablespace-mapping=$dir[0]=$dir[1]");
	set_conf($copy, 'port = ' . $copy->port . "\nzen.pool_path = '$path[1]'\narchive_mode = off");
	$copy->enable_streaming($node);
	$copy->start;
	return ($node, $handle, $copy, \@dir, \@path);
}

# backup_two -- what two servers have of a backup, in a third data directory.
sub backup_two
{
	my ($name, $node, $handle, $copy, $dir) = @_;
	my $load = start_load($node, 5);
	my $session = start_backup($node);
	$node->wait_for_catchup($copy, 'replay', $node->lsn('insert'));
	my $there = connect_db($copy);
	value($there, 'CHECKPOINT');
	$there->disconnect;
	my $restored = PostgreSQL::Test::Cluster->new("${name}_restored");
	mkdir $restored->data_dir or die $!;
	copy_files($node->data_dir, $restored->data_dir, '--exclude=/pg_tblspc/*', map { "--exclude=$_/*" } @from_standby);
	for my $from (@from_standby)
	{
		copy_files($copy->data_dir . $from, $restored->data_dir . $from, '--exclude=pg_control');
	}
	copy_files($dir->[1], $dir->[2]);
	PostgreSQL::Test::Utils::system_or_bail('cp', $node->data_dir . '/global/pg_control',
		$restored->data_dir . '/global/');
	stop_backup($session, $restored->data_dir);
	my $map = $restored->data_dir . '/tablespace_map';
	my $text = PostgreSQL::Test::Utils::slurp_file($map) =~ s/\Q$dir->[0]\E/$dir->[2]/r;
	unlink $map or die $!;
	PostgreSQL::Test::Utils::append_to_file($map, $text);
	end_load($load);
	$dbh = $handle;
	archive_all();
	set_conf($restored, 'port = ' . $restored->port . "\narchive_mode = off\nrestore_command = 'cp $archive/%f %p'\n"
		  . "recovery_target_action = promote");
	signal_file($restored, 'recovery');
	return $restored;
}

sub test_two_servers
{
	my ($node, $handle, $copy, $dir, $path) = make_pair('two', 'DAX/zen.pool');
	# the primary and its standby count their starts each for itself
	$copy->restart for 1 .. 2;
	my $restored = backup_two('two', $node, $handle, $copy, $dir);
	set_conf($restored, "zen.pool_path = '$path->[2]'");
	$restored->start;
	my $there = wait_promoted($restored);
	is(rows($there), rows($handle), 'the pool from a standby, the rest from its primary: all rows');
	is_whole($there, 'the pool from a standby');
	$there->disconnect;
	$restored->restart;
	$there = connect_db($restored);
	wait_recovered($there);
	is(rows($there), rows($handle), 'and after a restart');
	$there->disconnect;
	$handle->disconnect;
	$_->stop for $restored, $copy, $node;

	# a pool with a file in the data directory, and one in a tablespace
	($node, $handle, $copy, $dir, $path) = make_pair('mixed', 'zen.pool', 'DAX/zen.pool1');
	$handle->disconnect;
	# both have begun as often by then
	$copy->stop;
	$node->restart;
	$copy->start;
	$handle = connect_db($node);
	wait_recovered($handle);
	$restored = backup_two('mixed', $node, $handle, $copy, $dir);
	set_conf($restored, "zen.pool_path = '$path->[2]'");
	my $said = start_failing($restored) // 'it started';
	like($said, qr/were copied from different servers|are not of the same moment/,
		'a pool of which each server has given a file: refused');
	like($said, qr/HINT:/, 'with a hint');
	$handle->disconnect;
	$_->stop for $copy, $node;
	$dbh = undef;
	return;
}
