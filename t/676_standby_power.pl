# Power cuts of a standby, in redo and at its promotion: it replays on from its last restartpoint, is promoted, and has
# the rows that the primary had at that place of the WAL.  See PowerStandby.
#
# The scenarios and the options are those of 400_power.pl; without SCENARIOS and POWER=long three, chosen by seed.
#   WAL_LEVEL=replica or logical (default: by the last bit of SEED)
#   READS=on or off: zen.standby_reads, and so a promotion keeps the maps (default: by the bit before)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use ZenTest;

my @scenarios = qw(several_rows savepoint key_change spilled spilled_mixed mixed prepare commit_prepared
  rollback_prepared create_table truncate ddl_rollback move_truncate anchor vacuum page_move grow
  add_file);
my $long = ($ENV{POWER} // '') eq 'long';
$ENV{SEED} = choose_seed() % 1_000_000;
my $level = $ENV{WAL_LEVEL} || ('replica', 'logical')[ has_module('test_decoding') && $ENV{SEED} % 2 ];
my $reads = $ENV{READS} // ('off', 'on')[ $ENV{SEED} >> 1 & 1 ];
splice @scenarios, int rand @scenarios, 1 while @scenarios > 3 && !$long;

$ENV{POWER_OF} = 'standby';
$ENV{POWER_CONF} = join ';', grep { defined } "wal_level=$level", 'zen.stream=replica',
  'wal_keep_size=1GB', "zen.standby_reads=$reads", $ENV{POWER_CONF};
$ENV{SCENARIOS} ||= join ' ', @scenarios;
$ENV{POINTS} //= 2 if !$long;
do "$FindBin::RealBin/400_power.pl";
die $@ if $@;
