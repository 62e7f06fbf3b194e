/*
 * streamlog.c -- changes of rows on their way into the WAL.
 *
 * Each change is logged when it is made, as heap logs its own.  So all that PostgreSQL does with heap's records holds
 * for zen's: the order among changes of heap and zen tables, of catalogs and of savepoints; what a rolled-back
 * savepoint has changed is dropped by its record; a reader may be sent a large transaction before its end.
 *
 * Nothing in the pool depends on these records, and redo does nothing with them.
 */
#include "stream/streamlog.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "base/guc.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "utils/memutils.h"

#define FIRST_CAPACITY	((Size) 1024)
#define KEEP_CAPACITY	((Size) 64 * 1024)	/* a larger buffer is given back
											 * after its record */

/* The record being built; it lives as long as the process. */
static char *buffer = NULL;
static Size capacity = 0;
static Size used = 0;

static void
append(const void *bytes, Size n)
{
	if (used + n > capacity)
	{
		Size		wanted = Max(capacity, FIRST_CAPACITY);

		while (wanted < used + n)
			wanted *= 2;
		buffer = buffer ? repalloc_huge(buffer, wanted) : MemoryContextAllocHuge(TopMemoryContext, wanted);
		capacity = wanted;
	}
	memcpy(buffer + used, bytes, n);
	used += n;
}

static uint32
logged_size(HeapTuple tuple)
{
	Assert(tuple == NULL || tuple->t_len >= SizeofHeapTupleHeader);
	return tuple == NULL ? 0 : tuple->t_len - ZEN_STREAM_OMITTED;
}

static void
append_tuple(HeapTuple tuple)
{
	if (tuple != NULL)
		append((char *) tuple->t_data + ZEN_STREAM_OMITTED, logged_size(tuple));
}

void
zen_streamlog_begin(RelFileLocator locator, bool is_toast)
{
	ZenStreamHead head = {
		.spc = ZEN_LOCATOR_SPC(locator),.db = ZEN_LOCATOR_DB(locator),.relnumber = ZEN_LOCATOR_NUMBER(locator),
		.flags = is_toast ? ZEN_STREAM_TOAST : 0
	};

	Assert(zen_stream != ZEN_STREAM_OFF && XLogLogicalInfoActive());
	used = 0;
	append(&head, sizeof(head));
}

void
zen_streamlog_add(ZenStreamKind kind, HeapTuple new, HeapTuple old)
{
	ZenStreamRow row = {.kind = (uint8) kind,.new_len = (uint16) logged_size(new),.old_len = logged_size(old)};

	Assert(used >= sizeof(ZenStreamHead));
	Assert((kind == ZEN_STREAM_DELETE) == (new == NULL) && row.new_len == logged_size(new));
	append(&row, sizeof(row));
	append_tuple(new);
	append_tuple(old);
}

void
zen_streamlog_end(void)
{
	Assert(used > sizeof(ZenStreamHead) && TransactionIdIsValid(GetCurrentTransactionIdIfAny()));
	Assert(CritSectionCount == 0);
	XLogBeginInsert();
	XLogRegisterData(buffer, used);
	/* a row that was applied does not go back to where it came from */
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	(void) XLogInsert(ZEN_RMGR_ID, ZEN_XLOG_ROWS);
	used = 0;
	if (capacity > KEEP_CAPACITY)
	{
		pfree(buffer);
		buffer = NULL;
		capacity = 0;
	}
}

XLogRecPtr
zen_streamlog_mark(bool with_xid)
{
	uint32		nothing = 0;

	if (zen_stream == ZEN_STREAM_OFF)
		return zen_log_message(with_xid);
	if (with_xid)
		(void) GetCurrentTransactionId();
	XLogBeginInsert();
	XLogRegisterData((char *) &nothing, sizeof(nothing));
	return XLogInsert(ZEN_RMGR_ID, ZEN_XLOG_XID);
}
