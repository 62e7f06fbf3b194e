# Power cuts of a standby, in redo and at its promotion: it replays on from its last restartpoint, is promoted, and has
# the rows that the primary had at that place of the WAL.  See PowerStandby.
#
# The scenarios and the options are those of 400_power.pl.

use strict;
use warnings;

use FindBin;

$ENV{POWER_OF} = 'standby';
$ENV{POWER_CONF} = join ';', grep { defined } 'wal_level=replica', 'zen.stream=replica',
  'wal_keep_size=1GB', $ENV{POWER_CONF};
$ENV{SCENARIOS} ||= 'several_rows spilled mixed commit_prepared truncate';
$ENV{POINTS} //= 2 if ($ENV{POWER} // '') ne 'long';
do "$FindBin::RealBin/400_power.pl";
die $@ if $@;
