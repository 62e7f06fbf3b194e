# Logical replication into zen tables: changes of heap tables arrive, before and after a crash of the subscriber.
# 720_publications.pl has the other direction.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
test_replication();
done_testing();

# Changes of heap tables arrive in zen tables.
sub test_replication
{
	my $publisher = new_node('publisher', pool_size => '64MB', dram_size => '128MB',
		init => { allows_streaming => 'logical' });
	my $subscriber = new_node('subscriber', pool_size => '64MB', dram_size => '128MB',
		init => { allows_streaming => 'logical' },
		conf => q{wal_writer_delay = '10s'});
	$_->start for $publisher, $subscriber;
	my ($from, $to) = map { connect_db($_) } $publisher, $subscriber;
	run_all($_, 'CREATE EXTENSION zen') for $from, $to;
	run_all($from, 'CREATE TABLE r (id int PRIMARY KEY, v text) USING heap',
		'CREATE TABLE full_row (a int, b text) USING heap',
		'ALTER TABLE full_row REPLICA IDENTITY FULL',
		q{INSERT INTO r SELECT g, 'first ' || g FROM generate_series(1, 1000) g},
			q{INSERT INTO full_row VALUES (1, 'x'), (2, NULL)},
		'CREATE PUBLICATION p FOR TABLE r, full_row');
	run_all($to, 'CREATE TABLE r (id int PRIMARY KEY, v text) USING zen',
		'CREATE TABLE full_row (a int, b text) USING zen',
		sprintf q{CREATE SUBSCRIPTION s CONNECTION 'host=%s port=%d dbname=postgres' PUBLICATION p}, $publisher->host,
			$publisher->port);
	run_all($from, q{UPDATE r SET v = 'second ' || id WHERE id % 2 = 0}, 'DELETE FROM r WHERE id % 5 = 0',
		'UPDATE r SET id = -id WHERE id % 3 = 0', q{UPDATE full_row SET b = 'y' WHERE a = 2},
		'DELETE FROM full_row WHERE a = 1',
		'BEGIN', q{INSERT INTO r VALUES (5000, 'third')}, 'SAVEPOINT a', 'DELETE FROM r', 'ROLLBACK TO a', 'COMMIT');
	my $same = sub { join("\n", map { contents($_[0], $_) } 'r', 'full_row') };
	wait_for('the changes', sub { $same->($from) eq $same->($to) }, 600);
	is($same->($to), $same->($from), 'a zen table follows a heap table');
	is(contents($to, 'r', 'indexscan', 'id > -10000'), contents($from, 'r'), 'its index, too');
	value($from, 'TRUNCATE r');
	wait_for('TRUNCATE', sub { value($to, 'SELECT count(*) FROM r') == 0 }, 600);
	# a transaction that was applied is in zen from its commit on; it must not come again
	value($from, q{INSERT INTO r VALUES (2, 'before the crash')});
	wait_for('the last change', sub { value($to, 'SELECT count(*) FROM r') == 1 }, 600);
	crash($subscriber);
	value($from, q{INSERT INTO r VALUES (1, 'after the crash')});
	$subscriber->start;
	$to = connect_db($subscriber);
	eval { wait_for('the subscriber to go on', sub { $same->($from) eq $same->($to) }, 60) };
	is($same->($to), $same->($from), 'after a crash of the subscriber, too');
	value($to, 'DROP SUBSCRIPTION s');
	$_->disconnect for $from, $to;
	$_->stop for $publisher, $subscriber;
	return;
}
