# zen_setup_device: what it lists, prints, does and refuses, for a module that has nothing to keep, with ext4, and for a
# namespace, with XFS.  The server's pool is then mapped with MAP_SYNC, and by huge pages, as the kernel's trace says.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use Test::More;
use VmTest;

my $tool = '/usr/lib/postgresql/15/bin/zen_setup_device';
my $faults = '/sys/kernel/tracing/events/fs_dax/dax_pmd_fault_done/enable';

is(system('umount /pmem0 && wipefs -q -a /dev/pmem0 && ndctl destroy-namespace -f all >/dev/null 2>&1'), 0,
	'a module with nothing in it');
system(': >/etc/fstab');
is(system('mount -t tracefs tracefs /sys/kernel/tracing'), 0, 'the kernel can be asked about faults');

my ($listed) = told('');
diag($listed);
like($listed, qr{^region0 +\d+ +0$}m, 'the list has it, without a namespace');

my @words = qw(--unit postgresql@15-main --memory 64);
my ($printed, $status) = told("@words region0");
is($status, 0, 'what it would do');
diag($printed);
unlike(scalar qx(ndctl list -N), qr/fsdax/, '... and it has not done it');

my ($done, $failed) = told("--do @words region0");
is($failed, 0, 'it is done') or diag($done);
like($done, qr/^\Q$printed\E/, '... and it is what was printed');
is_set_up('ext4', '/pmem0');
is(slurp('/etc/systemd/system/postgresql@15-main.service.d/zen.conf'),
	"[Unit]\nRequiresMountsFor=/pmem0\n[Service]\nLimitMEMLOCK=infinity\n", 'the unit waits for the mount');
is(slurp('/proc/sys/vm/nr_hugepages'), "49\n", 'huge pages are reserved');
is_used_by_server('/pmem0');

refuses('region0', qr{/dev/pmem0 is mounted at /pmem0}, 'a device that is mounted');
system('umount /pmem0');
refuses('region0', qr{/dev/pmem0 has data: ext4}, 'a device with a file system');
refuses('region7', qr/there is no region7/, 'a region that there is not');
refuses('/dev/vdb', qr/neither a region/, 'a disk');
system('wipefs -q -a /dev/pmem0');
refuses('/dev/pmem0', qr{/etc/fstab has /pmem0 already}, 'a place in use');

($done, $failed) = told('--do --fs xfs --mount /fast /dev/pmem0');
is($failed, 0, 'a namespace, with XFS') or diag($done);
is_set_up('xfs', '/fast');
is_used_by_server('/fast');
done_testing();

# told -- the tool's output and status.
sub told
{
	my ($words) = @_;
	my $output = qx($tool $words 2>&1);
	return ($output, $? >> 8);
}

sub refuses
{
	my ($words, $why, $name) = @_;
	my ($output, $code) = told("--do $words");
	ok($code != 0 && $output =~ $why, "it refuses $name") or diag("status $code: $output");
	return;
}

sub slurp
{
	my ($path) = @_;
	open my $file, '<', $path or return '';
	local $/ = undef;
	return scalar <$file>;
}

# is_set_up -- mounted with DAX by /etc/fstab, for the user postgres.
sub is_set_up
{
	my ($type, $at) = @_;
	is(system("umount $at && mount $at"), 0, "$type: the line of /etc/fstab mounts it");
	like(scalar qx(findmnt -n -o FSTYPE,OPTIONS $at), qr/^$type .*\bdax=always\b/, '... with DAX');
	is(scalar qx(stat -c '%U %G %a' $at/zen), "postgres postgres 700\n", '... and the directory is the server\'s');
	like(scalar qx(ndctl list -N), qr/"mode":"fsdax".*"align":2097152/s, '... of a namespace aligned to 2 MB');
	return;
}

sub is_used_by_server
{
	my ($at) = @_;
	system("echo >/sys/kernel/tracing/trace; echo 1 >$faults");
	server('create', "zen.pool_path=$at/zen/zen.pool", 'zen.pool_size=128MB');
	server('start');
	system("echo 0 >$faults");
	my $db = connect_db();
	value($db, 'CREATE EXTENSION zen');
	is(value($db, 'SELECT mode FROM zen_pool'), 'pmem', "$at: mode pmem");
	my %flags = pool_flags("$at/zen/zen.pool");
	ok(exists $flags{sf}, '... by MAP_SYNC');
	my @done = grep { /postgres/ } split /\n/, slurp('/sys/kernel/tracing/trace');
	my $huge = grep { /NOPAGE/ } @done;
	cmp_ok($huge, '>=', 60, "... and by huge pages: $huge of " . @done . ' faults') or diag(join "\n", @done[ 0 .. 5 ]);
	$db->disconnect;
	server('stop');
	return;
}
