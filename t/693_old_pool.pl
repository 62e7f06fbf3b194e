# A pool and a data directory of different moments within one start: the older one is refused, and nothing is changed.
#
#   stop       a pool that was copied while the server ran does not go with a data directory that was stopped in order,
#              and the other way round; the pair of the stop does, and so does that of a stop that was cut short
#   crash      after a crash the mark tells: of the pool, of the data directory; the pair that was killed starts
#   way on     what the hint says: a line in zen.state; none in mode wal
#   files      an older further file of the pool
#   without    a server that has run without zen since, single-user mode, pg_resetwal, a standby: their pairs start
#   former     a zen.state of a former version, without a mark

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PoolImage;
use PoolLayout;
use PostgreSQL::Test::Utils qw(slurp_file system_or_bail);
use Test::More;
use Time::HiRes qw(sleep);
use ZenTest;

skip_unless_zen();

my $node = new_node('moments', pool_size => '64MB', dram_size => '64MB');
my $pool = pool_path($node);
my $state = $node->data_dir . '/zen.state';
my $saved = PostgreSQL::Test::Utils::tempdir();
$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY, n int) USING zen',
	'INSERT INTO z VALUES (1, 0)');

test_stop();
test_crash();
test_files();
test_without();
test_former();
$dbh->disconnect;
$node->stop;
test_standby();
done_testing();

# --- helpers ------------------------------------------------------------------

sub n { return value($dbh, 'SELECT n FROM z'); }

sub set_n { return value($dbh, "UPDATE z SET n = $_[0]"); }

sub mark_of_state { return slurp_file($state) =~ /^mark (\d+)$/m ? $1 : undef; }

# new_mark -- something is stored, and the mark is raised behind it.
sub new_mark
{
	my ($n) = @_;
	my $before = mark_of_state();
	set_n($n);
	wait_for('a mark', sub { mark_of_state() > $before }, 60);
	return;
}

sub keep    { my ($name) = @_; copy_tree($pool, "$saved/$name.pool"); copy_tree($state, "$saved/$name.state"); return; }
sub take    { my ($name, @what) = @_; copy_tree("$saved/$name.$_", $_ eq 'pool' ? $pool : $state) for @what; return; }
sub stopped { $dbh->disconnect; $node->stop; return; }
sub killed  { crash($node); return; }

sub started
{
	start_again($node);
	$dbh = connect_db($node);
	wait_recovered($dbh);
	return;
}

# refused -- the server does not start, says which of both is older, and leaves the pool as it is.
sub refused
{
	my ($older, $name) = @_;
	my $before = PostgreSQL::Test::Utils::slurp_file($pool);
	my $said = start_failing($node) // 'it started';
	like($said, qr/are not of the same moment/, "$name: refused");
	like($said, qr/the $older is an older copy/, "$name: which");
	ok($before eq slurp_file($pool), "$name: unchanged");
	return $said;
}

# --- an orderly stop ----------------------------------------------------------

sub test_stop
{
	set_n(1);
	keep('running');
	set_n(2);
	stopped();
	keep('stopped');

	take('running', 'pool');
	refused('pool', 'stop: an older pool');
	take('stopped', 'pool');
	started();
	is(n(), 2, 'stop: the pair starts');

	# between PostgreSQL's shutdown checkpoint and the end of the stop the server may be killed
	set_n(3);
	keep('running');
	stopped();
	take('running', 'state');
	started();
	is(n(), 3, 'stop: killed before zen.state was written');
	keep('running');
	stopped();
	take('running', 'pool', 'state');
	started();
	is(n(), 3, 'stop: killed before the pool knew of it');

	# a start since: its number tells
	stopped();
	keep('stopped');
	started();
	set_n(4);
	stopped();
	keep('later');
	take('stopped', 'pool');
	refused('pool', 'stop: a pool of the stop before');
	take('later', 'pool');
	take('stopped', 'state');
	refused('data directory', 'stop: a data directory of the stop before');
	take('later', 'state');
	started();
	is(n(), 4, 'stop: back again');
	return;
}

# --- a crash ------------------------------------------------------------------

sub test_crash
{
	keep('mark0');
	new_mark(5);
	keep('mark1');
	new_mark(6);
	set_n(7);
	killed();
	keep('last');

	take('mark0', 'pool');
	my $said = refused('pool', 'crash: an older pool');
	take('last', 'pool');
	take('mark0', 'state');
	unlike(refused('data directory', 'crash: an older data directory'), qr/write "mark/,
		'crash: no way on to older catalogs');

	take('last', 'state');
	if (by_wal($node))
	{
		# the WAL from the last checkpoint on does not go with any older pool
		unlike($said, qr/write "mark/, 'crash: no way on');
		take('last', 'pool');
		started();
		is(n(), 7, 'crash: the newer pool');
	}
	else { test_way_on($said); }

	# the true pair
	set_n(8);
	new_mark(9);
	set_n(10);
	killed();
	started();
	is(n(), 10, 'crash: the pair starts');
	return;
}

sub test_way_on
{
	my ($said) = @_;
	take('mark0', 'pool');
	my ($new, $old, $file) = $said =~ /write "(mark \d+)" in place of "(mark \d+)" into "([^"]+)"/;
	is($file, $state, 'crash: the hint names the file');
	my $text = slurp_file($state);
	ok($text =~ s/^$old$/$new/m, 'crash: and the line');
	unlink $state;
	PostgreSQL::Test::Utils::append_to_file($state, $text);
	started();
	is(n(), 4, 'crash: the older pool, as was asked for');
	return;
}

# --- several files ------------------------------------------------------------

sub test_files
{
	stopped();
	$node->append_conf('postgresql.conf', "zen.pool_path = '$pool, $pool.1'");
	started();
	copy_tree("$pool.1", "$saved/old.1");
	new_mark(11);
	new_mark(12);
	killed();
	copy_tree("$pool.1", "$saved/new.1");
	copy_tree("$saved/old.1", "$pool.1");
	my $said = start_failing($node) // 'it started';
	like($said, qr/"\Q$pool.1\E" is an older copy/, 'files: an older file is refused');
	copy_tree("$saved/new.1", "$pool.1");
	started();
	is(n(), 12, 'files: all of one moment');
	set_n(13);
	copy_tree("$pool.1", "$saved/old.1");
	stopped();
	copy_tree("$pool.1", "$saved/new.1");
	copy_tree("$saved/old.1", "$pool.1");
	$said = start_failing($node) // 'it started';
	like($said, qr/not of the same moment/, 'files: one of before the stop is refused');
	copy_tree("$saved/new.1", "$pool.1");
	started();
	is(n(), 13, 'files: back again');
	return;
}

# --- what else touches the data directory -------------------------------------

sub single_user
{
	my ($preload) = @_;
	my $single = sprintf q{'%s' --single -c shared_preload_libraries=%s -D '%s' postgres},
	  $node->installed_command('postgres'), $preload, $node->data_dir;
	return PostgreSQL::Test::Utils::system_log('sh', '-c', "echo 'SELECT 1' | $single >/dev/null");
}

sub test_without
{
	set_n(20);
	stopped();
	is(single_user('zen'), 0, 'without: single-user mode runs');
	started();
	is(n(), 20, 'without: single-user mode');
	stopped();
	is(single_user(q{''}), 0, 'without: it runs without zen');
	started();
	is(n(), 20, 'without: single-user mode without zen');

	set_n(21);
	killed();
	unlink $node->data_dir . '/postmaster.pid';
	my $runs = single_user(q{''}) == 0;
	is($runs ? 1 : 0, by_wal($node) ? 0 : 1, 'without: in mode wal a crash cannot be recovered without zen');
	started();
	is(n(), 21, 'without: a crash, and single-user mode without zen');

	set_n(22);
	new_mark(23);
	stopped();
	system_or_bail($node->installed_command('pg_resetwal'), $node->data_dir);
	started();
	is(n(), 23, 'without: pg_resetwal after a stop');

	# a stop in which the pool was not recovered
	set_n(24);
	killed();
	$node->append_conf('postgresql.conf', "zen.dram_size = 8MB\nzen.save_map = off");
	start_again($node);
	$node->stop;
	$node->append_conf('postgresql.conf', "zen.dram_size = 64MB\nzen.save_map = on");
	started();
	is(n(), 24, 'without: a stop before the pool was recovered');
	return;
}

# --- zen.state of a former version --------------------------------------------

sub test_former
{
	set_n(30);
	new_mark(31);
	killed();
	my $text = slurp_file($state);
	$text =~ s/^format 2$/format 1/m;
	$text =~ s/^mark \d+\n//m;
	unlink $state;
	PostgreSQL::Test::Utils::append_to_file($state, $text);
	started();
	is(n(), 31, 'former: a zen.state without a mark');
	like(slurp_file($state), qr/^format 2\n.*^mark \d+$/ms, 'former: it has one now');
	return;
}

# --- a standby ----------------------------------------------------------------

sub test_standby
{
	my $primary = copy_primary('moments_primary');
	$primary->start;
	$dbh = connect_db($primary);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE z (id int PRIMARY KEY, n int) USING zen',
		'INSERT INTO z VALUES (1, 0)');
	$state = $primary->data_dir . '/zen.state';
	new_mark(1);
	$primary->backup('base');
	my $standby = copy_of($primary, 'moments_standby', 'base', has_streaming => 1);
	$standby->start;
	my $its = $standby->data_dir . '/zen.pool';
	$primary->wait_for_catchup($standby, 'replay');
	copy_tree($its, "$saved/standby.pool");
	set_n(2);
	$primary->wait_for_catchup($standby, 'replay');
	$standby->stop;
	copy_tree($its, "$saved/standby.new");
	copy_tree("$saved/standby.pool", $its);
	my $said = start_failing($standby) // 'it started';
	like($said, qr/the pool is an older copy/, 'standby: a pool of before its stop is refused');
	copy_tree("$saved/standby.new", $its);
	$standby->start;
	$primary->wait_for_catchup($standby, 'replay');
	crash($standby);
	start_again($standby);
	set_n(3);
	$primary->wait_for_catchup($standby, 'replay');
	$dbh->disconnect;
	$dbh = promoted($standby);
	is(n(), 3, 'standby: stopped, killed, promoted');
	$dbh->disconnect;
	$standby->stop;
	$primary->stop;
	return;
}
