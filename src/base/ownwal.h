/*
 * ownwal.h -- WAL records of this process that are no reason for a commit to wait for the disk.
 *
 * Process-local.  PostgreSQL flushes a commit record if its transaction has written any other record, which
 * XactLastRecEnd says.  The code that writes one of these records sets XactLastRecEnd back, and counts the record here.
 */
#ifndef ZEN_OWNWAL_H
#define ZEN_OWNWAL_H

#include "base/compat.h"

#include "access/xact.h"
#include "access/xlogdefs.h"

/* Records of this process so far. */
extern uint64 zen_ownwal_records;

/* zen_ownwal_others -- the WAL records that this process has written besides. */
extern uint64 zen_ownwal_others(void);

extern TransactionId zen_ownwal_assign_xid(void);

/*
 * zen_xid_assign -- the xid of the (sub)transaction, a new one if it has none yet.
 *
 * For a savepoint PostgreSQL may log whose subtransaction the xid is, for readers of the WAL.  That record counts as
 * one of these: it says nothing of what has been committed.
 */
static inline TransactionId
zen_xid_assign(void)
{
	TransactionId xid = GetCurrentTransactionIdIfAny();

	return likely(TransactionIdIsValid(xid)) ? xid : zen_ownwal_assign_xid();
}

/* zen_wal_end -- the end of all WAL that exists, of any process, written or not. */
extern XLogRecPtr zen_wal_end(void);

#endif							/* ZEN_OWNWAL_H */
