# PowerWalScenarios -- the scenarios of power cuts that only mode wal has; PowerScenarios says what a scenario is, and
# adds these where POWER_MODE is wal.
#
# A checkpoint begins while a process stands still at a place that the step names: so the redo pointer falls between
# two records of one statement.  See execute_held() of PowerRun:
#
#   hold => [ [ place, who, how many such places are passed before, meanwhile... ], ... ]
#
#   place  store: to the pool; wal_write, wal_sync; pool_sync: of the pool's file; notify: between SLOTS and the commit
#          record, of a transaction that has much to NOTIFY; sync_rep: the commit record is flushed, and the commit has
#          not ended; settings: the syncer, between its look at the redo pointer and let_go()
#   who    the session, or a process of the server: checkpointer, zen syncer
#   meanwhile  redo: begin a checkpoint, until it has moved the redo pointer; still: until it cannot go on; end: until
#          it has ended or cannot go on; syncer: until the syncer has synced, or waits for the WAL; snap:
#          a crash point
#
#   stop => [ place, who ]   from now on, until go => 1, a process stands still as soon as it comes there
#
# Sessions that async names commit asynchronously: after a cut any state is right that the server was in since the last
# statement of another session.  snaps: there is a crash point behind each statement, too; snap: behind this one.

package PowerWalScenarios;

use strict;
use warnings;

use Exporter 'import';
use PowerScenarios ();

our @EXPORT_OK = qw(wal_scenarios);

BEGIN
{
	no strict 'refs';
	*$_ = \&{"PowerScenarios::$_"} for qw(table heap churn in_a copy_of two_regions);
}

my $notify = q{SELECT count(pg_notify('x', g || repeat('y', 7000))) FROM generate_series(1, 40) g};
my $off    = [ a => 'SET synchronous_commit = off' ];

# with -- a statement of session a; while it is held at a place, a checkpoint begins.
sub with
{
	my ($sql, $place, $after, @meanwhile) = @_;
	return [ a => $sql, { hold => [ [ $place, 'a', $after, 'redo', @meanwhile ] ] } ];
}

# both -- a transaction of session a that changes a zen table and a heap table, and ends thus.
sub both
{
	my ($n, @end) = @_;
	return (in_list('BEGIN', "UPDATE t SET v = 'both $n' WHERE id IN (1, 2, 3 + $n)",
		"DELETE FROM t WHERE id = 20 + $n", "INSERT INTO t VALUES (100 + $n, 1, 'both')",
		"INSERT INTO h VALUES ($n, 'both')"), @end);
}

sub in_list { return @{ in_a(@_) }; }

# Redo pointers within a commit, and two commits of one region around it.
sub commit_scenarios
{
	my $n = 0;
	my $commit = sub {
		return (both(++$n, with('COMMIT', @_)), in_list("UPDATE t SET v = 'after $n' WHERE id IN (2, 5)"));
	};
	my $setup = [ table('t', 60), heap('h') ];
	return (
		wal_commit => {
			setup => $setup,
			steps => [ $commit->('store', 0), $commit->('store', 4), $commit->('wal_write', 0),
				$commit->('wal_sync', 0), $commit->('store', 2, 'end'), $commit->('wal_sync', 0, 'end') ],
		},
		# the redo pointer is behind SLOTS and before the commit record
		wal_decided => {
			setup => $setup,
			steps => [ map { my $n = $_;
				(both($n, [ a => $notify ], with('COMMIT', 'notify', 0, $n == 2 ? 'end' : ())),
				in_list("UPDATE t SET v = 'after' WHERE id = 2")) } 1 .. 2 ],
		},
		# ... or behind the commit record, and the transaction has not ended: only its descriptor can tell of it
		wal_ends => {
			setup => $setup,
			conf  => [ 'max_wal_senders = 1' ],
			options => [ '-c', 'synchronous_standby_names=' ],
			steps => [ map { my $n = $_; (both($n, with('COMMIT', 'sync_rep', 0, 'end', 'snap')),
				in_list("UPDATE t SET v = 'after' WHERE id = 2")) } 1 .. 2 ],
		},
		wal_prepared => {
			setup => $setup,
			steps => [ both(1, with(q{PREPARE TRANSACTION 'p'}, 'wal_write', 0)), [ c => 'CHECKPOINT' ],
				[ b => q{UPDATE t SET v = 'other' WHERE id = 8} ], [ c => 'CHECKPOINT' ],
				with(q{COMMIT PREPARED 'p'}, 'wal_write', 0, 'end'), [ a => q{UPDATE t SET v = 'after' WHERE id = 2} ],
				both(2, [ a => q{PREPARE TRANSACTION 'p'} ], [ c => 'CHECKPOINT' ],
				with(q{ROLLBACK PREPARED 'p'}, 'store', 0)), [ a => q{UPDATE t SET v = 'last' WHERE id = 2} ] ],
		},
		wal_spilled => {
			setup   => $setup,
			prelude => [ [ a => 'SET zen.spill_threshold = 0' ] ],
			steps   => [ both(1, [ c => 'CHECKPOINT' ]),
				[ a => q{INSERT INTO t SELECT g, g, 'new' FROM generate_series(200, 220) g} ],
				with(q{UPDATE t SET v = 'more' WHERE id BETWEEN 30 AND 40}, 'store', 9),
				with('COMMIT', 'wal_write', 0), in_list('BEGIN', 'DELETE FROM t WHERE id < 9'), [ c => 'CHECKPOINT' ],
				with('ROLLBACK', 'store', 3), in_list('BEGIN', copy_of(300, 340)), [ c => 'CHECKPOINT' ],
				with('COMMIT', 'wal_sync', 0), in_list(q{UPDATE t SET v = 'last' WHERE id > 330}) ],
		});
}

# Checkpoints and the syncer.
sub syncer_scenarios
{
	return (
		# each checkpoint is noted only when the pool is synced
		wal_checkpoint => {
			setup => [ table('t', 60), heap('h') ],
			steps => [ both(1, [ a => 'COMMIT' ]),
				[ c => 'CHECKPOINT', { hold => [ [ 'pool_sync', 'zen syncer', 0, 'end', 'snap' ] ] } ],
				both(2, [ a => 'COMMIT' ]),
				[ c => undef, { hold => [ [ 'settings', 'zen syncer', 0, 'redo', 'still' ],
					[ 'pool_sync', 'zen syncer', 0, 'end', 'snap' ] ] } ],
				both(3, [ a => 'COMMIT' ]), [ c => 'CHECKPOINT' ], [ a => q{UPDATE t SET v = 'last' WHERE id = 2} ] ],
		},
		# the crash comes behind checkpoints, the recovery is cut, and it has much to store again
		wal_recovery => {
			setup   => [ table('t', 60), table('u', 20), heap('h') ],
			recover => 2,
			steps   => [ [ c => 'CHECKPOINT' ], both(1, [ a => 'COMMIT' ]), [ c => 'CHECKPOINT' ],
				in_list(q{UPDATE t SET v = repeat('after', 20) WHERE id > 20}, 'DROP TABLE u', table('n', 30),
				q{DELETE FROM n WHERE id < 9}) ],
		},
		# a small one: of its last crash point no state is right but that behind the statement
		wal_redo => {
			setup   => [ table('t', 60) ],
			recover => 1,
			recover_from => 0,
			steps   => in_a(q{UPDATE t SET v = repeat(md5(id::text), 300) WHERE id < 4}),
		},
		# a watermark may not be on disk before the commit that it tells of
		wal_lines => {
			setup   => [ table('t', 60), heap('h') ],
			prelude => [ $off ],
			async   => { a => 1 },
			steps   => [ map { (both($_, [ a => 'COMMIT' ]), in_list("UPDATE t SET v = 'later $_' WHERE id IN (2, 7)"),
				[ c => 'CHECKPOINT', { hold => [ [ 'wal_write', 'checkpointer', 0, 'syncer', 'snap' ] ] } ]) } 1 .. 2 ],
		});
}

# Slots and pages that are used again.
sub reuse_scenarios
{
	my $between = [ [ 'wal_sync', 'a', 0, 'redo' ], [ 'store', 'a', 0, 'end' ] ];
	return (
		# a page of 1024 slots is gone through in 16 commits: slots are wanted that commits have given up which are not
		# flushed
		wal_async_slots => {
			setup   => [ table('t', 64), heap('h') ],
			prelude => [ in_list(map { "UPDATE t SET v = 'before $_'" } 1 .. 17), [ a => 'CHECKPOINT' ], $off ],
			async   => { a => 1 },
			steps   => [ map { ([ a => "UPDATE t SET v = 'version $_'", { snap => $_ > 16 && $_ % 4 == 0 } ],
				$_ % 6 == 0 ? [ a => "INSERT INTO h VALUES ($_, 'heap')" ] : ()) } 1 .. 32 ],
		},
		# slots of deleted rows are taken, and then those of their tombstones; rows between them keep the pages
		wal_async_tombstones => {
			conf    => [ 'wal_buffers = 4MB' ],    # nobody has to write WAL before it is flushed
			setup   => [ table('t', 20), table('scratch', 3) ],
			prelude => [ in_list(q{INSERT INTO t SELECT g, 0, 'row ' || g FROM generate_series(1001, 3020) g},
				'DELETE FROM t WHERE id > 1000 AND id % 50 > 0'), churn('a'), [ a => 'CHECKPOINT' ], $off ],
			async   => { a => 1 },
			steps   => [ [ w => undef, { stop => [ 'wal_write', 'walwriter' ] } ],
				[ a => q{INSERT INTO t SELECT g, 0, 'row ' || g FROM generate_series(4001, 4700) g} ],
				churn('a'), [ a => q{DELETE FROM t WHERE id > 4000}, { snap => 1 } ], [ w => undef, { go => 1 } ],
				[ a => q{UPDATE t SET v = 'last' WHERE id < 9}, { snap => 1 } ] ],
		},
		# by sessions that wait for their commits, and one that does not
		wal_async_mixed => {
			setup   => [ table('t', 60), heap('h'), table('scratch', 3) ],
			prelude => [ $off, two_regions() ],
			async   => { a => 1 },
			snaps   => 1,
			steps   => [ map { my $n = $_; (both($n, [ a => 'COMMIT' ]),
				[ a => "UPDATE h SET v = 'heap $n' WHERE id = $n" ],
				[ a => "UPDATE t SET v = 'a $n' WHERE id < 9" ],
				$n == 2 ? () : [ b => "UPDATE t SET v = 'b $n' WHERE id BETWEEN 5 AND 15" ],
				[ a => "DELETE FROM t WHERE id = 40 + $n" ], $n == 3 ? () : [ c => 'CHECKPOINT' ]) } 1 .. 4 ],
		},
		wal_pages => {
			setup => [ table('t'), table('u', 5), table('scratch', 3),
				q{INSERT INTO t SELECT g, g, repeat('t', 300) FROM generate_series(1, 1500) g} ],
			prelude => [ [ a => q{UPDATE t SET v = repeat('T', 300)} ], churn('a') ],
			snaps => 1,
			steps => [ [ a => 'DELETE FROM t WHERE id > 100' ], churn('a'), with('VACUUM t', 'wal_write', 0),
				churn('a'), [ c => 'CHECKPOINT' ],
				[ a => q{INSERT INTO u SELECT g, g, repeat('u', 250) FROM generate_series(100, 1500) g} ],
				with('DROP TABLE t', 'store', 1),
				with(q{INSERT INTO u SELECT g, g, repeat('U', 300) FROM generate_series(2000, 2700) g}, 'store', 40) ],
		},
		# pages are given back by VACUUM or by what comes behind it; the redo pointer lies between the word ZEROING, by
		# which that begins, and ZERO
		wal_async_pages => {
			setup => [ table('t'), table('u', 5), table('scratch', 3),
				q{INSERT INTO t SELECT g, g, repeat('t', 300) FROM generate_series(1, 1000) g} ],
			prelude => [ [ a => q{UPDATE t SET v = repeat('T', 300)} ], churn('a'), [ a => 'CHECKPOINT' ], $off ],
			async => { a => 1 },
			steps => [ [ a => 'DELETE FROM t WHERE id > 100' ], churn('a'),
				(map { [ @$_[ 0, 1 ], { hold => $between, snap => 1 } ] } [ a => 'VACUUM t' ], churn('a')),
				[ a => q{INSERT INTO u SELECT g, g, repeat('u', 250) FROM generate_series(100, 600) g}, { snap => 1 } ],
				[ a => q{DELETE FROM u WHERE id > 100} ], churn('a'), [ a => 'VACUUM u', { snap => 1 } ], churn('a'),
				[ a => q{INSERT INTO u SELECT g, g, repeat('w', 900) FROM generate_series(3000, 3200) g} ] ],
		},
		# each table has rows of a size that no other has: a page of its own
		wal_new_pages => {
			setup => [ table('t', 20) ],
			steps => in_a(map { "INSERT INTO t VALUES ($_, 0, repeat(md5('$_'), 1 + ($_ - 500) * 3))" } 501 .. 508),
		});
}

sub ddl_scenarios
{
	return (
		wal_ddl => {
			setup => [ table('t', 20), table('u', 300), q{UPDATE u SET v = repeat('u', 900)} ],
			steps => [ in_list('BEGIN', table('n', 10)), [ c => 'CHECKPOINT' ], with('COMMIT', 'wal_write', 0),
				in_list('BEGIN', 'TRUNCATE u', q{INSERT INTO u VALUES (1, 1, 'new')}), [ c => 'CHECKPOINT' ],
				with('COMMIT', 'store', 1), in_list('BEGIN', 'DROP TABLE n', 'TRUNCATE t'), [ c => 'CHECKPOINT' ],
				with('ROLLBACK', 'store', 0), with('DROP TABLE u', 'wal_write', 0, 'end'),
				in_list('ALTER TABLE n SET TABLESPACE ts'), [ c => 'CHECKPOINT' ],
				in_list(q{UPDATE n SET v = 'moved' WHERE id < 3}) ],
		});
}

# wal_scenarios -- a list of name => scenario.
sub wal_scenarios
{
	return (commit_scenarios(), syncer_scenarios(), reuse_scenarios(), ddl_scenarios());
}

1;
