# Recovery itself:
#
# - several processes recover to the same as one: tables, row addresses, space, and
#   every byte of the pool; also when recovery is killed in between, again and again;
# - memory too small at recovery: one clear error for everyone, no hang, nothing lost;
# - damage: flipped bits in a stopped server's pool are found and set right, or named
#   with the row; the rest stays readable; garbage is never a crash.
#
# SEED=n replays a run; ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;

use Digest::MD5;
use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg qw(:async);
use PoolFile;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

use constant {
	LINE => 64, PAGE => 65536, SLOT => 128,
	NONSENSE => 81985529216486895, MARKS => 8192, REGIONS => 65536, HTABLES => 2 * 1024 * 1024,
		DIRECTORY => 6 * 1024 * 1024,
};

skip_unless_zen();
choose_seed();
# Without the saved map, a start reads the pool also after an orderly stop.
my $node = new_node('recovery', pool_size => '256MB', dram_size => '128MB',
	conf => "max_worker_processes = 16\nzen.save_map = off");
my @open;    # sessions in a transaction
my $dir = PostgreSQL::Test::Utils::tempdir();
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_same_result();
test_little_memory();
test_flipped_bits($_) for 0, 1;
test_damaged_rows($_) for 0, 1;
test_lost_page($_) for 0, 1;
test_high_bits();
test_torn_loser();
test_emptied_slots($_) for 0, 1;
test_garbage();
test_watermark_ahead();
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

# stop -- in order or not.
sub stop
{
	my ($crash) = @_;
	if ($crash) { crash($node); }
	else
	{
		$dbh->disconnect;
		$node->stop;
	}
	@open = ();
	return;
}

# stop_for_damage -- the same; in mode wal behind a checkpoint, as replay would store again what is damaged then.
sub stop_for_damage
{
	my ($crash) = @_;
	value($dbh, 'CHECKPOINT') if $crash && by_wal($node);
	stop($crash);
	return;
}

sub start { start_again($node); $dbh = connect_db($node); return; }

sub recovery { return value($dbh, "SELECT $_[0] FROM zen_recovery"); }

# pool_sum -- checksum of all that recovery may write, but marks and superblock, which
# count starts.
sub pool_sum
{
	my $sum;
	with_file(pool_path($node), sub {
		my ($fh) = @_;
		sysseek($fh, REGIONS, 0);
		binmode $fh;
		$sum = Digest::MD5->new->addfile($fh)->hexdigest;
	});
	return $sum;
}

# --- one process, many processes --------------------------------------------

# Rows from many regions, with old versions, tombstones, losers and prepared transactions.
sub make_history
{
	my @others = map { connect_db($node) } 1 .. 8;
	run_all($dbh, 'CREATE TABLE h (id int PRIMARY KEY, n int, v text) USING zen',
		'CREATE TABLE gone (id int, v text) USING zen', 'CREATE TABLE s (id int PRIMARY KEY, v text) USING zen',
		"INSERT INTO gone SELECT g, repeat('g', 100) FROM generate_series(1, 20000) g", 'DROP TABLE gone');
	for my $i (0 .. $#others)
	{
		value($others[$i], "INSERT INTO h SELECT g, 0, repeat('h', 50 + g % 200) "
			  . "FROM generate_series($i * 100000 + 1, $i * 100000 + 25000) g");
		value($others[$i], "INSERT INTO s SELECT g, 's' FROM generate_series($i * 1000 + 1, $i * 1000 + 300) g");
	}
	for my $round (1 .. 3)
	{
		value($_, "UPDATE h SET n = n + 1, v = v || 'x' WHERE id % 40 = $round * 3") for pick(@others), pick(@others);
		value(pick(@others), "DELETE FROM h WHERE id % 50 = $round");
		value(pick(@others), "UPDATE s SET v = v || id WHERE id % 7 = $round");
		value(pick(@others), "DELETE FROM s WHERE id % 9 = $round");
		value(pick(@others), "INSERT INTO h SELECT g + 50000, 1, 'again' FROM generate_series(1, 3000) g "
			  . "ON CONFLICT (id) DO NOTHING");
		value(pick(@others), 'VACUUM h') if one_in(2);
	}
	value($others[0], $_) for 'BEGIN', 'UPDATE h SET n = -1 WHERE id < 3000', 'DELETE FROM s WHERE id < 50',
		q{PREPARE TRANSACTION 'p'};
	value($others[1], $_) for 'BEGIN', 'SELECT 1 FROM s WHERE id = 60 FOR UPDATE', 'INSERT INTO s VALUES (-1)',
		q{PREPARE TRANSACTION 'q'};
	value($others[2], $_) for 'BEGIN', 'UPDATE h SET n = -2 WHERE id BETWEEN 300000 AND 305000';
	push @open, $others[2];
	return value($dbh, 'SELECT count(*) FROM h WHERE id < 3000');
}

sub whole_state
{
	wait_recovered($dbh);
	my @state = map { value($dbh, $_) } (
		q{SELECT md5(string_agg(h.ctid || ' ' || h::text, '|' ORDER BY id)) FROM h},
		q{SELECT md5(string_agg(s.ctid || ' ' || s::text, '|' ORDER BY id)) FROM s},
		q{SELECT string_agg(concat_ws(',', htable, database, tablespace, relfilenode, blocks, map_bytes, pages_owned,
			nvm_bytes, reindex), '|' ORDER BY htable) FROM _zen_stat_tables()},
		q{SELECT pages_free || '/' || pages_total FROM zen_pool},
		q{SELECT rows || ' ' || losers || ' ' || damaged || ' ' || repaired FROM zen_recovery},
		q{SELECT string_agg(gid, ' ' ORDER BY gid) FROM pg_prepared_xacts},
		q{SELECT count(*) FROM h WHERE id > 0});
	value($dbh, 'UPDATE s SET v = 0 WHERE id = 70') if inject();
	crash($node);
	return join("\n", @state, pool_sum());
}

sub test_same_result
{
	my $touched = make_history();
	my $joined  = 0;
	for my $when ('crash', 'clean stop')
	{
		stop($when eq 'crash');
		save_server($node, "$dir/history");
		my $expected;
		for my $workers (0, 1, 4)
		{
			restore_server($node, "$dir/history");
			set_conf($node, "zen.recovery_workers = $workers");
			start();
			$joined++ if recovery('processes') > 1;
			my $found = whole_state();
			$expected //= $found;
			is($found, $expected, "$when: $workers workers recover to the same");
		}
		# Sessions that wait take part, too; killed anywhere, it can be done again.
		restore_server($node, "$dir/history");
		if ($when eq 'crash')
		{
			start_and_crash($node, rand 0.12) for 1 .. 5;
			start();
			is(whole_state(), $expected, "$when: recovery killed five times");
			restore_server($node, "$dir/history");
		}
		for (1 .. 20)
		{
			last if $joined > 2;
			start();
			$joined++ if recovery('processes') > 1;
			crash($node);
		}
		start();
		value($dbh, q{COMMIT PREPARED 'p'});
		is(value($dbh, 'SELECT count(*) FILTER (WHERE n = -1) || $$ $$ || count(*) FILTER (WHERE n = -2) FROM h'),
			"$touched 0", "$when: transactions");
		run_all($dbh, 'UPDATE h SET n = 0 WHERE n = -1', 'BEGIN', 'UPDATE h SET n = -1 WHERE id < 3000',
			q{PREPARE TRANSACTION 'p'})
		  if $when eq 'crash';
	}
	cmp_ok($joined, '>', 0, 'more than one process has taken part');
	value($dbh, q{ROLLBACK PREPARED 'q'});
	return;
}

# --- memory -----------------------------------------------------------------

# A table whose map does not fit: row addresses that deleted rows have left unused.
sub test_little_memory
{
	run_all($dbh, 'CREATE TABLE long (id int) USING zen');
	for (1 .. 12)
	{
		run_all($dbh, 'INSERT INTO long SELECT generate_series(1, 200000)', 'DELETE FROM long');
		wait_for('old versions to go', sub { value($dbh, 'SELECT garbage_pending FROM zen_stat') == 0 });
	}
	run_all($dbh, 'INSERT INTO long VALUES (1)');
	my $sum = contents($dbh, 'h');
	for my $workers (0, 4)
	{
		stop(1);
		set_conf($node, "zen.recovery_workers = $workers\nzen.dram_size = '16MB'");
		my $from = log_size($node);
		start();
		my @waiting = map { connect_db($node) } 1 .. 5;
		my @sent = map { $_->prepare('SELECT count(*) FROM h', { pg_direct => 1, pg_async => PG_ASYNC }) } @waiting;
		$_->execute for @sent;
		for my $handle (@waiting)
		{
			wait_for('an answer', sub { $handle->pg_ready });
			$handle->pg_result;
			like($handle->state, qr/^(53200|55000)$/, "memory, $workers workers: an error");
		}
		# a process that helps may have its error before the leader gives up
		wait_for('recovery to end', sub { recovery('state') ne 'running' });
		is(recovery('state'), 'failed', "memory, $workers workers: recovery has failed");
		is(value($dbh, 'SELECT count(*) > 0 FROM pg_class'), 1, "memory, $workers workers: the rest works");
		like(log_since($node, $from), qr/HINT:  .*raise zen\.dram_size/i, "memory, $workers workers: what to do");
		unlike(log_since($node, $from), qr/terminated by signal|TRAP|PANIC/, "memory, $workers workers: no crash");
		stop($workers);
		set_conf($node, "zen.dram_size = '128MB'");
		start();
		is(contents($dbh, 'h'), $sum, "memory, $workers workers: everything is there");
		is(value($dbh, 'SELECT count(*) FROM long'), 1, "memory, $workers workers: the long table");
	}
	return;
}

# --- damage -----------------------------------------------------------------

# Rows of table d fill slots of 128 bytes; row_slots finds them by their text.
sub make_damage_table
{
	run_all($dbh, 'DROP TABLE IF EXISTS d, e',
		'CREATE TABLE d (id int PRIMARY KEY, v text) USING zen',
		'CREATE TABLE e (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO d SELECT g, rpad('zen test row ' || lpad(g::text, 5, '0'), 88, '.')
			FROM generate_series(1, 5000) g},
		q{INSERT INTO e SELECT g, 'e' || g FROM generate_series(1, 500) g});
	# old versions of some rows, so that a damaged new one could give way to them
	run_all($dbh, q{UPDATE d SET v = 'O' || substr(v, 2) WHERE id % 10 = 5},
		q{UPDATE d SET v = 'z' || substr(v, 2) WHERE id % 10 = 5});
	return (contents($dbh, 'd'), contents($dbh, 'e'));
}

sub row_slots
{
	my ($fh) = @_;
	my (%slot, $at);
	my $size = -s $fh;
	for ($at = DIRECTORY; $at < $size; $at += PAGE)
	{
		my $page = peek($fh, $at, PAGE);
		while ($page =~ /zen test row (\d{5})/g)
		{
			my $offset = int($-[0] / SLOT) * SLOT;
			my $cts = unpack('Q<', substr($page, $offset, 8)) & ~(1 << 63);
			# the newest version is the one with the largest Tx-CTS
			$slot{ $1 + 0 } = [ $at + $offset, $cts ] if !$slot{ $1 + 0 } || $slot{ $1 + 0 }[1] < $cts;
		}
	}
	return map { $_ => $slot{$_}[0] } keys %slot;
}

# One bit each in many records of every kind: all are found and set right.
sub test_flipped_bits
{
	my ($crash) = @_;
	my $when = $crash ? 'after a crash' : 'after a clean stop';
	my ($d, $e) = make_damage_table();
	my $htable = value($dbh,
		q{SELECT htable FROM _zen_stat_tables() JOIN pg_class USING (relfilenode) WHERE relname = 'e'});
	run_all($dbh, 'BEGIN', 'UPDATE e SET v = 0 WHERE id = 1', q{PREPARE TRANSACTION 'p'});
	stop_for_damage($crash);
	save_server($node, "$dir/flips");
	# bits of an HTable's entry that mean something: identity and state, drop, blocks, flags, move
	my @bits = map { between($_ * 64, $_ * 64 + 63) } 0 .. 5, 8 .. 11;
	for my $bit (map { splice @bits, int(rand @bits), 1 } 1 .. 4)
	{
		restore_server($node, "$dir/flips");
		my $expected = 1;
		with_file(pool_path($node), sub {
			my ($fh) = @_;
			my %slot = row_slots($fh);
			my @ids = map { between($_ * 100 + 1, $_ * 100 + 99) } 0 .. 9;
			flip_bit($fh, $slot{$_}, between(0, 62)) for @ids;
			flip_bit($fh, $slot{ $_ + 1000 } + 8, between(0, 63)) for @ids;
			$expected += 2 * @ids;
			# a slot that was never used
			my %own = map { int($_ / PAGE) => 1 } values %slot;
			my ($empty) = grep { peek($fh, $_, 32) eq "\0" x 32 }
			  map { my $page = $_; map { PAGE * $page + SLOT * $_ } 0 .. PAGE / SLOT - 1 } keys %own;
			flip_bit($fh, $empty, between(0, 62)) if defined $empty;
			$expected++ if defined $empty;
			my @pages = grep { unpack('Q<', peek($fh, DIRECTORY + 8 * $_, 8)) != 0 } 0 .. 4095;
			for my $page (map { $pages[ $_ * int(@pages / 5) ] } 0 .. 4)
			{
				flip_bit($fh, DIRECTORY + 8 * $page, between(0, 63));
				$expected++;
			}
			flip_bit($fh, HTABLES + 128 * $htable, $bit);
			# one record of each watermark, and of the mark
			flip_bit($fh, REGIONS + LINE * $_ + 16 * between(0, 1), between(0, 127)) for 0 .. 99;
			flip_bit($fh, MARKS + LINE * between(0, 3), between(0, 127));
			for my $region (0 .. 99)
			{
				my $doubt = REGIONS + LINE * $region + 32;
				next unless unpack('Q<', peek($fh, $doubt + 16, 8));
				flip_bit($fh, $doubt, between(0, 191));
				$expected++;
			}
		});
		start();
		my $what = "$when, bit $bit of the table's entry";
		is(eval { contents($dbh, 'd') } // $@, $d, "$what: table");
		is(eval { contents($dbh, 'e') } // $@, $e, "$what: the other");
		is(eval { contents($dbh, 'd', 'indexscan', 'id > 0') } // $@, $d, "$what: by index");
		is(state_of($dbh, q{COMMIT PREPARED 'p'}), '', "$what: prepared transaction");
		# bits that no checksum covers, and a free word that was free, need no repair
		cmp_ok(recovery('repaired'), '>=', $expected - 2, "$what: repairs are counted");
		is(recovery('damaged'), 0, "$what: nothing is lost");
		crash($node);
	}
	restore_server($node, "$dir/flips");
	start();
	value($dbh, q{ROLLBACK PREPARED 'p'});
	return;
}

# Damage in rows' bodies: named, and an error for who reads them; the rest is readable.
sub test_damaged_rows
{
	my ($crash) = @_;
	my $when = $crash ? 'damaged row after a crash' : 'damaged row after a clean stop';
	make_damage_table();
	my %tid = map { $_ => value($dbh, "SELECT ctid FROM d WHERE id = $_") } 7, 1235;
	my $rest = value($dbh, q{SELECT md5(string_agg(d::text, '' ORDER BY id)) FROM d WHERE id NOT IN (7, 1235)});
	stop_for_damage($crash);
	with_file(pool_path($node), sub {
		my ($fh) = @_;
		my %slot = row_slots($fh);
		flip_bit($fh, $slot{7} + 40, 3);
		poke($fh, $slot{1235} + 100, 'damage');
	});
	my $from = log_size($node);
	start();
	wait_recovered($dbh);
	my $log = log_since($node, $from);
	is(recovery('damaged'), 2, "$when: counted");
	for my $id (7, 1235)
	{
		my ($b, $o) = $tid{$id} =~ /(\d+),(\d+)/;
		$o = ($o - 1) % 64 + 1;    # without the version code
		like($log, qr{WARNING:  XX001: row \($b,$o\) of zen table \d+/\d+/\d+ is damaged}, "$when: $id is named");
		is(state_of($dbh, "SELECT * FROM d WHERE ctid = '$tid{$id}'"), 'XX001', "$when: $id by its address");
		value($dbh, 'SET enable_seqscan = off');
		# an index that is built again, as trees are at each start, has no entry of it
		my $built = $crash || value($dbh, 'SHOW zen.default_index') eq 'zentree';
		is(state_of($dbh, "SELECT v FROM d WHERE id = $id"), $built ? '' : 'XX001', "$when: $id by index");
		value($dbh, 'RESET enable_seqscan');
	}
	is(state_of($dbh, 'SELECT count(v) FROM d'), 'XX001', "$when: the whole table");
	value($dbh, 'SET enable_seqscan = off');
	is(value($dbh, q{SELECT md5(string_agg(d::text, '' ORDER BY id)) FROM d WHERE id NOT BETWEEN 7 AND 7 AND id > 0
		AND id <> 1235 AND (id < 7 OR id BETWEEN 8 AND 1234 OR id > 1235)}),
		$rest, "$when: the rest by index") if $crash;
	value($dbh, 'RESET enable_seqscan');
	value($dbh, 'SET zen.skip_damaged_rows = on');
	is(value($dbh, q{SELECT md5(string_agg(d::text, '' ORDER BY id)) FROM d}), $rest,
		"$when: the rest with zen.skip_damaged_rows");
	is(value($dbh, 'SELECT count(v) FROM d'), value($dbh, 'SELECT count(v) FROM (SELECT v FROM d OFFSET 0) x'),
		"$when: the rest block by block");
	value($dbh, 'RESET zen.skip_damaged_rows');
	is(state_of($dbh, 'INSERT INTO d VALUES (9999)'), '', "$when: insert");
	is(state_of($dbh, 'UPDATE d SET v = $$new$$ WHERE id = 8'), '', "$when: update of a neighbour");
	is(state_of($dbh, 'VACUUM d'), '', "$when: vacuum");
	for my $again (1, 0)
	{
		stop($again);
		start();
		wait_recovered($dbh);
		is(recovery('damaged'), 2, "$when: found again");
		is(state_of($dbh, 'SELECT count(v) FROM d'), 'XX001', "$when: still an error");
	}
	is(state_of($dbh, 'TRUNCATE d'), '', "$when: truncate");
	is(state_of($dbh, 'INSERT INTO d SELECT g, $$new$$ FROM generate_series(1, 5000) g'), '', "$when: reuse");
	stop(1);
	start();
	is(recovery('damaged') . ' ' . value($dbh, 'SELECT count(*) FROM d'), '0 5000', "$when: gone with its table");
	return;
}

# A page whose directory word makes no sense: its rows are named and errors, and no
# old version of them comes back.
sub test_lost_page
{
	my ($crash) = @_;
	my $when = 'lost page, crash ' . $crash;
	make_damage_table();
	my %text = map { @$_ } @{ run_sql($dbh, 'SELECT id, v FROM d')->{rows} };
	my (@lost, $kept);
	stop_for_damage($crash);
	with_file(pool_path($node), sub {
		my ($fh) = @_;
		my %slot = row_slots($fh);
		my $page = int($slot{1235} / PAGE);
		@lost = grep { int($slot{$_} / PAGE) == $page } keys %slot;
		poke($fh, DIRECTORY + 8 * $page, pack('Q<', NONSENSE));
	});
	my $from = log_size($node);
	start();
	wait_recovered($dbh);
	cmp_ok(scalar(@lost), '>', 10, "$when: there are rows on it");
	is(recovery('damaged'), @lost + 1, "$when: counted");
	like(log_since($node, $from), qr/entry \d+ of the zen page directory is damaged/, "$when: in the log");
	is(state_of($dbh, 'SELECT count(v) FROM d'), 'XX001', "$when: an error");
	value($dbh, 'SET zen.skip_damaged_rows = on');
	my %found = map { @$_ } @{ run_sql($dbh, 'SELECT id, v FROM d')->{rows} };
	is(scalar(grep { $found{$_} } @lost), 0, "$when: no old versions");
	delete @text{@lost};
	is_deeply(\%found, \%text, "$when: the others");
	value($dbh, 'RESET zen.skip_damaged_rows');
	is(state_of($dbh, 'TRUNCATE d'), '', "$when: truncate");
	is(state_of($dbh, 'INSERT INTO d SELECT g, $$new$$ FROM generate_series(1, 5000) g'), '', "$when: reuse");
	stop(1);
	start();
	wait_recovered($dbh);
	is(recovery('damaged') . ' ' . value($dbh, 'SELECT count(*) FROM d'), '1 5000',
		"$when: rows are gone with their table");
	with_file(pool_path($node), sub { my ($fh) = @_;
		my @words = unpack('Q<*', peek($fh, DIRECTORY, 8 * 4096));
		my ($page) = grep { $words[$_] == NONSENSE } 0 .. $#words;
		ok(defined $page, "$when: the page is not used again"); });
	stop_for_damage(1);
	with_file(pool_path($node), sub { my ($fh) = @_;
		my @words = unpack('Q<*', peek($fh, DIRECTORY, 8 * 4096));
		my ($page) = grep { $words[$_] == NONSENSE } 0 .. $#words;
		poke($fh, PAGE * $page, "\0" x PAGE);
		poke($fh, DIRECTORY + 8 * $page, pack('Q<', 0)); });
	start();
	return;
}

# The largest Tx-CTS that a region's watermark says is committed.
sub watermark_of
{
	my ($fh, $region) = @_;
	my @words = unpack('Q<4', peek($fh, REGIONS + 64 * $region, 32));
	my ($largest) = sort { $b <=> $a } 0, map { $words[$_] == ~$words[ $_ + 1 ] ? $words[$_] : () } 0, 2;
	return $largest;
}

# Make losers of rows 20001 to 20050, some of them torn; false if a watermark has them committed without their LP, as it
# does when the region has given a page back since.  In mode wal they are losers.
sub tear_rows
{
	my ($fh) = @_;
	my %slot = row_slots($fh);
	for (by_wal($node) ? () : 20001 .. 20050)
	{
		my $page = int($slot{$_} / PAGE);
		my $region = unpack('Q<', peek($fh, DIRECTORY + 8 * $page, 8)) >> 15 & 0x3fff;
		my $cts = unpack('Q<', peek($fh, $slot{$_}, 8)) & ~(1 << 63);
		return 0 if $cts <= watermark_of($fh, $region);
	}
	# without LP, as if the crash had come before it
	for (20001 .. 20050)
	{
		my $last = ord peek($fh, $slot{$_} + 7, 1);
		poke($fh, $slot{$_} + 7, chr($last & 0x7f));
	}
	poke($fh, $slot{$_} + 60, 'torn') for 20001 .. 20020;
	poke($fh, $slot{$_} + 8, 'torn') for 20021 .. 20030;
	return 1;
}

# A flipped bit makes watermarks larger than each Tx-CTS that was ever handed out. Recovery cannot tell and believes
# them. So it must hand out larger ones from then on: else an unfinished transaction counts as committed after the next
# crash.
sub test_watermark_ahead
{
	my ($d) = make_damage_table();
	stop(0);
	with_file(pool_path($node), sub {
		my ($fh) = @_;
		for my $region (0 .. 99)
		{
			my $newest = watermark_of($fh, $region);
			next if $newest == 0;
			my $bit = $newest & 1 << 21 ? 20 : 21;    # beyond the mark, and within two strides of it
			for my $at (map { REGIONS + LINE * $region + $_ } 0, 16)
			{
				flip_bit($fh, $at, $bit) if unpack('Q<', peek($fh, $at, 8)) == $newest;
			}
		}
	});
	start();
	my $other = connect_db($node);
	value($other, 'SET zen.spill_threshold = 0');
	value($other, 'BEGIN');
	value($other, 'INSERT INTO d SELECT g, 0 FROM generate_series(900001, 920000) g');
	value($other, 'DELETE FROM d WHERE id < 100');
	cmp_ok(value($dbh, 'SELECT rows_spilled FROM zen_stat'), '>', 1000,
		'watermark ahead: an unfinished transaction is in NVM');
	crash($node);
	start();
	is(contents($dbh, 'd'), $d, 'watermark ahead: nothing of it is left after a crash');
	return;
}

# A flipped bit that makes a committed Tx-CTS larger than all that have committed: the row is not taken for an
# unfinished transaction's.
sub test_high_bits
{
	my ($d, $e) = make_damage_table();
	my @ids = map { $_ * 100 + 1 } 0 .. 19;
	stop_for_damage(1);
	with_file(pool_path($node), sub {
		my ($fh) = @_;
		my %slot = row_slots($fh);
		for my $slot (@slot{@ids})
		{
			my $cts = unpack('Q<', peek($fh, $slot, 8)) & ~(1 << 63);
			flip_bit($fh, $slot, (grep { !($cts >> $_ & 1) } 20 .. 62)[0]);
		} });
	start();
	wait_recovered($dbh);
	is(contents($dbh, 'd'), $d, 'high bits: table');
	is(contents($dbh, 'd', 'indexscan', 'id > 0'), $d, 'high bits: by index');
	is(recovery('damaged') . ' ' . recovery('repaired'), '0 ' . @ids, 'high bits: all are counted');
	return;
}

# Slots of a transaction that had not committed may be torn: that is no damage.
sub test_torn_loser
{
	my ($d, $e) = make_damage_table();
	my $torn;
	for my $try (1 .. 10)
	{
		# all but the last row are spilled
		run_all($dbh, 'SET zen.spill_threshold = 0', 'BEGIN') if by_wal($node);
		value($dbh, q{INSERT INTO d SELECT g, rpad('zen test row ' || lpad(g::text, 5, '0'), 88, '.')
			FROM generate_series(20001, 20050 + } . by_wal($node) . ') g');
		run_all(connect_db($node), 'CHECKPOINT') if by_wal($node);
		stop(1);
		with_file(pool_path($node), sub { $torn = tear_rows(@_) });
		last if $torn;
		start();
		value($dbh, 'DELETE FROM d WHERE id > 20000');
	}
	ok($torn, 'torn: a transaction known by its LP alone');
	my $from = log_size($node);
	start();
	wait_recovered($dbh);
	is(contents($dbh, 'd'), $d, 'torn: table');
	is(contents($dbh, 'd', 'indexscan', 'id > 0'), $d, 'torn: by index');
	is(recovery('damaged') . ' ' . recovery('repaired') . ' ' . recovery('losers'), '0 0 50', 'torn: no damage');
	unlike(log_since($node, $from), qr/XX001/, 'torn: not in the log');
	return;
}

# A slot without a Tx-CTS may hold a whole body: a cut may leave it where the body has a line of its own, and so did the
# scrubs of former versions of zen.  Recovery sees to it that no later Tx-CTS can be taken for that body's.
sub test_emptied_slots
{
	my ($crash) = @_;
	my $when = $crash ? 'emptied slots after a crash' : 'emptied slots after a clean stop';
	my ($d, $e) = make_damage_table();
	my %slot;
	value($dbh, q{INSERT INTO d SELECT g, rpad('zen test row ' || lpad(g::text, 5, '0'), 88, '.')
		FROM generate_series(20001, 20050) g});
	value($dbh, 'INSERT INTO e SELECT g FROM generate_series(20001, 20050) g');
	my $rows_of_e = contents($dbh, 'e');
	stop_for_damage($crash);
	with_file(pool_path($node), sub {
		my ($fh) = @_;
		%slot = row_slots($fh);
		poke($fh, $slot{$_}, "\0" x 8) for 20001 .. 20050;
		# or the scrub has begun, with its other store
		for (20041 .. 20050)
		{
			poke($fh, $slot{$_}, pack('Q<', 5)) if $crash;
			poke($fh, $slot{$_} + 16, pack('Q<', 1));
		} });
	my $from = log_size($node);
	start();
	wait_recovered($dbh);
	is(contents($dbh, 'd'), $d, "$when: table");
	is(contents($dbh, 'e'), $rows_of_e, "$when: other table");
	is(recovery('damaged') . ' ' . recovery('repaired'), '0 0', "$when: no damage");
	unlike(log_since($node, $from), qr/XX001/, "$when: not in the log");
	stop_for_damage(1);
	with_file(pool_path($node), sub {
		my ($fh) = @_;
		is(scalar(grep { peek($fh, $slot{$_}, 8) . peek($fh, $slot{$_} + 16, 8) eq pack('Q<2', 0, 1) } 20001 .. 20050),
			50,
			"$when: no body is left") });
	start();
	return;
}

# Random bytes anywhere but in the superblock: the server starts, and answers.
sub test_garbage
{
	make_damage_table();
	my @kinds = ('page', 'slots', 'page directory', 'tables', 'regions', 'marks', 'everywhere');
	for my $crash (0, 1)
	{
		stop_for_damage($crash);
		save_server($node, "$dir/garbage");
		for my $kind (map { $kinds[$_] } grep { $_ % 2 == $crash || $_ == $#kinds } 0 .. $#kinds)
		{
			restore_server($node, "$dir/garbage");
			my $what = "garbage: $kind, crash $crash";
			with_file(pool_path($node), sub { spoil($_[0], $kind) });
			my $from = log_size($node);
			start();
			wait_for('recovery', sub { recovery('state') =~ /ready|failed/ });
			is(recovery('state'), 'ready', "$what: ready");
			for my $table (qw(d e h s))
			{
				my $result = run_sql($dbh, "SELECT count(*) FROM $table");
				# 23505: an older version of a row has survived the newer one, and has a key that another row has by now
				ok(!$result->{lost} && $result->{state} =~ /^(|XX001|23505)$/, "$what: $table ($result->{state})");
			}
			is(state_of($dbh, 'CREATE TABLE fresh (id int PRIMARY KEY) USING zen'), '', "$what: a new table");
			is(state_of($dbh, 'INSERT INTO fresh SELECT generate_series(1, 1000)'), '', "$what: rows in it");
			is(value($dbh, 'SELECT count(*) FROM fresh'), 1000, "$what: they are there");
			unlike(log_since($node, $from), qr/terminated by signal|TRAP|PANIC/, "$what: no crash");
			crash($node);
		}
		restore_server($node, "$dir/garbage");
		start();
	}
	return;
}

sub spoil
{
	my ($fh, $kind) = @_;
	my $random = sub { my ($n) = @_; return join '', map { chr int rand 256 } 1 .. $n; };
	my @pages = grep { unpack('Q<', peek($fh, DIRECTORY + 8 * $_, 8)) != 0 } 0 .. 4095;
	my @slots = values %{ { row_slots($fh) } };
	my $size = -s $fh;
	if ($kind eq 'page') { poke($fh, PAGE * pick(@pages), $random->(PAGE)) for 1 .. 5; }
	if ($kind eq 'slots') { poke($fh, pick(@slots) + between(0, 32), $random->(between(2, 24))) for 1 .. 100; }
	if ($kind eq 'page directory') { poke($fh, DIRECTORY + 8 * pick(@pages), $random->(8)) for 1 .. 3; }
	if ($kind eq 'tables') { poke($fh, HTABLES + between(0, 128 * 12), $random->(8)) for 1 .. 6; }
	if ($kind eq 'regions') { poke($fh, REGIONS + between(0, LINE * 12), $random->(8)) for 1 .. 6; }
	if ($kind eq 'marks') { poke($fh, MARKS + LINE * between(0, 3), $random->(16)); }
	if ($kind eq 'everywhere') { poke($fh, between(REGIONS, $size - 9), $random->(between(1, 8))) for 1 .. 2000; }
	return;
}
