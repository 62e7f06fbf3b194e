# A checkpoint waits for a process that has logged which slots become empty, and has not emptied them yet (R18).
#
# That process has no transaction any more, in the sense of PostgreSQL: it runs the callbacks of an abort.  It is
# stopped there.  Else a base backup that begins at this checkpoint could copy the slots as they were, and replay would
# not empty them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

my $POLLS = 50;    # of the checkpointer, every 10 ms

skip_unless_zen();
skip_unless_faults();

my $node = copy_primary('scrub', faults => 1);
$node->start;
my ($dbh, $aborter, $other) = map { connect_db($node) } 1 .. 3;
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
	q{INSERT INTO t SELECT g, 'old' FROM generate_series(1, 100) g}, 'CHECKPOINT');

# spilled rows are in the pool before the transaction ends
run_all($aborter, 'SET zen.spill_threshold = 0', 'BEGIN', q{UPDATE t SET v = 'new'},
	q{INSERT INTO t SELECT g, 'new' FROM generate_series(101, 200) g});
inject_fault($node, $dbh, 'r18_pause_vanishing');
reads_fault($aborter);
my $rollback = start_statement($aborter, 'ROLLBACK');
wait_for('ROLLBACK to stop', sub { my ($state) = ZenTest::proc_stat($aborter->{pg_pid}); $state eq 'T' });
inject_fault($node, $dbh, 'none');

my $before = control();
my $checkpoint = start_statement($other, 'CHECKPOINT');
polls(value($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'}), $checkpoint);
ok(!$other->pg_ready, 'CHECKPOINT waits for a process between the record and the slots');
is(control(), $before, '... and pg_control is as it was');
wait_for('ROLLBACK', sub { kill 'CONT', $aborter->{pg_pid}; $aborter->pg_ready });
is(finish_statement($rollback), 'ROLLBACK', 'ROLLBACK ends');
is(finish_statement($checkpoint), 'CHECKPOINT', '... and so does CHECKPOINT');
isnt(control(), $before, '... which moves pg_control');
is(value($dbh, q{SELECT count(*) FROM t WHERE v = 'old'}), 100, 'the rows are as they were');
is(state_of($aborter, q{UPDATE t SET v = 'newer' WHERE id = 1}), '', 'the session works on');
is_sound($dbh, 'at the end');
$_->disconnect for $dbh, $aborter, $other;
$node->stop;
done_testing();

sub control { return value($dbh, 'SELECT checkpoint_lsn FROM pg_control_checkpoint()'); }

# reads_fault -- the session has read the configuration: it does so between two statements.
sub reads_fault
{
	my ($session) = @_;
	wait_for('the fault', sub { value($session, 'SHOW zen.fault') eq 'r18_pause_vanishing' });
	return;
}

sub sleeps
{
	my ($pid) = @_;
	my ($n) = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m;
	return $n;
}

# polls -- until a process has slept and looked again often, or the statement has ended.
sub polls
{
	my ($pid, $statement) = @_;
	my $until = sleeps($pid) + $POLLS;
	wait_for("process $pid to wait", sub { sleeps($pid) >= $until || $statement->{dbh}->pg_ready });
	return;
}
