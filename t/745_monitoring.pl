# What an operator sees in time, and what the documents say of it.
#
# - the pool and DRAM: a warning when the share of zen.warning_level is in use, again when it
#   grows, none after it has come down or with the setting 0; zen_stat has the share
# - a base backup without the rows: an error in the log, and to who calls pg_backup_start(); none without zen tables
# - recovery and the background worker do not keep the pool among their pages
# - VACUUM FULL tells its progress in blocks; the progress views show what runs; EXPLAIN (ANALYZE, BUFFERS, WAL)
# - the queries of doc/monitoring.md run, and its rule of sizes holds
# - the examples of doc/views.md and doc/functions.md run, and give the columns that stand there
# - doc/settings.md has each setting's default, unit, range, and when it takes effect

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Time::HiRes ();
use ZenTest;

skip_unless_zen();
my ($node, $dbh);
test_pool_warning();
test_dram_warning();
test_documents();
test_functions();
test_settings();
test_base_backup();
test_memory();
test_progress();
test_progress_views();
test_explain();
done_testing();

# --- tools ------------------------------------------------------------------

sub begin
{
	my ($name, %opt) = @_;
	$node = new_node($name, %opt);
	$node->start;
	$dbh = connect_db($node);
	value($dbh, 'CREATE EXTENSION zen') unless $opt{bare};
	return;
}

# Of the pool or of DRAM.
sub used_percent { return value($dbh, "SELECT $_[0]_used_percent FROM zen_stat"); }

# All shares that the log has warned of since the offset.
sub warned { return log_since($node, $_[0]) =~ /WARNING:  53\w00: (\d+) % of $_[1] is in use/g; }

# Two rounds of the worker, the second of which began after this call.
sub worker_rounds
{
	my ($pid) = map { $_->[0] } @{
		run_sql($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'zen worker'})->{rows} };
	my $naps = sub {
		my ($n) = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m;
		return $n;
	};
	my $first = $naps->();
	wait_for('the worker to look', sub { value($dbh, 'UPDATE tick SET n = n + 1'); $naps->() >= $first + 3 });
	return;
}

# --- the pool ---------------------------------------------------------------

sub test_pool_warning
{
	begin('pool', pool_size => '64MB', conf => 'zen.warning_level = 40');
	value($dbh, $_) for 'CREATE TABLE tick (n int) USING zen', 'INSERT INTO tick VALUES (0)',
		'CREATE TABLE t (v text) USING zen';
	my $offset = log_size($node);
	my $fill = sub { value($dbh, q{INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 500)})
	  while used_percent('pool') < $_[0] };

	$fill->(30);
	worker_rounds();
	is(scalar(() = warned($offset, 'the zen pool')), 0, 'pool: no warning below the share');
	cmp_ok(used_percent('pool'), '<', 40, 'pool: zen_stat has the share');
	$fill->(41);
	wait_for('a warning', sub { warned($offset, 'the zen pool') });
	my ($share) = warned($offset, 'the zen pool');
	ok($share >= 40 && $share < 50, "pool: warned at $share %");
	cmp_ok(used_percent('pool'), '>=', $share, 'pool: so does zen_stat');
	like(log_since($node, $offset), qr/HINT:  See zen_stat_tables/, 'pool: with what to do');
	worker_rounds();
	is(scalar(() = warned($offset, 'the zen pool')), 1, 'pool: once');
	$fill->($share + 6);
	wait_for('another warning', sub { (() = warned($offset, 'the zen pool')) == 2 });
	pass('pool: again when it is five percent more');
	is(value($dbh, q{SELECT s.pages_total = p.pages_total AND s.pages_free = p.pages_free AND
		pool_used_percent = ceil((s.pages_total - s.pages_free) * 100.0 / s.pages_total) FROM zen_stat s, zen_pool p}),
		1, 'pool: pages, and the share that is used');

	value($dbh, 'TRUNCATE t');
	wait_for('room', sub { used_percent('pool') < 35 });
	worker_rounds();
	$offset = log_size($node);
	$fill->(41);
	wait_for('a warning', sub { warned($offset, 'the zen pool') });
	pass('pool: a new rise is warned of again');

	value($dbh, 'TRUNCATE t');
	wait_for('room', sub { used_percent('pool') < 35 });
	reload_conf($node, 'zen.warning_level = 0');
	wait_for('the setting', sub { value($dbh, 'SHOW zen.warning_level') eq '0' });
	worker_rounds();
	$offset = log_size($node);
	$fill->(60);
	worker_rounds();
	is(scalar(() = warned($offset, 'the zen pool')), 0, 'pool: 0 is no warning');
	$node->stop;
	return;
}

sub test_dram_warning
{
	begin('dram', dram_size => '32MB',
		conf => "zen.warning_level = 60\nzen.spill_threshold = -1\nzen.met_cache_size = '24MB'");
	value($dbh, $_) for 'CREATE TABLE tick (n int) USING zen', 'INSERT INTO tick VALUES (0)',
		'CREATE TABLE t (v text) USING zen';
	my $offset = log_size($node);
	my $other = connect_db($node);
	value($other, 'BEGIN');
	value($other, q{INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 1000)})
	  while used_percent('dram') < 62;
	wait_for('a warning', sub { warned($offset, 'zen.dram_size') });
	cmp_ok(used_percent('dram'), '>=', 60, 'dram: zen_stat has the share');
	is(value($dbh, 'SELECT dram_size_bytes FROM zen_stat'), 32 * 1024 * 1024, 'dram: its size');
	value($other, 'ROLLBACK');
	$node->stop;
	return;
}

# --- documents --------------------------------------------------------------

sub test_documents
{
	begin('documents', pool_size => '256MB');
	my $text = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/../doc/monitoring.md");
	my @sql  = map { split /;\n/ } $text =~ /^```sql\n(.*?)^```$/msg;
	cmp_ok(scalar @sql, '>=', 8, 'there are queries in doc/monitoring.md');
	for my $sql (@sql)
	{
		is(state_of($dbh, $sql), '', "doc/monitoring.md: $sql");
	}
	# the rule of sizes
	for my $case ([ 'int8, int8', '1, 2', 16 ], [ 'int8, text', q{1, repeat('x', 60)}, 69 ],
		[ 'int8, text', q{1, repeat('x', 99)}, 108 ], [ 'int8, text', q{1, repeat('x', 999)}, 1012 ])
	{
		my ($types, $values, $bytes) = @$case;
		my ($a, $b) = split /, /, $types;
		value($dbh, "CREATE TABLE size (a $a, b $b) USING zen");
		value($dbh, "INSERT INTO size SELECT $values FROM generate_series(1, 20000)");
		my $rule = $bytes + 32 <= 64 ? 64 : $bytes + 32 <= 128 ? 16 * int(($bytes + 32 + 15) / 16)
			: ($bytes + 32) * 1.125;
		my $real = value($dbh, q{SELECT zen_relation_size('size')}) / 20000;
		ok($real <= $rule * 1.1 && $real >= $bytes + 32,
			"size: a row of $bytes bytes takes $real, the rule says $rule at most");
		value($dbh, 'DROP TABLE size');
	}
	$node->stop;
	return;
}

sub test_functions
{
	begin('functions', conf => "zen.pool_max_size = '4GB'");
	value($dbh, $_)
	  for 'CREATE TABLE account (id int PRIMARY KEY, owner text, balance int) USING zen',
	  q{INSERT INTO account SELECT g, 'owner ' || g, 100 FROM generate_series(1, 1000) g};
	check_examples('doc/views.md', 13);
	check_examples('doc/functions.md', 6);
	$node->stop;
	return;
}

# check_examples -- in a document, at least so many with a result.
sub check_examples
{
	my ($file, $least) = @_;
	my $text = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/../$file");
	my $n = 0;
	while ($text =~ /^```sql\n(.*?)^```\n(?:\n```\n(.*?)\n)?/msg)
	{
		my ($block, $header) = ($1, $2);
		my @sql = split /;\n/, $block;
		if (by_wal($node) && $block =~ /zen_save_map/)
		{
			is(state_of($dbh, $sql[-1]), '55000', "$file: $sql[-1], in mode wal");
			$n++;
			next;
		}
		is(state_of($dbh, $_), '', "$file: $_") for @sql;
		next unless defined $header;
		my $sth = $dbh->prepare($sql[-1]);
		$sth->execute;
		is_deeply([ map { s/^\s+|\s+$//gr } split /\|/, $header ], $sth->{NAME},
			"$file: columns of $sql[-1]");
		$n++;
	}
	cmp_ok($n, '>=', $least, "there are examples in $file");
	return;
}

# That each setting has a section, and no other has one, is seen by tools/check-docs.
sub test_settings
{
	begin('settings');
	my $text = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/../doc/settings.md");
	my %factor = ('' => 1, B => 1 / 1024, kB => 1, MB => 1024, GB => 1024 * 1024, ms => 1, s => 1000);
	my %effect = (
		internal   => qr/at server start, with the library that is installed then/,
		postmaster => qr/at server start|when the pool is created/,
		sighup     => qr/at a reload|at the next (?:stop|recovery)/,
		superuser  => qr/at once, by superusers/,
		user       => qr/at once\.$/);
	my $rows = run_sql($dbh, q{
		SELECT name, boot_val, unit, min_val, max_val, enumvals, context, vartype FROM pg_settings
		WHERE name LIKE 'zen.%' AND name <> 'zen.fault'})->{rows};
	cmp_ok(scalar @$rows, '>=', 28, 'settings: there are some');
	for my $row (@$rows)
	{
		my ($name, $boot, $unit, $min, $max, $values, $context, $type) = @$row;
		my ($section) = $text =~ /^## `\Q$name\E`\n(.*?)(?=^## |\z)/ms;
		my ($default, $item) = ($section // '') =~ /^\* Default `([^`]+)`; (.*?)(?=^\* )/ms;
		my ($when) = ($section // '') =~ /^\* Takes effect (.*)$/m;
		my $size = ($default // '') =~ /^([\d.]+)([kMG]B|m?s)$/ ? $1 * $factor{$2} / $factor{ $unit // '' } : $default;
		is($size, $boot, "settings: default of $name");
		like($item, qr/^unit $unit;/, "settings: unit of $name") if defined $unit;
		like($when, $effect{$context}, "settings: when $name takes effect");
		if ($type eq 'bool')
		{
			like($item, qr/^`on` or `off`/, "settings: values of $name");
		}
		elsif ($type eq 'enum')
		{
			is(join(',', $item =~ /`(\w+)`/g), $values =~ tr/{}//dr, "settings: values of $name");
		}
		elsif (defined $min && $max eq '2147483647')
		{
			like($item, qr/(?<![\d-])\Q$min\E\b.* and more/, "settings: range of $name");
		}
		elsif (defined $min)
		{
			like($item, qr/(?<![\d-])\Q$min to $max\E\b/, "settings: range of $name");
		}
	}
	test_old_names();
	return;
}

# An old name is refused with a hint, wherever it is set.
sub test_old_names
{
	my $text = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/../doc/renamed.md");
	my @names = map { /`(zen\.\w+)/g } $text =~ /^\| (`zen\..*?) \|/mg;
	cmp_ok(scalar @names, '>=', 20, 'old names: there are some');
	for my $name (@names)
	{
		my $result = run_sql($dbh, "SET $name = '1'");
		is($result->{state}, '42704', "old names: $name");
		like($result->{message}, qr/HINT:  (?:Set zen|It is the word|Remove it)/, "old names: hint of $name");
	}

	my $hint = qr/unrecognized configuration parameter "zen.pool_warning"\n.*HINT:  Set zen.warning_level instead/;
	my $offset = log_size($node);
	run_all($dbh, 'CREATE DATABASE elsewhere',
		q{INSERT INTO pg_db_role_setting SELECT oid, 0, '{zen.pool_warning=90}' FROM pg_database
		WHERE datname = 'elsewhere'});
	connect_db($node, 'elsewhere')->disconnect;
	like(log_since($node, $offset), qr/WARNING:.*$hint/, 'old names: a database has stored one');
	run_all($dbh, 'ALTER DATABASE elsewhere RESET zen.pool_warning');
	is(value($dbh, 'SELECT count(*) FROM pg_db_role_setting'), 0, 'old names: and it can be taken out');

	$offset = log_size($node);
	reload_conf($node, "zen.pool_warning = 90\nzen.full_timeout = '7s'");
	wait_for('the other setting', sub { value(connect_db($node), 'SHOW zen.full_timeout') eq '7s' });
	like(log_since($node, $offset), qr/LOG:.*$hint/, 'old names: at a reload the log tells');
	$node->stop;
	like(start_failing($node) // '', qr/FATAL:.*$hint/, 'old names: the server does not start');
	return;
}

# --- backups ----------------------------------------------------------------

sub test_base_backup
{
	begin('backup', init => { allows_streaming => 1 }, conf => 'max_wal_senders = 4');
	my $missing = qr/(FATAL|ERROR):  55000: a base backup.* would not have the rows of zen tables/;
	my $backup = sub {
		my $offset = log_size($node);
		my $to = PostgreSQL::Test::Utils::tempdir() . '/copy';
		PostgreSQL::Test::Utils::run_log(
			[ 'pg_basebackup', '-h', $node->host, '-p', $node->port, '-D', $to, '-c', 'fast', '--no-sync' ]);
		return log_since($node, $offset);
	};
	my $by_hand = sub {
		my $result = run_sql($dbh, q{SELECT pg_backup_start('by hand', true)});
		value($dbh, 'SELECT pg_backup_stop()') if !$result->{state};
		return $result->{message};
	};
	unlike($backup->(), $missing, 'backup: without zen tables nothing is missing');
	is($by_hand->(), '', 'pg_backup_start(): nor by hand');
	value($dbh, 'CREATE TABLE t (id int) USING zen');
	my $log = $backup->();
	like($log, $missing, 'backup: the log tells');
	# in mode wal the pool's place is wrong, and nothing else
	my $hint = by_wal($node) ? qr/HINT:.*zen\.pool_path/ : qr/HINT:  Set zen.stream to replica/;
	like($log, $hint, 'backup: and what to do');
	like($by_hand->(), qr/a base backup would not have the rows of zen tables/,
		'pg_backup_start(): its caller hears of it');
	$node->stop;
	return;
}

# --- memory -----------------------------------------------------------------

# MB of the pool's file, or of all shared memory, that a process has mapped.
sub mapped_mb
{
	my ($pid, $path) = @_;
	my ($mb, $inside) = (0, 0);
	for (split /\n/, PostgreSQL::Test::Utils::slurp_file("/proc/$pid/smaps"))
	{
		$inside = /\s\Q$path\E$/ if /^[0-9a-f]+-[0-9a-f]+ /;
		$mb += $1 / 1024 if $inside && /^Rss:\s+(\d+) kB/;
	}
	return $mb;
}

sub test_memory
{
	my $pool_mb = 200;
	begin('memory', pool_size => '512MB');
	value($dbh, 'CREATE TABLE t (v text) USING zen');
	value($dbh, q{INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 10000)})
	  while value($dbh, 'SELECT (pages_total - pages_free) / 16 FROM zen_stat') < $pool_mb;
	my $n = value($dbh, 'SELECT count(*) FROM t');
	crash($node);
	$node->append_conf('postgresql.conf', 'zen.recovery_workers = 0');
	start_again($node);
	$dbh = connect_db($node);
	# count(*) alone looks at no row
	is(value($dbh, 'SELECT sum(length(v)) FROM t'), $n * 1000, 'memory: recovered');
	my $path = value($dbh, 'SELECT path FROM zen_pool');
	cmp_ok(mapped_mb($dbh->{pg_pid}, $path), '>', $pool_mb / 2, 'memory: a session that has read all has it mapped');
	my ($pid) = map { $_->[0] } @{
		run_sql($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'zen worker'})->{rows} };
	# at once, as a large pool would be too much before the first nap already
	cmp_ok(mapped_mb($pid, $path), '<', $pool_mb / 4, 'memory: the worker has recovered it, and has not');
	$node->stop;
	return;
}

# --- progress ---------------------------------------------------------------

# An index's function looks, while the index is rebuilt.
sub test_progress
{
	begin('progress');
	value($dbh, q{CREATE TABLE t (id int) USING zen});
	value($dbh, q{INSERT INTO t SELECT g FROM generate_series(1, 6400) g});
	value($dbh, q{CREATE FUNCTION look(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
	  IF i = 6400 THEN
	    RAISE LOG 'progress: %', (SELECT concat_ws(' ', command, heap_tuples_scanned, heap_blks_total,
		heap_blks_scanned)
	      FROM pg_catalog.pg_stat_progress_cluster WHERE pid = pg_backend_pid());
	  END IF;
	  RETURN i;
	END $$});
	value($dbh, 'CREATE INDEX ON t (look(id))');
	my $blocks = value($dbh, q{SELECT blocks FROM zen_stat_tables WHERE relid = 't'::regclass});
	my $offset = log_size($node);
	is(state_of($dbh, 'VACUUM FULL t'), '', 'progress: VACUUM FULL');
	my ($said) = log_since($node, $offset) =~ /progress: (.*)/;
	is($said, "VACUUM FULL 6400 $blocks $blocks", 'progress: in blocks');
	$node->stop;
	return;
}

# An index expression waits for an advisory lock, so that the build stands still while it is looked at.
sub test_progress_views
{
	begin('progress_views', pool_size => '128MB');
	run_all($dbh, 'CREATE TABLE progress (id int) USING zen WITH (autovacuum_enabled = off)',
		'INSERT INTO progress SELECT generate_series(1, 6400)',
		q{CREATE FUNCTION stop_at(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
		  'BEGIN IF $1 = 3200 THEN PERFORM pg_advisory_xact_lock_shared(9); END IF; RETURN $1; END'});
	my $worker = connect_db($node);
	my @statements = (
		[ 'CREATE INDEX progress_i ON progress (stop_at(id))',
			q{SELECT concat_ws(' ', phase, blocks_total) FROM pg_stat_progress_create_index},
			qr/^building index: scanning table 100$/ ],
		[ 'ANALYZE progress', 'SELECT phase FROM pg_stat_progress_analyze', qr/^computing statistics$/ ],
		[ 'VACUUM FULL progress', q{SELECT concat_ws(' ', command, phase) FROM pg_stat_progress_cluster},
			qr/^VACUUM FULL rebuilding index$/ ],
		[ q{COPY (SELECT stop_at(id) FROM progress) TO '/dev/null'},
			q{SELECT concat_ws(' ', command, tuples_processed) FROM pg_stat_progress_copy}, qr/^COPY TO 3199$/ ]);
	my $pid = value($worker, 'SELECT pg_backend_pid()');
	for my $statement (@statements)
	{
		my ($sql, $query, $expected) = @$statement;
		run_all($dbh, 'SELECT pg_advisory_lock(9)');
		my $statement = start_statement($worker, $sql);
		wait_for('the advisory lock to be waited for', sub { lock_wait_pid($dbh, $pid) });
		like(value($dbh, $query) // 'nothing', $expected, "progress: $sql");
		run_all($dbh, 'SELECT pg_advisory_unlock(9)');
		unlike(finish_statement($statement), qr/^[0-9A-Z]{5}$/, 'and it ended well');
	}

	# VACUUM sleeps in the index, often
	run_all($worker, 'CREATE INDEX ON progress (id)', 'DELETE FROM progress WHERE id % 2 = 0',
		'SET vacuum_cost_delay = 100', 'SET vacuum_cost_limit = 1');
	my $vacuum = start_statement($worker, 'VACUUM progress');
	my $phase;
	wait_for('VACUUM to show its progress', sub {
		$phase = value($dbh, q{SELECT phase FROM pg_stat_progress_vacuum WHERE heap_blks_total = 100
			AND phase = 'vacuuming indexes'}) });
	is($phase, 'vacuuming indexes', 'progress: VACUUM');
	value($dbh, "SELECT pg_cancel_backend($pid)");
	finish_statement($vacuum);
	$worker->disconnect;
	$node->stop;
	return;
}

sub test_explain
{
	begin('explain', pool_size => '64MB');
	run_all($dbh, 'CREATE TABLE x (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO x SELECT g, 'v' || g FROM generate_series(1, 10000) g}, 'VACUUM ANALYZE x');
	for my $sql ('SELECT * FROM x', 'SELECT * FROM x WHERE id = 5', 'SELECT id FROM x WHERE id < 50',
		q{UPDATE x SET v = 'new' WHERE id < 100}, 'DELETE FROM x WHERE id = 7')
	{
		my $plan = join "\n", map { $_->[0] } @{
			run_sql($dbh, "EXPLAIN (ANALYZE, BUFFERS, WAL, VERBOSE) $sql")->{rows} };
		like($plan, qr/actual time.*Execution Time/s, "EXPLAIN (ANALYZE, BUFFERS, WAL): $sql");
	}
	$node->stop;
	return;
}
