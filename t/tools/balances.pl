#!/usr/bin/env perl
#
# balances.pl -- transfers between accounts, and readers that look at their sum, through a pooler.
#
#   balances.pl transfer DSN FILE STOP    until the file STOP is there: transfers, a line in FILE for each that was
#                                         acknowledged, "port ok", or for an error, "- SQLSTATE message"
#   balances.pl read DSN FILE STOP        reads, "port ok" or "port wrong ..."
#
# DSN is what follows "dbi:Pg:"; port is that of the server that has answered. balance_zen and balance_heap have the same
# rows, and each transaction changes both. A read is one statement, so it has one snapshot.

use strict;
use warnings;

use DBI;
use Time::HiRes qw(sleep);

use constant {
	ACCOUNTS => 1000,
	SUM      => 100_000,
	PAUSE_S  => 0.005,
	RETRY_S  => 0.2,
	READS    => 20,      # by one connection
};

my ($what, $dsn, $file, $stop) = @ARGV;
my %command = (transfer => \&transfer, read => \&read_sums);
defined $stop && $command{$what} or die "usage: balances.pl transfer|read DSN FILE STOP\n";
$SIG{PIPE} = 'IGNORE';
open my $journal, '>', $file or die "$file: $!\n";
$journal->autoflush(1);
my ($dbh, $used) = (undef, 0);
work() until -e $stop;

sub work
{
	my $line = eval {
		# a pooler may send the next transaction elsewhere
		$dbh //= DBI->connect("dbi:Pg:$dsn", '', '',
			{ RaiseError => 1, PrintError => 0, AutoCommit => 1, pg_server_prepare => 0 });
		$command{$what}->();
	};
	if ($@)
	{
		# DBI's own state is that of the connection which was tried last
		my ($state, $message) = ($DBI::state // '', $@ =~ s/\s+/ /gr);
		$line = "- $state $message";
	}
	if (defined $line) { print $journal "$line\n" }
	if ($@ || ++$used % READS == 0)
	{
		eval { $dbh->disconnect } if $dbh;
		$dbh = undef;
	}
	sleep($@ ? RETRY_S : PAUSE_S);
	return;
}

sub on_both
{
	my ($statement, @values) = @_;
	my $rows = 0;
	$rows += $dbh->do($statement =~ s/\bAM\b/$_/r, undef, @values) for qw(balance_zen balance_heap);
	return $rows == 2;
}

# Nothing, if another transaction had one of the rows meanwhile.
sub transfer
{
	my ($from, $to) = sort { $a <=> $b } map { 1 + int rand ACCOUNTS } 1 .. 2;
	my $amount = int(rand 21) - 10;
	$dbh->begin_work;
	my $done = $from != $to && on_both('UPDATE AM SET balance = balance - ? WHERE id = ?', $amount, $from) &&
	  on_both('UPDATE AM SET balance = balance + ? WHERE id = ?', $amount, $to);
	if ($done && rand 5 < 1)
	{
		my ($balance) = $dbh->selectrow_array('SELECT balance FROM balance_zen WHERE id = ?', undef, $to);
		$done = on_both('DELETE FROM AM WHERE id = ?', $to) &&
		  on_both('INSERT INTO AM VALUES (?, ?)', $to, $balance);
	}
	my ($port) = $dbh->selectrow_array(q{SELECT current_setting('port')});
	if (!$done) { $dbh->rollback; return }
	$dbh->commit;
	return "$port ok";
}

sub read_sums
{
	my ($port, @got) = $dbh->selectrow_array(sprintf q{SELECT current_setting('port'),
		(SELECT sum(balance) FROM balance_zen), (SELECT sum(balance) FROM balance_heap),
		(SELECT count(*) FROM balance_zen z FULL JOIN balance_heap h USING (id) WHERE z.balance IS DISTINCT FROM h.balance),
		(SELECT balance FROM balance_zen WHERE id = %1$d) - (SELECT balance FROM balance_heap WHERE id = %1$d)},
		1 + int rand ACCOUNTS);
	my $result = join ' ', map { $_ // 'null' } @got;
	return "$port " . ($result eq SUM . ' ' . SUM . ' 0 0' ? 'ok' : "wrong $result");
}
