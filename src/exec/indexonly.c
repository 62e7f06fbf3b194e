/*
 * indexonly.c -- index-only scans of zen tables.
 *
 * The executor's node asks the visibility map about each entry, which zen tables have not, and then the table, by way
 * of a slot for the row.  zen puts a function of its own in the node's place.  It asks zen alone, which looks at the
 * map words of many entries at once (table/indexahead.h).  A tree that keeps whole columns gives these, and no tuple.
 *
 * All else is the executor's: the node, its start, scan keys, rescans and end.  So the function may be replaced by the
 * executor's own at any row.  It is
 *
 * - at the first row, where the executor begins the index scan, and after parameters have changed;
 * - where the reader must note conflicts row by row, or has no MVCC snapshot;
 * - where an entry is not what the node shows: distances, which no btree or zentree has, and columns of type name.
 *
 * EXPLAIN ANALYZE counts as "Heap Fetches" the rows whose versions were looked at, and all that the executor's own
 * function asks for.
 */
#include "exec/indexonly.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "index/zentree.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "table/indexahead.h"
#include "table/treeindex.h"
#include "table/zenam_fetch.h"
#include "table/zenam_rel.h"

/* The executor's own function for such nodes; NULL: not known yet. */
static ExecProcNodeMtd standard_function;

/* The direction in which the node reads the index now. */
static inline ScanDirection
direction_of(const IndexOnlyScanState *node)
{
	ScanDirection direction = node->ss.ps.state->es_direction;

	if (ScanDirectionIsBackward(((IndexOnlyScan *) node->ss.ps.plan)->indexorderdir))
		direction = -direction;
	return direction;
}

/* Go on to the next entry whose row the snapshot sees; false: there is none. */
static inline bool
find_entry(IndexOnlyScanState *node)
{
	IndexScanDesc scan = node->ioss_ScanDesc;
	ScanDirection direction = direction_of(node);

	while (index_getnext_tid(scan, direction) != NULL)
	{
		ZenEntrySight sight = zen_fetch_see_entry(scan);

		CHECK_FOR_INTERRUPTS();
		/* as for an MVCC snapshot with these access methods */
		Assert(!scan->xs_recheck);
		if (sight == ZEN_ENTRY_SEEN)
			return true;
		InstrCountTuples2(node, 1);
		if (sight == ZEN_ENTRY_VISIBLE)
			return true;
	}
	return false;
}

/* For ExecScan(): the next entry. */
static TupleTableSlot *
next_entry(ScanState *ss)
{
	IndexOnlyScanState *node = (IndexOnlyScanState *) ss;
	IndexScanDesc scan = node->ioss_ScanDesc;
	TupleTableSlot *slot = ExecClearTuple(ss->ss_ScanTupleSlot);

	if (!find_entry(node))
		return slot;
	index_deform_tuple(scan->xs_itup, scan->xs_itupdesc, slot->tts_values, slot->tts_isnull);
	return ExecStoreVirtualTuple(slot);
}

/* The same of a tree that keeps whole columns: no tuple is formed. */
static TupleTableSlot *
next_whole_entry(ScanState *ss)
{
	IndexOnlyScanState *node = (IndexOnlyScanState *) ss;
	IndexScanDesc scan = node->ioss_ScanDesc;
	TupleTableSlot *slot = ExecClearTuple(ss->ss_ScanTupleSlot);
	bool		found;

	scan->xs_want_itup = false;
	found = find_entry(node);
	scan->xs_want_itup = true;
	if (!found)
		return slot;
	zentree_entry(scan, slot->tts_values, slot->tts_isnull);
	return ExecStoreVirtualTuple(slot);
}

/* For ExecScan() in EvalPlanQual, whose nodes are started apart, and keep the executor's function. */
static bool
recheck_entry(ScanState *ss, TupleTableSlot *slot)
{
	elog(ERROR, "an index-only scan of a zen table was to check a row again");
	return false;
}

/* Must the executor's own function see to the next row? */
static inline bool
is_standard(const IndexOnlyScanState *node)
{
	return node->ioss_ScanDesc == NULL || (node->ioss_NumRuntimeKeys > 0 && !node->ioss_RuntimeKeysReady) ||
		!zen_index_wants_no_row(node->ioss_ScanDesc);
}

/* ExecScan(), which is not needed where all entries are shown as they are. */
static inline TupleTableSlot *
scan_entries(ScanState *ss, ExecScanAccessMtd next)
{
	return ss->ps.qual == NULL && ss->ps.ps_ProjInfo == NULL ? next(ss) : ExecScan(ss, next, recheck_entry);
}

static TupleTableSlot *
exec_index_only(PlanState *state)
{
	IndexOnlyScanState *node = (IndexOnlyScanState *) state;

	return is_standard(node) ? standard_function(state) : scan_entries(&node->ss, next_entry);
}

static TupleTableSlot *
exec_tree_only(PlanState *state)
{
	IndexOnlyScanState *node = (IndexOnlyScanState *) state;

	if (is_standard(node))
		return standard_function(state);
	return scan_entries(&node->ss, zentree_keeps_whole(node->ioss_ScanDesc) ? next_whole_entry : next_entry);
}

static bool
has_name(TupleDesc desc)
{
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescAttr(desc, i)->atttypid == NAMEOID)
			return true;
	return false;
}

void
zen_indexonly_take_over(IndexOnlyScanState *node)
{
	PlanState  *state = &node->ss.ps;

	if (node->ioss_RelationDesc == NULL || !zen_rel_is_zen(node->ss.ss_currentRelation) ||
		!zen_index_is_like_btree(node->ioss_RelationDesc) || node->ioss_NumOrderByKeys > 0 ||
		has_name(node->ss.ss_ScanTupleSlot->tts_tupleDescriptor))
		return;
	if (standard_function == NULL)
		standard_function = state->ExecProcNodeReal;
	/* another library's function stays */
	if (state->ExecProcNodeReal == standard_function)
		ExecSetExecProcNode(state, zen_index_is_tree(node->ioss_RelationDesc) ? exec_tree_only : exec_index_only);
}
