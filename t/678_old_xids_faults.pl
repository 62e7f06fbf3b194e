# R19 broken: a pool that names transactions of which pg_xact has forgotten what became must be seen to be wrong.
#
# - forgotten_undone: the primary crashes.  A process was stopped when its transaction had committed, and before the
#   pool knew of that; meanwhile pg_xact was cut
# - undone_stays: the primary crashes with a transaction under way, and its recovery fails.  Then pg_xact is cut, and
#   the next recovery succeeds
# - not_before_cut: the same, of a standby that is promoted before that recovery succeeds
#
# Each must go well with honest settings.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use OldXids;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_faults();

test_committed($_) for 'none', 'r19_forgotten_undone';
test_undone($_)    for 'none', 'r19_undone_stays', 'r19_not_before_cut';
done_testing();

sub is_caught
{
	my ($dbh, $all, $fault) = @_;
	my $sum = eval { value($dbh, 'SELECT sum(v) FROM ag') } // $@;
	if ($fault eq 'none') { is($sum, $all->{sum}, 'all that was committed, and nothing else'); }
	else { isnt($sum, $all->{sum}, "$fault is caught: $sum"); }
	return;
}

# stopped_in -- another session begins to commit, and does not end: what is returned must be kept.
sub stopped_in
{
	my ($all, $pause) = @_;
	my $session = connect_db($all->{primary});
	my $pid = value($session, 'SELECT pg_backend_pid()');
	run_all($session, 'BEGIN', 'UPDATE ag SET v = v + 1000 WHERE id = 30', 'INSERT INTO h VALUES (1)');
	inject_fault($all->{primary}, $session, $pause);
	my $statement = start_statement($session, 'COMMIT');
	wait_for('the session to stop', sub { PostgreSQL::Test::Utils::slurp_file("/proc/$pid/stat") =~ /\)\s+T/ });
	return $statement;
}

sub test_committed
{
	my ($fault) = @_;
	my $all = new_primary("committed_$fault", FIRST_XID, faults => 1);
	my $stopped = stopped_in($all, 'r19_pause_committed');
	$all->{sum} += 1000;
	reload_conf($all->{primary}, "zen.fault = '$fault'");
	cut($all);
	my $dbh = crash_restart($all->{primary});
	wait_recovered($dbh);
	is_caught($dbh, $all, $fault);
	$all->{primary}->stop;
	return;
}

sub test_undone
{
	my ($fault) = @_;
	my $all = new_primary("undone_$fault", FIRST_XID, faults => 1);
	my $primary = $all->{primary};
	my $standby = $all->{standby} = copy_of($primary, "standby_$fault", 'base', has_streaming => 1);
	set_conf($standby, q{zen.fault = 'r19_not_before_cut'}) if $fault eq 'r19_not_before_cut';
	$standby->start;
	my $stopped = stopped_in($all, 'r19_pause_decided');
	caught_up($all);
	crash($primary);
	set_conf($primary, q{zen.fault = '} . ($fault eq 'r19_undone_stays' ? $fault : 'r19_recovery_fails') . q{'});
	start_again($primary);
	$all->{dbh} = connect_db($primary);
	wait_for('recovery to fail', sub { value($all->{dbh}, 'SELECT state FROM zen_recovery') eq 'failed' });
	cut($all, 'heap');
	$all->{dbh}->disconnect;
	$primary->stop;
	my $dbh = promoted($standby);
	is_caught($dbh, $all, $fault eq 'r19_undone_stays' ? 'none' : $fault);
	$dbh->disconnect;
	$standby->stop;
	set_conf($primary, q{zen.fault = 'none'});
	$primary->start;
	$dbh = connect_db($primary);
	wait_recovered($dbh);
	is_caught($dbh, $all, $fault eq 'r19_not_before_cut' ? 'none' : $fault);
	$dbh->disconnect;
	$primary->stop;
	return;
}
