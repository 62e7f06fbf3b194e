/*
 * pointnodes.c -- run the executor's own nodes again, with the state that they have kept.
 *
 * Between executions the nodes hold no index, no scan and no row.  All nodes of a plan that is_keepable (pointplan.c)
 * begin their scans when the first row is asked for.  So before that the indexes are opened, and each node is set back
 * to its beginning:
 * - by ExecReScan, which PostgreSQL itself uses to start a part of a plan again;
 * - for ModifyTable, which has none, by its two fields that say how far it is.
 * A change that follows a row to a newer version makes executor state of its own for EvalPlanQual; it ends here.
 */
#include "exec/pointnodes.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "storage/bufmgr.h"
#include "table/treeindex.h"
#include "table/zenam_rel.h"
#include "utils/rel.h"

/* ---------- the nodes ---------- */

static bool
note_node(PlanState *node, void *point)
{
	List	  **nodes = &((ZenPoint *) point)->nodes;

	*nodes = lappend(*nodes, node);
	return planstate_tree_walker(node, note_node, point);
}

static void
open_for_conflict(PlanState *node)
{
	if (IsA(node, ModifyTableState) && ((ModifyTable *) node->plan)->onConflictAction != ONCONFLICT_NONE)
		zen_index_open_for_conflict(((ModifyTableState *) node)->resultRelInfo);
}

void
zen_pointnodes_find(ZenPoint *point, PlanState *top)
{
	ListCell   *lc;

	Assert(point->kind == ZEN_POINT_PLAN && point->nodes == NIL);
	(void) note_node(top, point);
	foreach(lc, point->nodes)
		open_for_conflict(lfirst(lc));
	/* as the standard executor leaves them */
	point->started = true;
}

static Relation
open_index(ZenPoint *point, Scan *plan, Oid index)
{
	return index_open(index, exec_rt_fetch(plan->scanrelid, point->kept->estate)->rellockmode);
}

static void
open_node(ZenPoint *point, PlanState *node)
{
	switch (nodeTag(node))
	{
		case T_IndexScanState:
			{
				IndexScanState *scan = (IndexScanState *) node;

				Assert(scan->iss_RelationDesc == NULL && scan->iss_ScanDesc == NULL);
				scan->iss_RuntimeKeysReady = false;
				scan->iss_RelationDesc = open_index(point, (Scan *) node->plan, ((IndexScan *) node->plan)->indexid);
				break;
			}
		case T_IndexOnlyScanState:
			{
				IndexOnlyScanState *scan = (IndexOnlyScanState *) node;

				Assert(scan->ioss_RelationDesc == NULL && scan->ioss_ScanDesc == NULL);
				scan->ioss_RuntimeKeysReady = false;
				scan->ioss_RelationDesc = open_index(point, (Scan *) node->plan,
													 ((IndexOnlyScan *) node->plan)->indexid);
				break;
			}
		case T_NestLoopState:

			/*
			 * of an outer join: it was filled once, and cleared with the
			 * others
			 */
			if (((NestLoopState *) node)->nl_NullInnerTupleSlot != NULL)
				ExecStoreAllNullTuple(((NestLoopState *) node)->nl_NullInnerTupleSlot);
			break;
		case T_ModifyTableState:
			((ModifyTableState *) node)->mt_done = false;
			((ModifyTableState *) node)->fireBSTriggers = true;
			zen_fill_null_row(((ModifyTableState *) node)->resultRelInfo);
			open_for_conflict(node);
			break;
		default:
			break;
	}
}

static void
close_indexes(ResultRelInfo *target)
{
	if (target->ri_IndexRelationDescs == NULL)
		return;
	Assert(target->ri_NumIndices >= 0);
	ExecCloseIndices(target);
	for (int i = 0; i < target->ri_NumIndices; i++)
		pfree(target->ri_IndexRelationInfo[i]);
	pfree(target->ri_IndexRelationInfo);
	pfree(target->ri_IndexRelationDescs);
	target->ri_NumIndices = 0;
	target->ri_IndexRelationDescs = NULL;
	target->ri_IndexRelationInfo = NULL;
}

/* No row is locked yet, as when the marks are made.  WHERE CURRENT OF looks at them where a cursor stands on a row. */
static void
forget_locked(List *marks)
{
	ListCell   *lc;

	foreach(lc, marks)
	{
		ExecRowMark *mark = ((ExecAuxRowMark *) lfirst(lc))->rowmark;

		mark->ermActive = false;
		ItemPointerSetInvalid(&mark->curCtid);
	}
}

static void
close_node(PlanState *node)
{
	switch (nodeTag(node))
	{
		case T_SeqScanState:
			{
				ScanState  *scan = (ScanState *) node;

				if (scan->ss_currentScanDesc != NULL)
					table_endscan(scan->ss_currentScanDesc);
				scan->ss_currentScanDesc = NULL;
				break;
			}
		case T_IndexScanState:
			{
				IndexScanState *scan = (IndexScanState *) node;

				Assert(scan->iss_RelationDesc != NULL);
				if (scan->iss_ScanDesc != NULL)
					index_endscan(scan->iss_ScanDesc);
				index_close(scan->iss_RelationDesc, NoLock);
				scan->iss_ScanDesc = NULL;
				scan->iss_RelationDesc = NULL;
				break;
			}
		case T_IndexOnlyScanState:
			{
				IndexOnlyScanState *scan = (IndexOnlyScanState *) node;

				Assert(scan->ioss_RelationDesc != NULL);
				if (BufferIsValid(scan->ioss_VMBuffer))
					ReleaseBuffer(scan->ioss_VMBuffer);
				scan->ioss_VMBuffer = InvalidBuffer;
				if (scan->ioss_ScanDesc != NULL)
					index_endscan(scan->ioss_ScanDesc);
				index_close(scan->ioss_RelationDesc, NoLock);
				scan->ioss_ScanDesc = NULL;
				scan->ioss_RelationDesc = NULL;
				break;
			}
		case T_ModifyTableState:
			EvalPlanQualEnd(&((ModifyTableState *) node)->mt_epqstate);
			close_indexes(((ModifyTableState *) node)->resultRelInfo);
			break;
		case T_LockRowsState:
			EvalPlanQualEnd(&((LockRowsState *) node)->lr_epqstate);
			forget_locked(((LockRowsState *) node)->lr_arowMarks);
			break;
		default:
			break;
	}
}

/* ---------- an execution ---------- */

/* All nodes at their beginning, with the execution's parameters. */
static void
start_nodes(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;
	ListCell   *lc;

	Assert(!point->started && point->query != NULL && point->ntables > 0);
	point->started = true;
	/* the gate before an index is opened, which a rebuild replaces */
	for (int i = 0; i < point->ntables; i++)
		(void) zen_rel_htable(point->tables[i].rel);
	foreach(lc, estate->es_exprcontexts)
		((ExprContext *) lfirst(lc))->ecxt_param_list_info = point->query->params;
	foreach(lc, point->nodes)
		open_node(point, lfirst(lc));
	ExecReScan(point->change != NULL ? outerPlanState(point->change) : (PlanState *) linitial(point->nodes));
}

void
zen_pointnodes_run(ZenPoint *point, bool send, uint64 count)
{
	QueryDesc  *query = point->query;
	EState	   *estate = point->kept->estate;
	uint64		given = 0;

	Assert(CurrentMemoryContext == estate->es_query_cxt);
	if (!point->started)
		start_nodes(point);
	while (!point->done)
	{
		TupleTableSlot *row;

		ResetPerTupleExprContext(estate);
		row = ExecProcNode(query->planstate);
		point->done = TupIsNull(row);
		if (point->done)
			break;
		if (estate->es_junkFilter != NULL)
			row = ExecFilterJunk(estate->es_junkFilter, row);
		if (send && !query->dest->receiveSlot(row, query->dest))
			break;
		if (query->operation == CMD_SELECT)
			estate->es_processed++;
		if (++given == count)
			break;
	}
}

/* The rows that nodes stand on go, and what expressions have left behind. */
static void
clear_rows(EState *estate)
{
	ListCell   *lc;

	foreach(lc, estate->es_tupleTable)
		ExecClearTuple(lfirst(lc));
	foreach(lc, estate->es_exprcontexts)
		ReScanExprContext(lfirst(lc));
}

void
zen_pointnodes_close(ZenPoint *point)
{
	ListCell   *lc;

	if (point->kind != ZEN_POINT_PLAN || !point->started)
		return;
	clear_rows(point->kept->estate);
	foreach(lc, point->nodes)
		close_node(lfirst(lc));
	Assert(point->kept->estate->es_epq_active == NULL);
	point->started = false;
}
