/*
 * streamrmgr.c -- the resource manager of zen's records: logical decoding, descriptions.
 *
 * rm_decode makes of each row what PostgreSQL's decoder makes of heap's (decode.c), so everything behind it is
 * PostgreSQL's: snapshots of the catalogs, savepoints, streaming, prepared transactions, toast values, output plugins.
 */
#include "stream/streamredo.h"

#include "base/compat.h"

#include "access/heapam_xlog.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "base/guc.h"
#include "miscadmin.h"
#include "nvm/pool.h"
#include "replication/decode.h"
#include "replication/logical.h"
#include "replication/reorderbuffer.h"
#include "replication/snapbuild.h"
#include "stream/streamformat.h"
#include "stream/streamtail.h"

static void
decode_take(ZenRecordReader *r, void *to, Size n)
{
	if (!zen_record_take(r, to, n))
		elog(ERROR, "record of zen's resource manager is too short");
}

static ZenRecordReader
read_record(XLogReaderState *record, ZenStreamHead *head)
{
	ZenRecordReader r = zen_record_begin(record);

	decode_take(&r, head, sizeof(*head));
	return r;
}

/* ---------- decoding ---------- */

/* A tuple for the decoder's queue; NULL if the record has none. */
static ZEN_DECODED_TUPLE
take_tuple(ZenRecordReader *r, ReorderBuffer *queue, uint32 len)
{
	ZEN_DECODED_TUPLE decoded;
	HeapTuple	tuple;

	if (len == 0)
		return NULL;
	if (len < SizeofHeapTupleHeader - ZEN_STREAM_OMITTED)
		elog(ERROR, "row in a record of zen's resource manager is too short");
	decoded = ReorderBufferAllocTupleBuf(queue, len + ZEN_STREAM_OMITTED - SizeofHeapTupleHeader);
	tuple = zen_decoded_heap_tuple(decoded);
	tuple->t_len = len + ZEN_STREAM_OMITTED;
	ItemPointerSetInvalid(&tuple->t_self);
	tuple->t_tableOid = InvalidOid;
	memset(tuple->t_data, 0, ZEN_STREAM_OMITTED);
	decode_take(r, (char *) tuple->t_data + ZEN_STREAM_OMITTED, len);
	return decoded;
}

static ReorderBufferChangeType
action_of(const ZenStreamRow *row)
{
	switch (row->kind)
	{
		case ZEN_STREAM_INSERT:
			return REORDER_BUFFER_CHANGE_INSERT;
		case ZEN_STREAM_UPDATE:
			return REORDER_BUFFER_CHANGE_UPDATE;
		case ZEN_STREAM_DELETE:
			return REORDER_BUFFER_CHANGE_DELETE;
	}
	elog(ERROR, "unexpected kind %d of a row in a record of zen's resource manager", (int) row->kind);
	return 0;
}

/*
 * Queue the rows of a record.
 *
 * The chunks of long values come before the row that they belong to.  COPY writes those of several rows first, and then
 * the rows in one record: so the decoder forgets the chunks behind the last row.
 */
static void
queue_rows(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	ZenStreamHead head;
	ZenRecordReader r = read_record(buf->record, &head);

	/* another database's, or of an origin that the plugin does not want */
	if (head.db != ctx->slot->data.database ||
		(ctx->callbacks.filter_by_origin_cb != NULL &&
		 filter_by_origin_cb_wrapper(ctx, XLogRecGetOrigin(buf->record))))
		return;
	while (r.at < r.end)
	{
		ZenStreamRow row;
		ReorderBufferChange *change;

		decode_take(&r, &row, sizeof(row));
		change = ReorderBufferAllocChange(ctx->reorder);
		change->action = action_of(&row);
		change->origin_id = XLogRecGetOrigin(buf->record);
		ZEN_LOCATOR_SPC(ZEN_CHANGE_LOCATOR(change)) = head.spc;
		ZEN_LOCATOR_DB(ZEN_CHANGE_LOCATOR(change)) = head.db;
		ZEN_LOCATOR_NUMBER(ZEN_CHANGE_LOCATOR(change)) = head.relnumber;
		change->data.tp.newtuple = take_tuple(&r, ctx->reorder, row.new_len);
		change->data.tp.oldtuple = take_tuple(&r, ctx->reorder, row.old_len);
		change->data.tp.clear_toast_afterwards = r.at == r.end;
		ReorderBufferQueueChange(ctx->reorder, XLogRecGetXid(buf->record), buf->origptr, change,
								 (head.flags & ZEN_STREAM_TOAST) != 0);
	}
}

/*
 * The stream was off before this place.  A slot that is older, and has not been moved behind it, misses changes.
 *
 * A slot that is being made is not consistent yet, and its reader copies the tables later.
 */
static void
check_gap(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	if (SnapBuildCurrentState(ctx->snapshot_builder) < SNAPBUILD_CONSISTENT || ctx->fast_forward ||
		SnapBuildXactNeedsSkip(ctx->snapshot_builder, buf->origptr))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("changes of zen tables are missing from the logical slot \"%s\"", NameStr(ctx->slot->data.name)),
			 errdetail("zen.stream was off before %X/%X of the write-ahead log.", LSN_FORMAT_ARGS(buf->endptr)),
			 errhint("Make the slot anew and copy the tables again; or call pg_replication_slot_advance() to go on "
					 "behind this place without these changes.")));
}

/* As heap_decode(). */
static void
stream_decode(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	TransactionId xid = XLogRecGetXid(buf->record);
	uint8		kind = XLogRecGetInfo(buf->record) & ~XLR_INFO_MASK;

	/* of the pool; some are inserted behind their transaction's commit record */
	if (kind >= ZEN_XLOG_SLOTS)
		return;
	ReorderBufferProcessXid(ctx->reorder, xid, buf->origptr);
	if (kind == ZEN_XLOG_XID)
		return;
	if (kind == ZEN_XLOG_GAP)
	{
		check_gap(ctx, buf);
		return;
	}
	if (SnapBuildCurrentState(ctx->snapshot_builder) < SNAPBUILD_FULL_SNAPSHOT)
		return;
	if (kind != ZEN_XLOG_ROWS)
		elog(ERROR, "unexpected record kind %u of zen's resource manager", kind);
	if (SnapBuildProcessChange(ctx->snapshot_builder, xid, buf->origptr) && !ctx->fast_forward)
		queue_rows(ctx, buf);
}

/* ---------- the other callbacks ---------- */

static const char *
kind_name(uint8 kind)
{
	return kind == ZEN_STREAM_INSERT ? "insert" : kind == ZEN_STREAM_UPDATE ? "update" : "delete";
}

static void
describe_copy(StringInfo buf, XLogReaderState *record, uint8 kind)
{
	ZenCopyHead head;

	if (XLogRecGetDataLen(record) < sizeof(head))
		return;
	memcpy(&head, XLogRecGetData(record), sizeof(head));
	appendStringInfo(buf, "region %u xid " UINT64_FORMAT " cts " UINT64_FORMAT, head.region, head.full_xid, head.cts);
	if (kind == ZEN_XLOG_SCRUB)
		appendStringInfo(buf, " slots %u", (unsigned) ((XLogRecGetDataLen(record) - sizeof(head)) / sizeof(uint64)));
}

static void
describe_tail(StringInfo buf, XLogReaderState *record)
{
	ZenRecordReader r = zen_record_begin(record);
	ZenCopyLost lost;
	uint32		n = 0;

	while (zen_record_take(&r, &lost, sizeof(lost)) && zen_record_left(&r) >= lost.len)
	{
		r.at += lost.len;
		n++;
	}
	appendStringInfo(buf, "transactions %u", n);
}

static void
describe_note(StringInfo buf, XLogReaderState *record)
{
	ZenRecordReader r = zen_record_begin(record);
	ZenCopyNote note;

	if (!zen_record_take(&r, &note, sizeof(note)))
		return;
	if (note.what == ZEN_NOTE_DRAM)
		appendStringInfo(buf, "dram " UINT64_FORMAT " of " UINT64_FORMAT, note.dram_needs, note.dram_size);
	else if (note.what == ZEN_NOTE_VERSION)
		appendStringInfo(buf, "version %u", note.number);
	else
		appendStringInfoString(buf, note.what == ZEN_NOTE_EMPTY ? "empty" : "unseen table");
}

/* For pg_waldump and pg_walinspect: describe a record. */
static void
stream_desc(StringInfo buf, XLogReaderState *record)
{
	ZenStreamHead head;
	ZenRecordReader r;
	const char *separator = "";

	uint8		kind = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	if (kind == ZEN_XLOG_SLOTS || kind == ZEN_XLOG_SCRUB)
		describe_copy(buf, record, kind);
	if (kind == ZEN_XLOG_TAIL)
		describe_tail(buf, record);
	if (kind == ZEN_XLOG_NOTE)
		describe_note(buf, record);
	if (kind != ZEN_XLOG_ROWS)
		return;
	r = read_record(record, &head);
	appendStringInfo(buf, "rel %u/%u/%u%s: ", head.spc, head.db, head.relnumber,
					 (head.flags & ZEN_STREAM_TOAST) ? " toast" : "");
	while (r.at < r.end)
	{
		ZenStreamRow row;

		decode_take(&r, &row, sizeof(row));
		if ((Size) (r.end - r.at) < row.new_len + (Size) row.old_len)
			break;
		r.at += row.new_len + (Size) row.old_len;
		appendStringInfo(buf, "%s%s %u", separator, kind_name(row.kind), row.new_len);
		if (row.old_len > 0)
			appendStringInfo(buf, " old %u", row.old_len);
		separator = ", ";
	}
}

static const char *const record_names[16] = {
	[ZEN_XLOG_ROWS >> 4] = "ROWS",
	[ZEN_XLOG_XID >> 4] = "XID",
	[ZEN_XLOG_GAP >> 4] = "GAP",
	[ZEN_XLOG_SLOTS >> 4] = "SLOTS",
	[ZEN_XLOG_TAIL >> 4] = "TAIL",
	[ZEN_XLOG_SCRUB >> 4] = "SCRUB",
	[ZEN_XLOG_BYTES >> 4] = "BYTES",
	[ZEN_XLOG_ZERO >> 4] = "ZERO",
	[ZEN_XLOG_PAGES >> 4] = "PAGES",
	[ZEN_XLOG_TABLES >> 4] = "TABLES",
	[ZEN_XLOG_RECOVERED >> 4] = "RECOVERED",
	[ZEN_XLOG_GROWN >> 4] = "GROWN",
	[ZEN_XLOG_COVERED >> 4] = "COVERED",
	[ZEN_XLOG_UNCOPIED >> 4] = "UNCOPIED",
	[ZEN_XLOG_NOTE >> 4] = "NOTE",
};

/* For pg_waldump and pg_walinspect: the name of a kind of record. */
static const char *
stream_identify(uint8 info)
{
	return record_names[info >> 4];
}

/* ---------- at the start ---------- */

static RmgrData stream_rmgr = {
	.rm_name = "zen",
	.rm_desc = stream_desc,
	.rm_identify = stream_identify,
	.rm_decode = stream_decode
};

/*
 * In mode wal the WAL has all changes of the pool, as copies need them, whatever the setting says.
 *
 * The server that pg_upgrade runs has another wal_level than later starts, and no client reads its WAL.
 */
static void
check_setting(void)
{
	bool		by_wal = zen_pool_wanted_mode() == ZEN_POOL_WAL;

	if (by_wal)
		zen_guc_imply_stream(ZEN_STREAM_REPLICA);
	if (IsBinaryUpgrade)
		zen_stream = ZEN_STREAM_OFF;
	if (zen_stream == ZEN_STREAM_REPLICA && wal_level < WAL_LEVEL_REPLICA && !by_wal)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("zen.stream = replica needs wal_level = replica or logical"),
				 errhint("Set wal_level to replica, or zen.stream to off.")));
	if (zen_stream == ZEN_STREAM_LOGICAL && wal_level < WAL_LEVEL_LOGICAL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("zen.stream = logical needs wal_level = logical"),
				 errhint("Set wal_level to logical, or zen.stream to off.")));

	/*
	 * zen's worker logs again what a crash has lost; the first place of a
	 * worker is that of the launcher of logical replication
	 */
	if (zen_stream != ZEN_STREAM_OFF && max_worker_processes < 2)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 by_wal ? errmsg("zen.pool_mode = wal needs background workers") :
				 errmsg("zen.stream = %s needs a background worker",
						zen_stream == ZEN_STREAM_LOGICAL ? "logical" : "replica"),
				 errhint("Set max_worker_processes to 8, its default, or %s.",
						 by_wal ? "zen.pool_mode to msync" : "zen.stream to off")));
}

void
zen_streamrmgr_register(void)
{
	check_setting();
	zen_stream_redo_install(&stream_rmgr);
	RegisterCustomRmgr(ZEN_RMGR_ID, &stream_rmgr);
}
