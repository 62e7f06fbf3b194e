/*
 * prepared.h -- the table of prepared transactions, and their row locks in NVM.
 *
 * A prepared transaction keeps its region, with its slots written (LP = 0) and its descriptor saying PREPARED.  The
 * table is in shared memory and holds all that the end of the transaction needs; recovery rebuilds it from the
 * slots of the regions.
 */
#ifndef ZEN_PREPARED_H
#define ZEN_PREPARED_H

#include "txn/commit.h"

/* Slots of a transaction, as recovery finds them. */
typedef struct ZenFoundSlots ZenFoundSlots;

/*
 * The prepared transaction of a region.  Its session fills it, without a lock; others read it once in_use is set.  From
 * then on it is changed under ZEN_LOCK_RECOVERY, held exclusively.
 */
typedef struct ZenPrepared
{
	bool		in_use;
	TransactionId xid;
	uint64		full_xid;
	ZenCommit	commit;
	ZenWriteSet set;			/* in the arena.  The lock lists' slots stand
								 * behind the writes, with version NULL */
	ZenSlot    *damaged;		/* arena; versions in blocks that recovery has
								 * found damaged */
	uint32		ndamaged;
	uint32		damaged_capacity;
	ZenFoundSlots *found;		/* arena; during recovery */
} ZenPrepared;

extern ZenPrepared *zen_prepared;	/* [ZEN_MAX_REGIONS] */

extern Size zen_prepared_shmem_size(void);
extern void zen_prepared_init(void);

/*
 * zen_prepared_reserve -- copy the write set, and take slots for lock lists in the region.
 *
 * Throws ERRCODE_DISK_FULL or ERRCODE_OUT_OF_MEMORY; zen_prepared_free_lists() and zen_prepared_free() undo it.
 */
extern void zen_prepared_reserve(ZenPrepared *p, uint32 region);

/* zen_prepared_write_lists -- write the locks to their slots; flushed, not fenced.  Lease holder; never throws. */
extern void zen_prepared_write_lists(ZenPrepared *p, uint64 cts);

/*
 * zen_prepared_free_lists -- leave the lock lists out, and free their slots, which hold nothing.
 * zen_prepared_scrub_lists -- the same if they were written: scrubbed first, durably.
 *
 * Lease holder; never throw.
 */
extern void zen_prepared_free_lists(ZenPrepared *p);
extern void zen_prepared_scrub_lists(ZenPrepared *p);

/* zen_prepared_free -- free the arrays, and empty the entry.  Caller holds ZEN_LOCK_RECOVERY exclusively. */
extern void zen_prepared_free(ZenPrepared *p);

/*
 * zen_prepared_is_waiting -- does a prepared transaction have this region, and no process is ending it at this
 * moment?
 */
extern bool zen_prepared_is_waiting(uint32 region);

/*
 * zen_prepared_walk -- call visit for each slot that a prepared transaction has written.  No other process is at
 * work.
 */
extern void zen_prepared_walk(void (*visit) (uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg), void *arg);

/* ---------- recovery ---------- */

/* zen_prepared_found -- a slot of a region's prepared transaction, sound or damaged.  Throws when DRAM is full. */
extern void zen_prepared_found(uint32 region, ZenSlot slot);

/*
 * zen_prepared_keep_links -- keep the tombstones that lead from a TID where a row was locked to where it is now.
 *
 * After a scan, before tombstones without older versions go.  Each counts as one older version for each lock, until
 * zen_prepared_restore() has an entry of it.  count_damaged: as there.  Throws when DRAM is full.
 */
extern void zen_prepared_keep_links(bool (*count_damaged) (void));

/*
 * zen_prepared_walk_locks -- call visit for each row lock of a prepared transaction, under the TID where it was taken.
 * No other process is at work.
 */
extern void zen_prepared_walk_locks(void (*visit) (ZenHTable *ht, uint64 tidno, void *arg), void *arg);

/*
 * zen_prepared_restore -- bring the versions and row locks back, as those of transactions in progress.
 *
 * All slots are known, and the maps show what is committed.  The tombstones that lead to locked rows were kept, by
 * zen_prepared_keep_links() or by the saved map.  Damage is reported, and is no error: count_damaged
 * counts it, and says whether it is to be named.  Throws when DRAM is full.
 */
extern void zen_prepared_restore(bool (*count_damaged) (void));

#endif							/* ZEN_PREPARED_H */
