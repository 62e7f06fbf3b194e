# BenchSuite -- run bench/suite, and read what it has written.

package BenchSuite;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(dirname);
use File::Spec;
use PostgreSQL::Test::Utils ();

our @EXPORT = qw(csv first_cpu has_room suite suite_dir text_of);

my $suite = File::Spec->rel2abs(dirname(__FILE__) . '/../../bench/suite');
my $dir   = PostgreSQL::Test::Utils::tempdir();

# suite_dir -- the test's own directory; text_of() and csv() look into "out" there.
sub suite_dir { return $dir; }

# suite -- its output and status.  Dies of an error of the shell, which need not end a script.
sub suite
{
	my $command = join ' ', map { "'$_'" } $suite, @_;
	my $output = `$command 2>&1 </dev/null`;
	my $status = $? >> 8;
	die $output if $output =~ /: line \d+: /;
	return ($output, $status);
}

sub text_of { return PostgreSQL::Test::Utils::slurp_file("$dir/out/$_[0]"); }

# csv -- the lines of a CSV file as hashes.
sub csv
{
	my ($head, @lines) = split /\n/, text_of($_[0]);
	my @columns = split /,/, $head;
	return map { my %line; @line{@columns} = split /,/, $_, -1; \%line } @lines;
}

# has_room -- is there room for the servers of a small run?
sub has_room
{
	my ($room) = `df --output=avail -BM /dev/shm` =~ /(\d+)M/;
	return $room >= 5000;
}

# first_cpu -- a processor that this process may use.
sub first_cpu
{
	return PostgreSQL::Test::Utils::slurp_file('/proc/self/status') =~ /^Cpus_allowed_list:\s*(\d+)/m ? $1 : die;
}

1;
