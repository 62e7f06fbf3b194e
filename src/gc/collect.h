/*
 * collect.h -- garbage collection: superseded versions, their slots, tombstones.
 *
 * Each region has a queue of tuples that its transactions have written.  When the xid horizon has passed the writer (R12),
 * the versions that it superseded go, and its own version is frozen.  The queue belongs to the lease holder, so it
 * needs no lock; a background worker leases regions that nobody uses.
 */
#ifndef ZEN_COLLECT_H
#define ZEN_COLLECT_H

#include "cache/version.h"
#include "nvm/slotalloc.h"

#include "access/transam.h"
#include "datatype/timestamp.h"

extern Size zen_gc_shmem_size(void);
extern void zen_gc_init(void);

/* zen_gc_reserve -- room for n items, so that zen_gc_push cannot fail; false if DRAM is full.  Lease holder. */
extern bool zen_gc_reserve(uint32 region, uint32 n);

/*
 * zen_gc_push -- a version of this tuple was committed by xid, which is less than 2^31 old; what it supersedes takes
 * bytes.  Lease holder.
 */
extern void zen_gc_push(uint32 region, ZenHTable *ht, uint64 tidno, TransactionId xid, Size bytes);

/* zen_gc_push_block -- the same for all rows that a transaction has spilled to a block; xid: the newest of theirs. */
extern void zen_gc_push_block(uint32 region, ZenHTable *ht, uint32 block, TransactionId xid, Size bytes);

/* zen_gc_run -- handle at most max items whose time has come; returns how many.  Lease holder; never throws. */
extern uint32 zen_gc_run(uint32 region, uint32 max);

/* zen_gc_region -- handle everything that has come due in a region, and give its empty pages back.  Lease holder. */
extern void zen_gc_region(uint32 region);

/* zen_gc_all -- VACUUM: handle what has come due in every region that can be leased. */
extern void zen_gc_all(void);

/* zen_gc_pages -- VACUUM: give the empty pages of every region that can be leased back, also where nothing has come due. */
extern void zen_gc_pages(void);

/*
 * zen_gc_some -- the worker: handle at most max items that have come due by the last zen_horizon_look() in regions that can
 * be leased; returns how many.
 *
 * zen_gc_some_pages -- the worker: give pages that have become empty back, a bounded number; true if more are left.
 *
 * Both hold one region at a time, and none on return.
 */
extern uint32 zen_gc_some(uint32 max);
extern bool zen_gc_some_pages(void);

/*
 * zen_gc_tuple -- freeze the newest version of a tuple that is behind the horizon, and collect what it has superseded.
 * False if that must be tried again, when there is more DRAM.
 */
extern bool zen_gc_tuple(ZenHTable *ht, uint64 tidno);

/*
 * zen_gc_pending -- items waiting, over all regions (about).
 * zen_gc_bytes -- what they have superseded, in DRAM and NVM (about; what one row takes beyond 64 KB does not count).
 * zen_gc_oldest -- the first of them; invalid if there is none.
 */
extern uint64 zen_gc_pending(void);
extern uint64 zen_gc_bytes(void);
extern FullTransactionId zen_gc_oldest(void);

/*
 * zen_gc_arm -- the worker is about to sleep for long: the next item to be queued sets its latch.  False if items are
 * waiting already.
 * zen_gc_disarm -- it is awake; has an item been queued?
 */
extern bool zen_gc_arm(void);
extern bool zen_gc_disarm(void);

/* zen_gc_forget_header -- R5: an intact header of a tuple is no more (overwritten and fenced, or its page is gone). */
extern void zen_gc_forget_header(ZenTupleHeader header);

/* zen_gc_for_slots -- the pool is full for a writer, who holds this region: collect what can be collected, everywhere. */
extern void zen_gc_for_slots(uint32 own);

/*
 * zen_gc_await_slots -- that did not help: sleep for a moment, which may be cancelled.  False if nothing is kept by others, or
 * zen.full_timeout is over since *since, 0 at the first call.  Outside any epoch; no region must be ZEN_LEASE_BUSY that others
 * are to collect in.
 */
extern bool zen_gc_await_slots(TimestampTz *since);

#endif							/* ZEN_COLLECT_H */
