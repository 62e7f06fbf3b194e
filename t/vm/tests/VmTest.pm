package VmTest;

# For tests in the virtual machine, in plain Perl with DBI and Test::More: a server with zen, made by vm-server.

use strict;
use warnings;

use DBI;
use Exporter 'import';
use Test::More;

our @EXPORT = qw(server value connect_db rows_of log_of pool_flags is_sound);

# server -- vm-server with these words; dies if it fails.
sub server
{
	my @words = @_;
	system('vm-server', @words) == 0 or die "vm-server @words failed\n";
	return;
}

# connect_db -- a new session of the superuser.
sub connect_db
{
	return DBI->connect('dbi:Pg:dbname=postgres;host=/run/postgresql', 'postgres', '',
		{ RaiseError => 1, PrintError => 0, PrintWarn => 0 });
}

# value -- runs a statement; the first column of its first row, if it gives any.
sub value
{
	my ($db, $sql, @parameters) = @_;
	my $statement = $db->prepare($sql);
	$statement->execute(@parameters);
	return unless $statement->{NUM_OF_FIELDS};
	my $row = $statement->fetchrow_arrayref;
	return $row && $row->[0];
}

# log_of -- the server log so far.
sub log_of
{
	open my $file, '<', '/data/server.log' or return '';
	local $/ = undef;
	return <$file>;
}

# pool_flags -- the kernel's flags of the postmaster's mapping of a file (proc(5), smaps, VmFlags), as a hash.
sub pool_flags
{
	my ($path) = @_;
	my $data = $ENV{VM_PGDATA} || '/data/pgdata';
	open my $pid_file, '<', "$data/postmaster.pid" or die "no postmaster: $!";
	my $pid = <$pid_file> + 0;
	open my $smaps, '<', "/proc/$pid/smaps" or die "smaps: $!";
	my ($inside, %flags);
	while (<$smaps>)
	{
		$inside = /\Q$path\E/ if /^[0-9a-f]+-[0-9a-f]+ /;
		@flags{ split ' ', $1 } = () if $inside && /^VmFlags: (.*)/;
	}
	return %flags;
}

# is_sound -- zen_verify() of all tables and zen_verify_pool() find nothing.
sub is_sound
{
	my ($db, $name) = @_;
	my $findings = $db->selectall_arrayref('SELECT * FROM zen_verify_pool()');
	push @$findings, @{ $db->selectall_arrayref('SELECT v.* FROM zen_stat_tables t, zen_verify(t.relid) v') };
	is(join("\n", map { join ' ', map { $_ // '' } @$_ } @$findings), '', "$name: zen_verify finds nothing");
	return;
}

1;
