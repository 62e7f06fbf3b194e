# IsolationGraph -- a directed graph with edges of several kinds, and its cycles.
#
# A kind is one bit; every question is asked for a mask of kinds, so that one graph
# serves all layers of the search.  Strongly connected components by Tarjan, without
# recursion: time and memory are linear in nodes and edges.

package IsolationGraph;

use strict;
use warnings;

use constant EDGE_FIELDS => 3;    # target, kind, note

sub new
{
	my ($class) = @_;
	return bless { number => {}, names => [], out => [] }, $class;
}

# node -- the number of the node of that name, which is made if it is not there.
sub node
{
	my ($self, $name) = @_;
	my $number = $self->{number}{$name};
	return $number if defined $number;
	push @{ $self->{names} }, $name;
	push @{ $self->{out} },   [];
	return $self->{number}{$name} = $#{ $self->{names} };
}

sub name { return $_[0]{names}[ $_[1] ]; }

sub edge
{
	my ($self, $from, $to, $kind, $note) = @_;
	return if $from == $to;
	push @{ $self->{out}[$from] }, $to, $kind, $note;
	return;
}

# components -- the strongly connected components of more than one node.
sub components
{
	my ($self, $mask) = @_;
	my $out = $self->{out};
	my (@found, @stack, @on_stack, @index, @low);
	my $next = 0;

	for my $root (0 .. $#$out)
	{
		next if defined $index[$root];
		my @path = ([ $root, 0 ]);    # node, position in its edges
		$index[$root] = $low[$root] = $next++;
		push @stack, $root;
		$on_stack[$root] = 1;
		while (@path)
		{
			my ($node, $at) = @{ $path[-1] };
			my $edges = $out->[$node];
			if ($at < @$edges)
			{
				$path[-1][1] += EDGE_FIELDS;
				next unless $edges->[ $at + 1 ] & $mask;
				my $to = $edges->[$at];
				if (!defined $index[$to])
				{
					$index[$to] = $low[$to] = $next++;
					push @stack, $to;
					$on_stack[$to] = 1;
					push @path, [ $to, 0 ];
				}
				elsif ($on_stack[$to])
				{
					$low[$node] = $index[$to] if $index[$to] < $low[$node];
				}
				next;
			}
			pop @path;
			if (@path)
			{
				my $parent = $path[-1][0];
				$low[$parent] = $low[$node] if $low[$node] < $low[$parent];
			}
			next if $low[$node] != $index[$node];
			my @component;
			while (1)
			{
				my $member = pop @stack;
				$on_stack[$member] = 0;
				push @component, $member;
				last if $member == $node;
			}
			push @found, \@component if @component > 1;
		}
	}
	return @found;
}

# cycles -- cycles of a component that contain an edge of a kind in $must, each a
# list of edges [from, to, kind, note].
#
# For each such edge the shortest way back; where one edge leads back, one cycle for
# each such edge.  At most $limit edges are tried.
sub cycles
{
	my ($self, $component, $mask, $must, $limit) = @_;
	my %inside = map { $_ => 1 } @$component;
	my @found;

	for my $from (sort { $a <=> $b } @$component)
	{
		for my $edge ($self->edges_from($from, $must))
		{
			next unless $inside{ $edge->[1] };
			return @found if $limit-- <= 0;
			my @back = grep { $_->[1] == $from } $self->edges_from($edge->[1], $mask);
			if (@back)
			{
				push @found, map { [ $edge, $_ ] } @back;
				next;
			}
			push @found, [ $edge, $self->shortest_path($edge->[1], $from, $mask, \%inside) ];
		}
	}
	return @found;
}

sub edges_from
{
	my ($self, $from, $mask) = @_;
	my $edges = $self->{out}[$from];
	my @found;
	for (my $at = 0; $at < @$edges; $at += EDGE_FIELDS)
	{
		push @found, [ $from, @$edges[ $at .. $at + EDGE_FIELDS - 1 ] ]
		  if $edges->[ $at + 1 ] & $mask;
	}
	return @found;
}

# There is a path: both nodes are of one component.
sub shortest_path
{
	my ($self, $from, $to, $mask, $inside) = @_;
	my %came_by = ($from => undef);
	my @queue   = ($from);
	while (defined(my $node = shift @queue))
	{
		last if $node == $to;
		for my $edge ($self->edges_from($node, $mask))
		{
			my $next = $edge->[1];
			next if exists $came_by{$next} || !$inside->{$next};
			$came_by{$next} = $edge;
			push @queue, $next;
		}
	}
	my @path;
	for (my $edge = $came_by{$to}; $edge; $edge = $came_by{ $edge->[0] })
	{
		unshift @path, $edge;
	}
	return @path;
}

1;
