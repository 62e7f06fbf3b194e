# What a release says of itself: META.json keeps the rules of the PGXN Meta Spec 1.0.0 and names the version that
# zen.control has; the documents are installed.
#
# No server is started.  Each rule is also broken once, and must be seen broken.

use strict;
use warnings;

use File::Compare qw(compare);
use FindBin;
use JSON::PP;
use Test::More;

my $root = "$FindBin::RealBin/..";
my $semver = qr/^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/;
my %licences = map { $_ => 1 } qw(agpl_3 apache_1_1 apache_2_0 artistic_1 artistic_2 bsd freebsd gfdl_1_2 gfdl_1_3
  gpl_1 gpl_2 gpl_3 lgpl_2_1 lgpl_3_0 mit mozilla_1_0 mozilla_1_1 openssl perl_5 postgresql qpl_1_0 ssleay sun zlib
  open_source restricted unrestricted unknown);
my %known = map { $_ => 1 } qw(name version abstract description maintainer license provides meta-spec tags prereqs
  release_status resources generated_by no_index);

my $text = read_file("$root/META.json");
my ($release) = read_file("$root/zen.control") =~ /^default_version = '(.*)'$/m;

is_deeply([ faults_of(decode_json($text)) ], [], 'META.json keeps the rules');
sees('no licence', qr/^license/, sub { delete $_[0]{license} });
sees('a licence without a name in the spec', qr/^license/, sub { $_[0]{license} = 'PostgreSQL' });
sees('a version of two numbers', qr/^version/, sub { $_[0]{version} = '1.0' });
sees('a name with a blank', qr/^name/, sub { $_[0]{name} = 'z en' });
sees('no maintainer', qr/^maintainer/, sub { $_[0]{maintainer} = [] });
sees('another specification', qr/^meta-spec/, sub { $_[0]{'meta-spec'}{version} = '2.0.0' });
sees('a status of its own', qr/^release_status/, sub { $_[0]{release_status} = 'good' });
sees('an unknown key', qr/^licence: unknown/, sub { $_[0]{licence} = 'postgresql' });
sees('an unknown phase', qr/^prereqs/, sub { $_[0]{prereqs}{run} = {} });
sees('a file that is missing', qr/^provides: zen: file/, sub { $_[0]{provides}{zen}{file} = 'zen--0.1.sql' });
sees('a tag with a slash', qr/^tags/, sub { push @{ $_[0]{tags} }, 'a/b' });

my $meta = decode_json($text);
is($meta->{version}, "$release.0", 'META.json names the version of zen.control');
is($meta->{provides}{zen}{version}, $meta->{version}, 'so does the extension in it');
ok(-e "$root/zen--$release.sql.in", 'the script of this version is there');
my ($library) = read_file("$root/src/base/guc.h") =~ /^#define ZEN_VERSION\s+"(.*)"/m;
is($library, $release, 'the library names the version of zen.control');

my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
chomp(my $folder = `"$pg_config" --docdir`);
my @documents = map { s{.*/}{}r } glob("$root/doc/*");
ok(@documents > 10, 'there are documents');
is_deeply([ grep { compare("$root/doc/$_", "$folder/zen/$_") } @documents ], [], 'all documents are installed');
done_testing();

sub read_file
{
	my ($path) = @_;
	open my $in, '<', $path or die "$path: $!";
	local $/ = undef;
	return scalar <$in>;
}

# What the spec asks for, and this structure has not.
sub faults_of
{
	my ($m) = @_;
	my %at = map { $_ => $m->{$_} // '' } keys %known;
	my @faults = map { "$_: unknown" } grep { !$known{$_} && !/^x_/i } sort keys %$m;
	push @faults, 'name' unless $at{name} =~ m{^[^\s[:cntrl:]/\\]{2,}$};
	push @faults, 'version' unless $at{version} =~ $semver;
	push @faults, 'abstract' unless length $at{abstract};
	push @faults, 'maintainer' unless grep { length } list($at{maintainer});
	push @faults, map { "license: $_" } grep { !$licences{$_} } list($at{license}) ? list($at{license}) : '';
	push @faults, 'meta-spec' unless ref $at{'meta-spec'} && $at{'meta-spec'}{version} eq '1.0.0';
	push @faults, 'release_status' unless $at{release_status} =~ /^(stable|testing|unstable)?$/;
	push @faults, map { "tags: $_" } grep { !m{^[^[:cntrl:]/\\]{1,255}$} } list($at{tags});
	push @faults, faults_of_provides($at{provides}), faults_of_prereqs($at{prereqs});
	return @faults;
}

sub list { return ref $_[0] ? @{ $_[0] } : length $_[0] ? $_[0] : (); }

sub faults_of_provides
{
	my ($provides) = @_;
	return 'provides' unless ref $provides && %$provides;
	my @faults;
	for my $name (sort keys %$provides)
	{
		my $extension = $provides->{$name};
		push @faults, "provides: $name: version" unless ($extension->{version} // '') =~ $semver;
		push @faults, "provides: $name: $_"
		  for grep { !-f "$root/" . ($extension->{$_} // 'none') } qw(file docfile);
	}
	return @faults;
}

sub faults_of_prereqs
{
	my ($prereqs) = @_;
	my @faults;
	for my $phase (sort keys %{ $prereqs || {} })
	{
		push @faults, "prereqs: $phase" unless $phase =~ /^(configure|build|test|runtime|develop)$/;
		for my $relation (sort keys %{ $prereqs->{$phase} })
		{
			push @faults, "prereqs: $relation" unless $relation =~ /^(requires|recommends|suggests|conflicts)$/;
			push @faults, map { "prereqs: $_" } grep { !/^0$/ && !/$semver/ } values %{ $prereqs->{$phase}{$relation} };
		}
	}
	return @faults;
}

# A structure that is spoilt in this way has this fault.
sub sees
{
	my ($name, $fault, $spoil) = @_;
	my $spoilt = decode_json($text);
	$spoil->($spoilt);
	ok((grep { /$fault/ } faults_of($spoilt)), "seen: $name");
	return;
}
