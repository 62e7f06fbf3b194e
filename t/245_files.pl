# A pool of several files.
#
#   made       two at the first start, both with rows; crash, stop with the saved map, and stop without
#   added      a third at a restart, and rows in it
#   flipped    bits of a page's word and of a row's header in a further file: set right
#   refused    each file missing, swapped, foreign, of another moment, truncated, too long, damaged, not named
#   leftover   a file that a crash has left before the pool had it
#   grown      each of the files, while the server runs, at a restart, and by itself
#   one full   one whose file system is full: the others grow by themselves
#   names      that zen.pool_path cannot have
#
#   SEED=n     replays the choices

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use File::Copy qw(copy);
use PoolFile;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
choose_seed();

my $MB   = 1 << 20;
my $node = new_node('files', pool_size => '32MB', dram_size => '128MB',
	conf => "restart_after_crash = on\nzen.pool_max_size = 128MB");
my $pool = pool_path($node);
my @files = ($pool, "$pool.1", "$pool.2");
my $dbh;

test_made();
test_added();
test_flipped();
test_word_lost() if by_wal($node);
test_refused();
test_leftover();
test_grown();
test_one_full();
test_names();
$node->stop;
unlink @files, glob("$pool.*");
done_testing();

# --- tools ------------------------------------------------------------------

# name -- the files that zen.pool_path is to name.
sub name
{
	set_conf($node, sprintf q{zen.pool_path = '%s'}, join ', ', @_);
	return;
}

sub open_server
{
	$dbh = connect_db($node);
	wait_recovered($dbh);
	return;
}

# files -- a column of zen_pool_files, by file.
sub files
{
	my ($column) = @_;
	return join ' ', map { $_->[0] } @{ run_sql($dbh, "SELECT $column FROM zen_pool_files ORDER BY file")->{rows} };
}

# used -- pages in use of each file.
sub used { return split ' ', files('pages_total - pages_free'); }

sub fill
{
	my ($name, $mb) = @_;
	my $rows = $mb * 1000;
	run_all($dbh, "CREATE TABLE $name (id int PRIMARY KEY, v text) USING zen",
		"INSERT INTO $name SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, $rows) g");
	return contents($dbh, $name);
}

my %kept;

# keep -- a table with rows, which sound() looks at from now on.
sub keep { $kept{ $_[0] } = fill(@_); return; }

sub sound
{
	my ($name) = @_;
	is(contents($dbh, $_), $kept{$_}, "$name: $_: nothing lost") for sort keys %kept;
	is(value($dbh, 'SELECT count(*) FROM zen_verify_pool()'), 0, "$name: the pool is sound");
	is(value($dbh, "SELECT count(*) FROM zen_verify('$_')"), 0, "$name: $_ is sound") for sort keys %kept;
	return;
}

# refused -- the server does not start, says this, and does when all is as before.
sub refused
{
	my ($name, $state, $text) = @_;
	my $said = start_failing($node) // '';
	like($said, qr/FATAL:  $state: /, "refused: $name: SQLSTATE");
	like($said, $text, "refused: $name: message");
	like($said, qr/HINT:/, "refused: $name: hint");
	return;
}

# with_copy -- do something to a copy in place of a file, and have it as before.
sub with_copy
{
	my ($file, $do) = @_;
	rename $file, "$file.kept" or die "$file: $!";
	copy("$file.kept", $file) or die "$file: $!";
	$do->($file);
	unlink $file;
	rename "$file.kept", $file or die "$file: $!";
	return;
}

# --- the tests --------------------------------------------------------------

sub test_made
{
	name(@files[ 0, 1 ]);
	$node->start;
	$dbh = connect_db($node);
	value($dbh, 'CREATE EXTENSION zen');
	wait_recovered($dbh);
	is(files('path'), "@files[0, 1]", 'made: names');
	is(files('file'), '0 1', 'made: numbers');
	is(files('size_bytes / 1048576'), '32 32', 'made: sizes');
	is(files('coalesce(node, -1)'), '-1 -1', 'made: no nodes');
	is(value($dbh, 'SELECT size_bytes / 1048576 FROM zen_pool'), 64, 'made: size');
	is(value($dbh, 'SELECT path FROM zen_pool'), join(', ', @files[ 0, 1 ]), 'made: zen_pool names both');
	is(value($dbh, 'SELECT format_version FROM zen_pool'), 4, 'made: format');
	is(value($dbh, 'SELECT p.pages_total = sum(f.pages_total) AND p.pages_free = sum(f.pages_free)
		FROM zen_pool p, zen_pool_files f GROUP BY p.pages_total, p.pages_free'), 1, 'made: pages');
	keep('one', 30);
	my @used = used();
	cmp_ok($used[$_], '>', 150, "made: rows in file $_") for 0, 1;
	sound('made');
	crash($node);
	start_again($node);
	open_server();
	is(join(' ', used()), "@used", 'made: the same pages after a crash');
	sound('after a crash');
	my $log = log_size($node);
	$dbh = clean_restart($node, $dbh);
	wait_recovered($dbh);
	like(log_since($node, $log), qr/zen is ready: .*\(directories/, 'made: the saved map was used');
	sound('after a stop');
	return;
}

sub test_added
{
	$dbh->disconnect;
	$node->stop;
	name(@files);
	my $log = log_size($node);
	$node->start;
	open_server();
	my $said = log_since($node, $log);
	like($said, qr/zen pool has got file "\Q$files[2]\E" of 32 MB/, 'added: in the log');
	like($said, qr/zen is ready: .*\(directories/, 'added: the saved map was used');
	is(files('pages_free = pages_total'), '0 0 1', 'added: the new one is empty');
	sound('added');
	keep('two', 20);
	cmp_ok((used())[2], '>', 150, 'added: rows in it');
	sound('added, with rows');
	# a table goes, and with it pages of all files
	run_all($dbh, 'CREATE TABLE gone AS TABLE two', 'DROP TABLE gone');
	crash($node);
	start_again($node);
	open_server();
	sound('added, after a crash');
	return;
}

sub test_flipped
{
	crash($node);
	with_file($files[1], sub {
			my ($fh) = @_;
			my ($page) = grep { $_->[1] } data_pages($fh);
			flip_bit($fh, page_word_offset($page->[0]), 20);
			my ($other) = grep { $_->[1] && $_->[0] != $page->[0] } data_pages($fh);
			flip_bit($fh, $other->[0] * 65536, 5);
		});
	my $log = log_size($node);
	start_again($node);
	open_server();
	is(value($dbh, 'SELECT damaged FROM zen_recovery'), 0, 'flipped: no damage');
	# in mode wal one of them by redo, which the view does not count
	my @right = log_since($node, $log) =~ /flipped bit .* set right/g;
	is(scalar @right, 2, 'flipped: both set right');
	is(value($dbh, 'SELECT repaired FROM zen_recovery'), 2 - by_wal($node), 'flipped: they are counted');
	sound('flipped');
	return;
}

# The WAL has the words of all pages since the last recovery: replay makes a damaged one right, and leaves the rows.
sub test_word_lost
{
	crash($node);
	with_file($files[1], sub {
			my ($fh) = @_;
			my ($page) = grep { $_->[1] } data_pages($fh);
			poke($fh, page_word_offset($page->[0]), 'nonsense');
		});
	my $log = log_size($node);
	start_again($node);
	open_server();
	is(value($dbh, 'SELECT damaged FROM zen_recovery'), 0, 'word lost: no damage');
	like(log_since($node, $log), qr/WARNING:  XX001: entry \d+ of the zen page directory was damaged/,
		'word lost: the log');
	sound('word lost');
	return;
}

sub test_refused
{
	# an earlier moment of each: of before this stop, and of after the one before it
	$dbh = clean_restart($node, $dbh);
	wait_recovered($dbh);
	copy($_, "$_.running") or die "$_: $!" for @files;
	$dbh->disconnect;
	$node->stop;
	copy($_, "$_.stopped") or die "$_: $!" for @files;
	$node->start;
	open_server();
	value($dbh, q{UPDATE one SET v = 'later' WHERE id < 100});
	$kept{one} = contents($dbh, 'one');
	$dbh->disconnect;
	$node->stop;
	copy($_, "$_.now") or die "$_: $!" for @files;

	for my $i (1, 2)
	{
		my $file = $files[$i];
		rename $file, "$file.kept" or die "$file: $!";
		refused("$i missing", '58P01', qr/"\Q$file\E" does not exist.*file $i of a pool of 3 files/s);
		rename "$file.kept", $file or die "$file: $!";

		with_copy($file, sub {
				copy("$file.stopped", $file);
				refused("$i older", '55000', qr/not of the same moment.*"\Q$file\E" is an older copy/s); });
		with_copy($file, sub {
				truncate $file, 31 * $MB;
				refused("$i truncated", 'XX001', qr/"\Q$file\E" has the wrong size/); });
		with_copy($file, sub {
				truncate $file, 4096;
				refused("$i very short", 'XX001', qr/"\Q$file\E" is too small/); });
		with_copy($file, sub {
				open(my $fh, '>>:raw', $file) or die "$file: $!";
				print $fh 'x' x 65536;
				close $fh;
				refused("$i longer", 'XX001', qr/"\Q$file\E" has the wrong size.*not empty/s); });
		with_copy($file, sub {
				with_file($file, sub { poke($_[0], $_ + 40, "\xff" x 8) for super_offsets(); });
				refused("$i damaged", 'XX001', qr/superblock of zen pool file "\Q$file\E" is damaged/); });
		with_copy($file, sub {
				truncate $file, 0;
				truncate $file, 32 * $MB;
				refused("$i empty", 'XX001', qr/"\Q$file\E" is not a zen pool/); });
	}
	# the other copy of one of them, from while the server ran: before its stop
	copy("$_.running", $_) for $files[1];
	copy("$_.stopped", $_) for @files[ 0, 2 ];
	refused('1 of before the stop', '55000', qr/not of the same moment/);
	copy("$_.now", $_) for @files;

	name(@files[ 0, 2, 1 ]);
	refused('swapped', '55000', qr/"\Q$files[2]\E" is not file 1 of its pool.*It is file 2/s);
	name(@files[ 1, 0, 2 ]);
	refused('swapped with the first', '55000', qr/"\Q$files[1]\E" is not file 0 of its pool/);
	name(@files[ 0, 1 ]);
	refused('not all named', '55000', qr/does not name all files.*has 3 files, zen.pool_path names 2/s);
	name(@files);

	# one of another pool
	my $other = new_node('other', pool_size => '32MB', dram_size => '64MB');
	set_conf($other, "zen.pool_path = '$pool.x0, $pool.x1'");
	$other->start;
	$other->stop;
	name($pool, $files[1], "$pool.x1");
	refused('of another pool', '55000', qr/"\Q$pool.x1\E" is not of the pool of "\Q$pool\E"/);
	name(@files, "$pool.x1");
	refused('to be added, of another pool', '55000',
		qr/"\Q$pool.x1\E" is not of the pool of "\Q$pool\E".*HINT:  The pool has not got this file yet/s);
	PostgreSQL::Test::Utils::append_to_file("$pool.x2", 'text');
	name(@files, "$pool.x2");
	refused('to be added, no pool', 'XX001', qr/"\Q$pool.x2\E" is too small/);
	name(@files);

	# one copy of a superblock is made good
	with_file($files[1], sub { poke($_[0], (super_offsets())[1] + 40, "\xff" x 8); });
	my $log = log_size($node);
	$node->start;
	open_server();
	like(log_since($node, $log), qr/one copy of the superblock of zen pool file "\Q$files[1]\E" is damaged/,
		'refused: one copy is enough');
	sound('after refusals');

	# damage in a running one
	my $fh = open_pool($files[2]);
	my $was = poke($fh, (super_offsets())[0] + 40, "\xff" x 8);
	like(value($dbh, q{SELECT string_agg(v::text, ' ') FROM zen_verify_pool() v}), qr/superblock is damaged/,
		'refused: zen_verify_pool() sees a damaged copy');
	poke($fh, (super_offsets())[0] + 40, $was);
	close $fh;
	return;
}

# What a crash leaves between the link of a new file and the superblock that counts it: a file that is complete, of the
# generation before.
sub test_leftover
{
	$dbh->disconnect;
	$node->stop;
	my $data = $node->data_dir;
	my $saved = PostgreSQL::Test::Utils::tempdir();
	copy($_, "$_.saved") for @files;
	PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $data, "$saved/data");
	name(@files, "$pool.3");
	$node->start;
	open_server();
	$dbh->disconnect;
	$node->stop;

	# later than the others: it has been used
	copy("$_.saved", $_) for @files;
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $data);
	PostgreSQL::Test::Utils::system_or_bail('cp', '-a', "$saved/data", $data);
	name(@files, "$pool.3");
	refused('an older copy of the pool with a newer file', '55000', qr/not of the same moment/);

	# left long ago, and as it was when it was made
	my $set_moment = sub {
		my ($generation, $mark) = @_;
		with_file("$pool.3", sub {
				my ($fh) = @_;
				for my $at (super_offsets())
				{
					my $bytes = peek($fh, $at, 120);
					substr($bytes, 72, 8) = pack('Q<', $generation);
					substr($bytes, 88, 8) = pack('L<2', 1, $mark);
					substr($bytes, 12, 4) = "\0" x 4;
					substr($bytes, 12, 4) = pack('L<', crc32c($bytes));
					poke($fh, $at, $bytes);
				} });
	};
	my ($generation, $mark) = moment($files[0]);
	$set_moment->($generation - 2, $mark);
	refused('a new file that was left long ago', '55000',
		qr/"\Q$pool.3\E" is an older copy.*HINT:  The pool has not got this file yet.*move this one away/s);
	$set_moment->($generation, $mark);
	my $log = log_size($node);
	$node->start;
	open_server();
	is(files('file'), '0 1 2 3', 'leftover: taken');
	unlike(log_since($node, $log), qr/WARNING|created/, 'leftover: without a warning');
	keep('three', 10);
	cmp_ok((used())[3], '>', 50, 'leftover: rows in it');
	sound('leftover');
	push @files, "$pool.3";
	return;
}

# moment -- generation and mark of the newest superblock copy.
sub moment
{
	my ($file) = @_;
	my @moment = (0, 0);
	with_file($file, sub {
			for my $at (super_offsets())
			{
				my ($generation, undef, undef, $mark) = unpack('Q<2L<2', peek($_[0], $at + 72, 24));
				@moment = ($generation, $mark) if $generation > $moment[0];
			} });
	return @moment;
}

sub test_grown
{
	is(value($dbh, q{SELECT zen_pool_grow('40MB', 1)}), 40 * $MB, 'grown: file 1');
	is(value($dbh, q{SELECT zen_pool_grow('48MB')}), 48 * $MB, 'grown: the last one');
	is(files('size_bytes / 1048576'), '32 40 32 48', 'grown: sizes');
	is(join(' ', map { (-s $_) / $MB } @files), '32 40 32 48', 'grown: of the files, too');
	for my $case ([ q{'40MB', 4}, '22023', qr/has no file 4/ ], [ q{'40MB', -2}, '22023', qr/has no file/ ],
		[ q{'1GB', 1}, '53400', qr/cannot grow to 1024 MB.*another one was added behind/s ],
		[ q{'32MB', 1}, '22023', qr/cannot become smaller/ ])
	{
		my ($args, $state, $text) = @$case;
		my $result = run_sql($dbh, "SELECT zen_pool_grow($args)");
		is($result->{state}, $state, "grown: ($args): SQLSTATE");
		like($result->{message}, $text, "grown: ($args): message");
	}
	keep('four', 24);
	sound('grown');
	crash($node);
	start_again($node);
	open_server();
	is(files('size_bytes / 1048576'), '32 40 32 48', 'grown: after a crash');
	sound('grown, after a crash');
	# a backend dies
	my $other = connect_db($node);
	my $pid = value($other, 'SELECT pg_backend_pid()');
	kill 'KILL', $pid;
	wait_for('the crash', sub { run_sql($dbh, 'SELECT 1')->{lost} });
	$dbh->disconnect;
	wait_for('connections', sub { $dbh = eval { connect_db($node) } });
	wait_recovered($dbh);
	is(files('size_bytes / 1048576'), '32 40 32 48', 'grown: after the crash of a process');
	sound('grown, after the crash of a process');

	# a restart makes all of them as large as zen.pool_size
	$dbh->disconnect;
	$node->stop;
	set_conf($node, q{zen.pool_size = '44MB'});
	my $log = log_size($node);
	$node->start;
	open_server();
	is(files('size_bytes / 1048576'), '44 44 44 48', 'grown: at a restart');
	like(log_since($node, $log), qr/zen is ready: .*\(directories/, 'grown: the saved map was used');
	sound('grown, at a restart');

	# by itself: the file with the least room
	run_all($dbh, q{ALTER SYSTEM SET zen.pool_grow_by = '16MB'}, 'SELECT pg_reload_conf()');
	wait_for('the setting', sub { value($dbh, 'SHOW zen.pool_grow_by') eq '16MB' });
	keep('five', 150);
	cmp_ok(value($dbh, 'SELECT count(*) FROM zen_pool_files WHERE size_bytes > 48 * 1048576'), '>=', 2,
		'grown: by itself, more than one');
	sound('grown, by itself');
	$dbh = clean_restart($node, $dbh);
	wait_recovered($dbh);
	sound('at the end');
	return;
}

# A limit of the worker's files stands in for a full file system: one file is beyond it, the others are not.
sub test_one_full
{
	my $limit = 112;
	value($dbh, sprintf q{SELECT zen_pool_grow('%dMB', 0)}, $limit + 4);
	my $before = value($dbh, 'SELECT sum(size_bytes) / 1048576 FROM zen_pool_files');
	my $worker = value($dbh, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'zen worker'});
	PostgreSQL::Test::Utils::system_or_bail('prlimit', '--pid', $worker, '--fsize=' . $limit * $MB);
	my $log = log_size($node);
	my $result = run_sql($dbh, sprintf q{CREATE TABLE six USING zen AS
		SELECT g AS id, repeat(md5(g::text), 30) AS v FROM generate_series(1, %d) g},
		1000 * value($dbh, 'SELECT sum(pages_free) / 16 + 64 FROM zen_pool_files'));
	is($result->{state}, '', 'one full: there is room in another') or diag($result->{message});
	like(log_since($node, $log),
		qr/WARNING: .*could not make the zen pool larger.*CONTEXT:  zen pool file "\Q$pool\E"/s,
		'one full: in the log');
	is((split ' ', files('size_bytes / 1048576'))[0], $limit + 4, 'one full: as before');
	cmp_ok(value($dbh, 'SELECT sum(size_bytes) / 1048576 FROM zen_pool_files'), '>', $before,
		'one full: others have grown');
	value($dbh, 'DROP TABLE six');
	sound('one full');
	return;
}

sub test_names
{
	$dbh->disconnect;
	$node->stop;
	# a file grows to what was left for it when the next one was added
	set_conf($node, q{zen.pool_size = '130MB'});
	my $log = log_size($node);
	$node->start;
	open_server();
	is(files('size_bytes / 1048576'), '128 128 128 130', 'names: limits of files');
	like(log_since($node, $log), qr/"\Q$_\E" cannot become larger than 128 MB/, "names: $_ is told of")
		for @files[ 0 .. 2 ];
	$dbh->disconnect;
	$node->stop;
	for my $names ('', "$pool,", "$pool, $pool", "$pool\@99999", join(',', map { "$pool.$_" } 1 .. 17), 'x' x 1100)
	{
		set_conf($node, "zen.pool_path = '$names'");
		refused('"' . substr($names, 0, 60) . '"', '22023', qr/zen\.pool_path is not a file name/);
	}
	symlink $files[0], "$pool.link" or die "$pool.link: $!";
	name($files[0], "$pool.link", @files[ 2, 3 ]);
	refused('one by two names', '22023', qr/"\Q$files[0]\E" and "\Q$pool.link\E" are one file/);
	name(map { "\"$files[$_]\"" . '@' . $_ } 0 .. 3);
	name(map { $files[$_] . '@' . $_ % 2 } 0 .. 3);
	$node->start;
	open_server();
	is(files('node'), '0 1 0 1', 'names: nodes');
	is(files('path'), "@files", 'names: without them');
	$dbh->disconnect;
	return;
}
