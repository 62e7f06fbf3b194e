# Databases made from others, as doc/operations.md says.
#
# - a template with zen tables is refused, with what to do instead; doing that copies all rows
# - a template with the extension alone is copied
# - zen as a database's default before the extension is there, and after

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use ZenTest;

skip_unless_zen();
my $node = new_node('databases');
$node->start;
my $dbh = connect_db($node);

value($dbh, 'CREATE DATABASE app_template');
{
	my $template = connect_db($node, 'app_template');
	value($template, $_)
	  for 'CREATE EXTENSION zen', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen', 'CREATE INDEX ON t (v)',
	  q{INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 1000) g},
		'UPDATE t SET v = v || v WHERE id % 3 = 0';
	$template->disconnect;
}
my $offset = log_size($node);
is(state_of($dbh, 'CREATE DATABASE worker TEMPLATE app_template'), '0A000', 'a template with zen tables is refused');
like(log_since($node, $offset), qr/HINT:  .*pg_dump and pg_restore/, 'with what to do');

# The commands of doc/operations.md, by a shell.
my $operations = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/../doc/operations.md");
my ($script) = $operations =~ /^```sh\n(pg_dump --format=custom.*?)^```$/ms;
ok($script, 'doc/operations.md has commands for it');
{
	local @ENV{qw(PGHOST PGPORT PGDATABASE PATH)} =
	  ($node->host, $node->port, 'postgres', $node->config_data('--bindir') . ":$ENV{PATH}");
	my $dir = PostgreSQL::Test::Utils::tempdir();
	is(system("cd '$dir' && { $script\n } >'$dir/log' 2>&1"), 0, 'they run')
		or diag PostgreSQL::Test::Utils::slurp_file("$dir/log");
}
my $sum = q{SELECT count(*) || md5(string_agg(t::text, ',' ORDER BY id)) FROM t};
my $template = connect_db($node, 'app_template');
for my $name (map { "app_test_$_" } 1 .. 4)
{
	my $copy = connect_db($node, $name);
	is(value($copy, $sum), value($template, $sum), "$name has all rows");
	is(value($copy, q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE relname = 't'}), 'zen',
		"$name: in a zen table");
	is_sound($copy, $name);
}
$template->disconnect;

value($dbh, 'CREATE DATABASE plain_template');
my $plain = connect_db($node, 'plain_template');
value($plain, 'CREATE EXTENSION zen');
$plain->disconnect;
is(state_of($dbh, 'CREATE DATABASE plain TEMPLATE plain_template'), '', 'a template without zen tables is copied');

value($dbh, 'CREATE DATABASE early');
is(state_of($dbh, 'ALTER DATABASE early SET default_table_access_method = zen'), '',
	'zen as a default before it is there');
my $early = connect_db($node, 'early');
is(value($early, 'SHOW default_table_access_method'), 'heap', 'it does not count yet');
value($early, 'CREATE EXTENSION zen');
$early->disconnect;
$early = connect_db($node, 'early');
is(value($early, 'SHOW default_table_access_method'), 'zen', 'it does once there is the extension');
$node->stop;
done_testing();
