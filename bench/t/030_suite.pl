# bench/suite: refuses bad arguments, each number of its summary comes from the CSV, and what is there is not run again.
# (The loads that want much: 045_loads.pl; how peers have their turns: 040_turns.pl)
# bench/report: its headline table, also in another file; and the reports of the repository are those of its CSV files.
#
# Runs alone: it holds measured times against each other.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../t/lib";

use BenchSuite;
use Test::More;
use ZenTest;

my $dir = suite_dir();

# --- arguments ---------------------------------------------------------------

for my $case (
	[ [], qr/--out DIR is missing/ ],
	[ [ '--out' ], qr/--out wants a value/ ],
	[ [ '--full=1' ], qr/--full takes no value/ ],
	[ [ '--parts', 'sql,all' ], qr/--parts is a list of sql, recovery, engines/ ],
	[ [ '--parts', 'sql,sql' ], qr/names something twice/ ],
	[ [ '--peers', 'zen,postgres' ], qr/--peers is a list of peers/ ],
	[ [ '--peers', 'zen,,heap' ], qr/--peers is a list of peers/ ],
	[ [ '--workloads', 'tpcc,tpch' ], qr/--workloads is a list/ ],
	[ [ '--loads', 'paper4-ro,paper5-ro' ], qr/--workloads is a list/ ],
	[ [ '--dram', '31' ], qr/--dram must be 32 or more/ ],
	[ [ '--clients', '1,0' ], qr/--clients is a list of numbers/ ],
	[ [ '--rounds', '0' ], qr/--rounds wants a whole number/ ],
	[ [ '--seconds', '1.5' ], qr/--seconds wants a whole number/ ],
	[ [ '--cpus', 'all' ], qr/--cpus is a list of processors/ ],
	[ [ '--cpus', '0,,0' ], qr/--cpus is a list of processors/ ],
	[ [ '--cpus', '0-' ], qr/--cpus is a list of processors/ ],
	[ [ '--cpus', '1-0' ], qr/1-0 goes backwards/ ],
	[ [ '--cpus', '9999' ], qr/there is no processor 9999 here/ ],
	[ [ '--warehouses', 'two' ], qr/--warehouses wants a whole number/ ],
	[ [ '--disk', "$dir/none" ], qr/no directory that can be written/ ],
	[ [ '--recovery-rows', '10' ], qr/--recovery-rows is a list/ ],
	[ [ '--recovery-transactions', '-1' ], qr/--recovery-transactions is a list/ ],
	[ [ '--parts', 'engines', '--engine-groups', 'nothing' ], qr/no group nothing/ ],
	[ [ '--nothing' ], qr/no option --nothing/ ])
{
	my ($arguments, $message) = @$case;
	my ($output, $status) = suite(@$arguments, @$arguments && $arguments->[0] ne '--out' ? ('--out', "$dir/none") : ());
	ok($status == 2 && $output =~ $message, "refused: @$arguments") or diag $output;
}

# A machine without matplotlib: arguments are judged before what is missing, and nothing is begun.
{
	mkdir "$dir/without" or die $!;
	PostgreSQL::Test::Utils::append_to_file("$dir/without/matplotlib.py", "raise ImportError\n");
	local $ENV{PYTHONPATH} = "$dir/without";
	my @out = ('--out', "$dir/engines");
	like((suite(@out, '--cpus', '9999'))[0], qr/there is no processor 9999 here/,
		'no matplotlib: a bad argument is named first');
	my ($output, $status) = suite(@out, '--parts', 'engines');
	ok($status == 2 && $output =~ /wants matplotlib .*apt-get install python3-matplotlib/,
		'no matplotlib: the engines say what to do')
	  or diag $output;
	ok(!glob("$dir/engines/*"), 'no matplotlib: nothing was begun');
}

# --- the report --------------------------------------------------------------

sub report
{
	my $output = `'$FindBin::RealBin/../report' @_ 2>&1 </dev/null`;
	return ($output, $? >> 8);
}

sub write_file
{
	my ($name, $text) = @_;
	open(my $file, '>', $name) or die "$name: $!";
	print $file $text;
	close $file;
	return;
}

sub slurp { return PostgreSQL::Test::Utils::slurp_file($_[0]); }

# Two rounds of one load with one client: the ratios of tps are 2 and 4 to heap, 1 and 0.5 to unlogged, 8 to OrioleDB.
sub raw_csv
{
	my @lines = (
		[ 'zen', 1, 200, 2 ], [ 'heap', 1, 100, 4 ], [ 'unlogged', 1, 200, 4 ], [ 'orioledb', 1, 25, 2 ],
		[ 'zen', 2, 400, 1 ], [ 'heap', 2, 100, 4 ], [ 'unlogged', 2, 800, 4 ], [ 'orioledb', 2, 50, 1 ]);
	my $columns = 'workload,peer,clients,theta,requests,round,tps,cpu_ms_per_tx,bytes_written_per_tx,'
	  . 'wal_bytes_per_tx,data_bytes_per_tx,changed_bytes_per_tx';
	return join "\n", $columns,
	  (map { my ($peer, @numbers) = @$_; "simple-update,$peer,1,-,-," . join(',', @numbers, 10, 0, 0, 5) } @lines), '';
}

{
	my $out = "$dir/headline";
	mkdir $out or die $!;
	write_file("$out/raw.csv", raw_csv());
	my ($before, $after) = ("# A title\n\n<!-- headline -->\n", "<!-- /headline -->\n\nThe rest\n");
	write_file("$out/README.md", "${before}old\n${after}");
	my ($output, $status) = report($out, "$out/RESULTS.md", "$out/README.md");
	is($status, 0, 'headline') or diag $output;
	my $text = slurp("$out/README.md");
	like($text, qr/\A\Q$before\E\n?zen's transactions .*\Q$after\E\z/s, 'headline: what is around the markers stays');
	unlike($text, qr/^old$/m, 'headline: what is between them is replaced');
	my ($row) = $text =~ /^\| `pgbench`, simple-update \| (.*) \|$/m;
	is($row, '3.00 | 0.75 | 8.00 | 0.38 | 0.38 | 1.00', "headline: medians of the rounds' ratios, OrioleDB among them");
	like(slurp("$out/RESULTS.md"), qr/^## In short\n.*^\| `pgbench`, simple-update \| \Q$row\E \|$/ms,
		'headline: the same in the report');
	unlike(slurp("$out/RESULTS.md"), qr/^## simple-update/m, 'report: it stops where the loads begin');
	like(slurp("$out/loads.md"), qr/^## simple-update, 1 client$/m, 'report: they are in loads.md');
	report($out, "$out/RESULTS.md", "$out/README.md");
	is(slurp("$out/README.md"), $text, 'headline: made again, it is the same');

	for my $wrong ("no marker\n", "$before\n", "$after$before", "$before$after$before$after")
	{
		write_file("$out/wrong.md", $wrong);
		($output, $status) = report($out, "$out/new.md", "$out/wrong.md");
		ok($status == 1 && $output =~ /has not one line <!-- headline -->/,
			'headline: refused without its two markers') or diag $output;
		ok(slurp("$out/wrong.md") eq $wrong && !-e "$out/new.md", 'headline: then nothing is written');
	}
}

SKIP:
{
	my $repository = "$FindBin::RealBin/../..";
	skip 'the tree has no results', 1 unless -e "$repository/bench/paper/results/raw.csv";
	mkdir "$dir/tree" or die $!;
	mkdir "$dir/tree/$_" or die $! for 'bench', 'bench/paper';
	system('cp', '-r', "$repository/bench/paper/results", "$dir/tree/bench/paper") == 0 or die;
	mkdir "$dir/tree/doc" or die $!;
	my @headline = grep { slurp("$repository/$_") =~ /^<!-- headline -->$/m } 'README.md', 'doc/performance.md';
	write_file("$dir/tree/$_", slurp("$repository/$_")) for @headline;
	my ($output, $status) = report(map { "$dir/tree/$_" } 'bench/paper/results', 'bench/RESULTS.md', @headline);
	is($status, 0, 'the report of the repository') or diag $output;
	is(slurp("$dir/tree/$_"), slurp("$repository/$_"), "$_ is what bench/report makes of bench/paper/results")
	  for 'bench/RESULTS.md', 'bench/paper/results/loads.md', @headline;
}

# Two rounds of a load beyond DRAM, in a folder of its own, and of COPY among the other loads.  Heap's background
# processes take half of its time.
{
	my $out = "$dir/beyond";
	mkdir $_ or die $! for $out, "$out/paper";
	my $columns = 'workload,peer,clients,theta,requests,round,tps,cpu_ms_per_tx,bytes_written_per_tx,wal_bytes_per_tx,'
	  . 'data_bytes_per_tx,changed_bytes_per_tx,background_ms_per_tx,checkpoints,autovacuums';
	my @slices = ('zen,1,0.99,1,1,300,2,0,0,0,0,1,1,0', 'heap,1,0.99,1,1,100,4,0,0,0,0,2,5,3',
		'zen,1,0.99,1,2,300,3,0,0,0,0,1,1,0', 'heap,1,0.99,1,2,100,4,0,0,0,0,2,7,3');
	write_file("$out/raw.csv", (raw_csv() =~ s/^.*/$columns/r) . join '', map { "copy,$_\n" } @slices);
	write_file("$out/paper/raw.csv", join "\n", $columns, (map { "paper8-ba,$_" } @slices), '');
	write_file("$out/paper/dram", "* DRAM of either engine: 64 MB\n");
	my $empty = "<!-- headline -->\n<!-- /headline -->\n";
	write_file("$out/README.md", "A title\n$empty<!-- paper -->\nold\n<!-- /paper -->\nThe rest\n");
	my ($output, $status) = report($out, "$out/RESULTS.md", "$out/README.md");
	is($status, 0, 'beyond DRAM') or diag $output;
	my $row = ', Zipf 0.99, 1 client | 3.00 | 0.62 (0.50 .. 0.75) | 0.75 (0.50 .. 1.00) | 1 | 2 | 1 | '
	  . '6 (5 .. 7) | 0 | 3 |';
	for my $file ('RESULTS.md', 'README.md')
	{
		like(slurp("$out/$file"), qr/^\| paper8-ba\Q$row\E\n.*^\| copy\Q$row\E$/ms,
			"beyond DRAM: in $file ratios of both files, and background work by itself")
		  or diag slurp("$out/$file");
	}
	like(slurp("$out/RESULTS.md"), qr/^From `paper\/raw\.csv`,.*^\| paper8-ba,.*^From `raw\.csv`,.*^\| copy,/ms,
		'beyond DRAM: each table with its file');
	like(slurp("$out/RESULTS.md"), qr/^\* DRAM of either engine: 64 MB$/m, 'beyond DRAM: with what DRAM');
	unlike(slurp("$out/README.md"), qr/^old$/m, 'beyond DRAM: what was between the markers is replaced');
	like(slurp("$out/README.md"), qr/^A title\n.*^The rest\n/ms, 'beyond DRAM: what is around them stays');
	write_file("$out/wrong.md", "A title\n$empty<!-- paper -->\nThe rest\n");
	($output, $status) = report($out, "$out/RESULTS.md", "$out/wrong.md");
	ok($status == 1 && $output =~ /has not one line <!-- paper -->/, 'beyond DRAM: refused with one marker');
}

# --- a small run -------------------------------------------------------------

my $cpu = first_cpu();
my @small = ('--out', "$dir/out", '--cpus', $cpu, '--parts', 'sql,recovery', '--workloads', 'update,tpcc', '--clients',
	1, '--rounds', 1,
	'--seconds', 1, '--warehouses', 1, '--recovery-rows', 1000, '--recovery-transactions', '0,100', '--peers',
		is_zen() ? 'zen,heap' : 'heap');

sub progress { return scalar(() = $_[0] =~ /\d+ of \d+: /g); }

# Each cell of the summary again, from raw.csv.
sub check_summary
{
	my %value = map { ("$_->{workload} $_->{peer}" => $_) } csv('raw.csv');
	my ($summary) = text_of('RESULTS.md') =~ /^## zen and its peers\n(.*?)^#/ms;
	for my $workload (qw(update tpcc))
	{
		my ($zen, $heap) = @value{ "$workload zen", "$workload heap" };
		my @wanted = map { sprintf '%.2f', $zen->{$_} / $heap->{$_} } qw(tps cpu_ms_per_tx);
		my ($cells) = $summary =~ /^\| $workload, 1 client \| (.*?) \|  \|  \|$/m;
		is($cells, join(' | ', @wanted), "$workload: throughput and CPU in the summary are those of raw.csv")
			or diag $summary;
	}
	return;
}

sub check_loads
{
	my @slices = csv('raw.csv');
	is(join(' ', sort map { "$_->{workload}-$_->{peer}" } @slices), 'tpcc-heap tpcc-zen update-heap update-zen',
		'a line for each slice');
	for my $slice (@slices)
	{
		my $what = "$slice->{workload}, $slice->{peer}";
		my ($rows, $bytes) = @$slice{qw(rows_changed_per_tx changed_bytes_per_tx)};
		ok($slice->{workload} eq 'update' ? $rows == 1 && $bytes > 1000 && $bytes < 1100 : $rows > 10 && $rows < 30
			&& $bytes > 1000,
			"$what: rows changed and their bytes")
		  or diag "$rows rows, $bytes bytes";
		my $written = 0;
		$written += $slice->{$_} || 0 for qw(bytes_written_per_tx wal_bytes_per_tx data_bytes_per_tx);
		my $amplification = sprintf '%.3g', $written / $bytes;
		like(text_of('loads.md'), qr/^\|.* \| \Q$amplification\E \|/m,
			"$what: its write amplification is in the tables of the loads");
	}
	return;
}

# The clock of a slice stands still while others have their turns: it took a second of it, not one for each peer. And
# its one client always waits for an answer.
sub check_times
{
	for my $slice (csv('raw.csv'))
	{
		my $what = "$slice->{workload}, $slice->{peer}";
		ok($slice->{seconds} > 0.6 && $slice->{seconds} < 1.4, "$what: of a second");
		my $rate = $slice->{transactions} / $slice->{seconds};
		ok(abs($slice->{tps} / $rate - 1) < 0.01, "$what: throughput is that of these seconds")
			or diag "$slice->{tps}, not $rate";
		my $busy = $slice->{tps} * $slice->{mean_ms} / 1000;
		ok($busy > 0.7 && $busy < 1.01, "$what: so are latencies") or diag "$slice->{tps} times $slice->{mean_ms} ms";
	}
	return;
}

sub check_types
{
	my %transactions = map { ($_->{peer} => $_->{transactions}) } grep { $_->{workload} eq 'tpcc' } csv('raw.csv');
	my @lines = csv('tpcc.csv');
	is(scalar @lines, 10, 'tpcc.csv: five types of transactions on two peers');
	ok(!(grep { $_->{count} && !($_->{p50_ms} > 0 && $_->{p50_ms} <= $_->{p95_ms}
		&& $_->{p95_ms} <= $_->{p99_ms}) } @lines),
		'percentiles grow') or diag text_of('tpcc.csv');
	for my $peer (qw(zen heap))
	{
		my $sum = 0;
		$sum += $_->{count} for grep { $_->{peer} eq $peer } @lines;
		is($sum, $transactions{$peer}, "tpcc.csv, $peer: all transactions are there");
	}
	return;
}

# Numbers are medians of one slice each, so they are in the report as they are in the CSV.
sub check_run
{
	check_summary();
	check_loads();
	check_times();
	like(text_of($_), qr/servers\s+and\s+clients\s+on\s+processors\s+$cpu\s+only/, "$_ tells the processors")
	  for qw(loads RESULTS.md);
	check_types();
	my %counter = map { ($_->{counter} => $_->{per_tx}) } grep { $_->{workload} eq 'update' } csv('counters.csv');
	is($counter{slots_written}, 1, 'counters.csv: an update writes one slot');
	is(join(' ', map { "$_->{peer}-$_->{transactions}" } csv('recovery.csv')), 'zen-0 zen-100 heap-0 heap-100',
		'recovery.csv: a line for each restart');
	ok(!(grep { $_->{full_service_s} <= 0 || $_->{full_service_s} > 60 } csv('recovery.csv')),
		'seconds to full service')
	  or diag text_of('recovery.csv');
	return;
}

SKIP:
{
	skip '/dev/shm wants 5000 MB free', 1 if !has_room();
	my ($output, $status) = suite(@small);
	is($status, 0, 'a small run') or diag $output;
	skip 'tests what only zen has', 1 unless is_zen();
	is(progress($output), 6, 'each round and restart has its line of progress') or diag $output;
	check_run();

	my @pictures = system('/usr/bin/python3 -c "import matplotlib" 2>/dev/null') == 0
		? qw(throughput.png cpu.png recovery.png) : ();
	ok(-s "$dir/out/$_", "there is $_") for @pictures;

	my %before = map { ($_ => text_of($_)) } qw(raw.csv tpcc.csv counters.csv recovery.csv RESULTS.md loads.md);
	($output, $status) = suite(@small);
	ok($status == 0 && progress($output) == 0, 'called again, it runs nothing') or diag $output;
	is(text_of($_), $before{$_}, "$_ is as before") for sort keys %before;

	my $kept = $before{'recovery.csv'} =~ s/^heap,1000,100,.*\n//mr;
	open(my $file, '>', "$dir/out/recovery.csv") or die $!;
	print $file $kept;
	close $file;
	my $other = $before{'raw.csv'} =~ s/^update,heap,.*\n//mr;
	open($file, '>', "$dir/out/raw.csv") or die $!;
	print $file $other;
	close $file;
	($output, $status) = suite(@small);
	ok($status == 0 && progress($output) == 2, 'broken off, it does what is missing') or diag $output;
	like(text_of('raw.csv'), qr/\A\Q$other\Eupdate,heap,[^\n]+\n\z/, 'of a round the peers that are missing');
	check_times();
	like((suite(@small, '--seconds', 2))[0], qr/is of another suite/,
		'slices of another length are not mixed with these');
	like((suite(@small[ 0, 1, 4 .. $#small ]))[0], qr/is of another suite/, 'nor those of other processors');
	like(text_of('recovery.csv'), qr/\A\Q$kept\Eheap,1000,100,1,[\d.]+,[\d.]+\n\z/, 'and no more');
}
done_testing();
