# CrashModel -- what the clients of the crash test write, and what must be found.
#
# The tables:
#   item      rows of every kind: indexes of six sorts, wide values, null values
#   acct      accounts shared by all clients; acct_h: the same on heap
#   led       one row per transfer, so every balance can be computed
#   mix_z     written together with mix_h (heap) in mixed transactions only
#
# A model is { table => { key => line } } for the rows of one client, the tables
# being item, led and mix; the line is a text that describes the row, and the SQL
# of %line_of computes the same text.  Keys of item and mix tell their client:
# client * KEYS_PER_CLIENT and up.  Changes have the same shape, with an undefined
# line for a deleted row.  The table "lock" in changes names rows of item that a
# transaction has only locked.
#
# The journal of a client is a file of lines, written before the server is asked
# (intent) and after it has answered:
#   C table key line    one change of the transaction that the next I or P names
#   I n     COMMIT is about to be sent     A n kinds  it was acknowledged
#                                          R n  the server said that it failed
#   P gid   PREPARE is about to be sent    PA gid, PR gid
#   CI gid  COMMIT PREPARED                CA gid
#   RI gid  ROLLBACK PREPARED              RA gid
#   E state a transaction was rolled back for this SQLSTATE
#   F text  the client saw what may not be
# Lines of A, I, CI and CA end with the time.  A client that commits asynchronously may lose its newest transactions:
# then the journal is not replayed on the model, but kept as a history.

package CrashModel;

use strict;
use warnings;

use Digest::MD5 'md5_hex';
use Exporter 'import';
use ZenTest;

our @EXPORT = qw(
  KEYS_PER_CLIENT ACCOUNTS START_BALANCE %line_of
  create_tables body_of key_count change_lines read_journal apply_changes
);

use constant KEYS_PER_CLIENT => 1_000_000_000;
use constant ACCOUNTS        => 50;              # on zen; as many on heap
use constant START_BALANCE   => 1000;

# [relation, key expression, line expression] by model table; a relation of the
# model table "mix" is read twice, on zen and on heap.
our %line_of = (
	item => [
		'item', 'key',
		q{concat_ws('|', coalesce(grp::text, '~'), val, code, tag,
		  array_to_string(tags, ','), prio,
		  coalesce(length(body) || ':' || md5(body), '~'))}
	],
	led   => [ 'led',   'n',   q{concat_ws('|', src, dst, amount)} ],
	mix_z => [ 'mix_z', 'key', q{concat_ws('|', val, note)} ],
	mix_h => [ 'mix_h', 'key', q{concat_ws('|', val, note)} ],
);

sub create_tables
{
	my ($dbh) = @_;
	my ($using, $n) = (using(), ACCOUNTS);
	my $balance = START_BALANCE;

	for my $sql (
		"CREATE TABLE item (key bigint PRIMARY KEY, client int NOT NULL, grp int,
			val int NOT NULL, code text NOT NULL UNIQUE, tag int NOT NULL,
			tags int[] NOT NULL, prio int NOT NULL, body text) $using",
		'CREATE INDEX item_grp ON item (grp)',
		'CREATE INDEX item_lcode ON item (lower(code))',
		'CREATE INDEX item_prio ON item (prio) INCLUDE (grp) WHERE prio > 0',
		'CREATE INDEX item_tag ON item USING hash (tag)',
		'CREATE INDEX item_tags ON item USING gin (tags)',
		'CREATE INDEX item_client ON item USING brin (client)',
		"CREATE TABLE acct (id int PRIMARY KEY, bal int NOT NULL) $using",
		'CREATE INDEX acct_bal ON acct (bal)',
		'CREATE TABLE acct_h (id int PRIMARY KEY, bal int NOT NULL) USING heap',
		"CREATE TABLE led (client int, n int, src int, dst int, amount int,
			PRIMARY KEY (client, n)) $using",
		"CREATE TABLE mix_z (key bigint PRIMARY KEY, client int, val int, note text) $using",
		'CREATE INDEX mix_z_val ON mix_z (val)',
		'CREATE TABLE mix_h (key bigint PRIMARY KEY, client int, val int, note text) USING heap',
		"INSERT INTO acct SELECT g, $balance FROM generate_series(1, $n) g",
		"INSERT INTO acct_h SELECT 1000 + g, $balance FROM generate_series(1, $n) g")
	{
		value($dbh, $sql);
	}
	return;
}

# body_of -- a text of $length characters that does not compress well, so that a
# long one goes out of line; undef for length 0.
sub body_of
{
	my ($seed, $length) = @_;
	return unless $length;
	my $text = '';
	my $part = 0;
	$text .= md5_hex("$seed." . $part++) while length $text < $length;
	return substr($text, 0, $length);
}

sub key_count { return scalar keys %{ $_[0]{item} }; }

# change_lines -- changes as journal lines.
sub change_lines
{
	my ($changes) = @_;
	my $text = '';
	for my $table (sort keys %$changes)
	{
		for my $key (sort { $a <=> $b } keys %{ $changes->{$table} })
		{
			my $line = $changes->{$table}{$key};
			$text .= join("\t", 'C', $table, $key, defined $line ? $line : '\N') . "\n";
		}
	}
	return $text;
}

sub apply_changes
{
	my ($model, $changes) = @_;
	for my $table (keys %$changes)
	{
		next if $table eq 'lock';
		while (my ($key, $line) = each %{ $changes->{$table} })
		{
			if (defined $line) { $model->{$table}{$key} = $line; }
			else               { delete $model->{$table}{$key}; }
		}
	}
	return;
}

# read_journal -- replay a journal on the model of its client (changed in place).
#
# With $keep the model stays as it was, and history is a list of { changes, sent, acked, flushed }, with the times at
# which the end was asked for and acknowledged (undef: it was not), and if it cannot be lost.
#
# Returns a hash: unknown (changes of a transaction that the server was asked to
# commit and never answered), prepared (gid => { changes, asked }; asked is P, PA,
# CI or RI), acked (number), kinds (name => number), retries (SQLSTATE => number),
# failures (texts).
sub read_journal
{
	my ($path, $model, $keep) = @_;
	my %found = (
		unknown => undef, prepared => {}, acked => 0, kinds => {}, retries => {}, failures => [], history => []);
	my (%changes, $changes, $sent);
	my $accept = sub {
		my ($changes, $acked, $flushed) = @_;
		return apply_changes($model, $changes) unless $keep;
		push @{ $found{history} }, { changes => $changes, sent => $sent, acked => $acked, flushed => $flushed };
		return;
	};

	open(my $fh, '<', $path) or die "cannot read $path: $!";
	while (my $entry = <$fh>)
	{
		chomp $entry;
		my ($what, @arg) = split /\t/, $entry, -1;
		if ($what eq 'C')
		{
			$changes{ $arg[0] }{ $arg[1] } = $arg[2] eq '\N' ? undef : $arg[2];
		}
		elsif ($what eq 'I') { $found{unknown} = {%changes}; %changes = (); $sent = $arg[1]; }
		elsif ($what eq 'A')
		{
			$accept->($found{unknown}, $arg[2]);
			$found{unknown} = undef;
			$found{acked}++;
			$found{kinds}{$_}++ for split / /, $arg[1];
		}
		elsif ($what eq 'R') { $found{unknown} = undef; }
		elsif ($what eq 'P')
		{
			$found{prepared}{ $arg[0] } = { changes => {%changes}, asked => 'P' };
			%changes = ();
		}
		elsif ($what eq 'PR' || $what eq 'RA') { delete $found{prepared}{ $arg[0] }; }
		elsif ($what eq 'CA')
		{
			$accept->(delete($found{prepared}{ $arg[0] })->{changes}, $arg[1], 1);
			$found{kinds}{commit_prepared}++;
		}
		elsif ($what eq 'E') { $found{retries}{ $arg[0] }++; }
		elsif ($what eq 'F') { push @{ $found{failures} }, $arg[0]; }
		elsif ($what =~ /^(?:PA|CI|RI)$/)
		{
			$found{prepared}{ $arg[0] }{asked} = $what;
			$sent = $found{prepared}{ $arg[0] }{sent} = $arg[1] if $what eq 'CI';
		}
		else { die "bad journal line: $entry"; }
	}
	close $fh;
	if ($keep && $found{unknown})
	{
		$accept->($found{unknown});
		$found{unknown} = undef;
	}
	return \%found;
}

1;
