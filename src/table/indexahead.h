/*
 * indexahead.h -- an index scan asks for the memory of the rows that it comes to next.
 */
#ifndef ZEN_INDEXAHEAD_H
#define ZEN_INDEXAHEAD_H

#include "base/compat.h"

#include "access/relscan.h"
#include "cache/tidmap.h"
#include "storage/predicate.h"
#include "utils/snapmgr.h"

#define ZEN_MAX_AHEAD	16

/* How far a scan is.  All zero at its start. */
typedef struct ZenIndexAhead
{
	int			left;			/* rows asked for that are still to come */
	int			n;				/* asked for by the last call, ... */
	int			wanted;			/* ... if there were so many */
	uint32		seen;			/* if the scan wants no row: bit i for
								 * tids[i], as zen_row_seen(); else 0 */
	ItemPointerData tids[2 * ZEN_MAX_AHEAD];	/* n asked for, and those
												 * behind them */
	BlockNumber page;			/* of a btree: where the scan was at the last
								 * call, ... */
	int			item;			/* ... and at which of its entries */
} ZenIndexAhead;

/*
 * The entries that a scan has read from a tree, and hands out next: up to max TIDs; returns how many.  index/ has it,
 * and does not know this folder.
 */
typedef int (*ZenTreeAhead) (IndexScanDesc scan, ItemPointer tids, int max);
extern ZenTreeAhead zen_index_tree_ahead;

/* zen_index_scan_of -- the scan for which index_fetch_tuple() was called with these arguments; NULL: for none. */
static inline IndexScanDesc
zen_index_scan_of(struct IndexFetchTableData *fetch, ItemPointer tid, bool *call_again)
{
	IndexScanDesc scan = (IndexScanDesc) ((char *) tid - offsetof(IndexScanDescData, xs_heaptid));

	/*
	 * index_fetch_heap() names two fields of the scan, which stand side by
	 * side, and the third one behind them is xs_heapfetch.  If another caller
	 * had two variables side by side, the word behind them would be read, and
	 * be none that points to this fetch.
	 */
	StaticAssertStmt(offsetof(IndexScanDescData, xs_heapfetch) > offsetof(IndexScanDescData, xs_heap_continue) &&
					 offsetof(IndexScanDescData, xs_heapfetch) <= offsetof(IndexScanDescData, xs_heaptid) + 16,
					 "nothing is read but what stands right behind the two");
	return (char *) call_again == (char *) &scan->xs_heap_continue && scan->xs_heapfetch == fetch ? scan : NULL;
}

/* zen_index_wants_no_row -- does the scan ask for visibility alone, by an MVCC snapshot, and need no predicate lock? */
static inline bool
zen_index_wants_no_row(IndexScanDesc scan)
{
	return scan->xs_want_itup && IsMVCCSnapshot(scan->xs_snapshot) &&
		!CheckForSerializableConflictOutNeeded(scan->heapRelation, scan->xs_snapshot);
}

extern void zen_index_ask_ahead(ZenIndexAhead *ahead, IndexScanDesc scan, ZenHTable *ht);

/*
 * zen_index_ahead -- the scan is about to fetch a row: ask for the rows behind it, if it is the last that was asked
 * for.
 *
 * True if the scan wants no row, and it is known that every snapshot sees this one.  Nothing is asked for at the first
 * row, as the scan may want no other.
 */
static inline bool
zen_index_ahead(ZenIndexAhead *ahead, IndexScanDesc scan, ZenHTable *ht, ItemPointer tid)
{
	bool		seen = false;

	if (ahead->left > 0)
	{
		int			i = ahead->n - ahead->left--;

		seen = (ahead->seen & ((uint32) 1 << i)) != 0 && ItemPointerEquals(tid, &ahead->tids[i]);
	}
	if (ahead->left == 0)
		zen_index_ask_ahead(ahead, scan, ht);
	return seen;
}

#endif							/* ZEN_INDEXAHEAD_H */
