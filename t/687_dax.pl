# The commands of doc/operations.md, section "A pool on a DAX file system", as they stand there: the data directory on
# one file system, the WAL and a tablespace on another one, data checksums.  Memory stands in for DAX.
#
# Each ```sh block says in its first line on which server it is run; /dax and /disk are folders of that server.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use File::Path qw(remove_tree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $memory  = PostgreSQL::Test::Utils::tempdir_short();
my $dax     = ZenTest::pool_dir() . "/zen_test_dax_$$";
my $rows    = q{SELECT count(*) || ' ' || sum(v) FROM t};
my %port    = map { $_ => PostgreSQL::Test::Cluster::get_free_port() } qw(primary standby);
my %log_of  = map { $_ => "$memory/$_/disk/log" } keys %port;
my %command = map { ($_->{where} . ($_->{text} =~ /TABLESPACE/ ? '-tables' : '') => $_) } blocks();

is_deeply([ sort keys %command ], [qw(primary primary-tables standby)], 'the section has the known blocks');

make_folders($_) for keys %port;
run_block('primary');
my $dbh = handle_of('primary');
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v int) USING zen',
	'INSERT INTO t SELECT g, g FROM generate_series(1, 5000) g');
is_placed('primary');
test_tablespace();
run_all($dbh, 'DROP TABLE large, kept', 'ALTER DATABASE postgres RESET default_tablespace', 'DROP TABLESPACE disk');
for my $folders ('absent', 'empty')
{
	test_standby($folders);
}
stop('primary');
done_testing();

sub blocks
{
	my $document = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/../doc/operations.md");
	my ($text) = $document =~ /^## A pool on a DAX file system\n(.*?)^## /ms or die 'no such section';
	return map { { text => $_, where => /^# on the (\w+)/ ? $1 : '' } } $text =~ /^```sh\n(.*?)^```$/msg;
}

# What the document takes for granted: two file systems; /dax is in memory.
sub make_folders
{
	my ($server) = @_;
	mkdir $_ or die "$_: $!" for grep { !-e } $dax, "$dax/$server", "$memory/$server", "$memory/$server/disk";
	symlink "$dax/$server", "$memory/$server/dax" or die $!;
	return;
}

# folder -- of a server, as the document calls it
sub folder { return "$memory/$_[0]$_[1]"; }

# run_block -- in a shell on its server; initdb also writes what two servers on one machine need.
sub run_block
{
	my ($name) = @_;
	my ($text, $server) = @{ $command{$name} }{qw(text where)};
	$text =~ s{(?<![\w/.])/(dax|disk)\b}{folder($server, "/$1")}ge;
	$text =~ s{-h primary\b}{-h $memory -p $port{primary} -U postgres};
	my $script = <<"END" . $text;
set -e
initdb() {
	command initdb --no-sync -A trust -U postgres "\$@"
	cat >>"\$2/postgresql.conf" <<'CONF'
listen_addresses = ''
unix_socket_directories = '$memory'
zen.pool_size = 64MB
zen.dram_size = 64MB
zen.pool_mode = emulated
dynamic_shared_memory_type = mmap
fsync = off
CONF
}
pg_ctl() { command pg_ctl "\$@" -o "-p $port{$server}"; }
export PGHOST=$memory PGPORT=$port{$server} PGUSER=postgres PGDATABASE=postgres
END
	note($script);
	my $status = system('bash', '-c', "{\n$script\n} >$memory/output 2>&1 </dev/null");
	is($status, 0, "it runs: $name") or diag(PostgreSQL::Test::Utils::slurp_file("$memory/output"));
	return;
}

sub handle_of { return connect_db(bless { host => $memory, port => $port{ $_[0] } }, 'Server'); }

# A server as connect_db() wants it.
package Server
{
	sub host { return $_[0]{host}; }
	sub port { return $_[0]{port}; }
}

sub stop
{
	my ($server) = @_;
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-s', '-D', folder($server, '/dax/data'), 'stop');
	return;
}

# is_placed -- the pool is on the one file system, the WAL on the other, and pages have checksums.
sub is_placed
{
	my ($server) = @_;
	my $data = folder($server, '/dax/data');
	is((stat "$data/zen.pool")[0], (stat $dax)[0], "$server: the pool is on the DAX file system");
	is(readlink "$data/pg_wal", folder($server, '/disk/wal'), "$server: the WAL is elsewhere");
	my $handle = handle_of($server);
	is(value($handle, 'SHOW data_checksums'), 'on', "$server: data checksums");
	$handle->disconnect;
	return;
}

sub test_tablespace
{
	run_block('primary-tables');
	my $handle = handle_of('primary');
	run_all($handle, 'CREATE TABLE large (id int) USING heap', 'CREATE TABLE kept (id int PRIMARY KEY) USING zen',
		'INSERT INTO kept VALUES (1)');
	like(value($handle, q{SELECT pg_relation_filepath('large')}), qr/^pg_tblspc/, 'a heap table is in the tablespace');
	like(value($handle, q{SELECT pg_relation_filepath('kept_pkey')}), qr/^pg_tblspc/, 'so is the index of a zen table');
	is(value($handle, 'SELECT count(*) FROM kept'), 1, 'and its row is in the pool');
	$handle->disconnect;
	return;
}

# test_standby -- in folders that are absent or empty, as Patroni leaves them; its pages and its rows.
sub test_standby
{
	my ($folders) = @_;
	my ($data, $wal) = map { folder('standby', $_) } '/dax/data', '/disk/wal';
	if ($folders eq 'empty')
	{
		mkdir $_, 0700 or die "$_: $!" for $data, $wal;
	}
	run_block('standby');
	is_placed('standby');
	run_all($dbh, 'UPDATE t SET v = v + 1');
	my $upto = value($dbh, 'SELECT pg_current_wal_lsn()');
	my $handle = handle_of('standby');
	wait_for('replay', sub { value($handle, "SELECT pg_last_wal_replay_lsn() >= '$upto'") });
	is(value($handle, 'SELECT role || copied FROM zen_stat_stream'), 'replicatrue', "$folders: it follows");
	$handle->disconnect;
	stop('standby');
	PostgreSQL::Test::Utils::command_ok([ 'pg_checksums', '--check', '-D', $data ], "$folders: pg_checksums");
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-s', '-D', $data, '-l', $log_of{standby},
		'-o', "-p $port{standby}", 'start');
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-s', '-D', $data, 'promote');
	$handle = handle_of('standby');
	wait_for('the promotion', sub { !value($handle, 'SELECT pg_is_in_recovery()') });
	wait_recovered($handle);
	is(value($handle, $rows), value($dbh, $rows), "$folders: promoted, it has the rows");
	$handle->disconnect;
	stop('standby');
	ok(remove_tree($data, $wal) && !-e $data, "$folders: and can be removed");
	return;
}

END
{
	local $?;
	system("pg_ctl -D $dax/$_/data -m immediate stop >/dev/null 2>&1")
	  for grep { -e "$dax/$_/data/postmaster.pid" } keys %port;
	remove_tree($dax) if defined $dax;
}
