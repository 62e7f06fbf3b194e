# After a crash small tables can be read before large ones are recovered.
#
# The process that recovers is stopped while it maps the large table.  Others read the
# small one then, and find what was committed; who reads the large one, or writes,
# waits, and goes on when recovery does.
#
# ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
choose_seed();
my $node = new_node('small_first', pool_size => '512MB', dram_size => '256MB', conf => 'zen.recovery_workers = 0');
$node->start;
my $dbh = connect_db($node);
value($dbh, $_) for 'CREATE EXTENSION zen',
  'CREATE TABLE large (id int PRIMARY KEY, v text) USING zen',
  'CREATE TABLE small (id int PRIMARY KEY, v text) USING zen',
  map { "INSERT INTO large SELECT g, repeat('l', 500) FROM generate_series($_ * 50000 + 1, $_ * 50000 + 50000) g"
	} 0 .. 4;

# Versions of both tables from the same sessions, so in the same regions and shared pages.
# work -- one round of changes; some are not committed when the server dies.
sub work
{
	my ($round) = @_;
	my @others = map { connect_db($node) } 1 .. 3;
	value($_, $round == 1 ? q{INSERT INTO small SELECT g, 's' FROM generate_series(1, 2000) g ON CONFLICT DO NOTHING}
		: "UPDATE small SET v = v || $round WHERE id % 7 = " . between(0, 6)) for @others;
	value(pick(@others), 'DELETE FROM small WHERE id % 50 = ' . between(0, 49));
	value(pick(@others), 'UPDATE large SET v = $$x$$ WHERE id % 1000 = ' . between(0, 999));
	value(pick(@others), $_) for 'DELETE FROM large WHERE id % 5000 = ' . between(0, 4999),
	  "INSERT INTO small VALUES (10000 + $round, 'new')";
	# unfinished when the server dies
	value($others[0], $_) for 'BEGIN', q{UPDATE small SET v = 'lost' WHERE id < 500},
		q{UPDATE large SET v = 'lost' WHERE id < 5000};
	return @others;
}

# start_until_late -- start, and stop the recovering process while it maps the large table; its pid, or undef.
sub start_until_late
{
	start_again($node);
	$dbh = connect_db($node);
	my $leader = value($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'zen worker'}) or return;
	my $state = '';
	until ($state =~ /large|ready/)
	{
		$state = value($dbh, q{SELECT state || ' ' || phase FROM zen_recovery});
	}
	return unless $state =~ /large/;
	kill 'STOP', $leader;
	wait_for('it to stop', sub { my ($s) = ZenTest::proc_stat($leader); $s =~ /T/ });
	return $leader if value($dbh, 'SELECT state FROM zen_recovery') eq 'running';
	kill 'CONT', $leader;
	return;
}

my $caught = 0;
for my $round (1 .. 9)
{
	my @others = work($round);
	my ($small, $large) = map { contents($dbh, $_) } qw(small large);
	my $rows = value($dbh, 'SELECT count(*) FROM small');
	crash($node);
	my $leader = start_until_late();
	if ($leader)
	{
		$caught++;
		my $reader = connect_db($node);
		value($reader, 'SET statement_timeout = 20000');
		is(eval { contents($reader, 'small') } // $@, inject() ? 'nothing' : $small,
			"round $round: the small table is read");
		is(eval { contents($reader, 'small', 'indexscan', 'id > 0') } // $@, $small, "round $round: by its index");
		my $write = start_statement(connect_db($node), q{UPDATE small SET v = v || 'w'});
		my $read = start_statement(connect_db($node), 'SELECT count(*) FROM large');
		my $create = start_statement(connect_db($node), "CREATE TABLE made$round (id int) USING zen");
		is(eval { value($reader, 'SELECT count(*) FROM small') } // $@, $rows, "round $round: again");
		ok(!$write->{dbh}->pg_ready, "round $round: who writes waits");
		ok(!$read->{dbh}->pg_ready, "round $round: so does who reads the large table");
		ok(!$create->{dbh}->pg_ready, "round $round: and who creates one");
		is(state_of($reader, $_), '', "round $round: $_") for 'CREATE TABLE h (id int PRIMARY KEY) USING heap',
			'CREATE INDEX ON h (id)',
		  'VACUUM h', 'ALTER TABLE h ADD c int', 'REINDEX TABLE h', 'TRUNCATE h', 'DROP TABLE h',
			"CREATE DATABASE h$round";
		is(value($dbh, 'SELECT state FROM zen_recovery'), 'running', "round $round: all this during recovery");
		if ($caught == 2)
		{
			# a crash now
			kill 'CONT', $leader;
			crash($node);
			start_again($node);
			$dbh = connect_db($node);
		}
		else
		{
			kill 'CONT', $leader;
			is(finish_query($write), "UPDATE $rows", "round $round: the write");
			is(finish_query($read), (split / /, $large)[0], "round $round: the large table");
			is(finish_query($create), 'CREATE TABLE', "round $round: the new table");
		}
	}
	wait_recovered($dbh);
	is(contents($dbh, 'large'), $large, "round $round: the large table as it was");
	is(contents($dbh, 'small'), $small, "round $round: the small one, too") unless $leader;
	is_deeply([ findings($dbh) ], [], "round $round: verified");
	last if $caught >= 3;
}
cmp_ok($caught, '>', 0, 'it was stopped in time');
$dbh->disconnect;
$node->stop;
done_testing();
