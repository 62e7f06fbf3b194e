/*
 * gcqueue.h -- the tuples that wait to be collected.
 *
 * Each region has a queue of tuples that its transactions have written.  The queue belongs to the lease holder, so it
 * needs no lock.  Other processes may read its length, its bytes and its oldest xid.
 */
#ifndef ZEN_GCQUEUE_H
#define ZEN_GCQUEUE_H

#include "nvm/htable.h"

#include "access/transam.h"

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
 * zen_gcqueue_shmem_size -- bytes of shared memory that zen_gcqueue_init() takes.
 * zen_gcqueue_init -- make the queues or attach to them.
 */
extern Size zen_gcqueue_shmem_size(void);
extern void zen_gcqueue_init(void);

/*
 * zen_gcqueue_reserve -- room for n items, so that zen_gcqueue_push cannot fail; false if DRAM is full.
 *
 * Lease holder, or recovery for a prepared transaction's region.  Never throws.
 */
extern bool zen_gcqueue_reserve(uint32 region, uint32 n);

/*
 * zen_gcqueue_push -- a version of this tuple was committed by xid.  bytes: the room of all that it supersedes.
 * zen_gcqueue_push_block -- the same for all rows that a transaction has spilled to a block; xid: the newest of theirs.
 *
 * xid is less than 2^31 transactions old, and room was reserved.  Lease holder.  Never throw.
 */
extern void zen_gcqueue_push(uint32 region, ZenHTable *ht, uint64 tidno, TransactionId xid, Size bytes);
extern void zen_gcqueue_push_block(uint32 region, ZenHTable *ht, uint32 block, TransactionId xid, Size bytes);

/*
 * zen_gcqueue_first -- the oldest item, or NULL.
 * zen_gcqueue_drop_first -- that item is done.
 * zen_gcqueue_note_oldest -- after items were dropped: show other processes which xid comes first now.
 *
 * Lease holder.  Never throw.
 */
extern ZenGcItem *zen_gcqueue_first(uint32 region);
extern void zen_gcqueue_drop_first(uint32 region);
extern void zen_gcqueue_note_oldest(uint32 region);

/*
 * zen_gcqueue_end -- regions from this one on have never had items.
 * zen_gcqueue_length -- items in a region's queue (about, for processes other than the lease holder).
 * zen_gcqueue_oldest_of -- the full xid of a region's first item, 0 if there is none.
 */
extern uint32 zen_gcqueue_end(void);
extern uint32 zen_gcqueue_length(uint32 region);
extern uint64 zen_gcqueue_oldest_of(uint32 region);

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

#endif							/* ZEN_GCQUEUE_H */
