#!/usr/bin/env perl
#
# journal.pl -- a load on a zen table and a heap table, a journal of what was acknowledged, and the comparison.
#
#   journal.pl load DSN FILE CLIENT     transactions until FILE.stop is there, in turns on zen and on heap
#   journal.pl check DSN FILE [TIME]    are they there, for all files FILE.*?  TIME, in seconds: of a restore to it
#
# DSN is what follows "dbi:Pg:". A transaction inserts row n of its client and notes n as the client's last. A line of
# the journal is "zen|heap n begun acknowledged", the times in seconds, "?" if no answer came.

use strict;
use warnings;

use DBI;
use Time::HiRes qw(sleep time);

use constant {
	PAUSE_S   => 0.002,
	RETRY_S   => 0.2,
	AT_LEAST  => 20,      # acknowledged transactions of each kind, or there was no load
	KINDS     => [qw(zen heap)],
};

my ($what, $dsn, $file, @rest) = @ARGV;
my %command = (load => \&load, check => \&check);
$command{ $what // '' } or die "usage: journal.pl load|check DSN FILE ...\n";
exit $command{$what}->(@rest);

sub connected
{
	return DBI->connect("dbi:Pg:$dsn", '', '', { RaiseError => 1, PrintError => 0, AutoCommit => 1 });
}

sub transact
{
	my ($dbh, $kind, $client, $n) = @_;
	$dbh->begin_work;
	$dbh->do("INSERT INTO load_$kind VALUES (?, ?, repeat('x', ? % 300))", undef, $client, $n, $n);
	$dbh->do("INSERT INTO last_$kind VALUES (?, ?) ON CONFLICT (client) DO UPDATE SET n = excluded.n",
		undef, $client, $n);
	$dbh->commit;
	return;
}

sub load
{
	my ($client) = @_;
	my ($dbh, $n) = (undef, 0);
	local $SIG{PIPE} = 'IGNORE';
	open my $journal, '>', "$file.$client" or die "$file.$client: $!\n";
	$journal->autoflush(1);
	until (-e "$file.stop")
	{
		if (!$dbh)
		{
			$dbh = eval { connected() };
			if (!$dbh) { sleep RETRY_S; next; }
		}
		my $kind = KINDS->[ $n++ % 2 ];
		my $begun = time;
		if (eval { transact($dbh, $kind, $client, $n); 1 }) { print $journal "$kind $n $begun ", time, "\n"; }
		else
		{
			print $journal "$kind $n $begun ?\n";
			eval { $dbh->disconnect };
			undef $dbh;
		}
		sleep PAUSE_S;
	}
	return 0;
}

# journaled -- { kind => { client => { n => [ begun, acknowledged ] } } }
sub journaled
{
	my %of;
	for my $path (glob "$file.*")
	{
		my ($client) = $path =~ /\.(\d+)$/ or next;
		open my $journal, '<', $path or die "$path: $!\n";
		while (<$journal>)
		{
			# a line that was cut off is no answer
			my ($kind, $n, @times) = /^(\w+) (\d+) (\S+) (\S+)\n/ or next;
			$of{$kind}{$client}{$n} = \@times;
		}
	}
	return \%of;
}

# compare -- one kind and client: how many were acknowledged, are lost, are there and should not be; is the last right?
sub compare
{
	my ($dbh, $kind, $client, $journal, $time) = @_;
	my %stored = map { $_ => 1 }
	  @{ $dbh->selectcol_arrayref("SELECT n FROM load_$kind WHERE client = ?", undef, $client) };
	my ($last) = $dbh->selectrow_array("SELECT n FROM last_$kind WHERE client = ?", undef, $client);
	my ($due, $lost, $invented, $max) = (0, 0, 0, 0);
	for my $n (keys %$journal)
	{
		my ($begun, $acknowledged) = @{ $journal->{$n} };
		my $must = $acknowledged ne '?' && (!defined $time || $acknowledged < $time);
		my $may = !defined $time || $begun <= $time;
		$due++ if $must;
		$lost++ if $must && !$stored{$n};
		$invented++ if !$may && $stored{$n};
	}
	for my $n (keys %stored)
	{
		# the one that was under way when the journal's writer was killed is in no journal
		$invented++ if !$journal->{$n};
		$max = $n if $n > $max;
	}
	return ($due, $lost, $invented, ($last // 0) == $max ? 0 : 1);
}

sub check
{
	my ($time) = @_;
	my $dbh = connected();
	my $of = journaled();
	my (@said, $wrong);
	for my $kind (@{ +KINDS })
	{
		my @sum = (0, 0, 0, 0);
		for my $client (keys %{ $of->{$kind} })
		{
			my @of_client = compare($dbh, $kind, $client, $of->{$kind}{$client}, $time);
			$sum[$_] += $of_client[$_] for 0 .. 3;
		}
		push @said, sprintf '%s: %d acknowledged, %d lost, %d invented', $kind, @sum[ 0 .. 2 ];
		$said[-1] .= ", $sum[3] clients with a wrong last row" if $sum[3];
		$wrong ||= $sum[1] || $sum[2] || $sum[3] || $sum[0] < AT_LEAST;
	}
	print join('; ', @said), "\n";
	return $wrong ? 1 : 0;
}
