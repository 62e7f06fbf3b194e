/*
 * rowread.c -- reading rows.
 *
 * Reading takes no lock: enter the epoch, load the word, walk the chain or read the slot, copy, leave.
 *
 * A scan reads the rows of a block in one go.  What it waits for is memory: a version, or a slot, is seldom near the one before.
 * So all of the block's are asked for before the first is looked at.
 */
#include "row/rowread.h"

#include "cache/admission.h"
#include "cache/damage.h"
#include "cache/tablestat.h"
#include "nvm/page.h"
#include "port/pg_bitutils.h"
#include "row/rowadmit.h"
#include "row/visibility.h"
#include "utils/memutils.h"

#define PREFETCH_LINES	3		/* of each row of a block: a version's header
								 * and 100 bytes of data */

/* ---------- copying ---------- */

/* Make room for a tuple of len bytes; returns where its MinimalTuple goes. */
static MinimalTuple
row_buffer(ZenRow *row, uint32 len)
{
	Size		needed = len + MINIMAL_TUPLE_OFFSET;

	if (row->capacity < needed)
	{
		if (row->buf)
			pfree(row->buf);
		row->capacity = 0;
		row->buf = NULL;
		row->buf = MemoryContextAllocHuge(row->mcxt, Max(needed, 256));
		row->capacity = Max(needed, 256);
	}
	row->len = needed;
	return (MinimalTuple) (row->buf + MINIMAL_TUPLE_OFFSET);
}

/* Fill the fields that a HeapTuple has and a MinimalTuple has not. */
static void
row_header(ZenRow *row, uint64 tidno, uint32 code, TransactionId xmin, TransactionId xmax, CommandId cid,
		   bool frozen)
{
	HeapTupleHeader h = (HeapTupleHeader) row->buf;

	h->t_choice.t_heap.t_xmin = xmin;
	h->t_choice.t_heap.t_xmax = xmax;
	h->t_choice.t_heap.t_field3.t_cid = cid;
	zen_make_tid(&row->tid, tidno, code);
	h->t_ctid = row->tid;
	row->xmin = frozen ? FrozenTransactionId : xmin;
}

/* Copy the row in a slot; false if it is damaged. */
static bool
copy_slot(ZenRow *row, uint64 tidno, ZenSlot slot, uint64 word1)
{
	int64		len = zen_tuple_len(slot, zen_slot_size(slot));
	TransactionId xmin;

	if (len <= 0 || !zen_tuple_read(slot, row_buffer(row, (uint32) len), (uint32) len, &xmin))
		return false;
	row_header(row, tidno, zen_word1_code(word1), xmin, InvalidTransactionId, FirstCommandId, true);
	return true;
}

/* Copy a version; false if it is one read back, and its slot is damaged or was scrubbed. */
static bool
copy_version(ZenRow *row, uint64 tidno, ZenVersion *v, ZenVersion *successor)
{
	bool		frozen = (zen_version_flags(v) & ZEN_V_FROZEN) != 0;
	TransactionId xmin = v->xmin;

	if (zen_version_flags(v) & ZEN_V_IN_NVM)
	{
		int64		len = zen_tuple_len(v->slot, zen_slot_size(v->slot));

		if (len <= 0 ||
			!zen_tuple_read(v->slot, row_buffer(row, (uint32) len), (uint32) len, frozen ? &xmin : NULL))
			return false;
	}
	else
		memcpy(row_buffer(row, v->len), v->data, v->len);
	row_header(row, tidno, v->code, xmin, successor ? successor->xmin : InvalidTransactionId, v->cmin, frozen);
	return true;
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
	FETCH_AGAIN,				/* its writer has aborted meanwhile, and
								 * scrubbed its slot */
	FETCH_DAMAGED
} Fetched;

/* Inside the epoch: fetch from a chain. */
static Fetched
fetch_version(ZenVersion *head, uint64 tidno, int code, Snapshot snapshot, ZenRow *row,
			  bool *all_dead, ZenPassed *passed, bool point, ZenSlot *slot)
{
	ZenVersion *successor;
	ZenVersion *v = wanted_version(head, code, snapshot, &successor);

	if (passed)
		note_passed(passed, head, v);
	if (v == NULL)
	{
		if (all_dead)
			*all_dead = (zen_version_flags(head) & (ZEN_V_TOMBSTONE | ZEN_V_FROZEN)) ==
				(ZEN_V_TOMBSTONE | ZEN_V_FROZEN);
		return FETCH_NONE;
	}
	*slot = v->slot;
	if (!copy_version(row, tidno, v, successor))
	{
		if (zen_version_state(v) != ZEN_XID_ABORTED)
			return FETCH_DAMAGED;
		/* by its code a version is fetched whatever its fate */
		return snapshot->snapshot_type == SNAPSHOT_ANY && code >= 0 ? FETCH_NONE : FETCH_AGAIN;
	}
	if (point && !(zen_version_flags(v) & ZEN_V_IN_NVM))
		zen_version_touch(head, zen_sketch_age());
	return zen_version_flags(v) & ZEN_V_IN_NVM ? FETCH_SPILLED : FETCH_FOUND;
}

/* Inside the epoch: fetch from the slot that a word in state NVM leads to. */
static Fetched
fetch_slot(ZenSlot slot, uint64 tidno, int code, ZenRow *row)
{
	ZenTupleHeader h = zen_tuple_header(slot);

	if (code >= 0 && zen_word1_code(h.word1) != code)
		return FETCH_NONE;
	return copy_slot(row, tidno, slot, h.word1) ? FETCH_MISSED : FETCH_DAMAGED;
}

static void
count_reads(ZenHTable *ht, ZenTableCounter counter, uint32 hits, uint32 misses)
{
	ZEN_COUNT(metcache_hits, hits);
	ZEN_COUNT(metcache_misses, misses);
	zen_tablestat_add(ht->idx, zen_tablestat_generation(ht->idx), counter, hits + misses);
}

/* zen_row_fetch and zen_row_read. */
static Fetched
fetch_row(ZenHTable *ht, uint64 tidno, int code, Snapshot snapshot, ZenRow *row,
		  bool *all_dead, ZenPassed *passed, bool point)
{
	ZenSpilledChain space;
	ZenVersion *head;
	ZenWord    *word;
	Fetched		fetched;
	ZenSlot		slot = InvalidZenSlot;
	uint64		w;

	do
	{
		if (all_dead)
			*all_dead = false;
		if (passed)
			passed->n = 0;
		if (snapshot->snapshot_type == SNAPSHOT_DIRTY)
		{
			snapshot->xmin = snapshot->xmax = InvalidTransactionId;
			snapshot->speculativeToken = 0;
		}
		fetched = FETCH_NONE;
		w = ZEN_WORD_UNUSED;
		zen_epoch_enter();
		word = zen_tidmap_word(ht, tidno);
		head = word ? zen_word_chain(ht, tidno, word, &w, &space) : NULL;
		if (head != NULL)
			fetched = fetch_version(head, tidno, code, snapshot, row, all_dead, passed, point, &slot);
		else if (zen_word_state(w) == ZEN_WORD_NVM)
		{
			slot = zen_word_ref(w);
			fetched = fetch_slot(slot, tidno, code, row);
		}
		else if (all_dead)
			*all_dead = zen_word_state(w) != ZEN_WORD_UNUSED;
		zen_epoch_leave();
	} while (fetched == FETCH_AGAIN);
	if (fetched == FETCH_DAMAGED)
	{
		zen_tuple_unreadable(slot, tidno);
		return FETCH_NONE;
	}
	if (fetched == FETCH_FOUND)
		count_reads(ht, point ? ZEN_T_HITS : ZEN_T_SCANNED, 1, 0);
	else if (fetched != FETCH_NONE)
		count_reads(ht, point ? ZEN_T_MISSES : ZEN_T_SCANNED, 0, 1);
	return fetched;
}

bool
zen_row_fetch(ZenHTable *ht, uint64 tidno, int code, Snapshot snapshot, ZenRow *row,
			  bool *all_dead, ZenPassed *passed)
{
	return fetch_row(ht, tidno, code, snapshot, row, all_dead, passed, false) != FETCH_NONE;
}

bool
zen_row_read(ZenHTable *ht, uint64 tidno, int code, Snapshot snapshot, ZenRow *row,
			 bool *all_dead, ZenPassed *passed)
{
	Fetched		fetched = fetch_row(ht, tidno, code, snapshot, row, all_dead, passed, true);

	if (fetched == FETCH_MISSED)
		zen_admission_missed(ht, tidno);
	return fetched != FETCH_NONE;
}

/* ---------- the rows of a block ---------- */

/* Ask for what a word leads to: the header and the beginning of the data. */
static inline void
prefetch_row(uint64 w)
{
	const char *p = zen_word_state(w) == ZEN_WORD_ENTRY ? (const char *) zen_word_entry(w) :
	zen_word_state(w) == ZEN_WORD_NVM ? (const char *) zen_slot_ptr(zen_word_ref(w)) : NULL;

	for (int i = 0; p != NULL && i < PREFETCH_LINES; i++)
		__builtin_prefetch(p + i * ZEN_LINE);
}

/* Inside the epoch: fetch what a word leads to, if that is simple. */
static inline Fetched
fetch_word(uint64 w, uint64 tidno, Snapshot snapshot, ZenRow *row)
{
	ZenSlot		ignored;

	switch (zen_word_state(w))
	{
		case ZEN_WORD_ENTRY:
			return fetch_version(zen_word_entry(w), tidno, ZEN_ANY_CODE, snapshot, row, NULL, NULL, false, &ignored);
		case ZEN_WORD_NVM:
			return fetch_slot(zen_word_ref(w), tidno, ZEN_ANY_CODE, row);
		case ZEN_WORD_SPILLED:
			return FETCH_AGAIN;
		default:
			return FETCH_NONE;
	}
}

static void
prefetch_rows(ZenWord *words, uint64 wanted)
{
	for (uint64 left = wanted; left != 0; left &= left - 1)
		prefetch_row(zen_word_read(&words[pg_rightmost_one_pos64(left)]));
}

void
zen_row_prefetch_block(ZenHTable *ht, uint64 block)
{
	ZenWord    *words;

	zen_epoch_enter();
	words = zen_tidmap_word(ht, block * ZEN_TIDS_PER_BLOCK);
	if (words != NULL)
		prefetch_rows(words, PG_UINT64_MAX);
	zen_epoch_leave();
}

void
zen_row_fetch_block(ZenHTable *ht, uint64 block, uint64 wanted, Snapshot snapshot, ZenRowBlock *rows)
{
	uint64		first = block * ZEN_TIDS_PER_BLOCK;
	ZenWord    *words;
	uint32		hits = 0,
				misses = 0;

	rows->found = rows->apart = 0;
	zen_epoch_enter();
	words = zen_tidmap_word(ht, first);
	if (words == NULL)
		wanted = 0;
	prefetch_rows(words, wanted);
	for (uint64 left = wanted; left != 0; left &= left - 1)
	{
		int			i = pg_rightmost_one_pos64(left);
		uint64		bit = UINT64CONST(1) << i;

		switch (fetch_word(zen_word_read(&words[i]), first + i, snapshot, &rows->rows[i]))
		{
			case FETCH_NONE:
				break;
			case FETCH_FOUND:
				rows->found |= bit;
				hits++;
				break;
			case FETCH_MISSED:
			case FETCH_SPILLED:
				rows->found |= bit;
				misses++;
				break;
			case FETCH_AGAIN:
			case FETCH_DAMAGED:
				rows->apart |= bit;
				break;
		}
	}
	zen_epoch_leave();
	count_reads(ht, ZEN_T_SCANNED, hits, misses);
}

void
zen_row_copy(ZenRow *to, const ZenRow *from)
{
	(void) row_buffer(to, from->len - MINIMAL_TUPLE_OFFSET);
	memcpy(to->buf, from->buf, from->len);
	to->tid = from->tid;
	to->xmin = from->xmin;
}

/* ---------- other looks at a row ---------- */

/* What is to be known of a chain's newest versions. */
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

		v = v->older ? zen_top_version(v->older) : NULL;
		while (v != NULL && (zen_version_flags(v) & ZEN_V_TOMBSTONE))
			v = v->older ? zen_top_version(v->older) : NULL;
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
		 * deleted by a transaction that inserted it: never seen by anyone
		 * else
		 */
	}
	else if (state == ZEN_XID_COMMITTED)
		info->state = ZEN_ROW_LIVE;
	else
	{
		/*
		 * an update under way leaves the row live either way: count it as
		 * live, as its new version
		 */
		info->xid = v->xmin;
		info->state = ZEN_ROW_INSERT_IN_PROGRESS;
	}
	info->xmin = v->xmin;
	info->older_versions = v->older != NULL && !(zen_version_flags(v) & ZEN_V_FROZEN) &&
		zen_top_version(v->older) != NULL;
	return v;
}

/* One attempt at zen_row_inspect(). */
static Fetched
inspect(ZenHTable *ht, uint64 tidno, ZenRow *row, ZenRowInfo *info, ZenSlot *slot)
{
	ZenWord    *word = zen_tidmap_word(ht, tidno);
	uint64		w = ZEN_WORD_UNUSED;
	ZenSpilledChain space;
	ZenVersion *v = word ? zen_word_chain(ht, tidno, word, &w, &space) : NULL;

	if (v != NULL)
	{
		v = inspect_chain(v, info);
		if (v == NULL)
			return FETCH_NONE;
		*slot = v->slot;
		if (copy_version(row, tidno, v, NULL))
			return FETCH_FOUND;
		if (zen_version_state(v) == ZEN_XID_ABORTED)
			return FETCH_AGAIN;

		/*
		 * a damaged one of a prepared transaction: an update in place keeps
		 * all columns that indexes know, and may be rolled back
		 */
		v = zen_version_state(v) == ZEN_XID_IN_PROGRESS && v->older != NULL ? zen_top_version(v->older) : NULL;
		return v != NULL && !(zen_version_flags(v) & ZEN_V_TOMBSTONE) && copy_version(row, tidno, v, NULL) ?
			FETCH_FOUND : FETCH_DAMAGED;
	}
	if (zen_word_state(w) == ZEN_WORD_NVM)
	{
		*slot = zen_word_ref(w);
		info->state = ZEN_ROW_LIVE;
		info->xmin = FrozenTransactionId;
		return copy_slot(row, tidno, *slot, zen_tuple_header(*slot).word1) ? FETCH_FOUND : FETCH_DAMAGED;
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
		fetched = inspect(ht, tidno, row, info, &slot);
		zen_epoch_leave();
	} while (fetched == FETCH_AGAIN);
	if (fetched == FETCH_DAMAGED)
		zen_tuple_unreadable(slot, tidno);
	return fetched == FETCH_FOUND;
}

/*
 * What counts for ANALYZE: the row as it is if all transactions under way elsewhere were to abort.  The newest version that is
 * committed or this transaction's, NULL if there is none or, *dead, if it says that the row is deleted.
 */
static ZenVersion *
settled_version(ZenVersion *v, bool *dead)
{
	for (; v != NULL; v = v->older)
	{
		ZenXidState state = zen_version_state(v);

		if (state != ZEN_XID_COMMITTED && state != ZEN_XID_CURRENT)
			continue;
		*dead = (zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0;
		return *dead ? NULL : v;
	}
	return NULL;
}

/* Inside the epoch: zen_row_sample. */
static Fetched
sample(ZenHTable *ht, uint64 tidno, ZenRow *row, bool *dead, ZenSlot *slot)
{
	ZenWord    *word = zen_tidmap_word(ht, tidno);
	uint64		w = ZEN_WORD_UNUSED;
	ZenSpilledChain space;
	ZenVersion *v = word ? zen_word_chain(ht, tidno, word, &w, &space) : NULL;

	*dead = false;
	if (v != NULL)
	{
		v = settled_version(v, dead);
		if (v == NULL)
			return FETCH_NONE;
		*slot = v->slot;
		return copy_version(row, tidno, v, NULL) ? FETCH_FOUND : FETCH_DAMAGED;
	}
	if (zen_word_state(w) == ZEN_WORD_NVM)
	{
		*slot = zen_word_ref(w);
		return fetch_slot(*slot, tidno, ZEN_ANY_CODE, row);
	}
	*dead = zen_word_state(w) != ZEN_WORD_UNUSED;
	return FETCH_NONE;
}

bool
zen_row_sample(ZenHTable *ht, uint64 tidno, ZenRow *row, bool *dead)
{
	ZenSlot		slot = InvalidZenSlot;
	Fetched		fetched;

	zen_epoch_enter();
	fetched = sample(ht, tidno, row, dead, &slot);
	zen_epoch_leave();
	if (fetched == FETCH_DAMAGED)
		zen_tuple_unreadable(slot, tidno);
	return fetched == FETCH_FOUND || fetched == FETCH_MISSED;
}

bool
zen_row_newest(ZenHTable *ht, uint64 tidno, uint32 *code)
{
	ZenWord    *word;
	ZenSpilledChain space;
	uint64		w = ZEN_WORD_UNUSED;
	bool		found = false;

	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	for (ZenVersion *v = word ? zen_word_chain(ht, tidno, word, &w, &space) : NULL; v != NULL; v = v->older)
	{
		ZenXidState state = zen_version_state(v);

		if (state == ZEN_XID_COMMITTED || state == ZEN_XID_CURRENT)
		{
			*code = v->code;
			found = !(zen_version_flags(v) & ZEN_V_TOMBSTONE);
			break;
		}
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
	ZenWord    *word;
	ZenSpilledChain space;
	ZenVersion *v;
	uint64		w;
	bool		found = false;

	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	v = word ? zen_word_chain(ht, tidno, word, &w, &space) : NULL;
	while (v != NULL && !zen_snapshot_sees(v, snapshot))
		v = v->older;
	if (v != NULL && (zen_version_flags(v) & ZEN_V_FORWARD))
	{
		*next = v->forward_tidno;
		found = true;
	}
	zen_epoch_leave();
	return found;
}
