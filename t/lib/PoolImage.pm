# PoolImage -- the bytes of a stopped server's pool.
#
#   my $pool = PoolImage->new($path);     # reads it
#   $_->{offset}, $_->{htable}, ... for $pool->slots;
#   $pool->flip($offset, $bit); $pool->put($offset, $bytes);
#   $pool->save;                         # into the same file

package PoolImage;

use strict;
use warnings;

use PoolLayout;

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

# pages -- those that somebody owns.
sub pages
{
	my ($self) = @_;
	return map { page_of_word($_, $self->word(page_word_offset($_))) || () } 0 .. $self->{npages} - 1;
}

# slots -- those that are not empty.
sub slots
{
	my ($self) = @_;
	return map { slots_on_page($_, $self->get($_->{offset}, PAGE)) } $self->pages;
}

# htables -- entries of the directory that are not free: number and offset.
sub htables
{
	my ($self) = @_;
	return map { { number => $_, offset => htable_offset($_) } }
	  grep { $self->word(htable_offset($_) + 40) != 0 } 1 .. HTABLES - 1;
}

# regions -- entries of the directory that were ever written.
sub regions
{
	my ($self) = @_;
	return map { { number => $_, offset => region_offset($_) } }
	  grep { $self->get(region_offset($_), 64) ne "\0" x 64 } 0 .. REGIONS - 1;
}

1;
