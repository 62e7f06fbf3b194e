/*
 * ownwal.c -- WAL records of this process that are no reason for a commit to wait for the disk.
 */
#include "base/ownwal.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
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

XLogRecPtr
zen_wal_end(void)
{
	XLogRecPtr	end = GetXLogInsertRecPtr();

	/*
	 * at the start of a page it points behind the page header, which does not
	 * exist yet
	 */
	if (XLogSegmentOffset(end, wal_segment_size) == SizeOfXLogLongPHD)
		end -= SizeOfXLogLongPHD;
	else if (end % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		end -= SizeOfXLogShortPHD;
	Assert(!XLogRecPtrIsInvalid(end));
	return end;
}
