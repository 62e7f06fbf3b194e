# PowerVerify -- is a recovered server sound?
#
# The contents of all tables, by sequential scan and by every index, must be a state that
# is allowed; what is prepared must be prepared and can be ended; the server must take
# more work, VACUUM, an orderly stop and another crash.

package PowerVerify;

use strict;
use warnings;

use Exporter 'import';
use PoolFile ();
use PostgreSQL::Test::Utils ();
use ZenTest;

our @EXPORT_OK = qw(state_of_db verify_recovered begin_stream);

sub tables
{
	my ($dbh) = @_;
	my $result = run_sql($dbh, q{SELECT c.relname, c.oid, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	  WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 1});
	die "$result->{message}\n" if $result->{state};
	return @{ $result->{rows} };
}

# checksum -- count and digest of a table's rows, by the scan that the settings in force choose.
sub checksum
{
	my ($dbh, $table, $where) = @_;
	return value($dbh, qq{SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, chr(10)
		ORDER BY t::text COLLATE "C")), '')
	  FROM $table t WHERE } . ($where || 'true'));
}

# is_locked -- by a prepared transaction or a session?  One that makes an index anew after a crash does not count: who
# reads waits for it, longer than the timeout on a busy machine.
sub is_locked
{
	my ($dbh, $table) = @_;
	for (1 .. 300)
	{
		return 0 if run_sql($dbh, "SELECT 1 FROM $table LIMIT 1")->{state} ne '55P03';
		return 1 if value($dbh, qq{SELECT count(*) FROM pg_locks l WHERE relation = '$table'::regclass AND granted
			AND mode = 'AccessExclusiveLock'});
	}
	die "$table cannot be read, and nobody has locked it";
}

# line_of_table -- one line of a state; a table may be locked by a prepared transaction.
sub line_of_table
{
	my ($dbh, $table) = @_;
	return "$table " . (is_locked($dbh, $table) ? 'locked' : checksum($dbh, $table));
}

# state_of_db -- { text, gids }: what a client can see, but for tables named scratch...
sub state_of_db
{
	my ($dbh) = @_;
	value($dbh, q{SET lock_timeout = '200ms'});
	my $gids = value($dbh, q{SELECT coalesce(string_agg(gid, ' ' ORDER BY gid), '') FROM pg_prepared_xacts});
	my @lines = map { line_of_table($dbh, $_->[0]) } grep { $_->[0] !~ /^scratch/ } tables($dbh);
	value($dbh, 'RESET lock_timeout');
	return { text => join("\n", "prepared: $gids", @lines), gids => $gids };
}

sub set_scans
{
	my ($dbh, $only) = @_;
	value($dbh, "SET enable_$_ = " . ($_ eq $only ? 'on' : 'off')) for qw(seqscan indexscan indexonlyscan bitmapscan);
	return;
}

# check_indexes -- every index shows what the sequential scan shows.
sub check_indexes
{
	my ($dbh, $wrong, $when) = @_;
	my $indexes = run_sql($dbh, q{SELECT i.indrelid::regclass, i.indexrelid::regclass, a.attname FROM pg_index i
	  JOIN pg_class c ON c.oid = i.indrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
	  WHERE c.relnamespace = 'public'::regnamespace ORDER BY 1, 2})->{rows};
	value($dbh, q{SET lock_timeout = '200ms'});
	for my $scan (qw(seqscan indexscan bitmapscan))
	{
		set_scans($dbh, $scan);
		for my $index (@$indexes)
		{
			my ($table, $name, $column) = @$index;
			my $sum = eval { checksum($dbh, $table, "$column IS NOT NULL") } // "error: $@";
			push @$index, $sum if $scan eq 'seqscan';
			push @$wrong, "$when: $scan of $table by $name: $sum instead of $index->[3]" if $sum ne $index->[3];
		}
	}
	value($dbh, "RESET $_") for 'lock_timeout', map { "enable_$_" } qw(seqscan indexscan indexonlyscan bitmapscan);
	return;
}

# check_recovery -- a cut, or a crash, is neither damage nor a flipped bit.
sub check_recovery
{
	my ($dbh, $wrong, $when) = @_;
	my ($damaged, $repaired) = @{ run_sql($dbh, 'SELECT damaged, repaired FROM zen_recovery')->{rows}[0] };
	push @$wrong, "$when: recovery found $damaged rows or slots damaged" if $damaged;
	push @$wrong, "$when: recovery took $repaired records for flipped bits" if $repaired;
	return;
}

# check_pool -- what zen says about itself; and R8, which it cannot look at without filling the holes of a pool in
# memory.
sub check_pool
{
	my ($dbh, $wrong, $when) = @_;
	return unless value($dbh, q{SELECT count(*) FROM pg_proc WHERE proname = 'zen_verify_pool'});
	check_recovery($dbh, $wrong, $when);
	push @$wrong, "$when: free page $_ is not zero"
	  for map { PoolFile::dirty_free_pages($_) } split /, /, value($dbh, 'SELECT path FROM zen_pool');
	my $result = run_sql($dbh, 'SELECT v::text FROM zen_verify_pool() v');
	push @$wrong, "$when: zen_verify_pool: $_->[0]" for @{ $result->{rows} };
	push @$wrong, "$when: zen_verify_pool: $result->{message}" if $result->{state};
	return;
}

# begin_stream -- where changes of tables are logged, a reader of them that has seen all from the beginning.
sub begin_stream
{
	my ($dbh) = @_;
	value($dbh, q{SELECT pg_create_logical_replication_slot('stream', 'test_decoding')})
	  if value($dbh, 'SHOW zen.stream') ne 'off' && value($dbh, 'SHOW wal_level') eq 'logical';
	return;
}

# apply_change -- what test_decoding tells of tables with the columns id, k and v, into { table }{ id }.
sub apply_change
{
	my ($tables, $change) = @_;
	my ($names, $kind, $row) = $change =~ /^table (public.*?): (INSERT|UPDATE|DELETE|TRUNCATE): ?(.*)/s or return;
	my ($name) = my @names = map { s/^public\.//r } split /, /, $names;
	if ($kind eq 'TRUNCATE') { delete @$tables{@names}; return; }
	my ($old, $new) = $row =~ /^old-key: (.*?) new-tuple: (.*)/s ? ($1, $2) : ($row, $row);
	delete $tables->{$name}{$1} if $old =~ /^id\[integer\]:(-?\d+)/ && $kind ne 'INSERT';
	$tables->{$name}{$1} = "$2 " . ($3 =~ s/''/'/gr)
	  if $kind ne 'DELETE' && $new =~ /^id\[integer\]:(-?\d+) k\[integer\]:(\S+) v\[text\]:'(.*)'$/s;
	return;
}

# check_stream -- a reader of changes comes to the rows that are there.
sub check_stream
{
	my ($dbh, $wrong, $when) = @_;
	return unless value($dbh, q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'stream'});
	value($dbh, 'CHECKPOINT');
	my %tables;
	my $changes = run_sql($dbh,
		q{SELECT data FROM pg_logical_slot_peek_changes('stream', NULL, NULL, 'include-xids', '0')});
	push @$wrong, "$when: readers of changes have $changes->{state} $changes->{message}" if $changes->{state};
	apply_change(\%tables, $_->[0]) for @{ $changes->{rows} };
	for my $table (map { $_->[0] } grep { $_->[2] eq 'zen' } tables($dbh))
	{
		my $result = run_sql($dbh, "SELECT id, coalesce(k::text, 'null') || ' ' || v FROM $table");
		next if $result->{state};
		my %there = map { $_->[0] => $_->[1] } @{ $result->{rows} };
		my %told = %{ $tables{$table} || {} };
		my ($n) = grep { ($there{$_} // 'no row') ne ($told{$_} // 'no row') } sort keys %{ { %there, %told } };
		push @$wrong, "$when: row $n of $table is '" . ($there{$n} // 'not there') . q{', but readers of changes have '}
		  . ($told{$n} // 'none') . "'" if defined $n;
	}
	return;
}

sub check
{
	my ($dbh, $allowed, $wrong, $when) = @_;
	my $state = eval { state_of_db($dbh) };
	if (!$state)
	{
		push @$wrong, "$when: $@";
		return;
	}
	push @$wrong, "$when: this state:\n$state->{text}\n  is none of these:\n" . join("\n--\n", @$allowed)
	  unless grep { $_ eq $state->{text} } @$allowed;
	check_indexes($dbh, $wrong, $when);
	check_pool($dbh, $wrong, $when);
	check_stream($dbh, $wrong, $when);
	return $state;
}

# end_prepared -- commit or roll back what is prepared; then the state must be as on heap.
sub end_prepared
{
	my ($dbh, $state, $end, $ends, $wrong) = @_;
	for my $gid (split / /, $state->{gids})
	{
		my $result = run_sql($dbh, "$end PREPARED '$gid'");
		push @$wrong, "$end PREPARED '$gid': $result->{message}" if $result->{state};
	}
	check($dbh, [ $ends->{ $state->{text} }{$end} ], $wrong, "$end PREPARED");
	return;
}

# work_on -- the same statements on a table and on a copy of it in heap.
sub work_on
{
	my ($dbh, $table, $wrong) = @_;
	value($dbh, 'DROP TABLE IF EXISTS copy');
	value($dbh, "CREATE TEMP TABLE copy USING heap AS SELECT id, k, v FROM $table");
	for my $sql (
		(map { "INSERT INTO %s (id, k, v) VALUES ($_, 1, 'work')" } 900001 .. 900003),
		"INSERT INTO %s (id, k, v) SELECT g, g, repeat('w', g % 100) FROM generate_series(910000, 910040) g",
		q{UPDATE %s SET v = v || ' worked' WHERE id % 2 = 0}, 'UPDATE %s SET k = k + 1000 WHERE id % 3 = 0',
		'DELETE FROM %s WHERE id % 5 = 1', 'DELETE FROM %s WHERE id = 900002', 'DELETE FROM %s WHERE id > 910020')
	{
		for my $where ($table, 'copy')
		{
			my $result = run_sql($dbh, sprintf $sql =~ s/%(?!s)/%%/gr, $where);
			push @$wrong, "work on $where: $result->{message} ($sql)" if $result->{state};
		}
	}
	return;
}

sub compare_copy
{
	my ($dbh, $table, $wrong, $when) = @_;
	my $diff = eval { value($dbh, "SELECT count(*) FROM (SELECT id, k, v FROM $table) t "
		  . "FULL JOIN copy c ON t.id = c.id "
		  . "AND t.k IS NOT DISTINCT FROM c.k AND t.v IS NOT DISTINCT FROM c.v WHERE t.id IS NULL OR c.id IS NULL") };
	push @$wrong, "$when: $table differs from its copy in " . ($diff // $@) . ' rows' if !defined $diff || $diff;
	return;
}

sub work
{
	my ($dbh, $wrong) = @_;
	for my $table (grep { $_->[2] eq 'zen' } tables($dbh))
	{
		my $has = value($dbh, "SELECT count(*) FROM pg_attribute WHERE attrelid = $table->[1] "
			  . "AND attname IN ('id', 'k', 'v')");
		next if $has < 3;
		eval {
			work_on($dbh, $table->[0], $wrong);
			compare_copy($dbh, $table->[0], $wrong, 'after work');
			value($dbh, "VACUUM $table->[0]");
			compare_copy($dbh, $table->[0], $wrong, 'after VACUUM');
			1;
		} or push @$wrong, "work on $table->[0]: $@";
	}
	return;
}

# run_first -- what a server does that has not recovered the pool yet, since its only worker process is another one.
sub run_first
{
	my ($dbh, $wrong, @sql) = @_;
	value($dbh, $_) for @sql;
	my $state = value($dbh, 'SELECT state FROM zen_recovery');
	push @$wrong, "recovery was to wait, but is $state" if $state ne 'waiting';
	return;
}

# verify_recovered -- start a server on files as a power cut has left them.  Returns what is wrong.
#
# options: of the postmaster; first: SQL that comes before recovery; promote: sub that makes a primary of a standby;
# allowed: the states that are right, as texts; ends: of prepared transactions; odd: roll them back; thorough: also over
# an orderly stop and another crash; compare: of PowerRun.
sub verify_recovered
{
	my ($server, %opt) = @_;
	my @wrong;
	$server->{options} = $opt{options} || ($opt{first} ? [ '-c', 'max_worker_processes=1' ] : []);
	$server->launch;
	my $dbh = $server->wait_ready;
	return if !$dbh && $server->failed_by_itself;
	return "the server does not start:\n" . $server->last_words unless $dbh;
	run_first($dbh, \@wrong, @{ $opt{first} }) if $opt{first};
	$opt{promote}->($dbh) if $opt{promote};
	my $state = check($dbh, $opt{allowed}, \@wrong, 'after the cut');
	push @wrong, "in the log: $_" for grep { /XX001/ && !/ in pg_tblspc\b/ } split /\n/,
		PostgreSQL::Test::Utils::slurp_file($server->logfile);
	$opt{compare}->($dbh, \@wrong) if $opt{compare};
	return @wrong if @wrong;
	end_prepared($dbh, $state, $opt{odd} ? 'rollback' : 'commit', $opt{ends}, \@wrong) if $state->{gids};
	return @wrong if @wrong;
	work($dbh, \@wrong);
	check_indexes($dbh, \@wrong, 'after work');
	check_pool($dbh, \@wrong, 'after work');
	if ($opt{thorough} && !@wrong)
	{
		my $now = state_of_db($dbh)->{text};
		$dbh->disconnect;
		$server->stop;
		check($dbh = $server->start, [$now], \@wrong, 'after an orderly stop');
		run_sql($dbh, "UPDATE $_->[0] SET v = 'before the crash' WHERE id % 10 = 0")
		  for grep { $_->[2] eq 'zen' } tables($dbh);
		$now = state_of_db($dbh)->{text};
		$dbh->disconnect;
		$server->crash;
		check($dbh = $server->start, [$now], \@wrong, 'after another crash');
	}
	$dbh->disconnect;
	$server->crash;
	return @wrong;
}

1;
