# Random transactions are prepared, restarts of every kind come, and some of the transactions end: each change is made
# to a zen table and to a heap table by the same transaction, so both must always hold the same rows, and the same locks
# on them.
#
# SEED=n replays a run; ROUNDS=n is how many restarts there are.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

use constant IDS => 60;

skip_unless_zen();
choose_seed();
my $rounds = $ENV{ROUNDS} || 5;
my $node = new_node('random', pool_size => '128MB', dram_size => '64MB',
	conf => "zen.met_cache_size = '1MB'\nlock_timeout = 20ms\nmax_prepared_transactions = 12");
$node->start;
my $dbh = connect_db($node);
value($dbh, $_) for 'CREATE EXTENSION zen', map {
	my $am = $_ eq 'z' ? 'zen' : 'heap';
	("CREATE TABLE $_ (id int PRIMARY KEY, k int, v text) USING $am", "CREATE INDEX ${_}_k ON $_ (k)",
		"INSERT INTO $_ SELECT g, g % 7, repeat('v', g * g % 3000) FROM generate_series(1, " . IDS . ') g')
} qw(z h);

my (%prepared, @history);
my $gid = 0;
for my $round (1 .. $rounds)
{
	prepare_some();
	my $how = pick('crash', 'crash twice', 'clean', 'without map', 'immediate');
	push @history, "round $round: $how";
	restart($how);
	last unless check("round $round, $how");
	end_some();
	last unless check("round $round, after some ends");
	value($dbh, 'VACUUM z') if one_in(3);
}
value($dbh, pick('COMMIT', 'ROLLBACK') . " PREPARED '$_'") for sort keys %prepared;
%prepared = ();
check('all ended');
restart('crash');
check('after a last crash');
is_sound($dbh, 'at the end');
diag(join "\n", @history) unless Test::More->builder->is_passing;
$node->stop;
done_testing();

sub restart
{
	my ($how) = @_;
	$dbh->disconnect if $how =~ /clean|map/;
	if ($how eq 'clean') { $node->restart; }
	elsif ($how eq 'without map') { $node->stop; unlink $node->data_dir . '/zen.map'; $node->start; }
	elsif ($how eq 'immediate') { $node->stop('immediate'); start_again($node); }
	else
	{
		crash($node);
		start_and_crash($node, rand 0.3) if $how eq 'crash twice';
		start_again($node);
	}
	$dbh = connect_db($node);
	return;
}

# both -- the same command for both tables, in a savepoint; both succeed or both wait for somebody.
sub both
{
	my ($sql) = @_;
	my %state;
	for my $table (qw(z h))
	{
		(my $one = $sql) =~ s/\bTABLE\b/$table/g;
		value($dbh, 'SAVEPOINT one');
		$state{$table} = state_of($dbh, $one);
		value($dbh, $state{$table} ? 'ROLLBACK TO one' : 'RELEASE one');
	}
	push @history, "    $sql" . ($state{z} ? " ($state{z})" : '');
	return if $state{z} eq $state{h};
	fail("both tables are locked alike: $sql: zen '$state{z}', heap '$state{h}'");
	diag(join "\n", @history);
	die "zen '$state{z}', heap '$state{h}'\n";
}

sub change
{
	my $id = between(1, IDS);
	my $new = between(1, 2 * IDS);
	my $mode = pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE');
	my $length = one_in(4) ? between(0, 6000) : between(0, 50);
	my @sql = (
		"UPDATE TABLE SET v = repeat('w', $length) WHERE id = $id",
		"UPDATE TABLE SET k = k + 1 WHERE id = $id",
		"UPDATE TABLE SET id = $new WHERE id = $id",
		"DELETE FROM TABLE WHERE id = $id",
		"INSERT INTO TABLE VALUES ($new, 3, repeat('i', $length))",
		"SELECT 1 FROM TABLE WHERE id = $id FOR $mode",
		"UPDATE TABLE SET v = v || '+' WHERE id % 13 = $id % 13");
	return $sql[ int rand @sql ];
}

sub prepare_some
{
	for (1 .. between(1, 3))
	{
		next if keys %prepared >= 10;
		value($dbh, 'BEGIN');
		push @history, '  BEGIN';
		value($dbh, 'SET LOCAL zen.spill_threshold = ' . pick(-1, 0, 0, 64));
		for (1 .. between(1, 12))
		{
			my $nested = one_in(5);
			value($dbh, 'SAVEPOINT s') if $nested;
			both(change()) for 1 .. ($nested ? 3 : 1);
			my $kept = $nested && one_in(2);
			push @history, $kept ? '    RELEASE' : '    ROLLBACK TO' if $nested;
			value($dbh, $kept ? 'RELEASE s' : 'ROLLBACK TO s') if $nested;
		}
		my $name = 'p' . ++$gid;
		push @history, "  PREPARE $name";
		value($dbh, "PREPARE TRANSACTION '$name'");
		$prepared{$name} = 1;
	}
	# and some that are not
	for (1 .. between(0, 4))
	{
		value($dbh, 'BEGIN');
		both(change());
		value($dbh, one_in(4) ? 'ROLLBACK' : 'COMMIT');
	}
	return;
}

sub end_some
{
	for my $name (grep { one_in(2) } sort keys %prepared)
	{
		my $end = pick('COMMIT', 'ROLLBACK');
		push @history, "  $end $name";
		value($dbh, "$end PREPARED '$name'");
		delete $prepared{$name};
	}
	return;
}

# The rows, by scan and by both indexes, and for each row the strengths in which it can be locked.
sub check
{
	my ($name) = @_;
	my %seen;
	for my $table (qw(z h))
	{
		$seen{$table} = join "\n", contents($dbh, $table), contents($dbh, $table, 'indexscan', 'id > 0'),
			contents($dbh, $table, 'bitmapscan', 'k >= 0'),
		  map { locks_of($table, $_->[0]) } @{ run_sql($dbh, "SELECT id FROM $table ORDER BY id")->{rows} };
	}
	is($seen{z}, $seen{h}, $name) and return 1;
	return 0;
}

sub locks_of
{
	my ($table, $id) = @_;
	return "$id: " . join ', ', grep { state_of($dbh, "SELECT 1 FROM $table WHERE id = $id FOR $_ NOWAIT") eq '' }
	  'KEY SHARE', 'SHARE', 'NO KEY UPDATE', 'UPDATE';
}
