# A primary and its standby in different modes of the pool, or both in mode wal, whose redo syncs at checkpoints only.
#
# - a base backup is taken under load; the standby is killed in the middle of replay, again and again: its pool comes to
#   the primary's
# - the primary is lost while the standby has WAL that it has not replayed; the standby is killed while it replays that,
#   and promoted at the WAL's end: it has all that was flushed
# - the old primary follows after an orderly stop, in its own mode, is killed, and becomes the primary again
# - recovery to a target that is killed in the middle, and goes on to the WAL's end
#
# MODES="wal:emulated"   only these: primary:standby

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use IPC::Run ();
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep);
use ZenTest;

skip_unless_zen();
choose_seed();
test_modes(split /:/) for split ' ', $ENV{MODES} // 'wal:wal emulated:wal wal:emulated';
done_testing();

sub make_tables
{
	my ($dbh) = @_;
	run_all($dbh, 'CREATE EXTENSION zen',
		(map { "CREATE TABLE $_ (id int PRIMARY KEY, v int, filler text) USING $_" } qw(zen heap)),
		(map { "INSERT INTO $_ SELECT g, 0, repeat('x', g % 200) FROM generate_series(1, 1000) g" } qw(zen heap)));
	return;
}

# load -- for so many transactions of each of four clients: each makes the same changes to zen and to heap.
sub load
{
	my ($node, $transactions) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
	PostgreSQL::Test::Utils::append_to_file($script, <<'END');
\set a random(1, 1000)
\set n random(1, 600)
\set what random(1, 6)
BEGIN;
SELECT pg_advisory_xact_lock(:a);
\if :what = 1
DELETE FROM zen WHERE id = :a;
DELETE FROM heap WHERE id = :a;
\elif :what <= 3
INSERT INTO zen VALUES (:a, :n, repeat('z', :n)) ON CONFLICT (id) DO UPDATE SET v = zen.v + 1;
INSERT INTO heap VALUES (:a, :n, repeat('z', :n)) ON CONFLICT (id) DO UPDATE SET v = heap.v + 1;
\else
UPDATE zen SET v = v + :n, filler = repeat('y', :n) WHERE id = :a;
UPDATE heap SET v = v + :n, filler = repeat('y', :n) WHERE id = :a;
\endif
\if :what = 6
ROLLBACK;
\else
COMMIT;
\endif
END
	return IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-t', $transactions, '-f', $script, '-h', $node->host,
			'-p', $node->port, 'postgres' ], '>', \my $out, '2>', \my $err);
}

sub rows { return value($_[0], q{SELECT count(*) || ':' || md5(string_agg(t::text, ',' ORDER BY id)) FROM zen t}); }

sub is_whole
{
	my ($dbh, $rows, $name) = @_;
	is(rows($dbh), $rows, "$name: all rows") if defined $rows;
	my $different = q{SELECT count(*) FROM zen FULL JOIN heap USING (id)
		WHERE (zen.v, zen.filler) IS DISTINCT FROM (heap.v, heap.filler)};
	is(value($dbh, $different), 0, "$name: zen and heap have the same rows");
	is_sound($dbh, $name);
	return;
}

sub test_modes
{
	my ($of_primary, $of_standby) = @_;
	my $name = "$of_primary, standby $of_standby";
	my $archive = PostgreSQL::Test::Utils::tempdir();
	my $primary = copy_primary("p_${of_primary}_$of_standby",
		conf => "zen.pool_mode = $of_primary\narchive_mode = on\narchive_command = 'cp %p $archive/%f'");
	$primary->start;
	my $dbh = connect_db($primary);
	make_tables($dbh);
	my $load = load($primary, 400);
	$primary->backup('base');
	my $standby = copy_of($primary, "s_${of_primary}_$of_standby", 'base', has_streaming => 1);
	set_conf($standby, "zen.pool_mode = $of_standby");
	$standby->start;
	$load->finish or die 'load';
	test_killed($name, $primary, $dbh, $standby);
	test_lost($name, $primary, $dbh, $standby);
	$dbh = test_back($name, $primary, $standby);
	test_target($name, $primary, $dbh, $archive, $of_standby);
	$dbh->disconnect;
	$_->stop for $primary, $standby;
	return;
}

# test_killed -- in the middle of replay.
sub test_killed
{
	my ($name, $primary, $dbh, $standby) = @_;
	for my $round (1 .. 3)
	{
		$standby->stop($round == 1 ? 'fast' : 'immediate');
		load($primary, 300)->finish or die 'load';
		value($dbh, 'CHECKPOINT') if $round == 2;
		start_and_crash($standby, rand 0.6);
		start_again($standby);
	}
	is(pools_differ($primary, $dbh, $standby), '', "$name: killed in redo, the pools are equal");
	return;
}

# test_lost -- the primary stops; the standby has more WAL than it has replayed, is killed, and promoted at its end.
sub test_lost
{
	my ($name, $primary, $dbh, $standby) = @_;
	my $there = connect_db($standby);
	value($there, 'SELECT pg_wal_replay_pause()');
	wait_for('the pause', sub { value($there, 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' });
	load($primary, 400)->finish or die 'load';
	my $rows = rows($dbh);
	$dbh->disconnect;
	$primary->stop;
	$there->disconnect;
	crash($standby);
	# it does not remember the pause
	start_and_crash($standby, rand 0.4) for 1 .. 2;
	start_again($standby);
	my $handle = promoted($standby);
	is_whole($handle, $rows, "$name: killed, and promoted at the end of the WAL");
	value($handle, 'UPDATE zen SET v = v + 1');
	value($handle, 'UPDATE heap SET v = v + 1');
	$rows = rows($handle);
	$handle->disconnect;
	crash($standby);
	start_again($standby);
	$handle = connect_db($standby);
	wait_recovered($handle);
	is_whole($handle, $rows, "$name: and killed as a primary");
	$handle->disconnect;
	return;
}

# test_back -- the servers change their roles; a connection to the old primary, which is one again.
sub test_back
{
	my ($name, $primary, $standby) = @_;
	my $handle = connect_db($standby);
	set_conf($standby, "archive_mode = off\nwal_keep_size = 512MB");
	$primary->enable_streaming($standby);
	$primary->start;
	my $load = load($standby, 300);
	sleep rand 0.5;
	crash($primary);
	start_again($primary);
	$load->finish or die 'load';
	is(pools_differ($standby, $handle, $primary), '', "$name: the old primary follows, the pools are equal");
	my $rows = rows($handle);
	$handle->disconnect;
	crash($standby);
	my $dbh = promoted($primary);
	is_whole($dbh, $rows, "$name: the old primary is one again");
	$standby->enable_streaming($primary);
	return $dbh;
}

# test_target -- recovery to a target far behind is killed in the middle, and goes on to the end of the archive.
sub test_target
{
	my ($name, $primary, $dbh, $archive, $mode) = @_;
	$primary->backup('target');
	load($primary, 300)->finish or die 'load';
	value($dbh, q{SELECT pg_create_restore_point('point')});
	my $rows = rows($dbh);
	my $last = value($dbh, 'SELECT pg_walfile_name(pg_switch_wal())');
	wait_for('the archive', sub { value($dbh, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") });
	my $copy = copy_of($primary, $primary->name . '_target', 'target');
	set_conf($copy, <<"END");
zen.pool_mode = $mode
restore_command = 'cp $archive/%f %p'
recovery_target_name = 'point'
recovery_target_action = promote
END
	signal_file($copy, 'recovery');
	start_and_crash($copy, rand 0.4);
	# it may have come to the target, and ended there
	set_conf($copy, q{recovery_target_name = ''}) if -e $copy->data_dir . '/recovery.signal';
	start_again($copy);
	my $handle = wait_promoted($copy);
	is_whole($handle, $rows, "$name: killed on the way to a target");
	$handle->disconnect;
	$copy->stop;
	return;
}
