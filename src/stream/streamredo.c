/*
 * streamredo.c -- redo of zen's records: the pool of a standby or of a restored server follows the WAL.
 *
 * Redo is blind: it stores the bytes of a record at their place and reads neither maps nor slots.  So it may begin at
 * any earlier record again, and ends in the same state.  src/stream/README, "Copies of the pool", says which
 * transactions have committed in a copy.
 */
#include "stream/streamredo.h"

#include "access/clog.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogrecovery.h"
#include "base/fault.h"
#include "base/guc.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "nvm/filetime.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "nvm/persist.h"
#include "nvm/pool.h"
#include "nvm/grow.h"
#include "nvm/region.h"
#include "nvm/repair.h"
#include "nvm/tuple.h"
#include "standby/standbycollect.h"
#include "standby/standbyrows.h"
#include "storage/ipc.h"
#include "stream/streamclients.h"
#include "stream/streamformat.h"
#include "stream/streamtail.h"
#include "stream/streamxids.h"

static void
stop_replay(const ZenRecordReader *r, const char *what, const char *hint)
{
	ereport(PANIC,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the zen pool cannot follow the write-ahead log at %X/%X: %s", LSN_FORMAT_ARGS(r->lsn), what),
			 errhint("%s", hint)));
}

static void
misfit(const ZenRecordReader *r, const char *what)
{
	stop_replay(r, what, "Take a new base backup of the primary server.");
}

/* From here on the WAL has what this zen does not understand.  Nothing of it is replayed. */
static void
check_version(const ZenRecordReader *r, uint32 version)
{
	uint32		own = ZEN_STREAM_VERSION + zen_stream_ahead;

	if (version > own)
		stop_replay(r, psprintf("zen's records are of version %u from there on, and this zen %s reads versions 1 to %u",
								version, ZEN_VERSION, own),
					"Install the version of zen that has written them, or a newer one, and start this server again.");
}

static void
redo_take(ZenRecordReader *r, void *to, Size n)
{
	if (!zen_record_take(r, to, n))
		misfit(r, "a record is too short");
}

/* Bytes of a place in the pool, which must have them. */
static char *
redo_place(const ZenRecordReader *r, uint64 offset, Size len)
{
	if (offset + len < offset || offset + len > zen_pool_pages() * ZEN_PAGE_SIZE)
		misfit(r, "the pool is smaller than the primary server's");
	return zen_pool.base + offset;
}

/* Redo does nothing to a primary's pool (R18), and to a copy that follows no longer. */
static bool
is_copy(void)
{
	return zen_pool.base != NULL && (zen_pool_is_replica() || ZEN_FAULT(R18_REDO_ON_PRIMARY)) && zen_pool_is_copied();
}

/* ---------- lazy redo: mode wal ---------- */

static bool redo_is_lazy = false;	/* stores of redo become durable by a sync */
static bool is_dirty = false;	/* there were some since the last sync */

/*
 * W7: all that redo has stored so far is durable.  Before a record from which a restart may begin, and at the end of
 * replay.
 */
static void
sync_redone(void)
{
	if (!redo_is_lazy || !is_dirty || ZEN_FAULT(W7_REDO_UNSYNCED))
		return;
	zen_pool_sync();
	zen_pool_replay_rests();
	is_dirty = false;
}

/* A standby that is stopped: no later start may end replay earlier, nor has it to end much later. */
static void
redo_exits(int code, Datum arg)
{
	if (is_copy())
		sync_redone();
}

/*
 * Note that what this record says is about to be stored.  Lazy stores may be on disk at any time, so the note is ahead
 * of them:
 *
 * - A server that replays to the WAL's end comes as far again.  It needs no note.
 * - One that replays from elsewhere does so, too, if no target ends recovery: as far as PostgreSQL has read ahead.
 * - With a target the note may be ahead of the truth by that.  If the server crashes then, recovery cannot end in
 *   between, but still at any place behind.
 */
static void
note_replay(const XLogReaderState *record)
{
	uint64		end = record->EndRecPtr;

	is_dirty = true;
	if (!redo_is_lazy)
		zen_pool_replays(end, end);
	else if (ArchiveRecoveryRequested)
	{
		/*
		 * thousands of records may have been read ahead: none is looked at
		 * while the last note holds
		 */
		zen_pool_replays(end, end <= zen_pool_replayed() ? end : zen_read_end(record));
	}
}

/* ---------- transactions ---------- */

/*
 * The watermark takes over from the descriptor: durable, before that goes.  A restart may not meet its record again.
 *
 * It goes when another one takes its place, by a record that says what the watermark says.  A backup tool may copy the
 * line in between, with the watermark as it was before and without the descriptor (src/stream/README, "Copies of a
 * copy").
 */
static void
settle_committed(uint32 region, uint64 cts)
{
	if (ZEN_FAULT(R18_DESCRIPTOR_FIRST))
	{
		zen_region_doubt_clear(region);
		zen_fault_stop(true);
	}
	zen_region_replay_committed(region, cts);
	zen_fault_stop(ZEN_FAULT(R18_STOP_SETTLED));
	if (ZEN_FAULT(R18_DESCRIPTOR_GOES))
		zen_region_doubt_clear(region);
	else
		zen_region_replay_decided(region);
}

/*
 * The region's newest transaction has ended, or is not known yet: a backup may have copied a descriptor from the
 * future, whose own record comes.
 */
static void
redo_settle(uint32 region)
{
	uint64		xid,
				cts;

	if (!zen_region_doubt_written(region) || zen_region_doubt_read(region, &xid, &cts) == ZEN_DOUBT_NONE ||
		zen_region_replay_is_committed(region, cts))
		return;
	if (zen_xids_committed(xid) && !ZEN_FAULT(R18_NOT_SETTLED))
		settle_committed(region, cts);
	else
		zen_region_doubt_clear(region);
}

/* The region's next transaction is replayed: its record and pg_xact say how the one before has ended. */
static void
settle_former(const ZenCopyHead *next)
{
	uint64		committed = next->since == 0 ? 0 : next->cts - next->since;

	if (!zen_region_replay_is_committed(next->region, committed) && !ZEN_FAULT(R18_NOT_SETTLED))
		settle_committed(next->region, committed);
	redo_settle(next->region);
}

static ZenCopyHead
take_head(ZenRecordReader *r)
{
	ZenCopyHead head;

	redo_take(r, &head, sizeof(head));
	if (head.region >= ZEN_MAX_REGIONS || head.since > head.cts)
		misfit(r, "a record names a region that cannot be");
	return head;
}

/* ---------- slots ---------- */

/*
 * A page has its word before anything is on it.  So one that is free has been given back since, by a record that was
 * replayed before, or by a recovery that has not come to its end: it stays zero.
 */
static bool
is_given_back(ZenSlot slot)
{
	return !ZEN_FAULT(R18_STORED_ON_FREE) && zen_nvm_load64(zen_page_word(zen_slot_page(slot))) == 0;
}

/*
 * A version that holds only what changed: the copy's format says that it may have such ones before it has the first
 * (R22), and a promotion reads its page (S18).
 */
static void
expect_delta(ZenSlot slot, const char *version, uint16 len)
{
	static bool raised = false;
	uint16		mark;

	if (len < ZEN_HEADER_SIZE + sizeof(ZenDelta))
		return;
	memcpy(&mark, version + ZEN_HEADER_SIZE, sizeof(mark));
	if (mark != ZEN_DELTA_MARK)
		return;
	zen_page_has_deltas(slot);
	if (!raised)
		zen_pool_raise_format(ZEN_FORMAT_VERSION_DELTAS);
	raised = true;
}

static void
store_slot(ZenRecordReader *r)
{
	ZenCopySlot s;
	char	   *at;

	redo_take(r, &s, sizeof(s));
	at = redo_place(r, s.slot * ZEN_SLOT_UNIT, Max(s.len, ZEN_TOMBSTONE_SIZE));
	if (zen_record_left(r) < s.len)
		misfit(r, "a record is too short");
	if (is_given_back(s.slot))
	{
		r->at += s.len;
		return;
	}
	if (s.len == 0)
	{
		zen_tuple_scrub(s.slot);
		return;
	}
	expect_delta(s.slot, r->at, s.len);
	if (ZEN_FAULT(COPY_STORED_SLOWLY) || ZEN_FAULT(COPY_SEEN_TORN))
	{
		zen_nvm_copy(at + ZEN_HEADER_SIZE, r->at + ZEN_HEADER_SIZE, s.len - ZEN_HEADER_SIZE);
		pg_usleep(100);
	}
	zen_nvm_copy(at, r->at, s.len);
	if (!ZEN_FAULT(R18_REDO_UNFLUSHED))
		zen_flush(at, s.len);
	r->at += s.len;
}

/*
 * On a hot standby: the slots of the record are about to be stored over, or have been.  The reader stays where it is.
 */
static void
tell_standby(ZenRecordReader r, uint64 full_xid, bool stored)
{
	while (zen_standby_follows() && r.at < r.end)
	{
		ZenCopySlot s;
		ZenTupleHeader next;

		redo_take(&r, &s, sizeof(s));
		(void) redo_place(&r, s.slot * ZEN_SLOT_UNIT, Max(s.len, ZEN_TOMBSTONE_SIZE));
		if (zen_record_left(&r) < s.len || (s.len != 0 && s.len < sizeof(next)))
			misfit(&r, "a record is too short");
		if (s.len != 0)
			memcpy(&next, r.at, sizeof(next));
		r.at += s.len;
		if (is_given_back(s.slot))
			continue;
		if (!stored)
			zen_standby_leaves(s.slot, full_xid, s.len != 0 ? &next : NULL);
		else if (s.len != 0)
			zen_standby_stored(s.slot, full_xid);
	}
}

static void
redo_slots(ZenRecordReader *r)
{
	ZenCopyHead head = take_head(r);
	ZenRecordReader slots = *r;

	if (head.full_xid == 0)
		zen_standby_anew("a record does not name its transaction");
	if (head.kind != ZEN_DOUBT_NONE)
	{
		settle_former(&head);
		zen_standby_decides(head.region, zen_region_replayed(head.region), head.full_xid);
	}
	tell_standby(slots, head.full_xid, false);
	zen_standby_await_readers();
	while (r->at < r->end)
		store_slot(r);
	zen_fence();
	tell_standby(slots, head.full_xid, true);
	if (ZEN_FAULT(R18_DECIDED_EARLY) && head.kind == ZEN_DOUBT_COMMIT)
		zen_region_replay_committed(head.region, head.cts);
	else if (head.kind != ZEN_DOUBT_NONE)
		zen_region_replay_doubt(head.region, head.full_xid, head.cts, head.kind);
}

/*
 * What is in doubt in these regions is older, and has ended.  Watermarks are raised when all is stored: a restart may
 * come in between, an end of replay may not.
 */
static void
redo_tail(ZenRecordReader *r)
{
	const char *begin = r->at;
	ZenCopyLost lost;

	zen_standby_anew("the primary server has crashed");
	while (r->at < r->end)
	{
		const char *next;

		redo_take(r, &lost, sizeof(lost));
		if (lost.region >= ZEN_MAX_REGIONS || zen_record_left(r) < lost.len)
			misfit(r, "a record of lost transactions is damaged");
		for (next = r->at + lost.len; r->at < next;)
			store_slot(r);
	}
	zen_fence();
	for (r->at = begin; r->at < r->end; r->at += lost.len)
	{
		redo_take(r, &lost, sizeof(lost));
		redo_settle(lost.region);
		zen_region_replay_committed(lost.region, lost.cts);
	}
}

static void
redo_scrub(ZenRecordReader *r)
{
	ZenCopyHead head = take_head(r);
	const char *begin = r->at;
	uint64		xid,
				cts;

	while (zen_standby_follows() && r->at < r->end)
	{
		ZenSlot		slot;

		redo_take(r, &slot, sizeof(slot));
		(void) redo_place(r, slot * ZEN_SLOT_UNIT, ZEN_TOMBSTONE_SIZE);
		if (!is_given_back(slot))
			zen_standby_leaves(slot, head.full_xid, NULL);
	}
	zen_standby_await_readers();
	r->at = begin;
	while (r->at < r->end)
	{
		ZenSlot		slot;

		redo_take(r, &slot, sizeof(slot));
		(void) redo_place(r, slot * ZEN_SLOT_UNIT, ZEN_TOMBSTONE_SIZE);
		if (!is_given_back(slot))
			zen_tuple_scrub(slot);
	}
	zen_fence();
	if (head.full_xid != 0 && zen_region_doubt_read(head.region, &xid, &cts) != ZEN_DOUBT_NONE && xid == head.full_xid)
		zen_region_doubt_clear(head.region);
}

/*
 * The primary may take away other evidence now.  What is in doubt here is either covered by it, and has committed, or
 * comes later.
 */
static void
redo_covered(ZenRecordReader *r)
{
	ZenCopyHead head = take_head(r);

	zen_region_replay_committed(head.region, head.cts);
}

/* ---------- directories ---------- */

static void
store_bytes(ZenRecordReader *r)
{
	uint64		offset;
	Size		len;
	char	   *at;

	redo_take(r, &offset, sizeof(offset));
	len = r->end - r->at;
	at = redo_place(r, offset, len);
	for (Size i = 0; i < len; i += sizeof(uint64))
	{
		uint64		word;

		redo_take(r, &word, sizeof(word));
		zen_nvm_store64((uint64 *) (at + i), word);
	}
	zen_persist(at, len);
	zen_standby_bytes_changed(offset, len);
}

static void
zero_page(uint32 pageno)
{
	zen_standby_page_leaves(pageno);
	zen_nvm_zero(zen_page_ptr(pageno), ZEN_PAGE_SIZE);
	zen_nvm_store64(zen_page_word(pageno), 0);
	zen_persist(zen_page_word(pageno), sizeof(uint64));
	zen_standby_page_changed(pageno);
}

static void
redo_zero(ZenRecordReader *r)
{
	uint32		pageno;

	redo_take(r, &pageno, sizeof(pageno));
	(void) redo_place(r, pageno * ZEN_PAGE_SIZE, ZEN_PAGE_SIZE);
	zero_page(pageno);
}

/* The page's word is damaged.  The record has the right one, and what is on the page stays. */
static void
note_damaged_word(uint32 pageno, uint64 word)
{
	if (zen_one_bit(zen_nvm_load64(zen_page_word(pageno)) ^ word))
		zen_note_repair(zen_page_word(pageno));
	else
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("entry %u of the zen page directory was damaged", pageno),
				 errdetail("It was set right from the write-ahead log.")));
}

/*
 * A page that has changed hands without a record of it holds nothing that the primary has: its versions on the primary
 * are logged after this record, or were never committed.
 */
static void
redo_pages(ZenRecordReader *r)
{
	uint32		first;

	redo_take(r, &first, sizeof(first));
	for (uint32 p = first; r->at < r->end; p++)
	{
		uint64		word,
					now;

		redo_take(r, &word, sizeof(word));
		(void) redo_place(r, p * ZEN_PAGE_SIZE, ZEN_PAGE_SIZE);
		if (!zen_page_is_data(p))
			continue;
		now = zen_nvm_load64(zen_page_word(p));
		if (now == word)
			continue;
		if (word != 0 && !zen_page_word_fits(p, now))
			note_damaged_word(p, word);
		else if (now != 0)
			zero_page(p);
		zen_nvm_store64(zen_page_word(p), word);
		zen_flush(zen_page_word(p), sizeof(word));
		zen_standby_page_changed(p);
	}
	zen_fence();
}

/* A range of the HTable directory.  The record has the entries in use, in order; all others become zero. */
static void
redo_tables(ZenRecordReader *r)
{
	uint32		range[2];
	uint32		next;

	redo_take(r, range, sizeof(range));
	next = range[0];
	if (range[1] > ZEN_MAX_HTABLES || range[0] > range[1])
		misfit(r, "a record names tables that cannot be");
	while (next < range[1])
	{
		uint32		i = range[1];
		ZenHTableEntry entry;

		if (r->at < r->end)
		{
			redo_take(r, &i, sizeof(i));
			redo_take(r, &entry, sizeof(entry));
		}
		if (i < next || i > range[1])
			misfit(r, "a record names tables in no order");
		if (next < i)
		{
			zen_nvm_zero(&zen_pool.htables[next], (i - next) * sizeof(entry));
			next = i;
		}
		if (i == range[1])
			break;
		zen_nvm_copy(&zen_pool.htables[i], &entry, sizeof(entry));
		zen_flush(&zen_pool.htables[i], sizeof(entry));
		next = i + 1;
	}
	zen_fence();
	zen_standby_bytes_changed(ZEN_OFF_HTABLES + range[0] * sizeof(ZenHTableEntry),
							  (range[1] - range[0]) * sizeof(ZenHTableEntry));
}

/* The primary has been recovered: of the transactions in doubt only prepared ones are left. */
static void
redo_recovered(ZenRecordReader *r)
{
	uint32		n;

	for (uint32 i = 0; i < ZEN_MAX_REGIONS; i++)
		redo_settle(i);
	redo_take(r, &n, sizeof(n));
	for (uint32 i = 0; i < n; i++)
	{
		ZenCopyHead head = take_head(r);

		zen_region_replay_doubt(head.region, head.full_xid, head.cts, head.kind);
	}
}

static void
redo_grown(ZenRecordReader *r)
{
	uint32		file,
				first,
				npages;

	redo_take(r, &file, sizeof(file));
	redo_take(r, &first, sizeof(first));
	redo_take(r, &npages, sizeof(npages));
	if (file >= (uint32) zen_pool.nfiles)
		stop_replay(r, "the primary server's pool has more files",
					"Add the name of a new file to zen.pool_path, and start this server again.");
	if (first != zen_pool.files[file].first)
		misfit(r, "the pool got a file while zen.pool_max_size was not the primary server's");
	if (npages > zen_file_pages(file) && !zen_grow_replay(file, npages))
		stop_replay(r, "the pool cannot be made as large as the primary server's",
					"Raise zen.pool_max_size, or make room in the file system, and start this server again.");
}

/* ---------- to follow or not ---------- */

/*
 * The server is going to lack rows.  Nothing behind this place may be replayed, and so acknowledged, unless the
 * operator has said that they are not wanted.
 */
static void
lack_rows(const ZenRecordReader *r, const char *why)
{
	static bool said = false;

	if (zen_allow_copies_without_rows && said)
		return;
	said = true;
	ereport(zen_allow_copies_without_rows ? WARNING : PANIC,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the zen pool does not follow the primary server at %X/%X: %s", LSN_FORMAT_ARGS(r->lsn), why),
			 errdetail("This server will not have the rows of zen tables."),
			 errhint("Set zen.stream to replica on the primary server, restart it, and take a new base backup.  To go "
					 "on without the rows of zen tables, set zen.allow_copies_without_rows to on here.")));
}

/* The primary has no rows, so what a pool has is of no use any more; one that does not follow does from here on. */
static void
become_empty(void)
{
	zen_standby_anew("the primary server has an empty pool");
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_page_is_data(p) && zen_nvm_load64(zen_page_word(p)) != 0 && !ZEN_FAULT(R18_NOT_EMPTIED))
			zero_page(p);
	zen_nvm_zero(zen_pool.htables, ZEN_MAX_HTABLES * sizeof(ZenHTableEntry));
	if (!ZEN_FAULT(R18_NOT_EMPTIED))
		zen_region_replay_none();
	is_dirty = true;
	sync_redone();				/* before the pool says that it follows */
	zen_pool_begin_copy();
}

/* Are places in our directories those of the primary?  If a file is lacking here, redo of GROWN reports it. */
static bool
is_laid_out_alike(ZenRecordReader *r, uint32 nfiles)
{
	for (uint32 i = 0; i < nfiles; i++)
	{
		ZenCopyLayout layout;

		redo_take(r, &layout, sizeof(layout));
		if (i < (uint32) zen_pool.nfiles &&
			(layout.first != zen_pool.files[i].first || layout.first_data != zen_pool.files[i].first_data))
			return false;
	}
	return true;
}

static void
redo_empty(ZenRecordReader *r, uint32 nfiles, bool follows)
{
	if (is_laid_out_alike(r, nfiles))
		become_empty();
	else if (follows)
		misfit(r, "the primary server has made a new pool, which is laid out otherwise");
	else
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the zen pool cannot follow that of the primary server, which is laid out otherwise"),
				 errdetail("This server stops when the primary server has zen tables."),
				 errhint("Stop it, remove the empty pool's files and \"zen.state\", set zen.pool_size, "
						 "zen.pool_max_size and the files of zen.pool_path as on the primary server, and start it.")));
}

/* Can the tables be opened here after a promotion?  Tell before, and once at each start. */
static void
watch_dram(void)
{
	static int	said = 0;		/* 1: less than there; 2: too little */
	uint64		mb = 1024 * 1024;
	uint64		own = zen_dram_size_mb * mb;
	uint64		size,
				needs;
	int			say;

	zen_pool_noted_dram(&size, &needs);
	say = needs > own ? 2 : size > own ? 1 : 0;
	if (size == 0 || say <= said)
		return;
	said = say;
	ereport(WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 say == 2 ? errmsg("zen.dram_size is too small to open the zen tables of the primary server") :
			 errmsg("zen.dram_size is smaller than on the primary server"),
			 errdetail("It is %d MB here, and " UINT64_FORMAT " MB there.  Maps and trees of the tables take "
					   UINT64_FORMAT " MB of that.", zen_dram_size_mb, size / mb, (needs + mb - 1) / mb),
			 errhint("Raise zen.dram_size and restart this server, before it is promoted.")));
}

static void
redo_note(ZenRecordReader *r, bool follows)
{
	ZenCopyNote note;

	redo_take(r, &note, sizeof(note));
	if (note.what == ZEN_NOTE_VERSION)
		check_version(r, note.number);
	else if (note.what == ZEN_NOTE_EMPTY)
		redo_empty(r, note.number, follows);
	else if (note.what == ZEN_NOTE_UNSEEN)
		lack_rows(r, "there are zen tables, and zen.stream is not \"replica\" there");
	else if (note.what == ZEN_NOTE_DRAM && follows)
	{
		zen_pool_note_dram(note.dram_size, note.dram_needs);
		watch_dram();
	}
}

/* Does a record tell of tables, or of rows? */
static bool
tells_of_tables(const XLogReaderState *record)
{
	uint64		offset;

	switch (XLogRecGetInfo(record) & ~XLR_INFO_MASK)
	{
		case ZEN_XLOG_SLOTS:
		case ZEN_XLOG_TAIL:
			return true;
		case ZEN_XLOG_TABLES:	/* of no table it has the range alone */
			return XLogRecGetDataLen(record) > 2 * sizeof(uint32);
		case ZEN_XLOG_BYTES:
			if (XLogRecGetDataLen(record) < sizeof(offset))
				return false;
			memcpy(&offset, XLogRecGetData(record), sizeof(offset));
			return offset >= ZEN_OFF_HTABLES && offset < ZEN_OFF_HTABLES + ZEN_MAX_HTABLES * sizeof(ZenHTableEntry);
		default:
			return false;
	}
}

/* A pool that does not follow waits for a place at which it may begin. */
static void
redo_not_following(XLogReaderState *record, ZenRecordReader *r)
{
	if ((XLogRecGetInfo(record) & ~XLR_INFO_MASK) == ZEN_XLOG_NOTE)
		redo_note(r, false);
	else if (tells_of_tables(record))
		lack_rows(r, "it is no copy of the primary server's, or of another moment");
}

/*
 * While the primary has no tables, nothing is missing.  The copy's tables do not count: they may be of a later place
 * that was replayed before.
 */
static void
redo_uncopied(ZenRecordReader *r)
{
	uint32		tables;

	redo_take(r, &tables, sizeof(tables));
	if (tables != 0)
		lack_rows(r, "zen.stream is not \"replica\" there any more");
	zen_standby_anew("the pool follows no longer");
	sync_redone();				/* nothing is replayed again behind that */
	zen_pool_set_copied(false);
	ereport(LOG,
			(errmsg("the zen pool no longer follows the primary server, whose zen.stream is not \"replica\" "
					"any more")));
}

/*
 * The primary says that it has no tables, and the copy has some: the primary has lost its pool, and got a new one.
 * These rows may be the last that there are.  Nothing is noted yet, so that the copy can be opened as it is.
 *
 * What the copy has may also be of a later place: replay has been there before, or a base backup is not whole yet.
 */
static void
refuse_emptying(const XLogReaderState *record, ZenRecordReader r)
{
	ZenCopyNote note;
	uint32		n;

	redo_take(&r, &note, sizeof(note));
	if (note.what != ZEN_NOTE_EMPTY || zen_allow_copies_without_rows || !reachedConsistency ||
		zen_pool_replayed() >= record->EndRecPtr)
		return;
	n = zen_htable_lasting(zen_xids_committed);
	if (n == 0)
		return;
	ereport(PANIC,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the primary server has a new, empty zen pool at %X/%X, and this server has tables",
					LSN_FORMAT_ARGS(r.lsn)),
			 errdetail_plural("The rows of %u zen table, toast tables included, would be gone here, too.",
							  "The rows of %u zen tables, toast tables included, would be gone here, too.", n, n),
			 errhint("To keep them, stop the primary server, set recovery_target_lsn to %X/%X, "
					 "recovery_target_inclusive to off and recovery_target_action to promote here, and start this "
					 "server.  To give them up, set zen.allow_copies_without_rows to on here.",
					 LSN_FORMAT_ARGS(r.lsn))));
}

/* ---------- the whole ---------- */

/* Before the first record. */
static void
redo_begins(void)
{
	redo_is_lazy = zen_pool.base != NULL && zen_nvm_mode() == ZEN_POOL_WAL;
	if (redo_is_lazy)
	{
		zen_nvm_lazy_here(true);
		before_shmem_exit(redo_exits, (Datum) 0);
	}
	if (zen_pool.base != NULL && zen_pool_is_replica() && ArchiveRecoveryRequested)
		watch_dram();
}

static void
redo_following(ZenRecordReader *r)
{
	redo_note(r, true);
}

/* Behind the last record. */
static void
redo_ends(void)
{
	is_dirty = true;			/* what was stored before a crash may not be
								 * on disk yet */
	sync_redone();
	zen_nvm_lazy_here(false);
	redo_is_lazy = false;
	zen_streamtail_replayed();
	zen_filetime_redo_ends();
}

/* Redo of each kind of record; others are of logical decoding. */
static void (*const redo_kinds[16]) (ZenRecordReader *r) =
{
	[ZEN_XLOG_SLOTS >> 4] = redo_slots,
		[ZEN_XLOG_TAIL >> 4] = redo_tail,
		[ZEN_XLOG_SCRUB >> 4] = redo_scrub,
		[ZEN_XLOG_BYTES >> 4] = store_bytes,
		[ZEN_XLOG_ZERO >> 4] = redo_zero,
		[ZEN_XLOG_PAGES >> 4] = redo_pages,
		[ZEN_XLOG_TABLES >> 4] = redo_tables,
		[ZEN_XLOG_RECOVERED >> 4] = redo_recovered,
		[ZEN_XLOG_GROWN >> 4] = redo_grown,
		[ZEN_XLOG_COVERED >> 4] = redo_covered,
		[ZEN_XLOG_UNCOPIED >> 4] = redo_uncopied,
		[ZEN_XLOG_NOTE >> 4] = redo_following
};

/*
 * It does nothing if the pool is a primary's: what is in NVM is newer than the WAL.  Else it stores what the record
 * says, blindly and durably.  PANIC if the pool cannot be the one that the record is about.
 */
static void
redo_record(XLogReaderState *record)
{
	ZenRecordReader r = zen_record_begin(record);
	uint8		kind = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	if (zen_pool.base == NULL)
		return;
	if (!is_copy())
	{
		if (ArchiveRecoveryRequested)
			redo_not_following(record, &r);
		return;
	}
	if (kind == ZEN_XLOG_NOTE)
		refuse_emptying(record, r);
	zen_cover_redo(record);
	note_replay(record);
	zen_standby_begin();
	if (redo_kinds[kind >> 4] != NULL)
		redo_kinds[kind >> 4] (&r);
	else if (kind >= ZEN_XLOG_SLOTS)
		misfit(&r, "a record is of an unknown kind");
	zen_standby_end();
	zen_filetime_redone();
	zen_cover_redo_done(record);
}

/* ---------- redo of PostgreSQL's records ---------- */

/*
 * Transactions that pg_xact is about to forget must be settled before (R19).  PostgreSQL has no hook there.  But its
 * table of resource managers may be written to, as RegisterCustomRmgr() does, and the startup process calls redo
 * through it.
 */
static void (*next_clog_redo) (XLogReaderState *record);
static void (*next_xlog_redo) (XLogReaderState *record);

/*
 * Before redo of a record that is not ours: pg_xact will not be asked any more of transactions before this xid.  They
 * have ended, and so the copy settles what depends on them, durably (R19).
 */
static void
redo_forgets(TransactionId xid, XLogReaderState *record)
{
	uint64		oldest = zen_xids_full(xid);

	if (!is_copy() || ZEN_FAULT(R19_NOT_BEFORE_CUT))
		return;
	zen_cover_redo(record);
	zen_standby_begin();
	zen_standby_forgets(oldest);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		uint64		full_xid,
					cts;

		if (!zen_region_doubt_written(r) || zen_region_doubt_read(r, &full_xid, &cts) == ZEN_DOUBT_NONE ||
			zen_region_replay_is_committed(r, cts) || (full_xid >= oldest && !zen_xids_committed(full_xid)))
			continue;
		note_replay(record);
		redo_settle(r);
		zen_filetime_redone();
	}
	zen_standby_end();
	zen_cover_redo_done(record);
}

/* Its files go. */
static void
redo_clog(XLogReaderState *record)
{
	if ((XLogRecGetInfo(record) & ~XLR_INFO_MASK) == CLOG_TRUNCATE)
	{
		xl_clog_truncate cut;

		memcpy(&cut, XLogRecGetData(record), sizeof(cut));
		redo_forgets(cut.oldestXact, record);
		sync_redone();			/* R19: before its files go */
	}
	next_clog_redo(record);
}

/* A server that begins to replay behind a checkpoint takes transactions older than this for forgotten. */
static void
redo_xlog(XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	if (info == XLOG_CHECKPOINT_ONLINE || info == XLOG_CHECKPOINT_SHUTDOWN)
	{
		CheckPoint	checkpoint;

		memcpy(&checkpoint, XLogRecGetData(record), sizeof(checkpoint));
		redo_forgets(checkpoint.oldestXid, record);
		sync_redone();
	}
	next_xlog_redo(record);
}

/* ---------- at the start ---------- */

void
zen_stream_redo_install(RmgrData *rmgr)
{
	zen_standby_committed = zen_xids_committed;
	rmgr->rm_redo = redo_record;
	rmgr->rm_startup = redo_begins;
	rmgr->rm_cleanup = redo_ends;
	next_clog_redo = RmgrTable[RM_CLOG_ID].rm_redo;
	RmgrTable[RM_CLOG_ID].rm_redo = redo_clog;
	next_xlog_redo = RmgrTable[RM_XLOG_ID].rm_redo;
	RmgrTable[RM_XLOG_ID].rm_redo = redo_xlog;
}
