/*
 * zen.c -- the engines zen and naive.
 *
 * Source of the design: G. Liu, L. Chen, S. Chen: Zen+: a robust NUMA-aware OLTP engine optimized for non-volatile main
 * memory, VLDB Journal 2022; with the rules of src/RULES.
 *
 * zen is the product's code where it writes NVM: slots (nvm/slotalloc.c), pages and their directory (nvm/page.c),
 * regions and Tx-CTS (nvm/region.c), NVM-tuples and LP (nvm/tuple.c) are compiled in unchanged (product.c).  The
 * sequence of a commit and the two passes of recovery, which the product has interleaved with PostgreSQL's versions and
 * snapshots, are written again here, after txn/commit.c and recovery/passes.c.  Tables are fixed, so there is no HTable
 * directory, and no page goes back to the pool.
 *
 * A row that is read from NVM has its checksum computed once (zen_slot_read): a bit in DRAM says that it was.
 * Metadata of concurrency control are in DRAM.
 *
 * A word in DRAM per row leads to its slot and counts intact headers of older versions (R5), as the product's map word
 * does.  Rows that were read or written lately are in DRAM (cache.c for the Met-Cache).
 *
 * naive is zen without light-weight space management (the paper's figure 17): a bitmap in NVM says which slots are
 * in use, and each allocation and each release makes its bit durable at once.
 */
#include "engine.h"

#include <sched.h>

#include "nvm/slotalloc.h"
#include "nvm/slotread.h"

#define SLOT_BITS		40
#define STALE_ONE		(UINT64CONST(1) << SLOT_BITS)
#define SLOT_MASK		(STALE_ONE - 1)
#define STALE_MASK		(((UINT64CONST(1) << 60) - 1) & ~SLOT_MASK)
#define TOMBSTONE		(UINT64CONST(1) << 60)	/* the slot holds one */

#define HOT_TRANSACTIONS	1000

#define TUPLE_HEADER	MAXALIGN(SizeofMinimalTupleHeader)
#define BITMAP_WORDS	(ZEN_PAGE_SIZE / 32 / 64)	/* of a page with slots of
													 * the smallest class */

static pg_atomic_uint64 *words; /* by row */
static bool naive;
static pg_atomic_uint32 npages; /* of the pool */
static uint64 *bitmap;			/* naive: in NVM, BITMAP_WORDS per page */

/* A thread's transaction. */
typedef struct Commit
{
	ZenSlot		slot[MAX_WRITES];
	ZenTupleHeader former[MAX_WRITES];	/* what the slots held */
	char	   *tuple[MAX_WRITES];	/* MinimalTuples; room for one row each */
} Commit;

static Commit *commits;			/* by thread */

/* ---------- layout ---------- */

static Size
data_size(void)
{
	Size		size = 0;

	/*
	 * a class is at most one eighth too large; half as much again for
	 * versions that wait in regions whose threads write less than others, and
	 * pages that each region begins
	 */
	for (int t = 0; t < ntables; t++)
		size += (Size) (tables[t].nrows + 1024) * (tables[t].size + 48) * 9 / 8 * 3 / 2 +
			(Size) settings.threads * 4 * ZEN_PAGE_SIZE;
	return TYPEALIGN(ZEN_AREA_ALIGN, size * 17 / 16 + 80 * ZEN_PAGE_SIZE);
}

static Size
bitmap_size(Size data)
{
	return naive ? TYPEALIGN(ZEN_AREA_ALIGN, data / ZEN_PAGE_SIZE * BITMAP_WORDS * sizeof(uint64)) : 0;
}

static Size
first_data(Size data)
{
	return ZEN_OFF_PAGES + TYPEALIGN(ZEN_AREA_ALIGN, (data + 64 * ZEN_AREA_ALIGN) / ZEN_PAGE_SIZE * sizeof(uint64));
}

static Size
zen_size(void)
{
	naive = false;
	return first_data(data_size()) + data_size();
}

static Size
naive_size(void)
{
	naive = true;
	return first_data(data_size()) + data_size() + bitmap_size(data_size());
}

static void
zen_open(bool fresh)
{
	Size		data = data_size();

	/* one file, whose directory has a word for each page */
	pg_atomic_init_u32(&npages, (uint32) ((first_data(data) + data) / ZEN_PAGE_SIZE));
	zen_pool.base = pool_base;
	zen_pool.npages = &npages;
	zen_pool.max_pages = zen_pool_pages();
	zen_pool.first_data_page = first_data(data) / ZEN_PAGE_SIZE;
	zen_pool.nfiles = 1;
	zen_pool.files[0] = (ZenPoolFile)
	{
		.first_data = zen_pool.first_data_page,.near_end = zen_pool.max_pages,.limit = zen_pool.max_pages,
			.words = (uint64 *) (pool_base + ZEN_OFF_PAGES),.npages = &npages
	};
	zen_pool.regions = (ZenRegionEntry *) (pool_base + ZEN_OFF_REGIONS);
	zen_pool.cts_mark = (ZenMarkRecord *) (pool_base + ZEN_OFF_CTS_MARK);
	bitmap = (uint64 *) (pool_base + zen_pool_pages() * ZEN_PAGE_SIZE);

	zen_page_shmem.init();
	zen_region_shmem.init();
	zen_slotalloc_shmem.init();
	zen_tuple_shmem.init();
	zen_htables = calloc(ntables + 1, sizeof(ZenHTable));
	for (int t = 0; t < ntables; t++)
	{
		zen_htables[t + 1].idx = t + 1;
		zen_htables[t + 1].in_use = true;
		zen_htables[t + 1].bytes_taken = ZEN_PRIVATE_BYTES;
	}
	words = calloc(nrows, sizeof(pg_atomic_uint64));
	commits = calloc(settings.threads, sizeof(Commit));
	for (int t = 0; t < settings.threads; t++)
		for (int i = 0; i < MAX_WRITES; i++)
			commits[t].tuple[i] = malloc(TUPLE_HEADER + max_row_size);
	cache_open();
	if (!fresh)
		return;
	for (uint32 p = zen_pool_pages() - 1; p >= zen_pool.first_data_page; p--)
		(void) zen_page_adopt(p);
	zen_cts_restart(0);
}

/* ---------- naive: each allocation is durable ---------- */

static void
note_slot(ZenSlot slot, bool used)
{
	uint32		n = zen_page_slot_index(slot);
	uint64	   *word = &bitmap[(Size) (zen_slot_page(slot) - zen_pool.first_data_page) * BITMAP_WORDS + n / 64];
	uint64		bit = UINT64CONST(1) << (n % 64);

	if (!naive)
		return;
	/* others may change bits of the same word */
	if (used)
		__atomic_fetch_or(word, bit, __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST);
	medium_counters.bytes_stored += sizeof(*word);
	if (medium.charged)
		charge_store(word, sizeof(*word));
	zen_persist(word, sizeof(*word));
}

static void
free_slot(ZenSlot slot)
{
	note_slot(slot, false);
	zen_slot_free(slot);
}

/* ---------- words ---------- */

static ZenHTable *
htable_of(uint32 row)
{
	return &zen_htables[table_of(row) - tables + 1];
}

static uint64
word1_of(uint32 row, bool deleted)
{
	const Table *table = table_of(row);

	return zen_word1(table - tables + 1, row - table->first, 0, deleted);
}

static uint32
row_of(uint64 word1)
{
	return tables[zen_word1_htable(word1) - 1].first + (uint32) zen_word1_tidno(word1);
}

/* A header of an older version is gone: perhaps a tombstone is needed no more (R5). */
static void
forget_header(ZenTupleHeader h)
{
	pg_atomic_uint64 *word;
	uint64		old;
	bool		drop;

	if ((h.word0 & ZEN_CTS_MASK) == 0 || (h.word1 & ZEN_DELETED) != 0)
		return;
	word = &words[row_of(h.word1)];
	old = pg_atomic_read_u64(word);
	do
	{
		drop = (old & TOMBSTONE) != 0 && (old & STALE_MASK) == STALE_ONE;
	} while (!pg_atomic_compare_exchange_u64(word, &old, drop ? 0 : old - STALE_ONE));
	if (drop)
		free_slot(old & SLOT_MASK);
}

/* The row's newest version is in this slot now; frees the one before.  The caller holds the row, or recovers. */
static void
place(uint32 row, ZenSlot slot, bool deleted)
{
	uint64		old = pg_atomic_read_u64(&words[row]);
	uint64		now;

	do
	{
		now = (old & STALE_MASK) | slot | (deleted ? TOMBSTONE : 0);
		if ((old & SLOT_MASK) != 0 && (old & TOMBSTONE) == 0)
			now += STALE_ONE;
		if (deleted && (now & STALE_MASK) == 0)
			now = 0;
	} while (!pg_atomic_compare_exchange_u64(&words[row], &old, now));
	if ((old & SLOT_MASK) != 0)
		free_slot(old & SLOT_MASK);
	if (now == 0 && slot != InvalidZenSlot)
		free_slot(slot);
}

/* ---------- reads ---------- */

static bool
read_tuple(uint32 row, char *tuple)
{
	uint64		word = pg_atomic_read_u64(&words[row]);
	uint32		len = TUPLE_HEADER + table_of(row)->size;
	TransactionId xmin;

	if ((word & SLOT_MASK) == 0 || (word & TOMBSTONE) != 0)
		return false;
	if (cache_read(row, tuple + TUPLE_HEADER))
		return true;
	nvm_touch(zen_slot_ptr(word & SLOT_MASK), zen_tuple_size(len));
	if (!zen_slot_read(word & SLOT_MASK, (MinimalTuple) tuple, len, &xmin))
		die("row %u is damaged", row);
	return true;
}

static bool
zen_read(int thread, uint32 row, char *data)
{
	char	   *tuple = commits[thread].tuple[0];

	if (!read_tuple(row, tuple))
		return false;
	memcpy(data, tuple + TUPLE_HEADER, table_of(row)->size);
	cache_put(row, data);
	return true;
}

/* ---------- commit ---------- */

static void
form_tuple(char *tuple, const Write *w)
{
	MinimalTuple t = (MinimalTuple) tuple;
	uint32		size = table_of(w->row)->size;

	if (w->kind == WRITE_UPDATE && w->len < size && !read_tuple(w->row, tuple))
		die("row %u is not there", w->row);
	apply_write(tuple + TUPLE_HEADER, w);
	memset(t, 0, TUPLE_HEADER);
	t->t_len = TUPLE_HEADER + size;
	t->t_infomask2 = 1;
	t->t_hoff = TUPLE_HEADER + MINIMAL_TUPLE_OFFSET;
}

static Size
version_size(const Write *w)
{
	return w->kind == WRITE_DELETE ? ZEN_TOMBSTONE_SIZE : zen_tuple_size(TUPLE_HEADER + table_of(w->row)->size);
}

/* Slots for all writes, of one region; none on failure. */
static bool
take_slots(uint32 region, Commit *c, const Write *writes, int n)
{
	for (int i = 0; i < n; i++)
	{
		c->slot[i] = zen_slot_alloc(region, htable_of(writes[i].row), version_size(&writes[i]));
		if (c->slot[i] == InvalidZenSlot)
		{
			while (--i >= 0)
				free_slot(c->slot[i]);
			return false;
		}
		note_slot(c->slot[i], true);
		c->former[i] = zen_tuple_header(c->slot[i]);
	}
	return true;
}

/* Lease a region that has the slots: the thread's own, or any other. */
static uint32
lease_and_take(int thread, Commit *c, const Write *writes, int n)
{
	for (int tries = 0; tries < 1000; tries++)
	{
		for (int i = 0; i < settings.threads; i++)
		{
			uint32		region = (thread + i) % settings.threads;

			/* another thread has it only if its own was full */
			while (i == 0 && pg_atomic_read_u32(&zen_regions[region].leased) != 0)
				sched_yield();
			if (!zen_region_try_lease(region))
				continue;
			if (take_slots(region, c, writes, n))
				return region;
			zen_region_release(region);
		}
		sched_yield();
	}
	die("the pool is full");
}

static bool
fits_one_line(ZenSlot slot, const Write *w)
{
	Size		size = w->kind == WRITE_DELETE ? zen_tuple_size(0) : version_size(w);

	return slot * ZEN_SLOT_UNIT % ZEN_LINE + size <= ZEN_LINE;
}

/* Was the row changed by one of the last transactions?  As in txn/commit.c. */
static bool
is_hot(uint32 row, uint64 cts)
{
	ZenSlot		slot = pg_atomic_read_u64(&words[row]) & SLOT_MASK;

	return slot != InvalidZenSlot && cts - (zen_tuple_header(slot).word0 & ZEN_CTS_MASK) <= HOT_TRANSACTIONS;
}

static void
zen_commit(int thread, const Write *writes, int n)
{
	Commit	   *c = &commits[thread];
	uint32		region;
	uint64		cts;

	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
		if (writes[i].kind != WRITE_DELETE)
			form_tuple(c->tuple[i], &writes[i]);
	region = lease_and_take(thread, c, writes, n);
	cts = zen_cts_next();

	/* R2: all but the line that will carry LP, fence, LP, fence */
	for (int i = 0; i < n; i++)
	{
		bool		deleted = writes[i].kind == WRITE_DELETE;

		zen_tuple_write(c->slot[i], cts, word1_of(writes[i].row, deleted), (TransactionId) cts,
						deleted ? NULL : (MinimalTuple) c->tuple[i], i < n - 1);
		if (design->hints == HINTS_COLD && !is_hot(writes[i].row, cts))
			nvm_hint_flush(zen_slot_ptr(c->slot[i]), version_size(&writes[i]));
	}
	if (n > 1 || !fits_one_line(c->slot[0], &writes[0]))
		zen_fence();
	zen_tuple_set_lp(c->slot[n - 1]);
	zen_fence();
	medium_counters.bytes_stored += sizeof(uint64);

	/* R4, R5 */
	zen_regions[region].anchor = c->slot[n - 1];
	zen_regions[region].last_cts = cts;
	for (int i = 0; i < n; i++)
	{
		forget_header(c->former[i]);
		place(writes[i].row, c->slot[i], writes[i].kind == WRITE_DELETE);
		if (writes[i].kind == WRITE_DELETE)
			cache_drop(writes[i].row);
		else
			cache_put(writes[i].row, c->tuple[i] + TUPLE_HEADER);
	}
	zen_region_release(region);
}

static void
zen_load(int thread, uint32 row, const char *data)
{
	Write		w = {.kind = WRITE_INSERT,.row = row,.len = table_of(row)->size,.data = data};

	zen_commit(thread, &w, 1);
}

static void
zen_load_end(int thread)
{
}

/* ---------- recovery ---------- */

static uint64 fates[MAX_THREADS][ZEN_MAX_REGIONS];	/* first pass: newest LP
													 * that a thread has seen,
													 * by region */
static ZenSlot anchors[MAX_THREADS][ZEN_MAX_REGIONS];
static uint64 largest[MAX_THREADS];
static uint64 committed[ZEN_MAX_REGIONS];	/* R3 */

static void
adopt_pages(void)
{
	for (uint32 p = zen_pool_pages() - 1; p >= zen_pool.first_data_page; p--)
	{
		if (!zen_page_adopt(p))
			continue;
		if (zen_pages[p].lost)
			die("page %u is damaged", p);
		zen_slotalloc_adopt_page(p);
	}
}

/* First pass over a page: what has its region committed?  R10: what is believed is flushed. */
static void
find_commits(int thread, uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	uint32		region = page->owner.region;

	for (uint32 n = 0; n < page->nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);
		ZenTupleHeader h = zen_tuple_header(slot);
		uint64		cts = h.word0 & ZEN_CTS_MASK;

		nvm_touch(zen_slot_ptr(slot), sizeof(h));
		zen_flush(zen_slot_ptr(slot), sizeof(h));
		largest[thread] = Max(largest[thread], cts);
		if ((h.word0 & ZEN_LP) != 0 && cts > fates[thread][region])
		{
			fates[thread][region] = cts;
			anchors[thread][region] = slot;
		}
	}
}

static void
settle_regions(void)
{
	uint64		newest = 0;

	for (int t = 0; t < settings.threads; t++)
		newest = Max(newest, largest[t]);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		committed[r] = zen_regions[r].watermark;
		for (int t = 0; t < settings.threads; t++)
			if (fates[t][r] > committed[r])
			{
				committed[r] = fates[t][r];
				zen_regions[r].anchor = anchors[t][r];
			}
		zen_regions[r].last_cts = committed[r];
	}
	zen_cts_restart(newest);
}

/* Of two committed versions of a row the newer one stays; the other is a stale copy. */
static void
meet(uint32 row, ZenSlot slot, ZenTupleHeader h)
{
	bool		deleted = (h.word1 & ZEN_DELETED) != 0;
	uint64		old = pg_atomic_read_u64(&words[row]);
	uint64		now;
	ZenSlot		loser;

	do
	{
		ZenSlot		other = old & SLOT_MASK;
		bool		newer = other == InvalidZenSlot ||
		(zen_tuple_header(other).word0 & ZEN_CTS_MASK) < (h.word0 & ZEN_CTS_MASK);
		bool		stale_data = other != InvalidZenSlot && (newer ? (old & TOMBSTONE) == 0 : !deleted);

		loser = newer ? other : slot;
		now = newer ? (old & STALE_MASK) | slot | (deleted ? TOMBSTONE : 0) : old;
		now += stale_data ? STALE_ONE : 0;
	} while (!pg_atomic_compare_exchange_u64(&words[row], &old, now));
	if (loser != InvalidZenSlot)
		zen_slot_free(loser);
}

/* Second pass over a page: losers are scrubbed (R7), committed versions enter the words. */
static void
find_rows(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];

	for (uint32 n = 0; n < page->nslots; n++)
	{
		ZenSlot		slot = zen_page_slot(pageno, n);
		ZenTupleHeader h = zen_tuple_header(slot);
		uint64		cts = h.word0 & ZEN_CTS_MASK;

		if (cts == 0)
			zen_slot_free(slot);
		else if (cts > committed[page->owner.region])
		{
			zen_tuple_scrub(slot);
			zen_slot_free(slot);
		}
		else
			meet(row_of(h.word1), slot, h);
	}
}

/*
 * The newest version of each row must be whole.  An older one need not: its slot may have been on its way to a new
 * tenant whose body reached the medium before its header.
 */
static void
settle_rows(uint64 from, uint64 to)
{
	for (uint64 row = from; row < to; row++)
	{
		uint64		word = pg_atomic_read_u64(&words[row]);
		ZenSlot		slot = word & SLOT_MASK;

		if (slot != InvalidZenSlot && !zen_tuple_intact(slot, zen_slot_size(slot)))
			die("row " UINT64_FORMAT " is damaged", row);
		if ((word & TOMBSTONE) != 0 && (word & STALE_MASK) == 0)
		{
			pg_atomic_write_u64(&words[row], 0);
			zen_slot_free(word & SLOT_MASK);
		}
	}
}

/* naive: the bitmap says again what is in use. */
static void
rewrite_bitmap(uint32 pageno)
{
	ZenPage    *page = &zen_pages[pageno];
	uint64	   *word = &bitmap[(Size) (pageno - zen_pool.first_data_page) * BITMAP_WORDS];

	for (uint32 i = 0; i < (page->nslots + 63) / 64; i++)
	{
		uint32		n = Min(64, page->nslots - i * 64);
		uint64		all = n == 64 ? PG_UINT64_MAX : (UINT64CONST(1) << n) - 1;

		nvm_store64(&word[i], all & ~pg_atomic_read_u64(&page->free[i]));
	}
	zen_flush(word, BITMAP_WORDS * sizeof(uint64));
}

static void
zen_recover(int thread)
{
	uint64		from,
				to;

	if (thread == 0)
		adopt_pages();
	recovery_barrier();
	share_of(zen_pool_pages() - zen_pool.first_data_page, thread, &from, &to);
	from += zen_pool.first_data_page;
	to += zen_pool.first_data_page;
	for (uint32 p = from; p < to; p++)
		if (zen_pages[p].owned)
			find_commits(thread, p);
	zen_fence();
	recovery_barrier();
	if (thread == 0)
		settle_regions();
	recovery_barrier();
	for (uint32 p = from; p < to; p++)
		if (zen_pages[p].owned)
			find_rows(p);
	zen_fence();
	recovery_barrier();
	share_of(nrows, thread, &from, &to);
	settle_rows(from, to);
	recovery_barrier();
	if (thread != 0)
		return;
	for (uint32 p = zen_pool.first_data_page; naive && p < zen_pool_pages(); p++)
		if (zen_pages[p].owned)
			rewrite_bitmap(p);
	zen_fence();
	/* R13 */
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
		zen_region_persist_watermark(r);
}

const Engine zen_engine = {
	.name = "zen",
	.size = zen_size,
	.open = zen_open,
	.load = zen_load,
	.load_end = zen_load_end,
	.read = zen_read,
	.commit = zen_commit,
	.recover = zen_recover,
};

/* zen.flush = hint, where caches survive a power loss. */
const Engine zen_hint_engine = {
	.name = "zen-hint",
	.eadr = true,
	.hints = HINTS_COLD,
	.size = zen_size,
	.open = zen_open,
	.load = zen_load,
	.load_end = zen_load_end,
	.read = zen_read,
	.commit = zen_commit,
	.recover = zen_recover,
};

/* Falcon's ZenS (No Flush). */
const Engine zen_none_engine = {
	.name = "zen-none",
	.eadr = true,
	.size = zen_size,
	.open = zen_open,
	.load = zen_load,
	.load_end = zen_load_end,
	.read = zen_read,
	.commit = zen_commit,
	.recover = zen_recover,
};

const Engine naive_engine = {
	.name = "naive",
	.size = naive_size,
	.open = zen_open,
	.load = zen_load,
	.load_end = zen_load_end,
	.read = zen_read,
	.commit = zen_commit,
	.recover = zen_recover,
};
