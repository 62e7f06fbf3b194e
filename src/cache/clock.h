/*
 * clock.h -- which rows come into the Met-Cache, which leave it, and how much it may hold.
 *
 * Rows are admitted when they are written or locked, and when they have been read: once as long as half of the cache is
 * empty, then more than once of late.  Rows that every snapshot sees and that are read least are evicted when versions
 * take about zen.met_cache_size.
 */
#ifndef ZEN_CLOCK_H
#define ZEN_CLOCK_H

#include "base/startup.h"
#include "cache/version.h"

/* zen_clock_shmem -- make all of that or attach to it. */
extern const ZenShmem zen_clock_shmem;

/*
 * zen_clock_needs_room -- do versions take more than the capacity, about zen.met_cache_size?
 * zen_clock_is_overfull -- so much more that eviction does not help?
 */
extern bool zen_clock_needs_room(void);
extern bool zen_clock_is_overfull(void);

/*
 * zen_clock_enqueue -- the row's newest version was frozen, alone, and has just been marked ZEN_V_IN_CLOCK: it may be
 * evicted some day.
 *
 * Outside any epoch.  Never throws.
 */
extern void zen_clock_enqueue(ZenHTable *ht, uint64 tidno);

/*
 * zen_clock_evict -- while over capacity, move the hand over at most max entries.  Most calls do nothing while no row
 * could go.
 * zen_clock_evict_any -- the same without looking at capacity, when DRAM is full.
 *
 * Outside any epoch.  Never throw.
 */
extern void zen_clock_evict(int max);
extern void zen_clock_evict_any(int max);

/*
 * zen_clock_evict_spans -- while the arena lacks spans, empty those of row versions, so that objects of any size find
 * room.
 *
 * Outside any epoch.  Never throws.
 */
extern void zen_clock_evict_spans(void);

/* ---------- admission ---------- */

/*
 * zen_admission_admit -- copy a row whose newest version is in NVM into an entry.
 *
 * On return the word may be in any state: look again.  Throws ERRCODE_OUT_OF_MEMORY, ERRCODE_DATA_CORRUPTED.
 * Caller is outside any epoch.
 */
extern void zen_admission_admit(ZenHTable *ht, uint64 tidno, ZenWord *word);

/*
 * zen_admission_reads -- how often a row in NVM was read of late, as far as that was counted.  It is not while half of
 * the capacity is free.
 */
extern uint32 zen_admission_reads(ZenHTable *ht, uint64 tidno);

/*
 * zen_admission_missed -- a point read has found the row in NVM: maybe it is worth an entry.
 *
 * Caller holds a lock on the table, so that its map stays, and is outside any epoch.  Never throws, never waits.
 */
extern void zen_admission_missed(ZenHTable *ht, uint64 tidno);

/*
 * zen_clock_tick -- zen's worker, once a round: when it is time, halve the counts of reads, and plan the shares of
 * tables anew.
 */
extern void zen_clock_tick(void);

#endif							/* ZEN_CLOCK_H */
