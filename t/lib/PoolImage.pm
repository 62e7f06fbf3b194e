# PoolImage -- the bytes of a stopped server's pool, as src/nvm/layout.h describes them.
#
#   my $pool = PoolImage->new($path);     # reads it
#   $_->{offset}, $_->{htable}, ... for $pool->slots;
#   $pool->flip($offset, $bit); $pool->put($offset, $bytes);
#   $pool->save;                         # into the same file

package PoolImage;

use strict;
use warnings;

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
};

sub new
{
	my ($class, $path) = @_;
	open(my $fh, '<:raw', $path) or die "cannot read $path: $!";
	local $/;
	my $self = bless { path => $path, bytes => scalar <$fh> }, $class;
	close $fh;
	$self->{npages} = int(length($self->{bytes}) / PAGE);
	return $self;
}

sub save
{
	my ($self, $path) = @_;
	$path ||= $self->{path};
	open(my $fh, '>:raw', $path) or die "cannot write $path: $!";
	print $fh $self->{bytes} or die "cannot write $path: $!";
	close $fh or die "cannot write $path: $!";
	return;
}

sub size { return length $_[0]{bytes}; }

sub get
{
	my ($self, $offset, $length) = @_;
	return substr $self->{bytes}, $offset, $length;
}

sub put
{
	my ($self, $offset, $bytes) = @_;
	substr($self->{bytes}, $offset, length $bytes) = $bytes;
	return;
}

sub word { return unpack 'Q<', $_[0]->get($_[1], 8); }

# flip -- bit number $bit of the bytes from $offset on.
sub flip
{
	my ($self, $offset, $bit) = @_;
	$offset += $bit >> 3;
	$self->put($offset, $self->get($offset, 1) ^ chr(1 << ($bit & 7)));
	return;
}

sub class_sizes
{
	my @sizes = (32, 64, 80, 96, 112, 128);
	for (my $base = 128; $base < PAGE; $base *= 2)
	{
		push @sizes, map { $base + $_ * $base / 8 } 1 .. 8;
	}
	return @sizes;
}

# pages -- those that somebody owns: number, offset, slot_size, and what the directory says.
sub pages
{
	my ($self) = @_;
	my @sizes = class_sizes();
	my @pages;
	for my $number (0 .. $self->{npages} - 1)
	{
		my $word = $self->word(OFF_PAGES + 8 * $number);
		next unless $word & OWNED;
		push @pages,
		  {
			number    => $number,
			offset    => $number * PAGE,
			entry     => OFF_PAGES + 8 * $number,
			htable    => $word & 0x7fff,
			region    => ($word >> 15) & 0x3fff,
			slot_size => $sizes[ ($word >> 29) & 0x3ff ],
		  };
	}
	return @pages;
}

# slots -- those that are not empty.
sub slots
{
	my ($self) = @_;
	my @slots;
	for my $page ($self->pages)
	{
		for my $i (0 .. int(PAGE / $page->{slot_size}) - 1)
		{
			my $offset = $page->{offset} + $i * $page->{slot_size};
			my ($word0, $word1) = unpack 'Q<Q<', $self->get($offset, 16);
			next if ($word0 & ~(1 << 63)) == 0;
			push @slots,
			  {
				page    => $page,
				offset  => $offset,
				lp      => $word0 >> 63,
				cts     => $word0 & ~(1 << 63),
				deleted => $word1 >> 63,
				htable  => ($word1 >> 48) & 0x7fff,
				block   => ($word1 >> 16) & 0xffffffff,
				line    => (($word1 & 0xffff) - 1) % 64 + 1,
				length  => unpack('S<', $self->get($offset + 16, 2)),
			  };
		}
	}
	return @slots;
}

# htables -- entries of the directory that are not free: number and offset.
sub htables
{
	my ($self) = @_;
	return map { { number => $_, offset => OFF_HTABLES + 128 * $_ } }
	  grep { $self->word(OFF_HTABLES + 128 * $_ + 40) != 0 } 1 .. HTABLES - 1;
}

# regions -- entries of the directory that were ever written.
sub regions
{
	my ($self) = @_;
	return map { { number => $_, offset => OFF_REGIONS + 64 * $_ } }
	  grep { $self->get(OFF_REGIONS + 64 * $_, 64) ne "\0" x 64 } 0 .. REGIONS - 1;
}

1;
