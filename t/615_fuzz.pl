# Random mutations of the pool of a stopped server: it is refused, or it comes up and what
# it shows is right or was said to be wrong.  Never wrong rows in silence, a crash, a failed
# assertion or a hang.  See DamageRun.
#
# Two kinds of damage leave what an honest server could have left, and may lose rows in
# silence; how often that was is noted.  Slots and pages that are erased, or have older
# contents, were never written.  After a crash, a header that fits nothing is that of a
# transaction that has not come to its end.
#
# MUTATIONS=n  how many (default 20; the long version is 1000)
# SEED=n       replays; FIRST=n begins with mutation n

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DamageRun;
use List::Util 'min';
use PoolImage;
use PoolLayout;
use Test::More;
use ZenTest;

skip_unless_zen();
my $seed  = choose_seed();
my $count = $ENV{MUTATIONS} || 20;
my $first = $ENV{FIRST} || 1;
my $node = new_node('fuzz', pool_size => '32MB', dram_size => '64MB', init => { extra => ['--wal-segsize=1'] });
$node->start;
my $run = DamageRun->new($node);
$run->take_images;
my %seen;

# How to choose a place, and what to do there; 1 at the end: see above.
my @places = (
	[ 'superblock'       => 1, sub { pick(OFF_SUPER, OFF_SUPER2) + between(0, 95) } ],
	[ 'Tx-CTS mark'      => 1, sub { OFF_MARK + between(0, 255) } ],
	[ 'region directory' => 2, sub { $_[0]{region}[ rand @{ $_[0]{region} } ]{offset} + between(0, 63) } ],
	[ 'table directory'  => 3, sub { $_[0]{htable}[ rand @{ $_[0]{htable} } ]{offset} + between(0, 127) } ],
	[ 'page directory'   => 3, sub { $_[0]{page}[ rand @{ $_[0]{page} } ]{entry} + between(0, 7) } ],
	[ 'free entry'       => 1, sub { pick(htable_offset(between(1, 300)), page_word_offset(between(100, 500)),
		region_offset(between(0, 200))) } ],
	[ 'slot header'      => 5, sub { $_[0]{slot}[ rand @{ $_[0]{slot} } ]{offset} + between(0, 25) } ],
	[ 'slot body'        => 3, sub {
		my $s = $_[0]{slot}[ rand @{ $_[0]{slot} } ];
		return $s->{offset} + 26 + between(0, ($s->{length} || 1) - 1);
	} ],
	[ 'anywhere'         => 1, sub { int rand($_[1]->size - 8) } ]);
my @deeds = (
	[ 'a bit'            => 5, sub { my ($p, $at) = @_; $p->flip($at, between(0, 7)) } ],
	[ 'bits'             => 3, sub { my ($p, $at) = @_; $p->flip($at, int rand 64) for 1 .. between(2, 6) } ],
	[ 'a byte'           => 3, sub { my ($p, $at) = @_; $p->put($at, chr between(0, 255)) } ],
	[ 'a word of zeroes' => 2, sub { my ($p, $at) = @_; $p->put($at & ~7, "\0" x 8) }, 1 ],
	[ 'a word of ones'   => 1, sub { my ($p, $at) = @_; $p->put($at & ~7, "\xff" x 8) } ],
	[ 'a line of noise'  => 3, sub { my ($p, $at) = @_; $p->put($at & ~63, noise(64)) } ],
	[ 'a line of zeroes' => 3, sub { my ($p, $at) = @_; $p->put($at & ~63, "\0" x 64) }, 1 ],
	[ 'lines of noise'   => 2, sub {
		my ($p, $at) = @_;
		$at &= ~63;
		$p->put($at, noise(min(64 * between(2, 100), $p->size - $at)));
	} ],
	[ 'a page of zeroes' => 1, sub { my ($p, $at) = @_; $p->put($at & ~65535, "\0" x 65536) }, 1 ],
	[ 'a line copied'    => 2, sub { my ($p, $at, $from) = @_; $p->put($at & ~63, $p->get($from & ~63, 64)) }, 1 ],
	[ 'a page copied'    => 1, sub { my ($p, $at, $from) = @_; $p->put($at & ~65535, $p->get($from & ~65535, 65536)) },
		1 ],
	[ 'cut short'        => 1, sub { my ($p, $at) = @_; substr($p->{bytes}, $at & ~4095) = '' } ]);

my %parts;
for my $image ('clean', 'crashed')
{
	my $pool = $run->pool_image($image);
	$parts{$image} = {
		region => [ $pool->regions ], htable => [ $pool->htables ],
		page   => [ $pool->pages ],   slot   => [ $pool->slots ] };
}

for my $n ($first .. $first + $count - 1)
{
	srand($seed + $n);
	my $image = pick('clean', 'crashed');
	my @steps = map { [ weighted(@places), weighted(@deeds) ] } 1 .. (one_in(3) ? between(2, 5) : 1);
	my @told;
	my $try = $image eq 'crashed' || (grep { $_->[1][3] } @steps) ? 'try_lenient' : 'try';
	my ($what, @wrong) = $run->$try($image, sub {
			my ($pool) = @_;
			for (@steps)
			{
				my ($place, $deed) = @$_;
				my ($at, $from) = map { $place->[2]->($parts{$image}, $pool) } 1 .. 2;
				next if $at + 64 > $pool->size || $from + 65536 > $pool->size;
				push @told, sprintf '%s: %s at %d', $place->[0], $deed->[0], $at;
				$deed->[2]->($pool, $at, $from);
			}
		});
	my $name = "mutation $n, $image: " . join ', ', @told;
	diag("$name: $_") for @wrong;
	ok(!@wrong, "$name: $what");
	$seen{$what}++;
}
note("$_: $seen{$_}") for sort keys %seen;
note("scans that lacked rows in silence, where that cannot be told: " . ($run->{silent} || 0));
done_testing();

sub weighted
{
	return pick(map { my $it = $_; ($it) x $it->[1] } @_);
}

sub noise { return join '', map { chr int rand 256 } 1 .. $_[0]; }
