/*
 * streamxids.c -- what pg_xact says of the transactions that the pool names (R19).
 */
#include "stream/streamxids.h"

#include "access/transam.h"
#include "base/fault.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"

uint64
zen_xids_full(TransactionId xid)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	return next + (int32) (xid - (TransactionId) next);
}

static TransactionId
short_xid(uint64 full_xid)
{
	return XidFromFullTransactionId(FullTransactionIdFromU64(full_xid));
}

static bool
was_given_out(uint64 full_xid)
{
	return full_xid < U64FromFullTransactionId(ReadNextFullTransactionId());
}

static bool
is_forgotten(uint64 full_xid)
{
	return full_xid < zen_xids_full(TransamVariables->oldestClogXid);
}

bool
zen_xids_committed(uint64 full_xid)
{
	bool		committed;

	if (!was_given_out(full_xid))
		return false;
	LWLockAcquire(XactTruncationLock, LW_SHARED);	/* keeps pg_xact whole */
	if (is_forgotten(full_xid))
		committed = !ZEN_FAULT(R19_FORGOTTEN_UNDONE);
	else
		committed = TransactionIdDidCommit(short_xid(full_xid));
	LWLockRelease(XactTruncationLock);
	return committed;
}

/* PostgreSQL takes an xid that seems to be ahead of the newest one for in progress. */
bool
zen_xids_in_progress(uint64 full_xid)
{
	return was_given_out(full_xid) && !is_forgotten(full_xid) && TransactionIdIsInProgress(short_xid(full_xid));
}
