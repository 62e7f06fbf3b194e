/*
 * commit.h -- making a transaction's writes durable without a log.
 *
 * Called by the transaction callbacks in xact.c, and by PREPARE and spilling.  The protocol, and what a crash
 * leaves at each step, is in src/txn/README, "Commit".
 */
#ifndef ZEN_COMMIT_H
#define ZEN_COMMIT_H

#include "nvm/region.h"
#include "row/writeset.h"

#include "datatype/timestamp.h"

/* How far a transaction has come: it tells an abort how much to undo. */
typedef enum ZenCommitStage
{
	ZEN_STAGE_NONE,				/* no region */
	ZEN_STAGE_LEASED,			/* region leased, slots taken, nothing in NVM */
	ZEN_STAGE_WRITTEN,			/* slots written with LP = 0 */
	ZEN_STAGE_DOUBT,			/* mixed: descriptor in NVM, pg_xact decides */
	ZEN_STAGE_LP				/* zen-only: LP is durable */
} ZenCommitStage;

typedef struct ZenCommit
{
	ZenCommitStage stage;
	uint32		region;
	uint64		cts;
	ZenSlot		last;			/* the slot that carries LP, or InvalidZenSlot
								 * if nothing was to be written */
	ZenSlot		sink_slot;		/* the slot that the sink writes (R17), or
								 * InvalidZenSlot */
	uint64		told_xid;		/* the sink has been told of a transaction
								 * under this full xid; 0: of none */
} ZenCommit;

extern ZenCommit zen_my_commit; /* of this process's transaction */

/*
 * zen_commit_begin -- lease a region, unless this commit has one already.  Never throws.
 */
extern void zen_commit_begin(ZenCommit *commit);

/*
 * zen_commit_reserve -- take a region, slots, queue space and a Tx-CTS; nothing is written.
 *
 * zen_commit_reserve_own -- then, unless it is PREPARE: slots that hold no row.  One that is to carry LP, if all rows
 * were spilled; and one of sink_size bytes, if that is not 0.  False if the pool has no room for the latter: then the
 * commit must be a mixed one.
 *
 * Caller is outside any epoch.  Throw ERRCODE_DISK_FULL or ERRCODE_OUT_OF_MEMORY.  May wait for room; if interrupts are
 * not held they may be cancelled then.
 */
extern void zen_commit_reserve(ZenCommit *commit, ZenWriteSet *ws);
extern bool zen_commit_reserve_own(ZenCommit *commit, ZenWriteSet *ws, Size sink_size);

/*
 * zen_commit_await_slots -- the pool is full of slots that others keep: sleep for a moment, and have a region again.
 *
 * During the sleep other processes may collect in the region.  keep_region: they may not, since a Tx-CTS was taken for
 * it, or something was written in it that is to commit (R3).  Throws ERRCODE_DISK_FULL when there is nothing to wait
 * for, or when zen.full_timeout has passed *since, 0 at the first call.  Throws if it is cancelled.
 */
extern void zen_commit_await_slots(ZenCommit *commit, bool keep_region, TimestampTz *since);

/*
 * zen_commit_store -- write all slots with LP = 0, but for the sink's; no fence yet.  Lease holder; never throws.
 */
extern void zen_commit_store(ZenCommit *commit, ZenWriteSet *ws, bool flush_all);

/*
 * zen_commit_store_prepared -- the same for PREPARE, all flushed.  WRITTEN on return, whatever was written: the lock
 * lists follow, and an abort scrubs them.
 */
extern void zen_commit_store_prepared(ZenCommit *commit, ZenWriteSet *ws);

/*
 * zen_commit_set_lp -- fence, LP, fence (R2).  On return the transaction is committed, and durable.  Interrupts are
 * held.
 */
extern void zen_commit_set_lp(ZenCommit *commit, const ZenWriteSet *ws);

/* zen_commit_doubt -- fence; write the in-doubt descriptor. */
extern void zen_commit_doubt(ZenCommit *commit, uint64 full_xid, uint32 kind);

/* zen_commit_undo_lp -- an error after LP: durable before the error is reported. */
extern void zen_commit_undo_lp(ZenCommit *commit);

/*
 * zen_commit_finish -- the transaction has committed: resolve the doubt, account for slots overwritten, queue
 * garbage, release the region.  Caller is outside any epoch.  Never throws.
 */
extern void zen_commit_finish(ZenCommit *commit, ZenWriteSet *ws);

/* zen_commit_abort -- R7: scrub what was written, fence, release slots and region.  Never throws. */
extern void zen_commit_abort(ZenCommit *commit, ZenWriteSet *ws);

/* zen_commit_hand_over -- PREPARE has succeeded: the region, at rest, is the prepared transaction's. */
extern void zen_commit_hand_over(ZenCommit *commit);

/* zen_commit_restore -- recovery: a region's transaction is prepared, as its descriptor says. */
extern void zen_commit_restore(ZenCommit *commit, uint32 region);

/*
 * zen_commit_own_slot -- take a slot for something that is no row, after collecting if there is none.  Lease holder;
 * throws ERRCODE_DISK_FULL.
 */
extern ZenSlot zen_commit_own_slot(uint32 region, Size size);

/* zen_pop_version -- take an aborted version out of its tuple and retire it.  Never throws. */
extern void zen_pop_version(ZenWrite *write);

#endif							/* ZEN_COMMIT_H */
