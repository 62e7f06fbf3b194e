/*
 * alloc.c -- slot allocation.
 *
 * A context is all pages of one (HTable, region, class); tables below ZEN_PRIVATE_BYTES share the contexts of HTable 0,
 * so that a small table does not cost pages of its own per writer and class.  A context fills its current page, then the page with the most
 * free slots, then a fresh one.
 *
 * Free slots are bits: anyone sets one (a version was superseded and its readers are gone), only the lease holder
 * clears one, so no lock is needed.  The anchor (R4) may be free as a bit; the allocator passes over it.
 */
#include "nvm/alloc.h"

#include "base/arena.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/locks.h"
#include "base/stats.h"
#include "port/pg_bitutils.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#define MIN_FREE_SHARE	16		/* a used page is worth returning to with 1/16
								 * of its slots free */
#define CACHE_SIZE		64		/* contexts that a process remembers; a power
								 * of 2 */

typedef struct Context
{
	ZenPageOwner key;
	uint32		first;			/* pages linked by ZenPage.next; lease holder
								 * only */
	uint32		current;
} Context;

typedef struct CachedContext
{
	Context    *context;
	uint32		generation;
} CachedContext;

static HTAB *contexts;			/* under ZEN_LOCK_ALLOC */
static pg_atomic_uint32 *generation;	/* raised when contexts are removed */
static CachedContext cache[CACHE_SIZE];

static int64
max_contexts(void)
{
	/*
	 * each context has at least one page; the pool's size is not known yet,
	 * the hash table can grow
	 */
	return 1024;
}

Size
zen_alloc_shmem_size(void)
{
	/*
	 * beyond the initial entries the hash table grows from the slack
	 * requested here
	 */
	return add_size(hash_estimate_size(max_contexts() * 16, sizeof(Context)), sizeof(pg_atomic_uint32));
}

void
zen_alloc_init(void)
{
	HASHCTL		info = {.keysize = sizeof(ZenPageOwner),.entrysize = sizeof(Context)};
	bool		found;

	contexts = ShmemInitHash("zen page contexts", max_contexts(), max_contexts() * 16, &info,
							 HASH_ELEM | HASH_BLOBS);
	generation = ShmemInitStruct("zen page contexts generation", sizeof(pg_atomic_uint32), &found);
	if (!found)
		pg_atomic_init_u32(generation, 1);
	memset(cache, 0, sizeof(cache));
}

/* Find or make the context of a key; NULL when there is no memory for a new one. */
static Context *
get_context(ZenPageOwner key)
{
	CachedContext *c = &cache[(key.htable * 31 + key.class * 7 + key.region) & (CACHE_SIZE - 1)];
	Context    *context;
	bool		found;

	if (c->context != NULL && c->generation == pg_atomic_read_u32(generation) &&
		memcmp(&c->context->key, &key, sizeof(key)) == 0)
		return c->context;

	LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_SHARED);
	context = hash_search(contexts, &key, HASH_FIND, NULL);
	LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
	if (context == NULL)
	{
		LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_EXCLUSIVE);
		context = hash_search(contexts, &key, HASH_ENTER_NULL, &found);
		if (context != NULL && !found)
			context->first = context->current = ZEN_NO_PAGE;
		LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
		if (context == NULL)
			return NULL;
	}
	c->context = context;
	c->generation = pg_atomic_read_u32(generation);
	return context;
}

/* Take a free slot of a page, not the anchor. */
static ZenSlot
take_slot(uint32 pageno, ZenSlot anchor)
{
	ZenPage    *page = &zen_pages[pageno];
	uint32		words = (page->nslots + 63) / 64;

	for (uint32 i = 0; i < words; i++)
	{
		uint32		w = (page->hint + i) % words;
		uint64		bits = pg_atomic_read_u64(&page->free[w]);

		while (bits != 0)
		{
			int			bit = pg_rightmost_one_pos64(bits);
			ZenSlot		slot = zen_page_slot(pageno, w * 64 + bit);

			if (slot != anchor || ZEN_FAULT(R4_REUSE_ANCHOR))
			{
				pg_atomic_fetch_and_u64(&page->free[w], ~(UINT64CONST(1) << bit));
				pg_atomic_fetch_sub_u32(&page->nfree, 1);
				page->hint = w;
				return slot;
			}
			bits &= bits - 1;
		}
	}
	return InvalidZenSlot;
}

/* The page of a context with the most free slots, if that is at least min_share of its slots. */
static uint32
emptiest_page(Context *context, uint32 min_share)
{
	uint32		best = ZEN_NO_PAGE,
				best_free = 0;

	for (uint32 p = context->first; p != ZEN_NO_PAGE; p = zen_pages[p].next)
	{
		uint32		nfree = pg_atomic_read_u32(&zen_pages[p].nfree);

		if (nfree > best_free && nfree * min_share >= zen_pages[p].nslots)
		{
			best = p;
			best_free = nfree;
		}
	}
	return best;
}

static ZenSlot
take_from_context(ZenPageOwner key, ZenSlot anchor)
{
	Context    *context = get_context(key);
	ZenSlot		slot = InvalidZenSlot;
	uint32		pageno;

	if (context == NULL)
		return InvalidZenSlot;
	if (context->current != ZEN_NO_PAGE && pg_atomic_read_u32(&zen_pages[context->current].nfree) > 0)
		slot = take_slot(context->current, anchor);
	if (slot != InvalidZenSlot)
		return slot;

	pageno = emptiest_page(context, MIN_FREE_SHARE);
	if (pageno == ZEN_NO_PAGE)
	{
		pageno = zen_page_take(key);
		if (pageno != ZEN_NO_PAGE)
		{
			zen_pages[pageno].next = context->first;
			context->first = pageno;
		}
		else
			pageno = emptiest_page(context, zen_pages[context->first].nslots + 1);
	}
	if (pageno == ZEN_NO_PAGE)
		return InvalidZenSlot;
	context->current = pageno;
	slot = take_slot(pageno, anchor);
	if (slot == InvalidZenSlot)
	{
		/* only the anchor was free there; any other free slot will do */
		for (pageno = context->first; pageno != ZEN_NO_PAGE && slot == InvalidZenSlot; pageno = zen_pages[pageno].next)
			slot = take_slot(pageno, anchor);
	}
	return slot;
}

/* The pool is full: a free slot of a larger class, in a page that the region has already. */
static ZenSlot
take_larger(ZenPageOwner key, ZenSlot anchor)
{
	ZenSlot		slot = InvalidZenSlot;

	while (slot == InvalidZenSlot && ++key.class < zen_nclasses())
	{
		Context    *context;

		LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_SHARED);
		context = hash_search(contexts, &key, HASH_FIND, NULL);
		LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
		for (uint32 p = context ? context->first : ZEN_NO_PAGE; p != ZEN_NO_PAGE && slot == InvalidZenSlot;
			 p = zen_pages[p].next)
			if (pg_atomic_read_u32(&zen_pages[p].nfree) > 0)
				slot = take_slot(p, anchor);
	}
	return slot;
}

ZenSlot
zen_slot_alloc(uint32 region, ZenHTable *ht, Size size)
{
	ZenPageOwner key = {.htable = 0,.region = region,.class = zen_class_of(size)};
	ZenSlot		anchor = zen_regions[region].anchor;
	ZenSlot		slot;

	if (key.class == ZEN_MAX_CLASSES)
		return InvalidZenSlot;
	if (ht->bytes_taken >= ZEN_PRIVATE_BYTES)
		key.htable = ht->idx;
	slot = take_from_context(key, anchor);
	if (slot == InvalidZenSlot && key.htable != 0)
	{
		/*
		 * the pool is full: a larger slot, or one in the shared pages, is as
		 * good
		 */
		slot = take_larger(key, anchor);
		key.htable = 0;
		if (slot == InvalidZenSlot)
			slot = take_from_context(key, anchor);
	}
	if (slot == InvalidZenSlot)
		slot = take_larger(key, anchor);
	if (slot != InvalidZenSlot && ht->bytes_taken < ZEN_PRIVATE_BYTES)
		ht->bytes_taken += zen_class_size(key.class);	/* racing writers may
														 * lose some: a
														 * threshold, not a
														 * count */
	return slot;
}

uint32
zen_slot_generation(ZenSlot slot)
{
	return pg_atomic_read_u32(&zen_pages[zen_slot_page(slot)].generation);
}

void
zen_slot_free_retired(ZenSlot slot, uint32 page_generation)
{
	/*
	 * inside, so that fence_off_pages() waits for us if we still see the old
	 * generation
	 */
	zen_epoch_enter();
	if (zen_slot_generation(slot) == page_generation)
		zen_slot_free(slot);
	zen_epoch_leave();
}

void
zen_slot_free(ZenSlot slot)
{
	ZenPage    *page = &zen_pages[zen_slot_page(slot)];
	uint32		n = zen_page_slot_index(slot);
	uint64		bit = UINT64CONST(1) << (n % 64);
	uint64		old PG_USED_FOR_ASSERTS_ONLY;

	Assert(page->owned && n < page->nslots);
	old = pg_atomic_fetch_or_u64(&page->free[n / 64], bit);
	Assert((old & bit) == 0);
	if (pg_atomic_fetch_add_u32(&page->nfree, 1) + 1 == page->nslots)
		pg_atomic_write_u32(&zen_regions[page->owner.region].emptied, 1);
	ZEN_COUNT(slots_freed, 1);
}

/*
 * Give pages back in two steps.  First no retired slot may find its way to them any more: their generation is raised,
 * and whoever still saw the old one is waited for.
 */
static void
fence_off_pages(uint32 list)
{
	if (list == ZEN_NO_PAGE)
		return;
	for (uint32 p = list; p != ZEN_NO_PAGE; p = zen_pages[p].next)
		pg_atomic_fetch_add_u32(&zen_pages[p].generation, 1);
	zen_epoch_wait();
}

/* Give one wholly free page back: its stale headers are forgotten, its evidence is covered by the watermark. */
static void
release_page(uint32 pageno, void (*forget) (ZenTupleHeader header))
{
	ZenPage    *page = &zen_pages[pageno];

	if (!ZEN_FAULT(R13_NO_WATERMARK_BEFORE_FREE))
		zen_region_persist_watermark(page->owner.region);
	zen_page_condemn(pageno);
	if (forget != NULL)
		for (uint32 n = 0; n < page->nslots; n++)
		{
			ZenTupleHeader h = zen_tuple_header(zen_page_slot(pageno, n));

			if ((h.word0 & ZEN_CTS_MASK) != 0)
				forget(h);
		}

	/*
	 * an anchor there may dangle: the watermark is as good (R13), and an
	 * address passed over costs nothing
	 */
	zen_page_give_back(pageno);
}

/*
 * Unlink wholly free pages of a context, except keep of them, and at most *max, which is lowered.  Returns the list of them.
 */
static uint32
unlink_empty(Context *context, uint32 keep, uint32 *max)
{
	uint32		list = ZEN_NO_PAGE;
	uint32	   *link = &context->first;

	while (*link != ZEN_NO_PAGE && *max > 0)
	{
		uint32		p = *link;
		ZenPage    *page = &zen_pages[p];

		bool		empty = pg_atomic_read_u32(&page->nfree) == page->nslots;

		if (empty && keep == 0)
		{
			*link = page->next;
			if (context->current == p)
				context->current = ZEN_NO_PAGE;
			page->next = list;
			list = p;
			(*max)--;
			continue;
		}
		if (empty)
			keep--;
		link = &page->next;
	}
	return list;
}

uint32
zen_alloc_release_empty(uint32 region, uint32 keep, uint32 max, void (*forget) (ZenTupleHeader header))
{
	HASH_SEQ_STATUS seq;
	Context    *context;
	uint32		list = ZEN_NO_PAGE,
				left = max;

	LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_SHARED);
	hash_seq_init(&seq, contexts);
	while ((context = hash_seq_search(&seq)) != NULL)
	{
		if (context->key.region == region)
		{
			uint32		found = unlink_empty(context, keep, &left);

			while (found != ZEN_NO_PAGE)
			{
				uint32		next = zen_pages[found].next;

				zen_pages[found].next = list;
				list = found;
				found = next;
			}
		}
	}
	LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
	fence_off_pages(list);
	while (list != ZEN_NO_PAGE)
	{
		uint32		next = zen_pages[list].next;

		release_page(list, forget);
		list = next;
	}
	return max - left;
}

void
zen_alloc_drop_htable(uint32 htable)
{
	HASH_SEQ_STATUS seq;
	Context    *context;
	uint32		list = ZEN_NO_PAGE;

	LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_EXCLUSIVE);
	hash_seq_init(&seq, contexts);
	while ((context = hash_seq_search(&seq)) != NULL)
	{
		if (context->key.htable != htable)
			continue;
		for (uint32 p = context->first; p != ZEN_NO_PAGE;)
		{
			uint32		next = zen_pages[p].next;

			zen_pages[p].next = list;
			list = p;
			p = next;
		}
		hash_search(contexts, &context->key, HASH_REMOVE, NULL);
	}
	pg_atomic_fetch_add_u32(generation, 1);
	LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
	fence_off_pages(list);
	while (list != ZEN_NO_PAGE)
	{
		uint32		next = zen_pages[list].next;

		release_page(list, NULL);
		list = next;
	}
}

void
zen_alloc_adopt_page(uint32 pageno)
{
	Context    *context = get_context(zen_pages[pageno].owner);

	if (context == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of shared memory for zen's page contexts")));
	zen_pages[pageno].next = context->first;
	context->first = pageno;
}

uint32
zen_alloc_count_pages(uint32 htable)
{
	uint32		n = 0;

	for (uint32 p = zen_pool.first_data_page; p < zen_pool.npages; p++)
		if (zen_pages[p].owned && zen_pages[p].owner.htable == htable)
			n++;
	return n;
}

/* ---------- verification ---------- */

bool
zen_slot_is_free(ZenSlot slot)
{
	uint32		n = zen_page_slot_index(slot);
	pg_atomic_uint64 *free = *(pg_atomic_uint64 *volatile *) &zen_pages[zen_slot_page(slot)].free;

	return free != NULL && (pg_atomic_read_u64(&free[n / 64]) >> (n % 64) & 1) != 0;
}

void
zen_alloc_walk_region(uint32 region, void (*visit) (uint32 pageno, void *arg), void *arg)
{
	HASH_SEQ_STATUS seq;
	Context    *context;

	LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_SHARED);
	hash_seq_init(&seq, contexts);
	while ((context = hash_seq_search(&seq)) != NULL)
	{
		uint32		n = 0;

		if (context->key.region != region)
			continue;
		for (uint32 p = context->first; p != ZEN_NO_PAGE && n++ < zen_pool.npages; p = zen_pages[p].next)
			visit(p, arg);
	}
	LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
}
