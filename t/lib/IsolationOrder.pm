# IsolationOrder -- what can be said about a history without a graph: which versions
# each key had and in which order, who wrote them, who saw which of them.
#
# A history is { txns => [...], final => { key => value } }.  A transaction:
#
#   id       its name
#   level    'RC', 'RR' or 'SER'
#   status   'committed' (acknowledged), 'aborted', or 'unknown' (no answer to COMMIT)
#   end      [sent, done] of what ended it; done may be undef.  All times are seconds
#            of one monotonic clock
#   stmts    [ { at => [sent, done], ops => [ [kind, key, ...], ... ] }, ... ]
#
# Keys whose name contains "list" hold lists: their values are texts like "4,9,2", and
# each number is appended once in a history.  All others are registers, whose values
# are unique too.  undef is the value of a row that is not there.  The operations:
#
#   read key value             by the statement's snapshot
#   old key value              read by the snapshot of a row that another one has deleted,
#                              in whose place this transaction has a row of its own
#   lock key value             read of the newest version, and no other transaction may
#                              change the row before this one ends
#   append key number list     list: the list with the number; undef if not returned
#   write key value previous   previous: what was overwritten; undef for an insert
#   delete key previous
#   save, back, release        savepoint, rollback to the last one, its release
#
# The values themselves tell the order of versions (traceability and recoverability in
# Kingsbury and Alvaro, "Elle", VLDB 2020).  Only the order of the lives of a register,
# from insert to delete, comes from the clock: a key is unique, so the delete's commit
# lies before the next insert has returned, and that can hold for one order only.
#
# What is wrong already here is found here: aborted reads, intermediate reads, own
# writes not seen, lost updates that left a trace, lost writes, torn transactions.

package IsolationOrder;

use strict;
use warnings;

# new -- analyse a history.  Results:
#
#   versions  key => [ version, ... ], the first one being "never there"; a version is a
#             write (see write_of) or { value => undef } for the first.  Keys in whose
#             order something is wrong are missing
#   seen      observations with the range of versions that it may have been:
#             { txn, stmt, key, value, kind, low, high, undone }
#   found     [ name of the anomaly, explanation, transactions ... ], ...
sub new
{
	my ($class, $history) = @_;
	my $self = bless {
		txns     => $history->{txns},
		final    => $history->{final},
		found    => [],
		writes   => [],
		writer   => {},
		seen     => [],
		versions => {},
		place    => {},
	}, $class;

	$self->walk($_) for @{ $self->{txns} };
	$self->resolve_unknown;
	my %of_key;
	push @{ $of_key{ $_->{key} } }, $_ for grep { effective($_) } @{ $self->{writes} };
	for my $key (sort keys %of_key)
	{
		if   (is_list($key)) { $self->order_list($key, $of_key{$key}); }
		else                 { $self->order_register($key, $of_key{$key}); }
	}
	$self->check_final($_) for sort keys %{ $self->{final} };
	$self->{seen} = [ grep { $self->place($_) } @{ $self->{seen} } ];
	return $self;
}

sub is_list { return $_[0] =~ /list/; }

sub found
{
	my ($self, $name, $text, @txns) = @_;
	push @{ $self->{found} }, [ $name, $text, grep { defined } @txns ];
	return;
}

sub show { return defined $_[0] ? "[$_[0]]" : 'nothing'; }

sub same
{
	my ($one, $two) = @_;
	return defined $one ? defined $two && $one eq $two : !defined $two;
}

sub numbers { return my @numbers = defined $_[0] ? split(/,/, $_[0]) : (); }

sub effective { return !$_[0]{undone} && $_[0]{txn}{status} eq 'committed'; }

# --- one transaction --------------------------------------------------------

# walk -- collect the writes and observations of a transaction, and check that it sees
# its own writes, those only that it has not rolled back.
sub walk
{
	my ($self, $txn) = @_;
	my $walk = { txn => $txn, mine => {}, writes => [], seen => [] };
	my @saved;

	for my $stmt (@{ $txn->{stmts} })
	{
		for my $op (@{ $stmt->{ops} })
		{
			my $kind = $op->[0];
			if ($kind eq 'save')
			{
				push @saved,
				  {
					mine   => { %{ $walk->{mine} } },
					writes => scalar @{ $walk->{writes} },
					seen   => scalar @{ $walk->{seen} }
				  };
			}
			elsif ($kind eq 'back')
			{
				my $save = $saved[-1];
				$walk->{mine} = { %{ $save->{mine} } };
				$_->{undone} = 1
				  for @{ $walk->{writes} }[ $save->{writes} .. $#{ $walk->{writes} } ],
				  @{ $walk->{seen} }[ $save->{seen} .. $#{ $walk->{seen} } ];
			}
			elsif ($kind eq 'release') { pop @saved; }
			else                       { $self->walk_op($walk, $stmt, $op); }
		}
	}
	push @{ $self->{writes} }, @{ $walk->{writes} };
	push @{ $self->{seen} },   @{ $walk->{seen} };
	return;
}

sub walk_op
{
	my ($self, $walk, $stmt, $op) = @_;
	my ($kind, $key, $value, $more) = @$op;
	my $before = $value;
	my $after;

	if ($kind eq 'append')
	{
		my @list = numbers($more);
		$before = undef;
		if (defined $more)
		{
			$self->found('own write not seen', "$key has $value appended and holds " . show($more),
				$walk->{txn})
			  if pop @list != $value;
			$before = join(',', @list) if @list;
		}
		$after = $more;
	}
	elsif ($kind eq 'write')  { ($before, $after) = ($more, $value); }
	elsif ($kind eq 'delete') { $value            = undef; }

	my $is_write = $kind =~ /^(?:append|write|delete)$/;
	my $write    = $is_write
	  && $self->write_of($walk, $stmt, $kind, $key, $value, $before);
	$write->{returned} = 1 if $kind eq 'append' && defined $more;
	if ($kind eq 'old')
	{
		$self->found('two rows of one key', "$key was also read as $value", $walk->{txn})
		  if $walk->{txn}{level} eq 'RC' || !defined $walk->{mine}{$key};
		push @{ $walk->{seen} },
		  { txn => $walk->{txn}, stmt => $stmt, key => $key, value => $value, kind => 'read' };
	}
	elsif (exists $walk->{mine}{$key})
	{
		$self->found('own write not seen',
			"$key should be " . show($walk->{mine}{$key}) . ', but is ' . show($before),
			$walk->{txn})
		  unless same($walk->{mine}{$key}, $before);
	}
	elsif (!$is_write || $kind ne 'append' || defined $more)
	{
		push @{ $walk->{seen} },
		  {
			txn   => $walk->{txn},
			stmt  => $stmt,
			key   => $key,
			value => $before,
			kind  => $is_write ? 'base' : $kind,
			write => $write
		  };
	}
	$walk->{mine}{$key} = $after if $is_write;
	return;
}

# write_of -- note a write: { txn, stmt, kind, key, value, previous, undone,
# returned (an append of which the base is known) }.
sub write_of
{
	my ($self, $walk, $stmt, $kind, $key, $value, $previous) = @_;
	my $write = {
		txn      => $walk->{txn},
		stmt     => $stmt,
		kind     => $kind,
		key      => $key,
		value    => $value,
		previous => $previous,
		number   => scalar @{ $self->{writes} } + @{ $walk->{writes} },
	};
	push @{ $walk->{writes} }, $write;
	if (defined $value)
	{
		die "$key: $value is written twice" if $self->{writer}{$key}{$value};
		$self->{writer}{$key}{$value} = $write;
	}
	return $write;
}

# --- transactions without an answer -----------------------------------------

# resolve_unknown -- a transaction whose COMMIT had no answer has committed if anybody
# else has seen one of its values.  If it only deleted: if what it deleted is gone and
# nobody else took it.
sub resolve_unknown
{
	my ($self) = @_;
	my @unknown = grep { $_->{status} eq 'unknown' } @{ $self->{txns} } or return;

	$_->{in_doubt} = 1 for @unknown;
	for my $seen (@{ $self->{seen} }, $self->final_as_seen)
	{
		my $key = $seen->{key};
		for my $value (is_list($key) ? numbers($seen->{value}) : grep { defined } $seen->{value})
		{
			my $write = $self->{writer}{$key}{$value} or next;
			my $txn = $write->{txn};
			$txn->{status} = 'committed'
			  if $txn->{status} eq 'unknown' && !$write->{undone} && $seen->{txn} != $txn;
		}
	}

	my %taken = map { $_->{key} . "\0" . $_->{previous} => 1 }
	  grep { defined $_->{previous} && effective($_) } @{ $self->{writes} };
	for my $write (@{ $self->{writes} })
	{
		next if $write->{kind} ne 'delete' || $write->{undone} || $write->{txn}{status} ne 'unknown';
		my ($key, $owner) = ($write->{key}, $write);
		$owner = $self->{writer}{$key}{ $owner->{previous} }
		  while $owner && $owner->{txn} == $write->{txn} && defined $owner->{previous};
		next if !$owner || !effective($owner) || $taken{"$key\0$owner->{value}"};
		$write->{txn}{status} = 'committed' unless same($self->{final}{$key}, $owner->{value});
	}
	$_->{status} = 'aborted' for grep { $_->{status} eq 'unknown' } @unknown;
	return;
}

sub final_as_seen
{
	my ($self) = @_;
	my $nobody = {};
	return
	  map { { key => $_, value => $self->{final}{$_}, txn => $nobody } } keys %{ $self->{final} };
}

# --- the order of versions --------------------------------------------------

sub order_list
{
	my ($self, $key, $writes) = @_;
	my @numbers = numbers($self->{final}{$key});
	my @versions = ({ value => undef });
	my %at;

	for my $number (@numbers)
	{
		my $write = $self->{writer}{$key}{$number};
		if ($at{$number})
		{
			$self->found('duplicated append', "$key holds $number twice", $write->{txn});
			return;
		}
		return unless $self->may_be_seen($key, $number, 'at the end', undef);
		push @versions, $write;
		$at{$number} = $#versions;
	}
	for my $write (@$writes)
	{
		my $at   = $at{ $write->{value} };
		my $base = numbers($write->{previous});
		if (!$at) { $self->lost($write, $versions[ $base + 1 ]); }
		elsif ($write->{returned} && $at != $base + 1)
		{
			$self->found('incompatible order',
				"$key: $write->{value} was appended to " . show($write->{previous})
				  . ', and is at the end in ' . show($self->{final}{$key}),
				$write->{txn});
			return;
		}
	}
	$self->{versions}{$key} = \@versions;
	$self->{place}{$key}    = \%at;
	return;
}

# may_be_seen -- false, and reported, if a value is of nobody or of a write that was
# rolled back.
sub may_be_seen
{
	my ($self, $key, $value, $where, $reader) = @_;
	my $write = $self->{writer}{$key}{$value};
	if (!$write)
	{
		$self->found('garbage read', "$key holds $value $where, which nobody wrote", $reader);
		return 0;
	}
	return 1 if effective($write);
	my $why = $write->{undone} ? 'rolled back to a savepoint' : 'aborted';
	$self->found('G1a aborted read', "$key holds $value $where; its writer was $why",
		$write->{txn}, $reader);
	return 0;
}

# lost -- report a write that is not there; $instead is what was written upon the same.
sub lost
{
	my ($self, $write, $instead) = @_;
	my $what = defined $write->{value} ? "$write->{kind} of $write->{value}" : 'delete';
	$self->found(
		$write->{txn}{in_doubt} ? 'torn transaction' : 'lost write',
		"$write->{key}: the $what is not there at the end, which holds "
		  . show($self->{final}{ $write->{key} }),
		$write->{txn});
	$self->found('lost update', "$write->{key}: two writes follow " . show($write->{previous}),
		$write->{txn}, $instead->{txn})
	  if $write->{returned}
	  && $instead
	  && same($instead->{previous}, $write->{previous})
	  && $instead->{stmt}{at}[0] < $write->{txn}{end}[1];
	return;
}

# order_register -- follow the lives of a register, each from its insert.
sub order_register
{
	my ($self, $key, $writes) = @_;
	my (%next, @inserts);

	for my $write (@$writes)
	{
		my $previous = $write->{previous};
		if (!defined $previous) { push @inserts, $write if defined $write->{value}; next; }
		return unless $self->may_be_seen($key, $previous, 'before a write', $write->{txn});
		if (my $other = $next{$previous})
		{
			$self->found('lost update', "$key: two writes follow the value $previous",
				$other->{txn}, $write->{txn});
			return;
		}
		$next{$previous} = $write;
	}

	my @versions = ({ value => undef });
	for my $insert (
		sort { $a->{stmt}{at}[1] <=> $b->{stmt}{at}[1] || $a->{number} <=> $b->{number} } @inserts)
	{
		my $last = $versions[-1];
		if (defined $last->{value} || !may_follow($last, $insert))
		{
			$self->found('key alive twice', "$key: $insert->{value} was inserted before the last row was gone",
				$last->{txn}, $insert->{txn});
			return;
		}
		for (my $write = $insert; $write; $write = defined $write->{value} && $next{ $write->{value} })
		{
			push @versions, $write;
		}
	}
	$self->{versions}{$key} = \@versions;
	$self->{place}{$key} =
	  { map { $versions[$_]{value} => $_ } grep { defined $versions[$_]{value} } 0 .. $#versions };
	return;
}

# May a row be inserted that soon after the delete?
sub may_follow
{
	my ($delete, $insert) = @_;
	return 1 if !$delete->{txn} || $delete->{txn} == $insert->{txn};
	return $delete->{txn}{end}[0] <= $insert->{stmt}{at}[1];
}

# check_final -- the newest version of each key must be there.
sub check_final
{
	my ($self, $key) = @_;
	my $value = $self->{final}{$key};
	my $versions = $self->{versions}{$key};

	if (!$versions)
	{
		return if !defined $value || grep { $_->[1] =~ /^\Q$key\E[: ]/ } @{ $self->{found} };
		$self->may_be_seen($key, $_, 'at the end', undef)
		  for is_list($key) ? numbers($value) : $value;
		return;
	}
	my $last = $versions->[-1];
	return if is_list($key) || same($last->{value}, $value);
	return if defined $value && !$self->may_be_seen($key, $value, 'at the end', undef);
	$self->lost($last);
	return;
}

# --- what was seen ----------------------------------------------------------

# place -- find the versions that an observation may have been; false if none, or if it
# tells the graph nothing.
sub place
{
	my ($self, $seen) = @_;
	my ($key, $value) = @$seen{qw(key value)};
	my $versions = $self->{versions}{$key};

	if (!$versions)
	{
		# Never written, or not to be ordered.
		return 0 if !defined $value;
		$self->may_be_seen($key, $_, 'when read', $seen->{txn})
		  for is_list($key) ? numbers($value) : $value;
		return 0;
	}
	if (!defined $value) { return $self->place_absent($seen, $versions); }
	if (is_list($key) && !$self->is_prefix($seen)) { return 0; }

	my $number = is_list($key) ? (numbers($value))[-1] : $value;
	return 0 unless $self->may_be_seen($key, $number, 'when read', $seen->{txn});
	my $at = $self->{place}{$key}{$number};
	return 0 unless defined $at;    # lost, as said already
	my $writer = $versions->[$at]{txn};
	my $next   = $versions->[ $at + 1 ];
	if ($next && $next->{txn} == $writer && $seen->{txn} != $writer)
	{
		$self->found('G1b intermediate read',
			"$key was read as " . show($value) . ', before its writer wrote it again',
			$writer, $seen->{txn});
		return 0;
	}
	$seen->{low} = $seen->{high} = $at;
	return 1;
}

# A list that was read must be the beginning of the final one.
sub is_prefix
{
	my ($self, $seen) = @_;
	my ($key, $value) = @$seen{qw(key value)};
	my $final = $self->{final}{$key} // '';
	return 1 if index("$final,", "$value,") == 0;

	my @is     = numbers($value);
	my @should = numbers($final);
	my $i      = 0;
	$i++ while $i < @should && $i < @is && $is[$i] == $should[$i];
	return 0 unless $self->may_be_seen($key, $is[$i], 'when read', $seen->{txn});

	my $write = $self->{writer}{$key}{ $is[$i] };
	my $other = $i < @should ? $self->{writer}{$key}{ $should[$i] } : undef;
	my $gone  = !$self->{place}{$key}{ $is[$i] };
	$self->found(
		$gone ? ($other ? 'lost update' : 'lost write') : 'incompatible order',
		"$key was read as " . show($value) . ', and is at the end ' . show($final),
		$write->{txn}, $other && $other->{txn}, $seen->{txn});
	return 0;
}

# snapshot_time -- when a transaction with one snapshot took it: not before its first
# statement was sent, not after the first that it can tell of was done.
sub snapshot_time
{
	my ($txn) = @_;
	$txn->{snapshot} ||= do
	{
		my @stmts = @{ $txn->{stmts} };
		my ($first) = grep { grep { $_->[0] !~ /^(?:save|back|release)$/ } @{ $_->{ops} } } @stmts;
		[ $stmts[0]{at}[0], $first ? $first->{at}[1] : undef ];
	};
	return $txn->{snapshot};
}

# A row was not there: before its first life, or between two of them.
sub place_absent
{
	my ($self, $seen, $versions) = @_;
	my $late = $seen->{kind} eq 'base' || $seen->{txn}{level} eq 'RC';
	my ($sent, $done) = @{ $late ? $seen->{stmt}{at} : snapshot_time($seen->{txn}) };
	my @at;

	for my $at (grep { !defined $versions->[$_]{value} } 0 .. $#$versions)
	{
		my ($gone, $back) = @$versions[ $at, $at + 1 ];
		my $from = $gone->{txn} ? $gone->{txn}{end}[0] : undef;
		my $until = $back ? $back->{txn}{end}[1] : undef;
		next if defined $from  && $from > $done;
		next if defined $until && $until < $sent;
		next
		  if $back && $gone->{txn} && $back->{txn} == $gone->{txn} && $seen->{txn} != $gone->{txn};
		push @at, $at;
	}
	if (!@at)
	{
		$self->found('read of nothing', "$seen->{key} was not seen while it had a row all the time",
			$seen->{txn})
		  unless $seen->{kind} eq 'base';
		return 0;
	}
	@$seen{qw(low high)} = @at[ 0, -1 ];
	return 1;
}

1;
