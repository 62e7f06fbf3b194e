/*
 * stats.h -- zen's counters, per thread instead of per process.  Stands in for src/base/stats.h.
 *
 * Only what src/nvm counts is named here.
 */
#ifndef ZEN_STATS_H
#define ZEN_STATS_H

#include "base/compat.h"

typedef struct ZenThreadCounters
{
	uint64		slots_written;
	uint64		bytes_written;
	uint64		lines_flushed;
	uint64		fences;
	uint64		slots_freed;
	uint64		region_waits;
} ZenThreadCounters;

extern __thread ZenThreadCounters zen_thread_counters;

#define ZEN_COUNT(name, n)	(zen_thread_counters.name += (n))

#endif							/* ZEN_STATS_H */
