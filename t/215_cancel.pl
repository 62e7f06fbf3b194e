# Statements are cancelled, sessions terminated and connections closed at random moments
# under load: what was acknowledged is there, nothing else is in part, and the server
# stays up.  In every second round each row is spilled.  Long statements end soon after
# their timeout or a cancel, and leave nothing behind.
#
# ROUNDS=n (default 4), CLIENTS=n, SEED=n as in 200_crash.pl

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CrashRound;
use Test::More;
use Time::HiRes qw(sleep time);
use ZenTest;

my $rounds = $ENV{ROUNDS} || 4;
my $seed   = choose_seed();
my $node   = new_node('cancel', pool_size => '256MB');
my $load   = CrashRound->new(node => $node, clients => $ENV{CLIENTS} || 8, seed => $seed, retry => ['57014']);
my %done   = map { $_ => 0 } qw(cancelled terminated closed);

$node->start;
$load->prepare_database;
my $watch = connect_db($node);

for my $round (1 .. $rounds)
{
	spill_rows($round % 2 ? '16MB' : 0) if is_zen();
	my @wrong = $load->run_load($round, \&disturb);
	push @wrong, $load->read_journals;
	if (!@wrong)
	{
		wait_for('the backends of the clients to end', sub { !backends() });
		$load->verify($watch, \@wrong);
	}
	diag("round $round: $_") for @wrong;
	ok(!@wrong, "round $round");
	last if @wrong;
}
$load->print_counts;
note("$_: $done{$_}") for sort keys %done;
cmp_ok($load->{counted}{'rolled back for 57014'} || 0, '>', 10 * $rounds, 'enough statements were cancelled');
unlike(log_since($node, 0), qr/TRAP:|PANIC|terminated by signal/, 'the server stayed up');
cmp_ok(value($watch, 'SELECT rows_spilled FROM zen_stat'), '>', 100, 'enough rows were spilled') if is_zen();
is(value($watch, 'SELECT garbage_pending < 1000000 FROM zen_stat'), 1, 'garbage is collected') if is_zen();
test_long_statements() if is_zen();
$watch->disconnect;
$node->stop;
done_testing();

sub backends
{
	my $result = run_sql($watch, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
		AND pid <> pg_backend_pid()});
	die $result->{message} if $result->{state};
	return map { $_->[0] } @{ $result->{rows} };
}

# For sessions that begin from now on.
sub spill_rows
{
	my ($threshold) = @_;
	value($watch, $_) for "ALTER SYSTEM SET zen.spill_threshold = '$threshold'", 'SELECT pg_reload_conf()';
	wait_for('the setting', sub { value($watch, 'SHOW zen.spill_threshold') eq $threshold });
	return;
}

# Cancel statements for a while, then end all sessions: by the server, or by the death
# of the client.
sub disturb
{
	my (@clients) = @_;
	my $end = time() + 2 + rand 2;
	while (time() < $end)
	{
		my @pids = backends() or next;
		value($watch, 'SELECT pg_cancel_backend(' . pick(@pids) . ')');
		$done{cancelled}++;
		sleep rand 0.03;
	}
	if (one_in(2))
	{
		for my $pid (backends())
		{
			value($watch, "SELECT pg_terminate_backend($pid)");
			$done{terminated}++;
			sleep rand 0.02;
		}
	}
	for my $pid (@clients)
	{
		$done{closed} += kill 'KILL', $pid;
		sleep rand 0.02;
	}
	return;
}

# A statement that takes long must end soon after its timeout or a cancel, and leave nothing behind.
sub test_long_statements
{
	spill_rows('16MB');
	my $dbh = connect_db($node);
	run_all($dbh, 'CREATE TABLE long (id int, v text) USING zen',
		q{INSERT INTO long SELECT g, 'v' || g FROM generate_series(1, 200000) g},
		q{CREATE FUNCTION slow(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_sleep(0.001); RETURN $1; END'});
	my $rows = contents($dbh, 'long');
	my %statement = (
		'scan'                    => q{SELECT count(*) FROM long a, long b, long c},
		'scan that finds nothing' => q{SELECT count(*) FROM generate_series(1, 100000) g,
			LATERAL (SELECT 1 FROM long WHERE id = -g OFFSET 0) s},
		'index build'             => 'CREATE INDEX long_slow ON long (slow(id))',
		'concurrent index build'  => 'CREATE INDEX CONCURRENTLY long_slow ON long (slow(id))',
		'update'                  => 'UPDATE long SET v = slow(id)::text',
		'rewrite'                 => 'ALTER TABLE long ALTER id TYPE bigint USING slow(id)',
		'copy'                    => q{COPY (SELECT slow(id) FROM long) TO '/dev/null'});
	for my $name (sort keys %statement)
	{
		value($dbh, "SET statement_timeout = '200ms'");
		is(state_of($dbh, $statement{$name}), '57014', "$name: timeout");
		value($dbh, 'RESET statement_timeout');
		value($dbh, 'DROP INDEX IF EXISTS long_slow');
	}
	is(contents($dbh, 'long'), $rows, 'nothing was changed');

	# pg_cancel_backend() reaches an index build and a scan in parallel workers
	run_all($dbh, 'SET max_parallel_workers_per_gather = 2', 'SET min_parallel_table_scan_size = 0',
		'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0');
	my $other = connect_db($node);
	my $pid   = value($dbh, 'SELECT pg_backend_pid()');
	for my $sql ('CREATE INDEX long_slow ON long (slow(id))', 'SELECT count(*) FROM long a JOIN long b ON a.id < b.id')
	{
		my $statement = start_statement($dbh, $sql);
		wait_for('the statement to run', sub {
			value($other, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND state = 'active'") });
		wait_for('the statement to end', sub {
			value($other, "SELECT pg_cancel_backend($pid)");
			return $dbh->pg_ready });
		is(finish_statement($statement), '57014', "cancelled: $sql");
	}
	$other->disconnect;
	$dbh->disconnect;
	$dbh = connect_db($node);
	is(contents($dbh, 'long'), $rows, 'the table is as it was');
	is(value($dbh, q{SELECT count(*) FROM pg_class WHERE relname = 'long_slow'}), 0, 'no index is left');
	run_all($dbh, 'DROP TABLE long', 'DROP FUNCTION slow');
	$dbh->disconnect;
	return;
}
