/*
 * reclaim.h -- rows that wait to be collected, and giving room back: regions, pages, slots, DRAM.
 *
 * Each region has a queue of rows that its transactions have written.  The queue belongs to the lease holder, so it
 * needs no lock.
 */
#ifndef ZEN_RECLAIM_H
#define ZEN_RECLAIM_H

#include "base/startup.h"
#include "gc/collect.h"

#include "datatype/timestamp.h"

/* zen_reclaim_shmem -- the queues and the sweep's counters.  Its init sets zen_make_room() and zen_find_room(). */
extern const ZenShmem zen_reclaim_shmem;

/* ---------- queues ---------- */

typedef struct ZenGcItem
{
	uint64		tidno:38;		/* 2^32 blocks of 64 TIDs */
	uint64		htable:15;
	uint64		spilled:1;		/* all TIDs of the block, which have a spill
								 * record */
	uint64		units:10;		/* superseded, in UNIT bytes */
	FullTransactionId xid;
} ZenGcItem;

StaticAssertDecl(sizeof(ZenGcItem) == 16, "what a row change costs until its predecessor is collected");
StaticAssertDecl(ZEN_MAX_HTABLES <= 1 << 15, "an HTable's number fits its bits");

/*
 * zen_gcqueue_reserve -- room for n items, so that zen_gcqueue_push cannot fail; false if DRAM is full.
 *
 * Lease holder, or recovery for a prepared transaction's region.  Never throws.
 */
extern bool zen_gcqueue_reserve(uint32 region, uint32 n);

/*
 * zen_gcqueue_push -- versions of a row, or of the rows that were spilled to a block, were committed by xid: the newest
 * of their writers.  bytes: the room of all that they supersede.  The item's units and xid are filled in here.
 *
 * xid is less than 2^31 transactions old, and room was reserved.  Lease holder.  Never throws.
 */
extern void zen_gcqueue_push(uint32 region, ZenGcItem item, TransactionId xid, Size bytes);

/*
 * zen_gcqueue_pending -- items waiting, over all regions (about).
 * zen_gcqueue_bytes -- the bytes that they have superseded, in DRAM and NVM (about; of one row at most 64 KB count).
 * zen_gcqueue_oldest -- the xid of the oldest of them; invalid if there is none.
 */
extern uint64 zen_gcqueue_pending(void);
extern uint64 zen_gcqueue_bytes(void);
extern FullTransactionId zen_gcqueue_oldest(void);

/*
 * zen_gcqueue_arm -- the worker is about to sleep for long: the next item to be queued sets its latch.  False if items
 * are waiting already.
 * zen_gcqueue_disarm -- the worker is awake; true if an item was queued since it armed the alarm.
 */
extern bool zen_gcqueue_arm(void);
extern bool zen_gcqueue_disarm(void);

/* ---------- collecting ---------- */

/*
 * zen_collect_run -- handle at most max items whose time has come; returns how many.
 *
 * A block of spilled rows counts for 64.  Lease holder; outside any epoch.  Never throws.
 */
extern uint32 zen_collect_run(uint32 region, uint32 max);

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
