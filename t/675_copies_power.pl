# Power cuts of a primary with zen.stream = replica, whose commits fence and log in another order: no row is lost or
# torn, and a reader of changes has each change of a committed transaction once.
#
# The scenarios and the options are those of 400_power.pl.  Those in which tables are dropped or moved are left out, as
# decoding does not tell of that.

use strict;
use warnings;

use FindBin;

$ENV{POWER_CONF} = join ';', grep { defined } $ENV{POWER_CONF}, 'wal_level=logical', 'zen.stream=replica';
$ENV{SCENARIOS} ||= 'insert several_rows key_change savepoint mixed late_error_caught prepare spilled recovery';
do "$FindBin::RealBin/400_power.pl";
die $@ if $@;
