# IsolationClient -- one client of the isolation test: random transactions on lists and
# registers that all clients share, and what came of them.
#
# It runs in a process of its own until told to end or until the server is gone, and
# then leaves its transactions, in the form that IsolationOrder describes, in a file.
#
# The tables, each on zen (z_) and on heap (h_); keys are named table.number:
#   list     an indexed column changes in some updates: the row moves to a new place
#   pklist   the primary key changes in some updates
#   reg      rows of one line; inserted, updated in place, deleted
#   ireg     the value is in an index: index-only scans, and every update moves the row
# A register keeps the value that it has overwritten, so that RETURNING tells it.
#
# Most transactions run prepared statements, which find rows by their keys: point accesses of zen, except for clients
# that have set zen.executor without point.  A third of the clients prepares none of them; then zen keeps plans by the
# shape of the statements.  The other transactions read in the ways that %path has.  A client does not choose anew
# which of the like statements it prepares, so that it executes each often.

package IsolationClient;

use strict;
use warnings;

use Storable ();
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
use ZenTest;

# A list that has grown to this length is given up for a new one.
use constant LIST_LENGTH => 25;

my %level_name = (RC => 'READ COMMITTED', RR => 'REPEATABLE READ', SER => 'SERIALIZABLE');

# SQLSTATEs that a client of a busy server has to expect.
my %retry = map { $_ => 1 } qw(40001 40P01 55P03);

# How the planner is told to read.
my %path = (
	seqscan       => [qw(indexscan indexonlyscan bitmapscan)],
	indexscan     => [qw(seqscan indexonlyscan bitmapscan)],
	bitmapscan    => [qw(seqscan indexscan indexonlyscan)],
	indexonlyscan => [qw(seqscan indexscan bitmapscan)],
);

my %operation = (
	read_one      => 8,
	read_some     => 6,
	read_all      => 2,
	append        => 6,
	append_two    => 1,
	lock_read     => 1,
	read_modify   => 4,
	write         => 5,
	delete        => 2,
	renew         => 2,
	look_and_leap => 4,
);
my @bag      = map { ($_) x $operation{$_} } sort keys %operation;
my @read_bag = grep { /^read_(?!modify)/ } @bag;

# create_tables -- with the rows that push others out of DRAM.
sub create_tables
{
	my ($dbh) = @_;
	my @kinds = (is_zen() ? [ 'z', using() ] : [ 'z', 'USING heap' ], [ 'h', 'USING heap' ]);
	for my $kind (@kinds)
	{
		my ($p, $using) = @$kind;
		value($dbh, $_) for (
			"CREATE TABLE ${p}_list (id int PRIMARY KEY, pos int NOT NULL, pad text, list int[]) $using",
			"CREATE INDEX ON ${p}_list (pos)",
			"CREATE TABLE ${p}_pklist (pk int PRIMARY KEY, id int NOT NULL UNIQUE, pad text, list int[]) $using",
			"CREATE TABLE ${p}_reg (id int PRIMARY KEY, v int, prev int) $using",
			"CREATE TABLE ${p}_ireg (id int PRIMARY KEY, v int, prev int) $using",
			"CREATE INDEX ON ${p}_ireg (id, v)");
	}
	value($dbh, "CREATE TABLE filler (id int PRIMARY KEY, pad text) " . using());
	value($dbh, "INSERT INTO filler SELECT g, repeat('f', 1000) FROM generate_series(1, 400) g");
	return;
}

# new -- node, id, file (for the transactions), prefixes (of the tables used), levels
# (to choose from), part (number of this load: no value is written twice), slots
# (number of lists and registers of each table).
sub new
{
	my ($class, %arg) = @_;
	my $self = bless {
		%arg,
		txns       => [],
		prepared   => [],
		generation => {},
		errors     => {},
		next       => $arg{part} * 20_000_000 + $arg{id} * 1_000_000,
		ended      => 0,
		by_key     => 1,
		executor   => one_in(5) ? 'keyjoin, batch' : 'point, keyjoin, batch, shape',
		prepares   => !one_in(3),
		moves      => one_in(3),
		pads       => one_in(4),
		mode       => pick('SHARE', 'UPDATE', 'NO KEY UPDATE'),
	}, $class;
	return $self;
}

# run -- work until the server is gone or SIGTERM comes; then leave the file.
sub run
{
	my ($self) = @_;
	local $SIG{TERM} = sub { $self->{ended} = 1; };
	my $wrong = '';

	while (!$self->{ended})
	{
		next if eval { $self->connect; $self->work; 1; };
		my $error = $@;
		last if ref $error && $error->{lost};
		last if !ref $error && $error =~ /cannot connect/;
		$wrong = ref $error ? $error->{text} : $error;
		last;
	}
	Storable::nstore(
		{ txns => $self->{txns}, errors => $self->{errors}, wrong => $wrong },
		$self->{file});
	return;
}

sub connect
{
	my ($self) = @_;
	return if $self->{dbh};
	$self->{dbh} = connect_db($self->{node});
	$self->must("SET $_") for 'lock_timeout = 400', 'plan_cache_mode = force_generic_plan',
	  "zen.executor = '$self->{executor}'", map { "enable_$_ = off" } @{ $path{indexscan} };
	$self->{known} = {};
	return;
}

sub now { return clock_gettime(CLOCK_MONOTONIC); }

sub work
{
	my ($self) = @_;
	while (!$self->{ended})
	{
		$self->settle if @{ $self->{prepared} } && one_in(2);
		if    (one_in(25)) { $self->fill; }
		elsif (one_in(8))  { $self->single; }
		else               { $self->transaction; }
	}
	$self->settle while @{ $self->{prepared} };
	return;
}

# --- transactions -----------------------------------------------------------

sub begin_txn
{
	my ($self, $level) = @_;
	my $txn = {
		id     => "c$self->{id}." . $self->{part} . '.' . scalar @{ $self->{txns} },
		level  => $level,
		status => 'aborted',
		end    => [ now(), undef ],
		stmts  => [],
	};
	push @{ $self->{txns} }, $txn;
	$self->{txn} = $txn;
	return $txn;
}

sub transaction
{
	my ($self) = @_;
	my $level = pick(@{ $self->{levels} });
	my $txn   = $self->begin_txn($level);
	my $begin = "BEGIN ISOLATION LEVEL $level_name{$level}";
	$self->{read_only} = one_in(10);
	$begin .= ' READ ONLY' if $self->{read_only};
	$self->{by_key} = !one_in(3);
	my $path = pick('', keys %path);
	my %off  = map { $_ => 1 } $path ? @{ $path{$path} } : ();
	$begin .= "; SET LOCAL enable_$_ = " . ($off{$_} ? 'off' : 'on') for $self->{by_key} ? () : keys %path;

	my $done = eval {
		$self->must($begin);
		for (1 .. between(1, 5))
		{
			if   (one_in(5)) { $self->in_savepoint; }
			else             { $self->operate; }
		}
		$self->end_txn;
		1;
	};
	$self->after_error($@) unless $done;
	return;
}

# after_error -- note when the transaction had ended, at the latest, and go on.
sub after_error
{
	my ($self, $error) = @_;
	die $error unless ref $error && $error->{state} && !$error->{lost};
	$self->{errors}{ $error->{state} }++;
	$self->must('ROLLBACK') if !$error->{ended};
	$self->{txn}{end}[1] = now();
	return;
}

sub end_txn
{
	my ($self) = @_;
	if    (one_in(12)) { $self->finish('ROLLBACK', 'aborted'); }
	elsif (one_in(25)) { $self->prepare; }
	else               { $self->finish('COMMIT', 'committed'); }
	return;
}

# finish -- end the transaction by a statement after which it has that status.
sub finish
{
	my ($self, $sql, $status) = @_;
	my $txn = $self->{txn};
	$txn->{end} = [ now(), undef ];
	$txn->{status} = 'unknown' if $status eq 'committed';
	my $result = run_sql($self->{dbh}, $sql);
	die { lost => 1 } if $result->{lost};
	$txn->{end}[1] = now();
	if ($result->{state})
	{
		$txn->{status} = 'aborted';
		die { state => $result->{state}, ended => 1 } if $retry{ $result->{state} };
		die { text => "$result->{message} in: $sql" };
	}
	die { text => "$sql: $result->{tag}" } if $result->{tag} ne $sql;
	$txn->{status} = $status;
	return;
}

# prepare -- as told by the statement's answer the transaction is prepared, or not.
# Without an answer the server knows after its restart: see the test's own part.
sub prepare
{
	my ($self) = @_;
	my $txn = $self->{txn};
	my $gid = "g$self->{part}_$self->{id}_" . scalar @{ $self->{txns} };

	$txn->{gid}    = $gid;
	$txn->{end}    = [ now(), undef ];
	$txn->{asked}  = 'PREPARE';
	my $result = run_sql($self->{dbh}, "PREPARE TRANSACTION '$gid'");
	die { lost => 1 } if $result->{lost};
	if ($result->{state})
	{
		delete @$txn{qw(gid asked)};
		$txn->{end}[1] = now();
		die { state => $result->{state}, ended => 1 } if $retry{ $result->{state} };
		die { text => "$result->{message} in: PREPARE" };
	}
	$txn->{asked} = 'PREPARED';
	push @{ $self->{prepared} }, $txn;
	return;
}

# settle -- another session ends a prepared transaction.
sub settle
{
	my ($self) = @_;
	my $txn  = shift @{ $self->{prepared} };
	my $dbh  = $self->{second} ||= connect_db($self->{node});
	my $verb = one_in(4) ? 'ROLLBACK' : 'COMMIT';

	$txn->{end}   = [ now(), undef ];
	$txn->{asked} = $verb;
	my $result = run_sql($dbh, "$verb PREPARED '$txn->{gid}'");
	die { lost => 1 } if $result->{lost};
	die { text => "$result->{message} in: $verb PREPARED" } if $result->{state};
	$txn->{end}[1] = now();
	$txn->{asked}  = 'answered';
	$txn->{status} = 'committed' if $verb eq 'COMMIT';
	return;
}

# single -- one statement that is its own transaction.
sub single
{
	my ($self) = @_;
	my $txn = $self->begin_txn('RC');
	my $key = $self->some_key(qw(list pklist));
	my $n   = $self->{next}++;
	my $stmt = { at => [ now(), undef ], ops => [] };
	my $write = one_in(2);
	$self->{by_key} = !one_in(3);

	# Without an answer we do not know what was appended to.
	if ($write)
	{
		$txn->{status} = 'unknown';
		$stmt->{ops} = [ [ 'append', $key, $n, undef ] ];
		push @{ $txn->{stmts} }, $stmt;
		$txn->{end} = [ $stmt->{at}[0], undef ];
	}
	my $done = eval {
		if ($write)
		{
			my $rows = $self->must($self->upsert_sql($key, $n));
			$stmt->{ops}[0][3] = join ',', list_of($rows->[0][0]);
		}
		else { $self->read_keys($key, $self->some_key(qw(reg ireg))); }
		1;
	};
	$stmt->{at}[1] = now();
	if (!$done)
	{
		my $error = $@;
		$stmt->{at}[1] = undef if ref $error && $error->{lost};
		die $error if !ref $error || !$error->{state};
		$self->{errors}{ $error->{state} }++;
	}
	$txn->{status} = $done ? 'committed' : 'aborted';
	$txn->{stmts} = [] if !$done;
	$txn->{end}[1] = now();
	return;
}

# fill -- push rows out of DRAM.
sub fill
{
	my ($self) = @_;
	my $from = between(1, 350);
	my $result = run_sql($self->{dbh},
		"UPDATE filler SET pad = repeat('g', " . between(500, 1500) . ") WHERE id BETWEEN $from AND $from + "
		  . between(5, 50));
	die { lost => 1 } if $result->{lost};
	die { text => "$result->{message} in: UPDATE filler" }
	  if $result->{state} && !$retry{ $result->{state} };
	return;
}

sub in_savepoint
{
	my ($self) = @_;
	$self->must('SAVEPOINT s');
	$self->mark('save');
	my $done = eval { $self->operate for 1 .. between(1, 3); 1; };
	my $error = $@;
	if (!$done)
	{
		# The rest of the transaction may go on, but not after a failure to serialize.
		die $error unless ref $error && ($error->{state} || '') =~ /^(?:40P01|55P03)$/;
		$self->{errors}{ $error->{state} }++;
	}
	if (!$done || one_in(2))
	{
		$self->must('ROLLBACK TO s');
		$self->mark('back');
	}
	$self->must('RELEASE s');
	$self->mark('release');
	return;
}

# mark -- note the end of a statement about savepoints.
sub mark
{
	my ($self, $what) = @_;
	my $now = now();
	push @{ $self->{txn}{stmts} }, { at => [ $now, $now ], ops => [ [$what] ] };
	return;
}

# prepared -- the statement as EXECUTE of one whose numbers are parameters; it is prepared when it is met first.
sub prepared
{
	my ($self, $sql) = @_;
	my @values;
	return $sql if !$self->{by_key} || !$self->{prepares};
	return $sql if $sql !~ /^(?:SELECT|INSERT|UPDATE|DELETE)/ || $sql =~ /pg_sleep/;
	my $parameter = sub {
		push @values, $_[0];
		return '$' . @values . ($_[0] =~ /\{/ ? '::int[]' : '::int');
	};
	(my $text = $sql) =~ s/('\{[\d,]*\}'|\b\d+\b)/$parameter->($1)/ge;
	my $known = $self->{known};
	if (!$known->{$text})
	{
		my $name = 'p' . keys %$known;
		$self->must("PREPARE $name AS $text");
		$known->{$text} = $name;
	}
	return "EXECUTE $known->{$text}" . (@values ? '(' . join(', ', @values) . ')' : '');
}

# must -- the rows of a statement; dies of errors.
sub must
{
	my ($self, $sql) = @_;
	$sql = $self->prepared($sql);
	my $result = run_sql($self->{dbh}, $sql);
	return $result->{rows} unless $result->{state};
	die { lost => 1 } if $result->{lost};
	die { state => $result->{state} } if $retry{ $result->{state} };
	die { text => "$result->{message} in: " . substr($sql, 0, 300) };
}

# note -- run a statement of the transaction; $ops makes its operations of its rows.
sub note
{
	my ($self, $sql, $ops) = @_;
	my $stmt = { at => [ now(), undef ], ops => [] };
	$self->{txn}{end}[0] = $stmt->{at}[0] if $self->{txn}{status} eq 'aborted';
	push @{ $self->{txn}{stmts} }, $stmt;
	my $rows = $self->must($sql);
	$stmt->{at}[1] = now();
	$stmt->{ops} = [ $ops->(@$rows) ];
	return $rows;
}

# --- keys -------------------------------------------------------------------

# some_key -- a random key of one of these kinds of tables.
sub some_key
{
	my ($self, @kinds) = @_;
	my $table = pick(@{ $self->{prefixes} }) . '_' . pick(@kinds);
	return $self->key_in($table, between(1, $self->{slots}));
}

sub key_in
{
	my ($self, $table, $slot) = @_;
	return "$table.$slot" if $table =~ /reg/;
	return "$table." . ($slot + 100 * ($self->{generation}{"$table.$slot"} || 0));
}

# grown -- a list was seen: give it up if it is long.
sub grown
{
	my ($self, $key, $length) = @_;
	return if $length < LIST_LENGTH;
	my ($table, $id) = split /\./, $key;
	my ($slot, $generation) = ($id % 100, int($id / 100));
	my $known = \$self->{generation}{"$table.$slot"};
	$$known = $generation + 1 if ($$known || 0) <= $generation;
	return;
}

# list_of -- the numbers of an array as the server prints it.
sub list_of { return $_[0] =~ /(\d+)/g; }

sub list_text
{
	my ($self, $key, $array) = @_;
	my @list = list_of($array);
	$self->grown($key, scalar @list);
	return join ',', @list;
}

# --- reads ------------------------------------------------------------------

sub operate
{
	my ($self) = @_;
	my $method = 'op_' . pick($self->{read_only} ? @read_bag : @bag);
	$self->$method;
	return;
}

# part_sql -- read some rows of one table as (table, id, value).
sub part_sql
{
	my ($self, $table, @ids) = @_;
	my ($low, $high) = (sort { $a <=> $b } @ids)[ 0, -1 ];
	my $value = $table =~ /list/ ? 'list::text' : 'v::text';
	my $where =
	    @ids == 1 && !$self->{by_key} && $table =~ /_list/ && one_in(2)
	  ? "pos BETWEEN $low * 1000 AND $low * 1000 + 999"
	  : @ids == 1 ? "id = $low"
	  : one_in(2) ? 'id IN (' . join(', ', @ids) . ')'
	  :             "id BETWEEN $low AND $high AND id = ANY ('{" . join(',', @ids) . "}')";
	return "SELECT '$table', id, $value FROM $table WHERE $where";
}

# read_keys -- read them all in one statement, of one snapshot.
sub read_keys
{
	my ($self, @keys) = @_;
	my %ids;
	for my $key (@keys)
	{
		my ($table, $id) = split /\./, $key;
		$ids{$table}{$id} = 1;
	}
	my @parts = map { $self->part_sql($_, keys %{ $ids{$_} }) } keys %ids;
	# Others shall commit while the statement runs, which must not show.
	splice @parts, 1, 0, "SELECT 'pause', 0, pg_sleep(0.004)::text" if @parts > 1 && one_in(4);
	my %value;
	$self->note(
		join(' UNION ALL ', @parts),
		sub {
			my @ops;
			for my $row (grep { $_->[0] ne 'pause' } @_)
			{
				my $key   = "$row->[0].$row->[1]";
				my $value = $row->[0] =~ /list/ ? $self->list_text($key, $row->[2]) : $row->[2];
				if (exists $value{$key})
				{
					($value, $value{$key}) = $self->old_and_own($key, $value, $value{$key});
					push @ops, [ 'old', $key, $value ];
				}
				else { $value{$key} = $value; }
			}
			my %asked = map { $_ => 1 } @keys;
			return @ops, map { [ 'read', $_, $value{$_} ] } sort keys %asked;
		});
	return %value;
}

# old_and_own -- a snapshot of a transaction still has a row that another one has deleted
# meanwhile, and its own new row: one key is returned twice.
sub old_and_own
{
	my ($self, $key, @values) = @_;
	my ($own) = sort { $b <=> $a }
	  grep { int($_ / 1_000_000) == $self->{part} * 20 + $self->{id} } @values;
	die { text => "$key was returned twice" }
	  if $self->{txn}{level} eq 'RC' || $key =~ /list/ || !defined $own;
	return sort { ($a == $own) <=> ($b == $own) } @values;
}

sub op_read_one
{
	my ($self) = @_;
	$self->read_keys($self->some_key(qw(list pklist reg ireg)));
	return;
}

sub op_read_some
{
	my ($self) = @_;
	$self->read_keys(map { $self->some_key(qw(list pklist reg ireg)) } 1 .. between(2, 5));
	return;
}

# All registers of some tables: also those that are not there.
sub op_read_all
{
	my ($self) = @_;
	my @tables = map { ("${_}_reg", "${_}_ireg") } @{ $self->{prefixes} };
	my $table = pick(@tables);
	$self->read_keys(map { ("$table.$_", "$tables[0].$_") } 1 .. $self->{slots});
	return;
}

# --- writes -----------------------------------------------------------------

sub upsert_sql
{
	my ($self, $key, $n) = @_;
	my ($table, $id) = split /\./, $key;
	my $moves = $self->{by_key} ? $self->{moves} : one_in(3);
	my $pad = "repeat('p', " . between(100, 1500) . ')';
	my ($first, $moved) =
	  $table =~ /pklist/
	  ? ("pk, id) VALUES ($n, $id", $moves ? "pk = $n, " : '')
	  : ("pos, id) VALUES ($id * 1000, $id", $moves ? 'pos = t.pos + 1, ' : '');
	$first =~ s/(\w+), id\) VALUES \((.*), (\d+)$/pad, list, $1, id) VALUES ($pad, ARRAY[$n], $2, $3/;
	return "INSERT INTO $table AS t ($first) ON CONFLICT (id) DO UPDATE SET $moved"
	  . 'list = t.list || excluded.list RETURNING list';
}

sub update_list_sql
{
	my ($self, $table, $n, $list, $where) = @_;
	my $moved = '';
	$moved = $table =~ /pklist/ ? "pk = $n, " : 'pos = pos + 1, '
	  if ($self->{by_key} ? $self->{moves} : one_in(3)) && ($table !~ /pklist/ || $where !~ / IN /);
	$moved .= "pad = repeat('q', " . between(100, 1500) . '), ' if $self->{by_key} ? $self->{pads} : one_in(4);
	return "UPDATE $table SET ${moved}list = $list WHERE $where RETURNING id, list";
}

sub op_append
{
	my ($self, $key) = @_;
	$key ||= $self->some_key(qw(list pklist));
	my ($table, $id) = split /\./, $key;
	my $n = $self->{next}++;
	if (one_in(2))
	{
		my $rows = $self->note($self->update_list_sql($table, $n, "list || $n", "id = $id"),
			sub { map { [ 'append', $key, $n, $self->list_text($key, $_->[1]) ] } @_ });
		return if @$rows;
		$n = $self->{next}++;
	}
	$self->note($self->upsert_sql($key, $n),
		sub { map { [ 'append', $key, $n, $self->list_text($key, $_->[0]) ] } @_ });
	return;
}

sub op_append_two
{
	my ($self) = @_;
	my ($table) = split /\./, $self->some_key(qw(list pklist));
	my @keys = map { $self->key_in($table, $_) } 1, between(2, $self->{slots});
	my $n = $self->{next}++;
	my $ids = join ', ', map { (split /\./)[1] } @keys;
	$self->note(
		$self->update_list_sql($table, $n, "list || $n", "id IN ($ids)"),
		sub {
			map { [ 'append', "$table.$_->[0]", $n, $self->list_text("$table.$_->[0]", $_->[1]) ] } @_;
		});
	return;
}

# lock_row -- lock a row and return its value as it is now, undef if there is none.
#
# At READ COMMITTED "none" says nothing: the row that was waited for may be gone, and
# one that was inserted meanwhile is not in the statement's snapshot.
sub lock_row
{
	my ($self, $key, $mode) = @_;
	my ($table, $id) = split /\./, $key;
	my $column = $table =~ /list/ ? 'list' : 'v';
	my $value;
	$mode = $self->{mode} if $self->{by_key} && ($mode eq 'SHARE' || $self->{mode} ne 'SHARE');
	$self->note(
		"SELECT $column FROM $table WHERE id = $id FOR $mode",
		sub {
			return $self->{txn}{level} eq 'RC' ? () : [ 'lock', $key, undef ] if !@_;
			$value = $_[0][0];
			$value = $self->list_text($key, $value) if $table =~ /list/;
			return [ 'lock', $key, $value ];
		});
	return $value;
}

sub op_lock_read
{
	my ($self) = @_;
	$self->lock_row($self->some_key(qw(list pklist reg ireg)),
		pick('SHARE', 'UPDATE', 'NO KEY UPDATE'));
	return;
}

# Read a list, and write it back with one number more.  What keeps others away is the
# row's lock, or the level.
sub op_read_modify
{
	my ($self) = @_;
	my $key = $self->some_key(qw(list pklist));
	my ($table, $id) = split /\./, $key;
	my $value;
	if ($self->{txn}{level} eq 'RC' || one_in(3))
	{
		$value = $self->lock_row($key, pick('UPDATE', 'NO KEY UPDATE'));
	}
	else { $value = { $self->read_keys($key) }->{$key}; }
	return $self->op_append($key) if !defined $value;

	my $n = $self->{next}++;
	$self->note($self->update_list_sql($table, $n, "'{$value,$n}'", "id = $id"),
		sub { map { [ 'append', $key, $n, $self->list_text($key, $_->[1]) ] } @_ });
	return;
}

sub write_register
{
	my ($self, $key) = @_;
	my ($table, $id) = split /\./, $key;
	my $v = $self->{next}++;
	my $sql =
	  one_in(2)
	  ? "INSERT INTO $table AS t VALUES ($id, $v, NULL)
	     ON CONFLICT (id) DO UPDATE SET prev = t.v, v = excluded.v RETURNING prev"
	  : "UPDATE $table SET prev = v, v = $v WHERE id = $id RETURNING prev";
	$self->note($sql, sub { map { [ 'write', $key, $v, $_->[0] ] } @_ });
	return;
}

sub op_write
{
	my ($self) = @_;
	$self->write_register($self->some_key(qw(reg ireg)));
	return;
}

sub op_delete
{
	my ($self, $key) = @_;
	$key ||= $self->some_key(qw(reg ireg));
	my ($table, $id) = split /\./, $key;
	my $rows = $self->note("DELETE FROM $table WHERE id = $id RETURNING v",
		sub { map { [ 'delete', $key, $_->[0] ] } @_ });
	return scalar @$rows;
}

# Delete and insert again: nobody else can come between.
sub op_renew
{
	my ($self) = @_;
	my $key = $self->some_key(qw(reg ireg));
	return if !$self->op_delete($key);
	my ($table, $id) = split /\./, $key;
	my $v = $self->{next}++;
	$self->note("INSERT INTO $table VALUES ($id, $v, NULL) RETURNING prev",
		sub { map { [ 'write', $key, $v, $_->[0] ] } @_ });
	return;
}

# Look at two, and write one of them: what makes write skew.
sub op_look_and_leap
{
	my ($self) = @_;
	my @keys = map { $self->some_key(qw(reg ireg list pklist)) } 1, 2;
	if   (one_in(2)) { $self->read_keys(@keys); }
	else             { $self->read_keys($_) for @keys; }
	if   ($keys[1] =~ /list/) { $self->op_append($keys[1]); }
	else                      { $self->write_register($keys[1]); }
	return;
}

1;
