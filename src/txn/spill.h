/*
 * spill.h -- large transactions write rows to NVM before they commit.
 *
 * A transaction whose versions take more than zen.spill_threshold of DRAM leases its region early, writes them to their
 * slots with LP = 0, and gives up their entries (cache/spillmap.h).  One LP at the end commits any number of rows.
 */
#ifndef ZEN_TXN_SPILL_H
#define ZEN_TXN_SPILL_H

#include "base/compat.h"

#include "access/htup_details.h"
#include "row/rowmake.h"

/*
 * zen_spill_if_large -- spill the rows that this transaction has written so far, if they take too much DRAM.
 *
 * Called before a write, outside any epoch, with no pointer to a version of this transaction in hand.  Throws
 * ERRCODE_DISK_FULL, ERRCODE_OUT_OF_MEMORY.
 */
extern void zen_spill_if_large(void);

/*
 * zen_spill_new_rows -- insert rows of a load into NVM at once.
 *
 * Result: a bit for each row that was inserted; taken has its TID.  The others are left to zen_row_insert_many(): the
 * transaction is not large, or there was no room.  Called after zen_spill_if_large().  May throw before it writes.
 */
extern uint64 zen_spill_new_rows(ZenHTable *ht, const ZenNewRows *rows, ZenTakenTid *taken);

/*
 * zen_spill_abandon -- an abort that may come while rows are spilled: put the write set in order.
 *
 * Called by the abort of a (sub)transaction before anything looks at the write set.  Never throws.
 */
extern void zen_spill_abandon(void);

#endif							/* ZEN_TXN_SPILL_H */
