# Writers keep to the NUMA node that they run on: zen.numa = local, with sets of processors in place of nodes.
#
#   local      sessions bound to each node write to its file only; their regions, after a restart too
#   moved      a session that moves writes on the other node from its next transaction on
#   full       a node without pages: the other one serves, counted, and its room is used; then its own again
#   dram       row versions in DRAM, too: where their writer is, or their reader; the other node serves a full one
#   crash      pages keep their regions, and what is written afterwards is local
#   off        zen.numa = off, and one node: as without
#   count      zen.numa = count: placed as without, and counted; zen.remote_delay
#   unknown    files whose node is not known, or not there
#
#   SEED=n     replays the choices

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_faults();    # for simulated nodes
my $processors = qx(nproc --all) + 0;
plan skip_all => 'two processors are needed for two nodes' if $processors < 2 || qx(nproc) < $processors;
choose_seed();

my $node = new_node('numa', pool_size => '32MB', dram_size => '128MB',
	faults => 1, conf => "zen.numa_simulate = 2\nrestart_after_crash = on");
my $pool = pool_path($node);
my @files = ($pool, "$pool.1");
my $dbh;

# a processor of each node
my @cpu = (0, $processors - 1);

name_files(map { "$files[$_]\@$_" } 0, 1);
$node->start;
open_server('CREATE EXTENSION zen');
test_local();
test_moved();
test_full();
test_dram();
test_crash();
test_off();
test_count();
test_unknown();
$node->stop;
unlink @files;
done_testing();

# --- tools ------------------------------------------------------------------

sub name_files
{
	set_conf($node, sprintf q{zen.pool_path = '%s'}, join ', ', @_);
	return;
}

sub open_server
{
	my @statements = @_;
	$dbh = connect_db($node);
	run_all($dbh, @statements);
	wait_recovered($dbh);
	return;
}

sub restart
{
	$dbh->disconnect;
	$node->stop;
	$node->start;
	open_server();
	return;
}

# bind_session -- to the processor of a node.
sub bind_session
{
	my ($session, $to) = @_;
	my $pid = value($session, 'SELECT pg_backend_pid()');
	PostgreSQL::Test::Utils::system_or_bail('taskset', '-pc', $cpu[$to], $pid);
	return $session;
}

sub session_on { return bind_session(connect_db($node), $_[0]); }

# numa -- a column of zen_stat_numa, by node.
sub numa
{
	my ($column) = @_;
	return map { $_->[0] } @{ run_sql($dbh, "SELECT $column FROM zen_stat_numa ORDER BY node NULLS LAST")->{rows} };
}

# changed -- what a column of zen_stat_numa grows by, by node.
sub changed
{
	my ($column, $do) = @_;
	my @before = numa($column);
	$do->();
	my @after = numa($column);
	return map { $after[$_] - $before[$_] } 0 .. $#after;
}

sub insert
{
	my ($session, $name, $rows) = @_;
	run_all($session, "CREATE TABLE IF NOT EXISTS $name (id int, v text) USING zen",
		"INSERT INTO $name SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, $rows) g");
	return;
}

sub sound
{
	my ($name) = @_;
	is(value($dbh, 'SELECT count(*) FROM zen_verify_pool()'), 0, "$name: sound");
	return;
}

# --- the tests --------------------------------------------------------------

sub test_local
{
	is(join(' ', numa('node')), '0 1', 'local: nodes');
	is(join(' ', numa('pages_total = pages_free + pages_used')), '1 1', 'local: pages');
	my @session = map { session_on($_) } 0, 1;
	my @taken = (numa('pages_remote'), numa('rows_remote'), numa('lines_remote'));
	for my $i (0, 1)
	{
		my @used = changed('pages_used', sub { insert($session[$i], "t$i", 5000) });
		cmp_ok($used[$i], '>', 70, "local: a session on node $i takes pages there");
		# empty ones may come back there meanwhile
		cmp_ok($used[ 1 - $i ], '<=', 0, "local: ... and not on the other");
		my @rows = changed('rows_local',
			sub { run_all($session[$i], "UPDATE t$i SET v = v || 'x' WHERE id <= 1000") });
		is($rows[$i], 1000, "local: rows written to node $i");
		is($rows[ 1 - $i ], 0, "local: ... and none to the other");
	}
	# each other's rows: a new version is written where its writer is
	my @rows = changed('rows_local', sub { run_all($session[1], q{UPDATE t0 SET v = 'from 1' WHERE id <= 500}) });
	is("@rows", '0 500', 'local: new versions of the other node\'s rows');
	cmp_ok(value($dbh, 'SELECT min(sessions) FROM zen_stat_numa'), '>=', 1, 'local: sessions are counted');
	wait_for('a tick of the clock', sub { !grep { !defined } numa('load') });
	wait_for('load', sub { !grep { !$_ } numa('load BETWEEN 0 AND 1') });
	is(join(' ', numa('pages_remote'), numa('rows_remote'), numa('lines_remote')), "@taken", 'local: nothing remote');
	is("@taken", '0 0 0 0 0 0', 'local: from the beginning');
	cmp_ok((numa('lines_local'))[$_], '>=', 5000 * 15, "local: lines of node $_") for 0, 1;
	sound('local');
	$_->disconnect for @session;

	# regions keep their nodes over a restart
	restart();
	@session = map { session_on($_) } 0, 1;
	for my $i (0, 1)
	{
		@rows = changed('rows_local', sub {
				run_all($session[$i], "DELETE FROM t$i WHERE id > 4000",
					"UPDATE t$i SET v = v || 'y' WHERE id > 2000") });
		is($rows[ 1 - $i ], 0, "local, after a restart: none to the other of $i");
		cmp_ok($rows[$i], '>=', 3000, "local, after a restart: rows of node $i");
	}
	is(join(' ', numa('rows_remote')), '0 0', 'local, after a restart: nothing remote');
	$_->disconnect for @session;
	return;
}

sub test_moved
{
	my $session = session_on(0);
	insert($session, 'moved', 10);
	for my $to (1, 0, 1)
	{
		bind_session($session, $to);
		my @rows = changed('rows_local', sub { run_all($session, q{UPDATE moved SET v = 'moved'}) });
		is("@rows", $to ? '0 10' : '10 0', "moved: to node $to");
	}
	is(join(' ', numa('rows_remote')), '0 0', 'moved: nothing remote');
	$session->disconnect;
	return;
}

sub test_full
{
	my $session = session_on(1);
	insert($session, 'spare', 4000);
	# pages that are empty already come back now, and not in the middle
	run_all($session, 'VACUUM spare');
	cmp_ok(fill($session), '>', 10, 'full: pages of the nearest other node, counted');
	is((numa('pages_free'))[1], 0, 'full: its own has none left');
	cmp_ok((numa('rows_remote'))[0], '>', 0, 'full: rows there, counted');
	cmp_ok((numa('lines_remote'))[0], '>', 0, 'full: lines there, counted');
	sound('full');

	# room on its own node, and on pages far away: the latter waits
	run_all($session, 'DROP TABLE spare');
	wait_for('pages', sub { (numa('pages_free'))[1] > 40 });
	delete_rows($session, 'id % 2 = 0');
	my @far = changed('rows_remote', sub { insert($session, 'big', 500) });
	cmp_ok($far[0], '<', 100, 'full: room far away waits while there is room here');

	# No more room here: that on all pages counts.  100 rows are more than a page holds.  A session that finds its
	# region taken goes on in another one, where no room is: that may be, and says nothing.
	my @taken;
	for (1 .. 5)
	{
		my $waits = region_waits();
		fill($session);
		delete_rows($session, 'id % 4 = 1');
		is((numa('pages_free'))[1], 0, 'full: rows are gone, and no page came back');
		@taken = changed('pages_used', sub { insert($session, 'big', 100) });
		last if region_waits() == $waits;
	}
	is(scalar(grep { $_ > 0 } @taken), 0, 'full: room is used again, and no page is taken');

	# room on its own node again
	run_all($session, 'DROP TABLE big');
	wait_for('pages', sub { (numa('pages_free'))[1] > 100 });
	my @rows = changed('rows_remote', sub { insert($session, 'own_again', 2000) });
	is("@rows", '0 0', 'full: not any more');
	$session->disconnect;
	return;
}

sub region_waits { return value($dbh, 'SELECT region_waits FROM zen_stat'); }

# fill -- table big, until it takes more than 10 pages far away; how many it took.
sub fill
{
	my ($session) = @_;
	my ($before) = numa('pages_remote');
	my $far = 0;
	for (1 .. 60)
	{
		insert($session, 'big', 1000);
		$far = (numa('pages_remote'))[0] - $before;
		last if $far > 10;
	}
	return $far;
}

# delete_rows -- of table big, until their slots are free: autovacuum may have a snapshot that VACUUM respects.
sub delete_rows
{
	my ($session, $which) = @_;
	run_all($session, "DELETE FROM big WHERE $which", 'VACUUM big');
	wait_for('old versions to go', sub { value($dbh, 'SELECT garbage_pending FROM zen_stat') == 0 });
	return;
}

sub test_dram
{
	set_conf($node, "zen.dram_size = 32MB\nzen.spill_threshold = -1");
	restart();
	is(join(' ', numa('dram_bytes')), '0 0', 'dram: no row version after a start');
	my @session = map { session_on($_) } 0, 1;
	for my $i (1, 0)
	{
		my @read = changed('dram_bytes', sub { run_all($session[$i], "SELECT FROM t$i WHERE id > 1000 FOR SHARE") });
		# a header for each, while it is locked
		cmp_ok($read[$i], '>=', 256 << 10, "dram: rows that a session on node $i locks");
		is($read[ 1 - $i ], 0, "dram: ... and none of the other's");
		my @written = changed('dram_bytes',
			sub { run_all($session[$i], "UPDATE t$i SET v = repeat('z', 900) WHERE id > 1000") });
		cmp_ok($written[$i], '>=', 1 << 20, "dram: rows that a session on node $i writes");
		is($written[ 1 - $i ], 0, "dram: ... and none of the other's");
	}

	# a transaction that may not spill: its versions take more than a node has
	$_->disconnect for @session;
	restart();
	my $session = session_on(1);
	$session->begin_work;
	insert($session, 'dram', 20000);
	my @after = numa('dram_bytes');
	cmp_ok($after[1], '>', 12 << 20, 'dram: a session on node 1 fills it');
	cmp_ok($after[0], '>', 2 << 20, 'dram: and then takes of the other');
	$session->rollback;
	wait_for('dram', sub { (numa('dram_bytes'))[1] < $after[1] - (6 << 20) });
	$session->disconnect;
	set_conf($node, "zen.dram_size = 128MB\nzen.spill_threshold = 16MB");
	restart();
	sound('dram');
	return;
}

sub test_crash
{
	my $kept = contents($dbh, 't0');
	crash($node);
	start_again($node);
	open_server();
	is(contents($dbh, 't0'), $kept, 'crash: nothing lost');
	my @session = map { session_on($_) } 0, 1;
	for my $i (0, 1)
	{
		my @rows = changed('rows_local', sub { run_all($session[$i], q{UPDATE t1 SET v = 'after' WHERE id <= 1000}) });
		is("@rows", $i ? '0 1000' : '1000 0', "crash: a session on node $i");
	}
	is(join(' ', numa('rows_remote')), '0 0', 'crash: nothing remote');
	sound('crash');
	$_->disconnect for @session;
	return;
}

sub test_off
{
	set_conf($node, 'zen.numa = off');
	restart();
	is(join(' ', numa(q{coalesce(rows_local::text, 'null')})), 'null', 'off: one node, nothing counted');
	is(join(' ', numa('dram_bytes IS NULL')), '1', 'off: DRAM neither');
	my $session = session_on(1);
	my $before = value($dbh, 'SELECT string_agg(pages_free::text, $$ $$ ORDER BY file) FROM zen_pool_files');
	insert($session, 'off', 6000);
	my $after = value($dbh, 'SELECT string_agg(pages_free::text, $$ $$ ORDER BY file) FROM zen_pool_files');
	my @before = split / /, $before;
	my @after = split / /, $after;
	cmp_ok($after[$_], '<', $before[$_], "off: pages of file $_") for 0, 1;
	is(abs($after[0] - $after[1]) < 10, 1, 'off: those with more free pages first') or diag("$before, $after");
	run_all($session, 'DROP TABLE off');
	$session->disconnect;
	sound('off');
	my $result = run_sql($dbh, 'ALTER SYSTEM SET zen.numa = hard');
	is($result->{state}, '22023', 'off: a mode that is not there: SQLSTATE');
	like($result->{message}, qr/HINT: .*off, count, local, soft/, 'off: a mode that is not there: hint');
	set_conf($node, 'zen.numa = local');
	restart();
	return;
}

# Placement as with off, counts as with local; each remote line may take time.
sub test_count
{
	set_conf($node, "zen.numa = count\nzen.met_cache_size = 64kB");
	restart();
	my $session = session_on(1);
	my @rows = changed('rows_local + rows_remote', sub { insert($session, 'counted', 3000) });
	cmp_ok($rows[$_], '>', 500, "count: rows of node $_") for 0, 1;
	run_all($session, 'SELECT sum(length(v)) FROM counted');
	my @read = changed('lines_read_remote', sub { run_all($session, 'SELECT sum(length(v)) FROM counted') });
	cmp_ok($read[0], '>', 5000, 'count: lines read from the other node');
	is($read[1], 0, 'count: and none from its own, as remote');

	reload_conf($node, 'zen.remote_delay = 10000');
	wait_for('the setting', sub { value($session, 'SHOW zen.remote_delay') == 10000 });
	my $begin = value($session, 'SELECT clock_timestamp()');
	@read = changed('lines_read_remote', sub { run_all($session, 'SELECT sum(length(v)) FROM counted') });
	my $us = value($session, "SELECT extract(epoch FROM clock_timestamp() - '$begin') * 1000000");
	cmp_ok($us, '>=', $read[0] * 10 * 0.9, 'count: a line that is read takes the delay');
	my $update = q{UPDATE counted SET v = v || '' WHERE id <= 500};
	($us, my $lines) = remote_writes($session, $update);
	cmp_ok($us, '>=', $lines * 10 * 0.9, "count: and one that is written, of $lines");
	reload_conf($node, "zen.remote_delay = 0\nzen.remote_write_delay = 20000");
	wait_for('the setting', sub { value($session, 'SHOW zen.remote_write_delay') == 20000 });
	($us, $lines) = remote_writes($session, $update);
	cmp_ok($us, '>=', $lines * 20 * 0.9, "count: it has a delay of its own, of $lines");
	run_all($session, 'DROP TABLE counted');
	$session->disconnect;
	set_conf($node, "zen.numa = local\nzen.remote_delay = 0\nzen.remote_write_delay = -1\nzen.met_cache_size = 128MB");
	restart();
	return;
}

# remote_writes -- a statement's time in us, and the lines that it has written to the other node.
sub remote_writes
{
	my ($session, $statement) = @_;
	my $begin = value($session, 'SELECT clock_timestamp()');
	my @lines = changed('lines_remote', sub { run_all($session, $statement) });
	cmp_ok($lines[0], '>', 1000, 'count: lines written to the other node');
	return (value($session, "SELECT extract(epoch FROM clock_timestamp() - '$begin') * 1000000"), $lines[0]);
}

sub test_unknown
{
	name_files(@files);
	my $log = log_size($node);
	restart();
	my $said = log_since($node, $log);
	like($said, qr/the NUMA node of zen pool file "\Q$files[$_]\E" is not known/, "unknown: file $_ in the log")
	  for 0, 1;
	like($said, qr/has no file on NUMA node $_/, "unknown: node $_ in the log") for 0, 1;
	is(join(' ', numa(q{coalesce(node, -1)})), '0 1 -1', 'unknown: a line of their own');
	my $session = session_on(1);
	insert($session, 'unknown', 1000);
	is(join(' ', (numa('rows_local + rows_remote'))[ 0, 1 ]), '0 0', 'unknown: neither local nor remote');
	sound('unknown');
	$session->disconnect;

	name_files("$files[0]\@0", "$files[1]\@7");
	$log = log_size($node);
	restart();
	like(log_since($node, $log), qr/the NUMA node of zen pool file "\Q$files[1]\E" is not known/,
		'unknown: a node that is not there');
	sound('a node that is not there');
	$dbh->disconnect;
	return;
}
