/*
 * prepared.h -- PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED, and prepared transactions after a restart.
 *
 * A prepared transaction keeps its region, with its slots written (LP = 0) and its descriptor saying PREPARED.  A
 * table in shared memory holds all that the end of the transaction needs; recovery rebuilds it from the slots of the
 * regions.
 */
#ifndef ZEN_PREPARED_H
#define ZEN_PREPARED_H

#include "base/startup.h"
#include "txn/commit.h"

/* zen_prepared_shmem -- its part of shared memory. */
extern const ZenShmem zen_prepared_shmem;

/* zen_prepared_store -- write everything that COMMIT PREPARED will need, durable on return.  May throw. */
extern void zen_prepared_store(ZenCommit *commit, uint64 full_xid);

/* zen_prepared_hand_over -- PREPARE has succeeded: the region no longer belongs to this process. */
extern void zen_prepared_hand_over(ZenCommit *commit);

/* zen_prepared_undo -- PREPARE has failed: free all that zen_prepared_store() has made.  Never throws. */
extern void zen_prepared_undo(ZenCommit *commit);

/*
 * zen_prepared_resolve -- finish every prepared transaction whose end is known to pg_xact; true if there are others.
 *
 * Called after COMMIT PREPARED and ROLLBACK PREPARED, and now and then by the background worker.  Caller is outside
 * any epoch.
 */
extern bool zen_prepared_resolve(void);

/*
 * zen_prepared_is_waiting -- does a prepared transaction have this region, and no process is ending it at this
 * moment?
 */
extern bool zen_prepared_is_waiting(uint32 region);

/*
 * zen_prepared_walk -- call visit for each slot that a prepared transaction has written, and visit_lock, if it is not
 * NULL, for each of its row locks, under the TID where it was taken.  No other process is at work.
 */
extern void zen_prepared_walk(void (*visit) (uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg),
							  void (*visit_lock) (ZenHTable *ht, uint64 tidno), void *arg);

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
 * zen_prepared_restore -- bring the versions and row locks back, as those of transactions in progress.
 *
 * All slots are known, and the maps show what is committed.  The tombstones that lead to locked rows were kept, by
 * zen_prepared_keep_links() or by the saved map.  Damage is reported, and is no error: count_damaged
 * counts it, and says whether it is to be named.  Throws when DRAM is full.
 */
extern void zen_prepared_restore(bool (*count_damaged) (void));

#endif							/* ZEN_PREPARED_H */
