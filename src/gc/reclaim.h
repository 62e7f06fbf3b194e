/*
 * reclaim.h -- giving room back: regions, pages, slots, DRAM.
 */
#ifndef ZEN_RECLAIM_H
#define ZEN_RECLAIM_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* zen_reclaim_init -- in shmem_startup_hook: from now on zen_make_room() and zen_find_room() collect and evict. */
extern void zen_reclaim_init(void);

/*
 * zen_reclaim_region -- handle all items that have come due in a region, and give its empty pages back.
 *
 * Lease holder; outside any epoch.  Never throws.
 */
extern void zen_reclaim_region(uint32 region);

/*
 * zen_reclaim_all -- VACUUM: handle all items that have come due, in every region that can be leased.
 * zen_reclaim_pages -- VACUUM: give the empty pages of every region that can be leased back, also where nothing has
 * come due.
 *
 * Outside any epoch.  Never throw.
 */
extern void zen_reclaim_all(void);
extern void zen_reclaim_pages(void);

/*
 * zen_reclaim_some -- the worker: handle at most max items that have come due by the last zen_horizon_look(), in
 * regions that can be leased.  Returns how many.
 *
 * zen_reclaim_some_pages -- the worker: give back pages that have become empty, a bounded number; true if more are
 * left.
 *
 * Both hold one region at a time, and none on return.  Outside any epoch.  Never throw.
 */
extern uint32 zen_reclaim_some(uint32 max);
extern bool zen_reclaim_some_pages(void);

/*
 * zen_reclaim_for_slots -- the pool is full for a writer that holds region own: collect all that can be collected,
 * everywhere.
 *
 * Lease holder of own; outside any epoch.  Never throws.
 */
extern void zen_reclaim_for_slots(uint32 own);

/*
 * zen_reclaim_await_slots -- collecting did not help: sleep for a moment.
 *
 * False if there is nothing to wait for: no garbage that others keep, no pages that others are giving back, no larger
 * pool.  Also if zen.full_timeout is over since *since, 0 at the first call.  While the pool is growing that time does
 * not begin.  Outside any epoch.  Any region of the caller's in which others are to collect must not be
 * ZEN_LEASE_BUSY.  Throws if it is cancelled.
 */
extern bool zen_reclaim_await_slots(TimestampTz *since);

#endif							/* ZEN_RECLAIM_H */
