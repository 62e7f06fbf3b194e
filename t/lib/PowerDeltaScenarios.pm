# PowerDeltaScenarios -- the scenarios of power cuts with versions that hold only what changed (zen.deltas, R22);
# PowerScenarios says what a scenario is.
#
# Rows have 0.5 to 30 KB.  An update of k makes a delta, one of v most often a new base.  scratch has rows of the same
# sizes, which take the slots that become free.

package PowerDeltaScenarios;

use strict;
use warnings;

use Exporter 'import';
use PowerScenarios ();

our @EXPORT_OK = qw(delta_scenarios);

my $CONF = 'zen.deltas = on';

# Bytes of a row's text.
my $WIDTH = '(ARRAY[480, 1000, 1000, 2500, 7000, 30000])[1 + id % 6]';

BEGIN
{
	no strict 'refs';
	*$_ = \&{"PowerScenarios::$_"} for qw(heap churn in_a late_error);
}

# text -- an expression of a row's width; what differs with $what.
sub text
{
	my ($what) = @_;
	return "left(repeat(md5(id::text || '$what'), 940), $WIDTH)";
}

# wide -- a table of wide rows.  Where it is zen's, no value is stored out of line, nor compressed.
sub wide
{
	my ($name, $rows) = @_;
	return ("CREATE TABLE $name (id int PRIMARY KEY, k int, v text)",
		"DO \$\$ BEGIN IF (SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = '$name') "
		  . "= 'zen' THEN ALTER TABLE $name ALTER v SET STORAGE PLAIN; END IF; END \$\$",
		"INSERT INTO $name SELECT id, 0, " . text($name) . " FROM generate_series(1, $rows) id");
}

# reuse -- the slots that have become free are taken by other rows, which are deltas on new bases.
sub reuse
{
	my ($session, $what) = @_;
	return (churn($session, 20), [ $session, 'VACUUM t', { quiet => 1 } ],
		(map { [ $session, $_, { quiet => 1 } ] } 'UPDATE scratch SET v = ' . text("scratch $what") . ' WHERE id > 1',
			'UPDATE scratch SET k = k + 1 WHERE id > 1'));
}

sub delta_scenarios
{
	my @deltas = ('UPDATE t SET k = k + 1 WHERE id < 9', 'UPDATE t SET k = k + 1 WHERE id IN (3, 5, 11)');
	my @setup  = (wide('t', 12), wide('scratch', 12));
	my %all    = (
		deltas => {
			setup => [ wide('t', 12) ],
			steps => in_a((map { "UPDATE t SET k = k + $_ WHERE id = $_" } 1 .. 6),
				'UPDATE t SET k = k + 10', 'UPDATE t SET v = ' . text('new') . ' WHERE id < 4',
				'UPDATE t SET k = k + 100 WHERE id < 6', 'DELETE FROM t WHERE id IN (2, 7)',
				'INSERT INTO t SELECT id, 1, ' . text('again') . ' FROM generate_series(2, 7, 5) id',
				'UPDATE t SET k = k + 1000 WHERE id < 8'),
		},
		delta_bases => {
			setup => \@setup,
			steps => [
				map {
					my $i = $_;
					((map { [ a => $_ ] } @deltas), reuse('a', "a$i"),
						[ a => 'UPDATE t SET v = ' . text("base $i") . ', k = -k WHERE id % 2 = 0' ], reuse('a', "b$i"),
						(map { [ a => $_ ] } @deltas),
						[ a => "DELETE FROM t WHERE id = 6 + $i" ], reuse('a', "c$i"))
				} 1 .. 2 ],
		},
		delta_rolled_back => {
			setup => \@setup,
			steps => [
				map {
					my $i = $_;
					((map { [ a => $_ ] } @deltas, 'BEGIN', 'UPDATE t SET k = -1000',
						'UPDATE t SET v = ' . text("never $i"), 'ROLLBACK',
						'BEGIN', 'UPDATE t SET k = k + 5 WHERE id > 3', 'SAVEPOINT s', 'UPDATE t SET k = -7',
						'ROLLBACK TO s', 'COMMIT'), reuse('a', $i))
				} 1 .. 2 ],
		},
		delta_late_errors => {
			setup => \@setup,
			steps => [
				map {
					my $i = $_;
					((map { [ a => $_ ] } @deltas, 'BEGIN', 'UPDATE t SET k = -1000 WHERE id < 9',
						q{SELECT count(pg_notify('x', g || repeat('y', 7000))) FROM generate_series(1, 40) g}),
						late_error(1000), reuse('a', $i))
				} 1 .. 2 ],
		},
		delta_mixed => {
			setup => [ @setup, heap('h') ],
			steps => [
				map {
					my $i = $_;
					((map { [ a => $_ ] } 'BEGIN', @deltas, "INSERT INTO h VALUES ($i, 'both')", 'COMMIT', @deltas,
						'BEGIN', 'UPDATE t SET v = ' . text("mixed $i") . ' WHERE id > 8', "UPDATE h SET v = 'twice'",
						'COMMIT'),
						reuse('a', $i))
				} 1 .. 2 ],
		},
		delta_prepared => {
			setup => \@setup,
			steps => [ (map { [ a => $_ ] } @deltas, 'BEGIN', @deltas, q{PREPARE TRANSACTION 'p'}), reuse('b', 1),
				[ a => q{COMMIT PREPARED 'p'} ],
				(map { [ a => $_ ] } @deltas, 'BEGIN', 'UPDATE t SET k = -5', q{PREPARE TRANSACTION 'q'}),
				reuse('b', 2),
				[ a => q{ROLLBACK PREPARED 'q'} ], (map { [ a => $_ ] } @deltas) ],
		},
		delta_spilled => {
			setup => \@setup,
			conf  => [ $CONF, 'zen.spill_threshold = 64kB' ],
			steps => [ (map { [ a => $_ ] } @deltas, 'BEGIN', 'UPDATE t SET k = k + 3',
				'UPDATE t SET v = ' . text('spilled'),
				'UPDATE t SET k = k + 4 WHERE id < 5', 'COMMIT', @deltas), reuse('a', 1),
				(map { [ a => $_ ] } 'BEGIN', 'UPDATE t SET k = -9', 'UPDATE t SET v = ' . text('never'), 'ROLLBACK',
					@deltas),
				reuse('a', 2) ],
		},
		delta_recovery => {
			setup   => \@setup,
			recover => 2,
			prelude => [ (map { [ a => $_ ] } @deltas), reuse('a', 0) ],
			steps   => [ (map { [ a => $_ ] } @deltas, 'UPDATE t SET v = ' . text('cut') . ' WHERE id > 6'),
				reuse('a', 1),
				(map { [ a => $_ ] } @deltas) ],
		},
		delta_process_crash => {
			setup         => \@setup,
			process_crash => 1,
			steps         => [ (map { [ a => $_ ] } @deltas), reuse('a', 1),
				(map { [ a => $_ ] } 'UPDATE t SET v = ' . text('crash') . ' WHERE id > 6', @deltas) ],
		},
		delta_stop => {
			setup => \@setup,
			stop  => 1,
			steps => [ (map { [ a => $_ ] } @deltas), reuse('a', 1), (map { [ a => $_ ] } @deltas) ],
		},
		delta_tables => {
			setup => [ wide('t', 12), wide('u', 5), wide('scratch', 12) ],
			steps => [ (map { [ a => $_ ] } @deltas, 'UPDATE u SET k = 5', 'TRUNCATE u'), reuse('a', 1),
				(map { [ a => $_ ] } 'INSERT INTO u SELECT id, 2, ' . text('u') . ' FROM generate_series(1, 5) id',
					'UPDATE u SET k = 6 WHERE id > 1', 'BEGIN', 'TRUNCATE u', 'ROLLBACK', 'DROP TABLE u', @deltas),
				reuse('a', 2), [ a => 'DELETE FROM t WHERE id > 6' ], [ a => 'VACUUM t' ], reuse('a', 3) ],
		});
	my $save = [ a => q{DO $$ BEGIN IF EXISTS (SELECT FROM pg_proc WHERE proname = 'zen_save_map') THEN
		PERFORM zen_save_map(); END IF; END $$} ];
	$all{delta_saved} = {
		setup   => \@setup,
		recover => 1,
		prelude => [ [ a => $deltas[0] ], $save ],
		steps   => [ (map { [ a => $_ ] } @deltas), reuse('a', 1), $save,
			(map { [ a => $_ ] } 'UPDATE t SET v = ' . text('saved') . ' WHERE id > 6', @deltas) ],
	} unless ($ENV{POWER_MODE} // '') eq 'wal';
	$_->{conf} //= [$CONF] for values %all;
	$all{$_}{long} = 1 for grep { !/^(deltas|delta_bases|delta_recovery)$/ } keys %all;
	return %all;
}

1;
