/*
 * rowread.c -- reading rows.
 *
 * Reading takes no lock (src/row/README, "Reading").  Three things may come in between, and each has its answer:
 *
 * - The writer of the version that the reader has chosen aborts, and its slot is scrubbed: the reader looks again.
 * - A writer pushes a version, or the collector cuts older ones off: the reader goes on with the chain that it has
 *   loaded.
 * - A slot is damaged: the reader says so once it is outside the epoch (zen_tuple_unreadable).
 *
 * A scan waits for memory above all.  So it asks for rows some ahead of the one that it copies (rowahead.c).  Not for a
 * whole block at once: a processor has room for some twenty lines on their way, and waits if it is asked for more.
 */
#include "row/rowread.h"

#include "base/fault.h"
#include "cache/clock.h"
#include "cache/spillmap.h"
#include "cache/version.h"
#include "cache/tablestat.h"
#include "nvm/delta.h"
#include "nvm/slotread.h"
#include "port/pg_bitutils.h"
#include "row/rowahead.h"
#include "row/visibility.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define FETCH_AHEAD		12		/* rows that are asked for before one is
								 * copied; 6 and 20 were slower */
#define FIRST_CHUNK		(8 * 1024)	/* bytes for the rows of a block */

/* ---------- copying ---------- */

/* The buffer of a block's rows is full: go on in a larger one.  Pointers lead to the rows in the old one. */
static void
add_chunk(ZenRow *row, Size needed)
{
	ZenRowBlock *block = row->block;
	Size		size = MAXALIGN(Max(needed, block->chunk ? 2 * block->chunk->size : FIRST_CHUNK));
	ZenRowChunk *chunk = MemoryContextAllocHuge(block->mcxt, offsetof(ZenRowChunk, data) + size);

	chunk->older = block->chunk;
	chunk->size = size;
	block->chunk = chunk;
	row->buf = chunk->data;
	row->capacity = size;
}

pg_noinline void
zen_row_enlarge(ZenRow *row, Size needed)
{
	Assert(row->capacity < needed);
	if (row->block != NULL)
	{
		add_chunk(row, needed);
		return;
	}
	Assert(row->mcxt != NULL);
	if (row->buf)
		pfree(row->buf);
	row->capacity = 0;
	row->buf = NULL;
	row->buf = MemoryContextAllocHuge(row->mcxt, Max(needed, 256));
	row->capacity = Max(needed, 256);
}

/* Make room for a tuple of len bytes; returns where its MinimalTuple goes. */
static inline MinimalTuple
row_buffer(ZenRow *row, uint32 len)
{
	Size		needed = len + MINIMAL_TUPLE_OFFSET;

	Assert(len >= SizeofMinimalTupleHeader);
	if (unlikely(row->capacity < needed))
		zen_row_enlarge(row, needed);
	row->len = needed;
	return (MinimalTuple) (row->buf + MINIMAL_TUPLE_OFFSET);
}

/* Fill in two of the fields that a HeapTuple has and a MinimalTuple has not: where the version is, ... */
static inline HeapTupleHeader
set_place(ZenRow *row, uint64 tidno, uint32 code)
{
	HeapTupleHeader h = (HeapTupleHeader) row->buf;

	Assert(code <= ZEN_MAX_CODE);
	zen_make_tid(&row->tid, tidno, code);
	h->t_ctid = row->tid;
	return h;
}

/* ... and which transactions have made and replaced it. */
static inline void
set_writers(HeapTupleHeader h, TransactionId xmin, TransactionId xmax, CommandId cid)
{
	h->t_choice.t_heap.t_xmin = xmin;
	h->t_choice.t_heap.t_xmax = xmax;
	h->t_choice.t_heap.t_field3.t_cid = cid;
}

/* Copy the row in a slot; false if it is damaged. */
static pg_attribute_always_inline bool
copy_out_slot(ZenRow *row, uint64 tidno, ZenSlot slot, uint64 word1)
{
	int64		len = zen_tuple_len(slot, zen_slot_size(slot));
	MinimalTuple tuple;
	HeapTupleHeader h;

	ZenAssertInEpoch();
	if (len <= 0)
		return false;
	if (ZEN_FAULT(S2_NO_WAIT))
		pg_usleep(20000L);
	tuple = row_buffer(row, (uint32) len);
	h = (HeapTupleHeader) row->buf;
	if (!zen_slot_read(slot, tuple, (uint32) len, &h->t_choice.t_heap.t_xmin))
		return false;
	h = set_place(row, tidno, zen_word1_code(word1));
	set_writers(h, h->t_choice.t_heap.t_xmin, InvalidTransactionId, FirstCommandId);
	row->xmin = FrozenTransactionId;
	return true;
}

/* Copy a version that is in DRAM, with its data. */
static inline void
copy_out_entry(ZenRow *row, uint64 tidno, const ZenVersion *v, TransactionId xmax)
{
	Assert(((MinimalTuple) v->data)->t_len == v->len);
	memcpy(row_buffer(row, v->len), v->data, v->len);
	set_writers(set_place(row, tidno, v->code), v->xmin, xmax, v->cmin);
}

/* Copy a version; false if it is one read back, and its slot is damaged or was scrubbed. */
static bool
copy_out(ZenRow *row, uint64 tidno, ZenVersion *v, ZenVersion *successor)
{
	bool		frozen = (zen_version_flags(v) & ZEN_V_FROZEN) != 0;
	TransactionId xmin = v->xmin,
				xmax = successor ? successor->xmin : InvalidTransactionId;

	ZenAssertInEpoch();
	Assert(!(zen_version_flags(v) & ZEN_V_TOMBSTONE));
	if (zen_version_flags(v) & ZEN_V_IN_NVM)
	{
		int64		len = zen_tuple_len(v->slot, zen_slot_size(v->slot));

		if (len <= 0 ||
			!zen_whole_read(v->slot, row_buffer(row, (uint32) len), (uint32) len, frozen ? &xmin : NULL))
			return false;
		set_writers(set_place(row, tidno, v->code), xmin, xmax, v->cmin);
	}
	else
		copy_out_entry(row, tidno, v, xmax);
	row->xmin = frozen ? FrozenTransactionId : xmin;
	return true;
}

bool
zen_row_copy(ZenRow *row, uint64 tidno, ZenVersion *v, ZenVersion *successor)
{
	return v != NULL && !(zen_version_flags(v) & ZEN_V_TOMBSTONE) && copy_out(row, tidno, v, successor);
}

bool
zen_row_copy_stored(ZenRow *row, uint64 tidno, ZenSlot slot)
{
	return copy_out_slot(row, tidno, slot, zen_tuple_header(slot).word1);
}

/* ---------- fetching ---------- */

static void
note_passed(ZenPassed *passed, ZenVersion *head, ZenVersion *until)
{
	passed->n = 0;
	for (ZenVersion *v = head; v != NULL && v != until; v = v->older)
	{
		ZenXidState state = zen_version_state(v);

		if (state == ZEN_XID_ABORTED || state == ZEN_XID_CURRENT || (zen_version_flags(v) & ZEN_V_FROZEN))
			continue;
		if (passed->n == passed->capacity)
		{
			uint32		wanted = Max(16, 2 * passed->capacity);

			passed->xids = passed->xids ? repalloc(passed->xids, wanted * sizeof(TransactionId)) :
				MemoryContextAlloc(TopMemoryContext, wanted * sizeof(TransactionId));
			passed->capacity = wanted;
		}
		passed->xids[passed->n++] = v->xmin;
	}
}

/* Is the row deleted for every snapshot? */
static inline bool
is_frozen_tombstone(ZenVersion *head)
{
	return (zen_version_flags(head) & (ZEN_V_TOMBSTONE | ZEN_V_FROZEN)) == (ZEN_V_TOMBSTONE | ZEN_V_FROZEN);
}

/* The version of a chain that a fetch is about. */
static ZenVersion *
wanted_version(ZenVersion *head, int code, Snapshot snapshot, ZenVersion **successor)
{
	ZenVersion *v;

	if (code >= 0 && snapshot->snapshot_type == SNAPSHOT_ANY)
	{
		v = zen_find_version(head, (uint32) code, successor);
		return v && (zen_version_flags(v) & ZEN_V_TOMBSTONE) ? NULL : v;
	}
	v = zen_visible_version(head, snapshot, successor);
	return v && code >= 0 && v->code != code ? NULL : v;
}

/* What became of an attempt to fetch a row. */
typedef enum Fetched
{
	FETCH_NONE,
	FETCH_FOUND,				/* in an entry */
	FETCH_MISSED,				/* in NVM */
	FETCH_SPILLED,				/* in NVM, with a spill record */
	FETCH_AGAIN,				/* its writer has aborted since the look, and
								 * scrubbed its slot */
	FETCH_DAMAGED
} Fetched;

/* Inside the epoch: fetch a row that every snapshot sees, in the usual case (is_frozen_row, wants_any). */
static inline Fetched
fetch_frozen(ZenFetch *f, ZenVersion *head)
{
	Assert(zen_version_is_frozen_row(head));
	Assert(f->snapshot == InvalidSnapshot || zen_snapshot_sees(head, f->snapshot));
	copy_out_entry(f->row, f->tidno, head, InvalidTransactionId);
	f->row->xmin = FrozenTransactionId;
	return FETCH_FOUND;
}

/* Is the row as an MVCC snapshot sees it all that is wanted? */
static inline bool
wants_any(const ZenFetch *f)
{
	return IsMVCCSnapshot(f->snapshot) && f->code == ZEN_ANY_CODE && f->passed == NULL;
}

/* Inside the epoch: fetch from a chain.  *slot: of the version that was wanted. */
static Fetched
fetch_version(ZenFetch *f, ZenVersion *head, bool point, ZenSlot *slot)
{
	ZenVersion *successor;
	ZenVersion *v = wanted_version(head, f->code, f->snapshot, &successor);

	if (f->passed != NULL)
		note_passed(f->passed, head, v);
	if (v == NULL)
	{
		f->all_dead = is_frozen_tombstone(head);
		return FETCH_NONE;
	}
	*slot = v->slot;
	if (!copy_out(f->row, f->tidno, v, successor))
	{
		if (zen_version_state(v) != ZEN_XID_ABORTED)
			return FETCH_DAMAGED;
		/* by its code a version is fetched even if it has aborted */
		return f->snapshot->snapshot_type == SNAPSHOT_ANY && f->code >= 0 ? FETCH_NONE : FETCH_AGAIN;
	}
	if (point && !(zen_version_flags(v) & ZEN_V_IN_NVM))
		zen_version_touch(head, zen_sketch_age());
	return zen_version_flags(v) & ZEN_V_IN_NVM ? FETCH_SPILLED : FETCH_FOUND;
}

/* Inside the epoch: fetch from the slot that a word in state NVM leads to. */
static pg_attribute_always_inline Fetched
fetch_slot(const ZenFetch *f, ZenSlot slot)
{
	ZenTupleHeader h = zen_tuple_header(slot);

	if (f->code >= 0 && zen_word1_code(h.word1) != f->code)
		return FETCH_NONE;
	return copy_out_slot(f->row, f->tidno, slot, h.word1) ? FETCH_MISSED : FETCH_DAMAGED;
}

static inline void
count_reads(ZenHTable *ht, ZenTableCounter counter, uint32 hits, uint32 misses)
{
	ZEN_COUNT(metcache_hits, hits);
	ZEN_COUNT(metcache_misses, misses);
	zen_tablestat_add(ht->idx, zen_tablestat_generation(ht->idx), counter, hits + misses);
}

/* Inside the epoch: one look at a row.  *slot: where it is persistent, if it is. */
static inline Fetched
row_look(ZenFetch *f, bool point, ZenSlot *slot)
{
	ZenSpilledChain space;
	uint64		w;
	ZenVersion *head = zen_spillmap_tid_chain(f->ht, f->tidno, &w, &space);

	if (head != NULL && wants_any(f) && zen_version_is_frozen_row(head))
	{
		if (point)
			zen_version_touch(head, zen_sketch_age());
		return fetch_frozen(f, head);
	}
	if (head != NULL)
		return fetch_version(f, head, point, slot);
	if (zen_word_state(w) == ZEN_WORD_NVM)
	{
		*slot = zen_word_ref(w);
		return fetch_slot(f, *slot);
	}
	f->all_dead = zen_word_state(w) != ZEN_WORD_UNUSED;
	return FETCH_NONE;
}

/* All that fetch one row; it is not counted. */
static inline Fetched
row_fetch_uncounted(ZenFetch *f, bool point)
{
	Snapshot	snapshot = f->snapshot;
	ZenSlot		slot = InvalidZenSlot;
	Fetched		fetched;

	Assert(snapshot != InvalidSnapshot && f->code <= ZEN_MAX_CODE);
	do
	{
		f->all_dead = false;
		if (f->passed != NULL)
			f->passed->n = 0;
		if (snapshot->snapshot_type == SNAPSHOT_DIRTY)
		{
			snapshot->xmin = snapshot->xmax = InvalidTransactionId;
			snapshot->speculativeToken = 0;
		}
		zen_epoch_enter();
		fetched = row_look(f, point, &slot);
		zen_epoch_leave();
	} while (fetched == FETCH_AGAIN);
	if (fetched == FETCH_DAMAGED)
	{
		zen_tuple_unreadable(slot, f->tidno);
		return FETCH_NONE;
	}
	return fetched;
}

/* zen_row_fetch and zen_row_read. */
static inline Fetched
row_fetch(ZenFetch *f, bool point)
{
	Fetched		fetched = row_fetch_uncounted(f, point);

	if (fetched == FETCH_FOUND)
		count_reads(f->ht, point ? ZEN_T_HITS : ZEN_T_SCANNED, 1, 0);
	else if (fetched != FETCH_NONE)
		count_reads(f->ht, point ? ZEN_T_MISSES : ZEN_T_SCANNED, 0, 1);
	return fetched;
}

bool
zen_row_fetch(ZenFetch *f)
{
	return row_fetch(f, false) != FETCH_NONE;
}

bool
zen_row_fetch_again(ZenFetch *f)
{
	return row_fetch_uncounted(f, false) != FETCH_NONE;
}

bool
zen_row_read(ZenFetch *f)
{
	Fetched		fetched = row_fetch(f, true);

	if (fetched == FETCH_MISSED)
		zen_admission_missed(f->ht, f->tidno);
	return fetched != FETCH_NONE;
}

/* Inside the epoch: zen_row_visible. */
static bool
look_visible(ZenFetch *f)
{
	ZenSpilledChain space;
	ZenVersion *successor;
	uint64		w;
	ZenVersion *head = zen_spillmap_tid_chain(f->ht, f->tidno, &w, &space);

	if (head == NULL)
	{
		f->all_dead = zen_word_state(w) != ZEN_WORD_NVM && zen_word_state(w) != ZEN_WORD_UNUSED;
		return zen_word_state(w) == ZEN_WORD_NVM;
	}
	if (zen_visible_version(head, f->snapshot, &successor) != NULL)
		return true;
	f->all_dead = (zen_version_flags(head) & (ZEN_V_TOMBSTONE | ZEN_V_FROZEN)) ==
		(ZEN_V_TOMBSTONE | ZEN_V_FROZEN);
	return false;
}

bool
zen_row_visible(ZenFetch *f)
{
	bool		visible;

	Assert(IsMVCCSnapshot(f->snapshot) && f->code == ZEN_ANY_CODE && f->row == NULL);
	f->all_dead = false;
	zen_epoch_enter();
	visible = look_visible(f);
	zen_epoch_leave();
	return visible;
}

/* ---------- the rows of a block ---------- */

/* Inside the epoch: fetch a row that is spilled, or was a moment ago. */
static pg_noinline Fetched
fetch_spilled(ZenFetch *f, ZenWord *word)
{
	ZenSpilledChain space;
	ZenSlot		ignored;
	uint64		w;
	ZenVersion *head = zen_spillmap_word_chain(f->ht, f->tidno, word, &w, &space);

	return head != NULL ? fetch_version(f, head, false, &ignored) : FETCH_AGAIN;
}

/*
 * Inside the epoch: fetch the row to which a word leads, in the simple cases.
 *
 * The snapshot is an MVCC snapshot.  If there is none, only rows that every snapshot sees are fetched.
 */
static inline Fetched
fetch_word(ZenFetch *f, ZenWord *word)
{
	uint64		w = zen_word_read(word);
	ZenSlot		ignored;

	Assert(f->snapshot == InvalidSnapshot || wants_any(f));
	switch (zen_word_state(w))
	{
		case ZEN_WORD_ENTRY:
			if (zen_version_is_frozen_row(zen_word_entry(w)))
				return fetch_frozen(f, zen_word_entry(w));
			if (f->snapshot == InvalidSnapshot)
				return FETCH_AGAIN;
			return fetch_version(f, zen_word_entry(w), false, &ignored);
		case ZEN_WORD_NVM:
			return fetch_slot(f, zen_word_ref(w));
		case ZEN_WORD_SPILLED:
			return f->snapshot != InvalidSnapshot ? fetch_spilled(f, word) : FETCH_AGAIN;
		default:
			return FETCH_NONE;
	}
}

void
zen_row_count_scanned(ZenHTable *ht, uint32 hits, uint32 misses)
{
	count_reads(ht, ZEN_T_SCANNED, hits, misses);
}

void
zen_row_count_point(ZenHTable *ht)
{
	count_reads(ht, ZEN_T_HITS, 1, 0);
}

/* Empty the buffer of a block's rows; row becomes the place of the first. */
static void
block_start(ZenRowBlock *rows, ZenRow *row)
{
	static uint64 last_serial = 0;

	while (rows->chunk != NULL && rows->chunk->older != NULL)
	{
		ZenRowChunk *small = rows->chunk->older;

		rows->chunk->older = small->older;
		pfree(small);
	}
	memset(row, 0, sizeof(*row));
	row->block = rows;
	if (rows->chunk != NULL)
	{
		row->buf = rows->chunk->data;
		row->capacity = rows->chunk->size;
#ifdef CLOBBER_FREED_MEMORY
		memset(row->buf, 0x7F, row->capacity);
#endif
	}
	rows->found = rows->apart = 0;
	rows->serial = ++last_serial;
}

/* Keep the row that was fetched; row becomes the place of the next. */
static inline void
block_keep(HeapTuple tuple, ZenRow *row)
{
	Size		taken = MAXALIGN(row->len);

	Assert(taken <= row->capacity && (uintptr_t) row->buf % MAXIMUM_ALIGNOF == 0);
	tuple->t_len = row->len;
	tuple->t_self = row->tid;
	tuple->t_data = (HeapTupleHeader) row->buf;
	row->buf += taken;
	row->capacity -= taken;
}

/* Ask for the memory of the first of the rows that were not asked for. */
static inline void
ask_next(ZenWord *words, uint64 *ahead)
{
	if (*ahead == 0)
		return;
	zen_row_prefetch_word(zen_word_read(&words[pg_rightmost_one_pos64(*ahead)]), ZEN_PREFETCH_LINES);
	*ahead &= *ahead - 1;
}

void
zen_row_fetch_block(ZenHTable *ht, uint64 block, uint64 wanted, Snapshot snapshot, ZenRowBlock *rows)
{
	ZenRow		row;
	ZenFetch	f = {.ht = ht,.snapshot = snapshot,.code = ZEN_ANY_CODE,.row = &row};
	uint64		first = block * ZEN_TIDS_PER_BLOCK;
	ZenWord    *words;
	uint64		ahead;
	uint32		hits = 0,
				misses = 0;

	block_start(rows, &row);
	zen_epoch_enter();
	words = zen_tidmap_word(ht, first);
	if (words == NULL)
		wanted = 0;
	zen_row_ask_disk(words, wanted);
	ahead = wanted;
	for (int i = 0; i < FETCH_AHEAD; i++)
		ask_next(words, &ahead);
	for (uint64 left = wanted; left != 0; left &= left - 1)
	{
		int			i = pg_rightmost_one_pos64(left);
		uint64		bit = UINT64CONST(1) << i;

		ask_next(words, &ahead);
		f.tidno = first + i;
		switch (fetch_word(&f, &words[i]))
		{
			case FETCH_NONE:
				continue;
			case FETCH_FOUND:
				hits++;
				break;
			case FETCH_MISSED:
			case FETCH_SPILLED:
				misses++;
				break;
			case FETCH_AGAIN:
			case FETCH_DAMAGED:
				rows->apart |= bit;
				continue;
		}
		block_keep(&rows->tuples[i], &row);
		rows->found |= bit;
	}
	zen_epoch_leave();
	Assert((rows->found & rows->apart) == 0 && ((rows->found | rows->apart) & ~wanted) == 0);
	count_reads(ht, ZEN_T_SCANNED, hits, misses);
}

void
zen_row_block_free(ZenRowBlock *rows)
{
	while (rows->chunk != NULL)
	{
		ZenRowChunk *chunk = rows->chunk;

		rows->chunk = chunk->older;
		pfree(chunk);
	}
}

/* ---------- other looks at a row ---------- */

/* The version under a tombstone that has data and has not aborted, or NULL. */
static ZenVersion *
deleted_version(ZenVersion *deleter)
{
	ZenVersion *v = deleter;

	while (v != NULL && (zen_version_flags(v) & ZEN_V_TOMBSTONE))
		v = v->older ? zen_top_version(v->older) : NULL;
	return v;
}

/* The version of a chain that zen_row_inspect() copies, or NULL, and the state of the newest versions. */
static ZenVersion *
inspect_chain(ZenVersion *head, ZenRowInfo *info)
{
	ZenVersion *v = zen_top_version(head);
	ZenXidState state;

	if (v == NULL)
		return NULL;
	state = zen_version_state(v);
	if (zen_version_flags(v) & ZEN_V_TOMBSTONE)
	{
		ZenVersion *deleter = v;

		v = deleted_version(deleter);
		if (zen_version_flags(deleter) & ZEN_V_FROZEN)
		{
			info->state = ZEN_ROW_DEAD;
			return NULL;
		}
		info->xid = deleter->xmin;
		info->state = state == ZEN_XID_COMMITTED ? ZEN_ROW_RECENTLY_DEAD : ZEN_ROW_DELETE_IN_PROGRESS;
		if (v == NULL)
		{
			info->state = ZEN_ROW_DEAD;
			return NULL;
		}

		/*
		 * if the deleter has inserted it as well, no other transaction ever
		 * sees it
		 */
	}
	else if (state == ZEN_XID_COMMITTED)
		info->state = ZEN_ROW_LIVE;
	else
	{
		/*
		 * an update under way leaves the row live, however it ends: count it
		 * as live, as its new version
		 */
		info->xid = v->xmin;
		info->state = ZEN_ROW_INSERT_IN_PROGRESS;
	}
	info->xmin = v->xmin;
	info->older_versions = v->older != NULL && !(zen_version_flags(v) & ZEN_V_FROZEN) &&
		zen_top_version(v->older) != NULL;
	return v;
}

/* Inside the epoch: one attempt at zen_row_inspect(). */
static Fetched
row_inspect(ZenHTable *ht, uint64 tidno, ZenRow *row, ZenRowInfo *info, ZenSlot *slot)
{
	ZenSpilledChain space;
	uint64		w;
	ZenVersion *v = zen_spillmap_tid_chain(ht, tidno, &w, &space);

	if (v != NULL)
	{
		v = inspect_chain(v, info);
		if (v == NULL)
			return FETCH_NONE;
		*slot = v->slot;
		if (copy_out(row, tidno, v, NULL))
			return FETCH_FOUND;
		if (zen_version_state(v) == ZEN_XID_ABORTED)
			return FETCH_AGAIN;

		/*
		 * a damaged one of a prepared transaction: an update in place keeps
		 * all columns that indexes know, and may be rolled back
		 */
		v = zen_version_state(v) == ZEN_XID_IN_PROGRESS && v->older != NULL ? zen_top_version(v->older) : NULL;
		return v != NULL && !(zen_version_flags(v) & ZEN_V_TOMBSTONE) && copy_out(row, tidno, v, NULL) ?
			FETCH_FOUND : FETCH_DAMAGED;
	}
	if (zen_word_state(w) == ZEN_WORD_NVM)
	{
		*slot = zen_word_ref(w);
		info->state = ZEN_ROW_LIVE;
		info->xmin = FrozenTransactionId;
		return copy_out_slot(row, tidno, *slot, zen_tuple_header(*slot).word1) ? FETCH_FOUND : FETCH_DAMAGED;
	}
	if (zen_word_state(w) != ZEN_WORD_UNUSED)
		info->state = ZEN_ROW_DEAD;
	return FETCH_NONE;
}

bool
zen_row_inspect(ZenHTable *ht, uint64 tidno, ZenRow *row, ZenRowInfo *info)
{
	ZenSlot		slot = InvalidZenSlot;
	Fetched		fetched;

	do
	{
		memset(info, 0, sizeof(*info));
		zen_epoch_enter();
		fetched = row_inspect(ht, tidno, row, info, &slot);
		zen_epoch_leave();
	} while (fetched == FETCH_AGAIN);
	if (fetched == FETCH_DAMAGED)
		zen_tuple_unreadable(slot, tidno);
	Assert(fetched != FETCH_FOUND || info->state >= ZEN_ROW_LIVE);
	return fetched == FETCH_FOUND;
}

/* The newest version, tombstones included, that is committed or this transaction's; NULL if there is none. */
static ZenVersion *
settled_version(ZenVersion *head)
{
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		ZenXidState state = zen_version_state(v);

		if (state == ZEN_XID_COMMITTED || state == ZEN_XID_CURRENT)
			return v;
	}
	return NULL;
}

/* Inside the epoch: zen_row_sample.  The row is taken as it is if all transactions under way elsewhere abort. */
static Fetched
row_sample(const ZenFetch *f, bool *dead, ZenSlot *slot)
{
	ZenSpilledChain space;
	uint64		w;
	ZenVersion *v = zen_spillmap_tid_chain(f->ht, f->tidno, &w, &space);

	*dead = false;
	if (v != NULL)
	{
		v = settled_version(v);
		*dead = v != NULL && (zen_version_flags(v) & ZEN_V_TOMBSTONE);
		if (v == NULL || *dead)
			return FETCH_NONE;
		*slot = v->slot;
		return copy_out(f->row, f->tidno, v, NULL) ? FETCH_FOUND : FETCH_DAMAGED;
	}
	if (zen_word_state(w) == ZEN_WORD_NVM)
	{
		*slot = zen_word_ref(w);
		return fetch_slot(f, *slot);
	}
	*dead = zen_word_state(w) != ZEN_WORD_UNUSED;
	return FETCH_NONE;
}

bool
zen_row_sample(ZenHTable *ht, uint64 tidno, ZenRow *row, bool *dead)
{
	ZenFetch	f = {.ht = ht,.tidno = tidno,.code = ZEN_ANY_CODE,.row = row};
	ZenSlot		slot = InvalidZenSlot;
	Fetched		fetched;

	zen_epoch_enter();
	fetched = row_sample(&f, dead, &slot);
	zen_epoch_leave();
	if (fetched == FETCH_DAMAGED)
		zen_tuple_unreadable(slot, tidno);
	return fetched == FETCH_FOUND || fetched == FETCH_MISSED;
}

/* row_sample() for a row whose word is at hand, in the simple cases by what the word leads to. */
static inline Fetched
sample_word(const ZenFetch *f, ZenWord *word, bool *dead)
{
	uint64		w = zen_word_read(word);
	ZenSlot		ignored;

	*dead = false;
	if (zen_word_state(w) == ZEN_WORD_NVM)
		return fetch_slot(f, zen_word_ref(w));
	if (zen_word_state(w) == ZEN_WORD_UNUSED)
		return FETCH_NONE;
	if (zen_word_state(w) == ZEN_WORD_ENTRY && zen_version_is_frozen_row(zen_word_entry(w)))
		return copy_out(f->row, f->tidno, zen_word_entry(w), NULL) ? FETCH_FOUND : FETCH_DAMAGED;
	return row_sample(f, dead, &ignored);
}

/* Each row is as zen_row_sample() finds it at some moment while its block is read. */
uint32
zen_row_sample_block(ZenHTable *ht, uint64 block, ZenRowBlock *rows)
{
	ZenRow		row;
	ZenFetch	f = {.ht = ht,.code = ZEN_ANY_CODE,.row = &row};
	uint64		first = block * ZEN_TIDS_PER_BLOCK;
	uint32		ndead = 0;
	ZenWord    *words;

	block_start(rows, &row);
	zen_epoch_enter();
	words = zen_tidmap_word(ht, first);
	if (words != NULL)
		zen_row_ask_block(words, PG_UINT64_MAX);
	for (int i = 0; words != NULL && i < ZEN_TIDS_PER_BLOCK; i++)
	{
		Fetched		fetched;
		bool		dead;

		f.tidno = first + i;
		fetched = sample_word(&f, &words[i], &dead);
		ndead += dead;
		if (fetched == FETCH_DAMAGED)
			rows->apart |= UINT64CONST(1) << i;
		if (fetched != FETCH_FOUND && fetched != FETCH_MISSED)
			continue;
		block_keep(&rows->tuples[i], &row);
		rows->found |= UINT64CONST(1) << i;
	}
	zen_epoch_leave();
	Assert((rows->found & rows->apart) == 0);
	return ndead;
}

bool
zen_row_newest(ZenHTable *ht, uint64 tidno, uint32 *code)
{
	ZenSpilledChain space;
	ZenVersion *v;
	uint64		w;
	bool		found = false;

	zen_epoch_enter();
	v = zen_spillmap_tid_chain(ht, tidno, &w, &space);
	if (v != NULL)
		v = settled_version(v);
	if (v != NULL)
	{
		*code = v->code;
		found = !(zen_version_flags(v) & ZEN_V_TOMBSTONE);
	}
	if (zen_word_state(w) == ZEN_WORD_NVM)
	{
		*code = zen_word1_code(zen_tuple_header(zen_word_ref(w)).word1);
		found = true;
	}
	zen_epoch_leave();
	return found;
}

bool
zen_row_forward(ZenHTable *ht, uint64 tidno, Snapshot snapshot, uint64 *next)
{
	ZenSpilledChain space;
	ZenVersion *v;
	uint64		w;
	bool		found = false;

	zen_epoch_enter();
	for (v = zen_spillmap_tid_chain(ht, tidno, &w, &space); v != NULL; v = v->older)
		if (zen_snapshot_sees(v, snapshot))
			break;
	if (v != NULL && (zen_version_flags(v) & ZEN_V_FORWARD))
	{
		Assert(v->forward_tidno != tidno);
		*next = v->forward_tidno;
		found = true;
	}
	zen_epoch_leave();
	return found;
}
