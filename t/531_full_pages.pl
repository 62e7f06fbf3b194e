# The pool is not full while others give pages back: who finds no room waits until these are free.
#
# VACUUM sleeps with pages that it has condemned and not freed, as it does when a disk takes long to flush the WAL.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_faults();

my $node = new_node('full', pool_size => '32MB', dram_size => '128MB', faults => 1);
$node->start;
my ($dbh, $slow, $watcher) = map { connect_db($node) } 1 .. 3;
my $insert = q{INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 30000) g};

value($dbh, 'CREATE EXTENSION zen');
my $worker = stop_asleep($dbh, 'zen worker');    # it would take some of the pages
value($dbh, $_) for 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen', $insert, 'DELETE FROM t';
inject_fault($node, $slow, 'pool_pause_condemned');
my $vacuum = start_statement($slow, 'VACUUM t');
wait_for('VACUUM sleeps', sub { my ($state) = ZenTest::proc_stat($slow->{pg_pid}); $state eq 'T' });
inject_fault($node, $dbh, 'none');

value($dbh, 'SET zen.full_timeout = 0');
is(state_of($dbh, $insert), '53100', 'with zen.full_timeout = 0 the pool is full at once');
value($dbh, q{SET zen.full_timeout = '100s'});
my $statement = start_statement($dbh, $insert);
wait_for('INSERT waits, or ends', sub { $dbh->pg_ready || waits_for_pages($dbh) });
ok(!$dbh->pg_ready, 'INSERT waits for pages that VACUUM gives back');
value($watcher, "SELECT pg_cancel_backend($dbh->{pg_pid})");
is(finish_statement($statement), '57014', '... and can be cancelled');
my $again = start_statement($dbh, $insert);
wait_for('INSERT waits again', sub { $dbh->pg_ready || waits_for_pages($dbh) });
# VACUUM learns at its end that the fault is over, and so sleeps on other pages, too
wait_for('VACUUM', sub { kill 'CONT', $slow->{pg_pid}; $slow->pg_ready });
is(finish_statement($vacuum), 'VACUUM', 'VACUUM ends');
is(finish_statement($again), 'INSERT 0 30000', '... and INSERT goes on when the pages are free');
is(value($dbh, 'SELECT count(*) FROM t'), 30000, 'all rows are there');
is_sound($dbh, 'at the end');
kill 'CONT', $worker;
$_->disconnect for $dbh, $slow, $watcher;
$node->stop;
done_testing();

sub waits_for_pages
{
	my ($handle) = @_;
	my $wait = "SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $handle->{pg_pid}";
	return value($watcher, $wait);
}
