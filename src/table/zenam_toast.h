/*
 * zenam_toast.h -- long values: compressed, or moved to a zen toast table.
 */
#ifndef ZENAM_TOAST_H
#define ZENAM_TOAST_H

#include "base/compat.h"

#include "access/htup.h"
#include "utils/rel.h"

/*
 * zen_toast_insert_or_update -- make newtup fit: compress and move out of line as heap does.
 *
 * Returns newtup itself if nothing had to change, else a palloc'd tuple.  oldtup (or NULL) is the row being replaced:
 * its out-of-line values that newtup keeps are not copied, the others are deleted.
 */
extern HeapTuple zen_toast_insert_or_update(Relation rel, HeapTuple newtup, HeapTuple oldtup);

/* zen_toast_delete -- delete the out-of-line values of a row that is deleted. */
extern void zen_toast_delete(Relation rel, HeapTuple oldtup, bool is_speculative);

/* zen_toast_needed -- does the tuple have, or need, out-of-line or compressed values? */
extern bool zen_toast_needed(Relation rel, HeapTuple tup);

#endif							/* ZENAM_TOAST_H */
