# Copies of the pool in other places: a pool in a tablespace, one that is written by msync, one of several files, a
# standby of a standby.  From places that pg_basebackup does not copy no backup is taken, and those whose files
# pg_checksums would write to are refused.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PoolCopies;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $rows = q{SELECT count(*) || ':' || md5(string_agg(t::text, ',' ORDER BY id)) FROM t};

test_tablespace();
test_places();
test_checksums();
test_files();
test_cascade();
done_testing();

sub make_rows_in
{
	my ($dbh) = @_;
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO t SELECT g, repeat('x', g % 200) FROM generate_series(1, 3000) g});
	return;
}

sub change
{
	my ($dbh, $n) = @_;
	run_all($dbh, "UPDATE t SET v = v || '$n' WHERE id % 3 = 0", "DELETE FROM t WHERE id % 50 = $n",
		"INSERT INTO t SELECT 10000 * $n + g, 'new' FROM generate_series(1, 500) g", 'VACUUM t',
		"CREATE TABLE u$n AS SELECT * FROM t", "DROP TABLE u$n");
	return;
}

sub test_tablespace
{
	my @dir = map { PostgreSQL::Test::Utils::tempdir() } 1 .. 2;
	my $node = copy_primary('primary', conf => q{shared_preload_libraries = ''});
	$node->start;
	my $dbh = connect_db($node);
	run_all($dbh, "CREATE TABLESPACE dax LOCATION '$dir[0]'");
	$dbh->disconnect;
	$node->stop;
	my ($version) = map { s{.*/}{}r } glob "$dir[0]/PG_*";
	my @pool = map { "$_/$version/zen.pool" } @dir;
	set_conf($node, "shared_preload_libraries = 'zen'\nzen.pool_path = '$pool[0]'");
	$node->start;
	$dbh = connect_db($node);
	make_rows_in($dbh);

	my $copy = PostgreSQL::Test::Cluster->new('copy');
	PostgreSQL::Test::Utils::system_or_bail('pg_basebackup', '-D', $copy->data_dir, '-h', $node->host,
		'-p', $node->port, '-c', 'fast', '-X', 'stream', '--no-sync', "--tablespace-mapping=$dir[0]=$dir[1]");
	set_conf($copy, 'port = ' . $copy->port . "\nzen.pool_path = '$pool[1]'\nzen.pool_mode = msync");
	$copy->enable_streaming($node);
	$copy->start;
	change($dbh, 1);
	my $handle = connect_db($copy);
	is(value($handle, 'SELECT mode FROM zen_pool'), 'msync', 'msync: so is the copy');
	$handle->disconnect;
	is(pools_differ($node, $dbh, $copy, @pool), '', 'a pool in a tablespace: the pools are equal');
	my $expected = value($dbh, $rows);
	crash($copy);
	start_again($copy);
	$handle = promoted($copy);
	is(value($handle, $rows), $expected, 'a pool in a tablespace, by msync: the copy has all rows');
	change($handle, 2);
	is_sound($handle, 'a pool in a tablespace');
	$handle->disconnect;
	$dbh->disconnect;
	$_->stop for $copy, $node;
	return;
}

# move_pool -- the server, which is stopped, has its pool in another place from now on.
sub move_pool
{
	my ($node, $from, $to) = @_;
	mkdir $to =~ s{/[^/]*$}{}r;
	rename $from, $to or die "$from, $to: $!";
	set_conf($node, "zen.pool_path = '$to'");
	return $to;
}

sub test_places
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $node = copy_primary('places');
	my $data = $node->data_dir;
	$node->start;
	my $dbh = connect_db($node);
	run_all($dbh, "CREATE TABLESPACE dax LOCATION '$dir'");
	make_rows_in($dbh);
	$dbh->disconnect;
	my ($in_tablespace) = glob "$dir/PG_*";
	my $pool = "$data/zen.pool";
	for my $place (
		[ "$data/zen/zen.pool" => 0 ],
		[ "$in_tablespace/zen.pool" => 0 ],
		[ "$in_tablespace/zen/my.pool.1" => 0 ],
		[ "$dir/zen.pool" => 1 ],
		[ "$data/pg_wal/zen.pool" => 1 ],
		[ "$data/zen/pgsql_tmp.pool" => 1 ])
	{
		my ($path, $lacks) = @$place;
		$node->stop;
		$pool = move_pool($node, $pool, $path);
		$node->start;
		$dbh = connect_db($node);
		my $result = run_sql($dbh, q{SELECT pg_backup_start('places', true)});
		my $refused = $result->{message} =~ /would not have the rows.*"\Q$path\E"/s;
		is(!!$refused, !!$lacks, "pool in $path: " . ($lacks ? 'refused' : 'a backup'));
		$dbh->disconnect;
	}
	$node->stop;
	for my $path ("$in_tablespace/pool", "$in_tablespace/pool.1", "$data/base/zen", "$data/global/zen.12")
	{
		$pool = move_pool($node, $pool, $path);
		my $offset = log_size($node);
		ok(!$node->start(fail_ok => 1), "pool in $path: refused");
		like(log_since($node, $offset), qr/FATAL:.*pool file "\Q$path\E" looks like a file of a table/, 'and says why');
	}
	return;
}

# pg_checksums and pg_basebackup, which verifies them, let a pool in the data directory alone.
sub test_checksums
{
	my $node = copy_primary('verified', init => { allows_streaming => 1, extra => ['-k'] });
	$node->start;
	my $dbh = connect_db($node);
	make_rows_in($dbh);
	my $expected = value($dbh, $rows);
	$dbh->disconnect;
	$node->stop;
	my $pool = move_pool($node, $node->data_dir . '/zen.pool', $node->data_dir . '/zen/zen.pool');
	$node->start;
	$node->backup('copy');
	unlike(log_since($node, 0), qr/checksum/, 'the base backup finds nothing to complain of');
	$node->stop;
	my $before = PostgreSQL::Test::Utils::slurp_file($pool);
	PostgreSQL::Test::Utils::system_or_bail('pg_checksums', $_, '-D', $node->data_dir)
	  for '--check', '--disable', '--enable';
	ok($before eq PostgreSQL::Test::Utils::slurp_file($pool), 'pg_checksums changes no byte of the pool');
	$node->start;
	$dbh = connect_db($node);
	is(value($dbh, $rows), $expected, 'checksums: all rows');

	# in a tablespace the tools take it for a table's file, and say so
	my $dir = PostgreSQL::Test::Utils::tempdir();
	run_all($dbh, "CREATE TABLESPACE dax LOCATION '$dir'");
	$dbh->disconnect;
	$node->stop;
	move_pool($node, $pool, glob("$dir/PG_*") . '/zen.pool');
	my @command = ('pg_basebackup', '-h', $node->host, '-p', $node->port, '-c', 'fast', '--no-sync');
	$node->start;
	my $backup = sub {
		my $to = PostgreSQL::Test::Utils::tempdir();
		return PostgreSQL::Test::Utils::run_log(
			[ @command, '-D', "$to/copy", "--tablespace-mapping=$dir=$to/dax", @_ ]);
	};
	ok($backup->('--no-verify-checksums'), 'a pool in a tablespace: a base backup that verifies no checksums');
	is(!!$backup->(), $node->pg_version >= 17, 'one that does ends with an error on 15');
	$node->stop;
	ok(!PostgreSQL::Test::Utils::run_log([ 'pg_checksums', '--check', '-D', $node->data_dir ]),
		'pg_checksums ends with an error');
	return;
}

# The pool gets a second file, on both servers, whose pages have the same numbers; or they have not, and the copy stops.
sub test_files
{
	my $node = copy_primary('files');
	$node->start;
	my $dbh = connect_db($node);
	make_rows_in($dbh);
	$node->backup('files');
	my %max_size = (same => '128MB', other => '192MB');
	my %copy = map { $_ => copy_of($node, $_, 'files', has_streaming => 1) } keys %max_size;
	for my $name ('same', 'other')
	{
		set_conf($copy{$name}, "zen.pool_path = 'zen.pool, zen.pool.1'\nzen.pool_max_size = $max_size{$name}");
		$copy{$name}->start;
	}
	$dbh->disconnect;
	set_conf($node, "zen.pool_path = 'zen.pool, zen.pool.1'\nzen.pool_max_size = 128MB");
	$node->restart;
	$dbh = connect_db($node);
	wait_recovered($dbh);
	change($dbh, 1);
	value($dbh, q{INSERT INTO t SELECT g, repeat('f', 1000) FROM generate_series(100000, 130000) g});
	cmp_ok(value($dbh, 'SELECT min(pages_total - pages_free) FROM zen_pool_files'), '>', 50, 'both files are used');
	is(pools_differ($node, $dbh, $copy{same}), '', 'several files: the first ones are equal');
	is(pools_differ($node, $dbh, $copy{same}, map { $_->data_dir . '/zen.pool.1' } $node, $copy{same}),
		'', 'so are the second');
	wait_for('the other to stop', sub { !-e $copy{other}->data_dir . '/postmaster.pid' });
	like(log_since($copy{other}, 0), qr/zen.pool_max_size was not the primary server's/,
		'other numbers of pages: refused');
	$copy{other}->_update_pid(0);
	$node->backup('two');
	my $later = copy_of($node, 'later', 'two', has_streaming => 1);
	$later->start;
	change($dbh, 2);
	for my $copy ($later, $copy{same})
	{
		my $name = $copy->name;
		is(pools_differ($node, $dbh, $copy), '', "several files, $name: the first ones are equal");
		is(pools_differ($node, $dbh, $copy, map { $_->data_dir . '/zen.pool.1' } $node, $copy),
			'', "$name: so are the second");
	}
	my $expected = value($dbh, $rows);
	$dbh->disconnect;
	$node->stop;
	my $handle = promoted($later);
	is(value($handle, $rows), $expected, 'several files: the copy has all rows, promoted');
	is_sound($handle, 'several files');
	$handle->disconnect;
	$_->stop for $later, $copy{same};
	return;
}

sub test_cascade
{
	my $node = copy_primary('first');
	$node->start;
	my $dbh = connect_db($node);
	make_rows_in($dbh);
	$node->backup('cascade');
	my $second = copy_of($node, 'second', 'cascade', has_streaming => 1);
	$second->start;
	my $third = PostgreSQL::Test::Cluster->new('third');
	$third->init_from_backup($node, 'cascade');
	$third->enable_streaming($second);
	$third->start;
	change($dbh, 1);
	is(pools_differ($node, $dbh, $second), '', 'cascade: the second pool is equal');
	$second->wait_for_catchup($third, 'replay', $node->lsn('insert'));
	is(pool_differences(map { $_->data_dir . '/zen.pool' } $second, $third), '', 'cascade: so is the third');

	# what the WAL of the first has lost goes through both
	stop_wal_writer($dbh);
	run_all($dbh, map { "INSERT INTO t VALUES (-$_, 'tail')" } 1 .. 50);
	$dbh = crash_restart($node);
	wait_recovered($dbh);
	is(pools_differ($node, $dbh, $second), '', 'cascade: equal after a crash of the first');
	my $expected = value($dbh, $rows);
	$dbh->disconnect;
	crash($node);

	# the third follows the second to its new timeline
	my $handle = promoted($second);
	is(value($handle, $rows), $expected, 'cascade: the second has all rows, promoted');
	change($handle, 2);
	is(pools_differ($second, $handle, $third), '', 'cascade: the third follows it');
	$expected = value($handle, $rows);
	$handle->disconnect;
	$handle = promoted($third);
	is(value($handle, $rows), $expected, 'cascade: and has all rows, promoted');
	is_sound($handle, 'cascade');
	$handle->disconnect;
	$_->stop('immediate') for $second, $third;
	return;
}
