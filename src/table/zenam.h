/*
 * zenam.h -- what the files of the table access method share.
 *
 * Callbacks have the names of TableAmRoutine's members with the prefix zenam_; zenam_handler.c wires them.
 */
#ifndef ZENAM_H
#define ZENAM_H

#include "base/compat.h"

#include "access/tableam.h"
#include "executor/tuptable.h"
#include "nvm/htable.h"
#include "row/rowmake.h"
#include "row/rowread.h"
#include "utils/rel.h"

/* ---------- relations ---------- */

/*
 * zen_rel_htable -- the HTable of an open zen table.
 *
 * Waits until the pool is recovered and, after a crash, until the table's indexes are rebuilt.  Throws
 * ERRCODE_DATA_CORRUPTED when the pool does not know the table.
 */
extern ZenHTable *zen_rel_htable(Relation rel);

/* zen_rel_htable_raw -- the same without waiting for indexes; for the code that rebuilds them. */
extern ZenHTable *zen_rel_htable_raw(Relation rel);

/* Is this relation stored by zen?  (Any relkind; false for indexes and views.) */
extern bool zen_rel_is_zen(Relation rel);
extern bool zen_relid_is_zen(Oid relid);

/* Number of 64-TID blocks; what PostgreSQL takes for the number of pages. */
extern BlockNumber zen_rel_nblocks(Relation rel);

/* zen_rel_extend_file -- make the (empty, sparse) main fork as long as nblocks blocks. */
extern void zen_rel_extend_file(Relation rel, BlockNumber nblocks);

/*
 * zen_rel_cover_block -- have the segment of the main fork to which a block belongs, and those before it.
 *
 * To be called before an index, or a scan, can name the block.  Throws when the file cannot be extended.
 */
extern void zen_rel_cover_block(Relation rel, BlockNumber block);

/* ---------- zenam_slot.c ---------- */

extern const TupleTableSlotOps *zenam_slot_callbacks(Relation rel);

/* zenam_slot_row -- the row buffer of a slot, emptied, to be filled by zen_row_fetch. */
extern ZenRow *zenam_slot_row(TupleTableSlot *slot);

/* zenam_slot_store -- the slot now shows what was put into its row buffer. */
extern void zenam_slot_store(TupleTableSlot *slot, Oid tableoid);

/* ---------- zenam_dml.c ---------- */

/* zen_simple_insert -- insert one row (no toasting, no indexes); sets tuple->t_self. */
extern void zen_simple_insert(Relation rel, HeapTuple tuple, CommandId cid);

/* zen_simple_delete -- delete the row version at tid, which nobody else can be changing; elog(ERROR) otherwise. */
extern void zen_simple_delete(Relation rel, ItemPointer tid, CommandId cid);

/* ---------- zenam_toast.c ---------- */

/*
 * zen_toast_insert_or_update -- make newtup fit: compress and move out of line as heap does.
 *
 * Returns newtup itself if nothing had to change, else a palloc'd tuple.  oldtup (or NULL) is the row being replaced:
 * its out-of-line values that newtup keeps are not copied, the others are deleted.
 */
extern HeapTuple zen_toast_insert_or_update(Relation rel, HeapTuple newtup, HeapTuple oldtup, int options);

/* zen_toast_delete -- delete the out-of-line values of a row that is deleted. */
extern void zen_toast_delete(Relation rel, HeapTuple oldtup, bool is_speculative);

/* zen_toast_needed -- does the tuple have, or need, out-of-line or compressed values? */
extern bool zen_toast_needed(Relation rel, HeapTuple tup);

#endif							/* ZENAM_H */
