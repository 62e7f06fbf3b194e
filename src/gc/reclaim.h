/*
 * reclaim.h -- giving room back: regions, pages, slots, DRAM.
 */
#ifndef ZEN_RECLAIM_H
#define ZEN_RECLAIM_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* zen_reclaim_init -- in shmem_startup_hook: from now on zen_make_room() collects and evicts. */
extern void zen_reclaim_init(void);

/* zen_reclaim_region -- handle everything that has come due in a region, and give its empty pages back.  Lease holder. */
extern void zen_reclaim_region(uint32 region);

/*
 * zen_reclaim_all -- VACUUM: handle what has come due in every region that can be leased.
 * zen_reclaim_pages -- VACUUM: give the empty pages of every region that can be leased back, also where nothing has come due.
 */
extern void zen_reclaim_all(void);
extern void zen_reclaim_pages(void);

/*
 * zen_reclaim_some -- the worker: handle at most max items that have come due by the last zen_horizon_look() in regions that can
 * be leased; returns how many.
 *
 * zen_reclaim_some_pages -- the worker: give pages that have become empty back, a bounded number; true if more are left.
 *
 * Both hold one region at a time, and none on return.
 */
extern uint32 zen_reclaim_some(uint32 max);
extern bool zen_reclaim_some_pages(void);

/* zen_reclaim_for_slots -- the pool is full for a writer that holds this region: collect what can be collected, everywhere. */
extern void zen_reclaim_for_slots(uint32 own);

/*
 * zen_reclaim_await_slots -- that did not help: sleep for a moment, which may be cancelled.
 *
 * False if nothing is kept by others, or zen.full_timeout is over since *since, 0 at the first call.  Outside any epoch; no
 * region must be ZEN_LEASE_BUSY that others are to collect in.
 */
extern bool zen_reclaim_await_slots(TimestampTz *since);

#endif							/* ZEN_RECLAIM_H */
