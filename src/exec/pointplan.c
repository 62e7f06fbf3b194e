/*
 * pointplan.c -- which plans are point accesses or can be kept, why the others are not, and the nodes that mark them.
 *
 * A point access reads, locks or changes rows of a zen table, by equality on all columns of a unique index: one row, or
 * one for each element of a list.  Or it inserts one row.
 * A kept plan consists of nodes that start again where they have begun (keptnodes.c has the table), on zen tables only.
 * The planner hook puts a CustomScan on top of such a plan.  The node bears a serial number: executor state is kept by
 * it (exec.c).  A plan's address would not do, since plans come to lie where others have lain.
 *
 * Under the standard executor the node hands on what the plan below gives, wherever the kept state does not fit (the
 * reasons NOT_USED).  EXPLAIN shows both.
 */
#include "exec/point.h"

#include "access/relscan.h"
#include "access/table.h"
#include "base/guc.h"
#include "base/stats.h"
#include "catalog/pg_class.h"
#include "exec/keptnodes.h"
#include "exec/keyprobe.h"
#include "exec/plannode.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "partitioning/partdesc.h"
#include "table/zenam_rel.h"
#include "utils/rel.h"

/* ---------- reasons ---------- */

/*
 * Three things may happen.  A plan is not kept: its form does not allow it, or it is made for one execution.  A plan is
 * kept whole, although it reads one table by an index: something hinders that it is a point access.  Or a plan is kept,
 * and one execution cannot make use of it.  Each is counted, once a plan or once an execution; a plan of other tables
 * is not.
 */
#define NOT_KEPT	"not kept"
#define WHOLE		"kept whole"
#define NOT_USED	"not used"

/* R(name, outcome, hint): each sentence of a hint is about the plan or the execution that was counted. */
#define R(name, outcome, hint)	[ZEN_WHY_##name] = {#name, outcome, hint}

static const ZenPointReason reasons[ZEN_NWHYS] = {
	R(planned_once, NOT_KEPT,
	  "It came by the simple protocol, or as dynamic SQL. Use prepared statements."),
	R(new_shape, NOT_KEPT,
	  "Statements that differ from it in values only have come fewer than five times in this session."),
	R(values_matter, NOT_KEPT,
	  "A plan for its values may cost less than one for any values."),
	R(many_values, NOT_KEPT,
	  "It has more than 100 constants."),
	R(custom_plan, NOT_KEPT,
	  "It is made for certain values of the parameters: the first five times, and where the values matter. "
	  "See plan_cache_mode."),
	R(no_parameters, NOT_KEPT,
	  "It has no parameters, and is no point access. Mostly such plans are executed once."),
	R(compiled, NOT_KEPT,
	  "It is so costly that its expressions are compiled. See jit_above_cost."),
	R(parallel, NOT_KEPT,
	  "Parallel workers take part. See max_parallel_workers_per_gather."),
	R(subquery, NOT_KEPT,
	  "It has subqueries or common table expressions that are not joins."),
	R(merge, NOT_KEPT,
	  "It is a MERGE. INSERT ... ON CONFLICT can be kept."),
	R(several_targets, NOT_KEPT,
	  "It changes a partitioned table, or one with children. Name the partition."),
	R(transition_table, NOT_KEPT,
	  "A trigger of the table has a transition table."),
	R(other_table, NOT_KEPT,
	  "Something else than a zen table takes part, as a table of another access method, or a materialized view."),
	R(aggregate, NOT_KEPT,
	  "It computes groups or windows, or an aggregate that is not one of the simple ones."),
	R(sort, NOT_KEPT,
	  "It sorts rows that are sorted in part. See enable_incremental_sort."),
	R(join, NOT_KEPT,
	  "It joins by hash or merge, or keeps rows for a join. Nested loops over indexes can be kept."),
	R(append, NOT_KEPT,
	  "It reads a partitioned table, or one with children, or is a UNION."),
	R(bitmap_scan, NOT_KEPT,
	  "It reads by a bitmap of rows. See enable_bitmapscan."),
	R(other_node, NOT_KEPT,
	  "It has another node that cannot be kept. EXPLAIN shows it."),
	R(no_table, NOT_KEPT,
	  "It reads no table: the planner knows that there is no row."),
	R(unknown_expression, NOT_KEPT,
	  "It, or its table, has an expression that may remember anything, as a subscript of an extension's type."),
	R(row_trigger, WHOLE,
	  "The table has a BEFORE row trigger for it."),
	R(returning, WHOLE,
	  "RETURNING names more than the new row."),
	R(volatile_lock, WHOLE,
	  "It locks rows and calls a volatile function."),
	R(deferrable_key, WHOLE,
	  "The index is deferrable, or not valid."),
	R(not_by_key, WHOLE,
	  "It does not name all columns of a unique index by equality, or not by values of the columns' types."),
	R(first_run, NOT_USED,
	  "The plan was executed for the first time."),
	R(forgotten, NOT_USED,
	  "A session keeps 256 plans, and others had taken the plan's place since its last execution."),
	R(nested, NOT_USED,
	  "The same plan was being executed, as when a trigger calls its function again."),
	R(instrumented, NOT_USED,
	  "Somebody measured its nodes: EXPLAIN ANALYZE, or auto_explain.log_analyze."),
	R(cursor, NOT_USED,
	  "A cursor may go back. Declare it with NO SCROLL."),
	R(read_only, NOT_USED,
	  "The transaction may not write."),
	R(own_row, NOT_USED,
	  "A transaction with one snapshot has inserted a key that another has deleted meanwhile."),
	R(changed, NOT_USED,
	  "A table or a function was changed since the plan was made, or while it was started."),
};

const ZenPointReason *
zen_point_reason(int why)
{
	Assert(why > ZEN_WHY_NONE);
	return why < ZEN_NWHYS ? &reasons[why] : NULL;
}

void
zen_point_count_reason(ZenPointWhy why)
{
	if (why == ZEN_WHY_NONE)
		return;
	zen_my_counters[ZEN_C_no_reason + why]++;
	if (unlikely(message_level_is_interesting(DEBUG1)))
	{
		const ZenPointReason *reason = zen_point_reason(why);

		ereport(DEBUG1,
				(errmsg_internal("zen: executor state is %s: %s", reason->outcome, reason->name),
				 errdetail_internal("%s", reason->hint)));
	}
}

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

/* Is this plan a point access by its form?  *shape gets its parts.  Looks at no catalog. */
static bool
find_shape(PlannedStmt *stmt, Plan *plan, ZenPointShape *shape)
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

/* Has a table triggers that may change or suppress the row of a change? */
static bool
has_row_triggers(Oid relid, CmdType operation)
{
	Relation	rel = table_open(relid, NoLock);
	TriggerDesc *t = rel->trigdesc;
	bool		result = t != NULL &&
	((operation == CMD_INSERT && (t->trig_insert_before_row || t->trig_insert_instead_row)) ||
	 (operation == CMD_UPDATE && (t->trig_update_before_row || t->trig_update_instead_row)) ||
	 (operation == CMD_DELETE && (t->trig_delete_before_row || t->trig_delete_instead_row)));

	table_close(rel, NoLock);
	return result;
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
	Plan	   *plan = shape->change != NULL ? &shape->change->plan : &shape->scan->scan.plan;
	ZenPointWhy why = zen_keptnodes_kind(plan)->refuses(stmt, plan);

	if (why != ZEN_WHY_NONE)
		return why;
	if (shape->change != NULL)
	{
		if (has_row_triggers(rt_fetch(shape->rti, stmt->rtable)->relid, shape->change->operation))
			return ZEN_WHY_row_trigger;
		if (looks_elsewhere((Node *) shape->change->returningLists, (void *) &shape->rti))
			return ZEN_WHY_returning;
	}
	/* the list is computed once more when the row is locked */
	if (shape->lock != NULL && contain_volatile_functions((Node *) shape->scan->scan.plan.targetlist))
		return ZEN_WHY_volatile_lock;
	return shape->scan != NULL ? zen_keyprobe_refuses(shape->scan->indexid, shape->scan->indexqual, false) :
		ZEN_WHY_NONE;
}

/* ---------- the nodes, under the standard executor ---------- */

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
point_node_begin(CustomScanState *node, EState *estate, int eflags)
{
	PlanState  *below;
	ScanState  *scan;

	/* this is the uppermost node: nothing has looked for parameters yet */
	Assert(estate->es_plannedstmt->planTree == node->ss.ps.plan);
	estate->es_param_list_info = zen_point_params(node->ss.ps.plan, estate->es_param_list_info, estate->es_query_cxt);
	below = ExecInitNode(outerPlan(node->ss.ps.plan), estate, eflags);
	scan = current_scan(below);
	outerPlanState(node) = below;
	if (scan != NULL)
	{
		node->ss.ss_currentRelation = scan->ss_currentRelation;
		node->ss.ss_ScanTupleSlot = scan->ss_ScanTupleSlot;
	}
}

static TupleTableSlot *
point_node_exec(CustomScanState *node)
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

/* By ZenPointKind. */
static ZenPlanNode point_nodes[] = {
	[ZEN_POINT_ROW] = {.scan.CustomName = "ZenPointAccess"},
	[ZEN_POINT_PLAN] = {.scan.CustomName = "ZenKeptPlan"},
};

void
zen_pointplan_init(void)
{
	for (ZenPointKind kind = ZEN_POINT_ROW; kind <= ZEN_POINT_PLAN; kind++)
	{
		ZenPlanNode *node = &point_nodes[kind];

		node->exec.BeginCustomScan = point_node_begin;
		node->exec.ExecCustomScan = point_node_exec;
		node->state_size = sizeof(CustomScanState);
		zen_plannode_register(node);
	}
}

/* ---------- marked plans ---------- */

static CustomScan *
marked(const PlannedStmt *stmt)
{
	CustomScan *node = (CustomScan *) stmt->planTree;

	return IsA(node, CustomScan) && (node->methods == &point_nodes[ZEN_POINT_ROW].scan ||
									 node->methods == &point_nodes[ZEN_POINT_PLAN].scan) ? node : NULL;
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

/* ---------- values ---------- */

/* The node's custom_exprs: nothing but the values, Consts. */
PlannedStmt *
zen_point_with_values(const PlannedStmt *stmt, List *values)
{
	PlannedStmt *result = makeNode(PlannedStmt);
	CustomScan *node = makeNode(CustomScan);

	*result = *stmt;
	*node = *marked(stmt);
	node->custom_exprs = values;
	result->planTree = &node->scan.plan;
	return result;
}

PlannedStmt *
zen_point_copy(const PlannedStmt *stmt)
{
	PlannedStmt plain = *stmt;
	CustomScan	node = *marked(stmt);

	node.custom_exprs = NIL;
	plain.planTree = &node.scan.plan;
	return copyObject(&plain);
}

ParamListInfo
zen_point_params(const Plan *plan, ParamListInfo given, MemoryContext context)
{
	List	   *values = castNode(CustomScan, (Plan *) plan)->custom_exprs;
	int			ngiven = given != NULL ? given->numParams : 0;
	MemoryContext old;
	ParamListInfo params;
	ListCell   *lc;

	if (values == NIL)
		return given;
	Assert(given == NULL || given->paramFetch == NULL);
	old = MemoryContextSwitchTo(context);
	params = makeParamList(ngiven + list_length(values));
	MemoryContextSwitchTo(old);
	for (int i = 0; i < ngiven; i++)
		params->params[i] = given->params[i];
	foreach(lc, values)
	{
		const Const *c = lfirst_node(Const, lc);
		ParamExternData *p = &params->params[ngiven + foreach_current_index(lc)];

		p->value = c->constvalue;
		p->isnull = c->constisnull;
		p->pflags = PARAM_FLAG_CONST;
		p->ptype = c->consttype;
	}
	return params;
}

/* ---------- does it fit yet? ---------- */

bool
zen_point_still_fits(PlannedStmt *stmt, ZenPointShape *shape)
{
	Plan	   *plan = outerPlan(stmt->planTree);

	if (zen_memory_kind(stmt, plan) == ZEN_MEMORY_ANY)
		return false;
	if (zen_point_kind(stmt) == ZEN_POINT_PLAN)
		return zen_keptnodes_refuse(stmt, plan) == ZEN_WHY_NONE;
	return find_shape(stmt, plan, shape) && shape_refuses(stmt, shape) == ZEN_WHY_NONE;
}

/* ---------- marking ---------- */

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

static bool
has_parameters(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXTERN)
		return true;
	return expression_tree_walker(node, has_parameters, context);
}

/* How a plan is to be executed again and again, and why not as a point access, or not at all. */
static ZenPointKind
kind_of(PlannedStmt *stmt, ZenPointWhy *why)
{
	ZenPointShape shape;
	ZenPointWhy not_kept = ZEN_WHY_NONE;
	bool		by_row = find_shape(stmt, stmt->planTree, &shape);

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
	return by_row ? ZEN_POINT_ROW : ZEN_POINT_PLAN;
}

ZenPointWhy
zen_point_refuses(PlannedStmt *stmt)
{
	ZenPointWhy why;

	if (!names_zen_table(stmt))
		return ZEN_WHY_other_table;
	return kind_of(stmt, &why) == ZEN_POINT_NONE ? why : ZEN_WHY_NONE;
}

/* Most plans without parameters are executed only once, or made for EXPLAIN. */
static bool
is_worth_keeping(const PlannedStmt *stmt, ZenPointKind kind, bool again)
{
	return kind == ZEN_POINT_ROW || again || zen_debug_keep_plans ||
		zen_keptnodes_walk(stmt->planTree, has_parameters, NULL);
}

ZenPointWhy
zen_point_mark(PlannedStmt *stmt, ZenPointWhy once, bool again)
{
	static uint32 last_serial = 0;
	ZenPointWhy why;
	ZenPointKind kind;
	CustomScan *node;

	if (!names_zen_table(stmt))
		return ZEN_WHY_NONE;
	if (once != ZEN_WHY_NONE)
		return once;
	kind = kind_of(stmt, &why);
	if (kind == ZEN_POINT_NONE)
		return why;
	if (!is_worth_keeping(stmt, kind, again))
		return ZEN_WHY_no_parameters;
	if (++last_serial == 0)
		last_serial = 1;
	node = zen_plannode_make(stmt->planTree, &point_nodes[kind]);
	node->custom_private = list_make2_int((int) last_serial, (int) kind);
	stmt->planTree = &node->scan.plan;
	Assert(zen_point_serial(stmt) == last_serial);
	return why;
}
