/*
 * streamsink.c -- what the engine tells the stream while it runs (nvm/sink.h), and in recovery.
 *
 *	zen.stream		hears of
 *	off				nothing
 *	logical			transactions: their records are kept in the tail slot (streamtail.c)
 *	replica			these, and all that changes in the pool, which is logged here for copies of the pool (R18)
 *
 * No record of zen is a reason to flush the commit record: XactLastRecEnd stays as it was.
 */
#include "stream/streamsink.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "base/arena.h"
#include "base/fault.h"
#include "base/numa.h"
#include "base/ownwal.h"
#include "base/stats.h"
#include "miscadmin.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "nvm/persist.h"
#include "nvm/pool.h"
#include "nvm/region.h"
#include "nvm/tuple.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "stream/streamtail.h"

#define MAX_PENDING		1024
#define PENDING_BYTES	((Size) 128 * 1024) /* of versions in a record */
#define BUFFER_BYTES	(sizeof(ZenCopyHead) + (MAX_PENDING + 1) * sizeof(ZenCopySlot) + PENDING_BYTES + ZEN_PAGE_SIZE)
#define COPY_VERSIONS	1000	/* of a commit, in one record */
#define COPY_BYTES		((Size) 65000)	/* in their slots */
#define MAX_VANISHING	512
#define IMAGE_WORDS		4096	/* of the page directory, in a record */
#define IMAGE_ENTRIES	128		/* in use, of the HTable directory */

/* with the tail slot, which is pending, too */
StaticAssertDecl(COPY_VERSIONS < MAX_PENDING && COPY_BYTES + ZEN_PAGE_SIZE <= PENDING_BYTES, "one record");

StaticAssertDecl(ZEN_MAX_REGIONS <= PG_UINT16_MAX, "a region's number fits ZenCopyHead");

/* Slots that were written since the last record. */
static ZenSlot copy_pending[MAX_PENDING];
static uint32 copy_npending = 0;
static Size pending_bytes = 0;

/*
 * The record that is built.  The buffer is static, so a process that has written versions needs no memory for it that
 * might be lacking.
 */
static char copy_buffer[BUFFER_BYTES];
static Size copy_used = 0;

static ZenSlot vanishing[MAX_VANISHING];
static uint32 nvanishing = 0;
static XLogRecPtr vanish_at = InvalidXLogRecPtr;

static XLogRecPtr told = InvalidXLogRecPtr; /* end of our last record */

/* ---------- records ---------- */

/* No record beyond those is possible: the postmaster, and a single-user backend that has shut the WAL down. */
static bool
may_insert(void)
{
	return MyProc != NULL && (IsUnderPostmaster || !proc_exit_inprogress) && XLogInsertAllowed();
}

static XLogRecPtr
copy_insert(uint8 kind, const void *head, Size head_len, const void *rest, Size rest_len)
{
	XLogRecPtr	before = XactLastRecEnd;
	XLogRecPtr	end;

	XLogBeginInsert();
	XLogRegisterData((char *) head, (uint32) head_len);
	if (rest_len > 0)
		XLogRegisterData((char *) rest, (uint32) rest_len);
	end = told = XLogInsert(ZEN_RMGR_ID, kind);
	XactLastRecEnd = before;
	zen_ownwal_records++;
	ZEN_COUNT(stream_records, 1);
	ZEN_COUNT(stream_bytes, head_len + rest_len);
	return end;
}

/* This process has no transaction, and has given itself the number of one. */
static bool has_number = false;

/*
 * From here on a checkpoint that begins after a record of ours waits for what we store after it.
 *
 * It waits for transactions, by their numbers.  In an abort callback the process has none any more, and zen's worker
 * has none between two transactions.
 */
static void
delay_checkpoints(void)
{
	if (!LocalTransactionIdIsValid(zen_my_lxid()))
	{
		zen_my_lxid() = 1;
		has_number = true;
		pg_write_barrier();
	}
	MyProc->delayChkptFlags |= DELAY_CHKPT_START;
}

static void
let_checkpoints_go(void)
{
	pg_write_barrier();			/* pairs with await_changes() */
	MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
	/* no transaction has begun, whose number it would be */
	Assert(!has_number || !TransactionIdIsValid(MyProc->xid));
	if (has_number)
		zen_my_lxid() = InvalidLocalTransactionId;
	has_number = false;
}

/* ---------- versions ---------- */

static void
copy_append(const void *bytes, Size n)
{
	Assert(copy_used + n <= BUFFER_BYTES);
	memcpy(copy_buffer + copy_used, bytes, n);
	copy_used += n;
}

static void
append_empty(ZenSlot slot)
{
	ZenCopySlot s = {.slot = slot};

	copy_append(&s, sizeof(s));
}

static uint64
cts_in(ZenSlot slot)
{
	return zen_tuple_header(slot).word0 & ZEN_CTS_MASK;
}

/*
 * A version as it is in its slot, but without LP: in a copy of the pool pg_xact says which versions are committed.  The
 * length that a damaged version gives may be anything, so it is bounded by the slot's size.
 */
static void
append_slot(ZenSlot slot)
{
	const char *at = zen_slot_ptr(slot);
	uint64		word0 = cts_in(slot);
	const ZenTupleBody *body = (const ZenTupleBody *) (at + ZEN_HEADER_SIZE);
	ZenCopySlot s = {.slot = slot,.len = (uint16) Min(zen_tuple_size(zen_body_bytes(body)), zen_slot_size(slot))};

	if (word0 == 0 || zen_tuple_is_void(slot))
	{
		append_empty(slot);
		return;
	}
	copy_append(&s, sizeof(s));
	copy_append(&word0, sizeof(word0));
	copy_append(at + sizeof(word0), s.len - sizeof(word0));
}

/* The transaction has ended, or its versions are logged: those that are not are undone, and need no record. */
static void
copy_forget(void)
{
	copy_npending = 0;
	pending_bytes = 0;
}

/* All that is pending; tail, which is one of them, is to be empty. */
static void
build(const ZenCopyHead *head, ZenSlot tail)
{
	copy_used = 0;
	copy_append(head, sizeof(*head));
	for (uint32 i = 0; i < copy_npending; i++)
		if (copy_pending[i] != tail)
			append_slot(copy_pending[i]);
		else if (!ZEN_FAULT(R18_TAIL_STAYS))
			append_empty(tail);
	copy_forget();
}

/* All that is pending is durable. */
static void
log_pending(uint32 region)
{
	ZenCopyHead head = {.region = region,.kind = ZEN_DOUBT_NONE};

	if (copy_npending == 0)
		return;
	/* readers of a standby judge by it; redo of the pool does not */
	head.full_xid = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	build(&head, InvalidZenSlot);
	copy_insert(ZEN_XLOG_SLOTS, copy_buffer, copy_used, NULL, 0);
}

static void
note_written(ZenSlot slot, Size size)
{
	if (copy_npending == MAX_PENDING || pending_bytes + size > PENDING_BYTES)
	{
		zen_fence();
		log_pending(0);
	}
	copy_pending[copy_npending++] = slot;
	pending_bytes += size;
}

static uint64
note_spilled(uint32 region)
{
	log_pending(region);
	return told;
}

static void note_covered(uint32 region, uint64 cts);

/*
 * How far before cts the last commit of the region was, for SLOTS; 0 if that does not fit: then a record of its own
 * says it.
 */
static uint32
tell_former(uint32 region, uint64 cts)
{
	uint64		since = cts - zen_regions[region].last_cts;

	Assert(zen_regions[region].last_cts < cts);
	if (ZEN_FAULT(R18_COMMITTED_UNSAID))
		return 0;
	if (since <= PG_UINT32_MAX)
		return (uint32) since;
	if (zen_nvm_is_lazy())
		note_covered(region, zen_regions[region].last_cts);
	else
		zen_region_persist_watermark(region);
	return 0;
}

/*
 * All versions written since are made durable, and logged; the transaction depends on full_xid.  A checkpoint waits
 * until the sink's done(): LP, or the descriptor, is durable.  If the changes are too long for one record, their
 * earlier parts have been logged.
 *
 * tail: the one of these slots that is to be empty in copies, or InvalidZenSlot.
 */
static void
copy_decide(uint32 region, uint64 cts, uint64 full_xid, uint32 kind, ZenSlot tail)
{
	ZenCopyHead head = {.region = region,.kind = kind,.full_xid = full_xid,.cts = cts};

	Assert(zen_copies() && full_xid != 0 && kind != ZEN_DOUBT_NONE);
	head.since = tell_former(region, cts);
	build(&head, tail);
	zen_fence();
	delay_checkpoints();
	copy_insert(ZEN_XLOG_SLOTS, copy_buffer, copy_used, NULL, 0);
	if (!zen_nvm_is_lazy())
		return;

	/*
	 * The commit is durable by its record alone.  So PostgreSQL flushes that,
	 * or not, as it does for a transaction on heap tables.
	 */
	XactLastRecEnd = told;
	if (!ZEN_FAULT(R9_NO_DESCRIPTOR) && !ZEN_FAULT(W2_DOUBT_UNSEEN))
		zen_region_doubt_logged(region, told);
}

/* ---------- slots that become empty ---------- */

static void
log_vanishing(uint32 region, uint64 full_xid)
{
	ZenCopyHead head = {.region = region,.full_xid = full_xid};

	vanish_at = copy_insert(ZEN_XLOG_SCRUB, &head, sizeof(head), vanishing, nvanishing * sizeof(ZenSlot));
	nvanishing = 0;
}

static void
note_vanishing(ZenSlot slot)
{
	if (ZEN_FAULT(R18_NO_SCRUBS))
		return;
	if (nvanishing == MAX_VANISHING)
	{
		delay_checkpoints();
		log_vanishing(0, 0);
	}
	vanishing[nvanishing++] = slot;
}

static void
log_vanish(uint32 region, uint64 full_xid)
{
	delay_checkpoints();
	if (nvanishing > 0 || full_xid != 0)
		log_vanishing(region, full_xid);
	if (!XLogRecPtrIsInvalid(vanish_at) && !ZEN_FAULT(R18_SCRUBS_UNFLUSHED))
		XLogFlush(vanish_at);
	vanish_at = InvalidXLogRecPtr;
	zen_fault_pause(ZEN_FAULT(R18_PAUSE_VANISHING));
}

/* ---------- directories ---------- */

static void
note_stored(const void *at, Size len)
{
	uint64		offset = (const char *) at - zen_pool.base;

	if (may_insert() && !ZEN_FAULT(R18_NO_DIRECTORIES))
		copy_insert(ZEN_XLOG_BYTES, &offset, sizeof(offset), at, len);
}

static uint64
note_zeroed(uint32 pageno)
{
	return may_insert() && !ZEN_FAULT(R18_NO_ZEROES) ? copy_insert(ZEN_XLOG_ZERO, &pageno, sizeof(pageno), NULL, 0) : 0;
}

static void
copy_await(uint64 position)
{
	if (position != 0)
		XLogFlush(position);
}

static void
copy_flush(void)
{
	if (may_insert() && !ZEN_FAULT(R18_FORGOTTEN_EARLY))
		copy_await(told);
}

static XLogRecPtr
log_grown(int file, uint32 npages)
{
	uint32		words[3] = {(uint32) file, zen_pool.files[file].first, npages};

	return copy_insert(ZEN_XLOG_GROWN, words, sizeof(words), NULL, 0);
}

/* Flushed, since recovery logs what it finds on the new pages before it logs that they are there. */
static void
note_grown(int file, uint32 npages)
{
	XLogFlush(log_grown(file, npages));
}

static void
note_covered(uint32 region, uint64 cts)
{
	ZenCopyHead head = {.region = region,.cts = cts};

	if (may_insert())
		copy_insert(ZEN_XLOG_COVERED, &head, sizeof(head), NULL, 0);
}

/* ---------- the tail ---------- */

/* While the WAL may still lose a record, the tail slot names its region (uint32) and the slots that were written. */
static Size
refs_size(uint32 n)
{
	return sizeof(uint32) + n * sizeof(ZenSlot);
}

/*
 * By now a slot may have another version or be empty, and its page may have been given back.  Then the old version no
 * longer counts (R5), and copies get an empty slot: the version that it had replaced is superseded, too, and its
 * tombstone may have gone.  If the other version is of the tail, it is logged later.
 */
static void
append_refs(const char *refs, uint32 len, uint64 cts)
{
	uint32		noted = 0;

	for (uint32 at = sizeof(uint32); at < len; at += sizeof(ZenSlot))
	{
		ZenSlot		slot;

		memcpy(&slot, refs + at, sizeof(slot));
		if (cts_in(slot) != cts)
		{
			append_empty(slot);
			continue;
		}
		/* the page may be new, and the WAL has lost whose it is */
		if (zen_slot_page(slot) != noted)
			note_stored(zen_page_word(zen_slot_page(slot)), sizeof(uint64));
		noted = zen_slot_page(slot);
		append_slot(slot);
	}
}

static StringInfoData lost_versions = {0};	/* of the tail, in its record */

/* Log the versions of the tail.  No Tx-CTS of the tail is beyond the mark (R14). */
static void
log_lost(void)
{
	if (lost_versions.len == 0)
		return;
	note_stored(zen_pool.cts_mark, 4 * ZEN_LINE);
	copy_insert(ZEN_XLOG_TAIL, lost_versions.data, lost_versions.len, NULL, 0);
	pfree(lost_versions.data);
	memset(&lost_versions, 0, sizeof(lost_versions));
}

/*
 * After a crash, before anything is scrubbed: add to that record the versions of the transaction with this Tx-CTS that
 * the slots still have; it is committed.  tail: its tail slot, which is to be empty in copies.
 */
static void
add_lost(const char *refs, uint32 len, uint64 cts, ZenSlot tail)
{
	ZenCopyLost lost = {.cts = cts};

	Assert(zen_copies() && len >= refs_size(0) && len <= refs_size(COPY_VERSIONS));
	copy_used = 0;
	append_refs(refs, len, cts);
	if (!ZEN_FAULT(R18_TAIL_STAYS))
		append_empty(tail);
	memcpy(&lost.region, refs, sizeof(lost.region));
	lost.len = (uint32) copy_used;
	if (lost_versions.data == NULL)
		initStringInfo(&lost_versions);
	appendBinaryStringInfo(&lost_versions, (char *) &lost, sizeof(lost));
	appendBinaryStringInfo(&lost_versions, copy_buffer, (int) copy_used);
	if (ZEN_FAULT(R18_TAIL_IN_PARTS))
		log_lost();
}

/* ---------- notes ---------- */

uint64
zen_copy_dram_needs(void)
{
	uint64		taken,
				needs,
				rows = 0;

	zen_arena_usage(&taken, &needs);
	for (int i = 0; i < zen_numa_nodes; i++)
		rows += zen_arena_row_bytes(i);
	return needs - Min(rows, needs);
}

/* The note is in the pool, too, for base backups that begin behind the record. */
static void
tell_dram(uint64 needs)
{
	ZenCopyNote note = {.what = ZEN_NOTE_DRAM,.dram_needs = needs};

	note.dram_size = (uint64) zen_dram_size_mb * 1024 * 1024;
	zen_pool_note_dram(note.dram_size, needs);
	copy_insert(ZEN_XLOG_NOTE, &note, sizeof(note), NULL, 0);
}

void
zen_copy_tell_dram(void)
{
	static uint64 last = 0;
	uint64		needs = zen_copy_dram_needs();

	if (!zen_copies() || !may_insert() || needs <= last + last / 8)
		return;
	tell_dram(last = needs);
}

/* May an empty pool become a copy here?  Not with prepared transactions, which need their descriptors. */
static bool
pool_is_empty(void)
{
	if (zen_pool_has_tables())
		return false;
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		if (zen_regions[r].doubt_kind != ZEN_DOUBT_NONE)
			return false;
	return true;
}

/* Copies need know nothing new if the pool has no version that holds only what changed. */
static uint32
stream_version(void)
{
	ZenSuperblock super;

	zen_pool_superblock(0, &super);
	return super.version >= ZEN_FORMAT_VERSION_DELTAS ? ZEN_STREAM_VERSION : ZEN_STREAM_VERSION_WHOLE;
}

static void
tell_version(void)
{
	ZenCopyNote note = {.what = ZEN_NOTE_VERSION,.number = stream_version() + zen_stream_ahead};

	copy_insert(ZEN_XLOG_NOTE, &note, sizeof(note), NULL, 0);
}

static void
tell_empty(void)
{
	ZenCopyNote note = {.what = ZEN_NOTE_EMPTY,.number = zen_pool.nfiles};
	ZenCopyLayout layout[ZEN_MAX_FILES];

	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		layout[i].first = zen_pool.files[i].first;
		layout[i].first_data = zen_pool.files[i].first_data;
	}
	copy_insert(ZEN_XLOG_NOTE, &note, sizeof(note), layout, zen_pool.nfiles * sizeof(ZenCopyLayout));
}

void
zen_copy_unseen(void)
{
	ZenCopyNote note = {.what = ZEN_NOTE_UNSEEN};

	if (!zen_copies() && !zen_allow_copies_without_rows && XLogArchivingActive() && may_insert())
		copy_insert(ZEN_XLOG_NOTE, &note, sizeof(note), NULL, 0);
}

/* ---------- start ---------- */

static void
log_pages(int file)
{
	uint32		first = zen_pool.files[file].first;
	uint32		end = first + zen_file_pages(file);
	uint64		words[IMAGE_WORDS];

	log_grown(file, zen_file_pages(file));
	for (uint32 p = first; p < end; p += IMAGE_WORDS)
	{
		uint32		n = Min(IMAGE_WORDS, end - p);

		for (uint32 i = 0; i < n; i++)
			words[i] = zen_page_is_data(p + i) ? zen_nvm_load64(zen_page_word(p + i)) : 0;
		copy_insert(ZEN_XLOG_PAGES, &p, sizeof(p), words, n * sizeof(uint64));
	}
}

static bool
entry_is_zero(const ZenHTableEntry *e)
{
	const uint64 *words = (const uint64 *) e;

	for (int i = 0; i < sizeof(*e) / sizeof(uint64); i++)
		if (words[i] != 0)
			return false;
	return true;
}

/* The HTable directory.  A record reaches as far as it has room for the entries in use: mostly to the end. */
static void
log_tables(void)
{
	char		entries[IMAGE_ENTRIES * (sizeof(uint32) + sizeof(ZenHTableEntry))];
	uint32		range[2] = {0, 0};

	while (range[0] < ZEN_MAX_HTABLES)
	{
		Size		n = 0;

		for (uint32 i = range[0]; i < ZEN_MAX_HTABLES && n < sizeof(entries); range[1] = ++i)
		{
			if (entry_is_zero(&zen_pool.htables[i]))
				continue;
			memcpy(entries + n, &i, sizeof(i));
			memcpy(entries + n + sizeof(i), &zen_pool.htables[i], sizeof(ZenHTableEntry));
			n += sizeof(i) + sizeof(ZenHTableEntry);
		}
		copy_insert(ZEN_XLOG_TABLES, range, sizeof(range), entries, n);
		range[0] = range[1];
	}
}

/* Prepared transactions; all others that were in doubt have ended. */
static XLogRecPtr
log_doubts(void)
{
	ZenCopyHead *heads = palloc(ZEN_MAX_REGIONS * sizeof(ZenCopyHead));
	uint32		n = 0;
	XLogRecPtr	end;

	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		if (zen_regions[r].doubt_kind != ZEN_DOUBT_NONE)
		{
			heads[n].region = r;
			heads[n].kind = zen_regions[r].doubt_kind;
			heads[n].full_xid = zen_regions[r].doubt_xid;
			heads[n++].cts = zen_regions[r].doubt_cts;
		}
	end = copy_insert(ZEN_XLOG_RECOVERED, &n, sizeof(n), heads, n * sizeof(ZenCopyHead));
	pfree(heads);
	return end;
}

static void
leave_copies(void)
{
	uint32		tables = zen_pool_has_tables();

	XLogFlush(copy_insert(ZEN_XLOG_UNCOPIED, &tables, sizeof(tables), NULL, 0));
	zen_pool_set_copied(false);
}

/* No session changes rows in the server that pg_upgrade runs. */
static bool
is_left(void)
{
	return !zen_copies() && zen_pool_is_copied() && !IsBinaryUpgrade;
}

/* How large the files are, and which region and table have each page.  Durable on return. */
static void
copy_pages(void)
{
	if (!zen_copies() || ZEN_FAULT(R18_NO_IMAGE))
		return;
	if (pool_is_empty())
		tell_empty();
	for (int i = 0; i < zen_pool.nfiles; i++)
		log_pages(i);
	copy_await(told);
}

/* ---------- a transaction ---------- */

/* LP may decide about what NVM can keep until the WAL has it. */
static int64
sink_begin(uint32 nversions, Size bytes, bool spilled)
{
	/* W1: LP may be on disk before the record */
	if (zen_nvm_mode() == ZEN_POOL_WAL)
		return ZEN_SINK_BY_RECORD;
	if (!zen_copies())
		return zen_streamtail_begin(0, 0);
	if (spilled || nversions > COPY_VERSIONS || bytes > COPY_BYTES)
		return ZEN_SINK_BY_RECORD;
	return zen_streamtail_begin(refs_size(nversions), bytes);
}

/* The tail slot, and in copies what it names: of these versions it has the slots only, since they are in NVM anyway. */
static void
write_tail(ZenSlot slot, uint32 region, uint64 cts, uint64 full_xid)
{
	copy_used = 0;
	if (zen_copies())
	{
		copy_append(&region, sizeof(region));
		copy_append(copy_pending, copy_npending * sizeof(ZenSlot));
	}
	zen_streamtail_write(slot, cts, full_xid, copy_buffer, copy_used);
}

static bool
sink_decide(uint32 region, uint64 cts, uint64 full_xid, uint32 kind, ZenSlot slot)
{
	if (slot != InvalidZenSlot)
		write_tail(slot, region, cts, full_xid);
	if (!zen_copies())
		return false;
	copy_decide(region, cts, full_xid, kind, slot);
	return true;
}

static void
sink_end(void)
{
	zen_streamlog_reset();
	copy_forget();
}

void
zen_streamsink_install(void)
{
	if (zen_stream == ZEN_STREAM_OFF)
		return;
	zen_sink.begin = sink_begin;
	zen_sink.decide = sink_decide;
	zen_sink.end = sink_end;
	zen_streamtail_install(&zen_sink);
	if (!zen_copies())
		return;
	zen_sink.stored = note_stored;
	zen_sink.covered = note_covered;
	zen_sink.zeroed = note_zeroed;
	zen_sink.grown = note_grown;
	zen_sink.written = note_written;
	zen_sink.spilled = note_spilled;
	zen_sink.await = copy_await;
	zen_sink.flush = copy_flush;
	zen_sink.vanishing = note_vanishing;
	zen_sink.vanish = log_vanish;
	zen_sink.done = let_checkpoints_go;
}

/* ---------- recovery ---------- */

void
zen_streamsink_committed(void (*find_tail) (void))
{
	if (zen_copies())
		tell_version();
	/* copies follow no longer if zen.stream has another value now */
	if (find_tail != NULL && is_left() && !zen_pool_is_replica())
		leave_copies();
	if (find_tail != NULL && zen_streamtail_expected())
	{
		find_tail();
		if (!ZEN_FAULT(R18_TAIL_LATE))
			zen_streamtail_log(zen_copies() ? add_lost : NULL, log_lost);
	}
	if (!ZEN_FAULT(R18_PAGES_LATE))
		copy_pages();
}

void
zen_streamsink_recovered(void)
{
	bool		was_copied = zen_pool_is_copied();

	zen_fault_stop(ZEN_FAULT(R18_STOP_RECOVERED) && zen_pool_is_replica());
	if (zen_copies())
	{
		note_stored(zen_pool.cts_mark, 4 * ZEN_LINE);	/* raised since */
		if (!ZEN_FAULT(R18_NO_IMAGE))
			log_tables();
		if (ZEN_FAULT(R18_PAGES_LATE))
			copy_pages();
		tell_dram(zen_copy_dram_needs());
		XLogFlush(log_doubts());
		if (!was_copied)
			zen_pool_set_copied(true);
	}
	else if (is_left())
		leave_copies();
	if (zen_pool_is_replica())
	{
		zen_pool_make_primary();
		ereport(LOG,
				(errmsg("the zen pool has followed the write-ahead log, and is a primary's from now on")));
	}
	if (ZEN_FAULT(R18_TAIL_LATE) && zen_streamtail_expected())
		zen_streamtail_log(zen_copies() ? add_lost : NULL, log_lost);
	zen_streamtail_recover();
}
