# A platform that says that it flushes its caches at a power loss: commits flush nothing and fence once.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use Test::More;
use VmTest;

for ([ 'auto', 'cpu_cache', 0, 1 ], [ 'always', 'memory_controller', 6, 2 ])
{
	my ($flush, $domain, $lines, $fences) = @$_;
	server('create', "zen.flush=$flush");
	server('start');
	my $db = connect_db();
	value($db, 'CREATE EXTENSION zen');
	is(value($db, 'SELECT persistence_domain FROM zen_pool'), $domain, "zen.flush = $flush: domain $domain");
	value($db, 'CREATE TABLE t (id int PRIMARY KEY, n int, filler text) USING zen');
	value($db, q{INSERT INTO t SELECT g, 0, repeat('x', 300) FROM generate_series(1, 100) g});
	my $last = [];
	my @seen;
	for my $id (1 .. 50)
	{
		value($db, 'UPDATE t SET n = n + 1 WHERE id = ?', $id);
		my $now = $db->selectrow_arrayref('SELECT lines_flushed, fences FROM zen_stat');
		push @seen, ($now->[0] - $last->[0]) . ' lines, ' . ($now->[1] - $last->[1]) . ' fences' if @$last;
		$last = $now;
	}
	my @other = grep { $_ ne "$lines lines, $fences fences" } @seen;
	cmp_ok(scalar @other, '<=', $flush eq 'auto' ? 0 : 1,
		"... a commit of one row of 332 bytes: $lines lines, $fences fences")
	  or diag(join "\n", @other);
	$db->disconnect;
	server('kill');
	server('start');
	$db = connect_db();
	is(value($db, 'SELECT sum(n) FROM t'), 50, '... all are there after SIGKILL');
	is_sound($db, $flush);
	$db->disconnect;
	server('stop');
}
done_testing();
