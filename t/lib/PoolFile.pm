# PoolFile -- read and damage a zen pool through its file, also while a server runs on it
# (an emulated pool in memory is mapped, not copied).

package PoolFile;

use strict;
use warnings;

use Exporter 'import';
use PoolLayout;

our @EXPORT = qw(open_pool with_file slots_of peek poke flip_bit crc32c sealed page_word_offset super_offsets
  htable_offset region_offset data_pages);

sub open_pool
{
	my ($path) = @_;
	open(my $fh, '+<:raw', $path) or die "cannot open $path: $!";
	return $fh;
}

# with_file -- $do with the open file of a server that does not run.
sub with_file
{
	my ($path, $do) = @_;
	my $fh = open_pool($path);
	$do->($fh);
	close($fh) or die "cannot write $path: $!";
	return;
}

sub peek
{
	my ($fh, $offset, $bytes) = @_;
	sysseek($fh, $offset, 0) or die "seek: $!";
	sysread($fh, my $data, $bytes) == $bytes or die "cannot read $bytes bytes at $offset";
	return $data;
}

# poke -- write bytes; returns what was there.
sub poke
{
	my ($fh, $offset, $data) = @_;
	my $old = peek($fh, $offset, length $data);
	sysseek($fh, $offset, 0) or die "seek: $!";
	syswrite($fh, $data) == length $data or die "cannot write at $offset: $!";
	return $old;
}

# flip_bit -- bit number $bit of the bytes from $offset on.
sub flip_bit
{
	my ($fh, $offset, $bit) = @_;
	$offset += $bit >> 3;
	poke($fh, $offset, peek($fh, $offset, 1) ^ chr(1 << ($bit & 7)));
	return;
}

sub super_offsets { return (OFF_SUPER, OFF_SUPER2); }

# data_pages -- each data page: number, and its word in the directory.
sub data_pages
{
	my ($fh) = @_;
	my ($npages, $first) = unpack('Q<Q<', peek($fh, 56, 16));
	my @words = unpack('Q<*', peek($fh, page_word_offset(0), 8 * $npages));
	return map { [ $_, $words[$_] ] } $first .. $npages - 1;
}

# dirty_free_pages -- numbers of pages that the directory calls free, and that are not zero (R8).
sub dirty_free_pages
{
	my ($path) = @_;
	my $zero = "\0" x PAGE;
	open(my $fh, '<:raw', $path) or die "cannot open $path: $!";
	my $free = sub { unpack('Q<', peek($fh, page_word_offset($_[0]), 8)) == 0 };
	return grep { peek($fh, $_ * PAGE, PAGE) ne $zero && $free->($_) }
	  map { $_->[0] } grep { !$_->[1] } data_pages($fh);
}

# slots_of -- all slots with a header of an HTable (and a row, if $tid is given), free or
# not, oldest first.
sub slots_of
{
	my ($fh, $htable, $tid) = @_;
	my $row = $tid && row_of($tid);
	my @slots = map { slots_on_page($_, peek($fh, $_->{offset}, PAGE)) } map { page_of_word(@$_)
		|| () } data_pages($fh);
	return sort { $a->{cts} <=> $b->{cts} } grep { $_->{htable} == $htable && (!$tid || $_->{tid} eq $row) } @slots;
}

# row_of -- a TID without its version code.
sub row_of
{
	my ($block, $offset) = $_[0] =~ /(\d+),(\d+)/ or die "not a TID: $_[0]";
	return sprintf '(%d,%d)', $block, ($offset - 1) % 64 + 1;
}

my @crc_table = map { my $c = $_; $c = $c & 1 ? ($c >> 1) ^ 0x82f63b78 : $c >> 1 for 1 .. 8; $c } 0 .. 255;

sub crc32c
{
	my ($data) = @_;
	my $crc = 0xffffffff;
	$crc = $crc_table[ ($crc ^ $_) & 0xff ] ^ ($crc >> 8) for unpack('C*', $data);
	return $crc ^ 0xffffffff;
}

# sealed -- the bytes of a slot's version, with some fields changed and the right CRC:
# word0, word1, len, or flip (a byte of the body to be changed).
sub sealed
{
	my ($fh, $slot, %change) = @_;
	my $bytes = peek($fh, $slot->{offset}, $slot->{size});
	substr($bytes, 0,  8) = pack('Q<', $change{word0}) if defined $change{word0};
	substr($bytes, 8,  8) = pack('Q<', $change{word1}) if defined $change{word1};
	substr($bytes, 16, 2) = pack('S<', $change{len})   if defined $change{len};
	substr($bytes, $change{flip}, 1) ^= "\x01" if defined $change{flip};
	my $len = unpack('S<', substr($bytes, 16, 2));
	my $cts = unpack('Q<', $bytes) & CTS_MASK;
	my $crc = crc32c(pack('Q<', $cts) . substr($bytes, 8, 8) . substr($bytes, 16, 4) . substr($bytes, 24, 2)
		  . ($len > 10 ? substr($bytes, 26, $len - 10) : ''));
	substr($bytes, 20, 4) = pack('L<', $crc);
	return $bytes;
}

1;
