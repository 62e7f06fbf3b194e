# CrashRound -- a round of a crash test: a random load of many clients, the crash, and
# the comparison with what each client was told.  200_crash.pl kills processes,
# 405_power_torture.pl cuts the power.
#
#   my $round = CrashRound->new(node => $node, clients => 8, seed => $seed);
#                    # and retry => [SQLSTATEs], further ones that the clients have to expect; no_prepare => 1
#                    # async => sub: is this client, a number, one that commits asynchronously?  keep => 1: some may be
#   $round->prepare_database;
#   @wrong = $round->run_load($number, sub { crash somehow });
#   @wrong = $round->read_journals;   # then recover
#   $round->verify($dbh, \@wrong);
#
# $round->{counted} and {kinds} count what happened.

package CrashRound;

use strict;
use warnings;

use CrashClient;
use CrashModel;
use CrashVerify;
use POSIX ();
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

sub new
{
	my ($class, %self) = @_;
	$self{models}  = { map { $_ => { item => {}, led => {}, mix => {} } } 1 .. $self{clients} };
	$self{counted} = { acknowledged => 0, 'in flight, found committed' => 0, prepared => 0 };
	$self{kinds}   = {};
	return bless \%self, $class;
}

sub prepare_database
{
	my ($self) = @_;
	my $dbh = connect_db($self->{node});
	value($dbh, 'CREATE EXTENSION IF NOT EXISTS zen') if is_zen();
	my $result = run_sql($dbh, 'CREATE EXTENSION amcheck');
	create_tables($dbh);
	$dbh->disconnect;
	diag('no amcheck on this machine: btrees are compared by scans only') if $result->{state};
	$self->{amcheck} = !$result->{state};
	return;
}

sub journal_path
{
	my ($self, $id) = @_;
	return "$PostgreSQL::Test::Utils::tmp_check/crash_journal_$$" . "_$id";
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
			journal => $self->{journals}{$id},
			retry   => $self->{retry},
			async   => $self->{async} && $self->{async}->($id),
			no_prepare => $self->{no_prepare},
			round   => $round)->run;
		1;
	} or POSIX::_exit(1);
	POSIX::_exit(0);
}

# run_load -- start the clients, let $crash->() end the server in the middle, wait for them.
# $crash is given the clients' process numbers, and may kill some of them.
sub run_load
{
	my ($self, $round, $crash) = @_;
	$self->{journals} = { map { $_ => $self->journal_path($_) } 1 .. $self->{clients} };
	my %running = map { ($self->start_client($round, $_) => $_) } 1 .. $self->{clients};
	$crash->(sort { $a <=> $b } keys %running);

	my @wrong;
	wait_for(
		'the clients to notice the crash',
		sub {
			for my $pid (keys %running)
			{
				next unless waitpid($pid, POSIX::WNOHANG()) > 0;
				my $id = delete $running{$pid};
				push @wrong, "client $id ended with status $?" if $? && $? != POSIX::SIGKILL();
			}
			return !%running;
		});
	return @wrong;
}

# read_journals -- what the clients were told; must come before verify().
sub read_journals
{
	my ($self) = @_;
	my @wrong;
	my $counted = $self->{counted};
	$self->{told} = { map { $_ => read_journal($self->{journals}{$_}, $self->{models}{$_},
			$self->{keep}) } 1 .. $self->{clients} };
	for my $id (keys %{ $self->{told} })
	{
		my $journal = $self->{told}{$id};
		$journal->{keeps} = $self->{keep};
		$_->{flushed} //= !$self->{async}->($id) && defined $_->{acked} for @{ $journal->{history} };
		push @wrong, @{ $journal->{failures} };
		$counted->{acknowledged} += $journal->{acked};
		$counted->{"rolled back for $_"} += $journal->{retries}{$_} for keys %{ $journal->{retries} };
		$counted->{'in flight at the crash'}++ if $journal->{unknown};
		$self->{kinds}{$_} += $journal->{kinds}{$_} for keys %{ $journal->{kinds} };
	}
	return @wrong;
}

# verify -- holds what is in the database against what the clients were told.  $before_indexes: a statement that is run
# before the indexes are looked at, when no transaction is prepared any more.
sub verify
{
	my ($self, $dbh, $wrong, $before_indexes) = @_;
	my ($models, $told, $counted) = @$self{qw(models told counted)};

	check_prepared($dbh, $models, $told, $wrong);
	$counted->{'asynchronous, and lost'} += check_history($dbh, $models, $told, $wrong) if $self->{keep};
	return if @$wrong;
	$counted->{'in flight, found committed'} += check_rows($dbh, $models, $told, $wrong);
	return if @$wrong;
	my $count = settle_prepared($dbh, $models, $told, $wrong);
	$counted->{prepared} += $count;
	check_rows($dbh, $models, $told, $wrong) if $count;
	value($dbh, $before_indexes) if defined $before_indexes;
	check_sums($dbh, $wrong);
	check_indexes($dbh, $self->{amcheck}, $wrong);
	return if @$wrong;

	vacuum_all($dbh);
	check_rows($dbh, $models, $told, $wrong);
	check_sums($dbh, $wrong);
	check_indexes($dbh, $self->{amcheck}, $wrong);
	push @$wrong, findings($dbh);
	return;
}

# missing_kinds -- operations that no acknowledged transaction has done.
sub missing_kinds
{
	my ($self) = @_;
	return grep { !$self->{kinds}{$_} } qw(insert insert_many insert_bulk copy upsert update_val
	  update_grp update_key update_body update_tags update_range delete delete_range
	  transfer transfer_mix mix lock duplicate look rollback_to commit_prepared);
}

sub print_counts
{
	my ($self) = @_;
	note("$_: $self->{counted}{$_}") for sort keys %{ $self->{counted} };
	note("  $_: $self->{kinds}{$_}") for sort keys %{ $self->{kinds} };
	return;
}

1;
