# Versions that hold only what changed (zen.deltas, R22; src/row/README).
#
# - An update of one int in a row of 1 KB, or of 30 KB, costs one line; one that changes much writes the row whole.
# - A pool that was made without deltas gets format 5, and its rows stay readable when the setting is off again.
# - Aggregates read columns of such rows in NVM, whose header may be long.
# - Random changes of rows of 0.3 to 30 KB, with rollbacks, savepoints, spilled and prepared transactions and snapshots
#   that are held, beside the same on heap: after kills, stops and saves of the map all rows are the same, and
#   zen_verify_pool() finds no slot lost.
# - A damaged base makes the row an error to read, and no older version takes its place.
# - DROP and TRUNCATE of small tables give back bases.
#
# SEED=n replays a run; ROUNDS=n

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PoolImage;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

use constant { UNIT => 16, MARK => 2, HEADER => 16 };

skip_unless_zen();
choose_seed();
my $rounds = $ENV{ROUNDS} || 12;
my $node = new_node('deltas', pool_size => '256MB', dram_size => '128MB',
	conf => "zen.spill_threshold = 256kB\nmax_prepared_transactions = 5\nzen.deltas = off");
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_format();
test_lines();
test_columns();
test_random();
test_held();
test_gone();
test_damage();
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub format_now { return value($dbh, 'SELECT format_version FROM zen_pool'); }

sub set_deltas
{
	my ($on) = @_;
	set_conf($node, "zen.deltas = $on");
	$dbh = clean_restart($node, $dbh);
	return;
}

# wide -- a table of wide rows: numbers around a text that is neither compressed nor toasted.
sub wide
{
	my ($name, $am) = @_;
	run_all($dbh, "CREATE TABLE $name (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, a text, k int NOT NULL DEFAULT 0) "
		  . "USING $am",
		"ALTER TABLE $name ALTER a SET STORAGE " . ($am eq 'heap' ? 'EXTERNAL' : 'PLAIN'));
	return;
}

# text -- an expression of so many bytes, which no two rows and versions have alike.
sub text
{
	my ($bytes, $what) = @_;
	return sprintf "left(repeat(md5(%s || '%s'), %d), %d)", 'id::text', $what, $bytes / 32 + 1, $bytes;
}

# cost -- lines, fences and bytes of a statement.
sub cost
{
	my ($sql) = @_;
	my $counts = 'SELECT lines_flushed, fences, bytes_written FROM zen_stat';
	my $before = run_sql($dbh, $counts)->{rows}[0];
	value($dbh, $sql);
	my $after = run_sql($dbh, $counts)->{rows}[0];
	return map { $after->[$_] - $before->[$_] } 0 .. 2;
}

sub sums
{
	my ($table) = @_;
	return value($dbh,
		"SELECT count(*) || ' ' || coalesce(md5(string_agg(md5(x::text), '' ORDER BY id)), '') FROM $table x");
}

# --- tests ------------------------------------------------------------------

sub test_format
{
	wide('old', 'zen');
	value($dbh, "INSERT INTO old (id) SELECT g FROM generate_series(1, 20) g");
	value($dbh, 'UPDATE old SET a = ' . text(1000, 'old'));
	my $before = sums('old');
	is(format_now(), 2, 'a pool without deltas');
	set_deltas('on');
	is(format_now(), 5, 'it has the format of a pool with deltas');
	is(sums('old'), $before, 'and its rows');
	value($dbh, 'UPDATE old SET n = n + 1');
	my $changed = sums('old');
	set_deltas('off');
	is(format_now(), 5, 'which it keeps');
	is(sums('old'), $changed, 'deltas are read with the setting off');
	value($dbh, 'UPDATE old SET k = k + 1');
	value($dbh, 'UPDATE old SET k = k - 1');
	is(sums('old'), $changed, 'and superseded by whole versions');
	is_sound($dbh, 'off again');
	set_deltas('on');
	return;
}

sub test_lines
{
	wide('t', 'zen');
	my %bytes = (1 => 960, 2 => 30_000, 3 => 400);
	value($dbh, "INSERT INTO t (id) VALUES ($_)") for keys %bytes;
	value($dbh, "UPDATE t SET a = " . text($bytes{$_}, 'lines') . " WHERE id = $_") for keys %bytes;
	cost('UPDATE t SET n = n + 1') for 1 .. 3;    # pages are there
	for my $id (1, 2)
	{
		my ($lines, $fences, $bytes) = cost("UPDATE t SET n = n + 1 WHERE id = $id");
		note("one int of $bytes{$id} bytes: $lines lines, $fences fences, $bytes bytes");
		cmp_ok($lines, '<=', by_wal($node) ? 3 : 2, "one int of $bytes{$id} bytes: lines");
		cmp_ok($bytes, '<=', 64, "one int of $bytes{$id} bytes: bytes");
	}
	my (undef, undef, $bytes) = cost('UPDATE t SET n = n + 1 WHERE id = 3');
	cmp_ok($bytes, '>', 400, 'a row below the limit is written whole');
	(undef, undef, $bytes) = cost('UPDATE t SET a = ' . text(960, 'another') . ' WHERE id = 1');
	cmp_ok($bytes, '>', 960, 'so is one that has changed much');
	(undef, undef, $bytes) = cost('UPDATE t SET n = n + 1 WHERE id = 1');
	cmp_ok($bytes, '<=', 64, 'which is the next base');
	value($dbh, 'DROP TABLE t');
	return;
}

# The sums of columns of rows in NVM: each column ends a start of its own.  Half of the rows have a NULL, and thus a
# longer header.
sub test_columns
{
	my @columns = map { "c$_" } 1 .. 80;
	for my $table ('heap_wide', 'zen_wide')
	{
		run_all($dbh, "CREATE TABLE $table (id int, " . join('', map { "$_ int, " } @columns) . 'a text) USING '
			  . ($table =~ s/_.*//r), "ALTER TABLE $table ALTER a SET STORAGE EXTERNAL",
			"INSERT INTO $table SELECT g, CASE WHEN g <= 150 THEN g END, "
			  . join('', map { "g * $_, " } 2 .. 80) . text(900, 'c') =~ s/id::/g::/r
			  . ' FROM generate_series(1, 300) g');
		run_all($dbh, map { "UPDATE $table SET c3 = c3 + 1, c80 = id WHERE id / 20 = $_" } 0 .. 15);
	}
	$dbh = clean_restart($node, $dbh);
	my $plan = join ' ', map { @$_ } @{ run_sql($dbh, 'EXPLAIN SELECT sum(c1) FROM zen_wide')->{rows} };
	like($plan, qr/ZenBatchAggregate/, 'sums of columns are computed by blocks');
	my (%sum, %first);
	for my $table ('heap_wide', 'zen_wide')
	{
		$sum{$table} = join ' ', map { value($dbh, "SELECT sum($_) FROM $table WHERE id > 0") } @columns;
		$first{$table} = join ' ', map { first_columns($table, $_) } 1 .. 16;
	}
	is($sum{zen_wide}, $sum{heap_wide}, '... of rows whose bases have the columns');
	is($first{zen_wide}, $first{heap_wide}, 'scans read the first columns of such rows');
	my $read = run_sql($dbh, q{SELECT metcache_hits, rows_scanned FROM zen_stat_tables WHERE relname = 'zen_wide'});
	cmp_ok($read->{rows}[0][0], '<', $read->{rows}[0][1] / 2, '... in NVM');
	run_all($dbh, 'DROP TABLE heap_wide, zen_wide');
	return;
}

# first_columns -- what a scan reads of so many columns.
sub first_columns
{
	my ($table, $n) = @_;
	my $columns = join ', ', 'id', map { "c$_" } 1 .. $n - 1;
	return value($dbh, "SELECT md5(string_agg(concat_ws(' ', $columns), ',' ORDER BY id)) FROM $table");
}

# change -- a random statement for the table named T.
sub change
{
	my ($rows) = @_;
	my $some = sprintf 'id %% %d = %d', 7, between(0, 6);
	my $what = between(1, 1_000_000);
	return pick(
		("UPDATE T SET n = n + 1 WHERE $some") x 5,
		("UPDATE T SET k = k + $what, n = n - 1 WHERE id BETWEEN " . between(1, $rows) . ' AND '
			  . between(1, $rows)) x 3,
		"UPDATE T SET a = overlay(a placing md5('$what') from 200) WHERE $some",
		"UPDATE T SET a = left(a, length(a) - 8) WHERE $some AND length(a) > 600",
		"UPDATE T SET a = a || 'longer $what' WHERE $some AND length(a) < 25000",
		'UPDATE T SET a = ' . text(between(300, 6000), $what) . " WHERE $some",
		'UPDATE T SET a = ' . text(30_000, $what) . ' WHERE id = ' . between(1, $rows),
		"UPDATE T SET a = NULL WHERE $some AND id % 3 = 0",
		"UPDATE T SET id = id WHERE $some",
		"DELETE FROM T WHERE $some AND id % 5 = " . between(0, 4),
		"INSERT INTO T (id, a) SELECT id, " . text(between(400, 4000), $what)
		  . " FROM generate_series(1, $rows) id ON CONFLICT (id) DO UPDATE SET n = T.n + 1");
}

# both -- the same statements on both tables.
sub both
{
	for my $sql (@_)
	{
		my @states = map { state_of($dbh, $sql =~ s/\bT\b/$_/gr) } $sql =~ /\bT\b/ ? ('d', 'h') : 'd';
		is($states[0], $states[-1], $sql) if $states[0] ne $states[-1];
		die "$sql: $states[0]" if $states[0];
	}
	return;
}

sub transaction
{
	my ($rows) = @_;
	my $savepoint = one_in(3);
	both('BEGIN');
	both(change($rows)) for 1 .. between(1, 3);
	if ($savepoint)
	{
		both('SAVEPOINT s');
		both(change($rows)) for 1 .. 2;
		both(one_in(2) ? 'ROLLBACK TO s' : 'RELEASE s');
		both(change($rows));
	}
	if (one_in(6))
	{
		both(q{PREPARE TRANSACTION 'p'});
		$dbh = crash_restart($node) if one_in(3);
		both(one_in(2) ? q{COMMIT PREPARED 'p'} : q{ROLLBACK PREPARED 'p'});
		return;
	}
	both(one_in(4) ? 'ROLLBACK' : 'COMMIT');
	return;
}

sub same
{
	my ($when) = @_;
	return is(sums('d'), sums('h'), $when);
}

sub test_random
{
	my $rows = 120;
	wide('d', 'zen');
	wide('h', 'heap');
	both("INSERT INTO T (id) SELECT g FROM generate_series(1, $rows) g");
	both('UPDATE T SET a = ' . text(1000, 'first'));
	for my $round (1 .. $rounds)
	{
		if (one_in(3)) { transaction($rows) }
		else           { both(change($rows)) }
		transaction($rows) for 1 .. between(2, 8);
		value($dbh, 'VACUUM d') if one_in(3);
		value($dbh, 'SELECT zen_save_map()') if one_in(3) && !by_wal($node);
		transaction($rows) if one_in(2);
		same("round $round");
		my $end = pick('kill', 'kill', 'stop', 'go on');
		if    ($end eq 'kill') { $dbh = crash_restart($node) }
		elsif ($end eq 'stop') { $dbh = clean_restart($node, $dbh) }
		same("round $round: $end");
		is_sound($dbh, "round $round: $end");
		last unless Test::More->builder->is_passing;
	}
	return;
}

# A snapshot is held while the rows get deltas and bases, some of them several times.
sub test_held
{
	my $reader = connect_db($node);
	my $query  = q{SELECT md5(string_agg(md5(x::text), '' ORDER BY id)) FROM d x};
	run_all($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $seen = value($reader, $query);
	for (1 .. 4)
	{
		both('UPDATE T SET n = n + 1');
		both('UPDATE T SET a = ' . text(900, "held $_") . ' WHERE id % 2 = 0');
		both('UPDATE T SET k = k + 1');
		value($dbh, 'VACUUM d');
	}
	is(value($reader, $query), $seen, 'a snapshot that is held sees its rows');
	value($reader, 'COMMIT');
	$reader->disconnect;
	value($dbh, 'VACUUM d');
	same('behind it');
	is_sound($dbh, 'behind it');
	return;
}

sub test_gone
{
	for my $how ('DROP TABLE', 'TRUNCATE')
	{
		wide('small', 'zen');
		value($dbh, 'INSERT INTO small (id) SELECT generate_series(1, 9)');
		value($dbh, 'UPDATE small SET a = ' . text(700, 'gone'));
		value($dbh, 'UPDATE small SET n = n + 1');
		value($dbh, 'UPDATE small SET n = n + 1 WHERE id < 5');
		value($dbh, 'VACUUM small') if $how eq 'DROP TABLE';
		value($dbh, "$how small");
		is_sound($dbh, $how);
		value($dbh, 'DROP TABLE IF EXISTS small');
	}
	return;
}

# The deltas in the file that are their rows' newest versions, each a hash as PoolImage has them, with base.
sub deltas_in_pool
{
	my ($path) = @_;
	my $image = PoolImage->new($path);
	my $bytes = PostgreSQL::Test::Utils::slurp_file($path);
	my %in_use = map { $_->{number} => 1 } $image->htables;
	my %newest;
	for my $slot ($image->slots)
	{
		next unless $in_use{ $slot->{htable} };
		my $row = "$slot->{htable}/$slot->{block}/$slot->{line}";
		$newest{$row} = $slot if !$newest{$row} || $newest{$row}{cts} < $slot->{cts};
	}
	my @deltas;
	for my $slot (sort { $a->{offset} <=> $b->{offset} } values %newest)
	{
		my ($mark) = unpack 'v', substr($bytes, $slot->{offset} + HEADER, 2);
		next unless $mark == MARK;
		my ($base) = unpack 'Q<', substr($bytes, $slot->{offset} + HEADER + 24, 8);
		push @deltas, { %$slot, base => $base * UNIT };
	}
	return @deltas;
}

sub test_damage
{
	wide('x', 'zen');
	value($dbh, 'INSERT INTO x (id) SELECT generate_series(1, 10)');
	value($dbh, 'UPDATE x SET a = ' . text(3000, 'x'));
	value($dbh, 'UPDATE x SET n = 1');
	value($dbh, 'UPDATE x SET n = 2');
	value($dbh, 'VACUUM x');
	my $path = pool_path($node);
	set_conf($node, 'zen.save_map = off');
	my $spoilt = 0;
	for my $how ('stop', 'kill')
	{
		$dbh->disconnect;
		if   ($how eq 'stop') { $node->stop }
		else                  { crash($node) }
		my @deltas = deltas_in_pool($path);
		cmp_ok(scalar @deltas, '>=', 10, "$how: there are deltas");
		spoil($path, $deltas[ $how eq 'stop' ? -1 : 0 ]{base} + 300);
		$spoilt++;
		start_again($node);
		$dbh = connect_db($node);
		wait_recovered($dbh);
		cmp_ok(value($dbh, 'SELECT damaged FROM zen_recovery'), '>=', $spoilt, "$how: the start has found it");
		my @found = grep { !/zen_verify_pool/ } findings($dbh);
		is(scalar @found, $spoilt, "$how: nothing else is found") or diag(join "\n", @found);
		is(scalar(grep { /base/ } @found), $spoilt, "$how: the base is named");
		my @states = map { state_of($dbh, "SELECT sum(length(a)) FROM $_") } qw(d x old);
		ok(scalar(grep { $_ eq 'XX001' } @states), "$how: to read the row is an error: @states");
		value($dbh, 'SET zen.skip_damaged_rows = on');
		is(value($dbh, 'SELECT count(*) FROM (SELECT * FROM d EXCEPT SELECT * FROM h) x'), 0,
			"$how: no older version is shown");
		is(value($dbh, 'SELECT count(*) FROM x WHERE n <> 2'), 0, "$how: nor there");
		value($dbh, 'RESET zen.skip_damaged_rows');
	}
	return;
}

sub spoil
{
	my ($path, $at) = @_;
	open(my $fh, '+<:raw', $path) or die "$path: $!";
	seek $fh, $at, 0;
	print $fh 'spoilt';
	close $fh;
	return;
}
