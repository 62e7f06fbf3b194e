# IsolationRun -- episodes of the isolation test: loads by many clients with crashes in
# between, and the history that comes of them.

package IsolationRun;

use strict;
use warnings;

use IsolationClient;
use POSIX ();
use PostgreSQL::Test::Utils ();
use Storable ();
use Time::HiRes qw(sleep);
use ZenTest;

# new -- node (running, without tables), clients, slots, seconds (of one load), seed.
# reads: zen's counters of the Met-Cache and of point accesses, summed up over all loads; statements: of the clients.
#
# crash and start are called with the node: crash ends the server in whatever way is to
# be tested (all its processes must be gone on return), start brings it up again.
sub new
{
	my ($class, %arg) = @_;
	my $self = bless {
		crash => \&ZenTest::crash,
		start => \&ZenTest::start_again,
		count => 0,
		%arg
	}, $class;
	my $dbh = connect_db($self->{node});
	IsolationClient::create_tables($dbh);
	$dbh->disconnect;
	return $self;
}

# episode -- loads with these settings (prefixes, levels; see IsolationClient), each but
# the last ended by a crash, the last by a crash or in good order.
#
# Returns the history for check_history, to which "wrong" (texts: what was seen to be
# wrong on the way) and "errors" (SQLSTATE => number) are added.  If the tables cannot be
# read at last, final is undef, and there is no more to be tested.
sub episode
{
	my ($self, $loads, %setting) = @_;
	my $history = { txns => [], final => undef, wrong => [], errors => {} };
	$self->{count}++;

	my $dbh = connect_db($self->{node});
	value($dbh, 'TRUNCATE ' . join ', ', tables('z', 'h'));
	$dbh->disconnect;
	for my $part (1 .. $loads)
	{
		my $crash = $part < $loads || one_in(2);
		$self->load($history, $part, $crash, %setting);
		$self->{start}->($self->{node}) if $crash;
		$self->settle($history, $crash);
	}
	$dbh = connect_db($self->{node});
	spoil($dbh) if inject();
	$history->{final} = eval { $self->final($dbh, $history, @{ $setting{prefixes} }); };
	push @{ $history->{wrong} }, $@ unless $history->{final};
	$dbh->disconnect;
	return $history;
}

# spoil -- ZEN_TEST_INJECT: take back what was appended last to one list.
sub spoil
{
	my ($dbh) = @_;
	value($dbh, 'UPDATE z_list SET list = trim_array(list, 1) WHERE id = (SELECT max(id) FROM z_list)');
	return;
}

sub tables
{
	return map { my $prefix = $_; map { "${prefix}_$_" } qw(list pklist reg ireg) } @_;
}

# load -- run the clients, end them, collect their transactions.
sub load
{
	my ($self, $history, $part, $crash, %setting) = @_;
	my %running;
	for my $id (1 .. $self->{clients})
	{
		my $file = "$PostgreSQL::Test::Utils::tmp_check/isolation_client_$id";
		unlink $file;
		my $pid = fork;
		die "cannot fork: $!" unless defined $pid;
		if (!$pid)
		{
			# Leave without END blocks: the server is not ours to stop.
			my $done = eval {
				srand($self->{seed} + 10_000 * $self->{count} + 100 * $part + $id);
				IsolationClient->new(
					node  => $self->{node},
					id    => $id,
					file  => $file,
					part  => $part,
					slots => $self->{slots},
					%setting)->run;
				1;
			};
			warn $@ if !$done;
			POSIX::_exit($done ? 0 : 1);
		}
		$running{$pid} = $file;
	}

	sleep($self->{seconds} * (0.8 + rand 0.4));
	$self->count_reads if is_zen();
	if   ($crash) { $self->{crash}->($self->{node}); }
	else          { kill 'TERM', keys %running; }
	my @files = values %running;
	wait_for(
		'the clients to end',
		sub {
			while ((my $pid = waitpid(-1, POSIX::WNOHANG())) > 0)
			{
				push @{ $history->{wrong} }, "a client ended with status $?"
				  if delete $running{$pid} && $?;
			}
			return !%running;
		});
	$self->collect($history, $_) for @files;
	return;
}

# count_reads -- the load was such that rows left DRAM and were read from NVM, and that rows were found by their keys.
sub count_reads
{
	my ($self) = @_;
	my $dbh = connect_db($self->{node});
	for my $what (qw(metcache_misses metcache_evictions metcache_admissions point_accesses))
	{
		$self->{reads}{$what} += value($dbh, "SELECT $what FROM zen_stat");
	}
	$self->{reads}{own_row} += value($dbh, "SELECT count FROM zen_stat_executor WHERE reason = 'own_row'");
	$dbh->disconnect;
	return;
}

sub collect
{
	my ($self, $history, $file) = @_;
	my $told = eval { Storable::retrieve($file) } or return;    # its status was bad
	push @{ $history->{wrong} }, $told->{wrong} if $told->{wrong} ne '';
	$history->{errors}{$_} += $told->{errors}{$_} for keys %{ $told->{errors} };
	push @{ $history->{txns} }, @{ $told->{txns} };
	$self->{statements} += @{ $_->{stmts} } for @{ $told->{txns} };
	return;
}

# settle -- end the prepared transactions that a crash has left.
sub settle
{
	my ($self, $history, $crash) = @_;
	my $now  = IsolationClient::now();
	my $dbh  = connect_db($self->{node});
	my %left = map { $_->[0] => 1 }
	  @{ run_sql($dbh, 'SELECT gid FROM pg_prepared_xacts')->{rows} };

	for my $txn (grep { ($_->{asked} || 'answered') ne 'answered' } @{ $history->{txns} })
	{
		my $asked = $txn->{asked};
		if (delete $left{ $txn->{gid} })
		{
			my $verb = pick('COMMIT', 'ROLLBACK');
			$txn->{end}[0] = IsolationClient::now();
			value($dbh, "$verb PREPARED '$txn->{gid}'");
			$txn->{end}[1] = IsolationClient::now();
			$txn->{status} = 'committed' if $verb eq 'COMMIT';
		}
		elsif ($asked eq 'PREPARED')
		{
			push @{ $history->{wrong} }, "$txn->{id}: prepared transaction $txn->{gid} is lost";
		}
		elsif ($asked eq 'COMMIT')
		{
			$txn->{status} = 'committed';
			$txn->{end}[1] = $now;
		}
		$txn->{asked} = 'answered';
	}
	push @{ $history->{wrong} }, "prepared transaction $_ is nobody's" for sort keys %left;
	$dbh->disconnect;

	# What had no answer before the crash happened before it, or not at all.
	for my $txn (@{ $history->{txns} })
	{
		$txn->{end}[1] //= $now;
		$_->{at}[1] //= $now for @{ $txn->{stmts} };
	}
	return;
}

# final -- the values of all keys; each access path must tell the same.
sub final
{
	my ($self, $dbh, $history, @prefixes) = @_;
	my %final = map { $_->[1] => undef } grep { defined $_->[1] }
	  map { @{ $_->{ops} } } map { @{ $_->{stmts} } } @{ $history->{txns} };

	for my $table (tables(@prefixes))
	{
		my $sum = contents($dbh, $table, 'seqscan');
		for my $scan (qw(indexscan bitmapscan))
		{
			my $other = contents($dbh, $table, $scan, 'id > 0');
			push @{ $history->{wrong} }, "$table: $scan finds $other, seqscan $sum"
			  if $other ne $sum;
		}
		my $column = $table =~ /list/ ? 'list' : 'v';
		for my $row (@{ run_sql($dbh, "SELECT id, $column FROM $table")->{rows} })
		{
			my $value = $row->[1];
			$value = join ',', IsolationClient::list_of($value) if $table =~ /list/;
			push @{ $history->{wrong} }, "$table.$row->[0] is there twice"
			  if defined $final{"$table.$row->[0]"};
			$final{"$table.$row->[0]"} = $value;
		}
	}
	return \%final;
}

1;
