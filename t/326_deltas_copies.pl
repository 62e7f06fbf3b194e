# Copies of a pool with versions that hold only what changed (zen.deltas, R22).
#
# - The standby's pool begins with format 2, and has format 5 when it has got the first delta, though zen.deltas is off
#   there.  Its pool has the same bytes as the primary's.
# - An update of one int of 1 KB writes less WAL than with whole versions.
# - Readers on the hot standby see the rows that heap's twin shows, by one snapshot, also when it is held while bases
#   are replaced and their slots are used again.
# - A standby that is killed goes on; one that is promoted has all rows, and no slot is lost.
#
# SEED=n replays a run; ROUNDS=n

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
choose_seed();
my $rounds = $ENV{ROUNDS} || 6;
my $is_promoted = 0;

my $primary = copy_primary('primary', pool_size => '128MB', dram_size => '128MB', conf => <<'END');
zen.standby_reads = on
zen.spill_threshold = 256kB
zen.deltas = off
END
$primary->start;
my $dbh = connect_db($primary);
run_all($dbh, 'CREATE EXTENSION zen', map { ("CREATE TABLE $_ (id int PRIMARY KEY, n int, a text) USING "
		  . ($_ eq 'h' ? 'heap' : 'zen'),
		"ALTER TABLE $_ ALTER a SET STORAGE " . ($_ eq 'h' ? 'EXTERNAL' : 'PLAIN'),
		"INSERT INTO $_ SELECT g, 0, left(repeat(md5(g::text), 200), 600 + 97 * (g % 50)) "
		  . 'FROM generate_series(1, 200) g',
		"INSERT INTO $_ VALUES (1000, 0, repeat('x', 960))") } qw(h d));
my $whole = wal_of('UPDATE d SET n = n + 1 WHERE id = 1000');
$primary->backup('base');
my $standby = copy_of($primary, 'standby', 'base', has_streaming => 1);
set_conf($standby, "hot_standby_feedback = off\nmax_standby_streaming_delay = -1");
$standby->start;
my $on_standby = connect_db($standby);
set_conf($primary, 'zen.deltas = on');
$dbh = clean_restart($primary, $dbh);
caught_up();
is(value($on_standby, 'SELECT format_version FROM zen_pool'), 2, 'the copy has the format that it began with');
my $delta = wal_of('UPDATE d SET n = n + 1 WHERE id = 1000');
note("WAL of one int of 1 KB: $delta bytes, whole $whole");
cmp_ok($delta, '<', $whole - 700, 'the WAL has what has changed');
value($dbh, 'UPDATE h SET n = n + 10 WHERE id = 1000');
caught_up();
is(value($on_standby, 'SELECT format_version FROM zen_pool'), 5, 'the copy has got a delta');

for my $round (1 .. $rounds)
{
	changes();
	same($on_standby, "round $round");
	held($round);
	if (one_in(3))
	{
		$on_standby->disconnect;
		crash($standby);
		start_again($standby);
		$on_standby = connect_db($standby);
		caught_up();
		same($on_standby, "round $round: killed");
	}
	elsif (one_in(3))
	{
		$dbh->disconnect;
		crash($primary);
		start_again($primary);
		$dbh = connect_db($primary);
		caught_up();
		same($dbh, "round $round: the primary killed");
		same($on_standby, "round $round: its standby");
	}
}
is(pools_differ($primary, $dbh, $standby), '', 'the bytes of both pools');
is_sound($on_standby, 'standby');
is_sound($dbh, 'primary');
$on_standby->disconnect;
$dbh->disconnect;
$primary->stop;
$dbh = promoted($standby);
$is_promoted = 1;
same($dbh, 'promoted');
is_sound($dbh, 'promoted');
value($dbh, "UPDATE $_ SET n = n + 1") for qw(h d);
$dbh = crash_restart($standby);
same($dbh, 'promoted and killed');
is_sound($dbh, 'promoted and killed');
$dbh->disconnect;
$standby->stop;
done_testing();

sub caught_up
{
	value($dbh, 'SELECT pg_current_wal_lsn()');    # flushes
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

sub wal_of
{
	my ($sql) = @_;
	my @bytes;
	for (1 .. 5)
	{
		my $before = value($dbh, 'SELECT pg_current_wal_insert_lsn()');
		value($dbh, $sql);
		push @bytes, value($dbh, "SELECT pg_current_wal_insert_lsn() - '$before'::pg_lsn");
	}
	return (sort { $a <=> $b } @bytes)[0];
}


sub rows_sql { return "(SELECT md5(string_agg(md5(x::text), '' ORDER BY id)) FROM $_[0] x)"; }

sub same
{
	my ($handle, $when) = @_;
	caught_up() if !$is_promoted;
	return is(value($handle, 'SELECT ' . rows_sql('d') . ' = ' . rows_sql('h')), 1, "$when: rows");
}

sub both
{
	for my $sql (@_)
	{
		value($dbh, $sql =~ s/\bT\b/$_/gr) for $sql =~ /\bT\b/ ? qw(h d) : 'd';
	}
	return;
}

sub changes
{
	for (1 .. between(4, 10))
	{
		my $some = sprintf 'id %% 7 = %d', between(0, 6);
		my $what = between(1, 1_000_000);
		both('BEGIN') if one_in(2);
		both(pick(("UPDATE T SET n = n + $what WHERE $some") x 3, "UPDATE T SET n = n + 1",
				"UPDATE T SET a = left(repeat(md5('$what' || id), 200), length(a)) WHERE $some",
				"UPDATE T SET a = overlay(a placing '$what' from 300) WHERE $some",
				"DELETE FROM T WHERE id = " . between(1, 200),
				"INSERT INTO T SELECT g, 0, repeat(md5('$what'), 40) FROM generate_series(1, 200, 9) g "
				  . 'ON CONFLICT DO NOTHING'));
		both(one_in(4) ? 'ROLLBACK' : 'COMMIT') if $dbh->pg_ping == 3;
		both('VACUUM d') if one_in(3);
	}
	return;
}

# A snapshot is held on the standby.  Meanwhile nothing happens to heap, whose redo would wait for the snapshot.
sub held
{
	my ($round) = @_;
	my $reader = connect_db($standby);
	run_all($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $sql  = 'SELECT ' . rows_sql('d');
	my $seen = value($reader, $sql);
	my @changes = ('UPDATE T SET n = n + 1', "UPDATE T SET a = left(repeat(md5('held $round' || id), 200), length(a))",
		'UPDATE T SET n = n + 1') x 2;
	for my $change (@changes)
	{
		value($dbh, $change =~ s/\bT\b/d/r);
		value($dbh, 'VACUUM d');
	}
	caught_up();
	is(value($reader, $sql), $seen, "round $round: a snapshot that is held");
	value($reader, 'COMMIT');
	$reader->disconnect;
	value($dbh, s/\bT\b/h/r) for @changes;
	same($on_standby, "round $round: behind it");
	return;
}
