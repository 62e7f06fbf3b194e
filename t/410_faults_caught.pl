# Proof that crashes are tested with eyes open: a zen that breaks one of its rules of
# persistence (zen.fault, src/RULES "Faults") must be seen to lose or invent something
# in a scenario that an honest zen survives.
#
# Here processes are killed and the caches survive, so a fault shows that spoils the
# accounts or the order of actions.  A fault that spoils only what is flushed, or when,
# needs a power cut.
#
# The pool is emulated.  In mode wal the WAL redoes much of what these faults spoil: t/425 and t/432 have its faults.
#
# FAULTS="a b"  only these

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use DBD::Pg ':async';
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes 'time';
use ZenTest;

skip_unless_zen();
skip_unless_faults();

# Switch => the scenario that must catch it.
my @faults = (
	[ r3_trust_lp_only             => \&two_rows ],
	[ r3_decide_early              => \&two_rows ],
	[ r3_deleted_first             => \&prepared_then_aborted ],
	[ r3_ignore_watermark          => \&prepared_then_committed ],
	[ r3_ignore_descriptor         => \&prepared_then_committed ],
	[ r4_reuse_anchor              => \&anchor_superseded ],
	[ r4_move_anchor_early         => \&anchor_after_abort ],
	[ r5_ignore_tombstones         => \&deleted ],
	[ r5_free_tombstone_early      => \&tombstones_reused ],
	[ r5_no_count_up               => \&tombstones_reused ],
	[ r5_no_recount                => \&tombstones_reused_later ],
	[ r7_no_scrub                  => \&rolled_back_prepared ],
	[ r7_losers_stay               => \&prepared_then_aborted ],
	[ r7_spilled_stay              => \&spilled_to_savepoint ],
	[ r8_no_zero                   => \&page_reused ],
	[ r9_lp_after_visible          => \&seen_and_used ],
	[ r9_no_descriptor             => \&prepared_then_committed ],
	[ r9_no_forced_flush           => \&mixed_asynchronous ],
	[ r13_no_watermark_before_free => \&evidence_dropped ],
	[ r13_no_watermark_at_recovery => \&prepared_then_committed ],
	[ r14_no_mark                  => \&numbers_burnt ],
	[ r14_ignore_mark              => \&numbers_burnt ],
	[ r15_same_cts_twice           => \&updated_twice ],
	[ r21_forgotten                => \&changed_after_save ],
	[ r21_saved_early              => \&spilled_while_saved ],
	[ r21_no_watermark             => \&evidence_untouched ],
	[ r21_untouched_early          => \&died_while_saving ],
	[ r21_old_map                  => \&old_map_restored ],
	[ r22_freed_early              => \&base_superseded ],
	[ r22_not_found                => \&base_after_crash ],
	[ r22_not_saved                => \&base_after_stop ],
	[ r22_any_base                 => \&base_spoilt ],
	[ restamp_untold               => \&locked_while_prepared ],
);
my %wanted = map { $_ => 1 } split ' ', $ENV{FAULTS} || '';
@faults = grep { !%wanted || $wanted{ $_->[0] } } @faults;

my $node = new_node('faults', pool_size => '32MB', dram_size => '64MB', faults => 1,
	conf => 'zen.pool_mode = emulated');
my $pool = pool_path($node);
my $conf = $node->data_dir . '/fault.conf';
my ($fault, @wrong, $dbh);

$node->append_conf('postgresql.conf', "include_if_exists 'fault.conf'\nautovacuum = off\nwal_writer_delay = 10s\n");
$node->start;
value($dbh = connect_db($node), 'CREATE EXTENSION zen');
$dbh->disconnect;
$node->stop;
save_image();

my %sound;
for (@faults)
{
	my ($name, $scenario) = @$_;
	$sound{$scenario} = play('none', $scenario) unless exists $sound{$scenario};
	is($sound{$scenario}, '', "the scenario of $name: all is well without a fault");
	my $found = play($name, $scenario);
	isnt($found, '', "$name is caught") and note("$name: $found");
}
# the same, and told: who meets a slot half done looks again
is(play('restamp_slowly', \&locked_while_prepared), '', 'rows that are being restamped are not taken for damaged ones')
  if grep { $_->[0] eq 'restamp_untold' } @faults;
# so is a start between two steps of a save
is(play('r21_stop_saved', \&died_while_saving), '', 'the server dies behind the file of a save')
  if grep { $_->[0] eq 'r21_untouched_early' } @faults;
done_testing();

# --- the server -------------------------------------------------------------

# An image of the stopped server, so that no fault leaves anything to the next one.
sub save_image
{
	system_ok('cp', '-r', $node->data_dir, $node->data_dir . '.image');
	system_ok('cp', $pool, "$pool.image");
	return;
}

sub restore_image
{
	system_ok('rm', '-rf', $node->data_dir);
	system_ok('cp', '-r', $node->data_dir . '.image', $node->data_dir);
	system_ok('cp', "$pool.image", $pool);
	return;
}

sub system_ok
{
	system(@_) == 0 or die "@_ failed";
	return;
}

# play -- what goes wrong in a scenario with a fault; '' for nothing.
sub play
{
	my ($scenario);
	($fault, $scenario) = @_;
	@wrong = ();
	restore_image();
	if (eval { start(); $scenario->(); 1 }) { $node->stop('immediate'); }
	else
	{
		my ($first) = split /\n/, $@;
		push @wrong, $first;
		crash($node) if $node->{_pid};
	}
	return join '; ', @wrong;
}

# start -- the server, with the fault; more settings may be given.
sub start
{
	my (@settings) = @_;
	open(my $fh, '>', $conf) or die "cannot write $conf: $!";
	print $fh "$_\n" for "zen.fault = $fault", @settings;
	close $fh;
	$node->start(fail_ok => 1) or die "the server does not start\n";
	$dbh = connect_db($node);
	return;
}

sub crash_and_start
{
	crash($node);
	start();
	return;
}

# A prepared transaction ends while zen is not loaded, so that only recovery can see to it.
sub end_without_zen
{
	my ($command) = @_;
	crash($node);
	start(q{shared_preload_libraries = ''});
	value($dbh, $command);
	$dbh->disconnect;
	$node->stop;
	start();
	return;
}

sub in_transaction
{
	my ($handle, @statements) = @_;
	value($handle, $_) for 'BEGIN', @statements;
	return;
}

# expect -- what a query must give.
sub expect
{
	my ($sql, $right) = @_;
	my $result = run_sql($dbh, $sql);
	my $found  = $result->{state} ? $result->{message} : $result->{rows}[0][0];
	$found = '(null)' unless defined $found;
	push @wrong, "$sql: $found, not $right" if $found ne $right;
	return;
}

# Other sessions have gone on, so that what was superseded or deleted is collected.
sub collect
{
	value($dbh, "VACUUM $_") for @_;
	return;
}

# --- scenarios --------------------------------------------------------------

sub two_rows
{
	value($dbh, 'CREATE TABLE t (id int, v int) USING zen');
	value($dbh, 'INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)');
	crash_and_start();
	expect('SELECT sum(v) FROM t', 60);
	return;
}

sub prepared_then_committed
{
	value($dbh, 'CREATE TABLE t (id int, v int) USING zen');
	in_transaction($dbh, 'INSERT INTO t VALUES (1, 10), (2, 20)', q{PREPARE TRANSACTION 'p'});
	end_without_zen(q{COMMIT PREPARED 'p'});
	expect('SELECT sum(v) FROM t', 30);
	crash_and_start();
	expect('SELECT sum(v) FROM t', 30);
	in_transaction($dbh, 'INSERT INTO t VALUES (3, 30), (4, 40)', q{PREPARE TRANSACTION 'p'});
	value($dbh, q{COMMIT PREPARED 'p'});
	crash_and_start();
	expect('SELECT sum(v) FROM t', 100);
	return;
}

sub prepared_then_aborted
{
	value($dbh, 'CREATE TABLE t (id int, v int) USING zen');
	value($dbh, 'INSERT INTO t VALUES (1, 10), (2, 20)');
	in_transaction($dbh, 'INSERT INTO t VALUES (3, 30), (4, 40), (5, 50)',
		'DELETE FROM t WHERE id = 1', q{PREPARE TRANSACTION 'p'});
	end_without_zen(q{ROLLBACK PREPARED 'p'});
	expect('SELECT sum(v) FROM t', 30);
	value($dbh, 'INSERT INTO t VALUES (6, 60)');
	crash_and_start();
	expect('SELECT sum(v) FROM t', 90);
	return;
}

sub rolled_back_prepared
{
	value($dbh, 'CREATE TABLE t (id int, v int) USING zen');
	in_transaction($dbh, 'INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)', q{PREPARE TRANSACTION 'p'});
	value($dbh, q{ROLLBACK PREPARED 'p'});
	value($dbh, 'INSERT INTO t VALUES (4, 40)');
	crash_and_start();
	expect('SELECT sum(v) FROM t', 40);
	return;
}

# two_regions -- this session's region has an LP in the slot of row 2, which another
# region has superseded, and row 1 has nothing but that LP to prove it.
sub two_regions
{
	my $other = connect_db($node);
	value($dbh, 'CREATE TABLE t (id int, v int) USING zen');
	in_transaction($other, 'INSERT INTO t VALUES (9, 0)', q{PREPARE TRANSACTION 'hold'});
	value($dbh, 'INSERT INTO t VALUES (1, 10), (2, 20)');
	value($other, q{COMMIT PREPARED 'hold'});
	value($other, 'UPDATE t SET v = 200 WHERE id = 2');
	value($other, 'VACUUM t');
	$other->disconnect;
	return;
}

sub anchor_superseded
{
	two_regions();
	in_transaction($dbh, 'INSERT INTO t VALUES (3, 30)', q{PREPARE TRANSACTION 'p'});
	crash_and_start();
	expect('SELECT sum(v) FROM t', 210);
	return;
}

sub anchor_after_abort
{
	two_regions();
	in_transaction($dbh, 'INSERT INTO t VALUES (3, 30)', q{PREPARE TRANSACTION 'p'});
	value($dbh, q{ROLLBACK PREPARED 'p'});
	anchor_check();
	return;
}

sub anchor_check
{
	in_transaction($dbh, 'INSERT INTO t VALUES (4, 40)', q{PREPARE TRANSACTION 'p'});
	crash_and_start();
	expect('SELECT sum(v) FROM t', 210);
	return;
}

sub deleted
{
	value($dbh, 'CREATE TABLE t (id int, v int) USING zen');
	value($dbh, 'INSERT INTO t SELECT g, g FROM generate_series(1, 10) g');
	value($dbh, 'DELETE FROM t WHERE id > 5');
	crash_and_start();
	expect('SELECT sum(v) FROM t', 15);
	return;
}

# Deleted rows whose slots are free, then tombstones for other rows.
sub tombstones_reused
{
	value($dbh, 'CREATE TABLE t (id int, v int) USING zen');
	value($dbh, 'INSERT INTO t SELECT g, g FROM generate_series(1, 100) g');
	value($dbh, 'DELETE FROM t WHERE id <= 50');
	collect('t');
	value($dbh, 'DELETE FROM t WHERE id > 50 AND id <= 99');
	collect('t');
	crash_and_start();
	expect('SELECT sum(v) FROM t', 100);
	return;
}

# The same with a restart in between, which counts the old headers again.
sub tombstones_reused_later
{
	value($dbh, 'CREATE TABLE t (id int, v int) USING zen');
	value($dbh, 'INSERT INTO t SELECT g, g FROM generate_series(1, 100) g');
	value($dbh, 'DELETE FROM t WHERE id <= 50');
	collect('t');
	crash_and_start();
	value($dbh, 'DELETE FROM t WHERE id > 50 AND id <= 99');
	collect('t');
	crash_and_start();
	expect('SELECT sum(v) FROM t', 100);
	return;
}

# start_deltas -- wide rows are written as what has changed; $end ends the present run.
sub start_deltas
{
	my ($end) = @_;
	if (($end // '') eq 'stop') { $dbh->disconnect; $node->stop }
	else                        { crash($node) }
	start('zen.deltas = on');
	return;
}

# Rows that lean on the versions before them, of which no process needs to know any more; n is 1.
sub make_deltas
{
	start_deltas();
	value($dbh, 'CREATE TABLE t (id int, n int, v text) USING zen');
	value($dbh, 'ALTER TABLE t ALTER v SET STORAGE PLAIN');
	value($dbh, q{INSERT INTO t SELECT g, 0, repeat('v', 2000) FROM generate_series(1, 100) g});
	value($dbh, 'UPDATE t SET n = 1');
	collect('t');
	return;
}

# Other rows take slots of the same size.
sub expect_deltas
{
	my ($end) = @_;
	value($dbh, q{INSERT INTO t SELECT g, 1, repeat('w', 2000) FROM generate_series(101, 300) g});
	start_deltas($end);
	expect('SELECT sum(n) FROM t', 300);
	return;
}

sub base_superseded
{
	make_deltas();
	expect_deltas();
	return;
}

sub base_after_crash
{
	make_deltas();
	start_deltas();
	expect_deltas();
	return;
}

sub base_after_stop
{
	make_deltas();
	start_deltas('stop');
	expect_deltas('stop');
	return;
}

# A damaged base is an error, and no row.
sub base_spoilt
{
	make_deltas();
	crash($node);
	open(my $fh, '+<:raw', $pool) or die "$pool: $!";
	local $/;
	my $bytes = <$fh>;
	my ($base) = $bytes =~ /\x02\0.{8}\x25\0..\x01\0.{8}(.{8})/s or die 'there is no delta';
	seek $fh, 16 * unpack('Q<', $base) + 1000, 0;
	print $fh 'spoilt';
	close $fh;
	start('zen.deltas = on');
	my $state = state_of($dbh, 'SELECT sum(n) FROM t');
	push @wrong, "a row whose base is damaged is read: '$state'" if $state ne 'XX001';
	return;
}

# Pages that were full of deleted rows get some of another table, and the slots of these
# rows' tombstones other tombstones.
sub page_reused
{
	value($dbh, 'CREATE TABLE t (id int, v text) USING zen');
	value($dbh, 'CREATE TABLE u (id int, v text) USING zen');
	value($dbh, q{INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, 10000) g});
	for ('id <= 5000', 'true')
	{
		value($dbh, "DELETE FROM t WHERE $_");
		collect('t');
	}
	value($dbh, q{INSERT INTO u SELECT g, repeat('x', 200) FROM generate_series(1, 5800) g});
	crash_and_start();
	expect('SELECT count(*) FROM t', 0);
	return;
}

# What another transaction has seen, and has built on durably, is durable.
sub seen_and_used
{
	my $other = connect_db($node);
	value($dbh, $_) for 'CREATE TABLE t (id int) USING zen', 'CREATE TABLE h (id int)';
	$dbh->do('INSERT INTO t VALUES (1), (2)', { pg_async => PG_ASYNC });
	wait_for('the rows to be seen', sub { value($other, 'SELECT count(*) FROM t') == 2 });
	value($other, 'INSERT INTO h SELECT id FROM t');
	crash_and_start();
	expect('SELECT (SELECT count(*) FROM t) || $$ $$ || (SELECT count(*) FROM h)', '2 2');
	return;
}

# Neither side may be there alone.
sub mixed_asynchronous
{
	value($dbh, $_)
	  for 'CREATE TABLE z (id int) USING zen', 'CREATE TABLE h (id int)', 'SET synchronous_commit = off';
	in_transaction($dbh, 'INSERT INTO z VALUES (1), (2)', 'INSERT INTO h VALUES (1), (2)', 'COMMIT');
	crash_and_start();
	expect('SELECT (SELECT count(*) FROM z) = (SELECT count(*) FROM h)', 1);
	return;
}

# A region's LP lies in a table that another region drops.
sub evidence_dropped
{
	my $other = connect_db($node);
	value($dbh, $_) for (
		'CREATE TABLE t (id int, v text) USING zen',
		'CREATE TABLE big (id int, v text) USING zen',
		q{INSERT INTO big SELECT g, repeat('x', 1000) FROM generate_series(1, 600) g});
	in_transaction($other, 'INSERT INTO t VALUES (9)', q{PREPARE TRANSACTION 'hold'});
	in_transaction($dbh, q{INSERT INTO t VALUES (1, 'x')},
		q{INSERT INTO big VALUES (1000, repeat('y', 1000))}, 'COMMIT');
	value($other, q{COMMIT PREPARED 'hold'});
	value($other, 'DROP TABLE big');
	$other->disconnect;
	crash_and_start();
	expect('SELECT count(*) FROM t', 2);
	return;
}

# Commit timestamps that have left no trace in any slot.
sub numbers_burnt
{
	value($dbh, 'CREATE TABLE t (id int) USING zen');
	for (1 .. 20)
	{
		in_transaction($dbh, 'INSERT INTO t VALUES (1)', 'DELETE FROM t', 'COMMIT');
	}
	value($dbh, 'CREATE TABLE young (id int) USING zen');
	crash_and_start();
	value($dbh, 'INSERT INTO young VALUES (1), (2)');
	crash_and_start();
	expect('SELECT count(*) FROM young', 2);
	return;
}

sub updated_twice
{
	value($dbh, 'CREATE TABLE t (id int, v int) USING zen');
	in_transaction($dbh, 'INSERT INTO t VALUES (1, 10), (2, 20)', 'UPDATE t SET v = 11 WHERE id = 1',
		'UPDATE t SET v = 12 WHERE id = 1', 'COMMIT');
	crash_and_start();
	expect('SELECT sum(v) FROM t', 32);
	return;
}

sub spilled_to_savepoint
{
	value($dbh, $_) for 'SET zen.spill_threshold = 0', 'CREATE TABLE t (id int, v int) USING zen';
	in_transaction($dbh, 'INSERT INTO t VALUES (1, 10), (2, 20)', 'SAVEPOINT a',
		'INSERT INTO t VALUES (3, 100), (4, 100), (5, 100)', 'ROLLBACK TO a', 'INSERT INTO t VALUES (6, 3)', 'COMMIT');
	crash_and_start();
	expect('SELECT sum(v) FROM t', 33);
	return;
}

# A table of 2 MB, which has pages of its own, and a map that tells of them.
sub saved_table
{
	value($dbh, $_) for 'CREATE TABLE t (id int, v text) USING zen',
	  q{INSERT INTO t SELECT g, repeat('x', 180) FROM generate_series(1, 10000) g};
	value($dbh, 'SELECT zen_save_map()');
	return;
}

# New versions on a page that the map tells of: it has others of this size, and room.
sub change_some
{
	value($dbh, q{UPDATE t SET v = repeat('y', 180) WHERE id BETWEEN 5000 AND 5099});
	return;
}

sub changed_after_save
{
	saved_table();
	change_some();
	crash_and_start();
	expect(q{SELECT count(*) || ' ' || count(*) FILTER (WHERE v LIKE 'y%') FROM t}, '10000 100');
	return;
}

# A large transaction holds its region, with rows in NVM, when the map is saved.
sub spilled_while_saved
{
	my $other = connect_db($node);
	saved_table();
	value($other, 'SET zen.spill_threshold = 0');
	in_transaction($other, q{UPDATE t SET v = 'open' WHERE id <= 2000});
	value($dbh, 'SELECT zen_save_map()');
	crash_and_start();
	expect(q{SELECT count(*) || ' ' || count(*) FILTER (WHERE v = 'open') FROM t}, '10000 0');
	return;
}

# The only LP of a transaction is on a page that is not read, and the page that is read has other rows of it.
sub evidence_untouched
{
	value($dbh, $_) for 'CREATE TABLE u (id int, v text) USING zen',
	  q{INSERT INTO u SELECT g, repeat('x', 180) FROM generate_series(1, 5000) g};
	saved_table();
	in_transaction($dbh, q{INSERT INTO t SELECT g, 'both' FROM generate_series(1, 10) g},
		q{INSERT INTO u VALUES (0, repeat('x', 180))}, 'COMMIT');
	value($dbh, 'SELECT zen_save_map()');
	value($dbh, 'SET zen.spill_threshold = 0');
	in_transaction($dbh, q{INSERT INTO t SELECT g, 'open' FROM generate_series(1, 10) g});
	crash_and_start();
	expect(q{SELECT count(*) || ' ' || count(*) FILTER (WHERE v = 'both') FROM t}, '10010 10');
	return;
}

# The map is saved a second time, and the server dies meanwhile if the fault says so.
sub died_while_saving
{
	saved_table();
	change_some();
	run_sql($dbh, 'SELECT zen_save_map()');
	crash_and_start();
	expect(q{SELECT count(*) || ' ' || count(*) FILTER (WHERE v LIKE 'y%') FROM t}, '10000 100');
	return;
}

sub old_map_restored
{
	my $map = $node->data_dir . '/pgsql_tmp_zen.map';
	saved_table();
	system_ok('cp', $map, "$map.old");
	change_some();
	# the next versions go to other pages
	value($dbh, q{INSERT INTO t SELECT g, repeat('z', 180) FROM generate_series(10001, 11000) g});
	value($dbh, 'SELECT zen_save_map()') for 1, 2;
	crash($node);
	system_ok('mv', "$map.old", $map);
	start();
	expect(q{SELECT count(*) || ' ' || count(*) FILTER (WHERE v LIKE 'y%') FROM t}, '11000 100');
	return;
}

# Somebody wants to lock the rows of a large transaction while PREPARE gives them all one Tx-CTS.
sub locked_while_prepared
{
	value($dbh, 'CREATE TABLE t (id int PRIMARY KEY, v int) USING zen');
	value($dbh, 'INSERT INTO t SELECT g, g FROM generate_series(1, 500) g');
	$dbh->disconnect;
	$node->stop;
	start();
	my $other = connect_db($node);
	# in opposite directions, so that they meet; once a row is locked in vain, it is in DRAM
	for (1 .. 4)
	{
		in_transaction($dbh, 'SET LOCAL zen.spill_threshold = 0', 'UPDATE t SET v = v + 1');
		$dbh->do(q{PREPARE TRANSACTION 'p'}, { pg_async => PG_ASYNC });
		my %states;
		for (my $id = 500; $id > 0 && !$dbh->pg_ready; $id--)
		{
			$states{ state_of($other, "SELECT 1 FROM t WHERE id = $id FOR UPDATE NOWAIT") }++;
		}
		push @wrong, "PREPARE: " . $dbh->errstr unless defined $dbh->pg_result;
		push @wrong, "SQLSTATE $_ of a row being prepared" for grep { $_ ne '55P03' } sort keys %states;
		value($dbh, q{ROLLBACK PREPARED 'p'});
	}
	$other->disconnect;
	return;
}
