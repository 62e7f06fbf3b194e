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

#define ZEN_MAX_AHEAD	8		/* rows that are asked for at once; with 16
								 * the processor waited for lines */

/* Of a btree: where a scan was when it asked last.  All zero at its start. */
typedef struct ZenIndexPlace
{
	BlockNumber page;
	int			item;
} ZenIndexPlace;

/* How far a scan is.  All zero at its start. */
typedef struct ZenIndexAhead
{
	int			left;			/* rows asked for that are still to come */
	int			n;				/* asked for by the last call, ... */
	int			wanted;			/* ... if there were so many */
	ItemPointerData tids[2 * ZEN_MAX_AHEAD];	/* n asked for, and those
												 * behind them */
	ZenIndexPlace place;
} ZenIndexAhead;

#define ZEN_MAX_SEEN	64

/* What an index-only scan knows of the entries that it comes to next; zen_index_seen_begin() before its first. */
typedef struct ZenIndexSeen
{
	int			next;			/* of n, the entry that the scan comes to */
	int			n;				/* asked for by the last call, ... */
	int			wanted;			/* ... if there were so many */
	ZenIndexPlace place;
	uint64		seen;			/* bit i for tids[i], as zen_row_seen() */
	ItemPointerData tids[ZEN_MAX_SEEN];
} ZenIndexSeen;

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

/* zen_index_ahead -- the scan is about to fetch a row: ask for those behind it, if it is the last one asked for. */
static inline void
zen_index_ahead(ZenIndexAhead *ahead, IndexScanDesc scan, ZenHTable *ht)
{
	/* nothing is asked for at the first row: the scan may want no other */
	if (ahead->left > 0)
		ahead->left--;
	if (ahead->left == 0)
		zen_index_ask_ahead(ahead, scan, ht);
}

static inline void
zen_index_seen_begin(ZenIndexSeen *seen)
{
	/* the first entry only tells where the scan is: it may want no other */
	memset(seen, 0, offsetof(ZenIndexSeen, tids));
}

extern void zen_index_ask_seen(ZenIndexSeen *seen, IndexScanDesc scan, ZenHTable *ht);

/*
 * zen_index_seen -- the scan, which wants no row, comes to an entry: is it known that every snapshot sees a row under
 * its TID?  If not, look at the row.
 */
static inline bool
zen_index_seen(ZenIndexSeen *seen, IndexScanDesc scan, ZenHTable *ht)
{
	bool		result = false;

	if (seen->next < seen->n)
	{
		int			i = seen->next++;

		result = (seen->seen >> i & 1) != 0 &&
			memcmp(&scan->xs_heaptid, &seen->tids[i], sizeof(ItemPointerData)) == 0;
	}
	if (seen->next == seen->n)
		zen_index_ask_seen(seen, scan, ht);
	return result;
}

#endif							/* ZEN_INDEXAHEAD_H */
