# The same random SQL on heap and on zen must give the same answers.
#
# Two schemas of one server, h and z, hold the same tables on heap and on zen.  Two
# sessions per schema take turns with generated statements (t/lib/DiffGen.pm,
# t/lib/DiffPlan.pm): DML of all kinds, queries, row locks, cursors, COPY, savepoints,
# three isolation levels, prepared transactions, DDL, VACUUM.  About half of them are
# statements on one row (t/lib/DiffPoint.pm), a third of these not prepared, which zen runs
# as point accesses, unless a session has set zen.executor without point or shape.  Command tags, rows and SQLSTATEs are
# compared after each statement, the whole contents now and then; a statement that waits
# for the other session on one side must wait on the other, too (t/lib/DiffRun.pm, which
# also lists what is not a mismatch).
#
# A mismatch ends the run; it shows the last statements and both answers.
#
# STATEMENTS=n  statements to execute on each side (default 10000)
# SEED=n        replays a run
# ZEN_TEST_AM=heap      heap on both sides: shows that there are no false alarms;
# ZEN_TEST_SHUFFLE=1    with it, moves the rows of one side around now and then
# ZEN_TEST_INJECT=1     changes one side alone once: must fail

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DiffGen;
use DiffPlan;
use DiffPoint;
use DiffRun;
use Test::More;
use Time::HiRes 'time';
use ZenTest;

use constant SESSIONS => 2;

my $statements = $ENV{STATEMENTS} || 10_000;
my $seed       = choose_seed();
my $node       = new_node('differential');
my $start      = time;

$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zen') if is_zen();

my $run = DiffRun->new($node, am(), SESSIONS);
my %shared;
my @plans = map { DiffPlan->new(\%shared, "session$_") } 0 .. SESSIONS - 1;
my $injected = !inject();
my $finished = eval { run_statements(); 1 };
diag($@, "replay with SEED=$seed STATEMENTS=$statements") unless $finished;

ok($finished, "$run->{number} statements, no mismatch");
my $count = $run->{count};
note("$_: $count->{$_}") for sort keys %$count;
note(sprintf '%.0f statements per second', $run->{number} / (time() - $start));

# What is to be tested was tested.
if ($finished)
{
	cmp_ok($count->{points} || 0, '>=', 0.4 * $run->{number}, 'statements on one row');
	point_accesses_counted() if is_zen();
}

# The tolerated differences must stay what they are: rare.
SKIP:
{
	skip 'the run was cut short', 3 unless $finished;
	my $fresh = $count->{restart} || 0;
	cmp_ok($count->{same}, '>=', 0.97 * $run->{number}, 'nearly all answers are the same');
	cmp_ok($fresh, '<=', 1 + $run->{number} / 1000, 'hardly any fresh start');
	cmp_ok($count->{'statements that waited'} || 0, '>=', int($run->{number} / 1000),
		'some statements waited for the other session');
}
$node->stop;
done_testing();

sub run_statements
{
	my $session = 0;
	while ($run->{number} < $statements)
	{
		$session = pick(0 .. SESSIONS - 1) if one_in(3);
		my $other = 1 - $session;

		if   (one_in(15)) { let_wait($session, $other); }
		else { $run->execute($session, $plans[$session]->next_statement, \@plans); }
		see_twice($session, $other) if one_in(150);
		compare_contents($session) if one_in(60) && !$plans[$session]{failed};
		change_one_side() if all_idle();
	}
	return;
}

# point_accesses_counted -- zen has run many statements so; and why not others.
sub point_accesses_counted
{
	my ($accesses, $shapes) =
	  map { value($run->{admin}, "SELECT $_ FROM public.zen_stat") } qw(point_accesses shape_runs);
	note(value($run->{admin}, q{
		SELECT string_agg(outcome || ': ' || reason || ' ' || count, ', ') FROM public.zen_stat_executor
		WHERE count > 0}));
	cmp_ok($accesses, '>=', 0.1 * $run->{number}, 'many are run as point accesses');
	cmp_ok($shapes, '>=', 0.03 * $run->{number}, 'many that were not prepared are run by the plan of their shape');
	return;
}

sub all_idle { return !@{ $shared{prepared} } && !grep { $_->{in_txn} } @plans; }

# let_wait -- the other session touches a row and keeps its transaction open; this
# session then works on the same row, and may have to wait for the end of that.
sub let_wait
{
	my ($session, $other) = @_;
	my ($waiter, $holder) = @plans[ $session, $other ];
	return if $holder->{failed} || $waiter->{failed} || @{ $waiter->{queue} };

	my ($first, $then, @before) = one_in(2) ? DiffPoint::meeting() : on_row_of_p();
	for my $statement (@before)
	{
		$run->execute($session, $statement, \@plans) or return;
	}
	@{ $holder->{queue} } = ();
	if (!$holder->{in_txn})
	{
		$run->execute($other, $_, \@plans) for DiffPlan::begin();
	}
	$run->execute($other, { sql => 'SAVEPOINT s1' }, \@plans) if one_in(3);
	$run->execute($other, $first->(), \@plans) or return for 1 .. between(1, 2);

	return if !$holder->{in_txn} || $holder->{failed} || $waiter->{failed};
	# SSI may break off one of the two on one side: nothing to compare then.
	return if grep { $_->{iso} eq 'SERIALIZABLE' } $waiter, $holder;
	$run->race($session, $then->(), $other, [ ends($holder) ], \@plans);
	return;
}

# see_twice -- a snapshot sees a row that the other session has deleted, and an own one with the same key.
sub see_twice
{
	my ($session, $other) = @_;
	return if grep { $_->{in_txn} || @{ $_->{queue} } } @plans;
	my ($before, $deletion, $after) = DiffPoint::beside();
	my @begin = { sql => 'BEGIN ISOLATION LEVEL ' . pick('REPEATABLE READ', 'SERIALIZABLE') };
	for my $step ((map { [ $session, $_ ] } @begin, @$before), [ $other, $deletion ], map { [ $session, $_ ] } @$after)
	{
		$run->execute(@$step, \@plans) or return;
		return if $plans[$session]{failed};
	}
	return;
}

sub on_row_of_p
{
	my $id   = some_id();
	my $make = sub { DiffGen::on_row($id) };
	return ($make, $make);
}

# some_id -- mostly of a row of p that is there.
sub some_id
{
	my @ids = map { $_->[0] }
	  @{ run_sql($run->{admin}, 'SELECT id FROM h.p WHERE id < 200 ORDER BY id')->{rows} };
	return @ids && !one_in(8) ? pick(@ids) : DiffGen::id();
}

# How a session that is waited for ends its transaction.
sub ends
{
	my ($plan) = @_;
	my @savepoints = @{ $plan->{savepoints} };
	my @ends       = @savepoints && one_in(2) ? ('ROLLBACK TO ' . pick(@savepoints)) : ();
	return (@ends, one_in(3) ? 'ROLLBACK' : 'COMMIT');
}

sub compare_contents
{
	my ($session) = @_;
	for my $check (DiffGen::checks())
	{
		last if $plans[$session]{failed};
		$run->execute($session, $check, \@plans) or last;
	}
	keep_small() if all_idle();
	return;
}

# keep_small -- tables that copy themselves would grow without end.
sub keep_small
{
	for my $table (qw(s log))
	{
		my $rows = value($run->{admin}, "SELECT count(*) FROM h.$table");
		$run->execute(0, { sql => "TRUNCATE $table" }, \@plans) if $rows > 1500;
	}
	return;
}

# change_one_side -- what only the second side sees: a change that must be found
# (ZEN_TEST_INJECT), or a new order of rows that must not matter (ZEN_TEST_SHUFFLE).
sub change_one_side
{
	my $admin = $run->{admin};
	my $spoil = !$injected && $run->{number} > $statements / 3;
	my $move  = $ENV{ZEN_TEST_SHUFFLE} && one_in(20);
	return unless $spoil || $move;

	value($admin, 'SET search_path = z');
	if ($spoil)
	{
		my $result = run_sql($admin,
			q{UPDATE p SET w = 'spoilt' WHERE id = (SELECT max(id) FROM p WHERE v < 10)});
		$injected = $result->{tag} eq 'UPDATE 1';
		diag("one row was changed on one side after statement $run->{number}") if $injected;
	}
	if ($move)
	{
		for my $sql (
			'CREATE INDEX back ON p ((-id))',         'CLUSTER p USING back',
			'DROP INDEX back',                        'CREATE INDEX back ON s (md5(n::text || k))',
			'CLUSTER s USING back',                   'DROP INDEX back',
			'CREATE INDEX back ON c (md5(id::text))', 'CLUSTER c USING back',
			'DROP INDEX back',                        'ANALYZE')
		{
			run_sql($admin, $sql);
		}
	}
	return;
}
