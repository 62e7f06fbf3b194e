/*
 * horizon.h -- the xid horizon: transactions that every snapshot, now and later, sees as ended.
 *
 * A process keeps the newest horizon that it has found; it only grows.  Xids are compared in 64 bits: an item may wait
 * behind a prepared transaction for more than 2^31 transactions, and a process may be idle that long.  A version's 32
 * bits mean the xid nearest to now; src/gc/README, "Xids in DRAM", says why that is right.
 */
#ifndef ZEN_HORIZON_H
#define ZEN_HORIZON_H

#include "base/compat.h"

#include "access/transam.h"

typedef struct ZenHorizon
{
	FullTransactionId passed;	/* every snapshot sees transactions up to this
								 * one as ended */
	FullTransactionId now;		/* a recent xid, with which 32-bit xids are
								 * compared */
	TransactionId xmin;			/* RecentXmin at the last look */
} ZenHorizon;

extern ZenHorizon zen_horizon;	/* of this process */

extern void zen_horizon_init(void);

/* zen_horizon_look -- look at the ProcArray; returns the oldest xid that any snapshot may not see. */
extern FullTransactionId zen_horizon_look(void);

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

#endif							/* ZEN_HORIZON_H */
