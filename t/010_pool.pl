# Bad pools and other things that cannot work: each gets one clear answer with
# SQLSTATE, detail or hint, and loses nothing.
#
# - zen not in shared_preload_libraries
# - pool file missing after it existed, truncated, not a pool, of another cluster, of
#   another format version, of another moment than the data directory; one copy of
#   the superblock damaged (starts, and repairs it), both (does not start)
# - a second server on the same pool; a pool size or path that cannot be
# - pool full; shared DRAM full
# - a table that only the pool knows, or only the catalog
# - temporary and unlogged tables; CREATE DATABASE from a template with zen tables;
#   zen tables on a standby, and its promotion

use strict;
use warnings;

use File::Copy 'copy';
use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

# From src/nvm/layout.h.
use constant {
	OFF_SUPER   => 0,
	OFF_SUPER2  => 4096,
	SUPER_SIZE  => 96,
	OFF_VERSION => 8,      # uint32, in the superblock
};

skip_unless_zen();
my $node = new_node('pool', pool_size => '64MB', dram_size => '128MB');
my $pool = pool_path($node);

$node->start;
my $dbh = connect_db($node);
value($dbh, $_) for (
	'CREATE EXTENSION zen',
	'CREATE TABLE keep (id int PRIMARY KEY, v text) USING zen',
	q{INSERT INTO keep SELECT g, 'row ' || g FROM generate_series(1, 1000) g});
my $expected = contents($dbh, 'keep');

test_table_kinds();
test_template();
test_second_server();
test_not_preloaded();
test_missing();
test_wrong_size();
test_superblock();
test_other_cluster();
test_other_moment();
test_settings();
test_pool_full();
test_dram_full();
test_dram_leaks();
test_unknown_tables();
stop();
test_standby();
done_testing();

# --- tools ------------------------------------------------------------------

# fails_with -- a statement must fail with this SQLSTATE and this text.
sub fails_with
{
	my ($handle, $sql, $state, $text, $name) = @_;
	my $result = run_sql($handle, $sql);
	is($result->{state}, $state, "$name: SQLSTATE");
	like($result->{message}, $text, "$name: message");
	like($result->{message}, qr/HINT:/, "$name: hint");
	return;
}

# refuses_to_start -- the server must not start, and say why: SQLSTATE, text, hint,
# and the path of the pool.
sub refuses_to_start
{
	my ($server, $state, $text, $name) = @_;
	my $said = start_failing($server);
	ok(defined $said, "$name: does not start") or return;
	like($said, qr/FATAL:  \Q$state\E: /, "$name: SQLSTATE");
	like($said, $text,                    "$name: message");
	like($said, qr/HINT:/,                "$name: hint");
	like($said, qr/\Q@{[pool_path($server)]}\E/, "$name: names the pool file");
	return;
}

# all_there -- the server starts (if it does not run) and nothing is lost.
sub all_there
{
	my ($name) = @_;
	if (!eval { $dbh->ping })
	{
		$node->start;
		$dbh = connect_db($node);
	}
	is(contents($dbh, 'keep'), $expected, "$name: nothing lost");
	is(contents($dbh, 'keep', 'indexscan', 'id > 0'), $expected, "$name: index as well");
	return;
}

sub stop
{
	$dbh->disconnect;
	$node->stop;
	return;
}

# with_pool -- stop the server, let $spoil work on its pool, see that the server
# refuses it, put the pool back, and see that all is there.
sub with_pool
{
	my ($name, $state, $text, $spoil) = @_;
	stop();
	copy($pool, "$pool.good") or die "cannot copy $pool: $!";
	$spoil->();
	refuses_to_start($node, $state, $text, $name);
	unlink $pool;
	rename "$pool.good", $pool or die "cannot rename: $!";
	all_there($name);
	return;
}

sub patch
{
	my ($offset, $bytes) = @_;
	open(my $fh, '+<:raw', $pool) or die "cannot open $pool: $!";
	seek($fh, $offset, 0);
	print $fh $bytes;
	close $fh or die "cannot write $pool: $!";
	return;
}

sub superblock_copy
{
	my ($offset) = @_;
	open(my $fh, '<:raw', $pool) or die "cannot open $pool: $!";
	seek($fh, $offset, 0);
	read($fh, my $bytes, SUPER_SIZE) == SUPER_SIZE or die "cannot read $pool";
	return $bytes;
}

# --- what zen tables cannot be ----------------------------------------------

sub test_table_kinds
{
	fails_with($dbh, 'CREATE TEMP TABLE t (a int) USING zen', '0A000', qr/temporary/i, 'temporary table');
	fails_with($dbh, 'CREATE UNLOGGED TABLE t (a int) USING zen', '0A000', qr/unlogged/i, 'unlogged table');
	fails_with($dbh, 'CREATE TEMP TABLE t USING zen AS SELECT 1 AS a', '0A000', qr/temporary/i,
		'temporary table by query');
	fails_with($dbh, 'ALTER TABLE keep SET UNLOGGED', '0A000', qr/unlogged/i, 'SET UNLOGGED');
	value($dbh, 'CREATE TEMP TABLE th (a int) USING heap');
	fails_with($dbh, 'ALTER TABLE th SET ACCESS METHOD zen', '0A000', qr/temporary/i, 'temporary table made zen');
	value($dbh, $_) for 'CREATE UNLOGGED TABLE uh (a int) USING heap', 'INSERT INTO uh VALUES (1)';
	fails_with($dbh, 'ALTER TABLE uh SET ACCESS METHOD zen', '0A000', qr/unlogged/i, 'unlogged table made zen');
	is(contents($dbh, 'uh') =~ /^1 /, 1, 'the unlogged table is as it was');
	value($dbh, 'DROP TABLE uh');
	all_there('table kinds');
	return;
}

# The statement comes from a database without the extension, too: what is refused
# must not depend on where it is given.
sub test_template
{
	value($dbh, 'CREATE DATABASE model');
	my $model = connect_db($node, 'model');
	value($model, $_) for 'CREATE EXTENSION zen', 'CREATE TABLE z (a int) USING zen', 'INSERT INTO z VALUES (1)';
	$model->disconnect;
	value($dbh, 'CREATE DATABASE plain');
	my $plain = connect_db($node, 'plain');

	for my $from ([ $dbh, 'here' ], [ $plain, 'elsewhere' ])
	{
		for my $strategy ('', ' STRATEGY wal_log', ' STRATEGY file_copy')
		{
			fails_with($from->[0], "CREATE DATABASE copy TEMPLATE model$strategy",
				'0A000', qr/model.*zen|zen.*model/is, "template with zen tables$strategy, $from->[1]");
		}
	}
	is(value($dbh, q{SELECT count(*) FROM pg_database WHERE datname = 'copy'}), 0, 'no copy was made');
	$plain->disconnect;

	$model = connect_db($node, 'model');
	is(value($model, 'SELECT a FROM z'), 1, 'the template is as it was');
	value($model, 'DROP TABLE z');
	$model->disconnect;
	is(state_of($dbh, 'CREATE DATABASE copy TEMPLATE model'), '', 'template without zen tables');
	value($dbh, "DROP DATABASE $_") for qw(copy model plain);
	all_there('template');
	return;
}

# --- pools that do not fit --------------------------------------------------

sub test_second_server
{
	my $second = new_node('second', pool_path => $pool, pool_size => '64MB');
	refuses_to_start($second, 'F0001', qr/in use by another server/, 'second server on one pool');
	all_there('second server');

	# With a pool of its own a second server is welcome.
	my $third = new_node('third', pool_path => "$pool.third", pool_size => '64MB');
	$third->start;
	is(value(connect_db($third), 'SELECT 1'), 1, 'a server with a pool of its own');
	$third->stop;
	return;
}

sub test_not_preloaded
{
	my $plain = new_node('plain', preload => 0);
	$plain->start;
	my $handle = connect_db($plain);
	fails_with($handle, 'CREATE EXTENSION zen', '55000', qr/shared_preload_libraries/, 'not preloaded');
	fails_with($handle, q{LOAD 'zen'}, '55000', qr/shared_preload_libraries/, 'not preloaded, LOAD');
	is(value($handle, 'SELECT 1'), 1, 'not preloaded: the session goes on');
	$plain->stop;

	# A cluster with zen tables that is started without zen, and later with it again.
	$dbh->disconnect;
	$node->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
	$node->restart;
	$handle = connect_db($node);
	fails_with($handle, 'SELECT * FROM keep', '55000', qr/shared_preload_libraries/, 'table without zen');
	fails_with($handle, 'DROP TABLE keep', '55000', qr/shared_preload_libraries/, 'DROP TABLE without zen');
	$handle->disconnect;
	$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'zen'});
	$node->restart;
	$dbh = connect_db($node);
	all_there('preloaded again');
	return;
}

sub test_missing
{
	with_pool('pool file missing', '58P01', qr/does not exist/, sub { unlink $pool });
	return;
}

sub test_wrong_size
{
	my $size = -s $pool;
	with_pool('pool truncated', 'XX001', qr/size/, sub { truncate $pool, $size - 2 * 1024 * 1024 });
	with_pool('pool of three bytes', 'XX001', qr/too small/, sub { truncate $pool, 3 });
	with_pool('empty pool file', 'XX001', qr/too small/, sub { truncate $pool, 0 });
	with_pool('pool too long', 'XX001', qr/wrong size.*not empty/s,
		sub { truncate $pool, $size + 4096; patch($size + 3000, 'x') });

	# What a crash leaves that came while the pool was made larger.
	stop();
	truncate $pool, $size + 1024 * 1024;
	my $log = log_size($node);
	all_there('pool longer by zeroes');
	like(log_since($node, $log), qr/was cut to its 64 MB/, 'pool longer by zeroes: the log says that it was cut');
	is(-s $pool, $size, 'pool longer by zeroes: cut');
	return;
}

sub test_superblock
{
	my $zeroes = "\0" x SUPER_SIZE;
	with_pool('not a pool', 'XX001', qr/not a zen pool/, sub { patch($_, $zeroes) for OFF_SUPER, OFF_SUPER2 });
	with_pool('superblock damaged', 'XX001', qr/superblock .* is damaged/,
		sub { patch($_ + 40, "\xff" x 8) for OFF_SUPER, OFF_SUPER2 });
	with_pool('other format version', '0A000', qr/format version 77/,
		sub { patch($_ + OFF_VERSION, pack('V', 77)) for OFF_SUPER, OFF_SUPER2 });

	# One copy is enough, and is used to mend the other.
	for my $offset (OFF_SUPER, OFF_SUPER2)
	{
		for my $bytes ($zeroes, "\x5a" x SUPER_SIZE)
		{
			stop();
			patch($offset, $bytes);
			my $log = log_size($node);
			$node->start;
			$dbh = connect_db($node);
			like(log_since($node, $log), qr/copy of the superblock .* is damaged/,
				"copy at $offset damaged: the log says so");
			all_there("copy at $offset damaged");
			isnt(superblock_copy($offset), $bytes, "copy at $offset is mended");
		}
	}
	my $log = log_size($node);
	stop();
	all_there('both copies mended');
	unlike(log_since($node, $log), qr/damaged/, 'both copies mended: nothing in the log');
	return;
}

sub test_other_cluster
{
	my $other = new_node('other', pool_size => '64MB');
	$other->start;
	my $handle = connect_db($other);
	value($handle, $_) for 'CREATE EXTENSION zen', 'CREATE TABLE o USING zen AS SELECT 5 AS a';
	$handle->disconnect;
	$other->stop;
	my $others = pool_path($other);

	with_pool('pool of another cluster', '55000', qr/another database cluster/,
		sub { copy($others, $pool) or die "cannot copy: $!" });

	# A cluster that has no pool must not take one that is there.
	my $new = new_node('newcomer', pool_path => $others, pool_size => '64MB');
	refuses_to_start($new, '55000', qr/another database cluster/, 'pool of another cluster at first start');
	$other->start;
	is(value(connect_db($other), 'SELECT a FROM o'), 5, 'the other cluster is as it was');
	$other->stop;
	return;
}

# Pool and data directory must be of the same moment.
sub test_other_moment
{
	with_older_pool();
	with_older_data();
	return;
}

sub with_older_pool
{
	stop();
	copy($pool, "$pool.old") or die "cannot copy $pool: $!";
	$node->start;
	$node->stop;
	copy($pool, "$pool.good") or die "cannot copy $pool: $!";
	copy("$pool.old", $pool) or die "cannot copy: $!";
	refuses_to_start($node, '55000', qr/moment/, 'older copy of the pool');
	copy("$pool.good", $pool) or die "cannot copy: $!";
	unlink "$pool.old", "$pool.good";
	all_there('older copy of the pool');
	return;
}

sub with_older_data
{
	stop();
	my $dir = $node->data_dir;
	PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $dir, "$dir.old");
	$node->start;
	$node->stop;
	rename $dir, "$dir.new" or die "cannot rename: $!";
	rename "$dir.old", $dir or die "cannot rename: $!";
	refuses_to_start($node, '55000', qr/moment|older/, 'older copy of the data directory');
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $dir);
	rename "$dir.new", $dir or die "cannot rename: $!";
	all_there('older copy of the data directory');
	return;
}

sub test_settings
{
	stop();
	$node->append_conf('postgresql.conf', q{zen.pool_size = '1MB'});
	my $log = log_size($node);
	all_there('pool size out of range');
	like(log_since($node, $log), qr/outside the valid range for parameter "zen\.pool_size"/,
		'pool size out of range: the log says so');
	stop();
	# A larger size makes the pool larger (t/240_grow.pl), a smaller one leaves it.
	$node->append_conf('postgresql.conf', q{zen.pool_size = '32MB'});
	$log = log_size($node);
	all_there('smaller pool size');
	like(log_since($node, $log), qr/zen\.pool_size is less .* keeps its 64 MB/,
		'smaller pool size: the log says what is kept');
	is(value($dbh, 'SELECT size_bytes FROM zen_pool'), 64 << 20, 'smaller pool size: as before');

	stop();
	$node->append_conf('postgresql.conf', q{zen.pool_path = '/nonexistent/pool'});
	like(start_failing($node), qr{/nonexistent/pool}, 'pool path that cannot be: named in the log');
	$node->append_conf('postgresql.conf', "zen.pool_path = '$pool'");
	all_there('pool path set right');
	like(run_sql($dbh, q{SET zen.pool_path = 'x'})->{message}, qr/cannot be changed without restarting/,
		'zen.pool_path is fixed while the server runs');
	isnt(state_of($dbh, q{SET zen.no_such_setting = 1}), '', 'unknown zen settings are refused');
	return;
}

# --- full -------------------------------------------------------------------

# fill -- insert into table full until it fails; returns the result of the failure
# and the number of rows that were committed before.
sub fill
{
	my ($rows) = @_;
	my $first = 1 + value($dbh, 'SELECT coalesce(max(id), 0) FROM "full"');
	for my $round (1 .. 1000)
	{
		my $result = run_sql($dbh,
			qq{INSERT INTO "full" SELECT g, repeat(md5(g::text), 30)
			FROM generate_series($first, $first + $rows - 1) g});
		return $result if $result->{state};
		$first += $rows;
	}
	return { state => '', message => 'it never got full' };
}

sub test_pool_full
{
	value($dbh, 'CREATE TABLE "full" (id int PRIMARY KEY, v text) USING zen');
	for my $rows (1000, 1)
	{
		my $result = fill($rows);
		is($result->{state}, '53100', "pool full by $rows at a time: SQLSTATE");
		like($result->{message}, qr/pool is full/,            "pool full by $rows: message");
		like($result->{message}, qr/HINT:.*zen\.pool_size/s, "pool full by $rows: hint names the setting");
	}
	my $count = value($dbh, 'SELECT count(*) FROM "full"');
	is(value($dbh, 'SELECT count(*) FROM "full" WHERE id > 0'), $count, 'pool full: table and index agree');
	all_there('pool full');

	prepare_when_full();

	# Reads go on, heap goes on, and the end of it can always be deleted.
	is(state_of($dbh, 'CREATE TABLE h USING heap AS SELECT * FROM keep'), '', 'pool full: heap tables work');
	crash_and_check('pool full', $count);
	is(state_of($dbh, 'DELETE FROM "full" WHERE id % 2 = 0'), '', 'pool full: rows can be deleted');
	value($dbh, 'VACUUM "full"');
	$count = value($dbh, 'SELECT count(*) FROM "full"');
	is(state_of($dbh, q{INSERT INTO "full" SELECT -g, repeat('x', 500) FROM generate_series(1, 500) g}),
		'', 'pool full: works again after DELETE and VACUUM');
	is(state_of($dbh, 'UPDATE "full" SET v = v WHERE id < 500'), '', 'pool full: updates, too');
	crash_and_check('after DELETE and VACUUM', $count + 500);

	is(fill(1000)->{state}, '53100', 'pool full once more');
	value($dbh, $_) for 'DROP TABLE "full"', 'CREATE TABLE "full" (id int PRIMARY KEY, v text) USING zen';
	is(state_of($dbh, q{INSERT INTO "full" SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 10000) g}),
		'', 'pool full: works again after DROP');

	# One transaction too large: pool or DRAM gets full in the middle of it.
	value($dbh, 'BEGIN');
	my $result = fill(200_000);
	like($result->{state}, qr/^53[12]00$/, 'transaction larger than the pool');
	value($dbh, 'ROLLBACK');
	is(value($dbh, 'SELECT count(*) FROM "full"'), 10000, 'transaction larger than the pool: rolled back');
	is(state_of($dbh, q{INSERT INTO "full" SELECT -g, 'x' FROM generate_series(1, 1000) g}), '',
		'transaction larger than the pool: its space is back');
	value($dbh, $_) for 'DROP TABLE "full"', 'DROP TABLE h';
	return;
}

# Many row locks need many slots: PREPARE fails before it writes anything.
sub prepare_when_full
{
	value($dbh, $_) for 'BEGIN', 'UPDATE keep SET v = v WHERE id = 1',
	  'SELECT count(*) FROM (SELECT 1 FROM "full" FOR SHARE) x';
	my $written = value($dbh, 'SELECT slots_written FROM zen_stat');
	my $result  = run_sql($dbh, q{PREPARE TRANSACTION 'full'});
	is($result->{state}, '53100', 'pool full at PREPARE: SQLSTATE');
	like($result->{message}, qr/pool is full.*HINT:.*zen\.pool_size/s, 'pool full at PREPARE: hint names the setting');
	is(value($dbh, 'SELECT slots_written FROM zen_stat'), $written, 'pool full at PREPARE: nothing was written');
	is(value($dbh, 'SELECT count(*) FROM pg_prepared_xacts'), 0, 'pool full at PREPARE: nothing is prepared');
	my $other = connect_db($node);
	is(state_of($other, 'SELECT 1 FROM "full", keep FOR UPDATE NOWAIT LIMIT 1000'), '',
		'pool full at PREPARE: no lock is left');
	is(state_of($dbh, 'UPDATE keep SET v = v WHERE id = 1'), '', 'pool full at PREPARE: small changes go on');
	return;
}

sub crash_and_check
{
	my ($name, $count) = @_;
	crash($node);
	start_again($node);
	$dbh = connect_db($node);
	is(value($dbh, 'SELECT count(*) FROM "full"'), $count, "$name, crash: all rows are there");
	all_there("$name, crash");
	return;
}

# Old versions that a snapshot still needs fill the DRAM.
sub test_dram_full
{
	stop();
	$node->append_conf('postgresql.conf', "zen.dram_size = '16MB'\nzen.met_cache_size = '12MB'");
	$node->start;
	$dbh = connect_db($node);
	value($dbh, $_) for 'CREATE TABLE d (id int PRIMARY KEY, v text) USING zen',
	  q{INSERT INTO d SELECT g, 'x' FROM generate_series(1, 100) g};
	my $reader = connect_db($node);
	value($reader, $_) for 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM d';

	my $result = { state => '' };
	for my $round (1 .. 20_000)
	{
		last if $result->{state};
		$result = run_sql($dbh, "UPDATE d SET v = repeat(chr(65 + $round % 26), 1000)");
	}
	is($result->{state}, '53200', 'DRAM full: SQLSTATE');
	like($result->{message}, qr/HINT:.*zen\.dram_size/s, 'DRAM full: hint names the setting');
	is(value($reader, q{SELECT count(*) FROM d WHERE v = 'x'}), 100, 'DRAM full: the old snapshot still sees its rows');
	is(value($dbh, 'SELECT count(*) FROM d'), 100, 'DRAM full: reads go on');
	all_there('DRAM full');

	value($reader, 'COMMIT');
	$reader->disconnect;
	is(state_of($dbh, q{UPDATE d SET v = 'y'}), '', 'DRAM full: works again once the snapshot is gone');
	value($dbh, 'DROP TABLE d');
	stop();
	$node->append_conf('postgresql.conf', "zen.dram_size = '128MB'");
	all_there('DRAM of the usual size');
	return;
}

# What a statement holds when it runs out of DRAM comes back.
sub test_dram_leaks
{
	stop();
	$node->append_conf('postgresql.conf',
		"zen.dram_size = '16MB'\nzen.met_cache_size = '1MB'\nzen.spill_threshold = -1");
	$node->start;
	$dbh = connect_db($node);
	# No row of one size: memory runs out at another place each time.
	value($dbh, $_) for 'CREATE TABLE leak (id int PRIMARY KEY, k int, v text) USING zen',
	  'ALTER TABLE leak ALTER v SET STORAGE PLAIN', 'CREATE INDEX ON leak (k)';
	value($dbh, "INSERT INTO leak SELECT g, g, repeat('x', 20000 + g * 17) "
		  . "FROM generate_series($_ * 100, $_ * 100 + 99) g") for 0 .. 5;
	my %failing = (
		CLUSTER        => sub { 'CLUSTER leak USING leak_pkey' },
		'VACUUM FULL'  => sub { 'VACUUM FULL leak' },
		'key change'   => sub { "UPDATE leak SET k = k + 1 WHERE id >= $_[0]" },
		'update'       => sub { "UPDATE leak SET v = v || 'y' WHERE id >= $_[0]" },
		'insert'       => sub { "INSERT INTO leak SELECT id + 1000, k, v || 'z' FROM leak WHERE id >= $_[0]" });
	for my $what (sort keys %failing)
	{
		my %states;
		$states{ state_of($dbh, $failing{$what}->($_)) }++ for 1 .. 150;
		is_deeply([ keys %states ], ['53200'], "DRAM leaks: $what fails for want of DRAM");
	}
	value($dbh, 'DROP TABLE leak');
	# Processes keep some for themselves, and each may hold a few rows to be freed.
	for my $what (qw(dram_used_bytes metcache_bytes))
	{
		my $used = sub { value($dbh, "SELECT $what FROM zen_stat") };
		eval { wait_for('row versions to go', sub { $used->() < 1_500_000 }, 20) };
		cmp_ok($used->(), '<', 1_500_000, "DRAM leaks: $what");
	}
	all_there('DRAM leaks');
	stop();
	$node->append_conf('postgresql.conf', "zen.dram_size = '128MB'\nzen.spill_threshold = '16MB'");
	all_there('DRAM of the usual size again');
	return;
}

# --- catalog and pool -------------------------------------------------------

# forget_htable -- make the entry of a table in the HTable directory free (src/nvm/layout.h).
sub forget_htable
{
	my ($number) = @_;
	open(my $fh, '+<:raw', pool_path($node)) or die "pool: $!";
	for my $i (1 .. 32767)
	{
		my $at = 2 * 1024 * 1024 + 128 * $i;
		seek $fh, $at, 0;
		read $fh, my $entry, 48;
		next unless (unpack 'L3', $entry)[2] == $number && (unpack 'Q6', $entry)[5];
		seek $fh, $at + 40, 0;
		print $fh pack 'Q', 0;
		close $fh;
		return;
	}
	die "no entry for $number";
}

# A table that only the pool knows, or only the catalog: both are said, nothing is guessed.
sub test_unknown_tables
{
	run_all($dbh, map { ("CREATE TABLE $_ (id int) USING zen", "INSERT INTO $_ VALUES (1)") } 'only_pool',
		'only_catalog', 'in_both');
	my ($pool_number, $catalog_number) = map { value($dbh, "SELECT pg_relation_filenode('$_')") } 'only_pool',
		'only_catalog';
	run_all($dbh, 'SET allow_system_table_mods = on', q{DELETE FROM pg_class WHERE relname = 'only_pool'},
		'RESET allow_system_table_mods');
	$dbh->disconnect;
	$node->stop;
	forget_htable($catalog_number);
	$node->start;
	my $from = log_size($node);
	$dbh = connect_db($node);
	my $result = run_sql($dbh, 'SELECT * FROM only_catalog');
	is($result->{state}, 'XX001', 'table that the pool does not know: SQLSTATE');
	like($result->{message}, qr/pool does not know table "only_catalog".*HINT:.*same moment/s,
		'table that the pool does not know: hint');
	is(state_of($dbh, 'INSERT INTO only_catalog VALUES (2)'), 'XX001',
		'table that the pool does not know: no row goes there');
	is(value($dbh, 'SELECT id FROM in_both'), 1, 'table that the pool does not know: others are readable');
	is(state_of($dbh, 'DROP TABLE only_catalog'), '', 'table that the pool does not know: it can be dropped');
	$dbh = crash_restart($node);
	my $said = qr/WARNING: .*catalog does not know.*relfilenode $pool_number /s;
	wait_for('the report', sub { log_since($node, $from) =~ $said });
	is(() = log_since($node, $from) =~ /catalog does not know/g, 1,
		'table that the catalog does not know: one is reported, once');
	return;
}

# --- standby ----------------------------------------------------------------

# Without zen.stream, which mode wal implies.
sub test_standby
{
	my $primary = new_node('primary', pool_size => '64MB', init => { allows_streaming => 1 },
		conf => "zen.pool_mode = emulated\nzen.allow_copies_without_rows = on");
	$primary->append_conf('postgresql.conf', 'max_connections = 20');
	$primary->start;
	my $handle = connect_db($primary);
	value($handle, $_) for 'CREATE EXTENSION zen',
	  'CREATE TABLE z (a int PRIMARY KEY) USING zen', 'INSERT INTO z VALUES (1)',
	  'CREATE TABLE h USING heap AS SELECT 2 AS a';
	$primary->backup('base');

	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	unlink $standby->data_dir . '/zen.state';
	pool_conf($standby, pool_size => '64MB');
	set_conf($standby, 'zen.allow_copies_without_rows = off');
	$standby->start;
	my $reader = connect_db($standby);
	fails_with($reader, 'SELECT * FROM z', '0A000', qr/zen tables? .*recovery|standby/i, 'zen table on a standby');
	is(value($reader, 'SELECT a FROM h'), 2, 'standby: heap tables work');
	test_promotion($primary, $handle, $standby, $reader);
	is(value($handle, 'SELECT a FROM z'), 1, 'standby: the primary is as it was');
	$handle->disconnect;
	$primary->stop;

	# Its own pool does not follow a stream either.
	$primary->set_standby_mode;
	like(start_failing($primary), qr/cannot follow a server.*HINT:.*zen\.state/s,
		'a pool with tables on a standby: refused');
	unlink $primary->data_dir . '/standby.signal';
	$primary->start;
	is(value(connect_db($primary), 'SELECT a FROM z'), 1, 'a pool with tables on a standby: it is as it was');
	$primary->stop;
	return;
}

# Who promotes a standby, and drops on the primary what the standby has, would lose zen's rows.  The catalogs of all
# databases count.
sub test_promotion
{
	my ($primary, $handle, $standby, $reader) = @_;
	my $refused = qr/cannot be promoted.*DETAIL:.*"%s" has \d zen table.*HINT:.*heap.*zen\.allow_copies_without_rows/s;
	my $in = sub { (my $text = "$refused") =~ s/%s/$_[0]/; return qr/$text/; };
	fails_with($reader, 'SELECT pg_promote()', '55000', $in->('postgres'), 'promotion with a zen table');
	fails_with($reader, q{DO 'BEGIN PERFORM pg_promote(); END'}, '55000', $in->('postgres'), 'promotion from PL/pgSQL');
	is(value($reader, 'SELECT pg_is_in_recovery()'), 1, 'promotion with a zen table: still a standby');
	value($handle, $_) for 'CREATE DATABASE elsewhere', 'ALTER TABLE z SET ACCESS METHOD heap';
	my $second = connect_db($primary, 'elsewhere');
	value($second, $_) for 'CREATE EXTENSION zen', 'CREATE TABLE e (a int, t text) USING zen';
	$second->disconnect;
	$primary->wait_for_catchup($standby);
	fails_with($reader, 'SELECT pg_promote()', '55000', $in->('elsewhere'),
		'promotion with zen tables in another database');
	value($handle, 'ALTER TABLE z SET ACCESS METHOD zen');
	$primary->wait_for_catchup($standby);

	my $log = log_size($standby);
	$standby->append_conf('postgresql.conf', 'zen.allow_copies_without_rows = on');
	$standby->reload;
	wait_for('the setting', sub { value($reader, 'SHOW zen.allow_copies_without_rows') eq 'on' });
	is(value($reader, 'SELECT pg_promote()'), 1, 'promotion where the setting allows it');
	fails_with($reader, 'SELECT * FROM z', 'XX001', qr/does not know table "z"/, 'promoted: a zen table');
	wait_for('the warnings', sub { log_since($standby, $log) =~ /"elsewhere" has \d+ zen tables.*does not know/ });
	like(log_since($standby, $log), qr/WARNING:[^\n]*"postgres" has 1 zen table, [^\n]*does not know/,
		'promoted: the log names them');
	value($reader, $_) for 'DROP TABLE z', 'CREATE TABLE z (a int PRIMARY KEY) USING zen', 'INSERT INTO z VALUES (3)';
	$reader->disconnect;
	$log = log_size($standby);
	$standby->restart;
	$reader = connect_db($standby);
	is(value($reader, 'SELECT a FROM z'), 3, 'promoted: tables can be dropped and made');
	wait_for('the warning', sub { log_since($standby, $log) =~ /"elsewhere" has \d+ zen tables/ });
	unlike(log_since($standby, $log), qr/"postgres" has/, 'promoted: only what is lacking is named');
	$reader->disconnect;
	$standby->stop;
	return;
}
