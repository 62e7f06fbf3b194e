/*
 * followers.c -- a hot standby: what trees have to hear of rows that redo brings.
 *
 * A builder makes a follower, then looks at the map.  Redo pushes a row, then looks if the table has followers.  Both
 * have a full barrier between.  So each row is in the map that the builder sees, or the follower is told.
 *
 * Whoever takes news away has processed all of a copy, and compares the count of changes.  If another process was
 * first, nothing is taken away: that one has done the same, and to put an entry into a tree twice is no harm.
 */
#include "standby/followers.h"

#include "access/transam.h"
#include "base/arena.h"
#include "base/fault.h"
#include "base/locks.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define CHUNK_NEWS		42
#define LEAST_LIMIT		65536	/* news; with more, a tree is built anew */
#define LEAST_REUSED	10000
#define LEAST_BITS		65536
#define FULL_US			INT64CONST(60000000)	/* without trees, behind full
												 * DRAM */

typedef struct ZenNewsChunk
{
	struct ZenNewsChunk *next;
	uint32		n;
	ZenNews		news[CHUNK_NEWS];
} ZenNewsChunk;

typedef struct Followers
{
	uint32		tables;			/* no table behind this one has any */
	uint64		chunks;
	uint64		built;
	uint64		lost;
	pg_atomic_uint64 full_until;	/* TimestampTz; no tree is built before */
	ZenFollower *of_table[ZEN_MAX_HTABLES];
} Followers;

static Followers *followers;

void		(*zen_follower_free_tree) (void *tree) = NULL;
Size		(*zen_follower_tree_bytes) (const void *tree) = NULL;

static void
followers_shmem_init(void)
{
	bool		found;

	followers = ShmemInitStruct("zen followers", sizeof(Followers), &found);
	if (found)
		return;
	memset(followers, 0, sizeof(Followers));
	pg_atomic_init_u64(&followers->full_until, 0);
}

const ZenShmem zen_followers_shmem = {.bytes = sizeof(Followers),.init = followers_shmem_init};

static void
followers_lock(LWLockMode mode)
{
	LWLockAcquire(zen_lock(ZEN_LOCK_FOLLOWERS), mode);
}

static void
followers_unlock(void)
{
	LWLockRelease(zen_lock(ZEN_LOCK_FOLLOWERS));
}

static inline bool
follower_is_mine(void)
{
	return LWLockHeldByMeInMode(zen_lock(ZEN_LOCK_FOLLOWERS), LW_EXCLUSIVE);
}

/* ---------- coming and going ---------- */

static void
drop_news(ZenFollower *f)
{
	while (f->first != NULL)
	{
		ZenNewsChunk *chunk = f->first;

		f->first = chunk->next;
		zen_arena_free(chunk, sizeof(ZenNewsChunk));
		followers->chunks--;
	}
	f->last = NULL;
	f->n = 0;
	f->changes++;
}

static void
lose(ZenFollower *f)
{
	Assert(follower_is_mine());
	if (f->lost)
		return;
	f->lost = true;
	followers->lost++;
	drop_news(f);
}

/* Take a follower that is lost, and that nobody has pinned, out of its list; NULL: there is none. */
static ZenFollower *
unlink_lost(uint32 htable)
{
	ZenFollower **link = &followers->of_table[htable];

	Assert(follower_is_mine());
	while (*link != NULL && (!(*link)->lost || ((*link)->pins > 0 && !ZEN_FAULT(S11_NO_PINS))))
		link = &(*link)->next;
	if (*link != NULL)
	{
		ZenFollower *f = *link;

		*link = f->next;
		return f;
	}
	return NULL;
}

/* No other process can reach it. */
static void
free_follower(ZenFollower *f)
{
	Assert(f->first == NULL && (f->pins == 0 || ZEN_FAULT(S11_NO_PINS)));
	if (f->tree != NULL)
		zen_follower_free_tree(f->tree);
	zen_arena_free(f->doubtful, f->nbits / 8);
	zen_arena_free(f, sizeof(ZenFollower));
}

/* Free those of a table that are lost; true if there were any. */
static bool
sweep_table(uint32 htable)
{
	bool		any = false;
	ZenFollower *f;

	if (followers->of_table[htable] == NULL)	/* unlocked */
		return false;
	do
	{
		followers_lock(LW_EXCLUSIVE);
		f = unlink_lost(htable);
		followers_unlock();
		if (f != NULL)
			free_follower(f);
		any |= f != NULL;
	} while (f != NULL);
	return any;
}

bool
zen_followers_have_room(void)
{
	return pg_atomic_read_u64(&followers->full_until) <= (uint64) GetCurrentTimestamp();
}

ZenFollower *
zen_follower_begin(const ZenHTable *ht, RelFileLocator loc, uint64 ntids, bool keepable)
{
	ZenFollower *f;

	(void) sweep_table(ht->idx);
	f = zen_followers_have_room() ? zen_arena_alloc(sizeof(ZenFollower)) : NULL;
	if (f == NULL)
		return NULL;
	memset(f, 0, sizeof(*f));
	for (f->nbits = LEAST_BITS; f->nbits < ntids; f->nbits *= 2)
		;
	f->doubtful = zen_arena_alloc(f->nbits / 8);
	if (f->doubtful == NULL)
	{
		zen_arena_free(f, sizeof(ZenFollower));
		return NULL;
	}
	memset(f->doubtful, 0, f->nbits / 8);
	f->htable = ht->idx;
	f->birth_cts = ht->birth_cts;
	f->loc = loc;
	f->keepable = keepable;
	f->pins = 1;
	f->limit = f->reused_limit = PG_UINT64_MAX;
	pg_atomic_init_u32(&f->stale, 0);
	pg_atomic_init_u64(&f->complete, 0);
	followers_lock(LW_EXCLUSIVE);
	f->next = followers->of_table[ht->idx];
	followers->of_table[ht->idx] = f;
	followers->tables = Max(followers->tables, ht->idx);
	followers_unlock();
	pg_memory_barrier();		/* pairs with zen_followers_tell */
	return f;
}

static bool
follower_fits(const ZenFollower *f, uint64 birth_cts, RelFileLocator loc)
{
	return f->ready && !f->lost && f->birth_cts == birth_cts && memcmp(&f->loc, &loc, sizeof(loc)) == 0;
}

static ZenFollower *
find_ready(uint32 htable, uint64 birth_cts, RelFileLocator loc)
{
	ZenFollower *f = followers->of_table[htable];

	while (f != NULL && !follower_fits(f, birth_cts, loc))
		f = f->next;
	return f;
}

bool
zen_follower_ready(ZenFollower *f, uint64 nentries)
{
	followers_lock(LW_EXCLUSIVE);
	if (!f->lost && find_ready(f->htable, f->birth_cts, f->loc) != NULL)
		lose(f);
	if (!f->lost)
	{
		f->limit = Max(LEAST_LIMIT, Max(nentries / 8, 2 * f->n));
		f->reused_limit = f->reused + Max(LEAST_REUSED, nentries / 2);
		f->ready = true;
		followers->built++;
	}
	followers_unlock();
	return f->ready;
}

ZenFollower *
zen_follower_find(const ZenHTable *ht, RelFileLocator loc)
{
	ZenFollower *f;

	if (followers->of_table[ht->idx] == NULL)	/* unlocked: then none is
												 * ready */
		return NULL;
	followers_lock(LW_EXCLUSIVE);
	f = find_ready(ht->idx, ht->birth_cts, loc);
	if (f != NULL)
		f->pins++;
	followers_unlock();
	return f;
}

void
zen_follower_unpin(ZenFollower *f)
{
	ZenFollower *ended = NULL;

	followers_lock(LW_EXCLUSIVE);
	Assert(f->pins > 0);
	if (--f->pins == 0 && f->lost)
		ended = unlink_lost(f->htable);
	followers_unlock();
	if (ended != NULL)
		free_follower(ended);
}

void
zen_follower_lose(ZenFollower *f)
{
	followers_lock(LW_EXCLUSIVE);
	lose(f);
	followers_unlock();
}

void
zen_follower_abandon(ZenFollower *f)
{
	zen_follower_lose(f);
	zen_follower_unpin(f);
}

/* ---------- news ---------- */

/* Tell one follower; false: DRAM is full. */
static bool
tell(ZenFollower *f, uint64 tidno, uint64 full_xid)
{
	ZenNewsChunk *chunk = f->last;
	ZenNews    *last = chunk != NULL ? &chunk->news[chunk->n - 1] : NULL;

	Assert(follower_is_mine());
	if (last != NULL && last->full_xid == full_xid && last->tidno + last->n == tidno)
	{
		last->n++;
		return true;
	}
	if (chunk == NULL || chunk->n == CHUNK_NEWS)
	{
		chunk = zen_arena_alloc(sizeof(ZenNewsChunk));
		if (chunk == NULL)
			return false;
		followers->chunks++;
		chunk->next = NULL;
		chunk->n = 0;
		if (f->last != NULL)
			f->last->next = chunk;
		else
			f->first = chunk;
		f->last = chunk;
	}
	chunk->news[chunk->n++] = (ZenNews)
	{
		.full_xid = full_xid,.tidno = tidno,.n = 1
	};
	f->n++;
	return true;
}

void
zen_followers_tell(uint32 htable, uint64 tidno, uint64 full_xid, bool reused)
{
	pg_memory_barrier();		/* pairs with zen_follower_begin */
	if (((ZenFollower *volatile *) followers->of_table)[htable] == NULL || ZEN_FAULT(S10_UNTOLD))
		return;
	followers_lock(LW_EXCLUSIVE);
	for (ZenFollower *f = followers->of_table[htable]; f != NULL; f = f->next)
	{
		if (f->lost)
			continue;
		if (reused && !ZEN_FAULT(S13_UNDOUBTED))
			zen_follower_doubt(f, tidno);
		f->reused += reused;
		if (!tell(f, tidno, full_xid) || f->n > f->limit || f->reused > f->reused_limit)
			lose(f);
	}
	followers_unlock();
}

void
zen_follower_note(ZenFollower *f, uint64 tidno, uint64 full_xid)
{
	followers_lock(LW_EXCLUSIVE);
	if (!f->lost && !tell(f, tidno, full_xid))
		lose(f);
	followers_unlock();
}

void
zen_followers_row_goes(uint32 htable)
{
	pg_memory_barrier();		/* pairs with zen_follower_begin */
	if (((ZenFollower *volatile *) followers->of_table)[htable] == NULL)
		return;
	followers_lock(LW_SHARED);
	for (ZenFollower *f = followers->of_table[htable]; f != NULL; f = f->next)
		if (pg_atomic_read_u32(&f->stale) == 0)
			pg_atomic_write_u32(&f->stale, 1);
	followers_unlock();
}

/* ---------- hearing ---------- */

uint64
zen_follower_count_ends(void)
{
	uint64		n = *(volatile uint64 *) &TransamVariables->xactCompletionCount;

	/* what these have made was told before */
	pg_read_barrier();
	return n;
}

bool
zen_follower_complete(ZenFollower *f)
{
	return pg_atomic_read_u64(&f->complete) >= zen_follower_count_ends();
}

/* Memory is taken without the lock, so there may be more news by then. */
bool
zen_follower_news(ZenFollower *f, ZenNewsCopy *copy)
{
	uint64		room = 0;
	bool		lost;

	copy->news = NULL;
	copy->ends = zen_follower_count_ends();
	for (;;)
	{
		followers_lock(LW_SHARED);
		lost = f->lost;
		if (lost || f->n <= room)
			break;
		room = f->n + CHUNK_NEWS;
		followers_unlock();
		if (copy->news != NULL)
			pfree(copy->news);
		copy->news = MemoryContextAllocHuge(CurrentMemoryContext, room * sizeof(ZenNews));
	}
	copy->n = 0;
	copy->changes = f->changes;
	for (ZenNewsChunk *chunk = f->first; chunk != NULL; chunk = chunk->next)
	{
		memcpy(copy->news + copy->n, chunk->news, chunk->n * sizeof(ZenNews));
		copy->n += chunk->n;
	}
	Assert(copy->n == f->n);
	followers_unlock();
	copy->done = copy->n > 0 ? palloc0(copy->n) : NULL;
	return !lost;
}

/*
 * Close up the news that are not done; returns how many were.  Those behind the copy have come since.  So have the last
 * rows of a run that has grown: it stays, and is entered once more.
 */
static uint64
take_away(ZenFollower *f, const ZenNewsCopy *copy)
{
	ZenNewsChunk *to = f->first;
	uint64		at = 0,
				taken = 0;
	uint32		n = 0;

	if (to == NULL)
		return 0;
	for (ZenNewsChunk *from = f->first; from != NULL; from = from->next)
	{
		uint32		end = from->n;	/* from may be where they go */

		for (uint32 i = 0; i < end; i++, at++)
		{
			if (at < copy->n && copy->done[at] && from->news[i].n == copy->news[at].n)
			{
				taken++;
				continue;
			}
			if (n == CHUNK_NEWS)
			{
				to->n = n;
				to = to->next;
				n = 0;
			}
			to->news[n++] = from->news[i];
		}
	}
	to->n = n;
	f->last = to;
	for (ZenNewsChunk *rest = to->next; rest != NULL;)
	{
		ZenNewsChunk *next = rest->next;

		zen_arena_free(rest, sizeof(ZenNewsChunk));
		followers->chunks--;
		rest = next;
	}
	to->next = NULL;
	if (n == 0)
	{
		/* none was left, so it is the first */
		Assert(to == f->first);
		zen_arena_free(to, sizeof(ZenNewsChunk));
		followers->chunks--;
		f->first = f->last = NULL;
	}
	return taken;
}

void
zen_follower_heard(ZenFollower *f, const ZenNewsCopy *copy)
{
	uint64		complete = pg_atomic_read_u64(&f->complete);
	bool		any = false;

	for (uint64 i = 0; i < copy->n && !any; i++)
		any = copy->done[i];
	if (any)
	{
		followers_lock(LW_EXCLUSIVE);
		if (!f->lost && f->changes == copy->changes)
		{
			f->n -= take_away(f, copy);
			f->changes++;
		}
		followers_unlock();
	}
	while (complete < copy->ends &&
		   !pg_atomic_compare_exchange_u64(&f->complete, &complete, copy->ends))
		;
}

/* ---------- all of them ---------- */

void
zen_followers_lose(uint32 htable)
{
	uint32		first = htable != 0 ? htable : 1;
	uint32		last = htable != 0 ? htable : followers->tables;

	if (followers->tables == 0)
		return;
	followers_lock(LW_EXCLUSIVE);
	for (uint32 i = first; i <= last; i++)
		for (ZenFollower *f = followers->of_table[i]; f != NULL; f = f->next)
			lose(f);
	followers_unlock();
}

/* Lose those that do not pass a test, or all. */
static void
lose_others(bool (*passes) (const ZenFollower *f, Oid db), Oid db)
{
	followers_lock(LW_EXCLUSIVE);
	for (uint32 i = 1; i <= followers->tables; i++)
		for (ZenFollower *f = followers->of_table[i]; f != NULL; f = f->next)
			if (!passes(f, db))
				lose(f);
	followers_unlock();
}

static bool
can_be_kept(const ZenFollower *f, Oid db)
{
	return f->keepable && f->ready;
}

static bool
is_of_another(const ZenFollower *f, Oid db)
{
	return ZEN_LOCATOR_DB(f->loc) != db;
}

void
zen_followers_promote(void)
{
	lose_others(can_be_kept, InvalidOid);
	(void) zen_followers_sweep();
}

void
zen_followers_lose_database(Oid db)
{
	if (followers->tables == 0)
		return;
	lose_others(is_of_another, db);
	(void) zen_followers_sweep();
}

void *
zen_follower_take(ZenFollower *f)
{
	void	   *tree = NULL;

	followers_lock(LW_EXCLUSIVE);
	Assert(f->pins > 0 && f->keepable && f->ready);
	if (!f->lost)
	{
		tree = f->tree;
		f->tree = NULL;
		lose(f);
	}
	followers_unlock();
	return tree;
}

bool
zen_followers_sweep(void)
{
	bool		any = false;

	for (uint32 i = 1; i <= followers->tables; i++)
		any |= sweep_table(i);
	return any;
}

bool
zen_followers_give_room(void)
{
	pg_atomic_write_u64(&followers->full_until, (uint64) (GetCurrentTimestamp() + FULL_US));
	zen_followers_lose(0);
	return zen_followers_sweep();
}

/* One at a time: exists() may wait, and the list may change meanwhile. */
void
zen_followers_forget_files(bool (*exists) (RelFileLocator loc))
{
	for (uint32 i = 1; i <= followers->tables; i++)
	{
		uint32		n = 0;
		bool		more = followers->of_table[i] != NULL;

		for (; more; n++)
		{
			ZenFollower *f;
			uint32		at = 0;

			followers_lock(LW_EXCLUSIVE);
			for (f = followers->of_table[i]; f != NULL && at < n; f = f->next)
				at++;
			if (f != NULL)
				f->pins++;
			followers_unlock();
			more = f != NULL;
			if (f == NULL)
				continue;
			if (!f->lost && !exists(f->loc))
				zen_follower_lose(f);
			zen_follower_unpin(f);
		}
	}
}

void
zen_followers_stats(ZenFollowerStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	followers_lock(LW_SHARED);
	for (uint32 i = 1; i <= followers->tables; i++)
	{
		for (ZenFollower *f = followers->of_table[i]; f != NULL; f = f->next)
		{
			stats->trees++;
			stats->news += f->n;
			stats->bytes += sizeof(ZenFollower) + f->nbits / 8;
			if (f->tree != NULL)
				stats->bytes += zen_follower_tree_bytes(f->tree);
		}
	}
	stats->bytes += followers->chunks * sizeof(ZenNewsChunk);
	stats->built = followers->built;
	stats->lost = followers->lost;
	followers_unlock();
}
