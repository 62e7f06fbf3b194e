/*
 * htm.h -- hardware transactional memory (Intel's RTM), and what replaces it where a transaction aborts.
 */
#ifndef HTM_H
#define HTM_H

#include "postgres.h"

typedef struct HtmCounters
{
	uint64		commits;		/* by the hardware */
	uint64		aborts;
	uint64		fallbacks;		/* regions under the lock */
	uint64		region_ns;		/* of the medium, in regions */
} HtmCounters;

extern __thread HtmCounters htm_counters;

/* What is between the two is atomic: by the hardware, or by one lock for all threads. */
extern void htm_enter(void);
extern void htm_leave(void);

#endif							/* HTM_H */
