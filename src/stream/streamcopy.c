/*
 * streamcopy.c -- changes of the pool on their way into the WAL, for copies of the pool: zen.stream = replica.
 *
 * What appears in the pool is stored first, durably, and then logged.  Should the WAL lose the record in a crash,
 * recovery finds what was stored: a loser, which it scrubs; a tail (streamtail.c); a directory, all of which it logs.
 *
 * What vanishes is logged first, and flushed, since recovery finds nothing of it.
 *
 * No record of zen is a reason to flush the commit record: XactLastRecEnd stays as it was.
 */
#include "stream/streamcopy.h"

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
#include "stream/streamformat.h"

#define MAX_PENDING		1024
#define PENDING_BYTES	((Size) 128 * 1024) /* of versions in a record */
#define BUFFER_BYTES	(sizeof(ZenCopyHead) + (MAX_PENDING + 1) * sizeof(ZenCopySlot) + PENDING_BYTES + ZEN_PAGE_SIZE)
#define MAX_VANISHING	512
#define IMAGE_WORDS		4096	/* of the page directory, in a record */
#define IMAGE_ENTRIES	128		/* of the HTable directory */

/* with the tail slot, which is pending, too */
StaticAssertDecl(ZEN_COPY_VERSIONS < MAX_PENDING && ZEN_COPY_BYTES + ZEN_PAGE_SIZE <= PENDING_BYTES, "one record");

StaticAssertDecl(ZEN_MAX_REGIONS <= PG_UINT16_MAX, "a region's number fits ZenCopyHead");

/* Slots that were written since the last record. */
static ZenSlot pending[MAX_PENDING];
static uint32 npending = 0;
static Size pending_bytes = 0;

/*
 * The record that is built.  The buffer is static, so a process that has written versions needs no memory for it that
 * might be lacking.
 */
static char buffer[BUFFER_BYTES];
static Size used = 0;

static ZenSlot vanishing[MAX_VANISHING];
static uint32 nvanishing = 0;
static XLogRecPtr vanish_at = InvalidXLogRecPtr;

static XLogRecPtr told = InvalidXLogRecPtr; /* end of this process's last
											 * record */

/* ---------- records ---------- */

/* No record beyond those is possible: the postmaster, and a single-user backend that has shut the WAL down. */
static bool
may_insert(void)
{
	return MyProc != NULL && (IsUnderPostmaster || !proc_exit_inprogress) && XLogInsertAllowed();
}

static XLogRecPtr
insert(uint8 kind, const void *head, Size head_len, const void *rest, Size rest_len)
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

/* From here on a checkpoint that begins after a record of ours waits for what we store after it. */
static void
delay_checkpoints(void)
{
	MyProc->delayChkptFlags |= DELAY_CHKPT_START;
}

static void
let_checkpoints_go(void)
{
	MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
}

/* ---------- versions ---------- */

static void
append(const void *bytes, Size n)
{
	Assert(used + n <= BUFFER_BYTES);
	memcpy(buffer + used, bytes, n);
	used += n;
}

static void
append_empty(ZenSlot slot)
{
	ZenCopySlot s = {.slot = slot};

	append(&s, sizeof(s));
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
	ZenCopySlot s = {.slot = slot,.len = (uint16) Min(zen_tuple_size(body->len), zen_slot_size(slot))};

	if (word0 == 0 || zen_tuple_is_void(slot))
	{
		append_empty(slot);
		return;
	}
	append(&s, sizeof(s));
	append(&word0, sizeof(word0));
	append(at + sizeof(word0), s.len - sizeof(word0));
}

static void
begin(const ZenCopyHead *head)
{
	used = 0;
	append(head, sizeof(*head));
}

void
zen_copy_forget(void)
{
	npending = 0;
	pending_bytes = 0;
}

/* All that is pending; tail, which is one of them, is to be empty. */
static void
build(const ZenCopyHead *head, ZenSlot tail)
{
	begin(head);
	for (uint32 i = 0; i < npending; i++)
		if (pending[i] != tail)
			append_slot(pending[i]);
		else if (!ZEN_FAULT(R18_TAIL_STAYS))
			append_empty(tail);
	zen_copy_forget();
}

/* All that is pending is durable. */
static void
log_pending(uint32 region)
{
	ZenCopyHead head = {.region = region,.kind = ZEN_DOUBT_NONE};

	if (npending == 0)
		return;
	build(&head, InvalidZenSlot);
	insert(ZEN_XLOG_SLOTS, buffer, used, NULL, 0);
}

static void
note_written(ZenSlot slot, Size size)
{
	if (npending == MAX_PENDING || pending_bytes + size > PENDING_BYTES)
	{
		zen_fence();
		log_pending(0);
	}
	pending[npending++] = slot;
	pending_bytes += size;
}

static uint64
note_spilled(uint32 region)
{
	log_pending(region);
	return told;
}

bool
zen_copy_is_one_record(uint32 n, Size bytes)
{
	return n <= ZEN_COPY_VERSIONS && bytes <= ZEN_COPY_BYTES;
}

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
	zen_region_persist_watermark(region);
	return 0;
}

void
zen_copy_decide(uint32 region, uint64 cts, uint64 full_xid, uint32 kind, ZenSlot tail)
{
	ZenCopyHead head = {.region = region,.kind = kind,.full_xid = full_xid,.cts = cts};

	Assert(zen_copies() && full_xid != 0 && kind != ZEN_DOUBT_NONE);
	head.since = tell_former(region, cts);
	build(&head, tail);
	zen_fence();
	delay_checkpoints();
	insert(ZEN_XLOG_SLOTS, buffer, used, NULL, 0);
}

/* ---------- slots that become empty ---------- */

static void
log_vanishing(uint32 region, uint64 full_xid)
{
	ZenCopyHead head = {.region = region,.full_xid = full_xid};

	vanish_at = insert(ZEN_XLOG_SCRUB, &head, sizeof(head), vanishing, nvanishing * sizeof(ZenSlot));
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
}

/* ---------- directories ---------- */

static void
note_stored(const void *at, Size len)
{
	uint64		offset = (const char *) at - zen_pool.base;

	if (may_insert() && !ZEN_FAULT(R18_NO_DIRECTORIES))
		insert(ZEN_XLOG_BYTES, &offset, sizeof(offset), at, len);
}

static uint64
note_zeroed(uint32 pageno)
{
	return may_insert() && !ZEN_FAULT(R18_NO_ZEROES) ? insert(ZEN_XLOG_ZERO, &pageno, sizeof(pageno), NULL, 0) : 0;
}

static void
await(uint64 position)
{
	if (position != 0)
		XLogFlush(position);
}

static void
flush(void)
{
	if (may_insert() && !ZEN_FAULT(R18_FORGOTTEN_EARLY))
		await(told);
}

static XLogRecPtr
log_grown(int file, uint32 npages)
{
	uint32		words[3] = {(uint32) file, zen_pool.files[file].first, npages};

	return insert(ZEN_XLOG_GROWN, words, sizeof(words), NULL, 0);
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
		insert(ZEN_XLOG_COVERED, &head, sizeof(head), NULL, 0);
}

/* ---------- the tail ---------- */

Size
zen_copy_refs_size(uint32 n)
{
	return sizeof(uint32) + n * sizeof(ZenSlot);
}

uint32
zen_copy_refs(uint32 region, char *refs)
{
	memcpy(refs, &region, sizeof(region));
	memcpy(refs + sizeof(region), pending, npending * sizeof(ZenSlot));
	return (uint32) zen_copy_refs_size(npending);
}

/* It may be new, and the WAL has lost whose it is. */
static void
note_page(uint32 pageno)
{
	note_stored(zen_page_word(pageno), sizeof(uint64));
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
		if (zen_slot_page(slot) != noted)
			note_page(noted = zen_slot_page(slot));
		append_slot(slot);
	}
}

void
zen_copy_again(StringInfo record, const char *refs, uint32 len, uint64 cts, ZenSlot tail)
{
	ZenCopyLost lost = {.cts = cts};

	Assert(zen_copies() && len >= zen_copy_refs_size(0) && len <= zen_copy_refs_size(ZEN_COPY_VERSIONS));
	used = 0;
	append_refs(refs, len, cts);
	if (!ZEN_FAULT(R18_TAIL_STAYS))
		append_empty(tail);
	memcpy(&lost.region, refs, sizeof(lost.region));
	lost.len = (uint32) used;
	appendBinaryStringInfo(record, (char *) &lost, sizeof(lost));
	appendBinaryStringInfo(record, buffer, (int) used);
	if (ZEN_FAULT(R18_TAIL_IN_PARTS))
		zen_copy_again_end(record);
}

/* No Tx-CTS of the tail is beyond the mark (R14). */
void
zen_copy_again_end(StringInfo record)
{
	if (record->len == 0)
		return;
	note_stored(zen_pool.cts_mark, 4 * ZEN_LINE);
	insert(ZEN_XLOG_TAIL, record->data, record->len, NULL, 0);
	resetStringInfo(record);
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

static uint64
dram_size(void)
{
	return (uint64) zen_dram_size_mb * 1024 * 1024;
}

/* The note is in the pool, too, for base backups that begin behind the record. */
static void
tell_dram(uint64 needs)
{
	ZenCopyNote note = {.what = ZEN_NOTE_DRAM,.dram_size = dram_size(),.dram_needs = needs};

	zen_pool_note_dram(note.dram_size, needs);
	insert(ZEN_XLOG_NOTE, &note, sizeof(note), NULL, 0);
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
is_empty(void)
{
	if (zen_pool_has_tables())
		return false;
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		if (zen_regions[r].doubt_kind != ZEN_DOUBT_NONE)
			return false;
	return true;
}

static void
tell_empty(void)
{
	ZenCopyNote note = {.what = ZEN_NOTE_EMPTY,.nfiles = zen_pool.nfiles};
	ZenCopyLayout layout[ZEN_MAX_FILES];

	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		layout[i].first = zen_pool.files[i].first;
		layout[i].first_data = zen_pool.files[i].first_data;
	}
	insert(ZEN_XLOG_NOTE, &note, sizeof(note), layout, zen_pool.nfiles * sizeof(ZenCopyLayout));
}

void
zen_copy_unseen(void)
{
	ZenCopyNote note = {.what = ZEN_NOTE_UNSEEN};

	if (!zen_copies() && !zen_allow_copies_without_rows && XLogArchivingActive() && may_insert())
		insert(ZEN_XLOG_NOTE, &note, sizeof(note), NULL, 0);
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
		insert(ZEN_XLOG_PAGES, &p, sizeof(p), words, n * sizeof(uint64));
	}
}

static bool
is_zero(const ZenHTableEntry *e)
{
	const uint64 *words = (const uint64 *) e;

	for (int i = 0; i < sizeof(*e) / sizeof(uint64); i++)
		if (words[i] != 0)
			return false;
	return true;
}

static void
log_tables(uint32 from)
{
	uint32		range[2] = {from, from + IMAGE_ENTRIES};
	char		entries[IMAGE_ENTRIES * (sizeof(uint32) + sizeof(ZenHTableEntry))];
	Size		n = 0;

	for (uint32 i = from; i < from + IMAGE_ENTRIES; i++)
		if (!is_zero(&zen_pool.htables[i]))
		{
			memcpy(entries + n, &i, sizeof(i));
			memcpy(entries + n + sizeof(i), &zen_pool.htables[i], sizeof(ZenHTableEntry));
			n += sizeof(i) + sizeof(ZenHTableEntry);
		}
	insert(ZEN_XLOG_TABLES, range, sizeof(range), entries, n);
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
	end = insert(ZEN_XLOG_RECOVERED, &n, sizeof(n), heads, n * sizeof(ZenCopyHead));
	pfree(heads);
	return end;
}

static void
leave_copies(void)
{
	uint32		tables = zen_pool_has_tables();

	XLogFlush(insert(ZEN_XLOG_UNCOPIED, &tables, sizeof(tables), NULL, 0));
	zen_pool_set_copied(false);
}

/* No session changes rows in the server that pg_upgrade runs. */
static bool
is_left(void)
{
	return !zen_copies() && zen_pool_is_copied() && !IsBinaryUpgrade;
}

void
zen_copy_recovering(void)
{
	if (is_left() && !zen_pool_is_replica())
		leave_copies();
}

void
zen_copy_pages(void)
{
	if (!zen_copies() || ZEN_FAULT(R18_NO_IMAGE))
		return;
	if (is_empty())
		tell_empty();
	for (int i = 0; i < zen_pool.nfiles; i++)
		log_pages(i);
	await(told);
}

void
zen_copy_recovered(void)
{
	bool		was_copied = zen_pool_is_copied();

	zen_fault_stop(ZEN_FAULT(R18_STOP_RECOVERED) && zen_pool_is_replica());
	if (zen_copies())
	{
		note_stored(zen_pool.cts_mark, 4 * ZEN_LINE);	/* raised since */
		for (uint32 i = 0; i < ZEN_MAX_HTABLES && !ZEN_FAULT(R18_NO_IMAGE); i += IMAGE_ENTRIES)
			log_tables(i);
		if (ZEN_FAULT(R18_PAGES_LATE))
			zen_copy_pages();
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
				(errmsg("the zen pool was a copy, and is a primary's from now on")));
	}
}

void
zen_copy_install(ZenSink *sink)
{
	sink->stored = note_stored;
	sink->covered = note_covered;
	sink->zeroed = note_zeroed;
	sink->grown = note_grown;
	sink->written = note_written;
	sink->spilled = note_spilled;
	sink->await = await;
	sink->flush = flush;
	sink->vanishing = note_vanishing;
	sink->vanish = log_vanish;
	sink->done = let_checkpoints_go;
}
