#!/usr/bin/env perl
#
# compare.pl -- compare the results of PostgreSQL's tests on zen with those on heap.
#
#   compare.pl [--isolation] --sql DIR --stock DIR --heap DIR --zen DIR --patches DIR TEST...
#       prints one line per test that is not identical and, last, the counts; the status is 0 only if no test fails
#   compare.pl --propose ...    prints, in the format of the patches, what is not yet accepted, and names stale hunks
#   compare.pl --kept ...       for zen.debug_keep_plans: see below
#   compare.pl --trees DIR ...  for zen.default_index = zentree: see below
#   compare.pl --self-test      proves that it can tell right from wrong
#
# A test is
#   identical    zen's output is heap's on the same server, or the one that PostgreSQL expects;
#   row order    it is so once the rows of each result set, the rows that COPY has sent, and the messages that came row
#   by
#                row are sorted, where the statement that they come from is a query without ORDER BY (or, for messages,
#                with it: ORDER BY does not sort them);
#   accepted     all else that differs is in t/postgres/TEST.patch, with a reason;
#   failing      anything else.
#
# Before that, one thing is taken out of zen's output: EXPLAIN's nodes Custom Scan (ZenPointAccess or ZenKeptPlan), on
# top of a plan in text form, and Custom Scan (ZenKeyJoin), anywhere in it, with their own lines.  The plan below moves
# to the node's place.  How many there were is printed.  With zen.debug_keep_plans the nodes stand on top of many more
# plans, also in forms and outputs that this does not know.  --kept accepts each statement whose output names a node in
# one of these, as "kept".
#
# With zen.default_index = zentree definitions of indexes name zentree where heap has btree, and a notice says that an
# index of a partition becomes a btree.  --trees takes one for the other, takes the notices out, and accepts the
# hunks of the patches in a second folder, too.  Of the first folder's hunks some may not be seen then.
#
# A patch holds hunks, one per statement whose output differs, whatever its line number. Lines before the first hunk are
# remarks. `!` marks a hunk that is not always seen; any other that is not seen makes the test fail, for it is stale.
#
#   @@ REASON the beginning of the statement
#   -line of heap's output
#   +line of zen's output
use strict;
use warnings FATAL => 'all';
use Getopt::Long;
use File::Temp;

# Why zen may differ. All but the last is nothing that a test can rely on, or that a table access method can change.
my %reasons = (
	'order' => 'the order in which rows lie shows elsewhere than in a result set: which row fails first, two sessions',
	'plan' => 'plan cost: zen has no visibility map, its tables and indexes have other sizes',
	'pages' => 'numbers of blocks, pages and buffers; ctid',
	'dead' => 'numbers of dead rows: zen removes at once what nobody can see',
	'files' => 'PostgreSQL looks at files: pg_relation_size, relfilenode',
	'index' => 'indexes of zen tables are unlogged, and psql and pg_class say so',
	'name' => 'the test names heap, or lists access methods or what depends on them',
	'kept' => 'zen.debug_keep_plans: EXPLAIN shows the node where this script cannot take it out',
	'tree' => 'zen.default_index = zentree: what PostgreSQL, or zen, does with a btree only',
	'database' => 'a database with zen tables is no template, and moves to no other tablespace (doc/compatibility.md)',
	'vacuum' => 'VACUUM of zen tables makes no passes over indexes, and waits for no pin',
	'conflict' => 'a reader of a zen table on a standby holds no pin for which the replay of VACUUM would wait',
	'unlogged' => 'zen tables cannot be made UNLOGGED (doc/compatibility.md)');

## SQL

# Splits SQL text into statements: [text without comments and literals, number of the last line]. A backslash command is
# a statement, too. The results of statements that \; separates come behind the last one. Data that follow COPY FROM
# stdin are skipped. The numbers of lines that begin within a literal or a comment are noted in %$inside.
sub statements {
	my ($sql, $inside) = @_;
	my ($line, $depth, $text, @pending, @found) = (1, 0, '');
	my $pass = sub {
		my $to = $line + ($_[0] =~ tr/\n//);
		$inside->{$_} = 1 for $line + 1 .. $to;
		$line = $to;
		$text .= $_[1];
	};
	my $end = sub {
		push @found, map { [ $_, $line ] } grep { /\S/ } @pending, $text;
		($text, $depth, @pending) = ('', 0);
	};
	# where COPY is meant to fail, no data follow
	my $data = sub {
		$line += ($1 =~ tr/\n//) if $sql =~ /\G([^\n]*\n(?!\n)(?:(?!\\\.\n)[^\n]*\n)*?\\\.)(?=\n)/gcs;
	};
	pos($sql) = 0;
	while (pos($sql) < length $sql) {
		if ($sql =~ /\G\n/gc) { $line++; $text .= "\n" }
		elsif ($sql =~ /\G--[^\n]*/gc) { }
		elsif ($sql =~ m{\G(/\*.*?\*/)}gcs) { $pass->($1, ' ') }
		elsif ($sql =~ /\G([eE]'(?:[^'\\]|''|\\.)*')/gcs) { $pass->($1, "''") }
		elsif ($sql =~ /\G('(?:[^']|'')*')/gcs) { $pass->($1, "''") }
		elsif ($sql =~ /\G("(?:[^"]|"")*")/gcs) { $pass->($1, '"x"') }
		elsif ($sql =~ /\G((\$(?:[A-Za-z_]\w*)?\$).*?\2)/gcs) { $pass->($1, "''") }
		elsif ($sql =~ /\G\\;/gc) { push @pending, $text; $text = '' }
		elsif ($sql =~ /\G\\copy\b[^\n]*\bfrom\s+stdin\b/gci) { $text = 'COPY FROM STDIN'; $end->(); $data->() }
		elsif ($sql =~ /\G\\[^\n]*/gc) { $text .= '\\'; $end->() }
		elsif ($sql =~ /\G;/gc) {
			if ($depth > 0) { $text .= ';'; next }
			my $copy = $text =~ /^\s*COPY\b.*\bFROM\s+STD(?:IN|OUT)\b/is;
			$end->();
			$data->() if $copy;
		}
		elsif ($sql =~ /\G(.)/gcs) {
			$depth++ if $1 eq '(' || $1 eq '[';
			$depth-- if ($1 eq ')' || $1 eq ']') && $depth > 0;
			$text .= $1;
		}
	}
	$end->();
	return @found;
}

# Does this statement handle rows? (Its text is from statements().)
sub handles_rows {
	my ($text) = @_;
	return $text =~ /^[\s(]*(?:SELECT|TABLE|VALUES|WITH|INSERT|UPDATE|DELETE|MERGE)\b/i && $text !~ /explain/i;
}

# May its rows come in any order?
sub unordered {
	my ($text) = @_;
	$text = $1 if $text =~ /^\s*COPY\s*\((.*)\)\s*TO\s+STDOUT\s*$/is;
	return 1 if $text =~ /^\s*COPY\b[^()\\]*\bTO\s+STDOUT\s*$/i;
	return 0 if !handles_rows($text) || $text =~ /\\/;
	return 0 if $text =~ /(?<!:):[A-Za-z_"']/;    # a variable of psql may hold anything
	1 while $text =~ s/\([^()]*\)/ /gs;
	return $text !~ /\bORDER\s+BY\b/i;
}

# The same of statements whose results come together: '' if not; 'messages' if only what they say row by row may come in
# any order, for ORDER BY does not sort messages; 'rows'; 'copy' if COPY sends some of the rows.
sub all_unordered {
	my @rows = grep { !/^\s*(?:BEGIN|COMMIT|CREATE|DROP|TRUNCATE|COPY\b.*\bFROM\s+STDIN)\b/is } @_;
	return '' if !@rows;
	return (@rows == 1 && handles_rows($rows[0])) ? 'messages' : '' if grep { !unordered($_) } @rows;
	return (grep { /^\s*COPY\b/i } @rows) ? 'copy' : 'rows';
}

## Outputs

# Is this the line number $at of the script? What \echo -n prints stands before it.
sub shown {
	my ($script, $at, $line) = @_;
	my $text = $script->[$at]{text};
	return $line eq $text || ($at && $script->[ $at - 1 ]{text} =~ /^\\echo -n (.*)/ && $line eq "$1$text");
}

# psql -a prints each line of the script, but not empty ones outside of literals and not COPY's data, and, behind the
# line that ends a statement, its result. Returns { line number => [ lines of the result ] }, or undef if the script
# does not show up line by line.
sub by_line {
	my ($script, $out) = @_;
	my ($at, $i, %result) = (0, 0);
	while ($i < @$out) {
		my $to = $at;
		$to++ while $to < @$script && $script->[$to]{hidden};
		my $shown = $to < @$script && shown($script, $to, $out->[$i]);
		if (!$shown && $at && defined(my $end = $script->[ $at - 1 ]{copy_end})) {
			# psql has passed over the data of a COPY that failed
			$to = $end + 1;
			$to++ while $to < @$script && $script->[$to]{hidden};
			$shown = $to < @$script && shown($script, $to, $out->[$i]);
		}
		if ($shown) {
			$at = $to + 1;
			$i++;
			next;
		}
		my $next = result_set_end($out, $i);
		if (!$next) { $next = $i + 1 }
		elsif ($next < @$out && $out->[$next] eq '') { $next++ }
		push @{ $result{$at} }, @$out[ $i .. $next - 1 ];
		$i = $next;
	}
	my $rest = $at ? $script->[ $at - 1 ]{copy_end} : undef;
	$at++ while $at < @$script && $script->[$at]{hidden};
	return $at == @$script || ($rest // 0) == @$script ? \%result : undef;
}

# If a result set in psql's aligned format begins at line $i: the number of the line behind its "(N rows)". A table that
# \d prints has no such end. Rows begin with a blank, but not in isolation tests.
my $row_start = qr/^[ (]/;

sub result_set_end {
	my ($lines, $i) = @_;
	return unless $i + 1 < @$lines && $lines->[$i] =~ /\S/ && $lines->[ $i + 1 ] =~ /^-[-+]*$/;
	for (my $end = $i + 2; $end < @$lines && $lines->[$end] =~ $row_start; $end++) {
		return $end + 1 if $lines->[$end] =~ /^\(\d+ rows?\)$/;
	}
	return;
}

# The same lines with the rows of all result sets sorted, and the messages that a statement raised one after the other.
# A row that goes on in the next line ends with a +. Rows that COPY has sent stand between result sets.
sub sorted {
	my ($what, @lines) = @_;
	my ($i, @out) = (0);
	while ($i < @lines) {
		my @notices;
		push @notices, $lines[ $i++ ] while $i < @lines && $lines[$i] =~ /^NOTICE:  /;
		if (@notices) { push @out, sort @notices; next }
		my $end = $what eq 'messages' ? undef : result_set_end(\@lines, $i);
		if (!$end && $what eq 'copy' && $lines[$i] ne '') {
			my @copied;
			push @copied, $lines[ $i++ ] until $i == @lines || $lines[$i] eq '' || result_set_end(\@lines, $i);
			push @out, sort @copied;
			next;
		}
		if (!$end) { push @out, $lines[ $i++ ]; next }
		my @rows;
		my $open = 0;
		for my $line (@lines[ $i + 2 .. $end - 2 ]) {
			if ($open) { $rows[-1] .= "\n$line" } else { push @rows, $line }
			$open = $line =~ /\+(?:\s*\||$)/;
		}
		push @out, @lines[ $i, $i + 1 ], (map { split /\n/, $_, -1 } sort @rows), $lines[ $end - 1 ];
		$i = $end;
	}
	return @out;
}

# Both outputs cut into pieces that belong together: [ statement, may its rows be sorted, heap's lines, zen's lines ].
sub pieces_of_sql {
	my ($sql, $heap, $zen) = @_;
	my @script = map { { text => $_ } } split /\n/, $sql;
	my (%ends, %text);
	my $previous = 0;
	my %inside;
	for my $statement (statements($sql, \%inside)) {
		my ($text, $line) = @$statement;
		push @{ $ends{$line} }, $text;
		$text{$line} .= join ' ', split ' ', join "\n", map { $_->{text} } @script[ $previous .. $line - 1 ]
			if $line > $previous;
		# COPY's data end with \. in a line of its own
		$previous = $line;
		if ($text =~ /^\s*COPY\b.*\bFROM\s+STD(?:IN|OUT)\b/is) {
			my $to = $line;
			$to++ while $to < @script && $script[$to]{text} ne '\\.';
			$script[ $line - 1 ]{copy_end} = $to;
			if ($to < @script && $script[$line]{text} ne '') {
				$script[$_]{hidden} = 1 for $line .. $to;
				$previous = $to + 1;
			}
		}
	}
	my $silent;
	for (1 .. @script) {
		$script[ $_ - 1 ]{hidden} = 1 if $silent;
		$silent = $1 ne 'all' if $script[ $_ - 1 ]{text} =~ /^\\set ECHO (\w+)$/;
		$script[ $_ - 1 ]{hidden} = 1 if $script[ $_ - 1 ]{text} eq '' && !$inside{$_};
	}
	my ($h, $z) = (by_line(\@script, $heap), by_line(\@script, $zen));
	return [ 'all', '', $heap, $zen ] unless $h && $z;
	my %lines = (%$h, %$z);
	return map { [ $text{$_} // "line $_", all_unordered(@{ $ends{$_} // [] }), $h->{$_} // [], $z->{$_} // [] ] }
		sort { $a <=> $b } keys %lines;
}

# The steps of an isolation test: [ what is printed before the first result set, may rows be sorted, lines ].
sub steps {
	my ($lines) = @_;
	my (@found, %sql);
	for my $i (0 .. $#$lines) {
		my $line = $lines->[$i];
		push @found, { head => $line, lines => [] } if !@found || $line =~ /^(?:starting permutation: |step \S+: )/;
		push @{ $found[-1]{lines} }, $line;
	}
	for my $step (@found) {
		next unless $step->{head} =~ /^step (\S+): /;
		my $name = $1;
		my ($i, @text) = (0);
		for (; $i < @{ $step->{lines} }; $i++) {
			last if result_set_end($step->{lines}, $i);
			push @text, $step->{lines}[$i];
		}
		my $text = join "\n", @text;
		$text =~ s/^step \S+: //;
		$sql{$name} = $text =~ s/<waiting \.\.\.>.*//sr unless $text =~ /^<\.\.\. completed>/;
		my @statements = statements($sql{$name} // '');
		$step->{sortable} = all_unordered(map { $_->[0] } @statements);
	}
	return @found;
}

sub pieces_of_spec {
	my ($heap, $zen) = @_;
	my @h = steps($heap);
	my @z = steps($zen);
	return [ 'all', '', $heap, $zen ] unless join("\0", map { $_->{head} } @h) eq join("\0", map { $_->{head} } @z);
	return map { [ $h[$_]{head}, $h[$_]{sortable} // '', $h[$_]{lines}, $z[$_]{lines} ] } 0 .. $#h;
}

## The node on top of plans

my $node_name = qr/Zen(?:PointAccess|KeptPlan)/;

# Takes the node in row $at out of a plan: its only child moves to its place.  False if it has lines of another kind.
sub take_node_out {
	my ($rows, $at) = @_;
	my ($prefix) = $rows->[$at] =~ /^( *(?:->  )?)/;
	my $inner = ' ' x (length($prefix) + 2);
	my $child = $at + 1;
	$child++ while $child < @$rows && $rows->[$child] =~ /^${inner}(?:Output|Key Cache \w+): /;
	return 0 unless $child < @$rows && $rows->[$child] =~ /^${inner}->  (.*)/;
	$rows->[$child] = "$prefix$1";
	for my $i ($child + 1 .. $#$rows) {
		last unless $rows->[$i] =~ s/^ {6}(?=$inner)//;
	}
	splice @$rows, $at, $child - $at;
	return 1;
}

# The rows of a plan without such nodes, and how many there were: rules give several plans.  Key joins stand anywhere,
# the others on top.
sub plan_without_node {
	my @rows = @_;
	my $count = 0;
	for (my $i = 0; $i < @rows; $i++) {
		next unless $rows[$i] =~ /^ ?Custom Scan \($node_name\)/ ||
			$rows[$i] =~ /^ *(?:->  )?Custom Scan \(ZenKeyJoin\)/;
		$i--, $count++ if take_node_out(\@rows, $i);
	}
	return ($count, @rows);
}

# A result set of one column, as psql prints it.
sub result_set {
	my ($title, @rows) = @_;
	my ($width) = sort { $b <=> $a } length($title), map { length($_) - 1 } @rows;
	my $left = int(($width - length $title) / 2);
	return (' ' x ($left + 1) . $title . ' ' x ($width - length($title) - $left + 1), '-' x ($width + 2), @rows,
		@rows == 1 ? '(1 row)' : '(' . @rows . ' rows)');
}

# The same as isolationtester prints it.
sub result_set_of_spec {
	my ($title, @rows) = map { s/ +$//r } @_;
	my ($width) = sort { $b <=> $a } map { length } $title, @rows;
	my @lines = map { sprintf '%-*s', $width, $_ } $title, @rows;
	return (shift @lines, '-' x $width, @lines, @rows == 1 ? '(1 row)' : '(' . @rows . ' rows)');
}

# All of an output without the node, and how many there were.
sub without_node {
	my ($lines) = @_;
	my ($i, $count, @out) = (0, 0);
	while ($i < @$lines) {
		my $end = result_set_end($lines, $i);
		my ($found, @rows) = $end ? plan_without_node(@$lines[ $i + 2 .. $end - 2 ]) : (0);
		if ($found) {
			my $print = $lines->[$i] =~ /^ / ? \&result_set : \&result_set_of_spec;
			push @out, $print->($lines->[$i] =~ s/^ +| +$//gr, @rows);
			$count += $found;
			$i = $end;
		}
		else { push @out, $lines->[ $i++ ] }
	}
	return ($count, \@out);
}

## Indexes that are trees

my $defined = qr/(?<=USING |KEY, |CONSTRAINT, |UNIQUE, |unique, |key, )zentree\b/;
my $becomes = qr/^NOTICE:  index ".*" becomes a btree, as unique indexes of partitioned table ".*" are$/;

# An output as if the trees were btrees, and how many lines were changed.
sub without_trees {
	my ($lines) = @_;
	my ($i, $count, @out) = (0, 0);
	while ($i < @$lines) {
		my $end = result_set_end($lines, $i);
		my @rows = $end ? @$lines[ $i + 2 .. $end - 2 ] : $lines->[$i];
		my $found = 0;
		$found += s/$defined/btree/g for @rows;
		if ($end && $found && $lines->[ $i + 1 ] !~ /\+/) {
			push @out, result_set($lines->[$i] =~ s/^ +| +$//gr, @rows);
			$i = $end;
		}
		elsif (!$end && $lines->[$i] =~ $becomes) { $found = 1; $i++ }
		elsif (!$end) { push @out, @rows; $i++ }
		else { push @out, $lines->[ $i++ ] }
		$count += $found;
	}
	return ($count, \@out);
}

## Comparison

# What differs: "-line" and "+line", without what is common (a longest common subsequence).
sub hunk {
	my ($old, $new) = @_;
	my @old = @$old;
	my @new = @$new;
	while (@old && @new && $old[0] eq $new[0]) { shift @old; shift @new }
	while (@old && @new && $old[-1] eq $new[-1]) { pop @old; pop @new }
	return ((map { "-$_" } @old), (map { "+$_" } @new)) if @old * @new > 4_000_000;
	my @len = map { [ (0) x (@new + 1) ] } 0 .. @old;
	for my $i (reverse 0 .. $#old) {
		for my $j (reverse 0 .. $#new) {
			my ($down, $right) = ($len[ $i + 1 ][$j], $len[$i][ $j + 1 ]);
			$len[$i][$j] = $old[$i] eq $new[$j] ? $len[ $i + 1 ][ $j + 1 ] + 1 : $down > $right ? $down : $right;
		}
	}
	my ($i, $j, @out) = (0, 0);
	while ($i < @old || $j < @new) {
		if ($i < @old && $j < @new && $old[$i] eq $new[$j]) { $i++; $j++ }
		elsif ($j >= @new || ($i < @old && $len[ $i + 1 ][$j] >= $len[$i][ $j + 1 ])) { push @out, '-' . $old[ $i++ ] }
		else { push @out, '+' . $new[ $j++ ] }
	}
	return @out;
}

sub read_lines {
	my ($file) = @_;
	open my $in, '<:raw', $file or return;
	local $/;
	my $text = <$in> // '';
	return [ split /\n/, $text ];
}

# The hunks of a patch: { reason, sometimes, lines, seen }. Dies of a reason that is not on the list.
sub read_patch {
	my ($file) = @_;
	my @hunks;
	for my $line (@{ read_lines($file) // [] }) {
		if ($line =~ /^@@ (!?)(\S+) ?(.*)/) {
			die "$file: unknown reason $2\n" unless $reasons{$2};
			push @hunks, { sometimes => $1, reason => $2, statement => $3, lines => [], seen => 0 };
		}
		elsif (@hunks && $line =~ /^[-+]/) { push @{ $hunks[-1]{lines} }, $line }
	}
	return @hunks;
}

# How a patch names a statement: without the marks of comments before it, and not in full.
sub label {
	my ($statement) = @_;
	$statement =~ s/^(?:-- *)+//;
	return substr($statement, 0, 100) =~ s/\s+$//r;
}

# Compares one test: { verdict, reasons => { reason => hunks }, new => [ [ statement, lines ] ], stale => [ hunks ] }.
sub compare {
	my (%in) = @_;
	my ($heap, $zen) = @in{qw(heap zen)};
	return { verdict => 'failing', new => [ [ 'no output', [] ] ] } unless $heap && $zen && @$zen;
	for my $other ($heap, @{ $in{stock} // [] }) {
		return { verdict => 'identical' } if join("\n", @$zen) eq join("\n", @$other);
	}
	$row_start = defined $in{sql} ? qr/^[ (]/ : qr/./;
	my @pieces = defined $in{sql} ? pieces_of_sql($in{sql}, $heap, $zen) : pieces_of_spec($heap, $zen);
	my (%reasons_seen, @new);
	for my $piece (@pieces) {
		my ($statement, $sortable, @lines) = @$piece;
		@lines = map { [ sorted($sortable, @$_) ] } @lines if $sortable;
		my @hunk = hunk(@lines) or next;
		my ($known) = grep { $_->{statement} eq label($statement) && join("\n", @{ $_->{lines} }) eq join("\n", @hunk) }
			@{ $in{patch} // [] };
		if ($known) { $known->{seen}++; $reasons_seen{ $known->{reason} }++ }
		elsif ($in{kept} && grep { /^\+.*$node_name/ } @hunk) { $reasons_seen{kept}++ }
		else { push @new, [ $statement, \@hunk ] }
	}
	my @stale = grep { !$_->{seen} && !$_->{sometimes} && !$_->{other} } @{ $in{patch} // [] };
	my $verdict = @new || @stale ? 'failing' : %reasons_seen ? 'accepted' : 'row order';
	return { verdict => $verdict, reasons => \%reasons_seen, new => \@new, stale => \@stale };
}

## Self test

sub self_test {
	my $failed = 0;
	my $is = sub {
		my ($name, $got, $expected) = @_;
		return if $got eq $expected;
		print "compare.pl: $name: $got instead of $expected\n";
		$failed++;
	};
	my $set = sub { (' a ', '---', (map { " $_" } @_), '(' . @_ . ' rows)', '') };
	my $run = sub {
		my ($sql, $heap, $zen, @patch) = @_;
		my @echo = split /\n/, $sql;
		return compare(sql => $sql, heap => [ @echo, @$heap ], zen => [ @echo, @$zen ], patch => \@patch)->{verdict};
	};
	my @ab = $set->(1, 2, 2);
	my @ba = $set->(2, 1, 2);
	$is->('equal', $run->("SELECT a FROM t;\n", \@ab, \@ab), 'identical');
	for my $sql ('SELECT a FROM t;', 'TABLE t;', "SELECT a\nFROM t; -- order by a", "SELECT 'order by' FROM t;",
		'SELECT a FROM (SELECT a FROM t ORDER BY a) s;', 'SELECT sum(a) OVER (ORDER BY a) FROM t;',
		'UPDATE t SET a = 1 RETURNING a::int;', 'WITH w AS (SELECT 1) SELECT * FROM t;',
		'SELECT 1 \\; SELECT a FROM t;', 'CREATE TABLE t (a int) \\; SELECT a FROM t;',
		"COPY t FROM stdin;\n1\n\\.\nSELECT a FROM t;", "\\copy t from stdin\n1\n\\.\nSELECT a FROM t;") {
		my @echo = grep { !/^(?:1|\\\.)$/ } split /\n/, $sql;
		$is->($sql, compare(sql => "$sql\n", heap => [ @echo, @ab ], zen => [ @echo, @ba ])->{verdict}, 'row order');
		$is->("$sql: other rows", $run->("$sql\n", \@ab, [ $set->(2, 1, 1) ]), 'failing');
		$is->("$sql: fewer rows", $run->("$sql\n", \@ab, [ $set->(2, 1) ]), 'failing');
	}
	for my $sql ('SELECT a FROM t ORDER BY a;', "SELECT a FROM t ORDER\n BY a;", 'EXPLAIN SELECT a FROM t;',
		'EXECUTE q;',
		'FETCH ALL FROM c;', '\d t', 'SELECT a FROM t :tail;', ':query;', 'SELECT a FROM t \gx', 'SELECT explain_it();',
		'SELECT 1; SELECT a FROM t ORDER BY a;', 'SELECT 1 \\; SELECT a FROM t ORDER BY a;',
		'SHOW x \\; SELECT a FROM t;', "SELECT a FROM t /* ; */ ORDER BY 1;",
		'SELECT 1 UNION (SELECT 2) ORDER BY 1;', "SELECT \$x\$ ; \$x\$ FROM t\nORDER BY 1;") {
		$is->($sql, $run->("$sql\n", \@ab, \@ba), 'failing');
	}
	my @sent = ('x', 'y');
	$is->('COPY', $run->("COPY t TO STDOUT;\n", \@sent, [ reverse @sent ]), 'row order');
	$is->('COPY, other rows', $run->("COPY t TO STDOUT;\n", \@sent, [ 'x', 'x' ]), 'failing');
	$is->('COPY, query', $run->("COPY (SELECT a FROM t) TO STDOUT;\n", \@sent, [ reverse @sent ]), 'row order');
	$is->('COPY, ordered', $run->("COPY (SELECT a FROM t ORDER BY a) TO STDOUT;\n", \@sent, [ reverse @sent ]),
		'failing');
	$is->('COPY and more', $run->("SELECT a \\; COPY t TO STDOUT;\n", [ @ab, @sent ], [ @ba, reverse @sent ]),
		'row order');
	$is->('not COPY', $run->("SELECT a FROM t;\n", \@sent, [ reverse @sent ]), 'failing');
	my @said = map { "NOTICE:  $_" } 1, 2;
	$is->('messages', $run->("SELECT 1;\n", \@said, [ reverse @said ]), 'row order');
	$is->('other messages', $run->("SELECT 1;\n", \@said, [ $said[0] ]), 'failing');
	$is->('messages of DDL', $run->("DROP TABLE t;\n", \@said, [ reverse @said ]), 'failing');
	$is->('messages and ORDER BY', $run->("SELECT a FROM t ORDER BY a;\n", [ @said, @ab ], [ reverse(@said), @ab ]),
		'row order');
	$is->('messages of EXPLAIN', $run->("EXPLAIN ANALYZE SELECT 1;\n", \@said, [ reverse @said ]), 'failing');
	$is->('rows of several lines', $run->("SELECT a;\n", [ $set->("x  +\n y", "u  +\n v") ],
		[ $set->("x  +\n v", "u  +\n y") ]),
		'failing');
	my @split = map { split /\n/, $_, -1 } $set->("x  +\n y", "u  +\n v");
	my @other = map { split /\n/, $_, -1 } $set->("u  +\n v", "x  +\n y");
	$is->('rows of several lines, moved', $run->("SELECT a;\n", \@split, \@other), 'row order');
	$is->('script not shown', compare(sql => "SELECT a;\n", heap => \@ab, zen => \@ba)->{verdict}, 'failing');
	$is->('no output', compare(sql => "SELECT a;\n", heap => \@ab, zen => undef)->{verdict}, 'failing');
	$is->('stock', compare(sql => '', heap => ['x'], zen => ['y'], stock => [ ['y'] ])->{verdict}, 'identical');

	my $hunk = sub { { reason => 'plan', statement => 'EXPLAIN;', lines => [ '-1', '+2' ], sometimes => '', seen => 0,
		@_ } };
	$is->('accepted', $run->("EXPLAIN;\n", ['1'], ['2'], $hunk->()), 'accepted');
	my $kept = sub {
		my ($line, $trial) = @_;
		my @output = map { [ 'EXPLAIN;', $_ ] } 1, $line;
		return compare(sql => "EXPLAIN;\n", heap => $output[0], zen => $output[1], kept => $trial)->{verdict};
	};
	$is->('kept plan', $kept->('"ZenKeptPlan"', 1), 'accepted');
	$is->('kept plan, but no trial', $kept->('"ZenKeptPlan"', 0), 'failing');
	$is->('no kept plan', $kept->('2', 1), 'failing');
	$is->('other hunk', $run->("EXPLAIN;\n", ['1'], ['3'], $hunk->()), 'failing');
	$is->('other statement', $run->("EXPLAIN a;\n", ['1'], ['2'], $hunk->()), 'failing');
	$is->('one more', $run->("EXPLAIN;\nEXPLAIN;\n", ['1'], ['3'], $hunk->()), 'failing');
	$is->('stale', $run->("SELECT a FROM t;\n", \@ab, \@ba, $hunk->()), 'failing');
	$is->('not always seen', $run->("SELECT a FROM t;\n", \@ab, \@ba, $hunk->(sometimes => '!')), 'row order');
	my $file = File::Temp->new;
	print $file "remark\n\@\@ because EXPLAIN;\n-1\n+2\n";
	close $file;
	$is->('unknown reason', eval { read_patch("$file"); 1 } ? 'taken' : 'refused', 'refused');

	my @spec = ('Parsed test spec with 1 sessions', '', 'starting permutation: r');
	my $spec = sub {
		my ($sql, $heap, $zen) = @_;
		return compare(heap => [ @spec, "step r: $sql", @$heap ], zen => [ @spec, "step r: $sql", @$zen ])->{verdict};
	};
	$is->('step', $spec->('SELECT a FROM t;', \@ab, \@ba), 'row order');
	$is->('ordered step', $spec->('SELECT a FROM t ORDER BY a;', \@ab, \@ba), 'failing');
	$is->('step that waits', $spec->("SELECT a FROM t; <waiting ...>\nstep r: <... completed>", \@ab, \@ba),
		'row order');

	my @plan = (' Update on t', '   ->  Index Scan using i on t', '         Index Cond: (a = 2)');
	my @node = (' Custom Scan (ZenPointAccess)', '   Output: (b)', map { "      $_" } @plan);
	$node[2] = '   ->  Update on t';
	my $without = sub { join "\n", @{ (without_node([ 'EXPLAIN;', result_set('QUERY PLAN', @_), '' ]))[1] } };
	my $explain = sub { join "\n", 'EXPLAIN;', result_set('QUERY PLAN', @_), '' };
	$is->('the node', $without->(@node), $explain->(@plan));
	$is->('the node, two plans', $without->(@node, ' ', @node), $explain->(@plan, ' ', @plan));
	$is->('another line of the node', $without->(@node[ 0, 1 ], '   Filter: x', @node[ 2 .. 4 ]),
		$explain->(@node[ 0, 1 ], '   Filter: x', @node[ 2 .. 4 ]));
	$is->('the other node', $without->(map { s/PointAccess/KeptPlan/r } @node), $explain->(@plan));
	my @deep = (' Limit', '   ->  Append', '         ->  Nested Loop', '               Join Filter: x',
		'               ->  Seq Scan on t', '               ->  Index Scan using i on t',
		'                     Index Cond: (a = 2)', '         ->  Seq Scan on u', '   InitPlan 1',
		'     ->  Seq Scan on v');
	my @joins = (@deep[ 0, 1 ], '         ->  Custom Scan (ZenKeyJoin)', '               Key Cache Hits: 1',
		(map { "      $_" } @deep[ 2 .. 6 ]), @deep[ 7, 8 ],
		'     ->  Custom Scan (ZenKeyJoin)', '           ->  Seq Scan on v');
	$is->('key joins', $without->(@joins), $explain->(@deep));
	my @kept = (' Custom Scan (ZenKeptPlan)', "   -> $joins[0]", map { "      $_" } @joins[ 1 .. $#joins ]);
	$is->('both', $without->(@kept), $explain->(@deep));
	my ($of_spec, $expected) = map {
		join "\n", result_set_of_spec('QUERY PLAN', map { s/^ //r } @$_)
	} \@kept, \@deep;
	$is->('both in a spec', join("\n", @{ (without_node([ split /\n/, $of_spec ]))[1] }), $expected);
	$is->('result set of a spec', join('|', result_set_of_spec('ab', 'abc ', ' d')), 'ab |---|abc| d |(2 rows)');
	$is->('another node', $without->(map { s/Point/Other/r } @node), $explain->(map { s/Point/Other/r } @node));
	$is->('the node below', $without->(' Limit', map { "  $_" } @node), $explain->(' Limit', map { "  $_" } @node));
	$is->('result set', join('|', result_set('ab', ' abc')), ' ab  |-----| abc|(1 row)');
	my $as_btree = sub { join "\n", @{ (without_trees(\@_))[1] } };
	my @table = ('        Table "public.t"', ' Column | Type ', '--------+------', 'Indexes:');
	my @def = ('    "a" PRIMARY KEY, zentree (a)', '    "b" UNIQUE CONSTRAINT, zentree (b)');
	$is->('definitions', $as_btree->(@table, @def), join "\n", @table, map { s/zentree/btree/r } @def);
	$is->('definitions in rows', $as_btree->(result_set('d', ' CREATE INDEX i ON t USING zentree (a)')),
		join "\n", result_set('d', ' CREATE INDEX i ON t USING btree (a)'));
	$is->('a list', $as_btree->($set->('zentree')), join "\n", $set->('zentree'));
	$is->('a notice',
		$as_btree->('NOTICE:  index "i" becomes a btree, as unique indexes of partitioned table "t" are'), '');
	$is->('not seen without trees', $run->("SELECT a FROM t;\n", \@ab, \@ba, $hunk->(other => 1)), 'row order');
	$is->('step without waiting', $spec->('SELECT a FROM t;', \@ab, [ 'step x: y', @ab ]), 'failing');
	print $failed ? "compare.pl --self-test: $failed failed\n" : "compare.pl --self-test: ok\n";
	return $failed == 0;
}

## Main

my %opt;
GetOptions(\%opt, 'isolation', 'propose', 'kept', 'trees=s', 'self-test', 'sql=s', 'stock=s', 'heap=s', 'zen=s',
	'patches=s')
	or exit 2;
exit(self_test() ? 0 : 1) if $opt{'self-test'};

my (%count, %reason);
my ($nodes, $trees) = (0, 0);
for my $test (@ARGV) {
	my $sql = $opt{isolation} ? undef : join "\n", @{ read_lines("$opt{sql}/$test.sql") // [] }, '';
	my @stock = map { read_lines($_) } grep { /\/\Q$test\E(?:_\d+)?\.out$/ } glob "$opt{stock}/*.out";
	my ($taken_out, $zen) = without_node(read_lines("$opt{zen}/$test.out") // []);
	$nodes += $taken_out;
	my @patch = read_patch("$opt{patches}/$test.patch");
	if ($opt{trees}) {
		my ($changed, $as_btree) = without_trees($zen);
		$trees += $changed;
		$zen = $as_btree;
		$_->{other} = 1 for @patch;
		push @patch, read_patch("$opt{trees}/$test.patch");
	}
	my $result = compare(
		sql => $sql,
		stock => \@stock,
		heap => read_lines("$opt{heap}/$test.out"),
		zen => $zen,
		kept => $opt{kept},
		patch => \@patch);
	my $verdict = $result->{verdict};
	$count{$verdict}++;
	$reason{$_} += $result->{reasons}{$_} for keys %{ $result->{reasons} // {} };
	next if $verdict eq 'identical';
	if ($opt{propose}) {
		print "## $test\n" if grep { @{ $result->{$_} // [] } } qw(new stale);
		print "@@ stale $_->{statement}\n" for @{ $result->{stale} // [] };
	}
	else {
		my $remark = join ', ', map { "$_ $result->{reasons}{$_}" } sort keys %{ $result->{reasons} // {} };
		$remark .= " NEW " . @{ $result->{new} } if @{ $result->{new} // [] };
		$remark .= " STALE " . @{ $result->{stale} } if @{ $result->{stale} // [] };
		printf "%-12s %-28s %s\n", $verdict, $test, $remark;
	}
	if ($opt{propose} || $verdict eq 'failing') {
		print join("\n", '@@ ? ' . label($_->[0]), @{ $_->[1] }), "\n" for @{ $result->{new} // [] };
	}
}
unless ($opt{propose}) {
	print "nodes ZenPointAccess, ZenKeptPlan and ZenKeyJoin taken out: $nodes\n" if $nodes;
	print "lines that name zentree, or a btree in its place: $trees\n" if $trees;
	printf "hunks: %s\n", join ', ', map { "$_ $reason{$_}" } sort keys %reason if %reason;
	printf "%d identical, %d row order, %d accepted, %d failing\n",
		map { $count{$_} // 0 } 'identical', 'row order', 'accepted', 'failing';
}
exit($count{failing} ? 1 : 0);
