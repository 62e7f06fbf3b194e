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

our @EXPORT = qw(TWINS twin_primary twin_standby create_twins rows_of twins are_twins both start_load load_beside);

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
sub both { return map { my $s = $_; map { $s =~ s/\bAM_/$_/gr } qw(heap_ zen_) } @_; }

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
sub both_text { return join "\n", map { my $s = $_; map { $s =~ s/\bAM_/$_/gr } qw(heap_ zen_) } @_; }

# start_load -- scripts of pgbench on the node's server for so many seconds; returns the program, for finish.
sub start_load
{
	my ($node, $seconds) = @_;
	my ($in, $out) = ('', '');
	return IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-T', $seconds, '--max-tries=100', load_scripts(),
			'-h', $node->host, '-p', $node->port, 'postgres' ], '<', \$in, '&>', \$out);
}

# load_beside -- a load on the primary, with DDL, and readers on the standby for so many seconds; four tests.
#
# compare->($reader, $seen) looks at the twins, once or several times in a transaction; $seen is a hash for what it
# found in the same.  It returns '' for equal, what differs, or the SQLSTATE of an error.  alone: a look that is not
# repeated needs no transaction.  ddl: statements, of which some are done now and then.
sub load_beside
{
	my ($primary, $standby, $name, $seconds, %opt) = @_;
	# heap's pruning may wait for a reader, and the reader for a lock that replay has
	set_conf($standby, 'max_standby_streaming_delay = 10s');
	$standby->reload;
	my $load = start_load($primary, $seconds);
	my ($compared, $different, $refused) = read_beside($primary, $standby, $seconds, %opt);
	ok($load->finish, "$name: the load ends");
	cmp_ok($compared, '>=', 10, "... beside comparisons of twins ($compared)");
	is($different, 0, '... that find them equal');
	is($refused, '', '... and no error but conflicts');
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

sub read_beside
{
	my ($primary, $standby, $seconds, %opt) = @_;
	my $until = time + $seconds;
	my ($compared, $different, %refused) = (0, 0);
	my @readers = map { connect_db($standby) } 1 .. 3;
	my $dml = connect_db($primary);
	while (time < $until || $compared < 10)
	{
		for my $reader (@readers)
		{
			my $times = one_in(3) ? between(2, 5) : 1;
			my %seen;
			run_sql($reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ') if $times > 1 || !$opt{alone};
			for (1 .. $times)
			{
				my $wrong = $opt{compare}->($reader, \%seen);
				if ($wrong =~ /^[0-9A-Z]{5}$/) { $refused{$wrong}++; last }
				$compared++;
				next if $wrong eq '';
				$different++;
				diag($wrong);
			}
			# between two statements a conflict ends the session
			if ($reader->ping) { run_sql($reader, 'ROLLBACK') if $times > 1 || !$opt{alone} }
			else { $reader = connect_again($standby) }
		}
		run_sql($dml, $_) for one_in(5) ? 'TRUNCATE heap_item, zen_item' :
		  $opt{ddl} && one_in(5) ? pick(@{ $opt{ddl} }) :
		  both(pick('VACUUM AM_account', 'VACUUM AM_item', 'VACUUM AM_note', 'VACUUM FULL AM_note', 'ANALYZE AM_item'));
	}
	$_->disconnect for @readers, $dml;
	# 08000: a conflict has ended the session
	delete @refused{qw(40001 40P01 08000)};
	return ($compared, $different, join ' ', %refused);
}

1;
