/*
 * plannode.c -- zen's own nodes in plans, CustomScans: how one is registered, and put on top of a plan.
 *
 * A node on top of a plan hands on the columns that the plan gives.  Its list has the columns of its tuple (INDEX_VAR),
 * and these are the plan's (OUTER_VAR, in custom_scan_tlist).  So the executor has nothing to compute, and EXPLAIN
 * VERBOSE finds the names of columns below.
 */
#include "exec/plannode.h"

#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

/* ---------- what all nodes do alike ---------- */

static Node *
plannode_state(CustomScan *node)
{
	const ZenPlanNode *kind = (const ZenPlanNode *) node->methods;
	CustomScanState *state = palloc0(kind->state_size);

	state->ss.ps.type = T_CustomScanState;
	state->methods = &kind->exec;
	return (Node *) state;
}

static void
plannode_end(CustomScanState *node)
{
	ExecEndNode(outerPlanState(node));
}

static void
plannode_rescan(CustomScanState *node)
{
	ExecReScan(outerPlanState(node));
}

void
zen_plannode_register(ZenPlanNode *kind)
{
	Assert(kind->exec.BeginCustomScan != NULL && kind->exec.ExecCustomScan != NULL);
	Assert(kind->state_size >= sizeof(CustomScanState));
	kind->scan.CreateCustomScanState = plannode_state;
	kind->exec.CustomName = kind->scan.CustomName;
	if (kind->exec.EndCustomScan == NULL)
		kind->exec.EndCustomScan = plannode_end;
	if (kind->exec.ReScanCustomScan == NULL)
		kind->exec.ReScanCustomScan = plannode_rescan;
	RegisterCustomScanMethods(&kind->scan);
}

/* ---------- on top of a plan ---------- */

/* A list with the columns of a plan, as varno names them. */
static List *
columns_of(List *targetlist, int varno)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, targetlist)
	{
		TargetEntry *below = lfirst_node(TargetEntry, lc);
		TargetEntry *above = flatCopyTargetEntry(below);

		above->expr = (Expr *) makeVar(varno, below->resno, exprType((Node *) below->expr),
									   exprTypmod((Node *) below->expr), exprCollation((Node *) below->expr), 0);
		result = lappend(result, above);
	}
	return result;
}

CustomScan *
zen_plannode_make(Plan *below, const ZenPlanNode *kind)
{
	CustomScan *node = makeNode(CustomScan);
	Plan	   *plan = &node->scan.plan;

	plan->startup_cost = below->startup_cost;
	plan->total_cost = below->total_cost;
	plan->plan_rows = below->plan_rows;
	plan->plan_width = below->plan_width;
	plan->plan_node_id = -1;
	plan->targetlist = columns_of(below->targetlist, INDEX_VAR);
	plan->extParam = bms_copy(below->extParam);
	plan->allParam = bms_copy(below->allParam);
	plan->lefttree = below;
	node->flags = ExecSupportsBackwardScan(below) ? CUSTOMPATH_SUPPORT_BACKWARD_SCAN : 0;
	node->custom_scan_tlist = columns_of(below->targetlist, OUTER_VAR);
	node->methods = &kind->scan;
	return node;
}
