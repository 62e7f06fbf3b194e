# IsolationCheck -- does a history show an anomaly that its isolation level forbids?
#
# The anomalies are those of Adya, Liskov and O'Neil ("Generalized Isolation Level
# Definitions", ICDE 2000); read-write registers and appended lists make them visible
# from outside (Kingsbury and Alvaro, "Elle", VLDB 2020).  What each level forbids is
# derived from PostgreSQL's definition of it, by events on one line of time:
#
#   commit of a transaction           its writes become visible, its locks end
#   snapshot of a transaction         (REPEATABLE READ, SERIALIZABLE)
#   snapshot of a statement           (READ COMMITTED)
#   change or lock of a row           it reads the newest version
#
# Each dependency puts two events into order, whatever the level:
#
#   wr    writer's commit        before  the snapshot (or change, or lock) that saw it
#   rw    snapshot               before  the commit of the first writer that it missed
#   ww    commit of one writer   before  the snapshot of the next one, which may not
#                                        overwrite what it does not see; at READ
#                                        COMMITTED, and for an insert where a row was
#                                        deleted: before the next one's change
#   lock  commit of the locker   before  the next change of the row
#   time  the answer to one statement before the next statement of whoever was sent;
#         each event lies between the sending and the answer of its statement
#
# If and only if these orders agree, that is if the graph of events has no cycle, the
# history can have happened.  For transactions with one snapshot this is snapshot
# isolation as characterized by Cerone and Gotsman ("Analysing Snapshot Isolation",
# PODC 2016): every cycle has two adjacent anti-dependencies.  At READ COMMITTED it
# forbids G0, G1 and, because each statement has one snapshot, fractured reads and a
# long fork of statements; it allows a lost update and non-repeatable reads.
#
# SERIALIZABLE transactions must be free of any cycle among themselves: a second graph
# has one node for each of them.  That real time belongs to this order too follows from
# SSI: an edge of time leads, as wr and ww do, from a commit to a later snapshot, and
# that is all that the proof of the theorem about dangerous structures needs (Fekete et
# al., TODS 2005; Ports and Grittner, VLDB 2012).
#
# Both graphs are searched in layers, ww first, time last, so that a cycle gets the
# name of the worst anomaly that it shows.

package IsolationCheck;

use strict;
use warnings;

use Exporter 'import';
use IsolationGraph;
use IsolationOrder;

our @EXPORT = qw(check_history describe);

use constant {
	OWN  => 1,     # order within one transaction
	WW   => 2,
	WR   => 4,
	RW   => 8,
	LOCK => 16,
	TIME => 32
};

my %kind_name = (WW, 'ww', WR, 'wr', RW, 'rw', LOCK, 'lock', TIME, 'time', OWN, 'then');

use constant CYCLES_TRIED => 100;    # per layer

# check_history -- the anomalies of a history (see IsolationOrder), as a list of
# [ name, explanation, transactions ... ]; empty if there are none.
#
# level => 'RR' or 'SER': check as if all transactions had that level.
sub check_history
{
	my ($history, %opt) = @_;
	my @txns = map { { %$_, level => $opt{level} || $_->{level} } } @{ $history->{txns} };
	my $order = IsolationOrder->new({ txns => \@txns, final => $history->{final} });
	my $self = bless { order => $order, txns => \@txns, found => $order->{found} };

	$self->search($self->event_graph, \&name_event_cycle, WW, WR, RW, LOCK, TIME)
	  || $self->search($self->serial_graph, \&name_serial_cycle, WW, WR, RW, TIME);
	return @{ $self->{found} };
}

# describe -- findings as a text: for each name how often, and the smallest example
# with all operations of its transactions.
sub describe
{
	my (@found) = @_;
	my (%count, %best);
	for my $one (@found)
	{
		my $name = $one->[0];
		$count{$name}++;
		$best{$name} = $one if !$best{$name} || @$one < @{ $best{$name} };
	}
	my $text = '';
	for my $name (sort keys %best)
	{
		my (undef, $what, @txns) = @{ $best{$name} };
		my %shown;
		$text .= "$name ($count{$name} found): $what\n";
		$text .= join '', map { show_txn($_) } grep { !$shown{ $_->{id} }++ } @txns;
	}
	return $text;
}

sub show_txn
{
	my ($txn) = @_;
	my $text = "  $txn->{id}: $txn->{level}, $txn->{status}";
	$text .= ' (COMMIT was not answered)' if $txn->{in_doubt};
	$text .= sprintf ", ended %.6f..%s\n", $txn->{end}[0], show_time($txn->{end}[1]);
	for my $stmt (@{ $txn->{stmts} })
	{
		$text .= sprintf "    %.6f..%s  %s\n", $stmt->{at}[0], show_time($stmt->{at}[1]),
		  join('; ', map { join ' ', map { defined $_ ? $_ : '-' } @$_ } @{ $stmt->{ops} })
		  || '(no result)';
	}
	return $text;
}

sub show_time { return defined $_[0] ? sprintf('%.6f', $_[0]) : '?'; }

# --- the graph of events ----------------------------------------------------

# The nodes of a transaction are named "id what": B snapshot, C commit, Sn snapshot of
# statement n, Un change by write number n, Ln lock.
sub event_graph
{
	my ($self) = @_;
	my $graph = $self->{graph} = IsolationGraph->new;
	$self->{times} = [];

	for my $versions (values %{ $self->{order}{versions} })
	{
		for my $at (1 .. $#$versions) { $self->put_write(@$versions[ $at - 1, $at ]); }
	}
	for my $seen (@{ $self->{order}{seen} })
	{
		next if $seen->{write} && IsolationOrder::effective($seen->{write});
		$self->put_seen($seen);
	}
	$self->put_times($graph);
	return $graph;
}

# event -- the node of an event of a transaction, between two moments.
sub event
{
	my ($self, $txn, $what, $from, $until) = @_;
	my $name  = "$txn->{id} $what";
	my $graph = $self->{graph};
	my $known = $graph->{number}{$name};
	return $known if defined $known;

	my $node = $graph->node($name);
	push @{ $self->{times} }, [ $from, 1, $node ] if defined $from;
	push @{ $self->{times} }, [ $until, 0, $node ] if defined $until;
	return $node;
}

sub commit_event { return $_[0]->event($_[1], 'C', @{ $_[1]{end} }); }

# A snapshot comes before the commit.
sub snapshot_event
{
	my ($self, $txn) = @_;
	my $known = $self->{graph}{number}{"$txn->{id} B"};
	return $known if defined $known;
	my $node = $self->event($txn, 'B', @{ IsolationOrder::snapshot_time($txn) });
	$self->before_commit($txn, $node);
	return $node;
}

sub before_commit
{
	my ($self, $txn, $node) = @_;
	$self->{graph}->edge($node, $self->commit_event($txn), OWN, '')
	  if $txn->{status} eq 'committed';
	return;
}

sub change_event
{
	my ($self, $write) = @_;
	my ($txn, $graph) = ($write->{txn}, $self->{graph});
	my $what  = "U$write->{number}";
	my $known = $graph->{number}{"$txn->{id} $what"};
	return $known if defined $known;

	my $node = $self->event($txn, $what, @{ $write->{stmt}{at} });
	$self->before_commit($txn, $node);
	$graph->edge($self->snapshot_event($txn), $node, OWN, '') if $txn->{level} ne 'RC';
	return $node;
}

# put_write -- a committed write and the one before it.
sub put_write
{
	my ($self, $before, $write) = @_;
	my ($first, $txn) = ($before->{txn}, $write->{txn});
	my $change = $self->change_event($write);
	return if !$first || $first == $txn;

	my $commit = $self->commit_event($first);
	my $note   = note($write->{key}, $before, $write);
	$self->{graph}->edge($commit, $change, WW, $note);
	$self->{graph}->edge($commit, $self->snapshot_event($txn), WW, $note)
	  if $txn->{level} ne 'RC' && defined $before->{value};
	return;
}

sub note
{
	my ($key, $before, $after) = @_;
	return "$key " . join ' -> ', map { defined $_->{value} ? $_->{value} : 'none' } $before, $after;
}

# put_seen -- who saw what.  If it may have been one of several versions (a row that was
# not there), what all of them have in common.
sub put_seen
{
	my ($self, $seen) = @_;
	my ($graph, $txn, $key) = ($self->{graph}, @$seen{qw(txn key)});
	my $versions = $self->{order}{versions}{$key};
	my ($low, $next) = ($versions->[ $seen->{low} ], $versions->[ $seen->{high} + 1 ]);
	my $node = $self->seen_event($seen);

	if ($low->{txn} && $low->{txn} != $txn)
	{
		$graph->edge($self->commit_event($low->{txn}),
			$node, WR, "$key " . (defined $low->{value} ? $low->{value} : 'none'));
	}
	return if !$next || $next->{txn} == $txn;
	my $note = note($key, $low, $next);
	$graph->edge($node, $self->commit_event($next->{txn}), RW, $note) if $seen->{kind} ne 'base';
	if ($seen->{kind} eq 'lock' && defined $seen->{value}
		&& !$seen->{undone} && $txn->{status} eq 'committed')
	{
		$graph->edge($self->commit_event($txn), $self->change_event($next), LOCK, $note);
	}
	return;
}

# The event at which something was seen.
sub seen_event
{
	my ($self, $seen) = @_;
	my ($txn, $stmt, $kind) = @$seen{qw(txn stmt kind)};

	if ($txn->{level} ne 'RC' && ($kind ne 'base' || defined $seen->{value}))
	{
		return $self->snapshot_event($txn);
	}
	my $what =
	    $kind eq 'read' ? 'S'
	  : $kind eq 'lock' ? "L $seen->{key} "
	  :                   "U$seen->{write}{number} ";
	my $node = $self->event($txn, "$what$stmt->{at}[0]", @{ $stmt->{at} });
	$self->before_commit($txn, $node);
	return $node;
}

# put_times -- the line of time: what was done leads to what was sent later.
sub put_times
{
	my ($self, $graph) = @_;
	my ($line, $number);
	my $sent = 1;

	# At one moment, what is sent comes first: nothing follows from equal times.
	for my $moment (sort { $a->[0] <=> $b->[0] || $b->[1] <=> $a->[1] } @{ $self->{times} })
	{
		my (undef, $is_sent, $node) = @$moment;
		if ($sent && !$is_sent || !defined $line)
		{
			my $next = $graph->node('at ' . ++$number);
			$graph->edge($line, $next, TIME, '') if defined $line;
			$line = $next;
		}
		$sent = $is_sent;
		if   ($is_sent) { $graph->edge($line, $node, TIME, ''); }
		else            { $graph->edge($node, $line, TIME, ''); }
	}
	return;
}

# --- the graph of serializable transactions ---------------------------------

sub serial_graph
{
	my ($self) = @_;
	my $graph = $self->{graph} = IsolationGraph->new;
	my $order = $self->{order};
	$self->{times} = [];

	for my $versions (values %{ $order->{versions} })
	{
		for my $at (2 .. $#$versions)
		{
			my ($before, $write) = @$versions[ $at - 1, $at ];
			$self->serial_edge($before->{txn}, $write->{txn}, WW,
				note($write->{key}, $before, $write));
		}
	}
	for my $seen (grep { $_->{kind} ne 'base' } @{ $order->{seen} })
	{
		my $versions = $order->{versions}{ $seen->{key} };
		my ($low, $next) = ($versions->[ $seen->{low} ], $versions->[ $seen->{high} + 1 ]);
		$self->serial_edge($low->{txn}, $seen->{txn}, WR,
			"$seen->{key} " . (defined $low->{value} ? $low->{value} : 'none'))
		  if $low->{txn};
		$self->serial_edge($seen->{txn}, $next->{txn}, RW, note($seen->{key}, $low, $next))
		  if $next;
	}
	for my $txn (grep { is_serial($_) } @{ $self->{txns} })
	{
		my $node = $graph->{number}{ $txn->{id} };
		next unless defined $node;
		push @{ $self->{times} }, [ IsolationOrder::snapshot_time($txn)->[0], 1, $node ];
		push @{ $self->{times} }, [ $txn->{end}[1], 0, $node ] if defined $txn->{end}[1];
	}
	$self->put_times($graph);
	return $graph;
}

sub is_serial
{
	my ($txn) = @_;
	return $txn->{level} eq 'SER' && $txn->{status} eq 'committed';
}

sub serial_edge
{
	my ($self, $from, $to, $kind, $note) = @_;
	return if $from == $to || !is_serial($from) || !is_serial($to);
	my $graph = $self->{graph};
	$graph->edge($graph->node($from->{id}), $graph->node($to->{id}), $kind, $note);
	return;
}

# --- the search -------------------------------------------------------------

# search -- cycles of the first layer that has any; false if there are none.
sub search
{
	my ($self, $graph, $name_of, @layers) = @_;
	my %txn  = map { $_->{id} => $_ } @{ $self->{txns} };
	my $mask = OWN;

	for my $layer (@layers)
	{
		$mask |= $layer;
		my @components = $graph->components($mask) or next;
		my $limit = CYCLES_TRIED;
		for my $component (sort { @$a <=> @$b } @components)
		{
			my @cycles = $graph->cycles($component, $mask, $layer, $limit);
			$limit -= @cycles;
			push @{ $self->{found} }, map { show_cycle($graph, $name_of, \%txn, $_) } @cycles;
			last if $limit <= 0;
		}
		return 1;
	}
	return 0;
}

sub show_cycle
{
	my ($graph, $name_of, $txn, $cycle) = @_;
	my (@txns, $text);
	my $last = '';

	for my $edge (@$cycle)
	{
		my ($from, $to, $kind, $note) = @$edge;
		my ($id, $what) = split / /, $graph->name($from), 2;
		next if $id eq 'at';
		if ($id ne $last)
		{
			push @txns, $txn->{$id};
			$text .= defined $text ? " $id" : $id;
			$last = $id;
		}
		$text .= " --$kind_name{$kind}" . ($note ne '' ? " $note" : '') . '-->' if $kind != OWN;
	}
	return [ $name_of->($cycle), $text . ' ' . $txns[0]{id}, @txns ];
}

sub name_event_cycle
{
	my ($cycle) = @_;
	my %count = kinds($cycle);

	return 'row lock broken' if $count{lock};
	return 'real-time order' . ($count{rw} ? ' (stale read)' : '') if $count{time};
	return 'long fork (no two anti-dependencies adjacent)' if $count{rw} > 1;
	return name_cycle($cycle, \%count);
}

sub name_serial_cycle
{
	my ($cycle) = @_;
	my %count = kinds($cycle);

	return 'serial order against real time' if $count{time};
	return @$cycle == 2 ? 'write skew (G2)' : 'G2 anti-dependency cycle' if $count{rw} > 1;
	return name_cycle($cycle, \%count);
}

# Cycles with at most one anti-dependency.
sub name_cycle
{
	my ($cycle, $count) = @_;
	if (!$count->{rw})
	{
		return $count->{wr} ? 'G1c circular information flow' : 'G0 dirty write';
	}
	return 'G-single (read skew)' if @$cycle != 2 || key_of($cycle->[0]) ne key_of($cycle->[1]);
	return $count->{ww} ? 'lost update' : 'non-repeatable read';
}

sub kinds
{
	my ($cycle) = @_;
	my %count = map { $_ => 0 } values %kind_name;
	$count{ $kind_name{ $_->[2] } }++ for @$cycle;
	return %count;
}

sub key_of { return (split / /, $_[0][3])[0]; }

1;
