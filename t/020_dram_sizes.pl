# DRAM that was taken for objects of one size serves those of another, and a rewrite of a table takes no more than
# zen.spill_threshold, however large the table is.
#
# - CLUSTER and VACUUM FULL again and again on tables that COPY took, and COPY after them
# - the same while an old snapshot is open, and of what one transaction has written
# - a cache full of rows of one size, when rows of another size come
# - versions that cannot go: the error says what takes the memory, and it is there again afterwards

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

use constant ROWS => 200_000;

skip_unless_zen();
my $node = new_node('sizes', pool_size => '384MB', dram_size => '40MB',
	conf => "zen.met_cache_size = '24MB'\nzen.spill_threshold = '1MB'");
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_rewrites();
test_one_transaction();
test_sizes();
test_versions_that_stay();
$node->stop;
done_testing();

sub works
{
	my ($name, $sql, $session) = @_;
	my $result = run_sql($session || $dbh, $sql);
	is($result->{state}, '', $name) or diag($result->{message});
	return;
}

sub copy
{
	my ($table) = @_;
	my $ok = $dbh->do("COPY $table FROM STDIN");
	for (my $i = 0; $ok && $i < ROWS; $i += 100)
	{
		$ok = $dbh->pg_putcopydata(join '', map { "$_\tvalue $_\n" } $i .. $i + 99);
	}
	$ok &&= $dbh->pg_putcopyend;
	ok($ok, "COPY to $table") or diag($dbh->errstr);
	return;
}

sub sum { return value($dbh, "SELECT count(*) || ' ' || sum(hashtext(t::text)) FROM $_[0] t"); }

sub test_rewrites
{
	value($dbh, 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen');
	copy('t');
	my $sum = sum('t');
	my $spilled = value($dbh, 'SELECT rows_spilled FROM zen_stat');
	works("rewrite $_", $_ % 2 ? 'CLUSTER t USING t_pkey' : 'VACUUM FULL t') for 1 .. 4;
	cmp_ok(value($dbh, 'SELECT rows_spilled FROM zen_stat') - $spilled, '>', 3 * ROWS, 'rewrites spill');
	is(sum('t'), $sum, 'rewritten: rows');
	is_sound($dbh, 'rewritten');

	# rows that a snapshot does not see cannot be taken for old
	my $reader = connect_db($node);
	value($reader, $_) for 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1';
	value($dbh, $_) for 'UPDATE t SET v = v || $$x$$ WHERE id % 10 = 0';
	$sum = sum('t');
	works('rewrite beside a snapshot', 'CLUSTER t');
	is(sum('t'), $sum, 'rewritten beside a snapshot: rows');
	value($reader, 'COMMIT');
	$reader->disconnect;
	crash($node);
	start_again($node);
	$dbh = connect_db($node);
	is(sum('t'), $sum, 'rewritten, a crash: rows');
	is_sound($dbh, 'rewritten, a crash');
	value($dbh, 'TRUNCATE t');
	copy('t');
	is_sound($dbh, 'filled again');
	value($dbh, 'DROP TABLE t');
	return;
}

sub test_one_transaction
{
	value($dbh, $_) for 'CREATE TABLE own (id int PRIMARY KEY, v text) USING zen', 'BEGIN';
	copy('own');
	my $sum = sum('own');
	works($_, $_) for 'UPDATE own SET v = v || $$y$$ WHERE id < 1000', 'UPDATE own SET v = left(v, -1) WHERE id < 1000',
	  'CLUSTER own USING own_pkey', 'SAVEPOINT a', 'DELETE FROM own WHERE id < 5000';
	works($_, $_) for 'ROLLBACK TO a', 'CLUSTER own', 'COMMIT';
	is(sum('own'), $sum, 'copied and clustered in one transaction: rows');
	is_sound($dbh, 'copied and clustered in one transaction');
	value($dbh, 'DROP TABLE own');
	return;
}

# Each table's rows stay in the cache until those of the next come.
sub test_sizes
{
	my $other = connect_db($node);
	for my $round (1, 2)
	{
		for my $bytes (40, 2000, 130, 7000, 400)
		{
			my $n = int(600_000 / $bytes);
			value($dbh, "CREATE TABLE size_$bytes (id int, v text) USING zen");
			value($dbh, "ALTER TABLE size_$bytes ALTER v SET STORAGE PLAIN");
			for my $part (1 .. 50)
			{
				my $session = $part % 2 ? $dbh : $other;
				my $state = state_of($session,
					"INSERT INTO size_$bytes SELECT g, repeat('x', $bytes) FROM generate_series(1, $n) g");
				is($state, '', "round $round: rows of $bytes bytes, part $part") if $state || $part == 50;
				last if $state;
			}
		}
		value($dbh, "DROP TABLE size_$_") for 40, 2000, 130, 7000, 400;
	}
	is_sound($dbh, 'sizes');
	$other->disconnect;
	return;
}

sub test_versions_that_stay
{
	value($dbh, $_) for 'CREATE TABLE big (id int PRIMARY KEY, v text) USING zen', 'SET zen.spill_threshold = -1',
		'BEGIN';
	my $result = run_sql($dbh, q{INSERT INTO big SELECT g, repeat('x', 1000) FROM generate_series(1, 100000) g});
	is($result->{state}, '53200', 'rows that may not be spilled fill DRAM');
	like($result->{message}, qr/DETAIL:.*row versions take (\d+) MB.*HINT:.*not ended.*zen\.spill_threshold/s,
		'and are named as the cause');
	value($dbh, $_) for 'ROLLBACK', 'RESET zen.spill_threshold';
	works('with spilling it is done', q{INSERT INTO big SELECT g, repeat('x', 1000) FROM generate_series(1, 100000) g});
	is_sound($dbh, 'DRAM was full');
	return;
}
