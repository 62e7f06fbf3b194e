# The recipes of doc/production.md are run as they stand there.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DocCommands;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $document = 'doc/production.md';
my $root = PostgreSQL::Test::Utils::tempdir_short();
my $node = new_node('primary', pool_size => '64MB', dram_size => '64MB', pool_path => 'zen.pool',
	init => { allows_streaming => 1 }, conf => <<"END");
zen.stream = replica
archive_mode = on
archive_command = 'test ! -f $root/archive/%f && cp %p $root/archive/%f'
END
my %server = doc_servers($node, qw(restored clone));
symlink $node->data_dir, "$root/primary" or die $!;
mkdir "$root/$_" or die $! for qw(archive backup disk tmp);
$node->start;
my $dbh = connect_db($server{primary});
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE account (id int PRIMARY KEY, owner text) USING zen',
	q{INSERT INTO account SELECT g, 'owner ' || g FROM generate_series(1, 1000) g});
my $rows = q{SELECT count(*) || ' ' || md5(string_agg(t::text, ',' ORDER BY id)) FROM account t};

test_table();
test_clone();
test_move();
done_testing();

sub recipe { return map { $_->{text} } doc_blocks($document, "### $_[0]"); }

sub run_recipe { return run_doc_block($root, \%server, undef, $_[0]); }

# opened -- a connection to a server that has left recovery.
sub opened
{
	my $handle = connect_db($server{ $_[0] });
	wait_for('the end of recovery', sub { !value($handle, 'SELECT pg_is_in_recovery()') });
	wait_recovered($handle);
	return $handle;
}

sub test_table
{
	my ($restore, $copy) = recipe('One table restored');
	PostgreSQL::Test::Utils::system_or_bail('pg_basebackup', '-h', $node->host, '-p', $node->port,
		'-D', "$root/backup/monday", '-X', 'stream', '-c', 'fast');
	run_all($dbh, 'DELETE FROM account WHERE id > 900');
	my $then = value($dbh, $rows);
	my $time = value($dbh, 'SELECT clock_timestamp()');
	run_all($dbh, 'DELETE FROM account WHERE id > 10');
	my $last = value($dbh, 'SELECT pg_walfile_name(pg_switch_wal())');
	wait_for('the archive', sub { value($dbh, "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") });
	run_recipe($restore =~ s/(?<=recovery_target_time = ')[^']*/$time/r);
	opened('restored')->disconnect;
	run_recipe($copy);
	is(value($dbh, $rows =~ s/FROM account/FROM account_then/r), $then, 'one table: the rows as of that moment');
	is(value($dbh, 'SELECT count(*) FROM account'), 10, 'one table: the table of today is as it was');
	is_sound($dbh, 'one table');
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', "$root/restored", 'stop');
	return;
}

sub test_clone
{
	my $before = value($dbh, $rows);
	my $archived = value($dbh, 'SELECT count(*) FROM pg_stat_archiver WHERE failed_count > 0');
	run_recipe($_) for recipe('A clone for tests');
	my $clone = opened('clone');
	is(value($clone, $rows), $before, 'clone: the rows');
	run_all($clone, 'DELETE FROM account');
	is(value($dbh, $rows), $before, 'clone: the primary does not see its changes');
	run_all($dbh, q{INSERT INTO account VALUES (5000, 'new')});
	is(value($clone, 'SELECT count(*) FROM account'), 0, 'clone: nor does it see the primary\'s');
	is(value($clone, 'SHOW archive_mode'), 'off', 'clone: it archives nothing');
	is(value($dbh, 'SELECT count(*) FROM pg_stat_archiver WHERE failed_count > 0'), $archived,
		'clone: the archive is the primary\'s');
	$clone->disconnect;
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', "$root/clone", 'stop');
	return;
}

sub test_move
{
	my $before = value($dbh, $rows);
	$dbh->disconnect;
	my $output;
	$output = run_recipe($_) for recipe('A pool moved');
	like($output, qr{\Q$root\E/disk/zen\.pool}, 'moved: the pool is there');
	like($output, qr/zen\.pool_path|data directory/, 'moved: and a backup would lack it, as the document says');
	$dbh = opened('primary');
	is(value($dbh, $rows), $before, 'moved: the rows');
	is_sound($dbh, 'moved');
	$dbh->disconnect;
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', "$root/primary", '-m', 'fast', 'stop');
	$node->_update_pid(0);
	return;
}

END
{
	local $?;
	system("pg_ctl -D $root/$_ -m immediate stop >/dev/null 2>&1")
	  for grep { -e "$root/$_/postmaster.pid" } qw(clone restored primary);
}
