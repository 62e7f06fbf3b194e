/*
 * pointplan.c -- which plans are point accesses or can be kept, and the nodes that mark them.
 *
 * A point access reads, locks or changes rows of a zen table, by equality on all columns of a unique index: one row, or
 * one for each element of a list.  Or it inserts one row.
 * A kept plan consists of nodes that start again where they have begun (keptnodes.c has the table), on zen tables only.
 * The planner hook puts a CustomScan on top of such a plan.  The node bears a serial number: executor state is kept by
 * it (pointstate.c).  A plan's address would not do, since plans come to lie where others have lain.
 *
 * Under the standard executor the node hands on what the plan below gives: with EXPLAIN ANALYZE, in cursors that go
 * backward, and wherever else the kept state does not fit (exec.c has the list).  EXPLAIN shows both.
 */
#include "exec/pointplan.h"

#include "access/relscan.h"
#include "access/table.h"
#include "base/guc.h"
#include "base/stats.h"
#include "catalog/pg_class.h"
#include "exec/keptnodes.h"
#include "exec/keyprobe.h"
#include "exec/passon.h"
#include "exec/pointmemory.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "partitioning/partdesc.h"
#include "table/zenam_rel.h"
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

/* Do triggers of the table do more than the node can do? */
static ZenPointWhy
triggers_refuse(CmdType operation, TriggerDesc *t)
{
	if (t == NULL)
		return ZEN_WHY_NONE;
	switch (operation)
	{
		case CMD_INSERT:
			if (t->trig_insert_before_row || t->trig_insert_instead_row)
				return ZEN_WHY_row_trigger;
			return t->trig_insert_new_table ? ZEN_WHY_transition_table : ZEN_WHY_NONE;
		case CMD_UPDATE:
			if (t->trig_update_before_row || t->trig_update_instead_row)
				return ZEN_WHY_row_trigger;
			return t->trig_update_old_table || t->trig_update_new_table ? ZEN_WHY_transition_table : ZEN_WHY_NONE;
		default:
			if (t->trig_delete_before_row || t->trig_delete_instead_row)
				return ZEN_WHY_row_trigger;
			return t->trig_delete_old_table ? ZEN_WHY_transition_table : ZEN_WHY_NONE;
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

/* Why does a table's or an index's definition keep a plan of that shape from being a point access? */
static ZenPointWhy
shape_refuses(PlannedStmt *stmt, const ZenPointShape *shape)
{
	ZenPointWhy why = ZEN_WHY_NONE;

	if (!zen_keptnodes_is_zen(stmt, shape->rti))
		return ZEN_WHY_other_table;
	if (shape->change != NULL)
	{
		Relation	rel = table_open(rt_fetch(shape->rti, stmt->rtable)->relid, NoLock);

		why = triggers_refuse(shape->change->operation, rel->trigdesc);
		table_close(rel, NoLock);
		if (why == ZEN_WHY_NONE && looks_elsewhere((Node *) shape->change->returningLists, (void *) &shape->rti))
			why = ZEN_WHY_returning;
	}
	/* the list is computed once more when the row is locked */
	if (why == ZEN_WHY_NONE && shape->lock != NULL &&
		contain_volatile_functions((Node *) shape->scan->scan.plan.targetlist))
		why = ZEN_WHY_volatile_lock;
	if (why == ZEN_WHY_NONE && shape->scan != NULL)
		why = zen_keyprobe_refuses(shape->scan->indexid, shape->scan->indexqual, true);
	return why;
}

static bool
has_parameters(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXTERN)
		return true;
	return expression_tree_walker(node, has_parameters, context);
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

Plan *
zen_point_plan(const PlannedStmt *stmt)
{
	Assert(marked(stmt) != NULL);
	return outerPlan(stmt->planTree);
}

bool
zen_point_still_fits(PlannedStmt *stmt)
{
	Plan	   *plan = zen_point_plan(stmt);
	ZenPointShape shape;

	if (zen_memory_kind(stmt, plan) == ZEN_MEMORY_ANY)
		return false;
	if (zen_point_kind(stmt) == ZEN_POINT_PLAN)
		return zen_keptnodes_refuse(stmt, plan) == ZEN_WHY_NONE;
	return zen_point_shape(stmt, plan, &shape) && shape_refuses(stmt, &shape) == ZEN_WHY_NONE;
}

/* A zen table, or a partitioned table of which the first partition is one.  The planner has locked all tables. */
static bool
is_zen_or_parent(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);
	bool		result = false;

	if (!RelationIsValid(rel))
		return false;
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
	{
		PartitionDesc partitions = RelationGetPartitionDesc(rel, true);

		result = partitions->nparts > 0 && zen_relid_is_zen(partitions->oids[0]);
	}
	else
		result = zen_rel_is_zen(rel);
	RelationClose(rel);
	return result;
}

/* Has a plan to do with a zen table at all? */
static bool
names_zen_table(const PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);

		if (rte->rtekind == RTE_RELATION && is_zen_or_parent(rte->relid))
			return true;
	}
	return false;
}

/* How a plan is to be executed again and again, and why not as a point access, or not at all. */
static ZenPointKind
kind_of(PlannedStmt *stmt, ZenPointWhy *why)
{
	ZenPointShape shape;
	ZenPointWhy not_kept = ZEN_WHY_NONE;
	bool		by_row = zen_point_shape(stmt, stmt->planTree, &shape);

	*why = by_row ? shape_refuses(stmt, &shape) : ZEN_WHY_NONE;
	by_row = by_row && *why == ZEN_WHY_NONE;
	if (!by_row)
		not_kept = zen_keptnodes_refuse(stmt, stmt->planTree);
	if (not_kept == ZEN_WHY_NONE && zen_memory_kind(stmt, stmt->planTree) == ZEN_MEMORY_ANY)
		not_kept = ZEN_WHY_unknown_expression;
	if (not_kept != ZEN_WHY_NONE)
	{
		*why = not_kept;
		return ZEN_POINT_NONE;
	}
	if (by_row)
		return ZEN_POINT_ROW;

	/*
	 * a plan without parameters is mostly executed only once, or made for
	 * EXPLAIN
	 */
	if (zen_debug_keep_plans || zen_keptnodes_walk(stmt->planTree, has_parameters, NULL))
		return ZEN_POINT_PLAN;
	*why = ZEN_WHY_no_parameters;
	return ZEN_POINT_NONE;
}

void
zen_point_mark(PlannedStmt *stmt, ZenPointWhy once)
{
	static uint32 last_serial = 0;
	ZenPointWhy why = once;
	ZenPointKind kind;
	CustomScan *node;

	if (!names_zen_table(stmt))
		return;
	kind = once == ZEN_WHY_NONE ? kind_of(stmt, &why) : ZEN_POINT_NONE;
	if (why != ZEN_WHY_NONE)
		zen_point_count(why);
	if (kind == ZEN_POINT_NONE)
		return;
	if (++last_serial == 0)
		last_serial = 1;
	node = zen_passon_make(stmt->planTree, &scan_methods[kind]);
	node->custom_private = list_make2_int((int) last_serial, (int) kind);
	stmt->planTree = &node->scan.plan;
	Assert(zen_point_serial(stmt) == last_serial);
}

static Node *
create_state(CustomScan *node)
{
	CustomScanState *state = makeNode(CustomScanState);

	state->methods = &exec_methods;
	return (Node *) state;
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
	PlanState  *below = ExecInitNode(outerPlan(node->ss.ps.plan), estate, eflags);
	ScanState  *scan = current_scan(below);

	outerPlanState(node) = below;
	if (scan != NULL)
	{
		node->ss.ss_currentRelation = scan->ss_currentRelation;
		node->ss.ss_ScanTupleSlot = scan->ss_ScanTupleSlot;
	}
}

static TupleTableSlot *
exec_node(CustomScanState *node)
{
	TupleTableSlot *row = ExecProcNode(outerPlanState(node));
	ScanState  *scan;

	/*
	 * WHERE CURRENT OF asks an index-only scan's descriptor, but any other
	 * node's slot
	 */
	if (!TupIsNull(row) && (scan = current_scan(outerPlanState(node))) != NULL && IsA(scan, IndexOnlyScanState))
	{
		scan->ss_ScanTupleSlot->tts_tid = ((IndexOnlyScanState *) scan)->ioss_ScanDesc->xs_heaptid;
		scan->ss_ScanTupleSlot->tts_tableOid = RelationGetRelid(scan->ss_currentRelation);
	}
	return row;
}

static void
end_node(CustomScanState *node)
{
	ExecEndNode(outerPlanState(node));
}

static void
rescan_node(CustomScanState *node)
{
	ExecReScan(outerPlanState(node));
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
