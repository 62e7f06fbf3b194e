# ZenNodes -- loads zen into all servers that PostgreSQL's TAP tests make, as perl -MZenNodes TEST.pl.
#
# ZEN_NODES_AM=heap or zen is the default table access method of each database.  A server that starts with wal_level =
# logical sends the changes of zen tables: zen.stream = logical.
#
# With ZEN_NODES_STANDBYS, a mode of pools, standbys follow and read zen tables: zen.standby_reads is on, and
# zen.stream = replica, but with wal_level = minimal.  026_overwrite_contrecord fills a segment of the log to its end
# within one transaction.  So rows must come to the log before the commit: zen.spill_threshold = 0.  027_stream_regress
# has more tables than others: zen.dram_size.  039_end_of_wal writes records by hand behind the last one.  So zen's
# workers must have written theirs, which they do after a crash.

package ZenNodes;

use strict;
use warnings;

use PostgreSQL::Test::Cluster;

my $am = $ENV{ZEN_NODES_AM} or die 'ZEN_NODES_AM is not set';
my $mode = $ENV{ZEN_NODES_STANDBYS} // '';
my %own_of = map { $_ => PostgreSQL::Test::Cluster->can($_) } qw(init init_from_backup start restart);
my %complete;    # data directories that have the extension

sub init
{
	my ($node, %params) = @_;
	$own_of{init}->($node, %params);
	$node->append_conf('postgresql.conf', $_)
	  for q{shared_preload_libraries = 'zen'}, sprintf(q{zen.pool_mode = '%s'}, $mode || 'emulated'),
	  q{zen.pool_size = '128MB'}, q{zen.dram_size = '128MB'},
	  $mode ? (q{zen.standby_reads = on}, q{zen.pool_max_size = '1GB'}) : (),
	  $0 =~ /027_stream_regress/ ? q{zen.dram_size = '512MB'} : (),
	  $0 =~ /026_overwrite_contrecord/ ? q{zen.spill_threshold = 0} : ();
	return;
}

# A copy has what its server has.
sub init_from_backup
{
	my ($node, @rest) = @_;
	$complete{ $node->data_dir } = 1;
	return $own_of{init_from_backup}->($node, @rest);
}

# The extension is in template1, too, so databases that a test makes have it.
sub add_extension
{
	my ($node) = @_;
	$node->safe_psql($_, 'CREATE EXTENSION zen') for 'template1', 'postgres';
	$node->append_conf('postgresql.conf', "default_table_access_method = '$am'");
	$node->reload;
	return;
}

# What the configuration says now: a test may have added to it.
sub setting
{
	my ($node, $name) = @_;
	my $value = `$ENV{ZEN_NODES_BIN}/postgres -C $name -D '@{[ $node->data_dir ]}' 2>/dev/null`;
	chomp $value;
	return $value;
}

sub set_conf
{
	my ($node) = @_;
	my $libraries = setting($node, 'shared_preload_libraries');
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'zen, $libraries'")
	  if $libraries ne '' && $libraries !~ /\bzen\b/;
	my $level = setting($node, 'wal_level');
	my $stream = $mode && $level !~ /minimal/ ? 'replica' : $level =~ /logical/ ? 'logical' : 'off';
	$node->append_conf('postgresql.conf', "zen.stream = '$stream'");
	return;
}

sub start
{
	my ($node, %params) = @_;
	set_conf($node);
	my $offset = -s $node->logfile || 0;
	my $started = $own_of{start}->($node, %params);
	if ($started && !$complete{ $node->data_dir }++) { add_extension($node) }
	elsif ($0 =~ /039_end_of_wal/) { $node->wait_for_log($am eq 'zen' ? 'zen has rebuilt' : 'zen is ready', $offset) }
	return $started;
}

sub restart
{
	my ($node) = @_;
	set_conf($node);
	return $own_of{restart}->($node);
}

{
	no strict 'refs';
	no warnings 'redefine';
	*{"PostgreSQL::Test::Cluster::$_"} = \&{$_} for keys %own_of;
}

1;
