/*
 * tablestat.h -- counters of each HTable's use of the Met-Cache, and its share of it.
 *
 * A process collects counts in private memory.  It adds them to the shared counters after some hundred events, when it
 * needs the place for another table, and when it ends.  So the counters may lack the last events of other sessions.
 */
#ifndef ZEN_TABLESTAT_H
#define ZEN_TABLESTAT_H

#include "base/compat.h"
#include "nvm/htable.h"
#include "port/atomics.h"

typedef enum ZenTableCounter
{
	ZEN_T_HITS,					/* point reads served from an entry */
	ZEN_T_MISSES,				/* point reads served from NVM */
	ZEN_T_SCANNED,				/* other reads, which leave the cache as it is */
	ZEN_T_ADMISSIONS,			/* rows copied from NVM into an entry */
	ZEN_T_EVICTIONS,			/* entries given back to NVM */
	ZEN_T_ENTRIES,				/* rows in the CLOCK now */
	ZEN_T_BYTES,				/* DRAM of them */
	ZEN_T_KEY_HITS,				/* keys that the key cache has led to their
								 * row */
	ZEN_T_KEY_MISSES,			/* keys that it did not know */
	ZEN_T_KEY_STALE,			/* keys that it has led elsewhere */
	ZEN_T_NCOUNTERS
} ZenTableCounter;

/*
 * zen_tablestat_shmem_size -- bytes of shared memory that zen_tablestat_init() takes.
 * zen_tablestat_init -- make the counters or attach to them.
 */
extern Size zen_tablestat_shmem_size(void);
extern void zen_tablestat_init(void);

/* zen_tablestat_generation -- changes when a table's number goes to another table, or its rows are all gone. */
extern uint32 zen_tablestat_generation(uint32 htable);

/*
 * zen_tablestat_add -- count n events of a table of that generation; those of an earlier one are forgotten.
 *
 * Caller is outside any epoch.
 */
extern void zen_tablestat_add(uint32 htable, uint32 generation, ZenTableCounter counter, int64 n);

/* zen_tablestat_flush -- add all that this process has collected to the shared counters.  Outside any epoch. */
extern void zen_tablestat_flush(void);

/* zen_tablestat_read -- the shared counters of a table. */
extern void zen_tablestat_read(uint32 htable, int64 values[ZEN_T_NCOUNTERS]);

/* zen_tablestat_reset -- the counters of all tables begin at 0 again, but for what is in the CLOCK now. */
extern void zen_tablestat_reset(void);

/*
 * zen_tablestat_drop -- a table goes: wait for all readers (zen_epoch_wait), and clear its counters.
 *
 * From then on all its counters are 0, also if processes still hold counts of it.
 */
extern void zen_tablestat_drop(uint32 htable);

/*
 * zen_tablestat_quota, zen_tablestat_set_quota -- the share of the Met-Cache that a table may fill, bytes; 0: no limit.
 *
 * Written by zen's worker.
 */
extern uint64 zen_tablestat_quota(uint32 htable);
extern void zen_tablestat_set_quota(uint32 htable, uint64 bytes);

/* zen_tablestat_over_quota -- does the table fill more than that? */
extern bool zen_tablestat_over_quota(uint32 htable);

/*
 * zen_shares_plan -- zen's worker: plan the shares of a cache of so many bytes anew if it is time, or drop them if
 * zen.met_cache_split is off.
 */
extern void zen_shares_plan(uint64 capacity);

#endif							/* ZEN_TABLESTAT_H */
