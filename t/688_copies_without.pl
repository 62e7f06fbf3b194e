# Nothing follows, backs up or is promoted without the rows of zen tables unless zen.allow_copies_without_rows says so.
#
# - zen comes to a cluster that exists: its standby follows from the first start on, or the first zen table is refused
# - whatever makes a table zen's is refused while a copy would not have its rows, and so is the copy when there are
#   tables; of the two that meet, one is refused
# - a standby that does not follow stops before it replays the commit of a zen table
# - zen_stat_stream tells whether a backup would have the rows, and why not
# - a standby hears what DRAM its primary's tables need, before it is promoted
#
# In mode wal the stream is always on: a primary without it is one in mode emulated, whose standbys have mode wal.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use File::Copy qw(copy);
use IPC::Run ();
use PoolCopies;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();

my $setting = 'zen.allow_copies_without_rows';
my $by_wal = by_wal(new_node('mode'));
my $rows = q{SELECT count(*) || ':' || sum(id) FROM t};
my $not_followed = qr/PANIC:.*zen pool.*HINT:.*base backup.*\Q$setting\E/s;

test_existing_cluster($_->@*) for (
	[ 'replica',          'replica', 0, 'primary' ],
	[ 'standby first',    'replica', 0, 'standby' ],
	[ 'sync',             'replica', 1, 'primary' ],
	[ 'off',              'off',     0, 'primary' ],
	[ 'off and sync',     'off',     1, 'standby' ]);
test_off_then_replica();
test_what_makes_tables();
test_copies_refused();
test_races();
test_archive_standby();
test_uncopied();
test_tables_before();
test_places();
test_dram();
test_new_pool('none');
test_lost_pool();
test_new_pool('r18_not_emptied') if $ENV{ZEN_FAULT_SERVER};
done_testing();

# streams -- the settings of a primary that has zen.stream so.
sub streams
{
	my ($stream) = @_;
	return "zen.stream = $stream\n" . ($by_wal ? 'zen.pool_mode = ' . ($stream eq 'off' ? 'emulated' : 'wal') : '');
}

# existing -- a primary without zen and its standby, which streams.
sub existing
{
	my ($name, $conf) = @_;
	my $node = copy_primary("$name\_a", init => { allows_streaming => 1, extra => ['--data-checksums'] },
		conf => "shared_preload_libraries = ''\n" . ($conf // ''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE h AS SELECT generate_series(1, 100) AS id');
	$node->backup('before');
	my $standby = copy_of($node, "$name\_b", 'before', has_streaming => 1);
	$standby->start;
	$node->wait_for_catchup($standby);
	return ($node, $standby);
}

sub replayed
{
	my ($node, $dbh, $standby) = @_;
	value($dbh, 'CHECKPOINT');    # flushes the WAL
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	return;
}

sub refused
{
	my ($dbh, $sql, $name) = @_;
	my $result = run_sql($dbh, $sql);
	is($result->{state}, '55000', "$name: refused") or diag($result->{message});
	like($result->{message}, qr/HINT:.*zen\.stream.*\Q$setting\E/s, "$name: the hint names both settings");
	return;
}

# rewind -- pg_rewind the old primary to the new one, and start it as its standby.
sub rewind
{
	my ($old, $new) = @_;
	my $conf = $old->data_dir . '/postgresql.conf';
	my $kept = PostgreSQL::Test::Utils::tempdir() . '/conf';
	copy($conf, $kept) or die $!;
	$new->safe_psql('postgres', 'CHECKPOINT');    # pg_control has the new timeline from there on
	PostgreSQL::Test::Utils::system_or_bail('pg_rewind', '--no-sync', '-D', $old->data_dir, '--source-server',
		$new->connstr('postgres'));
	copy($kept, $conf) or die $!;
	set_conf($old, q{synchronous_standby_names = ''});
	$old->enable_streaming($new);
	$old->start;
	return;
}

# zen is added to both, a table gets 1000 rows, the primary is killed, and the standby promoted by pg_ctl.
sub test_existing_cluster
{
	my ($name, $stream, $sync, $first) = @_;
	my ($node, $standby) = existing($name =~ tr/ /_/r);
	set_conf($_, "shared_preload_libraries = 'zen'\nzen.stream = $stream") for $node, $standby;
	set_conf($node, streams($stream));
	set_conf($node, "synchronous_standby_names = '*'") if $sync;
	$_->restart for $first eq 'primary' ? ($node, $standby) : ($standby, $node);
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'});
	my $dbh = connect_db($node);
	value($dbh, 'CREATE EXTENSION zen');
	if ($stream eq 'off')
	{
		refused($dbh, 'CREATE TABLE t (id int PRIMARY KEY) USING zen', $name);
		run_all($dbh, 'INSERT INTO h SELECT generate_series(101, 200)');
	}
	else
	{
		run_all($dbh, 'CREATE TABLE t (id int PRIMARY KEY) USING zen', 'INSERT INTO t SELECT generate_series(1, 1000)');
		is(value($dbh, 'SELECT copied FROM zen_stat_stream'), 1, "$name: base backups have the pool");
	}
	replayed($node, $dbh, $standby);
	$dbh->disconnect;
	crash($node);
	my $handle = promoted($standby);
	is(value($handle, 'SELECT count(*) FROM h'), $stream eq 'off' ? 200 : 100, "$name: promoted, heap");
	if ($stream ne 'off')
	{
		is(run_sql($handle, $rows)->{rows}[0][0], '1000:500500', "$name: promoted, all rows");
		run_all($handle, 'INSERT INTO t SELECT generate_series(1001, 1010)');
	}
	rewind($node, $standby);
	replayed($standby, $handle, $node);
	my $expected = $stream eq 'off' ? undef : value($handle, $rows);
	$handle->disconnect;
	$standby->stop;
	$handle = promoted($node);
	is(value($handle, $rows), $expected, "$name: after pg_rewind and back, all rows") if defined $expected;
	is_sound($handle, $name);
	$handle->disconnect;
	$node->stop;
	return;
}

# A cluster that has begun with zen.stream = off, and has no zen tables, begins to use it.
sub test_off_then_replica
{
	my ($node, $standby) = existing('later');
	set_conf($_, "shared_preload_libraries = 'zen'\nzen.stream = off") for $node, $standby;
	set_conf($node, streams('off'));
	$_->restart for $node, $standby;
	my $dbh = connect_db($node);
	value($dbh, 'CREATE EXTENSION zen');
	replayed($node, $dbh, $standby);
	# a base backup without zen tables may be made, and begins to follow as well
	$node->backup('empty');
	my $third = copy_of($node, 'third', 'empty', has_streaming => 1);
	$third->start;
	$dbh->disconnect;
	set_conf($node, streams('replica'));
	$node->restart;
	$dbh = connect_db($node);
	run_all($dbh, 'CREATE TABLE t (id int PRIMARY KEY) USING zen', 'INSERT INTO t SELECT generate_series(1, 1000)');
	is(pools_differ($node, $dbh, $_), '', 'off, then replica: ' . $_->name . ' has the pool') for $standby, $third;

	# again without the stream, without tables: nobody stops, and all follow later
	value($dbh, 'DROP TABLE t');
	replayed($node, $dbh, $standby);
	$standby->safe_psql('postgres', 'CHECKPOINT');    # replay begins here when it has crashed
	$dbh->disconnect;
	for my $stream ('off', 'replica')
	{
		set_conf($node, streams($stream));
		$node->restart;
		$dbh = connect_db($node);
		wait_recovered($dbh);
		replayed($node, $dbh, $_) for $standby, $third;
		$dbh->disconnect if $stream eq 'off';
	}
	run_all($dbh, 'CREATE TABLE t (id int PRIMARY KEY) USING zen', 'INSERT INTO t SELECT generate_series(1, 500)');
	is(pools_differ($node, $dbh, $_), '', 'and again: ' . $_->name . ' has the pool') for $standby, $third;
	crash($standby);
	start_again($standby);
	is(pools_differ($node, $dbh, $standby), '', 'and again: replayed once more');
	$dbh->disconnect;
	$node->stop;
	for my $copy ($standby, $third)
	{
		my $handle = promoted($copy);
		is(value($handle, $rows), '500:125250', 'off, then replica: all rows, ' . $copy->name);
		is_sound($handle, 'off, then replica: ' . $copy->name);
		$handle->disconnect;
		$copy->stop;
	}
	return;
}

# zen_primary -- a server with zen and this zen.stream, and a connection.
sub zen_primary
{
	my ($name, $stream, %opt) = @_;
	my $conf = $opt{conf} // '';
	my $node = copy_primary($name, %opt, conf => streams($stream) . "\n$conf");
	$node->start;
	my $dbh = connect_db($node);
	value($dbh, 'CREATE EXTENSION zen');
	return ($node, $dbh);
}

sub test_what_makes_tables
{
	my ($node, $dbh) = zen_primary('makes', 'off');
	run_all($dbh, 'CREATE TABLE own (id int PRIMARY KEY, v text) USING zen', q{INSERT INTO own VALUES (1, 'a')},
		'CREATE TABLE altered (id int, v text) USING zen', q{INSERT INTO altered VALUES (1, repeat('a', 100000))},
		'CREATE MATERIALIZED VIEW own_view USING zen AS SELECT * FROM own', 'CREATE TABLE heap (id int) USING heap',
		'CREATE TABLE parent (id int) PARTITION BY RANGE (id)',
		q{SELECT pg_create_physical_replication_slot('slot')});
	my $create = 'CREATE TABLE made (id int) USING zen';
	refused($dbh, $_, "a slot, $_")
	  for $create, 'CREATE TABLE made USING zen AS SELECT 1 AS id',
	  'CREATE MATERIALIZED VIEW made USING zen AS SELECT 1 AS id',
	  'CREATE MATERIALIZED VIEW made USING zen AS SELECT 1 AS id WITH NO DATA',
	  'ALTER TABLE heap SET ACCESS METHOD zen', 'CREATE TABLE made PARTITION OF parent DEFAULT USING zen',
	  "DO 'BEGIN $create; END'";
	value($dbh, 'SET default_table_access_method = zen');
	refused($dbh, $_, "a slot, $_, by default")
	  for 'CREATE TABLE made (id int)', 'CREATE TABLE made AS SELECT 1 AS id', 'SELECT 1 AS id INTO made',
	  'CREATE TABLE made PARTITION OF parent DEFAULT', 'CREATE TABLE IF NOT EXISTS made (LIKE own INCLUDING ALL)';
	value($dbh, 'RESET default_table_access_method');
	is(value($dbh, q{SELECT count(*) FROM pg_class WHERE relname = 'made'}), 0, 'a slot: nothing is left');

	# what is there goes on
	for my $sql ('VACUUM FULL own', 'CLUSTER own USING own_pkey', 'ALTER TABLE altered ALTER id TYPE bigint',
		'REFRESH MATERIALIZED VIEW own_view', 'CREATE UNIQUE INDEX ON own_view (id)',
		'REFRESH MATERIALIZED VIEW CONCURRENTLY own_view', 'TRUNCATE own',
		'ALTER TABLE altered ADD g int GENERATED ALWAYS AS (id + 1) STORED', 'VACUUM FULL altered',
		'CREATE TABLE also_heap (id int) USING heap', 'CREATE TEMP TABLE tmp (id int)')
	{
		is(state_of($dbh, $sql), '', "a slot: $sql");
	}
	set_conf($node, "$setting = on");
	$node->reload;
	wait_for('the setting', sub { value($dbh, "SHOW $setting") eq 'on' });
	is(state_of($dbh, $create), '', 'a slot: allowed by the setting');
	set_conf($node, "$setting = off");
	$node->reload;
	wait_for('the setting', sub { value($dbh, "SHOW $setting") eq 'off' });
	value($dbh, q{SELECT pg_drop_replication_slot('slot')});
	is(state_of($dbh, 'ALTER TABLE heap SET ACCESS METHOD zen'), '', 'without a slot: ALTER TABLE');
	$dbh->disconnect;
	$node->stop;
	return;
}

# tool -- run a program on the server: does it succeed, and what does it say?
sub tool
{
	my ($node, @command) = @_;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err);
	return ($ok ? 1 : 0, "$out$err");
}

sub backup_tool
{
	my ($node, @options) = @_;
	return tool($node, 'pg_basebackup', '-D', PostgreSQL::Test::Utils::tempdir() . '/copy', '-c', 'fast', '--no-sync',
		@options);
}

sub test_copies_refused
{
	my ($node, $dbh) = zen_primary('refuses', 'off', init => { allows_streaming => 'logical' });
	my $why = sub { value($dbh, 'SELECT backup_lacks_rows FROM zen_stat_stream') };
	is((backup_tool($node))[0], 1, 'without zen tables: a base backup');
	is($why->(), undef, 'without zen tables: zen_stat_stream tells of no reason');
	value($dbh, 'CREATE TABLE t (id int PRIMARY KEY) USING zen');
	like($why->() // '', qr/zen\.stream/, 'a zen table: zen_stat_stream tells of zen.stream');
	for my $options ([], ['-X', 'none'])
	{
		my ($ok, $said) = backup_tool($node, @$options);
		is($ok, 0, "a zen table: no base backup (@$options)");
		like($said, qr/FATAL:.*rows of zen tables.*HINT:.*zen\.stream.*\Q$setting\E/s,
			"and its client hears why (@$options)");
	}
	my ($ok, $said) = tool($node, 'pg_receivewal', '-D', PostgreSQL::Test::Utils::tempdir(), '--no-loop',
		'--endpos=0/1');
	is($ok, 0, 'nor pg_receivewal');
	($ok, $said) = tool($node, 'psql', '-X', 'replication=database dbname=postgres', '-c', 'IDENTIFY_SYSTEM');
	is($ok, 1, 'logical replication connects');
	is(value($dbh, q{SELECT count(*) FROM pg_create_logical_replication_slot('l', 'pgoutput')}), 1,
		'and has a slot');
	is(state_of($dbh, 'CREATE TABLE second (id int) USING zen'), '', 'which keeps nobody from a second table');
	refused($dbh, q{SELECT pg_backup_start('by hand', true)}, 'pg_backup_start()');
	run_all($dbh, 'DROP TABLE t, second', q{SELECT pg_backup_start('by hand', true)});
	my $other = connect_db($node);
	is(state_of($other, 'CREATE TABLE t (id int PRIMARY KEY) USING zen'), '', 'a table comes meanwhile');
	refused($dbh, 'SELECT pg_backup_stop()', 'pg_backup_stop()');
	$_->disconnect for $other, $dbh;
	$dbh = connect_db($node);

	set_conf($node, "$setting = on");
	$node->reload;
	wait_for('the setting', sub { value($dbh, "SHOW $setting") eq 'on' });
	is((backup_tool($node))[0], 1, 'allowed: a base backup');
	run_all($dbh, q{SELECT pg_backup_start('by hand', true)}, 'SELECT pg_backup_stop()');
	like($why->() // '', qr/zen\.stream/, 'allowed: zen_stat_stream tells so all the same');
	$dbh->disconnect;
	$node->stop;
	return;
}

# One comes while the other is not over: a table that is not committed yet, a base backup that is being taken.
sub test_races
{
	my ($node, $dbh) = zen_primary('races', 'off');
	my $other = connect_db($node);
	run_all($other, 'BEGIN', 'CREATE TABLE t (id int PRIMARY KEY) USING zen');
	is((backup_tool($node))[0], 0, 'a table that is not committed yet: no base backup');
	value($other, 'ROLLBACK');
	is((backup_tool($node))[0], 1, 'and when it is rolled back there is one');
	my ($in, $out, $err) = ('', '', '');
	my $client = IPC::Run::start([ 'psql', '-X', '-A', '-t', '-d', $node->connstr('postgres') . ' replication=true' ],
		'<', \$in, '>', \$out, '2>', \$err);
	$in = "IDENTIFY_SYSTEM;\n";
	$client->pump until $out =~ /\n/;
	refused($other, 'CREATE TABLE t (id int PRIMARY KEY) USING zen', 'a client of physical replication');
	$in = "\\q\n";
	$client->finish;
	wait_for('the client to be gone', sub { state_of($other, 'CREATE TABLE t (id int PRIMARY KEY) USING zen') eq '' });
	$_->disconnect for $other, $dbh;
	$node->stop;
	return;
}

# stopped_with -- the standby's replay has stopped it; the message must say this.
sub stopped_with
{
	my ($standby, $offset, $what, $name) = @_;
	my $stopped = eval { wait_for('the standby to stop', sub { !-e $standby->data_dir . '/postmaster.pid' }); 1 };
	ok($stopped, "$name: it stops");
	if (!$stopped)
	{
		$standby->stop;
		return;
	}
	$standby->_update_pid(0);
	like(log_since($standby, $offset), $what, "$name: and says why");
	return;
}

# goes_on -- with the setting; its zen table is an error there.
sub goes_on
{
	my ($standby, $name) = @_;
	set_conf($standby, "$setting = on");
	$standby->start;
	$standby->promote;
	my $handle = connect_db($standby);
	wait_for('the end of recovery', sub { !value($handle, 'SELECT pg_is_in_recovery()') });
	isnt(run_sql($handle, 'SELECT * FROM t')->{state}, '', "$name: allowed, the table is an error");
	is(value($handle, q{SELECT count(*) FROM pg_class WHERE relname = 't'}), 1, "$name: and is there");
	$handle->disconnect;
	$standby->stop('immediate');
	return;
}

# A standby that is fed from the archive: the primary knows nothing of it.
sub test_archive_standby
{
	my $archive = PostgreSQL::Test::Utils::tempdir();
	my ($node, $dbh) =
	  zen_primary('archives', 'off', conf => "archive_mode = on\narchive_command = 'cp %p $archive/%f'");
	$node->backup('base');
	my $standby = copy_of($node, 'fed', 'base');
	set_conf($standby, "restore_command = 'cp $archive/%f %p'");
	signal_file($standby, 'standby');
	$standby->start;
	run_all($dbh, 'CREATE TABLE t (id int PRIMARY KEY) USING zen', 'INSERT INTO t VALUES (1)');
	my $committed = value($dbh, 'SELECT pg_current_wal_lsn()');
	value($dbh, 'SELECT pg_switch_wal()');
	stopped_with($standby, 0, $not_followed, 'a standby fed from the archive');
	goes_on($standby, 'a standby fed from the archive');
	$dbh->disconnect;
	$node->stop;
	return;
}

# The stream is switched off while there are tables: standbys are not let in, and one that hears of it stops.
sub test_uncopied
{
	my ($node, $dbh) = zen_primary('leaves', 'replica');
	run_all($dbh, 'CREATE TABLE t (id int PRIMARY KEY) USING zen', 'INSERT INTO t SELECT generate_series(1, 1000)');
	$node->backup('copy');
	my @standby = map { copy_of($node, $_, 'copy', has_streaming => 1) } 'left', 'told';
	$_->start for @standby;
	replayed($node, $dbh, $_) for @standby;
	$dbh->disconnect;
	set_conf($node, streams('off'));
	$node->restart;
	$dbh = connect_db($node);
	wait_recovered($dbh);
	my $offset = log_size($standby[0]);
	wait_for('the standby to be refused', sub { log_since($standby[0], 0) =~ /FATAL:.*rows of zen tables/ });
	my $handle = promoted($standby[0]);
	is(value($handle, $rows), '1000:500500', 'the stream is off: promoted, a standby has what there was');
	$handle->disconnect;
	$standby[0]->stop;

	$offset = log_size($standby[1]);
	set_conf($node, "$setting = on");
	$node->reload;
	stopped_with($standby[1], $offset, $not_followed, 'a standby hears that the stream is off');
	goes_on($standby[1], 'a standby hears that the stream is off');
	$dbh->disconnect;
	$node->stop;
	return;
}

# A standby without the pool comes to a primary that has tables already.
sub test_tables_before
{
	my ($node, $standby) = existing('tables');
	$standby->stop;
	set_conf($_, q{shared_preload_libraries = 'zen'}) for $node, $standby;
	$node->restart;
	my $dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY) USING zen',
		'INSERT INTO t SELECT generate_series(1, 1000)');
	$dbh->disconnect;
	$node->restart;
	# what zen's recovery tells of tables comes before the backup, so that the standby starts
	$dbh = connect_db($node);
	is(value($dbh, 'SELECT count(*) FROM t'), 1000, 'recovery is over');
	$dbh->disconnect;
	$node->backup('late');
	# it has its own pool, made when it is started: the backup's is taken away
	my $late = copy_of($node, 'late', 'late', has_streaming => 1);
	unlink map { $late->data_dir . "/$_" } 'zen.state', 'zen.pool';
	$late->start;
	$dbh = connect_db($node);
	run_all($dbh, 'INSERT INTO t VALUES (1001)', 'CHECKPOINT');
	stopped_with($late, 0, $not_followed, 'a pool that was made behind the first table');
	goes_on($late, 'a pool that was made behind the first table');

	# that of before has missed nothing
	$standby->start;
	is(pools_differ($node, $dbh, $standby), '', 'a pool that was made before it follows');
	$dbh->disconnect;
	$_->stop for $node, $standby;
	return;
}

# A pool that base backups do not bring along.
sub test_places
{
	my ($node, $dbh) = zen_primary('places', 'replica');
	my $dir = PostgreSQL::Test::Utils::tempdir();
	value($dbh, 'CREATE TABLE t (id int PRIMARY KEY) USING zen');
	is((backup_tool($node))[0], 1, 'a pool in the data directory: a base backup');
	is(value($dbh, 'SELECT copied AND backup_lacks_rows IS NULL FROM zen_stat_stream'), 1,
		'and zen_stat_stream says so');
	for my $how ('elsewhere', 'a link')
	{
		$dbh->disconnect;
		$node->stop;
		my $path = $how eq 'a link' ? 'link/zen.pool' : "$dir/zen.pool";
		if ($how eq 'a link') { symlink $dir, $node->data_dir . '/link' or die $!; }
		else { system('mv', $node->data_dir . '/zen.pool', $path) == 0 or die 'mv'; }
		set_conf($node, "zen.pool_path = '$path'");
		$node->start;
		$dbh = connect_db($node);
		my ($ok, $said) = backup_tool($node);
		is($ok, 0, "a pool $how: no base backup");
		like($said, qr/ERROR:.*rows of zen tables.*DETAIL:.*zen\.pool.*HINT:.*zen\.pool_path.*\Q$setting\E/s,
			"$how: and why");
		like($said, qr/symbolic link/, 'a link: is told') if $how eq 'a link';
		like(value($dbh, 'SELECT backup_lacks_rows FROM zen_stat_stream WHERE NOT copied') // '',
			$how eq 'a link' ? qr/symbolic link/ : qr/neither in the data directory/, "$how: zen_stat_stream tells");
		is(run_sql($dbh, q{SELECT pg_backup_start('by hand', true)})->{state}, '55000', "$how: nor by hand");
		($ok, $said) = tool($node, 'psql', '-X', 'replication=true', '-c', 'IDENTIFY_SYSTEM');
		is($ok, 1, "$how: who asks for no backup is let in");
	}
	set_conf($node, "$setting = on");
	$node->reload;
	wait_for('the setting', sub { value($dbh, "SHOW $setting") eq 'on' });
	is((backup_tool($node))[0], 1, 'elsewhere: allowed by the setting');
	$dbh->disconnect;
	$node->stop;
	return;
}

# A standby with less DRAM than its primary, and then with too little to open the tables.
sub test_dram
{
	my ($node, $dbh) = zen_primary('dram', 'replica', pool_size => '256MB');
	run_all($dbh, 'CREATE TABLE t (id int) USING zen', 'INSERT INTO t VALUES (1)');
	$node->backup('copy');
	my $standby = copy_of($node, 'poor', 'copy', has_streaming => 1);
	set_conf($standby, "zen.dram_size = 16MB\nzen.met_cache_size = 1MB");
	$standby->start;
	replayed($node, $dbh, $standby);
	my $less = qr/WARNING:.*zen\.dram_size is smaller than on the primary.*HINT:.*zen\.dram_size/s;
	my $too_small =
	  qr/WARNING:.*zen\.dram_size is too small to open.*16 MB here, and 64 MB there.*HINT:.*zen\.dram_size/s;
	like(log_since($standby, 0), $less, 'less DRAM than the primary: a warning');
	unlike(log_since($standby, 0), $too_small, 'and not yet that it is too small');
	my $handle = connect_db($standby);
	is(value($handle, 'SELECT primary_dram_bytes >> 20 FROM zen_stat_stream'), 64, 'zen_stat_stream has the size');
	cmp_ok(value($handle, 'SELECT dram_needed_bytes >> 20 FROM zen_stat_stream'), '<', 16, 'and what is needed of it');

	value($dbh, 'INSERT INTO t SELECT generate_series(2, 2500000)');
	my $needed = value($dbh, 'SELECT dram_needed_bytes FROM zen_stat_stream');
	cmp_ok($needed, '>', 16 << 20, 'the primary needs more');
	wait_for('the standby to hear of it',
		sub { value($handle, 'SELECT dram_needed_bytes >> 20 FROM zen_stat_stream') >= 16 });
	like(log_since($standby, 0), $too_small, 'too little DRAM: a warning');
	$handle->disconnect;
	my $offset = log_size($standby);
	$standby->restart;
	replayed($node, $dbh, $standby);
	wait_for('the warning', sub { log_since($standby, $offset) =~ $too_small });
	$dbh->disconnect;
	$node->stop;

	# it was right; and with the primary's size all is there
	$standby->promote;
	$handle = connect_db($standby);
	my $result;
	wait_for('the end of recovery', sub {
			$result = run_sql($handle, 'SELECT count(*) FROM t');
			return $result->{message} !~ /in recovery/; });
	isnt($result->{state}, '', 'promoted with too little: an error');
	$handle->disconnect;
	set_conf($standby, 'zen.dram_size = 64MB');
	$standby->restart;
	$handle = connect_db($standby);
	is(value($handle, 'SELECT count(*) FROM t'), 2500000, 'with as much as the primary has: all rows');
	is(value($handle, 'SELECT primary_dram_bytes FROM zen_stat_stream'), undef, 'a primary is told of no other');
	$handle->disconnect;
	$standby->stop;
	return;
}

# The primary loses its pool, and begins with an empty one.  Its standby has the only rows, and is opened as its message
# says.
sub test_lost_pool
{
	my ($node, $dbh) = zen_primary('loses', 'replica');
	run_all($dbh, 'CREATE TABLE t (id int PRIMARY KEY) USING zen', 'INSERT INTO t SELECT generate_series(1, 100)');
	$node->backup('copy');
	my $standby = copy_of($node, 'keeps', 'copy', has_streaming => 1);
	$standby->start;
	run_all($dbh, 'INSERT INTO t VALUES (101)');
	replayed($node, $dbh, $standby);
	$dbh->disconnect;
	$node->stop;
	unlink map { $node->data_dir . "/$_" } 'zen.state', 'zen.pool';
	$node->start;
	wait_for('the standby to stop', sub { !-e $standby->data_dir . '/postmaster.pid' });
	$standby->_update_pid(0);
	my ($lsn) = log_since($standby, 0) =~ /PANIC: .* new, empty zen pool.*set recovery_target_lsn to (\S+),/s;
	ok($lsn, 'the primary has lost its pool: a standby with tables stops');
	$node->stop;
	set_conf($standby, <<"END");
recovery_target_lsn = '$lsn'
recovery_target_inclusive = off
recovery_target_action = promote
END
	$standby->start;
	my $handle = wait_promoted($standby);
	is(value($handle, $rows), '101:5151', 'and has all rows when it is opened');
	$handle->disconnect;
	$standby->stop;
	return;
}

# The primary gets a new pool, whose numbers begin anew: its copy forgets all that it has of the old one.  With the
# fault it takes for committed what is not.
sub test_new_pool
{
	my ($fault) = @_;
	my @faults = $fault eq 'none' ? () : (faults => 1);
	my ($node, $dbh) = zen_primary("new_$fault", 'replica', @faults);
	run_all($dbh, 'CREATE TABLE old (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO old SELECT g, repeat('o', 100) FROM generate_series(1, 2000) g});
	run_all($dbh, map { "UPDATE old SET v = v WHERE id = $_" } 1 .. 300);
	$node->backup('copy');
	my $standby = copy_of($node, "copy_$fault", 'copy', has_streaming => 1);
	set_conf($standby, "zen.fault = $fault") if @faults;
	$standby->start;
	replayed($node, $dbh, $standby);
	# whichever region the new pool's writer takes, the copy knows that it has committed more; a transaction that spills
	# keeps its region to itself
	my @writers = map { connect_db($node) } 1 .. 8;
	for my $n (1 .. @writers)
	{
		run_all($writers[ $n - 1 ], 'SET zen.spill_threshold = 0', 'BEGIN',
			"INSERT INTO old SELECT ${n}0000 + g, repeat('o', 100) FROM generate_series(1, 300) g");
	}
	run_all($_, 'COMMIT', ('UPDATE old SET v = v WHERE id = 1') x 2) for @writers;
	$_->disconnect for @writers;
	value($dbh, 'DROP TABLE old');
	replayed($node, $dbh, $standby);
	$dbh->disconnect;
	$node->stop;
	unlink map { $node->data_dir . "/$_" } 'zen.state', 'zen.pool';
	$node->start;
	$dbh = connect_db($node);
	run_all($dbh, 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO t SELECT g, repeat('t', 100) FROM generate_series(1, 100) g});
	my $other = connect_db($node);
	run_all($other, 'SET zen.spill_threshold = 0', 'BEGIN',
		q{INSERT INTO t SELECT g, repeat('u', 100) FROM generate_series(1001, 3000) g});
	my $spilled = pools_differ($node, $dbh, $standby);
	$standby->promote;
	my $handle = wait_promoted($standby);
	$_->disconnect for $other, $dbh;    # it takes back what it has spilled, and the copy would hear of it
	my $found = run_sql($handle, 'SELECT count(*) FROM t')->{rows}[0][0] // 'an error';
	if ($fault eq 'none')
	{
		is($spilled, '', 'a new pool: the pools are equal');
		is($found, 100, 'a new pool: its rows, and no others');
		is_sound($handle, 'a new pool');
	}
	else { isnt("$spilled $found", ' 100', "$fault is caught: $found rows"); }
	$handle->disconnect;
	$_->stop('immediate') for $node, $standby;
	return;
}
