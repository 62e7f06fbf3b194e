# An open cursor pins a page of its index, and VACUUM cannot clean the page meanwhile.  It gives the index up after
# zen.vacuum_pin_timeout; the dead rows wait for the next one.
#
# ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg qw(:async);
use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('vacuum_pins', pool_size => '64MB', dram_size => '64MB', conf => <<'END');
autovacuum_naptime = 1s
autovacuum_max_workers = 1
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_scale_factor = 0
autovacuum_vacuum_cost_delay = 0
zen.vacuum_pin_timeout = 200ms
END
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');
test_vacuum($_) for 'btree', 'hash';
test_waits();
test_cancel();
test_autovacuum();
is_sound($dbh, 'at the end');
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub make_table
{
	my ($table, $method) = @_;
	run_all($dbh, "CREATE TABLE $table (id int, k int, v int) USING zen",
		"CREATE INDEX ${table}_id ON $table USING $method (id)",
		"CREATE INDEX ${table}_k ON $table (k)", "INSERT INTO $table SELECT g, g, 0 FROM generate_series(1, 1000) g");
	return;
}

# pin -- a session whose cursor is on a page of the index.
sub pin
{
	my ($table) = @_;
	my $handle = connect_db($node);
	value($handle, $_) for 'BEGIN', 'SET LOCAL enable_seqscan = off', 'SET LOCAL enable_bitmapscan = off',
	  "DECLARE c CURSOR FOR SELECT v FROM $table WHERE id = 950", 'FETCH c';
	return $handle;
}

# vacuum -- SQLSTATE of VACUUM, and what it has said.
sub vacuum
{
	my ($table) = @_;
	my $from = log_size($node);
	run_all($dbh, q{SET log_min_messages = 'info'});
	my $state = state_of($dbh, "VACUUM (VERBOSE) $table");
	run_all($dbh, 'RESET log_min_messages');
	return ($state, log_since($node, $from));
}

# --- VACUUM -----------------------------------------------------------------

# It waited until the cursor was closed.
sub test_vacuum
{
	my ($method) = @_;
	make_table('t', $method);
	run_all($dbh, 'DELETE FROM t WHERE id <= 900', q{SET statement_timeout = '20s'});
	my $cursor = pin('t');
	my ($state, $said) = vacuum('t');
	is($state, '', "$method: VACUUM beside a cursor ends");
	like($said, qr/WARNING:  55006: index "t_id" of table "t" is not vacuumed.*DETAIL:.*HINT: /s,
		"$method: and says what is left");
	is(value($dbh, 'SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = $$t$$') > 0, 1,
		"$method: dead rows are counted still")
	  if value($dbh, 'SELECT pg_stat_force_next_flush() IS NOT NULL');
	is_sound($dbh, "$method: given up");
	run_all($dbh, 'INSERT INTO t SELECT g, g, 1 FROM generate_series(2001, 2500) g');
	is(value($dbh, 'SELECT count(*) FROM t WHERE id BETWEEN 1 AND 900'), 0,
		"$method: no entry of a dead row leads to a new one");
	is(value($cursor, 'SELECT count(*) FROM t WHERE id BETWEEN 1 AND 900'), 0, "$method: nor for the cursor's session");
	value($cursor, 'COMMIT');
	run_all($dbh, 'DELETE FROM t WHERE id > 2000') if inject();
	($state, $said) = vacuum('t');
	unlike($said, qr/is not vacuumed/, "$method: the next one gives nothing up");
	like($said, qr/removed 900 dead row identifiers from 2 indexes, 600 rows remain/,
		"$method: and removes what was left");
	is_sound($dbh, "$method: afterwards");
	run_all($dbh, 'RESET statement_timeout', 'DROP TABLE t');
	return;
}

# With 0 it waits, and goes on when the cursor is closed.
sub test_waits
{
	make_table('w', 'btree');
	run_all($dbh, 'DELETE FROM w WHERE id <= 900');
	my $cursor = pin('w');
	my $vacuum = connect_db($node);
	value($vacuum, 'SET zen.vacuum_pin_timeout = 0');
	my $sth = $vacuum->prepare('VACUUM w', { pg_direct => 1, pg_async => PG_ASYNC });
	$sth->execute;
	wait_for('it to wait', sub { value($dbh,
		"SELECT wait_event_type = 'BufferPin' FROM pg_stat_activity WHERE pid = $vacuum->{pg_pid}") });
	select undef, undef, undef, 0.5;
	ok(!$vacuum->pg_ready, 'timeout 0: VACUUM waits');
	value($cursor, 'COMMIT');
	wait_for('VACUUM to end', sub { $vacuum->pg_ready });
	ok(defined $vacuum->pg_result, 'timeout 0: until the cursor is closed');
	run_all($dbh, 'DROP TABLE w');
	return;
}

# Somebody's cancel is one.
sub test_cancel
{
	make_table('c', 'btree');
	run_all($dbh, 'DELETE FROM c WHERE id <= 900');
	my $cursor = pin('c');
	my $vacuum = connect_db($node);
	value($vacuum, q{SET zen.vacuum_pin_timeout = '1h'});
	for my $how ('SELECT pg_cancel_backend', 'timeout')
	{
		value($vacuum, q{SET statement_timeout = '300ms'}) if $how eq 'timeout';
		my $sth = $vacuum->prepare('VACUUM c', { pg_direct => 1, pg_async => PG_ASYNC });
		$sth->execute;
		if ($how ne 'timeout')
		{
			wait_for('it to wait', sub { value($dbh,
				"SELECT wait_event_type = 'BufferPin' FROM pg_stat_activity WHERE pid = $vacuum->{pg_pid}") });
			value($dbh, "$how($vacuum->{pg_pid})");
		}
		wait_for('VACUUM to end', sub { $vacuum->pg_ready });
		$vacuum->pg_result;
		is($vacuum->state, '57014', "cancelled ($how): VACUUM ends");
		is(value($vacuum, 'SELECT 1'), 1, "cancelled ($how): the session goes on");
	}
	value($cursor, 'COMMIT');
	my ($state, $said) = vacuum('c');
	like($said, qr/removed 900 dead row identifiers/, 'cancelled: the next one removes what was left');
	run_all($dbh, 'DROP TABLE c');
	return;
}

# One idle cursor kept the only worker.  An ANALYZE that has read a table before rows of it are deleted, and reports
# afterwards, says that it has no dead rows, for heap as for zen: the one of the table's load must be over.
sub test_autovacuum
{
	make_table('busy', 'btree');
	make_table('other', 'btree');
	run_all($dbh, 'DELETE FROM busy WHERE id <= 900');
	my $cursor = pin('busy');
	my $from = log_size($node);
	$node->append_conf('postgresql.conf', "autovacuum = on");
	$node->reload;
	wait_for('autovacuum to give the index up',
		sub { log_since($node, $from) =~ /index "busy_id" of table "busy" is not vacuumed/ }, 60);
	my $count = q{SELECT %s FROM pg_stat_user_tables WHERE relname = 'other'};
	wait_for('the load to be analyzed', sub { value($dbh, sprintf($count, 'autoanalyze_count')) > 0 }, 60);
	run_all($dbh, 'DELETE FROM other WHERE id <= 900');
	wait_for('autovacuum of the other table', sub { value($dbh, sprintf($count, 'autovacuum_count')) > 0 }, 60);
	ok(1, 'autovacuum: another table has its turn');
	my $seen = () = log_since($node, $from) =~ /index "busy_id" of table "busy" is not vacuumed/g;
	wait_for('it to come again', sub {
		(() = log_since($node, $from) =~ /index "busy_id" of table "busy" is not vacuumed/g) > $seen }, 60);
	ok(1, 'autovacuum: it comes again');
	value($cursor, 'COMMIT');
	wait_for('the dead rows to go',
		sub { value($dbh, q{SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'busy'}) == 0 }, 60);
	$node->append_conf('postgresql.conf', "autovacuum = off");
	$node->reload;
	my ($state, $said) = vacuum('busy');
	like($said, qr/removed 0 dead row identifiers/, 'autovacuum: it has removed what was left');
	return;
}
