# CrashLoad -- random load by several CrashClients, something that disturbs them, and the
# verification of what they were promised.
#
#   my $load = CrashLoad->new(node => $node, clients => 8, seed => $seed);
#   $load->prepare_database;                    # server runs
#   my @wrong = $load->run($round, sub { sleep 1; crash($node) });
#   start_again($node);
#   $load->verify($dbh, \@wrong);               # if nothing was wrong before
#
# counted: name => number, over all rounds; kinds: operation => number of acknowledged ones.

package CrashLoad;

use strict;
use warnings;

use CrashClient;
use CrashModel;
use CrashVerify;
use POSIX ();
use PostgreSQL::Test::Utils ();
use Test::More ();
use ZenTest;

# new -- node, clients (number), seed; retry: further SQLSTATEs that a client has to
# expect.
sub new
{
	my ($class, %arg) = @_;
	my $self = bless {
		%arg,
		models  => { map { $_ => { item => {}, led => {}, mix => {} } } 1 .. $arg{clients} },
		counted => { acknowledged => 0, 'in flight, found committed' => 0, prepared => 0 },
		kinds   => {},
	}, $class;
	return $self;
}

# prepare_database -- tables; finds out whether amcheck is there.
sub prepare_database
{
	my ($self) = @_;
	my $dbh = connect_db($self->{node});
	value($dbh, 'CREATE EXTENSION zen') if is_zen();
	my $result = run_sql($dbh, 'CREATE EXTENSION amcheck');
	create_tables($dbh);
	$dbh->disconnect;
	Test::More::diag('no amcheck on this machine: btrees are compared by scans only')
	  if $result->{state};
	$self->{amcheck} = !$result->{state};
	return;
}

sub journal_path
{
	my ($id) = @_;
	return "$PostgreSQL::Test::Utils::tmp_check/crash_journal_$id";
}

sub start_client
{
	my ($self, $round, $id) = @_;
	my $pid = fork;
	die "cannot fork: $!" unless defined $pid;
	return $pid if $pid;

	# Leave without END blocks: the server is not ours to stop.
	eval {
		srand($self->{seed} + 1000 * $round + $id);
		CrashClient->new(
			node    => $self->{node},
			id      => $id,
			model   => $self->{models}{$id},
			journal => journal_path($id),
			retry   => $self->{retry},
			round   => $round)->run;
		1;
	} or POSIX::_exit(1);
	POSIX::_exit(0);
}

# run -- start the clients, disturb them, wait until all have ended; read their journals.
# Returns what is wrong.  $disturb is given the clients' process numbers; those that it
# has killed may have ended by that.
sub run
{
	my ($self, $round, $disturb) = @_;
	my %running = map { $self->start_client($round, $_) => $_ } 1 .. $self->{clients};

	$disturb->(sort { $a <=> $b } keys %running);

	my @wrong;
	wait_for(
		'the clients to notice',
		sub {
			while ((my $pid = waitpid(-1, POSIX::WNOHANG())) > 0)
			{
				my $id = delete $running{$pid};
				push @wrong, "client $id ended with status $?" if defined $id && $? && $? != POSIX::SIGKILL();
			}
			return !%running;
		});

	$self->{journals} =
	  { map { $_ => read_journal(journal_path($_), $self->{models}{$_}) } 1 .. $self->{clients} };
	for my $journal (values %{ $self->{journals} })
	{
		push @wrong, @{ $journal->{failures} };
		$self->{counted}{acknowledged} += $journal->{acked};
		$self->{counted}{"rolled back for $_"} += $journal->{retries}{$_} for keys %{ $journal->{retries} };
		$self->{counted}{'in flight at the end'}++ if $journal->{unknown};
		$self->{kinds}{$_} += $journal->{kinds}{$_} for keys %{ $journal->{kinds} };
	}
	return @wrong;
}

# verify -- everything that was promised is there; adds to the list $wrong.  Prepared
# transactions are ended.
sub verify
{
	my ($self, $dbh, $wrong) = @_;
	my ($models, $journals) = @$self{qw(models journals)};

	check_prepared($dbh, $models, $journals, $wrong);
	$self->{counted}{'in flight, found committed'} += check_rows($dbh, $models, $journals, $wrong);
	return if @$wrong;
	my $count = settle_prepared($dbh, $models, $journals, $wrong);
	$self->{counted}{prepared} += $count;
	check_rows($dbh, $models, $journals, $wrong) if $count;
	check_sums($dbh, $wrong);
	check_indexes($dbh, $self->{amcheck}, $wrong);
	return if @$wrong;

	vacuum_all($dbh);
	check_rows($dbh, $models, $journals, $wrong);
	check_sums($dbh, $wrong);
	check_indexes($dbh, $self->{amcheck}, $wrong);
	return;
}

# note_counts -- what was seen, for the log.
sub note_counts
{
	my ($self) = @_;
	Test::More::note("$_: $self->{counted}{$_}") for sort keys %{ $self->{counted} };
	Test::More::note("  $_: $self->{kinds}{$_}") for sort keys %{ $self->{kinds} };
	return;
}

1;
