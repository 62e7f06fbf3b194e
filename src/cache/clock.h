/*
 * metcache.h -- which rows have a Met-Cache entry.
 *
 * Rows are admitted when they are written or locked, and when they have been read: once as long as half of the cache is
 * empty, then more than once of late.  Those that every snapshot sees and that are read least are evicted when versions take
 * about zen.met_cache_size.
 */
#ifndef ZEN_METCACHE_H
#define ZEN_METCACHE_H

#include "cache/version.h"

extern Size zen_metcache_shmem_size(void);
extern void zen_metcache_init(void);

/*
 * zen_metcache_admit -- copy a row whose newest version is in NVM into an entry.
 *
 * On return the word may be in any state: look again.  Throws ERRCODE_OUT_OF_MEMORY, ERRCODE_DATA_CORRUPTED.
 * Caller is outside any epoch.
 */
extern void zen_metcache_admit(ZenHTable *ht, uint64 tidno, ZenWord *word);

/*
 * zen_metcache_missed -- a point read has found the row in NVM: maybe it is worth an entry.
 *
 * Caller holds a lock on the table, so that its map stays, and is outside any epoch.  Never throws, never waits.
 */
extern void zen_metcache_missed(ZenHTable *ht, uint64 tidno);

/* zen_metcache_end_xact -- at the end of each transaction. */
extern void zen_metcache_end_xact(void);

/*
 * zen_metcache_enqueue -- the row's newest version was frozen, alone, and has just been marked ZEN_V_IN_CLOCK: it may
 * be evicted some day.  Outside any epoch.  Never throws.
 */
extern void zen_metcache_enqueue(ZenHTable *ht, uint64 tidno);

/* zen_metcache_age -- halve the counts of reads when it is time; by zen's worker. */
extern void zen_metcache_age(void);

/*
 * zen_metcache_evict -- while over capacity, move the hand over at most max entries.  Outside any epoch.
 * zen_metcache_evict_any -- the same without looking at capacity, when DRAM is full.
 */
extern void zen_metcache_evict(int max);
extern void zen_metcache_evict_any(int max);

/*
 * zen_metcache_evict_spans -- while the arena lacks spans, empty those of row versions, so that objects of any size find room.
 * Outside any epoch.  Never throws.
 */
extern void zen_metcache_evict_spans(void);

/*
 * zen_make_room -- DRAM is full: free what can be freed.  Set by the collector, which lives in a higher layer.  Called
 * outside any epoch.
 */
extern void (*zen_make_room) (void);

/* zen_metcache_capacity -- bytes that versions may take. */
extern uint64 zen_metcache_capacity(void);

/*
 * zen_metcache_needs_room -- do they take more?
 * zen_metcache_is_overfull -- so much more that eviction does not help?
 */
extern bool zen_metcache_needs_room(void);
extern bool zen_metcache_is_overfull(void);

/* The row at slot cannot be read: throws ERRCODE_DATA_CORRUPTED naming it. */
pg_noreturn extern void zen_tuple_corrupted(ZenSlot slot, uint64 tidno);

/* A reader has met such a row: a warning if zen.skip_damaged_rows is on, else the same error. */
extern void zen_tuple_unreadable(ZenSlot slot, uint64 tidno);

#endif							/* ZEN_METCACHE_H */
