/*
 * streamlog.c -- changes of rows on their way into the WAL.
 *
 * Each change is logged when it is made, as heap logs its own.  So all that PostgreSQL does with heap's records holds
 * for zen's: the order among changes of heap and zen tables, of catalogs and of savepoints; what a rolled-back
 * savepoint has changed is dropped by its record; a reader may be sent a large transaction before its end.
 *
 * Nothing in the pool depends on these records, and redo does nothing with them.
 *
 * The records of a transaction are kept here until its end, if they are few: its commit writes them to NVM as well
 * (streamtail.c), and so need not wait for the WAL.
 */
#include "stream/streamlog.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "base/guc.h"
#include "base/ownwal.h"
#include "base/stats.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "utils/memutils.h"

#define FIRST_CAPACITY	((Size) 1024)
#define KEEP_CAPACITY	((Size) 128 * 1024) /* a larger buffer is given back
											 * after the transaction */
#define MAX_MARKS		64

/*
 * The records of this transaction that are kept, and behind them the one that is being built, each behind its length;
 * before them ZEN_STREAM_ROOM bytes.  The buffer lives as long as the process.
 */
static char *buffer = NULL;
static Size capacity = 0;		/* for records */
static Size kept = 0;			/* bytes of records in the WAL */
static Size used = 0;			/* with the one being built */
static bool beyond = false;		/* there are records that are not kept */

/* A savepoint that has records: all behind `kept` are its own, or those of savepoints in it. */
typedef struct Mark
{
	int			nest_level;
	Size		kept;
} Mark;

static Mark marks[MAX_MARKS];
static int	nmarks = 0;

static char *
records(void)
{
	return buffer + ZEN_STREAM_ROOM;
}

static void
grow(Size needed)
{
	Size		wanted = Max(capacity, FIRST_CAPACITY);
	Size		bytes;

	/* a slot is written in words of 8 bytes */
	while (wanted < needed + 8)
		wanted *= 2;
	bytes = wanted + ZEN_STREAM_ROOM;
	buffer = buffer ? repalloc_huge(buffer, bytes) : MemoryContextAllocHuge(TopMemoryContext, bytes);
	capacity = wanted;
}

static void
append(const void *bytes, Size n)
{
	if (unlikely(used + n > capacity))
		grow(used + n);
	memcpy(records() + used, bytes, n);
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
	uint32		len = 0;
	ZenStreamHead head = {
		.spc = ZEN_LOCATOR_SPC(locator),.db = ZEN_LOCATOR_DB(locator),.relnumber = ZEN_LOCATOR_NUMBER(locator),
		.flags = is_toast ? ZEN_STREAM_TOAST : 0
	};

	Assert(zen_stream != ZEN_STREAM_OFF && XLogLogicalInfoActive());
	used = kept;
	append(&len, sizeof(len));
	append(&head, sizeof(head));
}

void
zen_streamlog_add(ZenStreamKind kind, HeapTuple new, HeapTuple old)
{
	ZenStreamRow row = {.kind = (uint8) kind,.new_len = (uint16) logged_size(new),.old_len = logged_size(old)};

	Assert(used >= kept + sizeof(uint32) + sizeof(ZenStreamHead));
	Assert((kind == ZEN_STREAM_DELETE) == (new == NULL) && row.new_len == logged_size(new));
	append(&row, sizeof(row));
	append_tuple(new);
	append_tuple(old);
}

void
zen_streamlog_insert(const char *record, uint32 len)
{
	Assert(CritSectionCount == 0);
	XLogBeginInsert();
	XLogRegisterData((char *) record, len);
	/* a row that was applied does not go back to where it came from */
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	(void) XLogInsert(ZEN_RMGR_ID, ZEN_XLOG_ROWS);
	zen_ownwal_records++;
	ZEN_COUNT(stream_records, 1);
	ZEN_COUNT(stream_bytes, len);
}

static void
keep_no_more(void)
{
	beyond = true;
	kept = used = 0;
	nmarks = 0;
}

/* Before a record of the present (sub)transaction is kept.  False if it is in too many savepoints. */
static bool
mark_savepoint(void)
{
	int			level = GetCurrentTransactionNestLevel();

	Assert(nmarks == 0 || marks[nmarks - 1].nest_level <= level);
	if (level == 1 || (nmarks > 0 && marks[nmarks - 1].nest_level == level))
		return true;
	if (nmarks == MAX_MARKS)
		return false;
	marks[nmarks].nest_level = level;
	marks[nmarks++].kept = kept;
	return true;
}

void
zen_streamlog_end(void)
{
	uint32		len = (uint32) (used - kept - sizeof(uint32));
	XLogRecPtr	before = XactLastRecEnd;

	Assert(len > sizeof(ZenStreamHead) && TransactionIdIsValid(GetCurrentTransactionIdIfAny()));
	memcpy(records() + kept, &len, sizeof(len));
	zen_streamlog_insert(records() + kept + sizeof(len), len);
	if (beyond || used > ZEN_STREAM_KEPT_MAX || !mark_savepoint())
	{
		keep_no_more();
		return;
	}
	kept = used;
	XactLastRecEnd = before;
}

Size
zen_streamlog_kept_len(void)
{
	return kept;
}

bool
zen_streamlog_has_room(Size behind)
{
	return buffer != NULL && kept + behind + 8 <= capacity;
}

char *
zen_streamlog_kept(Size behind)
{
	if (!zen_streamlog_has_room(behind))
		grow(kept + behind);
	used = kept;
	return records();
}

bool
zen_streamlog_is_beyond(void)
{
	return beyond;
}

void
zen_streamlog_subcommit(int nest_level)
{
	if (nmarks == 0 || marks[nmarks - 1].nest_level < nest_level)
		return;
	Assert(marks[nmarks - 1].nest_level == nest_level);
	if (nest_level == 2 || (nmarks > 1 && marks[nmarks - 2].nest_level == nest_level - 1))
		nmarks--;
	else
		marks[nmarks - 1].nest_level--;
}

void
zen_streamlog_subabort(int nest_level)
{
	while (nmarks > 0 && marks[nmarks - 1].nest_level >= nest_level)
		kept = marks[--nmarks].kept;
	used = kept;
}

void
zen_streamlog_reset(void)
{
	kept = used = 0;
	nmarks = 0;
	beyond = false;
	if (capacity > KEEP_CAPACITY)
	{
		pfree(buffer);
		buffer = NULL;
		capacity = 0;
	}
}

/* A record that is its kind. */
static XLogRecPtr
insert_kind(uint8 kind)
{
	uint32		nothing = 0;

	XLogBeginInsert();
	XLogRegisterData((char *) &nothing, sizeof(nothing));
	zen_ownwal_records++;
	return XLogInsert(ZEN_RMGR_ID, kind);
}

XLogRecPtr
zen_streamlog_mark(bool with_xid)
{
	if (zen_stream == ZEN_STREAM_OFF)
		return zen_log_message(with_xid);
	if (with_xid)
		(void) GetCurrentTransactionId();
	return insert_kind(ZEN_XLOG_XID);
}

XLogRecPtr
zen_streamlog_gap(void)
{
	Assert(zen_stream != ZEN_STREAM_OFF);
	return insert_kind(ZEN_XLOG_GAP);
}
