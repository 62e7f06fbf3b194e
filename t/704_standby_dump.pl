# pg_dump of a hot standby that reads zen tables (zen.standby_reads), beside a load on the primary, has one snapshot.
#
# The load changes twins of zen and heap in the same transactions, and keeps the sum of balances.  What was dumped is
# restored on another server: there the twins are equal, and the sum is what it was.  A lock holds up each dump between
# its snapshot and its rows, until the standby shows changes of all zen tables.  A dump of the standby at rest is that
# of the primary, byte for byte.
#
# ROUNDS=n rounds, of a dump as text and one by two processes (default 3).

use strict;
use warnings;

use FindBin;
use IPC::Run ();
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use Twins;
use ZenTest;

my $rounds = $ENV{ROUNDS} || 3;

skip_unless_zen();
choose_seed();

my $primary = twin_primary();
$primary->start;
my $dbh = connect_db($primary);
create_twins($dbh);
run_all($dbh, 'CREATE TABLE held_up ()');
$primary->backup('base');
my $standby = twin_standby($primary, 'standby', 'base');
# replay goes on beside a dump: the primary keeps the heap rows that it needs
set_conf($standby, "hot_standby_feedback = on\nwal_receiver_status_interval = 1s");
$standby->start;
my $on_standby = connect_db($standby);
wait_for('feedback', sub { value($dbh, 'SELECT count(backend_xmin) FROM pg_stat_replication') });

my $restored = new_node('restored');
$restored->start;
my $dir = PostgreSQL::Test::Utils::tempdir();

for my $round (1 .. $rounds)
{
	my $load = start_load($primary, 600);
	dump_beside("$dir/text$round");
	dump_beside("$dir/two$round", '-Fd', '-j', 2);
	end_load($load);
	restores("text, round $round", qw(psql -X -q -v ON_ERROR_STOP=1 -o /dev/null -f), "$dir/text$round", '-d');
	restores("two processes, round $round", qw(pg_restore -e -j 2), "$dir/two$round", '-d');
}
test_rest();
done_testing();

# dump_beside -- pg_dump into a file or a folder: it has its snapshot when it locks tables.
sub dump_beside
{
	my ($to, @options) = @_;
	my $locks = q{SELECT count(*) FROM pg_locks WHERE relation = 'held_up'::regclass AND mode};
	run_all($dbh, 'BEGIN', 'LOCK TABLE held_up');
	wait_for('a lock on the standby', sub { value($on_standby, "$locks = 'AccessExclusiveLock'") });
	my $dump = IPC::Run::start([ 'pg_dump', @options, '-f', $to, '-d', $standby->connstr('postgres') ]);
	wait_for('a dump that waits', sub { value($on_standby, "$locks = 'AccessShareLock' AND NOT granted") });
	wait_for_changes();
	run_all($dbh, 'COMMIT');
	return ok($dump->finish, "pg_dump @options beside changes of all zen tables");
}

# wait_for_changes -- until the standby shows other rows in each zen table.
sub wait_for_changes
{
	my $rows = 'SELECT ' . join ', ', map { rows_of("zen_$_") } TWINS;
	my @before = @{ run_sql($on_standby, $rows)->{rows}[0] };
	wait_for('changes on the standby', sub {
			my @now = @{ run_sql($on_standby, $rows)->{rows}[0] };
			return !grep { $now[$_] eq $before[$_] } 0 .. $#now; });
	return;
}

# end_load -- and the transactions that it leaves prepared, which have rows locked.
sub end_load
{
	my ($load) = @_;
	eval { $load->kill_kill; $load->finish };
	wait_for('the end of its sessions', sub { !value($dbh, q{SELECT count(*) FROM pg_stat_activity
		WHERE application_name = 'pgbench'}) });
	run_sql($dbh, "ROLLBACK PREPARED '$_->[0]'") for @{ run_sql($dbh, 'SELECT gid FROM pg_prepared_xacts')->{rows} };
	return;
}

# restores -- the command brings a dump back, in a database of its own.
sub restores
{
	my ($name, @command) = @_;
	my $main = connect_db($restored);
	run_all($main, 'CREATE DATABASE copy');
	run_program($restored, "$name: restored", @command, 'copy');
	my $copy = connect_db($restored, 'copy');
	are_twins($copy, '... twins are equal');
	is(balances($copy), 1000 * 1000, '... the sum of balances is what it was');
	is(value($copy, q{SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE relkind = 'r' AND relname ~ '^zen_' AND amname = 'zen'}), scalar(TWINS), '... and tables are of zen');
	$copy->disconnect;
	run_all($main, 'DROP DATABASE copy');
	$main->disconnect;
	return;
}

sub balances { return value($_[0], 'SELECT sum(balance) FROM zen_account WHERE id <= 1000'); }

# dump_of -- as text, without the key that is another one each time.
sub dump_of
{
	my ($node) = @_;
	my $text = run_program($node, 'pg_dump of the ' . $node->name . ' at rest', 'pg_dump', 'postgres');
	return $text =~ s/^\\(un)?restrict .*$//mgr;
}

sub test_rest
{
	value($dbh, 'SELECT pg_current_wal_lsn()');    # flushes
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	ok(dump_of($standby) eq dump_of($primary), '... are equal, byte for byte');
	return;
}
