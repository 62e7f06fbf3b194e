# The commands of doc/operations.md, sections "Backup" and "Standbys", are run as they stand there.
#
# Each ```sh block says in its first line where it is run.  Folders are below one of the test's, and the names of hosts
# become this host with a port.  The ```ini block goes to the primary's configuration.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DocCommands;
use PoolCopies;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $root = PostgreSQL::Test::Utils::tempdir_short();
my $node = new_node('primary', pool_size => '64MB', dram_size => '64MB', pool_path => 'zen.pool',
	init => { allows_streaming => 1, extra => ['--data-checksums'] });
my %server = doc_servers($node, qw(standby restored));
symlink $node->data_dir, "$root/primary" or die $!;
mkdir "$root/$_" or die $! for qw(archive backup tmp);

my ($conf, @blocks) = doc_blocks('doc/operations.md', '## Backup', '## Standbys');
is(@blocks, 9, 'the document has the blocks that this test knows');
my ($backup, $restore, $standby, $read, $promote_after_crash, $stop, $promote, $follow, $rewind) = @blocks;
my $rows = q{SELECT string_agg(id::text, ' ' ORDER BY id) FROM t};

set_conf($node, doc_located($root, \%server, $conf->{text}));
$node->start;
my $dbh = connect_db($server{primary});
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY) USING zen', 'INSERT INTO t VALUES (1)');

test_restore();
test_switchover();
test_failover();
done_testing();

sub run_block { return run_doc_block($root, \%server, @_); }

# exchanged -- a block the other way round.
sub exchanged
{
	my %other = (primary => 'standby', standby => 'primary');
	return $_[0]{text} =~ s/\b(primary|standby)\b(?!_conninfo|\.signal)/$other{$1}/gr;
}

sub insert { return run_all($_[0], map { "INSERT INTO t VALUES ($_)" } @_[ 1 .. $#_ ]); }

# follows -- the one has all of the other, byte for byte.
sub follows
{
	my ($copy, $of, $handle, $name) = @_;
	value($handle, 'CHECKPOINT');
	my $upto = value($handle, 'SELECT pg_current_wal_insert_lsn()');
	my $there = connect_db($server{$copy});
	wait_for('replay', sub { value($there, "SELECT pg_last_wal_replay_lsn() >= '$upto'") });
	$there->disconnect;
	is(pool_differences(map { "$root/$_/zen.pool" } $of, $copy), '', "$name: the pools are equal");
	return;
}

sub primary_at
{
	my ($host) = @_;
	my $handle = connect_db($server{$host});
	wait_for('the promotion', sub { !value($handle, 'SELECT pg_is_in_recovery()') });
	wait_recovered($handle);
	return $handle;
}

sub test_restore
{
	run_block($backup);
	insert($dbh, 2, 3);
	my $time = value($dbh, 'SELECT clock_timestamp()');
	insert($dbh, 4);
	my $last = value($dbh, 'SELECT pg_walfile_name(pg_switch_wal())');
	wait_for('the archive', sub { value($dbh, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") });
	run_block($restore, $restore->{text} =~ s/(?<=recovery_target_time = ')[^']*/$time/r);
	my $handle = primary_at('restored');
	is(value($handle, $rows), '1 2 3', 'restored: the rows as of that moment');
	$handle->disconnect;
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', "$root/restored", 'stop');
	return;
}

# plain -- what must agree of an output.
sub plain
{
	my ($text) = @_;
	return $text =~ s{[0-9A-F]+/[0-9A-F]+}{LSN}gr =~ s{-+}{-}gr =~ s{ +}{ }gr =~ s{ ?\n ?}{\n}gr =~ s{\s+$}{}r;
}

sub test_switchover
{
	my $output = run_block($standby) =~ s/.*server started\n//sr;
	is(plain($output), plain($standby->{output}), 'and shows what the document shows');
	insert($dbh, 5);
	follows('standby', 'primary', $dbh, 'standby');
	run_block($read);
	my $reader = connect_db($server{standby});
	wait_for('the last row', sub { value($reader, $rows) eq '1 2 3 4 5' });
	pass('the standby is read');
	$reader->disconnect;
	$dbh->disconnect;
	run_block($_) for $stop, $promote, $follow;
	my $handle = primary_at('standby');
	is(value($handle, $rows), '1 2 3 4 5', 'switchover: all rows');
	insert($handle, 6);
	follows('primary', 'standby', $handle, 'switchover');
	$handle->disconnect;
	run_block($_, exchanged($_)) for $stop, $promote, $follow;
	$dbh = primary_at('primary');
	is(value($dbh, $rows), '1 2 3 4 5 6', 'and back: all rows');
	insert($dbh, 7);
	follows('standby', 'primary', $dbh, 'and back');
	return;
}

sub test_failover
{
	$dbh->disconnect;
	PostgreSQL::Test::Utils::append_to_file("$root/primary/postgresql.conf", "test.conf = 'its own'\n");
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', "$root/primary", '-m', 'immediate', 'stop');
	run_block($promote_after_crash);
	my $handle = primary_at('standby');
	is(value($handle, $rows), '1 2 3 4 5 6 7', 'failover: all rows');
	insert($handle, 8);
	run_block($rewind);
	follows('primary', 'standby', $handle, 'pg_rewind');
	my $there = connect_db($server{primary});
	is(value($there, q{SELECT current_setting('test.conf', true)}), 'its own', 'pg_rewind: the configuration stays');
	$there->disconnect;
	is_sound($handle, 'failover');
	$handle->disconnect;
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', "$root/$_", '-m', 'fast', 'stop') for qw(primary standby);
	$node->_update_pid(0);
	return;
}

END
{
	local $?;
	system("pg_ctl -D $root/$_ -m immediate stop >/dev/null 2>&1")
	  for grep { -e "$root/$_/postmaster.pid" } qw(standby restored primary);
}
