# R17 broken: a zen that does not keep, or not find, what the WAL has lost must be seen to lose or repeat changes.
#
# A slot of test_decoding is read after a crash of a server of which nobody has flushed the WAL.  The same scenario must
# go well with honest settings, also if recovery is slow, or the server dies at any step of logging again.
#
# In mode wal the WAL has all that has committed: only the honest settings are tried.
#
# FAULTS="a b"  only these

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_faults();
skip_unless_modules('test_decoding');

# [ zen.fault, is it one, the server's fault while changes are made or while it recovers ]
my @faults = (
	[ none              => 0, 'recovering' ],
	[ r17_no_tail       => 1, 'changing' ],
	[ r17_free_early    => 1, 'changing' ],
	[ r17_forget_tail   => 1, 'recovering' ],
	[ r17_slowly        => 0, 'recovering' ],
	[ r17_worker_late   => 0, 'recovering' ],
	[ r17_no_lost_xid   => 1, 'recovering' ],
	[ r17_stop_noted    => 0, 'recovering' ],
	[ r17_stop_logged   => 0, 'recovering' ],
	[ r17_stop_scrubbed => 0, 'recovering' ],
	[ r17_again_twice   => 1, 'recovering' ]);
my %wanted = map { $_ => 1 } split ' ', $ENV{FAULTS} || '';
@faults = grep { !%wanted || $wanted{ $_->[0] } } @faults;

my $node = new_node('faults', pool_size => '64MB', dram_size => '64MB', faults => 1,
	init => { allows_streaming => 'logical' }, conf => "zen.stream = logical\ninclude 'fault.conf'");
@faults = grep { !$_->[1] && $_->[0] !~ /stop/ } @faults if by_wal($node);
my $dbh;
for (@faults)
{
	my ($fault, $breaks, $when) = @$_;
	my $wrong = play($fault, $when);
	note("$fault: $wrong");
	if ($breaks) { isnt($wrong, '', "$fault is caught: $wrong"); }
	else { is($wrong, '', "$fault: each change once"); }
}
done_testing();

sub set_fault
{
	my ($fault) = @_;
	open(my $fh, '>', $node->data_dir . '/fault.conf') or die $!;
	print $fh "zen.fault = $fault\n";
	close $fh;
	return;
}

# Transactions of which the WAL has nothing, and what a reader is to be told of them.
sub make_changes
{
	my @expected;
	stop_wal_writer($dbh);
	for my $i (1 .. 600)
	{
		run_all($dbh, "INSERT INTO t VALUES ($i, 'a')");
		push @expected, "INSERT: id[integer]:$i v[text]:'a'";
	}
	return @expected;
}

# What goes wrong; '' for nothing.
sub play
{
	my ($fault, $when) = @_;
	set_fault($when eq 'changing' ? $fault : 'none');
	$node->start;
	$dbh = connect_db($node);
	run_all($dbh, 'DROP EXTENSION IF EXISTS zen CASCADE', 'CREATE EXTENSION zen',
		'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen', 'CREATE TABLE IF NOT EXISTS other (a int)',
		q{SELECT pg_create_logical_replication_slot('exact', 'test_decoding')}, 'CHECKPOINT');
	my @expected = make_changes();
	crash($node);
	set_fault($when eq 'recovering' ? $fault : 'none');
	if ($fault =~ /stop|twice/)
	{
		start_to_die($node);
		set_fault('none');
	}
	start_again($node);
	if ($fault =~ /slowly|lost_xid/)
	{
		# others get the xids that are lost
		$dbh = connect_db($node);
		value($dbh, "INSERT INTO other VALUES ($_)") for 1 .. 100;
	}
	$dbh = connect_db($node);
	my $early = run_sql($dbh, 'SELECT count(*) FROM t');
	wait_recovered($dbh);
	value($dbh, 'CHECKPOINT');
	my $rows = $dbh->selectcol_arrayref(
		q{SELECT data FROM pg_logical_slot_get_changes('exact', NULL, NULL, 'include-xids', '0')});
	my @told = map { s/.*public\.t: //r } grep { /public\.t:/ } @$rows;
	my $wrong = "@told" eq "@expected" ? '' : scalar(@told) . ' changes instead of ' . @expected;
	# a statement that comes before recovery waits for it
	$wrong = $early->{message} || "$early->{rows}[0][0] rows seen" if $early->{state} || $early->{rows}[0][0] != 600;
	value($dbh, q{SELECT pg_drop_replication_slot('exact')});
	$dbh->disconnect;
	$node->stop;
	return $wrong;
}
