# A time without zen.stream, and kills at each step of its beginning and of its end: a reader of a slot from before is
# told of the gap, and never gets what comes behind it as if nothing were missing.
#
# The steps are those of src/stream/README, "A time without the stream".  Without the stream a row is added, or none;
# before it there is a tail that the WAL has lost, or there is not.  Two settings of zen.fault put the steps in another
# order, and must be seen to hide the gap.
#
# In mode wal the stream is always on: the time without it is one in mode emulated.
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

# [ zen.fault, is it one, which start it is for, is there a tail, is a row added without the stream ]
my @faults = (
	[ none              => 0, 'off', 0, 1 ],
	[ r17_stop_off      => 0, 'off', 0, 1 ],
	[ r17_stop_off      => 0, 'off', 1, 0 ],
	[ r17_stop_given_up => 0, 'off', 0, 1 ],
	[ r17_stop_given_up => 0, 'off', 1, 0 ],
	[ r17_off_late      => 1, 'off', 1, 0 ],
	[ r17_stop_gap      => 0, 'on',  0, 1 ],
	[ r17_stop_gap      => 0, 'on',  1, 1 ],
	[ r17_stop_on       => 0, 'on',  0, 1 ],
	[ r17_gap_unflushed => 1, 'on',  0, 1 ]);
my %wanted = map { $_ => 1 } split ' ', $ENV{FAULTS} || '';
@faults = grep { !%wanted || $wanted{ $_->[0] } } @faults;

my $node = new_node('faults', pool_size => '64MB', dram_size => '64MB', faults => 1,
	init => { allows_streaming => 'logical' }, conf => "zen.stream = logical\ninclude 'fault.conf'");
my $by_wal = by_wal($node);
my $dbh;
for (@faults)
{
	my ($fault, $breaks, $when, $tail, $added) = @$_;
	my $what = "$fault" . ($tail ? ', with a tail' : '') . ($added ? '' : ', nothing added');
	my $hidden = play($fault, $when, $tail, $added);
	if ($breaks) { isnt($hidden, '', "$what is caught: $hidden"); }
	else { is($hidden, '', "$what: the gap is told"); }
}
done_testing();

sub configure
{
	my ($stream, $fault) = @_;
	open(my $fh, '>', $node->data_dir . '/fault.conf') or die $!;
	print $fh "zen.stream = $stream\nzen.fault = $fault\n";
	printf $fh "zen.pool_mode = %s\n", $stream eq 'off' ? 'emulated' : 'wal' if $by_wal;
	close $fh;
	return;
}

sub start
{
	my ($stream) = @_;
	configure($stream, 'none');
	start_again($node);
	$dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION IF NOT EXISTS zen');
	wait_recovered($dbh);
	return;
}

# The ids that a slot tells of, or its error.
sub told
{
	my ($slot) = @_;
	value($dbh, 'CHECKPOINT');
	my $result = run_sql($dbh, "SELECT data FROM pg_logical_slot_get_changes('$slot', NULL, NULL)");
	return $result->{message} if $result->{state};
	return join ' ', map { $_->[0] =~ /public\.t: INSERT: id\[integer\]:(\d+)/ } @{ $result->{rows} };
}

# A slot is moved behind each gap that it is told of: two at most, as the record may be there twice.
sub told_behind_gaps
{
	my ($slot) = @_;
	my $told;
	for (0 .. 2)
	{
		$told = told($slot);
		my ($until) = $told =~ m{zen\.stream was off before ([0-9A-F]+/[0-9A-F]+)} or last;
		value($dbh, "SELECT pg_replication_slot_advance('$slot', '$until')");
	}
	return $told;
}

# What goes wrong; '' for nothing.
sub play
{
	my ($fault, $when, $tail, $added) = @_;
	start('logical');
	run_all($dbh, 'DROP TABLE IF EXISTS t', 'CREATE TABLE t (id int) USING zen',
		(map { "SELECT pg_create_logical_replication_slot('$_', 'test_decoding')" } 'old', 'moved'), 'CHECKPOINT');
	stop_wal_writer($dbh) if $tail;
	value($dbh, 'INSERT INTO t VALUES (1)');
	$dbh->disconnect;
	$tail ? crash($node) : $node->stop;

	configure('off', $when eq 'off' ? $fault : 'none');
	start_to_die($node) if $when eq 'off' && $fault ne 'none';
	if ($added)
	{
		start('off');
		value($dbh, 'INSERT INTO t VALUES (2)');
		$dbh->disconnect;
		$node->stop;
	}
	configure('logical', $when eq 'on' ? $fault : 'none');
	start_to_die($node) if $when eq 'on';
	start('logical');
	value($dbh, q{SELECT pg_create_logical_replication_slot('new', 'test_decoding')});
	value($dbh, 'INSERT INTO t VALUES (3)');

	my $old = told('old');
	my $rows = join ' ', @{ $dbh->selectcol_arrayref('SELECT id FROM t ORDER BY id') };
	my $wrong = '';
	$wrong = "rows $rows" if $rows ne ($added ? '1 2 3' : '1 3');
	$wrong ||= "the old slot has $old" if $old !~ /changes of zen tables are missing from the logical slot "old"/;
	my %behind = map { $_ => told_behind_gaps($_) } 'moved', 'new';
	$wrong ||= "the moved slot has $behind{moved}" if $behind{moved} ne '3';
	$wrong ||= "the new slot has $behind{new}" if $behind{new} ne '3';
	value($dbh, "SELECT pg_drop_replication_slot('$_')") for 'old', 'moved', 'new';
	$dbh->disconnect;
	$node->stop;
	return $wrong;
}
