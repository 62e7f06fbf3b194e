/*
 * spilled.h -- rows that a large transaction has spilled, from then to the collector.
 */
#ifndef ZEN_SPILLED_H
#define ZEN_SPILLED_H

#include "cache/spill.h"
#include "txn/writeset.h"

/*
 * zen_row_admit -- have a row that is only in NVM in an entry.
 *
 * On return the word was in another state than NVM or SPILLED for a moment.  Throws as zen_metcache_admit().
 */
extern void zen_row_admit(ZenHTable *ht, uint64 tidno, ZenWord *word);

/*
 * zen_row_admit_unread -- the same in recovery, while nobody else is at work: the data stays unread in the slots, be it sound or
 * damaged.  False when DRAM is full.
 */
extern bool zen_row_admit_unread(ZenHTable *ht, uint64 tidno, ZenWord *word);

/* zen_twophase_resolve(), which is above this module; set when shared memory is initialized. */
extern bool (*zen_spilled_resolve) (void);

/*
 * zen_wait_for_undo -- what was met was spilled by a transaction that has aborted, and is about to be taken back, here if it is
 * a prepared one's.  Outside of epochs, without LWLocks.
 */
extern void zen_wait_for_undo(void);

/*
 * zen_spilled_walk -- call visit for each slot of a block that the region's transaction has spilled and not settled; nothing
 * counts on their former headers any more.
 */
extern void zen_spilled_walk(uint32 region, ZenSpilledBlock *block,
							 void (*visit) (uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg), void *arg);

/* zen_spill_settle -- the transaction of a region has committed; its rows are garbage's to finish.  Never throws. */
extern void zen_spill_settle(uint32 region, ZenSpilledBlock *blocks, uint32 n);

/*
 * zen_spill_undo -- R7: scrub, durably, and take back what was spilled to these blocks; never throws.
 *
 * all: everything; else what (sub)transactions have written that are not this one's any more.
 */
extern void zen_spill_undo(uint32 region, ZenSpilledBlock *blocks, uint32 n, bool all);

/* zen_spill_subabort -- the savepoint of this nest level was rolled back. */
extern void zen_spill_subabort(int nest_level);

/* zen_spill_forget_table -- a table of this transaction's own is about to be emptied in place. */
extern void zen_spill_forget_table(ZenHTable *ht);

/*
 * zen_spill_restamp -- PREPARE: all rows get this Tx-CTS, so that one descriptor speaks for them; of rows that were written
 * again the last version only remains.  Flushed, not fenced.  Never throws.
 */
extern void zen_spill_restamp(uint32 region, uint64 cts, ZenSpilledBlock *blocks, uint32 n);

#endif							/* ZEN_SPILLED_H */
