# pg_upgrade: the new cluster takes the old one's pool over, or says why not; never is a table empty.
#
# - refused by pg_upgrade --check: zen.pool_path names no pool, a file that is none, or the new
#   cluster has a pool of its own; and at the first zen table, if the pool was not left in order
# - refused at the new cluster's first start: the old one was started since, pg_upgrade has not
#   finished, the pool lies in another cluster's data directory, it is missing, or another one
# - copied files and linked ones: all rows, by every index, verified; the old cluster starts until
#   the new one has started, and is told so after that
# - a start that is cut short in the middle of taking over; crashes later on
# - the same in mode wal, and from there to another mode
# - the same from one major version to the next, through the servers of ZEN_UPGRADE_SERVERS
#   (folders that have bin/ in them, separated by colons; tools/check sets it)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use File::Copy ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZenTest;

skip_unless_zen();

my $dir = PostgreSQL::Test::Utils::tempdir_short();    # of sockets, and where pg_upgrade runs
my %pool = (pool_size => '64MB', dram_size => '64MB');
my $clusters = 0;
my $mode;    # zen.pool_mode of new clusters, if not that of all tests

# --- the tables -------------------------------------------------------------

my @tables = qw(t plain part late view other);

sub fill
{
	my ($node) = @_;
	my $dbh = connect_db($node);
	value($dbh, $_) for 'CREATE EXTENSION zen',
	  'CREATE TABLE t (id int PRIMARY KEY, gone int, v text, a int[], p point, big text, UNIQUE (v, id)) USING zen',
	  q{INSERT INTO t SELECT g, 1, md5(g::text), ARRAY[g % 10, g % 7], point(g, -g) FROM generate_series(1, 5000) g},
	  'CREATE INDEX t_gin ON t USING gin (a)', 'CREATE INDEX t_gist ON t USING gist (p)',
	  'CREATE INDEX t_hash ON t USING hash (v)', 'CREATE INDEX t_brin ON t USING brin (id)',
	  'CREATE INDEX t_part ON t (lower(v)) WHERE id % 3 = 0',
	  q{INSERT INTO t SELECT 10000 + g, 2, NULL, NULL, NULL, string_agg(md5((g * i)::text), '')
	      FROM generate_series(1, 30) g, generate_series(1, 400) i GROUP BY g},
	  'ALTER TABLE t DROP COLUMN gone', q{ALTER TABLE t ADD COLUMN added text DEFAULT 'since'},
	  'UPDATE t SET id = id + 20000 WHERE id % 11 = 0', 'UPDATE t SET p = point(0, id) WHERE id % 13 = 0',
	  'DELETE FROM t WHERE id % 17 = 0',
	  'CREATE TABLE plain (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t int UNIQUE) USING heap',
	  'INSERT INTO plain (t) SELECT id FROM t', 'ALTER TABLE t ADD FOREIGN KEY (id) REFERENCES plain (t)',
	  'CREATE TABLE part (id int, v text, PRIMARY KEY (id)) PARTITION BY HASH (id)',
	  'CREATE TABLE part0 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING zen',
	  'CREATE TABLE part1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING heap',
	  q{INSERT INTO part SELECT g, 'part ' || g FROM generate_series(1, 500) g},
	  'CREATE TABLE late (id int PRIMARY KEY, v text) USING zen', 'TRUNCATE late',
	  q{INSERT INTO late SELECT g, 'late ' || g FROM generate_series(1, 500) g},
	  'CREATE MATERIALIZED VIEW view USING zen AS SELECT id, v FROM t WHERE id < 1000', 'CREATE INDEX ON view (id)',
	  'CREATE TABLE other (id bigserial PRIMARY KEY, v text) USING zen',
	  q{INSERT INTO other (v) SELECT 'other ' || g FROM generate_series(1, 500) g},
	  'REINDEX TABLE other', 'ANALYZE', 'CREATE DATABASE second';
	my $second = connect_db($node, 'second');
	value($second, $_) for 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
	  q{INSERT INTO t SELECT g, 'second ' || g FROM generate_series(1, 100) g};
	$_->disconnect for $dbh, $second;
	return;
}

# What there is, as a text.
sub rows
{
	my ($node) = @_;
	my $dbh = connect_db($node);
	my $second = connect_db($node, 'second');
	my $text = join "\n", (map { "$_: " . contents($dbh, $_) } @tables), 'second: ' . contents($second, 't');
	$_->disconnect for $dbh, $second;
	return $text;
}

# Found through each kind of index, as many as by a scan of the table.
sub by_indexes
{
	my ($dbh, $name) = @_;
	for my $where ('id BETWEEN 100 AND 2000', 'a @> ARRAY[3]', 'p <@ box(point(0, -3000), point(3000, 0))',
		"v = md5('4711')", "v > 'a' AND id > 0", "lower(v) > '8' AND id % 3 = 0")
	{
		my $expected = contents($dbh, 't', 'seqscan', $where);
		isnt($expected, '0 ', "$name: there are rows with $where");
		is(contents($dbh, 't', $_, $where), $expected, "$name: $_ for $where") for qw(indexscan bitmapscan);
	}
	return;
}

# The server runs, or starts; nothing is lost, all is sound, and can be written.
sub all_there
{
	my ($node, $expected, $name) = @_;
	$node->start unless is_running($node);
	is(rows($node), $expected, "$name: all rows are there");
	my $dbh = connect_db($node);
	by_indexes($dbh, $name);
	is_sound($dbh, $name);
	is_sound(connect_db($node, 'second'), "$name, second database");
	is(state_of($dbh, q{INSERT INTO late SELECT 1000, 'new'}),   '',      "$name: insert");
	is(state_of($dbh, q{INSERT INTO late SELECT 1000, 'twice'}), '23505', "$name: the key is unique");
	is(state_of($dbh, $_), '', "$name: $_")
	  for 'DELETE FROM late WHERE id = 1000', 'VACUUM t, late, view, other', 'REFRESH MATERIALIZED VIEW view';
	is(value($dbh, q{INSERT INTO other (v) VALUES ('next') RETURNING id}) > 500, 1, "$name: its sequence has gone on");
	value($dbh, 'DELETE FROM other WHERE id > 500');
	is(rows($node), $expected, "$name: all rows are still there");
	$dbh->disconnect;
	return;
}

sub as_before
{
	my ($node, $expected, $name) = @_;
	$node->start;
	is(rows($node), $expected, "$name: all rows are there");
	$node->stop;
	return;
}

# --- clusters ---------------------------------------------------------------

# A new cluster, for an upgrade; home: the server's folder, if it is not the one under test.
sub new_cluster
{
	my ($pool_path, $home) = @_;
	my @extra = $home && version_of($home) >= 18 ? (extra => ['--no-data-checksums']) : ();
	my $node = new_node('upgrade' . ++$clusters, %pool, init => {@extra}, home => $home, pool_path => $pool_path);
	$node->append_conf('postgresql.conf', "recovery_init_sync_method = syncfs\nzen.recovery_workers = 1"
		  . ($mode ? "\nzen.pool_mode = $mode" : ''));
	return $node;
}

sub version_of
{
	my ($home) = @_;
	my ($text) = run_command([ "$home/bin/pg_config", '--version' ]);
	return $text =~ /(\d+)/ ? $1 : die "no version in $text";
}

sub bindir { return $_[0]->config_data('--bindir'); }

sub is_running { return -e $_[0]->data_dir . '/postmaster.pid'; }

# pg_upgrade from one to another; returns its exit status, and what it has said, files named in it included.
sub upgrade
{
	my ($old, $new, @options) = @_;
	my ($out, $err) = ('', '');
	my $where = "$dir/run" . ++$clusters;
	mkdir $where or die "cannot create $where: $!";
	my $result = IPC::Run::run(
		[
			bindir($new) . '/pg_upgrade', '--no-sync', '-b', bindir($old), '-B', bindir($new),
			'-d', $old->data_dir, '-D', $new->data_dir, '-p', $old->port, '-P', $new->port, '-s', $dir, @options
		],
		'>', \$out, '2>', \$err,
		init => sub { chdir $where or die "cannot chdir: $!"; $ENV{LD_LIBRARY_PATH} = $new->config_data('--libdir') });
	my $text = $out . $err;
	for my $file (glob($new->data_dir . '/pg_upgrade_output.d/*/loadable_libraries.txt'),
		glob($new->data_dir . '/pg_upgrade_output.d/*/log/pg_upgrade_{server,dump_*}.log'))
	{
		$text .= slurp_file($file);
	}
	return ($result ? 0 : 1, $text);
}

sub upgrades
{
	my ($old, $new, $name, @options) = @_;
	my ($status, $text) = upgrade($old, $new, @options);
	is($status, 0, "$name: pg_upgrade @options") or diag($text);
	return;
}

# The server does not start, and says why.
sub refuses_to_start
{
	my ($node, $why, $name) = @_;
	like(start_failing($node) // 'it has started', $why, "$name: refused");
	return;
}

# --- tests ------------------------------------------------------------------

# pg_upgrade --check tells what is wrong with the pool, and changes nothing.
sub test_check
{
	my ($old, $expected) = @_;
	my $own = new_cluster();
	my ($status, $text) = upgrade($old, $own, '--check');
	isnt($status, 0, 'no pool named: pg_upgrade --check fails');
	like($text, qr/zen\.pool_path.*does not exist.*Set zen\.pool_path .* old cluster/s, 'no pool named: it says why');
	($status, $text) = upgrade($old, $own);
	isnt($status, 0, 'no pool named: pg_upgrade fails');

	append_to_file(pool_path($own), 'no pool');
	($status, $text) = upgrade($old, $own, '--check');
	like($text, qr/is no zen pool of formats \d to \d/, 'a file that is no pool');
	unlink pool_path($own);

	$own->start;
	$own->stop;
	pool_conf($own, %pool, pool_path => pool_path($old));
	($status, $text) = upgrade($old, $own, '--check');
	isnt($status, 0, 'a pool of its own: pg_upgrade --check fails');
	like($text, qr/has a zen pool of its own/, 'a pool of its own: it says why');

	pool_conf($own, %pool, preload => 0);
	($status, $text) = upgrade($old, $own, '--check');
	isnt($status, 0, 'zen is not loaded: pg_upgrade --check fails');
	like($text, qr/zen must be loaded when the server starts.*shared_preload_libraries/s,
		'zen is not loaded: it says why');
	as_before($old, $expected, 'refused upgrades');
	return;
}

# Without workers nobody recovers the pool while pg_upgrade runs the old server: a clean one stays so, another one is
# refused.
sub test_unsettled
{
	my ($old, $expected) = @_;
	my $new = new_cluster(pool_path($old));
	# mode wal needs them
	my $mode = pool_mode($old);
	$old->append_conf('postgresql.conf', "max_worker_processes = 0\nzen.pool_mode = emulated");
	$old->start;
	crash($old);
	start_again($old);
	$old->stop;
	my ($status, $text) = upgrade($old, $new, '--check');
	isnt($status, 0, 'pool not left in order: pg_upgrade --check fails');
	like($text, qr/was not left in order.*zen_recovery/s, 'pool not left in order: it says why');
	as_before($old, $expected, 'pool not left in order');
	upgrades($old, $new, 'pool in order, no workers', '--check');
	upgrades($old, $new, 'pool in order, no workers');
	$old->append_conf('postgresql.conf', "max_worker_processes = 8\nzen.pool_mode = $mode");
	$old->start;
	my $dbh = connect_db($old);
	is(value($dbh, 'SELECT after_crash FROM zen_recovery'), 0, 'pool in order, no workers: indexes are trusted');
	$dbh->disconnect;
	is(rows($old), $expected, 'pool in order, no workers: all rows are there');
	$old->stop;
	return;
}

# The new cluster may be started once pg_upgrade has finished, and while the old one is as pg_upgrade has left it.
sub test_refusals
{
	my ($old, $expected) = @_;
	my $new = new_cluster(pool_path($old));
	upgrades($old, $new, 'only checked', '--check');
	refuses_to_start($new, qr/belongs to another database cluster/, 'only checked');
	as_before($old, $expected, 'only checked, old cluster');

	upgrades($old, $new, 'refusals');
	my $data = $new->data_dir;
	copy_tree($data, "$data.upgraded");

	my $pool = pool_path($old);
	rename $pool, "$pool.away" or die "cannot rename: $!";
	refuses_to_start($new, qr/does not exist.*pg_upgrade/s, 'pool missing');
	pool_conf($new, %pool, pool_path => $old->data_dir . '/zen.pool');
	rename "$pool.away", $old->data_dir . '/zen.pool' or File::Copy::move("$pool.away", $old->data_dir . '/zen.pool')
	  or die "cannot move: $!";
	refuses_to_start($new, qr/lies in the data directory of another cluster.*HINT:.*Move/s,
		'pool in the old data directory');
	File::Copy::move($old->data_dir . '/zen.pool', $pool) or die "cannot move: $!";
	pool_conf($new, %pool, pool_path => $pool);

	# an upgrade that ends before its last step
	my $state = slurp_file("$data/zen.state");
	like($state, qr/^state upgraded$/m, 'pg_upgrade has started it after its last step: noted');
	$state =~ s/^state upgraded$/state upgrading/m or die;
	open(my $fh, '>', "$data/zen.state") or die "cannot write: $!";
	print $fh $state;
	close $fh or die "cannot write: $!";
	refuses_to_start($new, qr/pg_upgrade has not finished/, 'pg_upgrade not finished');

	copy_tree("$data.upgraded", $data);
	as_before($old, $expected, 'old cluster after pg_upgrade');
	refuses_to_start($new, qr/was used since pg_upgrade/, 'old cluster used since');
	as_before($old, $expected, 'old cluster, again');
	system_or_bail('rm', '-rf', "$data.upgraded");
	return;
}

# Take part $copy of the pool's two superblock copies from $from.
sub put_superblock
{
	my ($pool, $copy, $from) = @_;
	open(my $fh, '+<', $pool) or die "cannot open $pool: $!";
	binmode $fh;
	seek $fh, 4096 * $copy, 0;
	print $fh substr($from, 4096 * $copy, 4096);
	close $fh or die "cannot write $pool: $!";
	return;
}

sub superblocks
{
	my ($pool) = @_;
	open(my $fh, '<', $pool) or die "cannot open $pool: $!";
	binmode $fh;
	read($fh, my $bytes, 8192) == 8192 or die "cannot read $pool";
	close $fh;
	return $bytes;
}

# Cut short after each store of the takeover, the new cluster's start is repeated; the old one's is refused.
sub test_cut_short
{
	my ($old, $new, $expected) = @_;
	my ($data, $pool) = ($new->data_dir, pool_path($old));
	copy_tree($data, "$data.upgraded");
	copy_tree($pool, "$pool.upgraded");
	my $before = superblocks($pool);
	my ($seq0, $seq1) = map { unpack 'Q<', substr($before, 4096 * $_ + 16, 8) } 0, 1;
	my $second = $seq0 > $seq1 ? 1 : 0;    # the copy that is written first
	$new->start;
	$new->stop('immediate');
	my $after = superblocks($pool);
	my $state = slurp_file("$data/zen.state");

	for my $step ('before zen.state', 'after zen.state')
	{
		copy_tree("$pool.upgraded", $pool);
		put_superblock($pool, $second, $after);
		refuses_to_start($old, qr/taken over/, "cut short $step, old cluster");
		copy_tree("$data.upgraded", $data);
		if ($step =~ /^after/)
		{
			open(my $fh, '>', "$data/zen.state") or die "cannot write: $!";
			print $fh $state;
			close $fh or die "cannot write: $!";
		}
		$new->start;
		is(rows($new), $expected, "cut short $step: all rows are there");
		$new->stop;
	}
	# with the older copy damaged, the newer one tells enough
	copy_tree("$pool.upgraded", $pool);
	put_superblock($pool, $second, $after);
	put_superblock($pool, 1 - $second, "\0" x 8192);
	copy_tree("$data.upgraded", $data);
	$new->start;
	is(rows($new), $expected, 'cut short, one copy damaged: all rows are there');
	$new->stop;

	copy_tree("$pool.upgraded", $pool);
	copy_tree("$data.upgraded", $data);
	system_or_bail('rm', '-rf', "$data.upgraded", "$pool.upgraded");
	return;
}

sub test_copy
{
	my ($old, $expected) = @_;
	my $new = new_cluster(pool_path($old));
	upgrades($old, $new, 'copy');
	test_cut_short($old, $new, $expected);
	my $log = log_size($new);
	$new->start;
	like(log_since($new, $log), qr/taken over/, 'copy: the log says so');
	my $dbh = connect_db($new);
	is(value($dbh, 'SELECT after_crash FROM zen_recovery'), 0, 'copy: indexes are kept');
	$dbh->disconnect;
	all_there($new, $expected, 'copy');
	$new->stop;
	refuses_to_start($old, qr/taken over/, 'copy, old cluster');
	$new->start;
	is(rows($new), $expected, 'copy, restarted: all rows are there');
	crash($new);
	start_again($new);
	all_there($new, $expected, 'copy, crash');
	$new->stop;
	return $new;
}

# The server runs without zen, and crashes: its indexes are empty then, as all that is unlogged.
sub crash_without_zen
{
	my ($node, $path) = @_;
	$node->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
	$node->start;
	my $dbh = connect_db($node);
	is(state_of($dbh, 'SELECT * FROM t'), '55000', 'without zen, its tables are errors');
	value($dbh, 'CREATE TABLE h () USING heap');
	crash($node);
	start_again($node);
	value(connect_db($node), 'DROP TABLE h');
	$node->stop;
	pool_conf($node, %pool, pool_path => $path);
	return;
}

# Linked, and run without zen before the pool is taken over, and once more after that.
sub test_link
{
	my ($old, $expected) = @_;
	my $new = new_cluster(pool_path($old));
	upgrades($old, $new, 'link', '--link');
	rename $old->data_dir . '/global/pg_control.old', $old->data_dir . '/global/pg_control' or die "cannot rename: $!";
	as_before($old, $expected, 'link, old cluster before the new one has started');

	# pg_upgrade once more, as the old cluster was used
	my $again = new_cluster(pool_path($old));
	upgrades($old, $again, 'link again', '--link');
	crash_without_zen($again, pool_path($old));
	all_there($again, $expected, 'link, crash without zen before');
	$again->stop;
	crash_without_zen($again, pool_path($old));
	all_there($again, $expected, 'link, crash without zen');
	crash($again);
	start_again($again);
	all_there($again, $expected, 'link, crash');
	$again->stop;
	return $again;
}

# In mode wal a pool that was stopped in order needs no WAL, and the new cluster logs what it finds.
sub test_mode_wal
{
	$mode = 'wal';
	my $node = new_cluster();
	$node->start;
	fill($node);
	my $expected = rows($node);
	$node->stop;
	for my $to ('wal', 'emulated', 'wal')
	{
		$mode = $to;
		my $from = $node;
		$node = new_cluster(pool_path($from));
		upgrades($from, $node, "mode wal, to $to");
		$node->start;
		# nothing was written yet
		crash($node);
		start_again($node);
		all_there($node, $expected, "mode wal, to $to, crash at once");
		crash($node);
		start_again($node);
		all_there($node, $expected, "mode wal, to $to, crash");
		$node->stop;
		refuses_to_start($from, qr/taken over/, "mode wal, to $to, old cluster");
	}
	unlink pool_path($node);
	$mode = undef;
	return;
}

# A copy of the pool serves the new cluster, and the old one keeps its own.
sub test_copied_pool
{
	my ($old, $expected) = @_;
	my $new = new_cluster(pool_path($old));
	upgrades($old, $new, 'copied pool');
	my $copy = pool_path($old) . '.copy';
	copy_tree(pool_path($old), $copy);
	pool_conf($new, %pool, pool_path => $copy);
	all_there($new, $expected, 'copied pool');
	as_before($old, $expected, 'copied pool, old cluster');
	$new->stop;
	unlink $copy;
	return;
}

# From one major version to the next.
sub test_versions
{
	my @homes = split /:/, $ENV{ZEN_UPGRADE_SERVERS} // '';
  SKIP:
	{
		skip 'ZEN_UPGRADE_SERVERS must name servers of two major versions or more', 1 if @homes < 2;
		my $node = new_cluster(undef, $homes[0]);
		$node->start;
		fill($node);
		my $expected = rows($node);
		$node->stop;
		my $pool = pool_path($node);
		my $link = 0;
		for my $i (1 .. $#homes)
		{
			my $name = join ' to ', map { version_of($_) } @homes[ $i - 1, $i ];
			my $new = new_cluster($pool, $homes[$i]);
			upgrades($node, $new, $name, $link ? '--link' : ());
			unless ($link)
			{
				as_before($node, $expected, "$name, old cluster");
				$new = new_cluster($pool, $homes[$i]);
				upgrades($node, $new, "$name, again");
			}
			all_there($new, $expected, $name);
			$new->stop;
			refuses_to_start($node, qr/taken over/, "$name, old cluster") unless $link;
			$node = $new;
			$link = !$link;
		}
		$node->start;
		crash($node);
		start_again($node);
		all_there($node, $expected, 'upgraded, crash');
		$node->stop;
	}
	return;
}

# A pool of two files is taken over as one; partition keys come along.
sub test_several_files
{
	my $node = new_cluster();
	my $first = pool_path($node);
	my $files = "$first, $first.1";
	pool_conf($node, %pool, pool_path => $files);
	$node->start;
	my $dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO t SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 3000) g},
		q{SELECT zen_set_partition_key('t', 'id')},
		'CREATE TABLE changed (id int) USING zen', q{SELECT zen_set_partition_key('changed', 'id')},
		'ALTER TABLE changed ALTER id TYPE point USING NULL');
	is(value($dbh, 'SELECT count(*) FROM zen_pool_files WHERE pages_free < pages_total - 5'), 2, 'two files: in use');
	my $all = contents($dbh, 't');
	$dbh->disconnect;
	$node->stop;

	my $new = new_cluster($files);
	upgrades($node, $new, 'two files');
	pool_conf($new, %pool, pool_path => $first);
	refuses_to_start($new, qr/zen\.pool_path/, 'two files, one of them named');
	my $inside = $node->data_dir . '/zen.pool.1';
	File::Copy::move("$first.1", $inside) or die "cannot move: $!";
	pool_conf($new, %pool, pool_path => "$first, $inside");
	refuses_to_start($new, qr/"\Q$inside\E" lies in the data directory of another cluster.*HINT:.*Move/s,
		'two files, one of them in the old data directory');
	File::Copy::move($inside, "$first.1") or die "cannot move: $!";
	pool_conf($new, %pool, pool_path => $files);
	$new->start;
	$dbh = connect_db($new);
	is(contents($dbh, 't'), $all, 'two files: all rows are there');
	is(value($dbh, q{SELECT string_agg(objname, ' ' ORDER BY objname) FROM pg_seclabels WHERE label = 'partition key'}),
		'changed.id t.id', 'two files: the keys are there');
	is(value($dbh, 'SELECT count(*) FROM zen_pool_files'), 2, 'two files: the new cluster has both');
	is(state_of($dbh, q{UPDATE t SET v = 'new' WHERE id % 3 = 0}), '', 'two files: rows can be written');
	is_sound($dbh, 'two files');
	$dbh->disconnect;
	$new->stop;
	refuses_to_start($node, qr/taken over/, 'two files, old cluster');
	unlink $first, "$first.1";
	return;
}

my $old = new_cluster();
$old->start;
fill($old);
my $expected = rows($old);
$old->stop;
test_check($old, $expected);
test_unsettled($old, $expected);
test_refusals($old, $expected);
test_copied_pool($old, $expected);
my $second = test_copy($old, $expected);
test_link($second, $expected);
test_mode_wal();
test_versions();
test_several_files();

done_testing();
