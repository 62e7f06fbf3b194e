# How long the exclusive stage lasts by default (zen.exclusive_timeout, 1 s): gamma's promise, Zen+, section 4.1.
# A long transaction that reads a hot row and updates it at its end loses to two clients that update the row all the
# time.  It commits after zen.exclusive_failures lost tries, and a limited number of further ones.
#
# - 3 s of computing are progress: the first stage lasts until the commit
# - 2 s and 4 s of a client that thinks are not: stages are given up, and each has twice the time of the one before
# - a holder that does nothing is given up after 1 s, one that computes after 10 s
# - the work of a parallel worker is progress, while its leader waits for it

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg ':async';
use Test::More;
use Time::HiRes qw(sleep);
use ZenTest;

skip_unless_zen();
my $failures = 2;
my $node = new_node('exclusive_time', conf => <<"END");
zen.exclusive_failures = $failures
max_parallel_workers_per_gather = 1
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
END
$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, n bigint) USING zen',
	'INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g',
	# so many seconds of processor time
	q{CREATE FUNCTION compute(s float8) RETURNS void LANGUAGE plpgsql PARALLEL SAFE AS $$
		DECLARE until timestamptz := clock_timestamp() + s * interval '1 second';
		BEGIN WHILE clock_timestamp() < until LOOP NULL; END LOOP; END $$},
	q{CREATE PROCEDURE hammer() LANGUAGE plpgsql AS $$ BEGIN
		LOOP UPDATE t SET n = n + 1 WHERE id = 1; COMMIT; END LOOP; END $$});

test_promise('computing', 2, sub { value($_[0], 'SELECT compute(3)') });
test_promise('a parallel worker computes', 2, sub {
	value($_[0], 'SET LOCAL parallel_leader_participation = off');
	value($_[0], 'SELECT count(*) FROM t WHERE id = 1 AND compute(3) IS NOT NULL');
});
test_promise('a client thinks 2 s', 4, sub { sleep(2) });
test_promise('a client thinks 4 s', 5, sub { sleep(4) });
test_given_up('made no progress', 1, 6);
test_given_up('lasted too long', 10, 16, sub { $_[0]->do('SELECT compute(17)', { pg_async => PG_ASYNC }) });
is_sound($dbh, 'at the end');
$node->stop;
done_testing();

# with_writers -- two clients update the hot row without a pause meanwhile.
sub with_writers
{
	my ($body) = @_;
	my @writers = map { connect_db($node) } 1 .. 2;
	$_->do('CALL hammer()', { pg_async => PG_ASYNC }) for @writers;
	$body->();
	for my $w (@writers)
	{
		ok(!$w->pg_ready, 'the writers have written all the time') or diag($w->errstr);
		$w->pg_cancel;
		$w->disconnect;
	}
	return;
}

# test_promise -- a REPEATABLE READ transaction that reads the hot row, does something long, and updates the row,
# commits after zen.exclusive_failures tries and at most so many more.
sub test_promise
{
	my ($what, $more, $long) = @_;
	my $c = connect_db($node);
	my ($tries, $committed) = (0, 0);
	with_writers(sub {
		while (!$committed && $tries < $failures + $more + 5)
		{
			$tries++;
			value($c, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
			value($c, 'SELECT n FROM t WHERE id = 1');
			$long->($c);
			$committed = state_of($c, 'UPDATE t SET n = n + 1 WHERE id = 1') eq '';
			value($c, $committed ? 'COMMIT' : 'ROLLBACK');
		}
	});
	ok($committed, "$what: commits");
	cmp_ok($tries, '>', $failures, "$what: lost its first tries");
	cmp_ok($tries, '<=', $failures + $more, "$what: the number of tries is limited");
	note("$what: $tries tries; the last stages: " . join ', ', map { "@$_ ms" }
		run_sql($dbh, 'SELECT outcome, duration_ms FROM zen_stat_exclusive LIMIT 4')->{rows}->@*);
	$c->disconnect;
	return;
}

# test_given_up -- a stage by memory whose holder goes on so is given up, with this outcome, between these seconds.
sub test_given_up
{
	my ($outcome, $least_s, $most_s, $goes_on) = @_;
	my $p = connect_db($node);
	value($p, 'SET zen.exclusive_memory = 1');
	value($p, 'BEGIN');
	value($p, q{INSERT INTO t SELECT g, g FROM generate_series(1000, 200000) g});
	is(value($dbh, 'SELECT outcome FROM zen_stat_exclusive LIMIT 1'), 'running', "$outcome: a stage runs");
	$goes_on->($p) if $goes_on;
	my $w = connect_db($node);
	is(state_of($w, 'UPDATE t SET n = 0 WHERE id = 2'), '', "$outcome: who waited goes on");
	my ($ended, $lasted_ms) =
	  run_sql($dbh, 'SELECT outcome, duration_ms FROM zen_stat_exclusive LIMIT 1')->{rows}[0]->@*;
	is($ended, "given up: $outcome", "$outcome: the outcome");
	cmp_ok($lasted_ms, '>=', 1000 * $least_s, "$outcome: not before $least_s s");
	cmp_ok($lasted_ms, '<', 1000 * $most_s, "$outcome: and not much later");
	if ($goes_on)
	{
		wait_for('the statement of the holder', sub { $p->pg_ready });
		$p->pg_result;
	}
	is(state_of($p, 'ROLLBACK'), '', "$outcome: the holder goes on");
	$_->disconnect for $p, $w;
	return;
}
