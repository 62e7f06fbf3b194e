/*
 * twophase.h -- PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.
 */
#ifndef ZEN_TWOPHASE_H
#define ZEN_TWOPHASE_H

#include "txn/commit.h"

/* zen_twophase_init -- in shmem_startup_hook, after zen_prepared_init(). */
extern void zen_twophase_init(void);

/* zen_twophase_prepare -- write everything that COMMIT PREPARED will need, durable on return.  May throw. */
extern void zen_twophase_prepare(ZenCommit *commit, uint64 full_xid);

/* zen_twophase_detach -- PREPARE has succeeded: the region no longer belongs to this process. */
extern void zen_twophase_detach(ZenCommit *commit);

/* zen_twophase_undo -- PREPARE has failed: free all that zen_twophase_prepare() has made.  Never throws. */
extern void zen_twophase_undo(ZenCommit *commit);

/*
 * zen_twophase_resolve -- finish every prepared transaction whose end is known to pg_xact; true if there are others.
 *
 * Called after COMMIT PREPARED and ROLLBACK PREPARED, and now and then by the background worker.  Caller is outside
 * any epoch.
 */
extern bool zen_twophase_resolve(void);

#endif							/* ZEN_TWOPHASE_H */
