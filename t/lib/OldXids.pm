# OldXids -- transactions that are older than pg_xact: a primary whose pg_xact is soon cut, and what cuts it.
#
# pg_xact loses a file when no table of any database has an older xid.  A cluster that begins close to the end of the
# file needs few transactions for that.

package OldXids;

use strict;
use warnings;

use CopyServers;
use Exporter 'import';
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

our @EXPORT = qw(new_primary begin_at update_rows caught_up freeze_all burn_xids cut is_whole FILE_XIDS FIRST_XID);

use constant { FILE_XIDS => 1 << 20, FIRST_XID => (1 << 20) - 4000, FILE_BYTES => 256 * 1024 };

# new_primary -- a hash: primary, dbh, a connection to it, and sum, that of the rows of ag.  It has a backup `base`, and
# the next xid is $xid, if that is not 0; options as of copy_primary.  Set xids in it, and cut takes at least so many.
sub new_primary
{
	my ($name, $xid, %opt) = @_;
	my $primary = copy_primary($name, %opt, conf => "checkpoint_timeout = 1h\n" . ($opt{conf} // ''));
	begin_at($primary, $xid) if $xid;
	$primary->start;
	my $dbh = connect_db($primary);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE ag (id int PRIMARY KEY, v int) USING zen',
		'INSERT INTO ag SELECT g, g FROM generate_series(1, 50) g', 'CREATE TABLE h (id int) USING heap');
	$primary->backup('base');
	return { primary => $primary, dbh => $dbh, sum => 1275 };
}

# begin_at -- the next xid of a server that is stopped, and its file of pg_xact.
sub begin_at
{
	my ($node, $xid) = @_;
	my $file = sprintf '%s/pg_xact/%04X', $node->data_dir, $xid / FILE_XIDS;
	PostgreSQL::Test::Utils::system_or_bail($node->installed_command('pg_resetwal'), '-x', $xid, '-D', $node->data_dir);
	PostgreSQL::Test::Utils::append_to_file($file, '');
	truncate $file, FILE_BYTES or die "cannot lengthen $file: $!";
	return;
}

# update_rows -- a few transactions that only zen knows of.
sub update_rows
{
	my ($all) = @_;
	value($all->{dbh}, 'UPDATE ag SET v = v + 1 WHERE id <= 10') for 1 .. 5;
	$all->{sum} += 50;
	return;
}

# caught_up -- the standby, if there is one, has replayed all, and a checkpoint.
sub caught_up
{
	my ($all) = @_;
	value($all->{dbh}, 'CHECKPOINT');    # flushes the WAL
	my $lsn = value($all->{dbh}, 'SELECT pg_current_wal_flush_lsn()');
	$all->{primary}->wait_for_catchup($all->{standby}, 'replay', $lsn) if $all->{standby};
	return;
}

# freeze_all -- in all databases; only: of these access methods.
sub freeze_all
{
	my ($all, $only) = @_;
	value($all->{dbh}, 'ALTER DATABASE template0 ALLOW_CONNECTIONS true');
	for my $db (map { $_->[0] } @{ run_sql($all->{dbh}, 'SELECT datname FROM pg_database')->{rows} })
	{
		my $dbh = connect_db($all->{primary}, $db);
		my $tables = $only ? value($dbh, q{SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c
			JOIN pg_am a ON a.oid = relam WHERE relkind IN ('r', 'm') AND amname = '} . "$only'") : '';
		run_all($dbh, 'SET vacuum_freeze_min_age = 0', "VACUUM FREEZE $tables");
		$dbh->disconnect;
	}
	caught_up($all);
	return;
}

# burn_xids -- transactions with an xid that change nothing, up to one; a statement has a time limit.
sub burn_xids
{
	my ($all, $up_to) = @_;
	while ((my $n = $up_to - value($all->{dbh}, 'SELECT pg_current_xact_id()::text::bigint')) > 0)
	{
		$n = 100_000 if $n > 100_000;
		value($all->{dbh}, "DO 'BEGIN FOR i IN 1 .. $n LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END'");
	}
	return;
}

# cut -- the first file of pg_xact goes, on both servers; a test of each.
sub cut
{
	my ($all, @only) = @_;
	my $up_to = FILE_XIDS + 100;
	my $least = ($all->{xids} // 0) + value($all->{dbh}, 'SELECT pg_current_xact_id()::text::bigint');
	burn_xids($all, $least > $up_to ? $least : $up_to);
	freeze_all($all, @only);
	ok(!-e $_->data_dir . '/pg_xact/0000', $_->name . ' has cut pg_xact') for grep { $_ } @$all{qw(primary standby)};
	return;
}

# is_whole -- two tests: ag has the sum that it must have, and all is sound.
sub is_whole
{
	my ($dbh, $all, $name) = @_;
	is(eval { value($dbh, 'SELECT sum(v) FROM ag') } // $@, $all->{sum}, "$name: all that was committed");
	is_sound($dbh, $name);
	return;
}

1;
