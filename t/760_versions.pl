# Versions that are not all the same: of the library, of the SQL objects, of the pool, of zen's records in the WAL.
#
#   extension   a library that is newer than the SQL objects, and older; an update while objects are in use, with what
#               depends on them; an update that fails changes nothing
#   pool        one of a newer format is refused, and one of an older; while a newer zen raises the format
#   old pool    one that was made and left by the zen of 2026-11-22 (data/README.md), after a stop and after a crash
#   stream      a standby follows a primary of an older zen, stops at a newer one, and goes on when it is newer itself

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use PoolFile;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils qw(slurp_file append_to_file);
use Test::More;
use ZenTest;

skip_unless_zen();
my $scratch = PostgreSQL::Test::Utils::tempdir();

# The way that doc/versions.md gives for scripts: they ask for their library, and replace what may be in use.
my $asks = <<'END';
DO $$ BEGIN
	IF string_to_array(current_setting('zen.version'), '.')::int[] < '{NUMBERS}' THEN
		RAISE EXCEPTION 'the server has loaded version % of zen', current_setting('zen.version')
			USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Restart the server, then update the extension.';
	END IF;
END $$;
END

my $next = <<'END';
CREATE FUNCTION _zen_pool_more(OUT more integer) LANGUAGE sql AS 'SELECT 11';
CREATE OR REPLACE VIEW zen_pool AS SELECT p.*, m.more FROM _zen_pool() p, _zen_pool_more() m;
CREATE OR REPLACE FUNCTION zen_relation_size(relation regclass) RETURNS bigint LANGUAGE sql STABLE STRICT
	AS 'SELECT 0::bigint';
CREATE FUNCTION zen_next() RETURNS integer LANGUAGE sql AS 'SELECT 12';
END

test_extension();
test_pool();
test_old_pool('stopped');
test_old_pool('killed');
test_stream();
done_testing();

# --- the extension ------------------------------------------------------------

# A copy of the server, whose folder of extensions can be written to.
sub scratch_server
{
	local $ENV{ZEN_BUILD} = 0;
	my $out = '';
	IPC::Run::run([ "$FindBin::RealBin/../tools/fault-server", "$scratch/server" ], '>', \$out)
	  or die 'no copy of the server';
	chomp $out;
	return $out;
}

sub write_file
{
	my ($path, $text) = @_;
	unlink $path;
	append_to_file($path, $text);
	return;
}

sub installed { return value($_[0], q{SELECT extversion FROM pg_extension WHERE extname = 'zen'}); }

# refused -- a statement fails with this SQLSTATE, text and hint.
sub refused
{
	my ($dbh, $sql, $state, $text, $name) = @_;
	my $result = run_sql($dbh, $sql);
	is($result->{state}, $state, "$name: refused");
	like($result->{message}, $text, "$name: why");
	return;
}

my $work;

# works -- tables and trees do, whatever the SQL objects are.
sub works
{
	my ($dbh, $name) = @_;
	$work++;
	is(state_of($dbh, $_), '', "$name: $_")
	  for "CREATE TABLE t$work (id int PRIMARY KEY, v int) USING zen", "CREATE INDEX ON t$work USING zentree (v)",
	  "INSERT INTO t$work SELECT g, g FROM generate_series(1, 100) g", "UPDATE t$work SET v = 0 WHERE id > 50";
	is(value($dbh, "SELECT count(*) FROM t$work WHERE v = 0"), 50, "$name: the rows are there");
	is(state_of($dbh, "DROP TABLE t$work"), '', "$name: and go");
	return;
}

sub test_extension
{
	my $home = scratch_server();
	my ($share) = PostgreSQL::Test::Utils::run_command([ "$home/bin/pg_config", '--sharedir' ]);
	my $scripts = "$share/extension";
	my $now = slurp_file("$scripts/zen--1.0.sql");

	# 0.9: one column of a view less, and one function
	my $older = $now;
	ok($older =~ s/^\tOUT format_version integer,\n//m, 'a column is taken out');
	ok($older =~ s/^CREATE FUNCTION zen_pool_grow\(.*?^REVOKE ALL ON FUNCTION zen_pool_grow[^\n]*\n//ms,
		'and a function');
	write_file("$scripts/zen--0.9.sql", $older);
	my ($view) = $now =~ /^(CREATE FUNCTION _zen_pool\(.*?^GRANT SELECT ON zen_pool TO pg_monitor;\n)/ms;
	my ($grow) = $now =~ /^(CREATE FUNCTION zen_pool_grow\(.*?^REVOKE ALL ON FUNCTION zen_pool_grow[^\n]*\n)/ms;
	write_file("$scripts/zen--0.9--1.0.sql", "DROP VIEW zen_pool;\nDROP FUNCTION _zen_pool();\n$view$grow");

	my $node = new_node('versions', pool_size => '64MB', dram_size => '64MB', home => $home);
	$node->start;
	my $dbh = connect_db($node);
	value($dbh, q{CREATE EXTENSION zen VERSION '0.9'});
	is(value($dbh, 'SHOW zen.version'), '1.0', 'newer library: its version');
	is(installed($dbh), '0.9', 'newer library: that of the SQL objects');
	works($dbh, 'newer library');
	refused($dbh, 'SELECT * FROM zen_pool', '55000', qr/do not fit the zen library.*HINT:.*ALTER EXTENSION zen UPDATE/s,
		'newer library: a view that has changed');
	refused($dbh, q{SELECT zen_pool_grow('80MB')}, '42883', qr/zen_pool_grow/, 'newer library: a function that is new');
	run_all($dbh, 'CREATE VIEW mine AS SELECT mode FROM zen_pool');
	refused($dbh, 'ALTER EXTENSION zen UPDATE', '2BP01', qr/mine depends on view zen_pool/,
		'newer library: a script that drops what a view of a user needs');
	is(installed($dbh), '0.9', 'newer library: the failed update has changed nothing');
	run_all($dbh, 'DROP VIEW mine', 'ALTER EXTENSION zen UPDATE');
	is(installed($dbh), '1.0', 'newer library: updated');
	is(value($dbh, 'SELECT format_version FROM zen_pool'), 2, 'newer library: the view has its column');
	is(value($dbh, q{SELECT zen_pool_grow('80MB')}), 80 * 1024 * 1024, 'newer library: the function is there');
	works($dbh, 'updated');

	test_next($node, $dbh, $scripts);
	$dbh->disconnect;
	$node->stop;
	return;
}

sub asks_for { return $asks =~ s/NUMBERS/$_[0]/r; }

sub test_next
{
	my ($node, $dbh, $scripts) = @_;
	my $control = slurp_file("$scripts/zen.control");
	write_file("$scripts/zen.control", $control =~ s/'1\.0'/'1.1'/r);

	# the files of the next version are installed, and the server was not restarted
	write_file("$scripts/zen--1.0--1.1.sql", asks_for('1,1') . $next);
	refused($dbh, 'ALTER EXTENSION zen UPDATE', '55000', qr/has loaded version 1\.0 of zen.*HINT:.*Restart/s,
		'older library: the script says so');
	write_file("$scripts/zen--1.0--1.1.sql", $next
		  . "CREATE FUNCTION zen_future() RETURNS int AS 'MODULE_PATHNAME', 'zen_future' LANGUAGE C;\n");
	refused($dbh, 'ALTER EXTENSION zen UPDATE', '42883', qr/zen_future/, 'older library: a function that it lacks');
	is(installed($dbh), '1.0', 'older library: nothing has changed');
	is(value($dbh, q{SELECT count(*) FROM pg_proc WHERE proname ~ '^_?zen_(next|pool_more)$'}), 0,
		'older library: nothing is left');
	works($dbh, 'older library');

	# the update, while a session uses what is replaced
	write_file("$scripts/zen--1.0--1.1.sql", asks_for('1,0') . $next);
	run_all($dbh, 'CREATE ROLE reader', 'GRANT SELECT ON zen_pool TO reader',
		'CREATE VIEW mine AS SELECT mode, pages_total FROM zen_pool', 'CREATE TABLE z (id int PRIMARY KEY) USING zen');
	my $user = connect_db($node);
	run_all($user, 'PREPARE p AS SELECT mode FROM zen_pool', 'PREPARE m AS SELECT mode FROM mine',
		'EXECUTE p', 'EXECUTE m', 'BEGIN', 'DECLARE c CURSOR FOR SELECT pages_total FROM mine', 'FETCH c',
		'INSERT INTO z VALUES (1)');
	run_all($dbh, q{SET lock_timeout = '1s'});
	is(state_of($dbh, 'ALTER EXTENSION zen UPDATE'), '55P03', 'in use: the update waits for the transaction');
	is(installed($dbh), '1.0', 'in use: it gave up, and has changed nothing');
	run_all($dbh, 'RESET lock_timeout');
	my $update = start_statement($dbh, 'ALTER EXTENSION zen UPDATE');
	wait_for('the update to wait', sub {
			value($user, q{SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'zen_pool'::regclass}) });
	run_all($user, 'INSERT INTO z VALUES (2)', 'CLOSE c', 'COMMIT');
	is(finish_statement($update), 'ALTER EXTENSION', 'in use: and goes on at its end');
	is(installed($dbh), '1.1', 'next: updated');
	run_all($user, 'EXECUTE p', 'EXECUTE m', 'INSERT INTO z VALUES (3)');
	is(value($user, 'SELECT count(*) FROM z'), 3, 'next: the session has gone on');
	is(value($dbh, 'SELECT more FROM zen_pool'), 11, 'next: the view has its new column');
	is(value($dbh, 'SELECT mode FROM mine'), value($dbh, 'SELECT mode FROM zen_pool'), 'next: a view of a user');
	is(value($dbh, q{SELECT has_table_privilege('reader', 'zen_pool', 'SELECT')}), 1, 'next: a grant has stayed');
	is(value($dbh, q{SELECT zen_relation_size('z')}), 0, 'next: a function is replaced');
	is(value($dbh, 'SELECT zen_next()'), 12, 'next: a function is new');
	refused($dbh, 'DROP VIEW zen_pool', '2BP01', qr/extension zen requires it/, 'next: the view is the extension\'s');
	works($dbh, 'next');
	is(value($dbh, q{SELECT count(*) FROM pg_extension_update_paths('zen') WHERE source = '0.9' AND target = '1.1'
		AND path = '0.9--1.0--1.1'}), 1, 'next: an older one gets there');

	# a database of before
	run_all($dbh, 'CREATE DATABASE second');
	my $second = connect_db($node, 'second');
	run_all($second, q{CREATE EXTENSION zen VERSION '0.9'}, 'CREATE TABLE z (id int) USING zen',
		'INSERT INTO z VALUES (1)', 'ALTER EXTENSION zen UPDATE');
	is(installed($second), '1.1', 'next: by two scripts');
	is(value($second, 'SELECT count(*) FROM z'), 1, 'next: the table is there');
	$_->disconnect for $second, $user;
	write_file("$scripts/zen.control", $control);
	return;
}

# --- the pool -----------------------------------------------------------------

# set_format -- write a format version, with the checksum that it would have, into copies of the superblock.
sub set_format
{
	my ($pool, $version, @offsets) = @_;
	with_file($pool, sub {
			my ($fh) = @_;
			for my $offset (@offsets)
			{
				my $bytes = peek($fh, $offset, $version < 4 ? 96 : 120);
				substr($bytes, 8, 8) = pack('L<L<', $version, 0);
				substr($bytes, 12, 4) = pack('L<', crc32c($bytes));
				poke($fh, $offset, $bytes);
			}
	});
	return;
}

sub test_pool
{
	my $node = new_node('pool', pool_size => '64MB', dram_size => '64MB');
	my $pool = pool_path($node);
	$node->start;
	my $dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION zen');
	my $rows = make_rows($dbh, 't', 1000);
	is(value($dbh, 'SELECT format_version FROM zen_pool'), 2, 'pool: its format');
	$dbh->disconnect;
	$node->stop;
	copy_tree($pool, "$scratch/pool");

	for my $case ([ 6, qr/Install the version of zen that has used the pool last/ ], [ 1, qr/dump the tables/ ])
	{
		my ($version, $hint) = @$case;
		set_format($pool, $version, super_offsets());
		my $before = slurp_file($pool);
		my $said = start_failing($node) // 'it has started';
		like($said, qr/0A000: .*has format version $version, and this zen 1\.0 reads versions 2 to 5/,
			"pool: $version is refused");
		like($said, $hint, "pool: what to do about $version");
		ok(slurp_file($pool) eq $before, "pool: $version is left as it is");
		copy_tree("$scratch/pool", $pool);
	}

	# a newer zen was stopped between its two stores, before which it stores nothing else
	set_format($pool, 6, (super_offsets())[1]);
	$node->start;
	$dbh = connect_db($node);
	same_by_index($dbh, 't', $rows, 'pool: not raised yet');
	is_sound($dbh, 'pool: not raised yet');
	$dbh->disconnect;
	$node->stop;
	return;
}

# --- a pool of before -----------------------------------------------------------

# A server on a data directory of the archive.
sub old_node
{
	my ($state) = @_;
	my $archive = "$FindBin::RealBin/data/zen-2026-11-22.tar.xz";
	my $node = PostgreSQL::Test::Cluster->new("old_$state");
	system('python3', '-m', 'tarfile', '-e', $archive, "$scratch/old") == 0 or die "cannot unpack $archive";
	mkdir $node->basedir;
	copy_tree("$scratch/old/$state", $node->data_dir);
	chmod 0700, $node->data_dir or die "cannot chmod: $!";
	# the last line of a setting counts
	$node->append_conf('postgresql.conf', join "\n", 'port = ' . $node->port,
		"unix_socket_directories = '" . $node->host . q{'}, "listen_addresses = ''", 'log_error_verbosity = verbose',
		'fsync = off');
	return $node;
}

# differ -- rows that a query gives and a table has not, and the other way round.
sub differ
{
	my ($dbh, $table, $query) = @_;
	return value($dbh, "SELECT count(*) FROM ((TABLE $table EXCEPT $query) UNION ALL ($query EXCEPT TABLE $table)) d");
}

# old_rows -- those that data/make-old-pool has left; end: how the transaction that it has prepared ended.
sub old_rows
{
	my ($dbh, $state, $end, $name) = @_;
	my $of = sub { "SELECT g, '$_[0]', NULL::int[], 'since' FROM generate_series($_[1], $_[2]) g" };
	my $first = $end eq 'COMMIT' ? 2 : 1;
	my @parts = ("SELECT g, CASE WHEN g % 3 = 0 THEN 'new ' || g ELSE md5(g::text) END, ARRAY[g % 10, g % 7], 'since'
		FROM generate_series($first, 2000) g WHERE g % 7 <> 0", $of->('mixed', 3001, 3010));
	push @parts, $of->('prepared', 4001, 4010) if $end eq 'COMMIT';
	push @parts, $of->('after', 5001, 5010) if $state eq 'killed';
	is(differ($dbh, 't', '(' . join(' UNION ALL ', @parts) . ')'), 0, "$name: rows, updated and deleted");
	is(contents($dbh, 't', 'indexscan', 'id > 0'), contents($dbh, 't'), "$name: by index");
	my $gin = 'a @> ARRAY[3]';
	is(contents($dbh, 't', 'bitmapscan', $gin), contents($dbh, 't', 'seqscan', $gin), "$name: by gin");
	my $n = $state eq 'killed' ? 4 : 5;
	is(differ($dbh, 'big', "(SELECT g, string_agg(md5((g * i)::text), '')
		FROM generate_series(1, $n) g, generate_series(1, 400) i GROUP BY g)"), 0, "$name: long values");
	is(differ($dbh, 'spilled', '(SELECT g, CASE WHEN g % 2 = 0 THEN -g ELSE g END FROM generate_series(1, 5000) g)'), 0,
		"$name: rows that were spilled");
	is(differ($dbh, 'heap', '(SELECT generate_series(3001, 3010))'), 0, "$name: heap");
	return;
}

sub test_old_pool
{
	my ($state) = @_;
  SKIP:
	{
		my ($version) = PostgreSQL::Test::Utils::run_command([ 'pg_config', '--version' ]);
		skip 'the old pool is in a data directory of PostgreSQL 15', 1 if $version !~ /^PostgreSQL 15\b/;
		local $ENV{PGUSER} = 'postgres';
		my $node = old_node($state);
		$node->start;
		my $dbh = connect_db($node);
		old_rows($dbh, $state, '', "$state: opened");
		# the SQL objects there are those of then
		run_all($dbh, 'CREATE DATABASE now');
		my $now = connect_db($node, 'now');
		run_all($now, 'CREATE EXTENSION zen');
		wait_recovered($now);
		my $end = $state eq 'stopped' ? 'COMMIT' : 'ROLLBACK';
		run_all($dbh, "$end PREPARED 'old'");
		old_rows($dbh, $state, $end, "$state: $end PREPARED");
		run_all($dbh, 'CREATE TABLE new (id int PRIMARY KEY) USING zen', 'INSERT INTO new VALUES (1)',
			'UPDATE spilled SET v = v + 1', 'UPDATE spilled SET v = v - 1', 'VACUUM');
		is(value($now, 'SELECT count(*) FROM zen_verify_pool()'), 0, "$state: the pool is sound");
		crash($node);
		start_again($node);
		$dbh = connect_db($node);
		wait_recovered(connect_db($node, 'now'));
		old_rows($dbh, $state, $end, "$state: written to, and a crash");
		is(value($dbh, 'SELECT count(*) FROM new'), 1, "$state: a new table");
		$dbh->disconnect;
		$node->stop;
		is(unpack('L<', peek(open_pool($node->data_dir . '/zen.pool'), 8, 4)), 2, "$state: its format has stayed");
	}
	return;
}

# --- the stream -----------------------------------------------------------------

sub ahead { return set_conf($_[0], "zen.stream_ahead = $_[1]"); }

sub test_stream
{
  SKIP:
	{
		skip 'ZEN_FAULT_SERVER must name a server of tools/fault-server', 1 if !$ENV{ZEN_FAULT_SERVER};
		my $primary = copy_primary('primary', faults => 1);
		$primary->start;
		my $dbh = connect_db($primary);
		run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
			q{INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 500) g});
		$primary->backup('base');
		my $standby = copy_of($primary, 'standby', 'base', has_streaming => 1);

		# first the standby, then the primary: it follows both
		ahead($standby, 1);
		$standby->start;
		$dbh->disconnect;
		$primary->restart;
		$dbh = connect_db($primary);
		run_all($dbh, q{INSERT INTO t SELECT g, 'old' FROM generate_series(501, 600) g});
		is(pools_differ($primary, $dbh, $standby), '', 'stream: a newer standby follows');

		# the other way round it stops before it has replayed anything
		$standby->stop;
		ahead($standby, 0);
		$standby->start;
		$dbh->disconnect;
		$primary->stop;
		ahead($primary, 2);
		my $from = log_size($standby);
		$primary->start;
		$dbh = connect_db($primary);
		run_all($dbh, q{INSERT INTO t SELECT g, 'new' FROM generate_series(601, 700) g}, 'CHECKPOINT');
		wait_for('the standby to stop', sub { !-e $standby->data_dir . '/postmaster.pid' });
		my $why = qr/PANIC: .*cannot follow.*are of version 3 .*this zen 1\.0 reads versions 1 to 2.*HINT:.*Install/s;
		like(log_since($standby, $from), $why, 'stream: an older standby stops and says why');
		$standby->_update_pid(0);
		$from = log_size($standby);
		start_to_die($standby);
		like(log_since($standby, $from), $why, 'stream: each time');

		# now it is the newer zen, too
		ahead($standby, 1);
		$standby->start;
		is(pools_differ($primary, $dbh, $standby), '', 'stream: it goes on when it is as new');
		my $rows = contents($dbh, 't');
		$dbh->disconnect;
		$primary->stop;
		$dbh = promoted($standby);
		is(contents($dbh, 't'), $rows, 'stream: promoted, all rows are there');
		is_sound($dbh, 'stream: promoted');
		$dbh->disconnect;
		$standby->stop;
	}
	return;
}
