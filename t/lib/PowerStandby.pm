# PowerStandby -- power cuts of a standby, in redo and at its promotion.
#
# A scenario of PowerScenarios is played by a primary with zen.stream = replica, and no medium.  Its pool and data
# directory of before, and its WAL, make a standby, which runs on the medium: it replays all, makes a restartpoint on
# the way, and is promoted.  Each crash point of that life is one of PowerRun.  After the cut the standby replays on
# from its last restartpoint and is promoted, in turn:
#
# - as soon as it has come where a step of the scenario ended, and has the rows as of that moment
# - where it was, so that the newest transaction may have its versions in the pool, and no commit record
# - at the end of the WAL
#
# Steps are as in PowerRun, and the same checks follow.

package PowerStandby;

use strict;
use warnings;

use parent -norequire, 'PowerRun';

use Carp;
use PoolLayout;
use PostgreSQL::Test::Utils ();
use PowerRun;
use PowerServer;
use PowerVerify qw(begin_stream verify_recovered);
use Test::More ();
use Time::HiRes qw(time);
use ZenTest;

use constant {
	SEGMENT      => 1024 * 1024,             # as PowerServer makes them
	KEPT         => 60,                      # crash points of a phase, without POINTS
	OFF_REPLAYED => OFF_MARK + 4096 + 40,    # ZenTailState.replayed
};

# Numbers of PowerMedium's `acked`: what the standby's client has done.
use constant { REPLAYS => 0, REPLAYS_ON => 1, PROMOTES => 2, WRITES => 3, DONE => 4 };

sub lsn_number { my ($high, $low) = map { hex } split m{/}, $_[0]; return $high << 32 | $low; }

sub lsn_text { return sprintf '%X/%X', $_[0] >> 32, $_[0] & 0xffffffff; }

sub position { return lsn_number(value($_[0], "SELECT pg_current_wal_$_[1]_lsn()")); }

# --- the primary --------------------------------------------------------------

# play_primary -- from $server's files on; it is killed at the end.
#
# Leaves in $self: ends[i], where the WAL was after step i; checkpoint, behind a checkpoint in the middle; flushed,
# what is there for certain if it was killed once before, to lose some WAL (scenario option lost); end.
sub play_primary
{
	my ($self, $server, $scenario) = @_;
	my $watch = $server->start;
	my %sessions;
	my $connect = sub { $server->connect };
	my @steps = @{ $scenario->{steps} };
	wait_recovered($watch);
	PowerRun::execute($_, \%sessions, $connect, $server->data_dir) for @{ $scenario->{prelude} || [] };
	$self->{ends} = [ position($watch, 'insert') ];
	for my $i (0 .. $#steps)
	{
		if ($i == int(@steps / 2))
		{
			value($watch, 'CHECKPOINT');
			$self->{checkpoint} = position($watch, 'flush');
		}
		PowerRun::execute($steps[$i], \%sessions, $connect, $server->data_dir);
		push @{ $self->{ends} }, position($watch, 'insert');
	}
	$self->{flushed} = 1 << 62;
	if ($self->{lost})
	{
		$self->{flushed} = position($watch, 'flush');
		$_->disconnect for values %sessions;
		$server->crash;
		wait_recovered($watch = $server->start);
	}
	value($watch, 'CHECKPOINT');
	$self->{end} = position($watch, 'flush');
	$_->disconnect for $watch, values %sessions;
	$server->crash;
	return;
}

# deliver -- the primary's WAL up to a place is in the archive: nothing, or all of a segment, is seen there.
sub deliver
{
	my ($self, $upto) = @_;
	my $n = 0;
	for my $name (sort map { s{.*/}{}r } glob "$self->{wal}/" . '[0-9A-F]' x 24)
	{
		my ($high, $low) = map { hex } $name =~ /^.{8}(.{8})(.{8})$/;
		my $begin = ($high << 32) + $low * SEGMENT;
		next if $begin >= $upto;
		my $bytes = PostgreSQL::Test::Utils::slurp_file("$self->{wal}/$name");
		my $keep = $upto - $begin;
		substr($bytes, $keep) = "\0" x (SEGMENT - $keep) if $keep < SEGMENT;
		open(my $fh, '>:raw', "$self->{archive}/new") or croak "$!";
		print $fh $bytes;
		close $fh or croak "$!";
		rename "$self->{archive}/new", "$self->{archive}/$name" or croak "$!";
	}
	return;
}

# --- the standby --------------------------------------------------------------

sub options
{
	my ($self, @more) = @_;
	return map { ('-c', $_) } "restore_command=cp $self->{archive}/%f %p", 'wal_retrieve_retry_interval=1ms', @more;
}

sub replayed { return value($_[0], q{SELECT coalesce(pg_last_wal_replay_lsn(), '0/0')}); }

# promote -- when all up to a place is replayed; or recovery has a target, and then, or after a cut behind the end of
# recovery, it ends by itself.
sub promote
{
	my ($dbh, $end) = @_;
	my $over;
	wait_for('replay', sub { ($over = !value($dbh, 'SELECT pg_is_in_recovery()'))
				|| defined $end && lsn_number(replayed($dbh)) >= $end });
	value($dbh, 'SELECT pg_promote()') if !$over;
	wait_recovered($dbh);
	return;
}

# standby_client -- what the standby is told to do on the medium.
sub standby_client
{
	my ($self, $server, $medium) = @_;
	my $dbh = $server->wait_ready_child;
	if (!$self->{again})
	{
		wait_for('replay', sub { lsn_number(replayed($dbh)) >= $self->{checkpoint} });
		my $redo = q{SELECT redo_lsn FROM pg_control_checkpoint()};
		my $before = value($dbh, $redo);
		value($dbh, 'CHECKPOINT');
		croak 'no restartpoint' if value($dbh, $redo) eq $before;
	}
	$medium->word('acked', REPLAYS_ON);
	$self->deliver($self->{end});
	wait_for('replay', sub { lsn_number(replayed($dbh)) >= $self->{end} });
	$medium->word('acked', PROMOTES);
	promote($dbh, $self->{end});
	$medium->word('acked', WRITES);
	# the scratch tables of scenarios do not count
	run_all($dbh, 'CREATE TABLE scratch_after (id int PRIMARY KEY)', 'INSERT INTO scratch_after VALUES (1)',
		'DROP TABLE scratch_after');
	$medium->word('acked', DONE);
	return;
}

# phase -- of the standby's life.  What the primary has logged at its start, and when it has lost some WAL, is hundreds
# of records that are alike.
sub phase
{
	my ($self, $acked, $place) = @_;
	return 'promotion' if $acked >= PROMOTES;
	return 'start' if $place < $self->{ends}[0];
	return 'rest' if $place > $self->{ends}[-1] || $place > $self->{flushed};
	return $acked == REPLAYS ? 'first redo' : 'redo';
}

sub points_of { my ($self, $phase) = @_; return $self->{points} && ($phase =~ /start|rest/ ? 1 : $self->{points}); }

# replayed_in -- the last record that the pool has begun to store, as the caches show it.
sub replayed_in
{
	my ($server) = @_;
	open(my $fh, '<:raw', $server->pool) or return 0;
	sysseek $fh, OFF_REPLAYED, 0;
	my $n = sysread $fh, my $bytes, 8;
	return $n == 8 ? unpack('Q<', $bytes) : 0;
}

# wants_photo -- of all crash points of a phase some are kept, each as likely as any other: an earlier one goes.  A data
# directory takes 20 MB.
sub wants_photo
{
	my ($self, $server, $medium) = @_;
	my $phase = $self->phase($medium->word('acked'), replayed_in($server));
	my $kept = $self->{kept}{$phase} ||= [];
	my $n = 2 * $self->points_of($phase) || KEPT;
	my $seen = ++$self->{crash_points}{$phase};
	return 1 if @$kept < $n;
	return 0 unless one_in($seen / $n);
	my ($photo) = splice @$kept, int rand @$kept, 1;
	$photo->{dropped} = 1;
	system('rm', '-rf', $photo->{data});
	return 1;
}

sub photograph
{
	my ($self, $server, $medium, $request) = @_;
	my $place = replayed_in($server);
	my $photo = $self->SUPER::photograph($server, $medium, $request);
	my ($control) = PostgreSQL::Test::Utils::run_command([ 'pg_controldata', $photo->{data} ]);
	my ($least) = $control =~ m{^Minimum recovery ending location: *(\w+/\w+)$}m or croak $control;
	$least = lsn_number($least);
	$photo->{place} = $place > $least ? $place : $least;
	$photo->{phase} = $self->phase($photo->{acked}, $place);
	push @{ $self->{kept}{ $photo->{phase} } }, $photo if $request->{point} ne 'end';
	return $photo;
}

# select_points -- as many of each phase.
sub select_points
{
	my ($self, @photos) = @_;
	my %of;
	push @{ $of{ $_->{phase} } }, $_ for @photos;
	return map { local $self->{points} = $self->points_of($_); $self->SUPER::select_points(@{ $of{$_} || [] }) }
	  'start', 'first redo', 'redo', 'rest', 'promotion';
}

# target_of -- where recovery ends, what it is called, and the states that are right then; no place: at the WAL's end.
#
# In turn: there; as soon as a step has ended; at once, when the step may have committed or not.
sub target_of
{
	my ($self, $photo, $choice) = @_;
	my @states = map { $_->{text} } @{ $self->{states} };
	my @at_end = (undef, 'at the end', $states[-1]);
	my $turn = ($choice->{seed} // $choice->{index}) + ($photo->{point} eq 'end' ? 0 : $photo->{point});
	return @at_end if $photo->{acked} >= PROMOTES || $turn % 3 == 0;
	my ($step) = grep { $self->{ends}[$_] >= $photo->{place} } 0 .. $#{ $self->{ends} };
	return @at_end if !defined $step || $self->{ends}[$step] > $self->{flushed};
	return ($photo->{place}, "in step $step", @states[ $step - 1, $step ]) if $turn % 3 == 1 && $step > 0;
	return ($self->{ends}[$step], "after step $step", $states[$step]);
}

sub try
{
	my ($self, $photo, $choice, $allowed, $ends, $thorough) = @_;
	my $server = $self->{work} ||= PowerServer->new("$self->{dir}/work");
	my ($place, $name, @right) = $self->target_of($photo, $choice);
	$self->restore($server, $photo, $choice);
	$self->{count}{candidates}++;
	$self->{count}{thorough}++ if $thorough;
	truncate($server->logfile, 0) if -e $server->logfile;
	my @target = defined $place ? ('recovery_target_lsn=' . lsn_text($place), 'recovery_target_inclusive=off',
		'recovery_target_action=promote') : ();
	my $end = defined $place ? undef : $self->{end};
	my @wrong = eval { verify_recovered($server, options => [ $self->options(@target) ],
		promote => sub { promote($_[0], $end) }, allowed => \@right, ends => $ends, thorough => $thorough,
		odd => int(($choice->{index} // $choice->{seed}) / 2) % 2); };
	push @wrong, "died: $@" if $@;
	unshift @wrong, "promoted $name" if @wrong;
	$server->crash if $server->{pid};
	$self->report($photo, $choice, \@wrong) if @wrong;
	return;
}

# cut_recovery -- the standby that replays on from one candidate is cut in turn.
sub cut_recovery
{
	my ($self, $photo, $allowed, $ends, $depth) = @_;
	return if $photo->{acked} >= PROMOTES;
	my $server = PowerServer->new(sprintf '%s/recovery%d', $self->{dir}, ++$self->{serial});
	$self->restore($server, $photo, { seed => ($self->{seed} + unpack('%32C*', $photo->{name})) % 8 });
	local $self->{again} = 1;
	my @photos = $self->run_standby($server, "$photo->{name}.r");
	$self->{count}{recoveries}++;
	$self->try_photos([ $self->select_points(@photos) ], [ @{ $self->{states} } ], $ends, $depth - 1);
	system('rm', '-rf', (map { $_->{data} } @photos), $photos[0]{medium}{dir});
	$server->remove;
	return;
}

sub run_standby
{
	my ($self, $server, $name) = @_;
	$server->{options} = [ $self->options ];
	local $self->{kept} = {};
	local $self->{crash_points} = {};
	my @photos = grep { !$_->{dropped} } $self->live($server, 1, sub { $self->standby_client($server, $_[0]) });
	Test::More::note("$self->{name}$name: crash points: ", join ', ', map { "$_ $self->{crash_points}{$_}" }
		sort keys %{ $self->{crash_points} });
	croak "the standby's client has come to $photos[-1]{acked}" if $photos[-1]{acked} != DONE;
	$self->name_photos($name, @photos);
	return @photos;
}

# --- the whole ------------------------------------------------------------------

sub run
{
	my ($self, $name, $scenario) = @_;
	$self->{name} = $name;
	$self->{begin} = time;
	srand($self->{seed});
	($self->{states}, my $ends) = $self->learn_states($scenario);
	$self->{lost} = ($self->{seed} + unpack '%32C*', $name) % 2;

	my $server = PowerServer->new("$self->{dir}/live");
	my $primary = PowerServer->new("$self->{dir}/primary");
	$primary->copy_from($self->{template});
	my $dbh = $primary->start;
	begin_stream($dbh);
	value($dbh, $_) for @{ $scenario->{setup} };
	$dbh->disconnect;
	$primary->stop;
	$server->copy_from($primary);
	PostgreSQL::Test::Utils::append_to_file($server->data_dir . '/standby.signal', '');

	# further files are added by each server itself
	local $PowerServer::nfiles = $scenario->{files} || 1;
	$self->play_primary($primary, $scenario);
	$self->{wal} = $primary->data_dir . '/pg_wal';
	$self->{archive} = "$self->{dir}/archive";
	mkdir $self->{archive} or croak "mkdir: $!";
	$self->deliver($self->{checkpoint});
	my @photos = $self->select_points($self->run_standby($server, ''));
	my @redo = grep { $_->{acked} < PROMOTES } @photos;
	PowerRun::select_recoveries(scalar @redo / $self->{recoveries}, @redo);
	$self->try_photos(\@photos, [ @{ $self->{states} } ], $ends, 1);
	return ($self->{count}, $self->{violations});
}

1;
