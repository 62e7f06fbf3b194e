/*
 * ownwal.c -- WAL records of this process that are no reason for a commit to wait for the disk.
 */
#include "base/ownwal.h"

#include "access/xlog.h"
#include "executor/instrument.h"

uint64		zen_ownwal_records = 0;

uint64
zen_ownwal_others(void)
{
	return pgWalUsage.wal_records - zen_ownwal_records;
}

TransactionId
zen_ownwal_assign_xid(void)
{
	XLogRecPtr	before = XactLastRecEnd;
	uint64		records = zen_ownwal_others();
	TransactionId xid = GetCurrentTransactionId();

	zen_ownwal_records += zen_ownwal_others() - records;
	XactLastRecEnd = before;
	return xid;
}
