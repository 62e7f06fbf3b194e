# The exclusive stage: a transaction that crosses a threshold runs while other writers wait
# before their first write; nobody waits for ever, and nobody fails for it.
#
# - each threshold: memory (DRAM of one transaction), free pool (room in the pool), failures (lost
#   transactions of one client)
# - readers, and writers that have begun before, go on; who waits is seen, and can be cancelled
# - the stage ends with its holder: commit, rollback, PREPARE, terminated, disconnected; it is
#   given up where the holder waits for one who waits, and when it lasts too long
# - many clients with thresholds so low that stages follow one another, and locks of all kinds:
#   all come to an end, without other errors than they would have without stages
# - after a crash in it nobody is held back

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg ':async';
use List::Util 'shuffle';
use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('exclusive', conf => <<'END');
zen.met_cache_size = 1MB
zen.exclusive_memory = 0
zen.exclusive_free_pool = 0
zen.exclusive_failures = 0
zen.exclusive_timeout = 300s
zen.spill_threshold = -1
END
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');
value($dbh, 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen');
value($dbh, 'CREATE TABLE h (id int) USING heap');
value($dbh, q{INSERT INTO t SELECT g, 'x' FROM generate_series(1, 10) g});
my $next_id = 1000;

is(value($dbh, 'SELECT count(*) FROM zen_stat_exclusive'), 0, 'no stage yet');
test_memory();
test_memory_not_crossed();
test_free_pool();
test_failures();
test_rollback();
test_prepare();
test_blocked();
test_timeout();
test_cancelled_waiter();
test_terminated();
test_disconnected();
test_many();
is_sound($dbh, 'at the end');
test_crash();
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub pid { return value($_[0], 'SELECT pg_backend_pid()'); }

sub stage { return value($dbh, "SELECT $_[0] FROM zen_stat_exclusive LIMIT 1"); }

sub a_row { return "INSERT INTO t VALUES (" . $next_id++ . ", 'y')"; }

# A session whose transaction has just become privileged, by its size.
sub privileged
{
	my $p = connect_db($node);
	value($p, 'SET zen.exclusive_memory = 50');
	value($p, 'BEGIN');
	my $from = $next_id;
	$next_id += 5000;
	value($p, "INSERT INTO t SELECT g, repeat('z', 200) FROM generate_series($from, $next_id - 1) g");
	is(stage(q{concat_ws(' ', running, pid, reason, outcome)}), 't ' . pid($p) . ' memory running', 'a stage runs');
	return $p;
}

# A session that has begun a statement which is to wait for the stage; sees it wait.
sub held_back
{
	my ($w, $sql) = @_;
	my $before = stage('held_back');
	$w ||= connect_db($node);
	my $pid = pid($w);
	$w->do($sql || a_row(), { pg_async => PG_ASYNC });
	wait_for('a writer to be held back', sub { stage('held_back') > $before });
	is(value($dbh, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid"), 'Extension', 'a writer waits');
	ok(!$w->pg_ready, 'and goes on waiting');
	return $w;
}

# It goes on, without an error.
sub goes_on
{
	my ($w, $when) = @_;
	wait_for('the writer to go on', sub { $w->pg_ready });
	ok($w->pg_result, "$when: who waited goes on") or diag($w->errstr);
	return;
}

sub ended
{
	my ($outcome, $when) = @_;
	is(stage('running'), 0,        "$when: the stage is over");
	is(stage('outcome'), $outcome, "$when: $outcome");
	return;
}

# --- thresholds -------------------------------------------------------------

sub test_memory
{
	my $offset = log_size($node);
	my $early  = connect_db($node);
	value($early, 'BEGIN');
	value($early, a_row());
	my $p   = privileged();
	my $pid = pid($p);
	like(log_since($node, $offset),
		qr/LOG: .*exclusive stage of zen begins for process $pid\n.*DETAIL: .*kB of row versions in DRAM/,
		'memory: the log says so');
	my $w = held_back();
	is(value($dbh, q{SELECT count(*) FROM t WHERE v = 'z'}), 0, 'memory: readers read');
	is(state_of($early, a_row()), '', 'memory: who has begun to write goes on');
	is(state_of($early, 'COMMIT'), '', 'memory: and commits');
	ok(!$w->pg_ready, 'memory: the other one still waits');
	value($p, 'COMMIT');
	goes_on($w, 'memory');
	ended('committed', 'memory');
	is(stage('held_back'), 1, 'memory: one was held back');
	ok(stage('duration_ms') > 0, 'memory: for some time');
	like(log_since($node, $offset),
		qr/LOG: .*exclusive stage of zen for process $pid ends after \d+ ms, committed\n.*DETAIL:  1 other/,
		'memory: the log says that it is over');
	is(state_of($p, a_row()), '', 'memory: the next transaction is as any other');
	is(stage('pid'), $pid, 'memory: there is no other stage');
	$_->disconnect for $p, $w, $early;
	return;
}

sub test_memory_not_crossed
{
	my $stages = value($dbh, 'SELECT count(*) FROM zen_stat_exclusive');
	my $p = connect_db($node);
	value($p, 'SET zen.exclusive_memory = 90');
	for (1 .. 20)
	{
		my $from = $next_id;
		$next_id += 300;
		value($p, "INSERT INTO t SELECT g, repeat('z', 200) FROM generate_series($from, $next_id - 1) g");
	}
	is(value($dbh, 'SELECT count(*) FROM zen_stat_exclusive'), $stages, 'memory: many small transactions are none');
	$p->disconnect;
	return;
}

sub test_free_pool
{
	my $p = connect_db($node);
	wait_for('garbage to be collected', sub { value($dbh, 'SELECT pending FROM zen_stat_garbage') == 0 });
	value($p, 'SET zen.exclusive_free_pool = 100');
	value($p, a_row());
	is(stage('reason'), 'memory', 'free pool: no stage without garbage');

	my $old = connect_db($node);
	value($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	value($old, 'SELECT count(*) FROM t');
	value($dbh, q{UPDATE t SET v = v || 'u'});
	value($p, 'BEGIN');
	value($p, a_row());
	is(stage(q{concat_ws(' ', running, pid, reason)}), 't ' . pid($p) . ' free pool', 'free pool: a stage runs');
	my $w = held_back();
	value($old, 'COMMIT');
	value($p,   'COMMIT');
	goes_on($w, 'free pool');
	ended('committed', 'free pool');
	cmp_ok(value($dbh, 'SELECT pending FROM zen_stat_garbage'), '<', 100,
		'free pool: garbage is collected for all at its end');
	my $stages = value($dbh, 'SELECT count(*) FROM zen_stat_exclusive');
	value($p, a_row());
	is(value($dbh, 'SELECT count(*) FROM zen_stat_exclusive'), $stages, 'free pool: not again soon');
	$_->disconnect for $p, $w, $old;
	return;
}

# A client updates a row that another one has updated since its snapshot.
sub lose
{
	my ($c) = @_;
	value($c, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	value($c, 'SELECT count(*) FROM t');
	value($dbh, q{UPDATE t SET v = 'other' WHERE id = 1});
	is(state_of($c, q{UPDATE t SET v = 'mine' WHERE id = 1}), '40001', 'failures: a transaction is lost');
	value($c, 'ROLLBACK');
	return;
}

sub test_failures
{
	my $c = connect_db($node);
	value($c, 'SET zen.exclusive_failures = 3');
	lose($c) for 1 .. 2;
	value($c, a_row());
	lose($c) for 1 .. 2;
	isnt(stage('reason'), 'failures', 'failures: a success in between begins anew');
	lose($c);
	is(stage(q{concat_ws(' ', running, pid, reason)}), 't ' . pid($c) . ' failures',
		'failures: a stage runs before the next transaction');
	my $w = held_back(undef, q{UPDATE t SET v = 'other' WHERE id = 1});
	is(state_of($c, 'SELECT count(*) FROM t'), '', 'failures: a reading transaction does not end it');
	is(stage('running'), 1, 'failures: it runs');
	value($c, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	value($c, 'SELECT count(*) FROM t');
	is(state_of($c, q{UPDATE t SET v = 'mine' WHERE id = 1}), '', 'failures: it succeeds now');
	is(state_of($c, 'COMMIT'), '', 'failures: and commits');
	goes_on($w, 'failures');
	ended('committed', 'failures');
	$_->disconnect for $c, $w;
	return;
}

# --- ends -------------------------------------------------------------------

sub test_rollback
{
	my $p = privileged();
	my $w = held_back();
	value($p, 'ROLLBACK');
	goes_on($w, 'rollback');
	ended('aborted', 'rollback');
	$_->disconnect for $p, $w;
	return;
}

sub test_prepare
{
	my $p = privileged();
	my $w = held_back();
	value($p, q{PREPARE TRANSACTION 'p'});
	goes_on($w, 'prepare');
	ended('prepared', 'prepare');
	is(state_of($p, q{COMMIT PREPARED 'p'}), '', 'prepare: and committed');
	$_->disconnect for $p, $w;
	return;
}

# The holder waits for a lock of one whom it holds back.
sub test_blocked
{
	my $w = connect_db($node);
	value($w, 'BEGIN');
	value($w, 'LOCK TABLE h IN EXCLUSIVE MODE');
	my $p = privileged();
	held_back($w);
	$p->do('INSERT INTO h VALUES (1)', { pg_async => PG_ASYNC });
	goes_on($w, 'blocked');
	ended('given up: waited for a lock', 'blocked');
	value($w, 'COMMIT');
	wait_for('the holder to go on', sub { $p->pg_ready });
	ok($p->pg_result, 'blocked: the holder goes on');
	is(state_of($p, 'COMMIT'), '', 'blocked: and commits');
	$_->disconnect for $p, $w;
	return;
}

sub test_timeout
{
	my $p = privileged();
	my $w = connect_db($node);
	value($w, q{SET zen.exclusive_timeout = '100ms'});
	value($w, q{SET statement_timeout = '30s'});
	is(state_of($w, a_row()), '', 'timeout: who waited goes on');
	ended('given up: made no progress', 'timeout');
	is(state_of($p, 'COMMIT'), '', 'timeout: the holder commits');
	$_->disconnect for $p, $w;
	return;
}

sub test_cancelled_waiter
{
	my $p = privileged();
	my $w = connect_db($node);
	my $pid = pid($w);
	held_back($w);
	value($dbh, "SELECT pg_cancel_backend($pid)");
	wait_for('the cancel', sub { $w->pg_ready });
	ok(!eval { $w->pg_result } && $w->state eq '57014', 'cancel: a waiter is cancelled');
	is(stage('running'), 1, 'cancel: the stage goes on');
	value($p, 'COMMIT');
	ended('committed', 'cancel');
	is(state_of($w, a_row()), '', 'cancel: nobody waits any more');
	$_->disconnect for $p, $w;
	return;
}

sub test_terminated
{
	my $p = privileged();
	my $w = held_back();
	my $pid = pid($p);
	value($dbh, "SELECT pg_terminate_backend($pid)");
	goes_on($w, 'terminated');
	ended('aborted', 'terminated');
	$w->disconnect;
	return;
}

# The client that has lost too often goes away instead of trying again.
sub test_disconnected
{
	my $c = connect_db($node);
	value($c, 'SET zen.exclusive_failures = 1');
	lose($c);
	my $w = held_back();
	$c->disconnect;
	goes_on($w, 'disconnected');
	ended('session ended', 'disconnected');
	$w->disconnect;
	return;
}

# One of many clients; returns what it was told, by SQLSTATE.
sub client
{
	my ($n) = @_;
	my $c = connect_db($node);
	my %states;
	srand($n);
	value($c, "SET zen.exclusive_$_") for 'memory = 2', 'free_pool = 100', 'failures = 1', q{timeout = '1s'};
	for (1 .. 80)
	{
		my ($from, $to, $sum) = (between(1, 10), between(1, 10), between(1, 9));
		my @changes = (
			"UPDATE account SET sum = sum - $sum WHERE id = $from",
			"UPDATE account SET sum = sum + $sum WHERE id = $to");
		push @changes, "SELECT id FROM h WHERE id = $from FOR UPDATE" if one_in(3);
		push @changes, q{INSERT INTO bulk SELECT g, repeat('w', 200) FROM generate_series(1, 150) g} if one_in(4);
		push @changes, 'LOCK TABLE h IN SHARE ROW EXCLUSIVE MODE' if one_in(6);
		my $level = pick('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
		my $state = state_of($c, "BEGIN ISOLATION LEVEL $level");
		$state ||= state_of($c, $_) for shuffle(@changes);
		$state ||= state_of($c, one_in(8) ? 'ROLLBACK' : 'COMMIT');
		$states{$state}++;
		state_of($c, 'ROLLBACK') if $state;
	}
	$c->disconnect;
	return \%states;
}

sub test_many
{
	value($dbh, 'CREATE TABLE account (id int PRIMARY KEY, sum int) USING zen');
	value($dbh, 'INSERT INTO account SELECT g, 0 FROM generate_series(1, 10) g');
	value($dbh, 'INSERT INTO h SELECT g FROM generate_series(1, 10) g');
	value($dbh, 'CREATE TABLE bulk (id int, v text) USING zen');
	my $offset = log_size($node);
	my @pipes;
	for my $n (1 .. 8)
	{
		defined(my $pid = open(my $pipe, '-|')) or die "cannot fork: $!";
		if (!$pid)
		{
			my $states = client($n);
			print map { "$_=$states->{$_}\n" } keys %$states;
			close STDOUT;
			require POSIX;
			POSIX::_exit(0);
		}
		push @pipes, $pipe;
	}
	my %states;
	for my $pipe (@pipes)
	{
		while (<$pipe>) { $states{$1} += $2 if /^(\w*)=(\d+)$/; }
		close $pipe;
	}
	my $stages = () = log_since($node, $offset) =~ /exclusive stage of zen begins/g;
	note(join(', ', map { ($_ || 'done') . " $states{$_}" } sort keys %states) . "; $stages stages");
	my $sum = 0;
	$sum += $_ for values %states;
	is($sum, 8 * 80, 'many: all come to an end');
	is_deeply([ grep { !/^(40001|40P01)?$/ } keys %states ], [], 'many: no other errors');
	cmp_ok($stages, '>', 10, 'many: stages follow one another');
	is(stage('running'), 0, 'many: none is left');
	is(value($dbh, 'SELECT sum(sum) FROM account'), 0, 'many: what was moved is all there');
	return;
}

sub test_crash
{
	my $rows = value($dbh, 'SELECT count(*) FROM t');
	my $p    = privileged();
	my $w    = held_back();
	crash($node);
	start_again($node);
	$dbh = connect_db($node);
	is(value($dbh, 'SELECT count(*) FROM zen_stat_exclusive'), 0, 'crash: there is no stage');
	is(value($dbh, 'SELECT count(*) FROM t'), $rows, 'crash: neither the holder nor who waited has committed');
	is(state_of($dbh, a_row()), '', 'crash: nobody is held back');
	is_sound($dbh, 'after the crash');
	return;
}
