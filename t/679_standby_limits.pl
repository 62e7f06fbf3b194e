# Reads on a hot standby at their limits (zen.standby_reads).
#
# - S6: pg_xact is cut behind what the standby has read, is restarted by, and is promoted with
# - S8: rows change all the time while a snapshot is held: DRAM stays flat, and no query is cancelled
# - S9: DRAM is full: by versions for a held snapshot, then by a transaction that has not ended
#
# XIDS=n: so many xids are really used before pg_xact is cut; by itself the server begins close to the cut.
# HOT_UPDATES=n updates of the hot row, three times (default 5000).  HOT_S=n seconds of updates of hot rows under one
# snapshot (default 3), HOT_RATE=n of them a second (default 300).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use OldXids;
use IPC::Run ();
use PoolFile;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep time);
use ZenTest;

use constant { HOT_UPDATES => $ENV{HOT_UPDATES} || 5000, WIDE_ROWS => 18000, HOT_S => $ENV{HOT_S} || 3,
	HOT_RATE => $ENV{HOT_RATE} || 300, HOT_ROWS => 20, SAMPLES => 60 };

skip_unless_zen();

test_old_xids();
test_full();
done_testing();

# standby_of -- of what new_primary has returned, with these settings.
sub standby_of
{
	my ($all, $name, $conf) = @_;
	my $standby = $all->{standby} = copy_of($all->{primary}, $name, 'base', has_streaming => 1);
	set_conf($standby, "zen.standby_reads = on\nhot_standby_feedback = off\n$conf");
	$standby->start;
	return $standby;
}

sub stat_of
{
	my ($dbh, $columns) = @_;
	return run_sql($dbh, "SELECT $columns FROM zen_stat_standby")->{rows}[0];
}

# --- S6 -----------------------------------------------------------------------------

sub is_read
{
	my ($all, $name) = @_;
	my $dbh = connect_db($all->{standby});
	is(value($dbh, 'SELECT sum(v) FROM ag'), $all->{sum}, "old xids, $name");
	is(state_of($dbh, 'SELECT * FROM ag'), '', '... each row');
	is_deeply(run_sql($dbh, q{SELECT * FROM zen_verify('ag')})->{rows}, [], '... and the map is sound');
	$dbh->disconnect;
	return;
}

sub test_old_xids
{
	my $all = new_primary('old', $ENV{XIDS} ? 0 : FIRST_XID);
	$all->{xids} = $ENV{XIDS};
	my $standby = standby_of($all, 'old_standby', 'max_standby_streaming_delay = 0');
	update_rows($all);
	caught_up($all);
	my $holder = connect_db($standby);
	run_all($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	is(value($holder, 'SELECT sum(v) FROM ag'), $all->{sum}, 'old xids: a snapshot from before');
	update_rows($all);
	# a transaction in doubt until then: it is the last of its region
	run_all($all->{dbh}, 'BEGIN', 'UPDATE ag SET v = v + 100 WHERE id = 40', q{PREPARE TRANSACTION 'y'});
	caught_up($all);
	run_all($all->{dbh}, q{ROLLBACK PREPARED 'y'});
	cut($all);
	note('the oldest xid is ' . value($all->{dbh}, 'SELECT oldest_xid FROM pg_control_checkpoint()'));
	is_read($all, 'behind the cut');
	isnt(state_of($holder, 'SELECT sum(v) FROM ag'), '', '... that snapshot is in conflict with VACUUM, as with heap');
	$holder->disconnect;
	$standby->restart;
	caught_up($all);
	is_read($all, 'behind a restart');
	test_damage($all);
	crash($standby);
	start_again($standby);
	caught_up($all);
	is_read($all, 'behind a kill');
	update_rows($all);
	caught_up($all);
	is_read($all, 'and goes on');
	my $dbh = promoted($standby);
	is_whole($dbh, $all, 'old xids, promoted');
	$dbh->disconnect;
	$all->{dbh}->disconnect;
	$_->stop for $standby, $all->{primary};
	return;
}

# zen_verify() sees a row that is damaged on the standby.
sub test_damage
{
	my ($all) = @_;
	my $dbh = connect_db($all->{standby});
	my $pool = open_pool($all->{standby}->data_dir . '/zen.pool');
	my ($htable) = map { $_->[0] } @{ run_sql($dbh, q{SELECT h.htable FROM _zen_stat_tables() h
		JOIN pg_class c USING (relfilenode) WHERE c.relname = 'ag'})->{rows} };
	# the newest version of a row that was written once
	my ($slot) = grep { !$_->{deleted} } slots_of($pool, $htable, '(0,31)');
	my $old = peek($pool, $slot->{offset} + 32, 8);
	poke($pool, $slot->{offset} + 32, pack('Q<', unpack('Q<', $old) ^ 8));
	my @found = @{ run_sql($dbh, q{SELECT kind, tid FROM zen_verify('ag')})->{rows} };
	poke($pool, $slot->{offset} + 32, $old);
	is_deeply(\@found, [ [ 'checksum', '(0,31)' ] ], 'zen_verify() on a standby sees a damaged row');
	is_deeply(run_sql($dbh, q{SELECT kind FROM zen_verify('ag')})->{rows}, [], '... and no other');
	close $pool;
	$dbh->disconnect;
	return;
}

# --- S8, S9 -------------------------------------------------------------------------

sub differ
{
	my ($dbh) = @_;
	return value($dbh, 'SELECT (' . join(' IS DISTINCT FROM ',
			map { "(SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM ${_}_wide t)" } qw(heap zen)) . ')::int');
}

sub both { return map { my $s = $_; map { $s =~ s/\bAM_/$_/gr } qw(heap_ zen_) } @_; }

sub test_full
{
	my $all = new_primary('full', 0, pool_size => '256MB');
	my $dbh = $all->{dbh};
	my $standby = standby_of($all, 'full_standby', "zen.dram_size = 24MB\nmax_standby_streaming_delay = 2s");
	run_all($dbh, map { ("CREATE TABLE ${_}_wide (id int PRIMARY KEY, v int, w text) USING $_",
				"ALTER TABLE ${_}_wide ALTER w SET STORAGE PLAIN",
				"INSERT INTO ${_}_wide SELECT g, 0, repeat('x', 1500) FROM generate_series(1, 20) g") } qw(heap zen));
	caught_up($all);
	test_hot_rows($all);
	test_hot_row($all, connect_db($standby));
	my $more = WIDE_ROWS;
	run_all($dbh, both("INSERT INTO AM_wide SELECT g, 0, repeat('x', 1500) FROM generate_series(21, $more) g"));
	test_held($all, connect_db($standby));
	test_starved($all, connect_db($standby));
	$dbh->disconnect;
	$_->stop for $standby, $all->{primary};
	return;
}

# start_updates -- of hot rows, at a limited rate, for HOT_S; each adds 1.  Returns the program, and where it reports.
sub start_updates
{
	my ($node) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/hot.sql';
	PostgreSQL::Test::Utils::append_to_file($script, '\set id random(1, ' . HOT_ROWS . ")\n"
		  . "UPDATE hot SET v = v + 1 WHERE id = :id;\n");
	my ($in, $out) = ('', '');
	my $load = IPC::Run::start([ 'pgbench', '-n', '-c', 2, '-R', HOT_RATE, '-T', HOT_S, '-f', $script,
			'-h', $node->host, '-p', $node->port, 'postgres' ], '<', \$in, '&>', \$out);
	return ($load, \$out);
}

# hot_sample -- seconds since the start, and what the standby shows.
sub hot_sample
{
	my ($dbh, $begin) = @_;
	my %sample = (s => int(time - $begin));
	@sample{qw(version_bytes queue_bytes pending cut conflicts scans)} = @{ stat_of($dbh,
			'version_bytes, queue_bytes, versions_pending, versions_cut, conflicts, scans') };
	$sample{dram_used} = value($dbh, 'SELECT dram_used_bytes FROM zen_stat');
	$sample{lag} = value($dbh, 'SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())');
	note(join ' ', 'hot rows:', map { "$_ $sample{$_}" } qw(s version_bytes queue_bytes pending cut dram_used lag))
	  if HOT_S > SAMPLES;
	return \%sample;
}

use constant ALL_HOT => q{SELECT string_agg(t::text, ',' ORDER BY id) FROM hot t};

# read_hot -- one look by each reader: one that keeps its snapshot to the end, one that keeps it for a twelfth of the
# time, and one in READ COMMITTED, for which no sum is less than an earlier one.  Returns what is wrong.
sub read_hot
{
	my ($reader) = @_;
	my @wrong;
	for my $name (qw(held renewed))
	{
		my $r = $reader->{$name};
		if (!$r->{until} || time > $r->{until})
		{
			run_all($r->{dbh}, $r->{until} ? 'COMMIT' : (), 'BEGIN ISOLATION LEVEL REPEATABLE READ');
			$r->{rows} = value($r->{dbh}, ALL_HOT);
			$r->{until} = time + $r->{seconds};
		}
		my $got = run_sql($r->{dbh}, ALL_HOT);
		push @wrong, "$name: " . ($got->{message} || $got->{rows}[0][0])
		  if $got->{state} || $got->{rows}[0][0] ne $r->{rows};
	}
	my $sum = run_sql($reader->{new}{dbh}, 'SELECT sum(v) FROM hot');
	push @wrong, 'new: ' . ($sum->{message} || "$sum->{rows}[0][0] behind $reader->{new}{sum}")
	  if $sum->{state} || $sum->{rows}[0][0] < $reader->{new}{sum};
	$reader->{new}{sum} = $sum->{rows}[0][0];
	return @wrong;
}

# Hot rows are updated while a snapshot is held, for as long as HOT_S says.  VACUUM comes, too.
sub test_hot_rows
{
	my ($all) = @_;
	my $standby = $all->{standby};
	run_all($all->{dbh}, 'CREATE TABLE hot (id int PRIMARY KEY, v int, w text) USING zen',
		q{INSERT INTO hot SELECT g, 0, repeat('h', 100) FROM generate_series(1, } . HOT_ROWS . ') g');
	caught_up($all);
	my $on_standby = connect_db($standby);
	my %reader = (held => { seconds => 1 << 30 }, renewed => { seconds => HOT_S / 12 }, new => { sum => 0 });
	$_->{dbh} = connect_db($standby) for values %reader;
	my @wrong = read_hot(\%reader);
	my ($load, $report) = start_updates($all->{primary});
	my $begin = time;
	my (@samples, $looks);
	while ($load->pumpable && time < $begin + HOT_S)
	{
		push @wrong, read_hot(\%reader);
		$looks++;
		if (time - $begin >= @samples * HOT_S / SAMPLES)
		{
			push @samples, hot_sample($on_standby, $begin);
			run_all($all->{dbh}, 'VACUUM hot');
		}
		$load->pump_nb;
		sleep 0.02;    # the readers' rate
	}
	ok($load->finish, 'hot rows: updates under a held snapshot') or diag($$report);
	my ($updates) = $$report =~ /actually processed: (\d+)/;
	caught_up($all);
	push @wrong, read_hot(\%reader);
	push @samples, hot_sample($on_standby, $begin);
	diag("hot rows: $_") for @wrong[ 0 .. ($#wrong < 9 ? $#wrong : 9) ];
	is(scalar @wrong, 0, "... which $looks looks of three readers find right, and none is cancelled");
	is($reader{new}{sum}, $updates, '... and in the end each update is seen');
	my ($most) = sort { $b <=> $a } map { $_->{version_bytes} + $_->{queue_bytes} } @samples;
	cmp_ok($most, '<', 1 << 20, "... DRAM of versions stays flat, at $most bytes at most in " . @samples . ' samples');
	cmp_ok($samples[-1]{cut}, '>', $updates / 2, "... as versions go from their chains, $samples[-1]{cut}");
	is("$samples[-1]{conflicts} $samples[-1]{scans}", "0 $samples[0]{scans}", '... without a conflict');
	is(value($on_standby, q{SELECT sum(confl_tablespace + confl_lock + confl_snapshot + confl_bufferpin
		+ confl_deadlock) FROM pg_stat_database_conflicts}), 0, '... of whatever kind');
	note(sprintf 'hot rows: %d updates in %d s, version_bytes + queue_bytes %s, dram_used %s', $updates, HOT_S,
		map { my $what = $_; join ' ', map { $what->($samples[ $_ * $#samples / 6 ]) } 0 .. 6 }
		  sub { $_[0]{version_bytes} + $_[0]{queue_bytes} }, sub { $_[0]{dram_used} });
	$_->{dbh}->disconnect for values %reader;
	$on_standby->disconnect;
	return;
}

# A row is updated often, its twin once: heap's pruning would wait for the snapshot.
sub test_hot_row
{
	my ($all, $on_standby) = @_;
	my $holder = connect_db($all->{standby});
	my @bytes;
	run_all($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	is(differ($holder), 0, 'a snapshot');
	for (1 .. 3)
	{
		run_all($all->{dbh}, 'DO $$BEGIN FOR i IN 1 .. ' . HOT_UPDATES . ' LOOP
			UPDATE zen_wide SET v = i WHERE id = 7; COMMIT; END LOOP; END$$');
		caught_up($all);
		wait_for('versions between snapshots to go',
			sub { stat_of($on_standby, 'versions_pending < 100')->[0] });
		push @bytes, stat_of($on_standby, 'version_bytes + queue_bytes')->[0];
	}
	cmp_ok($bytes[2], '<', 1 << 20, "a hot row under a held snapshot takes no DRAM for each update: @bytes");
	cmp_ok(stat_of($on_standby, 'versions_cut')->[0], '>', 2 * HOT_UPDATES, '... as versions go from its chain');
	is(differ($holder), 0, '... and the snapshot sees what it saw');
	is(value($on_standby, 'SELECT v FROM zen_wide WHERE id = 7'), HOT_UPDATES, '... and a new one what is there');
	run_all($holder, 'COMMIT');
	$holder->disconnect;
	wait_for('the rest to go', sub { stat_of($on_standby, 'versions_pending = 0')->[0] });
	run_all($all->{dbh}, 'UPDATE heap_wide SET v = ' . HOT_UPDATES . ' WHERE id = 7');
	caught_up($all);
	is(differ($on_standby), 0, 'and all that is left is right');
	$on_standby->disconnect;
	return;
}

# More rows change under a held snapshot than DRAM has room for.
sub test_held
{
	my ($all, $on_standby) = @_;
	my $holder = connect_db($all->{standby});
	caught_up($all);
	run_all($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	is(differ($holder), 0, 'a snapshot, and more rows than zen.dram_size has room for');
	my $offset = log_size($all->{standby});
	for my $i (1 .. 4)
	{
		run_all($all->{dbh}, "UPDATE zen_wide SET v = v + $i WHERE id % 4 = $_") for 0 .. 3;
	}
	caught_up($all);
	my $result = run_sql($holder, 'SELECT sum(v) FROM zen_wide');
	isnt($result->{state}, '', '... is cancelled');
	like(log_since($all->{standby}, $offset), qr/conflict with recovery.*might have needed to see row versions/s,
		'... as heap would have it');
	note("the holder: $result->{state} $result->{message}");
	note($_) for log_since($all->{standby}, $offset) =~ /^.*(?:ERROR|FATAL|DETAIL|HINT|WARNING|CONTEXT|conflict).*$/mg;
	cmp_ok(stat_of($on_standby, 'conflicts')->[0], '>=', 1, '... by a conflict');
	cmp_ok(value($on_standby, 'SELECT sum(confl_snapshot) FROM pg_stat_database_conflicts'), '>=', 1,
		'... which PostgreSQL counts');
	run_all($all->{dbh}, 'UPDATE heap_wide SET v = v + 10');
	caught_up($all);
	is(differ($on_standby), 0, '... others go on reading');
	is(stat_of($on_standby, 'state')->[0], 'live', '... as the maps stay');
	$_->disconnect for $holder, $on_standby;
	return;
}

# A transaction under way changes more than DRAM has room for: nothing can be taken back.  The next scan, 10 s later,
# leaves out what no commit has named.
sub test_starved
{
	my ($all, $on_standby) = @_;
	my $dbh = $all->{dbh};
	my $other = connect_db($all->{primary});
	run_all($dbh, q{SET zen.spill_threshold = '64kB'}, 'BEGIN');
	my $insert = start_statement($dbh, 'INSERT INTO zen_wide SELECT g, 1 FROM generate_series(100001, 600000) g');
	wait_for('errors', sub { state_of($on_standby, 'SELECT count(*) FROM zen_wide') eq '53200' });
	is(stat_of($on_standby, 'state')->[0], 'starved', 'nothing can be taken back: zen tables are errors');
	is(finish_statement($insert), 'INSERT 0 500000', '... the primary goes on');
	run_all($other, 'INSERT INTO h VALUES (1)');
	$all->{primary}->wait_for_catchup($all->{standby}, 'replay', value($other, 'SELECT pg_current_wal_flush_lsn()'));
	is(value($on_standby, 'SELECT count(*) FROM h'), 1, '... and so does replay');
	run_all($dbh, 'ROLLBACK');
	caught_up($all);
	wait_for('the maps', sub { stat_of($on_standby, 'state')->[0] eq 'live' });
	is(differ($on_standby), 0, 'the maps come back without a restart');
	$_->disconnect for $other, $on_standby;
	return;
}
