# Power cuts with zen.stream = logical: after each of them a reader of changes has each change of a committed
# transaction once, and nothing of others.
#
# The scenarios and the options are those of 400_power.pl.  Those in which tables are dropped or moved are left out, as
# decoding does not tell of that.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

# its INIT blocks come before anything runs, or 18 takes them for an error
use Test::More;
use ZenTest;

skip_unless_modules('test_decoding');
$ENV{POWER_CONF} = join ';', grep { defined } $ENV{POWER_CONF}, 'wal_level=logical', 'zen.stream=logical';
$ENV{SCENARIOS} ||= 'insert several_rows key_change savepoint anchor mixed late_error_caught prepare spilled recovery';
do "$FindBin::RealBin/400_power.pl";
die $@ if $@;
