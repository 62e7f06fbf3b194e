# power_cut.pl ROUND LAST -- check what the rounds before have left, then (unless LAST) write until the power is cut, a
# random time after the first acknowledged transaction of each client.
#
# Client c's transactions are numbered; number n inserts (c, n) into a zen table, sets c's row of another to n, and
# every third one does the same to a heap table.  "n" is written to /share/acks.c once it is acknowledged.  After a cut
# each client's rows must be 1..m without a gap, m at least the last acknowledged number and at most one more, and all
# tables must agree.
#
# Meanwhile the pool grows, again and again.  Its size, written to /share/size, must be there, too.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use Test::More;
use Time::HiRes qw(sleep);
use VmTest;

use constant CLIENTS => 4;
use constant GROW_MB => 1;

my ($round, $last) = @ARGV;
my $db = connect_db();
create_tables() if $round == 0;
my ($acknowledged, @next) = check_rows();
check_size();
is_sound($db, "round $round");
note("round $round: $acknowledged acknowledged");
done_testing();
exit 1 unless Test::More->builder->is_passing;
exit 0 if $last;
$db->disconnect;
write_until_cut(@next);

sub create_tables
{
	value($db, $_) for 'CREATE EXTENSION zen',
	  'CREATE TABLE log (c int, n int, filler text, PRIMARY KEY (c, n)) USING zen',
	  'CREATE TABLE counter (c int PRIMARY KEY, n int) USING zen',
	  'CREATE TABLE heaplog (c int, n int, PRIMARY KEY (c, n)) USING heap',
	  'INSERT INTO counter SELECT c, 0 FROM generate_series(1, ' . CLIENTS . ') c';
	system('sync');    # a pool without promises shall lose rows, not its superblock
	return;
}

# The last number that has been written down in a file.
sub last_of
{
	my ($name) = @_;
	my $acked = 0;
	open my $file, '<', "/share/$name" or return 0;
	while (<$file>) { $acked = $1 if /^(\d+)\n/; }
	return $acked;
}

# check_rows -- how many are acknowledged, and the next number of each client.
sub check_rows
{
	my $sum = 0;
	my @numbers;
	for my $c (1 .. CLIENTS)
	{
		my $acked = last_of("acks.$c");
		my ($count, $max) =
		  $db->selectrow_array('SELECT count(*), coalesce(max(n), 0) FROM log WHERE c = ? AND n > 0', undef, $c);
		my ($heap, $heap_max) =
		  $db->selectrow_array('SELECT count(*), coalesce(max(n), 0) FROM heaplog WHERE c = ?', undef, $c);
		my $name = "round $round, client $c";
		cmp_ok($max, '>=', $acked, "$name: what was acknowledged is there");
		cmp_ok($max, '<=', $acked + 1, "$name: no more than one other");
		is($count, $max, "$name: no row is missing");
		is(value($db, 'SELECT n FROM counter WHERE c = ?', $c), $max, "$name: the counter agrees");
		my $third = int($max / 3);
		is("$heap $heap_max", $third . ' ' . 3 * $third, "$name: the heap table agrees");
		$sum += $acked;
		$numbers[$c] = $max + 1;
	}
	return ($sum, @numbers);
}

sub check_size
{
	my $size = value($db, 'SELECT size_bytes / 1048576 FROM zen_pool');
	my $acked = last_of('size');
	cmp_ok($size, '>=', $acked, "round $round: a pool of $acked MB is there");
	cmp_ok($size, '<=', $acked + GROW_MB, "round $round: ... or one growth more") if $acked;
	return;
}

sub grow_pool
{
	my $client = connect_db();
	my ($size, $max) = $client->selectrow_array('SELECT size_bytes / 1048576, max_size_bytes / 1048576 FROM zen_pool');
	open my $acks, '>>', '/share/size' or die "size: $!";
	while ($size + GROW_MB <= $max)
	{
		$size += GROW_MB;
		value($client, "SELECT zen_pool_grow('${size}MB')");
		syswrite $acks, "$size\n" or die "size: $!";
	}
	return;
}

sub write_rows
{
	my ($c, $first, $ready) = @_;
	my $client = connect_db();
	open my $acks, '>>', "/share/acks.$c" or die "acks: $!";
	my $log     = $client->prepare('INSERT INTO log VALUES (?, ?, ?)');
	my $heap    = $client->prepare('INSERT INTO heaplog VALUES (?, ?)');
	my $counter = $client->prepare('UPDATE counter SET n = ? WHERE c = ?');
	for (my $n = $first; ; $n++)
	{
		$client->begin_work;
		$log->execute($c, $n, 'x' x int(rand 500));
		$heap->execute($c, $n) if $n % 3 == 0;
		$counter->execute($n, $c);
		$client->commit;
		syswrite $acks, "$n\n" or die "acks: $!";
		syswrite $ready, '.' if $n == $first;
	}
}

sub write_until_cut
{
	my @first = @_;
	my @ready;
	for my $c (1 .. CLIENTS)
	{
		pipe my $read, my $write;
		if (!fork)
		{
			srand($$);
			write_rows($c, $first[$c], $write);
		}
		close $write;
		push @ready, $read;
	}
	sysread $_, my $dot, 1 for @ready;
	if (!fork)
	{
		grow_pool();
		exit 0;
	}
	sleep 1 + rand 4;
	open my $cut, '>', '/share/cut' or die "cut: $!";
	sleep 60;
	exit 1;    # the power should be off
}
