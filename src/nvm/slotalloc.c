/*
 * slotalloc.c -- NVM slots: taken and freed.
 *
 * A context is all pages of one (HTable, region, class); tables below ZEN_PRIVATE_BYTES share the contexts of HTable
 * 0, so that a small table does not cost pages of its own per writer and class.
 *
 * src/nvm/README says why taking a slot needs no lock ("Slots"), and which page comes next and why no page with room
 * gets lost ("Pages with room").
 */
#include "nvm/slotalloc.h"

#include "base/arena.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/locks.h"
#include "base/stats.h"
#include "nvm/sink.h"
#include "port/pg_bitutils.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#define MIN_FREE_SHARE	16		/* a page has room with 1/16 of its slots free */
#define MIN_ROOMY		4		/* so many pages with room make another region
								 * attractive */
#define MAX_BACKOFF		64		/* fresh pages between two looks for one */
#define INITIAL_CONTEXTS	1024	/* each has at least one page; the pool's
									 * size is not known yet, the hash table
									 * can grow */
#define MAX_CONTEXTS	(16 * INITIAL_CONTEXTS)
#define CACHE_SIZE		64		/* contexts that a process remembers; a power
								 * of 2 */

typedef struct ZenPageContext
{
	ZenPageOwner key;
	uint32		first;			/* pages linked by ZenPage.next and prev;
								 * lease holder only */
	uint32		current;		/* lease holder only */

	/* pages with room, linked by ZenPage.room_*; under the region's room_lock */
	uint32		room_first;
	uint32		nroomy;			/* read without it, too */

	struct ZenPageContext *next;	/* of the same region; under
									 * ZEN_LOCK_ALLOC */
} ZenPageContext;

typedef ZenPageContext Context;

typedef struct CachedContext
{
	Context    *context;
	uint32		generation;
} CachedContext;

typedef struct SlotallocShared
{
	pg_atomic_uint32 generation;	/* raised when contexts are removed */
	pg_atomic_uint32 regions_end;	/* regions from this one on have never had
									 * a context; written under ZEN_LOCK_ALLOC */
	Context    *first[ZEN_MAX_REGIONS]; /* the contexts of a region; under
										 * ZEN_LOCK_ALLOC */
} SlotallocShared;

static HTAB *contexts;			/* under ZEN_LOCK_ALLOC */
static SlotallocShared *shared;
static CachedContext cache[CACHE_SIZE];

/*
 * The context in which this process wanted a slot when it took a fresh page; class ZEN_MAX_CLASSES = none since it
 * looked.
 */
static ZenPageOwner wanted = {.class = ZEN_MAX_CLASSES};
static uint32 backoff = 1;		/* fresh pages between two looks at regions */
static uint32 fresh = 0;		/* fresh pages since the last */

static Size
slotalloc_shmem_size(void)
{
	/* beyond the initial entries the hash table grows from this slack */
	return add_size(hash_estimate_size(MAX_CONTEXTS, sizeof(Context)), sizeof(SlotallocShared));
}

static void
slotalloc_shmem_init(void)
{
	HASHCTL		info = {.keysize = sizeof(ZenPageOwner),.entrysize = sizeof(Context)};
	bool		found;

	contexts = ShmemInitHash("zen page contexts", INITIAL_CONTEXTS, MAX_CONTEXTS, &info,
							 HASH_ELEM | HASH_BLOBS);
	shared = ShmemInitStruct("zen page contexts of regions", sizeof(SlotallocShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(*shared));
		pg_atomic_init_u32(&shared->generation, 1);
		pg_atomic_init_u32(&shared->regions_end, 0);
	}
	memset(cache, 0, sizeof(cache));
}

const ZenShmem zen_slotalloc_shmem = {.size = slotalloc_shmem_size,.init = slotalloc_shmem_init};

/* A new one, without pages; under ZEN_LOCK_ALLOC. */
static void
init_context(Context *context)
{
	uint32		region = context->key.region;

	context->first = context->current = ZEN_NO_PAGE;
	context->room_first = ZEN_NO_PAGE;
	context->nroomy = 0;
	context->next = shared->first[region];
	shared->first[region] = context;
	if (region >= pg_atomic_read_u32(&shared->regions_end))
		pg_atomic_write_u32(&shared->regions_end, region + 1);
	zen_htables[context->key.htable].has_contexts = true;
}

/* The context's pages go; under ZEN_LOCK_ALLOC, exclusively. */
static void
forget_context(Context *context)
{
	Context   **link = &shared->first[context->key.region];

	Assert(LWLockHeldByMeInMode(zen_lock(ZEN_LOCK_ALLOC), LW_EXCLUSIVE));
	while (*link != context)
		link = &(*link)->next;
	*link = context->next;
	hash_search(contexts, &context->key, HASH_REMOVE, NULL);
}

/* Find or make the context of a key; NULL when there is no memory for a new one. */
static Context *
get_context(ZenPageOwner key)
{
	CachedContext *c = &cache[(key.htable * 31 + key.class * 7 + key.region) & (CACHE_SIZE - 1)];
	Context    *context;
	bool		found;

	Assert(key.htable < ZEN_MAX_HTABLES && key.region < ZEN_MAX_REGIONS && zen_class_size(key.class) > 0);
	if (c->context != NULL && c->generation == pg_atomic_read_u32(&shared->generation) &&
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
			init_context(context);
		LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
		if (context == NULL)
			return NULL;
	}
	c->context = context;
	c->generation = pg_atomic_read_u32(&shared->generation);
	return context;
}

/* ---------- pages of a context ---------- */

static void
link_page(Context *context, uint32 pageno)
{
	Assert(zen_pages[pageno].owned && zen_pages[pageno].context == NULL);
	Assert(zen_pages[pageno].owner.region == context->key.region);
	Assert(zen_pages[pageno].owner.class == context->key.class);
	zen_pages[pageno].prev = ZEN_NO_PAGE;
	zen_pages[pageno].next = context->first;
	if (context->first != ZEN_NO_PAGE)
		zen_pages[context->first].prev = pageno;
	context->first = pageno;
	zen_pages[pageno].context = context;
}

static void
unlink_page(Context *context, uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];

	Assert((page->prev == ZEN_NO_PAGE) == (context->first == pageno));
	if (page->prev != ZEN_NO_PAGE)
		zen_pages[page->prev].next = page->next;
	else
		context->first = page->next;
	if (page->next != ZEN_NO_PAGE)
		zen_pages[page->next].prev = page->prev;
}

/* ---------- pages with room ---------- */

static bool
has_room(ZenPage *page)
{
	return pg_atomic_read_u32(&page->nfree) * MIN_FREE_SHARE >= page->nslots;
}

static bool
page_is_empty(ZenPage *page)
{
	return pg_atomic_read_u32(&page->nfree) == page->nslots;
}

/* Under the region's room_lock. */
static void
unlist(Context *context, uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];

	Assert(page->room == ZEN_ROOM_LISTED && context->nroomy > 0);
	Assert((page->room_prev == ZEN_NO_PAGE) == (context->room_first == pageno));
	if (page->room_prev != ZEN_NO_PAGE)
		zen_pages[page->room_prev].room_next = page->room_next;
	else
		context->room_first = page->room_next;
	if (page->room_next != ZEN_NO_PAGE)
		zen_pages[page->room_next].room_prev = page->room_prev;
	context->nroomy--;
	page->room = ZEN_ROOM_UNLISTED;
}

/* List a page that has got room, unless it is listed already or has left its context. */
static void
offer_page(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	ZenRegion  *region = &zen_regions[page->owner.region];
	Context    *context;

	SpinLockAcquire(&region->room_lock);
	context = page->context;
	if (context != NULL && page->room == ZEN_ROOM_UNLISTED && has_room(page) && zen_page_may_use(pageno))
	{
		Assert(context->current != pageno && (context->room_first == ZEN_NO_PAGE) == (context->nroomy == 0));
		page->room_prev = ZEN_NO_PAGE;
		page->room_next = context->room_first;
		if (page->room_next != ZEN_NO_PAGE)
			zen_pages[page->room_next].room_prev = pageno;
		context->room_first = pageno;
		context->nroomy++;
		page->room = ZEN_ROOM_LISTED;
	}
	SpinLockRelease(&region->room_lock);
}

/*
 * Take a page out of the list, for another use.  to: its context from now on; NULL: no process lists it any more.  The
 * caller holds the region, or the table is gone.
 */
static void
withdraw_page(Context *context, uint32 pageno, ZenPageRoom room, Context *to)
{
	ZenRegion  *region = &zen_regions[context->key.region];

	SpinLockAcquire(&region->room_lock);
	if (zen_pages[pageno].room == ZEN_ROOM_LISTED)
		unlist(context, pageno);
	zen_pages[pageno].room = room;
	zen_pages[pageno].context = to;
	SpinLockRelease(&region->room_lock);
}

/* The page that slots are taken from, ZEN_NO_PAGE for none. */
static void
set_current(Context *context, uint32 pageno)
{
	uint32		former = context->current;

	ZenAssertRegionHeld(context->key.region);
	if (pageno == former)
		return;
	if (pageno != ZEN_NO_PAGE)
		withdraw_page(context, pageno, ZEN_ROOM_CURRENT, context);
	context->current = pageno;
	if (former != ZEN_NO_PAGE)
	{
		withdraw_page(context, former, ZEN_ROOM_UNLISTED, context);
		pg_memory_barrier();	/* src/nvm/README, "Pages with room" */
		if (has_room(&zen_pages[former]))
			offer_page(former);
	}
}

/* ---------- taking a slot ---------- */

/* Slots of a bitmap's word are in use from now on, and to be checked when they are read next. */
static inline void
clear_free(ZenPage *page, uint32 w, uint64 bits, uint32 n)
{
	pg_atomic_uint64 *checked = zen_page_checked_word(page, w * 64);

	pg_atomic_fetch_and_u64(&page->free[w], ~bits);
	pg_atomic_fetch_sub_u32(&page->nfree, n);
	if (pg_atomic_read_u64(checked) & bits)
		pg_atomic_fetch_and_u64(checked, ~bits);
	page->hint = w;
}

/* Take up to n free slots of a page, not the anchor, of one word of its bitmap; returns how many. */
static uint32
take_slots_of(uint32 pageno, ZenSlot anchor, uint32 n, ZenSlot *slots)
{
	ZenPage    *page = &zen_pages[pageno];
	uint32		words = zen_page_bitmap_words(page->nslots);

	ZenAssertRegionMine(page->owner.region);
	Assert(page->owned && !page->lost && pg_atomic_read_u32(&page->nfree) > 0);
	zen_page_touch(pageno);		/* R21: before the slot has a number to be
								 * found by */
	for (uint32 i = 0; i < words; i++)
	{
		uint32		w = (page->hint + i) % words;
		uint64		taken = 0;
		uint32		got = 0;

		for (uint64 bits = pg_atomic_read_u64(&page->free[w]); bits != 0 && got < n; bits &= bits - 1)
		{
			int			bit = pg_rightmost_one_pos64(bits);
			ZenSlot		slot = zen_page_slot(pageno, w * 64 + bit);

			if (slot == anchor && !ZEN_FAULT(R4_REUSE_ANCHOR))
				continue;
			slots[got++] = slot;
			taken |= UINT64CONST(1) << bit;
		}
		if (got == 0)
			continue;
		clear_free(page, w, taken, got);
		Assert(zen_page_holds(slots[0]) && !zen_slot_is_free(slots[0]));
		return got;
	}
	return 0;
}

static ZenSlot
take_slot(uint32 pageno, ZenSlot anchor)
{
	ZenSlot		slot;

	return take_slots_of(pageno, anchor, 1, &slot) > 0 ? slot : InvalidZenSlot;
}

static inline bool
current_has_free(const Context *context)
{
	return context->current != ZEN_NO_PAGE && pg_atomic_read_u32(&zen_pages[context->current].nfree) > 0;
}

static ZenSlot
take_from_current(Context *context, ZenSlot anchor)
{
	return current_has_free(context) ? take_slot(context->current, anchor) : InvalidZenSlot;
}

/* A free slot of any page that the context has. */
static ZenSlot
take_anywhere(Context *context, ZenSlot anchor)
{
	ZenSlot		slot = InvalidZenSlot;

	for (uint32 p = context->first; p != ZEN_NO_PAGE && slot == InvalidZenSlot; p = zen_pages[p].next)
	{
		if (pg_atomic_read_u32(&zen_pages[p].nfree) > 0 && (slot = take_slot(p, anchor)) != InvalidZenSlot)
			set_current(context, p);
	}
	return slot;
}

/* Take a slot: from the current page, from one with room, from a fresh page, or at last from any page. */
static ZenSlot
take_from_context(ZenPageOwner key, ZenSlot anchor)
{
	Context    *context = get_context(key);
	ZenSlot		slot;
	uint32		pageno;

	if (context == NULL)
		return InvalidZenSlot;
	slot = take_from_current(context, anchor);
	/* the first page may have room for the anchor only, which is one slot */
	for (int i = 0; i < 2 && slot == InvalidZenSlot && context->room_first != ZEN_NO_PAGE; i++)
	{
		set_current(context, context->room_first);
		slot = take_from_current(context, anchor);
	}
	if (slot != InvalidZenSlot)
		return slot;

	pageno = zen_page_take(key);
	if (pageno == ZEN_NO_PAGE)
		return take_anywhere(context, anchor);
	link_page(context, pageno);
	set_current(context, pageno);
	wanted = key;
	fresh++;
	return take_from_current(context, anchor);
}

/* The pool is full: a free slot of a larger class, in a page that the region has already. */
static ZenSlot
take_larger(ZenPageOwner key, ZenSlot anchor)
{
	ZenSlot		slot = InvalidZenSlot;
	uint32		largest = zen_class_of(ZEN_PAGE_SIZE);

	while (slot == InvalidZenSlot && key.class++ < largest)
	{
		Context    *context;

		LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_SHARED);
		context = hash_search(contexts, &key, HASH_FIND, NULL);
		LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
		if (context != NULL)
			slot = take_anywhere(context, anchor);
	}
	return slot;
}

/* The context in which a table's slots are looked for first. */
static inline ZenPageOwner
owner_of(uint32 region, const ZenHTable *ht, Size size)
{
	ZenPageOwner key = {.htable = 0,.region = region,.class = zen_class_of(size)};

	if (ht->bytes_taken >= ZEN_PRIVATE_BYTES)
		key.htable = ht->idx;
	return key;
}

/* Racing writers may lose some: a threshold, not a count. */
static inline void
count_taken(ZenHTable *ht, uint32 class, uint32 n)
{
	if (ht->bytes_taken < ZEN_PRIVATE_BYTES)
		ht->bytes_taken += n * zen_class_size(class);
}

ZenSlot
zen_slot_alloc(uint32 region, ZenHTable *ht, Size size)
{
	ZenPageOwner key = owner_of(region, ht, size);
	ZenSlot		anchor = zen_regions[region].anchor;
	ZenSlot		slot;

	ZenAssertRegionMine(region);
	if (key.class == ZEN_MAX_CLASSES)
		return InvalidZenSlot;
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
	/* R4, and the slot is this region's and large enough */
	Assert(slot == InvalidZenSlot || slot != anchor || ZEN_FAULT(R4_REUSE_ANCHOR));
	Assert(slot == InvalidZenSlot || (zen_slot_size(slot) >= size &&
									  zen_pages[zen_slot_page(slot)].owner.region == region));
	if (slot != InvalidZenSlot)
		count_taken(ht, key.class, 1);
	return slot;
}

uint32
zen_slot_alloc_many(uint32 region, ZenHTable *ht, Size size, uint32 n, ZenSlot *slots)
{
	ZenPageOwner key = owner_of(region, ht, size);
	Context    *context = key.class != ZEN_MAX_CLASSES ? get_context(key) : NULL;
	uint32		got = 0;

	ZenAssertRegionMine(region);
	Assert(n > 0);
	if (context != NULL && current_has_free(context))
		got = take_slots_of(context->current, zen_regions[region].anchor, n, slots);
	if (got > 0)
	{
		count_taken(ht, key.class, got);
		return got;
	}
	slots[0] = zen_slot_alloc(region, ht, size);
	return slots[0] != InvalidZenSlot ? 1 : 0;
}

/*
 * If this process had to take fresh pages lately: the region that has the most pages with room for the same.  Else, and
 * if there is none, ZEN_NO_REGION.
 */
static uint32
region_with_room(void)
{
	ZenPageOwner key = wanted;
	uint32		best = ZEN_NO_REGION,
				best_roomy = MIN_ROOMY - 1;

	if (key.class == ZEN_MAX_CLASSES || fresh < backoff)
		return ZEN_NO_REGION;
	wanted.class = ZEN_MAX_CLASSES;
	fresh = 0;
	LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_SHARED);
	for (key.region = zen_region_place_here(); key.region < zen_nregions; key.region += zen_region_nodes)
	{
		Context    *context = hash_search(contexts, &key, HASH_FIND, NULL);

		if (context != NULL && context->nroomy > best_roomy && pg_atomic_read_u32(&zen_regions[key.region].leased) == 0)
		{
			best = key.region;
			best_roomy = context->nroomy;
		}
	}
	LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
	backoff = best != ZEN_NO_REGION ? 1 : Min(2 * backoff, MAX_BACKOFF);
	return best;
}

uint32
zen_slotalloc_lease(void)
{
	return zen_region_lease(region_with_room());
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
	 * inside the epoch, so that fence_off_pages() waits for this process if
	 * it still sees the old generation
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

	/* nothing is known of a lost page, not even its class */
	Assert(page->owned && n < page->nslots && (page->lost || zen_page_holds(slot)));
	old = pg_atomic_fetch_or_u64(&page->free[n / 64], bit);
	Assert((old & bit) == 0);
	if (pg_atomic_fetch_add_u32(&page->nfree, 1) + 1 == page->nslots)
		pg_atomic_write_u32(&zen_regions[page->owner.region].emptied, 1);
	if (page->room == ZEN_ROOM_UNLISTED && page->context != NULL && has_room(page))
		offer_page(zen_slot_page(slot));
	ZEN_COUNT(slots_freed, 1);
}

void
zen_slot_take_back(ZenSlot slot)
{
	ZenPage    *page = &zen_pages[zen_slot_page(slot)];
	uint32		n = zen_page_slot_index(slot);
	uint64		bit = UINT64CONST(1) << (n % 64);

	/* it has no context yet, so it is in no list of pages with room */
	Assert(page->owned && !page->lost && page->context == NULL && zen_page_holds(slot));
	if (pg_atomic_fetch_and_u64(&page->free[n / 64], ~bit) & bit)
		pg_atomic_fetch_sub_u32(&page->nfree, 1);
}

/*
 * Give pages back in two steps.  First no retired slot may find its way to them any more: their generation is raised,
 * and each process that may still see the old one is waited for.
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

/* No process lists the page, or takes a slot of it.  Its evidence is covered by the watermark. */
static void
condemn(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];

	Assert(page->owned && page->context == NULL && page->room != ZEN_ROOM_LISTED);
	if (!ZEN_FAULT(R13_NO_WATERMARK_BEFORE_FREE))
		zen_region_persist_watermark(page->owner.region);
	zen_page_condemn(pageno);
}

static void
forget_headers(uint32 pageno, void (*forget) (ZenTupleHeader header))
{
	for (uint32 n = 0; n < zen_pages[pageno].nslots; n++)
	{
		ZenTupleHeader h = zen_tuple_header(zen_page_slot(pageno, n));

		if ((h.word0 & ZEN_CTS_MASK) != 0)
			forget(h);
	}
}

/*
 * A tombstone may go when the last header is forgotten.  No copy may have the headers for longer: it is told of the
 * pages before (R18).
 */
void
zen_slotalloc_give_back(uint32 list, void (*forget) (ZenTupleHeader header))
{
	uint32		next;
	uint64		zeroed = 0;

	ZenAssertNotInEpoch();
	if (list != ZEN_NO_PAGE && forget != NULL)
		ZEN_TELL(flush);
	for (uint32 p = list; p != ZEN_NO_PAGE; p = zen_pages[p].next)
	{
		if (forget != NULL)
			forget_headers(p, forget);
		zen_page_zero(p);
		zeroed = Max(zeroed, zen_pages[p].zeroed_at);
	}
	/* W5: or the word might be on disk, the zeroes not, and the record lost */
	if (zen_nvm_is_lazy() && list != ZEN_NO_PAGE && !ZEN_FAULT(W5_FREE_UNFLUSHED))
		ZEN_TELL(await, zeroed);
	for (uint32 p = list; p != ZEN_NO_PAGE; p = next)
	{
		next = zen_pages[p].next;
		zen_page_give_back(p);
	}
}

/*
 * Give wholly free pages back.  An anchor there may dangle: the watermark is as good (R13), and an address passed over
 * costs nothing.
 */
static void
release_pages(uint32 list, void (*forget) (ZenTupleHeader header))
{
	for (uint32 p = list; p != ZEN_NO_PAGE; p = zen_pages[p].next)
		condemn(p);
	zen_fault_pause(ZEN_FAULT(POOL_PAUSE_CONDEMNED) && list != ZEN_NO_PAGE);
	zen_fault_stop(ZEN_FAULT(R18_STOP_CONDEMNED) && list != ZEN_NO_PAGE && forget != NULL);
	zen_slotalloc_give_back(list, forget);
}

/*
 * Take wholly free pages from a context, except keep of them, and at most *max, which is lowered.  Returns list,
 * longer by them.  Caller holds ZEN_LOCK_ALLOC and the region.
 */
static uint32
take_empty(Context *context, uint32 keep, uint32 *max, uint32 list)
{
	uint32		next;

	ZenAssertRegionHeld(context->key.region);
	Assert(LWLockHeldByMe(zen_lock(ZEN_LOCK_ALLOC)));
	if (context->current != ZEN_NO_PAGE && page_is_empty(&zen_pages[context->current]))
		set_current(context, ZEN_NO_PAGE);
	/* others may add pages in front while we are on the way */
	for (uint32 p = context->room_first; p != ZEN_NO_PAGE && *max > 0; p = next)
	{
		next = zen_pages[p].room_next;
		if (!page_is_empty(&zen_pages[p]))
			continue;
		if (keep > 0)
		{
			keep--;
			continue;
		}
		Assert(zen_page_count_free(p) == zen_pages[p].nslots);
		withdraw_page(context, p, ZEN_ROOM_UNLISTED, NULL);
		unlink_page(context, p);
		zen_pages[p].next = list;
		list = p;
		(*max)--;
	}
	return list;
}

uint32
zen_slotalloc_regions_end(void)
{
	return pg_atomic_read_u32(&shared->regions_end);
}

uint32
zen_slotalloc_release_empty(uint32 region, uint32 keep, uint32 max,
							void (*forget) (ZenTupleHeader header))
{
	uint32		list = ZEN_NO_PAGE,
				left = max;

	ZenAssertRegionHeld(region);
	LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_SHARED);
	for (Context *context = shared->first[region]; context != NULL; context = context->next)
		list = take_empty(context, keep, &left, list);
	LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
	fence_off_pages(list);
	release_pages(list, forget);
	return max - left;
}

void
zen_slotalloc_drop_htable(uint32 htable)
{
	HASH_SEQ_STATUS seq;
	Context    *context;
	uint32		list = ZEN_NO_PAGE;

	Assert(htable > 0 && htable < ZEN_MAX_HTABLES);
	LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_EXCLUSIVE);

	/* most tables that go were small: the walk is over those of all tables */
	if (!zen_htables[htable].has_contexts)
	{
		LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
		return;
	}
	zen_htables[htable].has_contexts = false;
	hash_seq_init(&seq, contexts);
	while ((context = hash_seq_search(&seq)) != NULL)
	{
		if (context->key.htable != htable)
			continue;
		for (uint32 p = context->first; p != ZEN_NO_PAGE;)
		{
			uint32		next = zen_pages[p].next;

			withdraw_page(context, p, ZEN_ROOM_UNLISTED, NULL);
			zen_pages[p].next = list;
			list = p;
			p = next;
		}
		forget_context(context);
	}
	pg_atomic_fetch_add_u32(&shared->generation, 1);
	LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
	fence_off_pages(list);
	release_pages(list, NULL);
}

void
zen_slotalloc_adopt_page(uint32 pageno)
{
	Context    *context = get_context(zen_pages[pageno].owner);

	/*
	 * recovery's leader: no process takes or frees a slot before recovery is
	 * over
	 */
	Assert(!zen_pages[pageno].lost);
	Assert(zen_page_count_free(pageno) == pg_atomic_read_u32(&zen_pages[pageno].nfree));
	if (context == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of shared memory for zen's page contexts")));
	link_page(context, pageno);
	offer_page(pageno);
}

uint32
zen_slotalloc_count_pages(uint32 htable)
{
	uint32		n = 0;

	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		n += zen_pages[p].owned && zen_pages[p].owner.htable == htable;
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
zen_slotalloc_walk_region(uint32 region, void (*visit) (uint32 pageno, void *arg), void *arg)
{
	ZenAssertRegionHeld(region);
	LWLockAcquire(zen_lock(ZEN_LOCK_ALLOC), LW_SHARED);
	for (Context *context = shared->first[region]; context != NULL; context = context->next)
	{
		uint32		n = 0;

		for (uint32 p = context->first; p != ZEN_NO_PAGE && n++ < zen_pool_pages(); p = zen_pages[p].next)
			visit(p, arg);
	}
	LWLockRelease(zen_lock(ZEN_LOCK_ALLOC));
}
