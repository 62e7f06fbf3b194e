# DDL that a crash or a restart meets in the middle, where the catalog and the pool must agree (205_restart.pl has
# the plain cases):
#
# - an index built and rolled back, when the WAL on disk ends before the abort
# - DDL with synchronous_commit off, and rows that depend on it
# - prepared transactions that have changed no row; tables that one transaction moves and empties
# - tablespaces

use strict;
use warnings;

use File::Spec;
use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('ddl', fsync => 1,
	conf => "shared_buffers = 64MB\nwal_writer_delay = 10s\nmax_wal_size = 1GB");
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_async_ddl();
test_rolled_back_index();
set_conf($node, "fsync = off\nwal_writer_delay = 200ms");
test_prepared_ddl();
test_moved_and_emptied();
test_tablespace();
is_sound($dbh, 'at the end');
$dbh->disconnect;
$node->stop;
done_testing();

# The files of an index that was built and rolled back were removed, but an empty one
# stays until the next checkpoint; when the WAL that reached the disk ended before the
# abort, the server did not start: "could not create file: File exists".
sub test_rolled_back_index
{
	make_rows($dbh, 'rb', 100);
	my @cases = (
		[ 'CREATE INDEX', 'BEGIN', 'CREATE INDEX ON rb (v)', undef, 'ROLLBACK' ],
		[ 'REINDEX', 'BEGIN', 'REINDEX TABLE rb', undef, 'ROLLBACK' ],
		[ 'a savepoint', 'BEGIN', 'SAVEPOINT a', 'TRUNCATE rb', undef, 'ROLLBACK TO a' ]);
	for my $case (@cases)
	{
		my ($what, @sql) = @$case;
		run_all($dbh, 'CHECKPOINT');
		stop_wal_writer($dbh);
		my $other = connect_db($node);
		value($_ ? $dbh : $other, $_ // 'CREATE TABLE flush' . between(1, 1e9) . ' ()') for @sql;
		$dbh = crash_restart($node);
		is(value($dbh, 'SELECT count(*) FROM rb WHERE id > 0'), 100, "$what rolled back, crash: the server starts");
	}
}

# With synchronous_commit off the catalog must not lose what rows already written depend on.  In mode wal a row is
# written when its commit record is flushed, so that one waits.
sub test_async_ddl
{
	run_all($dbh, 'CREATE TABLE ad (a int) USING zen', 'INSERT INTO ad VALUES (0)',
		(map { ("ALTER TABLE ad ADD COLUMN x$_ int", "ALTER TABLE ad DROP COLUMN x$_",
		'INSERT INTO ad VALUES (0)') } 1 .. 3), 'VACUUM pg_attribute', 'VACUUM pg_class', 'CHECKPOINT');
	stop_wal_writer($dbh);
	my $mixed = 'SELECT commits_mixed FROM zen_stat';
	run_all($dbh, 'SET synchronous_commit = off', 'ALTER TABLE ad ADD COLUMN b int');
	my $before = value($dbh, $mixed);
	run_all($dbh, 'SET synchronous_commit = on') if by_wal($node);
	run_all($dbh, 'INSERT INTO ad VALUES (1, 42)');
	is(value($dbh, $mixed), $before + by_wal($node), 'asynchronous DDL: nothing else has flushed the WAL');
	$dbh = crash_restart($node);
	is(eval { value($dbh, 'SELECT sum(b) FROM ad') }, 42,
		'asynchronous DDL: the column of a row that is there is there');
}

# A prepared transaction that had changed no row left nothing in the pool: over a
# restart its end did not reach the table's directory entry, and the table was lost.
sub test_prepared_ddl
{
	my $dir = File::Spec->rel2abs(PostgreSQL::Test::Utils::tempdir());
	my %sum = map { $_ => make_rows($dbh, $_, 2000) } qw(m d);
	run_all($dbh, "CREATE TABLESPACE ts LOCATION '$dir'",
		'BEGIN', 'ALTER TABLE m SET TABLESPACE ts', q{PREPARE TRANSACTION 'm'},
		'BEGIN', 'DROP TABLE d', q{PREPARE TRANSACTION 'd'});
	$dbh = clean_restart($node, $dbh);
	is(state_of($dbh, q{COMMIT PREPARED 'm'}), '', 'prepared SET TABLESPACE: commit');
	is(state_of($dbh, q{ROLLBACK PREPARED 'd'}), '', 'prepared DROP TABLE: rollback');
	same_by_index($dbh, $_, $sum{$_}, "prepared DDL on $_, restart") for qw(m d);
	$dbh = clean_restart($node, $dbh);
	same_by_index($dbh, $_, $sum{$_}, "prepared DDL on $_, two restarts") for qw(m d);

	run_all($dbh, 'BEGIN');
	$sum{c} = make_rows($dbh, 'c', 2000);
	run_all($dbh, q{PREPARE TRANSACTION 'c'});
	$dbh = crash_restart($node);
	is(state_of($dbh, q{COMMIT PREPARED 'c'}), '', 'prepared CREATE TABLE: commit after a crash');
	same_by_index($dbh, 'c', $sum{c}, 'prepared CREATE TABLE');
	$dbh = crash_restart($node);
	same_by_index($dbh, $_, $sum{$_}, "prepared DDL on $_, another crash") for qw(m d c);
}

# A table that one transaction moves and empties: its entry in the directory moves, is to be destroyed, and has a
# successor, in either order.
sub test_moved_and_emptied
{
	my @orders = (
		[ 'ALTER TABLE %s SET TABLESPACE ts', 'TRUNCATE %s', 'INSERT INTO %s VALUES (5)' ],
		[ 'TRUNCATE %s', 'INSERT INTO %s VALUES (5)', 'ALTER TABLE %s SET TABLESPACE ts' ]);
	my @ends = (
		[ 'COMMIT' ], [ 'ROLLBACK' ], [ 'nothing' ], [ 'PREPARE', 'COMMIT PREPARED' ],
		[ 'PREPARE', 'ROLLBACK PREPARED' ]);
	my @cases = map { my $order = $_; map { [ $order, @$_ ] } @ends } @orders;
	my @sums  = map { make_rows($dbh, "me$_", 500) } 0 .. $#cases;
	run_all($dbh, 'CREATE TABLE one (LIKE me0 INCLUDING DEFAULTS) USING zen', 'INSERT INTO one VALUES (5)');
	my $new = contents($dbh, 'one');

	my @open;
	for my $i (0 .. $#cases)
	{
		my ($order, $end) = @{ $cases[$i] };
		my $handle = connect_db($node);
		run_all($handle, 'BEGIN', map { sprintf $_, "me$i" } @$order);
		run_all($handle, $end eq 'PREPARE' ? "PREPARE TRANSACTION 'me$i'" : $end) if $end ne 'nothing';
		same_by_index($dbh, "me$i", $end eq 'COMMIT' ? $new : $sums[$i], "moved and emptied ($i), $end")
		  if $end =~ /^(COMMIT|ROLLBACK)$/;
		push @open, $handle;
	}
	$dbh = crash_restart($node);
	for my $i (0 .. $#cases)
	{
		my $last = $cases[$i][-1];
		is(state_of($dbh, "$last 'me$i'"), '', "moved and emptied ($i): $last after a crash") if $last =~ / PREPARED/;
		same_by_index($dbh, "me$i", $last =~ /^COMMIT/ ? $new : $sums[$i], "moved and emptied ($i), crash, $last");
	}
	$dbh = crash_restart($node);
	for my $i (0 .. $#cases)
	{
		same_by_index($dbh, "me$i", $cases[$i][-1] =~ /^COMMIT/ ? $new : $sums[$i],
			"moved and emptied ($i), $cases[$i][-1], another crash");
		is(state_of($dbh, "INSERT INTO me$i VALUES (1000)"), '', "moved and emptied ($i): a new row");
		run_all($dbh, "DROP TABLE me$i");
	}
	return;
}

# Tables and indexes move between tablespaces, and stay there over a restart.
sub test_tablespace
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	run_all($dbh, "CREATE TABLESPACE elsewhere LOCATION '$dir'");
	for my $kind ('btree', 'zentree')
	{
		run_all($dbh, "SET zen.default_index = $kind", 'CREATE TABLE ts (id int PRIMARY KEY, v text) USING zen',
			"CREATE INDEX ts_v ON ts USING $kind (v)",
			q{INSERT INTO ts SELECT g, repeat('v', g * 10) FROM generate_series(1, 1000) g});
		my $rows = contents($dbh, 'ts');
		run_all($dbh, 'ALTER TABLE ts SET TABLESPACE elsewhere', 'ALTER INDEX ts_pkey SET TABLESPACE elsewhere');
		is(contents($dbh, 'ts'), $rows, "$kind: SET TABLESPACE keeps the rows");
		is(contents($dbh, 'ts', 'indexscan', 'id > 0'), $rows, "$kind: and the index");
		run_all($dbh, 'BEGIN', 'ALTER TABLE ts SET TABLESPACE pg_default', 'DELETE FROM ts', 'ROLLBACK');
		is(contents($dbh, 'ts'), $rows, "$kind: SET TABLESPACE rolled back");
		run_all($dbh, 'BEGIN', 'ALTER INDEX ALL IN TABLESPACE elsewhere SET TABLESPACE pg_default', 'ROLLBACK');
		is(contents($dbh, 'ts', 'indexscan', 'id > 0'), $rows, "$kind: ALL IN TABLESPACE rolled back");
		run_all($dbh, 'ALTER INDEX ALL IN TABLESPACE elsewhere SET TABLESPACE pg_default',
			'ALTER TABLE ALL IN TABLESPACE elsewhere SET TABLESPACE pg_default');
		is(contents($dbh, 'ts', 'indexscan', 'id > 0'), $rows, "$kind: ALL IN TABLESPACE");
		is(contents($dbh, 'ts', 'indexscan', q{v > ''}), $rows, "$kind: the index that was not there");
		is(state_of($dbh, 'INSERT INTO ts VALUES (7)'), '23505', "$kind: unique");
		$dbh = clean_restart($node, $dbh);
		is(contents($dbh, 'ts'), $rows, "$kind: all there after a restart");
		run_all($dbh, 'DROP TABLE ts');
	}
	run_all($dbh, 'DROP TABLESPACE elsewhere');
	return;
}
