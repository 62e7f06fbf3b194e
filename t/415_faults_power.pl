# Proof that power cuts are tested with eyes open: a zen that breaks a rule about what is
# flushed, and when (zen.fault, src/RULES "Faults"), must be caught by the scenarios of
# 400_power.pl.  410_faults_caught.pl has the faults that a kill can show.
#
#   FAULTS=all       all of them (make torture); FAULTS="a b" only these; else SAMPLE (2) of
#                    them, chosen by seed
#   SEED=n           replays the choices
#   CANDIDATES=n     states tried per crash point (default 8; of a standby or copy 3)
#   POINTS=n         crash points per scenario (default 0: all; of a standby or copy 15 of each phase)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Config;
use Test::More;
use ZenTest;

skip_unless_zen();
skip_unless_faults();

# Switch => the scenarios, one of which must catch it; tried in turn.  standby/, copied/: by the file of %drivers.
my %scenarios = (
	r2_no_body_flush         => 'several_rows',
	r2_no_first_fence        => 'several_rows',
	r2_lp_first              => 'several_rows',
	r2_no_lp_flush           => 'insert',
	r2_no_last_fence         => 'insert',
	r2_spill_no_fence        => 'spilled',
	r2_load_no_fence         => 'loaded',
	r2_neighbours_unflushed  => 'spilled_together',
	r5_count_down_early      => 'count_down',
	r6_word1_first           => 'tombstone',
	r6_body_first            => 'tombstone_slots',
	r6_header_copied         => 'tombstone',
	r6_near_cts              => 'same_slots',
	r7_no_scrub_fence        => 'late_error_one_line',
	r7_body_stays            => 'rolled_back',
	r8_directory_not_durable => 'large_tx',
	r8_free_before_zero      => 'page_move',
	r8_zeroing_forgotten     => 'page_move',
	r9_no_xid_flush          => 'reissued_xid',
	r10_no_flush_of_believed => 'process_crash',
	r10_descriptor_first     => 'recovery_mixed',
	r10_watermark_too_high   => 'recovery_mixed',
	r16_size_first           => 'grow',
	r16_no_superblock        => 'grow',
	r18_redo_unflushed       => 'standby/several_rows',
	r20_state_first          => 'marks',
	r21_not_durable          => 'saved_running',
	# where caches survive, the order of stores and the last fence are what is left to break
	'r2_lp_first/caches'          => 'several_rows',
	'r2_no_last_fence/caches'     => 'insert',
	'r6_word1_first/caches'       => 'tombstone',
	'r7_body_stays/caches'        => 'rolled_back',
	'r8_zeroing_forgotten/caches' => 'page_move',
	# on a disk, a fence is a sync of the pages that were flushed
	'r2_sync_first_page/pages'  => 'many_lines',
	'r2_no_first_fence/pages'   => 'several_tables',
	'r2_no_last_fence/pages'    => 'insert',
	'r8_free_before_zero/pages' => 'page_move',
	'r16_size_first/pages'      => 'grow',
	# mode wal
	'w1_no_sync/wal'          => 'wal_checkpoint',
	'w1_no_hold/wal'          => 'wal_checkpoint',
	'w1_let_go_blindly/wal'   => 'wal_checkpoint',
	'w2_doubt_unseen/wal'     => 'wal_ends',
	'w3_lines_stay/wal'       => 'wal_checkpoint',
	'w3_lines_unflushed/wal'  => 'wal_lines',
	'w4_no_lag/wal'           => 'wal_async_slots',
	'w4_forgotten_early/wal'  => 'wal_async_tombstones',
	'w5_free_unflushed/wal'   => 'wal_async_pages',
	'w5_taken_unprepared/wal' => 'wal_new_pages',
	'w6_role_late/wal'        => 'insert',
	'w7_redo_unsynced/wal'    => 'wal_redo',
);

my %drivers = (copied => '675_copies_power.pl', standby => '676_standby_power.pl');

# What a cut leaves is chosen by seed; a few must do.
use constant TRIES => 5;

my $seed   = choose_seed();
my @faults = choose_faults($ENV{FAULTS} || '');
my @table;
for my $fault (@faults)
{
	my ($by, $cuts, $states, $output) = hunt($fault);
	ok(defined $by, "$fault is caught") or diag($output);
	push @table, sprintf '%-26s %-18s after %3d cuts, %4d states', $fault, $by || '-', $cuts, $states;
}
note($_) for 'fault                      scenario', @table;
done_testing();

sub choose_faults
{
	my ($which) = @_;
	my @all = sort { ($a =~ /(\d+)/)[0] <=> ($b =~ /(\d+)/)[0] || $a cmp $b } keys %scenarios;
	return @all if $which eq 'all';
	return split ' ', $which if $which;
	my %chosen;
	$chosen{ pick(@all) } = 1 while keys %chosen < ($ENV{SAMPLE} || 2);
	return grep { $chosen{$_} } @all;
}

# hunt -- run the scenarios with a fault, with up to TRIES seeds, until one catches it: its name, or undef; how many
# cuts and states after cuts were tried; what 400_power.pl has printed.
sub hunt
{
	my ($fault) = @_;
	my ($cuts, $states, $all) = (0, 0, '');
	for my $try (map { my $s = $_; map { [ $s, $_ ] } split ' ', $scenarios{$fault} } $seed .. $seed + TRIES - 1)
	{
		my ($with_seed, $scenario) = @$try;
		my $output = power($fault, $scenario, $with_seed);
		$all .= $output;
		my ($n_cuts, $n_states, $violations) = $output =~ /: .* (\d+) cuts, (\d+) candidates, .* (\d+) violations/
		  or return (undef, $cuts, $states, $all);
		$cuts += $n_cuts;
		$states += $n_states;
		return ($scenario, $cuts, $states, $all) if $violations > 0 && $output =~ /crash point/;
	}
	return (undef, $cuts, $states, $all);
}

sub power
{
	my ($name, $scenario, $with_seed) = @_;
	my ($fault, $medium) = split '/', "$name/memory";
	my $copies = $scenario =~ m{/};
	my $driver = $scenario =~ s{^(\w+)/}{} ? $drivers{$1} : '400_power.pl';
	local $ENV{PATH}       = "$ENV{ZEN_FAULT_SERVER}/bin:$ENV{PATH}";
	local $ENV{EADR}       = $medium eq 'caches';
	local $ENV{PAGES}      = $medium =~ /pages|wal/ ? '4096,512' : '';
	local $ENV{POWER_MODE} = $medium eq 'wal' ? 'wal' : '';
	local $ENV{POWER_CONF} = "zen.fault=$fault" . ($medium eq 'caches' ? ';zen.flush=never' : '');
	local $ENV{SCENARIOS}  = $scenario;
	local $ENV{SEED}       = $with_seed;
	local $ENV{CANDIDATES} = $ENV{CANDIDATES} || ($copies ? 3 : 8);
	local $ENV{POINTS}     = $ENV{POINTS} // ($copies ? 15 : 0);
	local $ENV{THOROUGH}   = 1;
	local $ENV{STOP_AFTER} = 1;
	my @includes = map { "'-I$_'" } @INC;
	return scalar qx($^X @includes '$FindBin::RealBin/$driver' 2>&1);
}
