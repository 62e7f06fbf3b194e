# DamageRun -- a server is started on a pool that was spoilt while it was stopped.
#
# What may come of it: it does not start and says why; or it starts, and each row of each
# table is what it was, or some message (with an SQLSTATE of class XX, or 55000) says that
# something is wrong.  What may not: rows that are wrong, gone or too many without a
# message, a crash, a failed assertion, a hang.
#
#   my $run = DamageRun->new($node);     # a started server with CREATE EXTENSION zen
#   $run->take_images;                   # makes tables, stops
#   my ($what, @wrong) = $run->try($image, sub { my ($pool) = @_; $pool->flip(...) });

package DamageRun;

use strict;
use warnings;

use PoolImage;
use PostgreSQL::Test::Utils ();
use Time::HiRes 'time';
use ZenTest;

my $QUERY_TIMEOUT = '60s';

sub new
{
	my ($class, $node) = @_;
	return bless { node => $node, pool => pool_path($node), data => $node->data_dir }, $class;
}

# take_images -- 'clean': stopped in order; 'crashed': killed, with a transaction prepared.
sub take_images
{
	my ($self) = @_;
	my $node = $self->{node};
	my $dbh = connect_db($node);
	value($dbh, $_) for (
		'CREATE EXTENSION zen',
		'CREATE TABLE small (id int PRIMARY KEY, v int) USING zen',
		'CREATE TABLE text (id int PRIMARY KEY, v text) USING zen',
		'CREATE TABLE wide (id int PRIMARY KEY, v text) USING zen',
		'CREATE TABLE other (id int PRIMARY KEY, v text) USING heap',
		'CREATE INDEX ON text (v)',
		'INSERT INTO small SELECT g, g * 7 FROM generate_series(1, 400) g',
		q{INSERT INTO text SELECT g, 'row ' || g || repeat('+', g % 50) FROM generate_series(1, 3000) g},
		q{INSERT INTO wide SELECT g, (SELECT string_agg(md5((g * h)::text), '') FROM generate_series(1, g * 3) h)
			FROM generate_series(1, 60) g},
		q{INSERT INTO other SELECT g, 'heap' FROM generate_series(1, 10) g},
		'UPDATE small SET v = v + 1 WHERE id % 5 = 0',
		'DELETE FROM small WHERE id % 11 = 0',
		'DELETE FROM text WHERE id % 13 = 0',
		'CREATE TABLE gone USING zen AS SELECT * FROM text',
		'DROP TABLE gone',
		# the last, so that nothing is written over the versions that it leaves behind
		q{UPDATE text SET v = v || '!' WHERE id % 9 = 0});
	$self->{model} = $self->look($dbh);
	$dbh->disconnect;
	$node->stop;
	$self->save_image('clean');
	$node->start;
	$dbh = connect_db($node);
	value($dbh, $_) for 'UPDATE small SET v = v WHERE id < 20', 'BEGIN', 'INSERT INTO small VALUES (-1, 0)',
	  q{UPDATE text SET v = 'prepared' WHERE id < 20}, q{PREPARE TRANSACTION 'p'};
	# or redo would store some of it again, and heal what is spoilt
	value($dbh, 'CHECKPOINT') if by_wal($node);
	crash($node);
	unlink "$self->{data}/postmaster.pid";
	$self->save_image('crashed');
	return;
}

sub save_image
{
	my ($self, $name) = @_;
	run('cp', '-r', $self->{data}, "$self->{data}.$name");
	run('cp', '--sparse=always', $self->{pool}, "$self->{pool}.$name");
	return;
}

sub run
{
	system(@_) == 0 or die "@_ failed";
	return;
}

sub pool_image
{
	my ($self, $name) = @_;
	return $self->{images}{$name} ||= PoolImage->new("$self->{pool}.$name");
}

# look -- what each table holds, by both kinds of scan; or the SQLSTATE of an error.
sub look
{
	my ($self, $dbh) = @_;
	my %seen;
	value($dbh, "SET statement_timeout = '$QUERY_TIMEOUT'");
	for my $scan ('seqscan', 'indexscan')
	{
		value($dbh, "SET enable_$_ = " . ($_ eq $scan ? 'on' : 'off'))
		  for qw(seqscan indexscan indexonlyscan bitmapscan);
		for my $table (qw(small text wide other))
		{
			my $result = read_table($dbh, $table);
			$seen{"$table, $scan"} = $result->{state} ? { error => $result->{state}, text => $result->{message},
				lost => $result->{lost} }
			  : { rows => join "\n", map { "$_->[0] $_->[1]" } @{ $result->{rows} } };
			return \%seen if $result->{lost};
		}
	}
	return \%seen;
}

# read_table -- the result of reading it.  Erased tombstones may give two rows with one key: until the background worker
# has taken the index out of use, the rebuild of the index fails whoever comes.
sub read_table
{
	my ($dbh, $table) = @_;
	my $result;
	wait_for("table $table", sub {
			$result = run_sql($dbh, "SELECT id, v FROM $table WHERE id > -100 ORDER BY id");
			return $result->{state} ne '23505';
		});
	return $result;
}

# try_repaired -- the same, and every row must be what it was.
sub try_repaired
{
	my ($self, @arg) = @_;
	local $self->{strict} = 1;
	return $self->try(@arg);
}

# try_lenient -- the same for what cannot be told from what a crash or an orderly stop leaves:
# rows may differ in silence, which is counted in {silent}.
sub try_lenient
{
	my ($self, @arg) = @_;
	local $self->{lenient} = 1;
	return $self->try(@arg);
}

my %allowed = map { $_ => 1 } qw(XX000 XX001 XX002 55000);

# compare -- what is wrong with what was seen; $warned: there was a message.
sub compare
{
	my ($self, $seen, $warned) = @_;
	my @wrong;
	for my $what (sort keys %$seen)
	{
		my ($found, $right) = ($seen->{$what}, $self->{model}{$what});
		if ($found->{error})
		{
			push @wrong, "$what: $found->{text}"
			  unless $allowed{ $found->{error} } && !$found->{lost} && $what !~ /^other/ && !$self->{strict};
		}
		elsif ($found->{rows} ne $right->{rows} && $self->{lenient} && !$warned)
		{
			$self->{silent}++;
		}
		elsif ($found->{rows} ne $right->{rows} && (!$warned || $self->{strict}))
		{
			my %right = map { $_ => 1 } split /\n/, $right->{rows};
			my %found = map { $_ => 1 } split /\n/, $found->{rows};
			my @lost = grep { !$found{$_} } keys %right;
			my @more = grep { !$right{$_} } keys %found;
			push @wrong, sprintf '%s: %d rows lost (%s), %d rows that were not there (%s), %s', $what, scalar @lost,
			  substr($lost[0] // '', 0, 40), scalar @more, substr($more[0] // '', 0, 40),
			  $warned ? 'and a message' : 'and no message';
		}
	}
	return @wrong;
}

# try -- start on an image that $spoil has changed.  Returns 'refused', 'reported' or 'sound',
# and a list of what is wrong.  $look, if given, is called with a connection.
sub try
{
	my ($self, $image, $spoil, $look) = @_;
	my $node = $self->{node};
	my $pool = $self->pool_image($image);
	my $copy = bless { %$pool, path => $self->{pool} }, 'PoolImage';
	$spoil->($copy);
	run('rm', '-rf', $self->{data});
	run('cp', '-r', "$self->{data}.$image", $self->{data});
	$copy->save;

	my $offset = $self->{from} = log_size($node);
	if (!$node->start(fail_ok => 1))
	{
		my $said = log_since($node, $offset);
		my @wrong;
		push @wrong, 'it does not start, and there is no FATAL with a hint' unless $said =~ /FATAL: .*zen.*HINT: /s;
		push @wrong, messages_of_crashes($said);
		return ('refused', @wrong);
	}
	my @wrong = eval { $self->use_it($offset, $look) };
	push @wrong, $@ if $@;
	my $said = log_since($node, $offset);
	push @wrong, messages_of_crashes($said);
	crash($node) if $node->{_pid} && ZenTest::postmaster_pid($node);
	unlink "$self->{data}/postmaster.pid";
	$node->_update_pid(0);
	return (reported($said) ? 'reported' : 'sound', @wrong);
}

# use_it -- read all, change something, read again, stop in order.
sub use_it
{
	my ($self, $offset, $look) = @_;
	my $node = $self->{node};
	my $dbh = connect_db($node);
	my $seen = $self->look($dbh);
	my @wrong = $self->compare($seen, reported(log_since($node, $offset)));
	$look->($dbh, $seen) if $look;
	for my $sql (q{INSERT INTO small VALUES (-2, 0)}, q{UPDATE text SET v = v WHERE id = 500},
		'DELETE FROM wide WHERE id = 5',
		q{ROLLBACK PREPARED 'p'}, 'VACUUM small', 'VACUUM text', 'DROP TABLE wide',
			'CREATE TABLE fresh USING zen AS SELECT g FROM generate_series(1, 500) g')
	{
		my $result = run_sql($dbh, $sql);
		push @wrong, "$sql: $result->{message}" if $result->{lost} || $result->{state} eq '57014';
		return @wrong if $result->{lost};
	}
	$dbh->disconnect;
	$node->stop('fast', fail_ok => 1) or push @wrong, 'it does not stop';
	return @wrong;
}

sub reported { return $_[0] =~ /(?:WARNING|ERROR|FATAL|LOG):  (?:XX\d\d\d|55000): /; }

# messages -- what the server has said about damage in the last try.
sub messages
{
	my ($self) = @_;
	return log_since($self->{node}, $self->{from}) =~ /(?:WARNING|ERROR|FATAL|LOG):  ((?:XX\d\d\d|55000): .*)/g;
}

sub messages_of_crashes
{
	my ($said) = @_;
	return $said =~ /(.*(?:TRAP:|PANIC:|terminated by signal|was terminated by exception).*)/g;
}

1;
