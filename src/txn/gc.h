/*
 * gc.h -- garbage collection: superseded versions, their slots, tombstones.
 *
 * Each region has a queue of tuples that its transactions have written.  When the xid horizon has passed the writer (R12),
 * the versions that it superseded go, and its own version is frozen.  The queue belongs to the lease holder, so it
 * needs no lock; a background worker leases regions that nobody uses.
 */
#ifndef ZEN_GC_H
#define ZEN_GC_H

#include "cache/version.h"
#include "nvm/alloc.h"

extern Size zen_gc_shmem_size(void);
extern void zen_gc_init(void);

/* zen_gc_reserve -- room for n items, so that zen_gc_push cannot fail; false if DRAM is full.  Lease holder. */
extern bool zen_gc_reserve(uint32 region, uint32 n);

/* zen_gc_push -- a version of this tuple was committed by xid.  Lease holder. */
extern void zen_gc_push(uint32 region, ZenHTable *ht, uint64 tidno, TransactionId xid);

/* zen_gc_run -- handle at most max items whose time has come; returns how many.  Lease holder; never throws. */
extern uint32 zen_gc_run(uint32 region, uint32 max);

/* zen_gc_region -- handle everything that has come due in a region, and give its empty pages back.  Lease holder. */
extern void zen_gc_region(uint32 region);

/* zen_gc_all -- VACUUM: handle what has come due in every region that can be leased. */
extern void zen_gc_all(void);

/* zen_gc_pages -- VACUUM: give the empty pages of every region that can be leased back, also where nothing has come due. */
extern void zen_gc_pages(void);

/* zen_gc_pending -- items waiting, over all regions (about). */
extern uint64 zen_gc_pending(void);

/* zen_gc_forget_header -- R5: an intact header of a tuple is no more (overwritten and fenced, or its page is gone). */
extern void zen_gc_forget_header(ZenTupleHeader header);

/*
 * zen_gc_push_block -- the same for the rows that a transaction has spilled to a block of 64 TIDs; the newest xid of theirs.
 */
extern void zen_gc_push_block(uint32 region, ZenHTable *ht, uint32 block, TransactionId xid);

#endif							/* ZEN_GC_H */
