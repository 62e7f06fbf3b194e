# Pool full, DRAM full: each operation that allocates gives one clear error (SQLSTATE,
# and a hint that names the setting) or works; the server goes on, nothing is lost,
# and when there is room again all operations work again.
#
# - the pool full: what needs a slot fails, in the statement or in COMMIT and PREPARE;
#   reads, locks, index builds, heap tables, deletes and the end of prepared
#   transactions work; so does recovery
# - a pool full of small rows can be emptied by DELETE and VACUUM in portions
# - DRAM full of versions that an old snapshot needs
# - who finds DRAM full of such versions waits for the end of the snapshot, unless it is
#   the waiting one's own
# - recovery with less DRAM than the rows need

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('full', pool_size => '32MB', dram_size => '256MB');
$node->append_conf('postgresql.conf', qq{log_min_messages = fatal\nlock_timeout = '10s'});
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

# What needs room for rows.  Each works on the rows of t with id < 100, which are wide,
# or adds new ones.
my $wide = q{repeat(md5(random()::text), 30)};
my @growing = (
	[ 'INSERT'           => "INSERT INTO t VALUES (-1, $wide)" ],
	[ 'INSERT SELECT'    => "INSERT INTO t SELECT -g, $wide FROM generate_series(1, 2000) g" ],
	[ 'COPY'             => \&copy ],
	[ 'upsert'           => "INSERT INTO t VALUES (-1, $wide) ON CONFLICT (id) DO UPDATE SET v = excluded.v" ],
	[ 'UPDATE'           => "UPDATE t SET v = $wide WHERE id < 100" ],
	[ 'UPDATE of a key'  => "UPDATE t SET id = -id - 1 WHERE id < 100" ],
	[ 'COMMIT'           => [ 'BEGIN', "INSERT INTO t VALUES (-1, $wide)", 'COMMIT' ] ],
	[ 'mixed COMMIT'     => [ 'BEGIN', 'INSERT INTO h VALUES (1)', "INSERT INTO t VALUES (-1, $wide)", 'COMMIT' ] ],
	[ 'after savepoints' => [ 'BEGIN', 'SAVEPOINT a', "INSERT INTO t VALUES (-1, $wide)", 'ROLLBACK TO a',
			"INSERT INTO t VALUES (-2, $wide)", 'RELEASE a', 'COMMIT' ] ],
	[ 'PREPARE'          => [ 'BEGIN', "INSERT INTO t VALUES (-1, $wide)", q{PREPARE TRANSACTION 'p'} ] ],
	[ 'toasted value'    => q{INSERT INTO t SELECT -1, string_agg(md5(g::text), '') FROM generate_series(1, 4000) g} ],
	[ 'CREATE TABLE AS'  => 'CREATE TABLE copy USING zen AS SELECT * FROM t' ],
	[ 'rewrite'          => 'ALTER TABLE t ALTER v TYPE varchar USING v || v' ],
);

# One of each kind that needs DRAM, of which none concerns a row of another.
my @waiting_statements = (
	[ 'UPDATE'           => q{UPDATE t SET v = repeat('u', 1000) WHERE id = 1} ],
	[ 'UPDATE of a key'  => q{UPDATE t SET id = -2 WHERE id = 2} ],
	[ 'UPDATE of a row in NVM only' => q{UPDATE cold SET v = v + 1 WHERE id = 1} ],
	[ 'INSERT'           => q{INSERT INTO t VALUES (-3, repeat('i', 1000))} ],
	[ 'INSERT of many'   => q{INSERT INTO t VALUES (-4, 'many'), (-5, repeat('i', 1000))} ],
	[ 'DELETE'           => q{DELETE FROM t WHERE id = 6} ],
);

test_pool_full();
test_small_rows();
test_dram_waits();
test_dram_full();
test_dram_too_small();
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub copy
{
	my $ok = $dbh->do('COPY t FROM STDIN');
	$ok &&= $dbh->pg_putcopydata("-$_\t" . join('', map { rand } 1 .. 60) . "\n") for 1 .. 2000;
	$ok &&= $dbh->pg_putcopyend;
	return $ok ? { state => '', message => '' } : { state => $dbh->state, message => $dbh->errstr };
}

# attempt -- run statements until one fails; a transaction that is open then is ended.
sub attempt
{
	my ($what) = @_;
	my $result;
	if (ref $what eq 'CODE') { $result = $what->(); }
	else
	{
		for my $sql (ref $what ? @$what : $what)
		{
			$result = run_sql($dbh, $sql);
			last if $result->{state};
		}
	}
	run_sql($dbh, 'ROLLBACK') if $result->{state};
	return $result;
}

# fails_full -- must fail for want of room, and change nothing.
sub fails_full
{
	my ($full, $name, $what) = @_;
	my ($state, $setting) = $full eq 'pool' ? ('53100', 'zen.pool_size') : ('53200', 'zen.dram_size');
	my $before = state_of_tables();
	my $result = attempt($what);
	is($result->{state}, $state, "$full full, $name: SQLSTATE") or diag($result->{message});
	like($result->{message}, qr/HINT:.*\Q$setting\E/s, "$full full, $name: hint names the setting");
	is(state_of_tables(), $before, "$full full, $name: nothing has changed");
	return;
}

sub works
{
	my ($name, $what) = @_;
	my $result = attempt($what);
	is($result->{state}, '', $name) or diag($result->{message});
	return;
}

# By a sequential scan and by the index.
sub state_of_tables
{
	my $checksum = 'SELECT count(*) || $$ $$ || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM t '
		  . 'WHERE id > -1000000';
	my @found = map {
		value($dbh, $_)
	} 'SET enable_indexscan = off', 'SET enable_bitmapscan = off', $checksum, 'RESET enable_indexscan',
	  'SET enable_seqscan = off', $checksum, 'RESET enable_seqscan', 'RESET enable_bitmapscan',
	  'SELECT count(*) FROM h', 'SELECT count(*) FROM pg_prepared_xacts';
	return join ' ', map { $_ // '' } @found;
}

sub make_tables
{
	value($dbh, $_) for 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen', 'CREATE TABLE h (id int) USING heap',
	  'CREATE TABLE IF NOT EXISTS p (id int PRIMARY KEY) USING zen';
	return;
}

# fill -- add rows of this width until there is no room for one more; returns how many.
sub fill
{
	my ($width) = @_;
	my $id = 0;
	for my $rows (5000, 500, 50, 1)
	{
		while (!run_sql($dbh, sprintf(
			q{INSERT INTO t SELECT g, repeat('x', %d) FROM generate_series(%d, %d) g}, $width, $id, $id + $rows - 1))
			->{state})
		{
			$id += $rows;
		}
	}
	return $id;
}

sub restart_after_crash
{
	crash($node);
	start_again($node);
	$dbh = connect_db($node);
	return;
}

# Everything that needs room works, and can be undone.
sub all_work
{
	my ($name) = @_;
	for (@growing)
	{
		my ($what, $how) = @$_;
		works("$name: $what", $how);
		run_sql($dbh, $_) for q{ROLLBACK PREPARED 'p'}, 'DROP TABLE copy', 'DELETE FROM t WHERE id < 0', 'VACUUM t';
	}
	return;
}

# --- the pool ---------------------------------------------------------------

sub test_pool_full
{
	make_tables();
	works('a transaction is prepared while there is room', [ 'BEGIN', q{INSERT INTO p SELECT count(*) FROM p},
		q{PREPARE TRANSACTION 'early'} ]);
	my $rows = fill(500);
	cmp_ok($rows, '>', 10_000, "the pool is full after $rows rows");
	fails_full('pool', @$_) for @growing;

	works('pool full: ' . $_->[0], $_->[1]) for (
		[ 'sequential scan' => 'SELECT sum(length(v)) FROM t' ],
		[ 'row locks'       => [ 'BEGIN', 'SELECT * FROM t FOR UPDATE', 'COMMIT' ] ],
		[ 'CREATE INDEX'    => 'CREATE INDEX t_v ON t (v)' ],
		[ 'REINDEX'         => 'REINDEX TABLE t' ],
		[ 'ANALYZE'         => 'ANALYZE t' ],
		[ 'VACUUM'          => 'VACUUM t' ],
		[ 'heap'            => 'CREATE TABLE g USING heap AS SELECT * FROM t' ],
		[ 'an empty table'  => 'CREATE TABLE e (id int) USING zen' ],
		[ 'DROP'            => 'DROP TABLE e' ],
		[ 'COMMIT PREPARED' => q{COMMIT PREPARED 'early'} ]);

	my $before = state_of_tables();
	restart_after_crash();
	is(state_of_tables(), $before, 'pool full: recovery');
	fails_full('pool', @{ $growing[0] });

	works('pool full: DELETE',                   'DELETE FROM t WHERE id % 2 = 0');
	works('pool full: DELETE is prepared',       [ 'BEGIN', 'DELETE FROM t WHERE id = 101',
		q{PREPARE TRANSACTION 'late'} ]);
	works('pool full: and committed',            q{COMMIT PREPARED 'late'});
	works('pool full: VACUUM after the deletes', 'VACUUM t');
	works('DROP INDEX',                          'DROP INDEX t_v');
	$before = state_of_tables();
	restart_after_crash();
	is(state_of_tables(), $before, 'pool full, then DELETE: recovery');
	works('after DELETE and VACUUM: more is deleted', 'DELETE FROM t WHERE id > 1000');
	works('after DELETE and VACUUM: VACUUM', 'VACUUM t');
	all_work('after DELETE and VACUUM');

	fill_and('TRUNCATE', 'TRUNCATE t');
	fill_and('DROP', 'DROP TABLE t', 'DROP TABLE h');
	return;
}

# TRUNCATE and DROP free a full pool at once.
sub fill_and
{
	my ($name, @statements) = @_;
	value($dbh, 'DELETE FROM t');
	fill(2000);
	works("pool full: $name", [@statements]);
	make_tables() if $name eq 'DROP';
	works("after $name: INSERT", q{INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 1000) g});
	all_work("after $name");
	return;
}

# Tombstones of many small rows need more than the pages kept for them: delete in portions.
sub test_small_rows
{
	value($dbh, 'TRUNCATE t');
	my $rows = fill(0);
	cmp_ok($rows, '>', 100_000, "the pool is full after $rows small rows");
	fails_full('pool', 'DELETE of all rows', 'DELETE FROM t');
	my ($left, $portions) = ($rows, 0);
	while ($left > 0 && $portions++ < 200)
	{
		my $result = attempt('DELETE FROM t WHERE id IN (SELECT id FROM t LIMIT 20000)');
		last if $result->{state};
		value($dbh, 'VACUUM t');
		$left = value($dbh, 'SELECT count(*) FROM t');
	}
	is($left, 0, 'a pool full of small rows can be emptied in portions');
	is(value($dbh, 'SELECT pages_free > 9 * pages_total / 10 FROM zen_pool'), 1, '... and its pages come back');
	works('... and be filled again', q{INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 10000) g});
	value($dbh, 'DROP TABLE t, h');
	return;
}

# --- DRAM -------------------------------------------------------------------

sub restart_with
{
	my (@settings) = @_;
	set_conf($node, join "\n", @settings);
	$dbh = clean_restart($node, $dbh);
	return;
}

sub test_dram_full
{
	restart_with(q{zen.dram_size = '16MB'}, q{zen.met_cache_size = '12MB'});
	make_tables();
	value($dbh, q{INSERT INTO t SELECT g, 'x' FROM generate_series(0, 199) g});
	# more than there are tombstones in a span of the arena, of which one may be in use already
	value($dbh, $_) for 'CREATE TABLE many (id int) USING zen', 'INSERT INTO many SELECT generate_series(1, 20000)';
	works('a transaction is prepared while there is DRAM', [ 'BEGIN', q{INSERT INTO p SELECT count(*) FROM p},
		q{PREPARE TRANSACTION 'early'} ]);
	my $reader = old_snapshot();
	my $seen = contents($reader, 't');
	value($dbh, 'SET zen.full_timeout = 0');

	# With a small Met-Cache their data would be in NVM only, and the pool full first.
	# First by many rows at a time, small ones, so that one of these lies at DRAM's end; then one by one, down to the
	# smallest piece.
	for ([ 'id >= 100', 10 ], map { ([ 'id >= 100', $_ ], [ 'id = 100', $_ ]) } 2000, 1000, 200, 10)
	{
		my ($where, $width) = @$_;
		my ($rounds, $result) = (0);
		do
		{
			$result = run_sql($dbh, "UPDATE t SET v = repeat(chr(65 + (random() * 25)::int), $width) WHERE $where");
		} until ($result->{state} || $rounds++ > 100_000);
		is($result->{state}, '53200', "DRAM full by UPDATE to $width characters WHERE $where");
	}
	is_sound($dbh, 'DRAM full');
	fails_full('DRAM', @$_) for grep { $_->[0] !~ /CREATE TABLE|rewrite/ } @growing;
	fails_full('DRAM', @$_) for (
		[ 'DELETE'          => 'DELETE FROM many' ],
		[ 'CREATE TABLE AS' => q{CREATE TABLE copy USING zen AS SELECT g, repeat('x', 1000) v
			FROM generate_series(1, 10000) g} ]);

	works('DRAM full: ' . $_->[0], $_->[1]) for (
		[ 'sequential scan' => 'SELECT sum(length(v)) FROM t' ],
		[ 'index scan'      => 'SELECT v FROM t WHERE id = 7' ],
		[ 'CREATE INDEX'    => 'CREATE INDEX t_v ON t (length(v))' ],
		[ 'VACUUM'          => 'VACUUM t' ],
		[ 'ANALYZE'         => 'ANALYZE t' ],
		[ 'heap'            => 'CREATE TABLE g2 USING heap AS SELECT * FROM t' ],
		[ 'COMMIT PREPARED' => q{COMMIT PREPARED 'early'} ]);
	is(contents($reader, 't'), $seen, 'DRAM full: the old snapshot sees its rows');
	is(value($dbh, 'SELECT count(*) FROM many'), 20000, 'DRAM full: no row was deleted');
	value($reader, 'COMMIT');
	$reader->disconnect;

	value($dbh, $_) for 'DELETE FROM t WHERE id < 0', 'VACUUM t';
	all_work('after the snapshot has ended');
	my $before = state_of_tables();
	restart_after_crash();
	is(state_of_tables(), $before, 'DRAM was full: recovery');
	return;
}

sub old_snapshot
{
	my $reader = connect_db($node);
	value($reader, $_) for 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM t';
	return $reader;
}

# DRAM full to its smallest piece.
sub fill_dram
{
	for my $width (2000, 200, 10, 1)
	{
		my $update = "UPDATE t SET v = repeat(chr(65 + (random() * 25)::int), $width) WHERE id = 100";
		1 while state_of($dbh, $update) eq '';
		is(state_of($dbh, $update), '53200', "DRAM waits: full of versions of $width characters");
	}
	1 while state_of($dbh, 'DELETE FROM many WHERE id = (SELECT min(id) FROM many)') eq '';
	return;
}

sub waits_for_dram
{
	my ($handle) = @_;
	return value($dbh, qq{SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $handle->{pg_pid}});
}

sub test_dram_waits
{
	restart_with(q{zen.dram_size = '16MB'}, q{zen.met_cache_size = '12MB'});
	make_tables();
	value($dbh, $_) for q{INSERT INTO t SELECT g, 'x' FROM generate_series(0, 199) g},
	  'CREATE TABLE cold (id int PRIMARY KEY, v int) USING zen', 'INSERT INTO cold VALUES (1, 1)',
	  'CREATE TABLE many (id int PRIMARY KEY) USING zen', 'INSERT INTO many SELECT generate_series(1, 20000)';
	$dbh = clean_restart($node, $dbh);

	my ($reader, $younger) = map { old_snapshot() } 1 .. 2;
	value($dbh, 'SET zen.full_timeout = 0');
	fill_dram();
	my @waiting = map { [ @$_, connect_db($node) ] } @waiting_statements;
	for (@waiting)
	{
		my ($name, $sql, $handle) = @$_;
		value($handle, q{SET zen.full_timeout = '100s'});
		my $statement = start_statement($handle, $sql);
		wait_for("DRAM waits: $name waits", sub { waits_for_dram($handle) });
		value($dbh, "SELECT pg_cancel_backend($handle->{pg_pid})");
		is(finish_statement($statement), '57014', "DRAM waits: $name can be cancelled");
	}
	is_sound($dbh, 'DRAM waits: after cancels');
	value($younger, q{SET zen.full_timeout = '100s'});
	value($younger, q{SET statement_timeout = '20s'});
	is(state_of($younger, q{INSERT INTO t VALUES (-7, repeat('i', 1000))}),
		'53200', 'DRAM waits: not for garbage that the own snapshot needs');
	value($younger, 'ROLLBACK');
	my @statements = map { start_statement($_->[2], $_->[1]) } @waiting;
	wait_for('DRAM waits: all wait', sub { waits_for_dram($_->[2]) || return for @waiting; 1 });
	value($reader, 'COMMIT');
	like(finish_statement($statements[$_]), qr/^[A-Z]+ [\d ]+$/,
		"DRAM waits: $waiting[$_][0] goes on when the snapshot has ended") for 0 .. $#waiting;
	is(value($dbh, 'SELECT string_agg(id::text, $$ $$ ORDER BY id) FROM t WHERE id < 8'),
		'-5 -4 -3 -2 0 1 3 4 5 7', 'DRAM waits: all have done what they should');
	is_sound($dbh, 'DRAM waits');
	$_->disconnect for $reader, $younger, map { $_->[2] } @waiting;
	value($dbh, 'DROP TABLE t, h, cold, many');
	return;
}

# Rows far apart: their map alone needs more than there will be.
sub test_dram_too_small
{
	restart_with(q{zen.dram_size = '512MB'}, q{zen.met_cache_size = '256MB'});
	value($dbh, $_)
	  for 'CREATE TABLE far (id int) USING zen', 'SET zen.spill_threshold = -1', 'BEGIN',
		'INSERT INTO far SELECT generate_series(1, 2500000)', 'ROLLBACK',
	  'INSERT INTO far VALUES (1)';
	my $before = state_of_tables();
	crash($node);
	$node->append_conf('postgresql.conf', q{zen.dram_size = '16MB'});
	start_again($node);
	$dbh = connect_db($node);
	for (1 .. 2)
	{
		my $result = run_sql($dbh, 'SELECT count(*) FROM t');
		like($result->{state}, qr/^(?:53200|55000)$/, 'too little DRAM to recover: an error, and the server stays');
		like($result->{message}, qr/HINT:/, 'too little DRAM to recover: hint');
	}
	is(value($dbh, 'SELECT count(*) > 0 FROM g'), 1, 'too little DRAM to recover: heap tables work');
	restart_with(q{zen.dram_size = '256MB'});
	is(state_of_tables(), $before, 'enough DRAM again: nothing is lost');
	is(value($dbh, 'SELECT count(*) FROM far'), 1, 'enough DRAM again: the row far away');
	return;
}
