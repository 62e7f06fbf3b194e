# PoolLayout -- where things stand in a zen pool.  src/nvm/layout.h is the truth; for tests,
# PoolFile (through the file, also of a running server) and PoolImage (a copy in memory) share it.

package PoolLayout;

use strict;
use warnings;

use Exporter 'import';

use constant {
	LINE        => 64,
	PAGE        => 65536,
	OFF_SUPER   => 0,
	OFF_SUPER2  => 4096,
	OFF_MARK    => 8192,
	OFF_REGIONS => 65536,
	OFF_HTABLES => 2 * 1024 * 1024,
	OFF_PAGES   => 6 * 1024 * 1024,
	REGIONS     => 8192,
	HTABLES     => 32768,
	OWNED       => 1 << 39,
	CTS_MASK    => ~0 >> 1,
};

our @EXPORT = qw(LINE PAGE OFF_SUPER OFF_SUPER2 OFF_MARK OFF_REGIONS OFF_HTABLES OFF_PAGES REGIONS HTABLES CTS_MASK
  region_offset htable_offset page_word_offset page_of_word slots_on_page);

# make_classes in page.c.
my @classes = (32, 64, 80, 96, 112, 128);
for (my $base = 128; $base < PAGE; $base *= 2)
{
	push @classes, map { $base + $_ * $base / 8 } 1 .. 8;
}

sub region_offset    { return OFF_REGIONS + 64 * $_[0]; }
sub htable_offset    { return OFF_HTABLES + 128 * $_[0]; }
sub page_word_offset { return OFF_PAGES + 8 * $_[0]; }

# page_of_word -- what the directory's word says of a page; undef if nobody owns it.
sub page_of_word
{
	my ($number, $word) = @_;
	return unless $word & OWNED;
	return {
		number    => $number,
		offset    => $number * PAGE,
		entry     => page_word_offset($number),
		htable    => $word & 0x7fff,
		region    => ($word >> 15) & 0x3fff,
		slot_size => $classes[ ($word >> 29) & 0x3ff ] };
}

# slots_on_page -- the slots that are not empty, of a page with these bytes.
sub slots_on_page
{
	my ($page, $bytes) = @_;
	my @slots;
	for (my $at = 0; $at + $page->{slot_size} <= PAGE; $at += $page->{slot_size})
	{
		my ($word0, $word1, $length) = unpack('Q<Q<S<', substr($bytes, $at, 18));
		next if !($word0 & CTS_MASK);
		my ($block, $line) = (($word1 >> 16) & 0xffffffff, (($word1 & 0xffff) - 1) % 64 + 1);
		push @slots, {
			page    => $page->{number},
			offset  => $page->{offset} + $at,
			region  => $page->{region},
			size    => $page->{slot_size},
			lp      => $word0 >> 63,
			cts     => $word0 & CTS_MASK,
			word1   => $word1,
			deleted => $word1 >> 63,
			htable  => ($word1 >> 48) & 0x7fff,
			block   => $block,
			line    => $line,
			tid     => "($block,$line)",
			length  => $length };
	}
	return @slots;
}

1;
