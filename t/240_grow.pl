# The pool grows: by zen_pool_grow(), by zen.pool_grow_by, by a larger zen.pool_size at a start.
#
#   commands   sizes that are refused, who may, what is returned, cancelled, two at a time
#   full       a file system without room: an error, and nothing has changed
#   load       steps under clients that insert, update, delete, make and drop tables, and VACUUM; a journal in a heap
#              table, written by the same transactions, says what must be there
#   killed     the process that grows, and all of them, at random moments: the old size or the new one
#   copies     each copy of the superblock alone knows the new size; if something writes over both, the server does
#   by itself  a COPY that is larger than the pool; up to zen.pool_max_size, then 53100
#   restart    a larger size, with the saved map; a truncated file is refused
#
#   SEED=n     replays the choices
#   STEPS=n    steps under load (default 10)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use File::Copy qw(copy);
use IPC::Run ();
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep time);
use ZenTest;

skip_unless_zen();
choose_seed();

my $MB    = 1 << 20;
my $steps = $ENV{STEPS} || 10;
my $node  = new_node('grow', pool_size => '64MB', dram_size => '256MB',
	conf => "zen.pool_max_size = 2GB\nrestart_after_crash = on\nautovacuum = on\nautovacuum_naptime = 1s");
my $pool = pool_path($node);
$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE keep (id int PRIMARY KEY, v text) USING zen',
	q{INSERT INTO keep SELECT g, 'row ' || g FROM generate_series(1, 5000) g});
my $kept = contents($dbh, 'keep');

# Each transaction leaves in a heap table what it has done to the zen table.
my $script = <<'END';
\set id random(1, 100000)
\set what random(1, 10)
BEGIN;
SELECT pg_advisory_xact_lock(:id) \gset
\if :what < 8
INSERT INTO loaded VALUES (:id, repeat(md5(:id::text), :what)) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO journal VALUES (:id, repeat(md5(:id::text), :what)) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
\else
DELETE FROM loaded WHERE id = :id;
DELETE FROM journal WHERE id = :id;
\endif
END;
END

my $insert_script = <<'END';
INSERT INTO inserted SELECT :client_id, repeat('x', 500) FROM generate_series(1, 20);
END

my $ddl_script = <<'END';
CREATE TABLE ddl_:client_id AS SELECT g AS a, repeat('d', 100) AS v FROM generate_series(1, 500) g;
CREATE INDEX ON ddl_:client_id (a);
VACUUM loaded;
DROP TABLE ddl_:client_id;
INSERT INTO ddl_done VALUES (1);
END

test_commands();
test_full();
test_load();
test_killed();
test_copies();
test_by_itself();
test_restart();
$dbh->disconnect;
$node->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub size { return value($dbh, 'SELECT size_bytes FROM zen_pool') / $MB; }

sub file_size { return (-s $pool) / $MB; }

# sound -- nothing is lost, and zen finds nothing wrong.
sub sound
{
	my ($name) = @_;
	is(contents($dbh, 'keep'), $kept, "$name: nothing lost");
	is(value($dbh, 'SELECT count(*) FROM zen_verify_pool()'), 0, "$name: the pool is sound");
	is(value($dbh, q{SELECT count(*) FROM zen_verify('keep')}), 0, "$name: the table, too");
	return;
}

# is_growing -- has zen_pool_grow() begun, as zen_pool shows it?
sub is_growing { return value($dbh, 'SELECT growing_to_bytes IS NOT NULL FROM zen_pool'); }

# start_growing -- in another session.
sub start_growing
{
	my ($mb) = @_;
	my $other = connect_db($node);
	my $pid = value($other, 'SELECT pg_backend_pid()');
	return { dbh => $other, pid => $pid, statement => start_statement($other, "SELECT zen_pool_grow('${mb}MB')") };
}

# reconnect -- after a crash of a process.
sub reconnect
{
	$dbh->disconnect;
	wait_for('connections', sub { $dbh = eval { connect_db($node) } });
	wait_recovered($dbh);
	return;
}

# fill -- rows of 1 KB in table $name; returns the SQLSTATE.
sub fill
{
	my ($name, $mb) = @_;
	my $rows = $mb * 1000;
	return state_of($dbh, "INSERT INTO $name SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, $rows) g");
}

# --- the tests --------------------------------------------------------------

sub test_commands
{
	is(size(), 64, 'commands: size');
	is(value($dbh, 'SELECT max_size_bytes FROM zen_pool') / $MB, 2048, 'commands: largest size');
	for my $case ([ '32MB', '22023', qr/cannot become smaller/ ], [ '4GB', '53400', qr/cannot grow to 4096 MB/ ],
		[ 'much', '22023', qr/invalid size/ ], [ '-1', '22023', qr/invalid size/ ], [ '', '22023', qr/invalid size/ ])
	{
		my ($size, $state, $text) = @$case;
		my $result = run_sql($dbh, "SELECT zen_pool_grow('$size')");
		is($result->{state}, $state, "commands: '$size': SQLSTATE");
		like($result->{message}, $text, "commands: '$size': message");
		like($result->{message}, qr/HINT:/, "commands: '$size': hint");
	}
	is(value($dbh, q{SELECT zen_pool_grow('64MB')}), 64 * $MB, 'commands: the size that it has');
	run_all($dbh, 'CREATE ROLE operator', 'SET ROLE operator');
	is(state_of($dbh, q{SELECT zen_pool_grow('80MB')}), '42501', 'commands: not everybody may');
	run_all($dbh, 'RESET ROLE', 'GRANT EXECUTE ON FUNCTION zen_pool_grow TO operator', 'SET ROLE operator');
	my $log = log_size($node);
	is(value($dbh, q{SELECT zen_pool_grow('80MB')}), 80 * $MB, 'commands: who was granted it may');
	run_all($dbh, 'RESET ROLE');
	like(log_since($node, $log), qr/zen pool file "\Q$pool\E" has grown from 64 to 80 MB/, 'commands: in the log');
	is(size(), 80, 'commands: new size');
	is(file_size(), 80, 'commands: of the file, too');
	is(value($dbh, q{SELECT max_size_bytes >= size_bytes AND p.pages_total = s.pages_total AND pool_used_percent < 10
		FROM zen_pool p, zen_stat s}), 1, 'commands: zen_stat says the same');

	# a rollback leaves it
	run_all($dbh, 'BEGIN', q{SELECT zen_pool_grow('96MB')}, 'ROLLBACK');
	is(size(), 96, 'commands: not undone by a rollback');

	# cancelled on the way
	for my $how ('pg_cancel_backend', 'pg_terminate_backend')
	{
		my $grower = start_growing(1500);
		wait_for('growing', \&is_growing);
		value($dbh, "SELECT $how($grower->{pid})");
		my $end = eval { finish_statement($grower->{statement}) } // 'gone';
		isnt($end, 'SELECT 1', "commands: $how");
		wait_for('the end of growing', sub { !is_growing() });
		is(size(), 96, "commands: $how: as before");
		is(file_size(), 96, "commands: $how: the file, too");
		$grower->{dbh}->disconnect;
	}

	# two at a time, to the same size and to a larger one
	my @growers = map { start_growing($_) } 400, 400, 420;
	cmp_ok(finish_query($_->{statement}), '>=', 400 * $MB, 'commands: one of three') for @growers;
	is(size(), 420, 'commands: three at a time');
	$_->{dbh}->disconnect for @growers;
	sound('commands');
	return;
}

# A limit of the process's files stands in for a full file system: the same call fails.
sub test_full
{
	my $other = connect_db($node);
	my $pid = value($other, 'SELECT pg_backend_pid()');
	PostgreSQL::Test::Utils::system_or_bail('prlimit', '--pid', $pid, '--fsize=' . 500 * $MB);
	my $result = run_sql($other, q{SELECT zen_pool_grow('600MB')});
	like($result->{message}, qr/could not make the zen pool larger/, 'full: message');
	like($result->{message}, qr/keeps its 420 MB.*HINT:.*Free space/s, 'full: detail and hint');
	is(size(), 420, 'full: as before');
	is(file_size(), 420, 'full: the file, too');
	is(value($other, q{SELECT zen_pool_grow('450MB')}), 450 * $MB, 'full: a smaller step');
	$other->disconnect;
	sound('full');
	return;
}

sub pgbench
{
	my ($name, $text, @options) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/$name.sql";
	PostgreSQL::Test::Utils::append_to_file($file, $text);
	my %run = (out => '', err => '');
	$run{run} = IPC::Run::start([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-f', $file, '-T', 3600,
		'--log', "--log-prefix=$PostgreSQL::Test::Utils::tmp_check/$name", @options, 'postgres' ],
		'<', \undef, '>', \$run{out}, '2>', \$run{err});
	return \%run;
}

# worst_ms -- the slowest transaction of a run, from its log.
sub worst_ms
{
	my ($name) = @_;
	my $worst = 0;
	for my $file (glob "$PostgreSQL::Test::Utils::tmp_check/$name.[0-9]*")
	{
		for (split /\n/, PostgreSQL::Test::Utils::slurp_file($file))
		{
			my $us = (split ' ')[2];
			$worst = $us if $us > $worst;
		}
	}
	return $worst / 1000;
}

sub test_load
{
	my $begin = size();
	run_all($dbh, 'CREATE TABLE loaded (id int PRIMARY KEY, v text) USING zen',
		'CREATE TABLE journal (id int PRIMARY KEY, v text) USING heap',
		'CREATE TABLE inserted (c int, v text) USING zen',
		'CREATE TABLE ddl_done (n int) USING heap',
		'SET default_table_access_method = zen', 'ALTER DATABASE postgres SET default_table_access_method = zen');
	my %load = (load => pgbench('load', $script, '-c', 8, '-j', 2),
		insert => pgbench('insert', $insert_script, '-c', 1), ddl => pgbench('ddl', $ddl_script, '-c', 1));
	my @progress = ('SELECT count(*) / 1000 FROM inserted', 'SELECT count(*) FROM ddl_done',
		'SELECT count(*) / 100 FROM journal');
	for my $step (1 .. $steps)
	{
		my @before = map { value($dbh, $_) } @progress;
		value($dbh, sprintf q{SELECT zen_pool_grow('%dMB')}, $begin + 16 * $step);
		wait_for('clients to go on', sub { !grep { value($dbh, $progress[$_]) <= $before[$_] } 0 .. $#progress });
	}
	for my $name (sort keys %load)
	{
		my $run = $load{$name};
		is($run->{run}->pumpable ? 'runs' : "ended: $run->{err}", 'runs', "load: $name went on to the end");
		$run->{run}->signal('INT');
		$run->{run}->finish;
		unlike($run->{err}, qr/ERROR|FATAL|aborted/, "load: no error of $name") or diag($run->{err});
		note(sprintf 'load: the slowest transaction of %s: %.1f ms', $name, worst_ms($name));
	}
	is(size(), $begin + 16 * $steps, "load: $steps steps");
	wait_for('clients to be gone', sub { value($dbh, q{SELECT count(*) = 0 FROM pg_stat_activity
		WHERE application_name = 'pgbench'}) });
	is(value($dbh, 'SELECT count(*) FROM ((TABLE loaded EXCEPT TABLE journal) UNION ALL
		(TABLE journal EXCEPT TABLE loaded)) d'), 0, 'load: the table is as the journal says');
	cmp_ok(value($dbh, 'SELECT count(*) FROM journal'), '>', 100, 'load: which has rows');
	is(value($dbh, q{SELECT count(*) FROM zen_verify('loaded')}), 0, 'load: sound');
	sound('load');
	value($dbh, 'DROP TABLE inserted');
	return;
}

sub test_killed
{
	my $size = size();
	value($dbh, 'CREATE TABLE grown (id int, v text) USING zen');
	for my $round (1 .. 6)
	{
		my $all = $round % 2;
		my $new = $size + 160;
		my $grower = start_growing($new);
		# nearly all of them while the file becomes longer, some later
		wait_for('growing', sub { is_growing() || $grower->{dbh}->pg_ready });
		sleep rand 0.08;
		if ($all)
		{
			crash($node);
			start_again($node);
		}
		else
		{
			kill 'KILL', $grower->{pid};
			# nobody is told of the crash before the postmaster has seen it
			wait_for('the crash', sub { run_sql($dbh, 'SELECT 1')->{lost} });
		}
		reconnect();
		my $is = size();
		ok($is == $size || $is == $new, "killed, round $round: $is MB") or diag("$size or $new");
		is(file_size(), $is, "killed, round $round: of the file, too");
		$size = $is;
		fill('grown', 20);
		eval { $grower->{dbh}->disconnect };
	}
	is(value($dbh, 'SELECT count(*) FROM ((TABLE loaded EXCEPT TABLE journal) UNION ALL
		(TABLE journal EXCEPT TABLE loaded)) d'), 0, 'killed: the table is as the journal says');
	sound('killed');
	value($dbh, 'DROP TABLE grown');
	return;
}

# If the newer copy of the superblock is damaged the older one must know the new pages, which have rows by now.
sub test_copies
{
	# a start and a growth write each copy: one of two rounds in a row damages the newer one
	my @damaged = (0, 0, 1, 1);
	for my $round (1 .. @damaged)
	{
		my $size = size() + 32;
		value($dbh, "SELECT zen_pool_grow('${size}MB')");
		run_all($dbh, 'CREATE TABLE later (id int, v text) USING zen');
		is(fill('later', 10), '', "copies, round $round: rows");
		my $rows = contents($dbh, 'later');
		crash($node);
		open(my $fh, '+<:raw', $pool) or die "$pool: $!";
		seek $fh, 4096 * $damaged[ $round - 1 ] + 40, 0;
		print $fh "\xff" x 8;
		close $fh or die "$pool: $!";
		start_again($node);
		reconnect();
		is(size(), $size, "copies, round $round: size");
		is(contents($dbh, 'later'), $rows, "copies, round $round: nothing lost");
		value($dbh, 'DROP TABLE later');
	}
	sound('copies');

	my $size = size() + 32;
	value($dbh, "SELECT zen_pool_grow('${size}MB')");
	run_all($dbh, 'CREATE TABLE later (id int, v text) USING zen');
	is(fill('later', 10), '', 'copies, both: rows');
	my $rows = contents($dbh, 'later');
	open(my $fh, '+<:raw', $pool) or die "$pool: $!";
	for (0, 1)
	{
		seek $fh, 4096 * $_ + 40, 0;
		print $fh "\xff" x 8;
	}
	close $fh or die "$pool: $!";
	$dbh->disconnect;
	$node->stop;
	$node->start;
	reconnect();
	is(size(), $size, 'copies, both: size');
	is(contents($dbh, 'later'), $rows, 'copies, both: nothing lost');
	value($dbh, 'DROP TABLE later');
	sound('copies, both');
	return;
}

sub test_by_itself
{
	my $mine = new_node('by_itself', pool_size => '32MB', dram_size => '256MB', conf => <<'END');
zen.pool_max_size = 300MB
zen.pool_grow_by = 16MB
END
	$mine->start;
	my $first = $dbh;
	$dbh = connect_db($mine);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE big (id int PRIMARY KEY, v text) USING zen');
	my $file = "$PostgreSQL::Test::Utils::tmp_check/big.txt";
	value($dbh, "COPY (SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 150000) g) TO '$file'");
	my $log = log_size($mine);
	is(state_of($dbh, "COPY big FROM '$file'"), '', 'by itself: a COPY larger than the pool');
	cmp_ok(size(), '>=', 150, 'by itself: size');
	like(log_since($mine, $log), qr/zen pool file ".*" has grown from 32 to 48 MB.*zen\.pool_grow_by is 16 MB/s,
		'by itself: in the log');
	is(value($dbh, q{SELECT count(*) FROM big WHERE v = repeat(md5(id::text), 30)}), 150000, 'by itself: rows');
	is(value($dbh, 'SELECT count(*) FROM zen_verify_pool()'), 0, 'by itself: sound');

	# Up to its limit, and then there is none.
	value($dbh, 'CREATE TABLE more (id int, v text) USING zen');
	my $result;
	for (1 .. 40)
	{
		$result = run_sql($dbh,
			q{INSERT INTO more SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 10000) g});
		last if $result->{state};
	}
	is($result->{state}, '53100', 'by itself: full at the end');
	like($result->{message}, qr/HINT:.*zen_pool_grow/s, 'by itself: the hint names the function');
	is(size(), 300, 'by itself: at zen.pool_max_size');
	value($dbh, 'DROP TABLE more');

	test_waiting($mine);
	$dbh->disconnect;
	$mine->stop;
	$dbh = $first;
	return;
}

# waits -- is this process waiting in an extension?
sub waits
{
	my ($pid) = @_;
	return value($dbh, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND wait_event_type = 'Extension'");
}

# A writer that finds the pool full waits for the worker, however long that takes; without hope it fails at once.
sub test_waiting
{
	my ($mine) = @_;
	run_all($dbh, 'ALTER SYSTEM SET zen.pool_grow_by = 0', 'ALTER SYSTEM SET zen.pool_max_size = 2000',
		'SELECT pg_reload_conf()');
	$dbh->disconnect;
	$mine->restart;
	$dbh = connect_db($mine);
	wait_recovered($dbh);
	value($dbh, 'CREATE TABLE waiting (id int, v text) USING zen');
	my $insert = q{INSERT INTO waiting SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 2000) g};
	my $state = '';
	$state = state_of($dbh, $insert) until $state;
	is($state, '53100', 'waiting: full');
	my $worker = stop_asleep($dbh, 'zen worker');
	run_all($dbh, 'ALTER SYSTEM SET zen.pool_grow_by = 16', 'SELECT pg_reload_conf()');
	my $other = connect_db($mine);
	my $pid = value($other, 'SELECT pg_backend_pid()');
	wait_for('the setting', sub { value($other, 'SHOW zen.pool_grow_by') eq '16MB' });
	my $statement = start_statement($other, $insert);
	wait_for("the writer to wait", sub { waits($pid) });
	kill 'CONT', $worker;
	is(finish_statement($statement), 'INSERT 0 2000', 'waiting: there is room');
	cmp_ok(size(), '>', 300, 'waiting: the pool has grown');
	$other->disconnect;

	# somebody ends the worker: there is another one, and it goes on
	value($dbh, "SELECT pg_terminate_backend($worker)");
	wait_for('another worker', sub { value($dbh,
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'zen worker' AND pid <> $worker") });
	my $size = size();
	wait_for('it to make the pool larger', sub { state_of($dbh, $insert); size() > $size });
	pass('waiting: another worker makes the pool larger');

	# it does not wait for a session that makes the pool larger
	my $grower = connect_db($mine);
	my $grower_pid = value($grower, 'SELECT pg_backend_pid()');
	$statement = start_statement($grower, q{SELECT zen_pool_grow('1900MB')});
	wait_for('growing', \&is_growing);
	kill 'STOP', $grower_pid;
	is(is_growing(), 1, 'waiting: a session is making the pool larger');
	$other = connect_db($mine);
	$pid = value($other, 'SELECT pg_backend_pid()');
	my $waiting = start_statement($other, "DO \$\$ BEGIN FOR i IN 1 .. 200 LOOP $insert; END LOOP; END \$\$");
	wait_for('a writer to wait', sub { waits($pid) });
	$worker = value($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'zen worker'});
	value($dbh, "SELECT pg_terminate_backend($worker)");
	wait_for('the worker to end', sub { !value($dbh, "SELECT count(*) FROM pg_stat_activity WHERE pid = $worker") });
	kill 'CONT', $grower_pid;
	is(finish_query($statement), 1900 * $MB, 'waiting: the session goes on');
	is(finish_statement($waiting), 'DO', 'waiting: the writer, too');
	$_->disconnect for $grower, $other;
	return;
}

sub test_restart
{
	my $size = size();
	my $larger = $size + 64;
	my $log = log_size($node);
	set_conf($node, "zen.pool_size = '${larger}MB'");
	$dbh = clean_restart($node, $dbh);
	wait_recovered($dbh);
	is(size(), $larger, 'restart: larger');
	is(file_size(), $larger, 'restart: the file, too');
	my $said = log_since($node, $log);
	like($said, qr/has grown from $size to $larger MB, as zen\.pool_size says/, 'restart: in the log');
	unlike($said, qr/saved map .*(?:is not used|cannot)/, 'restart: the saved map is not refused');
	like($said, qr/zen is ready: .*\(directories/, 'restart: it was used');
	sound('restart');

	# a default is no wish
	$dbh->disconnect;
	$node->stop;
	my $conf = $node->data_dir . '/postgresql.conf';
	my $text = PostgreSQL::Test::Utils::slurp_file($conf);
	(my $without = $text) =~ s/^zen\.pool_size.*$//mg;
	open(my $fh, '>', $conf) or die "$conf: $!";
	print $fh $without;
	close $fh;
	$node->start;
	$dbh = connect_db($node);
	is(size(), $larger, 'restart: the default makes nothing larger');

	# no room: the server starts with what there is
	my $limit = $larger + 16;
	set_conf($node, sprintf "zen.pool_size = '%dMB'", $larger + 64);
	$dbh->disconnect;
	$node->stop;
	$log = log_size($node);
	PostgreSQL::Test::Utils::system_or_bail('prlimit', '--fsize=' . $limit * $MB, 'pg_ctl', '-w', '-s', '-D',
		$node->data_dir, '-l', $node->logfile, 'start');
	$node->_update_pid(1);
	$dbh = connect_db($node);
	is(size(), $larger, 'restart: no room: as before');
	is(file_size(), $larger, 'restart: no room: the file, too');
	like(log_since($node, $log), qr/WARNING: .*could not make the zen pool larger/, 'restart: no room: in the log');
	$dbh->disconnect;
	$node->stop;

	# cut off what has rows, or not
	set_conf($node, "zen.pool_size = '${larger}MB'");
	copy($pool, "$pool.good") or die "$pool: $!";
	truncate $pool, $size * $MB;
	my $refused = start_failing($node) // '';
	like($refused, qr/FATAL:  XX001: .*wrong size/, 'restart: a truncated file is refused');
	like($refused, qr/HINT:/, 'restart: a truncated file: hint');
	rename "$pool.good", $pool or die "$pool: $!";
	$node->start;
	$dbh = connect_db($node);
	sound('restart, at the end');
	return;
}
