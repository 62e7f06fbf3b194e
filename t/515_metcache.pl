# The Met-Cache: which reads bring rows into it, that it keeps to its size, its counters, and the shares of tables.
#
# - a point read admits, from the second time on if the cache is half full; scans, ANALYZE, index builds and long
#   transactions do not
# - what a scan touches does not drive out what is read often
# - versions stay within zen.met_cache_size, plus what is stated, while rows are read and written
# - rows read, updated and evicted at once keep their contents (zen_verify)
# - counters begin at 0 for a table that has taken over the number of another one
# - updates of few rows do not fill the CLOCK with items
# - a cache larger than all of DRAM gives way before memory runs out
# - readers of rows in NVM check each version once, also in a slot whose former version was checked
# - shares: the table with more reads for its size gets room first; off, there are none

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PoolFile;
use PostgreSQL::Test::Utils;
use Test::More;
use ZenTest;

my $CACHE = 2 * 1024 * 1024;
my $N = 20000;

skip_unless_zen();
my $node = new_node('metcache', pool_size => '128MB', dram_size => '64MB');
$node->append_conf('postgresql.conf',
	qq{zen.met_cache_size = '2MB'\nzen.spill_threshold = -1\nmax_parallel_workers_per_gather = 0});
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_half_empty();
test_point_reads();
test_scans();
test_long_transactions();
test_capacity();
test_item_per_row();
test_reuse();
test_checked();
test_shares();
is_sound($dbh, 'at the end');
$node->stop;
test_larger_than_dram();
done_testing();

# --- tools ------------------------------------------------------------------

sub make_table
{
	my ($name, $rows) = @_;
	value($dbh, $_) for "CREATE TABLE $name (id int PRIMARY KEY, n int NOT NULL, v text NOT NULL) USING zen",
	  "INSERT INTO $name SELECT g, 0, repeat('v', 400) FROM generate_series(1, $rows) g", "ANALYZE $name";
	return;
}

# column_of -- of zen_stat_tables.
sub column_of { return $_[0] eq 'scanned' ? 'rows_scanned' : "metcache_$_[0]"; }

# moved -- how far the named counters of a table go while something is done.
sub moved
{
	my ($table, $names, $what) = @_;
	my $sql = "SELECT concat_ws(' ', " . join(', ', map { column_of($_) } @$names)
		. ") FROM zen_stat_tables WHERE relid = '$table'::regclass";
	my @before = split ' ', value($dbh, $sql);
	$what->();
	my @after = split ' ', value($dbh, $sql);
	return join ' ', map { $after[$_] - $before[$_] } 0 .. $#after;
}

sub stat_of
{
	my ($table, $name) = @_;
	return value($dbh, 'SELECT ' . column_of($name) . " FROM zen_stat_tables WHERE relid = '$table'::regclass");
}

sub by_key { return value($dbh, "SELECT v FROM $_[0] WHERE id = $_[1]"); }

# in_nvm -- a row that is not cached: its read is a miss.
sub in_nvm
{
	for my $id ($_[0] .. $N)
	{
		return $id if moved('t', ['misses'], sub { by_key('t', $id) }) == 1;
	}
	return;
}

# --- reads ------------------------------------------------------------------

sub test_half_empty
{
	make_table('few', 1000);
	$dbh->disconnect;
	$node->restart;    # leaves all rows in NVM
	$dbh = connect_db($node);
	for my $id (1, 500, 1000)
	{
		is(moved('few', [qw(hits misses admissions)], sub { by_key('few', $id) }), '0 1 1',
			"half empty, row $id: admitted by the first read");
		is(moved('few', [qw(hits misses admissions)], sub { by_key('few', $id) }), '1 0 0',
			"half empty, row $id: a hit then");
	}
	value($dbh, 'DROP TABLE few');
	return;
}

sub test_point_reads
{
	make_table('t', $N);
	wait_for('evictions', sub { value($dbh, 'SELECT metcache_bytes FROM zen_stat') <= $CACHE }, 30);
	# most of them never come in: the load's own versions overfill the cache
	my $entries = stat_of('t', 'rows');
	cmp_ok($entries, '<', $N / 2, 'a load larger than the cache leaves most rows in NVM');
	cmp_ok($entries * 480, '<=', $CACHE, 'entries fit into the cache');
	cmp_ok($entries * 480, '>', $CACHE / 8, 'the cache is used');
	cmp_ok(stat_of('t', 'bytes') / $entries, '<', 600, 'bytes are those of the entries');

	# half full: reads alone bring no more in
	for my $id (reverse 15000 .. $N)
	{
		last if moved('t', [qw(misses admissions)], sub { by_key('t', $id) }) eq '1 0';
	}
	cmp_ok(value($dbh, 'SELECT metcache_bytes FROM zen_stat'), '>=', $CACHE / 2 - 64 * 1024,
		'first reads have filled half of the cache');

	for my $id (map { in_nvm($_ * 500) } 1 .. 5)
	{
		# in_nvm was the first read
		is(moved('t', [qw(hits misses admissions)], sub { by_key('t', $id) }), '0 1 1',
			"row $id: admitted by the second read");
		is(moved('t', [qw(hits misses admissions)], sub { by_key('t', $id) }), '1 0 0', "row $id: a hit then");
	}
	my $id = in_nvm(10000);
	is(moved('t', [qw(misses admissions)], sub { value($dbh, "UPDATE t SET n = n + 1 WHERE id = $id") }), '1 1',
		'a write admits at once');
	is(value($dbh, "SELECT n FROM t WHERE id = $id"), 1, 'the row has the new value');
	return;
}

sub test_scans
{
	my @often = map { $_ * 100 } 1 .. 100;
	for (1 .. 4) { by_key('t', $_) for @often; }
	is(moved('t', [qw(hits misses)], sub { by_key('t', $_) for @often }), '100 0', 'rows read often are cached');

	my @scans = (
		[ 'sequential scan' => 'SELECT sum(n) FROM t' ],
		[ 'TID range scan'  => q{SELECT sum(n) FROM t WHERE ctid >= '(0,1)'} ],
		[ 'bitmap scan'     => 'SELECT sum(n) FROM t WHERE id > 0', 'enable_seqscan', 'enable_indexscan',
			'enable_indexonlyscan' ],
		[ 'ANALYZE'         => 'ANALYZE t' ],
		[ 'sample'          => 'SELECT sum(n) FROM t TABLESAMPLE system (50)' ],
		[ 'index build'     => 'REINDEX TABLE t' ],
		[ 'VACUUM'          => 'VACUUM t' ]);
	for my $scan (@scans)
	{
		my ($name, $sql, @off) = @$scan;
		value($dbh, "SET $_ = off") for @off;
		my $got = moved('t', [qw(admissions evictions)], sub { value($dbh, $sql) for 1 .. 3 });
		value($dbh, "RESET $_") for @off;
		# a bitmap may have little in it: that shows only after its first rows
		cmp_ok((split ' ', $got)[0], '<=', $name eq 'bitmap scan' ? 128 : 0, "$name: admits nothing, or little");
	}
	cmp_ok(moved('t', [qw(scanned)], sub { value($dbh, 'SELECT sum(n) FROM t') }), '>=', $N,
		'a scan is counted as such');
	is(moved('t', [qw(hits misses)], sub { by_key('t', $_) for @often }), '100 0', 'rows read often are still cached');
	return;
}

sub test_long_transactions
{
	value($dbh, "SET $_ = off") for qw(enable_seqscan enable_bitmapscan);
	my $got = moved('t', ['admissions'], sub { value($dbh, 'SELECT sum(n) FROM t WHERE id > 0') for 1 .. 3 });
	value($dbh, "RESET $_") for qw(enable_seqscan enable_bitmapscan);
	cmp_ok($got, '<=', 2000, 'long transactions: no more than the first rows are admitted');
	return;
}

# --- capacity ---------------------------------------------------------------

# Clients that read, that update, and both; the largest number of bytes seen meanwhile.
sub test_capacity
{
	my $clients = 4;
	my $read = $node->basedir . '/read.sql';
	my $write = $node->basedir . '/write.sql';
	append_to_file($read, "\\set id random(1, $N)\nSELECT v FROM t WHERE id = :id;\n");
	append_to_file($write, "\\set id random(1, $N)\nUPDATE t SET n = n + 1 WHERE id = :id;\n");

	for my $mix ([ 'reads', '-f', $read ], [ 'updates', '-f', $write ], [ 'both', '-f', $read, '-f', $write ])
	{
		my ($name, @files) = @$mix;
		my $largest = 0;
		my $before = value($dbh, 'SELECT sum(n) FROM t');
		my $pid = open(my $pgbench, '-|', 'pgbench', '-n', '-M', 'prepared', '-c', $clients, '-T', 6, '-h', $node->host,
			'-p', $node->port,
			@files, 'postgres') or die "pgbench: $!";
		for (1 .. 40)
		{
			my $bytes = value($dbh, 'SELECT metcache_bytes FROM zen_stat');
			$largest = $bytes if $bytes > $largest;
			select undef, undef, undef, 0.1;
		}
		1 while <$pgbench>;
		ok(close($pgbench), "$name: pgbench");
		# 64 KB that each session has not yet added, and versions just replaced
		cmp_ok($largest, '<=', $CACHE + ($clients + 2) * 64 * 1024 + 64 * 1024,
			"$name: versions stay within the cache");
		cmp_ok($largest, '>', $CACHE / 2, "$name: and use it");
		is(value($dbh, 'SELECT sum(n) FROM t'), $before, "$name: nothing is updated") if $name eq 'reads';
	}
	cmp_ok(value($dbh, "SELECT sum(metcache_bytes) FROM _zen_stat_tables()"), '<=', $CACHE * 1.2,
		'the tables hold no more together');
	is(value($dbh, 'SELECT count(*) FROM t WHERE length(v) = 400'), $N, 'no row is lost');
	is_sound($dbh, 'reads and updates with evictions');
	return;
}

# An update hands its row's item on: DRAM does not grow.
sub test_item_per_row
{
	make_table('few', 10);
	my $update = $node->basedir . '/update.sql';
	append_to_file($update, "\\set id random(1, 10)\nUPDATE few SET n = n + 1 WHERE id = :id;\n");
	my @pgbench = ('pgbench', '-n', '-M', 'prepared', '-c', 1, '-h', $node->host, '-p', $node->port, '-f', $update,
		'postgres');
	my $run = sub {
		open(my $out, '-|', @pgbench, '-t', 20000) or die "pgbench: $!";
		1 while <$out>;
		ok(close($out), 'updates of few rows');
		wait_for('collection', sub { value($dbh, 'SELECT garbage_pending FROM zen_stat') == 0 }, 30);
		return value($dbh, 'SELECT dram_used_bytes FROM zen_stat');
	};
	my $before = $run->();
	# 16 bytes for each update would be 320,000
	cmp_ok($run->() - $before, '<', 200_000, 'updates of few rows: DRAM does not grow');
	is(value($dbh, q{SELECT metcache_rows <= 10 FROM zen_stat_tables WHERE relid = 'few'::regclass}), 1,
		'each row has one entry at most');
	value($dbh, 'DROP TABLE few');
	return;
}

# --- counters of a number that goes to another table --------------------------

sub test_reuse
{
	my @counters = qw(hits misses scanned admissions evictions rows bytes);
	my $all = join ' + ', map { column_of($_) } @counters;
	my $sum_of = sub { value($dbh, "SELECT $all FROM zen_stat_tables WHERE relid = '$_[0]'::regclass") };
	make_table('first', 1000);
	by_key('first', $_) for 1 .. 300;
	my $number = value($dbh, q{SELECT htable FROM _zen_stat_tables()
		WHERE relfilenode = pg_relation_filenode('first')});
	cmp_ok(stat_of('first', 'hits') + stat_of('first', 'misses'), '>=', 300, 'a table has counters');
	value($dbh, 'DROP TABLE first');
	# others may take the number first
	my $got;
	for my $i (1 .. 20)
	{
		value($dbh, "CREATE TABLE again$i (id int) USING zen");
		$got = value($dbh, "SELECT $all FROM _zen_stat_tables() WHERE htable = $number");
		last if defined $got;
	}
	is($got, 0, 'the next table of the number begins at 0');
	value($dbh, $_) for map { "DROP TABLE IF EXISTS again$_" } 1 .. 20;

	make_table('cut', 1000);
	value($dbh, $_) for 'BEGIN', 'TRUNCATE cut', 'COMMIT';
	is($sum_of->('cut'), 0, 'TRUNCATE: from 0');
	value($dbh, $_) for 'BEGIN', 'CREATE TABLE own (id int) USING zen',
		'INSERT INTO own SELECT generate_series(1, 1000)',
	  'SELECT count(*) FROM own', 'TRUNCATE own';
	is($sum_of->('own'), 0, 'TRUNCATE of a table made by the same transaction: from 0');
	value($dbh, 'COMMIT');
	value($dbh, 'DROP TABLE cut, own');
	return;
}

# --- shares -------------------------------------------------------------------

# newest_slots -- of each row of c, by its key.
sub newest_slots
{
	my ($file) = @_;
	my $htable = value($dbh,
		q{SELECT htable FROM _zen_stat_tables() h JOIN pg_class c USING (relfilenode) WHERE c.relname = 'c'});
	my %newest;
	for my $slot (slots_of($file, $htable))
	{
		my ($block, $line) = $slot->{tid} =~ /(\d+),(\d+)/;
		my $id = 64 * $block + $line;
		$newest{$id} = $slot if !$newest{$id} || $newest{$id}{cts} < $slot->{cts};
	}
	return values %newest == $N ? %newest : die 'not all rows are in NVM';
}

# Damage to versions that nobody has read, in slots whose former versions were.
sub test_checked
{
	make_table('c', $N);
	my $read = 'SELECT count(v) FROM c';
	my $file = open_pool(pool_path($node));
	my %was_read;
	for (1 .. 4)
	{
		is(value($dbh, $read), $N, 'all rows are read');
		my %slots = newest_slots($file);
		$was_read{ $_->{offset} } = 1 for values %slots;
		value($dbh, $_) for 'UPDATE c SET n = n + 1', 'VACUUM c';
	}
	my %now = newest_slots($file);
	my @reused = grep { $was_read{ $now{$_}{offset} } } sort { $a <=> $b } keys %now;
	cmp_ok(scalar @reused, '>', $N / 10, 'slots are used again');
	my $flip_all = sub { flip_bit($file, $now{$_}{offset} + $now{$_}{length}, 2) for @reused };
	$flip_all->();
	my ($errors, $wrong) = (0, 0);
	for my $id (@reused[ map { $_ * int(@reused / 500) } 0 .. 499 ])
	{
		my $result = run_sql($dbh, "SELECT v = repeat('v', 400) FROM c WHERE id = $id");
		if ($result->{state}) { $errors += $result->{state} eq 'XX001'; }
		else                  { $wrong += !$result->{rows}[0][0]; }
	}
	is($wrong, 0, 'a new version is checked when it is read first');
	cmp_ok($errors, '>', 100, 'by rows in NVM');
	$flip_all->();
	is(value($dbh, $read), $N, 'mended');

	$flip_all->();
	is(value($dbh, $read), $N, 'damage that came later does not end a scan');
	cmp_ok(value($dbh, q{SELECT count(*) FROM zen_verify('c') WHERE kind = 'checksum'}), '>', @reused / 2,
		'zen_verify() finds it');
	is(run_sql($dbh, $read)->{state}, 'XX001', 'and so do scans from then on');
	$flip_all->();
	is(value($dbh, $read), $N, 'mended again');
	value($dbh, 'DROP TABLE c');
	return;
}

sub test_shares
{
	make_table('hot', 1000);
	my $read = sub { by_key('hot', 1 + int(rand 1000)) for 1 .. 500; by_key('t', 1 + int(rand $N)) for 1 .. 100; };
	wait_for('shares', sub { $read->(); (stat_of('hot', 'quota_bytes') || 0) >= 1000 * 450 }, 60);
	pass('the small table that is read most may be cached as a whole');
	$read->() for 1 .. 10;
	cmp_ok(stat_of('t', 'quota_bytes'), '>=', $CACHE / 8 / 10, 'every table has a minimum');
	cmp_ok(value($dbh, 'SELECT sum(metcache_quota_bytes) FROM _zen_stat_tables()'), '<=', $CACHE,
		'shares do not exceed the cache');
	wait_for('rows of the small table', sub { $read->(); stat_of('hot', 'rows') >= 750 }, 60);
	pass('and most of it is');

	$node->append_conf('postgresql.conf', 'zen.met_cache_split = off');
	$node->reload;
	wait_for('the end of shares', sub { !defined stat_of('hot', 'quota_bytes') }, 60);
	is(value($dbh, 'SELECT count(metcache_quota_bytes) FROM _zen_stat_tables()'), 0,
		'zen.met_cache_split = off: no shares');
	return;
}

# With a Met-Cache larger than all of DRAM nothing was evicted before memory ran out,
# and then a load failed with 53200 although nobody needed what was cached.
sub test_larger_than_dram
{
	my $server = new_node('large_cache', dram_size => '64MB', conf => q{zen.met_cache_size = '1GB'});
	$server->start;
	my $handle = connect_db($server);
	value($handle, 'CREATE EXTENSION zen');
	for my $i (1 .. 10)
	{
		run_all($handle, "CREATE TABLE load$i (id int, v text) USING zen");
		is(run_sql($handle, "INSERT INTO load$i SELECT g, repeat('x', 100) "
			  . "FROM generate_series(1, 100000) g")->{message}, '', "load $i");
	}
	is(value($handle, "SELECT count(*) || ' ' || sum(length(v)) FROM load$_"), '100000 10000000', "load $_: count")
	  for 1 .. 10;
	$handle->disconnect;
	$server->stop;
	return;
}
