/*
 * executions.c -- what the start of an execution must do for the zen tables in its plan.
 *
 * - Tables that a plan writes pass their gates before the executor opens their indexes.
 * - INSERT ... ON CONFLICT: PostgreSQL opens the indexes of a target at the first row, unless they are open, and
 *   refuses any unique index but a btree.  So they are opened before (table/treeindex.c).
 * - Bitmap heap scans must not prefetch from the main fork, which has no contents for a zen table.
 */
#include "admin/executions.h"

#include "access/table.h"
#include "exec/exec.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "recovery/recovery.h"
#include "table/treeindex.h"
#include "table/zenam_rel.h"
#include "utils/rel.h"

/* ---------- gates ---------- */

/*
 * The tables that a plan writes pass their gates before the executor opens their indexes: one that must be rebuilt
 * while others may use it (zenam_reindex.c) must not be open here.  The planner has locked them.
 */
static void
enter_targets(PlannedStmt *stmt)
{
	ListCell   *lc;

	if (stmt->resultRelations == NIL || pg_atomic_read_u32(&zen_recovery->rebuilt_in_use) == 0)
		return;
	foreach(lc, stmt->resultRelations)
	{
		Relation	rel = table_open(rt_fetch(lfirst_int(lc), stmt->rtable)->relid, NoLock);

		if (zen_rel_is_zen(rel))
			(void) zen_rel_htable(rel);
		table_close(rel, NoLock);
	}
}

/* ---------- ON CONFLICT ---------- */

static bool
open_targets(PlanState *state, void *context)
{
	ModifyTableState *modify = (ModifyTableState *) state;

	if (state == NULL)
		return false;
	if (IsA(state, ModifyTableState) && ((ModifyTable *) state->plan)->onConflictAction != ONCONFLICT_NONE)
		for (int i = 0; i < modify->mt_nrels; i++)
			if (zen_rel_is_zen(modify->resultRelInfo[i].ri_RelationDesc))
				zen_index_open_for_conflict(&modify->resultRelInfo[i]);
	return planstate_tree_walker(state, open_targets, context);
}

/* Only INSERT has ON CONFLICT; its plan says so at the top, or below a node of zen's. */
static bool
may_have_targets(PlannedStmt *stmt)
{
	Plan	   *top = stmt->planTree;

	if (stmt->hasModifyingCTE)
		return true;
	if (stmt->commandType != CMD_INSERT)
		return false;
	if (IsA(top, CustomScan) && outerPlan(top) != NULL)
		top = outerPlan(top);
	return !IsA(top, ModifyTable) || ((ModifyTable *) top)->onConflictAction != ONCONFLICT_NONE;
}

static void
open_conflict_indexes(QueryDesc *query, int eflags)
{
	ListCell   *lc;

	if (!ZEN_CONFLICT_WANTS_BTREE || (eflags & EXEC_FLAG_EXPLAIN_ONLY) || query->planstate == NULL ||
		!may_have_targets(query->plannedstmt))
		return;
	(void) open_targets(query->planstate, NULL);
	foreach(lc, query->estate->es_auxmodifytables)
		(void) open_targets(lfirst(lc), NULL);
}

/* ---------- prefetching ---------- */

static bool
stop_prefetch(PlanState *state, void *context)
{
	if (state == NULL)
		return false;
	if (IsA(state, BitmapHeapScanState))
	{
		BitmapHeapScanState *scan = (BitmapHeapScanState *) state;

		if (zen_rel_is_zen(scan->ss.ss_currentRelation))
			zen_stop_prefetch(scan);
	}
	return planstate_tree_walker(state, stop_prefetch, context);
}

/* ---------- the link ---------- */

void
zen_executions_start(const ZenStartLink *rest, QueryDesc *query, int eflags)
{
	enter_targets(query->plannedstmt);
	zen_start_rest(rest, query, eflags);
	open_conflict_indexes(query, eflags);
	/* a plan with kept state has no bitmap scan */
	if (!zen_exec_keeps(query->plannedstmt))
		stop_prefetch(query->planstate, NULL);
}
