# Slots that a commit or a spilling takes for many rows at once, and rows that it notes together: nothing is left over,
# and no row comes under another's writer, however the rows of tables, sizes and savepoints follow one another.
#
# - rows of three tables and of many sizes in turns, with savepoints of which some are rolled back; the same is done to
#   heap tables, which say what has to be there
# - kept in DRAM to the commit, spilled in one piece, and spilled as they come
# - committed, rolled back, prepared; the session ended after the spilling; a crash before and after the commit
# - a pool that is full in the middle: of the slots taken before none is lost

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

use constant TABLES => qw(narrow wide mixed);

# Settings at the begin, and before the last statement.
my %WAY = (
	'in DRAM'      => [ -1, -1 ],
	'in one piece' => [ -1, 0 ],
	'as they come' => [ 0,  0 ],
);

skip_unless_zen();
my $node = new_node('runs', pool_size => '64MB', dram_size => '128MB',
	conf => 'max_prepared_transactions = 2');
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');
make_tables();
for my $way (sort keys %WAY)
{
	test_way($way, $_) for 'committed', 'rolled back', 'terminated', 'a crash', 'prepared and committed',
	  'prepared and rolled back';
}
test_pool_full($_) for sort keys %WAY;
$dbh->disconnect;
$node->stop;
done_testing();

# Each table, and its like in heap.
sub make_tables
{
	for my $t (TABLES)
	{
		run_all($dbh, "CREATE TABLE $t (id int PRIMARY KEY, n int, v text) USING zen",
			"CREATE TABLE h_$t (id int PRIMARY KEY, n int, v text) USING heap");
	}
	return;
}

sub refill
{
	for my $t (map { ($_, "h_$_") } TABLES)
	{
		run_all($dbh, "TRUNCATE $t",
			"INSERT INTO $t SELECT g, 0, repeat('o', g % 50) FROM generate_series(1, 400) g");
	}
	return;
}

# The statements of a transaction, for tables whose names have this prefix.
sub statements
{
	my ($prefix) = @_;
	my ($narrow, $wide, $mixed) = map { $prefix . $_ } TABLES;
	my @all;
	for my $i (1 .. 24)
	{
		my $first = 1000 + 10 * $i;
		push @all, "SAVEPOINT s",
		  "INSERT INTO $narrow SELECT g, $i, 'n' FROM generate_series($first, $first + 6) g",
		  "INSERT INTO $mixed SELECT g, $i, repeat('m', (g % 3) * 40) FROM generate_series($first, $first + 9) g",
		  "INSERT INTO $wide SELECT g, $i, repeat('w', 700) FROM generate_series($first, $first + $i % 4) g",
		  "UPDATE $narrow SET n = n + 1 WHERE id % 24 = $i - 1 AND id <= 400",
		  $i % 3 == 0 ? 'ROLLBACK TO s' : 'RELEASE s';
	}
	push @all, "UPDATE $mixed SET v = v || 'u' WHERE id % 5 = 0", "UPDATE $wide SET id = -id WHERE id % 7 = 0",
	  "DELETE FROM $mixed WHERE id % 11 = 0";
	return @all;
}

# Both the zen tables and the others are changed in $session, in a transaction that stays open, with a savepoint and
# cursors from before it.
sub change_all
{
	my ($session, $way) = @_;
	my ($at_first, $at_last) = @{ $WAY{$way} };
	my @both = map { ($_, "h_$_") } TABLES;
	run_all($session, 'BEGIN', "SET LOCAL zen.spill_threshold = $at_first", statements(''), statements('h_'),
		(map { "DECLARE c_$_ CURSOR FOR SELECT concat_ws(' ', count(*), sum(id), sum(n)) FROM $_" } @both),
		(map { "INSERT INTO $_ SELECT g, 1, 'after' FROM generate_series(3900, 3909) g" } @both), 'SAVEPOINT last',
		(map { "INSERT INTO $_ SELECT g, 2, 'undone' FROM generate_series(4000, 4009) g" } @both),
		"SET LOCAL zen.spill_threshold = $at_last", map { "INSERT INTO $_ VALUES (5000, 0, 'last')" } @both);
	return;
}

# What the transaction sees, with its savepoint and when it is rolled back.
sub sees_its_own
{
	my ($session, $name) = @_;
	is(contents($session, $_), contents($session, "h_$_"), "$name, to itself: $_") for TABLES;
	is(value($session, "FETCH c_$_"), value($session, "FETCH c_h_$_"), "$name, to a cursor: $_") for TABLES;
	value($session, 'ROLLBACK TO last');
	is(contents($session, $_), contents($session, "h_$_"), "$name, rolled back to a savepoint: $_") for TABLES;
	return;
}

sub are_alike
{
	my ($name) = @_;
	is(contents($dbh, $_), contents($dbh, "h_$_"), "$name: $_") for TABLES;
	is_sound($dbh, $name);
	return;
}

sub test_way
{
	my ($way, $end) = @_;
	my $name = "$way, $end";
	refill();
	my $session = connect_db($node);
	change_all($session, $way);
	sees_its_own($session, $name);
	is_sound($dbh, "$name: meanwhile");
	if ($end eq 'a crash')
	{
		$session->disconnect;
		$dbh = crash_restart($node);
	}
	elsif ($end eq 'terminated')
	{
		my $pid = value($session, 'SELECT pg_backend_pid()');
		value($dbh, "SELECT pg_terminate_backend($pid)");
		wait_for('the session to end',
			sub { value($dbh, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") == 0 });
	}
	elsif ($end =~ /^prepared and (\w+)/)
	{
		value($session, q{PREPARE TRANSACTION 'p'});
		is_sound($dbh, "$name: prepared");
		value($session, $1 eq 'committed' ? q{COMMIT PREPARED 'p'} : q{ROLLBACK PREPARED 'p'});
	}
	else { value($session, $end eq 'committed' ? 'COMMIT' : 'ROLLBACK'); }
	$session->disconnect;
	are_alike($name);
	return if $end !~ /committed/;
	$dbh = crash_restart($node);
	are_alike("$name, then a crash");
	return;
}

# Many narrow rows find slots, and the wide ones behind them do not. When there is room again all of it can be used.
sub test_pool_full
{
	my ($way) = @_;
	my $name = "$way, a full pool";
	my ($at_first, $at_last) = @{ $WAY{$way} };
	refill();
	value($dbh, 'VACUUM');
	my $free = value($dbh, 'SELECT pages_free FROM zen_stat');
	my $result;
	for my $try (1, 2)
	{
		run_all($dbh, 'BEGIN', "SET LOCAL zen.spill_threshold = $at_first",
			"INSERT INTO narrow SELECT g, 0, 'n' FROM generate_series(10001, 10500) g");
		$result = run_sql($dbh, 'INSERT INTO mixed SELECT g, 0, repeat($$f$$, 900 + g % 1000) '
			. 'FROM generate_series(10001, 60000) g');
		$result = run_sql($dbh, "SET LOCAL zen.spill_threshold = $at_last") if !$result->{state};
		$result = run_sql($dbh, q{INSERT INTO wide VALUES (5000, 0, 'last')}) if !$result->{state};
		$result = run_sql($dbh, 'COMMIT') if !$result->{state};
		is($result->{state}, '53100', "$name: SQLSTATE, $try") or diag($result->{message});
		run_sql($dbh, 'ROLLBACK');
		are_alike("$name, $try");
	}
	value($dbh, 'VACUUM');
	cmp_ok(value($dbh, 'SELECT pages_free FROM zen_stat'), '>=', $free - 40, "$name: pages come back");
	return;
}
