# Mode wal: what a transaction of each kind leaves is there after a crash and after an orderly restart, and what one
# that is cut short has begun is not.  A step has a checkpoint before it, in the middle, or none.  Then the server comes
# back in one of three ways: killed as a whole, with one process killed, stopped in order.
#
# The pool has two files that grow while the steps run, indexes are trees and btrees.
#
#   grow       more rows than there is room for
#   copy       COPY into a table that is new, and into one that is not; cut short
#   spill      transactions that write their rows before they commit, and savepoints of them that are rolled back
#   exclusive  one that runs while other writers wait
#   prepare    of all these; committed and rolled back after the restart
#   async      commits that do not wait for the WAL: a prefix of them is there
#   tables     made, truncated, rewritten and dropped
#   vacuum     pages that are emptied and get new owners
#   sequences  of identity columns in zen tables: no value comes twice
#
#   STEPS="a b" only these; SEED=n replays the choices

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use List::Util qw(shuffle);
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
choose_seed();

my $node = new_node('restarts', pool_size => '32MB', dram_size => '128MB', conf => "zen.pool_mode = wal\nfsync = on\n"
	  . "restart_after_crash = on\ncheckpoint_timeout = 1h\nzen.pool_grow_by = 8MB\nzen.pool_max_size = 256MB\n"
	  . "zen.exclusive_failures = 0\nzen.exclusive_free_pool = 0");
my $pool = pool_path($node);
set_conf($node, "zen.pool_path = '$pool, $pool.1'");
$node->start;
my $dbh = connect_db($node);
my @tables = qw(t u);
my $next = 10_000;
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v int, w text) USING zen',
	'CREATE INDEX t_v ON t (v)', 'SET zen.default_index = zentree',
	'CREATE TABLE u (id int PRIMARY KEY, v int UNIQUE, w text) USING zen', 'RESET zen.default_index',
	map { "INSERT INTO $_ SELECT g, g, repeat('x', g % 300) FROM generate_series(1, 5000) g" } @tables);
is(value($dbh, q{SELECT count(*) FROM pg_class JOIN pg_am a ON a.oid = relam WHERE amname = 'zentree'}), 2,
	'there are trees');
my $size = value($dbh, 'SELECT size_bytes FROM zen_pool');

my %step = (
	grow => \&grow, copy => \&copy, spill => \&spill, exclusive => \&exclusive, prepare => \&prepare,
	async => \&async, tables => \&tables, vacuum => \&vacuum, sequences => \&sequences);
my @how = shuffle('crash', 'kill', 'clean');
my @checkpoint = shuffle('none', 'before', 'between');
my $turn = 0;
for my $name ($ENV{STEPS} ? split(' ', $ENV{STEPS}) : shuffle(sort keys %step))
{
	for (1 .. ($name =~ /^(?:spill|async|tables)$/ ? 2 : 1))
	{
		run_step($name, $how[ $turn % 3 ], $checkpoint[ int($turn / 3) % 3 ]);
		$turn++;
	}
}
cmp_ok(value($dbh, 'SELECT size_bytes FROM zen_pool'), '>', $size, 'the pool has grown') if !$ENV{STEPS};
cmp_ok(value($dbh, 'SELECT min(pages_total - pages_free) FROM zen_pool_files'), '>', 0, 'both files are in use');
$dbh->disconnect;
$node->stop;
unlink "$pool.1";
done_testing();

# --- tools ------------------------------------------------------------------

my $checkpoint_between;

sub between_steps
{
	value($dbh, 'CHECKPOINT') if $checkpoint_between;
	return;
}

sub restart_in
{
	my ($how, @open) = @_;
	if ($how eq 'crash')
	{
		crash($node);
		start_again($node);
	}
	elsif ($how eq 'kill')
	{
		my $from = log_size($node);
		kill 'KILL', value($dbh, 'SELECT pg_backend_pid()');
		wait_for('the server to notice', sub { log_since($node, $from) =~ /all server processes terminated/ });
	}
	else
	{
		$_->disconnect for @open, $dbh;
		$node->restart;
	}
	wait_for('the server', sub { $dbh = eval { connect_db($node) }; $dbh && !run_sql($dbh, 'SELECT 1')->{state} });
	wait_recovered($dbh);
	return;
}

sub run_step
{
	my ($name, $how, $checkpoint) = @_;
	my $what = "$name, checkpoint $checkpoint, $how";
	value($dbh, 'CHECKPOINT') if $checkpoint eq 'before';
	$checkpoint_between = $checkpoint eq 'between';
	my ($check, @open) = $step{$name}->();
	my %expected = map { $_ => contents($dbh, $_) } @tables;
	restart_in($how, @open);
	same_by_index($dbh, $_, $expected{$_}, "$what: $_") for @tables;
	$check->($what) if $check;
	is_sound($dbh, $what);
	return;
}

# rows -- an INSERT of new rows with texts of this width.
sub rows
{
	my ($table, $n, $width) = @_;
	my $from = $next;
	$next += $n;
	return "INSERT INTO $table SELECT g, g, repeat('r', $width) FROM generate_series($from, $from + $n - 1) g";
}

# open_transaction -- statements of a transaction that does not end.
sub open_transaction
{
	my (@statements) = @_;
	my $open = connect_db($node);
	run_all($open, 'BEGIN', @statements);
	return $open;
}

# --- the steps --------------------------------------------------------------

sub grow
{
	value($dbh, 'DELETE FROM t WHERE id > 5000');
	value($dbh, 'VACUUM t');
	my $open = open_transaction(rows('u', 3000, 500));
	my $before = value($dbh, 'SELECT size_bytes FROM zen_pool');
	while (value($dbh, 'SELECT size_bytes FROM zen_pool') <= $before)
	{
		value($dbh, rows('t', 4000, 1000));
	}
	between_steps();
	value($dbh, rows('t', 2000, 1000));
	my $after = value($dbh, 'SELECT size_bytes FROM zen_pool');
	return sub { cmp_ok(value($dbh, 'SELECT size_bytes FROM zen_pool'), '>=', $after, "$_[0]: size") }, $open;
}

sub copy_rows
{
	my ($handle, $table, $n) = @_;
	value($handle, "COPY $table FROM STDIN");
	for (1 .. $n)
	{
		$handle->pg_putcopydata(join("\t", $next, $next, 'c' x ($next % 500)) . "\n") or die $handle->errstr;
		$next++;
	}
	return;
}

sub copy
{
	copy_rows($dbh, 't', 3000);
	$dbh->pg_putcopyend or die $dbh->errstr;
	between_steps();
	run_all($dbh, 'DROP TABLE IF EXISTS copied', 'BEGIN', 'CREATE TABLE copied (LIKE t) USING zen');
	copy_rows($dbh, 'copied', 3000);
	$dbh->pg_putcopyend or die $dbh->errstr;
	value($dbh, 'COMMIT');
	my $copied = contents($dbh, 'copied');
	my $open = connect_db($node);
	copy_rows($open, 'u', 3000);    # without an end
	return sub { is(contents($dbh, 'copied'), $copied, "$_[0]: a new table") }, $open;
}

sub spill
{
	run_all($dbh, 'SET zen.spill_threshold = 0', 'BEGIN', 'UPDATE t SET v = v + 1 WHERE id <= 3000',
		rows('t', 1000, 100));
	between_steps();
	run_all($dbh, 'SAVEPOINT a', rows('t', 1000, 100), 'UPDATE t SET w = NULL WHERE id <= 1000', 'ROLLBACK TO a',
		'UPDATE t SET id = -id WHERE id BETWEEN 4001 AND 4100', 'DELETE FROM u WHERE id % 17 = 0', 'COMMIT',
		'UPDATE t SET id = -id WHERE id < 0');
	my $open = open_transaction('SET zen.spill_threshold = 0', 'UPDATE t SET v = 0, w = repeat(w, 2)',
		'DELETE FROM u', rows('u', 2000, 50));
	value($dbh, 'RESET zen.spill_threshold');
	return undef, $open;
}

sub exclusive
{
	my $stages = value($dbh, 'SELECT count(*) FROM zen_stat_exclusive');
	run_all($dbh, 'SET zen.spill_threshold = -1', 'SET zen.exclusive_memory = 1', 'BEGIN', rows('t', 20000, 200));
	cmp_ok(value($dbh, q{SELECT count(*) FROM zen_stat_exclusive WHERE running}), '>', 0, 'exclusive: a stage runs');
	between_steps();
	run_all($dbh, 'DELETE FROM t WHERE id > 8000', rows('t', 500, 10), 'COMMIT', 'RESET zen.spill_threshold',
		'RESET zen.exclusive_memory');
	return undef;
}

sub prepare
{
	my @ids = map { $next++ } 1 .. 4;
	my @texts = ([ '', 'COMMIT' ], [ '', 'ROLLBACK' ], [ 'SET LOCAL zen.spill_threshold = 0', 'COMMIT' ],
		[ 'SET LOCAL zen.spill_threshold = 0', 'ROLLBACK' ]);
	my $n = 0;
	for my $text (@texts)
	{
		my $id = $ids[$n];
		$n++;
		run_all($dbh, 'BEGIN', $text->[0] || 'SELECT 1', rows('t', 300, 50), rows('u', 300, 50),
			"UPDATE t SET v = -$id WHERE id BETWEEN $n * 100 AND $n * 100 + 50", "DELETE FROM u WHERE id = $n + 1000",
			"PREPARE TRANSACTION 'p$id'");
		between_steps();
	}
	return sub {
		my ($name) = @_;
		for my $i (0 .. 3)
		{
			my ($id, $m) = ($ids[$i], $i + 1);
			my ($rows, $before) = map { value($dbh, "SELECT count(*) FROM $_") } 't', 'u';
			is(state_of($dbh, "SELECT 1 FROM t WHERE id = $m * 100 FOR UPDATE NOWAIT"), '55P03', "$name: $m is locked");
			my $gone = value($dbh, "SELECT count(*) FROM u WHERE id = $m + 1000");
			value($dbh, "$texts[$i][1] PREPARED 'p$id'");
			my $done = $texts[$i][1] eq 'COMMIT' ? 1 : 0;
			is(value($dbh, 'SELECT count(*) FROM t'), $rows + 300 * $done, "$name: $m: rows");
			is(value($dbh, 'SELECT count(*) FROM u'), $before + (300 - $gone) * $done, "$name: $m: rows of a tree");
			is(value($dbh, "SELECT count(*) FROM t WHERE v = -$id"), 51 * $done, "$name: $m: updated");
		}
		my $sum = contents($dbh, 't') . contents($dbh, 'u');
		restart_in('crash');
		is(contents($dbh, 't') . contents($dbh, 'u'), $sum, "$name: ended, and after one more crash");
	};
}

# A flushed commit behind them makes those before it durable; of those behind it the first ones may be there.
sub async
{
	run_all($dbh, 'DROP TABLE IF EXISTS a', 'CREATE TABLE a (n int PRIMARY KEY, v text) USING zen',
		'SET synchronous_commit = off');
	value($dbh, "INSERT INTO a VALUES ($_, 'a')") for 1 .. 300;
	between_steps();
	run_all($dbh, 'UPDATE a SET v = v || n WHERE n <= 100', 'DELETE FROM a WHERE n % 10 = 0',
		'SET synchronous_commit = on', 'UPDATE t SET v = v + 1 WHERE id = 1', 'SET synchronous_commit = off');
	value($dbh, "INSERT INTO a VALUES ($_, 'b')") for 301 .. 500;
	value($dbh, 'RESET synchronous_commit');
	return sub {
		my ($name) = @_;
		is(value($dbh, q{SELECT count(*) || ' ' || sum(length(v)) FROM a WHERE n <= 300}), '270 ' . (270 + 9 + 2 * 81),
			"$name: those before a flush");
		is(value($dbh, 'SELECT count(*) = coalesce(max(n), 300) - 300 FROM a WHERE n > 300'), 1,
			"$name: a prefix behind it");
		is(contents($dbh, 'a', 'indexscan', 'n > 0'), contents($dbh, 'a'), "$name: by index");
	};
}

sub tables
{
	run_all($dbh, map { "DROP TABLE IF EXISTS $_" } 'made', 'cut', 'rewritten');
	run_all($dbh, map { "CREATE TABLE $_ (id int PRIMARY KEY, v text) USING zen" } 'made', 'cut', 'rewritten', 'gone');
	value($dbh, "INSERT INTO $_ SELECT g, 'v' FROM generate_series(1, 2000) g") for 'made', 'cut', 'rewritten', 'gone';
	between_steps();
	run_all($dbh, 'TRUNCATE cut', q{INSERT INTO cut VALUES (1, 'one')},
		'ALTER TABLE rewritten ADD n float DEFAULT random()', 'DROP TABLE gone',
		'CREATE TABLE gone (id int PRIMARY KEY) USING zen', 'INSERT INTO gone VALUES (5)');
	my %sum = map { $_ => contents($dbh, $_) } 'made', 'cut', 'rewritten', 'gone';
	my $open = open_transaction('TRUNCATE made', 'CREATE TABLE never USING zen AS SELECT 1 AS one');
	return sub {
		same_by_index($dbh, $_, $sum{$_}, "$_[0]: $_") for sort keys %sum;
		is(state_of($dbh, 'SELECT 1 FROM never'), '42P01', "$_[0]: never");
		value($dbh, 'DROP TABLE gone');
	}, $open;
}

sub vacuum
{
	run_all($dbh, rows('t', 10000, 300), 'DELETE FROM t WHERE id > 6000', 'VACUUM t', rows('u', 3000, 300));
	between_steps();
	run_all($dbh, 'DELETE FROM u WHERE id > 5000', rows('t', 3000, 20), 'VACUUM u', rows('t', 1000, 900), 'VACUUM t');
	return;
}

sub sequences
{
	run_all($dbh, 'CREATE TABLE IF NOT EXISTS s (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int) USING zen');
	value($dbh, "INSERT INTO s (v) VALUES ($_)") for 1 .. 50;
	between_steps();
	value($dbh, 'INSERT INTO s (v) SELECT generate_series(1, 50)');
	my $last = value($dbh, q{INSERT INTO s (v) VALUES (0) RETURNING id});
	return sub {
		cmp_ok(value($dbh, 'INSERT INTO s (v) VALUES (0) RETURNING id'), '>', $last, "$_[0]: the next value");
	};
}
