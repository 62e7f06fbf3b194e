# The files of monitoring/, which tools/make-monitoring makes from one list.
#
# - the committed files are what it makes
# - each query runs, as a role with pg_monitor only, on a primary and on its standby; its columns are those of the list,
#   and what is no label is a number or a null
# - alert rules and dashboard name only metrics that the exporter makes
# - each alert fires when it shall, not at once where it shall wait, and not when it shall not (promtool)
# - Prometheus's exporter reads the queries and delivers each metric, with the server's values; a standby's, too
# - Prometheus reads rules and exporter, and has values for each query of the dashboard
#
# The last three want Debian's packages prometheus and prometheus-postgres-exporter.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CopyServers;
use HTTP::Tiny;
use IPC::Run ();
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;
use ZenTest;

skip_unless_zen();
my $root  = "$FindBin::RealBin/..";
my $files = "$root/monitoring";
my $tmp   = PostgreSQL::Test::Utils::tempdir();
my @started;    # programs that end with the test

my @list = @{ decode_json(output('tools/make-monitoring', '--list')) };
my ($primary, $standby) = make_servers();
test_files();
test_queries($_) for $primary, $standby;
test_names();
test_alerts();
test_exporter();
$_->kill_kill for reverse @started;
$standby->stop;
$primary->stop;
done_testing();

# --- tools ------------------------------------------------------------------

sub output
{
	my ($program, @arguments) = @_;
	my ($out, $err);
	IPC::Run::run([ "$root/$program", @arguments ], '>', \$out, '2>', \$err) or die "$program: $out$err";
	return $out;
}

sub file { return PostgreSQL::Test::Utils::slurp_file("$files/$_[0]"); }

# Path of a program, or undef.
sub program
{
	my ($path) = grep { -x } map { "$_/$_[0]" } split /:/, $ENV{PATH};
	return $path;
}

# name_of -- the name under which the exporter shows a column.
sub name_of { return "$_[0]{name}_$_[1]{name}"; }

sub made
{
	my @made = ('pg_up');
	for my $query (@list)
	{
		push @made, map { name_of($query, $_) } grep { $_->{kind} ne 'LABEL' } @{ $query->{columns} };
	}
	return @made;
}

sub make_servers
{
	my $node = copy_primary('primary');
	$node->start;
	my $dbh = connect_db($node);
	run_all($dbh, 'CREATE EXTENSION zen', 'CREATE ROLE exporter LOGIN IN ROLE pg_monitor',
		'CREATE TABLE t (id int PRIMARY KEY, v text) USING zen',
		q{INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1000) g});
	$node->backup('base');
	my $copy = copy_of($node, 'standby', 'base', has_streaming => 1);
	$copy->start;
	$node->wait_for_catchup($copy);
	return ($node, $copy);
}

# --- the list and the files -------------------------------------------------

sub test_files
{
	is(output('tools/make-monitoring', '--check'), '', 'the files are what tools/make-monitoring makes');
	my $doc = PostgreSQL::Test::Utils::slurp_file("$root/doc/monitoring.md");
	my @alerts = file('zen_alerts.yaml') =~ /- alert: (\w+)/g;
	cmp_ok(scalar @alerts, '>=', 10, 'there are alerts');
	like($doc, qr/^\| `$_` \|/m, "doc/monitoring.md has a row for $_") for @alerts;
	return;
}

sub test_queries
{
	my ($node) = @_;
	my $name = $node->name;
	my $dbh = connect_db($node);
	run_all($dbh, 'SET ROLE exporter');
	for my $query (@list)
	{
		my $sth = $dbh->prepare($query->{query});
		ok($sth->execute, "$name: query of $query->{name}") or diag($dbh->errstr);
		is_deeply($sth->{NAME}, [ map { $_->{name} } @{ $query->{columns} } ], "$name: columns of $query->{name}");
		my $rows = $sth->fetchall_arrayref;
		cmp_ok(scalar @$rows, '>=', $query->{name} eq 'zen_reader' && $node == $standby ? 0 : 1,
			"$name: $query->{name} has rows");
		for my $i (0 .. $#{ $query->{columns} })
		{
			my $column = $query->{columns}[$i];
			next if $column->{kind} eq 'LABEL';
			my @bad = grep { defined $_->[$i] && $_->[$i] !~ /^-?\d+(\.\d+)?(e[-+]?\d+)?$/ } @$rows;
			is(scalar @bad, 0, "$name: numbers in " . name_of($query, $column));
		}
	}
	$dbh->disconnect;
	return;
}

sub test_names
{
	my %made = map { $_ => 1 } made();
	my @in_rules = map { /\b((?:zen|pg)_\w+)/g } file('zen_alerts.yaml') =~ /^ +expr: (.*)$/mg;
	my @in_dashboard = map { $_->{expr} =~ /\b((?:zen|pg)_\w+)/g } panel_queries();
	for my $case ([ 'alert rules', \@in_rules ], [ 'dashboard', \@in_dashboard ])
	{
		my ($what, $names) = @$case;
		cmp_ok(scalar @$names, '>=', 10, "$what: there are metrics");
		is_deeply([ grep { !$made{$_} } @$names ], [], "$what: the exporter makes each of them");
	}
	# what the document calls the most important has an alert
	my %alerted = map { $_ => 1 } @in_rules;
	ok($alerted{$_}, "an alert looks at $_") for qw(zen_recovery_damaged zen_recovery_tables_to_reindex
	  zen_stream_backup_lacks_rows zen_stream_unflushed_ms zen_reader_lag_bytes zen_stream_copied);
	return;
}

sub panel_queries { return map { @{ $_->{targets} } } @{ decode_json(file('grafana.json'))->{panels} }; }

# --- programs of others -----------------------------------------------------

sub test_alerts
{
  SKIP:
	{
		my $promtool = program('promtool') or skip 'no promtool (package prometheus)', 2;
		my ($out, $err);
		my $ok = IPC::Run::run([ $promtool, 'check', 'rules', "$files/zen_alerts.yaml" ], '>', \$out, '2>', \$err);
		ok($ok, 'promtool accepts the rules') or diag("$out$err");
		PostgreSQL::Test::Utils::append_to_file("$tmp/tests.yaml", output('tools/make-monitoring', '--tests'));
		$ok = IPC::Run::run([ $promtool, 'test', 'rules', "$tmp/tests.yaml" ], '>', \$out, '2>', \$err);
		ok($ok, 'each alert fires when it shall') or diag("$out$err");
	}
	return;
}

sub start_program
{
	my ($log, @command) = @_;
	push @started, IPC::Run::start(\@command, '<', \undef, '>', "$tmp/$log.log", '2>&1');
	return;
}

sub get { return HTTP::Tiny->new(timeout => 30)->get("http://127.0.0.1:$_[0]$_[1]"); }

# start_exporter -- as doc/monitoring.md says; its port.
sub start_exporter
{
	my ($program, $node) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	local $ENV{DATA_SOURCE_NAME} = sprintf 'host=%s port=%s user=exporter dbname=postgres sslmode=disable', $node->host,
	  $node->port;
	start_program('exporter_' . $node->name, $program, "--web.listen-address=127.0.0.1:$port",
		"--extend.query-path=$files/postgres_exporter.yaml");
	wait_for('the exporter', sub { get($port, '/metrics')->{success} });
	return $port;
}

sub test_exporter
{
  SKIP:
	{
		my $program = program('prometheus-postgres-exporter')
		  or skip 'no exporter (package prometheus-postgres-exporter)', 1;
		my @ports = map { start_exporter($program, $_) } $primary, $standby;
		test_metrics(@ports);
		my $prometheus = program('prometheus') or skip 'no Prometheus (package prometheus)', 1;
		test_prometheus($prometheus, @ports);
	}
	return;
}

sub test_metrics
{
	my ($of_primary, $of_standby) = @_;
	my $text = get($of_primary, '/metrics')->{content};
	for my $name (made())
	{
		like($text, qr/^$name(\{.*\})? \S+$/m, "exporter: $name");
	}
	my $dbh = connect_db($primary);
	for my $case ([ zen_stat_dram_size_bytes => 'SELECT dram_size_bytes FROM zen_stat' ],
		[ zen_pool_size_bytes => 'SELECT size_bytes FROM zen_pool' ], [ zen_recovery_damaged => 'SELECT 0' ],
		[ zen_stream_backup_lacks_rows => 'SELECT 0' ], [ zen_stream_readers => 'SELECT 1' ])
	{
		my ($name, $sql) = @$case;
		my ($value) = $text =~ /^$name\{.*\} (\S+)$/m;
		cmp_ok($value, '==', value($dbh, $sql), "exporter: value of $name");
	}
	my ($readable) = $text =~ /^pg_exporter_user_queries_load_error\{.*\} (\S+)$/m;
	is($readable, 0, 'exporter: it has read the queries');

	$text = get($of_standby, '/metrics')->{content};
	like($text, qr/^zen_stream_replica\{.*\} 1$/m, 'exporter of the standby: a replica');
	like($text, qr/^zen_stream_copied\{.*\} 1$/m, 'exporter of the standby: that follows');
	like($text, qr/^zen_recovery_ready\{.*\} 0$/m, 'exporter of the standby: whose tables cannot be read');
	like($text, qr/^zen_stream_replay_behind_bytes\{.*\} \d/m, 'exporter of the standby: how far it is behind');
	$dbh->disconnect;
	return;
}

# query -- values that Prometheus has for an expression now.
sub query
{
	my ($port, $expression) = @_;
	my $escaped = $expression =~ s/([^\w])/sprintf '%%%02X', ord $1/ger;
	my $answer = get($port, "/api/v1/query?query=$escaped");
	die "$expression: $answer->{content}" unless $answer->{success};
	return @{ decode_json($answer->{content})->{data}{result} };
}

sub test_prometheus
{
	my ($program, @ports) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $targets = join ', ', map { "'127.0.0.1:$_'" } @ports;
	PostgreSQL::Test::Utils::append_to_file("$tmp/prometheus.yml", <<"END");
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ['$files/zen_alerts.yaml']
scrape_configs: [{job_name: zen, static_configs: [{targets: [$targets]}]}]
END
	start_program('prometheus', $program, "--config.file=$tmp/prometheus.yml", "--storage.tsdb.path=$tmp/tsdb",
		"--web.listen-address=127.0.0.1:$port");
	wait_for('Prometheus', sub { get($port, '/-/ready')->{success} });
	my $dbh = connect_db($primary);
	my %instance = (primary => "127.0.0.1:$ports[0]", standby => "127.0.0.1:$ports[1]");
	for my $target (panel_queries())
	{
		# only a standby replays
		my $server = $target->{expr} =~ /replay_behind/ ? 'standby' : 'primary';
		my $expression = $target->{expr} =~ s/\$instance/$instance{$server}/gr =~ s/\$__rate_interval/1m/gr;
		my @found;
		wait_for($expression, sub { value($dbh, 'SELECT count(*) FROM t WHERE id = 7');
			@found = query($port, $expression) });
		is(scalar @found, 1, "dashboard: one line of $target->{expr}");
	}
	my @firing = grep { $_->{metric}{alertstate} eq 'firing' } query($port, 'ALERTS');
	is_deeply([ map { $_->{metric}{alertname} } @firing ], [], 'no alert of servers that are well');

	# without zen.stream the standby is lost, and backups are refused: the server says so, and so does the rule
  SKIP:
	{
		skip 'mode wal has the stream always', 1 if by_wal($primary);
		run_all($dbh, 'ALTER SYSTEM SET zen.stream = off');
		$primary->restart;
		wait_for('an alert', sub {
			grep { $_->{metric}{alertname} eq 'ZenBackupLacksRows' } query($port, 'ALERTS') });
		pass('an alert after zen.stream was set to off');
	}
	$dbh->disconnect;
	return;
}
