/*
 * clock.c -- which rows come into the Met-Cache, and which go when room is wanted.
 *
 * The rows that were read most often of late are worth their DRAM.  src/cache/README, "The Met-Cache", says when a row
 * is admitted, how the two queues of a shard and the hand work, and what happens when versions exceed the capacity.
 *
 * A row is copied inside an epoch and without a lock.  Its word then takes the copy only if it still leads to the same
 * slot.
 *
 * An item is only a hint: the word itself says, under its lock, whether its row may go (I19).  An item is its row's if
 * the newest version is marked ZEN_V_IN_CLOCK and bears the item's mark.  The hand drops any other item.
 *
 * While room is left no process moves the hand to evict.  Then every CHECK_EVERY-th addition moves it to the next good
 * item, past those of rows that are gone.
 *
 * Lock order: no word is locked under a shard's lock, and no shard under a word's.
 */
#include "cache/clock.h"

#include "access/xlog.h"

#include "base/guc.h"
#include "base/locks.h"
#include "cache/sketch.h"
#include "cache/tablestat.h"
#include "nvm/delta.h"
#include "nvm/page.h"
#include "nvm/slotread.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define MAX_SHARDS		32
#define SHARD_BYTES		(1024 * 1024)	/* of cache for each shard, or more */
#define CHUNK_ITEMS		127
#define FRESH_PART		32
#define FRESH_MIN		4		/* items */
#define HAND_STEPS		4
#define CHECK_EVERY		4
#define STALE_STEPS		64		/* items that one addition drops at most */
#define SPANS_IN_VAIN	256		/* looked at without evicting a row, before
								 * the search is given up */
#define ANY_READS		(ZEN_SKETCH_MAX + 1)	/* more than any row has */
#define MAX_IDLE_CALLS	64
#define AGE_MISSES		10		/* reads that miss for each cached row, until
								 * all counts are halved */
#define LONG_READ		1000	/* misses in one transaction after which it
								 * admits no more rows by reading */
#define ADMIT_READS		2		/* reads after which a row may be admitted, if
								 * half of the cache is taken */

/* 16 bytes for each cached row */
typedef struct ClockItem
{
	uint32		block;
	uint32		generation;		/* of the table's number */
	uint16		htable;
	uint16		units;			/* of ZEN_ARENA_UNIT bytes, as accounted */
	uint8		offset;			/* - 1; 0..63 */
	uint8		mark;
} ClockItem;

typedef struct ClockChunk
{
	struct ClockChunk *next;
	ClockItem	items[CHUNK_ITEMS];
} ClockChunk;

typedef struct ClockQueue
{
	ClockChunk *head;			/* oldest */
	ClockChunk *tail;
	uint32		head_pos;		/* next item to take in head */
	uint32		tail_pos;		/* next free place in tail */
	uint32		n;				/* items; read without the lock */
} ClockQueue;

typedef union ClockShard
{
	struct
	{
		slock_t		lock;		/* protects the rest */
		ClockQueue	fresh;
		ClockQueue	kept;
	};
	char		pad[128];
} ClockShard;

typedef struct Clock
{
	uint32		nshards;
	ClockShard	shards[MAX_SHARDS];
} Clock;

static Clock *clock_;
static uint8 next_mark = 0;
static uint32 additions = 0;	/* by this process */
static uint32 hand = 0;			/* shard that this process relieves next */
static uint32 idle_calls = 0;	/* of zen_clock_evict() to be left out, since
								 * nothing could go */
static uint32 next_idle = 0;

/* Row versions may not take all of DRAM, even if the setting allows it: maps and queues grow with them. */
static uint64
clock_capacity(void)
{
	return Min((uint64) zen_met_cache_size_kb * 1024, (uint64) zen_dram_size_mb * 1024 * 1024 / 4 * 3);
}

static bool
clock_exceeds(uint64 limit)
{
	return zen_version_bytes() > limit;
}

/* So much that a newcomer must take another row's place?  The room from there to the capacity is for writers. */
static bool
clock_is_full(void)
{
	return clock_exceeds(clock_capacity() / 64 * 63);
}

bool
zen_clock_needs_room(void)
{
	return clock_exceeds(clock_capacity());
}

bool
zen_clock_is_overfull(void)
{
	return clock_exceeds(clock_capacity() / 8 * 9);
}

static Size
clock_shmem_size(void)
{
	Size		size = add_size(sizeof(Clock), zen_sketch_shmem_size(clock_capacity()));

	return add_size(size, zen_tablestat_shmem_size());
}

static void
clock_shmem_init(void)
{
	bool		found;

	zen_sketch_init(clock_capacity());
	zen_tablestat_init();
	clock_ = ShmemInitStruct("zen clock", sizeof(Clock), &found);
	if (found)
		return;
	memset(clock_, 0, sizeof(Clock));
	clock_->nshards = (uint32) Max(1, Min(clock_capacity() / SHARD_BYTES, MAX_SHARDS));
	for (int i = 0; i < MAX_SHARDS; i++)
		SpinLockInit(&clock_->shards[i].lock);
}

const ZenShmem zen_clock_shmem = {.size = clock_shmem_size,.init = clock_shmem_init};

/* ---------- queues ---------- */

/* Place an item if there is a place, maybe in *spare, which is then NULL.  Under the shard's lock. */
static bool
place_item(ClockShard *shard, ClockQueue *q, const ClockItem *item, ClockChunk **spare)
{
	ZenAssertSpinLocked(&shard->lock);
	if (q->tail == NULL || q->tail_pos == CHUNK_ITEMS)
	{
		if (*spare == NULL)
			return false;
		(*spare)->next = NULL;
		if (q->tail != NULL)
			q->tail->next = *spare;
		else
		{
			q->head = *spare;
			q->head_pos = 0;
		}
		q->tail = *spare;
		q->tail_pos = 0;
		*spare = NULL;
	}
	Assert(q->tail_pos < CHUNK_ITEMS && q->tail->next == NULL);
	q->tail->items[q->tail_pos++] = *item;
	q->n++;
	return true;
}

/* False if DRAM is full. */
static bool
clock_push(ClockShard *shard, ClockQueue *q, const ClockItem *item)
{
	ClockChunk *spare = NULL;
	bool		done;

	ZenAssertNoWordLocked();
	Assert(item->htable < ZEN_MAX_HTABLES && item->offset < ZEN_TIDS_PER_BLOCK);
	for (;;)
	{
		SpinLockAcquire(&shard->lock);
		done = place_item(shard, q, item, &spare);
		SpinLockRelease(&shard->lock);
		if (done)
			break;
		spare = zen_arena_alloc(sizeof(ClockChunk));
		if (spare == NULL)
			return false;
	}
	if (spare != NULL)
		zen_arena_free(spare, sizeof(ClockChunk));
	return true;
}

/* Take the oldest item out of a queue; false if there is none. */
static bool
clock_pop(ClockShard *shard, ClockQueue *q, ClockItem *item)
{
	ClockChunk *empty = NULL;
	bool		found = false;

	SpinLockAcquire(&shard->lock);
	if (q->n > 0)
	{
		Assert(q->head != q->tail || q->head_pos < q->tail_pos);
		*item = q->head->items[q->head_pos++];
		q->n--;
		found = true;
		if (q->head_pos == CHUNK_ITEMS)
		{
			empty = q->head;
			q->head = empty->next;
			q->head_pos = 0;
			Assert(q->head != NULL || q->n == 0);
			if (q->head == NULL)
				q->tail = NULL;
		}
	}
	SpinLockRelease(&shard->lock);
	if (empty != NULL)
		zen_arena_free(empty, sizeof(ClockChunk));
	return found;
}

static uint64
item_tidno(const ClockItem *item)
{
	return (uint64) item->block * ZEN_TIDS_PER_BLOCK + item->offset;
}

static ClockShard *
shard_of(uint64 key)
{
	/* other bits than the sketch takes */
	return &clock_->shards[(key >> 21) % clock_->nshards];
}

/* Are more items on probation than may be? */
static bool
fresh_is_full(ClockShard *shard)
{
	return shard->fresh.n > Max(FRESH_MIN, (shard->fresh.n + shard->kept.n) / FRESH_PART);
}

/* The item leaves the CLOCK. */
static void
forget_item(const ClockItem *item)
{
	zen_tablestat_add(item->htable, item->generation, ZEN_T_ENTRIES, -1);
	zen_tablestat_add(item->htable, item->generation, ZEN_T_BYTES, -(int64) item->units * ZEN_ARENA_UNIT);
}

/* ---------- eviction ---------- */

/* The result of a look at an item. */
typedef enum Found
{
	FOUND_NOTHING,				/* the row is gone, or has another item */
	FOUND_STAYS,
	FOUND_EVICTABLE				/* evicted */
} Found;

static bool
is_evictable(ZenVersion *v, uint32 flags)
{
	return (flags & (ZEN_V_FROZEN | ZEN_V_TOMBSTONE | ZEN_V_PENDING)) == ZEN_V_FROZEN && v->older == NULL &&
		v->lockers == NULL && v->slot != InvalidZenSlot;
}

/* Is the item that of the row whose newest version is v?  Under the word's lock. */
static bool
is_marked(ZenVersion *v, const ClockItem *item)
{
	uint32		flags = zen_version_flags(v);

	ZenAssertAnyWordLocked();
	return (flags & ZEN_V_IN_CLOCK) && flags >> ZEN_V_MARK_SHIFT == item->mark;
}

/*
 * Look at an item's row and evict it if it was read less than `below` times.
 *
 * Returns the version to retire in *victim, and how often the row was read in *reads.  The table may be gone: its map
 * is then hidden.
 */
static Found
look_at(const ClockItem *item, uint32 below, ZenVersion **victim, uint32 *reads)
{
	ZenLockedEntry e;
	Found		found = FOUND_NOTHING;

	*victim = NULL;
	*reads = 0;
	zen_epoch_enter();
	if (zen_entry_lock(&zen_htables[item->htable], item_tidno(item), &e))
	{
		uint32		flags = zen_version_flags(e.head);

		*reads = zen_version_reads(flags, zen_sketch_age());
		if (is_marked(e.head, item))
			found = FOUND_STAYS;
		Assert(found == FOUND_NOTHING || e.head->lockers == NULL || !is_evictable(e.head, flags));
		if (found == FOUND_STAYS && *reads < below && is_evictable(e.head, flags))
		{
			Assert(!(flags & ZEN_V_FREE_SLOT));
			found = FOUND_EVICTABLE;
			e.w = zen_word_with(e.w, ZEN_WORD_NVM, e.head->slot);
			*victim = e.head;
		}
		zen_entry_unlock(&e);
	}
	zen_epoch_leave();
	return found;
}

/* Look at an item as above, and do all that follows if the item is not to stay. */
static Found
clock_visit(const ClockItem *item, uint32 below, uint32 *reads)
{
	ZenVersion *victim;
	Found		found;

	ZenAssertNotInEpoch();
	found = look_at(item, below, &victim, reads);

	if (found != FOUND_STAYS)
		forget_item(item);
	if (victim != NULL)
	{
		zen_sketch_raise(zen_sketch_key(item->htable, item_tidno(item)), *reads);
		zen_version_retire(victim);
		ZEN_COUNT(metcache_evictions, 1);
		zen_tablestat_add(item->htable, item->generation, ZEN_T_EVICTIONS, 1);
	}
	return found;
}

/*
 * The item goes and its row stays, in use: the process that ends the use adds another item.
 *
 * False if the row is not in use any more, so that no process would add one.
 */
static bool
unmark_entry(const ClockItem *item)
{
	ZenLockedEntry e;
	bool		done = true;

	zen_epoch_enter();
	if (zen_entry_lock(&zen_htables[item->htable], item_tidno(item), &e))
	{
		if (is_marked(e.head, item))
		{
			done = !is_evictable(e.head, zen_version_flags(e.head));
			if (done)
				zen_version_clear(e.head, ZEN_V_IN_CLOCK);
		}
		zen_entry_unlock(&e);
	}
	zen_epoch_leave();
	return done;
}

/*
 * Queue an item that stays.  If there is no memory for the queue, its row is evicted at once: nothing else would evict
 * it later.
 */
static void
push_or_evict(ClockShard *shard, ClockQueue *q, const ClockItem *item)
{
	uint32		reads;

	while (!clock_push(shard, q, item))
	{
		if (clock_visit(item, ANY_READS, &reads) != FOUND_STAYS)
			break;
		if (unmark_entry(item))
		{
			forget_item(item);
			break;
		}
	}
}

/*
 * Move the hand over one item of a queue.  A row that stays goes to the end of kept.  With below 0 nothing is evicted.
 */
static Found
clock_step(ClockShard *shard, ClockQueue *q, uint32 below, uint32 *reads)
{
	ClockItem	item;
	Found		found;

	Assert(q == &shard->fresh || q == &shard->kept);
	if (!clock_pop(shard, q, &item))
		return FOUND_NOTHING;
	if (below > 0 && zen_tablestat_over_quota(item.htable))
		below = ANY_READS;
	found = clock_visit(&item, below, reads);
	if (found == FOUND_STAYS)
		push_or_evict(shard, &shard->kept, &item);
	return found;
}

/* Make room for a row of a table that was read so often.  False if the rows that the hand meets are worth more. */
static bool
win_place(ClockShard *shard, uint32 htable, uint32 reads)
{
	bool		over = zen_tablestat_over_quota(htable);

	for (int i = 0; i < HAND_STEPS; i++)
	{
		ClockQueue *q = shard->kept.n > 0 ? &shard->kept : &shard->fresh;
		ClockItem	item;
		uint32		below = reads,
					item_reads;
		Found		found;

		if (!clock_pop(shard, q, &item))
			return false;
		if (item.htable != htable && zen_tablestat_over_quota(item.htable) != over)
			below = over ? 0 : ANY_READS;
		found = clock_visit(&item, below, &item_reads);
		if (found == FOUND_EVICTABLE)
			return true;
		if (found == FOUND_STAYS)
			push_or_evict(shard, &shard->kept, &item);
	}
	return false;
}

/* The oldest row on probation stays or goes. */
static void
settle_fresh(ClockShard *shard)
{
	ClockItem	item;
	uint32		reads,
				ignored;
	bool		full = clock_is_full();

	if (!clock_pop(shard, &shard->fresh, &item))
		return;
	if (clock_visit(&item, full ? ADMIT_READS : 0, &reads) != FOUND_STAYS)
		return;

	/* in use now, or read again: it may stay if it wins a place */
	if (!full || win_place(shard, item.htable, Max(reads, 1)) ||
		clock_visit(&item, ANY_READS, &ignored) == FOUND_STAYS)
		push_or_evict(shard, &shard->kept, &item);
}

/*
 * Move the hands over at most max items while versions take more than limit bytes.
 *
 * Rows on probation go first.  Then go those of kept that were read less than once, less than twice, and so on.
 */
static uint32
evict(uint32 max, uint64 limit)
{
	uint32		evicted = 0;

	for (uint32 i = 0; i < max && clock_exceeds(limit); i++)
	{
		ClockShard *shard = &clock_->shards[hand++ % clock_->nshards];
		bool		fresh = shard->fresh.n > 0 && (fresh_is_full(shard) || shard->kept.n == 0);
		uint32		below = fresh ? ADMIT_READS : 1 + i / 16;
		uint32		reads;

		if (clock_step(shard, fresh ? &shard->fresh : &shard->kept, Min(below, ANY_READS), &reads) == FOUND_EVICTABLE)
			evicted++;
	}
	return evicted;
}

void
zen_clock_evict(int max)
{
	ZenAssertNotInEpoch();
	if (idle_calls > 0)
	{
		idle_calls--;
		return;
	}
	if (evict((uint32) max, clock_capacity()) > 0)
		next_idle = 0;
	else
		next_idle = Min(2 * next_idle + 1, MAX_IDLE_CALLS);
	idle_calls = next_idle;
}

void
zen_clock_evict_any(int max)
{
	ZenAssertNotInEpoch();
	idle_calls = 0;
	evict((uint32) max, 0);
}

/* ---------- whole spans ---------- */

/*
 * Evict the row of a version that may be at v.
 *
 * The memory there may be free, or become another object's: v is a version only if a row's word leads to it.  The row's
 * item stays behind, and goes when the hand meets it.
 */
static bool
evict_version(ZenVersion *v)
{
	ZenVersion *victim = NULL;
	ZenWord    *word = NULL;
	ZenSlot		slot = *(volatile ZenSlot *) &v->slot;
	uint64		tidno = 0,
				w;
	uint32		htable = 0,
				reads = 0;

	zen_epoch_enter();
	if (slot != InvalidZenSlot && zen_page_holds(slot))
	{
		uint64		word1 = zen_tuple_header(slot).word1;

		htable = zen_word1_htable(word1);
		tidno = zen_word1_tidno(word1);
		word = zen_tidmap_word(&zen_htables[htable], tidno);
	}
	if (word != NULL && zen_word_leads_to(zen_word_read(word), v))
	{
		w = zen_word_lock(word);
		if (zen_word_leads_to(w, v) && is_evictable(v, zen_version_flags(v)))
		{
			reads = zen_version_reads(zen_version_flags(v), zen_sketch_age());
			w = zen_word_with(w, ZEN_WORD_NVM, v->slot);
			victim = v;
		}
		zen_word_unlock(word, w);
	}
	zen_epoch_leave();
	if (victim == NULL)
		return false;
	zen_sketch_raise(zen_sketch_key(htable, tidno), reads);
	zen_version_retire(victim);
	ZEN_COUNT(metcache_evictions, 1);
	return true;
}

/*
 * Eviction by use leaves holes all over the spans of rows, and empties none of these.  So the emptiest spans go first,
 * as far as there are any: they cost the fewest rows.
 */
void
zen_clock_evict_spans(void)
{
	static const int eighths[] = {7, 6, 4, 2, 0};

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	for (int i = 0; i < lengthof(eighths); i++)
	{
		uint32		place = 0,
					n,
					in_vain = 0;
		char	   *object;
		Size		size;

		while (zen_arena_lacks_spans() && in_vain < SPANS_IN_VAIN &&
			   zen_arena_rows(&place, eighths[i], &object, &n, &size))
		{
			uint32		evicted = 0;

			for (; n > 0; n--, object += size)
				evicted += evict_version((ZenVersion *) object);
			in_vain = evicted > 0 ? 0 : in_vain + 1;
			zen_epoch_flush();
			zen_arena_drain();
		}
	}
}

/* ---------- entering the CLOCK ---------- */

/* Mark the newest version as the item's; false if the row needs no item any more. */
static bool
mark_entry(ZenHTable *ht, uint64 tidno, ClockItem *item)
{
	ZenLockedEntry e;
	bool		marked = false;

	zen_epoch_enter();
	item->generation = zen_tablestat_generation(ht->idx);
	if (zen_entry_lock(ht, tidno, &e))
	{
		marked = (zen_version_flags(e.head) & ZEN_V_IN_CLOCK) != 0;
		if (marked)
		{
			zen_version_clear(e.head, ZEN_V_MARK);
			zen_version_set(e.head, (uint32) item->mark << ZEN_V_MARK_SHIFT);
			item->units = (uint16) (zen_version_size(e.head) / ZEN_ARENA_UNIT);
		}
		zen_entry_unlock(&e);
	}
	zen_epoch_leave();
	return marked;
}

/* Give a row that is marked ZEN_V_IN_CLOCK its item. */
static bool
clock_enqueue(ZenHTable *ht, uint64 tidno, ClockShard *shard, ClockQueue *q)
{
	ClockItem	item = {
		.block = (uint32) (tidno / ZEN_TIDS_PER_BLOCK),
		.offset = (uint8) (tidno % ZEN_TIDS_PER_BLOCK),
		.htable = (uint16) ht->idx,
		.mark = ++next_mark
	};

	ZenAssertNotInEpoch();
	Assert(tidno / ZEN_TIDS_PER_BLOCK < MaxBlockNumber);
	if (!mark_entry(ht, tidno, &item))
		return false;
	zen_tablestat_add(item.htable, item.generation, ZEN_T_ENTRIES, 1);
	zen_tablestat_add(item.htable, item.generation, ZEN_T_BYTES, (int64) item.units * ZEN_ARENA_UNIT);
	push_or_evict(shard, q, &item);
	return true;
}

/* Drop items of rows that are gone, up to one that is good. */
static void
drop_stale(ClockShard *shard)
{
	uint32		reads;

	for (int i = 0; i < STALE_STEPS && shard->kept.n > 0; i++)
		if (clock_step(shard, &shard->kept, 0, &reads) != FOUND_NOTHING)
			break;
}

void
zen_clock_enqueue(ZenHTable *ht, uint64 tidno)
{
	ClockShard *shard = shard_of(zen_sketch_key(ht->idx, tidno));
	bool		full = clock_is_full();

	if (!clock_enqueue(ht, tidno, shard, full ? &shard->fresh : &shard->kept))
		return;

	/*
	 * one has come, so one is settled; and one more as long as there are too
	 * many
	 */
	for (int i = 0; full && i < 2 && fresh_is_full(shard); i++)
		settle_fresh(shard);
	if (!full && ++additions % CHECK_EVERY == 0)
		drop_stale(shard);
}

/* ---------- admission ---------- */

/* The result of an attempt to admit a row. */
typedef enum Admission
{
	ADMIT_DONE,					/* by us */
	ADMIT_NOT_NVM,				/* the row is not in NVM only, or has changed */
	ADMIT_FULL,
	ADMIT_DAMAGED
} Admission;

/*
 * Copy the row in a slot into a version that its word may lead to, if it is sound; lean: without the data.  The CRC is
 * checked although readers may have done so: the version lives long, and a writer is about to replace it.
 */
static Admission
read_slot(ZenSlot slot, uint32 reads, bool lean, ZenVersion **result)
{
	int64		len = zen_tuple_len(slot, zen_slot_size(slot));
	ZenVersion *v = len > 0 ? zen_version_alloc(lean ? 0 : (uint32) len) : NULL;
	uint32		flags = ZEN_V_COMMITTED | ZEN_V_FROZEN | ZEN_V_IN_CLOCK | (lean ? ZEN_V_IN_NVM : 0);

	ZenAssertInEpoch();
	Assert(reads <= ZEN_SKETCH_MAX);
	*result = v;
	if (v == NULL)
		return len > 0 ? ADMIT_FULL : ADMIT_DAMAGED;
	if (lean ? !zen_tuple_intact(slot, zen_slot_size(slot)) :
		!zen_whole_read(slot, (MinimalTuple) v->data, (uint32) len, &v->xmin))
	{
		zen_slot_doubt(slot);
		return ADMIT_DAMAGED;
	}
	v->slot = slot;
	v->cmin = FirstCommandId;
	v->code = (uint16) zen_word1_code(zen_tuple_header(slot).word1);
	pg_atomic_write_u32(&v->flags, zen_version_with_reads(flags, reads, zen_sketch_age()));
	return ADMIT_DONE;
}

/* Admit a row that was read so often, without an item.  Outside any epoch; never throws. */
static Admission
admit_row(ZenHTable *ht, ZenWord *word, uint32 reads, bool lean, ZenSlot *slot)
{
	ZenVersion *v = NULL;
	Admission	result = ADMIT_NOT_NVM;
	uint64		w,
				now;

	ZenAssertNoWordLocked();
	zen_epoch_enter();
	w = zen_word_read(word);
	if (zen_word_state(w) == ZEN_WORD_NVM)
	{
		*slot = zen_word_ref(w);
		result = read_slot(*slot, reads, lean, &v);
	}
	if (result == ADMIT_DONE)
	{
		now = zen_word_lock(word);
		if (zen_word_state(now) == ZEN_WORD_NVM && zen_word_ref(now) == v->slot)
			now = zen_word_with_entry(now, v) | ZEN_WORD_SEEN;
		else
			result = ADMIT_NOT_NVM;
		zen_word_unlock(word, now);
	}
	zen_epoch_leave();
	if (result == ADMIT_DONE)
	{
		ZEN_COUNT(metcache_admissions, 1);
		zen_tablestat_add(ht->idx, zen_tablestat_generation(ht->idx), ZEN_T_ADMISSIONS, 1);
	}
	else if (v != NULL)
		zen_version_free(v);
	return result;
}

/* Is so much room left that a row comes in at its first read? */
static bool
clock_is_half_empty(void)
{
	return !clock_exceeds(clock_capacity() / 2);
}

uint32
zen_admission_reads(ZenHTable *ht, uint64 tidno)
{
	return clock_is_half_empty() ? 0 : zen_sketch_estimate(zen_sketch_key(ht->idx, tidno));
}

void
zen_admission_admit(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	uint32		reads = zen_admission_reads(ht, tidno);
	ZenSlot		slot = InvalidZenSlot;
	bool		lean = zen_clock_is_overfull();
	TimestampTz since = 0;
	Admission	result;

	ZenAssertNotInEpoch();
	while ((result = admit_row(ht, word, reads, lean, &slot)) == ADMIT_FULL)
	{
		zen_find_room_or_error(&since);
		lean = true;
	}
	if (result == ADMIT_DAMAGED)
		zen_tuple_corrupted(slot, tidno);
	if (result == ADMIT_DONE)
		zen_clock_enqueue(ht, tidno);
}

void
zen_admission_missed(ZenHTable *ht, uint64 tidno)
{
	static LocalTransactionId xact = InvalidLocalTransactionId;
	static uint32 misses = 0;	/* in this transaction */
	uint64		key = zen_sketch_key(ht->idx, tidno);
	ClockShard *shard = shard_of(key);
	uint32		reads = 1;
	ZenSlot		slot;

	ZenAssertNotInEpoch();
	/* on a standby only redo changes maps */
	if (unlikely(RecoveryInProgress()))
		return;
	if (zen_my_lxid() != xact)
		misses = 0;
	xact = zen_my_lxid();
	if (++misses > LONG_READ)
		return;
	if (!clock_is_half_empty())
	{
		reads = zen_sketch_add(key);
		if (reads < ADMIT_READS || zen_clock_is_overfull() ||
			(clock_is_full() && !win_place(shard, ht->idx, reads)))
			return;
	}

	/*
	 * in vain if DRAM is full or the row has just changed; the reader has its
	 * row
	 */
	if (admit_row(ht, zen_tidmap_word(ht, tidno), reads, false, &slot) == ADMIT_DONE)
		(void) clock_enqueue(ht, tidno, shard, &shard->kept);
	if (zen_clock_needs_room())
		evict(HAND_STEPS, clock_capacity());
}

void
zen_clock_tick(void)
{
	uint64		items = 0;

	for (uint32 i = 0; i < clock_->nshards; i++)
		items += clock_->shards[i].fresh.n + clock_->shards[i].kept.n;
	zen_sketch_tick(AGE_MISSES * Max(items, 1000));
	zen_shares_plan(clock_capacity());
}
