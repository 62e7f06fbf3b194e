/*
 * metcache.c -- admission and eviction.
 *
 * CLOCK as a queue with a second chance: the hand takes the oldest item; if its entry was referenced since, the bit is
 * cleared and the item goes to the end.  An item is only a hint (HTable, TID): whether its entry may go is decided
 * from the word itself, so a stale item does no harm.  Queues are sharded by process to keep them from contending.
 *
 * Evictable is an entry that is frozen, not a tombstone, without older versions and without lockers: what NVM holds of
 * it is then all there is to know.
 */
#include "cache/metcache.h"

#include "base/guc.h"
#include "miscadmin.h"
#include "nvm/page.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define NSHARDS		16
#define CHUNK_ITEMS 255

typedef struct ClockItem
{
	uint64		tidno;
	uint32		htable;
} ClockItem;

typedef struct ClockChunk
{
	struct ClockChunk *next;
	ClockItem	items[CHUNK_ITEMS];
} ClockChunk;

typedef union ClockShard
{
	struct
	{
		slock_t		lock;		/* protects the rest */
		ClockChunk *head;		/* oldest */
		ClockChunk *tail;
		uint32		head_pos;	/* next item to take in head */
		uint32		tail_pos;	/* next free place in tail */
	}			q;
	char		pad[64];
} ClockShard;

static ClockShard *shards;
void		(*zen_make_room) (void) = NULL;

Size
zen_metcache_shmem_size(void)
{
	return NSHARDS * sizeof(ClockShard);
}

void
zen_metcache_init(void)
{
	bool		found;

	shards = ShmemInitStruct("zen clock", zen_metcache_shmem_size(), &found);
	if (found)
		return;
	memset(shards, 0, zen_metcache_shmem_size());
	for (int i = 0; i < NSHARDS; i++)
		SpinLockInit(&shards[i].q.lock);
}

static ClockShard *
my_shard(void)
{
	return &shards[(MyProc ? GetNumberFromPGProc(MyProc) : 0) % NSHARDS];
}

static bool
push(ClockShard *shard, ClockItem item)
{
	ClockChunk *spare = NULL;
	bool		done = false;

	for (;;)
	{
		SpinLockAcquire(&shard->q.lock);
		if (shard->q.tail != NULL && shard->q.tail_pos < CHUNK_ITEMS)
		{
			shard->q.tail->items[shard->q.tail_pos++] = item;
			done = true;
		}
		else if (spare != NULL)
		{
			spare->next = NULL;
			spare->items[0] = item;
			if (shard->q.tail != NULL)
				shard->q.tail->next = spare;
			else
			{
				shard->q.head = spare;
				shard->q.head_pos = 0;
			}
			shard->q.tail = spare;
			shard->q.tail_pos = 1;
			spare = NULL;
			done = true;
		}
		SpinLockRelease(&shard->q.lock);
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

static bool
pop(ClockShard *shard, ClockItem *item)
{
	ClockChunk *empty = NULL;
	bool		found = false;

	SpinLockAcquire(&shard->q.lock);
	if (shard->q.head != NULL &&
		(shard->q.head != shard->q.tail || shard->q.head_pos < shard->q.tail_pos))
	{
		*item = shard->q.head->items[shard->q.head_pos++];
		found = true;
		if (shard->q.head_pos == CHUNK_ITEMS)
		{
			empty = shard->q.head;
			shard->q.head = empty->next;
			shard->q.head_pos = 0;
			if (shard->q.head == NULL)
				shard->q.tail = NULL;
		}
	}
	SpinLockRelease(&shard->q.lock);
	if (empty != NULL)
		zen_arena_free(empty, sizeof(ClockChunk));
	return found;
}

/* Try to evict the entry of one item.  Returns the version to retire, or NULL; *again: keep the item. */
static ZenVersion *
evict_item(ClockItem *item, bool *again)
{
	ZenWord    *word;
	ZenVersion *victim = NULL;
	uint64		w;

	*again = false;
	zen_epoch_enter();
	word = zen_tidmap_word(&zen_htables[item->htable], item->tidno);
	if (word == NULL || zen_word_state(zen_word_read(word)) != ZEN_WORD_ENTRY)
	{
		zen_epoch_leave();
		return NULL;
	}
	w = zen_word_lock(word);
	if (zen_word_state(w) == ZEN_WORD_ENTRY)
	{
		ZenVersion *v = zen_word_entry(w);
		uint32		flags = zen_version_flags(v);

		if ((flags & (ZEN_V_FROZEN | ZEN_V_TOMBSTONE | ZEN_V_PENDING)) != ZEN_V_FROZEN || v->older != NULL ||
			v->lockers != NULL || v->slot == InvalidZenSlot)
			zen_version_clear(v, ZEN_V_IN_CLOCK);
		else if (flags & ZEN_V_REFERENCED)
		{
			zen_version_clear(v, ZEN_V_REFERENCED);
			*again = true;
		}
		else
		{
			w = zen_word_with(w, ZEN_WORD_NVM, v->slot);
			victim = v;
		}
	}
	zen_word_unlock(word, w);
	zen_epoch_leave();
	return victim;
}

void
zen_metcache_enqueue(ZenHTable *ht, uint64 tidno, ZenVersion *v)
{
	ClockItem	item = {.tidno = tidno,.htable = ht->idx};
	bool		again = true;

	if (push(my_shard(), item))
		return;

	/*
	 * no memory for the queue: this one goes at once, else nothing would ever
	 * evict it (the first look may only clear its reference bit)
	 */
	for (int i = 0; i < 2 && again; i++)
	{
		ZenVersion *victim = evict_item(&item, &again);

		if (victim != NULL)
		{
			zen_version_retire(victim);
			ZEN_COUNT(metcache_evictions, 1);
		}
	}
}

/* Row versions may not take all of DRAM, whatever the setting: maps and queues grow with them. */
static uint64
capacity(void)
{
	return Min((uint64) zen_met_cache_size_kb * 1024, (uint64) zen_dram_size_mb * 1024 * 1024 / 4 * 3);
}

bool
zen_metcache_needs_room(void)
{
	return zen_version_bytes() > capacity();
}

/* Move the hand over at most max entries while versions take more than limit bytes. */
static void
evict(int max, uint64 limit)
{
	int			start = MyProc ? GetNumberFromPGProc(MyProc) % NSHARDS : 0;

	for (int s = 0; s < NSHARDS && max > 0; s++)
	{
		ClockShard *shard = &shards[(start + s) % NSHARDS];
		ClockItem	item;

		while (max > 0 && zen_version_bytes() > limit && pop(shard, &item))
		{
			bool		again;
			ZenVersion *victim = evict_item(&item, &again);

			max--;
			if (victim != NULL)
			{
				zen_version_retire(victim);
				ZEN_COUNT(metcache_evictions, 1);
			}
			else if (again)
				push(shard, item);
		}
	}
}

void
zen_metcache_evict(int max)
{
	evict(max, capacity());
}

void
zen_metcache_evict_any(int max)
{
	evict(max, 0);
}

static void
report_damage(ZenSlot slot, uint64 tidno, int elevel)
{
	ItemPointerData tid;

	zen_epoch_reset();
	zen_make_tid(&tid, tidno, 0);
	ereport(elevel,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("checksum of zen row (%u,%u) does not match",
					ItemPointerGetBlockNumber(&tid), ItemPointerGetOffsetNumber(&tid)),
			 errdetail("The NVM-tuple lies at offset " UINT64_FORMAT " of the pool.", slot * ZEN_SLOT_UNIT),
			 elevel < ERROR ? 0 :
			 errhint("Restore the row from a backup.  With zen.skip_damaged_rows on, scans leave it out.")));
}

void
zen_tuple_corrupted(ZenSlot slot, uint64 tidno)
{
	report_damage(slot, tidno, ERROR);
	pg_unreachable();
}

void
zen_tuple_unreadable(ZenSlot slot, uint64 tidno)
{
	report_damage(slot, tidno, zen_skip_damaged_rows ? WARNING : ERROR);
}

/* What became of an attempt to admit a row. */
typedef enum Admission
{
	ADMIT_DONE,					/* or somebody else did */
	ADMIT_FULL,
	ADMIT_DAMAGED
} Admission;

static Admission
try_admit(ZenHTable *ht, uint64 tidno, ZenWord *word, ZenSlot *slot)
{
	ZenVersion *v;
	uint64		w,
				now;
	int64		len;
	bool		sound,
				placed = false;

	zen_epoch_enter();
	w = zen_word_read(word);
	if (zen_word_state(w) != ZEN_WORD_NVM)
	{
		zen_epoch_leave();
		return ADMIT_DONE;
	}
	*slot = zen_word_ref(w);
	len = zen_tuple_len(*slot, zen_slot_size(*slot));
	v = len > 0 ? zen_version_alloc((uint32) len) : NULL;
	if (v == NULL)
	{
		zen_epoch_leave();
		return len > 0 ? ADMIT_FULL : ADMIT_DAMAGED;
	}
	sound = zen_tuple_read(*slot, (MinimalTuple) v->data, (uint32) len, &v->xmin);
	v->slot = *slot;
	v->cmin = FirstCommandId;
	v->code = (uint16) zen_word1_code(zen_tuple_header(*slot).word1);
	pg_atomic_write_u32(&v->flags, ZEN_V_COMMITTED | ZEN_V_FROZEN | ZEN_V_IN_CLOCK | ZEN_V_REFERENCED);
	if (sound)
	{
		now = zen_word_lock(word);
		if (zen_word_state(now) == ZEN_WORD_NVM && zen_word_ref(now) == v->slot)
		{
			now = zen_word_with_entry(now, v);
			placed = true;
		}
		zen_word_unlock(word, now);
	}
	zen_epoch_leave();
	if (placed)
	{
		ZEN_COUNT(metcache_admissions, 1);
		zen_metcache_enqueue(ht, tidno, v);
	}
	else
		zen_version_free(v);
	return sound ? ADMIT_DONE : ADMIT_DAMAGED;
}

void
zen_metcache_admit(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	ZenSlot		slot = InvalidZenSlot;
	Admission	result = try_admit(ht, tidno, word, &slot);

	if (result == ADMIT_FULL)
	{
		zen_make_room();
		result = try_admit(ht, tidno, word, &slot);
	}
	if (result == ADMIT_FULL)
		zen_arena_full_error();
	if (result == ADMIT_DAMAGED)
		zen_tuple_corrupted(slot, tidno);
}
