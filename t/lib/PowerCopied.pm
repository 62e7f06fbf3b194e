# PowerCopied -- power cuts of a primary with zen.stream = replica: what it has recovered is what a copy comes to that
# follows its WAL from before the scenario on (R18).  Thorough candidates are compared so, byte for byte.

package PowerCopied;

use strict;
use warnings;

use parent -norequire, 'PowerRun';

use PoolCopies;
use PostgreSQL::Test::Utils ();
use PowerRun;
use PowerServer;
use ZenTest;

# is_set_up -- the server that the copies begin with; further files are added by each server itself.
sub is_set_up
{
	my ($self, $server, $scenario) = @_;
	return if $scenario->{first_start};
	$self->{before} = PowerServer->new("$self->{dir}/before");
	$self->{before}->copy_from($server);
	PostgreSQL::Test::Utils::append_to_file($self->{before}->data_dir . '/standby.signal', '');
	return;
}

sub comparer
{
	my ($self, $server) = @_;
	return $self->{before} ? sub { push @{ $_[1] }, $self->differences($server, $_[0]) } : undef;
}

sub differences
{
	my ($self, $server, $dbh) = @_;
	my $copy = $self->{copy} ||= PowerServer->new("$self->{dir}/copy");
	wait_recovered($dbh);
	value($dbh, 'CHECKPOINT');    # flushes the WAL
	my $end = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
	$copy->copy_from($self->{before});
	$copy->{options} = [ map { ('-c', $_) } 'restore_command=cp ' . $server->data_dir . '/pg_wal/%f %p',
		'wal_retrieve_retry_interval=1ms' ];
	my $there = $copy->start;
	wait_for('replay', sub { value($there, "SELECT pg_last_wal_replay_lsn() >= '$end'") });
	$there->disconnect;
	$copy->crash;
	my @of = $server->files;
	return map { my $different = pool_differences(shift @of, $_); $different ? "a copy differs: $different" : () }
	  $copy->files;
}

1;
