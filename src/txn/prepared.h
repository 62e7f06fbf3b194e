/*
 * twophase.h -- prepared transactions.
 *
 * A prepared transaction keeps its region, with its slots written (LP = 0) and its descriptor saying PREPARED.  What has
 * to be done at its end is kept in shared memory, or rebuilt by recovery from the slots of its region.
 */
#ifndef ZEN_TWOPHASE_H
#define ZEN_TWOPHASE_H

#include "txn/commit.h"

extern Size zen_twophase_shmem_size(void);
extern void zen_twophase_init(void);

/* zen_twophase_prepare -- write everything that COMMIT PREPARED will need, durable on return.  May throw. */
extern void zen_twophase_prepare(ZenCommit *commit, uint64 full_xid);

/* zen_twophase_detach -- PREPARE has succeeded: the region no longer belongs to this process. */
extern void zen_twophase_detach(ZenCommit *commit);

/* zen_twophase_undo -- PREPARE has failed before it succeeded: free what prepare has made. */
extern void zen_twophase_undo(ZenCommit *commit);

/*
 * zen_twophase_resolve -- finish every prepared transaction whose end is known to pg_xact.
 *
 * Called after COMMIT PREPARED and ROLLBACK PREPARED, and now and then by the background worker.  True if there are others.
 */
extern bool zen_twophase_resolve(void);

/*
 * zen_twophase_holder -- a locker of the list that is prepared, or in the course of it; InvalidTransactionId if none.
 *
 * Its lock is in NVM under the row's present TID, so the row must not leave that TID.  Caller is outside any epoch.
 */
extern TransactionId zen_twophase_holder(const ZenLocker *lockers, uint32 n);

/* zen_twophase_is_waiting -- does a prepared transaction have this region, and is nobody ending it at this moment? */
extern bool zen_twophase_is_waiting(uint32 region);

/* zen_twophase_walk -- call visit for each slot that a prepared transaction has written.  Nobody else is at work. */
extern void zen_twophase_walk(void (*visit) (uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg), void *arg);

/* ---------- recovery ---------- */

/* A slot of a prepared transaction was found, sound or damaged: a version or a list of its locks.  Throws when DRAM is full. */
extern void zen_twophase_found(uint32 region, ZenSlot slot);

/*
 * All slots are known, and the maps show what is committed: bring the versions and row locks back as those of a transaction in
 * progress.  What is damaged is reported, and no error: count_damaged counts it, and says whether it is to be named.  Throws when
 * DRAM is full.
 */
extern void zen_twophase_restore(bool (*count_damaged) (void));

#endif							/* ZEN_TWOPHASE_H */
