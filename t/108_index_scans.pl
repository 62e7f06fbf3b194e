# Index scans and index-only scans, forward, backward and by cursors, over rows that other sessions change, delete and
# give back, and that VACUUM collects in between: on zen, with btrees and with trees, as on heap.
#
# Each session changes rows of its own, in one transaction on all three tables.  So snapshots and results are the same.
# A scan fetches, and an index-only scan judges, some rows ahead: the session's own changes come between two FETCHes.
#
# Then a server whose map words keep their mark when a row changes (zen.fault = seen_kept): the check must see it.
#
# STEPS=600   SEED=n replays

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

use constant { ROWS => 600, SESSIONS => 3, TABLES => [qw(h b t)] };

skip_unless_zen();
my $seed = choose_seed();
my $steps = $ENV{STEPS} || 600;
my @forced = qw(seqscan bitmapscan sort hashjoin nestloop material);
# name => query over a table %s; the plan of zen must have the node
my %queries = (
	only           => [ 'Index Only Scan', 'SELECT k, id FROM %s ORDER BY k, id' ],
	only_backward  => [ 'Index Only Scan Backward', 'SELECT k, id FROM %s ORDER BY k DESC, id DESC' ],
	only_range     => [ 'Index Only Scan', 'SELECT k, id FROM %s WHERE k BETWEEN 20 AND 40 ORDER BY k, id' ],
	only_first     => [ 'Index Only Scan', 'SELECT k, id FROM %s WHERE k >= 50 ORDER BY k, id LIMIT 1' ],
	fetch          => [ 'Index Scan', 'SELECT id, v FROM %s ORDER BY id' ],
	fetch_backward => [ 'Index Scan Backward', 'SELECT id, v FROM %s ORDER BY id DESC' ],
	fetch_some     => [ 'Index Scan', 'SELECT id, v FROM %s WHERE id > 300 ORDER BY id LIMIT 30' ],
	merge          => [ 'Merge Join', 'SELECT x.id, x.v, y.v FROM %1$s x JOIN %1$s y ON x.id = y.id' ],
	merge_many     => [ 'Merge Join', 'SELECT x.id, y.id FROM %1$s x JOIN %1$s y ON x.k = y.k WHERE x.k < 12' ]);

for my $fault ('', 'seen_kept')
{
	if ($fault ne '' && !$ENV{ZEN_FAULT_SERVER})
	{
		note('no server with faults');
		next;
	}
	my ($node, $watch, @sessions) = begin($fault);
	my $differences = play($watch, $fault, @sessions);
	is($differences, 0, "$steps steps: as heap") if $fault eq '';
	isnt($differences, 0, "$fault is seen") if $fault ne '';
	is_sound($watch, 'at the end') if $fault eq '';
	$_->disconnect for $watch, @sessions;
	$node->stop;
}
done_testing();

sub begin
{
	my ($fault) = @_;
	srand($seed);
	my $node = new_node("scans$fault", pool_size => '128MB', dram_size => '128MB', faults => $fault ne '',
		conf => "max_parallel_workers_per_gather = 0\nautovacuum = off\n" . ($fault ne '' ? "zen.fault = $fault" : ''));
	$node->start;
	my $watch = connect_db($node);
	value($watch, 'CREATE EXTENSION zen');
	my %made_of = (h => [qw(heap btree)], b => [qw(zen btree)], t => [qw(zen zentree)]);
	for my $table (@{ +TABLES })
	{
		my ($am, $index) = @{ $made_of{$table} };
		run_all($watch, "CREATE TABLE $table (id int, k int, v text) USING $am",
			"INSERT INTO $table SELECT g, g * 7 % 100, 'v' || g FROM generate_series(1, @{[ROWS]}) g",
			"CREATE UNIQUE INDEX ON $table USING $index (id)", "CREATE INDEX ON $table USING $index (k, id)",
			"VACUUM ANALYZE $table");
	}
	my @sessions = map { connect_db($node) } 1 .. SESSIONS;
	for my $dbh ($watch, @sessions)
	{
		value($dbh, "SET enable_$_ = off") for @forced;
	}
	if ($fault eq '')
	{
		test_plans($watch);
		test_current($watch);
	}
	return ($node, $watch, @sessions);
}

# WHERE CURRENT OF asks an index-only scan for the row's TID.  The index has the TID of the row's first version.
sub test_current
{
	my ($dbh) = @_;
	my %rows;
	for my $table (@{ +TABLES })
	{
		run_all($dbh, 'BEGIN', "UPDATE $table SET v = v || 'a' WHERE id < 30",
			"DECLARE c CURSOR FOR SELECT k, id FROM $table WHERE k < 20 ORDER BY k, id");
		for my $change ("UPDATE $table SET v = v || 'b'", "UPDATE $table SET k = -1", "DELETE FROM $table")
		{
			value($dbh, 'FETCH 3 FROM c');
			like(run_sql($dbh, "$change WHERE CURRENT OF c")->{tag}, qr/ 1$/, "$change WHERE CURRENT OF");
		}
		$rows{$table} = rows_of($dbh, "SELECT * FROM $table WHERE k < 20 OR v LIKE '%b' ORDER BY id");
		value($dbh, 'ROLLBACK');
	}
	is($rows{$_}, $rows{h}, "$_: WHERE CURRENT OF changes the rows that it does on heap") for qw(b t);
	return;
}

sub test_plans
{
	my ($dbh) = @_;
	for my $name (sort keys %queries)
	{
		my ($node, $sql) = @{ $queries{$name} };
		for my $table (qw(b t))
		{
			my $lines = run_sql($dbh, 'EXPLAIN (COSTS OFF) ' . sprintf($sql, $table))->{rows};
			my $plan = join "\n", map { $_->[0] } @$lines;
			like($plan, qr/$node/, "$name, $table: the plan");
		}
	}
	return;
}

# play -- random steps; returns how many looks differed.
sub play
{
	my ($watch, $fault, @sessions) = @_;
	my $differences = 0;
	my @open = map { { dbh => $sessions[$_], number => $_, active => 0, cursor => 0 } } 0 .. $#sessions;
	for my $step (1 .. $steps)
	{
		my $at = pick(@open);
		# a cursor's place in a btree is pinned, and VACUUM would wait for it
		vacuum($watch) if one_in(12) && !grep { $_->{cursor} } @open;
		my $result = step($at);
		next if $result eq '';
		diag("step $step, session $at->{number}: $result") if $fault eq '' && $differences < 5;
		$differences++;
		last if $fault ne '';
	}
	value($_->{dbh}, 'ROLLBACK') for grep { $_->{active} } @open;
	return $differences;
}

sub vacuum { return run_all($_[0], map { "VACUUM $_" } @{ +TABLES }); }

# step -- one step of a session; '', or how zen differed.
sub step
{
	my ($at) = @_;
	my $dbh = $at->{dbh};
	if (!$at->{active})
	{
		value($dbh, 'BEGIN ISOLATION LEVEL ' . pick('READ COMMITTED', 'REPEATABLE READ'));
		$at->{active} = 1;
	}
	my $kind = pick(qw(look look look change change change fetch fetch savepoint end end),
		$at->{number} == 0 ? 'cursor' : ());
	return look($at) if $kind eq 'look';
	return change($at) if $kind eq 'change';
	return open_cursor($at) if $kind eq 'cursor';
	return fetch($at) if $kind eq 'fetch';
	if ($kind eq 'savepoint')
	{
		value($dbh, 'SAVEPOINT s');
		change($at);
		value($dbh, 'ROLLBACK TO s') if one_in(2);
		return '';
	}
	value($dbh, pick('COMMIT', 'COMMIT', 'ROLLBACK'));
	@$at{qw(active cursor)} = (0, 0);
	return '';
}

sub rows_of { return join ' ', map { join ',', map { $_ // 'null' } @$_ } @{ run_sql(@_)->{rows} }; }

# compared -- run a statement for each table; '', or the first that differs from heap's.
sub compared
{
	my ($dbh, $what, $statement) = @_;
	my %got = map { $_ => rows_of($dbh, $statement->($_)) } @{ +TABLES };
	my ($other) = grep { $got{$_} ne $got{h} } qw(b t);
	return defined $other ? "$what, $other: $got{$other}, and of heap $got{h}" : '';
}

sub look
{
	my ($at) = @_;
	my $name = pick(sort keys %queries);
	return compared($at->{dbh}, $name, sub { sprintf $queries{$name}[1], $_[0] });
}

# Rows of this session only: those whose number leaves its own rest.
sub change
{
	my ($at) = @_;
	my $own = 'id % ' . SESSIONS . " = $at->{number}";
	my $first = int(rand(ROWS));
	my $where = "$own AND id BETWEEN $first AND " . ($first + pick(2, 10, 60));
	my $sql = pick("UPDATE \$ SET v = v || 'x' WHERE $where", "UPDATE \$ SET k = (k + 13) % 100 WHERE $where",
		"DELETE FROM \$ WHERE $where",
		"INSERT INTO \$ SELECT id, id * 11 % 100, 'new' FROM generate_series($first, $first + 40) id WHERE $own
			ON CONFLICT DO NOTHING");
	run_all($at->{dbh}, map { $sql =~ s/\$/$_/r } @{ +TABLES });
	return '';
}

sub open_cursor
{
	my ($at) = @_;
	my $name = pick(grep { !/merge/ } sort keys %queries);
	my $n = ++$at->{cursor};
	run_sql($at->{dbh}, "DECLARE c_${n}_$_ SCROLL CURSOR FOR " . sprintf($queries{$name}[1], $_)) for @{ +TABLES };
	return fetch($at);
}

sub fetch
{
	my ($at) = @_;
	return '' if !$at->{cursor};
	my $n = 1 + int(rand($at->{cursor}));
	my $how = pick('1', '3', '9', '40', 'BACKWARD 2', 'BACKWARD 15', 'ABSOLUTE 7', 'LAST', 'FIRST');
	return compared($at->{dbh}, "FETCH $how", sub { "FETCH $how FROM c_${n}_$_[0]" });
}
