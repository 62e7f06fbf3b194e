/*
 * keptnodes.c -- the one table of the executor's nodes: which can be kept and how these start again, and why the others
 * cannot.
 *
 * README, "Plans kept whole", says what a node must be like.  Nodes are not that open a scan as they are made, have a
 * hash table, or run other processes.
 */
#include "exec/keptnodes.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "exec/batch.h"
#include "executor/executor.h"
#include "jit/jit.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "table/treeindex.h"
#include "table/zenam_rel.h"
#include "utils/rel.h"
#include "utils/tuplesort.h"

/* ---------- which can be kept ---------- */

/* Is an entry of the range table a zen table?  Not a view, a function, a sample. */
static bool
is_zen_table(const PlannedStmt *stmt, Index rti)
{
	RangeTblEntry *rte = rt_fetch(rti, stmt->rtable);

	return rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION && zen_relid_is_zen(rte->relid);
}

static ZenPointWhy
scan_refuses(const PlannedStmt *stmt, const Plan *plan)
{
	return is_zen_table(stmt, ((const Scan *) plan)->scanrelid) ? ZEN_WHY_NONE : ZEN_WHY_other_table;
}

/* An order by distance keeps a queue of rows. */
static ZenPointWhy
index_refuses(const PlannedStmt *stmt, const Plan *plan)
{
	List	   *orderby = IsA(plan, IndexScan) ? ((const IndexScan *) plan)->indexorderby :
	((const IndexOnlyScan *) plan)->indexorderby;
	ZenPointWhy why = scan_refuses(stmt, plan);

	return why == ZEN_WHY_NONE && orderby != NIL ? ZEN_WHY_other_node : why;
}

/* An expression with an aggregate of which it is not known what it remembers. */
static bool
has_other_aggregate(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
		return !zen_batchagg_is_plain((Aggref *) node);
	return expression_tree_walker(node, has_other_aggregate, context);
}

/* Groups have a hash table, or keep rows. */
static ZenPointWhy
agg_refuses(const PlannedStmt *stmt, const Plan *plan)
{
	const Agg  *agg = (const Agg *) plan;

	return agg->aggstrategy != AGG_PLAIN || agg->aggsplit != AGGSPLIT_SIMPLE || agg->groupingSets != NIL ||
		has_other_aggregate((Node *) plan->targetlist, NULL) || has_other_aggregate((Node *) plan->qual, NULL) ?
		ZEN_WHY_aggregate : ZEN_WHY_NONE;
}

/* Transition tables are made as the state is: they cannot be kept. */
static bool
has_transition_tables(TriggerDesc *t, bool inserts, bool updates, bool deletes)
{
	return t != NULL && ((inserts && t->trig_insert_new_table) ||
						 (updates && (t->trig_update_old_table || t->trig_update_new_table)) ||
						 (deletes && t->trig_delete_old_table));
}

static ZenPointWhy
change_refuses(const PlannedStmt *stmt, const Plan *plan)
{
	const ModifyTable *change = (const ModifyTable *) plan;
	bool		upsert = change->onConflictAction == ONCONFLICT_UPDATE;
	Index		rti = (Index) linitial_int(change->resultRelations);
	bool		transitions;
	Relation	rel;

	if (change->operation == CMD_MERGE)
		return ZEN_WHY_merge;
	if (list_length(change->resultRelations) != 1 || change->rootRelation != 0 ||
		rt_fetch(rti, stmt->rtable)->relkind == RELKIND_PARTITIONED_TABLE)
		return ZEN_WHY_several_targets;
	if (!is_zen_table(stmt, rti))
		return ZEN_WHY_other_table;
	rel = table_open(rt_fetch(rti, stmt->rtable)->relid, NoLock);
	transitions = has_transition_tables(rel->trigdesc, change->operation == CMD_INSERT,
										change->operation == CMD_UPDATE || upsert, change->operation == CMD_DELETE);
	table_close(rel, NoLock);
	return transitions ? ZEN_WHY_transition_table : ZEN_WHY_NONE;
}

/* ---------- open and close ---------- */

#define INDEX_PARTS(scan, p) \
	{ \
		&(scan)->p##_RelationDesc, &(scan)->p##_ScanDesc, (scan)->p##_ScanKeys, (scan)->p##_NumScanKeys, \
		(scan)->p##_RuntimeKeys, (scan)->p##_NumRuntimeKeys, (scan)->p##_RuntimeContext, &(scan)->p##_RuntimeKeysReady \
	}

bool
zen_keptnodes_index(PlanState *node, ZenIndexState *parts)
{
	if (IsA(node, IndexScanState))
	{
		ZenIndexState found = INDEX_PARTS((IndexScanState *) node, iss);

		*parts = found;
		return true;
	}
	if (IsA(node, IndexOnlyScanState))
	{
		ZenIndexState found = INDEX_PARTS((IndexOnlyScanState *) node, ioss);

		*parts = found;
		return true;
	}
	return false;
}

static void
kept_open_index(PlanState *node)
{
	Scan	   *plan = (Scan *) node->plan;
	Oid			id = IsA(plan, IndexScan) ? ((IndexScan *) plan)->indexid : ((IndexOnlyScan *) plan)->indexid;
	ZenIndexState parts = {0};

	(void) zen_keptnodes_index(node, &parts);
	Assert(*parts.index == NULL && *parts.scan == NULL);
	*parts.keys_ready = false;
	*parts.index = index_open(id, exec_rt_fetch(plan->scanrelid, node->state)->rellockmode);
}

static void
close_index(PlanState *node)
{
	ZenIndexState parts = {0};

	(void) zen_keptnodes_index(node, &parts);
	Assert(*parts.index != NULL);
	if (IsA(node, IndexOnlyScanState))
	{
		Buffer	   *map = &((IndexOnlyScanState *) node)->ioss_VMBuffer;

		if (BufferIsValid(*map))
			ReleaseBuffer(*map);
		*map = InvalidBuffer;
	}
	if (*parts.scan != NULL)
		index_endscan(*parts.scan);
	index_close(*parts.index, NoLock);
	*parts.scan = NULL;
	*parts.index = NULL;
}

static void
close_scan(PlanState *node)
{
	ScanState  *scan = (ScanState *) node;

	if (scan->ss_currentScanDesc != NULL)
		table_endscan(scan->ss_currentScanDesc);
	scan->ss_currentScanDesc = NULL;
}

/* Of an outer join: the row was filled once, and cleared with the others. */
static void
open_loop(PlanState *node)
{
	TupleTableSlot *nulls = ((NestLoopState *) node)->nl_NullInnerTupleSlot;

	if (nulls != NULL)
		ExecStoreAllNullTuple(nulls);
}

/*
 * ExecReScan does not reach the plan below a sort that has sorted nothing yet.  On the inner side of a join that plan
 * has parameters, which are not set yet: it starts again when it is first asked for a row.
 */
static void
open_sort(PlanState *node)
{
	PlanState  *below = outerPlanState(node);

	Assert(((SortState *) node)->tuplesortstate == NULL && !((SortState *) node)->sort_Done);
	if (bms_is_empty(below->plan->extParam))
		ExecReScan(below);
	else
		below->chgParam = bms_add_members(below->chgParam, below->plan->extParam);
}

static void
close_sort(PlanState *node)
{
	SortState  *sort = (SortState *) node;

	Assert(TupIsNull(sort->ss.ps.ps_ResultTupleSlot));
	if (sort->tuplesortstate != NULL)
		tuplesort_end(sort->tuplesortstate);
	sort->tuplesortstate = NULL;
	sort->sort_Done = false;
}

static void
open_for_conflict(PlanState *node)
{
	if (((ModifyTable *) node->plan)->onConflictAction != ONCONFLICT_NONE)
		zen_index_open_for_conflict(((ModifyTableState *) node)->resultRelInfo);
}

static void
open_change(PlanState *node)
{
	((ModifyTableState *) node)->mt_done = false;
	((ModifyTableState *) node)->fireBSTriggers = true;
	zen_fill_null_row(((ModifyTableState *) node)->resultRelInfo);
	open_for_conflict(node);
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
close_change(PlanState *node)
{
	EvalPlanQualEnd(&((ModifyTableState *) node)->mt_epqstate);
	close_indexes(((ModifyTableState *) node)->resultRelInfo);
}

static void
close_locks(PlanState *node)
{
	EvalPlanQualEnd(&((LockRowsState *) node)->lr_epqstate);
	forget_locked(((LockRowsState *) node)->lr_arowMarks);
}

/* ---------- the table ---------- */

#define OF(type, field)	offsetof(type, field)

static const ZenNodeKind node_kinds[] = {
	/* those that can be kept */
	{T_Result,.exprs = {OF(Result, resconstantqual)},.states = {OF(ResultState, resconstantqual)}},
	{T_ValuesScan,.exprs = {OF(ValuesScan, values_lists)},.only_reads = true},
	{T_SeqScan,.refuses = scan_refuses,.has_table = true,.only_reads = true,.close = close_scan},
	{T_IndexScan,.refuses = index_refuses,.has_table = true,.only_reads = true,
		.exprs = {OF(IndexScan, indexqualorig), OF(IndexScan, indexorderbyorig)},
	.states = {OF(IndexScanState, indexqualorig)},.open = kept_open_index,.close = close_index},
	{T_IndexOnlyScan,.refuses = index_refuses,.has_table = true,.only_reads = true,
		.exprs = {OF(IndexOnlyScan, indexqual), OF(IndexOnlyScan, indexorderby)},
	.states = {OF(IndexOnlyScanState, recheckqual)},.open = kept_open_index,.close = close_index},
	{T_NestLoop,.only_reads = true,.exprs = {OF(NestLoop, join.joinqual)},
	.states = {OF(NestLoopState, js.joinqual)},.open = open_loop},
	{T_CustomScan, ZEN_KEYJOIN_NODE,.only_reads = true},
	{T_Limit,.exprs = {OF(Limit, limitOffset), OF(Limit, limitCount)},
	.states = {OF(LimitState, limitOffset), OF(LimitState, limitCount), OF(LimitState, eqfunction)}},
	{T_Agg,.refuses = agg_refuses,.only_reads = true},
	{T_Sort,.only_reads = true,.open = open_sort,.close = close_sort},
	{T_LockRows,.close = close_locks},
	{T_ModifyTable,.refuses = change_refuses,.has_table = true,
		.exprs = {OF(ModifyTable, withCheckOptionLists), OF(ModifyTable, returningLists),
		OF(ModifyTable, onConflictSet), OF(ModifyTable, onConflictWhere)},
	.open = open_change,.close = close_change},

	/* those that cannot */
	{T_CustomScan, ZEN_BATCH_NODE,.why = ZEN_WHY_aggregate,.plans = OF(CustomScan, custom_plans)},
	{T_Group,.why = ZEN_WHY_aggregate},
	{T_WindowAgg,.why = ZEN_WHY_aggregate},
	{T_Unique,.why = ZEN_WHY_aggregate},
	{T_SetOp,.why = ZEN_WHY_aggregate},
	{T_IncrementalSort,.why = ZEN_WHY_sort},
	{T_HashJoin,.why = ZEN_WHY_join},
	{T_MergeJoin,.why = ZEN_WHY_join},
	{T_Material,.why = ZEN_WHY_join},
	{T_Memoize,.why = ZEN_WHY_join},
	{T_Append,.why = ZEN_WHY_append,.plans = OF(Append, appendplans)},
	{T_MergeAppend,.why = ZEN_WHY_append,.plans = OF(MergeAppend, mergeplans)},
	{T_RecursiveUnion,.why = ZEN_WHY_append},
	{T_BitmapHeapScan,.why = ZEN_WHY_bitmap_scan},
	{T_SubqueryScan,.why = ZEN_WHY_subquery,.plan = OF(SubqueryScan, subplan),.only_reads = true},
	{T_CteScan,.why = ZEN_WHY_subquery,.only_reads = true},
	{T_Gather,.why = ZEN_WHY_parallel},
	{T_GatherMerge,.why = ZEN_WHY_parallel},
	{T_FunctionScan,.why = ZEN_WHY_other_node,.exprs = {OF(FunctionScan, functions)},.only_reads = true},
	{T_CustomScan,.why = ZEN_WHY_other_node,.plans = OF(CustomScan, custom_plans)},
};

static const ZenNodeKind unknown = {.why = ZEN_WHY_other_node};

const ZenNodeKind *
zen_keptnodes_kind(const Plan *plan)
{
	for (int i = 0; i < lengthof(node_kinds); i++)
	{
		const ZenNodeKind *kind = &node_kinds[i];

		if (kind->tag == nodeTag(plan) &&
			(kind->name == NULL || strcmp(kind->name, ((const CustomScan *) plan)->methods->CustomName) == 0))
			return kind;
	}
	return &unknown;
}

/* The first node from above that refuses. */
static ZenPointWhy
tree_refuses(const PlannedStmt *stmt, const Plan *plan)
{
	const ZenNodeKind *kind;
	ZenPointWhy why;

	if (plan == NULL)
		return ZEN_WHY_NONE;
	check_stack_depth();
	kind = zen_keptnodes_kind(plan);
	why = kind->refuses != NULL ? kind->refuses(stmt, plan) : kind->why;
	if (why == ZEN_WHY_NONE && plan->initPlan != NIL)
		why = ZEN_WHY_subquery;
	if (why == ZEN_WHY_NONE && plan->parallel_aware)
		why = ZEN_WHY_parallel;
	if (why == ZEN_WHY_NONE)
		why = tree_refuses(stmt, outerPlan(plan));
	return why != ZEN_WHY_NONE ? why : tree_refuses(stmt, innerPlan(plan));
}

/* Does a plan read or change a table at all?  Any other is cheap to start. */
static bool
has_table(const Plan *plan)
{
	return plan != NULL &&
		(zen_keptnodes_kind(plan)->has_table || has_table(outerPlan(plan)) || has_table(innerPlan(plan)));
}

ZenPointWhy
zen_keptnodes_refuse(const PlannedStmt *stmt, const Plan *plan)
{
	ZenPointWhy why = tree_refuses(stmt, plan);

	Assert(stmt->commandType != CMD_UTILITY);
	if (why != ZEN_WHY_NONE)
		return why;
	if (stmt->subplans != NIL || stmt->hasModifyingCTE)
		return ZEN_WHY_subquery;
	if (stmt->parallelModeNeeded)
		return ZEN_WHY_parallel;
	if (stmt->jitFlags != PGJIT_NONE)
		return ZEN_WHY_compiled;
	return has_table(plan) ? ZEN_WHY_NONE : ZEN_WHY_no_table;
}

bool
zen_keptnodes_exprs(Plan *plan, bool (*walker) (Node *, void *), void *context)
{
	const ZenNodeKind *kind = zen_keptnodes_kind(plan);

	if (walker((Node *) plan->targetlist, context) || walker((Node *) plan->qual, context))
		return true;
	for (int i = 0; i < ZEN_NODE_EXPRS && kind->exprs[i] != 0; i++)
		if (walker(ZEN_NODE_FIELD(plan, kind->exprs[i], Node *), context))
			return true;
	return false;
}

bool
zen_keptnodes_walk(Plan *plan, bool (*walker) (Node *, void *), void *context)
{
	return plan != NULL &&
		(zen_keptnodes_exprs(plan, walker, context) || zen_keptnodes_walk(outerPlan(plan), walker, context) ||
		 zen_keptnodes_walk(innerPlan(plan), walker, context));
}

/* ---------- the nodes of a plan ---------- */

/* A node of a kept plan that has something to open or to close. */
typedef struct KeptNode
{
	PlanState  *state;
	const ZenNodeKind *kind;
} KeptNode;

/* Nodes below come first: a sort starts these when it is opened. */
static bool
kept_note_node(PlanState *state, void *context)
{
	ZenPoint   *point = context;
	const ZenNodeKind *kind = zen_keptnodes_kind(state->plan);

	Assert(kind->why == ZEN_WHY_NONE);
	if (planstate_tree_walker(state, kept_note_node, context))
		return true;
	if (kind->open != NULL || kind->close != NULL)
	{
		KeptNode   *node = palloc(sizeof(KeptNode));

		node->state = state;
		node->kind = kind;
		point->nodes = lappend(point->nodes, node);
	}
	return false;
}

static PlanState *
top_node(ZenPoint *point)
{
	return outerPlanState(castNode(CustomScanState, point->kept->planstate));
}

void
zen_keptnodes_find(ZenPoint *point)
{
	Assert(point->kind == ZEN_POINT_PLAN && point->nodes == NIL);
	(void) kept_note_node(top_node(point), point);
	if (point->change != NULL)
		open_for_conflict(&point->change->ps);
	/* as the standard executor leaves them */
	point->started = true;
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
		((ExprContext *) lfirst(lc))->ecxt_param_list_info = estate->es_param_list_info;
	foreach(lc, point->nodes)
	{
		KeptNode   *node = lfirst(lc);

		if (node->kind->open != NULL)
			node->kind->open(node->state);
	}
	ExecReScan(point->change != NULL ? outerPlanState(point->change) : top_node(point));
}

void
zen_keptnodes_run(ZenPoint *point, bool send, uint64 count)
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
zen_keptnodes_close(ZenPoint *point)
{
	ListCell   *lc;

	if (point->kind != ZEN_POINT_PLAN || !point->started)
		return;
	clear_rows(point->kept->estate);
	foreach(lc, point->nodes)
	{
		KeptNode   *node = lfirst(lc);

		if (node->kind->close != NULL)
			node->kind->close(node->state);
	}
	Assert(point->kept->estate->es_epq_active == NULL);
	point->started = false;
}
