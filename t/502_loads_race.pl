# Loads that find the same TIDs free: several sessions COPY into blocks that VACUUM has found room in, and
# zen.fault = shared_blocks gives each of these to all of them.  No row is lost, none comes twice, none takes
# another's place; and it does happen that a row loses its TID.

use strict;
use warnings;

use DBD::Pg ':async';
use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep);
use ZenTest;

use constant SESSIONS => 4;
use constant LOADS    => 12;      # of each session
use constant ROWS     => 4000;    # of each load

skip_unless_zen();
skip_unless_faults();

my $dir = PostgreSQL::Test::Utils::tempdir();
chmod 0755, $dir;
my $node = new_node('race', pool_size => '256MB', dram_size => '256MB', faults => 1,
	conf => "zen.fault = shared_blocks\nzen.spill_threshold = '64kB'\nautovacuum = off\nlog_min_messages = debug1");
$node->start;
my $dbh = connect_db($node);
value($dbh, $_) for
	'CREATE EXTENSION zen',
	'CREATE TABLE t (id int PRIMARY KEY, v int, s text) USING zen',
	'INSERT INTO t SELECT -g, g FROM generate_series(1, ' . SESSIONS * LOADS * ROWS . ') g',
	'DELETE FROM t WHERE id % 3 <> 0',
	'VACUUM t';

my @sessions = map { connect_db($node) } 1 .. SESSIONS;
my ($count, $sum) = (0, 0);
for my $load (1 .. LOADS)
{
	my $end = $load % 3 == 0 ? 'ROLLBACK' : 'COMMIT';
	for my $s (0 .. $#sessions)
	{
		my $first = ROWS * (SESSIONS * $load + $s);
		my $name = "$dir/$load.$s";
		PostgreSQL::Test::Utils::append_to_file($name,
			join '', map { "$_\t$_\t" . ('x' x (1 + $_ % 200)) . "\n" } $first .. $first + ROWS - 1);
		chmod 0644, $name;
		$sessions[$s]->do("BEGIN; COPY t FROM '$name'; $end", { pg_async => PG_ASYNC });
		next if $end eq 'ROLLBACK';
		$count += ROWS;
		$sum += $_ for $first .. $first + ROWS - 1;
	}
	$_->pg_result for @sessions;
	value($dbh, 'VACUUM t');
}
$_->disconnect for @sessions;

my $lost = 0;
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
$lost += $1 while $log =~ /have taken the TIDs of (\d+) rows of a load/g;
cmp_ok($lost, '>', 0, "rows of loads have lost their TIDs: $lost");
is(value($dbh, q{SELECT concat_ws(' ', count(*), count(DISTINCT id), sum(v)) FROM t WHERE id > 0}),
	"$count $count $sum", 'each row of a load once');
is(value($dbh, q{SELECT count(*) FROM t WHERE id > 0 AND (v <> id OR length(s) <> 1 + id % 200)}), 0, 'as it came');
is_sound($dbh, 'after the loads');
my $before = contents($dbh, 't');
$dbh = crash_restart($node);
is(contents($dbh, 't'), $before, 'the same after a crash');
is_sound($dbh, 'after a crash');
$dbh->disconnect;
$node->stop;
done_testing();
