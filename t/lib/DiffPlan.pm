# DiffPlan -- which statement comes next in a session of the differential test:
# transaction control, cursors, DDL and maintenance around the statements of DiffGen.
#
# A plan follows its session by the results (see follow): whether a transaction is
# open or failed, its savepoints and cursors.  It is only a guide; a statement that
# does not fit must fail in the same way on both sides.

package DiffPlan;

use strict;
use warnings;

use DiffGen;
use DiffPoint;
use ZenTest;

my @indexes = (
	'p (v)', 'p (v, id)', 'p (lower(left(w, 30)))', 'p (left(w, 20), v)', 'p (v) INCLUDE (x)',
	'p (id) WHERE v IS NULL', 'p (x) WHERE x > 10', 'p ((v % 7))',
	'p USING hash (v)', 'p USING hash (w)', 'p USING gin (arr)', 'p USING gist (r)',
	'p USING spgist (r)', 'p USING brin (id)', 'p USING brin (v, u)',
	's (k)', 's (j, n)', 's USING hash (k)', 's USING brin (n)', 's (n) WHERE k > 20',
	'c (pid)', 'c (q, pid)', 'c USING hash (q)', 'd (pid)', 'pt (left(val, 20))',
	'pt (part, id)', 'log (op, tab)');
my @unique_indexes =
  ('p (u, v)', 'p (u) WHERE u < 200', 's (k, n)', 'p (v)', 'c (id, pid)', 'd (k) WHERE val > 3');

my @settings = (
	'enable_seqscan = off', 'enable_bitmapscan = off',
	'enable_indexonlyscan = off', 'enable_hashjoin = off', 'enable_mergejoin = off',
	'enable_nestloop = off', 'enable_sort = off', 'enable_tidscan = off', 'enable_hashagg = off',
	'parallel_setup_cost = 0', 'parallel_tuple_cost = 0',
	'min_parallel_table_scan_size = 0', 'cursor_tuple_fraction = 1', 'random_page_cost = 0.1',
	'work_mem = 64');
# With these there are no point accesses.  So they hold for a transaction only.
my @short_settings = ('enable_indexscan = off', 'force_parallel_mode = on', 'plan_cache_mode = force_custom_plan');

# What to do next, and how often.
my %weight = (
	insert_p     => 60, upsert_p     => 50, insert_other => 80,
	update_p     => 140, update_key  => 45, update_other => 80,
	delete_any   => 55, merge        => 40, compound     => 30,
	query        => 130, lock_rows   => 60, copy_rows    => 20,
	scan         => 20, cursor       => 60, refill       => 25,
	create_index => 16, drop_index   => 12, alter_table  => 12,
	truncate     => 6,  maintain     => 16, matview      => 8,
	create_table => 12, lock_table   => 5,  setting      => 20,
	point        => 1600, as_role      => 60, fill         => 28,
	ddl_between  => 40, table_ddl    => 16, quiet_ddl    => 24, prepare_again => 8);
my @bag = map { ($_) x $weight{$_} } sort keys %weight;

# new -- $shared is a hash that the sessions of a run share: the gids of prepared
# transactions, and a list of the plans.
sub new
{
	my ($class, $shared, $name) = @_;
	my $self = bless { shared => $shared, name => $name }, $class;
	push @{ $shared->{plans} }, $self;
	$shared->{prepared} ||= [];
	$self->forget;
	return $self;
}

sub forget
{
	my ($self) = @_;
	@$self{qw(in_txn failed iso savepoints cursors queue role)} = (0, 0, '', [], {}, [], 1);
	return;
}

# others_idle -- no other session has a transaction open, and none is prepared.
sub others_idle
{
	my ($self) = @_;
	return !@{ $self->{shared}{prepared} }
	  && !grep { $_ != $self && $_->{in_txn} } @{ $self->{shared}{plans} };
}

sub others_have_cursors
{
	my ($self) = @_;
	return scalar grep { $_ != $self && $_->{in_txn} && %{ $_->{cursors} } } @{ $self->{shared}{plans} };
}

# --- following the session --------------------------------------------------

# follow -- take note of a statement and of its result, which was the same on both
# sides.
sub follow
{
	my ($self, $statement, $result) = @_;
	my ($sql, $tag) = ($statement->{sql}, $result->{tag});

	# a rollback may bring back a role that was set before
	$self->{role} = 0 if $sql eq 'RESET ROLE' && !$result->{state} && !$self->{in_txn};
	$self->{role} = 1 if $sql =~ /^SET ROLE/ && !$result->{state};
	if ($result->{state})
	{
		$self->{failed} = 1 if $self->{in_txn};
		@{ $self->{queue} } = ();
		# A COMMIT or PREPARE that fails ends the transaction.
		$self->forget if $sql =~ /^(?:COMMIT|PREPARE)/;
		return;
	}
	if ($sql =~ /^BEGIN(?: ISOLATION LEVEL (.*))?/)
	{
		$self->{in_txn} = 1;
		$self->{iso} = $1 || 'READ COMMITTED';
	}
	elsif ($tag eq 'COMMIT' || $tag eq 'PREPARE TRANSACTION')
	{
		push @{ $self->{shared}{prepared} }, $statement->{gid} if $statement->{gid};
		$self->forget_transaction(sub { !$_[0]{hold} });
	}
	elsif ($tag eq 'ROLLBACK' && $sql !~ / TO /)
	{
		$self->forget_transaction(sub { $_[0]{new} });
	}
	elsif ($sql =~ /^SAVEPOINT (\w+)/) { push @{ $self->{savepoints} }, $1; }
	elsif ($sql =~ /^ROLLBACK TO (\w+)/)
	{
		my $name = $1;
		pop @{ $self->{savepoints} } while $self->{savepoints}[-1] ne $name;
		$self->{failed} = 0;
	}
	elsif ($sql =~ /^RELEASE (\w+)/)
	{
		my $name = $1;
		1 until pop @{ $self->{savepoints} } eq $name;
	}
	elsif ($sql =~ /^DECLARE (\w+) (.*?)CURSOR (WITH HOLD)?/)
	{
		my ($name, $options, $hold) = ($1, $2, $3);
		$self->{cursors}{$name} =
		  { scroll => index($options, 'SCROLL') >= 0, hold => $hold, new => $self->{in_txn} };
	}
	elsif ($sql =~ /^CLOSE (\w+)/) { delete $self->{cursors}{$1}; }
	elsif ($statement->{dml})       { DiffGen::remember($sql); }
	return;
}

# forget_transaction -- and the cursors that end with it.
sub forget_transaction
{
	my ($self, $ends) = @_;
	my $cursors = $self->{cursors};
	delete $cursors->{$_} for grep { $ends->($cursors->{$_}) } keys %$cursors;
	$_->{new} = 0 for values %$cursors;
	@$self{qw(in_txn failed iso savepoints)} = (0, 0, '', []);
	return;
}

# --- the next statement -----------------------------------------------------

sub next_statement
{
	my ($self) = @_;
	my $statement = shift @{ $self->{queue} };
	return $statement if $statement;
	return { sql => 'RESET ROLE' } if $self->{role} && !$self->{failed} && (!$self->{in_txn} || $self->{role}++ < 2);

	my @statements =
	    $self->{failed} ? $self->after_failure
	  : $self->{in_txn} ? $self->in_transaction
	  :                   $self->outside_transaction;
	@statements = map { ref $_ ? $_ : { sql => $_ } } @statements;
	$self->{queue} = [ @statements[ 1 .. $#statements ] ];
	return $statements[0];
}

sub after_failure
{
	my ($self) = @_;
	return 'ROLLBACK TO ' . pick(@{ $self->{savepoints} })
	  if @{ $self->{savepoints} } && !one_in(3);
	return DiffGen::query() if one_in(12);
	return one_in(8) ? 'COMMIT' : 'ROLLBACK';
}

sub outside_transaction
{
	my ($self) = @_;
	my $prepared = $self->{shared}{prepared};
	if (@$prepared && one_in(4))
	{
		my $gid = shift @$prepared;
		return (one_in(3) ? 'ROLLBACK' : 'COMMIT') . " PREPARED '$gid'";
	}
	return $self->begin if one_in(3);
	return $self->anything;
}

sub begin
{
	my $level = pick('', '', '', ' ISOLATION LEVEL REPEATABLE READ',
		' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE');
	my @begin = ("BEGIN$level");
	push @begin, 'SET TRANSACTION READ ONLY' if one_in(20);
	return map { { sql => $_ } } @begin;
}

sub in_transaction
{
	my ($self) = @_;
	my $choice = rand;
	return $self->end_transaction if $choice < 0.12;
	if ($choice < 0.2)
	{
		return 'SAVEPOINT s' . between(1, 3)
		  if !@{ $self->{savepoints} } || (one_in(2) && @{ $self->{savepoints} } < 4);
		return pick('ROLLBACK TO ', 'ROLLBACK TO ', 'RELEASE ') . pick(@{ $self->{savepoints} });
	}
	return pick('SET CONSTRAINTS ALL DEFERRED', 'SET CONSTRAINTS ALL IMMEDIATE')
	  if $choice < 0.21;
	return $self->anything;
}

sub end_transaction
{
	my ($self) = @_;
	return 'ROLLBACK' if one_in(4);
	if (one_in(12) && !@{ $self->{shared}{prepared} })
	{
		my $gid = "$self->{name}_" . ++$self->{shared}{gids};
		return { sql => "PREPARE TRANSACTION '{SCHEMA}_$gid'", gid => "{SCHEMA}_$gid" };
	}
	return 'COMMIT';
}

sub anything
{
	my ($self) = @_;
	my $kind = pick(@bag);
	my $make = DiffGen->can($kind) || $self->can($kind) || DiffPoint->can($kind);
	my @made = $make->($self);
	$_ = { sql => $_ } for grep { !ref } @made;
	$_->{kind} = $kind for @made;
	return @made;
}

# in_block -- statements that need a transaction.
sub in_block
{
	my ($self, @statements) = @_;
	return $self->{in_txn} ? @statements : ('BEGIN', @statements, 'COMMIT');
}

# --- cursors ----------------------------------------------------------------

sub cursor
{
	my ($self) = @_;
	my @open = sort keys %{ $self->{cursors} };
	return $self->current_of if one_in(4);
	return $self->declare    if !@open || (@open < 3 && one_in(4)) || one_in(50);

	my $name = pick(@open);
	return "CLOSE $name" if one_in(8);
	my $count = between(1, 12);
	my @forward = ('NEXT', $count, "FORWARD $count", 'FORWARD 0');
	my @any = (@forward, 'PRIOR', 'FIRST', 'LAST', 'ALL', "BACKWARD $count", 'BACKWARD ALL',
		"ABSOLUTE $count", "ABSOLUTE -$count", 'RELATIVE -2', 'RELATIVE 0');
	my $where = pick($self->{cursors}{$name}{scroll} ? @any : @forward);
	return { sql => pick('FETCH', 'FETCH', 'FETCH', 'MOVE') . " $where FROM $name", ordered => 1 };
}

sub declare
{
	my ($self) = @_;
	my ($name) = grep { !$self->{cursors}{$_} } qw(c1 c2 c3);
	$name = 'c1' unless $name;
	my $query = pick(
		'SELECT id, v, w FROM p ORDER BY id',
		'SELECT id, v FROM p ORDER BY v, id',
		'SELECT id, x FROM p WHERE v > 5 ORDER BY id DESC',
		'SELECT p.id, c.id FROM p JOIN c ON c.pid = p.id ORDER BY 1, 2',
		'SELECT k, n FROM s ORDER BY k, n, j',
		'SELECT id, val FROM pt ORDER BY id, part');
	my $hold = one_in(4) ? 'WITH HOLD ' : '';
	my $sql = "DECLARE $name SCROLL CURSOR ${hold}FOR $query";
	return $self->{in_txn} || $hold ? $sql : ('BEGIN', $sql, { sql => "FETCH 3 FROM $name", ordered => 1 });
}

# Updates and deletes WHERE CURRENT OF, on rows in a defined order.
sub current_of
{
	my ($self) = @_;
	my ($query, $table) = @{
		pick(
			[ 'SELECT * FROM p WHERE ' . DiffGen::where_p() . ' ORDER BY id FOR UPDATE', 'p' ],
			[ 'SELECT * FROM p WHERE ' . DiffGen::where_p() . ' ORDER BY id FOR NO KEY UPDATE', 'p' ],
			[ 'SELECT * FROM p WHERE id = ' . DiffGen::id(),                    'p' ],
			[ 'SELECT * FROM pt WHERE id = ' . between(1, 120) . ' AND part = ' . between(1, 2), 'pt' ])
	};
	my $set  = $table eq 'p' ? 'v = v + 1' : q{val = val || 'c'};
	my @work = map {
		(   { sql => 'FETCH NEXT FROM cu', ordered => 1 },
			one_in(4)
			? "DELETE FROM $table WHERE CURRENT OF cu"
			: "UPDATE $table SET $set WHERE CURRENT OF cu RETURNING *")
	} 1 .. between(1, 4);
	return $self->in_block("DECLARE cu CURSOR FOR $query", @work, 'CLOSE cu');
}

# --- DDL and maintenance ----------------------------------------------------

sub refill
{
	my $low = between(1, 100);
	return pick(
		sub { "INSERT INTO p (id, v, w) SELECT g, g % 20, 'w' || g FROM generate_series($low, $low + 20) g "
		  . "ON CONFLICT DO NOTHING" },
		sub { "INSERT INTO p (id, v, w) SELECT g, g % 20, 'w' || g FROM generate_series($low, $low + 20) g "
			  . "ON CONFLICT DO NOTHING" },
		sub { "INSERT INTO pt SELECT g, g % 4, 'v' || g FROM generate_series($low, $low + 10) g ON CONFLICT DO NOTHING"
			},
		sub { "INSERT INTO d SELECT g, NULL, g % 11 FROM generate_series($low, $low + 10) g ON CONFLICT DO NOTHING" },
		sub { 'INSERT INTO s SELECT g % 50, ' . q{'j' || g % 9, g} . " FROM generate_series($low, $low + 30) g" })->();
}

sub create_index
{
	my ($self) = @_;
	my $unique = one_in(6);
	my $concurrently = !$self->{in_txn} && $self->others_idle && one_in(6) ? 'CONCURRENTLY ' : '';
	my $definition = $unique ? pick(@unique_indexes) : pick(@indexes);
	$concurrently = '' if $definition =~ /^pt/;
	return sprintf 'CREATE %sINDEX %sIF NOT EXISTS ix%d ON %s',
	  $unique ? 'UNIQUE ' : '', $concurrently, between(1, 12), $definition;
}

sub drop_index { return 'DROP INDEX IF EXISTS ix' . between(1, 12); }

sub alter_table
{
	my ($self) = @_;
	my $table  = pick(qw(p s c d));
	my $column = 'e' . between(1, 3);
	my @choice = (
		"ALTER TABLE $table ADD COLUMN IF NOT EXISTS $column int",
		"ALTER TABLE $table ADD COLUMN IF NOT EXISTS $column text DEFAULT 'dflt'",
		"ALTER TABLE $table ADD COLUMN IF NOT EXISTS $column int GENERATED ALWAYS AS (7) STORED",
		"ALTER TABLE $table DROP COLUMN IF EXISTS $column",
		"ALTER TABLE $table DROP COLUMN IF EXISTS $column",
		'ALTER TABLE s ALTER n TYPE ' . pick('bigint', 'int', 'numeric'),
		'ALTER TABLE p ALTER x TYPE numeric(' . pick('12, 2', '14, 3', '11, 1') . ')',
		'ALTER TABLE c ALTER note TYPE ' . pick('text', 'varchar', 'varchar(10)'),
		'ALTER TABLE s ALTER k ' . pick('SET', 'DROP') . ' NOT NULL',
		'ALTER TABLE s ADD CONSTRAINT small CHECK (n < ' . pick(100, 100000) . ')',
		'ALTER TABLE s DROP CONSTRAINT IF EXISTS small',
		'ALTER TABLE pt DETACH PARTITION pt1',
		'ALTER TABLE pt ATTACH PARTITION pt1 FOR VALUES IN (1)');
	# An older snapshot of another session would see a rewritten table as empty.
	push @choice,
	  map { "ALTER TABLE $_ SET ACCESS METHOD " . pick('heap', '{AM}', '{AM}') } qw(s d pt1)
	  if !$self->{in_txn} && $self->others_idle;
	return { sql => pick(@choice), multi => 1 };
}

sub truncate
{
	return pick(
		'TRUNCATE s', 'TRUNCATE log', 'DELETE FROM log', 'TRUNCATE c RESTART IDENTITY',
		'TRUNCATE pt', 'TRUNCATE d, ex', 'TRUNCATE pt1', 'TRUNCATE p CASCADE', 'TRUNCATE p');
}

sub maintain
{
	my ($self) = @_;
	my $table = pick(qw(p p c d s ex pt log));
	# VACUUM may wait without end for a page that a cursor holds.
	return "ANALYZE $table" if $self->{in_txn} || $self->others_have_cursors;
	my @choice = (
		"VACUUM $table", "VACUUM $table", "VACUUM (ANALYZE) $table", 'VACUUM (INDEX_CLEANUP ON) p',
		"VACUUM (FREEZE) $table", "VACUUM (PARALLEL 2) $table", "ANALYZE $table");
	push @choice, 'VACUUM FULL ' . pick(qw(p c d s ex)), 'CLUSTER p USING p_pkey',
	  'REINDEX TABLE ' . pick(qw(p c s pt)), 'REINDEX INDEX p_u_key',
	  'CLUSTER c USING c_pkey', 'REINDEX TABLE CONCURRENTLY ' . pick(qw(p c d))
	  if $self->others_idle;
	return pick(@choice);
}

sub matview
{
	return pick('REFRESH MATERIALIZED VIEW mv', 'REFRESH MATERIALIZED VIEW CONCURRENTLY mv');
}

sub create_table
{
	my ($self) = @_;
	my $name = 'x' . between(1, 3);
	return pick(
		sub { "DROP TABLE IF EXISTS $name" },
		sub { "CREATE TABLE IF NOT EXISTS $name USING {AM} AS SELECT id, v, w FROM p WHERE " . DiffGen::where_p() },
		sub { "CREATE TABLE IF NOT EXISTS $name USING {AM} AS SELECT id, v, w FROM p" },
		sub { "CREATE TABLE IF NOT EXISTS $name (LIKE p INCLUDING ALL) USING {AM}" },
		sub { DiffGen::dml("INSERT INTO $name (id, v, w) SELECT id, v, w FROM p WHERE " . DiffGen::where_p()) },
		sub { DiffGen::dml("UPDATE $name SET v = v + 1, w = 'x' || id WHERE id % 3 = " . between(0, 2)) },
		sub { DiffGen::dml("DELETE FROM $name WHERE id % 5 = " . between(0, 4) . ' RETURNING id') },
		sub { "SELECT id, v, w FROM $name" },
		sub {
			my $drop = "DROP TABLE IF EXISTS $name";
			$self->in_block($drop, "CREATE TABLE $name USING {AM} AS SELECT id, v, w FROM p ORDER BY id",
				"UPDATE $name SET v = 0 WHERE id % 2 = 0", "SELECT count(*), sum(v) FROM $name");
		})->();
}

sub lock_table
{
	my ($self) = @_;
	return $self->in_block(
		'LOCK TABLE ' . pick(qw(p c s pt)) . ' IN '
		  . pick('ACCESS SHARE', 'ROW EXCLUSIVE', 'SHARE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE')
		  . ' MODE' . pick('', ' NOWAIT'));
}

# pick_executor -- most of what zen.executor can name.
sub pick_executor
{
	return join(', ', grep { !one_in(5) } qw(point keyjoin batch shape)) || 'none';
}

sub setting
{
	my ($self) = @_;
	return $self->in_block('SET LOCAL ' . pick(@short_settings), $self->anything) if one_in(5);
	return 'SET plan_cache_mode = ' . pick('auto', ('force_generic_plan') x 3) if one_in(8);
	return q{SET zen.executor = '} . pick_executor() . q{'} if one_in(4);
	return 'SET ' . pick(@settings) unless one_in(2);
	(my $name = pick(@settings)) =~ s/ .*//;
	return "RESET $name";
}

# Grants and functions, of which two transactions cannot change one at once.
sub quiet_ddl
{
	my ($self) = @_;
	return $self->others_idle ? { sql => DiffPoint::quiet_ddl(), multi => 1 } : DiffPoint::point($self);
}

sub ddl_between
{
	my ($self) = @_;
	return $self->in_block(DiffPoint::ddl_between($self));
}

sub table_ddl { return { sql => DiffPoint::table_ddl($_[0]), multi => 1 }; }

# The result of a statement may have other types since: then it is prepared anew (see DiffRun::ask).
sub prepare_again { return { sql => 'DEALLOCATE ALL', prepare => 1 }; }

1;
