# DocCommands -- commands of a document, run as they stand there.
#
# Each ```sh block says in its first line where it is run: "# on the primary".  Folders are below one of the test's, and
# the names of hosts become this host with a port.

package DocCommands;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();
use Test::More;

our @EXPORT = qw(doc_servers doc_blocks doc_located run_doc_block);

# A server as connect_db() wants it.
package DocCommands::Server
{
	sub host { return $_[0]{host}; }
	sub port { return $_[0]{port}; }
}

# doc_servers -- the primary, which is $node, and places for others, by name.
sub doc_servers
{
	my ($node, @names) = @_;
	my %port = (primary => $node->port, map { $_ => PostgreSQL::Test::Cluster::get_free_port() } @names);
	return map { $_ => bless { host => $node->host, port => $port{$_} }, 'DocCommands::Server' } keys %port;
}

# doc_blocks -- those of sections, which are named by their headings, in order: { language, text, output }; ini first.
sub doc_blocks
{
	my ($file, @sections) = @_;
	my $document = PostgreSQL::Test::Utils::slurp_file("$FindBin::RealBin/../$file");
	my @found;
	for my $section (@sections)
	{
		my $level = length(($section =~ /^(#+) /)[0]);
		# one # begins a comment of a block
		my ($text) = $document =~ /^\Q$section\E\n(.*?)(?=^#{2,$level} |\z)/ms or die "no section $section";
		while ($text =~ /^```(\w*)\n(.*?)^```$/msg)
		{
			if ($1) { push @found, { language => $1, text => $2 }; }
			else { $found[-1]{output} = $2; }
		}
	}
	return ((grep { $_->{language} eq 'ini' } @found), grep { $_->{language} eq 'sh' } @found);
}

# doc_located -- a text with folders below $root, and with hosts of the test.
sub doc_located
{
	my ($root, $servers, $text) = @_;
	$text =~ s{(?<![\w/.])/(archive|backup|clone|disk|primary|restored|standby|tmp)\b}{$root/$1}g;
	$text =~ s{host=(\w+)}{host=$servers->{$1}{host} port=$servers->{$1}{port}}g;
	$text =~ s{-h (\w+)}{-h $servers->{$1}{host} -p $servers->{$1}{port}}g;
	return $text;
}

# run_doc_block -- in a shell on its host; its output.  $text, if given, stands for the block's.
sub run_doc_block
{
	my ($root, $servers, $block, $text) = @_;
	$text //= $block->{text};
	my ($host) = $text =~ /^# on the (\w+)/m or die "where is this run?\n$text";
	local $ENV{PGHOST} = $servers->{$host}{host};
	local $ENV{PGPORT} = $servers->{$host}{port};
	local $ENV{PGDATABASE} = 'postgres';
	my $script = <<'END' . doc_located($root, $servers, $text);
set -e -o pipefail
pg_ctl() {
	case "$*" in
		*start*) command pg_ctl "$@" -o "-p $PGPORT" ;;
		*) command pg_ctl "$@" ;;
	esac
}
END
	note($script);
	my $log = "$root/tmp/output";
	my $status = system('bash', '-c', "{\n$script\n} >$log 2>&1 </dev/null");
	my $output = PostgreSQL::Test::Utils::slurp_file($log);
	my ($first) = $text =~ /\n(.*)/;
	is($status, 0, "it runs: $first") or diag($output);
	return $output;
}

1;
