/*
 * foedus.c -- the engine foedus: pages in DRAM, a log and snapshot pages in NVM.
 *
 * Source of the design: H. Kimura: FOEDUS: OLTP Engine for a Thousand Cores and NVRAM, SIGMOD 2015; as a peer in the
 * Zen paper.
 *
 * A row is read and changed only on a volatile page in DRAM, of which there are settings.cache times the number of all
 * pages; a page that is not there is copied from its snapshot page, all 4 KB of it.  A commit writes a redo record to
 * the log in NVM.  The gleaner, a background thread, sorts what an epoch has logged by page, and writes a new snapshot
 * page, elsewhere, for each page that has changed; then one pointer per page is switched.  A changed volatile page
 * stays in DRAM until its changes are in a snapshot.
 *
 * Commit: log record | fence.  Snapshot: new pages | fence | pointers | fence, a batch of pages at a time.
 */
#include "log.h"

#include <pthread.h>
#include <sched.h>

#define PAGE_BYTES		4096
#define BATCH			64		/* snapshot pages between two fences */
#define MIN_FRAMES		320
#define NO_FRAME		PG_UINT32_MAX
#define NO_PAGE			PG_UINT32_MAX

typedef struct RowOnPage
{
	uint64		present;
	/* the row follows */
} RowOnPage;

/* A page of rows. */
typedef struct RowPage
{
	pg_atomic_flag lock;		/* for frame, and for the page's pointer in
								 * NVM */
	uint32		frame;			/* of its volatile page */
} RowPage;

/* Room for a volatile page. */
typedef struct Frame
{
	uint32		page;			/* under its page's lock; NO_PAGE only at the
								 * start */
	bool		used;			/* since the clock hand passed */
	uint64		dirty;			/* newest epoch that has changed it, under the
								 * page's lock */
} Frame;

static uint32 npages,
			first_page[MAX_TABLES],
			rows_per_page[MAX_TABLES];
static uint64 *pointers;		/* in NVM, by page: 1 + number of its snapshot
								 * page, 0 = none */
static char *snapshots;			/* in NVM */
static uint32 nsnapshots;
static uint32 *free_snapshots;	/* under free_lock */
static uint32 nfree;
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;

static RowPage *pages;
static Frame *frames;
static char *memory;
static uint32 nframes;
static pg_atomic_uint32 hand;

/* ---------- layout ---------- */

static void
geometry(void)
{
	npages = 0;
	for (int t = 0; t < ntables; t++)
	{
		rows_per_page[t] = PAGE_BYTES / (sizeof(RowOnPage) + tables[t].size);
		if (rows_per_page[t] == 0)
			die("foedus: rows of %u bytes do not fit a page", tables[t].size);
		first_page[t] = npages;
		npages += (tables[t].nrows + rows_per_page[t] - 1) / rows_per_page[t];
	}

	/*
	 * while a batch is written its pages exist twice, for each thread that
	 * recovers
	 */
	nsnapshots = npages + BATCH * (MAX_THREADS + 1);
	nframes = Min(npages, Max((uint32) (npages * settings.cache), MIN_FRAMES));
}

static Size
foedus_size(void)
{
	geometry();
	return halves_size() + pool_carved(npages * sizeof(uint64)) + pool_carved((Size) nsnapshots * PAGE_BYTES);
}

static uint32
page_of(uint32 row)
{
	const Table *table = table_of(row);
	int			t = table - tables;

	return first_page[t] + (row - table->first) / rows_per_page[t];
}

static RowOnPage *
row_on(char *page, uint32 row)
{
	const Table *table = table_of(row);

	return (RowOnPage *) (page + (row - table->first) % rows_per_page[table - tables]
						  * (sizeof(RowOnPage) + table->size));
}

/* ---------- volatile pages ---------- */

static void
lock_page(uint32 p)
{
	while (!pg_atomic_test_set_flag(&pages[p].lock))
		sched_yield();
}

static void
unlock_page(uint32 p)
{
	pg_atomic_clear_flag(&pages[p].lock);
}

static void
apply_entry(char *page, const Write *w)
{
	RowOnPage  *r = row_on(page, w->row);

	r->present = w->kind != WRITE_DELETE;
	if (w->kind != WRITE_DELETE)
		memcpy((char *) (r + 1) + w->offset, w->data, w->len);
}

static void
read_snapshot(uint32 p, char *to)
{
	if (pointers[p] == 0)
		memset(to, 0, PAGE_BYTES);
	else
		nvm_read(to, snapshots + (Size) (pointers[p] - 1) * PAGE_BYTES, PAGE_BYTES);
}

/* One step of the clock: turn a clean page out of a frame.  True if it is p's now; p is locked. */
static bool
try_frame(uint32 f, uint32 p)
{
	Frame	   *frame = &frames[f];
	uint32		tenant = *(volatile uint32 *) &frame->page;
	bool		taken;

	if (frame->used)
	{
		frame->used = false;
		return false;
	}
	if (tenant == NO_PAGE)
	{
		if (!__sync_bool_compare_and_swap(&frame->page, NO_PAGE, p))
			return false;
		pages[p].frame = f;
		return true;
	}
	if (!pg_atomic_test_set_flag(&pages[tenant].lock))
		return false;
	taken = pages[tenant].frame == f && frame->dirty <= halves_gleaned();
	if (taken)
	{
		pages[tenant].frame = NO_FRAME;
		frame->page = p;
		pages[p].frame = f;
	}
	unlock_page(tenant);
	return taken;
}

/* The volatile page of p, which is locked on return. */
static char *
fix_page(uint32 p)
{
	for (;;)
	{
		lock_page(p);
		for (uint32 i = 0; i < 2 * nframes && pages[p].frame == NO_FRAME; i++)
		{
			uint32		f = pg_atomic_fetch_add_u32(&hand, 1) % nframes;

			if (try_frame(f, p))
			{
				frames[f].dirty = 0;
				read_snapshot(p, memory + (Size) f * PAGE_BYTES);
			}
		}
		if (pages[p].frame != NO_FRAME)
		{
			frames[pages[p].frame].used = true;
			return memory + (Size) pages[p].frame * PAGE_BYTES;
		}
		/* all are changed: wait for the gleaner, which wants our lock, too */
		unlock_page(p);
		halves_want_glean();
		sched_yield();
	}
}

static bool
foedus_read(int thread, uint32 row, char *data)
{
	uint32		p = page_of(row);
	RowOnPage  *r = row_on(fix_page(p), row);
	bool		present = r->present != 0;

	if (present)
		memcpy(data, r + 1, table_of(row)->size);
	unlock_page(p);
	return present;
}

static void
foedus_commit(int thread, const Write *writes, int n)
{
	uint64		epoch;

	if (n == 0)
		return;
	epoch = halves_append(thread, writes, n);
	for (int i = 0; i < n; i++)
	{
		uint32		p = page_of(writes[i].row);
		Frame	   *frame;

		apply_entry(fix_page(p), &writes[i]);
		frame = &frames[pages[p].frame];
		frame->dirty = Max(frame->dirty, epoch);
		unlock_page(p);
	}
}

/* ---------- snapshot pages ---------- */

typedef struct Batch
{
	uint32		page[BATCH];
	uint32		snapshot[BATCH];
	int			n;
} Batch;

static uint32
take_snapshot(void)
{
	uint32		s = NO_PAGE;

	pthread_mutex_lock(&free_lock);
	if (nfree > 0)
		s = free_snapshots[--nfree];
	pthread_mutex_unlock(&free_lock);
	if (s == NO_PAGE)
		die("the pool is full");
	return s;
}

/* The new pages are durable; switch the pointers, and free the old pages when that is durable. */
static void
finish_batch(Batch *b)
{
	uint64		old[BATCH];

	zen_fence();
	for (int i = 0; i < b->n; i++)
	{
		lock_page(b->page[i]);
		old[i] = pointers[b->page[i]];
		nvm_store64(&pointers[b->page[i]], b->snapshot[i] + 1);
		unlock_page(b->page[i]);
		zen_flush(&pointers[b->page[i]], sizeof(uint64));
	}
	zen_fence();
	pthread_mutex_lock(&free_lock);
	for (int i = 0; i < b->n; i++)
		if (old[i] != 0)
			free_snapshots[nfree++] = old[i] - 1;
	pthread_mutex_unlock(&free_lock);
	b->n = 0;
}

static void
write_snapshot(Batch *b, uint32 p, const char *image)
{
	uint32		s = take_snapshot();
	char	   *to = snapshots + (Size) s * PAGE_BYTES;

	nvm_store(to, image, PAGE_BYTES);
	zen_flush(to, PAGE_BYTES);
	b->page[b->n] = p;
	b->snapshot[b->n++] = s;
	if (b->n == BATCH)
		finish_batch(b);
}

/* Rows of a page are neighbours in the order of entries. */
static void
apply_to_snapshots(const Gleaned *entries, uint64 n)
{
	Batch		batch = {.n = 0};
	char		image[PAGE_BYTES];

	for (uint64 i = 0, next; i < n; i = next)
	{
		uint32		p = page_of(entries[i].row);

		read_snapshot(p, image);
		for (next = i; next < n && page_of(entries[next].row) == p; next++)
		{
			Write		w = log_write_of(entries[next].entry);

			apply_entry(image, &w);
		}
		write_snapshot(&batch, p, image);
	}
	finish_batch(&batch);
}

/* ---------- open, load, recovery ---------- */

static void
foedus_open(bool fresh)
{
	bool	   *used;

	geometry();
	halves_open(fresh, apply_to_snapshots);
	pointers = pool_carve(npages * sizeof(uint64));
	snapshots = pool_carve((Size) nsnapshots * PAGE_BYTES);
	pages = malloc(npages * sizeof(RowPage));
	frames = malloc(nframes * sizeof(Frame));
	memory = malloc((Size) nframes * PAGE_BYTES);
	free_snapshots = malloc(nsnapshots * sizeof(uint32));
	used = calloc(nsnapshots, sizeof(bool));
	for (uint32 p = 0; p < npages; p++)
	{
		pg_atomic_init_flag(&pages[p].lock);
		pages[p].frame = NO_FRAME;
		if (pointers[p] != 0)
			used[pointers[p] - 1] = true;
	}
	for (uint32 f = 0; f < nframes; f++)
		frames[f] = (Frame)
	{
		.page = NO_PAGE
	};
	for (uint32 s = nsnapshots; s-- > 0;)
		if (!used[s])
			free_snapshots[nfree++] = s;
	free(used);
	pg_atomic_init_u32(&hand, 0);
}

static __thread Batch loading;
static __thread uint32 loading_page = NO_PAGE;
static __thread char loading_image[PAGE_BYTES];

/* Each thread loads rows in a row; at its share's ends it may meet others on a page, so it goes by the log there. */
static void
foedus_load(int thread, uint32 row, const char *data)
{
	Write		w = {.kind = WRITE_INSERT,.row = row,.len = table_of(row)->size,.data = data};
	uint32		p = page_of(row);
	uint64		from,
				to;
	const Table *table = table_of(row);

	share_of(table->nrows, thread, &from, &to);
	from += table->first;
	to += table->first;
	if ((from > table->first && p == page_of(from - 1)) || (to < table->first + table->nrows && p == page_of(to)))
	{
		foedus_commit(thread, &w, 1);
		return;
	}
	if (p != loading_page)
	{
		if (loading_page != NO_PAGE)
			write_snapshot(&loading, loading_page, loading_image);
		memset(loading_image, 0, PAGE_BYTES);
		loading_page = p;
	}
	apply_entry(loading_image, &w);
}

static void
foedus_load_end(int thread)
{
	if (loading_page != NO_PAGE)
		write_snapshot(&loading, loading_page, loading_image);
	loading_page = NO_PAGE;
	finish_batch(&loading);
}

static void
foedus_recover(int thread)
{
	halves_recover(thread, page_of);
}

const Engine foedus_engine = {
	.name = "foedus",
	.size = foedus_size,
	.open = foedus_open,
	.load = foedus_load,
	.load_end = foedus_load_end,
	.read = foedus_read,
	.commit = foedus_commit,
	.background = halves_gleaner,
	.drain = halves_drain,
	.recover = foedus_recover,
};
