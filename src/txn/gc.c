/*
 * gc.c -- garbage collection.
 *
 * R12: a version is cut off when its successor is committed and older than every snapshot; the cut versions are
 * retired through the epochs and take their slots with them.  Freed slots keep their headers until they are reused,
 * so each one is counted in the map word (stale) before it is freed, and uncounted when a new header over it has
 * been fenced (zen_gc_forget_header, called by commit).
 *
 * R5: a tombstone's slot is freed when that count is 0.  Whoever brings the word into that state does it: the
 * collector when the tombstone becomes the only version, or the writer that takes the last stale header away.
 */
#include "txn/gc.h"

#include "access/transam.h"
#include "base/fault.h"
#include "cache/metcache.h"
#include "cache/spill.h"
#include "storage/procarray.h"
#include "storage/shmem.h"

#define CHUNK_ITEMS		255
#define EVICT_WHEN_FULL	65536	/* entries that the CLOCK hand passes when
								 * DRAM is full */
#define ITEMS_PER_RUN	64
#define HORIZON_EVERY	16		/* runs between two looks at the xid horizon,
								 * when nothing is due by the last one */

typedef struct GcItem
{
	uint64		tidno;
	uint32		htable:31;
	uint32		spilled:1;		/* all TIDs of the block, which have a spill
								 * record */
	TransactionId xid;
} GcItem;

typedef struct GcChunk
{
	struct GcChunk *next;
	GcItem		items[CHUNK_ITEMS];
} GcChunk;

/* Belongs to the region's lease holder, except n, which others may read. */
typedef struct GcQueue
{
	GcChunk    *head;
	GcChunk    *tail;			/* the chunk being filled; empty chunks
								 * reserved may follow it */
	uint32		head_pos;
	uint32		tail_pos;
	uint32		reserved;		/* places in chunks behind tail */
	pg_atomic_uint32 n;
} GcQueue;

static GcQueue *queues;			/* [ZEN_MAX_REGIONS] */
static TransactionId horizon = InvalidTransactionId;	/* last one computed by
														 * this process */
static uint32 runs_since_horizon = 0;

/* ---------- the queue ---------- */

bool
zen_gc_reserve(uint32 region, uint32 n)
{
	GcQueue    *q = &queues[region];
	GcChunk    *last = q->tail;
	uint32		places = q->reserved + (q->tail ? CHUNK_ITEMS - q->tail_pos : 0);

	while (last != NULL && last->next != NULL)
		last = last->next;
	while (places < n)
	{
		GcChunk    *chunk = zen_arena_alloc(sizeof(GcChunk));

		if (chunk == NULL)
			return false;
		chunk->next = NULL;
		if (last != NULL)
		{
			last->next = chunk;
			q->reserved += CHUNK_ITEMS;
		}
		else
		{
			q->head = q->tail = chunk;
			q->head_pos = q->tail_pos = 0;
		}
		last = chunk;
		places += CHUNK_ITEMS;
	}
	return true;
}

/* Add an item; there is room. */
static void
push(uint32 region, GcItem item)
{
	GcQueue    *q = &queues[region];

	if (q->tail_pos == CHUNK_ITEMS)
	{
		Assert(q->tail->next != NULL);
		q->tail = q->tail->next;
		q->tail_pos = 0;
		q->reserved -= CHUNK_ITEMS;
	}
	q->tail->items[q->tail_pos++] = item;
	pg_atomic_write_u32(&q->n, pg_atomic_read_u32(&q->n) + 1);
}

void
zen_gc_push(uint32 region, ZenHTable *ht, uint64 tidno, TransactionId xid)
{
	GcItem		item = {.tidno = tidno,.htable = ht->idx,.xid = xid};

	push(region, item);
}

void
zen_gc_push_block(uint32 region, ZenHTable *ht, uint32 block, TransactionId xid)
{
	GcItem		item = {.tidno = (uint64) block * ZEN_TIDS_PER_BLOCK,.htable = ht->idx,.spilled = true,.xid = xid};

	push(region, item);
}

/* The oldest item, or NULL. */
static GcItem *
peek(GcQueue *q)
{
	if (q->head == NULL)
		return NULL;
	if (q->head_pos == CHUNK_ITEMS && q->head != q->tail)
	{
		GcChunk    *empty = q->head;

		q->head = empty->next;
		q->head_pos = 0;
		zen_arena_free(empty, sizeof(GcChunk));
	}
	if (q->head == q->tail && q->head_pos == q->tail_pos)
		return NULL;
	return &q->head->items[q->head_pos];
}

static void
drop_first(GcQueue *q)
{
	q->head_pos++;
	pg_atomic_write_u32(&q->n, pg_atomic_read_u32(&q->n) - 1);
}

/* ---------- R5: stale headers ---------- */

/* A DEAD or UNUSED word without stale headers needs its tombstone no more. */
static uint64
drop_tombstone(uint64 w, ZenSlot *to_free)
{
	uint64		state = zen_word_state(w);

	*to_free = InvalidZenSlot;
	if (((w & ZEN_WORD_STALE) == 0 || ZEN_FAULT(R5_FREE_TOMBSTONE_EARLY)) && zen_word_ref(w) != 0 &&
		(state == ZEN_WORD_DEAD || state == ZEN_WORD_DYING || state == ZEN_WORD_UNUSED))
	{
		*to_free = zen_word_ref(w);
		w = zen_word_with(w, state, 0);
	}
	return w;
}

void
zen_gc_forget_header(ZenTupleHeader h)
{
	ZenHTable  *ht = &zen_htables[zen_word1_htable(h.word1)];
	ZenWord    *word;
	ZenSlot		tombstone = InvalidZenSlot;
	uint64		w;

	if ((h.word0 & ZEN_CTS_MASK) == 0 || (h.word1 & ZEN_DELETED) || ht->idx == 0)
		return;
	zen_epoch_enter();

	/*
	 * as long as we are inside, the table cannot give its map or its number
	 * to another
	 */
	word = zen_htable_owns(ht, h.word0 & ZEN_CTS_MASK) ? zen_tidmap_word(ht, zen_word1_tidno(h.word1)) : NULL;
	if (word != NULL)
	{
		w = zen_word_lock(word);
		w = drop_tombstone(zen_word_stale_dec(w), &tombstone);
		zen_word_unlock(word, w);
	}
	if (tombstone != InvalidZenSlot)
	{
		zen_slot_free(tombstone);
		ZEN_COUNT(tombstones_freed, 1);
	}
	zen_epoch_leave();
}

/* ---------- collecting ---------- */

/* Retire a list of versions cut off; they were linked by older. */
static void
retire_list(ZenVersion *list)
{
	while (list != NULL)
	{
		ZenVersion *next = list->older;

		zen_version_retire(list);
		ZEN_COUNT(versions_freed, 1);
		list = next;
	}
}

/*
 * Under the word's lock: find the newest version that everyone sees, freeze it, cut off what is behind it.
 * Returns the new word; *cut: the list cut off; *tombstone: a slot to free; *lone: the version to put into the CLOCK;
 * *ended: a tombstone entry that the word no longer needs.
 */
static uint64
collect_word(uint64 w, ZenVersion **cut, ZenSlot *tombstone, ZenVersion **lone, ZenVersion **ended)
{
	ZenVersion *head = zen_word_entry(w);
	ZenVersion *v = head;
	uint32		flags = zen_version_flags(v);

	/* the item was queued for an earlier table of this number */
	if (flags & ZEN_V_PENDING)
		return w;
	while (v != NULL)
	{
		flags = zen_version_flags(v);
		if ((flags & ZEN_V_FROZEN) ||
			((flags & ZEN_V_COMMITTED) && TransactionIdPrecedes(v->xmin, horizon)))
			break;
		v = v->older;
	}
	if (v == NULL)
		return w;
	zen_version_set(v, ZEN_V_FROZEN);
	*cut = v->older;
	v->older = NULL;
	for (ZenVersion *c = *cut; c != NULL; c = c->older)
	{
		zen_version_condemn(c);
		if (c->slot != InvalidZenSlot && !(zen_version_flags(c) & ZEN_V_TOMBSTONE) && !ZEN_FAULT(R5_NO_COUNT_UP))
			w = zen_word_stale_inc(w);
	}
	if (v != head)
		return w;
	if (zen_version_flags(v) & ZEN_V_TOMBSTONE)
	{
		*ended = v;
		w = drop_tombstone(zen_word_with(w, ZEN_WORD_DEAD, v->slot), tombstone);
	}
	else if (v->lockers == NULL && !(zen_version_flags(v) & ZEN_V_IN_CLOCK))
	{
		zen_version_set(v, ZEN_V_IN_CLOCK);
		*lone = v;
	}
	return w;
}

static void
collect_row(ZenHTable *ht, uint64 tidno)
{
	ZenVersion *cut = NULL,
			   *lone = NULL,
			   *ended = NULL;
	ZenLockers *lockers = NULL;
	ZenSlot		tombstone = InvalidZenSlot;
	ZenWord    *word;
	uint64		w;

	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	if (word != NULL && zen_word_state(zen_word_read(word)) == ZEN_WORD_ENTRY)
	{
		w = zen_word_lock(word);
		if (zen_word_state(w) == ZEN_WORD_ENTRY)
			w = collect_word(w, &cut, &tombstone, &lone, &ended);
		if (ended != NULL)
		{
			lockers = ended->lockers;
			ended->lockers = NULL;
		}
		zen_word_unlock(word, w);
	}
	/* inside: after the epoch the slot's page may change hands */
	if (tombstone != InvalidZenSlot)
	{
		zen_slot_free(tombstone);
		ZEN_COUNT(tombstones_freed, 1);
	}
	zen_epoch_leave();
	if (lone != NULL)
		zen_metcache_enqueue(ht, tidno);
	if (ended != NULL)
		zen_version_retire(ended);
	if (lockers != NULL)
		zen_lockers_free(lockers);
	retire_list(cut);
}

/*
 * A spilled row that everyone sees needs its record no more: what it replaces is cut off, and its word leads to its slot
 * like any other row's.  False if it must be tried again: DRAM is full.
 */
static bool
collect_spilled(ZenHTable *ht, uint64 tidno)
{
	ZenSpilledChain space;
	ZenVersion *cut = NULL;
	ZenVersion *v;
	ZenWord    *word;
	ZenSlot		tombstone = InvalidZenSlot;
	bool		again = false,
				done = false;
	uint64		w,
				now;

	zen_epoch_enter();
	word = zen_tidmap_word(ht, tidno);
	v = word != NULL ? zen_word_chain(ht, tidno, word, &w, &space) : NULL;
	if (v != NULL && zen_word_state(w) == ZEN_WORD_SPILLED &&
		(zen_version_flags(v) & (ZEN_V_COMMITTED | ZEN_V_PENDING)) == ZEN_V_COMMITTED &&
		((zen_version_flags(v) & ZEN_V_FROZEN) || TransactionIdPrecedes(v->xmin, horizon)))
	{
		cut = v->older != NULL ? zen_version_alloc(0) : NULL;
		again = v->older != NULL && cut == NULL;
	}
	else
		v = NULL;
	if (v != NULL && !again)
	{
		bool		deleted = (zen_version_flags(v) & ZEN_V_TOMBSTONE) != 0;

		now = zen_word_lock(word);
		done = zen_word_same(now, w);
		if (done)
		{
			if (cut != NULL && !ZEN_FAULT(R5_NO_COUNT_UP))
				now = zen_word_stale_inc(now);
			now = zen_word_with(now, deleted ? ZEN_WORD_DEAD : ZEN_WORD_NVM, v->slot);
			now = drop_tombstone(now, &tombstone);
		}
		zen_word_unlock(word, now);
		/* inside: after the epoch the slots' pages may change hands */
		if (done && cut != NULL)
		{
			cut->slot = v->older->slot;
			zen_version_condemn(cut);
		}
		if (tombstone != InvalidZenSlot)
		{
			zen_slot_free(tombstone);
			ZEN_COUNT(tombstones_freed, 1);
		}
	}
	zen_epoch_leave();
	if (done && cut != NULL)
		retire_list(cut);
	else if (cut != NULL)
		zen_version_free(cut);
	return !again;
}

/* False if the block must be tried again. */
static bool
collect_block(ZenHTable *ht, uint64 first)
{
	bool		all = true;

	for (uint64 t = first; t < first + ZEN_TIDS_PER_BLOCK; t++)
	{
		all &= collect_spilled(ht, t);
		collect_row(ht, t);
	}
	zen_spill_trim(ht, (uint32) (first / ZEN_TIDS_PER_BLOCK), false);
	return all;
}

/* False if the item must be tried again. */
static bool
collect(GcItem *item)
{
	ZenHTable  *ht = &zen_htables[item->htable];

	if (item->spilled)
		return collect_block(ht, item->tidno);
	collect_row(ht, item->tidno);
	return true;
}

/* May the item be handled?  Looks at the horizon again when that is worth it. */
static bool
is_due(GcItem *item, bool *looked)
{
	if (TransactionIdIsValid(horizon) && TransactionIdPrecedes(item->xid, horizon))
		return true;
	if (*looked || runs_since_horizon < HORIZON_EVERY)
		return false;
	*looked = true;
	runs_since_horizon = 0;
	horizon = GetOldestNonRemovableTransactionId(NULL);
	return TransactionIdPrecedes(item->xid, horizon);
}

uint32
zen_gc_run(uint32 region, uint32 max)
{
	GcQueue    *q = &queues[region];
	uint32		done = 0;
	bool		looked = false;
	GcItem	   *item;

	/* a large transaction counts for many */
	runs_since_horizon += 1 + Min(max, HORIZON_EVERY * ITEMS_PER_RUN) / ITEMS_PER_RUN;
	while (done < max && (item = peek(q)) != NULL && is_due(item, &looked))
	{
		if (!collect(item))
			break;
		drop_first(q);
		done++;
	}
	return done;
}

void
zen_gc_region(uint32 region)
{
	runs_since_horizon = HORIZON_EVERY;
	zen_gc_run(region, PG_UINT32_MAX);
	zen_epoch_flush();
	zen_alloc_release_empty(region, zen_gc_forget_header);
}

void
zen_gc_all(void)
{
	for (uint32 r = 0; r < zen_nregions; r++)
	{
		if (pg_atomic_read_u32(&queues[r].n) == 0 || !zen_region_try_lease(r))
			continue;
		zen_gc_region(r);
		zen_region_release(r);
	}
}

void
zen_gc_pages(void)
{
	/* what this process has retired may hold slots of empty pages */
	zen_epoch_flush();
	for (uint32 r = 0; r < zen_nregions; r++)
	{
		if (!zen_region_try_lease(r))
			continue;
		zen_alloc_release_empty(r, zen_gc_forget_header);
		zen_region_release(r);
	}
}

/* Old versions that nobody sees any more, then entries of rows that can be read from NVM. */
static void
make_room(void)
{
	zen_gc_all();
	zen_metcache_evict_any(EVICT_WHEN_FULL);
	zen_epoch_flush();
}

uint64
zen_gc_pending(void)
{
	uint64		n = 0;

	for (uint32 r = 0; r < zen_nregions; r++)
		n += pg_atomic_read_u32(&queues[r].n);
	return n;
}

/* ---------- start ---------- */

Size
zen_gc_shmem_size(void)
{
	return mul_size(ZEN_MAX_REGIONS, sizeof(GcQueue));
}

void
zen_gc_init(void)
{
	bool		found;

	queues = ShmemInitStruct("zen garbage queues", zen_gc_shmem_size(), &found);
	horizon = InvalidTransactionId;
	zen_make_room = make_room;
	if (found)
		return;
	memset(queues, 0, zen_gc_shmem_size());
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		pg_atomic_init_u32(&queues[r].n, 0);
}
