# Power cuts with zen.flush = always where libpmem takes the caches to survive, and they do not: zen flushes all the
# same.  All else, and the options, are 400_power.pl's; POINTS is 4 here.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

# its INIT blocks come before anything runs, or 18 takes them for an error
use ZenTest;

$ENV{PMEM_NO_FLUSH} = 1;
$ENV{POWER_CONF} = join ';', 'zen.flush=always', $ENV{POWER_CONF} // ();
$ENV{POINTS}     //= 4;
$ENV{SCENARIOS}  //= 'insert several_rows many_lines page_move grow';

my $done = do "$FindBin::RealBin/400_power.pl";
die $@ || $! unless $done;
