# Base backups of a standby, at their worst: what a copier may meet is put together by hand.
#
# - early: the pool's first page, which says how far redo has come, is copied long before all others
# - line: of a region's line the watermark is copied, then redo goes on, then the descriptor is copied
#
# With an honest server the copy has all rows.  A server that breaks R18 must be seen to lose some.
#
# FAULTS="a b"  only these

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PoolImage;
use PoolLayout;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_faults();

use constant WATERMARK => 32;    # bytes of a region's line, at its begin

# [ zen.fault, is it one, of which server, what is copied ]
my @faults = (
	[ none                 => 0, 'primary', \&early ],
	[ r18_uncovered        => 1, 'standby', \&early ],
	[ none                 => 0, 'primary', \&line ],
	[ r18_descriptor_goes  => 1, 'standby', \&line ],
	[ none                 => 0, 'primary', \&prepared_line ],
	[ r18_committed_unsaid => 1, 'primary', \&prepared_line ]);
my %wanted = map { $_ => 1 } split ' ', $ENV{FAULTS} || '';
my $n = 0;

for (grep { !%wanted || $wanted{ $_->[0] } } @faults)
{
	my ($fault, $breaks, $whose, $play) = @$_;
	my $wrong = with_servers($fault, $whose, $play);
	if ($breaks) { isnt($wrong, '', "$fault is caught: " . substr($wrong, 0, 160)); }
	else { is($wrong, '', "$fault: the copy has all rows"); }
}
done_testing();

sub set_fault
{
	my ($node, $fault) = @_;
	open(my $fh, '>', $node->data_dir . '/fault.conf') or die $!;
	print $fh "zen.fault = $fault\n";
	close $fh;
	$node->reload if $node->{_pid};
	return;
}

# What goes wrong; '' for nothing.
sub with_servers
{
	my ($fault, $whose, $play) = @_;
	$n++;
	my $primary = copy_primary("primary_$n", faults => 1, conf => <<'END');
include 'fault.conf'
# no page of heap is written meanwhile, which would raise minRecoveryPoint
shared_buffers = 64MB
bgwriter_lru_maxpages = 0
END
	set_fault($primary, 'none');
	$primary->start;
	my $dbh = connect_db($primary);
	run_all($dbh, 'CREATE EXTENSION zen',
		map { ("CREATE TABLE $_ (id int PRIMARY KEY, v int) USING $_",
			  "INSERT INTO $_ SELECT g, 0 FROM generate_series(1, 1000) g") } qw(zen heap));
	$primary->backup('base');
	my $standby = copy_of($primary, "standby_$n", 'base', has_streaming => 1);
	$standby->start;
	set_fault($whose eq 'primary' ? $primary : $standby, $fault);
	my $wrong = $play->($primary, $dbh, $standby);
	$dbh->disconnect;
	$_->stop('immediate') for $standby, $primary;
	return $wrong;
}

sub replay_all
{
	my ($primary, $dbh, $standby) = @_;
	value($dbh, 'SELECT pg_current_wal_lsn()');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
	return;
}

# A restartpoint of the standby behind all that has been.
sub restartpoint
{
	my ($primary, $dbh, $standby) = @_;
	value($dbh, 'CHECKPOINT');
	replay_all($primary, $dbh, $standby);
	my $there = connect_db($standby);
	value($there, 'CHECKPOINT');
	$there->disconnect;
	return;
}

# open_copy -- with the WAL that the standby has, to its end or, if that is wanted, to the backup's end.
sub open_copy
{
	my ($standby, $copy, $early) = @_;
	unlink $copy->data_dir . '/standby.signal';
	set_fault($copy, 'none');
	set_conf($copy, 'port = ' . $copy->port . "\nrestore_command = 'cp " . $standby->data_dir . "/pg_wal/%f %p'\n"
		  . ($early ? "recovery_target = immediate\nrecovery_target_action = promote" : ''));
	signal_file($copy, 'recovery');
	return "it does not start\n" if !$copy->start(fail_ok => 1);
	my $handle = connect_db($copy);
	wait_for('the promotion', sub { value($handle, 'SELECT NOT pg_is_in_recovery()') });
	my $state;
	wait_for('recovery', sub {
			$state = run_sql($handle, 'SELECT state FROM zen_recovery')->{rows}[0][0];
			return $state eq 'ready' || $state eq 'failed'; });
	return "recovery has failed\n" if $state eq 'failed';
	wait_recovered($handle);
	my $different = value($handle,
		'SELECT count(*) FROM zen FULL JOIN heap USING (id) WHERE zen.v IS DISTINCT FROM heap.v');
	my @wrong = $different ? "$different rows differ" : ();
	push @wrong, findings($handle);
	$handle->disconnect;
	$copy->stop('immediate');
	return join "\n", @wrong;
}

# --- the first page comes early ------------------------------------------------------

# Replay of a transaction that has written to both kinds of tables raises minRecoveryPoint at its end.
sub change
{
	my ($dbh, $from) = @_;
	for my $table (qw(zen heap))
	{
		run_all($dbh, ("UPDATE $table SET v = v + 1") x 4, "DELETE FROM $table WHERE id = $from");
	}
	return;
}

sub early
{
	my ($primary, $dbh, $standby) = @_;
	restartpoint($primary, $dbh, $standby);
	my $session = connect_db($standby);
	value($session, q{SELECT pg_backup_start('early', true)});
	my $copy = PostgreSQL::Test::Cluster->new("early_$n", install_path => $ENV{ZEN_FAULT_SERVER});
	mkdir $copy->data_dir or die $!;
	PostgreSQL::Test::Utils::system_or_bail('rsync', '-a', '--exclude=postmaster.*', '--exclude=/pg_wal/*',
		'--exclude=/global/pg_control', $standby->data_dir . '/', $copy->data_dir . '/');
	my $first = PoolImage->new($copy->data_dir . '/zen.pool')->get(0, PAGE);
	# the backup may end before the last commit, but not before what it has stored
	change($dbh, $_) for 1 .. 3;
	run_all($dbh, ('UPDATE zen SET v = v') x 3);
	replay_all($primary, $dbh, $standby);
	my $pool = PoolImage->new($standby->data_dir . '/zen.pool');
	$pool->put(0, $first);
	$pool->save($copy->data_dir . '/zen.pool');
	PostgreSQL::Test::Utils::system_or_bail('cp', $standby->data_dir . '/global/pg_control',
		$copy->data_dir . '/global/');
	my $label = run_sql($session, 'SELECT labelfile FROM pg_backup_stop(false)')->{rows}[0][0];
	PostgreSQL::Test::Utils::append_to_file($copy->data_dir . '/backup_label', $label);
	$session->disconnect;
	# PostgreSQL stops before a record
	replay_all($primary, $dbh, $standby) if value($dbh, 'SELECT pg_switch_wal()');
	return open_copy($standby, $copy, 1);
}

# --- a region's line comes in two parts ------------------------------------------------

sub watermarks
{
	my ($pool) = @_;
	return map { $pool->get(region_offset($_), WATERMARK) } 0 .. REGIONS - 1;
}

# copy_torn -- a backup of the standby with these watermarks, and all else as it is.  How many differ.
sub copy_torn
{
	my ($standby, @before) = @_;
	$standby->backup("torn_$n");
	my $copy = copy_of($standby, "torn_$n", "torn_$n");
	my $pool = PoolImage->new($copy->data_dir . '/zen.pool');
	my @now = watermarks($pool);
	my @raised = grep { $now[$_] ne $before[$_] } 0 .. $#now;
	$pool->put(region_offset($_), $before[$_]) for @raised;
	$pool->save;
	return ($copy, scalar @raised);
}

# evidence -- a transaction of a region that has nothing else from then on.  The standby has its descriptor, and then a
# restartpoint behind it, whose redo raises the watermark.  The session, and the watermarks before that.
sub evidence
{
	my ($primary, $dbh, $standby) = @_;
	my $busy = connect_db($primary);
	run_all($busy, 'BEGIN', 'INSERT INTO zen VALUES (2000, 1)', 'INSERT INTO heap VALUES (2000, 1)',
		q{PREPARE TRANSACTION 'busy'});
	my $session = connect_db($primary);
	run_all($session, map { "INSERT INTO $_ VALUES (2001, 1)" } qw(zen heap));
	run_all($busy, q{COMMIT PREPARED 'busy'});
	$busy->disconnect;
	replay_all($primary, $dbh, $standby);
	my @before = watermarks(PoolImage->new($standby->data_dir . '/zen.pool'));
	restartpoint($primary, $dbh, $standby);
	return ($session, @before);
}

# Redo of the checkpoint has raised it.
sub line
{
	my ($primary, $dbh, $standby) = @_;
	my ($session, @before) = evidence($primary, $dbh, $standby);
	my ($copy, $raised) = copy_torn($standby, @before);
	cmp_ok($raised, '>', 0, 'watermarks were raised meanwhile');
	$session->disconnect;
	return open_copy($standby, $copy);
}

# The region's next transaction takes the descriptor's place, and is prepared.
sub prepared_line
{
	my ($primary, $dbh, $standby) = @_;
	my ($session, @before) = evidence($primary, $dbh, $standby);
	run_all($session, 'BEGIN', (map { "INSERT INTO $_ VALUES (2002, 1)" } qw(zen heap)), q{PREPARE TRANSACTION 'next'});
	replay_all($primary, $dbh, $standby);
	my ($copy, $raised) = copy_torn($standby, @before);
	cmp_ok($raised, '>', 0, 'watermarks were raised meanwhile');
	my $wrong = open_copy($standby, $copy);
	run_all($session, q{COMMIT PREPARED 'next'});
	$session->disconnect;
	return $wrong;
}
