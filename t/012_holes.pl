# A pool file with holes, as copying tools make them of zeroes.  On a full file system a store into one would be a
# SIGBUS.
#
#   filled     a start fills them, and the rows are there; a file without holes is left alone
#   full       no room for that: the server does not start, and says so, once
#   room       the file system is filled behind the start: the whole pool can be written
#   punched    holes are made while the server runs, and there is no room: it ends, and does not restart for ever
#
# The last three want a small file system, which the test makes in a user namespace.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $MB = 1 << 20;
my $node = new_node('holes', pool_size => '32MB', dram_size => '64MB', conf => 'restart_after_crash = on');
my $pool = pool_path($node);
my $saved = PostgreSQL::Test::Utils::tempdir() . '/saved';
# the shell goes on when there is no room any more
my $fill = '{ dd if=/dev/zero of=fill bs=4k 2>/dev/null; true; }';
my @unshare = qw(unshare --user --map-current-user --keep-caps --mount);

$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY, v text) USING zen',
	q{INSERT INTO z SELECT g, repeat('x', 100) FROM generate_series(1, 100) g});
$dbh->disconnect;
$node->stop;
save_server($node, $saved);

test_filled();
my $why_not = system(@unshare, 'sh', '-c', 'mount -t tmpfs tmpfs /mnt') == 0 ? '' : 'no user namespace with mounts';
SKIP:
{
	skip $why_not, 9 if $why_not;
	test_full();
	test_room();
	test_punched();
}
done_testing();

sub allocated { return (stat $pool)[12] * 512; }

sub test_filled
{
	PostgreSQL::Test::Utils::system_or_bail('cp', '--sparse=always', "$saved.pool", $pool);
	cmp_ok(allocated(), '<', 32 * $MB, 'filled: the copy has holes');
	$node->start;
	cmp_ok(allocated(), '>=', 32 * $MB, 'filled: it has none');
	$dbh = connect_db($node);
	is(value($dbh, 'SELECT count(*) FROM z'), 100, 'filled: rows');
	is(value($dbh, 'SELECT count(*) FROM zen_verify_pool()'), 0, 'filled: sound');
	$dbh->disconnect;
	$node->stop;
	return;
}

# --- a small file system ------------------------------------------------------

# start_within -- start the server in a namespace where the pool's directory is a tmpfs of 34 MB with a copy of the
# pool.  $before is run before the start, $behind after it.  The status; the file system goes with the server.
sub start_within
{
	my ($copy, $before, $behind) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	restore_server($node, $saved);
	$node->append_conf('postgresql.conf', "zen.pool_path = '$dir/zen.pool'");
	local %ENV = $node->_get_env();
	my $start = sprintf q{'%s' -w -D '%s' -l '%s' start}, $node->installed_command('pg_ctl'), $node->data_dir,
	  $node->logfile;
	my $status = system(@unshare, 'sh', '-c', "mount -t tmpfs -o size=34m tmpfs '$dir' && cd '$dir' && "
		  . "cp $copy '$saved.pool' zen.pool && $before && $start >/dev/null && $behind");
	$node->_update_pid(-1) if $status == 0;
	return $status;
}

sub test_full
{
	my $offset = log_size($node);
	isnt(start_within('--sparse=always', $fill, 'true'), 0, 'full: it does not start');
	my $said = log_since($node, $offset);
	like($said, qr/FATAL:  53100: could not fill the holes of zen pool file .*No space left/, 'full: message');
	like($said, qr/Of its 32 MB, \d+ MB are allocated.*HINT:.*Free space on its file system/s, 'full: detail and hint');
	$node->stop('immediate') if -e $node->data_dir . '/postmaster.pid';
	return;
}

# Rows up to the last page; then 53100.
sub fill_pool
{
	my ($dbh) = @_;
	my $state = '';
	for (1 .. 1000)
	{
		$state = state_of($dbh,
			q{INSERT INTO z SELECT (SELECT max(id) FROM z) + g, repeat('y', 500) FROM generate_series(1, 1000) g});
		last if $state;
	}
	return $state;
}

sub test_room
{
	my $offset = log_size($node);
	is(start_within('--sparse=always', 'true', $fill), 0, 'room: it starts');
	$dbh = connect_db($node);
	value($dbh, q{SET zen.full_timeout = 0});
	is(fill_pool($dbh), '53100', 'room: the whole pool was written');
	unlike(log_since($node, $offset), qr/terminated by signal/, 'room: no process has died');
	$dbh->disconnect;
	$node->stop;
	return;
}

sub test_punched
{
	my $offset = log_size($node);
	is(start_within('--sparse=never', 'true', "fallocate --dig-holes zen.pool && $fill"), 0, 'punched: it starts');
	$dbh = connect_db($node);
	value($dbh, q{SET zen.full_timeout = 0});
	ok(fill_pool($dbh), 'punched: a store finds no room');
	wait_for('the server to end', sub { !-e $node->data_dir . '/postmaster.pid' }, 60);
	my $said = log_since($node, $offset);
	my @died = $said =~ /terminated by signal/g;
	ok(@died == 1 && $said =~ /FATAL:  53100: could not fill the holes/, 'punched: it ends after one of them');
	$node->_update_pid(0);
	return;
}
