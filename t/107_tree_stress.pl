# Trees (index access method zentree) under inserts, deletes, VACUUM and scans at the same time.
#
# Keys that are multiples of 10 are always there.  All others come and go.  Each scan, in both directions, must meet all
# of the former in its range, nothing twice, and all in order.  Of two inserters of one key one must fail.
#
# Builds by several processes, with two rows of one key in parts of the table that different processes read.
#
# The same on a server that can be told to break its rules.  There nodes are small, processes give way to others when
# they look at a version, and each fault must be seen.
#
# SECONDS=3   of each load

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg ':async';
use Test::More;
use Time::HiRes qw(sleep time);
use ZenTest;

use constant KEYS => 3000;

skip_unless_zen();
skip_unless_faults();
my $seconds = $ENV{SECONDS} || 3;
my $seed = choose_seed();
my ($node, $dbh, $conf);

# kind of tree => type of the key, and an expression that makes one of a number
my %kinds = (
	word      => [ 'int',              '$1' ],
	two_words => [ 'bigint',           '$1::bigint' ],
	tuples    => [ 'text COLLATE "C"', q{lpad($1::text, 8, '0')} ],
	compared  => [ 'numeric',          '$1::numeric' ]);

for my $faults (0, 1)
{
	begin($faults);
	for my $kind (sort keys %kinds)
	{
		my $when = $kind . ($faults ? ', small nodes' : '');
		is(play($kind, 'none'), '', "$when: all is well");
		is_sound($dbh, $when);
	}
	prepare_builds();
	is(builds_that_pass(30), 0, 'builds' . ($faults ? ', small nodes' : '') . ': duplicates are found');
	test_faults() if $faults;
	$dbh->disconnect;
	$node->stop;
}
done_testing();

sub begin
{
	my ($faults) = @_;
	$node = new_node("tree$faults", pool_size => '256MB', dram_size => '256MB', faults => $faults,
		conf => 'restart_after_crash = on');
	$conf = $faults ? $node->data_dir . '/fault.conf' : undef;
	$node->append_conf('postgresql.conf', "include_if_exists 'fault.conf'\n");
	$node->start;
	$dbh = connect_db($node);
	value($dbh, 'CREATE EXTENSION zen');
	make_functions();
	return;
}

# A fault need not show in each load, and on a busy machine it seldom does.  It may show as the death of a backend:
# writers, too, go on to a freed node.
sub test_faults
{
	for my $fault (qw(tree_no_version tree_split_seen tree_no_gate tree_stale_fence tree_merge_unseen))
	{
		my $found = '';
		for (1 .. 100)
		{
			$found = play('word', $fault);
			last if $found;
		}
		isnt($found, '', "$fault is caught") and note("$fault: $found");
	}
	is(play($_, 'tree_read_only'), '', "$_: readers write nothing to shared memory") for sort keys %kinds;
	test_reader_that_writes();
	set_fault('tree_fence_unasked');
	my ($passed, $tries) = (0, 0);
	($passed, $tries) = ($passed + builds_that_pass(20), $tries + 20) until $passed || $tries == 400;
	cmp_ok($passed, '>', 0, 'tree_fence_unasked is caught') and note("$passed of $tries builds have passed");
	set_fault('none');
	return;
}

# One that wrote would have been killed.
sub test_reader_that_writes
{
	my $offset = log_size($node);
	set_fault('tree_reader_writes');
	unlink $conf or die "$conf: $!";    # the server that comes back has no fault
	isnt(state_of($dbh, 'SELECT count(*) FROM u WHERE k = make_key(1)'), '', 'a reader that writes is killed');
	connect_after_death($offset);
	like(log_since($node, $offset), qr/terminated by signal 11/, 'as it may not write there');
	run_all($dbh, 'SET max_parallel_maintenance_workers = 3');
	return;
}

# connect_after_death -- a backend has died since its log had $offset bytes, and the postmaster ends all others.
# Before it has seen that death, it still takes new ones, which are then ended, too.
sub connect_after_death
{
	my ($offset) = @_;
	wait_for('the end of a backend', sub { log_since($node, $offset) =~ /was terminated by/ });
	wait_for('the server', sub { eval { $dbh = connect_db($node); 1 } });
	return;
}

# A table whose unique index takes long enough for workers to come.
sub prepare_builds
{
	run_all($dbh, 'SET max_parallel_maintenance_workers = 3',
		q{CREATE FUNCTION slow(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS
		'BEGIN IF $1 % 50 = 0 THEN PERFORM pg_sleep(0.001); END IF; RETURN $1; END'},
		'CREATE TABLE b (id int PRIMARY KEY, k bigint) USING zen WITH (parallel_workers = 3)',
		'INSERT INTO b SELECT i, i * 7919 % 8009 FROM generate_series(1, 8000) i');
	return;
}

# How many of so many builds do not find the one duplicate.
sub builds_that_pass
{
	my ($tries) = @_;
	my $passed = 0;
	for (1 .. $tries)
	{
		my ($one, $other) = (1 + int rand 4000, 4001 + int rand 4000);
		run_all($dbh, 'BEGIN', "UPDATE b SET k = (SELECT k FROM b WHERE id = $one) WHERE id = $other");
		$passed++ if state_of($dbh, 'CREATE UNIQUE INDEX ON b USING zentree (slow(k))') ne '23505';
		run_all($dbh, 'ROLLBACK');
	}
	return $passed;
}

sub make_functions
{
	run_all($dbh, <<'END', <<'END', <<'END', <<'END');
CREATE FUNCTION fail(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION USING errcode = 'ZT001', message = what; END $$
END
CREATE PROCEDURE churn(seconds float, keys int) LANGUAGE plpgsql AS $$
DECLARE until timestamptz := clock_timestamp() + seconds * interval '1 second'; a int;
BEGIN
	WHILE clock_timestamp() < until LOOP
		a := (random() * keys)::int;
		IF random() < 0.45 THEN
			DELETE FROM t WHERE k BETWEEN make_key(a) AND make_key(a + 40) AND n % 10 <> 0;
		ELSE
			FOR i IN a .. a + 30 LOOP
				IF i % 10 <> 0 THEN
					BEGIN
						INSERT INTO t SELECT i, make_key(i);
					EXCEPTION WHEN unique_violation OR deadlock_detected THEN NULL;
					END;
				END IF;
			END LOOP;
		END IF;
		COMMIT;
	END LOOP;
END $$
END
CREATE PROCEDURE claim(seconds float, keys int) LANGUAGE plpgsql AS $$
DECLARE until timestamptz := clock_timestamp() + seconds * interval '1 second'; a int := 0;
BEGIN
	-- two of these go through the same keys
	WHILE clock_timestamp() < until LOOP
		a := a + 1;
		BEGIN
			INSERT INTO u SELECT make_key(a), pg_backend_pid();
		EXCEPTION WHEN unique_violation OR deadlock_detected THEN NULL;
		END;
		COMMIT;
	END LOOP;
END $$
END
CREATE PROCEDURE look(seconds float, keys int) LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + seconds * interval '1 second';
	a int; b int; r record; looks int := 0; direction text;
BEGIN
	WHILE clock_timestamp() < until LOOP
		looks := looks + 1;
		a := (random() * keys)::int; b := a + (random() * 500)::int;
		direction := CASE WHEN random() < 0.5 THEN 'ASC' ELSE 'DESC' END;
		EXECUTE format('SELECT count(*) FILTER (WHERE n %% 10 = 0) AS fixed, '
			'count(*) FILTER (WHERE before IS NOT NULL AND NOT (before %s k)) AS wrong FROM '
			'(SELECT n, k, lag(k) OVER () AS before FROM '
			'(SELECT n, k FROM t WHERE k BETWEEN make_key($1) AND make_key($2) ORDER BY k %s) x) y',
			CASE direction WHEN 'ASC' THEN '<' ELSE '>' END, direction) INTO r USING a, b;
		IF r.wrong > 0 THEN
			PERFORM fail(format('%s entries twice or out of order, %s', r.wrong, direction));
		END IF;
		IF r.fixed <> (SELECT count(*) FROM generate_series(greatest(a, 1), least(b, keys)) g WHERE g % 10 = 0) THEN
			PERFORM fail(format('%s..%s: %s rows that are always there, %s', a, b, r.fixed, direction));
		END IF;
		COMMIT;
	END LOOP;
	IF looks = 0 THEN PERFORM fail('nobody has looked'); END IF;
END $$
END
	return;
}

sub set_fault
{
	my ($fault) = @_;
	return unless $conf;
	open my $file, '>', $conf or die "$conf: $!";
	print $file "zen.fault = '$fault'\n";
	close $file;
	$node->reload;
	wait_for('the fault', sub { value($dbh, 'SHOW zen.fault') eq $fault });
	return;
}

# Load a tree, and say what was wrong.
sub play
{
	my ($kind, $fault) = @_;
	my ($type, $make) = @{ $kinds{$kind} };
	set_fault('none');
	run_all($dbh, 'DROP TABLE IF EXISTS t, u', 'DROP FUNCTION IF EXISTS make_key',
		"CREATE FUNCTION make_key(int) RETURNS " . $type =~ s/ COLLATE.*//r
		  . " LANGUAGE sql IMMUTABLE AS \$\$SELECT $make\$\$");
	run_all($dbh, "CREATE TABLE t (n int, k $type) USING zen", "CREATE TABLE u (k $type, pid int) USING zen",
		'CREATE UNIQUE INDEX ON t USING zentree (k)', 'CREATE UNIQUE INDEX ON u USING zentree (k)',
		'INSERT INTO t SELECT i, make_key(i) FROM generate_series(10, ' . KEYS . ', 10) i');
	set_fault($fault);
	my $offset = log_size($node);
	my @sessions = map { connect_db($node) } 1 .. 8;
	run_all($_, 'SET enable_seqscan = off', 'SET enable_bitmapscan = off', 'SET enable_sort = off',
		'SET zen.executor = keyjoin, batch', 'SET statement_timeout = ' . ($seconds * 1000 + 30000))
	  for @sessions;
	my @calls = (('churn') x 3, ('look') x 3, ('claim') x 2);
	my @running = map { start_statement($sessions[$_], "CALL $calls[$_]($seconds, " . KEYS . ')') } 0 .. $#sessions;
	my $until = time + $seconds;
	while (time < $until)
	{
		run_sql($dbh, 'VACUUM t');
		sleep 0.05;
	}
	my @wrong;
	for my $i (0 .. $#running)
	{
		my $result = finish_statement($running[$i]);
		push @wrong, "$calls[$i]: $result " . ($running[$i]{dbh}->errstr // '') unless $result =~ /^CALL/;
	}
	if (grep { !$_->ping } @sessions)
	{
		connect_after_death($offset);
		return "the server died; $wrong[0]";
	}
	$_->disconnect for @sessions;
	set_fault('none');
	my $twice = value($dbh, 'SELECT count(*) FROM (SELECT k::text FROM u GROUP BY 1 HAVING count(*) > 1) x');
	push @wrong, "$twice keys twice in a unique index" if $twice > 0;
	my $rows = value($dbh, 'SELECT count(*) FROM u');
	note("$kind, $fault: $rows keys claimed, " . value($dbh, 'SELECT count(*) FROM t') . ' rows');
	return join '; ', @wrong;
}
