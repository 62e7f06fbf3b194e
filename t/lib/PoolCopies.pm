# PoolCopies -- compare the pool of a primary with that of its standby, both at rest: running, and nobody writes.
#
# What may differ: superblocks, LP, regions (watermarks and descriptors), the line of the tail, and tail slots, which
# are empty in a copy.

package PoolCopies;

use strict;
use warnings;

use Exporter 'import';
use PoolFile ();
use PoolImage;
use PoolLayout;

our @EXPORT = qw(pool_differences);

use constant {
	TAIL_MAGIC => 0x4C494154,
	SCRUBBED   => 1,
	DELTA      => 2,
	REPORT     => 10,
};

# pool_differences -- '' or a text that names some.
sub pool_differences
{
	my @pool = map { PoolImage->new($_) } @_;
	my @found;
	for my $area ([ 'HTable', OFF_HTABLES, 128, HTABLES ], [ 'page word', OFF_PAGES, 8, $pool[0]{npages} ])
	{
		my ($name, $offset, $size, $n) = @$area;
		next if $pool[0]->get($offset, $size * $n) eq $pool[1]->get($offset, $size * $n);
		for my $i (0 .. $n - 1)
		{
			my @bytes = map { unpack 'H*', $_->get($offset + $size * $i, $size) } @pool;
			push @found, "$name $i: @bytes" if $bytes[0] ne $bytes[1];
		}
	}
	for my $n (0 .. $pool[0]{npages} - 1)
	{
		my $page = page_of_word($n, $pool[0]->word(page_word_offset($n))) or next;
		next if $pool[0]->get($page->{offset}, PAGE) eq $pool[1]->get($page->{offset}, PAGE);
		push @found, map { "page $n (htable $page->{htable}, region $page->{region}) $_" }
		  slot_differences($page, @pool);
	}
	for my $path (@_)
	{
		push @found, map { "free page $_ of $path is not zero" } PoolFile::dirty_free_pages($path);
	}
	return join "\n", @found > REPORT ? (@found[ 0 .. REPORT - 1 ], scalar(@found) . ' in all') : @found;
}

sub slot_differences
{
	my ($page, @pool) = @_;
	my @found;
	my $size = $page->{slot_size};
	for (my $at = 0; $at + $size <= PAGE; $at += $size)
	{
		my @bytes = map { used_bytes($_->get($page->{offset} + $at, $size)) } @pool;
		next if $bytes[0] eq $bytes[1];
		push @found, sprintf "slot at %d: %s / %s", $page->{offset} + $at, map { unpack 'H*', substr $_, 0, 48 } @bytes;
	}
	return @found;
}

# used_bytes -- of a slot, without LP; '' if it holds nothing, or a tail.
sub used_bytes
{
	my ($bytes) = @_;
	my ($word0, $word1, $body) = unpack 'Q<3', $bytes;
	$word0 &= CTS_MASK;
	return '' if $word0 == 0 || $body == SCRUBBED;
	my $len = $body & 0xffff;
	$len = unpack 'v', substr $bytes, 26, 2 if $len == DELTA;
	return '' if $word1 == 1 && $len >= 40 && unpack('Q<', substr $bytes, 32, 8) == TAIL_MAGIC;
	return pack('Q<', $word0) . substr $bytes, 8, 8 + ($len || 10);
}

1;
