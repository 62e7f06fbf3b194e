# Base backups of servers with zen tables and no stream, which zen.allow_copies_without_rows allows: what pg_basebackup
# has copied is not the pool.  688_copies_without.pl has what becomes of them without the setting.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use Test::More;
use ZenTest;

skip_unless_zen();
test_pool_elsewhere();
test_pool_inside();
done_testing();

# What pg_basebackup has copied is not the pool: such a server does not start with zen tables, and starts without.
sub test_pool_elsewhere
{
	my $server = new_node('backed_up', pool_size => '64MB', dram_size => '128MB', init => { allows_streaming => 1 },
		conf => 'zen.allow_copies_without_rows = on');
	$server->start;
	my $handle = connect_db($server);
	run_all($handle, 'CREATE EXTENSION zen', 'CREATE TABLE z (a int PRIMARY KEY) USING zen', 'INSERT INTO z VALUES (1)',
		'CREATE TABLE h USING heap AS SELECT 2 AS a');
	$server->backup('copy');
	$handle->disconnect;
	$server->stop;

	my $restored = PostgreSQL::Test::Cluster->new('restored');
	$restored->init_from_backup($server, 'copy');
	pool_conf($restored, pool_path => pool_path($server), pool_size => '64MB', dram_size => '128MB');
	my $said = start_failing($restored);
	like($said // 'it started', qr/FATAL:.*HINT:/s, 'a base backup does not start on the pool of the original');
	unlink $restored->data_dir . '/zen.state';
	pool_conf($restored, pool_path => pool_path($server) . '.restored', pool_size => '64MB', dram_size => '128MB');
	$restored->start;
	$handle = connect_db($restored);
	is(value($handle, 'SELECT a FROM h'), 2, 'with a pool of its own its heap tables are there');
	my $result = run_sql($handle, 'SELECT * FROM z');
	isnt($result->{state}, '', 'its zen tables are errors');
	like($result->{message}, qr/HINT:/, 'with a hint');
	is(state_of($handle, 'DROP TABLE z'), '', 'and can be dropped');
	$handle->disconnect;
	$restored->stop;
	return;
}

# A base backup holds a torn copy of a pool in the data directory, and once started.  In mode wal replay makes it whole.
sub test_pool_inside
{
	my $source = new_node('source', pool_size => '64MB', dram_size => '64MB', init => { allows_streaming => 1 },
		conf => "zen.pool_path = 'zen.pool'\nzen.allow_copies_without_rows = on");
	$source->start;
	my $handle = connect_db($source);
	run_all($handle, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int) USING zen', 'INSERT INTO t VALUES (1)');
	$source->backup('copy');
	(my $copy = PostgreSQL::Test::Cluster->new('copy'))->init_from_backup($source, 'copy');
	if (by_wal($source))
	{
		$copy->start;
		is(value(connect_db($copy), 'SELECT count(*) FROM t'), 1, 'base backup: it has the rows');
		$copy->stop;
	}
	else { refused(start_failing($copy)); }
	is(value($handle, 'SELECT count(*) FROM t'), 1, 'base backup: the original is as it was');
	return;
}

sub refused
{
	my ($said) = @_;
	ok(defined $said, 'base backup: does not start');
	like($said // '', qr/FATAL:  55000: .*copied while its server was running.*zen pool ".*zen\.pool"/s,
		'base backup: names the pool');
	like($said // '', qr/HINT:/, 'base backup: hint');
	return;
}
