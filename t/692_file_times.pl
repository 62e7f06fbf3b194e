# Copies by tools that go by a file's size and time: rsync, and all that choose files as it does.
#
#   backups    zen.stream = replica: a full backup, changes by a session that has stored to the same pages before, an
#              incremental one by rsync --link-dest, restored: all of it is there.
#              In each mode that can have a pool in memory
#   moved      rsync of a running server, an orderly stop, rsync again: the server starts on the copy with all rows
#   model      what such a tool sees: after each kind of change the time differs, in whole seconds, from that of each
#              listing before; on a standby, too; and it stays while nothing changes
#
# On a file system that notes stores to a mapping by itself (ext4 without DAX) the kernel would do some of this: so the
# files are in memory.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep time stat);
use ZenTest;

skip_unless_zen();

my $has_rsync = system('rsync --version >/dev/null 2>&1') == 0;
my $scratch   = PostgreSQL::Test::Utils::tempdir();

test_backups($_) for qw(emulated msync wal);
test_moved($_)   for qw(emulated msync wal);
test_model();
test_standby();
done_testing();

sub second_of { return int((stat $_[0])[9]); }

sub rsync
{
	my ($from, $to, @options) = @_;
	PostgreSQL::Test::Utils::system_or_bail('rsync', '-a', '--delete', @options, "$from/", "$to/");
	return;
}

# next_second -- until the clock has come to another second: else rsync would pass over files of heap tables, too, that
# are written again within the second of the copy.
sub next_second
{
	my $now = int(time);
	wait_for('the next second', sub { int(time) != $now });
	return;
}

# --- backups ------------------------------------------------------------------

# backup -- by the functions for tools; beside $link, if that is named.
sub backup
{
	my ($node, $to, $link) = @_;
	my $dbh = connect_db($node);
	value($dbh, q{SELECT pg_backup_start('times', true)});
	rsync($node->data_dir, $to, '--exclude=postmaster.pid', '--exclude=pg_wal/*', $link ? "--link-dest=$link" : ());
	my $label = value($dbh, 'SELECT labelfile FROM pg_backup_stop(false)');
	PostgreSQL::Test::Utils::append_to_file("$to/backup_label", $label);
	rsync($node->data_dir . '/pg_wal', "$to/pg_wal");
	$dbh->disconnect;
	return;
}

sub sums
{
	my ($dbh) = @_;
	return join ' ', map { value($dbh, "SELECT concat_ws('/', min(n), max(n)) FROM $_") } qw(z h);
}

sub restored
{
	my ($node, $from, $name) = @_;
	my $copy = PostgreSQL::Test::Cluster->new($name);
	$copy->init(has_archiving => 0);
	# initdb may have made pg_control within the second of the other one, and they are of one size
	PostgreSQL::Test::Utils::system_or_bail('find', $copy->data_dir, '-mindepth', '1', '-delete');
	rsync($from, $copy->data_dir);
	$copy->append_conf('postgresql.conf',
		sprintf("port = %d\nunix_socket_directories = '%s'", $copy->port, $copy->host));
	$copy->start;
	my $dbh = connect_db($copy);
	wait_recovered($dbh);
	my $sums = sums($dbh);
	$dbh->disconnect;
	$copy->stop;
	$copy->clean_node;
	return $sums;
}

sub test_backups
{
	my ($mode) = @_;
  SKIP:
	{
		skip 'rsync is not installed', 2 unless $has_rsync;
		my $node = new_node("backups_$mode", pool_size => '64MB', pool_path => 'zen.pool',
			init => { allows_streaming => 1 },
			conf => "zen.stream = replica\nwal_keep_size = 512MB\nzen.pool_mode = $mode");
		$node->start;
		my $dbh = connect_db($node);
		run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY, n int) USING zen',
			'CREATE TABLE h (id int PRIMARY KEY, n int) USING heap',
			map { "INSERT INTO $_ SELECT g, 0 FROM generate_series(1, 10) g" } qw(z h));
		for my $i (1 .. 100)
		{
			value($dbh, "UPDATE $_ SET n = $i") for qw(z h);
		}
		backup($node, "$scratch/full_$mode");
		next_second();
		value($dbh, "UPDATE $_ SET n = 1000") for qw(z h);
		backup($node, "$scratch/incr_$mode", "$scratch/full_$mode");
		value($dbh, "UPDATE $_ SET n = 2000") for qw(z h);
		is(restored($node, "$scratch/full_$mode", "restored_full_$mode"), '100/100 100/100', "backups, $mode: full");
		is(restored($node, "$scratch/incr_$mode", "restored_incr_$mode"), '1000/1000 1000/1000',
			"backups, $mode: incremental");
		$dbh->disconnect;
		$node->stop;
		$node->clean_node;
	}
	return;
}

# --- moved --------------------------------------------------------------------

sub test_moved
{
	my ($mode) = @_;
  SKIP:
	{
		skip 'rsync is not installed', 2 unless $has_rsync;
		my $node = new_node("moved_$mode", pool_size => '64MB', pool_path => 'zen.pool',
			conf => "zen.pool_mode = $mode");
		$node->start;
		my $dbh = connect_db($node);
		run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY, n int) USING zen',
			'CREATE TABLE h (id int PRIMARY KEY, n int) USING heap',
			map { ("INSERT INTO $_ SELECT g, 0 FROM generate_series(1, 10) g", "UPDATE $_ SET n = 1") } qw(z h));
		my $to = "$scratch/moved_$mode";
		mkdir $to or die "mkdir $to: $!";
		rsync($node->data_dir, $to, '--exclude=postmaster.*');
		next_second();
		value($dbh, "UPDATE $_ SET n = 2") for qw(z h);
		$dbh->disconnect;
		$node->stop;
		rsync($node->data_dir, $to);
		ok(compare_files($node->data_dir . '/zen.pool', "$to/zen.pool"), "moved, $mode: the pool was copied again");
		is(restored($node, $to, "arrived_$mode"), '2/2 2/2', "moved, $mode: all rows are there");
		$node->clean_node;
	}
	return;
}

sub compare_files { return system('cmp', '-s', @_) == 0; }

# --- model --------------------------------------------------------------------

# rests -- wait until the time has stayed the same for a while: nothing is stored, and all that was is told.
sub rests
{
	my ($pool, $seconds) = @_;
	my ($seen, $since) = (0, time);
	wait_for('the time of the pool to rest', sub {
			my $now = (stat $pool)[9];
			($seen, $since) = ($now, time) if $now != $seen;
			return time - $since > ($seconds // 4); }, 120);
	return;
}

# tells -- is the time after $change another one than in a listing just before it?  With $later: soon.
sub tells
{
	my ($pools, $change, $name, $later) = @_;
	my @before = map { second_of($_) } @$pools;
	my @same;
	$change->();
	my $told = sub { @same = grep { second_of($pools->[$_]) == $before[$_] } 0 .. $#$pools; return !@same; };
	eval { wait_for($name, $told, 20) } if $later;
	@same = grep { second_of($pools->[$_]) == $before[$_] } 0 .. $#$pools;
	is(scalar @same, 0, "model: $name");
	return;
}

# kernel_tells -- as the kernel does when a process stores to a page for the first time; early in a second.
sub kernel_tells
{
	next_second();
	my $now = int(time);
	utime($now, $now, @_) or die "utime: $!";
	return;
}

sub test_model
{
	my $node = new_node('model', pool_size => '64MB', init => { allows_streaming => 1 },
		conf => "zen.pool_max_size = 256MB\nzen.allow_copies_without_rows = on");
	my $pools = [ pool_path($node), pool_path($node) . '.1' ];
	$node->append_conf('postgresql.conf', "zen.pool_path = '" . join(', ', @$pools) . "'");
	$node->start;
	my $dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY, n int) USING zen',
		'INSERT INTO z SELECT g, 0 FROM generate_series(1, 10) g');
	my $update = sub { value($dbh, 'UPDATE z SET n = n + 1'); };

	# at rest who stores tells at once
	for my $i (1 .. 2)
	{
		rests($pools->[0]);
		tells($pools, $update, "a commit at rest, $i");
		my @ahead = grep { (stat $_)[9] > time + 1 } @$pools;
		is(scalar @ahead, 0, 'model: a second from the future at most');
	}

	rests($pools->[0]);
	kernel_tells(@$pools);
	tells($pools, $update, 'a commit at rest, in a second that the kernel has shown');

	# under load it is told soon, and at the start of a backup
	$update->() for 1 .. 20;
	tells($pools, $update, 'a commit under load', 1);
	$update->();
	tells($pools, sub { $update->(); value($dbh, q{SELECT pg_backup_start('a', true)}); }, 'a backup begins');
	tells($pools, sub { $update->(); value($dbh, 'SELECT pg_backup_stop(false)');
			value($dbh, q{DO $$ BEGIN PERFORM pg_backup_start('b', true); END $$}); }, 'another one, from PL/pgSQL');
	value($dbh, 'SELECT pg_backup_stop(false)');
	tells($pools, sub { value($dbh, q{SELECT zen_pool_grow('96MB')}); }, 'it grows', 1);
	tells($pools, sub { $update->(); $dbh->disconnect; $node->stop; }, 'an orderly stop');
	tells($pools, sub { $node->start; }, 'a start');
	$dbh = connect_db($node);
	tells($pools, sub { value($dbh, 'UPDATE z SET n = n + 1'); crash($node); start_again($node); }, 'a crash');
	$dbh = connect_db($node);
	wait_recovered($dbh);
	# the last mark comes 10 s behind the last store, or 15, and is no reason for another one
	rests($pools->[0], 20);
	my $before = second_of($pools->[0]);
	value($dbh, 'SELECT count(*) FROM z') for 1 .. 10;
	sleep 12;    # rounds of the worker, at rest
	is(second_of($pools->[0]), $before, 'model: reading tells nothing');
	$dbh->disconnect;
	$node->stop;
	return;
}

# --- a standby ----------------------------------------------------------------

sub test_standby
{
	my $primary = new_node('times_primary', pool_size => '64MB', pool_path => 'zen.pool',
		init => { allows_streaming => 1 }, conf => "zen.stream = replica\nwal_keep_size = 512MB");
	$primary->start;
	my $dbh = connect_db($primary);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY, n int) USING zen',
		'INSERT INTO z SELECT g, 0 FROM generate_series(1, 10) g');
	$primary->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('times_standby');
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	my $pool = $standby->data_dir . '/zen.pool';
	my $update = sub { value($dbh, 'UPDATE z SET n = n + 1'); $primary->wait_for_catchup($standby, 'replay'); };
	$update->();
	rests($pool);
	tells([$pool], $update, 'redo at rest');
	$update->() for 1 .. 5;
	tells([$pool], $update, 'redo under load', 1);
	rests($pool);
	kernel_tells($pool);
	tells([$pool], $update, 'redo at rest, in a second that the kernel has shown');
	tells([$pool], sub { $update->(); $standby->stop; }, 'an orderly stop of a standby');
	$dbh->disconnect;
	$primary->stop;
	return;
}
