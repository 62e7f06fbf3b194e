# The data directory on persistent memory as a whole, the WAL on a disk, as doc/operations.md has it: the pool in it is
# mapped with MAP_SYNC, and so is that of a base backup, which has the rows.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use Test::More;
use VmTest;

my $rows = 'SELECT count(*) FROM t';

$ENV{VM_PGDATA} = '/pmem0/data';
server('create', 'zen.pool_path=zen.pool', 'zen.pool_size=64MB', 'zen.stream=replica');
is(system('mv /pmem0/data/pg_wal /data/wal && ln -s /data/wal /pmem0/data/pg_wal'), 0, 'the WAL is on the disk');
server('start');
my $db = connect_db();
value($db, 'CREATE EXTENSION zen');
is(value($db, 'SELECT mode FROM zen_pool'), 'pmem', 'mode pmem, in the data directory');
my %flags = pool_flags('/pmem0/data/zen.pool');
ok(exists $flags{sf}, 'the kernel maps it with MAP_SYNC');
value($db, 'CREATE TABLE t (id int PRIMARY KEY) USING zen');
value($db, 'INSERT INTO t SELECT generate_series(1, 1000)');
is(system('chown postgres /pmem0 /data && vm-server backup -D /pmem0/copy --waldir=/data/wal-copy -c fast'),
	0, 'pg_basebackup');
value($db, 'INSERT INTO t VALUES (0)');
$db->disconnect;
server('stop');

$ENV{VM_PGDATA} = '/pmem0/copy';
server('start');
$db = connect_db();
is(value($db, 'SELECT mode FROM zen_pool'), 'pmem', 'so is the copy');
is(value($db, $rows), 1000, 'and it has the rows of its moment');
is_sound($db, 'the copy');
$db->disconnect;
server('stop');
done_testing();
