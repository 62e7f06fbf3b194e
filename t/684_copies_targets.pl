# Recovery targets and pg_rewind with zen.stream = replica.
#
# - a transaction on a zen table and one on a heap table follow each other: recovery to a time, a transaction, a restore
#   point, a place of the WAL, or the end of the backup leaves the same of both
# - recovery that has paused, or stopped the server, at a target goes on from there
# - a server that is stopped at a target, or is killed there, recovers to the same target again.  In mode wal that is
#   refused after the kill: a sync comes with the end of replay only
# - a primary that was left behind by a failover follows the new one after pg_rewind, if its pool is in the data
#   directory, and pg_rewind copies from the primary; else its start is refused

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use File::Copy qw(copy);
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $archive = PostgreSQL::Test::Utils::tempdir();

test_targets();
test_rewind('a running server', 0);
test_rewind('a stopped server', 1);
test_rewind_elsewhere();
test_rewind_from_standby();
done_testing();

# --- targets --------------------------------------------------------------------

my $step = 0;

# step -- returns the transaction's number on the zen table.
sub step
{
	my ($dbh) = @_;
	$step++;
	run_all($dbh, 'BEGIN', "INSERT INTO z VALUES ($step)", "UPDATE z SET n = n + 1 WHERE id = 0");
	my $xid = value($dbh, 'SELECT pg_current_xact_id()');
	run_all($dbh, 'COMMIT', "INSERT INTO h VALUES ($step)");
	return $xid;
}

sub seen
{
	my ($dbh) = @_;
	return join ' | ', map { value($dbh, "SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM $_") }
	  'z WHERE id > 0', 'h', '(SELECT n AS id FROM z WHERE id = 0) a';
}

sub expected { return "@{[ 1 .. $_[0] ]} | @{[ 1 .. $_[1] ]} | $_[0]"; }

# recovering -- a server that begins to recover the backup to a target.
sub recovering
{
	my ($primary, $name, $target) = @_;
	my $copy = copy_of($primary, $name, 'base');
	set_conf($copy, "restore_command = 'cp $archive/%f %p'\n$target");
	signal_file($copy, 'recovery');
	return $copy;
}

sub recovers_to
{
	my ($primary, $name, $target, $zen, $heap) = @_;
	my $copy = recovering($primary, $name, "$target\nrecovery_target_action = promote");
	$copy->start;
	my $handle = wait_promoted($copy);
	is(seen($handle), expected($zen, $heap), "$name: the rows as of then");
	is_sound($handle, $name);
	$handle->disconnect;
	$copy->stop;
	return;
}

sub test_targets
{
	my $primary = copy_primary('primary', conf => "archive_mode = on\narchive_command = 'cp %p $archive/%f'");
	$primary->start;
	my $dbh = connect_db($primary);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY, n int) USING zen',
		'CREATE TABLE h (id int PRIMARY KEY) USING heap', 'INSERT INTO z VALUES (0, 0)');
	$primary->backup('base');
	step($dbh);
	my $time = value($dbh, 'SELECT clock_timestamp()');
	step($dbh);
	my $xid = step($dbh);
	step($dbh);
	run_all($dbh, q{SELECT pg_create_restore_point('point')});
	step($dbh);
	my $lsn = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	step($dbh);
	my $last = value($dbh, 'SELECT pg_walfile_name(pg_switch_wal())');
	wait_for('the archive', sub { value($dbh, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") });

	recovers_to($primary, 'immediate', q{recovery_target = 'immediate'}, 0, 0);
	recovers_to($primary, 'time', "recovery_target_time = '$time'", 1, 1);
	# the commit record decides of the one, and of what comes behind it of the other
	recovers_to($primary, 'xid', "recovery_target_xid = '$xid'", 3, 2);
	recovers_to($primary, 'before_xid', "recovery_target_xid = '$xid'\nrecovery_target_inclusive = off", 2, 2);
	recovers_to($primary, 'name', q{recovery_target_name = 'point'}, 4, 4);
	recovers_to($primary, 'lsn', "recovery_target_lsn = '$lsn'\nrecovery_target_inclusive = off", 5, 5);
	test_pause($primary);
	test_shutdown($primary);
	test_again($primary, $_) for qw(stopped killed);
	$dbh->disconnect;
	$primary->stop;
	return;
}

sub test_pause
{
	my ($primary) = @_;
	my $copy = recovering($primary, 'pause', "recovery_target_name = 'point'\nrecovery_target_action = pause");
	$copy->start;
	my $handle = connect_db($copy);
	wait_for('the pause', sub { value($handle, 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' });
	my $result = run_sql($handle, 'SELECT * FROM z');
	is($result->{state}, '0A000', "pause: zen's tables are not read: $result->{message}");
	my $stream = run_sql($handle, 'SELECT role, copied, replay_lsn IS NOT NULL FROM zen_stat_stream')->{rows}[0];
	is("@$stream", 'replica 1 1', 'pause: zen_stat_stream tells of the copy');
	value($handle, 'SELECT pg_wal_replay_resume()');
	wait_for('the end of recovery', sub { !value($handle, 'SELECT pg_is_in_recovery()') });
	wait_recovered($handle);
	is(seen($handle), expected(4, 4), 'pause: all rows, when it goes on');
	$handle->disconnect;
	$copy->stop;
	return;
}

sub test_shutdown
{
	my ($primary) = @_;
	my $copy = recovering($primary, 'shutdown', "recovery_target_name = 'point'\nrecovery_target_action = shutdown");
	# it may be seen to run, or not
	PostgreSQL::Test::Utils::system_log('pg_ctl', '-w', '-D', $copy->data_dir, '-l', $copy->logfile, 'start');
	wait_for('the server to end', sub { !-e $copy->data_dir . '/postmaster.pid' });
	set_conf($copy, q{recovery_target_name = ''});
	$copy->start;
	my $handle = wait_promoted($copy);
	is(seen($handle), expected(6, 6), 'shutdown: and goes on to the end of the archive');
	is_sound($handle, 'shutdown');
	$handle->disconnect;
	$copy->stop;
	return;
}

# paused -- a server that waits at the restore point.
sub paused
{
	my ($primary, $name) = @_;
	my $copy = recovering($primary, $name, "recovery_target_name = 'point'\nrecovery_target_action = pause");
	$copy->start;
	my $handle = connect_db($copy);
	wait_for('the pause', sub { value($handle, 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' });
	$handle->disconnect;
	return $copy;
}

sub test_again
{
	my ($primary, $how) = @_;
	my $copy = paused($primary, $how);
	$how eq 'killed' ? crash($copy) : $copy->stop;
	set_conf($copy, 'recovery_target_action = promote');
	start_again($copy);
	if ($how eq 'killed' && by_wal($copy))
	{
		my $handle = connect_db($copy);
		wait_for('the end of recovery', sub { !value($handle, 'SELECT pg_is_in_recovery()') });
		is(state_of($handle, 'SELECT * FROM z'), '55000', "$how at a target, and there again: refused");
		like(PostgreSQL::Test::Utils::slurp_file($copy->logfile),
			qr/ahead of this server.*DETAIL:  It may have changes.*HINT:.*begin with the base backup/s, "$how: why");
		$handle->disconnect;
		$copy->stop;
		return;
	}
	my $handle = wait_promoted($copy);
	is(seen($handle), expected(4, 4), "$how at a target, and there again: the rows as of then");
	is_sound($handle, "$how at a target");
	$handle->disconnect;
	$copy->stop;
	return;
}

# --- pg_rewind --------------------------------------------------------------------

my $rows = q{SELECT count(*) || ':' || md5(string_agg(t::text, ',' ORDER BY id)) FROM t};

# diverged -- two servers that have gone different ways: the old primary, its promoted standby and a connection to that.
sub diverged
{
	my ($name, %opt) = @_;
	my $old = copy_primary("old_$name", conf => 'wal_log_hints = on');
	$old->start;
	my $dbh = connect_db($old);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO t SELECT g, repeat('x', g % 200) FROM generate_series(1, 3000) g});
	$old->backup('base');
	my $new = copy_of($old, "new_$name", 'base', has_streaming => 1);
	$new->start;
	run_all($dbh, q{UPDATE t SET v = v || 'both' WHERE id % 3 = 0}, 'CHECKPOINT');
	$old->wait_for_catchup($new, 'replay', $old->lsn('insert'));
	my $handle = promoted($new);
	run_all($dbh, q{UPDATE t SET v = v || 'lost' WHERE id % 2 = 0}, 'DELETE FROM t WHERE id % 7 = 0',
		q{INSERT INTO t SELECT g, 'lost' FROM generate_series(10000, 12000) g}, 'CREATE TABLE lost AS SELECT * FROM t',
		'VACUUM t');
	run_all($handle, q{UPDATE t SET v = v || 'kept' WHERE id % 5 = 0}, 'DELETE FROM t WHERE id % 11 = 0',
		q{INSERT INTO t SELECT g, 'kept' FROM generate_series(11000, 13000) g}, 'CREATE TABLE kept AS SELECT * FROM t',
		'VACUUM t', 'CHECKPOINT');
	$dbh->disconnect;
	return ($old, $new, $handle);
}

# rewind -- the configuration stays the target's.
sub rewind
{
	my ($old, @source) = @_;
	my $conf = $old->data_dir . '/postgresql.conf';
	my $kept = PostgreSQL::Test::Utils::tempdir() . '/conf';
	copy($conf, $kept) or die $!;
	PostgreSQL::Test::Utils::system_or_bail('pg_rewind', '--no-sync', '-D', $old->data_dir, @source);
	copy($kept, $conf) or die $!;
	return;
}

sub test_rewind
{
	my ($name, $stopped) = @_;
	my ($old, $new, $handle) = diverged($stopped);
	if ($stopped)
	{
		crash($old);
		$handle->disconnect;
		$new->stop;
		rewind($old, '--source-pgdata', $new->data_dir);
		$new->start;
		$handle = connect_db($new);
		wait_recovered($handle);
	}
	else
	{
		$old->stop;
		my $load = IPC::Run::start([ 'psql', '-X', '-q', '-d', $new->connstr('postgres'), '-c',
			q{DO $$ BEGIN FOR i IN 1..4000 LOOP UPDATE t SET v = i WHERE id = 1 + i % 300; COMMIT; END LOOP; END $$} ]);
		rewind($old, '--source-server', $new->connstr('postgres'));
		$load->finish or die 'load';
	}
	$old->enable_streaming($new);
	$old->start;
	is(pools_differ($new, $handle, $old), '', "pg_rewind from $name: the pools are equal");
	run_all($handle, q{UPDATE t SET v = v || 'after' WHERE id % 13 = 0});
	is(pools_differ($new, $handle, $old), '', "pg_rewind from $name: and stay so");
	my $expected = value($handle, $rows);
	$handle->disconnect;
	$new->stop;
	$handle = promoted($old);
	is(value($handle, $rows), $expected, "pg_rewind from $name: promoted, it has all rows");
	is_sound($handle, "pg_rewind from $name");
	$handle->disconnect;
	$old->stop;
	return;
}

# pg_rewind copies the pool of a running standby, and ends behind it.
sub test_rewind_from_standby
{
	my ($old, $new, $handle) = diverged('standby');
	my $third = PostgreSQL::Test::Cluster->new('third');
	$third->init_from_backup($old, 'base');
	$third->enable_streaming($new);
	$third->start;
	is(pools_differ($new, $handle, $third), '', 'a standby of the new primary has its pool');
	# pg_control has the new timeline from a restartpoint on
	my $there = connect_db($third);
	value($there, 'CHECKPOINT');
	$there->disconnect;
	$old->stop;
	# what it copies goes on meanwhile
	my $load = start_statement($handle, 'DO $$ BEGIN FOR i IN 1 .. 3000 LOOP'
		  . ' UPDATE t SET v = i::text || substr(v, 1, 100) WHERE id % 1000 = i % 1000; COMMIT; END LOOP; END $$');
	rewind($old, '--source-server', $third->connstr('postgres'));
	finish_statement($load);
	$old->enable_streaming($new);
	$old->start;
	is(pools_differ($new, $handle, $old), '', 'pg_rewind from a standby: it has the new primary\'s pool');
	my $expected = value($handle, $rows);
	my $again = promoted($old);
	is(value($again, $rows), $expected, 'pg_rewind from a standby: and all rows');
	is_sound($again, 'pg_rewind from a standby');
	$again->disconnect;
	$old->stop;
	$handle->disconnect;
	$_->stop for $third, $new;
	return;
}

# The pool of the old primary is not in its data directory: pg_rewind does not know of it.
sub test_rewind_elsewhere
{
	my ($old, $new, $handle) = diverged('elsewhere');
	$old->stop;
	my $pool = PostgreSQL::Test::Utils::tempdir() . '/zen.pool';
	system('cp', $old->data_dir . '/zen.pool', $pool) == 0 or die 'cp';
	rewind($old, '--source-server', $new->connstr('postgres'));
	set_conf($old, "zen.pool_path = '$pool'");
	$old->enable_streaming($new);
	my $said = start_failing($old) // 'it started';
	like($said, qr/zen pool file .* (is not part of the base backup|not of the same moment)/,
		'pg_rewind without the pool: refused');
	like($said, qr/HINT:/, 'pg_rewind without the pool: with a hint');
	$handle->disconnect;
	$new->stop;
	return;
}
