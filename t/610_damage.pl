# Flipped bits in the pool of a stopped server, in each kind of place.  One bit of a header
# is set right; else the row is named, and everything else stays readable; never in
# silence, never a crash.  See DamageRun for what is accepted.
#
# DAMAGE=all  every place, and not a sample;  SEED=n  replays

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DamageRun;
use PoolImage;
use PoolLayout;
use Test::More;
use ZenTest;

skip_unless_zen();
my $seed = choose_seed();
# Without the saved map, a start reads all rows also after an orderly stop.
my $node = new_node('damage', pool_size => '32MB', dram_size => '64MB', conf => 'zen.save_map = off',
	init => { extra => ['--wal-segsize=1'] });
$node->start;
my $run = DamageRun->new($node);
$run->take_images;
# a flipped bit would make an empty slot of such a row, and nobody would miss it
is(scalar(grep { !($_->{cts} & ($_->{cts} - 1)) } $run->pool_image('clean')->slots), 0, 'no Tx-CTS has one bit only');

for my $image ('clean', 'crashed')
{
	check("$image, nothing spoilt", $image, sub { }, qr/sound/);
	rows($image);
	headers($image);
	directories($image);
	superblocks($image);
}
lost_tombstones('crashed');    # a crash, because nothing else rebuilds indexes
done_testing();

# wanted -- is this try one of the sample?
sub wanted { return $ENV{DAMAGE} || one_in(6); }

# check -- a try that must end as $expected says.
sub check
{
	my ($name, $image, $spoil, $expected, $look) = @_;
	return unless wanted();
	my ($what, @wrong) = $run->try($image, $spoil, $look);
	diag("$name: $_") for @wrong;
	note($_) for $run->messages;
	ok(!@wrong, "$name: nothing wrong in silence");
	like($what, $expected, "$name: $what");
	return;
}

# live_slot -- a slot with the newest version of a row, not of a prepared transaction.
sub live_slot
{
	my ($image, $want) = @_;
	my $pool = $run->pool_image($image);
	my %in_use = map { $_->{number} => 1 } $pool->htables;
	my %newest;
	for my $slot ($pool->slots)
	{
		next unless $in_use{ $slot->{htable} };
		my $row = "$slot->{htable}/$slot->{block}/$slot->{line}";
		$newest{$row} = $slot if !$newest{$row} || $newest{$row}{cts} < $slot->{cts};
	}
	my $top = (sort { $b->{cts} <=> $a->{cts} } values %newest)[0]{cts};
	my @slots = grep { !$_->{deleted} && $_->{length} && $_->{cts} < $top && $want->($_) } values %newest;
	return pick(sort { $a->{offset} <=> $b->{offset} } @slots);
}

# A row's body: the row is named, and all others are read by the index.
sub rows
{
	my ($image) = @_;
	my $slot = live_slot($image, sub { $_[0]{length} > 40 && $_[0]{length} < 100 });
	my $place = "($slot->{block},$slot->{line})";
	for my $at (28, 16 + $slot->{length} - 1)
	{
		check("$image, body at byte $at", $image, sub { $_[0]->flip($slot->{offset} + $at, between(0, 7)) },
			qr/reported/,
			sub {
				my ($dbh, $seen) = @_;
				named($image, $place, $seen);
				readable($image, $dbh);
			});
	}
	return;
}

# repaired -- one flipped bit in what has a checksum: reported, and nothing is lost.
sub repaired
{
	my ($name, $image, $spoil) = @_;
	return unless wanted();
	my ($what, @wrong) = $run->try_repaired($image, $spoil);
	diag("$name: $_") for @wrong;
	ok(!@wrong, "$name: set right");
	is($what, 'reported', "$name: reported");
	return;
}

# Some message names the damaged row.
sub named
{
	my ($image, $place, $seen) = @_;
	my $said = log_since($node, 0);
	ok($said =~ /XX001.*row \Q$place\E/, "$image: the row is named");
	return;
}

# All rows of the damaged table but one can be read.
sub readable
{
	my ($image, $dbh) = @_;
	value($dbh, 'SET enable_seqscan = off');
	value($dbh, 'RESET enable_indexscan');
	my ($rows, $errors) = (0, 0);
	for my $id (map { $_->[0] } @{
		run_sql($dbh, 'SELECT g FROM generate_series(1, 3000) g WHERE g % 13 <> 0')->{rows} })
	{
		my $result = run_sql($dbh, "SELECT v FROM text WHERE id = $id");
		$rows += @{ $result->{rows} || [] } if !$result->{state};
		$errors++ if $result->{state};
	}
	my $all = 3000 - int(3000 / 13);
	cmp_ok($rows, '>=', $all - 1, "$image: all other rows can be read");
	cmp_ok($rows + $errors, '<=', $all, "$image: and no row that was not there");
	return;
}

# Every field of a row's header.
sub headers
{
	my ($image) = @_;
	my @fields = (
		[ 'Tx-CTS, lowest bit'  => 0 ],
		[ 'Tx-CTS, bit 20'      => 20 ],
		[ 'Tx-CTS, highest bit' => 62 ],
		[ 'version code'        => 64 + 6 ],
		[ 'offset'              => 64 + 1 ],
		[ 'block'               => 64 + 16 ],
		[ 'block, highest bit'  => 64 + 47 ],
		[ 'HTable'              => 64 + 48 ],
		[ 'HTable, highest bit' => 64 + 62 ],
		[ 'Deleted'             => 64 + 63 ],
		[ 'length'              => 128 + 1 ],
		[ 'length, highest bit' => 128 + 15 ],
		[ 'xmin'                => 128 + 16 ],
		[ 'CRC'                 => 160 + 7 ]);
	for (@fields)
	{
		my ($name, $bit) = @$_;
		my $slot = live_slot($image, sub { $_[0]{length} && !$_[0]{lp} });
		my $one = sub { $_[0]->flip($slot->{offset}, $bit) };
		if ($bit < 128) { repaired("$image, $name", $image, $one); }
		else            { check("$image, $name", $image, $one, qr/reported/); }
		# after a crash that is what a transaction leaves that has not come to its end
		next if $image eq 'crashed';
		check("$image, $name and another bit", $image,
			sub { $_[0]->flip($slot->{offset}, $bit); $_[0]->flip($slot->{offset} + 26, between(0, 20)) },
			qr/reported/);
	}

	# LP says the same again: the region has others, or its watermark.
	my $slot = live_slot($image, sub { $_[0]{lp} });
	check("$image, LP", $image, sub { $_[0]->flip($slot->{offset}, 63) }, qr/sound|reported/);
	my ($tombstone) = grep { $_->{deleted} } $run->pool_image($image)->slots;
	check("$image, Deleted of a tombstone", $image, sub { $_[0]->flip($tombstone->{offset}, 127) }, qr/sound|reported/);
	check("$image, Tx-CTS of a tombstone", $image, sub { $_[0]->flip($tombstone->{offset}, between(0, 10)) },
		qr/sound|reported/);
	return;
}

# lost_tombstones -- all of them erased: rows that had gone to another TID are there twice.  Nobody can tell
# that from the pool alone, but a unique index can; it must not keep the table from being used.
sub lost_tombstones
{
	my ($image) = @_;
	my @tombstones = grep { $_->{deleted} } $run->pool_image($image)->slots;
	my ($what, @wrong) = $run->try_lenient($image, sub { my ($pool) = @_; $pool->put($_->{offset}, "\0" x 64)
	  for @tombstones }, sub {
			my ($dbh) = @_;
			value($dbh, "RESET $_") for qw(enable_seqscan enable_indexscan enable_indexonlyscan enable_bitmapscan);
			my $twice = value($dbh, 'SELECT count(*) FROM (SELECT id FROM text GROUP BY id HAVING count(*) > 1) t');
			cmp_ok($twice, '>', 0, "$image, tombstones erased: some rows are there twice");
			is(value($dbh, q{SELECT indisvalid FROM pg_index WHERE indexrelid = 'text_pkey'::regclass}), 0,
				"$image, tombstones erased: the primary key is not valid");
			value($dbh, q{ROLLBACK PREPARED 'p'});    # it holds a lock on the table
			is(run_sql($dbh, 'REINDEX INDEX text_pkey')->{state}, '23505', "$image, tombstones erased: nor can it be");
			value($dbh, 'DELETE FROM text a USING text b WHERE a.id = b.id AND length(a.v) < length(b.v)');
			is(run_sql($dbh, 'REINDEX INDEX text_pkey')->{state}, '',
				"$image, tombstones erased: REINDEX after the wrong rows are gone");
			is(run_sql($dbh, 'INSERT INTO text VALUES (18)')->{state}, '23505',
				"$image, tombstones erased: keys are unique again");
		});
	diag("$image, tombstones erased: $_") for @wrong;
	ok(!@wrong, "$image, tombstones erased: $what");
	return;
}

sub directories
{
	my ($image) = @_;
	my $pool = $run->pool_image($image);
	my ($page) = grep { $_->{htable} } $pool->pages;
	my ($shared) = grep { !$_->{htable} } $pool->pages;
	for my $bit (0, 16, 30, 39, 40, 50)
	{
		check("$image, page directory, bit $bit", $image, sub { $_[0]->flip($page->{entry}, $bit) },
			qr/reported|refused/);
		check("$image, page directory, shared page, bit $bit", $image, sub { $_[0]->flip($shared->{entry}, $bit) },
			qr/reported|refused/);
	}
	my $free = page_word_offset($pool->{npages} - 1);
	check("$image, page directory, free page, bit $_", $image, sub { $_[0]->flip($free, $_) },
		qr/reported|refused|sound/) for 3, 39, 40;

	my ($table) = $pool->htables;
	for (map { [ $_, 32 * $_ + 3 ] } 0 .. 9)
	{
		my ($word, $bit) = @$_;
		check("$image, table directory, word $word", $image, sub { $_[0]->flip($table->{offset}, $bit) },
			qr/reported|refused/);
	}
	check("$image, table directory, state", $image, sub { $_[0]->flip($table->{offset} + 40, 5) },
		qr/reported|refused/);
	my ($region) = $pool->regions;
	check("$image, region directory, word $_", $image, sub { $_[0]->flip($region->{offset} + 8 * $_, between(0, 20)) },
		qr/sound|reported|refused/)
	  for 0 .. 6;
	# of a free entry: its watermark's other word, which is zero, fits
	check("$image, region directory, word of ones in a free entry", $image,
		sub { $_[0]->put(region_offset(REGIONS - 1), "\xff" x 8) }, qr/sound|reported/);
	check("$image, Tx-CTS mark, word $_", $image, sub { $_[0]->flip(OFF_MARK + 8 * $_, between(0, 40)) },
		qr/sound|reported|refused/)
	  for 0 .. 1;
	return;
}

# One copy of the superblock is enough, and is repaired; without both there is no pool.
sub superblocks
{
	my ($image) = @_;
	for my $copy (OFF_SUPER, OFF_SUPER2)
	{
		check("$image, superblock copy at $copy", $image, sub { $_[0]->flip($copy + 20, between(0, 300)) },
			qr/reported/);
	}
	check("$image, both superblocks", $image,
		sub { $_[0]->flip($_ + 20, between(0, 300)) for OFF_SUPER, OFF_SUPER2 }, qr/refused/);
	return;
}
