# The checker of 105_isolation_histories.pl, on histories made by hand: each anomaly
# is found under its name where it is forbidden, and nothing where it is allowed.
#
# A history is written as its steps, one after the other in time:
#   T1 append list.x 4 1,2,4    T1 has appended 4 and was returned 1,2,4
#   T1 read reg.x -             it saw no row
#   T1 commit                   abort; lost: no answer to COMMIT
# and at the end the values that are found at last.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use IsolationCheck;
use Test::More;

sub history
{
	my ($level, $steps, $final) = @_;
	my (%txn, @txns);
	my $time = 0;

	for my $step (grep { /\S/ } split /\n/, $steps)
	{
		my ($id, $what, @args) = map { $_ eq '-' ? undef : $_ } split ' ', $step;
		my $at = [ $time + 0.1, $time + 0.9 ];
		$time++;
		my $txn = $txn{$id};
		if (!$txn)
		{
			$txn = $txn{$id} = { id => $id, level => $level, stmts => [], status => 'aborted', end => [1e9] };
			push @txns, $txn;
		}
		if ($what =~ /^(commit|abort|lost)$/)
		{
			$txn->{status} = { commit => 'committed', abort => 'aborted', lost => 'unknown' }->{$what};
			$txn->{end} = $what eq 'lost' ? [ $at->[0], undef ] : $at;
			next;
		}
		push @{ $txn->{stmts} }, { at => $at, ops => [ [ $what, @args ] ] };
	}
	return { txns => \@txns, final => $final };
}

# shows -- the history shows just these anomalies at that level.
sub shows
{
	my ($what, $level, $steps, $final, @names) = @_;
	my @found = check_history(history($level, $steps, $final));
	my %name  = map { $_->[0] => 1 } @found;
	is(join(', ', sort keys %name), join(', ', sort @names), "$what at $level") or diag(describe(@found));
	return;
}

# At each of the levels, from what is found at the first to what at the last.
sub at_levels
{
	my ($what, $steps, $final, %names) = @_;
	shows($what, $_, $steps, $final, @{ $names{$_} || [] }) for qw(RC RR SER);
	return;
}

sub at_all
{
	my ($what, $steps, $final, @names) = @_;
	at_levels($what, $steps, $final, map { $_ => \@names } qw(RC RR SER));
	return;
}

# --- sound histories --------------------------------------------------------

at_all('nothing wrong', <<'END', { 'list.x' => '1,2,3', 'reg.y' => 8, 'reg.z' => undef });
T1 append list.x 1 1
T1 write reg.y 7 -
T1 commit
T2 read list.x 1
T2 append list.x 2 1,2
T2 read list.x 1,2
T2 save
T2 append list.x 9 1,2,9
T2 read list.x 1,2,9
T2 back
T2 read list.x 1,2
T2 delete reg.y 7
T2 read reg.y -
T2 commit
T3 read reg.y -
T3 write reg.y 8 -
T3 write reg.z 1 -
T3 commit
T4 lock list.x 1,2
T4 append list.x 3 1,2,3
T4 delete reg.z 1
T4 commit
T5 append list.x 5 1,2,3,5
T5 abort
T6 read list.x 1,2,3
T6 read reg.z -
T6 commit
END

at_all('no answer, and nothing of it there', <<'END', { 'list.x' => '1', 'reg.y' => undef });
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T2 write reg.y 3 -
T2 lost
END

at_all('no answer, and all of it there', <<'END', { 'list.x' => '1,2', 'reg.y' => 4 });
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T2 write reg.y 3 -
T2 lost
T3 write reg.y 4 3
T3 commit
END

at_all('no answer to a delete that was done', <<'END', { 'reg.y' => undef });
T1 write reg.y 3 -
T1 commit
T2 write reg.y 4 3
T2 delete reg.y 4
T2 lost
END

at_all('no answer to a delete that was not done', <<'END', { 'reg.y' => 3 });
T1 write reg.y 3 -
T1 commit
T2 delete reg.y 3
T2 lost
END

# --- at no level ------------------------------------------------------------

at_all('G0: two writers in two orders', <<'END', { 'list.x' => '1,2', 'list.y' => '4,3' },
T1 append list.x 1 1
T2 append list.y 4 4
T1 append list.y 3 4,3
T2 append list.x 2 1,2
T1 commit
T2 commit
END
	'G0 dirty write');

at_all('aborted read', <<'END', { 'list.x' => '1' }, 'G1a aborted read');
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T3 read list.x 1,2
T2 abort
T3 commit
END

at_all('aborted read of a register', <<'END', { 'reg.x' => 1 }, 'G1a aborted read');
T1 write reg.x 1 -
T1 commit
T2 write reg.x 2 1
T3 read reg.x 2
T2 abort
T3 commit
END

at_all('read of what was rolled back to a savepoint', <<'END', { 'list.x' => '1,3' },
T1 append list.x 1 1
T1 save
T1 append list.x 2 1,2
T2 read list.x 1,2
T1 back
T1 append list.x 3 1,3
T1 commit
T2 commit
END
	'G1a aborted read');

at_all('an aborted write stays', <<'END', { 'list.x' => '1,2' }, 'G1a aborted read');
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T2 abort
END

at_all('an aborted write is overwritten', <<'END', { 'reg.x' => 3 }, 'G1a aborted read');
T1 write reg.x 1 -
T1 commit
T2 write reg.x 2 1
T2 abort
T3 write reg.x 3 2
T3 commit
END

at_all('intermediate read', <<'END', { 'list.x' => '1,2' }, 'G1b intermediate read');
T1 append list.x 1 1
T2 read list.x 1
T1 append list.x 2 1,2
T1 commit
T2 commit
END

at_all('intermediate read of a register', <<'END', { 'reg.x' => 2 }, 'G1b intermediate read');
T1 write reg.x 1 -
T2 read reg.x 1
T1 write reg.x 2 1
T1 commit
T2 commit
END

at_all('G1c: each has read from the other', <<'END', { 'list.x' => '1', 'list.y' => '2' },
T1 append list.x 1 1
T2 append list.y 2 2
T1 read list.y 2
T2 read list.x 1
T1 commit
T2 commit
END
	'G1c circular information flow');

at_all('lost update of a list', <<'END', { 'list.x' => '1,3' }, 'lost update', 'lost write');
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T3 append list.x 3 1,3
T2 commit
T3 commit
END

at_all('lost update of a register', <<'END', { 'reg.x' => 3 }, 'lost update');
T1 write reg.x 1 -
T1 commit
T2 write reg.x 2 1
T3 write reg.x 3 1
T2 commit
T3 commit
END

at_all('lost acknowledged append', <<'END', { 'list.x' => '1' }, 'lost write');
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T2 commit
END

at_all('lost acknowledged append that was read', <<'END', { 'list.x' => '1' }, 'lost write');
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T2 commit
T3 read list.x 1,2
T3 commit
END

at_all('lost acknowledged write', <<'END', { 'reg.x' => 1 }, 'lost write');
T1 write reg.x 1 -
T1 commit
T2 write reg.x 2 1
T2 commit
END

at_all('a deleted row is back', <<'END', { 'reg.x' => 1 }, 'lost write');
T1 write reg.x 1 -
T1 commit
T2 delete reg.x 1
T2 commit
END

at_all('no answer, and half of it there', <<'END', { 'list.x' => '2' }, 'torn transaction');
T1 append list.x 2 2
T1 append list.y 3 3
T1 lost
END

at_all('an append that was done twice', <<'END', { 'list.x' => '1,1' }, 'duplicated append');
T1 append list.x 1 1
T1 commit
END

at_all('an append that returned what was not there', <<'END', { 'list.x' => '1,2,3' },
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T2 commit
T3 append list.x 3 1,3
T3 commit
END
	'incompatible order');

at_all('lists read in two orders', <<'END', { 'list.x' => '1,2' }, 'incompatible order');
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T2 commit
T3 read list.x 2,1
T3 commit
END

at_all('a value that nobody wrote', <<'END', { 'list.x' => '1', 'reg.y' => undef }, 'garbage read');
T1 append list.x 1 1
T1 read reg.y 77
T1 commit
END

at_all('own write not seen', <<'END', { 'list.x' => '1,2' }, 'own write not seen');
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T2 read list.x 1
T2 commit
END

at_all('own delete not seen', <<'END', { 'reg.x' => undef }, 'own write not seen');
T1 write reg.x 1 -
T1 commit
T2 delete reg.x 1
T2 read reg.x 1
T2 commit
END

at_all('a key with two rows', <<'END', { 'reg.x' => 2 }, 'key alive twice');
T1 write reg.x 1 -
T1 commit
T2 write reg.x 2 -
T2 commit
END

at_all('a row not seen', <<'END', { 'reg.x' => 1 }, 'read of nothing');
T1 write reg.x 1 -
T1 commit
T2 read reg.x -
T2 commit
END

at_all('a stale read', <<'END', { 'list.x' => '1,2' }, 'real-time order (stale read)');
T1 append list.x 1 1
T1 commit
T2 append list.x 2 1,2
T2 commit
T3 read list.x 1
T3 commit
END

at_all('a row lock that did not hold', <<'END', { 'list.x' => '1,2', 'list.y' => '3' },
T1 append list.x 1 1
T1 commit
T2 lock list.x 1
T3 append list.x 2 1,2
T3 append list.y 3 3
T3 commit
T2 commit
END
	'row lock broken');

# --- levels that differ -----------------------------------------------------

at_levels('a read before somebody writes, and a write upon it', <<'END', { 'list.x' => '1,2,3' },
T1 append list.x 1 1
T1 commit
T2 read list.x 1
T3 append list.x 2 1,2
T3 commit
T2 append list.x 3 1,2,3
T2 commit
END
	RR  => ['lost update'],
	SER => ['lost update']);

at_levels('non-repeatable read', <<'END', { 'reg.x' => 2 },
T1 write reg.x 1 -
T1 commit
T2 read reg.x 1
T3 write reg.x 2 1
T3 commit
T2 read reg.x 2
T2 commit
END
	RR  => ['non-repeatable read'],
	SER => ['non-repeatable read']);

at_levels('non-repeatable read by one that aborts', <<'END', { 'reg.x' => 2 },
T1 write reg.x 1 -
T1 commit
T2 read reg.x 1
T3 write reg.x 2 1
T3 commit
T2 read reg.x 2
T2 abort
END
	RR  => ['non-repeatable read'],
	SER => ['non-repeatable read']);

at_levels('read skew', <<'END', { 'list.x' => '1', 'list.y' => '2' },
T2 read list.x -
T1 append list.x 1 1
T1 append list.y 2 2
T1 commit
T2 read list.y 2
T2 commit
END
	RR  => ['G-single (read skew)'],
	SER => ['G-single (read skew)']);

at_levels('long fork', <<'END', { 'list.x' => '1', 'list.y' => '2' },
T1 append list.x 1 1
T2 append list.y 2 2
T3 read list.x -
T4 read list.y -
T1 commit
T2 commit
T3 read list.y 2
T4 read list.x 1
T3 commit
T4 commit
END
	RR  => ['long fork (no two anti-dependencies adjacent)'],
	SER => ['long fork (no two anti-dependencies adjacent)']);

at_levels('write skew', <<'END', { 'list.x' => '1', 'list.y' => '2' },
T1 read list.x -
T1 read list.y -
T2 read list.x -
T2 read list.y -
T1 append list.x 1 1
T2 append list.y 2 2
T1 commit
T2 commit
END
	SER => ['write skew (G2)']);

at_levels('a read-only transaction sees what no order allows', <<'END',
T1 read list.x -
T2 append list.x 1 1
T2 commit
T3 read list.x 1
T3 read list.y -
T3 commit
T1 append list.y 2 2
T1 commit
END
	{ 'list.x' => '1', 'list.y' => '2' },
	SER => ['G2 anti-dependency cycle']);

at_levels('insert where a row was deleted meanwhile', <<'END', { 'reg.x' => 2 },
T1 write reg.x 1 -
T1 commit
T2 read reg.x 1
T3 delete reg.x 1
T3 commit
T2 write reg.x 2 -
T2 commit
END
	SER => ['lost update']);

at_levels('the deleted row is still seen beside the own one', <<'END', { 'reg.x' => 2, 'list.q' => undef },
T1 write reg.x 1 -
T1 commit
T2 read list.q -
T3 delete reg.x 1
T3 commit
T2 write reg.x 2 -
T2 old reg.x 1
T2 read reg.x 2
T2 commit
END
	RC  => [ 'real-time order (stale read)', 'two rows of one key' ],
	SER => ['lost update']);

# --- two statements in one --------------------------------------------------

# One statement has one snapshot, at READ COMMITTED too.
{
	my $history = history('RC', <<'END', { 'list.x' => '1', 'list.y' => '2' });
T1 append list.x 1 1
T1 append list.y 2 2
T2 read list.x -
T1 commit
T2 commit
END
	my ($reader) = grep { $_->{id} eq 'T2' } @{ $history->{txns} };
	my ($stmt) = @{ $reader->{stmts} };
	$stmt->{at}[1] = 3.95;
	push @{ $stmt->{ops} }, [ 'read', 'list.y', '2' ];
	my @found = check_history($history);
	is_deeply([ map { $_->[0] } @found ], ['G-single (read skew)'], 'one statement with two snapshots')
	  or diag(describe(@found));
	like(describe(@found), qr/T2 --rw list\.x none -> 1--> T1 --wr list\.y 2--> T2/, 'the cycle is explained');
}

# --- size -------------------------------------------------------------------

# 20,000 transactions on 500 lists: as long as it takes, not as its square.
{
	my (%list, @txns);
	my $time = 0;
	for my $n (1 .. 20_000)
	{
		my $key = 'list.' . int($n / 40);
		my $read = join(',', @{ $list{$key} || [] }) || undef;
		push @{ $list{$key} }, $n;
		push @txns,
		  {
			id     => "T$n",
			level  => 'SER',
			status => 'committed',
			end    => [ $time + 5, $time + 6 ],
			stmts  => [
				{ at => [ $time + 1, $time + 2 ], ops => [ [ 'read', $key, $read ] ] },
				{ at => [ $time + 3, $time + 4 ], ops => [ [ 'append', $key, $n, join(',', @{ $list{$key} }) ] ] }
			]
		  };
		$time += 6;
	}
	my $start = time;
	my @found = check_history(
		{ txns => \@txns, final => { map { $_ => join(',', @{ $list{$_} }) } keys %list } });
	is(scalar @found, 0, 'a long history');
	note('checked in ' . (time - $start) . ' s');
}

done_testing();
