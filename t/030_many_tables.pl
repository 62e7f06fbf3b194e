# Thousands of small tables.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('many_tables', pool_size => '1GB', dram_size => '512MB');
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');
test_many_tables();
$dbh->disconnect;
$node->stop;
done_testing();

# A small table costs its slots, not a page per writer.
sub test_many_tables
{
	my $tables = 5000;
	wait_recovered($dbh);
	my $free = value($dbh, 'SELECT pages_free FROM zen_stat');
	my @writers = map { connect_db($node) } 1 .. 4;
	for my $n (1 .. $tables)
	{
		value($writers[ $n % 4 ], "CREATE TABLE many_$n (id int PRIMARY KEY, v text) USING zen");
		for my $w (@writers)
		{
			my $id = value($w, 'SELECT pg_backend_pid()');
			value($w, "INSERT INTO many_$n VALUES ($id, 'small')");
		}
	}
	$_->disconnect for @writers;
	my $used = ($free - value($dbh, 'SELECT pages_free FROM zen_stat')) * 64;
	cmp_ok($used / $tables, '<', 2,
		"a table of four rows by four writers takes less than 2 KB of the pool ($used KB for $tables)");
	run_all($dbh, map { 'DO $$ BEGIN FOR i IN ' . ($_ * 100 + 1) . ' .. ' . ($_ * 100 + 100)
		. q{ LOOP EXECUTE 'DROP TABLE many_' || i; END LOOP; END $$} } 0 .. $tables / 100 - 1);
	return;
}
