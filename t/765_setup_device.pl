# zen_setup_device, with a /sys, an ndctl and a blkid of the test's own: what it prints is what doc/hardware.md shows;
# the devices that it refuses.  t/vm/tests/setup.pl has it at work, on persistent memory.
#
# No server is started.

use strict;
use warnings;

use File::Path qw(make_path);
use FindBin;
use PostgreSQL::Test::Utils ();
use Test::More;

my $root = PostgreSQL::Test::Utils::tempdir();
my $nd = "$root/sys/bus/nd/devices";
my $tool = "$FindBin::RealBin/../tools/zen_setup_device";
my $document = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/../doc/hardware.md");

# region0: nothing yet.  region1: one raw namespace, as without labels.  region2: in fsdax mode, on another node.
# region3: aligned to pages of 4 kB.  region4: two namespaces.  region5: for devdax.
region(0, 0);
region(1, -1, 'namespace1.0');
region(2, 1, 'namespace2.0');
region(3, 1, 'namespace3.0');
region(4, 0, 'namespace4.0', 'namespace4.1');
region(5, 0, 'namespace5.0');
my %told = (
	'namespace1.0' => '"mode":"raw","size":1073741824,"sector_size":512,"blockdev":"pmem1"',
	'namespace2.0' => '"mode":"fsdax","map":"mem","size":1071644672,"align":2097152,"blockdev":"pmem2"',
	'namespace3.0' => '"mode":"fsdax","map":"mem","size":1071644672,"align":4096,"blockdev":"pmem3"',
	'namespace4.0' => '"mode":"fsdax","map":"mem","size":535822336,"align":2097152,"blockdev":"pmem4"',
	'namespace4.1' => '"mode":"fsdax","map":"mem","size":535822336,"align":2097152,"blockdev":"pmem4.1"',
	'namespace5.0' => '"mode":"devdax","map":"mem","size":1071644672,"align":2097152,"chardev":"dax5.0"');
program('ndctl', 'case "$*" in',
	(map { qq{"list -N -n $_") echo '[{"dev":"$_",$told{$_}}]' ;;} } sort keys %told),
	q{"list -N") echo '[} . join(',', map { qq({\n"dev":"$_",$told{$_}\n}) } sort keys %told) . q{]' ;;},
	'*) exit 1 ;; esac');
program('blkid', 'case "$*" in *pmem4.1) echo xfs ;; *) exit 2 ;; esac');
program('findmnt', 'case "$*" in *pmem4) echo /data ;; *) exit 1 ;; esac');
program('id', 'case "$2" in nobody-here) exit 1 ;; esac', 'case $1 in -gn) echo "$2" ;; *) echo 1000 ;; esac');
make_path("$root/etc");
write_file("$root/etc/fstab", "#/dev/pmem0 /pmem0 ext4\nUUID=1 /taken ext4 dax 0 2\n");
$ENV{PATH} = "$root/bin:$ENV{PATH}";
$ENV{ZEN_SETUP_ROOT} = $root;

my ($command, $shown) = $document =~ m{^```sh\n\S*zen_setup_device (--unit .*)\n```\n\n```sh\n(set -eu\n.*?)^```$}ms;
ok($shown, 'doc/hardware.md shows what it prints') or BAIL_OUT('no example in doc/hardware.md');
my ($printed, $status) = told($command);
is($status, 0, 'it prints a script');
is($printed, $shown, '... which is that of doc/hardware.md');
is(system('sh', '-n', '-c', $printed), 0, '... and one for a shell');

($printed, $status) = told('');
my ($listed) = $document =~ m{zen_setup_device\n```\n\n```\n(.*?)^```$}ms;
is(substr($printed, 0, length $listed), $listed, 'the list begins with that of doc/hardware.md');
like($printed, qr{^region0 +1024 +0$}m, '... a module without a namespace');
like($printed, qr{^region1 +1024 +0  namespace1\.0 +raw +/dev/pmem1$}m, '... one without labels, and without a node');
like($printed, qr{^region4 +1024 +0  namespace4\.1 +fsdax +/dev/pmem4\.1 +xfs$}m, '... a file system');

prints('region1', qr/^device=\S+ndctl create-namespace -f -e namespace1\.0 -m fsdax -M mem -a 2M /m, 'no labels');
prints('region2', qr{on NUMA node 1\ndevice=/dev/pmem2\n}, 'a region with a namespace in fsdax mode');
prints('/dev/pmem2', qr{on NUMA node 1\ndevice=/dev/pmem2\n}, 'such a namespace');
prints('region0 /dev/pmem2', qr{^#   zen\.pool_path = '/pmem0/zen/zen\.pool, /pmem2/zen/zen\.pool'$}m, 'two devices');
prints('--unit x.service region0 region2', qr{^RequiresMountsFor=/pmem0 /pmem2$}m, '... for which a unit waits');
prints('--fs xfs region0', qr{^mkfs\.xfs -q -d su=2m,sw=1 -m reflink=0 \$device$}m, 'XFS');
prints('--fs xfs region0', qr{ /pmem0 xfs dax 0 0" >>/etc/fstab$}m, '... in /etc/fstab');
prints('--mount /fast --owner joe region0', qr{^install -d -o joe -g joe -m 700 /fast/zen$}m, 'another place and user');
prints('--memory 2560 region0', qr/vm\.nr_hugepages = 1334'/, 'huge pages');
unlike((told('region0'))[0], qr/hugepages|huge_pages|systemd/, '... only if they are asked for');

refuses('region9', qr/there is no region9.*region0 region1 /, 'a region that there is not');
refuses('region3', qr/aligned to 4096 bytes/, 'an alignment of less than 2 MB');
refuses('region4', qr/region4 has 2 namespaces/, 'a region with two namespaces');
refuses('/dev/pmem4', qr{/dev/pmem4 is mounted at /data}, 'one that is mounted');
refuses('/dev/pmem4.1', qr{/dev/pmem4\.1 has data: xfs}, 'one with a file system');
refuses('/dev/pmem1', qr/not a namespace in fsdax mode/, 'a raw namespace by its device');
refuses('region5', qr/neither in fsdax mode nor raw/, 'one in devdax mode');
refuses('/dev/sda', qr/neither a region/, 'a disk');
refuses('--mount /taken region0', qr{fstab has /taken already}, 'a place that is taken');
refuses('--mount /fast region0 region2', qr/for one device/, 'one place for two devices');
refuses('--mount fast region0', qr/absolute path/, 'a relative place');
refuses('--owner nobody-here region0', qr/no user "nobody-here"/, 'a user that there is not');
refuses('--fs btrfs region0', qr/ext4 or xfs/, 'another file system');
refuses('--memory 2GB region0', qr/number of MB/, 'a size with a unit');
refuses('region0 region9', qr/there is no region9/, 'all devices, if one is wrong');
done_testing();

sub write_file
{
	my ($path, $text) = @_;
	open my $file, '>', $path or die "$path: $!";
	print $file $text;
	close $file or die "$path: $!";
	return;
}

sub program
{
	my ($name, @lines) = @_;
	make_path("$root/bin");
	write_file("$root/bin/$name", join("\n", '#!/bin/sh', @lines, ''));
	chmod 0755, "$root/bin/$name";
	return;
}

sub region
{
	my ($number, $node, @namespaces) = @_;
	my $dir = "$nd/region$number";
	make_path(map { "$dir/$_" } @namespaces, "namespace$number.9");
	write_file("$dir/numa_node", "$node\n");
	write_file("$dir/size", 1024 * 1048576 . "\n");
	write_file("$dir/$_/size", "1073741824\n") for @namespaces;
	write_file("$dir/namespace$number.9/size", "0\n");    # the kernel's seed of the next one
	return;
}

# told -- the tool's output and status.
sub told
{
	my ($words) = @_;
	my $output = qx("$tool" $words 2>&1);
	return ($output, $? >> 8);
}

sub prints
{
	my ($words, $what, $name) = @_;
	my ($output, $code) = told($words);
	ok($code == 0 && $output =~ $what, "prints: $name") or diag("status $code: $output");
	return;
}

# Nothing is printed then but the reason.
sub refuses
{
	my ($words, $why, $name) = @_;
	my ($output, $code) = told($words);
	ok($code == 1 && $output =~ /\Azen_setup_device: .*$why/, "refuses: $name") or diag("status $code: $output");
	return;
}
