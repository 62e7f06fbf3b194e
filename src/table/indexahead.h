/*
 * indexahead.h -- an index scan asks for the memory of the rows that it comes to next.
 */
#ifndef ZEN_INDEXAHEAD_H
#define ZEN_INDEXAHEAD_H

#include "base/compat.h"

#include "access/relscan.h"
#include "cache/tidmap.h"

#define ZEN_MAX_AHEAD	16

/* How far a scan is.  All zero at its start. */
typedef struct ZenIndexAhead
{
	int			left;			/* rows asked for that are still to come */
	int			n;				/* asked for by the last call, ... */
	int			wanted;			/* ... if there were so many */
	uint32		seen;			/* of an index-only scan: bit i for tids[i], as
								 * zen_row_seen() */
	ItemPointerData tids[ZEN_MAX_AHEAD];
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
	 * index_fetch_heap() names two fields of the scan.  Others name two
	 * variables, and what lies between these may be read.
	 */
	return (char *) call_again == (char *) &scan->xs_heap_continue && scan->xs_heapfetch == fetch ? scan : NULL;
}

extern void zen_index_ask_ahead(ZenIndexAhead *ahead, IndexScanDesc scan, ZenHTable *ht);

/*
 * zen_index_ahead -- the scan is about to fetch a row: ask for the rows behind it, if they have not been asked for.
 *
 * Nothing is asked for at the first row, as the scan may want no other.
 */
static inline void
zen_index_ahead(ZenIndexAhead *ahead, IndexScanDesc scan, ZenHTable *ht)
{
	if (ahead->left > 0)
		ahead->left--;
	else
		zen_index_ask_ahead(ahead, scan, ht);
}

/* zen_index_seen -- of an index-only scan, after zen_index_ahead(): is it known that every snapshot sees the row? */
static inline bool
zen_index_seen(const ZenIndexAhead *ahead, ItemPointer tid)
{
	int			i = ahead->n - ahead->left - 1;

	return i >= 0 && (ahead->seen & ((uint32) 1 << i)) != 0 &&
		ItemPointerEquals(tid, (ItemPointer) &ahead->tids[i]);
}

#endif							/* ZEN_INDEXAHEAD_H */
