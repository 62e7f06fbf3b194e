# Twins -- tables of zen, each beside a table of heap that is changed in the same transactions, and a load for them.

package Twins;

use strict;
use warnings;

use CopyServers;
use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes 'time';
use ZenTest;

our @EXPORT = qw(TWINS twin_primary twin_standby create_twins rows_of twins are_twins both start_load load_beside
  kill_beside tell_compared);

use constant TWINS => qw(account item note);

# twin_primary -- a server, not started, whose standbys read zen tables; sizes and conf as for new_node.
sub twin_primary
{
	my (%opt) = @_;
	my $conf = delete $opt{conf} // '';
	return copy_primary('primary', pool_size => '128MB', dram_size => '128MB', %opt, conf => <<'END' . $conf);
zen.pool_max_size = 512MB
zen.pool_grow_by = 32MB
max_wal_senders = 10
zen.standby_reads = on
zen.spill_threshold = 64kB
END
}

# twin_standby -- from a backup of a server, and not started.  Its readers hold up replay, and not the primary.
sub twin_standby
{
	my ($primary, $name, $backup) = @_;
	my $standby = copy_of($primary, $name, $backup, has_streaming => 1);
	set_conf($standby, "hot_standby_feedback = off\nmax_standby_streaming_delay = -1");
	return $standby;
}

# create_twins -- and the extension.
sub create_twins
{
	my ($dbh) = @_;
	run_all($dbh, 'CREATE EXTENSION zen', map { my $am = $_; (
			"CREATE TABLE ${am}_account (id int PRIMARY KEY, balance int, filler text) USING $am",
			"CREATE TABLE ${am}_item (id int, v int, w text) USING $am",
			"CREATE INDEX ON ${am}_item (id)",
			"CREATE TABLE ${am}_note (id int PRIMARY KEY, body text) USING $am",
			"ALTER TABLE ${am}_note ALTER body SET STORAGE EXTERNAL",
			"INSERT INTO ${am}_account SELECT g, 1000, repeat('x', g % 200) FROM generate_series(1, 1000) g",
			"INSERT INTO ${am}_note SELECT g, repeat(g::text, 1500) FROM generate_series(1, 40) g") } qw(heap zen));
	return;
}

# rows_of -- SQL for all that a table shows, of long values their hash.
sub rows_of
{
	my ($table) = @_;
	my $columns = $table =~ /note/ ? 'id, md5(body)' : 't.*';
	return "(SELECT md5(coalesce(string_agg(r::text, ',' ORDER BY r), '')) FROM (SELECT $columns FROM $table t) r)";
}

# twins -- SQL that is 1 for each pair of twins that are equal, by one snapshot.
sub twins
{
	return 'SELECT ' . join ', ', map { '(' . rows_of("heap_$_") . ' = ' . rows_of("zen_$_") . ')::int' } TWINS;
}

# are_twins -- one test: all pairs are equal.
sub are_twins
{
	my ($db, $name) = @_;
	my $result = run_sql($db, twins());
	return is_deeply($result->{state} || $result->{rows}[0], [ map { 1 } TWINS ], $name) || tell_differences($db);
}

# A few rows that one twin has and the other has not.
sub tell_differences
{
	my ($db) = @_;
	for my $twin (TWINS)
	{
		for my $order ([ 'heap', 'zen' ], [ 'zen', 'heap' ])
		{
			my ($has, $lacks) = map { "SELECT t.* FROM ${_}_$twin t" } @$order;
			my $rows = run_sql($db, "$has EXCEPT ALL $lacks LIMIT 5")->{rows} // [];
			diag(join ' ', "$order->[0] only, $twin:", map { substr($_ // 'null', 0, 60) } @$_) for @$rows;
		}
	}
	return;
}

# both -- a statement for each of the twins, whose tables are written as AM_name.
our @prefixes = qw(heap_ zen_);

sub both { return map { my $s = $_; map { $s =~ s/\bAM_/$_/gr } @prefixes } @_; }

# load_scripts -- scripts of pgbench, each of which changes twins alike.
sub load_scripts
{
	my $folder = PostgreSQL::Test::Utils::tempdir();
	# by one snapshot: in READ COMMITTED the statements for heap and zen may see other rows
	my $begin = 'BEGIN ISOLATION LEVEL REPEATABLE READ;';
	my %script = (
		transfer => join("\n", '\set a random(1, 1000)', '\set b random(1, 1000)', '\set d random(1, 10)', $begin,
			both_text('UPDATE AM_account SET balance = balance - :d WHERE id = :a;',
				'UPDATE AM_account SET balance = balance + :d WHERE id = :b;'), 'COMMIT;'),
		savepoint => join("\n", '\set a random(1, 1000)', '\set n random(1, 30)', $begin,
			both_text("INSERT INTO AM_item SELECT :a, g, repeat('i', g) FROM generate_series(1, :n) g;"),
			'SAVEPOINT s;', both_text('UPDATE AM_item SET v = v + 1, w = NULL WHERE id = :a;',
				'DELETE FROM AM_account WHERE id = 3000 + :a;'),
			'ROLLBACK TO s;', both_text('UPDATE AM_item SET id = id + 1 WHERE id = :a AND v % 3 = 0;'), 'COMMIT;'),
		delete => join("\n", '\set a random(1, 1000)', $begin,
			both_text('DELETE FROM AM_item WHERE id BETWEEN :a AND :a + 20;'), 'COMMIT;'),
		rollback => join("\n", '\set a random(1, 1000)', $begin,
			both_text("UPDATE AM_account SET filler = repeat('r', 100) WHERE id BETWEEN :a AND :a + 100;"),
			'ROLLBACK;'),
		note => join("\n", '\set a random(1, 40)', '\set n random(1, 9)', $begin,
			both_text('UPDATE AM_note SET body = repeat(:n::text, 3000 + :a * 100) WHERE id = :a;'), 'COMMIT;'),
		spill => join("\n", '\set a random(1, 9)', $begin,
			both_text("UPDATE AM_account SET filler = repeat(:a::text, 150) WHERE id % 10 = :a;"), 'COMMIT;'),
		prepared => join("\n", '\set a random(1, 1000)', $begin,
			both_text('UPDATE AM_account SET balance = balance WHERE id = :a;'),
			"PREPARE TRANSACTION 'load:client_id';", "COMMIT PREPARED 'load:client_id';"));
	for my $name (keys %script)
	{
		PostgreSQL::Test::Utils::append_to_file("$folder/$name.sql", "$script{$name}\n");
	}
	return map { ('-f', "$folder/$_->[0].sql\@$_->[1]") }
	  [ transfer => 40 ], [ savepoint => 10 ], [ delete => 3 ], [ rollback => 3 ], [ note => 4 ], [ spill => 1 ],
	  [ prepared => 4 ];
}

# Twins are locked in one order.
sub both_text { return join "\n", both(@_); }

# start_load -- scripts of pgbench on the node's server for so many seconds, LOAD_RATE=n transactions a second (default:
# as many as it can); returns the program, for finish.
sub start_load
{
	my ($node, $seconds) = @_;
	my ($in, $out) = ('', '');
	return IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-T', $seconds, '--max-tries=100',
			$ENV{LOAD_RATE} ? ('-R', $ENV{LOAD_RATE}) : (), load_scripts(),
			'-h', $node->host, '-p', $node->port, 'postgres' ], '<', \$in, '&>', \$out);
}

# What load_beside and kill_beside have done.
my %compared = map { $_ => 0 } qw(snapshots repeatable looks held longest);
my %killed = map { $_ => 0 } qw(primary standby walreceiver terminated);

# tell_compared -- a note of all that was compared and killed.
sub tell_compared
{
	note("compared: $compared{snapshots} snapshots, $compared{repeatable} in REPEATABLE READ, "
		  . "$compared{looks} comparisons");
	note(sprintf 'held for HOLD_S: %d snapshots, the longest for %.0f s', @compared{qw(held longest)})
	  if $ENV{HOLD_S};
	note("killed: primary $killed{primary}, standby $killed{standby}, walreceiver $killed{walreceiver}; "
		  . "walreceiver terminated $killed{terminated}");
	return;
}

# load_beside -- a load on the primary, with DDL, and readers on the standby for so many seconds; four tests.
#
# compare->($reader, $seen) looks at the twins, once or several times in a transaction; $seen is a hash for what it
# found in the same.  It returns '' for equal, what differs, or the SQLSTATE of an error.  alone: a look that is not
# repeated needs no transaction.  ddl: statements, of which some are done now and then.  hold: seconds for which two
# more readers keep a snapshot.  Heap's VACUUM waits for these, and no table is locked.  zen_only: no heap table
# changes, catalogs among them, so nothing on the primary waits for a snapshot that is held.
sub load_beside
{
	my ($primary, $standby, $name, $seconds, %opt) = @_;
	# heap's pruning may wait for a reader, and the reader for a lock that replay has
	set_conf($standby, 'max_standby_streaming_delay = 10s');
	$standby->reload;
	local @prefixes = $opt{zen_only} ? 'zen_' : @prefixes;
	hold_primary($primary, $standby) if $opt{hold} && !$opt{zen_only};
	my $load = start_load($primary, $seconds);
	my ($looks, $different, $refused) = read_beside($primary, $standby, $seconds, %opt);
	ok($load->finish, "$name: the load ends");
	cmp_ok($looks, '>=', 10, "... beside comparisons of twins ($looks)");
	is($different, 0, '... that find them equal');
	is($refused, '', '... and no error but conflicts');
	return;
}

# hold_primary -- it keeps what snapshots of the standby need, also while no walreceiver is there.
sub hold_primary
{
	my ($primary, $standby) = @_;
	my $dbh = connect_db($primary);
	run_all($dbh, map { "ALTER TABLE heap_$_ SET (vacuum_truncate = off)" } TWINS);
	run_all($dbh, q{SELECT pg_create_physical_replication_slot('held') WHERE NOT EXISTS
		(SELECT FROM pg_replication_slots)});
	reload_conf($standby, "hot_standby_feedback = on\nprimary_slot_name = held\nwal_receiver_status_interval = 1s");
	wait_for('feedback', sub { value($dbh, 'SELECT count(xmin) FROM pg_replication_slots WHERE active') });
	$dbh->disconnect;
	return;
}

# A conflict may end a session that is just beginning, too.
sub connect_again
{
	my ($standby) = @_;
	my $session;
	wait_for('a session on the standby', sub { $session = eval { connect_db($standby) } });
	return $session;
}

# look -- one comparison; its result goes to $found, and counts what was compared.  True if there was no error.
sub look
{
	my ($reader, $seen, $found, %opt) = @_;
	my $wrong = $opt{compare}->($reader, $seen);
	if ($wrong =~ /^[0-9A-Z]{5}$/)
	{
		$found->{refused}{$wrong}++;
		return 0;
	}
	$found->{looks}++;
	$compared{looks}++;
	if (!$seen->{looked}++)
	{
		$compared{snapshots}++;
		$compared{repeatable}++ if $opt{repeatable};
	}
	return 1 if $wrong eq '';
	$found->{different}++;
	diag($wrong);
	return 1;
}

# look_held -- one comparison by a snapshot that is held; a new one is taken when it is time.
sub look_held
{
	my ($standby, $holder, $found, %opt) = @_;
	if (!$holder->{until} || time > $holder->{until})
	{
		$compared{held}++ if $holder->{until};
		run_all($holder->{dbh}, 'ROLLBACK', 'BEGIN ISOLATION LEVEL REPEATABLE READ');
		@$holder{qw(since until seen)} = (time, time + $opt{hold}, {});
	}
	if (!look($holder->{dbh}, $holder->{seen}, $found, %opt, repeatable => 1))
	{
		$holder->{until} = 0;
		$holder->{dbh} = connect_again($standby) if !$holder->{dbh}->ping;
		$found->{not_held}++;
		return;
	}
	my $seconds = time - $holder->{since};
	$compared{longest} = $seconds if $seconds > $compared{longest};
	return;
}

sub read_beside
{
	my ($primary, $standby, $seconds, %opt) = @_;
	my $until = time + $seconds;
	my %found = (looks => 0, different => 0, not_held => 0, refused => {});
	my @readers = map { connect_db($standby) } 1 .. 3;
	my @holders = map { { dbh => connect_db($standby) } } $opt{hold} ? (1, 2) : ();
	my $terminate = time + $seconds / 2;
	my $dml = connect_db($primary);
	my (@todo, $statement);
	# Heap's VACUUM FULL drops rows that an older snapshot of the standby sees.
	my @more = (('VACUUM FULL zen_note') x !$opt{hold}, ('ANALYZE AM_item') x !$opt{zen_only});
	while (time < $until || $found{looks} < 10)
	{
		# the second begins later
		look_held($standby, $holders[$_], \%found, %opt)
		  for grep { !$_ || time > $until - $seconds + $opt{hold} / 2 } 0 .. $#holders;
		for my $reader (@readers)
		{
			my $times = one_in(3) ? between(2, 5) : 1;
			my $repeatable = $times > 1 || !$opt{alone};
			my %seen;
			run_sql($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ') if $repeatable;
			for (1 .. $times)
			{
				look($reader, \%seen, \%found, %opt, repeatable => $repeatable) || last;
			}
			# between two statements a conflict ends the session
			if ($reader->ping) { run_sql($reader, 'ROLLBACK') if $repeatable }
			else { $reader = connect_again($standby) }
		}
		if (time > $terminate)
		{
			terminate_receiver($standby);
			$terminate = $until + 1;
		}
		# readers go on meanwhile
		next if $statement && !$dml->pg_ready;
		$dml->pg_result if $statement;
		undef $statement;    # a handle that goes would wait for what its session does by then
		@todo = !$opt{hold} && one_in(5) ? 'TRUNCATE heap_item, zen_item' :
		  !$opt{hold} && $opt{ddl} && one_in(5) ? pick(@{ $opt{ddl} }) :
		  both(pick('VACUUM AM_account', 'VACUUM AM_item', 'VACUUM AM_note', @more))
		  if !@todo;
		$statement = start_statement($dml, shift @todo);
	}
	finish_statement($statement) if $statement;
	run_all($dml, @todo);
	$_->disconnect for @readers, $dml, map { $_->{dbh} } @holders;
	is($found{not_held}, 0, 'no snapshot that was to be held has gone') if $opt{hold};
	# 08000: a conflict has ended the session
	delete @{ $found{refused} }{qw(40001 40P01 08000)};
	return (@found{qw(looks different)}, join ' ', %{ $found{refused} });
}

# --- kills --------------------------------------------------------------------------

# receiver -- the number of the process, if there is one that streams; a conflict may cancel whoever asks.
sub receiver
{
	my ($standby) = @_;
	my $dbh = connect_again($standby);
	my $result = run_sql($dbh, q{SELECT pid FROM pg_stat_wal_receiver WHERE status = 'streaming'});
	$dbh->disconnect;
	return @{ $result->{rows} } ? $result->{rows}[0][0] : undef;
}

# terminate_receiver -- the walreceiver ends amid a load, and another one goes on.
sub terminate_receiver
{
	my ($standby) = @_;
	my $pid;
	wait_for('a walreceiver', sub { $pid = receiver($standby) });
	kill 'TERM', $pid;
	wait_for('another walreceiver', sub { my $other = receiver($standby); $other && $other != $pid });
	$killed{terminated}++;
	return;
}

# restarts_after_crash -- of the server, from now on; its postmaster knows when new sessions do.
sub restarts_after_crash
{
	my ($node, $set) = @_;
	reload_conf($node, "restart_after_crash = $set");
	wait_for('restart_after_crash', sub {
			my $dbh = connect_again($node);
			my $result = run_sql($dbh, 'SHOW restart_after_crash');
			$dbh->disconnect;
			return @{ $result->{rows} } && $result->{rows}[0][0] eq $set; });
	return;
}

# kill_receiver -- the postmaster stays, ends all others, and begins anew with empty shared memory.
sub kill_receiver
{
	my ($standby) = @_;
	restarts_after_crash($standby, 'on');
	my $pid;
	wait_for('a walreceiver', sub { $pid = receiver($standby) });
	kill 'KILL', $pid;
	wait_for('a new walreceiver', sub { my $other = receiver($standby); $other && $other != $pid });
	restarts_after_crash($standby, 'off');
	return;
}

# kill_beside -- all processes of a server, or the walreceiver, are killed amid a load; all is up again on return.
# $victim: primary, standby or walreceiver.
sub kill_beside
{
	my ($primary, $standby, $victim) = @_;
	my %node = (primary => $primary, standby => $standby);
	my $load = start_load($primary, 3);
	Time::HiRes::sleep(1);    # somewhere in it
	if ($victim eq 'walreceiver') { kill_receiver($standby) }
	else { crash($node{$victim}) }
	eval { $load->kill_kill; 1 } if $victim eq 'primary';
	eval { $load->finish };
	start_again($node{$victim}) if $node{$victim};
	$killed{$victim}++;
	return;
}

1;
