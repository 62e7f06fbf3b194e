# The engines of bench/paper/engines stand in the order of the papers' figures, counted in what the medium below them
# reads and writes; where they do not, bench/lib/figures.py has the reason.  No server, and no clock.

use strict;
use warnings;

use FindBin;

exec "$FindBin::RealBin/../paper/engines/order" or die "bench/paper/engines/order: $!";
