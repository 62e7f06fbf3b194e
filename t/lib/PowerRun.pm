# PowerRun -- runs one scenario of PowerScenarios through power cuts at all crash points.
#
# One run under the medium yields all crash points: at each the server is frozen and its
# data directory copied.  Then, for each crash point, candidates are made: what pool
# and WAL may look like after a cut just there, all of them if they are few, else a choice by
# seed.  A server is started on each and must show the state before or after the
# statement that was under way; then it must work on, see PowerVerify.
#
# Candidates that are the same to the last byte, with the same states allowed, are tried once.

package PowerRun;

use strict;
use warnings;

use Carp;
use POSIX ();
use PowerMedium;
use PowerServer;
use PowerVerify qw(state_of_db verify_recovered begin_stream);
use Test::More ();
use Time::HiRes qw(sleep time);
use ZenTest;

my $CLIENT_TIMEOUT_S = 300;

# new -- dir: a directory of its own; programs: of PowerMedium::build; template: a
# stopped PowerServer with zen; oracle: a running one without, with a connection in
# oracle_dbh; eadr: a persistent cache; pages: of a pool on a disk, the bytes of a unit; several numbers, with commas,
# take turns; seed; recoveries: how many crash points, about, are recovered from with further cuts (and one
# in each of these recoveries); candidates: how many per crash point at most; thorough: one candidate of how
# many at a crash point is thorough (0: just one); points: how many crash points (0: all); only: { point, candidate }
# for a replay.
sub new
{
	my ($class, %self) = @_;
	mkdir $self{dir} or croak "mkdir $self{dir}: $!";
	return bless { %self, count => {}, violations => [], seen => {}, serial => 0 }, $class;
}

# --- the right states, by PostgreSQL's heap ---------------------------------

# sessions -- a cache of connections by session name.
sub session
{
	my ($sessions, $connect, $name) = @_;
	return $sessions->{$name} ||= $connect->();
}

# execute -- one step.  Croaks if it does not end as it should.
sub execute
{
	my ($step, $sessions, $connect, $data_dir, $on_heap) = @_;
	my ($name, $what, $option) = @$step;
	return if !defined $what;
	return $what->($data_dir) if ref $what;
	return if $option->{zen_only} && $on_heap;
	my $result = run_sql(session($sessions, $connect, $name), $what);
	# what fails on zen alone (a pool that forgets cannot fail) fails on heap as well
	croak "$result->{state} $result->{message}\nstatement: $what"
	  if $result->{lost} || ($result->{state} ne '') != ($option->{fails} ? 1 : 0);
	return;
}

# fresh_oracle -- make an empty database o.
sub fresh_oracle
{
	my ($self) = @_;
	my $admin = $self->{oracle_dbh};
	for my $row (@{ run_sql($admin, 'SELECT gid FROM pg_prepared_xacts')->{rows} })
	{
		my $dbh = $self->{oracle}->connect('o');
		value($dbh, "ROLLBACK PREPARED '$row->[0]'");
		$dbh->disconnect;
	}
	value($admin, $_) for 'DROP DATABASE IF EXISTS o WITH (FORCE)', 'CREATE DATABASE o';
	return;
}

# oracle_run -- play setup, prelude and the first $n steps on heap in a fresh database;
# calls $look->($dbh) at the end.  $no_error: what makes steps fail is left out.
sub oracle_run
{
	my ($self, $scenario, $n, $look, $no_error) = @_;
	$self->fresh_oracle;
	my $connect = sub { $self->{oracle}->connect('o') };
	my %sessions;
	my @steps = @{ $scenario->{steps} }[ 0 .. $n - 1 ];
	@steps = map { [ @$_[ 0, 1 ] ] } grep { !ref $_->[1] } @steps if $no_error;
	execute($_, \%sessions, $connect, $self->{oracle}->data_dir, 1)
	  for (map { [ setup => $_ ] } @{ $scenario->{setup} }), @{ $scenario->{prelude} || [] };
	my $watch = $connect->();
	my @states = (state_of_db($watch));
	for my $step (@steps)
	{
		execute($step, \%sessions, $connect, $self->{oracle}->data_dir, 1);
		my $state = state_of_db($watch);

		# locked by a transaction that has not ended: nobody sees it yet
		$state = $states[-1] if $state->{text} =~ / locked$/m && grep { $_->ping == 3 } values %sessions;
		push @states, $state;
	}
	$look->($watch) if $look;
	$_->disconnect for values %sessions;
	push @states, state_of_db($watch) if $look;
	$watch->disconnect;
	return \@states;
}

# learn_states -- states[i]: after i steps; ends{gid state}: { commit, rollback } of what was
# prepared then.
sub learn_states
{
	my ($self, $scenario) = @_;
	my $n = @{ $scenario->{steps} };
	my $states = $self->oracle_run($scenario, $n);
	my %ends;
	for my $i (0 .. $n)
	{
		my $state = $states->[$i];
		my $until = $i < $n && $scenario->{steps}[$i][2] && $scenario->{steps}[$i][2]{either};
		$state->{would_be} = { text => $self->oracle_run($scenario, $i + 1, undef, 1)->[-1]{text}, until => $until }
		  if $until;
		next if !$state->{gids} || $ends{ $state->{text} };
		for my $end (qw(commit rollback))
		{
			my $after = $self->oracle_run($scenario, $i, sub { value($_[0], uc($end) . " PREPARED '$_'") for split / /,
				$state->{gids} });
			$ends{ $state->{text} }{$end} = $after->[-1]{text};
		}
	}
	return ($states, \%ends);
}

# --- one life under the medium ----------------------------------------------

# What other kinds of runs add.
#
# wants_photo -- is this crash point wanted?
#
# is_set_up -- called when the scenario's setup has been run, and the server is stopped.
#
# comparer -- a sub that is given a connection to a recovered server, and a list to which it adds what is wrong; or
# undef.
sub wants_photo { return 1; }
sub is_set_up   { return; }
sub comparer    { return; }

# photograph -- copy what a cut at this moment leaves, but for the pool's bytes.
sub photograph
{
	my ($self, $server, $medium, $request) = @_;
	my %photo = (%$request, acked => $medium->word('acked'), flushed => $medium->word('flushed'), medium => $medium,
		fences => $medium->word('fences'), syncs => $medium->word('syncs'));
	$photo{data} = sprintf '%s/photo%d', $self->{dir}, ++$self->{serial};
	for my $file ($server->files)
	{
		# its name, and the one under which it is made; no other file's name is one of these
		my @names = grep { -e } $file, glob("$file.????????????????????????????????.tmp");
		last unless @names || $file eq $server->pool;
		push @{ $photo{files} }, { names => [ map { s{.*/}{}r } @names ], size => @names ? -s $names[0] : 0 };
	}
	my $mode = (stat $server->data_dir . '/pg_notify')[2] & 0777;
	chmod 0700, $server->data_dir . '/pg_notify';
	system('cp', '-a', $server->data_dir, $photo{data}) == 0 or croak 'cannot copy the data directory';
	chmod $mode, $server->data_dir . '/pg_notify';
	unlink "$photo{data}/postmaster.pid";
	return \%photo;
}

# live -- start a server under a fresh medium on $server's files and let $client->($medium, $connect)
# run in a process of its own; $from_start: crash points count from the start on; $durable:
# the caches have outlived a crash, and this is the pool without them.
# Returns the photos of all crash points, the last one of the moment when the client had ended.
sub live
{
	my ($self, $server, $from_start, $client, $durable) = @_;
	my $medium = PowerMedium->new($self->{programs}, sprintf('%s/medium%d', $self->{dir}, ++$self->{serial}),
		$server->files);
	my @photos;
	$medium->keep_caches($durable, $server->pool) if $durable;
	$medium->want('photo') if $from_start;
	$server->launch($medium);
	my $pid = fork // croak "fork: $!";
	if (!$pid)
	{
		my $done = eval { $client->($medium); 1 };
		print STDERR "client: $@" unless $done;
		POSIX::_exit($done ? 0 : 1);
	}
	my ($ended, $snaps);
	until ($ended)
	{
		$ended = waitpid($pid, POSIX::WNOHANG()) > 0;
		my $status = $?;
		while (my $request = $medium->next_request($ended ? 0 : 0.005))
		{
			$medium->stopped($request->{pid}, sub {
					@$request{qw(upto snap)} = ($medium->word('log_used'), ++$snaps) if !$request->{pid};
					push @photos, $self->photograph($server, $medium, $request); })
			  if $self->wants_photo($server, $medium);
			$medium->go_on;
		}
		croak(($medium->word('cut') == 2 ? 'a process was killed while it stored' : 'the server ended by itself')
			. ":\n" . $server->last_words) if $medium->word('cut');
		croak "the client failed (scenario, or server)\n" . $server->last_words if $ended && $status;
	}
	$medium->stopped(0, sub { push @photos, $self->photograph($server, $medium,
				{ point => 'end', upto => $medium->word('log_used'), pid => 0 }) });
	$server->crash;
	return @photos;
}

# What a client waits for while a process is held, see execute_held().  Each is given what that function knows.
my %MEANWHILE = (
	# a checkpoint has moved the redo pointer
	redo => sub {
		my ($at) = @_;
		my $begun = starts_logged($at->{server});
		$at->{checkpoint} = start_statement(session(@$at{qw(sessions connect)}, 'checkpoint'), 'CHECKPOINT');
		wait_for('the redo pointer', sub { starts_logged($at->{server}) > $begun });
	},
	# ... has written all that it can, and waits
	still => \&wait_still,
	# ... has ended, or cannot: it may have to wait for the process that is held
	end => sub {
		my ($at) = @_;
		wait_still($at) unless $at->{checkpoint}{dbh}->pg_ready;
	},
	# the syncer has synced, or waits for a flush of WAL
	syncer => sub {
		my ($at) = @_;
		my $fences = $at->{medium}->word('fences');
		wait_for('the syncer', sub { $at->{medium}->word('fences') > $fences || value(
				session(@$at{qw(sessions connect)}, 'watch'), q{SELECT wait_event LIKE 'WALWrite%' FROM pg_stat_activity
				WHERE backend_type = 'zen syncer'}); });
	},
	snap => sub { $_[0]{medium}->snap; });

# wait_still -- until a checkpoint stands still, or has ended.  The syncer looks every 20 ms.
sub wait_still
{
	my ($at) = @_;
	my ($n, $last) = (0, '');
	wait_for('the checkpoint to stand still', sub {
			my $now = join ' ', map { $at->{medium}->word($_) } qw(fences syncs log_used);
			$n = $now eq $last && (ZenTest::proc_stat(pid_of($at, 'checkpointer')))[0] eq 'S' ? $n + 1 : 0;
			$last = $now;
			return $n >= 100 || $at->{checkpoint}{dbh}->pg_ready; });
	return;
}

sub starts_logged
{
	my ($server) = @_;
	return scalar(() = PostgreSQL::Test::Utils::slurp_file($server->logfile) =~ /checkpoint starting/g);
}

# pid_of -- of a session, or of a process of the server.
sub pid_of
{
	my ($at, $who) = @_;
	return session(@$at{qw(sessions connect)}, $who)->{pg_pid} if $who !~ /syncer|checkpointer|walwriter/;
	return $at->{pids}{$who} //= value(session(@$at{qw(sessions connect)}, 'watch'),
		"SELECT pid FROM pg_stat_activity WHERE backend_type = '$who'");
}

# hold -- have a process stand still at a place, of PowerMedium's or while it waits for a standby that there is not.
sub hold
{
	my ($at, $place, $who, $after) = @_;
	my $watch = session(@$at{qw(sessions connect)}, 'watch');
	if ($place eq 'sync_rep')
	{
		value($watch, $_) for q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'}, 'SELECT pg_reload_conf()';
		wait_until_synchronous($watch, session(@$at{qw(sessions connect)}, 'probe'));
		return sub { waits_for_standby($watch, pid_of($at, $who)); };
	}
	$at->{medium}->hold($place, pid_of($at, $who), $after);
	kill 'HUP', pid_of($at, $who) if $place eq 'settings';
	return sub { $at->{medium}->held };
}

sub let_go
{
	my ($at, $place) = @_;
	if ($place eq 'sync_rep')
	{
		value(session(@$at{qw(sessions connect)}, 'watch'), $_) for 'ALTER SYSTEM RESET synchronous_standby_names',
		'SELECT pg_reload_conf()';
	}
	$at->{medium}->hold('nothing');
	return;
}

# execute_held -- one step with the option hold => [ [ place, who, how many such places are passed before,
# meanwhile... ], ... ]: the process stands still there, until all is done that is to be done meanwhile; then the next
# of the list, if it comes to that place before the step has ended.
sub execute_held
{
	my ($server, $step, $sessions, $connect, $medium) = @_;
	my %at = (server => $server, sessions => $sessions, connect => $connect, medium => $medium);
	my ($name, $sql, $option) = @$step;
	my $statement;
	my $ended = sub { my $what = $statement || $at{checkpoint}; return $what && $what->{dbh}->pg_ready; };
	for my $hold (@{ $option->{hold} })
	{
		my ($place, $who, $after, @meanwhile) = @$hold;
		my $is_held = hold(\%at, $place, $who, $after);
		$statement ||= start_statement(session($sessions, $connect, $name), $sql) if defined $sql;
		$at{checkpoint} = $statement if ($sql // '') eq 'CHECKPOINT';
		my $held;
		wait_for("$who at $place", sub { ($held = $is_held->()) || $ended->(); });
		$MEANWHILE{$_}->(\%at) for $held ? @meanwhile : ();
		let_go(\%at, $place) if $place eq 'sync_rep';
	}
	let_go(\%at, 'nothing');
	my %running = map { ($_ => $_) } grep { defined } $statement, $at{checkpoint};
	for my $end (map { finish_statement($_) } values %running)
	{
		croak "$end\nstatement: $sql" if $end =~ /^[0-9A-Z]{5}$/ && $end =~ /\d/;
	}
	return;
}

# play -- the client of a scenario.
sub play
{
	my ($server, $scenario, $medium) = @_;
	my $first = $server->wait_ready_child;
	my %sessions;
	my $connect = sub { $server->connect };
	wait_recovered($first);
	execute($_, \%sessions, $connect, $server->data_dir) for @{ $scenario->{prelude} || [] };
	session(\%sessions, $connect, $_) for 'watch', 'checkpoint', map { $_->[0] } @{ $scenario->{steps} };
	$medium->want('photo');
	for my $step (@{ $scenario->{steps} })
	{
		my $option = $step->[2] || {};
		$medium->word('want', 0) if $option->{quiet};
		if ($option->{hold}) { execute_held($server, $step, \%sessions, $connect, $medium); }
		elsif ($option->{stop})
		{
			hold({ sessions => \%sessions, connect => $connect, medium => $medium }, @{ $option->{stop} });
		}
		elsif ($option->{go}) { $medium->hold('nothing'); }
		else                 { execute($step, \%sessions, $connect, $server->data_dir); }
		$medium->word('acked', $medium->word('acked') + 1);
		# a step without a statement commits nothing, and waits for nobody's WAL
		$medium->word('flushed', $medium->word('acked')) if defined $step->[1] && !$scenario->{async}{ $step->[0] };
		$medium->word('want', 1) if $option->{quiet};
		$medium->snap if $option->{snap} || ($scenario->{snaps} && !$option->{quiet});
	}
	if ($scenario->{stop})
	{
		$_->disconnect for $first, values %sessions;
		kill 'INT', $server->{pid};
		wait_for('the server to stop', sub { my ($state) = ZenTest::proc_stat($server->{pid}); !defined $state
			|| $state eq 'Z' });
	}
	return;
}

# --- candidates -------------------------------------------------------------

# medium_of -- which medium the pool of a photo is on; a disk's unit changes from one crash point to the next.
sub medium_of
{
	my ($self, $photo) = @_;
	my @units = split /,/, $self->{pages} // '';
	return (eadr => $self->{eadr}, unit => @units ? $units[ unpack('%32C*', $photo->{name}) % @units ] : undef);
}

# look_at -- what a candidate would be: { states, lines, sectors, digest }.  Nothing is written.
sub look_at
{
	my ($self, $photo, $choice) = @_;
	my ($first, @more) = @{ $photo->{files} };
	return $photo->{medium}->state_after_cut(upto => $photo->{upto}, wal => "$photo->{data}/pg_wal",
		size => $first->{size}, more => \@more, $self->medium_of($photo), %$choice);
}

# restore -- make $server's files what a candidate of a photo is.
sub restore
{
	my ($self, $server, $photo, $choice) = @_;
	$server->copy_data($photo->{data});
	unlink glob($server->pool . '*');
	my @files;
	for my $file (@{ $photo->{files} })
	{
		my ($first, @more) = map { "$server->{dir}/$_" } @{ $file->{names} };
		push @files, { path => $first || "$self->{dir}/no_pool", size => $file->{size}, links => \@more };
	}
	my ($first, @more) = @files;
	my $state = $photo->{medium}->state_after_cut(upto => $photo->{upto}, wal => $server->data_dir . '/pg_wal',
		size => $first->{size}, pool => $first->{path}, more => \@more, $self->medium_of($photo), %$choice);
	for my $file (@files)
	{
		link($file->{path}, $_) or croak "link: $!" for @{ $file->{links} };
	}
	return $state;
}

# choices -- the candidates of a photo that are to be tried.
sub choices
{
	my ($self, $photo) = @_;
	my $state = $self->look_at($photo, { seed => 0 });
	my $n = $self->{candidates};
	return map { { index => $_ } } 0 .. $state->{states} - 1
	  if !$self->{eadr} && $state->{states} <= $n && !$state->{sectors};
	return ({ seed => 0 }) if $self->{eadr} && !$state->{lines} && !$state->{sectors};
	my @seeds = map { $self->{seed} * 64 + $_ } 2 .. 63;
	return map { { seed => $_ } } $n >= 8 ? (0, 1, @seeds[ 0 .. $n - 3 ]) : (pick(0, 1), map { pick(@seeds) } 2 .. $n);
}

# listing -- what tells two photos' data directories apart.
sub listing
{
	my ($photo) = @_;
	return $photo->{listing} //= do {
		my ($out) = PostgreSQL::Test::Utils::run_command([ 'find', $photo->{data}, '-printf', '%P %s %T@\n' ]);
		join "\n", sort grep { !/^pg_stat|^pg_subtrans|^ / } split /\n/, $out;
	};
}

# new_choices -- those of the choices that have not been tried with the same files and the same states allowed.
sub new_choices
{
	my ($self, $photo, $allowed, @choices) = @_;
	$self->{count}{choices} += @choices;
	return @choices if $self->{only};
	return grep { !$self->{seen}{ join "\n", $self->look_at($photo, $_)->{digest}, listing($photo),
		(map { @{ $_->{names} } } @{ $photo->{files} }), @$allowed }++ } @choices;
}

# try -- recover one candidate and verify it.
sub try
{
	my ($self, $photo, $choice, $allowed, $ends, $thorough) = @_;
	my $server = $self->{work} ||= PowerServer->new("$self->{dir}/work");
	$self->restore($server, $photo, $choice);
	$self->{count}{candidates}++;
	$self->{count}{thorough}++ if $thorough;
	my $odd = (($choice->{index} // $choice->{seed}) + ($photo->{name} =~ /(\d+)$/ ? $1 : 0)) % 2;
	truncate($server->logfile, 0) if -e $server->logfile;
	my @wrong = eval { verify_recovered($server, options => $self->{options}, first => $self->{first},
		allowed => $allowed, ends => $ends, thorough => $thorough, odd => $odd,
		compare => $thorough ? scalar $self->comparer($server) : undef); };
	push @wrong, "died: $@" if $@;
	$server->crash if $server->{pid};
	$self->report($photo, $choice, \@wrong) if @wrong;
	return;
}

# try_choices -- the candidates of a crash point; one of each THOROUGH, by turns in their order, is tried thoroughly.
sub try_choices
{
	my ($self, $photo, $allowed, $ends, @choices) = @_;
	my $every = $self->{thorough} || @choices;
	my $turn = $self->{count}{cuts}++;
	for my $i (0 .. $#choices)
	{
		$self->try($photo, $choices[$i], $allowed, $ends, $self->{only} || ($i + $turn) % $every == 0);
	}
	return;
}

# progress -- what a long run has done so far.
sub progress
{
	my ($self, $photo) = @_;
	return if time - ($self->{told} // $self->{begin}) < 60;
	$self->{told} = time;
	Test::More::note(sprintf '  %s: %d cuts, %d candidates, %.0f s, at crash point %s', $self->{name},
		@{ $self->{count} }{qw(cuts candidates)},
		time - $self->{begin}, $photo->{name});
	return;
}

sub report
{
	my ($self, $photo, $choice, $wrong) = @_;
	my $what = join ' ', map { "$_ $choice->{$_}" } sort keys %$choice;
	my $candidate = join '=', %$choice;
	push @{ $self->{violations} },
		sprintf("%s, crash point %s, %s: %s\nreplay: SEED=%d SCENARIOS=%s POINT=%s CANDIDATE=%s",
		$self->{name}, $photo->{name}, $what, join("\n  ", @$wrong), $self->{seed}, $self->{name}, $photo->{name},
			$candidate);
	if ($ENV{POWER_KEEP})
	{
		my $kept = sprintf '%s/violation%d', $self->{dir}, scalar @{ $self->{violations} };
		mkdir $kept;
		$self->restore(PowerServer->new($kept), $photo, $choice);
		system('cp', $self->{work}->logfile, "$kept/log");
		$self->{violations}[-1] .= "\nkept: $kept";
	}
	return;
}

# select_points -- all photos, or a choice of them.
sub select_points
{
	my ($self, @photos) = @_;
	my $n = $self->{points};
	return @photos if !$n || @photos <= $n || $self->{only};
	my %chosen;
	$chosen{ int rand @photos } = 1 while keys %chosen < $n;
	return map { $photos[$_] } sort { $a <=> $b } keys %chosen;
}

# try_photos -- all candidates of all photos; with $depth, the recovery of some of them is cut in turn.
sub try_photos
{
	my ($self, $photos, $states, $ends, $depth) = @_;
	my $last = $#$states;
	for my $photo (@$photos)
	{
		my $acked = $photo->{acked};
		my $first = $photo->{first} // ($self->{async} ? $photo->{flushed} : $acked);
		my %allowed = map { $states->[$_]{text} => 1 } grep { $_ <= $last }
			$first .. ($photo->{last} // $acked + 1);
		my $would_be = $photo->{point} eq 'end' ? undef : $states->[$acked]{would_be};
		$allowed{ $would_be->{text} } = 1 if $would_be && $photo->{point} <= $would_be->{until};
		my @allowed = sort keys %allowed;
		my $only = $self->{only} || {};
		next if defined $only->{point} && index($only->{point}, $photo->{name}) != 0;
		my @choices;
		if (($only->{point} // '') eq $photo->{name})
		{
			@choices = ({ split /=/, $only->{candidate} });
		}
		elsif (!defined $only->{point})
		{
			@choices = $self->choices($photo);
		}
		$self->try_choices($photo, \@allowed, $ends, $self->new_choices($photo, \@allowed, @choices));
		$self->cut_recovery($photo, \@allowed, $ends, $depth)
		  if $depth && (defined $only->{point} || $photo->{recover});
		$self->crash_processes($photo, \@allowed, $ends) if $self->{process_crash} && $photo->{name} =~ /^\w+$/;
		$self->progress($photo);
		last if @{ $self->{violations} } >= ($self->{stop_after} || 1e9);
	}
	return;
}

# select_recoveries -- mark the photos, one of $n by chance and the last one, whose recovery is to be cut.
sub select_recoveries
{
	my ($n, @photos) = @_;
	$_->{recover} = one_in($n) for @photos;
	$photos[-1]{recover} = 1;
	return;
}

# cut_recovery -- let a server recover from one candidate under the medium, and cut that.
sub cut_recovery
{
	my ($self, $photo, $allowed, $ends, $depth) = @_;
	my $name = "$photo->{name}.r";
	my $server = PowerServer->new(sprintf '%s/recovery%d', $self->{dir}, ++$self->{serial});
	# A choice that does not depend on what was tried before: a replay comes here as well.
	my $choice = { seed => $self->{recover_from} // ($self->{seed} + unpack('%32C*', $photo->{name})) % 8 };
	$server->{options} = $self->{options} || [];
	$self->restore($server, $photo, $choice);
	my @photos = $self->live($server, 1, sub { my $dbh = $server->wait_ready_child; wait_recovered($dbh); });
	$self->name_photos($name, @photos);
	my @states = map { { text => $_ } } @$allowed;
	$_->{first} = 0, $_->{last} = $#states for @photos;
	my @some = $self->select_points(@photos);
	$some[ int rand @some ]{recover} = 1;
	$self->{count}{recoveries}++;
	$self->try_photos(\@some, \@states, $ends, $depth - 1);
	system('rm', '-rf', (map { $_->{data} } @photos), $photos[0]{medium}{dir});
	$server->remove;
	return;
}

# crash_processes -- at a crash point processes die, but caches survive; after the recovery the
# power fails.  What clients have seen in between must still be there (R10).
sub crash_processes
{
	my ($self, $photo, $allowed, $ends) = @_;
	my $server = PowerServer->new(sprintf '%s/recovery%d', $self->{dir}, ++$self->{serial});
	my $durable = "$server->{dir}/durable";
	$self->restore($server, $photo, { seed => 0 });
	rename $server->pool, $durable;
	$self->restore($server, $photo, { seed => 1 });
	my $seen = "$server->{dir}/seen";
	my @photos = $self->live($server, 1, sub {
			my ($medium) = @_;
			my $dbh = $server->wait_ready_child;
			wait_recovered($dbh);
			PostgreSQL::Test::Utils::append_to_file($seen, state_of_db($dbh)->{text});
			$medium->word('acked', 1);
			value($dbh, "UPDATE scratch SET v = 'after the crash' WHERE id = $_") for 1 .. 2; }, $durable);
	$self->name_photos("$photo->{name}.p", @photos);
	my @states = map { { text => $_ } } PostgreSQL::Test::Utils::slurp_file($seen), @$allowed;
	my @after = grep { $_->{acked} } @photos;
	$_->{first} = 0, $_->{last} = $_->{acked} ? 0 : $#states for @photos;
	$self->{count}{recoveries}++;
	$self->try_photos([ $self->select_points(grep { !$_->{acked} } @photos), @after ], \@states, $ends, 0);
	system('rm', '-rf', (map { $_->{data} } @photos), $photos[0]{medium}{dir});
	$server->remove;
	return;
}

sub name_photos
{
	my ($self, $prefix, @photos) = @_;
	$_->{name} = $prefix . ($_->{snap} ? "snap$_->{snap}" : $_->{point}) for @photos;
	$self->{count}{fences} += $photos[-1]{fences};
	$self->{count}{syncs}  += $photos[-1]{syncs};
	return;
}

# --- the whole --------------------------------------------------------------

# run -- returns counts and the violations.
#
# fences, syncs: of WAL; cuts: crash points tried; choices: states chosen there; candidates: those that were not the
# same as one before; thorough: those tried thoroughly; recoveries: how many were cut.
sub run
{
	my ($self, $name, $scenario) = @_;
	$self->{name} = $name;
	$self->{begin} = time;
	$self->{$_} = $scenario->{$_} for qw(process_crash first async options recover_from);
	srand($self->{seed});
	my ($states, $ends) = $self->learn_states($scenario);

	my $server = PowerServer->new("$self->{dir}/live");
	$server->copy_from($self->{template});
	PostgreSQL::Test::Utils::append_to_file($server->data_dir . '/postgresql.conf', "$_\n")
	  for @{ $scenario->{conf} || [] };
	my $dbh = $server->start;
	begin_stream($dbh);
	value($dbh, $_) for @{ $scenario->{setup} };
	$dbh->disconnect;
	$server->stop;
	$self->is_set_up($server, $scenario);

	unlink $server->pool, $server->data_dir . '/zen.state' if $scenario->{first_start};
	local $PowerServer::nfiles = $scenario->{files} || 1;
	my @photos = $self->live($server, $scenario->{first_start} || $scenario->{from_start},
		sub { $scenario->{first_start} ? wait_recovered($server->wait_ready_child) : play($server, $scenario, $_[0]) });
	croak "$photos[-1]{acked} statements were counted" if $photos[-1]{acked} != @{ $scenario->{steps} };
	$self->name_photos('', @photos);
	@photos = $self->select_points(@photos);
	select_recoveries($scenario->{recover_all} && !$self->{points} ? 1 : scalar @photos / $self->{recoveries}, @photos);
	$self->try_photos(\@photos, $states, $ends, $scenario->{recover});
	return ($self->{count}, $self->{violations});
}

1;
