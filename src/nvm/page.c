/*
 * page.c -- page directory, free pages, page descriptors.
 *
 * R8: a page goes to its new owner by one 8-byte store into the directory, flushed and fenced before any slot of
 * it is used.  It comes back by steps, each durable before the next one (src/nvm/README, "Pages changing hands").
 *
 * Slot classes: 32 and 64 bytes never cross a cache line; from 64 to 128 in steps of 16, above that eight classes per
 * doubling, so that at most one eighth of a slot is unused.
 */
#include "nvm/page.h"

#include "base/arena.h"
#include "base/fault.h"
#include "base/numa.h"
#include "nvm/persist.h"
#include "nvm/repair.h"
#include "nvm/sink.h"
#include "nvm/touched.h"
#include "port/pg_bitutils.h"
#include "storage/shmem.h"
#include "storage/spin.h"

/* Sizes of slots: the smallest; steps of 16 bytes up to 128; then eight for each doubling. */
#define SMALLEST_SLOT	32
#define FINE_FROM		64
#define FINE_STEP		16
#define FINE_LIMIT_LOG2	7
#define FINE_LIMIT		(1 << FINE_LIMIT_LOG2)
#define FINE_CLASSES	(2 + (FINE_LIMIT - FINE_FROM) / FINE_STEP)
#define STEPS_LOG2		3
#define STEPS			(1 << STEPS_LOG2)

#define PREPARED_AT_ONCE	64	/* pages; see prepare_pages() */

typedef struct PageControl
{
	slock_t		lock;			/* protects the free lists */
	uint32		free_head[ZEN_MAX_FILES];	/* first free page of each file,
											 * linked by ZenPage.next */
	uint32		nfree_of[ZEN_MAX_FILES];
	uint32		nfree;			/* in all */
	uint64		changes;		/* of the free lists */
	pg_atomic_uint32 ncoming;	/* pages condemned and not yet on a list */
	uint32		nclasses;
	uint32		class_size[ZEN_MAX_CLASSES];	/* bytes; constant */
	uint32		class_inverse[ZEN_MAX_CLASSES]; /* constant */
} PageControl;

ZenPage    *zen_pages;
void		(*zen_page_taken) (void) = NULL;
const uint32 *zen_class_sizes;
const uint32 *zen_class_inverses;
static PageControl *page_control;

uint32
zen_class_of(Size size)
{
	uint32		class;

	if (unlikely(size > ZEN_PAGE_SIZE))
		return ZEN_MAX_CLASSES;
	if (size <= SMALLEST_SLOT)
		class = 0;
	else if (size <= FINE_LIMIT)
		class = size <= FINE_FROM ? 1 : 1 + (uint32) ((size - FINE_FROM + FINE_STEP - 1) / FINE_STEP);
	else
	{
		int			log2 = pg_leftmost_one_pos64(size - 1); /* 2^log2 < size <=
															 * 2^(log2+1) */
		Size		step = ((Size) 1 << log2) / STEPS;

		class = FINE_CLASSES + (log2 - FINE_LIMIT_LOG2) * STEPS +
			(uint32) ((size - ((Size) 1 << log2) + step - 1) >> (log2 - STEPS_LOG2)) - 1;
	}
	Assert(class < page_control->nclasses && page_control->class_size[class] >= size);
	Assert(class == 0 || page_control->class_size[class - 1] < size);
	return class;
}

static void
make_classes(void)
{
	uint32		n = 0;

	memset(page_control->class_size, 0, sizeof(page_control->class_size));
	page_control->class_size[n++] = SMALLEST_SLOT;
	for (uint32 size = FINE_FROM; size <= FINE_LIMIT; size += FINE_STEP)
		page_control->class_size[n++] = size;
	Assert(n == FINE_CLASSES);
	for (uint32 base = FINE_LIMIT; base < ZEN_PAGE_SIZE; base *= 2)
		for (uint32 i = 1; i <= STEPS; i++)
			page_control->class_size[n++] = base + i * (base / STEPS);
	Assert(n <= ZEN_MAX_CLASSES && page_control->class_size[n - 1] == ZEN_PAGE_SIZE);
	page_control->nclasses = n;
	for (uint32 class = 0; class < n; class++)
		page_control->class_inverse[class] =
			(uint32) ((UINT64CONST(1) << 32) / page_control->class_size[class]) + 1;
}

static void
page_shmem_init(void)
{
	bool		found;

	page_control = ShmemInitStruct("zen pages", sizeof(PageControl), &found);
	SpinLockInit(&page_control->lock);
	for (int i = 0; i < ZEN_MAX_FILES; i++)
	{
		page_control->free_head[i] = ZEN_NO_PAGE;
		page_control->nfree_of[i] = 0;
	}
	page_control->nfree = 0;
	page_control->changes = 0;
	pg_atomic_init_u32(&page_control->ncoming, 0);
	make_classes();
	zen_class_sizes = page_control->class_size;
	zen_class_inverses = page_control->class_inverse;

	/*
	 * descriptors number as the pages that the pool may get, known only now:
	 * they live in the arena, which is touched as far as there are pages
	 */
	zen_pages = zen_arena_alloc(mul_size(zen_pool.max_pages, sizeof(ZenPage)));
	if (zen_pages == NULL)
		ereport(FATAL,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("zen.dram_size is too small for a pool of up to %u pages", zen_pool.max_pages),
				 errdetail("The pool has %u pages; zen.pool_max_size, or twice that, tells how many it may get.",
						   zen_pool_pages()),
				 errhint("Raise zen.dram_size, or lower zen.pool_max_size.")));
	for (int i = 0; i < zen_pool.nfiles; i++)
		memset(&zen_pages[zen_pool.files[i].first], 0, mul_size(zen_file_pages(i), sizeof(ZenPage)));
}

const ZenShmem zen_page_shmem = {.bytes = sizeof(PageControl),.init = page_shmem_init};

/* ---------- the directory word ---------- */

static uint64
directory_word(uint32 pageno, ZenPageOwner owner)
{
	Assert(zen_page_is_data(pageno));
	Assert(owner.htable < ZEN_MAX_HTABLES && owner.region < ZEN_MAX_REGIONS && owner.class < page_control->nclasses);
	return zen_guard(pageno, ZEN_PAGE_OWNED | owner.htable | ((uint64) owner.region << ZEN_PAGE_REGION_SHIFT) |
					 ((uint64) owner.class << ZEN_PAGE_CLASS_SHIFT));
}

ZenPageOwner
zen_page_word_owner(uint64 word)
{
	ZenPageOwner owner;

	owner.htable = zen_bits(word, 0, ZEN_PAGE_HTABLE_BITS);
	owner.region = zen_bits(word, ZEN_PAGE_REGION_SHIFT, ZEN_PAGE_REGION_BITS);
	owner.class = zen_bits(word, ZEN_PAGE_CLASS_SHIFT, ZEN_PAGE_CLASS_BITS);
	return owner;
}

/* Is this a word that can stand in the directory? */
static bool
word_fits(const void *image, const void *pageno)
{
	uint64		word = *(const uint64 *) image;
	ZenPageOwner owner = zen_page_word_owner(word);

	return word == 0 || word == ZEN_PAGE_ZEROING ||
		(owner.region < ZEN_MAX_REGIONS && owner.class < page_control->nclasses &&
		 word == directory_word(*(const uint32 *) pageno, owner));
}

bool
zen_page_word_fits(uint32 pageno, uint64 word)
{
	return word_fits(&word, &pageno);
}

static void
directory_store(uint32 pageno, uint64 word)
{
	Assert(word_fits(&word, &pageno));
	zen_nvm_store64(zen_page_word(pageno), word);
	if (!ZEN_FAULT(R8_DIRECTORY_NOT_DURABLE))
		zen_persist(zen_page_word(pageno), sizeof(uint64));
}

static void
directory_write(uint32 pageno, uint64 word)
{
	directory_store(pageno, word);
	ZEN_TELL(stored, zen_page_word(pageno), sizeof(uint64));
}

/* R8: a free page is zero.  The first slot of a page is the first to be taken, and is never all zero again. */
static bool
first_line_is_zero(uint32 pageno)
{
	const uint64 *words = (const uint64 *) zen_page_ptr(pageno);

	for (int i = 0; i < ZEN_LINE / sizeof(uint64); i++)
		if (zen_nvm_load64(&words[i]) != 0)
			return false;
	return true;
}

/* What the directory says of a page. */
typedef enum PageFate
{
	PAGE_FREE,
	PAGE_OWNED,
	PAGE_LOST					/* its word is damaged */
} PageFate;

/* Read a page's word; what a crash has left of a page that was zeroed is made good. */
static PageFate
read_directory(uint32 pageno, ZenPageOwner *owner)
{
	uint64		word = zen_nvm_load64(zen_page_word(pageno));

	if (!word_fits(&word, &pageno))
	{
		if (!zen_repair_bit(&word, sizeof(word), word_fits, &pageno))
			return PAGE_LOST;
		directory_store(pageno, word);	/* PAGES says it, too */
		zen_note_repair(zen_page_word(pageno));
	}
	if (word == ZEN_PAGE_ZEROING)
	{
		if (!ZEN_FAULT(R8_ZEROING_FORGOTTEN))
			zen_nvm_zero(zen_page_ptr(pageno), ZEN_PAGE_SIZE);
		/* copies are told by PAGES (R18) */
		directory_store(pageno, 0);
		return PAGE_FREE;
	}
	if (word == 0)
		return first_line_is_zero(pageno) ? PAGE_FREE : PAGE_LOST;
	*owner = zen_page_word_owner(word);
	return PAGE_OWNED;
}

void
zen_page_count_owned(uint32 *counts)
{
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
	{
		uint64		word = zen_nvm_load64(zen_page_word(p));

		if ((word & ZEN_PAGE_OWNED) != 0 && word_fits(&word, &p))
			counts[zen_page_word_owner(word).htable]++;
	}
}

void
zen_page_persist_directories(void)
{
	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		const ZenPoolFile *file = &zen_pool.files[i];

		zen_flush(zen_file_base(i), (Size) (file->first_data - file->first) * ZEN_PAGE_SIZE);
		for (uint32 p = file->near_end; p < file->first + zen_file_pages(i); p += ZEN_DIRECTORY_WORDS)
			zen_flush(zen_page_ptr(p), Min(ZEN_AREA_ALIGN, (file->first + zen_file_pages(i) - p) * ZEN_PAGE_SIZE));
	}
	zen_fence();
}

#ifdef USE_ASSERT_CHECKING

/* R8: is a page of the free list one that can go to a new owner? */
static bool
is_clean(uint32 pageno)
{
	return zen_page_agrees(pageno) &&
		(first_line_is_zero(pageno) || ZEN_FAULT(R8_NO_ZERO) || ZEN_FAULT(R8_ZEROING_FORGOTTEN));
}

#endif

/* ---------- descriptors ---------- */

/* Bytes of both bitmaps of a page. */
static Size
bitmaps_size(uint32 nslots)
{
	return 2 * zen_page_bitmap_words(nslots) * sizeof(uint64);
}

/* Set up the DRAM half for an owner, with no free slots.  False when the arena is full. */
static bool
describe(uint32 pageno, ZenPageOwner owner)
{
	ZenPage    *page = &zen_pages[pageno];
	uint32		nslots = (uint32) (ZEN_PAGE_SIZE / zen_class_size(owner.class));

	Assert(!page->owned && page->free == NULL);
	page->free = zen_arena_alloc(bitmaps_size(nslots));
	if (page->free == NULL)
		return false;
	for (uint32 i = 0; i < 2 * zen_page_bitmap_words(nslots); i++)
		pg_atomic_init_u64(&page->free[i], 0);
	pg_atomic_init_u32(&page->nfree, 0);
	page->owner = owner;
	page->nslots = nslots;
	page->hint = 0;
	page->next = page->prev = ZEN_NO_PAGE;
	page->context = NULL;
	page->room = ZEN_ROOM_UNLISTED;
	page->owned = true;
	page->suspect = page->lost = page->prepared = page->deltas = false;
	return true;
}

/* Those for rows, if a file has so many pages. */
static uint32
data_pages_of(int i, uint32 npages)
{
	const ZenPoolFile *file = &zen_pool.files[i];
	uint32		near = file->near_end - file->first;
	uint32		far = npages > near ? npages - near : 0;

	return npages - (file->first_data - file->first) - far / ZEN_DIRECTORY_WORDS * ZEN_DIRECTORY_PAGES -
		Min(far % ZEN_DIRECTORY_WORDS, ZEN_DIRECTORY_PAGES);
}

static uint32
data_pages(void)
{
	uint32		n = 0;

	for (int i = 0; i < zen_pool.nfiles; i++)
		n += data_pages_of(i, zen_file_pages(i));
	return n;
}

/* Number of the file to which a page belongs. */
static int
file_of(uint32 pageno)
{
	return zen_pool_file_of(pageno) - zen_pool.files;
}

/* Add a chain of n free pages of a file, linked by their next. */
static void
push_chain(int file, uint32 head, uint32 tail, uint32 n)
{
	SpinLockAcquire(&page_control->lock);
	zen_pages[tail].next = page_control->free_head[file];
	page_control->free_head[file] = head;
	page_control->nfree_of[file] += n;
	page_control->nfree += n;
	page_control->changes++;
	SpinLockRelease(&page_control->lock);
}

static void
push_free(uint32 pageno)
{
	Assert(!zen_pages[pageno].owned && is_clean(pageno) && page_control->nfree < data_pages());
	push_chain(file_of(pageno), pageno, pageno, 1);
}

/*
 * Among the files with free pages that are nearest to a region's node, the one with the most.  The caller has the lock.
 */
static int
best_file(uint32 region)
{
	int			place = zen_region_place(region);
	int			best = 0,
				best_distance = INT_MAX;

	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		int			distance = zen_region_nodes == 1 ? 0 : zen_numa_distance(place, zen_pool.files[i].node);

		if (page_control->nfree_of[i] == 0 || distance > best_distance ||
			(distance == best_distance && page_control->nfree_of[i] <= page_control->nfree_of[best]))
			continue;
		best = i;
		best_distance = distance;
	}
	return best;
}

static uint32
pop_free(uint32 region)
{
	int			file;
	uint32		pageno;

	SpinLockAcquire(&page_control->lock);
	file = zen_pool.nfiles == 1 ? 0 : best_file(region);
	pageno = page_control->free_head[file];
	if (pageno != ZEN_NO_PAGE)
	{
		Assert(page_control->nfree > 0 && page_control->nfree_of[file] > 0 && !zen_pages[pageno].owned);
		page_control->free_head[file] = zen_pages[pageno].next;
		page_control->nfree_of[file]--;
		page_control->nfree--;
		page_control->changes++;
	}
	SpinLockRelease(&page_control->lock);
	return pageno;
}

/*
 * W5: where stores are lazy, what is stored on a page may be on disk when the WAL has lost its owner.  A page that was
 * free then would not be zero.  So before it is taken its word says ZEROING, by flushed WAL, and recovery makes it zero
 * in any case.  That is done for some pages at once.
 */
static void
prepare_pages(uint32 pageno, uint32 region)
{
	uint32		batch[PREPARED_AT_ONCE] = {pageno};
	uint32		n = 1;
	uint32		limit = Min(PREPARED_AT_ONCE, 1 + page_control->nfree / 4);

	pg_atomic_fetch_add_u32(&page_control->ncoming, 1); /* the others come back */
	while (n < limit && (batch[n] = pop_free(region)) != ZEN_NO_PAGE)
		n++;
	for (uint32 i = 0; i < n; i++)
		if (!zen_pages[batch[i]].prepared)
			directory_write(batch[i], ZEN_PAGE_ZEROING);
	ZEN_TELL(flush);
	for (uint32 i = 0; i < n; i++)
		zen_pages[batch[i]].prepared = true;
	while (n > 1)
		push_free(batch[--n]);
	pg_atomic_fetch_sub_u32(&page_control->ncoming, 1);
}

void
zen_page_unprepare(void)
{
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
	{
		if (!zen_pages[p].prepared)
			continue;
		Assert(!zen_pages[p].owned && is_clean(p));
		zen_nvm_store64(zen_page_word(p), 0);
		zen_flush(zen_page_word(p), sizeof(uint64));
		zen_pages[p].prepared = false;
	}
	zen_fence();
}

/*
 * The last free pages are kept for tombstones: a session that makes room by deleting rows needs slots for them.
 */
uint32
zen_page_reserve(void)
{
	return Min(64, 1 + data_pages() / 16);
}

void
zen_page_describe_grown(int file, uint32 npages)
{
	uint32		begin = zen_pool.files[file].first + zen_file_pages(file);
	uint32		end = zen_pool.files[file].first + npages;

	Assert(begin < end && end <= zen_pool.files[file].limit);
	memset(&zen_pages[begin], 0, mul_size(end - begin, sizeof(ZenPage)));
	pg_write_barrier();			/* a process that sees a page finds its
								 * descriptor */
	pg_atomic_write_u32(zen_pool.files[file].npages, npages);
	pg_write_barrier();			/* a process that sees the end finds the file
								 * whose pages end there */
	if (end > zen_pool_pages())
		pg_atomic_write_u32(zen_pool.npages, end);
}

void
zen_page_add(int file, uint32 npages)
{
	uint32		begin = zen_pool.files[file].first + zen_file_pages(file);
	uint32		end = zen_pool.files[file].first + npages;
	uint32		head = ZEN_NO_PAGE,
				tail = ZEN_NO_PAGE,
				n = 0;

	zen_page_describe_grown(file, npages);
	for (uint32 p = end - 1; p >= begin; p--)
	{
		if (!zen_page_is_data(p))
			continue;
		Assert(is_clean(p));
		zen_pages[p].next = head;
		head = p;
		tail = n++ == 0 ? p : tail;
	}
	if (n > 0)
		push_chain(file, head, tail, n);
}

/* Is an owned page on the node of its region?  True where there is one node. */
static bool
is_local(uint32 pageno)
{
	return zen_region_nodes == 1 ||
		zen_pool_file_of(pageno)->place == zen_region_place(zen_pages[pageno].owner.region);
}

uint32
zen_page_take(ZenPageOwner owner)
{
	uint32		pageno;

	if (zen_class_size(owner.class) > ZEN_TOMBSTONE_SIZE && page_control->nfree <= zen_page_reserve())
		return ZEN_NO_PAGE;
	pageno = pop_free(owner.region);

	if (pageno == ZEN_NO_PAGE)
		return ZEN_NO_PAGE;
	Assert(is_clean(pageno));
	ZEN_TELL(await, zen_pages[pageno].zeroed_at);
	if (zen_nvm_is_lazy() && !zen_pages[pageno].prepared && !ZEN_FAULT(W5_TAKEN_UNPREPARED))
		prepare_pages(pageno, owner.region);
	if (!describe(pageno, owner))
	{
		push_free(pageno);
		return ZEN_NO_PAGE;
	}
	/* R21: or a map that knew the page with this owner would tell of it */
	zen_page_touch_now(pageno);
	directory_write(pageno, directory_word(pageno, owner));
	zen_page_free_all(pageno, true);
	Assert(zen_page_count_free(pageno) == zen_pages[pageno].nslots && zen_page_agrees(pageno));
	if (unlikely(zen_region_nodes > 1) && !is_local(pageno))
		zen_numa_count_page(zen_pool_file_of(pageno)->place);
	if (zen_page_taken != NULL)
		zen_page_taken();
	return pageno;
}

/* ---------- touched pages (R21) ---------- */

void
zen_page_touch_now(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];

	/* its region changes the number while it is leased */
	SpinLockAcquire(&zen_touched->lock);
	if (pg_atomic_read_u32(&zen_touched->noted) && zen_touched_has_bit(pageno) && !ZEN_FAULT(R21_FORGOTTEN))
		zen_touched_store(pageno, true);
	page->touched = zen_regions[page->owner.region].save_no;
	SpinLockRelease(&zen_touched->lock);
	pg_write_barrier();			/* pairs with claim_told */
	pg_atomic_fetch_add_u32(&zen_touched->npages, 1);
	if (!pg_atomic_read_u32(&zen_touched->noted) || !zen_touched_has_bit(pageno) || ZEN_FAULT(R21_NOT_DURABLE))
		return;

	/* another process may have stored the bit, and not flushed it yet */
	zen_touched_flush(pageno);
	zen_fence();
}

bool
zen_page_is_told(uint32 pageno)
{
	const ZenPage *page = &zen_pages[pageno];

	return page->owned && !page->lost && !page->deltas && page->owner.htable != 0 && zen_touched_has_bit(pageno) &&
		*(volatile const uint32 *) &page->touched != zen_regions[page->owner.region].save_no;
}

void
zen_page_untouch(uint32 pageno)
{
	bool		taken_back = false;

	SpinLockAcquire(&zen_touched->lock);
	if (zen_page_is_told(pageno) && zen_touched_bit(pageno))
	{
		zen_touched_store(pageno, false);
		taken_back = true;
	}
	SpinLockRelease(&zen_touched->lock);
	if (taken_back)
		zen_touched_flush(pageno);
}

void
zen_page_note_touched(uint32 pageno, bool touched)
{
	Assert(zen_pages[pageno].owned);
	zen_pages[pageno].touched = touched ? ZEN_FIRST_SAVE : ZEN_FIRST_SAVE - 1;
}

bool
zen_page_may_use(uint32 pageno)
{
	uint32		region = zen_pages[pageno].owner.region;
	int			place = zen_region_place(region);

	if (is_local(pageno))
		return true;
	for (int i = 0; i < zen_pool.nfiles; i++)
		if (zen_pool.files[i].place == place && page_control->nfree_of[i] > 0)
			return false;
	return true;
}

void
zen_page_set_free(uint32 pageno, const uint64 *bits)
{
	ZenPage    *page = &zen_pages[pageno];
	uint32		nfree = 0;

	Assert(page->owned && pg_atomic_read_u32(&page->nfree) == 0);
	for (uint32 i = 0; i < zen_page_bitmap_words(page->nslots); i++)
	{
		pg_atomic_write_u64(&page->free[i], bits[i]);
		nfree += pg_popcount64(bits[i]);
	}
	Assert(nfree <= page->nslots);
	pg_atomic_write_u32(&page->nfree, nfree);
}

void
zen_page_free_all(uint32 pageno, bool free)
{
	ZenPage    *page = &zen_pages[pageno];

	Assert(page->owned);
	for (uint32 i = 0; i < page->nslots; i += 64)
	{
		uint64		bits = page->nslots - i >= 64 ? PG_UINT64_MAX : (UINT64CONST(1) << (page->nslots - i)) - 1;

		pg_atomic_write_u64(&page->free[i / 64], free ? bits : 0);
	}
	pg_atomic_write_u32(&page->nfree, free ? page->nslots : 0);
}

bool
zen_page_claim(uint32 pageno, uint32 n)
{
	ZenPage    *page = &zen_pages[pageno];
	uint64		bits = pg_atomic_read_u64(&page->free[n / 64]);
	uint64		bit = UINT64CONST(1) << (n % 64);

	Assert(n < page->nslots);
	if ((bits & bit) == 0)
		return false;
	pg_atomic_write_u64(&page->free[n / 64], bits & ~bit);
	pg_atomic_write_u32(&page->nfree, pg_atomic_read_u32(&page->nfree) - 1);
	return true;
}

void
zen_page_condemn(uint32 pageno)
{
	Assert(zen_pages[pageno].owned && zen_page_agrees(pageno));
	pg_atomic_fetch_add_u32(&page_control->ncoming, 1);
	directory_write(pageno, ZEN_PAGE_ZEROING);
}

void
zen_page_zero(uint32 pageno)
{
	Assert(zen_pages[pageno].owned);
	Assert(zen_nvm_load64(zen_page_word(pageno)) == ZEN_PAGE_ZEROING);
	if (ZEN_FAULT(R8_FREE_BEFORE_ZERO))
		directory_write(pageno, 0);
	if (!ZEN_FAULT(R8_NO_ZERO))
		zen_nvm_zero(zen_page_ptr(pageno), ZEN_PAGE_SIZE);
	if (ZEN_FAULT(R18_FREE_FIRST))
		directory_write(pageno, 0);
	if (unlikely(zen_sink.zeroed != NULL))
		zen_pages[pageno].zeroed_at = zen_sink.zeroed(pageno);
}

void
zen_page_give_back(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	uint32		coming PG_USED_FOR_ASSERTS_ONLY;

	Assert(page->owned);
	/* copies were told with zeroed(): there, too, a free page is zero */
	directory_store(pageno, 0);
	page->owned = false;
	zen_arena_free(page->free, bitmaps_size(page->nslots));
	page->free = NULL;
	push_free(pageno);
	coming = pg_atomic_fetch_sub_u32(&page_control->ncoming, 1);
	Assert(coming > 0);
}

bool
zen_pages_are_coming(uint64 *changes)
{
	uint64		seen = *changes;

	/* before the lists: a page that has come since is a change of them */
	bool		coming = pg_atomic_read_u32(&page_control->ncoming) > 0;

	pg_read_barrier();			/* pairs with the atomic of zen_page_give_back */
	SpinLockAcquire(&page_control->lock);
	*changes = page_control->changes;
	SpinLockRelease(&page_control->lock);
	return coming || *changes != seen;
}

bool
zen_page_adopt(uint32 pageno)
{
	ZenPageOwner owner = {.htable = 0,.region = 0,.class = 0};
	PageFate	fate = read_directory(pageno, &owner);

	if (fate == PAGE_FREE)
	{
		Assert(zen_pages[pageno].free == NULL);
		zen_pages[pageno].owned = false;
		push_free(pageno);
		return false;
	}
	if (!describe(pageno, owner))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("zen.dram_size is too small to recover the pool"),
				 errhint("Raise zen.dram_size.")));
	if (fate == PAGE_LOST)
	{
		zen_damages++;
		zen_pages[pageno].lost = true;
	}
	return true;
}

/* ---------- a hot standby ---------- */

void
zen_page_forget(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];

	if (!page->owned)
		return;
	zen_arena_free(page->free, bitmaps_size(page->nslots));
	page->free = NULL;
	page->owned = false;
}

bool
zen_page_follow(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	uint64		word = zen_nvm_load64(zen_page_word(pageno));
	ZenPageOwner owner;

	/*
	 * about to be zero, or damaged: what is on it does not count, or cannot
	 * be told
	 */
	if (word == ZEN_PAGE_ZEROING || !word_fits(&word, &pageno))
		return true;
	owner = zen_page_word_owner(word);
	if (word != 0 && page->owned && memcmp(&page->owner, &owner, sizeof(owner)) == 0)
		return true;
	zen_page_forget(pageno);
	return word == 0 || describe(pageno, owner);
}

uint32
zen_page_of_word(uint64 offset)
{
	uint32		at = (uint32) (offset / ZEN_PAGE_SIZE);
	const ZenPoolFile *file = zen_pool_file_of(at);
	const char *place = zen_pool.base + offset;
	uint32		pageno;

	if (place >= (char *) file->words && place < (char *) (file->words + (file->near_end - file->first)))
		pageno = file->first + (uint32) ((const uint64 *) place - file->words);
	else if (at >= file->near_end)
	{
		uint32		area = at - (at - file->near_end) % ZEN_DIRECTORY_WORDS;

		pageno = area + (uint32) ((offset - (uint64) area * ZEN_PAGE_SIZE) / sizeof(uint64));
		if (pageno - area >= ZEN_DIRECTORY_WORDS)
			return ZEN_NO_PAGE;
	}
	else
		return ZEN_NO_PAGE;
	return zen_page_is_data(pageno) && (char *) zen_page_word(pageno) == place ? pageno : ZEN_NO_PAGE;
}

void
zen_page_free(uint32 *total, uint32 *nfree)
{
	*total = data_pages();
	*nfree = page_control->nfree;
}

uint32
zen_page_free_of(int file, uint32 *total)
{
	*total = data_pages_of(file, zen_file_pages(file));
	return page_control->nfree_of[file];
}

void
zen_page_counts(uint32 *total, uint32 *nfree, uint32 *shared)
{
	zen_page_free(total, nfree);
	*shared = 0;
	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		*shared += zen_pages[p].owned && zen_pages[p].owner.htable == 0;
}

/* ---------- verification ---------- */

bool
zen_page_holds(ZenSlot slot)
{
	uint32		pageno;
	Size		offset,
				size;

	if (slot >= zen_pool_pages() * (ZEN_PAGE_SIZE / ZEN_SLOT_UNIT))
		return false;
	pageno = zen_slot_page(slot);
	if (!zen_page_is_data(pageno) || !zen_pages[pageno].owned)
		return false;
	offset = slot * ZEN_SLOT_UNIT - (Size) pageno * ZEN_PAGE_SIZE;
	size = zen_class_size(zen_pages[pageno].owner.class);
	return offset % size == 0 && offset / size < zen_pages[pageno].nslots;
}

uint32
zen_page_count_free(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	pg_atomic_uint64 *free = *(pg_atomic_uint64 *volatile *) &page->free;
	uint32		words = zen_page_bitmap_words(page->nslots);
	uint32		n = 0;

	/* if the page is just given back, the bitmap is gone, or something else */
	for (uint32 i = 0; free != NULL && i < words; i++)
		n += pg_popcount64(pg_atomic_read_u64(&free[i]));
	return n;
}

bool
zen_page_agrees(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	uint64		word = zen_nvm_load64(zen_page_word(pageno));

	return word == (page->owned ? directory_word(pageno, page->owner) : page->prepared ? ZEN_PAGE_ZEROING : 0);
}

/* The free list of one file. */
static bool
walk_free_of(int file, void (*visit) (uint32 pageno, void *arg), void *arg)
{
	uint32		p;
	uint64		changes;
	bool		same;

	SpinLockAcquire(&page_control->lock);
	p = page_control->free_head[file];
	changes = page_control->changes;
	SpinLockRelease(&page_control->lock);
	for (uint32 n = 0; p != ZEN_NO_PAGE && p < zen_pool_pages() && n < zen_pool_pages(); n++)
	{
		visit(p, arg);
		p = *(volatile uint32 *) &zen_pages[p].next;
	}
	SpinLockAcquire(&page_control->lock);
	same = changes == page_control->changes;
	SpinLockRelease(&page_control->lock);
	return same;
}

bool
zen_page_walk_free(void (*visit) (uint32 pageno, void *arg), void *arg)
{
	bool		whole = true;

	for (int i = 0; i < zen_pool.nfiles; i++)
		whole &= walk_free_of(i, visit, arg);
	return whole;
}
