# zen_verify() and zen_verify_pool() find what is wrong: each kind of damage is done to a
# sound server, found, named, and (where it can be) taken back, after which nothing is
# found.  NVM is damaged through the pool file, which the running server has mapped;
# indexes by hiding them from statements that should maintain them, or by their files.
#
# Not to be done from outside is damage in DRAM only (map words, free slots, lists), nor
# two equal entries in a B-tree, over which a server with assertions trips itself.
#
# ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use File::Copy 'copy';
use PoolFile;
use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('verify', pool_size => '128MB', conf => 'allow_system_table_mods = on');
my ($dbh, $pool, %htable);

$node->start;
$dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen');
make_tables();
$dbh = clean_restart($node, $dbh);
$pool = open_pool(pool_path($node));
is_sound($dbh, 'before any damage');

test_slots();
test_checked();
test_chains();
test_stale();
test_superblock();
test_htables();
test_catalogs();
test_regions();
test_pages();
test_missing_entries();
test_wrong_entries();
test_index_files();
test_refused_scan();
test_windows();
test_damaged_row_and_crash();
value($dbh, 'DROP TABLE t') if !inject();
value($dbh, q{UPDATE pg_class SET relfilenode = 4711 WHERE relname = 't'}) if inject();
is_sound($dbh, 'at the end');
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub make_tables
{
	run_all($dbh,
		'CREATE TABLE other (id int) USING zen', 'INSERT INTO other VALUES (1)',
		'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 300) g},
		'CREATE TABLE large (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO large SELECT g, repeat('x', 200) FROM generate_series(1, 3000) g},
		'CREATE TABLE i (id int PRIMARY KEY, k int, s text, a int[], p point, n int, u int, w text) USING zen',
		'CREATE INDEX i_k ON i (k)', 'CREATE INDEX i_u ON i (u)', 'CREATE INDEX i_expr ON i (lower(s))',
		'CREATE INDEX i_part ON i (s) WHERE k % 2 = 0', 'CREATE INDEX i_hash ON i USING hash (s)',
		'CREATE INDEX i_gin ON i USING gin (a)', 'CREATE INDEX i_gist ON i USING gist (p)',
		'CREATE INDEX i_spgist ON i USING spgist (p)',
		'CREATE INDEX i_brin ON i USING brin (n) WITH (pages_per_range = 1)',
		'CREATE INDEX i_bloom ON i USING brin (w text_bloom_ops) WITH (pages_per_range = 1)',
		q{INSERT INTO i SELECT g, g, 's' || g, ARRAY[g], point(g, g), g, g, 'w' || g % 10
			FROM generate_series(1, 500) g},
		q{SELECT brin_summarize_new_values('i_brin'), brin_summarize_new_values('i_bloom')});
	$htable{ $_->[0] } = $_->[1]
	  for @{ run_sql($dbh, 'SELECT c.relname, h.htable FROM _zen_stat_tables() h JOIN pg_class c '
		  . 'USING (relfilenode)')->{rows} };
	return;
}

# finds -- among what the call finds is each of the patterns, nothing but them, and at least one.
sub finds
{
	my ($what, $call, @patterns) = @_;
	my $result = run_sql($dbh, "SELECT concat_ws(' ', kind, relation, tid, location, detail) FROM $call");
	my @found  = $result->{state} ? $result->{message} : map { $_->[0] } @{ $result->{rows} };
	my @missing = grep { my $p = $_; !grep { /$p/ } @found } @patterns;
	my @strange = grep { my $f = $_; !grep { $f =~ /$_/ } @patterns } @found;
	is_deeply([ @missing, @strange ], [], "$what: found by $call")
		or diag(map { "$_\n" } grep { defined } @found[ 0 .. 10 ]);
	return;
}

# damaged -- write bytes, look, write what was there.
sub damaged
{
	my ($what, $offset, $bytes, $look) = @_;
	my $old = poke($pool, $offset, $bytes);
	isnt($bytes, $old, "$what: is damaged");
	$look->();
	poke($pool, $offset, $old);
	return;
}

# slot_of -- the newest slot of the row of a table with this id.
sub slot_of
{
	my ($table, $id) = @_;

	# a read by key would bring the row to DRAM, where no damage to NVM is met
	value($dbh, 'SET enable_indexscan = off; SET enable_bitmapscan = off');
	my $tid = value($dbh, "SELECT '(' || (p)[0] || ',' || ((p)[1]::int - 1) % 64 + 1 || ')' "
		  . "FROM (SELECT id, ctid::text::point AS p FROM $table) t WHERE id = $id");
	value($dbh, 'RESET enable_indexscan; RESET enable_bitmapscan');
	my @slots = slots_of($pool, $htable{$table}, $tid) or die "no slot of row $tid of $table";
	return $slots[-1];
}

sub word { return pack('Q<', $_[0]); }

# --- slots ------------------------------------------------------------------

sub test_slots
{
	my $slot  = slot_of('t', 7);
	my $where = qr/ \(0,7\) page $slot->{page}, slot \d+, offset $slot->{offset} /;
	my $lp    = $slot->{lp} << 63;
	my %case  = (
		'body' => [ sealed_but_crc($slot), "^checksum t$where" ],
		'Tx-CTS' => [ with_word($slot, 0, $lp | ($slot->{cts} + 1)), "^checksum t$where" ],
		'other TID' => [ with_word($slot, 1, $slot->{word1} ^ 64 << 16), "^owner t${where}the slot belongs to row",
			"^lost t \\(64,7\\)" ],
		'other table' => [ with_word($slot, 1, $slot->{word1} ^ 256 << 48),
			"^owner t${where}the slot belongs to HTable", "^lost page" ],
		'empty' => [ with_word($slot, 0, 0), "^owner t${where}the slot is empty", "^lost page" ],
		'of an earlier table' => [ sealed($pool, $slot, word0 => 1), "^owner t${where}the slot is older than the table",
			"^lost page" ],
		'deleted' => [ sealed($pool, $slot, word1 => $slot->{word1} | 1 << 63, len => 0),
			"^tombstone t${where}the slot holds a tombstone" ],
		'not committed' => [ sealed($pool, $slot, word0 => $slot->{cts} + 500000), "^commit t$where" ],
		'not committed, LP' => [ sealed($pool, $slot, word0 => 1 << 63 | ($slot->{cts} + 500000)), "^commit t$where",
			'^region .*LP says' ],
		'from the future' => [ sealed($pool, $slot, word0 => 1 << 40), "^commit t$where",
			'^region .*beyond the persistent mark' ],
		'length' => [ substr(with_word($slot, 1, $slot->{word1}), 0, 16) . "\xff\xff", "^checksum t$where" ]);
	for my $what (sort keys %case)
	{
		my ($bytes, $table, @pool_only) = @{ $case{$what} };
		damaged($what, $slot->{offset}, $bytes, sub {
				finds($what, "zen_verify('t')", $table);
				finds($what, 'zen_verify_pool()', $table, @pool_only); });
	}
	damaged('body', $slot->{offset}, sealed_but_crc($slot), sub {
			finds('body', "zen_verify('t')", "^checksum t$where");
			is(state_of($dbh, 'SELECT * FROM t WHERE id = 7'), 'XX001', 'a damaged row cannot be read');
			value($dbh, 'SET enable_seqscan = off');
			is(value($dbh, 'SELECT count(v) FROM t WHERE id > 100'), 200, 'others can');
			value($dbh, 'RESET enable_seqscan'); });
	is_sound($dbh, 'all slots mended');
	return;
}

# A reader checks a row once.
sub test_checked
{
	run_all($dbh, 'SET enable_indexscan = off', 'SET enable_bitmapscan = off');
	my $read = 'SELECT v FROM t WHERE id = 20';
	my $slot = slot_of('t', 20);
	run_all($dbh, 'SET enable_indexscan = off', 'SET enable_bitmapscan = off');
	damaged('checked row', $slot->{offset}, sealed_but_crc($slot), sub {
			isnt(value($dbh, $read), 'row 20', 'checked row: damage that came later is not seen by a read');
			is(state_of($dbh, 'UPDATE t SET v = v WHERE id = 20'), 'XX001', 'checked row: an update sees it');
			is(state_of($dbh, $read), 'XX001', 'checked row: and so do reads from then on'); });
	is(value($dbh, $read), 'row 20', 'checked row: mended');

	damaged('checked row', $slot->{offset}, sealed_but_crc($slot), sub {
			value($dbh, 'SET client_min_messages = error');
			value($dbh, 'SET zen.skip_damaged_rows = on');
			is(run_sql($dbh, 'SELECT count(*) FROM t')->{rows}[0][0], 299,
				'checked row: zen.skip_damaged_rows finds it');
			value($dbh, 'RESET zen.skip_damaged_rows');
			value($dbh, 'RESET client_min_messages');
			is(state_of($dbh, $read), 'XX001', 'checked row: and so do reads from then on'); });
	is(value($dbh, $read), 'row 20', 'checked row: mended again');

	run_all($dbh, 'RESET enable_indexscan', 'RESET enable_bitmapscan');
	return;
}

sub with_word
{
	my ($slot, $n, $value) = @_;
	my $bytes = peek($pool, $slot->{offset}, $slot->{size});
	substr($bytes, 8 * $n, 8) = word($value);
	return $bytes;
}

sub sealed_but_crc
{
	my ($slot) = @_;
	my $bytes = peek($pool, $slot->{offset}, $slot->{size});
	substr($bytes, 16 + $slot->{length} - 1, 1) ^= "\x04";
	return $bytes;
}

# A snapshot of another session keeps two committed versions of one row in DRAM.
sub test_chains
{
	my $other = connect_db($node);
	value($other, $_) for 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM t';
	run_all($dbh, q{UPDATE t SET v = 'one' WHERE id = 9}, q{UPDATE t SET v = 'two' WHERE id = 9});
	my ($old, $new) = (grep { $_->{tid} eq '(0,9)' } slots_of($pool, $htable{t}))[ -2, -1 ];
	is_sound($dbh, 'a chain of versions');
	my %case = (
		'other contents' => [ $new, sealed($pool, $new, flip => 16 + $new->{length} - 1),
		'^version t \(0,9\) .*differs from its slot' ],
		'other code' => [ $new, sealed($pool, $new, word1 => $new->{word1} + 64), '^version t \(0,9\) .*version code' ],
		'the same Tx-CTS' => [ $old, sealed($pool, $old, word0 => $old->{lp} << 63 | $new->{cts}), '^order t \(0,9\)' ],
		'older body' => [ $old, sealed_but_crc($old), '^checksum t \(0,9\)' ]);
	for my $what (sort keys %case)
	{
		my ($slot, $bytes, $pattern) = @{ $case{$what} };
		damaged($what, $slot->{offset}, $bytes, sub { finds($what, $_, $pattern) for "zen_verify('t')",
			'zen_verify_pool()'; });
	}
	is(value($other, 'SELECT v FROM t WHERE id = 9'), 'row 9', 'the old snapshot sees its version');
	value($other, 'COMMIT');
	$other->disconnect;
	is_sound($dbh, 'the chain is mended');
	return;
}

# Free slots show old headers.
sub test_stale
{
	run_all($dbh, 'INSERT INTO t VALUES (301)', 'UPDATE t SET v = v || $$x$$ WHERE id = 11', 'VACUUM t',
		'UPDATE t SET v = v || $$y$$ WHERE id = 11', 'VACUUM t');
	my @slots = grep { $_->{tid} eq '(0,11)' } slots_of($pool, $htable{t});
	my ($stale, $newest) = @slots[ -2, -1 ];
	is_sound($dbh, 'stale headers');
	damaged('newer than the row', $stale->{offset}, sealed($pool, $stale, word0 => $newest->{cts} + 1),
		sub { finds('newer than the row', "zen_verify('t')", '^stale t \(0,11\) .*would supersede the row') });
	my $row = slot_of('t', 301);
	damaged('not counted', $stale->{offset},
		sealed($pool, $stale, word1 => $row->{word1}, word0 => $row->{cts} - 1),
		sub { finds('not counted', "zen_verify('t')",
			"^stale t \Q$row->{tid}\E .*0 older versions are counted, but 1 ") });

	# a deleted row whose older version is still there: its tombstone must be
	run_all($dbh, 'DELETE FROM t WHERE id = 11', 'VACUUM t', 'VACUUM t');
	my ($tombstone) = grep { $_->{deleted} && $_->{tid} eq '(0,11)' } slots_of($pool, $htable{t});
	damaged('lost tombstone', $tombstone->{offset}, word(0),
		sub { finds('lost tombstone', "zen_verify('t')", '^owner t \(0,11\) .*empty',
		'^stale t \(0,11\) .*would supersede') });
	damaged('tombstone is a row', $tombstone->{offset},
		sealed($pool, $tombstone, word1 => $tombstone->{word1} & ~(1 << 63)),
		sub { finds('tombstone is a row', "zen_verify('t')", '^(?:checksum|tombstone) t \(0,11\)') });
	is_sound($dbh, 'stale headers mended');
	return;
}

# --- directories ------------------------------------------------------------

sub test_superblock
{
	for my $offset (super_offsets())
	{
		my $seq = unpack('Q<', peek($pool, $offset + 16, 8));
		damaged('superblock', $offset + 16, word($seq + 7),
			sub { finds('superblock', 'zen_verify_pool()', "^superblock offset $offset a copy .* checksum") });
	}
	return;
}

sub test_htables
{
	my $at = htable_offset($htable{t});
	damaged('entry', $at + 16, word(77),
		sub { finds('entry', 'zen_verify_pool()', '^htable t HTable \d+ .*checksum') });
	damaged('entry is free', $at + 40, word(0),
		sub { finds('entry is free', 'zen_verify_pool()', '^htable t .*not so in NVM') });
	damaged('entry is taken', htable_offset(30000) + 40, word(2),
		sub { finds('entry is taken', 'zen_verify_pool()', '^htable HTable 30000 .*free, but not so') });
	damaged('entry of another', $at, peek($pool, htable_offset($htable{other}), 40),
		sub { finds('entry of another', 'zen_verify_pool()', '^htable t .*names another table') });
	return;
}

sub test_catalogs
{
	run_all($dbh, 'BEGIN', q{DELETE FROM pg_class WHERE relname = 'other'});
	finds('no relation', 'zen_verify_pool()', '^htable HTable .*catalogs do not know');
	run_all($dbh, 'ROLLBACK', 'BEGIN', q{UPDATE pg_class SET relfilenode = 4711 WHERE relname = 'other'});
	finds('no entry', 'zen_verify_pool()', '^htable HTable .*catalogs do not know',
		'^htable other .*the pool does not know');
	run_all($dbh, 'ROLLBACK');
	is_sound($dbh, 'catalogs mended');
	return;
}

sub test_regions
{
	run_all($dbh, 'UPDATE t SET v = v || $$z$$ WHERE id = 30');
	my $slot = slot_of('t', 30);
	my $at   = region_offset($slot->{region});
	is($slot->{lp} ? 1 : 0, by_wal($node) ? 0 : 1, 'regions: LP proves the newest commit, but in mode wal');
	damaged('no anchor', $slot->{offset}, word($slot->{cts}),
		sub { finds('no anchor', 'zen_verify_pool()',
		"^region region $slot->{region} .*does not prove its newest commit") }) if $slot->{lp};
	damaged('watermark', $at, pack('Q<Q<', 1 << 50, ~(1 << 50)),
		sub { finds('watermark', 'zen_verify_pool()', "^region region $slot->{region} .*watermark") });
	damaged('descriptor', $at + 48, pack('L<L<', 1, 0x12345),
		sub { finds('descriptor', 'zen_verify_pool()', "^region region $slot->{region} .*descriptor") });
	is_sound($dbh, 'regions mended');

	# a finished transaction's descriptor, with its checksum; in mode wal checkpoints store it, and it may be finished
	run_all($dbh, 'BEGIN', 'UPDATE t SET v = v || $$p$$ WHERE id = 31', q{PREPARE TRANSACTION 'p'}, 'CHECKPOINT');
	my ($r) = grep { unpack('Q<', peek($pool, region_offset($_) + 48, 8)) } 0 .. 200;
	my $descriptor = peek($pool, region_offset($r) + 32, 24);
	is_sound($dbh, 'a prepared transaction');
	run_all($dbh, q{COMMIT PREPARED 'p'}, 'CHECKPOINT');
	damaged('old descriptor', region_offset($r) + 32, $descriptor,
		sub { finds('old descriptor', 'zen_verify_pool()',
		by_wal($node) ? () : "^region region $r .*of no transaction") });
	is_sound($dbh, 'descriptors mended');
	return;
}

sub test_pages
{
	my $slot = slot_of('large', 1);
	my ($free) = map { $_->[0] } grep { !$_->[1] } data_pages($pool);
	my %case = (
		'owner' => [ $slot->{page}, sub { $_[0] ^ 1 } ],
		'no owner' => [ $slot->{page}, sub { 0 } ],
		'zeroing' => [ $slot->{page}, sub { 1 << 40 } ],
		'checksum' => [ $slot->{page}, sub { $_[0] ^ 1 << 60 } ],
		'taken' => [ $free, sub { unpack('Q<', peek($pool, page_word_offset($slot->{page}), 8)) } ]);
	for my $what (sort keys %case)
	{
		my ($page, $change) = @{ $case{$what} };
		my $offset = page_word_offset($page);
		damaged("page: $what", $offset, word($change->(unpack('Q<', peek($pool, $offset, 8)))),
			sub { finds("page: $what", 'zen_verify_pool()', "^page page $page the page directory") });
	}
	is_sound($dbh, 'pages mended');
	return;
}

# --- indexes ----------------------------------------------------------------

# hide -- statements know nothing of an index (dead), or do not maintain it (not ready).
sub hide
{
	my ($index, $live) = @_;
	run_all($dbh, "UPDATE pg_index SET indisready = false, indisvalid = false, indislive = $live "
		  . "WHERE indexrelid = '$index'::regclass");
	$dbh->disconnect;
	$dbh = connect_db($node);
	return;
}

sub show
{
	my ($index) = @_;
	run_all($dbh, "UPDATE pg_index SET indisready = true, indisvalid = true, indislive = true "
		  . "WHERE indexrelid = '$index'::regclass");
	$dbh->disconnect;
	$dbh = connect_db($node);
	return;
}

sub mend
{
	my ($index) = @_;
	run_all($dbh, "REINDEX INDEX $index");
	is_sound($dbh, "$index is mended");
	return;
}

sub test_missing_entries
{
	my $id = 1000;
	for my $index (qw(i_k i_expr i_part i_hash i_gin i_gist i_spgist))
	{
		hide($index, 'true');
		$id += 2;
		run_all($dbh, map { "INSERT INTO i VALUES ($_, 10 * $_, 'new' || $_, ARRAY[$_], point($_, $_), $_)" } $id,
			$id + 1);
		show($index);
		finds("hidden $index", "zen_verify('i')", "^index_missing $index \\(\\d+,\\d+\\) the row has no entry");
		is(value($dbh, q{SELECT count(*) FROM zen_verify('i')}), 2, "hidden $index: two rows are missing");
		mend($index);
	}
	for my $case ([ 'i_brin', 'n = n + 100000' ], [ 'i_bloom', q{w = 'other' || id} ], [ 'i_brin', 'n = NULL' ])
	{
		my ($index, $change) = @$case;
		hide($index, 'false');
		run_all($dbh, "UPDATE i SET $change WHERE id IN (3, 200)");
		show($index);
		finds("hidden $index, $change", "zen_verify('i')",
			"^index_missing $index \\(\\d+,\\d+\\) the summary of blocks");
		mend($index);
	}
	return;
}

sub test_wrong_entries
{
	# an update that does not know of the index keeps the TID
	hide('i_u', 'false');
	run_all($dbh, 'UPDATE i SET u = u + 5000 WHERE id = 3');
	show('i_u');
	finds('key', "zen_verify('i')", '^index_key i_u \(', '^index_missing i_u \(');
	mend('i_u');

	# VACUUM that does not know of the index leaves its entries; rows that were never
	# committed leave no tombstones, so others get their addresses
	run_all($dbh, 'BEGIN', q{INSERT INTO i SELECT g, g, 's' || g FROM generate_series(7000, 7010) g}, 'ROLLBACK');
	hide('i_k', 'false');
	run_all($dbh, 'VACUUM i');
	show('i_k');
	finds('unused', "zen_verify('i')", '^index_unused i_k \(');
	run_all($dbh, q{INSERT INTO i SELECT g, g, 's' || g, ARRAY[g], point(g, g), g FROM generate_series(2000, 4000) g});
	finds('stranger', "zen_verify('i')", '^index_key i_k \(');
	mend('i_k');
	for my $index (qw(i_hash i_gist i_spgist i_gin))
	{
		hide($index, 'false');
		run_all($dbh, 'DELETE FROM i WHERE id BETWEEN 20 AND 30', 'VACUUM i', 'VACUUM i');
		show($index);
		finds("unused by $index", "zen_verify('i')", "^index_unused $index \\(");
		mend($index);
		run_all($dbh, q{INSERT INTO i SELECT g, g, 's' || g, ARRAY[g], point(g, g), g FROM generate_series(20, 30) g});
	}
	return;
}

sub test_index_files
{
	run_all($dbh, 'CREATE TABLE small (id int) USING zen', 'INSERT INTO small VALUES (1)',
		'CREATE INDEX small_id ON small (id)');
	my ($large, $small) = map { $node->data_dir . '/'
		. value($dbh, "SELECT pg_relation_filepath('$_')") } qw(large_pkey small_id);
	$dbh->disconnect;
	$node->stop;
	copy($large, $small) or die "cannot copy: $!";
	$node->start;
	$dbh = connect_db($node);
	finds('entries of a larger table', "zen_verify('small')", '^index_tid small_id .*never handed out');
	mend('small_id');

	$small = $node->data_dir . '/' . value($dbh, q{SELECT pg_relation_filepath('small_id')});
	$dbh->disconnect;
	$node->stop;
	poke(open_pool($small), 8192, "\0" x 8192);
	$node->start;
	$dbh = connect_db($node);
	finds('page of zeroes', "zen_verify('small')", '^index_error small_id .*unexpected zero page');
	mend('small_id');
	run_all($dbh, 'DROP TABLE small');
	return;
}

# Access methods of somebody else's that do not tell all entries, or raise an error when asked: not checked, and no
# more.
sub test_refused_scan
{
  SKIP:
	{
		skip 'a server with assertions lets no other access method use the functions of BRIN', 2
		  if value($dbh, 'SHOW debug_assertions') eq 'on';
		my $library = build_noscan() or skip 'no C compiler, or no headers of the server', 2;
		for my $am (qw(noscan needkey))
		{
			run_all($dbh,
				"CREATE FUNCTION ${am}_handler(internal) RETURNS index_am_handler LANGUAGE c AS '$library'",
				"CREATE ACCESS METHOD $am TYPE INDEX HANDLER ${am}_handler",
				"CREATE OPERATOR CLASS ${am}_ops DEFAULT FOR TYPE int4 USING $am AS OPERATOR 1 <, OPERATOR 2 <=, "
					  . "OPERATOR 3 =,
					OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 brin_minmax_opcinfo(internal),
					FUNCTION 2 brin_minmax_add_value(internal, internal, internal, internal),
					FUNCTION 3 brin_minmax_consistent(internal, internal, internal),
					FUNCTION 4 brin_minmax_union(internal, internal, internal)");
		}
		run_all($dbh,
			'CREATE TABLE refused (id int) USING zen', 'INSERT INTO refused SELECT generate_series(1, 100)',
			'CREATE INDEX refused_a ON refused USING noscan (id)',
				'CREATE INDEX refused_b ON refused USING needkey (id)',
			'BEGIN', 'DELETE FROM refused WHERE id = 1');
		finds('scan refused', "zen_verify('refused')", '^unchecked refused_a .*cannot scan noscan index without a key',
			'^unchecked refused_b .*access method "needkey" does not tell all entries');
		run_all($dbh, 'COMMIT');
		is(value($dbh, 'SELECT count(*) FROM refused'), 99, 'scan refused: the transaction went on');
		run_all($dbh, 'DROP TABLE refused',
			map { ("DROP ACCESS METHOD $_ CASCADE", "DROP FUNCTION ${_}_handler(internal)") } qw(noscan needkey));
	}
	return;
}

# build_noscan -- the access method as a library; undef if it cannot be compiled here.
sub build_noscan
{
	my $library = "$PostgreSQL::Test::Utils::tmp_check/noscan.so";
	my $cc = $ENV{CC} || 'cc';
	my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
	my $include = qx{'$pg_config' --includedir-server};
	chomp $include;
	return if system("$cc --version >/dev/null 2>&1") != 0 || !-e "$include/postgres.h";
	is(qx{$cc -shared -fPIC -O1 -I'$include' -o '$library' '$FindBin::RealBin/lib/noscan.c' 2>&1}, '',
		'noscan.c compiles');
	return $library;
}

# --- more -------------------------------------------------------------------

# Counts of stale headers do not fit into memory at once: the last window counts, too.
sub test_windows
{
	run_all($dbh, q{SET maintenance_work_mem = '1MB'}, 'CREATE TABLE many (id int) USING zen',
		'INSERT INTO many SELECT generate_series(1, 600000)');
	run_all($dbh, 'UPDATE many SET id = -id WHERE id > 599990 OR id = 590000', 'VACUUM many');
	$htable{many} = value($dbh, q{SELECT htable FROM _zen_stat_tables() JOIN pg_class c USING (relfilenode)
		WHERE relname = 'many'});
	finds('windows', "zen_verify('many')");
	my $row = slot_of('many', -590000);
	my ($stale) = grep { $_->{lp} || !$_->{deleted} } slots_of($pool, $htable{many}, slot_of('many', -600000)->{tid});
	damaged('not counted, last window', $stale->{offset}, sealed($pool, $stale, word1 => $row->{word1},
		word0 => $row->{cts} - 1),
		sub { finds('not counted, last window', "zen_verify('many')",
			"^stale many \Q$row->{tid}\E .*1 older versions are counted, but 2") });
	run_all($dbh, 'RESET maintenance_work_mem', 'DROP TABLE many');
	return;
}

# A damaged row is still one after a crash.
sub test_damaged_row_and_crash
{
	my $slot  = slot_of('other', 1);
	my $bytes = sealed_but_crc($slot);
	$dbh = clean_restart($node, $dbh);
	poke($pool, $slot->{offset}, $bytes);
	crash($node);
	start_again($node);
	$dbh = connect_db($node);
	finds('after a crash', $_, '^checksum other \(0,1\)') for "zen_verify('other')", 'zen_verify_pool()';
	run_all($dbh, 'DROP TABLE other');
	return;
}
