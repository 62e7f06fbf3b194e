/*
 * pointplan.c -- which plans are point accesses or can be kept, and the nodes that mark them.
 *
 * A point access reads, locks, changes or inserts one row of a zen table, by equality on all columns of a unique index.
 * A kept plan consists of nodes that start again where they have begun (is_keepable has the list), on zen tables only.
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
#include "access/nbtree.h"
#include "access/relscan.h"
#include "base/stats.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "jit/jit.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "table/treeindex.h"
#include "table/zenam_rel.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* Of the nodes; by ZenPointKind. */
static CustomScanMethods scan_methods[] = {
	[ZEN_POINT_ROW] = {.CustomName = "ZenPointAccess"},
	[ZEN_POINT_PLAN] = {.CustomName = "ZenKeptPlan"},
};
static CustomExecMethods exec_methods;

static Node *create_state(CustomScan *node);

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

/* The column that a qual compares, and what it compares it with; *list: with each element of an array. */
static Var *
compared_column(Expr *qual, Oid *operator, Expr **with, bool *list)
{
	List	   *args;

	if (IsA(qual, OpExpr))
	{
		*operator = ((OpExpr *) qual)->opno;
		args = ((OpExpr *) qual)->args;
	}
	else if (IsA(qual, ScalarArrayOpExpr) && ((ScalarArrayOpExpr *) qual)->useOr)
	{
		*operator = ((ScalarArrayOpExpr *) qual)->opno;
		args = ((ScalarArrayOpExpr *) qual)->args;
		*list = true;
	}
	else
		return NULL;
	if (list_length(args) != 2 || !IsA(linitial(args), Var))
		return NULL;
	*with = lsecond(args);
	return linitial(args);
}

/* Does a qual say that a key column of the index equals what no row of the table has a part in?  Which column? */
static int
equal_column(Expr *qual, Relation index, bool *list)
{
	Oid			operator;
	Expr	   *with;
	Var		   *column = compared_column(qual, &operator, &with, list);
	int			attno = column != NULL ? column->varattno : 0;
	int			strategy;
	Oid			left,
				right;

	if (attno < 1 || attno > IndexRelationGetNumberOfKeyAttributes(index) || contain_var_clause((Node *) with))
		return 0;
	if (get_op_opfamily_strategy(operator, index->rd_opfamily[attno - 1]) != BTEqualStrategyNumber)
		return 0;
	get_op_opfamily_properties(operator, index->rd_opfamily[attno - 1], false, &strategy, &left, &right);
	/* elements are put in order */
	if (*list && !OidIsValid(get_opfamily_proc(index->rd_opfamily[attno - 1], right, right, BTORDER_PROC)))
		return 0;
	return attno;
}

/* Do quals name all key columns of a unique index, each once, by equality; one of them perhaps by a list? */
static const char *
index_refuses(IndexScan *scan)
{
	Relation	index = index_open(scan->indexid, AccessShareLock);
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	Bitmapset  *seen = NULL;
	int			nlists = 0;
	const char *why = NULL;
	ListCell   *lc;

	if (!zen_index_is_like_btree(index) || !index->rd_index->indisunique || !index->rd_index->indimmediate ||
		!index->rd_index->indisvalid)
		why = "index not unique and immediate";
	foreach(lc, scan->indexqual)
	{
		bool		list = false;
		int			attno = why == NULL ? equal_column(lfirst(lc), index, &list) : 0;

		nlists += list;
		if (attno == 0 || nlists > 1 || bms_is_member(attno, seen))
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

/* Is an entry of the range table a zen table?  Not a view, a function, a sample. */
static bool
is_zen_table(PlannedStmt *stmt, Index rti)
{
	RangeTblEntry *rte = rt_fetch(rti, stmt->rtable);

	return rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION && zen_relid_is_zen(rte->relid);
}

/* ---------- plans kept whole ---------- */

/* Transition tables are made as the state is: they cannot be kept. */
static bool
has_transition_tables(TriggerDesc *t, bool inserts, bool updates, bool deletes)
{
	return t != NULL && ((inserts && t->trig_insert_new_table) ||
						 (updates && (t->trig_update_old_table || t->trig_update_new_table)) ||
						 (deletes && t->trig_delete_old_table));
}

static bool
is_keepable_change(PlannedStmt *stmt, ModifyTable *change)
{
	bool		upsert = change->onConflictAction == ONCONFLICT_UPDATE;
	bool		keepable;
	Index		rti;
	Relation	rel;

	if (list_length(change->resultRelations) != 1 || change->rootRelation != 0 ||
		change->operation == CMD_MERGE || stmt->planTree != (Plan *) change)
		return false;
	rti = (Index) linitial_int(change->resultRelations);
	if (!is_zen_table(stmt, rti))
		return false;
	rel = table_open(rt_fetch(rti, stmt->rtable)->relid, NoLock);
	keepable = !has_transition_tables(rel->trigdesc, change->operation == CMD_INSERT,
									  change->operation == CMD_UPDATE || upsert, change->operation == CMD_DELETE);
	table_close(rel, NoLock);
	return keepable;
}

/*
 * Nodes that are as new after a rescan, and hold nothing of the transaction but what pointnodes.c opens and closes.
 * Not in this list: nodes that open a scan as they are made, sort or hash into files, or run other processes.
 */
static bool
is_keepable(PlannedStmt *stmt, Plan *plan)
{
	if (plan == NULL)
		return true;
	check_stack_depth();
	if (plan->initPlan != NIL || plan->parallel_aware)
		return false;
	switch (nodeTag(plan))
	{
		case T_ModifyTable:
			if (!is_keepable_change(stmt, (ModifyTable *) plan))
				return false;
			break;
		case T_SeqScan:
			if (!is_zen_table(stmt, ((Scan *) plan)->scanrelid))
				return false;
			break;
		case T_IndexScan:
			if (((IndexScan *) plan)->indexorderby != NIL || !is_zen_table(stmt, ((Scan *) plan)->scanrelid))
				return false;
			break;
		case T_IndexOnlyScan:
			if (((IndexOnlyScan *) plan)->indexorderby != NIL || !is_zen_table(stmt, ((Scan *) plan)->scanrelid))
				return false;
			break;
		case T_Result:
		case T_ValuesScan:
		case T_NestLoop:
		case T_Limit:
		case T_LockRows:
			break;
		default:
			return false;
	}
	return is_keepable(stmt, outerPlan(plan)) && is_keepable(stmt, innerPlan(plan));
}

bool
zen_point_walk_plan(Plan *plan, bool (*walker) (Node *, void *), void *context)
{
	List	   *more = NIL;

	if (plan == NULL)
		return false;
	switch (nodeTag(plan))
	{
		case T_IndexScan:
			more = list_make1(((IndexScan *) plan)->indexqualorig);
			break;
		case T_IndexOnlyScan:
			more = list_make1(((IndexOnlyScan *) plan)->indexqual);
			break;
		case T_Result:
			more = list_make1(((Result *) plan)->resconstantqual);
			break;
		case T_ValuesScan:
			more = list_make1(((ValuesScan *) plan)->values_lists);
			break;
		case T_NestLoop:
			more = list_make1(((Join *) plan)->joinqual);
			break;
		case T_Limit:
			more = list_make2(((Limit *) plan)->limitOffset, ((Limit *) plan)->limitCount);
			break;
		case T_ModifyTable:
			more = list_make4(((ModifyTable *) plan)->withCheckOptionLists, ((ModifyTable *) plan)->returningLists,
							  ((ModifyTable *) plan)->onConflictSet, ((ModifyTable *) plan)->onConflictWhere);
			break;
		default:
			break;
	}
	return walker((Node *) plan->targetlist, context) || walker((Node *) plan->qual, context) ||
		walker((Node *) more, context) ||
		zen_point_walk_plan(outerPlan(plan), walker, context) || zen_point_walk_plan(innerPlan(plan), walker, context);
}

static pg_attribute_unused()
bool
has_parameters(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXTERN)
		return true;
	return expression_tree_walker(node, has_parameters, context);
}

/* Does a plan read or change a table at all?  Any other is cheap to start. */
static bool
has_tables(Plan *plan)
{
	if (plan == NULL)
		return false;
	return IsA(plan, SeqScan) || IsA(plan, IndexScan) || IsA(plan, IndexOnlyScan) || IsA(plan, ModifyTable) ||
		has_tables(outerPlan(plan)) || has_tables(innerPlan(plan));
}

bool
zen_point_keepable(PlannedStmt *stmt, Plan *plan)
{
	PlannedStmt whole = *stmt;

	whole.planTree = plan;
	return stmt->commandType != CMD_UTILITY && stmt->utilityStmt == NULL &&
		stmt->subplans == NIL && !stmt->hasModifyingCTE &&
		!stmt->parallelModeNeeded && stmt->jitFlags == PGJIT_NONE &&
		has_tables(plan) && is_keepable(&whole, plan);
}

/* ---------- the nodes ---------- */

static CustomScan *
marked(const PlannedStmt *stmt)
{
	CustomScan *node = (CustomScan *) stmt->planTree;

	return IsA(node, CustomScan) && node->methods->CreateCustomScanState == create_state ? node : NULL;
}

uint32
zen_point_serial(const PlannedStmt *stmt)
{
	CustomScan *node = marked(stmt);

	return node != NULL ? (uint32) linitial_int(node->custom_private) : 0;
}

ZenPointKind
zen_point_kind(const PlannedStmt *stmt)
{
	Assert(marked(stmt) != NULL);
	return (ZenPointKind) lsecond_int(marked(stmt)->custom_private);
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

/* An expression of a plan, by columns of tables and not by those of the plans below: EXPLAIN VERBOSE shows it. */
static Node *
by_tables(Node *node, void *plan)
{
	Var		   *var = (Var *) node;
	Plan	   *below = NULL;
	List	   *targetlist = NIL;
	TargetEntry *entry;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Var))
		return expression_tree_mutator(node, by_tables, plan);
	if (var->varno == OUTER_VAR)
		below = outerPlan((Plan *) plan);
	else if (var->varno == INNER_VAR)
		below = innerPlan((Plan *) plan);
	else if (var->varno == INDEX_VAR && IsA(plan, IndexOnlyScan))
		targetlist = ((IndexOnlyScan *) plan)->indextlist;
	entry = get_tle_by_resno(below != NULL ? below->targetlist : targetlist, var->varattno);
	if (entry == NULL)
		return copyObject(node);
	return below != NULL ? by_tables((Node *) entry->expr, below) : copyObject((Node *) entry->expr);
}

/* How a plan is to be executed again and again. */
static ZenPointKind
kind_of(PlannedStmt *stmt)
{
	ZenPointShape shape;
	bool		point = zen_point_shape(stmt, stmt->planTree, &shape) && is_zen_table(stmt, shape.rti);

	if (point && zen_point_refuses(stmt, &shape) == NULL)
		return ZEN_POINT_ROW;

	/*
	 * a plan without parameters is mostly executed once only, and shown to
	 * people
	 */
	if (zen_point_keepable(stmt, stmt->planTree) && zen_point_walk_plan(stmt->planTree, has_parameters, NULL))
		return ZEN_POINT_PLAN;
	if (point)
		ZEN_COUNT(point_plans_refused, 1);
	return ZEN_POINT_NONE;
}

void
zen_point_mark(PlannedStmt *stmt)
{
	static uint32 last_serial = 0;
	Plan	   *below = stmt->planTree;
	ZenPointKind kind = kind_of(stmt);
	CustomScan *node;

	if (kind == ZEN_POINT_NONE)
		return;
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
	node->custom_scan_tlist = (List *) by_tables((Node *) below->targetlist, below);
	node->custom_private = list_make2_int((int) last_serial, (int) kind);
	node->methods = &scan_methods[kind];
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

/* The scan whose row is the current one of a cursor; NULL if none is. */
static ScanState *
current_scan(PlanState *node)
{
	while (IsA(node, LimitState) || IsA(node, ResultState))
	{
		node = outerPlanState(node);
		if (node == NULL)
			return NULL;
	}
	return IsA(node, IndexScanState) || IsA(node, IndexOnlyScanState) || IsA(node, SeqScanState) ?
		(ScanState *) node : NULL;
}

/* The scan's slot and table are shown as the node's own, where WHERE CURRENT OF looks for a cursor's row. */
static void
begin_node(CustomScanState *node, EState *estate, int eflags)
{
	PlanState  *below = ExecInitNode(linitial(((CustomScan *) node->ss.ps.plan)->custom_plans), estate, eflags);
	ScanState  *scan = current_scan(below);

	node->custom_ps = list_make1(below);
	if (scan != NULL)
	{
		node->ss.ss_currentRelation = scan->ss_currentRelation;
		node->ss.ss_ScanTupleSlot = scan->ss_ScanTupleSlot;
	}
}

static TupleTableSlot *
exec_node(CustomScanState *node)
{
	TupleTableSlot *row = ExecProcNode(child(node));
	ScanState  *scan;

	/*
	 * WHERE CURRENT OF asks an index-only scan's descriptor, but any other
	 * node's slot
	 */
	if (!TupIsNull(row) && (scan = current_scan(child(node))) != NULL && IsA(scan, IndexOnlyScanState))
	{
		scan->ss_ScanTupleSlot->tts_tid = ((IndexOnlyScanState *) scan)->ioss_ScanDesc->xs_heaptid;
		scan->ss_ScanTupleSlot->tts_tableOid = RelationGetRelid(scan->ss_currentRelation);
	}
	return row;
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
	exec_methods.CustomName = "zen";
	exec_methods.BeginCustomScan = begin_node;
	exec_methods.ExecCustomScan = exec_node;
	exec_methods.EndCustomScan = end_node;
	exec_methods.ReScanCustomScan = rescan_node;
	for (ZenPointKind kind = ZEN_POINT_ROW; kind <= ZEN_POINT_PLAN; kind++)
	{
		scan_methods[kind].CreateCustomScanState = create_state;
		RegisterCustomScanMethods(&scan_methods[kind]);
	}
}
