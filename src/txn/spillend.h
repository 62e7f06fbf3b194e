/*
 * spillend.h -- the end of spilled rows: the transaction that has spilled them commits, aborts or is prepared.
 */
#ifndef ZEN_SPILLEND_H
#define ZEN_SPILLEND_H

#include "cache/spillmap.h"
#include "row/writeset.h"

/*
 * zen_spillend_walk -- call visit for each slot of a block that the region's transaction has spilled and not settled.
 *
 * Nothing relies on the headers any more that the slots had before.  Caller is outside any epoch.
 */
extern void zen_spillend_walk(uint32 region, ZenSpilledBlock *block,
							  void (*visit) (uint32 region, ZenSlot slot, ZenTupleHeader former, void *arg), void *arg);

/*
 * zen_spillend_settle -- the transaction of a region has committed: the collector finishes its rows.
 *
 * Lease holder, outside any epoch.  Never throws.
 */
extern void zen_spillend_settle(uint32 region, ZenSpilledBlock *blocks, uint32 n);

/*
 * zen_spillend_undo -- R7: scrub, durably, and take back the rows spilled to these blocks.
 *
 * all: all of them; else those of (sub)transactions that are no longer this one's.  Lease holder, outside
 * any epoch.  Never throws.
 */
extern void zen_spillend_undo(uint32 region, ZenSpilledBlock *blocks, uint32 n, bool all);

/* zen_spillend_subabort -- the savepoint of this nest level was rolled back. */
extern void zen_spillend_subabort(int nest_level);

/* zen_spillend_forget_table -- a table of this transaction's own is about to be emptied in place. */
extern void zen_spillend_forget_table(ZenHTable *ht);

/*
 * zen_spillend_restamp -- PREPARE: all rows get this Tx-CTS, so that one descriptor speaks for them.
 *
 * Of a row that was written again, only the last version remains.  Flushed, not fenced.  Lease holder, outside any
 * epoch.  Never throws.
 */
extern void zen_spillend_restamp(uint32 region, uint64 cts, ZenSpilledBlock *blocks, uint32 n);

#endif							/* ZEN_SPILLEND_H */
