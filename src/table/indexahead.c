/*
 * indexahead.c -- an index scan asks for the memory of the rows that it comes to next.
 *
 * Rows that are neighbours in an index are seldom neighbours in memory.  Each costs three waits, one after the other:
 * map word, version or slot, row.  The index has read the TIDs of a whole page, or leaf, before it hands out the first.
 * So the scan has them all brought, some rows ahead, and the waits of different rows overlap.
 *
 * The table AM is not told of the scan for which it fetches a row.  But PostgreSQL's index_fetch_heap() passes pointers
 * into it (zen_index_scan_of).  Of btrees the entries stand in the scan's state, as access/nbtree.h declares it.
 *
 * An index-only scan wants no row, and often no version: the map words of all entries that it comes to next tell it at
 * once.
 *
 * An entry that is not handed out, or a row that has gone, has been asked for in vain.
 */
#include "table/indexahead.h"

#include "access/nbtree.h"
#include "catalog/pg_am.h"
#include "row/rowahead.h"
#include "row/rowread.h"
#include "table/treeindex.h"

#define FIRST_AHEAD		4		/* rows asked for at the second row of a scan;
								 * twice as many each time */

ZenTreeAhead zen_index_tree_ahead = NULL;

/* The entries of a btree's page that come next.  Where the scan was tells in which direction it goes. */
static int
btree_ahead(ZenIndexPlace *place, IndexScanDesc scan, ItemPointer tids, int max)
{
	BTScanPosData *pos = &((BTScanOpaque) scan->opaque)->currPos;
	int			n = 0;
	int			step;

	if (!BTScanPosIsValid(*pos))
		return 0;
	if (pos->currPage == place->page)
		step = pos->itemIndex < place->item ? -1 : 1;
	else
		step = pos->itemIndex == pos->firstItem ? 1 : -1;
	for (int i = pos->itemIndex + step; n < max && i >= pos->firstItem && i <= pos->lastItem; i += step)
		tids[n++] = pos->items[i].heapTid;
	place->page = pos->currPage;
	place->item = pos->itemIndex;
	return n;
}

/* The entries that a scan comes to next, up to max; how many? */
static int
entries_ahead(ZenIndexPlace *place, IndexScanDesc scan, ItemPointer tids, int max)
{
	Relation	index = scan->indexRelation;

	if (index->rd_rel->relam == BTREE_AM_OID)
		return btree_ahead(place, scan, tids, max);
	if (zen_index_is_tree(index))
		return zen_index_tree_ahead(scan, tids, max);
	return 0;
}

void
zen_index_ask_ahead(ZenIndexAhead *ahead, IndexScanDesc scan, ZenHTable *ht)
{
	uint64		tidnos[2 * ZEN_MAX_AHEAD];
	int			n = entries_ahead(&ahead->place, scan, ahead->tids, 2 * ahead->wanted);

	Assert(n <= 2 * ahead->wanted);
	for (int i = 0; i < n; i++)
		tidnos[i] = zen_tidno(&ahead->tids[i]);
	ahead->n = ahead->left = Min(n, ahead->wanted);
	ahead->wanted = Min(Max(FIRST_AHEAD, 2 * ahead->wanted), ZEN_MAX_AHEAD);
	if (n == 0)
		return;
	zen_row_prefetch_words(ht, tidnos + ahead->n, n - ahead->n);
	zen_row_prefetch(ht, tidnos, ahead->n);
}

void
zen_index_ask_seen(ZenIndexSeen *seen, IndexScanDesc scan, ZenHTable *ht)
{
	seen->next = 0;
	seen->n = entries_ahead(&seen->place, scan, seen->tids, seen->wanted);
	Assert(seen->n <= seen->wanted);
	seen->wanted = Min(Max(FIRST_AHEAD, 2 * seen->wanted), ZEN_MAX_SEEN);
	seen->seen = zen_row_seen(ht, seen->tids, seen->n);
}
