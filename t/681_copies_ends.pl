# A copy whose WAL ends anywhere has what was committed before some moment, and nothing else (R18).
#
# A primary crashes with transactions that the WAL has lost, and of these
#
# - pages: pages were left empty, new ones taken, and a transaction is under way;
# - slots: slots are taken again and again;
# - returned: pages with old versions of deleted rows were given back;
# - condemned: the primary crashes while it gives all of them back;
# - spilled: a transaction under way has overwritten such versions.
#
# All of it is in what its recovery writes to the WAL.  A backup is recovered up to one record, and to the next one, and
# so on: as if the primary had been lost then, or as to a time between crash and start.
#
# In mode wal these commit asynchronously, and a crash loses them: the primary, too, has what was committed before some
# moment.  Its recovery writes no TAIL.
#
# Another primary (moved) crashes when SET TABLESPACE has committed, and the pool still has the table at its old place.
#
# Then the rules are broken, and some end must show it.
#
#   POINTS=n      so many of the records, chosen by seed (default 1, of each kind), beside those behind TAIL and the
#                 last ZERO; 0: all
#   FAULTS="a b"  only these; KINDS="a b": only these

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use List::Util qw(max min shuffle);
use PoolFile ();
use Test::More;
use ZenTest;

# rows of t; transactions that are durable; of gone: rows that go one by one, and rows that go at once
use constant { ROWS => 240, DURABLE => 150, LOST => 100, BULK => 340 };

my @kinds = qw(pages slots returned condemned spilled);
my @faults = (
	[ r18_tail_late       => 'pages' ],
	[ r18_free_first      => 'pages' ],
	[ r18_tail_in_parts   => 'slots' ],
	[ r18_forgotten_early => 'returned' ],
	[ r18_forgotten_early => 'spilled' ],
	[ r18_pages_late      => 'condemned' ]);
my $by_wal;
my $kind;
my $n;        # of the last transaction
my $before;   # behind this one the rows of gone go one by one
my $bulk;     # this one deletes the others; 0: none does

skip_unless_zen();
skip_unless_faults();
skip_unless_modules('pg_walinspect');
choose_seed();
$by_wal = by_wal(copy_primary('mode'));
# there is no tail; with this one slots are taken again that only a lost transaction has freed
@faults = ([ w4_no_lag => 'slots' ]) if $by_wal;
$_ eq 'moved' ? test_moved() : test_ends($_) for split ' ', $ENV{KINDS} // "@kinds moved";
my %wanted = map { $_ => 1 } split ' ', $ENV{FAULTS} // join ' ', map { $_->[0] } @faults;
test_fault(@$_) for grep { $wanted{ $_->[0] } } @faults;
done_testing();

sub test_ends
{
	($kind) = @_;
	my ($primary, @ends) = crashed_primary($kind);
	my $points = $ENV{POINTS} // 1;
	@ends = telling($points, @ends) if $points;
	is(wrong_behind($primary, @$_), '', "$kind: recovery ends behind $_->[1] at $_->[0]") for @ends;
	$primary->stop;
	return;
}

sub test_fault
{
	(my $fault, $kind) = @_;
	my ($primary, @ends) = crashed_primary("${fault}_$kind", $fault);
	@ends = telling(scalar @ends, @ends);
	my $tried = 0;
	my $wrong = $by_wal ? wrong_now($primary) : '';
	$wrong = wrong_behind($primary, @{ $ends[ $tried++ ] }) while $wrong eq '' && $tried < @ends;
	isnt($wrong, '', "$fault is caught by $kind, at end $tried of " . @ends . ': ' . substr $wrong, 0, 200);
	$primary->stop;
	return;
}

sub wrong_now
{
	my $dbh = connect_db($_[0]);
	my $wrong = wrong_rows($dbh);
	$dbh->disconnect;
	return $wrong;
}

sub test_moved
{
	$kind = 'moved';
	my $primary = copy_primary($kind, faults => 1, conf => 'allow_in_place_tablespaces = on');
	$primary->start;
	my $dbh = connect_db($primary);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE EXTENSION pg_walinspect', q{CREATE TABLESPACE s LOCATION ''},
		'CREATE TABLE t USING zen AS SELECT generate_series(1, 1000)');
	$primary->backup('base');
	my $from = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	inject_fault($primary, $dbh, 'r18_stop_moved');
	isnt(state_of($dbh, 'ALTER TABLE t SET TABLESPACE s'), '', "$kind: the server stops");
	let_end($primary);
	set_conf($primary, q{zen.fault = 'none'});
	start_again($primary);
	$dbh = connect_db($primary);
	wait_recovered($dbh);
	is(wrong_moved($dbh), '', "$kind: has all rows");
	my @ends = ends_since($dbh, $from);
	$dbh->disconnect;
	is(wrong_behind($primary, @$_), '', "$kind: recovery ends behind $_->[1] at $_->[0]") for @ends;
	$primary->stop;
	return;
}

sub wrong_moved
{
	my $result = run_sql($_[0], 'SELECT count(*) FROM t');
	return $result->{message} || ($result->{rows}[0][0] == 1000 ? '' : "$result->{rows}[0][0] rows");
}

# ends_since -- [ end, kind ] of the records of zen since a place.
sub ends_since
{
	my ($dbh, $from) = @_;
	value($dbh, 'CHECKPOINT');    # flushes the WAL
	return @{ $dbh->selectall_arrayref(
			"SELECT end_lsn, record_type FROM pg_get_wal_records_info('$from', pg_current_wal_flush_lsn()) "
			  . q{WHERE resource_manager = 'zen' AND record_type <> 'TABLES'}) };
}

# telling -- the ends behind TAIL, the record behind it, and the last ZERO; then at most so many of the others.
sub telling
{
	my ($points, @ends) = @_;
	my ($tail) = grep { $ends[$_][1] eq 'TAIL' } 0 .. $#ends;
	my ($zero) = reverse grep { $ends[$_][1] eq 'ZERO' } 0 .. $#ends;
	my %first = map { $_ => 1 } grep { defined } $tail, defined $tail ? $tail + 1 : undef, $zero;
	my @others = shuffle(grep { !$first{$_} } 0 .. $#ends);
	return @ends[ (sort { $a <=> $b } keys %first), @others[ 0 .. min($points, scalar @others) - 1 ] ];
}

# crashed_primary -- a primary that has recovered from a crash, with the backup 'base', and [ end, kind ] of the records
# of zen since some time before.
sub crashed_primary
{
	my ($name, $fault) = @_;
	# what is not in a file is lost: nobody needs a buffer of WAL, or of a table, that is in use
	my $primary = copy_primary($name, faults => $fault || $kind eq 'condemned' ? 1 : 0,
		conf => "wal_buffers = 4MB\nshared_buffers = 32MB");
	$primary->start;
	my $dbh = connect_db($primary);
	my $other = make_tables($primary, $dbh);
	$primary->backup('base');
	reload_conf($primary, "zen.fault = '$fault'") if $fault;
	($n, $before, $bulk) = (0, { pages => DURABLE, slots => 0 }->{$kind}, 0);
	transaction($dbh) while $n < DURABLE;
	value($dbh, 'CHECKPOINT');
	my $from = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	stop_wal_writer($dbh);
	lose_transactions($primary, $dbh, $other);
	if ($kind eq 'condemned') { let_end($primary); }
	else                      { crash($primary); }
	set_conf($primary, "zen.fault = '" . ($fault // 'none') . q{'}) if $kind eq 'condemned';
	start_again($primary);
	$dbh = connect_db($primary);
	wait_recovered($dbh);
	if (!$by_wal) { has_all($dbh, $name); }
	elsif (!$fault) { has_lost($dbh, $name); }
	my @ends = ends_since($dbh, $from);
	cmp_ok(scalar @ends, '>', 20, "$name: " . @ends . ' records');
	$dbh->disconnect;
	return ($primary, @ends);
}

sub has_all
{
	my ($dbh, $name) = @_;
	is(n_of($dbh), $n, "$name: has all rows");
	my $lost = value($dbh, 'SELECT logged_again FROM zen_stat_stream');
	cmp_ok($lost, '>=', LOST / 2, "$name: $lost transactions were lost by the WAL");
	return;
}

# has_lost -- mode wal: asynchronous commits are lost, from the last flush of the WAL on.
sub has_lost
{
	my ($dbh, $name) = @_;
	is(wrong_rows($dbh), '', "$name: has the rows of some moment");
	my $lost = $n - n_of($dbh);
	cmp_ok($lost, '>=', LOST / 2, "$name: $lost transactions are lost");
	is(value($dbh, 'SELECT logged_again FROM zen_stat_stream'), 0, "$name: none was logged again");
	return;
}

# make_tables -- the rows of gone are of another region than those that $dbh writes: of the session that is returned.
# So the region of $dbh has no empty page, and the tombstones are there.
sub make_tables
{
	my ($primary, $dbh) = @_;
	my $other = connect_db($primary);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE EXTENSION pg_walinspect',
		'CREATE TABLE t (id int PRIMARY KEY, n int, v text) USING zen', 'CREATE TABLE gone (id int, v text) USING zen',
		'CREATE TABLE new (id int, v text) USING zen', 'CREATE TABLE loser (id int, v text) USING zen',
		(map { "ALTER TABLE $_ ALTER v SET STORAGE PLAIN" } 't', 'gone', 'new'),
		"INSERT INTO t SELECT g, 0, repeat('t', 1900) FROM generate_series(0, @{[ ROWS - 1 ]}) g",
		'SET zen.spill_threshold = 0', 'BEGIN', ('UPDATE t SET n = 0 WHERE id < 2') x 2);
	value($other, "INSERT INTO gone SELECT g, repeat('g', 1900) FROM generate_series(1, @{[ LOST + BULK ]}) g");
	run_all($dbh, 'COMMIT', 'RESET zen.spill_threshold');
	return $other;
}

# lose_transactions -- nobody flushes the WAL unasked.
sub lose_transactions
{
	my ($primary, $dbh, $other) = @_;
	# what keeps the versions of the rows that go at once, or gives them up
	delete_bulk($primary, $dbh) if $kind ne 'pages' && $kind ne 'slots';
	# while a transaction runs no slot is taken again, and no page given back
	run_all($other, 'SET zen.spill_threshold = 0', 'BEGIN') if $kind eq 'pages' || $kind eq 'spilled';
	run_all($other, "INSERT INTO gone SELECT 1000 + g, repeat('s', 1900) FROM generate_series(1, @{[ BULK ]}) g",
		"INSERT INTO gone VALUES (2000, repeat('s', 1900))") if $kind eq 'spilled';
	$before //= $n;
	value($dbh, 'SET synchronous_commit = off') if $by_wal;
	my $last = $before + LOST + ($kind eq 'slots' ? DURABLE : 0);
	while ($n < $last)
	{
		transaction($dbh);
		value($other, q{INSERT INTO loser VALUES (1, repeat('l', 100))}) if $kind eq 'pages' && $n % 3 == 0;
	}
	crash_condemned($primary, $dbh) if $kind eq 'condemned';
	return;
}

# delete_bulk -- many rows go at once, and other transactions find their old versions.  What they have left is given
# back, unless somebody stops that.
sub delete_bulk
{
	my ($primary, $dbh) = @_;
	my $of_pool = sub { value($dbh, "SELECT $_[0] FROM zen_stat") };
	stop_asleep($dbh, 'zen worker') if $kind ne 'returned';
	my ($free, $pending) = ($of_pool->('pages_free'), $of_pool->('garbage_pending'));
	$bulk = $n + 1;
	transaction($dbh);
	wait_for('the rows to be collected', sub {
			# many more need a page, and to take one that was given back flushes the WAL
			transaction($dbh) if $n < $bulk + 100;
			return $kind eq 'returned' ? $of_pool->('pages_free') > $free + 3 :
			  $of_pool->('garbage_pending') < $pending + 10; });
	return;
}

# crash_condemned -- the primary ends when it has said of all empty pages that nothing on them counts.
sub crash_condemned
{
	my ($primary, $dbh) = @_;
	inject_fault($primary, $dbh, 'r18_stop_condemned');
	my $before = log_size($primary);
	isnt(state_of($dbh, 'VACUUM gone'), '', "$kind: the server stops");
	like(log_since($primary, $before), qr/the server stops here/, "$kind: it says so");
	return;
}

# row_of -- the row that the n-th transaction changes: one often, some now and then, and most never.  So each page of t
# keeps rows and loses others, and is never given back.
sub row_of { return $_[0] % 2 ? 0 : 4 * ($_[0] / 2 % (ROWS / 4)); }

# transaction -- the n-th: a row of t gets the number; some rows of gone go, and one of new may come.
sub transaction
{
	my ($dbh) = @_;
	my $m = defined $before ? ++$n - $before : ++$n && 0;
	my @more;
	push @more, "DELETE FROM gone WHERE id = $m" if $m >= 1 && $m <= LOST;
	push @more, "INSERT INTO new VALUES ($m, repeat('n', 1500))" if @more && makes_new();
	push @more, bulk_deletes() if $n == $bulk;
	run_all($dbh, 'BEGIN', "UPDATE t SET n = $n WHERE id = " . row_of($n), @more, 'COMMIT');
	return;
}

# bulk_deletes -- of each page; a row of each goes last, since the last tombstones are the first to be written over.  A
# page that is to stay with its region keeps rows.
sub bulk_deletes
{
	my $all = 'DELETE FROM gone WHERE id > ' . LOST;
	return "$all AND id % 4 <> 0" if $kind eq 'spilled';
	return ("$all AND id % 17 <> 0", $all);
}

sub makes_new { return $kind eq 'pages' || $kind eq 'slots'; }

# n_of -- after how many transactions are the tables as they are?  Else a text.
sub n_of
{
	my ($dbh) = @_;
	my $result = run_sql($dbh, q{SELECT (SELECT string_agg(id || '=' || n, ' ' ORDER BY id) FROM t),
		(SELECT string_agg(id::text, ' ' ORDER BY id) FROM gone),
		(SELECT string_agg(id::text, ' ' ORDER BY id) FROM new), (SELECT count(*) FROM loser)});
	return $result->{message} if $result->{state};
	my $seen = join ' | ', map { $_ // '' } @{ $result->{rows}[0] };
	my $k = max(0, $seen =~ /=(\d+)/g);
	my $m = defined $before ? min(LOST, max(0, $k - $before)) : 0;
	my %last = map { row_of($_) => $_ } 1 .. $k;
	my @gone = grep { !$bulk || $k < $bulk || $kind eq 'spilled' && $_ % 4 == 0 } LOST + 1 .. LOST + BULK;
	my $expected = join ' | ', join(' ', map { "$_=" . ($last{$_} // 0) } 0 .. ROWS - 1),
	  join(' ', $m + 1 .. LOST, @gone), join(' ', makes_new() ? 1 .. $m : ()), 0;
	return $seen eq $expected ? $k : "$seen, and not $expected";
}

sub wrong_rows
{
	my $k = n_of($_[0]);
	return "rows: $k" if $k !~ /^\d+$/;
	return $k < DURABLE ? "rows of transaction $k" : '';
}

# wrong_behind -- of a backup that is recovered up to a record; '' for nothing.
sub wrong_behind
{
	my ($primary, $lsn) = @_;
	my $copy = copy_of($primary, $primary->name . '_' . $lsn =~ s{/}{_}r, 'base');
	set_conf($copy, join "\n", "restore_command = 'cp " . $primary->data_dir . q{/pg_wal/%f %p'},
		"recovery_target_lsn = '$lsn'", 'recovery_target_inclusive = off', 'recovery_target_action = promote');
	signal_file($copy, 'recovery');
	$copy->start;
	my $dbh = wait_promoted($copy);
	my @wrong = (findings($dbh), grep { $_ ne '' } $kind eq 'moved' ? wrong_moved($dbh) : wrong_rows($dbh));
	$dbh->disconnect;
	$copy->stop;
	push @wrong, map { "free page $_ is not zero" } PoolFile::dirty_free_pages($copy->data_dir . '/zen.pool');
	$copy->clean_node;
	return join "\n", @wrong;
}
