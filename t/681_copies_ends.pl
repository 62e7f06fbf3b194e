# A copy whose WAL ends anywhere has what was committed before some moment, and nothing else (R18).
#
# A primary crashes with transactions that the WAL has lost, and of these
#
# - pages: pages were left empty, new ones taken, and a transaction is under way;
# - slots: slots are taken again and again.
#
# All of it is in what its recovery writes to the WAL.  A backup is recovered up to one record, and to the next one, and
# so on: as if the primary had been lost then, or as to a time between crash and start.
#
# Then the rules are broken, and some end must show it.
#
#   POINTS=n      so many of the records, chosen by seed (default 8, of each kind); 0: all
#   FAULTS="a b"  only these

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use List::Util qw(max min shuffle);
use PoolFile ();
use Test::More;
use ZenTest;

use constant { ROWS => 240, DURABLE => 150, LOST => 100 };

# behind so many transactions as many as are lost take pages, and leave others empty
my %before = (pages => DURABLE, slots => 0);
my %faults = (r18_tail_late => 'pages', r18_free_first => 'pages', r18_tail_in_parts => 'slots');
my $kind;
my $n;    # of the last transaction

skip_unless_zen();
skip_unless_faults();
choose_seed();
test_ends($_) for 'pages', 'slots';
test_fault($_) for defined $ENV{FAULTS} ? split ' ', $ENV{FAULTS} : sort keys %faults;
done_testing();

sub test_ends
{
	($kind) = @_;
	my ($primary, @ends) = crashed_primary($kind);
	my $points = $ENV{POINTS} // 8;
	@ends = (shuffle(@ends))[ 0 .. $points - 1 ] if $points && $points < @ends;
	is(wrong_behind($primary, @$_), '', "$kind: recovery ends behind $_->[1] at $_->[0]") for @ends;
	$primary->stop;
	return;
}

sub test_fault
{
	my ($fault) = @_;
	$kind = $faults{$fault};
	my ($primary, @ends) = crashed_primary($fault, $fault);
	@ends = shuffle(@ends);
	my $tried = 0;
	my $wrong = '';
	$wrong = wrong_behind($primary, @{ $ends[ $tried++ ] }) while $wrong eq '' && $tried < @ends;
	isnt($wrong, '', "$fault is caught, by end $tried of " . @ends . ': ' . substr $wrong, 0, 200);
	$primary->stop;
	return;
}

# crashed_primary -- a primary that has recovered from a crash, with the backup 'base', and [ end, kind ] of the records
# of zen since some time before.
sub crashed_primary
{
	my ($name, $fault) = @_;
	# what is not in a file is lost: nobody needs a buffer of WAL, or of a table, that is in use
	my $primary = copy_primary($name, faults => $fault ? 1 : 0, conf => "wal_buffers = 4MB\nshared_buffers = 32MB");
	$primary->start;
	my $dbh = connect_db($primary);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE EXTENSION pg_walinspect',
		'CREATE TABLE t (id int PRIMARY KEY, n int, v text) USING zen', 'CREATE TABLE gone (id int, v text) USING zen',
		'CREATE TABLE new (id int, v text) USING zen', 'CREATE TABLE loser (id int, v text) USING zen',
		(map { "ALTER TABLE $_ ALTER v SET STORAGE PLAIN" } 't', 'gone', 'new'),
		"INSERT INTO t SELECT g, 0, repeat('t', 1900) FROM generate_series(0, @{[ ROWS - 1 ]}) g",
		"INSERT INTO gone SELECT g, repeat('g', 1900) FROM generate_series(1, @{[ LOST ]}) g");
	$primary->backup('base');
	reload_conf($primary, "zen.fault = '$fault'") if $fault;
	$n = 0;
	transaction($dbh) while $n < DURABLE;
	# the pages of deleted rows are given back now: what happens if the WAL loses that is not mended yet
	# (src/stream/README, "Not there yet")
	run_all($dbh, 'VACUUM gone', 'CHECKPOINT');
	my $from = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	my $loser = lose_transactions($primary, $dbh);
	crash($primary);
	start_again($primary);
	$dbh = connect_db($primary);
	wait_recovered($dbh);
	is(n_of($dbh), $n, "$name: has all rows");
	my $lost = value($dbh, 'SELECT logged_again FROM zen_stream()');
	cmp_ok($lost, '>=', LOST / 2, "$name: $lost transactions were lost by the WAL");
	value($dbh, 'CHECKPOINT');    # flushes the WAL
	my @ends = @{ $dbh->selectall_arrayref(
			"SELECT end_lsn, record_type FROM pg_get_wal_records_info('$from', pg_current_wal_flush_lsn()) "
			  . q{WHERE resource_manager = 'zen' AND record_type <> 'TABLES'}) };
	cmp_ok(scalar @ends, '>', 20, "$name: " . @ends . ' records');
	$dbh->disconnect;
	return ($primary, @ends);
}

# lose_transactions -- nobody flushes the WAL.  Returns a session that may have a transaction under way.
sub lose_transactions
{
	my ($primary, $dbh) = @_;
	stop_wal_writer($dbh);
	my $loser = connect_db($primary);
	# while this runs no slot is taken again, and no page given back
	run_all($loser, 'SET zen.spill_threshold = 0', 'BEGIN') if $kind eq 'pages';
	while ($n < DURABLE + LOST)
	{
		transaction($dbh);
		value($loser, q{INSERT INTO loser VALUES (1, repeat('l', 100))}) if $kind eq 'pages' && $n % 3 == 0;
	}
	return $loser;
}

# row_of -- the row that the n-th transaction changes: one often, some now and then, and most never.  So each page of t
# keeps rows and loses others, and is never given back.
sub row_of { return $_[0] % 2 ? 0 : 4 * ($_[0] / 2 % (ROWS / 4)); }

# transaction -- the n-th: a row of t gets the number; and of some, a row of gone goes and one of new comes.
sub transaction
{
	my ($dbh) = @_;
	my $m = ++$n - $before{$kind};
	my @more = ("DELETE FROM gone WHERE id = $m", "INSERT INTO new VALUES ($m, repeat('n', 1500))");
	@more = () if $m < 1 || $m > LOST;
	run_all($dbh, 'BEGIN', "UPDATE t SET n = $n WHERE id = " . row_of($n), @more, 'COMMIT');
	return;
}

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
	my $m = min(LOST, max(0, $k - $before{$kind}));
	my %last = map { row_of($_) => $_ } 1 .. $k;
	my $expected = join ' | ', join(' ', map { "$_=" . ($last{$_} // 0) } 0 .. ROWS - 1), join(' ', $m + 1 .. LOST),
	  join(' ', 1 .. $m), 0;
	return $seen eq $expected ? $k : "$seen, and not $expected";
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
	my $k = n_of($dbh);
	my @wrong = findings($dbh);
	push @wrong, "rows: $k" if $k !~ /^\d+$/;
	push @wrong, "rows of transaction $k" if $k =~ /^\d+$/ && $k < DURABLE;
	$dbh->disconnect;
	$copy->stop;
	push @wrong, map { "free page $_ is not zero" } PoolFile::dirty_free_pages($copy->data_dir . '/zen.pool');
	$copy->clean_node;
	return join "\n", @wrong;
}
