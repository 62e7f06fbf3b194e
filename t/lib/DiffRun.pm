# DiffRun -- executes the same statements on two engines, and compares.
#
# An engine is a schema (h: tables on heap, z: tables on the access method under
# test) with one connection per session.  The sessions take turns; a statement that
# has to wait for the other session fails by lock_timeout on both engines, or, in
# race(), waits on both until the other session ends its transaction.
#
# Two answers agree if SQLSTATE, command tag and rows are the same.  Three exceptions
# are no mismatch, because SQL leaves them open:
# - SERIALIZABLE may fail with 40001 on one side only, since SSI is allowed to be
#   cautious; so may, in REPEATABLE READ, a foreign key check, which locks the first
#   row with the key in index order, be it one that was deleted after the snapshot
#   was taken or one that replaces it: the transaction is then rolled back on both
#   sides ("cautious");
# - a statement on several rows, each of which may fail, reports the first that it
#   meets in physical order: two different errors of such a statement are the same
#   answer ("order").
# - a planner that looks into an SQL function, to inline it, locks the function's tables, which
#   may have to wait; a plan that is kept needs no planner.
# Where an exception leaves one side committed, both start afresh.

package DiffRun;

use strict;
use warnings;

use DBD::Pg qw(:async);
use DiffGen;
use DiffPoint;
use Digest::MD5 'md5_hex';
use Time::HiRes qw(sleep time);
use ZenTest;

use constant {
	LOCK_TIMEOUT_MS => 40,     # nobody else works: a lock that is held stays held
	HISTORY         => 30,     # statements shown with a mismatch
	WAIT_LIMIT_S    => 60,
};

# Errors that one of several rows can give.
my $row_error = qr/^(?:2[123]...|40001|55P03)$/;

sub new
{
	my ($class, $node, $am, $sessions) = @_;
	my $self = bless {
		node    => $node,
		number  => 0,          # statements executed, checks apart
		history => [],
		count   => {},         # outcome => number
		engines => [
			{ schema => 'h', am => 'heap' },
			{ schema => 'z', am => $am },
		],
	}, $class;
	$self->{admin} = connect_db($node);
	value($self->{admin}, q{SET lock_timeout = '5s'});
	value($self->{admin}, 'CREATE ROLE ' . DiffPoint::ROLE);
	$self->{collation} = value($self->{admin}, q{SELECT count(*) > 0 FROM pg_collation WHERE collprovider = 'i'});
	for my $engine (@{ $self->{engines} })
	{
		for my $session (1 .. $sessions)
		{
			my $dbh = connect_db($node);
			value($dbh, 'SET lock_timeout = ' . LOCK_TIMEOUT_MS);
			value($dbh, "SET search_path = $engine->{schema}");
			value($dbh, "SET statement_timeout = '60s'");
			push @{ $engine->{sessions} },
			  { dbh => $dbh, pid => value($dbh, 'SELECT pg_backend_pid()') };
		}
	}
	$self->start_afresh;
	for my $session (1 .. $sessions)
	{
		# one session begins with what makes point accesses of most statements
		my $any    = $session > 1;
		my $mode   = $any && one_in(3) ? 'auto' : 'force_generic_plan';
		my $parts  = $any && one_in(4) ? 'keyjoin, batch' : 'point, keyjoin, batch, shape';
		for my $engine (@{ $self->{engines} })
		{
			value($engine->{sessions}[ $session - 1 ]{dbh}, $_)
			  for "SET plan_cache_mode = $mode", "SET zen.executor = '$parts'";
		}
	}
	return $self;
}

# prepare_again -- all statements of DiffPoint, by SQL; for the protocol's own, handles are made when they are used.
# Returns the result of the first one that fails, or of the last.
sub prepare_again
{
	my ($session) = @_;
	my $result;
	$session->{handles} = {};
	for my $sql (DiffPoint::prepare_sql())
	{
		$result = run_sql($session->{dbh}, $sql);
		last if $result->{state};
	}
	return $result;
}

# start_afresh -- end all transactions, and make both schemas anew.
sub start_afresh
{
	my ($self) = @_;
	my $admin = $self->{admin};
	for my $engine (@{ $self->{engines} })
	{
		for my $session (@{ $engine->{sessions} })
		{
			run_sql($session->{dbh}, $_) for 'ROLLBACK', 'CLOSE ALL', 'RESET ROLE';
		}
	}
	my $prepared = run_sql($admin, 'SELECT gid FROM pg_prepared_xacts')->{rows};
	value($admin, "ROLLBACK PREPARED '$_->[0]'") for @$prepared;
	for my $engine (@{ $self->{engines} })
	{
		my ($schema, $am) = @$engine{qw(schema am)};
		value($admin, $_)
		  for "DROP SCHEMA IF EXISTS $schema CASCADE", "CREATE SCHEMA $schema",
		  "SET search_path = $schema", text_for($engine, DiffGen::set_up_sql($self->{collation}));
		prepare_again($_) for @{ $engine->{sessions} };
	}
	return;
}

# --- one statement on one engine --------------------------------------------

sub text_for
{
	my ($engine, $sql) = @_;
	$sql =~ s/\{AM\}/$engine->{am}/g;
	$sql =~ s/\{SCHEMA\}/$engine->{schema}/g;
	return $sql;
}

sub row_text
{
	my ($row) = @_;
	return join "\t", map { defined $_ ? length $_ > 200 ? length($_) . ':' . md5_hex($_) : $_ : '\N' } @$row;
}

# answer -- what run_sql has returned, in the form that is compared.
sub answer
{
	my ($statement, $result) = @_;
	my @rows = map { row_text($_) } @{ $result->{rows} };
	@rows = sort @rows unless $statement->{ordered};
	return { state => $result->{state}, tag => $result->{tag}, rows => \@rows, message => $result->{message} };
}

sub ask
{
	my ($engine, $session, $statement) = @_;
	my $dbh = $engine->{sessions}[$session]{dbh};
	return scan_to_and_fro($dbh, $statement) if $statement->{scan};
	return copy_in($dbh, $statement)  if $statement->{copy};
	return copy_out($dbh, $statement) if $statement->{copy_out};
	return answer($statement, prepare_again($engine->{sessions}[$session])) if $statement->{prepare};
	return answer($statement, extended($engine->{sessions}[$session], $statement)) if $statement->{extended};
	return answer($statement, run_sql($dbh, text_for($engine, $statement->{sql})));
}

# extended -- execute a statement by the extended protocol, prepared or unnamed; the result as of run_sql.
sub extended
{
	my ($session, $statement) = @_;
	my $dbh = $session->{dbh};
	my ($sql, $unnamed) = @$statement{qw(extended unnamed)};
	my $sth = $unnamed ? $dbh->prepare($sql, { pg_server_prepare => 0 })
	  : ($session->{handles}{$sql} ||= $dbh->prepare($sql, { pg_switch_prepared => 1 }));
	return failure($dbh) if !$sth;
	return failure($dbh) if !$sth->execute(@{ $statement->{values} });
	return {
		state   => '',
		message => '',
		tag     => $sth->{pg_cmd_status} // '',
		rows    => $sth->{NUM_OF_FIELDS} ? $sth->fetchall_arrayref : []
	};
}

sub failure
{
	my ($dbh) = @_;
	return { state => $dbh->state, message => $dbh->errstr, tag => '', rows => [] };
}

sub copy_in
{
	my ($dbh, $statement) = @_;
	$dbh->do($statement->{sql}) or return failure($dbh);
	$dbh->pg_putcopydata($_) for @{ $statement->{copy} };
	$dbh->pg_putcopyend or return failure($dbh);
	return { state => '', message => '', tag => 'COPY', rows => [] };
}

sub copy_out
{
	my ($dbh, $statement) = @_;
	$dbh->do($statement->{sql}) or return failure($dbh);
	my (@rows, $line);
	push @rows, $line while $dbh->pg_getcopydata($line) >= 0;
	chomp @rows;
	return answer($statement, { state => '', message => '', tag => 'COPY', rows => [ map { [$_] } @rows ] });
}

# scan_to_and_fro -- fetch a cursor forward to its end, backward to its start, and
# some steps both ways.  The order is the table's own; what is compared is the set of
# rows, and that each step gives what the first pass gave.  Index scans need not give
# equal keys in reverse order backward, so they are left to cursors with ORDER BY.
sub scan_to_and_fro
{
	my ($dbh, $statement) = @_;
	for my $sql ('SAVEPOINT fro', 'SET LOCAL enable_seqscan = on', 'SET LOCAL enable_indexscan = off',
		'SET LOCAL enable_indexonlyscan = off', 'SET LOCAL enable_bitmapscan = off',
		"DECLARE fro SCROLL CURSOR FOR $statement->{scan}")
	{
		my $result = run_sql($dbh, $sql);
		return answer($statement, $result) if $result->{state};
	}
	my $fetch = sub {
		return map { row_text($_) } @{ run_sql($dbh, "FETCH $_[0] FROM fro")->{rows} };
	};

	my @all = $fetch->('ALL');
	my @wrong;
	push @wrong, 'backward pass differs'
	  if join("\n", reverse @all) ne join("\n", $fetch->('BACKWARD ALL'));
	my $position = 0;    # before row 1
	for my $step (7, -3, 12, -9, 30, -4)
	{
		push @wrong, "step $step from $position differs"
		  if join("\n", rows_of_step(\@all, $position, $step)) ne
		  join("\n", $fetch->($step > 0 ? "FORWARD $step" : 'BACKWARD ' . -$step));
		$position += $step;
		$position = 0        if $position < 0;
		$position = @all + 1 if $position > @all;
	}
	# This also puts the settings back.
	my $result = run_sql($dbh, 'ROLLBACK TO fro');
	return {
		state   => $result->{state},
		message => $result->{message},
		tag     => join('; ', @wrong),
		rows    => [ sort @all ]
	};
}

# The rows that a step from row $position (0: before the first) passes, in its order.
sub rows_of_step
{
	my ($all, $position, $step) = @_;
	my ($from, $to) =
	  $step > 0 ? ($position + 1, $position + $step) : ($position + $step, $position - 1);
	my @rows = map { $all->[ $_ - 1 ] } grep { $_ >= 1 && $_ <= @$all } $from .. $to;
	return $step > 0 ? @rows : reverse @rows;
}

# --- one statement on both --------------------------------------------------

# execute -- run a statement in a session on both engines.  Returns the common
# answer; undef if the session was rolled back or everything started afresh, with
# the plans told so.  Dies with a report on a mismatch.
sub execute
{
	my ($self, $session, $statement, $plans) = @_;
	if ($statement->{scan} && !$plans->[$session]{in_txn})
	{
		$self->execute($session, { sql => 'BEGIN' }, $plans) or return;
		my $answer = $self->execute($session, $statement, $plans);
		$self->execute($session, { sql => 'COMMIT' }, $plans);
		return $answer;
	}
	my @answers = map { ask($_, $session, $statement) } @{ $self->{engines} };
	return $self->conclude($session, $statement, $plans, @answers);
}

sub note_statement
{
	my ($self, $session, $statement, $remark) = @_;
	my $sql = $statement->{scan} ? "-- to and fro: $statement->{scan}" : $statement->{sql};
	push @{ $self->{history} }, "#$self->{number} session $session: $sql$remark";
	shift @{ $self->{history} } while @{ $self->{history} } > HISTORY;
	return;
}

sub conclude
{
	my ($self, $session, $statement, $plans, @answers) = @_;
	$self->{number}++ unless $statement->{check};
	$self->{count}{points}++ if $statement->{point};
	my $remark = $answers[0]{state} ? " -- $answers[0]{state}" : " -- $answers[0]{tag}";
	$self->note_statement($session, $statement, $remark);

	my $outcome = $self->compare($statement, $plans->[$session], @answers);
	$self->{count}{$outcome}++ unless $statement->{check};
	if ($outcome eq 'mismatch') { die $self->report(@answers); }
	if ($outcome eq 'same' || $outcome eq 'order')
	{
		$self->{count}{"error $answers[0]{state}"}++ if $answers[0]{state};
		$plans->[$session]->follow($statement, $answers[0]);
		return $answers[0];
	}
	if ($outcome eq 'restart' || $statement->{sql} =~ /^(?:COMMIT|PREPARE)/)
	{
		$self->start_afresh;
		$_->forget for @$plans;
		@{ $plans->[0]{shared}{prepared} } = ();
	}
	else
	{
		$self->roll_back($session, $plans);
	}
	return;
}

sub roll_back
{
	my ($self, $session, $plans) = @_;
	run_sql($_->{sessions}[$session]{dbh}, 'ROLLBACK') for @{ $self->{engines} };
	$plans->[$session]->forget;
	return;
}

# may_be_cautious -- whether 40001 is an answer that the other side need not give.
sub may_be_cautious
{
	my ($plan, $answer) = @_;
	return 0 if $answer->{state} ne '40001';
	return 1 if $plan->{iso} eq 'SERIALIZABLE';
	return $plan->{iso} eq 'REPEATABLE READ' && $answer->{message} =~ /FOR KEY SHARE OF x/;
}

# waited_for_inlining -- whether the planner had to wait for a table of a function, which the statement may not use.
sub waited_for_inlining
{
	my ($answer) = @_;
	return $answer->{state} eq '55P03' && $answer->{message} =~ /during inlining/;
}

# compare -- same, order, cautious, restart or mismatch (see above).
sub compare
{
	my ($self, $statement, $plan, $h, $z) = @_;
	return 'mismatch' if grep { /^(?:08|57P|XX)/ } $h->{state}, $z->{state};
	return 'cautious'
	  if $h->{state} ne $z->{state} && grep { may_be_cautious($plan, $_) } $h, $z;
	if ($h->{state} ne $z->{state})
	{
		return 'restart' if !$h->{state} != !$z->{state} && grep { waited_for_inlining($_) } $h, $z;
		return 'mismatch' unless $statement->{multi};
		my @row_errors = grep { /$row_error/ } $h->{state}, $z->{state};
		return 'order' if @row_errors == 2;
		# One of two that raced met an error before it had to wait.
		return 'restart' if $statement->{raced} && @row_errors == 1;
		return 'mismatch';
	}
	return 'same' if $h->{state};
	return 'mismatch' if $h->{tag} ne $z->{tag};
	return join("\n", @{ $h->{rows} }) eq join("\n", @{ $z->{rows} }) ? 'same' : 'mismatch';
}

sub report
{
	my ($self, @answers) = @_;
	my $text = "mismatch in statement $self->{number}\n";
	$text .= "$_\n" for @{ $self->{history} };
	for my $i (0, 1)
	{
		my $answer = $answers[$i];
		my @rows   = @{ $answer->{rows} };
		my %other  = map { $_ => 1 } @{ $answers[ 1 - $i ]{rows} };
		my @own    = grep { !$other{$_} } @rows;
		@own = @rows unless @own;
		my $engine = $self->{engines}[$i];
		$text .= "$engine->{schema} ($engine->{am}): [$answer->{state}] $answer->{tag} $answer->{message}\n"
		  . '  ' . scalar(@rows) . " rows, those that differ:\n";
		$text .= "  $_\n" for grep { defined } @own[ 0 .. 9 ];
	}
	return $text;
}

# --- statements that wait ---------------------------------------------------

# wait_until_done_or_blocked -- for the statement sent to a session: true if done.
sub wait_until_done_or_blocked
{
	my ($self, $session) = @_;
	my $end = time() + WAIT_LIMIT_S;
	while (1)
	{
		return 1 if $session->{dbh}->pg_ready;
		return 0 if lock_wait_pid($self->{admin}, $session->{pid});
		die "backend $session->{pid} neither ends its statement nor waits for a lock\n"
		  if time() > $end;
		sleep 0.001;
	}
}

# race -- $waiter executes a statement without lock_timeout; if it has to wait,
# the other session ends its transaction meanwhile, in a way given by @ends.
#
# Whether the statement has to wait must be the same on both sides.  Returns as
# execute does for the statement of $waiter.
sub race
{
	my ($self, $waiter, $statement, $holder, $ends, $plans) = @_;
	my @engines = @{ $self->{engines} };

	my @sent;
	for my $engine (@engines)
	{
		my $dbh = $engine->{sessions}[$waiter]{dbh};
		run_sql($dbh, 'SET lock_timeout = 0');
		my $sth = $dbh->prepare(text_for($engine, $statement->{sql}),
			{ pg_direct => 1, pg_async => PG_ASYNC });
		$sth->execute;
		push @sent, $sth;
	}
	my @done  = map { $self->wait_until_done_or_blocked($_->{sessions}[$waiter]) } @engines;
	my $waits = !$done[0] && !$done[1];
	my $alone = $waits || $done[0] == $done[1] ? undef : $done[0] ? 1 : 0;
	$self->{count}{'statements that waited'}++ if $waits;
	$self->note_statement($waiter, $statement, $waits ? ' -- waits' : ' -- raced');

	for my $end ($waits ? @$ends : ())
	{
		last if $done[0] && $done[1];
		@{ $plans->[$holder]{queue} } = ();
		last unless defined $self->execute($holder, { sql => $end }, $plans);
		@done = map { $self->wait_until_done_or_blocked($_->{sessions}[$waiter]) } @engines;
	}
	# Whoever still waits does so for a prepared transaction, or alone.
	for my $i (grep { !$done[$_] } 0, 1)
	{
		value($self->{admin}, "SELECT pg_cancel_backend($engines[$i]{sessions}[$waiter]{pid})");
	}
	my @answers = map { $self->collect($engines[$_], $waiter, $statement, $sent[$_]) } 0, 1;
	if (defined $alone)
	{
		my $early = $answers[ 1 - $alone ];
		if ($alone == 0 && heap_disobeys($statement, $answers[0]))
		{
			$self->{count}{'heap waits although told not to'}++;
			$self->roll_back($waiter, $plans);
			return;
		}
		if (!$statement->{multi} || $early->{state} !~ /$row_error/)
		{
			$self->note_statement($waiter, $statement, ' -- waits on one side only');
			die $self->report(@answers);
		}
		# It met another row's error before the row that is locked: both have failed.
		$answers[$alone]{state} = $early->{state};
	}
	return $self->conclude($waiter, { %$statement, raced => 1 }, $plans, @answers);
}

# heap_disobeys -- whether heap has waited in spite of NOWAIT or SKIP LOCKED: it does where a
# later version of the row is locked (heap_lock_updated_tuple knows no such wish).
sub heap_disobeys
{
	my ($statement, $answer) = @_;
	return $statement->{sql} =~ /NOWAIT|SKIP LOCKED/ && $answer->{message} =~ /while locking updated version/;
}

# collect -- the answer to a statement that was sent.
sub collect
{
	my ($self, $engine, $session, $statement, $sth) = @_;
	my $dbh = $engine->{sessions}[$session]{dbh};
	wait_for('the end of a statement', sub { $dbh->pg_ready });
	my %result = (state => '', message => '', tag => '', rows => []);
	if (defined $dbh->pg_result)
	{
		$result{rows} = $sth->fetchall_arrayref if $sth->{NUM_OF_FIELDS};
		$result{tag} = $sth->{pg_cmd_status} // '';
	}
	else
	{
		@result{qw(state message)} = ($dbh->state || 'XXXXX', $dbh->errstr);
	}
	run_sql($dbh, 'SET lock_timeout = ' . LOCK_TIMEOUT_MS);
	return answer($statement, \%result);
}

1;
