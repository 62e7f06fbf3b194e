# Nested loops by a unique key (keyjoin of zen.executor) over rows wherever they are: in DRAM, in NVM after a restart
# and after a crash, evicted from a small Met-Cache, in part changed, deleted or moved to other keys by a transaction
# that is open or has just committed.  Random queries give what heap gives.
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

use constant ROWS => 3000;

skip_unless_zen();
my $in_transaction = 0;
my $seed = choose_seed();
my $node = new_node('key_join', pool_size => '128MB', dram_size => '128MB',
	conf => join("\n", 'zen.met_cache_size = 1MB', 'zen.key_cache_size = 1MB', 'max_parallel_workers_per_gather = 0',
		map { "enable_$_ = off" } qw(hashjoin mergejoin memoize material bitmapscan)));
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

# o: outer rows; i, p: with keys of several types, columns and precisions
sub both { return map { my $am = $_; map { s/%/$am eq 'zen' ? 'z' : 'h'/ger =~ s/#/$am/gr } @_ } qw(heap zen) }
run_all($dbh, both(
	'CREATE TABLE o% (id int PRIMARY KEY, k int, s smallint, n numeric, t text, b bigint, f text) USING #',
	'CREATE TABLE i% (id int PRIMARY KEY, v int, t text UNIQUE, n numeric UNIQUE, f text) USING #',
	'CREATE TABLE p% (a int, b bigint, v text, w int, PRIMARY KEY (a, b) INCLUDE (v)) USING #'));
run_all($dbh, "SELECT setseed(0." . $seed % 1000 . ')',
	'INSERT INTO oh SELECT g, random() * 3500, random() * 20, (random() * 3000)::int / 2.0,
		$$t$$ || (random() * 3500)::int,
		random() * 100, repeat($$x$$, (random() * 200)::int) FROM generate_series(1, ' . ROWS . ') g',
	'INSERT INTO ih SELECT g, random() * 100, $$t$$ || g, g / 2.00, repeat($$y$$, (random() * 300)::int)
		FROM generate_series(1, ' . ROWS . ') g',
	'INSERT INTO ph SELECT g % 21, g / 21, $$p$$ || g, random() * 1000 FROM generate_series(1, 2000) g',
	(map { "UPDATE oh SET $_ = NULL WHERE random() < 0.1" } qw(k s n t b)),
	map { "INSERT INTO ${_}z TABLE ${_}h" } qw(o i p));
value($dbh, 'VACUUM ANALYZE');
compare('after the insert');
compare('again');
$dbh = clean_restart($node, $dbh);
compare('after a restart');
$dbh = crash_restart($node, $dbh);
wait_recovered($dbh);
compare('after a crash');

# another session's changes are not seen until it commits
my $other = connect_db($node);
run_all($other, 'BEGIN', both(
	"UPDATE i% SET v = -1, f = 'changed' WHERE mod(id, 10) = 3", 'DELETE FROM i% WHERE mod(id, 11) = 3',
	'UPDATE i% SET id = id + 10000, t = $$u$$ || id WHERE mod(id, 12) = 3', 'UPDATE p% SET b = b + 1000 WHERE w < 100',
	"INSERT INTO i% SELECT g, 7, 't' || g, g / 2.0, 'new' FROM generate_series(3001, 3400) g",
	'UPDATE o% SET k = s WHERE mod(id, 5) = 0'));
my $count = 'SELECT count(*), sum(i.v) FROM o% o JOIN i% i ON i.id = o.k';
my $before = answer('h', $count);
is(answer('z', $count), $before, 'changes of others are not seen');
compare('with changes of others');
value($other, 'COMMIT');
isnt(answer('h', $count), $before, 'then there are changes');
compare('after changes');
run_all($dbh, 'BEGIN', both('UPDATE i% SET v = v + 1 WHERE id < 1000', 'DELETE FROM p% WHERE w > 900',
	'SAVEPOINT a', 'DELETE FROM i%', 'ROLLBACK TO a'));
$in_transaction = 1;
compare('with own changes');
$in_transaction = 0;
value($dbh, 'ROLLBACK');
compare('undone');
$_->disconnect for $dbh, $other;
$node->stop;
done_testing();

# What a query gives on one kind of tables, row by row; by a cursor, some at a time, if $step.
sub answer
{
	my ($table, $query, $step) = @_;
	$query =~ s/%/$table/g;
	my $show = sub { join "\n", map { join '|', map { $_ // 'null' } @$_ } @{ $_[0]{rows} } };
	if (!$step)
	{
		my $result = run_sql($dbh, $query);
		return $result->{state} ? "error $result->{state}" : $show->($result);
	}
	my @rows;
	my $own = $in_transaction ? '' : run_sql($dbh, 'BEGIN');
	run_sql($dbh, "DECLARE c CURSOR FOR $query");
	while (my $rows = $show->(run_sql($dbh, "FETCH $step c"))) { push @rows, $rows }
	run_sql($dbh, $own ? 'COMMIT' : 'CLOSE c');
	return join "\n", @rows;
}

# A random query over o%, i% and p%.
sub query
{
	my $first = pick('i.id = o.k', 'i.id = o.k', 'i.id = o.b', 'i.id = o.s + 5', 'i.t = o.t', 'i.n = o.n',
		'i.n = o.s * 1.500');
	my $second = pick('p.a = o.s AND p.b = o.b', 'p.a = 7 AND p.b = o.b', 'p.b = o.b AND p.a = mod(o.k, 21)');
	my $more = sub { one_in(3) ? ' AND ' . pick(@_) : '' };
	my $sql = 'SELECT o.id, i.id, i.v, length(i.f)' . pick('', ', i.n', ', i.t', ', o.f', ', i') . ' FROM '
	  . pick('o%', 'o%', '(SELECT id, k, s, n, t, b, f FROM o% WHERE s > 3)', '(SELECT * FROM o% OFFSET 0)') . ' o '
	  . pick('', '', 'LEFT ') . "JOIN i% i ON $first"
	  . $more->('i.v < 50', 'i.v > o.s', 'length(i.f) > length(o.f)', 'o.s < 10');
	if (one_in(2))
	{
		$sql =~ s/ FROM/, p.a, p.b, p.v FROM/;
		$sql .= pick(' LEFT', '') . " JOIN p% p ON $second" . $more->('p.w < 500', 'p.w > o.id', 'i.v < p.w');
	}
	$sql .= ' WHERE o.id > ' . between(0, ROWS - 200);
	my $exists = ' AND ' . pick('', 'NOT ') . 'EXISTS';
	$sql .= pick('', '', '', " AND i.v IS NULL",
		"$exists (SELECT FROM i% e WHERE e.id = o.s" . $more->('e.v > 20', 'e.v > o.b') . ')',
		"$exists (SELECT FROM p% e WHERE e.a = o.s AND e.b = o.b)",
		' AND o.s > (SELECT count(*) FROM p% e JOIN i% i ON i.id = e.w WHERE e.a = o.s AND e.b < 9)');
	$sql .= pick('', ' AND random() >= 0') if one_in(4);
	return $sql . ' ORDER BY o.id' . pick('', '', ' LIMIT ' . between(1, 100));
}

# One test: random queries give the same on both kinds of tables, and most of them run so.
sub compare
{
	my ($when) = @_;
	my $runs = sub { value($dbh, 'SELECT key_joins FROM zen_stat') };
	my $before = $runs->();
	my @wrong;
	for (1 .. 120)
	{
		my $query = query();
		my $step = one_in(5) ? between(1, 30) : 0;
		my ($heap, $zen) = map { answer($_, $query, $step) } qw(h z);
		push @wrong, "$query: heap $heap, zen $zen" if $heap ne $zen || $heap =~ /error/;
	}
	diag(substr $_, 0, 2000) for @wrong[ 0 .. ($#wrong < 2 ? $#wrong : 2) ];
	is(scalar(@wrong), 0, "$when: the same answers");
	cmp_ok($runs->() - $before, '>', 100, "$when: by keys");
	return;
}
