# The pool grows on persistent memory: under load, mapped with MAP_SYNC as before, and over a crash; as far as the
# NVDIMM goes, and not beyond.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use Test::More;
use VmTest;

server('create', 'zen.pool_size=64MB', 'zen.pool_max_size=2GB');
server('start');
my $db = connect_db();
value($db, 'CREATE EXTENSION zen');
value($db, 'CREATE TABLE t (id int PRIMARY KEY, n int, filler text) USING zen');
value($db, q{INSERT INTO t SELECT g, 0, repeat('x', 300) FROM generate_series(1, 1000) g});
open my $script, '>', '/tmp/update.sql' or die $!;
print $script "\\set id random(1, 1000)\nUPDATE t SET n = n + 1 WHERE id = :id;\n";
close $script;
open my $load, '-|', 'vm-server pgbench -n -M prepared -c 4 -j 1 -T 8 -f /tmp/update.sql 2>&1' or die $!;
for my $size (map { 64 + 16 * $_ } 1 .. 10)
{
	is(value($db, "SELECT zen_pool_grow('${size}MB') / 1048576"), $size, "the pool grows to $size MB under load");
}
my $done = do { local $/ = undef; <$load> };
my ($updates) = $done =~ /actually processed: (\d+)/ or diag($done);
unlike($done, qr/error/i, 'no transaction has failed');
is(value($db, 'SELECT sum(n) FROM t'), $updates, 'all updates are there');
my %flags = pool_flags('/pmem0/zen.pool');
ok(exists $flags{sf}, 'the larger pool is mapped with MAP_SYNC');

# The new pages are used.
value($db, q{INSERT INTO t SELECT g, 0, repeat('x', 1500) FROM generate_series(1001, 50000) g});
$db->disconnect;
server('kill');
server('start');
$db = connect_db();
is(value($db, 'SELECT size_bytes / 1048576 FROM zen_pool'), 224, 'after SIGKILL: the size');
is(value($db, 'SELECT count(*) FROM t'), 50000, 'after SIGKILL: the rows');
is_sound($db, 'after SIGKILL');

ok(!eval { value($db, q{SELECT zen_pool_grow('1500MB')}); 1 }, 'the NVDIMM has no more room');
like($@, qr/could not make the zen pool larger: No space left on device/, '... and the error says so');
is(value($db, 'SELECT size_bytes / 1048576 FROM zen_pool'), 224, '... and nothing has changed');
$db->disconnect;
server('stop');
server('start');
$db = connect_db();
is(value($db, 'SELECT count(*) FROM t'), 50000, 'after a stop and a start: the rows');
$db->disconnect;
server('stop');
done_testing();
