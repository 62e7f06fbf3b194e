# PowerScenarios -- the scenarios of the power-cut test.
#
# A scenario is a hash:
#
#   setup    SQL, run once and followed by an orderly stop
#   prelude  steps in the life of the server that the power cut ends
#   steps    what the power cut may hit; the state after each of them is known
#   recover  how many cuts in a row hit the recovery that follows
#   recover_all  it is cut after every crash point, not only after some, when all crash points are tried
#   recover_from  the choice, a seed, of what it begins with; 0: only what is certain
#   first    SQL that a recovered server runs before anybody needs a zen table
#   process_crash  at each crash point processes crash first, and the power is cut after that
#   long     only in the long version
#   stop     ends with an orderly stop
#   files    of the pool, from the first recorded start on; it was made with one
#   from_start   the crash points begin with that start
#   first_start  there is no pool yet; the crash points are those of the start that makes it
#   conf     lines of postgresql.conf, for this scenario; options  of the postmaster that recovers
#   async, snaps  see PowerWalScenarios
#
# A step is [ session, SQL or sub, options ]; quiet => 1: no crash points, and nothing that counts
# happens; fails => 1: with an error; either => n: it may be found done nevertheless up to crash point n.  Tables are
# made by table() and have zen's access method unless they say heap; what a table named scratch... holds does not count.
#  The same steps run on PostgreSQL's heap to learn which state is right after each.

package PowerScenarios;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils ();
use PowerDeltaScenarios ();
use PowerWalScenarios ();
use ZenTest ();

our @EXPORT_OK = qw(scenarios);

sub table
{
	my ($name, $rows) = @_;
	return ("CREATE TABLE $name (id int PRIMARY KEY, k int, v text)", "CREATE INDEX ${name}_k ON $name (k)",
		$rows ? "INSERT INTO $name SELECT g, g % 7, 'row ' || g FROM generate_series(1, $rows) g" : ());
}

sub heap
{
	my ($name) = @_;
	return "CREATE TABLE $name (id int PRIMARY KEY, v text) USING heap";
}

# rounds_of -- transactions that change the same rows, end thus (NO: the round's number), and are followed by another
# commit.  The rows' slots have 80 bytes, so every fourth header is the last of its line.
sub rounds_of
{
	my (@end) = @_;
	return map {
		my $round = $_;
		(q{BEGIN}, "UPDATE t SET v = 'rolled back, so never seen ' || $round WHERE id < 9",
			(map { s/NO/$round/r } @end),
			"UPDATE scratch SET v = 'commit $round' WHERE id = 1")
	} 1 .. 6;
}

# copy_of -- a load of rows with these keys.
sub copy_of
{
	my ($first, $last) = @_;
	return "COPY t FROM PROGRAM 'seq $first $last | sed \"s/.*/&,1,copied &/\"' WITH (FORMAT csv)";
}

# churn -- commits enough for garbage to be collected in the region of this session.
sub churn
{
	my ($session, $rounds) = @_;
	$rounds ||= 60;
	return [ $session, "DO \$\$ BEGIN FOR i IN 1..$rounds LOOP UPDATE scratch SET v = 'churn ' || i "
		  . "WHERE id = 1; COMMIT; END LOOP; END \$\$",
		{ quiet => 1 } ];
}

# in_a -- steps of session a.
sub in_a { return [ map { [ 'a', $_ ] } @_ ]; }

# two_regions -- sessions a and b write to different regions from now on: a prepared
# transaction keeps the first one from b.
sub two_regions
{
	return ([ a => q{BEGIN} ], [ a => q{INSERT INTO scratch VALUES (-1, 0, 'hold')} ],
		[ a => q{PREPARE TRANSACTION 'hold'} ],
		[ b => q{UPDATE scratch SET v = 'b' WHERE id = 2} ], [ a => q{ROLLBACK PREPARED 'hold'} ],
		[ a => q{UPDATE scratch SET v = 'a' WHERE id = 3} ]);
}

# NOTIFY needs more than its buffers after LP is set, and cannot have it.  Until LP is taken
# back, at the crash point $either, the transaction may be found committed.
sub late_error
{
	my ($either) = @_;
	return ([ a => sub { chmod 0, "$_[0]/pg_notify" } ], [ a => q{COMMIT}, { fails => 1, either => $either } ],
		[ a => sub { chmod 0700, "$_[0]/pg_notify" } ]);
}
my $notify = q{SELECT count(pg_notify('x', g || repeat('y', 7000))) FROM generate_series(1, 40) g};

sub row_scenarios
{
	return (
		insert => {
			setup => [ table('t', 20), 'CREATE TABLE s (id int)' ],
			steps => in_a(q{INSERT INTO t VALUES (100, 1, 'new')}, q{INSERT INTO s VALUES (1)},
				q{INSERT INTO s VALUES (2)},
				q{INSERT INTO t VALUES (101, 2, NULL)}),
		},
		update => {
			setup => [ table('t', 20) ],
			steps => in_a(map { "UPDATE t SET v = 'version $_' WHERE id = 5" } 1 .. 4),
		},
		delete => {
			setup => [ table('t', 20) ],
			steps => in_a('DELETE FROM t WHERE id = 5', 'DELETE FROM t WHERE id = 20',
				q{INSERT INTO t VALUES (5, 1, 'again')},
				'DELETE FROM t WHERE id = 5'),
		},
		several_rows => {
			setup => [ table('t', 20) ],
			steps => in_a(q{INSERT INTO t SELECT g, g, 'new' FROM generate_series(100, 109) g},
				q{BEGIN}, q{UPDATE t SET v = 'changed' WHERE id < 6}, q{DELETE FROM t WHERE id IN (7, 104)},
				q{INSERT INTO t VALUES (200, 5, 'more')}, q{COMMIT}),
		},
		several_tables => {
			setup => [ table('t', 20), table('u', 5), table('w', 5) ],
			steps => in_a((q{BEGIN}, q{INSERT INTO t VALUES (100 + (SELECT count(*) FROM u), 1, 'new')},
				q{UPDATE u SET v = v || '!' WHERE id < 4}, q{DELETE FROM w WHERE id = (SELECT min(id) FROM w)},
				q{DELETE FROM u WHERE id = (SELECT max(id) FROM u)}, q{COMMIT}) x 2),
		},
		key_change => {
			setup => [ table('t', 20) ],
			steps => in_a('UPDATE t SET k = k + 100 WHERE id = 3', 'UPDATE t SET id = id + 1000 WHERE id = 4',
				'UPDATE t SET k = -k, id = -id WHERE id IN (5, 6)', 'DELETE FROM t WHERE id = -5'),
		},
		many_lines => {
			setup => [ table('t', 5) ],
			steps => in_a((map { "UPDATE t SET v = (SELECT string_agg(md5((g * $_)::text), '') "
				  . "FROM generate_series(1, 50) g) WHERE id = 1" } 1 .. 3),
				q{UPDATE t SET v = (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 500) g) WHERE id = 2}),
		},
		two_writers => {
			setup   => [ table('t', 20), table('scratch', 3) ],
			prelude => [ two_regions() ],
			steps   => [ [ a => q{BEGIN} ], [ b => q{BEGIN} ], [ a => q{UPDATE t SET v = 'a' WHERE id < 3} ],
				[ b => q{UPDATE t SET v = 'b' WHERE id BETWEEN 5 AND 8} ], [ b => q{COMMIT} ],
				[ a => q{UPDATE t SET v = 'a too' WHERE id = 6} ],
				[ a => q{COMMIT} ], [ b => q{UPDATE t SET v = 'b again' WHERE id < 7} ],
					[ a => q{DELETE FROM t WHERE id = 1} ] ],
		},
		savepoint => {
			setup => [ table('t', 20) ],
			steps => in_a(q{BEGIN}, q{INSERT INTO t VALUES (100, 1, 'kept')}, q{SAVEPOINT s},
				q{UPDATE t SET v = 'gone' WHERE id < 5},
				q{INSERT INTO t VALUES (101, 1, 'gone')}, q{ROLLBACK TO s}, q{UPDATE t SET v = 'kept' WHERE id = 4},
					q{SAVEPOINT r},
				q{DELETE FROM t WHERE id = 6}, q{RELEASE r}, q{COMMIT}),
		},
		spilled => {
			setup   => [ table('t', 60) ],
			prelude => [ [ a => 'SET zen.spill_threshold = 0' ] ],
			steps   => in_a(q{BEGIN}, q{INSERT INTO t SELECT g, g, 'new' FROM generate_series(100, 111) g},
				q{UPDATE t SET v = v || '!' WHERE id BETWEEN 5 AND 12}, q{DELETE FROM t WHERE id BETWEEN 20 AND 24},
				q{UPDATE t SET k = -k WHERE id BETWEEN 30 AND 33}, q{SAVEPOINT s},
					q{UPDATE t SET v = 'gone' WHERE id > 50},
				q{ROLLBACK TO s}, q{UPDATE t SET v = v || '?' WHERE id BETWEEN 100 AND 102}, q{COMMIT},
				q{UPDATE t SET v = 'x' WHERE id > 54}, q{BEGIN}, q{DELETE FROM t WHERE id < 8}, q{ROLLBACK},
				q{UPDATE t SET v = v || '.' WHERE id < 4}),
		},
		# Rows of two tables, of a savepoint and of its parent, spilled in one piece.
		spilled_together => {
			setup => [ table('t', 20), table('u', 10) ],
			steps => in_a(q{BEGIN}, q{INSERT INTO t SELECT g, g, 'new' FROM generate_series(100, 170) g},
				q{INSERT INTO u SELECT g, g, repeat('x', g % 90) FROM generate_series(100, 130) g}, q{SAVEPOINT s},
				q{INSERT INTO t SELECT g, g, 'gone' FROM generate_series(200, 230) g},
				q{UPDATE u SET v = 'gone' WHERE id < 5}, q{SET LOCAL zen.spill_threshold = 0},
				q{INSERT INTO u VALUES (300, 1, 'has them spilled')}, q{ROLLBACK TO s},
				q{UPDATE t SET v = 'changed' WHERE id BETWEEN 168 AND 212},
				q{INSERT INTO u VALUES (200, 1, 'kept')}, q{COMMIT}, q{DELETE FROM t WHERE id BETWEEN 110 AND 160},
				q{INSERT INTO t SELECT g, g, 'again' FROM generate_series(120, 150) g},
				q{UPDATE u SET v = 'last' WHERE id = 125}),
		},
		loaded => {
			setup   => [ table('t', 10) ],
			prelude => [ [ a => 'SET zen.spill_threshold = 0' ] ],
			steps   => in_a(q{BEGIN}, copy_of(100, 170), q{SAVEPOINT s}, copy_of(200, 215), q{ROLLBACK TO s},
				copy_of(210, 220), q{UPDATE t SET v = 'changed' WHERE id BETWEEN 165 AND 212}, q{COMMIT},
				q{DELETE FROM t WHERE id BETWEEN 110 AND 150}, q{VACUUM t}, copy_of(120, 140), q{BEGIN},
				copy_of(300, 310), q{ROLLBACK}, q{BEGIN}, copy_of(300, 305), q{PREPARE TRANSACTION 'p'},
				q{COMMIT PREPARED 'p'}, q{UPDATE t SET v = 'last' WHERE id = 303}),
		},
		spilled_mixed => {
			setup   => [ table('t', 20), heap('h') ],
			prelude => [ [ a => 'SET zen.spill_threshold = 0' ] ],
			steps   => in_a(q{BEGIN}, q{UPDATE t SET v = 'mixed' WHERE id < 9}, q{INSERT INTO h VALUES (1, 'a')},
				q{SAVEPOINT s},
				q{UPDATE t SET v = 'gone' WHERE id = 12}, q{ROLLBACK TO s}, q{COMMIT}, q{BEGIN},
					q{DELETE FROM t WHERE id < 7},
				q{UPDATE t SET v = 'again' WHERE id BETWEEN 8 AND 12}, q{UPDATE t SET v = 'and again' WHERE id = 8},
				q{PREPARE TRANSACTION 'p'}, q{COMMIT PREPARED 'p'}, q{UPDATE t SET v = 'last' WHERE id = 10}),
		},
		# Rows are spilled and rolled back, the region commits, and the same slots are written for the same rows once
		# more: a cut may leave the new Tx-CTS over the old body, and in every other round the two differ in one bit.
		rolled_back => {
			setup   => [ table('t', 20), table('scratch', 3) ],
			prelude => [ [ a => q{SET zen.spill_threshold = '1MB'} ] ],
			steps   => in_a(rounds_of(q{SET LOCAL zen.spill_threshold = 0},
				q{UPDATE scratch SET v = 'has them spilled' WHERE id = 2}, 'ROLLBACK')),
		},
		large_tx => {
			setup => [ table('t', 20) ],
			steps => in_a(q{INSERT INTO t SELECT g, g, repeat('x', g % 90) FROM generate_series(100, 1500) g},
				q{UPDATE t SET v = v || 'y'}),
		});
}

# Slots and TIDs that are used again.
sub reuse_scenarios
{
	return (
		anchor => {
			setup   => [ table('t', 20), table('scratch', 3) ],
			prelude => [ two_regions(), churn('a'), churn('b') ],
			steps   => [
				map {
					my $i = 100 * $_;
					([ a => "INSERT INTO t SELECT g, g, 'anchored' FROM generate_series($i, $i + 3) g" ],
						[ b => "DELETE FROM t WHERE id = $i + 3" ], churn('b'), [ b => 'VACUUM t', { quiet => 1 } ],
						[ a => "INSERT INTO t SELECT g, g, 'after it' FROM generate_series($i + 10, $i + 12) g" ])
				} 1 .. 2 ],
		},
		old_slots => {
			setup   => [ table('t', 20), table('scratch', 3) ],
			prelude => [ churn('a') ],
			steps   => [
				map {
					my $i = $_;
					([ a => "UPDATE t SET v = 'value $i' WHERE id = 3" ],
						[ a => "UPDATE t SET v = 'again $i' WHERE id BETWEEN 3 AND 5" ], churn('a'),
						[ a => "DELETE FROM t WHERE id = 3 + $i" ], churn('a'),
							[ a => "INSERT INTO t VALUES (50 + $i, 0, 'in its place')" ],
						[ a => 'VACUUM t' ], [ a => "INSERT INTO t VALUES (60 + $i, 0, 'under its number')" ],
							churn('a'),
						[ a => "DELETE FROM t WHERE id > 50" ])
				} 1 .. 2 ],
		},
		# a page of 1024 slots is gone through in 16 commits: then each slot is written again, and a Tx-CTS that differs
		# in one bit from the one under it would make a cut look like a flipped bit
		same_slots => {
			setup   => [ table('t', 64) ],
			prelude => in_a(map { "UPDATE t SET v = 'before $_'" } 1 .. 17),
			steps   => in_a(map { "UPDATE t SET v = 'version $_'" } 1 .. 3),
		},
		tombstone => {
			setup   => [ table('t', 200), table('scratch', 3) ],
			prelude => [ churn('a') ],
			steps   => [
				[ a => q{UPDATE t SET v = v || '+' WHERE id < 40} ], churn('a'),
				[ a => q{DELETE FROM t WHERE id < 30} ], churn('a'),
				[ a => 'VACUUM t' ], [ a => q{INSERT INTO t SELECT g, 0, 'row ' || g
					FROM generate_series(300, 330) g} ], churn('a'),
				[ a => q{DELETE FROM t WHERE id BETWEEN 300 AND 310} ], churn('a'),
					[ a => q{UPDATE t SET v = 'last' WHERE id > 320} ] ],
		},
		# tombstones take the slots of tombstones that nobody needs any more: all older versions of their rows are
		# overwritten, and no newer ones were written, since without VACUUM their TIDs are not given out again
		tombstone_slots => {
			setup   => [ table('t', 200), table('scratch', 3) ],
			prelude => [ churn('a'), [ a => q{DELETE FROM t WHERE id < 30} ], churn('a'),
				map({ ([ a => q{UPDATE t SET v = v || '' WHERE id >= 30} ], churn('a')) } 1 .. 8) ],
			steps => [ [ a => 'DELETE FROM t WHERE id = 50' ], [ a => 'DELETE FROM t WHERE id BETWEEN 100 AND 110' ] ],
		},
		# one transaction takes all free slots of a page, those of deleted rows among them, and
		# would take those of their tombstones if these were given up before it is durable
		count_down => {
			setup   => [ table('t', 200), table('scratch', 3) ],
			prelude => [ [ a => q{DELETE FROM t WHERE id < 30} ], churn('a'), [ a => 'VACUUM t' ], churn('a') ],
			steps   => in_a('BEGIN', q{INSERT INTO t SELECT g, 0, 'row ' || g FROM generate_series(300, 1400) g},
				q{DELETE FROM t WHERE id BETWEEN 100 AND 140}, 'COMMIT'),
		},
		vacuum => {
			setup => [ table('t', 300), table('scratch', 3) ],
			steps => [ [ a => 'DELETE FROM t WHERE id % 3 = 0' ], churn('a'), [ a => 'VACUUM t' ],
				[ a => q{INSERT INTO t SELECT g, g, 'new' FROM generate_series(1000, 1050) g} ],
				[ a => 'DELETE FROM t' ], churn('a'),
				[ a => 'VACUUM t' ], [ a => q{INSERT INTO t VALUES (1, 1, 'one')} ], [ a => 'VACUUM FULL t' ] ],
		},
		# the only LP of a transaction goes with the pages of a table that is not its only one
		evidence => {
			setup => [ table('t', 20), (map { (table("p$_"),
					"INSERT INTO p$_ SELECT g, g, repeat('p', 300) FROM generate_series(1, 1500) g") } 1 .. 3),
				table('scratch', 3) ],
			steps => [
				(map { my $i = $_; map { [ a => $_ ] } 'BEGIN', "UPDATE t SET v = 'by $i' WHERE id <= $i",
				"INSERT INTO p$i VALUES (0, 0, repeat('q', 300))", 'COMMIT',
						'UPDATE t SET v = v WHERE false' } 1 .. 3),
				[ a => 'DROP TABLE p1' ], [ a => 'TRUNCATE p2' ], [ a => 'DELETE FROM p3' ], churn('a'),
					[ a => 'VACUUM p3' ], churn('a') ],
		},
		page_move => {
			setup => [ table('t'), table('u', 5), table('scratch', 3),
				q{INSERT INTO t SELECT g, g, repeat('t', 300) FROM generate_series(1, 1500) g} ],
			prelude => [ [ a => q{UPDATE t SET v = repeat('T', 300)} ], churn('a') ],
			steps => [ [ a => 'DELETE FROM t WHERE id > 100' ], churn('a'), [ a => 'VACUUM t' ], churn('a'),
				[ a => q{INSERT INTO u SELECT g, g, repeat('u', 250) FROM generate_series(100, 1500) g} ],
				[ a => 'DROP TABLE t' ],
				[ a => q{INSERT INTO u SELECT g, g, repeat('U', 300) FROM generate_series(2000, 2700) g} ] ],
		});
}

# The map is saved while the server runs; the heap knows no such function.
sub saved_scenarios
{
	my $save = [ a => q{DO $$ BEGIN IF EXISTS (SELECT FROM pg_proc WHERE proname = 'zen_save_map') THEN
		PERFORM zen_save_map(); END IF; END $$} ];
	my @setup = (table('t'), table('scratch', 3),
		q{INSERT INTO t SELECT g, g, repeat('t', 300) FROM generate_series(1, 1500) g});
	return (
		saved_running => {
			setup => \@setup,
			recover => 1,
			prelude => [ [ a => q{UPDATE t SET v = 'before' WHERE id < 9} ], $save ],
			steps => in_a(q{UPDATE t SET v = repeat('u', 300) WHERE id < 4}, q{DELETE FROM t WHERE id IN (5, 700)},
				q{BEGIN}, q{UPDATE t SET k = -k WHERE id BETWEEN 100 AND 120}, q{ROLLBACK},
				q{INSERT INTO t SELECT g, g, repeat('n', 300) FROM generate_series(2000, 2250) g},
				q{DELETE FROM t WHERE id BETWEEN 1000 AND 1010}),
		},
		saved_twice => {
			setup => \@setup,
			recover => 1,
			prelude => [ $save, [ a => q{UPDATE t SET v = repeat('T', 300) WHERE id > 700} ], churn('a') ],
			steps => [ $save, [ a => 'DELETE FROM t WHERE id > 800' ], $save, churn('a'),
				[ a => 'VACUUM t' ], churn('a'),
				[ a => q{INSERT INTO t SELECT g, g, repeat('i', 300) FROM generate_series(2000, 2400) g} ], $save,
				[ a => 'TRUNCATE t' ], [ a => q{INSERT INTO t VALUES (1, 1, 'new')} ] ],
		});
}

sub end_scenarios
{
	return (
		late_error => {
			setup => [ table('t', 20) ],
			steps => [ @{ in_a(q{BEGIN}, q{UPDATE t SET v = 'never' WHERE id < 5}, q{DELETE FROM t WHERE id = 9},
				q{INSERT INTO t VALUES (100, 1, 'never')}, $notify) }, late_error(4),
				[ a => q{UPDATE t SET v = 'after' WHERE id < 3} ] ],
		},
		# the next commit has no fence of its own before its LP; a session before has pruned the catalog's pages, and
		# the transaction is not a mixed one
		late_error_one_line => {
			setup => [ table('t', 20) ],
			prelude => in_a(q{UPDATE t SET v = 'before' WHERE id < 5}, $notify),
			steps => [ @{ in_a(q{BEGIN}, q{UPDATE t SET v = 'never' WHERE id < 5}, $notify) }, late_error(4),
				[ a => q{UPDATE t SET v = 'after' WHERE id = 12} ] ],
		},
		# as rolled_back
		late_errors => {
			setup => [ table('t', 20), table('scratch', 3) ],
			steps => [ map { $_ eq 'late error' ? late_error(1000) : [ a => $_ ] } rounds_of($notify, 'late error') ],
		},
		late_error_mixed => {
			setup => [ table('t', 20), heap('h') ],
			steps => [ @{ in_a(q{BEGIN}, q{UPDATE t SET v = 'never' WHERE id < 5}, q{INSERT INTO h VALUES (1, 'never')},
				$notify) },
				late_error(0), [ a => q{UPDATE t SET v = 'after' WHERE id < 3} ] ],
		},
		# between LP and the commit record a library hears of another session's change, raises an error and catches it;
		# not before, as the first step has filled the caches that a commit looks into
		late_error_caught => {
			setup => [ table('t', 20), heap('h') ],
			steps => [ [ a => sub { ZenTest::build_callbacks("$_[0]/caught.so", 'caught') }, { quiet => 1 } ],
				(map { [ a => $_, { quiet => 1 } ] } q{LOAD './caught.so'}, q{SET caught.invalidation = 'swallow'}),
				@{ in_a(q{UPDATE t SET v = 'before' WHERE id = 1}, q{BEGIN}, q{UPDATE t SET v = 'caught' WHERE id < 5},
					q{NOTIFY x}) },
				[ b => q{ALTER TABLE h SET (fillfactor = 50)}, { quiet => 1 } ], [ a => q{COMMIT} ],
				[ a => q{UPDATE t SET v = 'after' WHERE id < 3} ] ],
		},
		serialization_failure => {
			setup => [ table('t', 20) ],
			steps => [ (map { my $s = $_; ([ $s => 'BEGIN ISOLATION LEVEL SERIALIZABLE' ],
				[ $s => 'SELECT sum(k) FROM t' ]) } qw(a b)),
				[ a => q{UPDATE t SET k = 50 WHERE id = 1} ], [ b => q{UPDATE t SET k = 60 WHERE id = 2} ],
					[ a => 'COMMIT' ],
				[ b => 'COMMIT', { fails => 1 } ], [ b => q{UPDATE t SET v = 'after' WHERE id = 2} ] ],
		},
		mixed => {
			setup => [ table('t', 20), heap('h') ],
			steps => in_a(map { ('BEGIN', "INSERT INTO h VALUES ($_, 'both')",
				"UPDATE t SET v = 'both $_' WHERE id IN (1, $_ + 1)", "DELETE FROM t WHERE id = 10 + $_",
				"INSERT INTO t VALUES (100 + $_, 1, 'both')", 'COMMIT', "UPDATE t SET v = 'zen only' WHERE id = 2",
					"UPDATE h SET v = 'heap only' WHERE id = $_") } 1 .. 2),
		},
		# WAL that bears the xid is flushed before the descriptor, or the cut could take it: then another transaction,
		# which needs no zen table, is given the same xid, and commits before recovery asks what became of it
		reissued_xid => {
			setup => [ table('t', 20), heap('h'), heap('scratch_heap') ],
			first => [ map { "INSERT INTO scratch_heap VALUES ($_, 'first')" } 1 .. 3 ],
			steps => in_a('BEGIN', q{INSERT INTO h VALUES (1, 'both')}, q{UPDATE t SET v = 'both' WHERE id < 4},
				'COMMIT'),
		},
		prepare => {
			setup => [ table('t', 20) ],
			steps => in_a('BEGIN', q{UPDATE t SET v = 'prepared' WHERE id < 4}, 'DELETE FROM t WHERE id = 5',
				q{INSERT INTO t VALUES (100, 1, 'prepared')},
				'SELECT id FROM t WHERE id = 7 FOR UPDATE', q{PREPARE TRANSACTION 'p'},
					q{UPDATE t SET v = 'other' WHERE id = 8}),
		},
		commit_prepared => {
			setup   => [ table('t', 20), heap('h') ],
			prelude => in_a('BEGIN', q{UPDATE t SET v = 'prepared' WHERE id < 4}, 'DELETE FROM t WHERE id = 5',
				q{INSERT INTO t VALUES (100, 1, 'prepared')},
				q{INSERT INTO h VALUES (1, 'prepared')}, q{PREPARE TRANSACTION 'p'}),
			steps => in_a(q{UPDATE t SET v = 'other' WHERE id = 8}, q{COMMIT PREPARED 'p'},
				q{UPDATE t SET v = 'later' WHERE id IN (1, 9)}),
		},
		# as rolled_back
		rollbacks_prepared => {
			setup => [ table('t', 20), table('scratch', 3) ],
			steps => in_a(rounds_of(q{PREPARE TRANSACTION 'pNO'}, q{ROLLBACK PREPARED 'pNO'})),
		},
		rollback_prepared => {
			setup   => [ table('t', 20), heap('h') ],
			prelude => in_a('BEGIN', q{UPDATE t SET v = 'prepared' WHERE id < 4}, 'DELETE FROM t WHERE id = 5',
				q{INSERT INTO t VALUES (100, 1, 'prepared')},
				q{INSERT INTO h VALUES (1, 'prepared')}, q{PREPARE TRANSACTION 'p'}),
			steps => in_a(q{ROLLBACK PREPARED 'p'}, q{UPDATE t SET v = 'later' WHERE id IN (1, 9)}),
		});
}

sub ddl_scenarios
{
	return (
		create_table => {
			setup => [ table('t', 20) ],
			steps => in_a('CREATE TABLE e (id int PRIMARY KEY, k int, v text)', q{INSERT INTO e VALUES (1, 1, 'one')},
				'BEGIN', table('n', 10), 'COMMIT', q{UPDATE n SET v = 'changed' WHERE id = 1}),
		},
		drop_table => {
			setup => [ table('t', 20), table('u', 300), q{UPDATE u SET v = repeat('u', 900)} ],
			steps => in_a('BEGIN', q{UPDATE t SET v = 'with drop' WHERE id = 1}, 'DROP TABLE u', 'COMMIT',
				table('u', 3), 'DROP TABLE t'),
		},
		truncate => {
			setup => [ table('t', 20), table('u', 300), q{UPDATE u SET v = repeat('u', 900)} ],
			steps => in_a('TRUNCATE u', q{INSERT INTO u VALUES (1, 1, 'new')}, 'BEGIN', 'TRUNCATE t',
				q{INSERT INTO t VALUES (5, 5, 'new')}, 'COMMIT'),
		},
		ddl_rollback => {
			setup => [ table('t', 20), table('u', 20) ],
			steps => in_a('BEGIN', table('n', 5), 'DROP TABLE t', 'TRUNCATE u', 'ROLLBACK',
				q{UPDATE t SET v = 'still there' WHERE id = 1},
				'BEGIN', 'SAVEPOINT s', table('n', 5), 'TRUNCATE u', 'CREATE INDEX ON t (v)', 'ROLLBACK TO s',
					q{UPDATE t SET v = 'kept' WHERE id = 2}, 'COMMIT'),
		},
		move_table => {
			setup => [ table('t', 20) ],
			steps => in_a('ALTER TABLE t SET TABLESPACE ts', q{UPDATE t SET v = 'moved' WHERE id = 1}, 'BEGIN',
				'ALTER TABLE t SET TABLESPACE pg_default',
				'DELETE FROM t WHERE id = 2', 'COMMIT'),
		},
		# The entry of a table is moved, destroyed and made again by one transaction, in either order.  PostgreSQL's
		# heap has empty indexes after ALTER, TRUNCATE, ROLLBACK (15.20), hence id + 0.
		move_truncate => {
			setup => [ table('t', 20), table('u', 20) ],
			steps => in_a(
				'BEGIN', 'ALTER TABLE t SET TABLESPACE ts', 'TRUNCATE t',
				q{INSERT INTO t VALUES (1, 1, 'moved, then emptied')}, 'COMMIT',
				'BEGIN', 'TRUNCATE t', 'ALTER TABLE t SET TABLESPACE pg_default',
					q{INSERT INTO t VALUES (2, 2, 'emptied, then moved')}, 'COMMIT',
				'BEGIN', 'ALTER TABLE u SET TABLESPACE ts', 'TRUNCATE u', q{INSERT INTO u VALUES (3, 3, 'never')},
					'ROLLBACK',
				'BEGIN', 'TRUNCATE u', q{INSERT INTO u VALUES (4, 4, 'never')}, 'ALTER TABLE u SET TABLESPACE ts',
					'ROLLBACK',
				q{UPDATE u SET v = 'still there' WHERE id + 0 < 3}),
		},
		prepared_move_truncate => {
			setup => [ table('t', 20), table('u', 20) ],
			steps => in_a(
				'BEGIN', 'ALTER TABLE t SET TABLESPACE ts', 'TRUNCATE t', q{INSERT INTO t VALUES (1, 1, 'moved')},
				q{PREPARE TRANSACTION 'p'},
				q{UPDATE u SET v = 'other' WHERE id = 8}, q{COMMIT PREPARED 'p'},
					q{UPDATE t SET v = 'there' WHERE id = 1},
				'BEGIN', 'TRUNCATE u', 'ALTER TABLE u SET TABLESPACE ts', q{INSERT INTO u VALUES (2, 2, 'never')},
					q{PREPARE TRANSACTION 'r'},
				q{INSERT INTO t VALUES (5, 5, 'other')}, q{ROLLBACK PREPARED 'r'},
					q{UPDATE u SET v = 'still there' WHERE id < 3}),
		},
		rewrite => {
			setup => [ table('t', 20) ],
			steps => in_a('ALTER TABLE t ADD c int DEFAULT random() * 0', 'CREATE INDEX ON t (v)', 'REINDEX TABLE t',
				'CLUSTER t USING t_pkey'),
		},
		prepared_ddl => {
			setup => [ table('t', 20), table('u', 20) ],
			steps => in_a('BEGIN', table('n', 5), 'DROP TABLE u', q{PREPARE TRANSACTION 'p'},
				q{UPDATE t SET v = 'x' WHERE id = 1}, q{COMMIT PREPARED 'p'},
				q{INSERT INTO n VALUES (9, 9, 'x')}),
		});
}

# Recovery: what it finds is left by other scenarios' last point.
sub recovery_scenarios
{
	return (
		recovery => {
			setup   => [ table('t', 100), table('u', 10), heap('h'), table('scratch', 3) ],
			prelude => [ two_regions(), churn('a', 20) ],
			recover => 2,
			steps   => [ [ a => 'DELETE FROM t WHERE id < 10' ],
				[ b => q{UPDATE t SET v = 'b' WHERE id BETWEEN 20 AND 30} ],
				[ a => 'DROP TABLE u' ], [ a => q{BEGIN} ], [ a => q{INSERT INTO h VALUES (1, 'h')} ],
					[ a => q{UPDATE t SET v = 'a' WHERE id BETWEEN 40 AND 45} ], [ a => 'COMMIT' ] ],
		},
		# a small one, whose descriptor and slots recovery finds
		recovery_mixed => {
			setup   => [ table('t', 20), heap('h') ],
			recover => 2,
			recover_all => 1,
			steps   => in_a('BEGIN', q{INSERT INTO h VALUES (1, 'h')}, q{UPDATE t SET v = 'both' WHERE id < 6},
				'COMMIT'),
		},
		recovery_prepared => {
			setup   => [ table('t', 50), table('scratch', 3) ],
			prelude => [ two_regions() ],
			recover => 2,
			steps   => [ [ a => 'BEGIN' ], [ a => q{UPDATE t SET v = 'p' WHERE id < 5} ],
				[ a => 'DELETE FROM t WHERE id = 6' ],
				[ a => 'SELECT id FROM t WHERE id = 7 FOR UPDATE' ], [ a => q{PREPARE TRANSACTION 'p'} ],
					[ b => q{UPDATE t SET v = 'b' WHERE id > 45} ] ],
		},
		index_rebuild => {
			setup   => [ table('t', 500), 'CREATE INDEX ON t (v)', table('u', 5) ],
			recover => 1,
			steps   => in_a(q{UPDATE t SET k = k + 10 WHERE id < 20}),
		},
		process_crash => {
			setup         => [ table('t', 20), table('scratch', 3) ],
			process_crash => 1,
			steps => in_a(q{UPDATE t SET v = 'changed' WHERE id < 4}, q{INSERT INTO t VALUES (100, 1, 'new')},
				'CREATE TABLE e (id int)'),
		},
		first_start => { first_start => 1, recover => 1, setup => [], steps => [] },
		clean_stop => {
			setup => [ table('t', 20) ],
			stop  => 1,
			steps => in_a(q{UPDATE t SET v = 'last' WHERE id < 3}),
		},
		cts_mark => {
			setup   => [ table('t', 20), table('scratch', 3) ],
			long    => 1,
			prelude => [ [ a => q{DO $$ BEGIN FOR i IN 1..1048560 LOOP INSERT INTO scratch VALUES (9);
				DELETE FROM scratch WHERE id = 9; COMMIT; END LOOP; END $$}, { zen_only => 1 } ],
				[ a => 'CHECKPOINT' ] ],    # fewer WAL files to be copied
			steps   => in_a(map { "UPDATE t SET v = 'version $_' WHERE id IN (1, 2)" } 1 .. 30),
		});
}

# The pool of 32 MB grows, and its new pages are taken first.
sub grow_scenarios
{
	my $grow = sub { return [ $_[0] => "SELECT zen_pool_grow('$_[1]')", { zen_only => 1 } ] };
	return (
		grow => {
			setup   => [ table('t', 20), table('u', 20) ],
			recover => 1,
			steps => [ [ a => q{UPDATE t SET v = 'before' WHERE id < 4} ], $grow->('a', '36MB'),
				@{ in_a(q{UPDATE t SET v = repeat('after', 500) WHERE id < 9}, 'BEGIN', table('n', 10), 'COMMIT') },
				$grow->('a', '37MB'), [ a => q{UPDATE u SET v = repeat('again', 300) WHERE id < 9} ] ],
		},
		# another session writes in between, and processes crash before the power is cut
		grow_crash => {
			setup   => [ table('t', 20), table('scratch', 3) ],
			process_crash => 1,
			steps => [ [ a => 'BEGIN' ], [ a => q{UPDATE t SET v = 'open' WHERE id < 4} ], $grow->('b', '34MB'),
				[ a => q{UPDATE t SET v = repeat('open', 400) WHERE id < 9} ], [ a => 'COMMIT' ] ],
		});
}

# The pool of one file gets another one at the start, and from then on both have rows.
sub file_scenarios
{
	return (
		add_file => {
			setup      => [ table('t', 20), table('u', 20) ],
			files      => 2,
			from_start => 1,
			recover    => 1,
			steps      => in_a(q{UPDATE t SET v = repeat('after', 300) WHERE id < 9}, 'BEGIN', table('n', 10), 'COMMIT',
				q{UPDATE u SET v = repeat('again', 300) WHERE id < 9}),
		},
		add_first_files => { first_start => 1, files => 3, recover => 1, setup => [], steps => [] },
		files_stop => {
			setup => [ table('t', 20) ],
			files => 2,
			stop  => 1,
			steps => in_a(q{UPDATE t SET v = repeat('last', 300) WHERE id < 9}),
		});
}

# The mark of pool and data directory is raised behind a store (R19).  The heap's server has none.
sub mark_scenarios
{
	my $before;
	my $mark = sub {
		my $text = -e "$_[0]/zen.state" ? PostgreSQL::Test::Utils::slurp_file("$_[0]/zen.state") : '';
		return $text =~ /^mark (\d+)$/m ? $1 : undef; };
	my $look = [ a => sub { $before = $mark->($_[0]) }, { quiet => 1 } ];
	my $wait = [ a => sub {
			my ($dir) = @_;
			ZenTest::wait_for('a mark', sub { $mark->($dir) > $before }, 120) if defined $mark->($dir); } ];
	return (
		marks => {
			setup => [ table('t', 20) ],
			files => 2,
			steps => [ map { $look, [ a => "UPDATE t SET v = 'mark $_' WHERE id < 3" ], $wait } 1 .. 2 ],
		});
}

# scenarios -- a list of name => scenario.
sub scenarios
{
	return (row_scenarios(), reuse_scenarios(), end_scenarios(), ddl_scenarios(), recovery_scenarios(),
		grow_scenarios(), file_scenarios(), mark_scenarios(), PowerDeltaScenarios::delta_scenarios(),
		($ENV{POWER_MODE} // '') eq 'wal' ? PowerWalScenarios::wal_scenarios() : saved_scenarios());
}

1;
