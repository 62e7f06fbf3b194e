# Transaction callbacks of other libraries, ahead of zen in shared_preload_libraries or
# behind it: what they write, raise, catch, or die of before the end of a transaction
# leaves all of the transaction or nothing, and what was acknowledged stays.
#
# PostgreSQL runs callbacks last registered first: a library behind zen acts before zen
# has committed to NVM, one ahead of zen after that.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_modules('pg_stat_statements', 'auto_explain');
my $node;
my $dbh;

test_order();
test_zen_first();
test_zen_last();
done_testing();

# --- libraries --------------------------------------------------------------

sub build_library
{
	my ($name, @defines) = @_;
	return build_callbacks(PostgreSQL::Test::Utils::tempdir() . "/$name.so", $name, @defines);
}

sub preload
{
	my (@libraries) = @_;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '" . join(', ', @libraries) . "'");
	return;
}

# new_server -- with these libraries, two tables of zen and one of heap.
sub new_server
{
	my ($name, @libraries) = @_;
	$node = new_node($name, pool_size => '128MB', dram_size => '128MB', conf => 'restart_after_crash = on');
	preload(@libraries);
	$node->start;
	$dbh = connect_db($node);
	must($_)
	  for 'CREATE EXTENSION zen', 'CREATE TABLE z (id int) USING zen', 'CREATE TABLE z2 (id int) USING zen',
	  'CREATE TABLE h (id int) USING heap';
	return;
}

sub must
{
	my ($sql) = @_;
	my $result = run_sql($dbh, $sql);
	BAIL_OUT("$sql: $result->{message}") if $result->{state};
	return;
}

sub crash_and_connect
{
	crash($node);
	start_again($node);
	$dbh = connect_db($node);
	return;
}

# Which of the tables have this row?
sub holders
{
	my ($id) = @_;
	return value($dbh, "SELECT concat_ws(' ', " . join(', ',
			map { "(SELECT string_agg('$_', ' ') FROM $_ WHERE id = $id)" } qw(z z2 h)) . ')');
}

sub counted
{
	my ($kind) = @_;
	return value($dbh, "SELECT commits_$kind FROM zen_stat");
}

# Insert a row into z while a library does what it is told.  Returns the state with which the transaction ends.
sub insert_while
{
	my ($id, $settings, %opt) = @_;
	must('BEGIN');
	must("INSERT INTO z VALUES ($id)") unless $opt{reads};
	must('SELECT count(*) FROM z') if $opt{reads};
	must("SET LOCAL $_ = " . $dbh->quote($settings->{$_})) for sort keys %$settings;
	if ($opt{hears})
	{
		# the lock that NOTIFY takes at the end of COMMIT makes the session hear of others' changes
		must('NOTIFY changes');
		my $other = connect_db($node);
		value($other, 'ALTER TABLE h SET (fillfactor = ' . (50 + $id % 50) . ')');
		$other->disconnect;
	}
	my $log    = log_size($node);
	my $result = run_sql($dbh, $opt{prepare} ? "PREPARE TRANSACTION 'p$id'" : 'COMMIT');
	return $result->{state} unless $result->{lost};
	wait_for('the server to be back', sub { log_since($node, $log) =~ /ready to accept connections/ });
	$dbh = connect_db($node);
	return 'lost';
}

# Insert a row while a library rolls a subtransaction back, which PostgreSQL allows where no COMMIT was given.
sub insert_with_subtransaction
{
	my ($id, $library) = @_;
	must("SET $library.pre_commit = " . $dbh->quote(
			'DO $$ BEGIN PERFORM 1 / (pg_backend_pid() - pg_backend_pid()); EXCEPTION WHEN division_by_zero THEN '
			  . 'END $$'));
	must("INSERT INTO z VALUES ($id)");
	must("RESET $library.pre_commit");
	return;
}

# --- which order is noticed -------------------------------------------------

sub test_order
{
	new_server('order', 'pg_stat_statements', 'auto_explain', 'zen');
	my $before = counted('zen_only');
	unlike(log_since($node, 0), qr/ahead of zen/, 'libraries without callbacks ahead of zen: no warning');
	must('INSERT INTO z VALUES (1)');
	is(counted('zen_only'), $before + !by_wal($node), 'libraries without callbacks ahead of zen: commits need no WAL');
	check_hooks('hooks behind others');
	my $ahead = build_library('ahead');
	for my $order ([ 'zen', 'pg_stat_statements', 'auto_explain' ], [ 'pg_stat_statements', 'zen', $ahead ],
		[ '$libdir/zen.so', $ahead ])
	{
		preload(@$order);
		my $log = log_size($node);
		$node->restart;
		$dbh = connect_db($node);
		unlike(log_since($node, $log), qr/ahead of zen/, "@$order: no warning");
		unlike(log_since($node, $log), qr/refuses to be loaded/, "@$order: nobody refuses");
		check_hooks("@$order") if grep { $_ eq 'pg_stat_statements' } @$order;
		check_kept("@$order") if $order->[0] eq 'zen';
	}
	$dbh->disconnect;
	$node->stop;
	return;
}

# Each in the chain of hooks is called.
sub check_hooks
{
	my ($when) = @_;
	must('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
	must('SET default_table_access_method = zen');
	must('CREATE TEMP TABLE t AS SELECT 1 AS a');
	is(value($dbh, q{SELECT amname FROM pg_am JOIN pg_class c ON c.relam = pg_am.oid WHERE c.oid = 't'::regclass}),
		'heap', "$when: zen's utility hook");
	cmp_ok(value($dbh, q{SELECT count(*) FROM pg_stat_statements WHERE query LIKE 'CREATE TEMP TABLE%'}),
		'>', 0, "$when: pg_stat_statements' hook");
	must('DROP TABLE t');
	must('RESET default_table_access_method');
	return;
}

# Executor state is kept, inside the hooks of others.
sub check_kept
{
	my ($when) = @_;
	must($_)
	  for 'CREATE TABLE k (id int PRIMARY KEY, v int) USING zen', 'INSERT INTO k VALUES (1, 1)',
	  'SET enable_seqscan = off', 'SET enable_bitmapscan = off', 'SET plan_cache_mode = force_generic_plan',
	  'PREPARE kept(int) AS SELECT v FROM k WHERE id = $1';
	my $before = value($dbh, 'SELECT point_accesses FROM zen_stat');
	must('EXECUTE kept (1)') for 1 .. 5;
	cmp_ok(value($dbh, 'SELECT point_accesses FROM zen_stat'), '>', $before, "$when: executor state is kept");
	is(value($dbh, q{SELECT calls FROM pg_stat_statements WHERE query LIKE '%SELECT v FROM k%'}),
		5, "$when: pg_stat_statements sees all of it");
	must($_) for 'DEALLOCATE kept', 'RESET ALL', 'DROP TABLE k';
	return;
}

# --- zen, others ------------------------------------------------------------

sub test_zen_first
{
	my $behind = build_library('behind', '-DINSISTS');
	my $mixed;

	new_server('zen_first', 'zen', $behind);
	unlike(log_since($node, 0), qr/ahead of zen/, 'zen first: no warning');
	like(log_since($node, 0), qr/library "\S*behind\.so" refuses to be loaded behind executor hooks/,
		'one that insists on the first hook: loaded without those of zen');

	$mixed = counted('mixed');
	is(insert_while(10, { 'behind.pre_commit' => 'INSERT INTO h VALUES (10)' }), '',
		'WAL written before zen: committed');
	is(counted('mixed'), $mixed + 1, 'WAL written before zen: the commit record decides');
	is(insert_while(11, { 'behind.pre_commit' => 'swallow|INSERT INTO z2 VALUES (11)' }),
		'', 'rows written before zen: committed');
	insert_with_subtransaction(17, 'behind');
	is(insert_while(12, { 'behind.pre_commit' => 'throw' }), '38000', 'error before zen');
	is(insert_while(13, { 'behind.pre_prepare' => 'swallow|INSERT INTO z2 VALUES (13)' }, prepare => 1), '',
		'rows written before PREPARE');
	$mixed = counted('zen_only');
	is(insert_while(14, { 'behind.invalidation' => 'swallow' }, hears => 1), '', 'error caught after LP: committed');
	is(counted('zen_only'), $mixed + !by_wal($node), 'error caught after LP: there was one, but in mode wal');
	is(holders(14), 'z', 'error caught after LP: visible');
	is(insert_while(15, { 'behind.invalidation' => 'swallow|swallow|rethrow' }, hears => 1), '38000',
		'error caught and passed on');
	is(insert_while(16, { 'behind.invalidation' => 'swallow|throw' }, hears => 1), '38000',
		'error caught, then another');
	is(holders($_), '', "row $_ is rolled back") for 15, 16;

	crash_and_connect();
	must("COMMIT PREPARED 'p13'");
	is_rows('zen first, after a crash', 10 => 'z h', 11 => 'z z2', 12 => '', 13 => 'z z2', 14 => 'z', 15 => '',
		16 => '', 17 => 'z');

	is(insert_while(20, { 'behind.pre_commit' => 'INSERT INTO h VALUES (20)', 'behind.invalidation' => 'kill' },
		hears => 1),
		'lost', 'killed after zen, WAL written before');
	is(insert_while(21, { 'behind.invalidation' => 'rethrow', 'behind.abort' => 'kill' }, hears => 1),
		'lost', 'killed when the error has been told');
	is(insert_while(22, { 'behind.invalidation' => 'throw', 'behind.abort' => 'kill' }, hears => 1),
		'lost', 'killed when the error has been told, none caught');
	is(insert_while(23, { 'behind.invalidation' => 'swallow|kill' }, hears => 1), 'lost',
		'killed after an error caught');
	is_rows('zen first, after kills', 10 => 'z h', 14 => 'z', 20 => '', 21 => '', 22 => '', 23 => '');
	is_sound($dbh, 'zen first');
	$dbh->disconnect;
	$node->stop;
	return;
}

sub is_rows
{
	my ($when, %expected) = @_;
	my %found = map { $_ => holders($_) } keys %expected;
	is_deeply(\%found, \%expected, "$when: rows");
	return;
}

# --- others, zen ------------------------------------------------------------

sub test_zen_last
{
	my $ahead = build_library('ahead');

	new_server('zen_last', $ahead, 'zen');
	like(log_since($node, 0), qr/WARNING: .*callbacks are ahead of zen.*: "ahead"/,
		'a library with callbacks ahead of zen: warning');

	is(insert_while(30, { 'ahead.pre_commit' => 'swallow' }), '', 'error caught after zen: committed');
	insert_with_subtransaction(31, 'ahead');
	is(insert_while(32, { 'ahead.pre_commit' => 'INSERT INTO h VALUES (32)|swallow' }), '',
		'WAL written after zen: committed');
	is(insert_while(33, { 'ahead.pre_commit' => 'rethrow' }), '38000', 'error after zen');
	is(insert_while(34, { 'ahead.pre_commit' => 'INSERT INTO z2 VALUES (34)' }), '55000',
		'rows written after zen: refused');
	is(insert_while(35, { 'ahead.pre_commit' => 'INSERT INTO z2 VALUES (35)' }, reads => 1),
		'55000', 'rows written after zen, none before: refused');
	is(insert_while(36, { 'ahead.pre_commit' => 'CREATE TABLE z36 (id int) USING zen' }), '55000',
		'a table made after zen: refused');
	is(insert_while(37, { 'ahead.pre_commit' => 'SELECT 1 FROM z WHERE id = 30 FOR UPDATE' }), '',
		'a row locked after zen: committed');
	is(insert_while(38, { 'ahead.pre_prepare' => 'swallow|INSERT INTO h VALUES (38)' }, prepare => 1),
		'', 'WAL written after zen at PREPARE');
	is(insert_while(39, { 'ahead.pre_prepare' => 'INSERT INTO z2 VALUES (39)' }, prepare => 1), '55000',
		'rows written after zen at PREPARE: refused');
	is(insert_while(43, { 'ahead.pre_prepare' => 'SELECT 1 FROM z WHERE id = 30 FOR UPDATE' }, prepare => 1,
		reads => 1),
		'55000', 'a row locked after zen at PREPARE: refused');
	is(insert_while(40, { 'ahead.pre_prepare' => 'rethrow' }, prepare => 1), '38000', 'error after zen at PREPARE');
	is(insert_while(41, { 'ahead.pre_commit' => 'SELECT count(*) FROM z' }), '', 'rows read after zen: committed');
	must('INSERT INTO z VALUES (42)');
	must('DELETE FROM z WHERE id = 42');

	crash_and_connect();
	must("COMMIT PREPARED 'p38'");
	is_rows('zen last, after a crash', 30 => 'z', 31 => 'z', 32 => 'z h', 33 => '', 34 => '', 35 => '', 36 => '',
		37 => 'z',
		38 => 'z h', 39 => '', 40 => '', 41 => 'z', 42 => '');

	is(insert_while(50, { 'ahead.pre_commit' => 'INSERT INTO h VALUES (50)|kill' }), 'lost',
		'killed after zen, WAL written after');
	is(insert_while(51, { 'ahead.pre_commit' => 'rethrow', 'ahead.abort' => 'kill' }), 'lost',
		'killed when the error has been told');
	is_rows('zen last, after kills', 30 => 'z', 50 => '', 51 => '');
	is_sound($dbh, 'zen last');
	$dbh->disconnect;
	$node->stop;
	return;
}
