# Point accesses (point of zen.executor) of many sessions at once:
#
# - increments of few rows by prepared statements, and by plain ones (shape): none is lost, at each isolation level
# - the definition of the table, its indexes and its privileges change beside them: each statement gives what it should,
#   or a proper error, never another column's value and never a right that the role does not have
# - a key cache that is too small for the keys has its share of hits
# - rows that come by COPY, INSERT ... SELECT, the build of an index or its rebuild after a crash are found by the key
#   cache when they are read first
# - what the key cache says of a table that was emptied, filled anew or rolled back is not believed
#
# Needs the executor.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use POSIX ();
use Test::More;
use ZenTest;

use constant ROWS => 50;

skip_unless_zen();
my $node = new_node('point', pool_size => '128MB', dram_size => '128MB', max_connections => 30);
$node->start;
my $dbh = connect_db($node);
value($dbh, 'CREATE EXTENSION zen');

test_hot_rows($_) for 'read committed', 'repeatable read', 'serializable';
test_changed_definitions();
test_stale_keys();
test_inserted_keys();
test_filled_keys();
test_filled_after_crash();
test_more_keys_than_places();
$dbh->disconnect;
$node->stop;
done_testing();

# Runs a function in a process of its own, with a connection; it returns numbers, which add up in the result of the
# returned function.
sub in_background
{
	my ($work) = @_;
	my $pid = open(my $pipe, '-|') // die "cannot fork: $!";
	if ($pid == 0)
	{
		my @n = eval {
			my $own = connect_db($node);
			run_all($own, 'SET enable_seqscan = off', 'SET enable_bitmapscan = off',
				'SET plan_cache_mode = force_generic_plan');
			$work->($own);
		};
		print STDERR $@ if $@;
		print "@n\n";
		close STDOUT;
		POSIX::_exit(0);    # the server is the parent's
	}
	return sub { my @n = split ' ', <$pipe> // ''; close $pipe; return @n };
}

sub accesses { return value($dbh, 'SELECT point_accesses FROM zen_stat') }

# 4 sessions increment 50 rows, two of them by plain statements; above read committed they try again where they cannot
# be serialized.
sub test_hot_rows
{
	my ($level) = @_;
	run_all($dbh, 'CREATE TABLE hot (id int PRIMARY KEY, n int NOT NULL CHECK (n >= 0), t text) USING zen',
		'INSERT INTO hot SELECT g, 0, g FROM generate_series(1, ' . ROWS . ') g');
	my $before = accesses();
	my @sessions = map
	{
		my $prepares = $_ % 2;
		in_background(
			sub {
				my ($own) = @_;
				my $done = 0;
				run_all($own, "SET default_transaction_isolation = '$level'",
					q{PREPARE inc(int) AS UPDATE hot SET n = n + 1, t = t || '' WHERE id = $1 RETURNING n, t});
				while ($done < 1000)
				{
					my $id = 1 + int rand ROWS;
					my $plain = "UPDATE hot SET n = n + 1, t = t || '' WHERE id = $id RETURNING n, t";
					my $r = run_sql($own, $prepares ? "EXECUTE inc($id)" : $plain);
					die "$r->{state} $r->{message}" if $r->{state} ne '' && $r->{state} ne '40001';
					next if $r->{state} ne '';
					die "row $id, got $r->{rows}[0][1]" if $r->{rows}[0][1] ne $id;
					$done++;
				}
				return $done;
			})
	} 1 .. 4;
	my $done = 0;
	$done += $_ for map { $_->() } @sessions;
	is($done, 4000, "$level: all increments were made");
	is(value($dbh, 'SELECT sum(n) FROM hot'), $done, "$level: none is lost");
	cmp_ok(accesses() - $before, '>=', 3900, "$level: by kept state");
	value($dbh, 'DROP TABLE hot');
	return;
}

# What a session does beside the changes of definitions: reads, updates, and the same as a role without the right to.
# Returns the number of updates and of refusals.  how: of DBD::Pg's attributes, how a statement is sent.
sub work
{
	my ($own, %how) = @_;
	my ($updates, $refused) = (0, 0);

	# by the protocol: EXECUTE would take its snapshot before it waits for a change of the definition
	my $sel = $own->prepare('SELECT id, b FROM t WHERE id = $1', {%how});
	my $upd = $own->prepare('UPDATE t SET n = n + 1 WHERE id = $1 RETURNING id, b, n', {%how});
	until (value($own, 'SELECT stop FROM control'))
	{
		my $id = 1 + int rand ROWS;
		my $role = int(rand 3) == 0 ? 'point_reader' : 'point_writer';
		value($own, "SET ROLE $role");
		$sel->execute($id) or die 'read: ' . $sel->errstr;
		my @read = $sel->fetchrow_array;
		die "read $id: @read" if "@read" ne "$id b$id";
		if ($upd->execute($id))
		{
			my @row = $upd->fetchrow_array;
			die "a reader has written" if $role eq 'point_reader';
			die "update $id: @row" if "@row[0, 1]" ne "$id b$id";
			$updates++;
		}
		else
		{
			die 'update: ' . $upd->errstr if $upd->state ne '42501';
			$refused++;
		}
		value($own, 'RESET ROLE');
	}
	return ($updates, $refused);
}

sub test_changed_definitions
{
	run_all($dbh, 'CREATE TABLE control (stop bool)', 'INSERT INTO control VALUES (false)',
		'CREATE TABLE t (a text, id int PRIMARY KEY, b text, n bigint DEFAULT 0) USING zen',
		'INSERT INTO t SELECT 7, g, $$b$$ || g FROM generate_series(1, ' . ROWS . ') g',
		'CREATE ROLE point_writer', 'CREATE ROLE point_reader', 'GRANT SELECT, UPDATE ON t TO point_writer',
		'GRANT SELECT ON t TO point_reader', 'GRANT SELECT ON control TO PUBLIC');
	my $before = accesses();
	my $shapes = value($dbh, 'SELECT shape_runs FROM zen_stat');
	my @how = ([ pg_prepare_now => 1 ], [ pg_server_prepare => 0 ]);
	my @sessions = map { my $how = $how[ $_ % 2 ]; in_background(sub { work($_[0], @$how) }) } 1 .. 8;
	wait_for('the sessions to work', sub { accesses() > $before + 100 });
	for my $round (1 .. 4)
	{
		for my $change ('ALTER TABLE t ADD COLUMN x int DEFAULT 1', 'ALTER TABLE t ALTER COLUMN x TYPE text',
			'ALTER TABLE t DROP COLUMN x', 'CREATE INDEX t_b ON t (b)', 'ALTER TABLE t RENAME COLUMN a TO aa',
			'DROP INDEX t_b', 'ALTER TABLE t RENAME COLUMN aa TO a',
			'CREATE UNIQUE INDEX CONCURRENTLY t_u ON t (n, id)',
			'DROP INDEX CONCURRENTLY t_u',
			'BEGIN; ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id); COMMIT',
			'REINDEX INDEX CONCURRENTLY t_pkey', 'REINDEX INDEX t_pkey', 'VACUUM ANALYZE t',
			'ALTER TABLE t ADD CONSTRAINT n_positive CHECK (n >= 0)', 'ALTER TABLE t DROP CONSTRAINT n_positive',
			'CLUSTER t USING t_pkey')
		{
			my $r = run_sql($dbh, $change);
			is($r->{state}, '', "round $round: $change") or diag($r->{message});
			my $now = accesses();
			wait_for('the sessions to go on', sub { accesses() > $now + 20 });
		}
		test_revoked($round);
	}
	wait_for('statements without a name', sub { value($dbh, 'SELECT shape_runs FROM zen_stat') > $shapes + 1000 });
	value($dbh, 'UPDATE control SET stop = true');
	my ($updates, $refused) = (0, 0);
	for my $session (@sessions)
	{
		my @n = $session->();
		is(scalar @n, 2, 'a session came to its end');
		$updates += $n[0] // 0;
		$refused += $n[1] // 0;
	}
	is(value($dbh, 'SELECT sum(n) FROM t'), $updates, "none of $updates updates is lost");
	cmp_ok($refused, '>', 0, "$refused were refused");
	is_sound($dbh, 'definitions changed');
	run_all($dbh, 'DROP TABLE t, control', 'DROP ROLE point_writer, point_reader');
	return;
}

# Once REVOKE has committed, no statement that begins gets through; once GRANT has, each does.
sub test_revoked
{
	my ($round) = @_;
	my $own = connect_db($node);
	run_all($own, 'SET enable_seqscan = off', 'SET plan_cache_mode = force_generic_plan', 'SET ROLE point_writer',
		q{PREPARE upd(int) AS UPDATE t SET n = n WHERE id = $1});
	is(run_sql($own, 'EXECUTE upd(1)')->{state}, '', "round $round: granted") for 1 .. 3;
	value($dbh, 'REVOKE UPDATE ON t FROM point_writer');
	is(run_sql($own, 'EXECUTE upd(1)')->{state}, '42501', "round $round: revoked") for 1 .. 3;
	value($dbh, 'GRANT UPDATE ON t TO point_writer');
	is(run_sql($own, 'EXECUTE upd(1)')->{state}, '', "round $round: granted again") for 1 .. 3;
	$own->disconnect;
	return;
}

sub key_counts
{
	my $r = run_sql($dbh,
		q{SELECT keycache_hits, keycache_misses, keycache_stale FROM zen_stat_tables WHERE relid = 'k'::regclass});
	return @{ $r->{rows}[0] };
}

# The key cache leads to rows that are other rows by now, or none.
sub test_stale_keys
{
	my $own = connect_db($node);
	run_all($own, 'SET enable_seqscan = off', 'SET enable_bitmapscan = off',
		'SET plan_cache_mode = force_generic_plan', 'CREATE TABLE k (id int PRIMARY KEY, v text) USING zen',
		'INSERT INTO k SELECT g, g FROM generate_series(1, 300) g',
		q{PREPARE sel(int) AS SELECT v FROM k WHERE id = $1});
	my $read = sub {
		my ($what, $expected) = @_;
		my @wrong = grep { (value($own, "EXECUTE sel($_)") // '-') ne $expected->($_) } 1 .. 300;
		is("@wrong", '', "keys, $what");
	};
	my $gone = sub { '-' };
	$read->('first', sub { $_[0] });
	$read->('known', sub { $_[0] });
	run_all($own, 'DELETE FROM k WHERE id % 2 = 0');
	$read->('half deleted', sub { $_[0] % 2 ? $_[0] : '-' });
	run_all($own, 'VACUUM k', 'INSERT INTO k SELECT g + 1000, 0 FROM generate_series(1, 150) g');
	$read->('places reused', sub { $_[0] % 2 ? $_[0] : '-' });
	run_all($own, 'UPDATE k SET id = 301 - id WHERE id <= 300');
	$read->('moved', sub { $_[0] % 2 ? '-' : 301 - $_[0] });
	run_all($own, 'BEGIN', q{UPDATE k SET v = 'x', id = id - 1 WHERE id <= 300});
	$read->('moved, not committed', sub { $_[0] % 2 ? 'x' : '-' });
	value($own, 'ROLLBACK');
	$read->('rolled back', sub { $_[0] % 2 ? '-' : 301 - $_[0] });
	value($own, 'TRUNCATE k');
	$read->('truncated', $gone);
	run_all($own, 'INSERT INTO k SELECT 301 - g, g FROM generate_series(1, 300) g');
	$read->('filled anew', sub { 301 - $_[0] });
	run_all($own, 'BEGIN', 'DROP TABLE k', 'ROLLBACK', 'BEGIN', 'TRUNCATE k', 'INSERT INTO k VALUES (1, 1)');
	$read->('truncated, not committed', sub { $_[0] == 1 ? 1 : '-' });
	value($own, 'ROLLBACK');
	$read->('not truncated', sub { 301 - $_[0] });
	$own->disconnect;
	# counted anew since TRUNCATE, 900 reads but those of new plans; the session gives its last counts as it ends
	my ($hits, $misses, $stale);
	wait_for('the counts', sub { ($hits, $misses, $stale) = key_counts(); $hits + $misses + $stale >= 890 });
	cmp_ok($hits, '>=', 200, "keys: $hits hits, $misses misses");
	cmp_ok($stale, '>=', 200, "keys: $stale led elsewhere");
	is_sound($dbh, 'keys');
	value($dbh, 'DROP TABLE k');
	return;
}

# An INSERT tells the key cache of its row, also before it commits, and if it never does.
sub test_inserted_keys
{
	my ($writer, $reader) = map { connect_db($node) } 1 .. 2;
	run_all($_, 'SET enable_seqscan = off', 'SET enable_bitmapscan = off', 'SET plan_cache_mode = force_generic_plan')
	  for $writer, $reader;
	run_all($writer, 'CREATE TABLE k (a varchar(20), v int, b bigint, PRIMARY KEY (b, a)) USING zen',
		'PREPARE ins(int, text) AS INSERT INTO k (a, b, v) VALUES ($2, $1, $1)');
	value($reader, 'PREPARE sel(int, text) AS SELECT v FROM k WHERE a = $2 AND b = $1');
	my $read = sub {
		my ($keys, $there) = @_;
		return join ' ', grep { (value($reader, "EXECUTE sel($_, 'key $_')") // '-') ne ($there ? $_ : '-') } @$keys;
	};
	$read->([ -1, -2 ]);
	value($writer, "EXECUTE ins($_, 'key $_')") for 1 .. 100;
	is($read->([ 1 .. 100 ], 1), '', 'inserted keys: read');
	value($writer, 'BEGIN');
	value($writer, "EXECUTE ins($_, 'key $_')") for 101 .. 150;
	is($read->([ 101 .. 150 ], 0), '', 'inserted keys: not committed');
	value($writer, 'ROLLBACK');
	is($read->([ 101 .. 150 ], 0), '', 'inserted keys: rolled back');
	value($writer, "EXECUTE ins($_, 'key $_')") for 101 .. 150;
	is($read->([ 101 .. 150 ], 1), '', 'inserted keys: inserted again');
	$_->disconnect for $writer, $reader;
	my ($hits, $misses, $stale);
	wait_for('the counts', sub { ($hits, $misses, $stale) = key_counts(); $hits + $misses + $stale >= 251 });
	# the second SELECT finds nothing, the first one is not run so
	is("$hits $misses $stale", '150 1 100', 'inserted keys: hits, misses, led to nothing');
	value($dbh, 'DROP TABLE k');
	return;
}

# Hits and misses of the first reads of 300 keys of table k: rows whose v is not the key's are counted as wrong.
sub first_reads
{
	my ($what, $condition, $expected, $tolerance) = @_;
	my ($hits, $misses) = map { $_ // 0 } (key_counts())[ 0, 1 ];
	my $own = connect_db($node);
	run_all($own, 'SET enable_seqscan = off', 'SET enable_bitmapscan = off', 'SET plan_cache_mode = force_generic_plan',
		"PREPARE sel(int) AS SELECT v FROM k WHERE $condition");
	my @wrong = grep { (value($own, "EXECUTE sel($_)") // '-') ne $_ } 1 .. 300;
	$own->disconnect;
	is("@wrong", '', "$what: the rows");
	my @after;
	wait_for('the counts', sub { @after = key_counts(); $after[0] + $after[1] >= $hits + $misses + 290 }) if $expected;
	@after = key_counts();
	# the first execution of a plan may not be a point access
	cmp_ok(abs($after[0] - $hits - $expected), '<=', $tolerance // 1, "$what: " . ($after[0] - $hits) . ' hits')
	  or diag 'misses: ' . ($after[1] - $misses);
	return;
}

# First reads of 300 keys that find them in the key cache when the key's index was built: the build of a tree leaves the
# cache alone, as a first read by a tree is as fast.
sub hits_after_build
{
	return value($dbh, 'SHOW zen.default_index') eq 'zentree' ? 0 : 299;
}

# Keys are known before they are read first: of rows that come by COPY and INSERT ... SELECT, and by builds of indexes.
sub test_filled_keys
{
	my $keys = 'SELECT g, g, (1 + g / 100)::text, g FROM generate_series(%d, %d) g';
	run_all($dbh, 'CREATE TABLE k (id int, v int, a text, b numeric, PRIMARY KEY (id)) USING zen');
	value($dbh, 'INSERT INTO k ' . sprintf $keys, 1, 100);
	$dbh->do('COPY k FROM STDIN');
	$dbh->pg_putcopydata(join("\t", $_, $_, 1 + int($_ / 100), $_) . "\n") for 101 .. 300;
	$dbh->pg_putcopyend;
	first_reads('copied keys', 'id = $1', 299);
	run_all($dbh, 'CREATE UNIQUE INDEX k_ab ON k (a, b)');
	first_reads('keys of a new index', q{a = (1 + $1 / 100)::text AND b = $1::numeric + 0.00}, 299);
	run_all($dbh, 'ALTER TABLE k DROP CONSTRAINT k_pkey', 'ALTER TABLE k ALTER id DROP NOT NULL',
		'INSERT INTO k VALUES (NULL, 0, NULL, NULL)',
		'ALTER TABLE k ADD CONSTRAINT k_new UNIQUE (id)');
	first_reads('keys of a new constraint', 'id = $1', hits_after_build());
	run_all($dbh, 'VACUUM FULL k');
	first_reads('keys of a table written anew', 'id = $1', 299);
	run_all($dbh, 'REINDEX INDEX CONCURRENTLY k_new');
	first_reads('keys of an index built beside', 'id = $1', hits_after_build());
	# no keys that stand for a row: they are found by the index, and known from then on
	run_all($dbh, 'ALTER TABLE k DROP CONSTRAINT k_new', 'CREATE UNIQUE INDEX k_part ON k (id) WHERE id > 0');
	first_reads('keys of a partial index', 'id = $1 AND id > 0', 0);
	run_all($dbh, 'DROP INDEX k_part', 'CREATE UNIQUE INDEX k_negative ON k ((-id))');
	first_reads('keys of an expression', '-id = -$1', 0);
	run_all($dbh, 'DROP INDEX k_negative', 'ALTER TABLE k ADD CONSTRAINT k_late UNIQUE (id) DEFERRABLE');
	first_reads('keys checked late', 'id = $1', 0);
	is_sound($dbh, 'filled keys');
	value($dbh, 'DROP TABLE k');
	return;
}

# The rebuild of indexes makes all keys known; among them one whose row was deleted.
sub test_filled_after_crash
{
	run_all($dbh, 'CREATE TABLE k (id int PRIMARY KEY, v int) USING zen',
		'INSERT INTO k SELECT g, g FROM generate_series(0, 300) g', 'DELETE FROM k WHERE id = 0');
	$dbh = crash_restart($node, $dbh);
	first_reads('keys after a crash', 'id = $1', hits_after_build());
	is(value($dbh, 'SELECT count(*) FROM k WHERE id = 0'), 0, 'keys after a crash: the deleted row');
	value($dbh, 'DROP TABLE k');
	return;
}

# 1 MB of key cache has 131,072 places: of twice as many keys, read at random, half should be there.
sub test_more_keys_than_places
{
	set_conf($node, 'zen.key_cache_size = 1MB');
	$dbh = clean_restart($node, $dbh);
	run_all($dbh, 'CREATE TABLE k (id int PRIMARY KEY, v int) USING zen',
		'INSERT INTO k SELECT g, g FROM generate_series(0, 262143) g', 'ANALYZE k');
	my $reads = sub {
		my ($n) = @_;
		my $own = connect_db($node);
		run_all($own, 'SET plan_cache_mode = force_generic_plan', "DO \$\$ DECLARE key int; r int; BEGIN
			FOR i IN 1 .. $n LOOP
				key := floor(random() * 262144);
				SELECT v INTO STRICT r FROM k WHERE id = key;
			END LOOP; END \$\$");
		$own->disconnect;
	};
	my $counted = sub {
		my ($n) = @_;
		my @counts;
		wait_for('the counts', sub { @counts = key_counts(); $counts[0] + $counts[1] + $counts[2] >= $n });
		return @counts;
	};
	my ($fill, $more) = (400_000, 100_000);
	$reads->($fill);
	my ($before) = $counted->($fill - 1);
	$reads->($more);
	my ($hits) = $counted->($fill + $more - 2);
	cmp_ok($hits - $before, '>', 0.45 * $more, 'small key cache: ' . ($hits - $before) . " of $more were hits");
	cmp_ok($hits - $before, '<', 0.55 * $more, 'small key cache: the others were not');
	value($dbh, 'DROP TABLE k');
	test_keys_in_use();
	return;
}

# Keys that are in use stay when many others come in at once, but those that found no place among others in use.
sub test_keys_in_use
{
	run_all($dbh, 'CREATE TABLE k (id int PRIMARY KEY, v int) USING zen',
		'INSERT INTO k SELECT g, g FROM generate_series(1, 300) g');
	first_reads('keys to be in use', 'id = $1', 299, 30);
	run_all($dbh, 'CREATE TABLE many (id int PRIMARY KEY, v int) USING zen',
		'INSERT INTO many SELECT g, g FROM generate_series(1, 400000) g', 'CREATE UNIQUE INDEX ON many (v, id)');
	first_reads('keys in use', 'id = $1', 299, 30);
	run_all($dbh, 'DROP TABLE k', 'DROP TABLE many');
	return;
}
