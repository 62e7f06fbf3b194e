#!/usr/bin/perl
#
# measure.pl -- runs the operations of bench/matrix on servers that are there. bench/matrix starts it.
#
#   measure.pl PEER=HOST:PORT:POSTMASTER... -- NAME=VALUE...
#
#   mode=load      makes the tables, in the state that is told
#   mode=measure   runs the operations; a line of CSV for each of them, peer and round, after the file's columns
#   operations=FILE only=REGEX rows=N rounds=N sessions=N state=STATE out=FILE
#
# One process of this script for each session of each peer: it has the connection, and does what the first process
# tells it by a pipe (order), one word of these after the other:
#
#   prepare   makes what the operation needs, and sets what it wants to be set; in the first round it sees to its plan,
#             which is the answer
#   run       runs it; the answer is the processor time of its server process in ns
#   finish    drops all; in the first round the answer is what the statements returned, and what the tables have
#   abandon   drops all after an error
#
# An operation that fails on a peer, has not the plan that it wants, or another result on another peer is told, and is
# left out of further rounds. The status is 1 in the end.
#
# Only in "run" do sessions work at the same time. No peer works while another one does. An operation that only reads
# has been run once before the first time that counts, so that its rows are where the server keeps what it reads.

use strict;
use warnings;

use DBI;
use DBD::Pg ();
use Digest::MD5 qw(md5_hex);
use IO::Handle;
use JSON::PP ();
use Time::HiRes qw(sleep);

# Nodes of zen's executor by what they stand for: see zen.executor in doc/settings.md.
my %stands_for = (
	'Seq Scan'   => 'ZenBatchAggregate',
	'Index Scan' => 'ZenPointAccess',
	map { ("Nested Loop$_" => 'ZenKeyJoin') } '', ' Left Join', ' Semi Join', ' Anti Join');

# Statements that can be prepared, or explained.
my $planned = qr/^(?:SELECT|INSERT|UPDATE|DELETE|MERGE|WITH)\b/i;

my $full_rows = 300_000;    # with fewer rows, there are fewer turns of a loop
my $least_turns = 20;
my $batches = 30;           # of the random updates

my (%peer, @names, %option);
my @columns = qw(state sessions rows operation group peer round cpu_ms);

# --- operations --------------------------------------------------------------

# Statements end with a semicolon that is not within $$.
sub statements
{
	my ($text) = @_;
	my @parts = split /(\$\$.*?\$\$)/s, $text;
	my $joined = join '', map { my $part = $_; $part =~ s/;/\0/g if $part !~ /^\$\$/; $part } @parts;
	return grep { length } map { s/^\s+|\s+$//gr } split /\0/, $joined;
}

sub operation
{
	my ($head, %section) = @_;
	my ($words, $run) = split /\s\|\s/, $head, 2;
	die "matrix: no statement in \"$head\"\n" unless defined $run;
	my ($name, $group, @words) = split ' ', $words;
	my %op = (name => $name, group => $group, loop => 1, by => 'backend', check => 'rows', send => 'prepared');
	for my $word (@words)
	{
		my ($key, $value) = $word =~ /^(copy|loop|plan|off|set|by|check|send)=(.+)/
		  or die "matrix: what is \"$word\" of $name?\n";
		$op{$key} = $value;
	}
	$op{loops}  = $op{loop} > 1;
	$op{run}    = $op{by} eq 'shell' ? [$run] : [ statements($run) ];
	$op{before} = [ statements($section{before} // '') ];
	$op{after}  = [ statements($section{after}  // '') ];
	$op{plan}   = [ map { tr/_/ /r } split /\+/, $op{plan} // '' ];
	$op{reads} = !$op{copy} && !@{ $op{before} } && $op{by} eq 'backend' && $op{run}[0] =~ /^SELECT\b(?!.*\bINTO\b)/s;
	return \%op;
}

sub read_operations
{
	my ($file) = @_;
	open my $in, '<', $file or die "matrix: $file: $!\n";
	my (@found, $head, %section, $key);
	my $add = sub { push @found, operation($head, %section) if defined $head; };
	while (my $line = <$in>)
	{
		next if $line =~ /^#|^\s*$/;
		if ($line =~ /^\S/)
		{
			$add->();
			($head, $key, %section) = ($line, 'head');
		}
		elsif ($line =~ /^\s+(before|after) \| (.*)/s) { ($key, $section{$1}) = ($1, $2); }
		elsif ($key eq 'head') { $head .= $line; }
		else                   { $section{$key} .= $line; }
	}
	$add->();
	my %times;
	$times{ $_->{name} }++ && die "matrix: $_->{name} is there twice\n" for @found;
	return @found;
}

# --- tables ------------------------------------------------------------------

my %share_of = (t => 1, u => 1, p1 => 1, p2 => 1, few => 100, wide => 10, doc => 10, big => 3000);

sub rows_of
{
	my ($table) = @_;
	my $rows = int($option{rows} / $share_of{$table});
	return $rows > 10 ? $rows : 10;
}

# Partitioned by range of id, a quarter of $n rows each.
sub partitioned
{
	my ($name, $like, $n) = @_;
	my @bounds = map { 1 + int($n * $_ / 4) } 1 .. 3;
	my @from   = ('MINVALUE', @bounds);
	my @to     = (@bounds, 'MAXVALUE');
	return ("CREATE TABLE $name $like PARTITION BY RANGE (id)",
		map { "CREATE TABLE ${name}_$_ PARTITION OF $name FOR VALUES FROM ($from[$_]) TO ($to[$_])" } 0 .. 3);
}

# As many updates as the table has rows, each of a row chosen at random.
sub random_updates
{
	my ($dbh, $table, $of) = @_;
	my $set = $of eq 'doc' ? q(j = jsonb_set(j, '{n}', to_jsonb(id % 100))) : 'v = v + 1';
	for my $batch (1 .. $batches)
	{
		$dbh->do("UPDATE $table SET $set WHERE mod(hashint4extended(id, $batch), $batches) = 0");
	}
	return;
}

sub settle
{
	my ($dbh, $table, $of) = @_;
	random_updates($dbh, $table, $of) if $option{state} eq 'updated' && $of !~ /^(?:few|big)$/;
	$dbh->do("VACUUM ANALYZE $table");
	return;
}

# make_copy -- w, a copy of a shared table with its indexes.
sub make_copy
{
	my ($dbh, $of, $n) = @_;
	my @create = ("CREATE TABLE w (LIKE $of INCLUDING ALL)");
	@create = partitioned('w', "(LIKE $of INCLUDING ALL)", $n) if $of =~ /^p/;
	$dbh->do($_) for @create, "INSERT INTO w SELECT * FROM $of WHERE id <= $n";
	settle($dbh, 'w', $of);
	return;
}

# Reads each row by its key. So zen's Met-Cache has it, whichever operation comes first. A transaction that reads much
# of what is not there brings no more into it.
sub read_by_key
{
	my ($dbh, $table) = @_;
	$dbh->do('DO $$ BEGIN FOR i IN 1 .. ' . rows_of($table) . " LOOP PERFORM x.* FROM $table x WHERE id = i; "
		  . 'IF i % 500 = 0 THEN COMMIT; END IF; END LOOP; END $$');
	return;
}

# The same values on all peers, scattered by hash functions.
sub load
{
	my ($dbh, $index) = @_;
	my $n = $option{rows};
	my %n = map { $_ => rows_of($_) } keys %share_of;
	my $fields = join ', ', map { "f$_ text" } 0 .. 9;
	my $values = join ', ', map { "repeat(chr(97 + (i + $_) % 26), 100)" } 0 .. 9;
	my $hash = "(hashint4(i) & 1073741823)";
	my @create = (
		'CREATE TABLE t (id int PRIMARY KEY, k int, g int, v int, s text)',
		"INSERT INTO t SELECT i, $hash % $n, hashint4(i + $n) & 1023, i % 1000, 'text of row ' || md5(i::text) "
		  . "FROM generate_series(1, $n) i",
		'UPDATE t SET g = g % 1000 WHERE g >= 1000',
		"CREATE INDEX t_k ON t USING $index (k)",
		'CREATE TABLE u (id int PRIMARY KEY, t_id int NOT NULL, v int)',
		"INSERT INTO u SELECT i, row_number() OVER (ORDER BY hashint4(i), i), i % 777 FROM generate_series(1, $n) i",
		"CREATE INDEX u_t_id ON u USING $index (t_id)",
		'CREATE TABLE few (id int PRIMARY KEY, v int)',
		"INSERT INTO few SELECT i, i % 99 FROM generate_series(1, $n{few}) i",
		"CREATE TABLE wide (id int PRIMARY KEY, v int, $fields)",
		"INSERT INTO wide SELECT i, i % 500, $values FROM generate_series(1, $n{wide}) i",
		'CREATE TABLE doc (id int PRIMARY KEY, j jsonb)',
		q{INSERT INTO doc SELECT i, jsonb_build_object('n', i % 100, 'name', md5(i::text), 'list', ARRAY[i, i + 1],}
		  . q{ 'nested', jsonb_build_object('a', i, 'b', 'text'), 'flag', i % 2 = 0) }
		  . "FROM generate_series(1, $n{doc}) i",
		'CREATE TABLE big (id int PRIMARY KEY, data text)',
		'ALTER TABLE big ALTER data SET STORAGE EXTERNAL',
		"INSERT INTO big SELECT i, repeat(md5(i::text), 3200) FROM generate_series(1, $n{big}) i");
	for my $name ('p1', 'p2')
	{
		push @create, partitioned($name, '(id int PRIMARY KEY, v int)', $n),
		  "INSERT INTO $name SELECT i, i % 1000 FROM generate_series(1, $n) i";
	}
	$dbh->do($_) for @create;
	settle($dbh, $_, $_) for sort keys %share_of;
	return if $option{state} eq 'beyond';
	read_by_key($dbh, $_) for grep { $_ ne 'big' } sort keys %share_of;
	return;
}

# --- a session ---------------------------------------------------------------

# CPU of a process in ns: of the scheduler, exact.
sub process_ns
{
	my ($pid) = @_;
	open my $in, '<', "/proc/$pid/schedstat" or die "matrix: /proc/$pid/schedstat: $!\n";
	return (split ' ', <$in>)[0];
}

sub connect_to
{
	my ($name, $path) = @_;
	my $peer = $peer{$name};
	my $dsn  = "dbi:Pg:dbname=postgres;host=$peer->{host};port=$peer->{port}";
	local $ENV{PGOPTIONS} = "-c search_path=$path -c client_min_messages=error" if defined $path;
	return DBI->connect($dsn, 'postgres', '', { RaiseError => 1, PrintError => 0, AutoCommit => 1 });
}

# One session of one peer, and the operation that it is at.
sub new_session
{
	my ($name, $number) = @_;
	my %self = (peer => $name, number => $number, path => "s$number,public");
	$self{dir} = "$option{dir}/$name-$number";
	mkdir $self{dir};
	chmod 0777, $self{dir};
	$self{dbh} = connect_to($name, $self{path});
	$self{dbh}->do("CREATE SCHEMA s$number");
	$self{pid} = $self{dbh}->{pg_pid};
	return \%self;
}

sub expand
{
	my ($self, $text) = @_;
	my %value = (n => $self->{n}, dir => $self->{dir}, schema => "s$self->{number}", session => "s$self->{number}",
		index => $self->{peer} eq 'zen-tree' ? 'zentree' : 'btree');
	return $text =~ s/(?<!:):(n|dir|schema|session|index)\b/$value{$1}/gr;
}

# The values of $1 and $2.
sub next_values
{
	my ($self) = @_;
	return (1 + int(rand($self->{n})), ++$self->{serial});
}

sub with_values
{
	my ($text, @values) = @_;
	return $text =~ s/\$([12])/$values[$1 - 1]/gr;
}

sub run_shell
{
	my ($self, $command) = @_;
	my $peer = $peer{ $self->{peer} };
	local @ENV{qw(PGHOST PGPORT PGUSER PGDATABASE)} = ($peer->{host}, $peer->{port}, 'postgres', 'postgres');
	my $output = qx($command 2>&1);
	die "$command: $output" if $?;
	return;
}

sub run_all
{
	my ($self, @texts) = @_;
	for my $text (map { expand($self, $_) } @texts)
	{
		if ($text =~ /^shell (.*)/s) { run_shell($self, $1); }
		else                         { $self->{dbh}->do($text); }
	}
	return;
}

# Makes statements of the operation's texts: each a function of the values of $1 and $2, that returns the handle if
# there are rows, else how many rows it has changed.
sub compile
{
	my ($self, $text) = @_;
	my $dbh = $self->{dbh};
	my @used = grep { index($text, "\$$_") >= 0 } 1, 2;
	if ($text !~ $planned || $text !~ /^SELECT|RETURNING/i && !@used || $self->{op}{send} eq 'text')
	{
		return sub {
			my $statement = with_values($text, @_);
			return $dbh->do($statement) unless $statement =~ /^(?:SELECT|FETCH)/i;
			my $sth = $dbh->prepare($statement, { pg_server_prepare => 0 });
			$sth->execute;
			return $sth;
		};
	}
	my %new = map { $used[$_] => $_ + 1 } 0 .. $#used;
	my $sth = $dbh->prepare($text =~ s/\$([12])/\$$new{$1}::int/gr, { pg_prepare_now => 1 });
	return sub {
		my $changed = $sth->execute(@_[ map { $_ - 1 } @used ]);
		return $sth->{NUM_OF_FIELDS} ? $sth : $changed;
	};
}

# Rows that a statement returned, as lines; or how many it changed.
sub lines_of
{
	my ($result, $check) = @_;
	return ("changed $result") unless ref $result;
	my $rows = $result->fetchall_arrayref;
	return ('rows ' . @$rows) if $check eq 'count';
	return map { join "\x1f", map { $_ // '\N' } @$_ } @$rows;
}

# --- orders ------------------------------------------------------------------

# The plan, which must have the nodes that are asked for.
sub see_plan
{
	my ($self) = @_;
	my $op = $self->{op};
	my ($text) = grep { $_ =~ $planned } @{ $op->{run} };
	# what is not the first may want what the first one makes
	return '' unless @{ $op->{plan} } || $op->{by} eq 'backend' && $op->{run}[0] =~ $planned;
	my $explain = 'EXPLAIN (COSTS OFF) ' . with_values(expand($self, $text), 17, $self->{n} + 17);
	my $plan = join "\n", map { $_->[0] } @{ $self->{dbh}->selectall_arrayref($explain) };
	for my $node (@{ $op->{plan} })
	{
		next if $plan =~ /^\s*(?:-> +)?\Q$node\E(?= using| on| \d|$)/m;
		next if $stands_for{$node} && $plan =~ /Custom Scan \($stands_for{$node}\)/;
		die "no $node in the plan of $op->{name}:\n$plan\n";
	}
	return $plan;
}

sub turns
{
	my ($op) = @_;
	return 1 unless $op->{loops};
	my $turns = int($op->{loop} * ($option{rows} < $full_rows ? $option{rows} / $full_rows : 1) / $option{sessions});
	return $turns > $least_turns ? $turns : $least_turns;
}

sub prepare
{
	my ($self, $op, $check) = @_;
	my $dbh = $self->{dbh};
	@$self{qw(op check lines)} = ($op, $check, []);
	$self->{n} = $option{rows};
	$self->{n} = int(rows_of($op->{copy}) / $option{sessions} / 20) * 20 if $op->{copy};
	$self->{serial} = 10 * $option{rows};
	srand(hex(substr(md5_hex($op->{name}), 0, 7)) + $self->{number});
	make_copy($dbh, $op->{copy}, $self->{n}) if $op->{copy};
	run_all($self, @{ $op->{before} });
	$dbh->do("SET enable_$_ = off") for split /,/, $op->{off} // '';
	for (split /,/, $op->{set} // '')
	{
		my ($name, $value) = split /=/, $_, 2;
		$dbh->do("SET $name = '$value'");
	}
	my $plan = $check ? see_plan($self) : '';
	return $plan if $op->{by} ne 'backend';
	$self->{statements} = [ map { compile($self, expand($self, $_)) } @{ $op->{run} } ];
	if ($op->{reads} && $check || $op->{loops})
	{
		turn($self) for 1 .. ($op->{loops} ? 7 : 1);    # the seventh execution has the generic plan, if any
	}
	return $plan;
}

# Once each of the operation's statements.
sub turn
{
	my ($self) = @_;
	my @values = next_values($self);
	for my $statement (@{ $self->{statements} })
	{
		my $result = $statement->(@values);
		push @{ $self->{lines} }, lines_of($result, $self->{op}{check}) if $self->{check};
		$result->finish if ref $result;
	}
	return;
}

sub turn_connected
{
	my ($self) = @_;
	my @values = next_values($self);
	my $dbh = connect_to($self->{peer}, $self->{path});
	for my $text (@{ $self->{op}{run} })
	{
		my $statement = with_values(expand($self, $text), @values);
		push @{ $self->{lines} }, $statement =~ /^SELECT/ ? $dbh->selectrow_array($statement) : $dbh->do($statement);
	}
	$dbh->disconnect;
	return;
}

sub run
{
	my ($self) = @_;
	my $op     = $self->{op};
	my $turns  = turns($op);
	my $before = process_ns($self->{pid});
	if    ($op->{by} eq 'shell')   { run_shell($self, expand($self, $op->{run}[0])); }
	elsif ($op->{by} eq 'connect') { turn_connected($self) for 1 .. $turns; }
	else                           { turn($self) for 1 .. $turns; }
	return process_ns($self->{pid}) - $before;
}

# What the tables of the session have, as one line each.
sub tables
{
	my ($self) = @_;
	my $dbh = $self->{dbh};
	my $names = $dbh->selectcol_arrayref(q{SELECT c.oid::regclass::text FROM pg_class c WHERE relkind IN ('r', 'm')
		AND relnamespace IN (current_schema()::regnamespace, pg_my_temp_schema()) ORDER BY relname});
	return map {
		join ' ', $_, $dbh->selectrow_array("SELECT count(*), coalesce(sum(hashtextextended(x::text, 0)), 0) FROM $_ x")
	} @$names;
}

sub drop_all
{
	my ($self) = @_;
	my $dbh = $self->{dbh};
	$dbh->do('RESET ALL');
	$dbh->do("DROP SCHEMA s$self->{number} CASCADE");
	$dbh->do("CREATE SCHEMA s$self->{number}");
	return 0;
}

sub abandon
{
	my ($self) = @_;
	my $dbh = $self->{dbh};
	delete $self->{statements};
	$dbh->do('ROLLBACK');
	$dbh->do('DISCARD TEMP');
	return drop_all($self);
}

sub finish
{
	my ($self) = @_;
	my $dbh = $self->{dbh};
	my $op = $self->{op};
	delete $self->{statements};
	$dbh->do('RESET ALL');    # what is read now needs no plan of a kind
	my @after = @{ $op->{after} };
	my $ends = @after && $after[0] =~ /^(?:COMMIT|ROLLBACK)$/ ? shift @after : undef;
	$dbh->do($ends) if $ends;
	my @tables = $self->{check} ? tables($self) : ();
	run_all($self, @after);
	my $said = join "\n", (sort @{ $self->{lines} }), @tables;
	$self->{lines} = [];
	drop_all($self);
	return $self->{check} ? { digest => md5_hex($said), begin => substr($said, 0, 300), tables => "@tables" } : 0;
}

# --- the first process and the others ----------------------------------------

sub send_to
{
	my ($handle, $what) = @_;
	print $handle JSON::PP::encode_json([$what]), "\n";
	return;
}

sub hear_from
{
	my ($handle) = @_;
	my $line = <$handle>;
	return defined $line ? JSON::PP::decode_json($line)->[0] : undef;
}

# Does what it is told until nobody tells it any more.
sub serve
{
	my ($in, $out, $name, $number, $ops) = @_;
	my $self = new_session($name, $number);
	while (defined(my $order = hear_from($in)))
	{
		my ($what, $op, $check) = @$order;
		my $answer = eval {
			  $what eq 'prepare' ? prepare($self, $ops->{$op}, $check)
			: $what eq 'run'     ? run($self)
			: $what eq 'abandon' ? abandon($self)
			:                      finish($self);
		};
		send_to($out, defined $answer ? { answer => $answer } : { error => "$@" });
	}
	$self->{dbh}->disconnect;
	return;
}

sub start_session
{
	my ($name, $number, $ops) = @_;
	pipe my $child_in,  my $to      or die $!;
	pipe my $from,      my $child_out or die $!;
	my $pid = fork // die $!;
	if (!$pid)
	{
		close $_ for $to, $from;
		$child_out->autoflush(1);
		serve($child_in, $child_out, $name, $number, $ops);
		exit 0;
	}
	close $_ for $child_in, $child_out;
	$to->autoflush(1);
	return { to => $to, from => $from, name => $name, number => $number };
}

# Tells all sessions of a peer, or one after the other; their answers.
sub order
{
	my ($sessions, @order) = @_;
	my $hear = sub {
		my ($session) = @_;
		my $answer = hear_from($session->{from}) // die "matrix: a session on $session->{name} is gone\n";
		die "matrix: $order[1] on $session->{name}: $answer->{error}\n" if $answer->{error};
		return $answer->{answer};
	};
	if ($order[0] eq 'run')
	{
		send_to($_->{to}, \@order) for @$sessions;
		return map { $hear->($_) } @$sessions;
	}
	return map { send_to($_->{to}, \@order); $hear->($_) } @$sessions;
}

# CPU in ns of all that were the postmaster's children and are reaped, and how many it has that are not.
sub reaped_ns
{
	my ($postmaster) = @_;
	open my $in, '<', "/proc/$postmaster/stat" or die "matrix: the server is gone\n";
	my @fields = split ' ', <$in> =~ s/.*\) //r;
	return ($fields[13] + $fields[14]) * 1e9 / $option{hz};
}

sub children
{
	my ($postmaster) = @_;
	my $children = 0;
	for my $file (glob '/proc/[0-9]*/stat')
	{
		open my $in, '<', $file or next;
		my (undef, $parent) = split ' ', (<$in> // '') =~ s/.*\) //r;
		$children++ if defined $parent && $parent == $postmaster;
	}
	return $children;
}

# Runs what was prepared; the processor time in ns.
sub measured
{
	my ($name, $sessions, $op) = @_;
	my $postmaster = $peer{$name}{postmaster};
	if ($op->{by} eq 'backend')
	{
		my $sum = 0;
		$sum += $_ for order($sessions, 'run', $op->{name});
		return $sum;
	}
	my ($before, $children) = (reaped_ns($postmaster), children($postmaster));
	order($sessions, 'run', $op->{name});
	for (1 .. 500)
	{
		last if children($postmaster) <= $children;
		sleep 0.01;
	}
	return reaped_ns($postmaster) - $before;
}

sub same_on_all
{
	my ($op, $said) = @_;
	my ($first, @others) = @names;
	for my $other (@others)
	{
		for my $i (0 .. $#{ $said->{$first} })
		{
			my ($a, $b) = ($said->{$first}[$i], $said->{$other}[$i]);
			next if $a->{digest} eq $b->{digest};
			die "matrix: $op->{name} differs:\n$first: $a->{begin}\n$a->{tables}\n$other: $b->{begin}\n$b->{tables}\n";
		}
	}
	return;
}

# Tells where peers have the nodes that are asked for, but otherwise another plan. zen's own nodes hide what is below.
sub tell_plans
{
	my ($op, $plan) = @_;
	my %names;
	push @{ $names{ $plan->{$_} } }, $_ for grep { $plan->{$_} !~ /Custom Scan/ } @names;
	return if keys %names < 2;
	print "other plans for $op->{name}:\n";
	print join(', ', @{ $names{$_} }), ":\n$_\n" for sort keys %names;
	return;
}

# An operation on all peers; their numbers go to the file when all have one.
sub one_round
{
	my ($op, $round, $turns, $sessions, $out) = @_;
	my (%said, %ms, %plan);
	for my $name (@$turns)
	{
		($plan{$name}) = order($sessions->{$name}, 'prepare', $op->{name}, $round == 1 ? 1 : 0);
		$ms{$name} = sprintf '%.3f', measured($name, $sessions->{$name}, $op) / 1e6;
		$said{$name} = [ order($sessions->{$name}, 'finish', $op->{name}) ];
	}
	same_on_all($op, \%said) if $round == 1;
	tell_plans($op, \%plan) if $round == 1;
	my @kind = (@option{qw(state sessions rows)}, @$op{qw(name group)});
	print $out join(',', @kind, $_, $round, $ms{$_}), "\n" for @$turns;
	printf "round %d of %d, %-28s %s\n", $round, $option{rounds}, $op->{name},
	  join ', ', map { "$_ $ms{$_} ms" } @names;
	return 1;
}

sub measure
{
	my @ops = grep { $_->{name} =~ /$option{only}/ } read_operations($option{operations});
	my %ops = map { $_->{name} => $_ } @ops;
	my %sessions;
	for my $name (@names)
	{
		$sessions{$name} = [ map { start_session($name, $_, \%ops) } 1 .. $option{sessions} ];
	}
	open my $out, '>>', $option{out} or die "matrix: $option{out}: $!\n";
	$out->autoflush(1);
	print $out join(',', @columns), "\n" if -z $out;
	my %failed;
	for my $round (1 .. $option{rounds})
	{
		for my $i (grep { !$failed{ $ops[$_]{name} } } 0 .. $#ops)
		{
			my @turns = map { $names[ ($_ + $i + $round) % @names ] } 0 .. $#names;
			next if eval { one_round($ops[$i], $round, \@turns, \%sessions, $out); };
			print STDERR $@;
			$failed{ $ops[$i]{name} } = 1;
			order($sessions{$_}, 'abandon', $ops[$i]{name}) for @names;
		}
	}
	print STDERR 'matrix: failed: ', join(' ', sort keys %failed), "\n" if %failed;
	return %failed ? 1 : 0;
}

while (defined(my $argument = shift @ARGV))
{
	last if $argument eq '--';
	my ($name, $host, $port, $postmaster) = $argument =~ /^([\w-]+)=(.*):(\d+):(\d+)$/ or die "what is $argument?\n";
	push @names, $name;
	$peer{$name} = { host => $host, port => $port, postmaster => $postmaster };
}
%option = map { split /=/, $_, 2 } @ARGV;
STDOUT->autoflush(1);
if ($option{mode} eq 'load')
{
	load(connect_to($_), $_ eq 'zen-tree' ? 'zentree' : 'btree') for @names;
}
elsif ($option{mode} eq 'list') { printf "%-28s %s\n", @$_{qw(name group)} for read_operations($option{operations}); }
else                            { exit measure(); }
