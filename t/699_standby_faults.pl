# Reads on a hot standby whose rules are broken one by one (zen.fault on the standby): each is seen by what is compared
# in t/698_standby_reads.pl, and without a fault nothing is.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use OldXids ();
use PostgreSQL::Test::Cluster;
use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_faults();

my $primary = copy_primary('primary', pool_size => '64MB', faults => 1, conf => <<'END');
zen.standby_reads = on
zen.spill_threshold = 64kB
autovacuum = off
END
$primary->start;
my $dbh = connect_db($primary);
run_all($dbh, 'CREATE EXTENSION zen', map { (
		"CREATE TABLE ${_}_t (id int PRIMARY KEY, v int, w text) USING $_",
		"INSERT INTO ${_}_t SELECT g, 1, repeat('x', 50) FROM generate_series(1, 500) g") } qw(heap zen));
$primary->backup('base');
my $standby = copy_of($primary, 'standby', 'base', has_streaming => 1);
# s11_no_pins may crash it
set_conf($standby, 'restart_after_crash = on');
$standby->start;
my $on_standby;
again();

my %seen_by = (
	none => \&seen_by_none,
	s1_seen_early => \&seen_in_doubt,
	s2_no_wait => \&seen_unwaited,
	s2_not_unlinked => \&seen_undone,
	s8_cut_early => \&seen_by_held,
	s8_cut_held => \&seen_by_held,
	s10_untold => \&missed_by_index,
	s10_heard_early => \&missed_behind_prepared,
	s11_no_pins => \&broken_under_cursor,
	s13_undoubted => \&found_by_other_key,
	s14_old_snapshots => \&seen_by_old,
	s17_ended_on_top => \&seen_superseded);
for my $fault (sort keys %seen_by)
{
	# without the fault nothing is seen; each time from new maps
	for my $set ($fault eq 'none' ? 'none' : ('none', $fault))
	{
		inject_fault($standby, $on_standby, $set);
		again();
		my $seen = $seen_by{$fault}->($set);
		is($seen ? 1 : 0, $set eq 'none' ? 0 : 1, "$fault: what it breaks, with $set");
	}
}
inject_fault($standby, $on_standby, 'none');
$on_standby->disconnect;
is(goes_on($_) ? 1 : 0, $_ eq 'none' ? 0 : 1, "s15_readers_stay: what it breaks, with $_")
  for qw(none s15_readers_stay);
my $nkept = 0;
my %kept = (
	s18_losers_told => \&promoted_with_losers,
	s18_aborted_forgotten => \&promoted_before_scrub,
	s18_tombstones_forgotten => \&promoted_with_tombstones,
	s18_unproven => \&promoted_with_proof);
for my $fault (sort keys %kept)
{
	is(kept_wrong($_, $kept{$fault}) ? 1 : 0, $_ eq 'none' ? 0 : 1, "$fault: what it breaks, with $_")
	  for 'none', $fault;
}
for my $fault (qw(none s13_undoubted s19_unheard s19_uncleaned))
{
	is(tree_wrong($fault) ? 1 : 0, $fault eq 'none' ? 0 : 1, "$fault: what it breaks");
}
$dbh->disconnect;
test_old_xids($_) for qw(none s6_unsettled s6_forgotten);
done_testing();

# again -- the standby restarts, and has all that the primary has.
sub again
{
	$on_standby->disconnect if $on_standby;
	$standby->restart;
	caught_up();
	$on_standby = connect_db($standby);
	value($on_standby, 'SELECT count(*) FROM zen_t');
	return;
}

sub caught_up
{
	value($dbh, 'SELECT pg_current_wal_lsn()');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

sub differing
{
	my ($table) = (@_, 't');
	return 'SELECT (' . join(' IS DISTINCT FROM ',
		map { "(SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM ${_}_$table t)" } qw(heap zen)) . ')::int';
}

sub differ
{
	my ($db) = @_;
	return value($db // $on_standby, differing());
}

sub both { return map { my $s = $_; map { $s =~ s/\bAM_/$_/gr } qw(heap_ zen_) } @_; }

sub seen_by_none
{
	run_all($dbh, both('UPDATE AM_t SET v = v + 1', 'DELETE FROM AM_t WHERE id = 3',
			'INSERT INTO AM_t VALUES (3, 1, NULL)'));
	caught_up();
	return differ();
}

# The last transaction of a region is superseded by one of another region, and no checkpoint tells of its end.
sub seen_superseded
{
	my @session = map { connect_db($primary) } 1 .. 2;
	run_all($session[0], 'BEGIN', both('UPDATE AM_t SET v = v + 1 WHERE id = 400'), q{PREPARE TRANSACTION 'p'});
	run_all($session[1], both('UPDATE AM_t SET v = v + 1 WHERE id < 50'));
	run_all($session[0], q{COMMIT PREPARED 'p'},
		both('UPDATE AM_t SET v = v + 1 WHERE id < 50', 'UPDATE AM_t SET v = v + 1 WHERE id = 400'));
	again();
	return differ();
}

# A transaction that is prepared has its rows in the log, and has not committed.
sub seen_in_doubt
{
	run_all($dbh, 'BEGIN', both('UPDATE AM_t SET v = v + 1 WHERE id < 50'), q{PREPARE TRANSACTION 'p'});
	caught_up();
	my $seen = differ();
	run_all($dbh, q{COMMIT PREPARED 'p'});
	caught_up();
	return $seen;
}

# Rows that were spilled and taken back: their slots are scrubbed.  If a row still leads there, reading it is an error.
# Another change of the row would notice, and have the maps made anew.
sub seen_undone
{
	run_all($dbh, 'BEGIN', 'SAVEPOINT s', both(q{UPDATE AM_t SET v = -1, w = repeat('y', 1500)}));
	caught_up();
	run_all($dbh, 'ROLLBACK TO s', both('INSERT INTO AM_t SELECT max(id) + 1, 1 FROM AM_t'), 'COMMIT');
	caught_up();
	my $result = run_sql($on_standby, differing());
	return $result->{state} ne '' || $result->{rows}[0][0];
}

# Rows of which only the slot is known are read while their slots are taken again.
sub seen_unwaited
{
	my ($set) = @_;
	my $load = connect_db($primary);
	my $seen = 0;
	run_all($dbh, map { ("DROP TABLE IF EXISTS ${_}_few", "CREATE TABLE ${_}_few (id int, v int) USING $_",
			"INSERT INTO ${_}_few SELECT g, 0 FROM generate_series(1, 10) g") } qw(heap zen));
	for (1 .. ($set eq 'none' ? 4 : 30))
	{
		caught_up();
		wait_for('rows that are only in the pool', sub { value($on_standby,
				q{SELECT entries FROM _zen_table_versions('zen_few')}) == 0 });
		my $updates = start_statement($load, q{DO $$BEGIN FOR i IN 1..300 LOOP
			UPDATE heap_few SET v = v + 1; UPDATE zen_few SET v = v + 1; COMMIT; END LOOP; END$$});
		my $result = run_sql($on_standby, q{SELECT (SELECT string_agg(t::text, ',' ORDER BY id) FROM heap_few t)
			IS DISTINCT FROM (SELECT string_agg(t::text, ',' ORDER BY id) FROM zen_few t)});
		$seen ||= $result->{state} ne '' || $result->{rows}[0][0];
		finish_statement($updates);
		last if $seen;
	}
	$load->disconnect;
	return $seen;
}

# A snapshot is held while rows are updated many times; heap's pruning would wait for it.
sub seen_by_held
{
	my $holder = connect_db($standby);
	run_all($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $seen = differ($holder);
	for my $i (1 .. 20)
	{
		run_all($dbh, "UPDATE zen_t SET v = v + $i");
		caught_up();
	}
	wait_for('what may go to go', sub { value($on_standby, 'SELECT versions_pending <= 1000 FROM zen_stat_standby') });
	my $result = run_sql($holder, differing());
	$seen ||= $result->{state} ne '' || $result->{rows}[0][0];
	$holder->disconnect;
	run_all($dbh, 'UPDATE heap_t SET v = v + 210');
	caught_up();
	return $seen;
}

# by_index -- what a query finds if tables are not scanned.
sub by_index
{
	my ($db, $query) = @_;
	run_all($db, 'SET enable_seqscan = off');
	my $result = run_sql($db, $query);
	run_sql($db, 'RESET enable_seqscan');
	return $result->{state} || $result->{rows}[0][0];
}

# A row that comes when the index has a tree.
sub missed_by_index
{
	by_index($on_standby, 'SELECT count(*) FROM zen_t WHERE id = 1');
	run_all($dbh, both('INSERT INTO AM_t VALUES (70001, 1)'));
	caught_up();
	my $found = by_index($on_standby, 'SELECT count(*) FROM zen_t WHERE id = 70001');
	run_all($dbh, both('DELETE FROM AM_t WHERE id = 70001'));
	return $found ne '1';
}

# The tree is brought up to date while the row's transaction is prepared.
sub missed_behind_prepared
{
	by_index($on_standby, 'SELECT count(*) FROM zen_t WHERE id = 1');
	run_all($dbh, 'BEGIN', both('INSERT INTO AM_t VALUES (70002, 1)'), q{PREPARE TRANSACTION 'p'},
		both('UPDATE AM_t SET v = v WHERE id = 2'));
	caught_up();
	my $early = by_index($on_standby, 'SELECT count(*) FROM zen_t WHERE id = 70002');
	run_all($dbh, q{COMMIT PREPARED 'p'});
	caught_up();
	my $found = by_index($on_standby, 'SELECT count(*) FROM zen_t WHERE id = 70002');
	run_all($dbh, both('DELETE FROM AM_t WHERE id = 70002'));
	return $early ne '0' || $found ne '1';
}

# use_again -- all rows of a table go, and others come, by a session that looks for TIDs.
sub use_again
{
	my ($table, $n, $from) = @_;
	my $other = connect_db($primary);
	run_all($other, "DELETE FROM $table", "VACUUM $table",
		"INSERT INTO $table SELECT $from + g, 'v' || g FROM generate_series(1, $n) g");
	$other->disconnect;
	caught_up();
	return;
}

sub trees { return value($on_standby, "SELECT $_[0] FROM zen_stat_standby"); }

# A cursor is in a tree that is lost, as most TIDs were used again.  Who makes another tree of the table first frees
# what is lost: with the fault, that tree gets the memory.
sub broken_under_cursor
{
	my $holder = connect_db($standby);
	run_all($dbh, 'DROP TABLE IF EXISTS zen_many', 'CREATE TABLE zen_many (id int PRIMARY KEY, w text) USING zen',
		q{INSERT INTO zen_many SELECT g, 'w' || g FROM generate_series(1, 12000) g}, 'CREATE INDEX ON zen_many (w)');
	caught_up();
	run_all($holder, 'BEGIN', 'SET LOCAL enable_seqscan = off', 'SET LOCAL enable_sort = off',
		'DECLARE c CURSOR FOR SELECT w FROM zen_many ORDER BY w');
	my @rows = @{ run_sql($holder, 'FETCH 10 FROM c')->{rows} };
	my $seen = eval {
		my $lost = trees('trees_lost');
		for (1 .. 20)
		{
			use_again('zen_many', 12000, 0);
			last if trees('trees_lost') > $lost;
		}
		cmp_ok(trees('trees_lost'), '>', $lost, 'a tree is lost under its reader');
		by_index($on_standby, 'SELECT count(*) FROM zen_many WHERE id > 0');
		my $rest = run_sql($holder, 'FETCH ALL FROM c');
		my @got = map { $_->[0] } @rows, @{ $rest->{rows} };
		my $same = $rest->{state} eq '' && join(',', @got) eq join(',', sort map { "w$_" } 1 .. 12000);
		run_sql($holder, 'COMMIT');
		value($on_standby, 'SELECT 1');
		!$same;
	};
	$seen = 1 unless defined $seen;
	eval { $holder->disconnect };
	wait_for('the standby, which may have crashed', sub { eval { value(connect_db($standby), 'SELECT 1') } });
	$on_standby = connect_db($standby);
	return $seen;
}

# A TID has another row, and a snapshot from before looks for that one's key.
sub found_by_other_key
{
	run_all($dbh, 'DROP TABLE IF EXISTS zen_few, old', 'CREATE TABLE zen_few (id int PRIMARY KEY, w text) USING zen',
		'INSERT INTO zen_few SELECT g FROM generate_series(1, 600) g',
		'CREATE TABLE old AS SELECT ctid::text AS tid FROM zen_few');
	caught_up();
	my $holder = connect_db($standby);
	run_all($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM zen_few');
	by_index($on_standby, 'SELECT count(*) FROM zen_few WHERE id = 1');
	for my $i (1 .. 10)
	{
		use_again('zen_few', 600, 1000 * $i);
		last if value($dbh, 'SELECT count(*) FROM zen_few WHERE ctid::text IN (TABLE old)') > 0;
	}
	my $new = by_index($on_standby, 'SELECT count(*) FROM zen_few WHERE id > 1000');
	my $old = by_index($holder, 'SELECT count(*) FROM zen_few WHERE id > 1000');
	$holder->disconnect;
	return $new ne '600' || $old ne '0';
}

# A snapshot that is older than the maps: with the fault the scan begins when a reader waits for it.
sub seen_by_old
{
	$on_standby->disconnect;
	$standby->restart;
	$on_standby = connect_db($standby);
	my $old = connect_db($standby);
	run_all($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	value($old, 'SELECT count(*) FROM heap_t');
	# in mode wal the scan finds the last one's versions under its xid; a second update of heap would end the reader
	run_all($dbh, both('UPDATE AM_t SET v = v + 1'), 'UPDATE zen_t SET v = v + 1');
	caught_up();
	wait_for('the maps', sub { run_sql($on_standby, 'SELECT count(*) FROM zen_t')->{state} eq '' });
	my $result = run_sql($old, differing());
	$old->disconnect;
	run_all($dbh, 'UPDATE heap_t SET v = v + 1');
	caught_up();
	return $result->{state} eq '' && $result->{rows}[0][0];
}

# goes_on -- does a transaction that has read zen tables go on behind the promotion of its standby?
sub goes_on
{
	my ($fault) = @_;
	my $other = copy_of($primary, "standby_$fault", 'base', has_streaming => 1);
	set_conf($other, "zen.fault = '$fault'");
	$other->start;
	value($dbh, 'SELECT pg_current_wal_lsn()');
	$primary->wait_for_catchup($other, 'replay', $primary->lsn('insert'));
	my $reader = connect_db($other);
	run_all($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	value($reader, 'SELECT count(*) FROM zen_t');
	promoted($other)->disconnect;
	my $state = state_of($reader, 'SELECT count(*) FROM heap_t');
	$reader->disconnect;
	$other->stop;
	return $state eq '';
}

# --- what a promotion keeps (S18) -------------------------------------------------------------------------------------

# Each of these prepares a standby, whose fault is in force, has it promoted, and returns a connection.

# A transaction that has spilled rows, which stand on pages of their own, has not ended.
sub promoted_with_losers
{
	my ($node) = @_;
	my $open = connect_db($primary);
	run_all($open, 'BEGIN', both(q{UPDATE AM_p SET v = -1, w = repeat('l', 50) WHERE id <= 3000}));
	followed($node);
	my $promoted = promoted($node);
	run_all($open, 'ROLLBACK');
	$open->disconnect;
	return $promoted;
}

# The same has aborted, but recovery ends with the abort record, before SCRUB.  Nothing waits in DRAM then.
sub promoted_before_scrub
{
	my ($node) = @_;
	run_all($dbh, 'BEGIN');
	my $xid = value($dbh, 'SELECT pg_current_xact_id()');
	set_conf($node, "recovery_target_xid = $xid\nrecovery_target_action = pause");
	$node->restart;
	my $there = connect_db($node);
	value($there, 'SELECT count(*) FROM zen_p');
	run_all($dbh, both(q{UPDATE AM_p SET v = -1, w = repeat('l', 50) WHERE id <= 3000}), 'ROLLBACK',
		'INSERT INTO heap_t VALUES (-1)', 'DELETE FROM heap_t WHERE id = -1');
	wait_for('the end of replay', sub { value($there, 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' });
	wait_for('versions to go', sub { value($there, 'SELECT versions_pending FROM zen_stat_standby') == 0 });
	value($there, 'SELECT pg_wal_replay_resume()');
	$there->disconnect;
	return wait_promoted($node);
}

# Rows were deleted.  Their slots have them still; those of other tombstones are the first that are taken.
sub promoted_with_tombstones
{
	my ($node) = @_;
	run_all($dbh, both('DELETE FROM AM_p WHERE id <= 2000'));
	followed($node);
	my $there = connect_db($node);
	wait_for('versions to go', sub { value($there, 'SELECT versions_pending FROM zen_stat_standby') == 0 });
	$there->disconnect;
	my $promoted = promoted($node);
	run_all($promoted, both('DELETE FROM AM_p WHERE id BETWEEN 2001 AND 5000'));
	return $promoted;
}

# LP alone says that a transaction from before the base backup has committed.
sub promoted_with_proof
{
	my ($node) = @_;
	followed($node);
	return promoted($node);
}

sub followed
{
	my ($node) = @_;
	value($dbh, 'SELECT pg_current_wal_lsn()');
	$primary->wait_for_catchup($node, 'replay', $primary->lsn('insert'));
	my $there = connect_db($node);
	value($there, 'SELECT count(*) FROM zen_p');
	$there->disconnect;
	return;
}

# Prepared transactions keep their regions, so each takes another one.
sub commit_in_regions
{
	my ($db) = @_;
	run_all($db, 'BEGIN', both("UPDATE AM_t SET v = v + 1 WHERE id = $_"), "PREPARE TRANSACTION 'p$_'") for 1 .. 8;
	run_all($db, map { "COMMIT PREPARED 'p$_'" } 1 .. 8);
	return;
}

# kept_wrong -- does the fault show when the promoted server has committed something, was killed and started again?
sub kept_wrong
{
	my ($fault, $promote) = @_;
	my $name = "kept_${fault}_" . ++$nkept;
	# pages of its own, with room among the rows, and in the end a transaction that is decided by LP
	run_all($dbh, map { ("DROP TABLE IF EXISTS ${_}_p",
			"CREATE TABLE ${_}_p (id int PRIMARY KEY, v int, w text) USING $_",
			"INSERT INTO ${_}_p SELECT g, 1, repeat('p', 50) FROM generate_series(1, 6000) g",
			"UPDATE ${_}_p SET w = w || 'q' WHERE id % 2 = 0", "VACUUM ${_}_p") } qw(heap zen));
	run_all($dbh, 'INSERT INTO zen_p VALUES (10000, 1)');
	$primary->backup($name);
	run_all($dbh, 'INSERT INTO heap_p VALUES (10000, 1)');
	my $node = copy_of($primary, $name, $name, has_streaming => 1);
	set_conf($node, "zen.fault = '$fault'");
	$node->start;
	my $promoted = $promote->($node);
	my $log = log_since($node, 0);
	like($log, qr/keeps the maps of the standby/, "$name: the maps are kept");
	my $seen = scalar(run_sql($promoted, q{SELECT 1 FROM zen_verify('zen_p') LIMIT 1})->{rows}->@*);
	commit_in_regions($promoted);
	inject_fault($node, $promoted, 'none');
	$promoted->disconnect;
	crash($node);
	start_again($node);
	my $again = wait_promoted($node);
	$seen ||= value($again, differing('p'));
	$again->disconnect;
	$node->stop('immediate');
	return $seen;
}

# tree_wrong -- does the fault show in the tree that a promotion has kept?  Rows have come and gone since it was read,
# and TIDs were used again.
sub tree_wrong
{
	my ($fault) = @_;
	run_all($dbh, map { ("DROP TABLE IF EXISTS ${_}_p", "CREATE TABLE ${_}_p (id int, v int) USING $_",
			"INSERT INTO ${_}_p SELECT g, 1 FROM generate_series(1, 3000) g",) } qw(heap zen));
	run_all($dbh, 'CREATE INDEX p_tree ON zen_p USING zentree (id)');
	$primary->backup("tree_$fault");
	my $node = copy_of($primary, "tree_$fault", "tree_$fault", has_streaming => 1);
	set_conf($node, "zen.fault = '$fault'\nlog_min_messages = debug1");
	$node->start;
	followed($node);
	my $there = connect_db($node);
	run_all($there, 'SET enable_seqscan = off');
	is(value($there, 'SELECT count(*) FROM zen_p WHERE id <= 20'), 20, "$fault: a tree stands in");
	$there->disconnect;
	my $reused = 0;
	run_all($dbh, 'CREATE TABLE deleted (r text)');
	my $row = q{concat((zen_p.ctid::text::point)[0], ' ', (zen_p.ctid::text::point)[1]::int % 256)};    # without code
	for my $i (1 .. 8)
	{
		run_all($dbh, "INSERT INTO deleted SELECT $row FROM zen_p WHERE id BETWEEN 300 AND 900");
		for my $change (both('DELETE FROM AM_p WHERE id BETWEEN 300 AND 900'), 'VACUUM zen_p',
			both("INSERT INTO AM_p SELECT g, $i FROM generate_series(300, 899) g"))
		{
			my $other = connect_db($primary);
			run_all($other, $change);
			$other->disconnect;
		}
		$reused += value($dbh, "SELECT count(*) FROM zen_p JOIN deleted ON r = $row");
		run_all($dbh, both("UPDATE AM_p SET id = 5000 + id + $i * 300 WHERE id BETWEEN 400 AND 500"));
	}
	run_all($dbh, 'DROP TABLE deleted');
	cmp_ok($reused, '>', 0, "$fault: TIDs are used again");
	followed($node);
	my $promoted = promoted($node);
	run_all($promoted, both('INSERT INTO AM_p SELECT g, 3 FROM generate_series(6001, 6100) g'),
		'SET enable_seqscan = off');
	my $seen = differ_by_tree($promoted);
	like(log_since($node, 0), qr/index "p_tree" keeps the tree/, "$fault: it is kept");
	$promoted->disconnect;
	$node->stop('immediate');
	return $seen;
}

# Are there keys by which the tree finds other rows than there are?
sub differ_by_tree
{
	my ($db) = @_;
	my $by_tree = value($db, q{SELECT string_agg(id || ':' || n, ' ' ORDER BY id) FROM generate_series(1, 8000) g (id),
		LATERAL (SELECT count(*) AS n FROM zen_p t WHERE t.id = g.id OFFSET 0) c WHERE n <> 0});
	my $rows = value($db, q{SELECT string_agg(id || ':' || n, ' ' ORDER BY id)
		FROM (SELECT id, count(*) AS n FROM heap_p GROUP BY id) c});
	my @findings = @{ run_sql($db, q{SELECT 1 FROM zen_verify('zen_p')})->{rows} };
	return $by_tree ne $rows || @findings > 0;
}

# test_old_xids -- the standby has versions of which pg_xact forgets what became of their transactions.
sub test_old_xids
{
	my ($fault) = @_;
	my $all = OldXids::new_primary("old_$fault", OldXids::FIRST_XID, faults => 1);
	my $other = $all->{standby} = copy_of($all->{primary}, "old_standby_$fault", 'base', has_streaming => 1);
	set_conf($other, "zen.standby_reads = on\nzen.fault = '$fault'");
	$other->start;
	OldXids::caught_up($all);
	my $reader = connect_db($other);
	is(value($reader, 'SELECT sum(v) FROM ag'), $all->{sum}, "$fault: before the cut");
	OldXids::update_rows($all);
	OldXids::cut($all);
	my $result = run_sql($reader, 'SELECT sum(v) FROM ag');
	my $right = $result->{state} eq '' && $result->{rows}[0][0] == $all->{sum};
	is($right ? 1 : 0, $fault eq 's6_forgotten' ? 0 : 1, "... and behind it ($result->{message})");
	$_->disconnect for $reader, $all->{dbh};
	$_->stop for $other, $all->{primary};
	return;
}
