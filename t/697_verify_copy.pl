# zen_verify_pool() on a standby: it looks at the copy, beside redo, finds what is damaged, and nothing else.
#
# Redo has no rest, and stores slowly (copy_stored_slowly), so that it is met in the middle of its work.  That shows
# where zen_verify_pool() looks only once (copy_seen_torn).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use IPC::Run ();
use PoolFile;
use PoolLayout;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(time);
use ZenTest;

use constant LOAD_S => 8;

skip_unless_zen();
skip_unless_faults();

my $primary = copy_primary('primary', pool_size => '16MB', faults => 1);
$primary->start;
my $dbh = connect_db($primary);
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE wide (id int PRIMARY KEY, v text) USING zen',
	'ALTER TABLE wide ALTER v SET STORAGE PLAIN',
	q{INSERT INTO wide SELECT g, repeat('x', 20000) FROM generate_series(1, 100) g},
	'CREATE TABLE narrow (id int PRIMARY KEY, v text) USING zen',
	q{INSERT INTO narrow SELECT g, repeat('x', 100) FROM generate_series(1, 10000) g});
$primary->backup('base');
my $standby = copy_of($primary, 'standby', 'base', has_streaming => 1);
set_conf($standby, 'max_standby_streaming_delay = -1');
$standby->start;
$primary->wait_for_catchup($standby);
my $on_standby = connect_db($standby);

test_sound();
test_load();
test_damage();
test_promotion();
$on_standby->disconnect;
$dbh->disconnect;
done_testing();

# copy_findings -- of zen_verify_pool() on the standby, a line each.
sub copy_findings
{
	my $result = run_sql($on_standby, 'SELECT kind, relation, location, detail FROM zen_verify_pool()');
	die $result->{message} if $result->{state};
	return map { join ' ', map { $_ // '-' } @$_ } @{ $result->{rows} };
}

sub test_sound
{
	my $said = run_sql($on_standby, q{SELECT * FROM zen_verify('wide')});
	is($said->{state}, '0A000', 'zen_verify(): a copy has no tables');
	like($said->{message}, qr/HINT: +zen_verify_pool\(\) looks at the copy/, 'it says what has');
	is_deeply([ copy_findings() ], [], 'nothing is wrong with the copy');
	return;
}

# What redo is just changing is no damage.
sub test_load
{
	my $script = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
	PostgreSQL::Test::Utils::append_to_file($script, <<'END');
\set id random(1, 100)
\set n random(5000, 30000)
UPDATE wide SET v = repeat('y', :n) WHERE id = :id;
BEGIN;
DELETE FROM wide WHERE id = :id;
ROLLBACK;
UPDATE narrow SET v = repeat('z', :n / 100) WHERE id BETWEEN :id AND :id + 20;
CREATE TABLE IF NOT EXISTS made_:client_id (v text) USING zen;
INSERT INTO made_:client_id SELECT repeat('m', 300) FROM generate_series(1, 300);
DROP TABLE made_:client_id;
END
	my $load = IPC::Run::start([ 'pgbench', '-n', '-f', $script, '-c', '2', '-T', '600', '-h', $primary->host, '-p',
		$primary->port, 'postgres' ], '>', '/dev/null', '2>', '/dev/null');
	inject_fault($standby, $on_standby, 'copy_seen_torn');
	my @found;
	wait_for('a look at half a change', sub { push @found, copy_findings(); @found > 0 });
	like($found[0], qr/^(checksum|htable|page|region) /, 'looked at once, a change is taken for damage');
	inject_fault($standby, $on_standby, 'copy_stored_slowly');
	my ($before, $end, $calls) = (value($on_standby, 'SELECT pg_last_wal_replay_lsn()'), time + LOAD_S, 0);
	@found = ();
	while (time < $end) { push @found, copy_findings(); $calls++; }
	cmp_ok(value($on_standby, "SELECT pg_last_wal_replay_lsn() - '$before'"), '>', 1_000_000, 'redo went on meanwhile');
	is_deeply(\@found, [], "beside redo: no change is taken for damage in $calls calls");
	inject_fault($standby, $on_standby, 'none');
	# pgbench ends in order
	$load->signal('INT');
	$load->finish;
	$primary->wait_for_catchup($standby);
	return;
}

# damaged -- what zen_verify_pool() says while the bytes at an offset of the standby's pool are others.
sub damaged
{
	my ($pool, $offset, $change, $wanted, $what) = @_;
	my $old = peek($pool, $offset, 8);
	poke($pool, $offset, pack('Q<', unpack('Q<', $old) ^ $change));
	my @found = copy_findings();
	poke($pool, $offset, $old);
	is(scalar(@found), 1, "$what: one finding");
	like($found[0] // '', $wanted, "$what: $wanted");
	return;
}

sub test_damage
{
	run_all($on_standby, 'SELECT pg_wal_replay_pause()');
	wait_for('the pause', sub { value($on_standby, 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' });
	my $pool = open_pool($standby->data_dir . '/zen.pool');
	my ($htable) = map { $_->[0] } @{ run_sql($on_standby, q{SELECT h.htable FROM _zen_stat_tables() h
		JOIN pg_class c USING (relfilenode) WHERE c.relname = 'narrow'})->{rows} };
	my @slots = grep { !$_->{deleted} } slots_of($pool, $htable);
	# the table's first pages are shared with others, the next ones are its own
	my ($shared, $one, $other) = @slots[ 10, @slots / 2, @slots / 2 + 1 ];
	damaged($pool, $shared->{offset} + 40, 0x8, qr/^checksum - .*checksum of the row/, 'a row of a shared page');
	damaged($pool, $one->{offset} + 40, 0x8, qr/^checksum narrow .*checksum of the row version/, 'a bit of a row');
	damaged($pool, $other->{offset} + 40, 0xff00ff, qr/^checksum narrow /, 'bytes of a row');
	damaged($pool, $one->{offset} + 8, 1 << 20, qr/^checksum narrow /, 'another row');
	damaged($pool, htable_offset($htable), 0x10, qr/^htable - HTable $htable .*checksum/, 'an entry of the tables');
	damaged($pool, page_word_offset(int($one->{offset} / PAGE)), 0x4, qr/^page - page \d+ .*directory/, 'a page');
	damaged($pool, (super_offsets())[0], 1, qr/^superblock - /, 'a superblock');
	is_deeply([ copy_findings() ], [], 'all is as it was');
	close $pool;
	run_all($on_standby, 'SELECT pg_wal_replay_resume()');
	return;
}

# The same pool, as the server's own one.
sub test_promotion
{
	my $rows = 'SELECT md5(string_agg(t::text, $$,$$ ORDER BY id)) FROM narrow t';
	$primary->wait_for_catchup($standby);
	$standby->promote;
	$on_standby->disconnect;
	$on_standby = wait_promoted($standby);
	is_sound($on_standby, 'promoted');
	is(value($on_standby, $rows), value($dbh, $rows), 'promoted: the rows');
	return;
}
