# bench/pgbench/run: what its loads of full pages and of many indexes promise of heap.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../t/lib";

use Test::More;
use ZenTest;

my $node = new_node('pgbench');
$node->start;
my $dbh;
local @ENV{qw(PGHOST PGPORT PGDATABASE)} = ($node->host, $node->port, 'postgres');

# The values of the result line by name.
sub load
{
	my ($workload, @options) = @_;
	my $command = "'$FindBin::RealBin/../pgbench/run' --workload $workload @options";
	$command .= ' --rows 4000 --clients 1 --duration 1';
	$dbh->disconnect if $dbh;    # the script waits for all clients to leave
	my $output = `$command 2>&1`;
	$dbh = connect_db($node);
	is($?, 0, "$workload @options") or diag $output;
	my ($line) = $output =~ /^result (.*)$/m;
	return map { /(\w+)=(.*)/ } split / /, $line;
}

my $sql = 'SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = ';
my %result = load('full-pages');
my ($updates, $hot) = $dbh->selectrow_array("$sql 'filled'");
cmp_ok($updates, '>', 1000, 'full pages: many rows are updated, some of the 1,000 more than once');
is($hot, 0, 'but none is a HOT update');
is($result{rows_changed_per_tx}, 1, 'full pages: one row in each transaction');

%result = load('indexed-update');
($updates, $hot) = $dbh->selectrow_array("$sql 'indexed'");
cmp_ok($hot, '>', 0, 'indexed-update: it changes no indexed column');
%result = load('indexed-insert');
is($result{rows_changed_per_tx}, 1, 'indexed-insert: one new row in each transaction');
is(value($dbh, "SELECT count(*) FROM pg_indexes WHERE tablename = 'indexed'"), 6,
	'a primary key and five secondary indexes');
value($dbh, 'CREATE EXTENSION zen');
%result = load('indexed-insert', '--am zen --index zentree');
is(value($dbh, "SELECT string_agg(amname, ' ' ORDER BY c.oid) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid "
		  . "JOIN pg_am a ON a.oid = relam WHERE indrelid = 'pgbench_indexed.indexed'::regclass"),
	'btree' . ' zentree' x 5, '--index is for the secondary ones');
%result = load('copy');
is($result{rows_changed_per_tx}, 4000, 'copy: all rows in each transaction');
is(value($dbh, 'SELECT count(*) FROM pgbench_bulk.copied'), 4000, 'to a table that was empty');
%result = load('create-index');
is($result{rows_changed_per_tx}, 0, 'create-index: no row');
is(value($dbh, q{SELECT idx_tup_read IS NULL FROM pg_stat_user_indexes WHERE indexrelname = 'bulk_n'}), undef,
	'the index is dropped');
is($result{checkpoints}, 0, 'no checkpoint is counted where there was none');
$node->stop;
done_testing();
