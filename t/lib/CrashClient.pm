# CrashClient -- one client of the crash test: random transactions on its own rows
# and on the shared accounts, until the server is gone.
#
# It runs in a process of its own.  All that it knows about its rows goes through
# the journal (see CrashModel), whose lines are with the kernel before the server
# is asked: the client survives the crash, and so does the journal.

package CrashClient;

use strict;
use warnings;

use CrashModel;
use Digest::MD5 'md5_hex';
use Time::HiRes ();
use ZenTest;

use constant MAX_KEYS => 1200;    # of item, per client

# SQLSTATEs that a client of a busy server has to expect: it rolls back.
my @retry = qw(40001 40P01 55P03);

# Operations: weight, and whether one statement is all that it takes.
my %operation = (
	insert       => [ 10, 1 ],
	insert_many  => [ 5,  1 ],
	insert_bulk  => [ 1,  1 ],
	copy         => [ 3,  1 ],
	upsert       => [ 5,  1 ],
	update_val   => [ 14, 1 ],
	update_grp   => [ 8,  1 ],
	update_key   => [ 6,  1 ],
	update_body  => [ 6,  1 ],
	update_tags  => [ 4,  1 ],
	update_range => [ 3,  1 ],
	delete       => [ 8,  1 ],
	delete_range => [ 2,  1 ],
	transfer     => [ 18, 0 ],
	transfer_mix => [ 5,  0 ],
	mix          => [ 8,  0 ],
	lock         => [ 3,  0 ],
	duplicate    => [ 3,  0 ],
	look         => [ 6,  1 ],
);
my @bag        = map { ($_) x $operation{$_}[0] } sort keys %operation;
my @single_bag = grep { $operation{$_}[1] } @bag;

# new -- $model holds the client's committed rows; it is changed.  retry: further SQLSTATEs
# after which it rolls back and goes on.  async: it commits asynchronously.  no_prepare: it prepares no transaction.
sub new
{
	my ($class, %arg) = @_;    # node, id, model, journal, round, retry
	my $self = bless {
		%arg,
		changes  => {},
		prepared => undef,
		kinds    => {},
		retry    => { map { $_ => 1 } @retry, @{ $arg{retry} || [] } },
	}, $class;
	# A number is not used twice, also if its transaction was lost.
	$self->{next_key} = $arg{id} * KEYS_PER_CLIENT + $arg{round} * 1_000_000;
	$self->{next_n}   = $arg{round} * 1_000_000;
	$self->{keys} = [ sort { $a <=> $b } keys %{ $self->{model}{item} } ];
	open($self->{fh}, '>', $arg{journal}) or die "cannot write $arg{journal}: $!";
	return $self;
}

# run -- work until the connection breaks.
sub run
{
	my ($self) = @_;
	my $dbh = eval { connect_db($self->{node}) } or return;
	$self->{dbh} = $dbh;
	eval { $self->execute($_) for 'SET lock_timeout = 100', $self->{async} ? 'SET synchronous_commit = off' : (); 1 }
	  or return;

	while (1)
	{
		my $done = eval { $self->transaction; 1 };
		next if $done;
		my $error = ref $@ ? $@ : { what => 'wrong', text => $@ };
		if ($error->{what} eq 'retry')
		{
			$self->note_line("E\t$error->{state}\n");
			my $result = run_sql($dbh, 'ROLLBACK');
			next unless $result->{state};
			$error = $result->{lost} ? { what => 'lost' } : { text => $result->{message} };
		}
		return if ($error->{what} || '') eq 'lost';
		(my $text = $error->{text}) =~ s/\s+/ /g;
		$self->note_line("F\tclient $self->{id}: $text\n");
		return;
	}
}

# now -- the same clock for all clients, which nobody sets back.
sub now { return sprintf '%.9f', Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()); }

sub note_line
{
	my ($self, $text) = @_;
	my $written = syswrite $self->{fh}, $text;
	die "cannot write the journal: $!"
	  unless defined $written && $written == length $text;
	return;
}

# --- transactions -----------------------------------------------------------

sub transaction
{
	my ($self) = @_;
	$self->{changes} = {};
	$self->{kinds}   = {};
	$self->settle_prepared if $self->{prepared} && one_in(4);

	if (one_in(4)) { return $self->single_statement; }

	$self->{autocommit} = 0;
	$self->execute('BEGIN ISOLATION LEVEL '
		  . pick('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'));
	for (1 .. between(1, 6))
	{
		if (one_in(4)) { $self->in_savepoint; }
		else           { $self->operate(pick(@bag)); }
	}

	my $end = rand;
	if    ($end < 0.1) { $self->execute('ROLLBACK'); }
	elsif ($end < 0.15 && $self->may_prepare) { $self->prepare; }
	else { $self->commit; }
	return;
}

# One statement in autocommit mode: its intent is in the journal before it is sent
# (see change).
sub single_statement
{
	my ($self) = @_;
	$self->{autocommit} = 1;
	$self->operate(pick(@single_bag));
	return;
}

sub in_savepoint
{
	my ($self) = @_;
	my %before = map { $_ => { %{ $self->{changes}{$_} } } } keys %{ $self->{changes} };
	my $name   = 's' . int(rand 3);

	$self->execute("SAVEPOINT $name");
	$self->operate(pick(@bag)) for 1 .. between(1, 3);
	if (one_in(2))
	{
		$self->execute("ROLLBACK TO $name");
		$self->{changes} = \%before;
		$self->{kinds}{rollback_to}++;
	}
	$self->execute("RELEASE $name") if one_in(2);
	return;
}

sub operate
{
	my ($self, $name) = @_;
	$name = 'delete_range' if key_count($self->{model}) > MAX_KEYS && one_in(3);
	my $method = "op_$name";
	$self->$method;
	$self->{kinds}{$name}++;
	return;
}

sub intent
{
	my ($self) = @_;
	my $n = $self->{next_n}++;
	$self->note_line(change_lines($self->{changes}) . "I\t$n\t" . now() . "\n");
	return $n;
}

sub acknowledged
{
	my ($self, $n) = @_;
	$self->note_line("A\t$n\t" . join(' ', sort keys %{ $self->{kinds} }) . "\t" . now() . "\n");
	$self->accept($self->{changes});
	return;
}

sub accept
{
	my ($self, $changes) = @_;
	apply_changes($self->{model}, $changes);
	push @{ $self->{keys} }, grep { defined $changes->{item}{$_} }
	  sort { $a <=> $b } keys %{ $changes->{item} };
	return;
}

sub commit
{
	my ($self) = @_;
	my $n      = $self->intent;
	my $result = run_sql($self->{dbh}, 'COMMIT');
	die { what => 'lost' } if $result->{lost};
	if ($self->{retry}{ $result->{state} })
	{
		$self->note_line("R\t$n\nE\t$result->{state}\n");
		# a cancel may come before the commit has begun: then the block is still there
		my $end = run_sql($self->{dbh}, 'ROLLBACK');
		die { what => 'lost' } if $end->{lost};
		return;
	}
	die { what => 'wrong', text => "COMMIT: $result->{tag} $result->{message}" }
	  if $result->{tag} ne 'COMMIT';
	$self->acknowledged($n);
	return;
}

# One prepared transaction at a time, and mostly not on accounts, for which all others
# would wait.
sub may_prepare
{
	my ($self) = @_;
	return !$self->{prepared} && !$self->{no_prepare} && (!$self->{changes}{led} || one_in(4));
}

sub prepare
{
	my ($self) = @_;
	my $gid = "c$self->{id}_" . $self->{next_n}++;

	$self->note_line(change_lines($self->{changes}) . "P\t$gid\n");
	my $result = run_sql($self->{dbh}, "PREPARE TRANSACTION '$gid'");
	die { what => 'lost' } if $result->{lost};
	if ($self->{retry}{ $result->{state} })
	{
		$self->note_line("PR\t$gid\nE\t$result->{state}\n");
		return;
	}
	die { what => 'wrong', text => "PREPARE: $result->{tag} $result->{message}" }
	  if $result->{tag} ne 'PREPARE TRANSACTION';
	$self->note_line("PA\t$gid\n");
	$self->{prepared} = { gid => $gid, changes => $self->{changes} };
	return;
}

sub settle_prepared
{
	my ($self) = @_;
	my $gid = $self->{prepared}{gid};
	my ($letter, $verb) = one_in(3) ? ('R', 'ROLLBACK') : ('C', 'COMMIT');

	$self->note_line("${letter}I\t$gid\t" . now() . "\n");
	$self->execute("$verb PREPARED '$gid'");
	$self->note_line("${letter}A\t$gid\t" . now() . "\n");
	$self->accept($self->{prepared}{changes}) if $letter eq 'C';
	$self->{prepared} = undef;
	return;
}

# --- statements -------------------------------------------------------------

# remember -- what has been executed lately, for whoever must explain a wrong answer.
sub remember
{
	my ($self, $sql, $outcome) = @_;
	my $recent = $self->{recent} ||= [];
	push @$recent, substr($sql, 0, 120) . ' -- ' . ($outcome // 'undef');
	shift @$recent while @$recent > 8;
	return;
}

# execute -- a statement that must work, lost connections and conflicts apart.
sub execute
{
	my ($self, $sql) = @_;
	my $result = run_sql($self->{dbh}, $sql);
	$self->remember($sql, $result->{state} || $result->{tag});
	return $result unless $result->{state};
	die { what => 'lost' } if $result->{lost};
	die { what => 'retry', state => $result->{state} } if $self->{retry}{ $result->{state} };
	die { what => 'wrong', text => join("\n  ", "$result->{message} in: " . substr($sql, 0, 300), 'lately:',
		@{ $self->{recent} }) };
}

sub copy_in
{
	my ($self, $sql, $lines) = @_;
	my $dbh = $self->{dbh};
	my $ok  = $dbh->do($sql);
	$ok = $dbh->pg_putcopydata($_) for $ok ? @$lines : ();
	$ok &&= $dbh->pg_putcopyend;
	$self->remember($sql, $ok ? 'COPY' : $dbh->state);
	return { tag => 'COPY ' . scalar @$lines } if $ok;
	my ($state, $text) = ($dbh->state, $dbh->errstr);
	die { what => 'lost' } if $dbh->pg_ping <= 0;
	die { what => 'retry', state => $state } if $self->{retry}{$state};
	die { what => 'wrong', text => "COPY: $text" };
}

# change -- a statement that must report $rows rows, and what it changes in the
# table of the model.
sub change
{
	my ($self, $sql, $rows, $table, $new, $copy_lines) = @_;

	@{ $self->{changes}{$table} }{ keys %$new } = values %$new;
	my $n = $self->{autocommit} ? $self->intent : undef;
	my $result =
	  eval { $copy_lines ? $self->copy_in($sql, $copy_lines) : $self->execute($sql) };
	if (!$result)
	{
		my $error = $@;
		$self->note_line("R\t$n\n") if defined $n && ref $error && $error->{what} eq 'retry';
		die $error;
	}
	die { what => 'wrong', text => "$result->{tag}, not $rows rows: " . substr($sql, 0, 300) }
	  if $result->{tag} !~ / \Q$rows\E$/;
	$self->acknowledged($n) if defined $n;
	return;
}

# --- rows -------------------------------------------------------------------

# The line of a row as this transaction sees it, undef if there is none.
sub line
{
	my ($self, $table, $key) = @_;
	return $self->{changes}{$table}{$key} if exists $self->{changes}{$table}{$key};
	return $self->{model}{$table}{$key};
}

# A row of a transaction that is prepared is not ours before that is settled.
sub is_taken
{
	my ($self, $table, $key) = @_;
	my $changes = $self->{prepared} ? $self->{prepared}{changes} : return 0;
	return exists $changes->{$table}{$key}
	  || ($table eq 'item' && exists $changes->{lock}{$key});
}

# some_key -- a random row of item that we may change, undef if we find none.
sub some_key
{
	my ($self) = @_;
	my $keys = $self->{keys};
	for (1 .. 20)
	{
		return unless @$keys;
		my $i   = int rand @$keys;
		my $key = $keys->[$i];
		return $key
		  if defined $self->line('item', $key) && !$self->is_taken('item', $key);
		next if defined $self->{model}{item}{$key};
		$keys->[$i] = $keys->[-1];
		pop @$keys;
	}
	return;
}

# A key that no row has; now and then one that a row had.
sub new_key
{
	my ($self) = @_;
	if ($self->{old_key} && one_in(3))
	{
		my $key = $self->{old_key};
		return $key
		  if !defined $self->line('item', $key) && !$self->is_taken('item', $key);
	}
	return $self->{next_key}++;
}

# A new row: its fields, in the order of the line.
sub new_row
{
	my ($self, $key) = @_;
	my $length = rand;
	$length =
	    $length < 0.3  ? 0
	  : $length < 0.7  ? between(1, 60)
	  : $length < 0.92 ? between(61, 1500)
	  :                  between(2500, 9000);
	return {
		grp  => one_in(10) ? undef : int rand 100,
		val  => int rand 1000,
		code => "C$key-" . int rand 1e9,
		tag  => int rand 8,
		tags => join(',', sort { $a <=> $b } between(1, 20), between(1, 20)),
		prio => one_in(3) ? between(1, 9) : 0,
		body => scalar body_of("$key." . rand, $length),
	};
}

# body_mark -- how a body appears in a line.
sub body_mark
{
	my ($body) = @_;
	return defined $body ? length($body) . ':' . md5_hex($body) : '~';
}

sub row_line
{
	my ($row) = @_;
	return join '|', defined $row->{grp} ? $row->{grp} : '~',
	  @$row{qw(val code tag tags prio)}, body_mark($row->{body});
}

sub row_values
{
	my ($self, $key, $row) = @_;
	return sprintf(
		"(%s, %d, %s, %d, '%s', %d, '{%s}', %d, %s)",
		$key, $self->{id}, defined $row->{grp} ? $row->{grp} : 'NULL',
		@$row{qw(val code tag tags prio)},
		defined $row->{body} ? "'$row->{body}'" : 'NULL');
}

# A line with one of its fields changed.
sub with_field
{
	my ($line, $field, $value) = @_;
	my @field = split /\|/, $line, -1;
	$field[$field] = $value;
	return join '|', @field;
}
use constant { GRP => 0, VAL => 1, CODE => 2, TAGS => 4, BODY => 6 };

# --- operations -------------------------------------------------------------

sub op_insert
{
	my ($self) = @_;
	my $key    = $self->new_key;
	my $row    = $self->new_row($key);
	$self->change('INSERT INTO item VALUES ' . $self->row_values($key, $row),
		1, 'item', { $key => row_line($row) });
	return;
}

sub op_insert_many
{
	my ($self) = @_;
	my %row = map { $_ => $self->new_row($_) } map { $self->{next_key}++ } 1 .. between(2, 20);
	$self->change(
		'INSERT INTO item VALUES '
		  . join(', ', map { $self->row_values($_, $row{$_}) } sort { $a <=> $b } keys %row),
		scalar keys %row, 'item', { map { $_ => row_line($row{$_}) } keys %row });
	return;
}

sub op_insert_bulk
{
	my ($self) = @_;
	my $count = between(200, 1500);
	my $low   = $self->{next_key};
	my $high  = $low + $count - 1;
	$self->{next_key} += $count;
	$self->change(
		"INSERT INTO item SELECT g, $self->{id}, g % 100, 0, 'B' || g, g % 8,
		   ARRAY[g % 20 + 1]::int[], g % 3, NULL FROM generate_series($low, $high) g",
		$count,
		'item',
		{
			map {
				$_ => join('|', $_ % 100, 0, "B$_", $_ % 8, $_ % 20 + 1, $_ % 3, '~')
			} $low .. $high
		});
	return;
}

sub op_copy
{
	my ($self) = @_;
	my %row   = map { $_ => $self->new_row($_) } map { $self->{next_key}++ } 1 .. between(5, 150);
	my @lines = map {
		my $r = $row{$_};
		join("\t", $_, $self->{id}, defined $r->{grp} ? $r->{grp} : '\N',
			@$r{qw(val code tag)}, "{$r->{tags}}", $r->{prio},
			defined $r->{body} ? $r->{body} : '\N') . "\n"
	} sort { $a <=> $b } keys %row;
	$self->change('COPY item FROM STDIN', scalar @lines,
		'item', { map { $_ => row_line($row{$_}) } keys %row }, \@lines);
	return;
}

# The row may be there already.
sub op_upsert
{
	my ($self) = @_;
	my $key = one_in(2) ? $self->some_key : $self->new_key;
	return unless defined $key;
	my $old = $self->line('item', $key);
	my $row = $self->new_row($key);
	$self->change(
		'INSERT INTO item VALUES '
		  . $self->row_values($key, $row)
		  . ' ON CONFLICT (key) DO UPDATE SET val = excluded.val',
		1, 'item',
		{ $key => defined $old ? with_field($old, VAL, $row->{val}) : row_line($row) });
	return;
}

sub op_update_val
{
	my ($self) = @_;
	my $key = $self->some_key;
	return unless defined $key;
	my $val = int rand 1e6;
	$self->change("UPDATE item SET val = $val WHERE key = $key",
		1, 'item', { $key => with_field($self->line('item', $key), VAL, $val) });
	return;
}

sub op_update_grp
{
	my ($self) = @_;
	my $key = $self->some_key;
	return unless defined $key;
	my $grp = int rand 100;
	$self->change("UPDATE item SET grp = $grp WHERE key = $key",
		1, 'item', { $key => with_field($self->line('item', $key), GRP, $grp) });
	return;
}

sub op_update_key
{
	my ($self) = @_;
	my $key = $self->some_key;
	return unless defined $key;
	my $new = $self->new_key;
	my $old = $self->line('item', $key);
	$self->change("UPDATE item SET key = $new WHERE key = $key",
		1, 'item', { $key => undef, $new => $old });
	$self->{old_key} = $key;
	return;
}

sub op_update_body
{
	my ($self) = @_;
	my $key = $self->some_key;
	return unless defined $key;
	my $body = body_of(rand, pick(0, 10, 800, between(2500, 9000)));
	$self->change(
		'UPDATE item SET body = '
		  . (defined $body ? "'$body'" : 'NULL')
		  . " WHERE key = $key",
		1, 'item',
		{ $key => with_field($self->line('item', $key), BODY, body_mark($body)) });
	return;
}

sub op_update_tags
{
	my ($self) = @_;
	my $key = $self->some_key;
	return unless defined $key;
	my $tags = join ',', map { between(1, 20) } 1 .. between(1, 4);
	$self->change("UPDATE item SET tags = '{$tags}' WHERE key = $key",
		1, 'item', { $key => with_field($self->line('item', $key), TAGS, $tags) });
	return;
}

# keys_from -- the live rows with keys from $low to $low + $span - 1; none while a
# prepared transaction may own some of them.
sub keys_from
{
	my ($self, $low, $span) = @_;
	return if $self->{prepared};
	return grep { defined $self->line('item', $_) } $low .. $low + $span - 1;
}

sub op_update_range
{
	my ($self) = @_;
	my $low = $self->some_key;
	return unless defined $low;
	my $span = between(2, 80);
	my @keys = $self->keys_from($low, $span) or return;
	my %new;
	for my $key (@keys)
	{
		my $line = $self->line('item', $key);
		$new{$key} = with_field($line, VAL, (split /\|/, $line)[VAL] + 1);
	}
	$self->change(
		"UPDATE item SET val = val + 1 WHERE key >= $low AND key < $low + $span",
		scalar @keys, 'item', \%new);
	return;
}

sub op_delete
{
	my ($self) = @_;
	my $key = $self->some_key;
	return unless defined $key;
	$self->change("DELETE FROM item WHERE key = $key", 1, 'item', { $key => undef });
	$self->{old_key} = $key;
	return;
}

sub op_delete_range
{
	my ($self) = @_;
	my $low = $self->some_key;
	return unless defined $low;
	my $span = key_count($self->{model}) > MAX_KEYS ? 600 : between(2, 50);
	my @keys = $self->keys_from($low, $span) or return;
	$self->change("DELETE FROM item WHERE key >= $low AND key < $low + $span",
		scalar @keys, 'item', { map { $_ => undef } @keys });
	return;
}

sub op_transfer
{
	my ($self) = @_;
	$self->move_money([ 'acct', between(1, ACCOUNTS) ], [ 'acct', between(1, ACCOUNTS) ]);
	return;
}

sub op_transfer_mix
{
	my ($self) = @_;
	my @ends = ([ 'acct', between(1, ACCOUNTS) ], [ 'acct_h', 1000 + between(1, ACCOUNTS) ]);
	@ends = reverse @ends if one_in(2);
	$self->move_money(@ends);
	return;
}

sub move_money
{
	my ($self, $from, $to) = @_;
	my $amount = between(1, 100);
	my $n      = $self->{next_n}++;
	my @steps  = (
		"UPDATE $from->[0] SET bal = bal - $amount WHERE id = $from->[1]",
		"UPDATE $to->[0] SET bal = bal + $amount WHERE id = $to->[1]");
	# Mostly in one order, so that deadlocks are there but do not rule.
	@steps = reverse @steps if $from->[1] > $to->[1] && !one_in(10);
	$self->execute($_) for @steps;
	$self->change(
		"INSERT INTO led VALUES ($self->{id}, $n, $from->[1], $to->[1], $amount)",
		1, 'led', { $n => join('|', $from->[1], $to->[1], $amount) });
	return;
}

# The same row in a zen table and in a heap table.
sub op_mix
{
	my ($self) = @_;
	my $keys = $self->{model}{mix};
	my $key  = one_in(2) ? (keys %$keys)[0] : undef;
	$key = $self->{next_key}++
	  unless defined $key && defined $self->line('mix', $key) && !$self->is_taken('mix', $key);

	my $val = int rand 1e6;
	my ($sql, $line);
	if (!defined $self->line('mix', $key))
	{
		$sql  = "INSERT INTO %s VALUES ($key, $self->{id}, $val, 'n$val')";
		$line = "$val|n$val";
	}
	elsif (key_count({ item => $keys }) > 100 || one_in(3))
	{
		$sql = "DELETE FROM %s WHERE key = $key";
	}
	else
	{
		$sql  = "UPDATE %s SET val = $val, note = 'u$val' WHERE key = $key";
		$line = "$val|u$val";
	}
	$self->change(sprintf($sql, $_), 1, 'mix', { $key => $line })
	  for one_in(2) ? ('mix_z', 'mix_h') : ('mix_h', 'mix_z');
	return;
}

sub op_lock
{
	my ($self) = @_;
	my $key = $self->some_key;
	return unless defined $key;
	my $mode   = pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE');
	my $result = $self->execute("SELECT val FROM item WHERE key = $key FOR $mode");
	die { what => 'wrong', text => "FOR $mode does not find key $key" }
	  unless @{ $result->{rows} } == 1;
	$self->{changes}{lock}{$key} = $mode;
	return;
}

sub op_duplicate
{
	my ($self) = @_;
	my $key = $self->some_key;
	return unless defined $key;
	$self->execute('SAVEPOINT d');
	my $sql =
	  'INSERT INTO item VALUES ' . $self->row_values($key, $self->new_row($key));
	my $result = run_sql($self->{dbh}, $sql);
	die { what => 'lost' } if $result->{lost};
	die { what => 'retry', state => $result->{state} } if $self->{retry}{ $result->{state} };
	die { what => 'wrong', text => "a second row with key $key: $result->{tag}" }
	  if $result->{state} ne '23505';
	$self->execute('ROLLBACK TO d');
	return;
}

# Read one row back: what was committed, or written in this transaction.
sub op_look
{
	my ($self) = @_;
	my $key = $self->some_key;
	return unless defined $key;
	my $by = 'key = ' . $key;
	$by = "code = '" . (split /\|/, $self->line('item', $key))[CODE] . q{'} if one_in(2);
	my $result = $self->execute("SELECT key, $line_of{item}[2] FROM item WHERE $by");
	my $found  = join ', ', map { "$_->[0]: $_->[1]" } @{ $result->{rows} };
	my $right  = "$key: " . $self->line('item', $key);
	die { what => 'wrong', text => "WHERE $by finds ($found), not ($right)" }
	  if $found ne $right;
	return;
}

1;
