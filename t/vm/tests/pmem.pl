# On persistent memory: mode pmem by MAP_SYNC, mode auto, refusals, a load, SIGKILL of the server and recovery.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use Test::More;
use VmTest;

server('create');
server('start');
my $db = connect_db();
value($db, 'CREATE EXTENSION zen');
is(join('|', $db->selectrow_array('SELECT path, mode, persistence_domain FROM zen_pool')),
	'/pmem0/zen.pool|pmem|memory_controller', 'mode pmem');
my %flags = pool_flags('/pmem0/zen.pool');
ok(exists $flags{sf}, 'the kernel maps the pool with MAP_SYNC') or diag(join ' ', sort keys %flags);

value($db, 'CREATE TABLE account (id int PRIMARY KEY, balance int) USING zen');
value($db, 'INSERT INTO account SELECT g, 100 FROM generate_series(1, 10000) g');
value($db, 'UPDATE account SET balance = balance - 1 WHERE id = 1');
my @before = $db->selectrow_array('SELECT lines_flushed, fences FROM zen_stat');
value($db, 'UPDATE account SET balance = balance - 1 WHERE id = 1');
my @after = $db->selectrow_array('SELECT lines_flushed, fences FROM zen_stat');
is($after[0] - $before[0], 1, 'an update of one small row flushes one line');
is($after[1] - $before[1], 1, '... with one fence');

open my $script, '>', '/tmp/update.sql' or die $!;
print $script "\\set id random(1, 10000)\nUPDATE account SET balance = balance - 1 WHERE id = :id;\n";
close $script;
my $done = qx(vm-server pgbench -n -M prepared -c 4 -j 1 -T 5 -f /tmp/update.sql 2>&1);
my ($updates) = $done =~ /actually processed: (\d+)/ or diag($done);
cmp_ok($updates, '>', 0, "pgbench has changed rows: $updates");
$db->disconnect;

server('kill');
server('start');
$db = connect_db();
is(value($db, 'SELECT 1000000 - sum(balance) FROM account'), $updates + 2, 'all of them are there after SIGKILL');
ok(value($db, 'SELECT after_crash FROM zen_recovery'), 'zen has recovered');
is_sound($db, 'after SIGKILL');

# Stores to pages that a process has mapped writable are no news to the kernel.  Backups that go
# by a file's time are told.
my ($seen, $same) = (0, 0);
for (; $same < 5; sleep 1)
{
	my $now = (stat '/pmem0/zen.pool')[9];
	$same = $now == $seen ? $same + 1 : 0;
	$seen = $now;
}
value($db, 'UPDATE account SET balance = balance - 1 WHERE id = 1');
cmp_ok((stat '/pmem0/zen.pool')[9], '>', $seen, 'the time of the pool tells of a store');
$db->disconnect;

server('stop');
server('create', 'zen.pool_path=/data/zen.pool');
my $log = length log_of();
isnt(system('vm-server start >/dev/null 2>&1'), 0, 'mode pmem refuses a file on a disk');
like(substr(log_of(), $log), qr/FATAL: .* is not on persistent memory/, '... and says why');

for ([ '/data/zen.pool', 'wal' ], [ '/pmem0/zen.pool', 'pmem' ])
{
	my ($path, $mode) = @$_;
	server('create', 'zen.pool_mode=auto', "zen.pool_path=$path");
	server('start');
	$db = connect_db();
	value($db, 'CREATE EXTENSION zen');
	is(value($db, 'SELECT mode FROM zen_pool'), $mode, "mode auto with $path is $mode");
	$db->disconnect;
	server('stop');
}
done_testing();
