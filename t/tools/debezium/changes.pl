#!/usr/bin/env perl
#
# changes.pl -- the same changes of a zen table and of a heap table, and a comparison of what Debezium tells of them.
#
#   changes.pl load DSN FILE CLIENT     transactions until FILE.stop is there; FILE.CLIENT has a line for each
#   changes.pl run DSN                  one of each kind of change, with nothing else at work
#   changes.pl compare DSN EVENTS       EVENTS: the lines of Capture.java.  Prints lines "ok WHAT" and "not ok WHAT"
#
# Transaction n of a client does the same to rows_zen as to rows_heap, and then sets the client's row of done_zen or
# done_heap to n.  A client that has lost its server looks there whether its last transaction has committed.  So the
# events of one client between two of "done" are those of one transaction.  A crash may join transactions of zen tables
# into one (doc/operations.md, "Logical replication"), and does not change this.

use strict;
use warnings;

use DBI;
use Digest::MD5 qw(md5_hex);
use JSON::XS;
use Time::HiRes qw(sleep);

use constant {
	PAUSE_S     => 0.02,
	RETRY_S     => 0.2,
	IDS         => 1_000_000,    # of each client
	UNAVAILABLE => '__debezium_unavailable_value',
	KINDS       => [qw(zen heap)],
	# Columns whose values are the same in JSON of PostgreSQL and of Debezium, the key first
	COLUMNS     => { rows => 'id, client, v, filler, large', done => 'client, n', t => 'id, v, large' },
};

my ($what, $dsn, @rest) = @ARGV;
my %command = (load => \&load, run => \&run, compare => \&compare);
my $json = JSON::XS->new->canonical->utf8->allow_nonref;
$command{ $what // '' } or die "usage: changes.pl load|run|compare DSN ...\n";
exit $command{$what}->(@rest);

sub connected
{
	return DBI->connect("dbi:Pg:$dsn", '', '', { RaiseError => 1, PrintError => 0, AutoCommit => 1 });
}

# --- load -------------------------------------------------------------------

# A long value that is not compressed (the columns are EXTERNAL).
sub large { my ($n) = @_; return join '', map { md5_hex("$n.$_") } 1 .. 200; }

# Rows are changed some transactions after they were inserted: long values that a change leaves alone among them.
sub statements
{
	my ($client, $n) = @_;
	my $id = $client * IDS + $n;
	my $large = $n % 8 ? 'NULL' : "'" . large($n) . "'";
	my @do = ("INSERT INTO rows_K VALUES ($id, $client, $n, repeat('x', $n % 300), $large)");
	push @do, sprintf 'UPDATE rows_K SET v = v + 1 WHERE id = %d', $id - 4 if $n % 2 == 0;
	push @do, sprintf 'UPDATE rows_K SET id = -id WHERE id = %d', $id - 4 if $n % 12 == 0;
	push @do, sprintf 'DELETE FROM rows_K WHERE id = %d', $id - 7 if $n % 3 == 0;
	push @do, sprintf q{UPDATE rows_K SET large = '%s' WHERE id = %d}, large(-$n), $id - 2 if $n % 10 == 0;
	push @do, 'SAVEPOINT a', "DELETE FROM rows_K WHERE id = $id", 'ROLLBACK TO a' if $n % 5 == 0;
	push @do, "INSERT INTO done_K VALUES ($client, $n) ON CONFLICT (client) DO UPDATE SET n = excluded.n";
	return ('BEGIN', @do);
}

sub transact
{
	my ($dbh, $kind, $client, $n) = @_;
	my @do = statements($client, $n);
	my $gid = "$client-$n-$kind";
	my @end = $n % 13 ? ('COMMIT') : ("PREPARE TRANSACTION '$gid'", "COMMIT PREPARED '$gid'");
	@do = (@do, 'ROLLBACK', @do) if $n % 7 == 0;
	$dbh->do($_) for map { s/_K\b/_$kind/gr } @do, @end;
	return;
}

# A connection behind which all that this client has sent is decided.
sub settled
{
	my ($client) = @_;
	my $dbh = connected();
	my $gids = $dbh->selectcol_arrayref(q{SELECT gid FROM pg_prepared_xacts WHERE gid LIKE ? || '-%'}, undef, $client);
	$dbh->do("COMMIT PREPARED '$_'") for @$gids;
	return $dbh;
}

sub is_done
{
	my ($dbh, $kind, $client, $n) = @_;
	my ($last) = $dbh->selectrow_array("SELECT n FROM done_$kind WHERE client = ?", undef, $client);
	return ($last // 0) >= $n;
}

sub load
{
	my ($file, $client) = @_;
	local $SIG{PIPE} = 'IGNORE';
	open my $journal, '>', "$file.$client" or die "$file.$client: $!\n";
	$journal->autoflush(1);
	my $dbh = settled($client);
	for (my $n = 1; !-e "$file.stop"; $n++)
	{
		for my $kind (@{ +KINDS })
		{
			until (eval { transact($dbh, $kind, $client, $n); 1 })
			{
				my $why = $@;
				# an error of another kind than a lost server would come for ever
				die $why if $dbh->ping;
				sleep RETRY_S until $dbh = eval { settled($client) };
				last if is_done($dbh, $kind, $client, $n);
			}
			print $journal "$kind $n\n";
		}
		sleep PAUSE_S;
	}
	return 0;
}

# --- each kind of change ----------------------------------------------------

sub changes
{
	my $large = large(0);
	return (
		q{INSERT INTO t_K VALUES (1, 'a', NULL, '\x00ff', 1.5, '{"a": 1}', '2026-01-02 03:04:05+00', '{1,NULL,3}')},
		"INSERT INTO t_K SELECT g, g::text, repeat('$large', 3) FROM generate_series(2, 30) g",
		q{UPDATE t_K SET v = 'b' WHERE id IN (1, 2)},
		'UPDATE t_K SET large = large WHERE id = 3',
		q{UPDATE t_K SET large = 'short' WHERE id = 4},
		'UPDATE t_K SET id = id + 100 WHERE id IN (1, 5)',
		q{INSERT INTO t_K VALUES (6, 'new') ON CONFLICT (id) DO UPDATE SET v = excluded.v},
		'DELETE FROM t_K WHERE id IN (7, 8)',
		q{BEGIN; UPDATE t_K SET v = 'lost'; DELETE FROM t_K; ROLLBACK},
		q{BEGIN; SAVEPOINT a; DELETE FROM t_K; ROLLBACK TO a; SAVEPOINT b; UPDATE t_K SET v = 'c' WHERE id = 9;
			UPDATE t_K SET v = 'd' WHERE id = 9; RELEASE b; DELETE FROM t_K WHERE id = 10; COMMIT},
		q{BEGIN; DELETE FROM t_K WHERE id = 11; INSERT INTO t_K VALUES (11, 'again'); COMMIT},
		q{BEGIN; UPDATE t_K SET v = 'prepared' WHERE id = 12; PREPARE TRANSACTION 'k'}, q{COMMIT PREPARED 'k'},
		q{BEGIN; UPDATE t_K SET v = 'lost' WHERE id = 12; PREPARE TRANSACTION 'k'}, q{ROLLBACK PREPARED 'k'},
		q{BEGIN; ALTER TABLE t_K ADD added text DEFAULT 'x'; UPDATE t_K SET v = 'e', added = 'y' WHERE id = 13; COMMIT},
		'ALTER TABLE t_K REPLICA IDENTITY FULL', q{UPDATE t_K SET v = 'f' WHERE id IN (14, 15)},
		'UPDATE t_K SET id = 116 WHERE id = 16', 'DELETE FROM t_K WHERE id IN (17, 18)',
		'ALTER TABLE t_K REPLICA IDENTITY DEFAULT', 'ALTER TABLE t_K DROP added',
		'INSERT INTO t_K SELECT g, repeat(g::text, 50) FROM generate_series(1001, 3000) g',
		'UPDATE t_K SET id = -id WHERE id BETWEEN 1001 AND 2000', 'DELETE FROM t_K WHERE id < -1500',
		'VACUUM t_K', q{UPDATE t_K SET v = 'g' WHERE id = 19},
		'TRUNCATE t_K', q{INSERT INTO t_K VALUES (1, 'kept', repeat('z', 5000)), (2, 'kept', NULL), (3, 'lost', NULL)},
		q{BEGIN; TRUNCATE t_K; ROLLBACK}, q{BEGIN; DELETE FROM t_K WHERE id = 3; UPDATE t_K SET v = v || id; COMMIT});
}

sub run
{
	my $dbh = connected();
	for my $kind (@{ +KINDS })
	{
		$dbh->do($_) for map { s/\bt_K\b/t_$kind/gr } changes();
	}
	return 0;
}

# --- comparison -------------------------------------------------------------

# events -- in order, each once: Debezium sends again what it had not noted as sent.
sub events
{
	my ($path) = @_;
	my (@events, %seen, $cut, $again);
	my $repeated = 0;
	open my $in, '<', $path or die "$path: $!\n";
	while (<$in>)
	{
		if (/^#start$/) { $cut = 0; next; }
		next if /^$/;
		die "a line of $path is no event\n" if $cut;
		my ($table, $key, $value) = /^\w+\.public\.(\w+)\t(.*)\t(.*)\n/;
		my $event = $value && eval { +{ key => $json->decode($key), %{ $json->decode($value) // { op => 'tombstone' } } } };
		if (!$event) { $cut = 1; next; }
		@$event{qw(table kind)} = $table =~ /^(rows|done|t)_(zen|heap)$/ or next;
		my $source = delete $event->{source};
		delete @$event{ grep { /^ts_/ } keys %$event };
		$event->{incremental} = 1 if $source && $source->{snapshot} eq 'incremental';
		# a tombstone has no place of its own: it follows its delete
		$again = $event->{op} ne 'r' && $seen{ $json->encode([ $source->{lsn}, $event ]) }++ if $source;
		if ($again) { $repeated++; }
		else { push @events, $event; }
	}
	return (\@events, $repeated);
}

# replayed -- { table => { kind => { key => row } } }
sub replayed
{
	my ($events) = @_;
	my (%at, %gone);
	for my $e (@$events)
	{
		my ($table, $kind, $op) = @$e{qw(table kind op)};
		my $rows = $at{$table}{$kind} //= {};
		%$rows = () if $op eq 't';
		next if $op !~ /^[rcud]$/;
		my ($name) = COLUMNS->{$table} =~ /^(\w+)/;
		my $key = $e->{key}{$name};
		# the long value of a row that gets another key is in the row before
		my $old = $op eq 'd' ? $gone{$kind} = delete $rows->{$key} : $rows->{$key} // $gone{$kind};
		next if $op eq 'd';
		my $row = { %{ $e->{after} } };
		for (grep { ($row->{$_} // '') eq UNAVAILABLE } keys %$row) { $row->{$_} = $old->{$_}; }
		$rows->{$key} = $row;
	}
	return \%at;
}

sub text { my ($row, @names) = @_; return join '|', map { $_ // 'NULL' } @$row{@names}; }

sub said
{
	my ($good, $text) = @_;
	print $good ? 'ok ' : 'not ok ', "$text\n";
	return;
}

sub compare_rows
{
	my ($dbh, $events) = @_;
	my $at = replayed($events);
	for my $table (sort keys %{ +COLUMNS })
	{
		my @names = split /, /, COLUMNS->{$table};
		for my $kind (@{ +KINDS })
		{
			my $stored = $dbh->selectcol_arrayref(
				"SELECT row_to_json(x) FROM (SELECT ${\ COLUMNS->{$table} } FROM ${table}_$kind) x");
			my ($there, $told) = map { [ sort map { text($_, @names) } @$_ ] }
			  [ map { $json->decode($_) } @$stored ], [ values %{ $at->{$table}{$kind} } ];
			said(@$there && "@$there" eq "@$told", "the events make the " . @$there . " rows of ${table}_$kind");
		}
	}
	return;
}

sub told { my ($e) = @_; my %copy = %$e; delete $copy{kind}; return $json->encode(\%copy); }

# Both kinds, one after the other, with no load: the same events in the same order.
sub compare_changes
{
	my ($events) = @_;
	my %of;
	push @{ $of{ $_->{kind} } }, told($_) for grep { $_->{table} eq 't' } @$events;
	my ($zen, $heap) = @of{qw(zen heap)};
	my ($at) = grep { ($zen->[$_] // '') ne ($heap->[$_] // '') } 0 .. ($#$zen > $#$heap ? $#$zen : $#$heap);
	said(@$zen && !defined $at, 'each kind of change: the same ' . @$zen . ' events for zen and heap');
	print "# $_\n" for map { substr $_ // 'nothing', 0, 280 } defined $at ? ($zen->[$at], $heap->[$at]) : ();
	my $like = join "\n", @$heap;
	said($like =~ $_->[1], "there is $_->[0]")
	  for [ 'a long value that is not told', qr/"after":[^\n]*__debezium_unavailable/ ],
	  [ 'a truncation', qr/"op":"t"/ ], [ 'a whole old row', qr/"before":\{[^\n]*"v":"16"/ ],
	  [ 'a tombstone', qr/"tombstone"/ ], [ 'a row of an incremental snapshot', qr/"incremental":1/ ];
	return;
}

# transactions -- ({ kind => { client => { n => [events] } } }, { kind => { client => the n of the snapshot } })
sub transactions
{
	my ($events) = @_;
	my (%of, %first, %open, @wrong);
	for my $e (grep { $_->{table} ne 't' } @$events)
	{
		# one may be missing where Debezium was killed behind the delete
		next if $e->{op} eq 'tombstone';
		my ($kind, $key) = ($e->{kind}, $e->{key});
		my $client = $key->{client} // int(abs($key->{id}) / IDS);
		if ($e->{op} eq 'r')
		{
			$first{$kind}{$client} = $e->{after}{n} if $e->{table} eq 'done';
			next;
		}
		push @{ $open{$kind}{$client} }, told($e);
		next if $e->{table} ne 'done';
		my $n = $e->{after}{n};
		my $due = ($of{$kind}{$client}{last} // $first{$kind}{$client} // 0) + 1;
		push @wrong, "$kind, client $client: $n where $due was due" if $n != $due;
		$of{$kind}{$client}{last} = $n;
		$of{$kind}{$client}{$n} = delete $open{$kind}{$client};
	}
	return (\%of, \%first, @wrong);
}

sub compare_load
{
	my ($events) = @_;
	my ($of, $first, @wrong) = transactions($events);
	my ($same, $other, $begun) = (0, 0, 0);
	for my $client (keys %{ $of->{zen} })
	{
		my ($zen, $heap) = map { $of->{$_}{$client} } @{ +KINDS };
		push @wrong, "client $client: the last is $zen->{last} of zen, $heap->{last} of heap"
		  if $zen->{last} != ($heap->{last} // 0);
		$begun++ if $first->{zen}{$client};
		my ($from) = sort { $b <=> $a } map { $first->{$_}{$client} // 0 } @{ +KINDS };
		for my $n ($from + 1 .. $zen->{last})
		{
			my ($z, $h) = map { join "\n", @{ $_->{$n} // [] } } $zen, $heap;
			if ($z eq $h) { $same++; next; }
			print map { "# $_\n" } map { substr $_, 0, 280 } map { split /\n/ } 'zen:', $z, 'heap:', $h if !$other++;
		}
	}
	said(!@wrong, 'no transaction is missing or there twice');
	print "# $_\n" for @wrong[ 0 .. ($#wrong > 4 ? 4 : $#wrong) ];
	said($same >= 100 && !$other, "$same transactions have the same events, $other have not");
	said($begun >= 2, "the snapshot was made amid the load of $begun clients");
	return;
}

sub compare
{
	my ($path) = @_;
	my $dbh = connected();
	my ($events, $repeated) = events($path);
	my %ops;
	$ops{"$_->{kind} $_->{op}"}++ for @$events;
	print '# ', join(', ', map { "$_: $ops{$_}" } sort keys %ops), "; repeated: $repeated\n";
	compare_load($events);
	compare_changes($events);
	compare_rows($dbh, $events);
	return 0;
}
