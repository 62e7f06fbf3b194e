# The soft partition: zen.numa = soft, with sets of processors in place of NUMA nodes.
#
#   forms      a statement of each form takes its session to the node of the partition that it names
#   within     a session does not move within a transaction; one that alternates stays, one that has changed moves
#   load       a session leaves a node that is overloaded, and comes back
#   map        partitions are divided anew when one node has most accesses, and sessions follow
#   local      rows that sessions of both nodes use are read and written where they are
#   binding    where sessions begin that name no key
#   dump       keys are dumped and restored, and survive a crash
#   others     who does not own a table waits for no lock on it
#   without    zen.numa = local, or all files on one node: nobody moves

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

use constant PARTITIONS => 64;

skip_unless_faults();    # for simulated nodes
my $processors = qx(nproc --all) + 0;
plan skip_all => 'two processors are needed for two nodes' if $processors < 2 || qx(nproc) < $processors;

my $node = new_node('soft', pool_size => '32MB', dram_size => '128MB', faults => 1, conf => join("\n",
		'zen.numa_simulate = 2', 'zen.numa = soft', 'zen.numa_partitions = ' . PARTITIONS,
		"zen.numa_simulate_load = '20,20'", 'zen.met_cache_size = 64kB', 'restart_after_crash = on'));
my @files = (pool_path($node), pool_path($node) . '.1');
set_conf($node, "zen.pool_path = '$files[0]\@0, $files[1]\@1'");
$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen',
	'CREATE TABLE w (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, v text) USING zen',
	'CREATE TABLE item (id int PRIMARY KEY) USING zen',
	"INSERT INTO w SELECT g, 0, repeat('x', 1500) FROM generate_series(1, 1000) g",
	q{SELECT zen_set_partition_key('w', 'id')},
	'CREATE FUNCTION touch(i int) RETURNS void LANGUAGE plpgsql AS
	 $$ BEGIN UPDATE w SET n = n + 1 WHERE id = i; UPDATE w SET n = n + 1 WHERE id = i; END $$');
wait_recovered($dbh);

# ids of rows whose partition is on a node, as the map is at first
my @ids = map { ids_on($_) } 0, 1;
test_forms();
test_within();
test_load();
test_map();
test_local();
test_binding();
test_dump();
test_others();
test_without();
$dbh->disconnect;
$node->stop;
unlink @files;
done_testing();

# --- tools ------------------------------------------------------------------

sub ids_on
{
	my ($on) = @_;
	return column('SELECT w.id FROM w JOIN _zen_numa_partitions() p
		ON p.partition = (hashint4(w.id)::bigint & 4294967295) % ' . PARTITIONS . " WHERE p.node = $on ORDER BY w.id");
}

# column -- of a query, as an array.
sub column { return [ map { $_->[0] } @{ run_sql($dbh, $_[0])->{rows} } ]; }

sub total { return value($dbh, "SELECT sum($_[0]) FROM zen_stat_numa"); }

# at -- the node to which a session's process is bound; -1: to none.
sub at
{
	my ($session) = @_;
	my $status = PostgreSQL::Test::Utils::slurp_file("/proc/$session->{pg_pid}/status");
	my ($list) = $status =~ /^Cpus_allowed_list:\s*(\S+)/m;
	my @first = map { int(($_ * $processors + 1) / 2) } 0, 1, 2;
	for my $i (0, 1)
	{
		my ($from, $to) = ($first[$i], $first[ $i + 1 ] - 1);
		return $i if $list eq ($from == $to ? $from : "$from-$to");
	}
	return -1;
}

# use_row -- a transaction of one statement on a row of a node.
sub use_row
{
	my ($session, $on) = @_;
	return run_all($session, "UPDATE w SET n = n + 1 WHERE id = $ids[$on][0]");
}

# --- the tests --------------------------------------------------------------

sub test_forms
{
	for my $form ('SELECT v FROM w WHERE id = %s', 'SELECT 1 FROM w WHERE %s = id FOR UPDATE',
		'UPDATE w SET n = n + 1 WHERE id = %s', 'SELECT id FROM w WHERE id = %s AND n < 100', 'SELECT touch(%s)',
		'SELECT w.v FROM w, item WHERE w.id = %s AND item.id = w.n', 'SELECT v FROM w WHERE id IN (%s)',
		'SELECT v FROM w WHERE id = ANY (ARRAY[%1$s, %1$s])', 'SELECT v FROM w WHERE id = %s::bigint',
		'SELECT (SELECT v FROM w WHERE id = %s) FROM item', 'INSERT INTO w VALUES (%s) ON CONFLICT DO NOTHING',
		'INSERT INTO w VALUES (%1$s, 1), (%1$s, 2) ON CONFLICT DO NOTHING',
		'INSERT INTO w SELECT %s, (random() * 0)::bigint FROM generate_series(1, 1) ON CONFLICT DO NOTHING')
	{
		for my $on (0, 1)
		{
			my $session = connect_db($node);
			run_all($session, sprintf $form, $ids[$on][7]);
			is(at($session), $on, "forms, node $on: $form");
			$session->disconnect;
		}
	}

	# parameters, with a plan for their values and with one for any
	for my $mode ('force_custom_plan', 'force_generic_plan')
	{
		for my $type ('int', 'bigint', 'int[]')
		{
			for my $on (0, 1)
			{
				my $session = connect_db($node);
				my $list = $type =~ /\[/;
				run_all($session, "SET plan_cache_mode = $mode",
					"PREPARE p ($type) AS UPDATE w SET n = n + 1 WHERE id = " . ($list ? 'ANY ($1)' : '$1'),
					sprintf $list ? q{EXECUTE p ('{%d}')} : 'EXECUTE p (%d)', $ids[$on][9]);
				is(at($session), $on, "forms, node $on: $mode, $type");
				$session->disconnect;
			}
		}
	}

	# a table without a key, and conditions that name no value, tell nothing: such sessions begin where there are fewest
	my $moves = total('moves');
	my $session = connect_db($node);
	run_all($session, "SELECT * FROM item WHERE id = $ids[1][0]", "SELECT * FROM w WHERE id > $ids[1][0] LIMIT 1",
		'SELECT * FROM w WHERE n = 1 LIMIT 1', 'SELECT * FROM w WHERE id = n LIMIT 1');
	is(total('moves'), $moves + 1, 'forms: without a key a session is bound once');
	$session->disconnect;
	return;
}

sub test_within
{
	my $session = connect_db($node);
	use_row($session, 0);
	run_all($session, 'BEGIN', "SELECT * FROM w WHERE id = $ids[0][3]", "UPDATE w SET n = 1 WHERE id = $ids[1][3]",
		(map { "SELECT * FROM w WHERE id = $_" } @{ $ids[1] }[ 0 .. 19 ]));
	is(at($session), 0, 'within: not in the middle of a transaction');
	run_all($session, 'COMMIT');

	my $moves = total('moves');
	for (1 .. 30)
	{
		use_row($session, $_) for 1, 0;
	}
	is(total('moves'), $moves, 'within: a session that alternates stays');
	use_row($session, 1) for 1 .. 20;
	is(at($session), 1, 'within: one whose rows have changed moves');
	is(total('moves'), $moves + 1, 'within: once');
	is(value($dbh, 'SELECT sessions FROM zen_stat_numa WHERE node = 1') >= 1, 1, 'within: and counts there');
	$session->disconnect;
	return;
}

sub set_load
{
	reload_conf($node, "zen.numa_simulate_load = '$_[0]'");
	return;
}

sub test_load
{
	my $session = connect_db($node);
	use_row($session, 0);
	set_load('95,10');
	wait_for('a session that leaves', sub { use_row($session, 0); at($session) == 1 });
	pass('load: a session leaves a node that is overloaded');
	set_load('50,50');
	wait_for('a session that comes back', sub { use_row($session, 0); at($session) == 0 });
	pass('load: and comes back');

	# load is no reason where all have time to spare
	set_load('30,1');
	wait_for('the load', sub { value($dbh, 'SELECT max(load) FROM zen_stat_numa') == 0.3 });
	my $ticks = total('moves');
	use_row($session, 0) for 1 .. 50;
	is(total('moves'), $ticks, 'load: little load is no reason');

	# what the processors do is a share of their time, from the first tick on
	set_load('auto');
	wait_for('a load that is measured', sub { value($dbh, 'SELECT max(load) FROM zen_stat_numa') != 0.3 });
	my ($wrong, $end) = (0, time + 4);
	while (time < $end)    # three ticks of the worker at least
	{
		$wrong += value($dbh, 'SELECT count(*) FROM zen_stat_numa WHERE load NOT BETWEEN 0 AND 1');
		use_row($session, 0);
	}
	is($wrong, 0, 'load: measured, it is a share');
	set_load('20,20');
	wait_for('the load', sub { value($dbh, 'SELECT max(load) FROM zen_stat_numa') == 0.2 });
	$session->disconnect;
	return;
}

sub test_map
{
	my @session = map { connect_db($node) } 0, 1;
	@ids = map { ids_on($_) } 0, 1;
	my %part = map { @$_ } @{ run_sql($dbh, 'SELECT (hashint4(id)::bigint & 4294967295) % ' . PARTITIONS .
				', min(id) FROM w GROUP BY 1')->{rows} };
	my @used = @part{ @{ column('SELECT partition FROM _zen_numa_partitions() WHERE node = 0 LIMIT 4') } };
	my $sql = 'SELECT count(*) FILTER (WHERE node = 0), count(*) FILTER (WHERE node = 1) FROM _zen_numa_partitions()
		WHERE partition IN (SELECT (hashint4(i)::bigint & 4294967295) % ' . PARTITIONS .
	  ' FROM unnest(ARRAY[' . join(',', @used) . ']) i)';
	is(run_sql($dbh, $sql)->{rows}[0][1], 0, 'map: all that is used is on one node');
	wait_for('another map', sub {
			run_all($session[ $_ % 2 ], "UPDATE w SET n = n + 1 WHERE id = $used[$_ % 4]") for 0 .. 199;
			"@{ run_sql($dbh, $sql)->{rows}[0] }" eq '2 2' });
	cmp_ok(value($dbh, 'SELECT sum(moves) FROM _zen_numa_partitions()'), '>=', 2, 'map: partitions have moved');
	@ids = map { ids_on($_) } 0, 1;
	for my $on (0, 1)
	{
		use_row($session[0], $on) for 1 .. 20;
		is(at($session[0]), $on, "map: a session follows to node $on");
	}
	$_->disconnect for @session;
	return;
}

sub test_local
{
	my @session = map { connect_db($node) } 0, 1;
	my $rows = 100;
	my $use = sub {
		for my $on (0, 1)
		{
			run_all($session[$on], map { "UPDATE w SET v = v || 'y' WHERE id = $_" } @{ $ids[$on] }[ 0 .. $rows - 1 ]);
		}
	};
	$use->();
	my ($remote, $local) = (total('rows_read_remote + rows_remote'), total('rows_read_local'));
	$use->();
	is(total('rows_read_remote + rows_remote'), $remote, 'local: nothing remote the second time');
	cmp_ok(total('rows_read_local') - $local, '>', $rows / 2, 'local: rows are read from NVM');
	cmp_ok(total('lines_read_local'), '>=', 5 * $rows / 2, 'local: and lines');

	# the other session's rows are remote, until it has written them
	$local = total('rows_read_local');
	run_all($session[1], 'BEGIN', "SELECT v FROM w WHERE id = $ids[1][0]",
		map { "SELECT v FROM w WHERE id = $_" } @{ $ids[0] }[ 0 .. $rows - 1 ]);
	cmp_ok(total('rows_read_remote + rows_remote') - $remote, '>', $rows / 2, 'local: others are remote');
	run_all($session[1], 'COMMIT');
	is(value($dbh, 'SELECT count(*) FROM zen_verify_pool()'), 0, 'local: sound');
	$_->disconnect for @session;
	return;
}

sub test_binding
{
	for my $binding ('even', 'group')
	{
		set_conf($node, "zen.numa_binding = $binding");
		$dbh->disconnect;
		$node->restart;
		$dbh = connect_db($node);
		wait_recovered($dbh);
		my @session = map { connect_db($node) } 1 .. $processors + 1;
		run_all($_, 'SELECT * FROM item') for @session;
		my @n = (0, 0);
		$n[ at($_) ]++ for @session;
		is(abs($n[0] - $n[1]) <= 2, 1, "binding, $binding: @n");
		my ($first) = map { at($session[$_]) } 0;
		my @begin = map { at($_) } @session[ 0 .. int($processors / 2) - 1 ];
		is("@begin", join(' ', ($first) x @begin), "binding, $binding: the first") if $binding eq 'group';
		$_->disconnect for @session;
	}
	return;
}

sub test_dump
{
	my $dump = "$files[0].sql";
	$dbh->disconnect;
	$node->command_ok([ 'pg_dump', '-t', 'w', '-f', $dump, $node->connstr('postgres') ], 'dump: pg_dump');
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	$node->safe_psql('other', 'CREATE EXTENSION zen');
	$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('other') ], 'dump: psql');
	unlink $dump;
	crash($node);
	start_again($node);
	for my $name ('other', 'postgres')
	{
		is($node->safe_psql($name, q{SELECT objname || ' ' || label FROM pg_seclabels WHERE provider = 'zen'}),
			'w.id partition key', "dump: the key in $name");
	}
	$dbh = connect_db($node);
	wait_recovered($dbh);
	for my $on (0, 1)
	{
		my $session = connect_db($node);
		@ids = map { ids_on($_) } 0, 1;
		use_row($session, $on);
		is(at($session), $on, "dump: after a crash, node $on");
		$session->disconnect;
	}
	return;
}

sub test_others
{
	my $session = connect_db($node);
	run_all($dbh, 'CREATE ROLE others', 'BEGIN', 'LOCK TABLE w IN SHARE UPDATE EXCLUSIVE MODE');
	run_all($session, 'SET ROLE others', 'SET lock_timeout = 1');
	is(state_of($session, q{SELECT zen_set_partition_key('w', NULL)}), '42501', 'others: refused at once');
	run_all($dbh, 'ROLLBACK');
	$session->disconnect;
	return;
}

sub test_without
{
	for my $conf ('zen.numa = local', "zen.numa = soft\nzen.pool_path = '$files[0]\@0, $files[1]\@0'")
	{
		set_conf($node, $conf);
		$dbh->disconnect;
		$node->restart;
		$dbh = connect_db($node);
		wait_recovered($dbh);
		my $session = connect_db($node);
		use_row($session, 1) for 1 .. 20;
		is(at($session), -1, "without: a session stays: " . $conf =~ s/\n.*//sr);
		is(value($dbh, 'SELECT count(*) FROM _zen_numa_partitions()'), 0, 'without: there are no partitions');
		is(total('moves'), 0, 'without: no moves');
		$session->disconnect;
	}
	return;
}
