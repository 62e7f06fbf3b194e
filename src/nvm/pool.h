/*
 * pool.h -- the NVM pool: one file, mapped by the postmaster before any fork.
 *
 * A caller needs to know: zen_pool.base is valid in every process; the areas behind the superblock are handed out as
 * typed pointers and written by their own modules through persist.h.
 *
 * The file is mapped beyond its end, to the size that it may grow to.  So pages that are added later are at their place
 * in every process at once.  zen_pool_pages() says how many there are.
 */
#ifndef ZEN_POOL_H
#define ZEN_POOL_H

#include "nvm/layout.h"
#include "port/atomics.h"

typedef struct ZenPool
{
	char	   *base;			/* start of the mapping, NULL when no pool is
								 * open */
	pg_atomic_uint32 *npages;	/* 64 KB pages, those of headers included;
								 * shared, only grows (grow.c) */
	uint32		max_pages;		/* that there is address space for, and room
								 * for descriptors */
	uint32		first_data_page;
	uint32		near_pages;		/* whose words are in the directory at the
								 * pool's start */
	bool		was_clean;		/* the last stop was clean, for the pool and
								 * for PostgreSQL */
	bool		scratch;		/* without rows, and gone with the server:
								 * pg_upgrade runs it */
	ZenRegionEntry *regions;	/* [ZEN_MAX_REGIONS] */
	ZenHTableEntry *htables;	/* [ZEN_MAX_HTABLES] */
	uint64	   *pages;			/* [near_pages]; see zen_page_word() */
	ZenMarkRecord *cts_mark;	/* four records, one per cache line */
} ZenPool;

extern ZenPool zen_pool;

/*
 * zen_pool_open -- map the pool, creating it on the very first start.
 *
 * Postmaster only, in shmem_startup_hook; called again in the same postmaster after a crash of a backend, when it
 * finds the mapping in place and only re-reads the state.  Sets zen_pool; durable on return: generation + 1,
 * clean = 0.  Any doubt about the file is a FATAL with detail and hint; nothing is ever created over or beside
 * an existing pool.
 */
extern void zen_pool_open(void);

/* zen_pool_mark_clean -- record an orderly stop; postmaster only, after everything else is durable. */
extern void zen_pool_mark_clean(void);

/* zen_pool_mode_name -- "pmem", "emulated" or "msync": what the open pool really does. */
extern const char *zen_pool_mode_name(void);

/* zen_pool_superblock -- a copy of the superblock in force, for views. */
extern void zen_pool_superblock(ZenSuperblock *copy);

/*
 * zen_pool_was_cleanly_stopped -- does pg_control say that the cluster is shut down in order?
 */
extern bool zen_pool_cluster_is_shut_down(void);

/*
 * zen_pool_superblock_fault -- what is wrong with copy 0 or 1 as it is in the pool now; NULL if nothing is.
 */
extern const char *zen_pool_superblock_fault(int copy, Size *offset);

/* zen_pool_fd -- the descriptor of the open file, for the process that makes it larger. */
extern int	zen_pool_fd(void);

/* zen_pool_pages -- how many there are now, those of headers included; zen_pool_size -- in bytes. */
static inline uint32
zen_pool_pages(void)
{
	return pg_atomic_read_u32(zen_pool.npages);
}

static inline Size
zen_pool_size(void)
{
	return zen_pool_pages() * ZEN_PAGE_SIZE;
}

/* zen_pool_near_pages -- how many words the directory between 6 MB and the first data page has. */
static inline uint32
zen_pool_near_pages(uint64 first_data_page)
{
	return (uint32) ((first_data_page * ZEN_PAGE_SIZE - ZEN_OFF_PAGES) / sizeof(uint64));
}

/* zen_page_is_data -- is this page, at or behind the first data page, one for rows?  Else it is of a directory. */
static inline bool
zen_page_is_data(uint32 pageno)
{
	return pageno < zen_pool.near_pages ||
		(pageno - zen_pool.near_pages) % ZEN_DIRECTORY_WORDS >= ZEN_DIRECTORY_PAGES;
}

static inline void *
zen_slot_ptr(ZenSlot slot)
{
	Assert(slot != InvalidZenSlot && slot * ZEN_SLOT_UNIT < zen_pool_size());
	return zen_pool.base + slot * ZEN_SLOT_UNIT;
}

static inline uint32
zen_slot_page(ZenSlot slot)
{
	return (uint32) (slot / (ZEN_PAGE_SIZE / ZEN_SLOT_UNIT));
}

static inline char *
zen_page_ptr(uint32 pageno)
{
	Assert(pageno < zen_pool_pages());
	return zen_pool.base + (Size) pageno * ZEN_PAGE_SIZE;
}

/* zen_page_word -- a page's word of the directory. */
static inline uint64 *
zen_page_word(uint32 pageno)
{
	uint32		far;

	Assert(zen_page_is_data(pageno));
	if (likely(pageno < zen_pool.near_pages))
		return &zen_pool.pages[pageno];
	far = (pageno - zen_pool.near_pages) % ZEN_DIRECTORY_WORDS;
	return (uint64 *) zen_page_ptr(pageno - far) + far;
}

#endif							/* ZEN_POOL_H */
