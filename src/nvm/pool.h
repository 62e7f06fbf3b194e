/*
 * pool.h -- the NVM pool: one file or several, mapped by the postmaster before any fork.
 *
 * A caller needs to know: zen_pool.base is valid in every process; the areas behind the superblock are handed out as
 * typed pointers and written by their own modules through persist.h.
 *
 * A file is mapped beyond its end, to the size that it may grow to.  So pages that are added later are at their place
 * in every process at once.  zen_pool_pages() says where they end.
 *
 * Each file is mapped at the place of its first page's number in one reservation.  So an address is base + offset for
 * all of them.  Between files there may be numbers of no page: a loop over all pages goes on by zen_page_after().
 */
#ifndef ZEN_POOL_H
#define ZEN_POOL_H

#include "base/guc.h"
#include "nvm/layout.h"
#include "port/atomics.h"

/* One file.  Constant while the server runs, but for *npages. */
typedef struct ZenPoolFile
{
	uint32		first;			/* number of its first page, which holds its
								 * superblock */
	uint32		first_data;		/* of the first page for rows */
	uint32		near_end;		/* pages from first up to here have their word
								 * in the directory at the file's start */
	uint32		limit;			/* up to here it can grow: there are numbers,
								 * address space and descriptors */
	uint64	   *words;			/* [near_end - first] */
	pg_atomic_uint32 *npages;	/* it has; shared, only grows (grow.c) */
	int32		node;			/* NUMA node; -1: none */
	int			place;			/* of the node, in base/numa.h; -1: none */
} ZenPoolFile;

typedef struct ZenPool
{
	char	   *base;			/* start of the mapping, NULL when no pool is
								 * open */
	pg_atomic_uint32 *npages;	/* where the numbers of 64 KB pages end;
								 * shared, only grows (grow.c) */
	uint32		max_pages;		/* that there is address space for, and room
								 * for descriptors */
	uint32		first_data_page;	/* of file 0 */
	int			nfiles;
	ZenPoolFile files[ZEN_MAX_FILES];
	bool		was_clean;		/* the last stop was clean, for the pool and
								 * for PostgreSQL */
	bool		backup;			/* at the start: a copy that was made while
								 * that server was running, not replayed yet */
	bool		scratch;		/* without rows, and gone with the server:
								 * pg_upgrade runs it */
	ZenRegionEntry *regions;	/* [ZEN_MAX_REGIONS] */
	ZenHTableEntry *htables;	/* [ZEN_MAX_HTABLES] */
	ZenMarkRecord *cts_mark;	/* four records, one per cache line */
} ZenPool;

extern ZenPool zen_pool;

/*
 * The pool's role, and whether all its changes are in the WAL (src/stream/README, "Copies of the pool").
 *
 * zen_pool_is_replica -- is it a copy that has not been recovered yet?
 *
 * zen_pool_make_primary, zen_pool_set_copied -- durable on return.
 */
extern bool zen_pool_is_replica(void);
extern bool zen_pool_is_copied(void);
extern void zen_pool_make_primary(void);
extern void zen_pool_set_copied(bool copied);

/*
 * Mode wal (src/recovery/README).
 *
 * zen_pool_make_lazy -- from now on stores may be lazy; durable on return.  A crash makes the pool a copy of itself.
 *
 * zen_pool_sync -- all that was stored to its files is durable on return.  PANIC if it cannot be.
 */
extern void zen_pool_make_lazy(void);
extern void zen_pool_sync(void);

/*
 * zen_pool_choose_mode -- what zen.pool_mode = auto means for the files of zen.pool_path.  In _PG_init, once.
 *
 * zen_pool_wanted_mode -- zen.pool_mode, or what was chosen for auto.
 */
extern void zen_pool_choose_mode(void);
extern ZenPoolMode zen_pool_wanted_mode(void);

/*
 * At the start, by poolopen.c, with the place where the pool is mapped:
 *
 * zen_pool_settle_role -- does this start make the pool a copy, or find it one?  If so it is marked as one, durably.
 * created: this start has made it.  *as_left: pool and data directory are as the last orderly stop has left them; set
 * to false if the server replays WAL that may tell of more.  FATAL if the pool can neither follow nor stand alone.
 *
 * zen_pool_spread_role -- mark further files as file 0, durably.
 *
 * zen_pool_reopen_role -- after the crash of a process: a lazy pool is a copy of itself.  True: it is a copy.
 */
extern bool zen_pool_settle_role(char *base, bool *as_left, bool created);
extern void zen_pool_spread_role(char *base);
extern bool zen_pool_reopen_role(char *base);

/*
 * zen_pool_has_tables -- does the HTable directory in NVM have an entry, of a copy, too?
 *
 * zen_pool_begin_copy -- redo: the pool, which is empty by now, follows from here on.  Durable on return.
 */
extern bool zen_pool_has_tables(void);
extern void zen_pool_begin_copy(void);

/*
 * zen_pool_note_dram -- the primary, and redo on a copy: note zen.dram_size of the primary server, and how much of it
 * the rows need, in bytes.
 *
 * zen_pool_noted_dram -- the numbers noted last; 0: none were.
 */
extern void zen_pool_note_dram(uint64 size, uint64 needs);
extern void zen_pool_noted_dram(uint64 *size, uint64 *needs);

/*
 * zen_pool_replays -- redo on a copy is about to store what the record that ends here says.  Where its stores are lazy,
 * claim may be further on: that far it may come before the next call stores anything durably.  Else it is the same.
 *
 * zen_pool_replay_rests -- what lazy redo has stored is durable: now the place is exact.
 *
 * zen_pool_replayed -- the last of these places; 0: none.
 *
 * zen_pool_judge -- note that the end of replay is not before that place.  zen_pool_is_judged -- has that been found?
 * A later start, which replays nothing, or WAL of its own, cannot find it any more.
 */
extern void zen_pool_replays(uint64 lsn, uint64 claim);
extern void zen_pool_replay_rests(void);
extern uint64 zen_pool_replayed(void);
extern void zen_pool_judge(void);
extern bool zen_pool_is_judged(void);

/*
 * zen_pool_mode_name -- "pmem", "emulated", "msync" or "wal": what the open pool does, whatever zen.pool_mode asked
 * for.
 */
extern const char *zen_pool_mode_name(void);

/* zen_pool_superblock -- a copy of a file's superblock in force, for views. */
extern void zen_pool_superblock(int file, ZenSuperblock *copy);

/*
 * zen_pool_raise_format -- the superblocks of all files are of this version, or a later one, durably on return; of
 * ZEN_FORMAT_VERSION_FILES at least.
 */
extern void zen_pool_raise_format(uint32 version);

/* A number that only grows, of pages that the pool has by now. */
static inline uint32
zen_grown_to(pg_atomic_uint32 *npages)
{
	uint32		n = pg_atomic_read_u32(npages);

	pg_read_barrier();			/* pairs with zen_page_add */
	return n;
}

/* zen_pool_pages -- where the page numbers end. */
static inline uint32
zen_pool_pages(void)
{
	return zen_grown_to(zen_pool.npages);
}

/* zen_file_pages, zen_file_size -- pages and bytes of a file; zen_file_base -- where it is mapped. */
static inline uint32
zen_file_pages(int file)
{
	return zen_grown_to(zen_pool.files[file].npages);
}

static inline Size
zen_file_size(int file)
{
	return zen_file_pages(file) * ZEN_PAGE_SIZE;
}

static inline char *
zen_file_base(int file)
{
	return zen_pool.base + zen_pool.files[file].first * ZEN_PAGE_SIZE;
}

/* zen_pool_size -- bytes of all files. */
extern Size zen_pool_size(void);

/* zen_pool_file_of -- the file to which a page's number belongs, whether or not it has the page. */
static inline const ZenPoolFile *
zen_pool_file_of(uint32 pageno)
{
	const ZenPoolFile *file = zen_pool.files;

	if (unlikely(zen_pool.nfiles > 1))
		while (file + 1 < zen_pool.files + zen_pool.nfiles && pageno >= file[1].first)
			file++;
	return file;
}

/*
 * zen_page_after -- the number behind this one, in a loop over all pages from zen_pool.first_data_page to
 * zen_pool_pages().
 */
extern uint32 zen_page_skip(uint32 pageno);

static inline uint32
zen_page_after(uint32 pageno)
{
	return likely(zen_pool.nfiles == 1) ? pageno + 1 : zen_page_skip(pageno + 1);
}

/* zen_pool_count_pages -- how many numbers that loop meets. */
extern uint32 zen_pool_count_pages(void);

/* zen_page_nth -- the n-th of them, from 0 on; *run: so many numbers follow each other from there on. */
extern uint32 zen_page_nth(uint32 n, uint32 *run);

/* zen_page_is_data -- is there a page of this number, and is it one for rows?  Else it is of a directory, or none. */
static inline bool
zen_page_is_data(uint32 pageno)
{
	const ZenPoolFile *file = zen_pool_file_of(pageno);

	return pageno >= file->first_data && pageno < file->first + zen_grown_to(file->npages) &&
		(pageno < file->near_end || (pageno - file->near_end) % ZEN_DIRECTORY_WORDS >= ZEN_DIRECTORY_PAGES);
}

static inline void *
zen_slot_ptr(ZenSlot slot)
{
	Assert(slot != InvalidZenSlot && slot * ZEN_SLOT_UNIT < zen_pool_pages() * ZEN_PAGE_SIZE);
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

/* zen_page_word -- a page's word of its file's directory. */
static inline uint64 *
zen_page_word(uint32 pageno)
{
	const ZenPoolFile *file = zen_pool_file_of(pageno);
	uint32		far;

	Assert(zen_page_is_data(pageno));
	if (likely(pageno < file->near_end))
		return &file->words[pageno - file->first];
	far = (pageno - file->near_end) % ZEN_DIRECTORY_WORDS;
	return (uint64 *) zen_page_ptr(pageno - far) + far;
}

#endif							/* ZEN_POOL_H */
