# The engines of bench/paper/engines: each commits, is killed, recovers, and has all that it has acknowledged; and what
# would be wrong is noticed.  No server.

use strict;
use warnings;

use FindBin;

exec "$FindBin::RealBin/../paper/engines/check" or die "bench/paper/engines/check: $!";
