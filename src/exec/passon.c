/*
 * passon.c -- a CustomScan put on top of a plan, which hands on the columns that the plan gives.
 *
 * The node's list has the columns of its tuple (INDEX_VAR), and these are the plan's (OUTER_VAR, in custom_scan_tlist).
 * So the executor has nothing to compute, and EXPLAIN VERBOSE finds the names of columns below.
 */
#include "exec/passon.h"

#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

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
zen_passon_make(Plan *below, const CustomScanMethods *methods)
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
	node->methods = methods;
	return node;
}
