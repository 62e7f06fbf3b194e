# bench/counters: what a run of pgbench costs in NVM, as its table says.  bench/paper/model: its tables of the results
# in this tree are those of doc/scaling.md.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../t/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('counters');
$node->start;
my $dbh = connect_db($node);
value($dbh, $_) for 'CREATE EXTENSION zen', 'CREATE TABLE t (id int, v text) USING zen';

my $script = $node->basedir . '/insert.sql';
PostgreSQL::Test::Utils::append_to_file($script, "INSERT INTO t VALUES (1, 'a row');\n");
local @ENV{qw(PGHOST PGPORT PGDATABASE)} = ($node->host, $node->port, 'postgres');
my $output = `"$FindBin::RealBin/../counters" pgbench -n -c 2 -t 50 -f $script 2>&1`;
is($?, 0, 'its status') or diag $output;
like($output, qr/^100 transactions$/m, 'the number of transactions');
like($output, qr/^slots_written +\d+ +\d+ +100 +1\.000$/m, 'one slot for each row inserted') or diag $output;
like($output, qr/^fences +\d+ +\d+ +\d+ +[12]\.\d{3}$/m, 'one or two fences for each commit');
like(`"$FindBin::RealBin/../counters" false; echo \$?`, qr/^1$/m, 'the status of a command that fails is its own');
$node->stop;

my $root = "$FindBin::RealBin/../..";
my $predicted = `"$root/bench/paper/model" "$root/bench/paper/results" 2>&1`;
my $shown = PostgreSQL::Test::Utils::slurp_file("$root/doc/scaling.md");
my @sections = $shown =~ /^(### [^\n]*counters of .*?\n)(?=\n###)/msg;
cmp_ok(scalar @sections, '>=', 3, 'doc/scaling.md has tables of the model');
cmp_ok(index($predicted, $_), '>=', 0, 'the model prints the same: ' . (split /\n/)[0]) for @sections;
done_testing();
