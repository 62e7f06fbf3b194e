# Statements are cancelled, sessions terminated and connections closed at random moments
# under load: what was acknowledged is there, nothing else is in part, and the server
# stays up.  In every second round each row is spilled.
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
cmp_ok(value($watch, 'SELECT rows_spilled FROM zen_stat()'), '>', 100, 'enough rows were spilled') if is_zen();
is(value($watch, 'SELECT garbage_pending < 1000000 FROM zen_stat()'), 1, 'garbage is collected') if is_zen();
$watch->disconnect;
$node->stop;
done_testing();

sub backends
{
	my $result = run_sql($watch, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
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
