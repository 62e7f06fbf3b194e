# Restarts and crashes at chosen moments (200_crash.pl takes random ones):
#
# - a clean restart keeps everything, and the indexes as they are, without a rebuild;
# - many restarts in a row; crashes right after a start, one after the other; the end
#   of a single backend by SIGKILL; stop in immediate mode;
# - the first statements after a crash, of several sessions at once, find complete
#   indexes; unique constraints hold;
# - tables created, dropped, truncated and rewritten in transactions that a crash cuts
#   short, or that were committed just before it;
# - prepared transactions live through restart and crash, with their locks;
# - dropped tables and databases give their space back, lost transactions too.
#
# SEED=n replays a run; ZEN_TEST_AM=heap runs it on heap; ZEN_TEST_INJECT=1 must fail.

use strict;
use warnings;

use Digest::MD5;
use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

my $using = using();
my $expected;    # contents of the table base
choose_seed();
my $node = new_node(
	'restart',
	pool_size => '384MB',
	conf      => "restart_after_crash = on\nmax_wal_size = 256MB");
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen') if is_zen();

make_tables();
test_clean_restart();
test_many_restarts();
test_crash_after_start();
test_lost_backend();
test_first_statements();
test_ddl_cut_short();
test_ddl_before_crash();
test_prepared();
test_prepared_together();
test_prepared_index();
test_prepared_reindex();
test_prepared_lock();
test_prepared_ddl();
test_prepared_index_seen_late();
test_space();
is_sound($dbh, 'at the end') if is_zen();

$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

# restart -- after what the name says.
sub restart
{
	my ($how) = @_;
	$dbh = $how =~ /^clean/ ? clean_restart($node, $dbh) : crash_restart($node);
	return;
}

# The rows of base come in random order, so that its indexes differ from freshly
# built ones; only note_change changes them.
sub make_tables
{
	value($dbh, $_) for (
		"CREATE TABLE base (id int PRIMARY KEY, k int, t text, u text UNIQUE, big text) $using",
		'CREATE INDEX base_k ON base (k)',
		'CREATE INDEX base_t ON base USING hash (t)',
		q{INSERT INTO base SELECT g, g % 100, 't' || g % 50, 'u' || g,
		  CASE WHEN g % 500 = 0 THEN (SELECT string_agg(md5(x::text || g), '') FROM generate_series(1, 300) x) END
		  FROM generate_series(1, 5000) g ORDER BY md5(g::text)},
		'DELETE FROM base WHERE id % 10 = 3',
		'UPDATE base SET k = k + 1000 WHERE id % 10 = 4',
		'VACUUM ANALYZE base',
		"CREATE TABLE part (id int, v text) PARTITION BY HASH (id)",
		"CREATE TABLE part0 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0) $using",
		'CREATE TABLE part1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING heap',
		q{INSERT INTO part SELECT g, 'p' || g FROM generate_series(1, 300) g},
		"CREATE MATERIALIZED VIEW mv $using AS SELECT k, count(*) FROM base GROUP BY k");
	$expected = contents($dbh, 'base');
	return;
}

# base_is_right -- by sequential scan and through each index.
sub base_is_right
{
	my ($when) = @_;
	is(contents($dbh, 'base'), $expected, "$when: table");
	is(contents($dbh, 'base', 'indexscan', 'id > 0'),   $expected, "$when: primary key");
	is(contents($dbh, 'base', 'bitmapscan', 'k >= 0'),  $expected, "$when: secondary index");
	is(contents($dbh, 'base', 'indexscan', q{u >= ''}), $expected, "$when: unique index");
	is( contents($dbh, 'base', 'indexscan', q{t = 't7'}),
		contents($dbh, 'base', 'seqscan', q{t = 't7'}),
		"$when: hash index");
	return;
}

# engine_says -- zen itself has noticed whether the server was stopped in order.
sub engine_says
{
	my ($when, $clean) = @_;
	return unless is_zen();
	is(value($dbh, 'SELECT clean_at_start::int FROM zen_pool'), $clean, "$when: zen_pool agrees");
	is(value($dbh, 'SELECT after_crash::int FROM zen_recovery'), 1 - $clean, "$when: zen_recovery agrees");
	return;
}

# file_sums -- checksums of the main files of all indexes on base.
sub file_sums
{
	my (@paths) = @_;
	return map { Digest::MD5->new->addfile(open_file($node->data_dir . "/$_"))->hexdigest } @paths;
}

sub open_file
{
	open(my $fh, '<:raw', $_[0]) or die "cannot open $_[0]: $!";
	return $fh;
}

# --- restarts and crashes ---------------------------------------------------

sub test_clean_restart
{
	my @others = map { contents($dbh, $_) } qw(part mv);
	my @paths  = map { value($dbh, "SELECT pg_relation_filepath('$_')") }
	  qw(base_pkey base_k base_t base_u_key);
	$dbh->disconnect;
	$node->stop;
	my @before = file_sums(@paths);
	$node->start;
	$dbh = connect_db($node);
	value($dbh, 'UPDATE base SET k = -1 WHERE id = 1') if inject();
	base_is_right('clean restart');
	engine_says('clean restart', 1);
	is_deeply([ map { contents($dbh, $_) } qw(part mv) ],
		\@others, 'clean restart: partitions, materialized view');
	value($dbh, 'CHECKPOINT');
	is_deeply([ map { value($dbh, "SELECT pg_relation_filepath('$_')") }
			  qw(base_pkey base_k base_t base_u_key) ],
		\@paths, 'clean restart: index files have kept their names');
	is_deeply([ file_sums(@paths) ], \@before, 'clean restart: indexes were not rebuilt');
	return;
}

# One step on base; every kind comes in turn.
sub note_change
{
	my ($i) = @_;
	my $id = between(1, 5000);
	value($dbh, $_) for (
		"INSERT INTO base VALUES (@{[10000 + $i]}, $i, 't', 'new$i', repeat('x', 40 * $i))",
		"UPDATE base SET t = 't$i' WHERE id = $id",
		"UPDATE base SET k = k + 1 WHERE id = $id + 1",
		"DELETE FROM base WHERE id = $id + 2")[ $i % 4, ($i + 1) % 4 ];
	$expected = contents($dbh, 'base');
	return;
}

sub test_many_restarts
{
	my $wrong = 0;
	for my $i (1 .. 12)
	{
		note_change($i);
		if   ($i % 3) { $dbh = clean_restart($node, $dbh); }
		else
		{
			$node->stop('immediate');
			start_again($node);
			$dbh = connect_db($node);
		}
		$wrong++ if contents($dbh, 'base') ne $expected;
	}
	is($wrong, 0, 'twelve restarts in a row, every third after an immediate stop');
	base_is_right('many restarts');
	return;
}

sub test_crash_after_start
{
	my $wrong = 0;
	for my $i (1 .. 6)
	{
		note_change(20 + $i);
		crash($node);
		start_and_crash($node, rand 0.3) for 1 .. between(0, 2);
		start_again($node);
		crash($node) if $i % 2;
		start_again($node) if $i % 2;
		$dbh = connect_db($node);
		$wrong++ if contents($dbh, 'base', 'indexscan', 'id > 0') ne $expected;
	}
	is($wrong, 0, 'crashes during and right after recovery');
	base_is_right('crashes in a row');
	engine_says('crashes in a row', 0);
	crash($node);
	start_again($node);
	$node->restart;
	$dbh = connect_db($node);
	base_is_right('clean restart after a crash');
	engine_says('clean restart after a crash', 1);
	return;
}

# The postmaster starts all over when a backend is killed.
sub test_lost_backend
{
	for my $i (1 .. 3)
	{
		note_change(30 + $i);
		my $victim = connect_db($node);
		my $pid    = value($victim, 'SELECT pg_backend_pid()');
		value($victim, $_) for 'BEGIN', "UPDATE base SET t = 'lost' WHERE id < 1000",
		  'DELETE FROM base WHERE id > 3000';
		kill 'KILL', $pid;
		wait_for('the server to notice', sub { run_sql($dbh, 'SELECT 1')->{lost} });
		wait_for(
			'the server to come back',
			sub {
				my $new = eval { connect_db($node) } or return 0;
				$dbh = $new;
				return 1;
			});
		base_is_right("lost backend $i");
	}
	return;
}

# The first statements after a crash come at once, from five sessions.
sub test_first_statements
{
	my $dup = value($dbh, 'SELECT min(id) FROM base');
	my ($u, $count) = map { value($dbh, $_) } "SELECT u FROM base WHERE id = $dup", 'SELECT count(*) FROM base';
	crash($node);
	start_again($node);

	my @first = (
		[ "INSERT INTO base VALUES ($dup)",            '23505' ],
		[ "INSERT INTO base VALUES (99999, 1, 'x', '$u')", '23505' ],
		[ "INSERT INTO base VALUES ($dup, 0) ON CONFLICT (id) DO NOTHING", 'INSERT 0 0' ],
		[ "UPDATE base SET u = u || '' WHERE u = '$u'", 'UPDATE 1' ],
		[ 'SELECT count(*) FROM base WHERE id > 0',    $count ]);
	my @handles = map { connect_db($node) } @first;
	run_sql($_, 'SET enable_seqscan = off') for @handles;
	my @sent = map { start_statement($handles[$_], $first[$_][0]) } 0 .. $#first;
	is(finish_query($sent[$_]), $first[$_][1], "first statement after a crash: $first[$_][0]") for 0 .. $#first;
	$_->disconnect for @handles;
	$dbh = connect_db($node);
	base_is_right('after first statements');
	return;
}

# --- DDL --------------------------------------------------------------------

sub make_ddl_tables
{
	value($dbh, $_) for (
		'DROP TABLE IF EXISTS dropped, truncated, rewritten, indexed, made, filled',
		map { ("CREATE TABLE $_ (id int PRIMARY KEY, v text) $using",
			   "INSERT INTO $_ SELECT g, 'v' || g FROM generate_series(1, 2000) g") }
		  qw(dropped truncated rewritten indexed));
	return;
}

# DDL of every kind, for one transaction.
sub ddl
{
	return (
		"CREATE TABLE made (id int PRIMARY KEY, v text) $using",
		q{INSERT INTO made SELECT g, 'made' FROM generate_series(1, 3000) g},
		'DROP TABLE dropped',
		'TRUNCATE truncated',
		q{INSERT INTO truncated SELECT g, 'again' FROM generate_series(1, 10) g},
		'ALTER TABLE rewritten ALTER id TYPE bigint',
		q{UPDATE rewritten SET v = 'new' WHERE id < 10},
		'CREATE UNIQUE INDEX indexed_v ON indexed (v)',
		"CREATE TABLE filled $using AS SELECT * FROM base");
}

sub exists_table { return value($dbh, "SELECT to_regclass('$_[0]') IS NOT NULL"); }

# What must be there if ddl() has not happened.
sub ddl_is_undone
{
	my ($when, %sum) = @_;
	ok(!exists_table($_), "$when: $_ does not exist") for qw(made filled indexed_v);
	for my $table (qw(dropped truncated rewritten indexed))
	{
		is(contents($dbh, $table), $sum{$table}, "$when: $table as it was");
		is(contents($dbh, $table, 'indexscan', 'id > 0'), $sum{$table}, "$when: $table by index");
	}
	return;
}

sub ddl_is_done
{
	my ($when) = @_;
	ok(!exists_table('dropped'), "$when: dropped table is gone");
	is(value($dbh, 'SELECT count(*) FROM made WHERE id > 0'), 3000, "$when: created table");
	is(state_of($dbh, 'INSERT INTO made VALUES (7)'), '23505', "$when: its primary key holds");
	is(value($dbh, q{SELECT count(*) || min(v) FROM truncated}), '10again', "$when: truncated table");
	is(value($dbh, 'SELECT count(*) FILTER (WHERE v = $$new$$) || $$/$$ || count(*) FROM rewritten'),
		'9/2000', "$when: rewritten table");
	is(state_of($dbh, q{INSERT INTO indexed VALUES (-1, 'v5')}), '23505', "$when: new unique index");
	is(contents($dbh, 'filled'), $expected, "$when: table filled by a query");
	return;
}

sub ddl_sums { return map { $_ => contents($dbh, $_) } qw(dropped truncated rewritten indexed); }

sub test_ddl_cut_short
{
	make_ddl_tables();
	my %sum = ddl_sums();
	for my $sub (0, 1)
	{
		value($dbh, $_) for ('BEGIN', $sub ? 'SAVEPOINT s' : (), ddl(), $sub ? 'RELEASE s' : ());
		value(connect_db($node), 'CHECKPOINT') if $sub;
		is(value($dbh, 'SELECT count(*) FROM made'), 3000, 'the transaction has seen its work');
		$dbh = crash_restart($node);
		ddl_is_undone("crash in a transaction, $sub savepoints", %sum);
	}
	value($dbh, $_) for ('BEGIN', 'SAVEPOINT s', ddl(), 'ROLLBACK TO s', 'COMMIT');
	$dbh = crash_restart($node);
	ddl_is_undone('crash after a savepoint was rolled back', %sum);
	return;
}

sub test_ddl_before_crash
{
	value($dbh, $_) for ('BEGIN', ddl(), 'COMMIT');
	$dbh = crash_restart($node);
	ddl_is_done('crash after commit');
	$dbh = clean_restart($node, $dbh);
	ddl_is_done('and a clean restart');
	return;
}

# --- prepared transactions --------------------------------------------------

sub test_prepared
{
	value($dbh, $_) for (
		"CREATE TABLE acc (id int PRIMARY KEY, v int) $using",
		'CREATE TABLE acc_h (id int PRIMARY KEY, v int) USING heap',
		'INSERT INTO acc SELECT g, 0 FROM generate_series(1, 100) g',
		'INSERT INTO acc_h SELECT g, 0 FROM generate_series(1, 100) g');
	my $start = contents($dbh, 'acc');

	# To be committed: 1 to 20, rolled back: 21 to 40, on zen alone and with heap.
	my $low = 1;
	for my $gid (qw(c_zen c_mix r_zen r_mix))
	{
		my $range = "BETWEEN $low AND $low + 4";
		value($dbh, $_) for (
			'BEGIN', "UPDATE acc SET v = 1 WHERE id $range",
			"DELETE FROM acc WHERE id = $low + 5", "INSERT INTO acc VALUES (100 + $low, 1)",
			"SELECT count(*) FROM (SELECT 1 FROM acc WHERE id = $low + 6 FOR UPDATE) x",
			"SELECT count(*) FROM (SELECT 1 FROM acc WHERE id = $low + 7 FOR KEY SHARE) x",
			$gid =~ /mix/ ? "UPDATE acc_h SET v = 1 WHERE id $range" : (),
			"PREPARE TRANSACTION '$gid'");
		$low += 10;
	}
	for my $when ('clean restart', 'crash', 'crash after crash', 'clean restart after crash')
	{
		restart($when);
		prepared_is_right($when, $start);
	}
	value($dbh, $_) for map { (/^c/ ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$_'" }
	  qw(r_mix c_zen r_zen c_mix);
	$dbh = crash_restart($node);

	is( value($dbh, q{SELECT string_agg(id || '=' || v, ' ' ORDER BY id) FROM acc WHERE id < 12 OR id BETWEEN 30 AND 37
		OR id > 100}),
		'1=1 2=1 3=1 4=1 5=1 7=0 8=0 9=0 10=0 11=1 30=0 31=0 32=0 33=0 34=0 35=0 36=0 37=0 101=1 111=1',
		'prepared transactions: outcome after another crash');
	is(value($dbh, 'SELECT count(*) FROM acc_h WHERE v = 1'), 5, 'prepared transactions: heap part');
	is(state_of($dbh, 'UPDATE acc SET v = 2'), '', 'prepared transactions: no lock is left');
	return;
}

sub prepared_is_right
{
	my ($when, $start) = @_;
	is(value($dbh, q{SELECT string_agg(gid, ' ' ORDER BY gid) FROM pg_prepared_xacts}),
		'c_mix c_zen r_mix r_zen', "$when: prepared transactions are listed");
	is(contents($dbh, 'acc'), $start, "$when: they are not visible");
	is(contents($dbh, 'acc', 'indexscan', 'id > 0'), $start, "$when: not by index either");
	value($dbh, q{SET lock_timeout = '30ms'});

	my @unlocked;
	for my $low (1, 11, 21, 31)
	{
		push @unlocked, "updated $low"
		  if state_of($dbh, "SELECT 1 FROM acc WHERE id = $low FOR UPDATE NOWAIT") ne '55P03';
		push @unlocked, "deleted $low"
		  if state_of($dbh, "SELECT 1 FROM acc WHERE id = $low + 5 FOR SHARE NOWAIT") ne '55P03';
		push @unlocked, "inserted $low" if state_of($dbh, "INSERT INTO acc VALUES (100 + $low, 9)") ne '55P03';
		push @unlocked, "locked $low" if state_of($dbh, "UPDATE acc SET v = 9 WHERE id = $low + 6") ne '55P03';
		push @unlocked, "key locked $low" if state_of($dbh, "DELETE FROM acc WHERE id = $low + 7") ne '55P03';
		# FOR KEY SHARE lets others change what is not the key.
		push @unlocked, "too strong $low"
		  if state_of($dbh, "SELECT 1 FROM acc WHERE id = $low + 7 FOR NO KEY UPDATE NOWAIT") ne '';
		push @unlocked, "not free $low"
		  if state_of($dbh, "SELECT 1 FROM acc WHERE id = $low + 8 FOR UPDATE NOWAIT") ne '';
	}
	is_deeply(\@unlocked, [], "$when: their locks are as they were");
	value($dbh, 'RESET lock_timeout');
	return;
}

# Rows that one prepared transaction has locked, so that others cannot delete them, and another one has updated, in
# place or under a new TID: the lock is there, whichever was prepared first, whichever has the lower region, and however
# the other one ends.
sub test_prepared_together
{
	value($dbh, $_) for "CREATE TABLE pair (id int PRIMARY KEY, v int, w int) $using", 'CREATE INDEX ON pair (w)',
	  'INSERT INTO pair SELECT g, 0, 0 FROM generate_series(1, 6) g';
	my $prepare = sub { my ($gid, $sql) = @_; value($dbh, $_) for 'BEGIN', $sql, "PREPARE TRANSACTION '$gid'"; };
	my $lock    = sub { "SELECT count(*) FROM (SELECT 1 FROM pair WHERE id IN ($_[0]) FOR KEY SHARE) x" };
	my %update  = (
		c_after  => 'UPDATE pair SET v = 1 WHERE id = 1',
		r_after  => 'UPDATE pair SET v = 1 WHERE id = 2',
		c_before => 'UPDATE pair SET v = 1 WHERE id = 3',
		r_before => 'UPDATE pair SET v = 1 WHERE id = 4',
		c_moved  => 'UPDATE pair SET w = 1 WHERE id = 5',
		r_moved  => 'UPDATE pair SET w = 1 WHERE id = 6');
	# regions are taken from the lowest: these keep some for the last
	$prepare->("free$_", 'INSERT INTO pair VALUES (100 + ' . $_ . ')') for 1 .. 3;
	$prepare->('early', $lock->('1, 2'));
	$prepare->($_, $update{$_}) for sort keys %update;
	value($dbh, "ROLLBACK PREPARED 'free$_'") for 1 .. 3;
	$prepare->('late', $lock->('3, 4, 5, 6'));

	my $free = sub {
		value($dbh, q{SET lock_timeout = '30ms'});
		return join ' ', grep { state_of($dbh, "DELETE FROM pair WHERE id = $_") ne '55P03' } 1 .. 6;
	};
	for my $step ('crash', 'clean restart')
	{
		restart($step);
		is($free->(), '', "$step: rows locked and updated by prepared transactions");
	}
	value($dbh, $_) for map { (/^c/ ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$_'" } sort keys %update;
	is($free->(), '', 'the locks outlast the updates');
	is(value($dbh, q{SELECT string_agg(id || '=' || v + w, ' ' ORDER BY id) FROM pair}), '1=1 2=0 3=1 4=0 5=1 6=0',
		'which are done or undone');
	value($dbh, $_) for 'VACUUM pair', q{ROLLBACK PREPARED 'early'}, q{COMMIT PREPARED 'late'};
	is($free->(), '1 2 3 4 5 6', 'and end with their transactions');
	value($dbh, 'RESET lock_timeout');
	return;
}

sub test_prepared_ddl
{
	for my $commit (0, 1)
	{
		make_ddl_tables();
		my %sum = ddl_sums();
		value($dbh, $_) for ('BEGIN', ddl(), q{PREPARE TRANSACTION 'ddl'});
		$dbh = crash_restart($node);
		$dbh = clean_restart($node, $dbh);
		value($dbh, ($commit ? 'COMMIT' : 'ROLLBACK') . q{ PREPARED 'ddl'});
		if   ($commit) { ddl_is_done('prepared DDL, committed'); }
		else           { ddl_is_undone('prepared DDL, rolled back', %sum); }
		$dbh = crash_restart($node);
		if   ($commit) { ddl_is_done('prepared DDL, committed, crash'); }
		else           { ddl_is_undone('prepared DDL, rolled back, crash', %sum); }
	}
	return;
}

# Readers that know the table's indexes, and then wait for COMMIT PREPARED, are the ones that rebuild them: also the
# index that the transaction has made, which they have not seen yet.  The commit waits for a standby that is not there.
sub test_prepared_index_seen_late
{
	value($dbh, $_) for (
		"CREATE TABLE late (id int PRIMARY KEY, v text) $using",
		q{INSERT INTO late SELECT g, 'v' || g FROM generate_series(1, 2000) g},
		'BEGIN', 'CREATE UNIQUE INDEX late_v ON late (v)', q{PREPARE TRANSACTION 'late'});
	set_conf($node, "wal_level = replica\nmax_wal_senders = 1\nsynchronous_commit = local\n");
	set_conf($node, "synchronous_standby_names = 'nobody'\n");
	$dbh = crash_restart($node);
	my ($committer, @readers) = map { connect_db($node) } 0 .. 3;
	is(value($_, 'SELECT count(*) FROM late'), 2000, 'index seen late: read before') for @readers;
	run_sql($committer, 'SET synchronous_commit = on');
	my $commit = start_statement($committer, q{COMMIT PREPARED 'late'});
	my $waits = sub { value($dbh, "SELECT wait_event FROM pg_stat_activity WHERE pid = $_[0]{pg_pid}") // '' };
	wait_for('the commit to wait', sub { $waits->($committer) eq 'SyncRep' });
	my @reads = map { start_statement($_, 'SELECT count(*) FROM late') } @readers;
	for my $reader (@readers)
	{
		wait_for('a reader to wait', sub { $waits->($reader) ne '' && $waits->($reader) ne 'ClientRead' });
	}
	value($dbh, "SELECT pg_cancel_backend($committer->{pg_pid})");
	is(finish_statement($commit), 'COMMIT PREPARED', 'index seen late: committed');
	is(finish_query($_), 2000, 'index seen late: read') for @reads;
	is(state_of($dbh, q{INSERT INTO late VALUES (-1, 'v5')}), '23505', 'index seen late: it is unique');
	is_sound($dbh, 'index seen late');
	$_->disconnect for $committer, @readers;
	reload_conf($node, "synchronous_standby_names = ''\nsynchronous_commit = on");
	value($dbh, 'DROP TABLE late');
	return;
}

# An index that a prepared transaction has created is empty after a crash. Others read the table, and have its other
# indexes rebuilt, before it is committed; a clean restart in between makes no difference.
sub test_prepared_index
{
	for my $when ('crash', 'crash and clean restart')
	{
		value($dbh, $_) for "CREATE TABLE pi (id int PRIMARY KEY, v int) $using",
			'INSERT INTO pi SELECT g, g FROM generate_series(1, 1000) g',
		  'BEGIN', 'CREATE UNIQUE INDEX pi_v ON pi (v)', q{PREPARE TRANSACTION 'index'};
		for my $step (split / and /, $when)
		{
			restart($step);
			is(value($dbh, 'SELECT count(*) FROM pi WHERE id > 0'), 1000, "prepared index, $when: rows before");
		}
		value($dbh, q{COMMIT PREPARED 'index'});
		value($dbh, $_) for 'SET enable_seqscan = off', 'SET enable_bitmapscan = off';
		is(value($dbh, 'SELECT id FROM pi WHERE v = 5'), 5, "prepared index, $when: finds a row");
		is(state_of($dbh, 'INSERT INTO pi VALUES (0, 5)'), '23505', "prepared index, $when: is unique");
		value($dbh, $_) for 'RESET enable_seqscan', 'RESET enable_bitmapscan', 'DROP TABLE pi';
	}
	return;
}

# An index that a prepared transaction has rebuilt is locked; nobody waits for it, and it is whole whichever way that
# ends.
sub test_prepared_reindex
{
	for my $end ('COMMIT', 'ROLLBACK')
	{
		value($dbh, $_) for "CREATE TABLE pr (id int PRIMARY KEY, v int) $using",
			'INSERT INTO pr SELECT g, g FROM generate_series(1, 1000) g',
		  'CREATE INDEX pr_v ON pr (v)', 'BEGIN', 'REINDEX INDEX pr_v', q{PREPARE TRANSACTION 'reindex'};
		$dbh = crash_restart($node);
		value($dbh, q{SET statement_timeout = '20s'});
		is(state_of($dbh, "$end PREPARED 'reindex'"), '', "prepared REINDEX, $end: ends");
		value($dbh, $_) for 'RESET statement_timeout', 'SET enable_seqscan = off', 'SET enable_bitmapscan = off';
		is(value($dbh, 'SELECT id FROM pr WHERE v = 5'), 5, "prepared REINDEX, $end: finds a row");
		value($dbh, $_) for 'RESET enable_seqscan', 'RESET enable_bitmapscan', 'DROP TABLE pr';
	}
	return;
}

# Indexes are rebuilt before commands on them; a table that a prepared transaction has locked is left out.
sub test_prepared_lock
{
	value($dbh, $_) for map { ("CREATE TABLE $_ (id int PRIMARY KEY) $using",
		"INSERT INTO $_ SELECT generate_series(1, 10)") } qw(locked other);
	value($dbh, $_) for 'BEGIN', 'TRUNCATE locked', q{PREPARE TRANSACTION 'lock'};
	$dbh = crash_restart($node);
	value($dbh, q{SET lock_timeout = '2s'});
	is(state_of($dbh, $_), '', "beside a table locked by a prepared transaction: $_")
	  for 'VACUUM other', 'CREATE INDEX ON other (id)', 'ALTER TABLE other ADD v int', 'DROP TABLE other';
	value($dbh, $_) for q{ROLLBACK PREPARED 'lock'}, 'RESET lock_timeout';
	is(contents($dbh, 'locked', 'indexscan', 'id > 0'), contents($dbh, 'locked'), 'which is as it was');
	is(value($dbh, 'SELECT count(*) FROM locked'), 10, 'with all its rows');
	value($dbh, 'DROP TABLE locked');
	return;
}

# --- space ------------------------------------------------------------------

# Each round writes some 60 MB that must all come back: a leak of any kind fills the
# pool after a few rounds.
sub test_space
{
	my $fill = q{INSERT INTO big SELECT g, repeat(md5(g::text), 25) FROM generate_series(1, 60000) g};
	my $make = "CREATE TABLE big (id int PRIMARY KEY, v text) $using";
	for my $round (1 .. 4)
	{
		value($dbh, $_) for $make, $fill, 'DROP TABLE big';

		value($dbh, $_) for 'BEGIN', $make, $fill, 'ROLLBACK';

		value($dbh, $_) for $make, 'BEGIN', $fill;
		$dbh = crash_restart($node);
		is(value($dbh, 'SELECT count(*) FROM big'), 0, "round $round: rows of a lost transaction");
		value($dbh, $_) for $fill, 'TRUNCATE big', 'DROP TABLE big';

		value($dbh, 'CREATE DATABASE other');
		my $other = connect_db($node, 'other');
		value($other, 'CREATE EXTENSION zen') if is_zen();
		value($other, $_) for $make, $fill;
		$other->disconnect;
		$dbh = crash_restart($node) if $round % 2;
		value($dbh, 'DROP DATABASE other');
		$dbh = crash_restart($node) if $round == 2;
	}
	base_is_right('after many drops');
	return;
}
