# wal2json, an output plugin of others, prints the same for a zen table and a heap table.
#
# It wants the plugin in the server: Debian's package postgresql-15-wal2json.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('publisher', pool_size => '128MB', dram_size => '128MB',
	init => { allows_streaming => 'logical' }, conf => 'zen.stream = logical');
$node->start;
my $dbh = connect_db($node);
run_all($dbh, 'CREATE EXTENSION zen');
# newer servers want to be told
my $told_to = value($dbh, q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'});
run_all($dbh, q{ALTER SYSTEM SET output_plugin_libraries = 'wal2json'}, 'SELECT pg_reload_conf()') if $told_to;
wait_for('the setting', sub { value($dbh, 'SHOW output_plugin_libraries') eq 'wal2json' }) if $told_to;
my $made = run_sql($dbh, q{SELECT pg_create_logical_replication_slot('json', 'wal2json')});
plan skip_all => 'no wal2json in this server (postgresql-15-wal2json)'
  if $made->{state} && $made->{message} =~ /could not access file "wal2json"/;
is($made->{message} // '', '', 'a slot of wal2json');
test_format($_) for 1, 2;
$dbh->disconnect;
$node->stop;
done_testing();

# Statements with T for the table, and what they shall make wal2json say of it.
sub transactions
{
	return (
		[ qr/"columnnames":\["id","v","w","n"\]|"action":"I"/,
			q{INSERT INTO T VALUES (1, 'a', '\x00ff', 1.5), (2, NULL, NULL, NULL)} ],
		[ qr/"kind":"update"|"action":"U"/, q{UPDATE T SET v = 'b' WHERE id = 1} ],
		[ qr/"oldkeys"|"identity"/, 'UPDATE T SET id = 10 WHERE id = 1' ],
		[ qr/"kind":"delete"|"action":"D"/, 'DELETE FROM T WHERE id = 2' ],
		[ qr/"v"/, 'BEGIN', q{INSERT INTO T SELECT 3, string_agg(md5(g::text), '') FROM generate_series(1, 1000) g},
			'SAVEPOINT a', 'DELETE FROM T', 'ROLLBACK TO a', 'UPDATE T SET n = 7 WHERE id = 3', 'COMMIT' ],
		[ qr/"added"/, 'BEGIN', q{ALTER TABLE T ADD added jsonb DEFAULT '{"a": 1}'},
			q{UPDATE T SET added = '{"b": 2}' WHERE id = 3}, 'COMMIT' ],
		[ qr/"v"/, 'ALTER TABLE T REPLICA IDENTITY FULL', q{UPDATE T SET w = '\x01' WHERE id = 3},
			'DELETE FROM T WHERE id = 10' ],
		[ qr/"action":"T"|^\{"change":\[\]\}$/m, 'TRUNCATE T' ]);
}

sub test_format
{
	my ($format) = @_;
	my %said;
	for my $am ('heap', 'zen')
	{
		value($dbh, "CREATE TABLE t_$am (id int PRIMARY KEY, v text, w bytea, n numeric) USING $am");
		for my $t (transactions())
		{
			my ($like, @statements) = @$t;
			run_all($dbh, map { s/\bT\b/t_$am/gr } @statements);
			push @{ $said{$am} }, told($format) =~ s/\bt_$am/T/gr;
			like($said{$am}[-1], $like, "$am, format $format: $statements[-1]");
		}
		value($dbh, "DROP TABLE t_$am");
		told($format);
	}
	is_deeply($said{zen}, $said{heap}, "format $format: the same for zen and heap");
	return;
}

sub told
{
	my ($format) = @_;
	value($dbh, 'CHECKPOINT');
	return join "\n", @{ $dbh->selectcol_arrayref(
			"SELECT data FROM pg_logical_slot_get_changes('json', NULL, NULL, 'format-version', '$format')") };
}
