# pg_dump of a hot standby that reads zen tables (zen.standby_reads), beside a load on the primary, has one snapshot.
#
# The load changes twins of zen and heap in the same transactions, and keeps the sum of balances.  What was dumped is
# restored on another server: there the twins are equal, and the sum is what it was.  Each dump is held up between its
# snapshot and its zen tables until the standby has replayed changes of these.  A dump of the standby at rest is that
# of the primary, byte for byte.
#
# ROUNDS=n rounds, of a dump as text and one by two processes (default 3).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use POSIX qw(WNOHANG WUNTRACED);
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
# more than a pipe takes, so that a dump can be held up
run_all($dbh, both(q{INSERT INTO AM_item SELECT g, g, repeat('w', g % 100) FROM generate_series(2001, 6000) g}));
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
	my $text = dump_as_text("$dir/text$round");
	my $directory = dump_by_two("$dir/two$round");
	eval { $load->kill_kill; $load->finish };
	restores("text, round $round", 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-f', $text, '-d');
	restores("two processes, round $round", 'pg_restore', '-e', '-j', 2, $directory, '-d');
}
test_rest();
done_testing();

# wait_for_changes -- until the standby shows other rows in these zen tables.
sub wait_for_changes
{
	my (@tables) = @_;
	my $rows = 'SELECT ' . join ', ', map { rows_of($_) } @tables;
	my @before = @{ run_sql($on_standby, $rows)->{rows}[0] };
	wait_for("changes of @tables", sub {
			my @now = @{ run_sql($on_standby, $rows)->{rows}[0] };
			return !grep { $now[$_] eq $before[$_] } 0 .. $#now; });
	return;
}

# dump_as_text -- held up before each table of zen: pg_dump waits until its pipe is read.
sub dump_as_text
{
	my ($file) = @_;
	open(my $from, '-|', 'pg_dump', '-d', $standby->connstr('postgres')) or die "pg_dump: $!";
	open(my $to, '>', $file) or die "$file: $!";
	my $held_up = 0;
	while (my $line = <$from>)
	{
		if ($line =~ /^COPY public\.(zen_\w+)/)
		{
			wait_for_changes($1);
			$held_up++;
		}
		print $to $line;
	}
	ok(close($from), 'pg_dump as text') && is($held_up, scalar(TWINS), '... beside changes of each table of zen');
	close $to or die "$file: $!";
	return $file;
}

# has_snapshot -- a session of pg_dump has one.
sub has_snapshot
{
	return value($on_standby, q{SELECT count(backend_xmin) FROM pg_stat_activity WHERE application_name = 'dump'});
}

# dump_by_two -- pg_dump is stopped when it has its snapshot; the processes that it starts later import that.
sub dump_by_two
{
	my ($folder) = @_;
	my $pid = fork() // die "fork: $!";
	exec('pg_dump', '-Fd', '-j', 2, '-f', $folder, '-d', $standby->connstr('postgres') . ' application_name=dump')
	  or POSIX::_exit(1)
	  if !$pid;
	wait_for('a snapshot of pg_dump', \&has_snapshot);
	kill 'STOP', $pid;
	waitpid $pid, WUNTRACED;
	ok(POSIX::WIFSTOPPED(${^CHILD_ERROR_NATIVE}), 'pg_dump of two processes has a snapshot')
	  && ok(!glob("$folder/*.dat*"), '... and no rows yet');
	wait_for_changes(map { "zen_$_" } TWINS);
	kill 'CONT', $pid;
	waitpid $pid, 0;
	is($?, 0, '... and ends');
	return $folder;
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
