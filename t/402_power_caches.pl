# Power cuts where the processor's caches survive: zen flushes nothing (zen.flush = never),
# and the medium keeps all stores up to some instant.  All else, and the options, are
# 400_power.pl's; POINTS is 2 here, CANDIDATES 3.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

# its INIT blocks come before anything runs, or 18 takes them for an error
use ZenTest;

$ENV{EADR}       = 1;
$ENV{POWER_CONF} = join ';', 'zen.flush=never', $ENV{POWER_CONF} // ();
$ENV{POINTS}     //= 2;
$ENV{CANDIDATES} //= 3;

my $done = do "$FindBin::RealBin/400_power.pl";
die $@ || $! unless $done;
