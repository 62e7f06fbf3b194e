# Where the memory of zen.dram_size lies, by the server's huge_pages.
#
# - off, and try on a system that has reserved none: ordinary pages, and all works.
# - try and on, if enough are reserved (vm.nr_hugepages): huge ones, after a crash also.
# - on, if not: no start, and the message says what to do.
#
# ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

use constant { DRAM_MB => 64, SERVER_MB => 128 };

skip_unless_zen();
my $node = new_node('huge_pages', pool_size => '64MB', dram_size => DRAM_MB . 'MB', conf => 'shared_buffers = 16MB');

test_ordinary('off');
SKIP:
{
	my $free_mb = free_huge_mb();

	skip "$free_mb MB of huge pages are free, wanted are " . (DRAM_MB + SERVER_MB), 6
	  if $free_mb < DRAM_MB + SERVER_MB;
	test_huge('try');
	test_huge('on');
	test_too_few($free_mb);
}
done_testing();

# --- tools ------------------------------------------------------------------

# The MB of huge pages that nobody has or has been promised.
sub free_huge_mb
{
	my %kb = map { /^(\w+):\s+(\d+)/ ? ($1 => $2) : () } split /\n/, slurp('/proc/meminfo');

	return 0 unless $kb{Hugepagesize};
	return int(($kb{HugePages_Free} - $kb{HugePages_Rsvd}) * $kb{Hugepagesize} / 1024);
}

sub slurp
{
	my ($path) = @_;

	open my $file, '<', $path or die "$path: $!";
	local $/ = undef;
	return scalar <$file>;
}

# The postmaster's shared mappings of at least the arena's size: [ MB, KB of a page ] each.
sub mappings
{
	my ($pid) = split /\n/, slurp($node->data_dir . '/postmaster.pid');
	my @found;

	for my $mapping (split /^(?=[0-9a-f]+-[0-9a-f]+ )/m, slurp("/proc/$pid/smaps"))
	{
		my ($mode, $kb, $page_kb) = $mapping =~ /^\S+ (\S+).*^Size:\s+(\d+).*^KernelPageSize:\s+(\d+)/ms
			or die $mapping;

		push @found, [ $kb / 1024, $page_kb ] if $mode eq 'rw-s' && $kb >= DRAM_MB * 1024;
	}
	return @found;
}

sub set_huge_pages
{
	my ($value, $dram_mb) = @_;

	$node->append_conf('postgresql.conf', "huge_pages = $value\nzen.dram_size = ${dram_mb}MB");
	return;
}

sub works
{
	my ($name) = @_;
	my $dbh = connect_db($node);

	value($dbh, 'CREATE EXTENSION IF NOT EXISTS zen');
	value($dbh, 'CREATE TABLE IF NOT EXISTS t (id int) USING zen');
	value($dbh, 'INSERT INTO t SELECT generate_series(1, 1000)');
	is(value($dbh, 'SELECT count(*) % 1000 FROM t'), 0, "$name: rows");
	$dbh->disconnect;
	return;
}

sub test_ordinary
{
	my ($value) = @_;

	set_huge_pages($value, DRAM_MB);
	$node->start;
	is_deeply([ grep { $_->[1] > 4 } mappings() ], [], "$value: ordinary pages");
	cmp_ok(scalar(mappings()), '>', 0, "$value: the mapping was found");
	works($value);
	$node->stop;
	return;
}

sub test_huge
{
	my ($value) = @_;

	set_huge_pages($ENV{ZEN_TEST_INJECT} ? 'off' : $value, DRAM_MB);
	$node->start;
	cmp_ok(scalar(grep { $_->[1] > 4 } mappings()), '>', 0, "$value: huge pages");
	works($value);
	$node->stop;
	return;
}

sub test_too_few
{
	my ($free_mb) = @_;

	set_huge_pages('on', $free_mb + 2 - $free_mb % 2);
	is($node->start(fail_ok => 1), 0, 'on, too few: no start');
	like(slurp($node->logfile), qr/could not reserve \d+ MB of shared memory for zen.*HINT:  Raise vm\.nr_hugepages/s,
		'on, too few: the hint');
	set_huge_pages('off', DRAM_MB);
	return;
}
