/*
 * pointplan.c -- which plans are point accesses, and the node that marks them.
 *
 * A point access reads, locks, changes or inserts rows of one zen table, by equality on all columns of a unique index.
 * The planner hook puts a CustomScan on top of such a plan.  The node bears a serial number: executor state is kept by
 * it (pointstate.c).  A plan's address would not do, since plans come to lie where others have lain.
 *
 * Under the standard executor the node hands on what the plan below gives: with EXPLAIN ANALYZE, in cursors that go
 * backward, and wherever else the kept state does not fit (pointrun.c has the list).  EXPLAIN shows both.
 */
#include "point/pointplan.h"

#include "access/stratnum.h"
#include "access/table.h"
#include "access/genam.h"
#include "base/stats.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "table/zenam_rel.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define NODE_NAME	"ZenPointAccess"

static CustomScanMethods scan_methods;
static CustomExecMethods exec_methods;

/* ---------- the form ---------- */

static bool
is_plain_scan(Plan *plan)
{
	IndexScan  *scan = (IndexScan *) plan;

	return IsA(plan, IndexScan) && plan->initPlan == NIL && scan->indexorderby == NIL && scan->indexqual != NIL;
}

/* A row of values that the statement itself gives. */
static bool
is_one_row(Plan *plan)
{
	return IsA(plan, Result) && outerPlan(plan) == NULL && plan->initPlan == NIL && plan->qual == NIL &&
		((Result *) plan)->resconstantqual == NULL;
}

static bool
change_shape(ModifyTable *change, ZenPointShape *shape)
{
	Plan	   *source = outerPlan(change);

	if (list_length(change->resultRelations) != 1 || change->rootRelation != 0 ||
		change->withCheckOptionLists != NIL || change->rowMarks != NIL || change->plan.initPlan != NIL ||
		change->onConflictAction != ONCONFLICT_NONE)
		return false;
	shape->change = change;
	shape->rti = (Index) linitial_int(change->resultRelations);
	if (change->operation == CMD_INSERT)
		return is_one_row(source);
	if ((change->operation != CMD_UPDATE && change->operation != CMD_DELETE) || !is_plain_scan(source))
		return false;
	shape->scan = (IndexScan *) source;
	return shape->scan->scan.scanrelid == shape->rti;
}

bool
zen_point_shape(PlannedStmt *stmt, Plan *plan, ZenPointShape *shape)
{
	memset(shape, 0, sizeof(*shape));
	if (stmt->subplans != NIL || stmt->hasModifyingCTE || stmt->utilityStmt != NULL)
		return false;
	if (IsA(plan, ModifyTable))
		return change_shape((ModifyTable *) plan, shape);
	if (stmt->commandType != CMD_SELECT)
		return false;
	if (IsA(plan, LockRows) && plan->initPlan == NIL && list_length(((LockRows *) plan)->rowMarks) == 1)
	{
		shape->lock = (LockRows *) plan;
		plan = outerPlan(plan);
	}
	if (!is_plain_scan(plan) || (shape->lock == NULL) != (stmt->rowMarks == NIL))
		return false;
	shape->scan = (IndexScan *) plan;
	shape->rti = shape->scan->scan.scanrelid;
	return shape->lock == NULL ||
		linitial_node(PlanRowMark, shape->lock->rowMarks)->rti == shape->rti;
}

/* ---------- what the plan means ---------- */

/* Does a qual say that a key column of the index equals what no row of the table has a part in?  Which column? */
static int
equal_column(Expr *qual, Relation index)
{
	OpExpr	   *op = (OpExpr *) qual;
	Var		   *column;
	int			attno;

	if (!IsA(qual, OpExpr) || list_length(op->args) != 2)
		return 0;
	column = linitial_node(Var, op->args);
	attno = column->varattno;
	if (contain_var_clause(lsecond(op->args)) || attno < 1 || attno > IndexRelationGetNumberOfKeyAttributes(index))
		return 0;
	return get_op_opfamily_strategy(op->opno, index->rd_opfamily[attno - 1]) == BTEqualStrategyNumber ? attno : 0;
}

/* Do quals name all key columns of a unique index, each once, by equality? */
static const char *
index_refuses(IndexScan *scan)
{
	Relation	index = index_open(scan->indexid, AccessShareLock);
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	Bitmapset  *seen = NULL;
	const char *why = NULL;
	ListCell   *lc;

	if (index->rd_rel->relam != BTREE_AM_OID || !index->rd_index->indisunique || !index->rd_index->indimmediate ||
		!index->rd_index->indisvalid)
		why = "index not unique and immediate";
	foreach(lc, scan->indexqual)
	{
		int			attno = why == NULL ? equal_column(lfirst(lc), index) : 0;

		if (attno == 0 || bms_is_member(attno, seen))
		{
			why = why ? why : "not by equality on each key column";
			break;
		}
		seen = bms_add_member(seen, attno);
	}
	if (why == NULL && bms_num_members(seen) != nkeys)
		why = "not by all key columns";
	bms_free(seen);
	index_close(index, NoLock);
	return why;
}

/* Do triggers of the table do more than the node can do? */
static const char *
triggers_refuse(CmdType operation, TriggerDesc *t)
{
	if (t == NULL)
		return NULL;
	switch (operation)
	{
		case CMD_INSERT:
			if (t->trig_insert_before_row || t->trig_insert_instead_row)
				return "BEFORE or INSTEAD OF trigger";
			return t->trig_insert_new_table ? "trigger with a transition table" : NULL;
		case CMD_UPDATE:
			if (t->trig_update_before_row || t->trig_update_instead_row)
				return "BEFORE or INSTEAD OF trigger";
			return t->trig_update_old_table || t->trig_update_new_table ? "trigger with a transition table" : NULL;
		default:
			if (t->trig_delete_before_row || t->trig_delete_instead_row)
				return "BEFORE or INSTEAD OF trigger";
			return t->trig_delete_old_table ? "trigger with a transition table" : NULL;
	}
}

/* A RETURNING list may look at the new row only. */
static bool
looks_elsewhere(Node *node, void *rti)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varno != (int) *(Index *) rti || zen_var_is_old_or_new(node);
	return expression_tree_walker(node, looks_elsewhere, rti);
}

const char *
zen_point_refuses(PlannedStmt *stmt, const ZenPointShape *shape)
{
	Relation	rel = table_open(rt_fetch(shape->rti, stmt->rtable)->relid, NoLock);
	const char *why = NULL;

	if (!zen_rel_is_zen(rel))
		why = "not a zen table";
	else if (shape->change != NULL)
	{
		why = triggers_refuse(shape->change->operation, rel->trigdesc);
		if (why == NULL && looks_elsewhere((Node *) shape->change->returningLists, (void *) &shape->rti))
			why = "RETURNING of something else than the row";
	}
	table_close(rel, NoLock);
	/* the list is computed once more when the row is locked */
	if (why == NULL && shape->lock != NULL && contain_volatile_functions((Node *) shape->scan->scan.plan.targetlist))
		why = "a volatile function beside a row lock";
	if (why == NULL && shape->scan != NULL)
		why = index_refuses(shape->scan);
	return why;
}

/* Is the plan about a zen table?  Not about a view, a function, a sample. */
static bool
is_on_zen(PlannedStmt *stmt, const ZenPointShape *shape)
{
	RangeTblEntry *rte = rt_fetch(shape->rti, stmt->rtable);

	return rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION && zen_relid_is_zen(rte->relid);
}

/* ---------- the node ---------- */

uint32
zen_point_serial(const PlannedStmt *stmt)
{
	CustomScan *node = (CustomScan *) stmt->planTree;

	if (!IsA(node, CustomScan) || node->methods != &scan_methods)
		return 0;
	return (uint32) linitial_int(node->custom_private);
}

/* The child's columns, as the node gives them on. */
static List *
pass_on(List *targetlist)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, targetlist)
	{
		TargetEntry *below = lfirst_node(TargetEntry, lc);
		TargetEntry *above = flatCopyTargetEntry(below);

		above->expr = (Expr *) makeVar(INDEX_VAR, below->resno, exprType((Node *) below->expr),
									   exprTypmod((Node *) below->expr), exprCollation((Node *) below->expr), 0);
		result = lappend(result, above);
	}
	return result;
}

void
zen_point_mark(PlannedStmt *stmt)
{
	static uint32 last_serial = 0;
	Plan	   *below = stmt->planTree;
	ZenPointShape shape;
	CustomScan *node;

	if (!zen_point_shape(stmt, below, &shape) || !is_on_zen(stmt, &shape))
		return;
	if (zen_point_refuses(stmt, &shape) != NULL)
	{
		ZEN_COUNT(point_plans_refused, 1);
		return;
	}
	if (++last_serial == 0)
		last_serial = 1;
	node = makeNode(CustomScan);
	node->scan.plan.startup_cost = below->startup_cost;
	node->scan.plan.total_cost = below->total_cost;
	node->scan.plan.plan_rows = below->plan_rows;
	node->scan.plan.plan_width = below->plan_width;
	node->scan.plan.plan_node_id = -1;
	node->scan.plan.targetlist = pass_on(below->targetlist);
	node->scan.plan.extParam = bms_copy(below->extParam);
	node->scan.plan.allParam = bms_copy(below->allParam);
	node->flags = ExecSupportsBackwardScan(below) ? CUSTOMPATH_SUPPORT_BACKWARD_SCAN : 0;
	node->custom_plans = list_make1(below);
	node->custom_scan_tlist = below->targetlist;
	node->custom_private = list_make1_int((int) last_serial);
	node->methods = &scan_methods;
	stmt->planTree = (Plan *) node;
	Assert(zen_point_serial(stmt) == last_serial);
}

static Node *
create_state(CustomScan *node)
{
	CustomScanState *state = makeNode(CustomScanState);

	state->methods = &exec_methods;
	return (Node *) state;
}

static PlanState *
child(CustomScanState *node)
{
	return linitial(node->custom_ps);
}

/* The scan's slot and table are shown as the node's own, where WHERE CURRENT OF looks for a cursor's row. */
static void
begin_node(CustomScanState *node, EState *estate, int eflags)
{
	PlanState  *below = ExecInitNode(linitial(((CustomScan *) node->ss.ps.plan)->custom_plans), estate, eflags);

	node->custom_ps = list_make1(below);
	if (IsA(below, IndexScanState))
	{
		node->ss.ss_currentRelation = ((ScanState *) below)->ss_currentRelation;
		node->ss.ss_ScanTupleSlot = ((ScanState *) below)->ss_ScanTupleSlot;
	}
}

static TupleTableSlot *
exec_node(CustomScanState *node)
{
	return ExecProcNode(child(node));
}

static void
end_node(CustomScanState *node)
{
	ExecEndNode(child(node));
}

static void
rescan_node(CustomScanState *node)
{
	ExecReScan(child(node));
}

void
zen_pointplan_init(void)
{
	scan_methods.CustomName = NODE_NAME;
	scan_methods.CreateCustomScanState = create_state;
	exec_methods.CustomName = NODE_NAME;
	exec_methods.BeginCustomScan = begin_node;
	exec_methods.ExecCustomScan = exec_node;
	exec_methods.EndCustomScan = end_node;
	exec_methods.ReScanCustomScan = rescan_node;
	RegisterCustomScanMethods(&scan_methods);
}
