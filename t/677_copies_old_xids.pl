# Transactions that are older than pg_xact (R19), with zen.stream = replica.
#
# pg_xact is cut when all databases are frozen.  What a copy of the pool has not settled by then nobody can tell.  So a
# few transactions change a table, and the last of them is its region's; many empty ones follow, and VACUUM FREEZE.  The
# copy must have them when it is promoted, whatever has come after or between.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use OldXids;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

use constant ALL_XIDS => 1 << 32;

skip_unless_zen();

my $archive = PostgreSQL::Test::Utils::tempdir();

test_failover('prepared',      \&cut, \&prepare);
test_failover('alone',         \&cut);
test_failover('few',           \&freeze_all, \&restart_at_checkpoint, \&prepare);
test_failover('again',         \&keep_restartpoint, \&cut, \&restart_at_once, \&prepare);
test_failover('primary_crash', \&cut, \&crash_primary, \&prepare);
test_failover('primary_stop',  \&cut, \&stop_primary);
test_failover('rolled_back',   \&prepare, \&roll_back, \&cut);
test_failover('all_prepared',  \&prepare, \&commit_prepared, \&cut);
test_in_time();
test_wraparound();
done_testing();

# --- what comes to pass -----------------------------------------------------------

sub prepare
{
	my ($all) = @_;
	run_all($all->{dbh}, 'BEGIN', 'UPDATE ag SET v = v + 100 WHERE id = 40', q{PREPARE TRANSACTION 'y'});
	return;
}

sub roll_back { return value($_[0]{dbh}, q{ROLLBACK PREPARED 'y'}); }

sub commit_prepared
{
	my ($all) = @_;
	value($all->{dbh}, q{COMMIT PREPARED 'y'});
	$all->{sum} += 100;
	return;
}

# keep_restartpoint -- the standby begins here when it starts again.
sub keep_restartpoint
{
	my ($all) = @_;
	caught_up($all);
	my $handle = connect_db($all->{standby});
	value($handle, 'CHECKPOINT');
	$handle->disconnect;
	return;
}

sub restart_at_once
{
	my ($all) = @_;
	crash($all->{standby});
	start_again($all->{standby});
	caught_up($all);
	return;
}

sub restart_at_checkpoint
{
	my ($all) = @_;
	keep_restartpoint($all);
	$all->{standby}->stop;
	$all->{standby}->start;
	return;
}

sub crash_primary
{
	my ($all) = @_;
	$all->{dbh} = crash_restart($all->{primary});
	wait_recovered($all->{dbh});
	return;
}

sub stop_primary
{
	my ($all) = @_;
	$all->{dbh} = clean_restart($all->{primary}, $all->{dbh});
	return;
}

# --- tests ------------------------------------------------------------------------

sub test_failover
{
	my ($name, @steps) = @_;
	my $all = new_primary($name, FIRST_XID);
	my $standby = $all->{standby} = copy_of($all->{primary}, "${name}_standby", 'base', has_streaming => 1);
	$standby->start;
	update_rows($all);
	$_->($all) for @steps;
	caught_up($all);
	is_whole($all->{dbh}, $all, "$name, primary");
	fails_over($all, $name);
	return;
}

sub fails_over
{
	my ($all, $name) = @_;
	crash($all->{primary});
	my $dbh = eval { promoted($all->{standby}) };
	ok($dbh, "$name: recovered") or diag($@);
	is_whole($dbh, $all, $name) if $dbh;
	$all->{standby}->stop;
	return;
}

# test_in_time -- a backup from before, recovered to a place behind the cut.
sub test_in_time
{
	my $all = new_primary('in_time', FIRST_XID,
		conf => "archive_mode = on\narchive_command = 'cp %p $archive/%f'");
	my ($primary, $dbh) = @$all{qw(primary dbh)};
	update_rows($all);
	cut($all);
	value($dbh, q{SELECT pg_create_restore_point('behind')});
	my $before = $all->{sum};
	update_rows($all);
	my $last = value($dbh, 'SELECT pg_walfile_name(pg_switch_wal())');
	wait_for('the archive', sub { value($dbh, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") });
	my $copy = copy_of($primary, 'in_time_copy', 'base');
	set_conf($copy, "restore_command = 'cp $archive/%f %p'\nrecovery_target_name = 'behind'\n"
		  . 'recovery_target_action = promote');
	signal_file($copy, 'recovery');
	$copy->start;
	my $handle = eval { wait_promoted($copy) };
	ok($handle, 'in_time: recovered') or diag($@);
	$all->{sum} = $before;
	is_whole($handle, $all, 'in_time') if $handle;
	$copy->stop;
	$primary->stop;
	return;
}

# test_wraparound -- 2^32 transactions go by.
sub test_wraparound
{
	my $name = 'wraparound';
	my $all = new_primary($name, 0);
	my $primary = $all->{primary};
	update_rows($all) for 1 .. 20;
	for my $xid (2_000_000_000, 4_000_000_000, ALL_XIDS - 400)
	{
		$all->{dbh}->disconnect;
		$primary->stop;
		begin_at($primary, $xid);
		$primary->start;
		$all->{dbh} = connect_db($primary);
		wait_recovered($all->{dbh});
		freeze_all($all);
	}
	$primary->backup('before');
	my $standby = $all->{standby} = copy_of($primary, "${name}_standby", 'before', has_streaming => 1);
	$standby->start;
	update_rows($all);
	burn_xids($all, ALL_XIDS + 100);
	freeze_all($all);
	ok(!-e $_->data_dir . '/pg_xact/0FFF', $_->name . ' has cut pg_xact') for $primary, $standby;
	crash_primary($all);
	is_whole($all->{dbh}, $all, "$name, primary");
	fails_over($all, $name);
	return;
}
