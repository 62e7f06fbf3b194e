/*
 * horizon.c -- the xid horizon.
 *
 * The horizon comes from the ProcArray, and costs a look at every process.  So a process keeps what it has found, and
 * looks again when its caller cannot go on otherwise.  An old answer is safe: the horizon never falls.
 */
#include "row/horizon.h"

#include "access/xact.h"
#include "base/stats.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"

ZenHorizon	zen_horizon;

void
zen_horizon_set_now(void)
{
	FullTransactionId own = GetTopFullTransactionIdIfAny();

	zen_horizon.now = FullTransactionIdIsValid(own) ? own : ReadNextFullTransactionId();
}

FullTransactionId
zen_horizon_look(void)
{
	/*
	 * The look at the ProcArray comes first: the horizon that it finds is at
	 * most the next xid.
	 */
	TransactionId xid,
				catalog_xmin;	/* of logical slots: keeps no rows */
	FullTransactionId horizon,
				before;

	GetReplicationHorizons(&xid, &catalog_xmin);
	ZEN_COUNT(horizon_looks, 1);
	zen_horizon.now = ReadNextFullTransactionId();
	horizon = zen_horizon_widen(xid);
	Assert(FullTransactionIdPrecedesOrEquals(horizon, zen_horizon.now));
	before = FullTransactionIdFromU64(U64FromFullTransactionId(horizon) - 1);
	if (FullTransactionIdPrecedes(zen_horizon.passed, before))
		zen_horizon.passed = before;
	zen_horizon.xmin = RecentXmin;
	Assert(FullTransactionIdPrecedes(zen_horizon.passed, zen_horizon.now));
	return horizon;
}

void
zen_horizon_init(void)
{
	zen_horizon.passed = FullTransactionIdFromEpochAndXid(0, FrozenTransactionId);
}
