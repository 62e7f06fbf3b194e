# Power cuts of a primary with zen.stream = replica, whose commits fence and log in another order: no row is lost or
# torn; and a copy that follows the WAL, which the cut has cut as well, comes to the same pool (PowerCopied).
#
# The scenarios and the options are those of 400_power.pl; without SCENARIOS and POWER=long five, chosen by seed.
#   WAL_LEVEL=replica or logical (default: by the last bit of SEED)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use ZenTest;

my @scenarios = qw(insert several_rows key_change savepoint mixed late_error_caught prepare commit_prepared spilled
  spilled_mixed rolled_back truncate drop_table vacuum page_move tombstone grow
  add_file recovery);
my $long = ($ENV{POWER} // '') eq 'long';
$ENV{SEED} = choose_seed() % 1_000_000;
my $level = $ENV{WAL_LEVEL} || ('replica', 'logical')[ has_module('test_decoding') && $ENV{SEED} % 2 ];
# a reader of changes is not told that a table is dropped, and has its rows on
@scenarios = grep { $_ ne 'drop_table' } @scenarios if $level eq 'logical';
splice @scenarios, int rand @scenarios, 1 while @scenarios > 5;

$ENV{POWER_OF} = 'copied';
$ENV{POWER_CONF} = join ';', grep { defined } "wal_level=$level", 'zen.stream=replica',
  'wal_keep_size=1GB', $ENV{POWER_CONF};
$ENV{SCENARIOS} ||= join ' ', @scenarios if !$long;
$ENV{POINTS} //= 4 if !$long;
do "$FindBin::RealBin/400_power.pl";
die $@ if $@;
