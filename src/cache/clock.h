/*
 * clock.h -- which rows leave the Met-Cache, and how much it may hold.
 *
 * Rows that every snapshot sees and that are read least are evicted when versions take about zen.met_cache_size.
 */
#ifndef ZEN_CLOCK_H
#define ZEN_CLOCK_H

#include "cache/version.h"

#define ZEN_ADMIT_READS		2	/* reads after which a row may be admitted, if
								 * half of the cache is taken */

/*
 * zen_clock_shmem_size -- bytes of shared memory that zen_clock_init() takes, sketch and counters by table included.
 * zen_clock_init -- make all of that or attach to it.
 */
extern Size zen_clock_shmem_size(void);
extern void zen_clock_init(void);

/* zen_clock_capacity -- bytes that versions may take. */
extern uint64 zen_clock_capacity(void);

/*
 * zen_clock_exceeds_half -- do versions take more than half of the capacity?  Up to there any row read may come in.
 * zen_clock_is_full -- so much that a newcomer must take another row's place?
 * zen_clock_needs_room -- more than the capacity?
 * zen_clock_is_overfull -- so much more that eviction does not help?
 */
extern bool zen_clock_exceeds_half(void);
extern bool zen_clock_is_full(void);
extern bool zen_clock_needs_room(void);
extern bool zen_clock_is_overfull(void);

/*
 * zen_clock_enqueue -- the row's newest version was frozen, alone, and has just been marked ZEN_V_IN_CLOCK: it may be
 * evicted some day.
 * zen_clock_enqueue_kept -- the same for a row that has won its place, so it is not on probation.
 *
 * Outside any epoch.  Never throw.
 */
extern void zen_clock_enqueue(ZenHTable *ht, uint64 tidno);
extern void zen_clock_enqueue_kept(ZenHTable *ht, uint64 tidno);

/*
 * zen_clock_win_place -- make room for a row of a table that was read so often.
 *
 * False if the rows that the hand meets are worth more.  Outside any epoch.  Never throws.
 */
extern bool zen_clock_win_place(ZenHTable *ht, uint64 tidno, uint32 reads);

/*
 * zen_clock_evict -- while over capacity, move the hand over at most max entries.  Most calls do nothing while no row
 * could go.
 * zen_clock_evict_now -- the same, at once, a few entries.
 * zen_clock_evict_any -- the same without looking at capacity, when DRAM is full.
 *
 * Outside any epoch.  Never throw.
 */
extern void zen_clock_evict(int max);
extern void zen_clock_evict_now(void);
extern void zen_clock_evict_any(int max);

/*
 * zen_clock_evict_spans -- while the arena lacks spans, empty those of row versions, so that objects of any size find
 * room.
 *
 * Outside any epoch.  Never throws.
 */
extern void zen_clock_evict_spans(void);

/* zen_clock_items -- items in the queues, about. */
extern uint64 zen_clock_items(void);

#endif							/* ZEN_CLOCK_H */
