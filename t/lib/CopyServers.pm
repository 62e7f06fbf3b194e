# CopyServers -- a primary whose pool is in its data directory (zen.stream = replica), and copies of it.
#
#   ZEN_TEST_COPY_MODE=mode   zen.pool_mode of the copies; by itself that of the primary

package CopyServers;

use strict;
use warnings;

use Exporter 'import';
use PoolCopies;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use ZenTest;

our @EXPORT = qw(copy_primary copy_of set_copy_mode signal_file wait_promoted promoted pools_differ);

# copy_primary -- made and not started; options as of new_node.
sub copy_primary
{
	my ($name, %opt) = @_;
	my $conf = delete $opt{conf} // '';
	return new_node($name, pool_size => '64MB', dram_size => '64MB', pool_path => 'zen.pool',
		init => { allows_streaming => 1 }, %opt, conf => "zen.stream = replica\nwal_keep_size = 512MB\n$conf");
}

# set_copy_mode -- of a server that is made from another one's backup.
sub set_copy_mode
{
	my ($node) = @_;
	set_conf($node, "zen.pool_mode = $ENV{ZEN_TEST_COPY_MODE}") if $ENV{ZEN_TEST_COPY_MODE};
	return;
}

# copy_of -- a server from a backup, as it comes; not started.
sub copy_of
{
	my ($node, $name, $backup, @options) = @_;
	my $copy = PostgreSQL::Test::Cluster->new($name, $node->install_path ? (install_path => $node->install_path) : ());
	$copy->init_from_backup($node, $backup, @options);
	set_conf($copy, 'archive_mode = off');
	set_copy_mode($copy);
	return $copy;
}

sub signal_file { return PostgreSQL::Test::Utils::append_to_file($_[0]->data_dir . "/$_[1].signal", ''); }

# wait_promoted -- a connection to a server that leaves recovery by itself, when its zen tables are there.
sub wait_promoted
{
	my ($node) = @_;
	my $dbh = connect_db($node);
	wait_for('the end of recovery', sub { !value($dbh, 'SELECT pg_is_in_recovery()') });
	wait_recovered($dbh);
	return $dbh;
}

sub promoted
{
	my ($node) = @_;
	$node->promote;
	return wait_promoted($node);
}

# pools_differ -- of a server at rest and its standby, when that has replayed all; '' for no.  The files are called
# zen.pool, unless told.  The worker may still give pages back: then the pools are compared again.
sub pools_differ
{
	my ($node, $dbh, $standby, @pools) = @_;
	@pools = map { $_->data_dir . '/zen.pool' } $node, $standby if !@pools;
	my $wrong;
	wait_for('the primary to rest', sub {
			value($dbh, 'CHECKPOINT');    # flushes the WAL
			my $lsn = $node->lsn('insert');
			$node->wait_for_catchup($standby, 'replay', $lsn);
			$wrong = pool_differences(@pools);
			return $node->lsn('insert') eq $lsn; });
	return $wrong;
}

1;
