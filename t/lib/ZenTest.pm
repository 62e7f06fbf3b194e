# ZenTest -- what the TAP tests of zen share: a server with a pool of its own, a
# crash of all its processes at once, connections, and the random seed.
#
# Environment:
#   ZEN_TEST_AM        table access method under test (default zen).  With "heap"
#                      the same tests run on PostgreSQL's heap, without zen: this
#                      shows that a test raises no false alarm.
#   ZEN_TEST_POOL_DIR  where pools are made (default: in memory)
#   ZEN_TEST_STREAM=logical or replica: zen.stream of all servers
#   ZEN_TEST_INJECT=1  a test spoils its own data, and must then fail
#   ZEN_TEST_KEEP=1    leave the pool file where it is
#   ZEN_FAULT_SERVER   the server that tools/fault-server has made: with faults, and settings for tests
#   SEED=n             replay with the seed that a run has printed

package ZenTest;

use strict;
use warnings;

use Carp;
use DBI;
use DBD::Pg ();
use Exporter 'import';
use File::Basename qw(dirname);
use File::Spec;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(
  am is_zen using inject skip_unless_zen skip_unless_faults skip_unless_modules has_module choose_seed pick one_in
  between
  new_node pool_path pool_mode by_wal pool_conf set_conf reload_conf start_failing start_to_die log_size log_since
  copy_tree save_server restore_server
  crash let_end start_again start_and_crash wait_for crash_restart clean_restart wait_recovered stop_asleep
  stop_wal_writer inject_fault
  compile_library build_callbacks run_program
  connect_db run_sql value run_all state_of start_statement finish_statement finish_query
  wait_until_synchronous waits_for_standby lock_wait_pid
  contents make_rows same_by_index findings is_sound
);

my %pool_of;    # node name => path of its pool file

# --- what is tested ---------------------------------------------------------

sub am { return $ENV{ZEN_TEST_AM} || 'zen'; }

sub is_zen { return am() eq 'zen'; }

sub using { return 'USING ' . am(); }

sub inject { return $ENV{ZEN_TEST_INJECT} ? 1 : 0; }

# skip_unless_zen -- end the test here when heap stands in for zen.
sub skip_unless_zen
{
	plan skip_all => 'tests what only zen has' unless is_zen();
	return;
}

# skip_unless_faults -- end the test here when there is no server that can be told to break its rules, and has the
# settings for tests (new_node with faults => 1).
sub skip_unless_faults
{
	plan skip_all => 'ZEN_FAULT_SERVER must name a server of tools/fault-server'
	  unless $ENV{ZEN_FAULT_SERVER} && is_zen();
	return;
}

# has_module -- does the server have this module of PostgreSQL's contrib/, or test_decoding?  Some builds have none.
sub has_module
{
	my ($name) = @_;
	my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
	chomp(my $folder = `"$pg_config" --pkglibdir`);
	return -e "$folder/$name.so";
}

# skip_unless_modules -- end the test here when the server lacks one of them.
sub skip_unless_modules
{
	my @missing = grep { !has_module($_) } @_;
	plan skip_all => 'the server has no ' . join(', ', @missing) if @missing;
	return;
}

# --- chance -----------------------------------------------------------------

# choose_seed -- seed rand() from SEED, or from the clock; always printed.
sub choose_seed
{
	my $seed = $ENV{SEED};
	$seed = ($$ ^ int(time() * 1000)) & 0x7fffffff
	  unless defined $seed && length $seed;
	srand($seed);
	diag("seed $seed: SEED=$seed replays this run");
	return $seed;
}

sub pick { return $_[ int(rand(@_)) ]; }

sub one_in { return rand($_[0]) < 1; }

# between -- a random integer from $low to $high, both included.
sub between
{
	my ($low, $high) = @_;
	return $low + int(rand($high - $low + 1));
}

# --- servers ----------------------------------------------------------------

# new_node -- make (but do not start) a cluster with a pool of its own.
#
# Options: pool_size, dram_size, fsync (default off: tests kill processes, not
# power), preload (default 1), pool_path, conf (more lines for postgresql.conf),
# init (a hash for PostgreSQL::Test::Cluster::init), home (the folder of another
# server, which has bin/ in it), and faults (1: the server that has zen.fault and the settings for tests).
sub new_node
{
	my ($name, %opt) = @_;

	local $ENV{PG_REGRESS} = $ENV{PG_REGRESS} || find_pg_regress();
	my $node = PostgreSQL::Test::Cluster->new($name,
		$opt{faults} ? (install_path => $ENV{ZEN_FAULT_SERVER}) :
		  $opt{home} ? (install_path => $opt{home}) : ());
	$node->init(%{ $opt{init} || {} });
	$node->append_conf('postgresql.conf', <<'END');
log_statement = none
log_error_verbosity = verbose
log_checkpoints = off
max_connections = 50
max_prepared_transactions = 30
autovacuum = off
jit = off
deadlock_timeout = 100ms
lock_timeout = 60s
statement_timeout = 600s
END
	$node->append_conf('postgresql.conf', 'fsync = on') if $opt{fsync};
	pool_conf($node, %opt) if is_zen();
	$node->append_conf('postgresql.conf', "wal_level = logical\nzen.stream = $ENV{ZEN_TEST_STREAM}")
	  if is_zen() && $ENV{ZEN_TEST_STREAM};
	$node->append_conf('postgresql.conf', $opt{conf}) if $opt{conf};
	return $node;
}

# pool_conf -- append the settings of zen to the node's postgresql.conf.  The
# last line of a setting counts, so a test may call it again to change one.
sub pool_conf
{
	my ($node, %opt) = @_;
	my $dir  = pool_dir();
	my $name = $node->name;
	my $path = $opt{pool_path} || $pool_of{$name};

	$path = sprintf('%s/zen_test_%d_%s_%d.pool', $dir, $$, $name, $node->port)
	  unless $path;
	$pool_of{$name} = $path;

	my $preload = exists $opt{preload} ? $opt{preload} : 1;
	$node->append_conf(
		'postgresql.conf', join "\n",
		'shared_preload_libraries = ' . ($preload ? "'zen'" : "''"),
		($preload
			? (
				"zen.pool_path = '$path'",
				'zen.pool_mode = ' . pool_mode($node),
				"zen.pool_size = '" . ($opt{pool_size} || '512MB') . "'",
				"zen.dram_size = '" . ($opt{dram_size} || '256MB') . "'")
			: ()));
	return;
}

# pool_mode -- zen.pool_mode of the node: what its postgresql.conf says last, SETTINGS of tools/check before all; else
# emulated.
sub pool_mode
{
	my ($node) = @_;
	my @modes = PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postgresql.conf') =~
	  /^zen\.pool_mode\s*=\s*'?(\w+)/mg;
	return @modes ? $modes[-1] : 'emulated';
}

# by_wal -- 1 if PostgreSQL's WAL makes the pool's changes durable, commits among them, else 0.
sub by_wal { return is_zen() && pool_mode($_[0]) eq 'wal' ? 1 : 0; }

# set_conf -- append lines to the node's postgresql.conf; reload_conf makes it read them.
sub set_conf
{
	my ($node, $lines) = @_;
	$node->append_conf('postgresql.conf', $lines);
	return;
}

sub reload_conf
{
	my ($node, $lines) = @_;
	set_conf($node, $lines);
	$node->reload;
	return;
}

# inject_fault -- zen.fault, on a node of new_node(faults => 1); the connection knows it on return.
sub inject_fault
{
	my ($node, $dbh, $fault) = @_;
	reload_conf($node, "zen.fault = '$fault'");
	wait_for('the fault', sub { value($dbh, 'SHOW zen.fault') eq $fault });
	return;
}

# pool_dir -- where pools are made: in memory, and in the tests' own directory if that
# is in memory, so that they go with it when a test is killed.
sub pool_dir
{
	return $ENV{ZEN_TEST_POOL_DIR} if $ENV{ZEN_TEST_POOL_DIR};
	my $own  = File::Spec->rel2abs($PostgreSQL::Test::Utils::tmp_check);
	my ($fs) = PostgreSQL::Test::Utils::run_command([ 'stat', '-f', '-c', '%T', $own ]);
	return $fs eq 'tmpfs' ? $own : '/dev/shm';
}

sub pool_path { return $pool_of{ $_[0]->name }; }

sub find_pg_regress
{
	my ($mk) = PostgreSQL::Test::Utils::run_command([ 'pg_config', '--pgxs' ]);
	chomp $mk;
	(my $path = $mk) =~ s{/src/makefiles/pgxs\.mk$}{/src/test/regress/pg_regress};
	-x $path or croak "no pg_regress beside $mk; set PG_REGRESS";
	return $path;
}

# compile_library -- compile t/lib/$source.c to a file, with defines.
sub compile_library
{
	my ($source, $library, @defines) = @_;
	my ($include) = PostgreSQL::Test::Utils::run_command([ $ENV{PG_CONFIG} || 'pg_config', '--includedir-server' ]);
	chomp $include;
	my @command = ($ENV{CC} || 'cc', '-shared', '-fPIC', '-O1', '-D_GNU_SOURCE', "-I$include", @defines,
		'-o', $library, dirname(__FILE__) . "/$source.c");
	system(@command) == 0 or croak "cannot compile: @command";
	return $library;
}

# build_callbacks -- compile t/lib/callbacks.c to a file, with NAME=$name and other defines.
sub build_callbacks
{
	my ($library, $name, @defines) = @_;
	return compile_library('callbacks', $library, "-DNAME=$name", @defines);
}

sub log_size { return -s $_[0]->logfile || 0; }

# log_since -- what the server has written to its log after log_size().
sub log_since
{
	my ($node, $offset) = @_;
	return PostgreSQL::Test::Utils::slurp_file($node->logfile, $offset);
}

# pg_ctl_start -- until the server is ready or has ended.
sub pg_ctl_start
{
	my ($node) = @_;
	local %ENV = $node->_get_env();
	PostgreSQL::Test::Utils::system_log($node->installed_command('pg_ctl'), '-w', '-D', $node->data_dir, '-l',
		$node->logfile, 'start');
	return;
}

# start_failing -- start a server that must not start.  Returns what it said in
# its log, or undef if it did start (it is stopped again).
sub start_failing
{
	my ($node) = @_;
	my $offset = log_size($node);

	# for pg_ctl of 18 a standby that ends at its start does what its settings ask for
	pg_ctl_start($node);
	return log_since($node, $offset) if !-e $node->data_dir . '/postmaster.pid';
	$node->_update_pid(1);
	$node->stop('fast');
	return;
}

# start_to_die -- start a server that dies in recovery, before or after it has said that it is ready.
sub start_to_die
{
	my ($node) = @_;
	pg_ctl_start($node);
	wait_for('the server to die', sub { !-e $node->data_dir . '/postmaster.pid' });
	return;
}

# --- copies -----------------------------------------------------------------

# copy_tree -- a file or directory takes the place of another one.
sub copy_tree
{
	my ($from, $to) = @_;
	system('rm', '-rf', $to) == 0 && system('cp', '-a', '--sparse=always', $from, $to) == 0
	  or croak "cannot copy $from to $to";
	return;
}

# save_server, restore_server -- data directory and pool of a stopped server, to $path and $path.pool, and back.
sub save_server
{
	my ($node, $path) = @_;
	copy_tree($node->data_dir, $path);
	copy_tree(pool_path($node), "$path.pool");
	return;
}

sub restore_server
{
	my ($node, $path) = @_;
	copy_tree($path, $node->data_dir);
	copy_tree("$path.pool", pool_path($node));
	return;
}

# --- crashes ----------------------------------------------------------------

# proc_stat -- (state, parent pid) of a process, or () when there is none.
sub proc_stat
{
	my ($pid) = @_;
	open(my $fh, '<', "/proc/$pid/stat") or return;
	my $line = <$fh>;
	close $fh;
	return unless defined $line && $line =~ /\)\s+(\S)\s+(\d+)/;
	return ($1, $2);
}

# descendants -- all processes below $pid.
sub descendants
{
	my ($root) = @_;
	my %children;
	opendir(my $dh, '/proc') or croak "cannot read /proc: $!";
	for my $pid (grep { /^\d+$/ } readdir $dh)
	{
		my (undef, $parent) = proc_stat($pid);
		push @{ $children{$parent} }, $pid if defined $parent;
	}
	closedir $dh;

	my @found;
	my @todo = ($root);
	while (defined(my $pid = shift @todo))
	{
		push @found, @{ $children{$pid} || [] };
		push @todo,  @{ $children{$pid} || [] };
	}
	return @found;
}

# A zombie has no memory and no files any more: for us it is gone.
sub is_gone
{
	my ($state) = proc_stat($_[0]);
	return !defined $state || $state eq 'Z';
}

sub wait_for
{
	my ($what, $condition, $timeout) = @_;
	my $end = time() + ($timeout || $PostgreSQL::Test::Utils::timeout_default);
	until ($condition->())
	{
		croak "timed out waiting for $what" if time() > $end;
		sleep 0.002;
	}
	return;
}

sub postmaster_pid
{
	my ($node) = @_;
	open(my $fh, '<', $node->data_dir . '/postmaster.pid') or return;
	my $pid = <$fh>;
	close $fh;
	return unless defined $pid && $pid =~ /^(\d+)/;
	return $1;
}

# crash -- kill the postmaster and everything below it at one moment.
#
# The postmaster is stopped first, so that it can neither start processes that
# we do not see nor shut anything down in good order.  Returns the number of
# processes killed; on return none of them exists.
sub crash
{
	my ($node) = @_;
	my $postmaster = postmaster_pid($node) or croak 'no postmaster to kill';

	kill 'STOP', $postmaster;
	wait_for(
		'the postmaster to stop',
		sub {
			my ($state) = proc_stat($postmaster);
			return !defined $state || $state =~ /[TtZ]/;
		});
	my @pids = (descendants($postmaster), $postmaster);
	kill 'KILL', @pids;
	$node->kill9;    # lets the node object know, too
	wait_for('killed processes to go', sub { !grep { !is_gone($_) } @pids });

	# Where nobody reaps orphans, a zombie keeps the pid in the lock files in use.
	remove_lock_files($node) if defined proc_stat($postmaster);
	return scalar @pids;
}

# let_end -- a process of the server has died, and restart_after_crash is off: the server ends by itself.
sub let_end
{
	my ($node) = @_;
	wait_for('the server to end by itself', sub { !postmaster_pid($node) });
	$node->kill9;    # lets the node object know, too
	return;
}

sub remove_lock_files
{
	my ($node) = @_;
	unlink $node->data_dir . '/postmaster.pid';
	unlink sprintf('%s/.s.PGSQL.%d.lock', $node->host, $node->port);
	return;
}

# start_again -- start after a crash.  A lock file whose pid was given to a
# stranger since is the one thing that may be wrong without being a bug.
sub start_again
{
	my ($node) = @_;
	local $ENV{PGCTLTIMEOUT} = $PostgreSQL::Test::Utils::timeout_default;
	my $offset = log_size($node);
	return if $node->start(fail_ok => 1);

	my $said = log_since($node, $offset);
	if ($said =~ /lock file .* already exists|pre-existing shared memory block/)
	{
		remove_lock_files($node);
		return if $node->start(fail_ok => 1);
	}
	BAIL_OUT("server does not start after a crash; its log says:\n$said");
	return;
}

# start_and_crash -- start, and kill everything $delay seconds after the
# postmaster has written its pid file: in the middle of recovery, with luck.
sub start_and_crash
{
	my ($node, $delay) = @_;
	my $old = postmaster_pid($node);
	croak 'the server is running' if defined $old && !is_gone($old);
	unlink $node->data_dir . '/postmaster.pid';
	PostgreSQL::Test::Utils::system_log('pg_ctl', '-W', '-D', $node->data_dir,
		'-l', $node->logfile, 'start') == 0
	  or croak 'pg_ctl start failed';
	wait_for('the pid file', sub { defined postmaster_pid($node) });
	sleep $delay;
	crash($node);
	return;
}

# crash_restart, clean_restart -- the server comes back after a crash, or after an orderly stop, for which the
# connection is closed; both return a new connection.
sub crash_restart
{
	my ($node) = @_;
	crash($node);
	start_again($node);
	return connect_db($node);
}

sub clean_restart
{
	my ($node, $dbh) = @_;
	$dbh->disconnect;
	$node->restart;
	return connect_db($node);
}

# wait_recovered -- until all tables and their indexes are there.
sub wait_recovered
{
	my ($dbh) = @_;
	my $ready = q{SELECT state = 'ready' AND tables_to_reindex = 0 FROM zen_recovery};
	wait_for('recovery', sub { value($dbh, $ready) });
	return;
}

# stop_asleep -- stop a process of the server, as pg_stat_activity names its kind, while it waits for work: one that
# held a lock would hold up all others.  Returns its number.
sub stop_asleep
{
	my ($dbh, $backend_type) = @_;
	my $pid = value($dbh, "SELECT pid FROM pg_stat_activity WHERE backend_type = '$backend_type'");
	my $waits = sub {
		value($dbh, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid "
			  . q{AND wait_event_type IN ('Activity', 'Extension')});
	};
	wait_for("the $backend_type to stop while it waits for work", sub {
			return 0 unless $waits->();
			kill 'STOP', $pid;
			wait_for("the $backend_type to stop", sub { my ($state) = proc_stat($pid); $state eq 'T' });
			return 1 if $waits->();
			kill 'CONT', $pid;
			return 0; });
	return $pid;
}

# stop_wal_writer -- until the next crash nobody flushes the WAL unasked, nor for those who read it.  Returns the
# numbers of the processes.
sub stop_wal_writer
{
	my ($dbh) = @_;
	my @kinds = ('walwriter');
	my $has_flusher =
	  q{SELECT current_setting('zen.stream', true) <> 'off' AND current_setting('max_wal_senders') <> '0'};
	push @kinds, 'zen flusher' if value($dbh, $has_flusher);
	for my $kind (@kinds)
	{
		wait_for($kind, sub { value($dbh, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = '$kind'") });
	}
	return map { stop_asleep($dbh, $_) } @kinds;
}

# --- connections ------------------------------------------------------------

# connect_db -- a DBI handle in autocommit mode that raises no exceptions.
sub connect_db
{
	my ($node, $db) = @_;
	my $dsn = sprintf('dbi:Pg:dbname=%s;host=%s;port=%d;options=-cclient_min_messages=error',
		$db || 'postgres', $node->host, $node->port);
	my $dbh = DBI->connect(
		$dsn, '', '',
		{
			AutoCommit          => 1,
			PrintError          => 0,
			RaiseError          => 0,
			AutoInactiveDestroy => 1,
			pg_expand_array     => 0,
		}) or croak 'cannot connect: ' . DBI->errstr;
	return $dbh;
}

# run_sql -- execute one statement as it stands (no placeholders).
#
# Returns a hash: state (SQLSTATE, '' for success), message, tag (command tag),
# rows (array of arrays), lost (true if the connection is gone).
sub run_sql
{
	my ($dbh, $sql) = @_;
	my %result = (state => '', message => '', tag => '', rows => [], lost => 0);

	my $sth = $dbh->prepare($sql, { pg_direct => 1 });
	if ($sth && $sth->execute)
	{
		$result{rows} = $sth->fetchall_arrayref if $sth->{NUM_OF_FIELDS};
		$result{tag} = $sth->{pg_cmd_status} // '';
	}
	if ($dbh->err || ($sth && $sth->err))
	{
		my $handle = $sth && $sth->err ? $sth : $dbh;
		$result{message} = $handle->errstr;
		$result{state}   = $handle->state || 'XXXXX';
		$result{lost}    = $dbh->pg_ping > 0 ? 0 : 1;
	}
	return \%result;
}

# value -- the first column of the first row; any error ends the test.
sub value
{
	my ($dbh, $sql) = @_;
	my $result = run_sql($dbh, $sql);
	croak "$result->{message}\nstatement: $sql" if $result->{state};
	return $result->{rows}[0] ? $result->{rows}[0][0] : undef;
}

# run_all -- statements, none of which may fail.
sub run_all
{
	my ($dbh, @statements) = @_;
	value($dbh, $_) for @statements;
	return;
}

# state_of -- the SQLSTATE that a statement ends with, '' for success.
sub state_of { return run_sql(@_)->{state}; }

# start_statement -- send a statement, and do not wait for its end.
sub start_statement
{
	my ($dbh, $sql) = @_;
	my $sth = $dbh->prepare($sql, { pg_direct => 1, pg_async => DBD::Pg::PG_ASYNC() });
	$sth->execute;
	return { dbh => $dbh, sth => $sth };
}

# finish_statement -- wait for its end; its command tag, or its SQLSTATE.
sub finish_statement
{
	my ($statement) = @_;
	wait_for('a statement', sub { $statement->{dbh}->pg_ready });
	return defined $statement->{dbh}->pg_result ? $statement->{sth}{pg_cmd_status} : $statement->{dbh}->state;
}

# finish_query -- the same, but of a query the first column of its first row.
sub finish_query
{
	my ($statement) = @_;
	my $end = finish_statement($statement);
	return $end =~ /^SELECT/ ? $statement->{sth}->fetchall_arrayref->[0][0] : $end;
}

# wait_until_synchronous -- wait until commits of this session wait for a standby: the checkpointer reads
# synchronous_standby_names for all, later than a session does.  The standby must be missing, or stand still.
sub wait_until_synchronous
{
	my ($watch, $dbh) = @_;
	wait_for('commits that wait for a standby', sub {
			my $commit = start_statement($dbh, q{SELECT pg_logical_emit_message(true, '', '')});
			my $waits = 0;
			wait_for('the commit', sub { ($waits = waits_for_standby($watch, $dbh->{pg_pid})) || $dbh->pg_ready; });
			value($watch, "SELECT pg_cancel_backend($dbh->{pg_pid})") if $waits;
			finish_statement($commit);
			return $waits; });
	return;
}

# waits_for_standby -- does this process wait for a synchronous standby?
sub waits_for_standby
{
	my ($watch, $pid) = @_;
	return value($watch, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND wait_event = 'SyncRep'");
}

# lock_wait_pid -- true if the backend $pid waits for a lock of another one.
sub lock_wait_pid
{
	my ($dbh, $pid) = @_;
	return value($dbh, "SELECT cardinality(pg_blocking_pids($pid)) > 0");
}

# run_program -- one test: a program of PostgreSQL, connected to the node's server, succeeds.
sub run_program
{
	my ($node, $name, @command) = @_;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my ($out, $err);
	my $ok = IPC::Run::run(\@command, '>', \$out, '2>', \$err);
	ok($ok, $name) or diag($err);
	return $out;
}

# --- tables -----------------------------------------------------------------

# contents -- number of rows and checksum of a table; $scan is one of the planner's
# enable_* kinds (seqscan, indexscan, bitmapscan), and $where must suit it.
sub contents
{
	my ($dbh, $table, $scan, $where) = @_;
	$scan  ||= 'seqscan';
	$where ||= 'true';
	for my $kind (qw(seqscan indexscan indexonlyscan bitmapscan))
	{
		value($dbh, "SET enable_$kind = " . ($kind eq $scan ? 'on' : 'off'));
	}
	my $sum = value($dbh,
		qq{SELECT count(*) || ' ' || coalesce(md5(string_agg(md5(t::text), '' ORDER BY t::text COLLATE "C")), '')
		FROM $table t WHERE $where});
	value($dbh, "RESET enable_$_") for qw(seqscan indexscan indexonlyscan bitmapscan);
	return $sum;
}

# make_rows -- a table with $rows rows, an index on k, none on n and v; returns its contents.
sub make_rows
{
	my ($dbh, $table, $rows) = @_;
	run_all($dbh,
		"CREATE TABLE $table (id int PRIMARY KEY, k int, n int DEFAULT 0, v int DEFAULT 0) " . using(),
		"CREATE INDEX ${table}_k ON $table (k)",
		"INSERT INTO $table SELECT g, g % 1000 FROM generate_series(1, $rows) g");
	return contents($dbh, $table);
}

# same_by_index -- two tests: the table has these contents, by sequential scan and by primary key.
sub same_by_index
{
	my ($dbh, $table, $contents, $when) = @_;
	is(eval { contents($dbh, $table) } // $@, $contents, "$when: table");
	is(eval { contents($dbh, $table, 'indexscan', 'id > 0') } // $@, $contents, "$when: by index");
	return;
}

# findings -- what zen_verify_pool(), and zen_verify() of each zen table of the database,
# find wrong, as texts; an error ends the test, but not that of a table dropped meanwhile.
sub findings
{
	my ($dbh) = @_;
	return () unless is_zen();
	my $tables = run_sql($dbh, q{SELECT t.relid FROM zen_stat_tables t JOIN pg_class c ON c.oid = t.relid
		WHERE c.relkind <> 't'});
	croak $tables->{message} if $tables->{state};
	my @texts;
	for my $call ('zen_verify_pool()', map { "zen_verify($_->[0])" } @{ $tables->{rows} })
	{
		my $result = run_sql($dbh, "SELECT concat_ws(' ', kind, relation, tid, location, detail) FROM $call");
		croak "$call: $result->{state} $result->{message}" if $result->{state} && $result->{state} ne '42P01';
		push @texts, map { "$call: $_->[0]" } @{ $result->{rows} };
	}
	return @texts;
}

# is_sound -- one test: there are no findings.
sub is_sound
{
	my ($dbh, $when) = @_;
	my @found = findings($dbh);
	@found = (@found[ 0 .. 9 ], 'and ' . (@found - 10) . ' more') if @found > 10;
	return is_deeply(\@found, [], "$when: zen_verify");
}

# Pools live in memory: never leave one behind.
END
{
	unless ($ENV{ZEN_TEST_KEEP})
	{
		unlink glob("$_*") for values %pool_of;
	}
}

1;
