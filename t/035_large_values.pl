# Values of 100 MB.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('large_values', pool_size => '1GB', dram_size => '512MB');
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');
test_large_values();
$dbh->disconnect;
$node->stop;
done_testing();

sub test_large_values
{
	my $mb = 100;
	run_all($dbh, 'CREATE TABLE large (id int PRIMARY KEY, t text, b bytea) USING zen',
		'ALTER TABLE large ALTER t SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL',
		"INSERT INTO large VALUES (1, repeat('0123456789abcdef', $mb * 65536))",
		"INSERT INTO large SELECT 2, NULL, decode(repeat('00ff10a5', $mb * 131072 * 2), 'hex')",
		"INSERT INTO large SELECT 3, repeat('compressible', $mb * 87381), NULL");
	my $sums = sub {
		return value($dbh, q{SELECT string_agg(concat_ws(' ', id, length(t), md5(t), length(b), md5(b)), ', '
			ORDER BY id) FROM large});
	};
	my $before = $sums->();
	like($before, qr/1 104857600 .*2 104857600 /, '100 MB of text and of bytea');
	is(value($dbh, 'SELECT substr(t, 104857600 - 15) FROM large WHERE id = 1'), '0123456789abcdef',
		'a slice from the end');
	is(state_of($dbh, "UPDATE large SET t = t || 'x' WHERE id = 3"), '', 'a large value changed');
	value($dbh, "UPDATE large SET t = left(t, -1) WHERE id = 3");
	is($sums->(), $before, 'and changed back');
	$dbh = clean_restart($node, $dbh);
	is($sums->(), $before, 'all there after a restart');
	run_all($dbh, 'DROP TABLE large');
	return;
}
