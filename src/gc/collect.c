/*
 * collect.c -- garbage collection.
 *
 * R12: a version is cut off when its successor is committed and older than every snapshot; the cut versions are
 * retired through the epochs and take their slots with them.  Freed slots keep their headers until they are reused,
 * so each one is counted in the map word (stale) before it is freed, and uncounted when a new header over it has
 * been fenced (zen_gc_forget_header, called by commit).
 *
 * R5: a tombstone's slot is freed when that count is 0.  Whoever brings the word into that state does it: the
 * collector when the tombstone becomes the only version, or the writer that takes the last stale header away.
 */
#include "gc/collect.h"

#include "access/transam.h"
#include "access/xact.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/stats.h"
#include "cache/metcache.h"
#include "cache/spillmap.h"
#include "miscadmin.h"
#include "row/horizon.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define CHUNK_ITEMS		255
#define EVICT_WHEN_FULL	65536	/* entries that the CLOCK hand passes when
								 * DRAM is full */
#define ITEMS_PER_RUN	64
#define LOOK_EVERY		16		/* runs between two looks at the xid horizon,
								 * when nothing is due by the last one */
#define UNIT			64		/* bytes */
#define MAX_UNITS		((1 << 10) - 1)
#define KEEP_PAGES		3		/* empty ones of a context that the worker
								 * leaves: a writer would take them again
								 * soon, and each time they would be zeroed */
#define PATIENCE_MS		100		/* for regions that others are at work in */
#define FULL_NAP_MS		100		/* between two looks for room in a full pool */
#define PAGES_PER_STEP	64		/* that one look at a region gives back */

typedef struct GcItem
{
	uint64		tidno:38;		/* 2^32 blocks of 64 TIDs */
	uint64		htable:15;
	uint64		spilled:1;		/* all TIDs of the block, which have a spill
								 * record */
	uint64		units:10;		/* superseded, in UNIT bytes */
	FullTransactionId xid;
} GcItem;

StaticAssertDecl(sizeof(GcItem) == 16, "what a row change costs until its predecessor is collected");
StaticAssertDecl(ZEN_MAX_HTABLES <= 1 << 15, "an HTable's number fits its bits");

typedef struct GcChunk
{
	struct GcChunk *next;
	GcItem		items[CHUNK_ITEMS];
} GcChunk;

/* Belongs to the region's lease holder, except n, bytes and oldest, which others may read. */
typedef struct GcQueue
{
	GcChunk    *head;
	GcChunk    *tail;			/* the chunk being filled; empty chunks
								 * reserved may follow it */
	uint32		head_pos;
	uint32		tail_pos;
	uint32		reserved;		/* places in chunks behind tail */
	pg_atomic_uint32 n;
	pg_atomic_uint64 bytes;		/* superseded by its items, about */
	pg_atomic_uint64 oldest;	/* full xid of the first item, 0 = none */
} GcQueue;

/* How a commit wakes a worker that has had nothing to do. */
typedef struct GcAlarm
{
	pg_atomic_uint32 armed;		/* set by the worker; cleared by whoever wakes
								 * it */
	Latch	   *latch;			/* the worker's; written before armed */
	pg_atomic_uint32 end;		/* of the regions that have had items */
} GcAlarm;

static GcQueue *queues;			/* [ZEN_MAX_REGIONS] */
static GcAlarm *alarm_clock;

static uint32 runs_since_look = 0;

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

static inline uint32
queues_end(void)
{
	return pg_atomic_read_u32(&alarm_clock->end);
}

static void
extend_queues(uint32 end)
{
	uint32		old = queues_end();

	while (old < end && !pg_atomic_compare_exchange_u32(&alarm_clock->end, &old, end))
		;
}

static void
wake_worker(void)
{
	if (pg_atomic_exchange_u32(&alarm_clock->armed, 0))
		SetLatch(alarm_clock->latch);
}

/* Add an item; there is room. */
static void
push(uint32 region, GcItem item, TransactionId xid, Size bytes)
{
	GcQueue    *q = &queues[region];
	uint32		n = pg_atomic_read_u32(&q->n);

	zen_horizon_set_now();
	if (q->tail_pos == CHUNK_ITEMS)
	{
		Assert(q->tail->next != NULL);
		q->tail = q->tail->next;
		q->tail_pos = 0;
		q->reserved -= CHUNK_ITEMS;
	}
	item.units = Min((bytes + UNIT - 1) / UNIT, MAX_UNITS);
	item.xid = zen_horizon_widen(xid);
	q->tail->items[q->tail_pos++] = item;
	pg_atomic_write_u64(&q->bytes, pg_atomic_read_u64(&q->bytes) + item.units * UNIT);
	if (n == 0)
		pg_atomic_write_u64(&q->oldest, U64FromFullTransactionId(item.xid));
	pg_atomic_write_u32(&q->n, n + 1);
	if (unlikely(region >= queues_end()))
		extend_queues(region + 1);
	if (unlikely(pg_atomic_read_u32(&alarm_clock->armed)))
		wake_worker();
}

void
zen_gc_push(uint32 region, ZenHTable *ht, uint64 tidno, TransactionId xid, Size bytes)
{
	GcItem		item = {.tidno = tidno,.htable = ht->idx};

	push(region, item, xid, bytes);
}

void
zen_gc_push_block(uint32 region, ZenHTable *ht, uint32 block, TransactionId xid, Size bytes)
{
	GcItem		item = {.tidno = (uint64) block * ZEN_TIDS_PER_BLOCK,.htable = ht->idx,.spilled = true};

	push(region, item, xid, bytes);
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
	pg_atomic_write_u64(&q->bytes, pg_atomic_read_u64(&q->bytes) - q->head->items[q->head_pos].units * UNIT);
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
 * *ended: an entry that the word no longer needs: a tombstone, or one without data.
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
			((flags & ZEN_V_COMMITTED) && zen_horizon_has_passed(v->xmin)))
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
	else if (v->lockers == NULL && (flags & ZEN_V_IN_NVM))
	{
		*ended = v;
		w = zen_word_with(w, ZEN_WORD_NVM, v->slot);
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
	ZenLockedEntry e;

	zen_epoch_enter();
	if (zen_entry_lock(ht, tidno, &e))
	{
		e.w = collect_word(e.w, &cut, &tombstone, &lone, &ended);
		if (ended != NULL)
		{
			lockers = ended->lockers;
			ended->lockers = NULL;
		}
		zen_entry_unlock(&e);
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
		((zen_version_flags(v) & ZEN_V_FROZEN) || zen_horizon_has_passed(v->xmin)))
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

bool
zen_gc_tuple(ZenHTable *ht, uint64 tidno)
{
	bool		done = collect_spilled(ht, tidno);

	collect_row(ht, tidno);
	return done;
}

/* False if the block must be tried again. */
static bool
collect_block(ZenHTable *ht, uint64 first)
{
	bool		all = true;

	for (uint64 t = first; t < first + ZEN_TIDS_PER_BLOCK; t++)
		all &= zen_gc_tuple(ht, t);
	zen_spillmap_trim(ht, (uint32) (first / ZEN_TIDS_PER_BLOCK), false);
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

/*
 * Do all see the item's transaction as ended?
 *
 * What this process has found before answers mostly.  It looks at the ProcArray once in LOOK_EVERY runs at most, if
 * a snapshot that it has taken since says that something has changed, and that the item may be due.
 */
static bool
is_due(GcItem *item, bool *looking)
{
	if (FullTransactionIdPrecedesOrEquals(item->xid, zen_horizon.passed))
		return true;
	if (!*looking)
	{
		if (runs_since_look < LOOK_EVERY)
			return false;
		*looking = true;
		runs_since_look = 0;
	}
	if (zen_horizon.xmin == RecentXmin || FullTransactionIdFollowsOrEquals(item->xid, zen_horizon_widen(RecentXmin)))
		return false;
	(void) zen_horizon_look();
	return FullTransactionIdPrecedesOrEquals(item->xid, zen_horizon.passed);
}

uint32
zen_gc_run(uint32 region, uint32 max)
{
	GcQueue    *q = &queues[region];
	uint32		done = 0;
	bool		looking = false;
	GcItem	   *item;

	zen_horizon_set_now();
	/* a large transaction counts for many */
	runs_since_look += 1 + Min(max, LOOK_EVERY * ITEMS_PER_RUN) / ITEMS_PER_RUN;
	while ((item = peek(q)) != NULL && done < max && is_due(item, &looking))
	{
		uint32		weight = item->spilled ? ZEN_TIDS_PER_BLOCK : 1;

		if (!collect(item))
			break;
		drop_first(q);
		done += weight;
	}
	pg_atomic_write_u64(&q->oldest, item ? U64FromFullTransactionId(item->xid) : 0);
	/* what is left may be due, too: the next run asks at once */
	if (done >= max)
		runs_since_look = LOOK_EVERY;
	return done;
}

/*
 * Empty pages of a context that are left where they are, as its next writer would take them again: keep.  Regions that only a server
 * with more writers has used have no next writer, unless the pool is full: none.
 */
static uint32
pages_to_keep(uint32 region, uint32 keep)
{
	return region < zen_nregions ? keep : 0;
}

static void
collect_region(uint32 region)
{
	zen_gc_run(region, PG_UINT32_MAX);
	zen_epoch_flush();
	zen_slotalloc_release_empty(region, pages_to_keep(region, 1), PG_UINT32_MAX, zen_gc_forget_header);
}

void
zen_gc_region(uint32 region)
{
	(void) zen_horizon_look();
	collect_region(region);
}

/*
 * Lease a region for whoever needs what is in it now, be it that its holder, a collector perhaps, must be waited for.
 * *patience: milliseconds left.
 */
static bool
lease_patiently(uint32 region, int *patience)
{
	while (!zen_region_try_lease(region))
	{
		if (pg_atomic_read_u32(&zen_regions[region].leased) != ZEN_LEASE_BUSY ||
			zen_regions[region].holder == MyProcPid || *patience <= 0)
			return false;
		pg_usleep(1000L);
		(*patience)--;
	}
	return true;
}

void
zen_gc_all(void)
{
	int			patience = PATIENCE_MS;

	if (zen_gc_pending() == 0)
		return;
	(void) zen_horizon_look();
	for (uint32 r = 0; r < queues_end(); r++)
	{
		if (pg_atomic_read_u32(&queues[r].n) == 0 || !lease_patiently(r, &patience))
			continue;
		collect_region(r);
		zen_region_release(r);
	}
}

uint32
zen_gc_some(uint32 max)
{
	uint32		done = 0;

	for (uint32 r = 0; r < queues_end() && done < max; r++)
	{
		uint64		oldest = pg_atomic_read_u64(&queues[r].oldest);

		if (oldest == 0 || oldest > U64FromFullTransactionId(zen_horizon.passed) || !zen_region_try_lease(r))
			continue;
		done += zen_gc_run(r, max - done);
		zen_region_release(r);
	}
	zen_epoch_flush();
	return done;
}

bool
zen_gc_some_pages(void)
{
	bool		more = false;

	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		if (pg_atomic_read_u32(&zen_regions[r].emptied) == 0 || !zen_region_try_lease(r))
			continue;
		pg_atomic_write_u32(&zen_regions[r].emptied, 0);
		pg_memory_barrier();	/* a page that is emptied from here on sets it
								 * again */
		if (zen_slotalloc_release_empty(r, pages_to_keep(r, KEEP_PAGES), PAGES_PER_STEP, zen_gc_forget_header) == PAGES_PER_STEP)
		{
			pg_atomic_write_u32(&zen_regions[r].emptied, 1);
			more = true;
		}
		zen_region_release(r);
	}
	return more;
}

void
zen_gc_pages(void)
{
	int			patience = PATIENCE_MS;

	/* what this process has retired may hold slots of empty pages */
	zen_epoch_flush();
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		/* beyond there are many regions and few pages, of which none is kept */
		if ((r >= zen_nregions && pg_atomic_read_u32(&zen_regions[r].emptied) == 0) || !lease_patiently(r, &patience))
			continue;
		pg_atomic_write_u32(&zen_regions[r].emptied, 0);
		pg_memory_barrier();	/* a page that is emptied from here on sets it
								 * again */
		zen_slotalloc_release_empty(r, pages_to_keep(r, 1), PG_UINT32_MAX, zen_gc_forget_header);
		zen_region_release(r);
	}
}

void
zen_gc_for_slots(uint32 own)
{
	zen_gc_region(own);
	zen_gc_all();
	zen_gc_pages();
}

bool
zen_gc_await_slots(TimestampTz *since)
{
	TimestampTz now = GetCurrentTimestamp();

	if (*since == 0)
		*since = now;
	if (zen_gc_pending() == 0 || now - *since >= (TimestampTz) zen_full_timeout_ms * 1000)
		return false;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, FULL_NAP_MS, zen_wait_event("ZenPoolFull"));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return true;
}

/*
 * Old versions that nobody sees any more, then entries of rows that can be read from NVM: those read least, then, as what is
 * asked for may have another size, those that stand in the way of whole spans.
 */
static void
make_room(void)
{
	zen_gc_all();
	zen_metcache_evict_any(EVICT_WHEN_FULL);
	zen_epoch_flush();
	zen_arena_drain();
	zen_metcache_evict_spans();
}

uint64
zen_gc_pending(void)
{
	uint64		n = 0;

	for (uint32 r = 0; r < queues_end(); r++)
		n += pg_atomic_read_u32(&queues[r].n);
	return n;
}

uint64
zen_gc_bytes(void)
{
	uint64		bytes = 0;

	for (uint32 r = 0; r < queues_end(); r++)
		bytes += pg_atomic_read_u64(&queues[r].bytes);
	return bytes;
}

FullTransactionId
zen_gc_oldest(void)
{
	uint64		oldest = 0;

	for (uint32 r = 0; r < queues_end(); r++)
	{
		uint64		xid = pg_atomic_read_u64(&queues[r].oldest);

		if (xid != 0 && (oldest == 0 || xid < oldest))
			oldest = xid;
	}
	return FullTransactionIdFromU64(oldest);
}

bool
zen_gc_arm(void)
{
	alarm_clock->latch = MyLatch;

	/*
	 * a full barrier: whoever queues after the look below sees the alarm
	 * armed
	 */
	pg_atomic_exchange_u32(&alarm_clock->armed, 1);
	if (zen_gc_pending() == 0)
		return true;
	(void) zen_gc_disarm();
	return false;
}

bool
zen_gc_disarm(void)
{
	return pg_atomic_exchange_u32(&alarm_clock->armed, 0) == 0;
}

/* ---------- start ---------- */

Size
zen_gc_shmem_size(void)
{
	return add_size(mul_size(ZEN_MAX_REGIONS, sizeof(GcQueue)), sizeof(GcAlarm));
}

void
zen_gc_init(void)
{
	bool		found;

	queues = ShmemInitStruct("zen garbage queues", zen_gc_shmem_size(), &found);
	alarm_clock = (GcAlarm *) (queues + ZEN_MAX_REGIONS);
	zen_make_room = make_room;
	if (found)
		return;
	memset(queues, 0, zen_gc_shmem_size());
	pg_atomic_init_u32(&alarm_clock->armed, 0);
	pg_atomic_init_u32(&alarm_clock->end, 0);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		pg_atomic_init_u32(&queues[r].n, 0);
		pg_atomic_init_u64(&queues[r].bytes, 0);
		pg_atomic_init_u64(&queues[r].oldest, 0);
	}
}
