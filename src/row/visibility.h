/*
 * visibility.h -- which version of a row does a snapshot see, and which versions does every snapshot see?
 *
 * The caller is inside an epoch for as long as it uses the chain.
 */
#ifndef ZEN_VISIBILITY_H
#define ZEN_VISIBILITY_H

#include "cache/version.h"

#include "access/transam.h"
#include "base/startup.h"
#include "utils/snapshot.h"

typedef enum ZenXidState
{
	ZEN_XID_CURRENT,			/* this transaction or a live subtransaction
								 * of it */
	ZEN_XID_IN_PROGRESS,
	ZEN_XID_COMMITTED,
	ZEN_XID_ABORTED
} ZenXidState;

/* zen_version_state -- how the version's writer has ended, if it has; leaves hint bits. */
extern ZenXidState zen_version_state(ZenVersion *v);

/* zen_snapshot_sees -- does a snapshot (MVCC, SELF or ANY) see the writer of v?  A tombstone may be seen. */
extern bool zen_snapshot_sees(ZenVersion *v, Snapshot snapshot);

/*
 * zen_visible_version -- the version of the chain that the snapshot sees, or NULL.
 *
 * Never a tombstone.  SnapshotAny gives the newest version that has not aborted.  SnapshotDirty sets the snapshot's
 * xmin, xmax and speculativeToken.  *successor: the next newer version that has not aborted, or NULL.
 */
extern ZenVersion *zen_visible_version(ZenVersion *head, Snapshot snapshot, ZenVersion **successor);

/* zen_find_version -- the version with this code, aborted ones included, or NULL; and its successor as above. */
extern ZenVersion *zen_find_version(ZenVersion *head, uint32 code, ZenVersion **successor);

/* zen_top_version -- the newest version that has not aborted, or NULL. */
extern ZenVersion *zen_top_version(ZenVersion *head);

/* ---------- the horizon ---------- */

/*
 * The xid horizon: transactions that every snapshot, now and later, sees as ended.
 *
 * A process keeps the newest horizon that it has found; it only grows.  Xids are compared in 64 bits: an item may wait
 * behind a prepared transaction for more than 2^31 transactions, and a process may be idle that long.  A version's 32
 * bits mean the xid nearest to now; src/gc/README, "Xids in DRAM", says why that is right.
 */
typedef struct ZenHorizon
{
	FullTransactionId passed;	/* every snapshot sees transactions up to this
								 * one as ended */
	FullTransactionId now;		/* a recent xid, with which 32-bit xids are
								 * compared */
	TransactionId xmin;			/* RecentXmin at the last look */
} ZenHorizon;

extern ZenHorizon zen_horizon;	/* of this process */

/*
 * zen_horizon_look -- look at the ProcArray, and move the horizon; returns the oldest xid that any snapshot may not
 * see.
 */
extern FullTransactionId zen_horizon_look(void);

/*
 * W4: where stores are lazy, a crash may lose an asynchronous commit whose record is not flushed yet.  What that
 * transaction has superseded is not free before.  So the horizon lags behind until the WAL is flushed.
 *
 * zen_horizon_begin_async -- this transaction's commit will be asynchronous; nothing of it is visible yet.
 *
 * zen_horizon_end_async -- it has ended.  Nothing, if it is none.
 */
extern void zen_horizon_begin_async(void);
extern void zen_horizon_end_async(void);

extern const ZenShmem zen_horizon_shmem;

/* zen_horizon_set_now -- before xids are widened: this process's own xid, or the next one. */
extern void zen_horizon_set_now(void);

/* The xid nearest to now that has these 32 bits. */
static inline FullTransactionId
zen_horizon_widen(TransactionId xid)
{
	uint64		now = U64FromFullTransactionId(zen_horizon.now);

	Assert(FullTransactionIdIsValid(zen_horizon.now));	/* it was set */
	if (!TransactionIdIsNormal(xid))
		return FullTransactionIdFromEpochAndXid(0, xid);
	return FullTransactionIdFromU64(now + (int32) (xid - (TransactionId) now));
}

/* zen_horizon_has_passed -- was the transaction behind the horizon when this process last looked? */
static inline bool
zen_horizon_has_passed(TransactionId xid)
{
	return FullTransactionIdPrecedesOrEquals(zen_horizon_widen(xid), zen_horizon.passed);
}

#endif							/* ZEN_VISIBILITY_H */
