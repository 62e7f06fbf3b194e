# Aggregates block by block (batch of zen.executor) over rows wherever they are: in DRAM, in NVM after a restart and
# after a crash, evicted from a small Met-Cache, in part changed by a transaction that is open.  Random queries give
# what heap gives.
#
# SEED=n  replays
#
# Needs the executor.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

use constant ROWS => 5000;

skip_unless_zen();
my $seed = choose_seed();
my $node = new_node('batch', pool_size => '128MB', dram_size => '128MB',
	conf => "zen.met_cache_size = 1MB\nmax_parallel_workers_per_gather = 0");
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

my @columns = qw(s i l f d day t later);
run_all($dbh, map { "CREATE TABLE $_ (id int, s int2, i int4, l int8, f float4, d float8, day date, t text, later int8)
	USING " . ($_ eq 'z' ? 'zen' : 'heap') } qw(h z));
run_all($dbh, "SELECT setseed(0." . $seed % 1000 . ')', 'INSERT INTO h SELECT g, random() * 100, random() * 1e9,
	random() * 9e18, random() * 100, random() * 1e6, date $$2000-01-01$$ + (random() * 1000)::int,
	repeat($$x$$, (random() * 200)::int), random() * 100 FROM generate_series(1, ' . ROWS . ') g');
# NULLs in some rows, and neighbours that have none
value($dbh, "UPDATE h SET $_ = NULL WHERE random() < 0.2 AND id / 500 % 2 = 0") for @columns;
run_all($dbh, 'CREATE TABLE sorted AS TABLE h', 'DROP TABLE h',
	'CREATE TABLE h USING heap AS SELECT * FROM sorted ORDER BY id', 'DROP TABLE sorted',
	'INSERT INTO z SELECT * FROM h');
compare('after the insert');
value($dbh, 'SELECT count(d) FROM (SELECT * FROM z OFFSET 0) x');
$dbh = clean_restart($node, $dbh);
compare('after a restart');
$dbh = crash_restart($node, $dbh);
wait_recovered($dbh);
compare('after a crash');

# another session's changes are not seen until it commits
my $other = connect_db($node);
run_all($other, 'BEGIN',
	map { ("UPDATE $_ SET i = -1, t = 'changed' WHERE id % 10 = 3", "DELETE FROM $_ WHERE id % 11 = 3") } qw(h z));
my $before = answer('h', 'SELECT count(*), sum(i) FROM $');
is(answer('z', 'SELECT count(*), sum(i) FROM $'), $before, 'changes of others are not seen');
value($other, 'COMMIT');
isnt(answer('h', 'SELECT count(*), sum(i) FROM $'), $before, 'then there are changes');
# heap's rows have moved now, and the order matters to sums of floats
compare('after changes', qr/(?:sum|avg)\((?:f|d)\)/);
$_->disconnect for $dbh, $other;
$node->stop;
done_testing();

sub answer
{
	my ($table, $query) = @_;
	$query =~ s/\$/$table/;
	my $result = run_sql($dbh, $query);
	return $result->{state} ? "error $result->{state}" : join ' ', map { $_ // 'null' } @{ $result->{rows}[0] };
}

# A random query over $.
sub query
{
	my @numbers = qw(s i l f d later);
	my @pick = map {
		pick('count(*)', 'count(' . pick(@columns) . ')', 'sum(' . pick(@numbers) . ')', 'avg(' . pick(@numbers) . ')',
			'min(' . pick(@numbers, 'day') . ')', 'max(' . pick(@numbers, 'day') . ')', 'sum(s + i)',
			q{count(*) FILTER (WHERE t > 'xx')})
	} 1 .. between(1, 5);
	my @quals = map {
		my $op = pick('<', '<=', '=', '<>', '>=', '>');
		pick("id $op " . between(0, ROWS), "s $op " . between(0, 100), "i $op " . between(0, 1e9),
			"f $op " . between(0, 100), between(0, 1e6) . " $op d", "later $op " . between(0, 100),
			"day $op date '2001-01-01'", "length(t) $op 100",
			pick(@columns) . ' IS NULL', pick(@columns) . ' IS NOT NULL')
	} 1 .. between(0, 3);
	return 'SELECT ' . join(', ', @pick) . ' FROM $' . (@quals ? ' WHERE ' . join(' AND ', @quals) : '');
}

# One test: random queries, but not those that $without matches, give the same on both tables, and by blocks.
sub compare
{
	my ($when, $without) = @_;
	my @wrong;
	for (1 .. 150)
	{
		my $query = query();
		next if $without && $query =~ $without;
		my ($heap, $zen) = map { answer($_, $query) } qw(h z);
		my $plan = join ' ', map { $_->[0] } @{ run_sql($dbh, 'EXPLAIN ' . $query =~ s/\$/z/r)->{rows} };
		push @wrong, "$query: heap $heap, zen $zen" if $heap ne $zen || $heap =~ /error/;
		# the greatest of few rows may be the last one in an order, or the first that is met
		push @wrong, "$query: not by blocks: $plan" if $plan !~ /ZenBatchAggregate|One-Time Filter|Limit/;
	}
	diag($_) for @wrong;
	is(scalar(@wrong), 0, "$when: the same answers");
	return;
}
