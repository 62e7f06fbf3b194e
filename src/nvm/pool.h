/*
 * pool.h -- the NVM pool: one file, mapped by the postmaster before any fork.
 *
 * A caller needs to know: zen_pool.base is valid in every process; the superblock is this module's alone; the
 * areas behind it are handed out as typed pointers and written by their own modules through persist.h.
 */
#ifndef ZEN_POOL_H
#define ZEN_POOL_H

#include "nvm/layout.h"

typedef struct ZenPool
{
	char	   *base;			/* start of the mapping, NULL when no pool is
								 * open */
	Size		size;			/* bytes */
	uint32		npages;			/* 64 KB pages, header pages included */
	uint32		first_data_page;
	bool		was_clean;		/* the last stop was clean, for the pool and
								 * for PostgreSQL */
	bool		scratch;		/* without rows, and gone with the server:
								 * pg_upgrade runs it */
	ZenRegionEntry *regions;	/* [ZEN_MAX_REGIONS] */
	ZenHTableEntry *htables;	/* [ZEN_MAX_HTABLES] */
	uint64	   *pages;			/* [npages] */
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

static inline void *
zen_slot_ptr(ZenSlot slot)
{
	Assert(slot != InvalidZenSlot && slot * ZEN_SLOT_UNIT < zen_pool.size);
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
	Assert(pageno < zen_pool.npages);
	return zen_pool.base + (Size) pageno * ZEN_PAGE_SIZE;
}

#endif							/* ZEN_POOL_H */
