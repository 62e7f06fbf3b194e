/*
 * batchnode.c -- a zen table is aggregated block by block: which queries, and the node.
 *
 * A query over one zen table without GROUP BY, all of whose aggregates are known (batchagg.c), gets one more path
 * beside PostgreSQL's.  The planner takes it if it is the cheapest: an index-only scan of few rows may be cheaper, or
 * a parallel plan.  The node is a CustomScan that stands for Agg; its tuple has the aggregates' results.
 *
 * Its child is the SeqScan that would be below the Agg, started by the executor: the table is open, the quals are
 * compiled, permissions are checked, and EXPLAIN shows it.  But the node does not ask it for rows.  It takes the
 * child's scan and reads from it the rows of a block at once (zen_scan_next_rows), so visibility, predicate locks,
 * statistics and errors are those of any scan.
 *
 * For each block:
 *
 * 1. Comparisons of a column with a value thin the rows out, one column after the other.
 * 2. The rows that are left go through the other quals, one by one, in the child's slot.
 * 3. Each argument of the aggregates is read from all rows.  An argument that is not a column of known place is
 *    evaluated row by row.
 * 4. Each aggregate adds its argument's values.
 *
 * Rows that the block's fetch has left apart make a batch each, in their turn: the order of rows is that of the scan.
 *
 * The child is asked for rows, one by one, where its scan is not zen's to read: while EvalPlanQual puts rows in its
 * place.
 */
#include "exec/batchnode.h"

#include "access/tableam.h"
#include "base/guc.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_aggregate_d.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_proc_d.h"
#include "exec/batchagg.h"
#include "exec/batchcolumn.h"
#include "exec/keptnodes.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "port/pg_bitutils.h"
#include "table/zenam_rel.h"
#include "table/zenam_scan.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

/* A row costs a third of the instructions that it costs in SeqScan and Agg (doc/performance.md); some caution. */
#define ROW_COST	0.4

static create_upper_paths_hook_type prev_upper_paths;
static CustomPathMethods path_methods;
static CustomScanMethods scan_methods;
static CustomExecMethods exec_methods;

/* What some aggregates have as their argument. */
typedef struct Source
{
	Expr	   *argument;		/* NULL: of count(*) */
	Expr	   *filter_clause;	/* FILTER (WHERE ...), or NULL */
	bool		needs_value;
	ZenColumn	column;			/* the argument, if attno > 0 */
	ExprState  *expr;			/* else, unless it is NULL */
	ExprState  *filter;
	int			n;
	Datum		values[ZEN_TIDS_PER_BLOCK]; /* of the batch, without NULLs */
} Source;

typedef struct Aggregate
{
	const ZenAggKind *kind;
	Source	   *source;
	ZenAggTotal total;
} Aggregate;

typedef struct BatchState
{
	CustomScanState css;
	ScanState  *scan;			/* the child */
	List	   *comparisons;	/* of ZenComparison */
	ExprState  *quals;			/* the others */
	int			naggs;
	Aggregate  *aggs;
	List	   *by_column;		/* Sources that are read from all rows */
	List	   *by_row;			/* those that are evaluated for each */
	bool		started;		/* the comparisons know their values, which
								 * stay the same in rescans */
	bool		done;
	ZenBatch	batch;
} BatchState;

/* ---------- plans: the form ---------- */

/*
 * Expressions that the node does not evaluate: values that belong to another node, and functions whose number of calls
 * matters.
 */
static bool
has_foreign_parts(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) || IsA(node, SubLink))
		return true;
	if (IsA(node, Param) && ((Param *) node)->paramkind != PARAM_EXTERN)
		return true;
	return expression_tree_walker(node, has_foreign_parts, context);
}

static bool
is_known(Aggref *aggref)
{
	return zen_batchagg_kind(aggref->aggfnoid) != NULL && aggref->aggdirectargs == NIL && aggref->aggorder == NIL &&
		aggref->aggdistinct == NIL && !aggref->aggvariadic && aggref->aggkind == AGGKIND_NORMAL &&
		aggref->agglevelsup == 0 && aggref->aggsplit == AGGSPLIT_SIMPLE && list_length(aggref->args) <= 1 &&
		!has_foreign_parts((Node *) aggref->args, NULL) && !has_foreign_parts((Node *) aggref->aggfilter, NULL) &&
		!contain_volatile_functions((Node *) aggref->args) &&
		!contain_volatile_functions((Node *) aggref->aggfilter);
}

/* The different aggregates of the query; NIL if there is none, or one that is not known. */
static List *
known_aggregates(RelOptInfo *grouped, List *having)
{
	List	   *exprs = list_concat_copy(grouped->reltarget->exprs, having);
	List	   *parts = pull_var_clause((Node *) exprs, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_WINDOWFUNCS |
										PVC_INCLUDE_PLACEHOLDERS);
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, parts)
	{
		if (!IsA(lfirst(lc), Aggref) || !is_known(lfirst(lc)))
			return NIL;
		result = list_append_unique(result, lfirst(lc));
	}
	return result;
}

/* Is it a whole table of zen's, read by nothing but quals? */
static bool
is_plain_table(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte;
	ListCell   *lc;

	if (rel->reloptkind != RELOPT_BASEREL || rel->rtekind != RTE_RELATION || IS_DUMMY_REL(rel))
		return false;
	rte = planner_rt_fetch(rel->relid, root);
	if (rte->relkind != RELKIND_RELATION || rte->inh || rte->tablesample != NULL || !zen_relid_is_zen(rte->relid))
		return false;
	/* quals without a column of the table stand above the scan */
	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, lc);

		if (info->pseudoconstant || contain_volatile_functions((Node *) info->clause))
			return false;
	}
	return true;
}

static bool
is_plain_query(PlannerInfo *root, GroupPathExtraData *extra)
{
	Query	   *parse = root->parse;

	return parse->hasAggs && parse->groupClause == NIL && parse->groupingSets == NIL && parse->rowMarks == NIL &&
		root->rowMarks == NIL && extra->patype == PARTITIONWISE_AGGREGATE_NONE;
}

/* ---------- plans: path and plan ---------- */

/*
 * As cost_agg() for plain aggregation, with less for handing on rows and for calling transition functions.  Quals and
 * arguments cost the same.
 */
static void
set_costs(PlannerInfo *root, Path *path, const Path *scan, double tuples)
{
	AggClauseCosts costs = {0};
	QualCost   *target = &path->pathtarget->cost;
	double		calls = list_length(root->aggtransinfos) * scan->rows;
	Cost		saved = (1 - ROW_COST) * (cpu_tuple_cost * tuples + cpu_operator_cost * calls);

	get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &costs);
	zen_copy_disabled_nodes(path, scan);
	path->rows = 1;
	path->startup_cost = scan->total_cost - saved +
		costs.transCost.startup + costs.transCost.per_tuple * scan->rows +
		costs.finalCost.startup + costs.finalCost.per_tuple + target->startup;
	path->total_cost = path->startup_cost + cpu_tuple_cost + target->per_tuple;
}

static void
add_batch_path(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped, GroupPathExtraData *extra)
{
	CustomPath *path;
	Path	   *scan;
	List	   *aggregates;

	if (!is_plain_query(root, extra) || !is_plain_table(root, input))
		return;
	aggregates = known_aggregates(grouped, (List *) extra->havingQual);
	if (aggregates == NIL)
		return;
	scan = create_seqscan_path(root, input, NULL, 0);
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = grouped;
	path->path.pathtarget = grouped->reltarget;
	path->path.parallel_safe = grouped->consider_parallel && scan->parallel_safe;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make1(scan);
	path->custom_private = list_make2(aggregates, extra->havingQual);
	path->methods = &path_methods;
	set_costs(root, &path->path, scan, input->tuples);
	add_path(grouped, &path->path);
}

static void
upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output, void *extra)
{
	if (prev_upper_paths)
		prev_upper_paths(root, stage, input, output, extra);
	if (zen_batch_aggregate && stage == UPPERREL_GROUP_AGG && extra != NULL)
		add_batch_path(root, input, output, extra);
}

static Plan *
make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *node = makeNode(CustomScan);
	ListCell   *lc;

	node->scan.plan.targetlist = tlist;
	node->scan.plan.qual = lsecond(path->custom_private);
	node->flags = path->flags;
	node->custom_plans = custom_plans;
	foreach(lc, (List *) linitial(path->custom_private))
		node->custom_scan_tlist = lappend(node->custom_scan_tlist,
										  makeTargetEntry(copyObject(lfirst(lc)), foreach_current_index(lc) + 1, NULL,
														  false));
	node->methods = &scan_methods;
	return &node->scan.plan;
}

/* ---------- execution: begin ---------- */

static BatchState *
batch_state(CustomScanState *node)
{
	Assert(node->methods == &exec_methods);
	return (BatchState *) node;
}

/*
 * Divide the quals: comparisons come first, since nothing can go wrong in them.  The others stay in the planner's
 * order.  A qual with a subquery must not be compiled twice, so then all quals are "others".
 */
static void
divide_quals(BatchState *state)
{
	List	   *quals = state->scan->ps.plan->qual;
	TupleDesc	desc = RelationGetDescr(state->scan->ss_currentRelation);
	List	   *others = NIL;
	ListCell   *lc;

	state->quals = state->scan->ps.qual;
	if (contain_subplans((Node *) quals) || contain_volatile_functions((Node *) quals))
		return;
	foreach(lc, quals)
	{
		ZenComparison *comparison = zen_comparison_make(lfirst(lc), desc, &state->scan->ps);

		if (comparison != NULL)
			state->comparisons = lappend(state->comparisons, comparison);
		else
			others = lappend(others, lfirst(lc));
	}
	if (state->comparisons != NIL)
		state->quals = ExecInitQual(others, &state->scan->ps);
}

/* Find, or make, the source of an aggregate's argument. */
static Source *
source_of(BatchState *state, Aggref *aggref, bool needs_value)
{
	Expr	   *argument = aggref->args == NIL ? NULL : linitial_node(TargetEntry, aggref->args)->expr;
	PlanState  *scan = &state->scan->ps;
	bool		is_column = argument != NULL && IsA(argument, Var) && ((Var *) argument)->varattno > 0;
	Source	   *source;
	ListCell   *lc;

	foreach(lc, list_concat_copy(state->by_column, state->by_row))
	{
		source = lfirst(lc);
		if (source->needs_value == needs_value && equal(source->argument, argument) &&
			equal(source->filter_clause, aggref->aggfilter))
			return source;
	}
	source = palloc0(sizeof(Source));
	source->argument = argument;
	source->filter_clause = aggref->aggfilter;
	source->needs_value = needs_value;
	source->filter = aggref->aggfilter ? ExecInitQual(list_make1(aggref->aggfilter), scan) : NULL;
	if (is_column)
		source->column = zen_column_find(RelationGetDescr(state->scan->ss_currentRelation),
										 ((Var *) argument)->varattno, needs_value);
	else
		source->expr = ExecInitExpr(argument, scan);
	if (is_column && source->filter == NULL && zen_column_is_fixed(&source->column))
		state->by_column = lappend(state->by_column, source);
	else
		state->by_row = lappend(state->by_row, source);
	return source;
}

/* As the Agg node does.  The functions behind PostgreSQL's own aggregates are the superuser's. */
static void
check_permission(Oid function)
{
	AclResult	aclresult = zen_function_aclcheck(function, GetUserId(), ACL_EXECUTE);

	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, OBJECT_AGGREGATE, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

/* Start the scan below, and look up the aggregates and the source of each argument. */
static void
begin_node(CustomScanState *node, EState *estate, int eflags)
{
	BatchState *state = batch_state(node);
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	ListCell   *lc;

	state->scan = (ScanState *) ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	if (!IsA(state->scan, SeqScanState))
		elog(ERROR, "%s has a child of type %d", ZEN_BATCH_NODE, (int) nodeTag(state->scan));
	node->custom_ps = list_make1(state->scan);
	divide_quals(state);
	state->naggs = list_length(plan->custom_scan_tlist);
	state->aggs = palloc0(state->naggs * sizeof(Aggregate));
	foreach(lc, plan->custom_scan_tlist)
	{
		Aggref	   *aggref = castNode(Aggref, lfirst_node(TargetEntry, lc)->expr);
		Aggregate  *agg = &state->aggs[foreach_current_index(lc)];

		check_permission(aggref->aggfnoid);
		agg->kind = zen_batchagg_kind(aggref->aggfnoid);
		if (agg->kind == NULL)
			elog(ERROR, "%s does not know aggregate %u", ZEN_BATCH_NODE, aggref->aggfnoid);
		if (aggref->args != NIL || aggref->aggfilter != NULL)
			agg->source = source_of(state, aggref, !zen_batchagg_counts(agg->kind));
	}
	state->batch.slot = state->scan->ss_ScanTupleSlot;
	state->batch.tableoid = RelationGetRelid(state->scan->ss_currentRelation);
}

/* ---------- execution: rows ---------- */

/* Evaluate a source for the row that a slot shows.  The scan's expression context has the slot. */
static void
read_source(Source *source, TupleTableSlot *slot, ExprContext *econtext)
{
	Datum		value = (Datum) 0;
	bool		isnull = false;

	if (source->filter != NULL && !ExecQual(source->filter, econtext))
		return;
	if (source->expr != NULL)
		value = ExecEvalExprSwitchContext(source->expr, econtext, &isnull);
	else if (source->column.attno > 0)
		value = slot_getattr(slot, source->column.attno, &isnull);
	if (!isnull)
		source->values[source->n++] = value;
}

static void
read_by_row(BatchState *state, TupleTableSlot *slot)
{
	ListCell   *lc;

	foreach(lc, state->by_row)
		read_source(lfirst(lc), slot, state->scan->ps.ps_ExprContext);
}

/* Add what the sources have read of a number of rows, and empty them. */
static void
add_to_totals(BatchState *state, int nrows)
{
	ListCell   *lc;

	for (int i = 0; i < state->naggs; i++)
	{
		Aggregate  *agg = &state->aggs[i];
		Source	   *source = agg->source;

		agg->kind->add(&agg->total, source ? source->values : NULL, source ? source->n : nrows);
	}
	foreach(lc, state->by_row)
		((Source *) lfirst(lc))->n = 0;
	foreach(lc, state->by_column)
		((Source *) lfirst(lc))->n = 0;
}

/* Take the rows out for which a qual is not true. */
static void
filter_batch(BatchState *state)
{
	ZenBatch   *batch = &state->batch;
	ExprContext *econtext = state->scan->ps.ps_ExprContext;
	int			before = batch->n;
	ListCell   *lc;

	if (!state->started)
	{
		foreach(lc, state->comparisons)
			zen_comparison_start(lfirst(lc), econtext);
		state->started = true;
	}
	foreach(lc, state->comparisons)
		zen_comparison_keep(lfirst(lc), batch);
	if (state->quals != NULL)
	{
		int			m = 0;

		for (int i = 0; i < batch->n; i++)
		{
			zen_batch_show(batch, batch->rows[i]);
			ResetExprContext(econtext);
			batch->rows[m] = batch->rows[i];
			m += ExecQual(state->quals, econtext) ? 1 : 0;
		}
		batch->n = m;
	}
	InstrCountFiltered1(state->scan, before - batch->n);
}

static void
add_batch(BatchState *state)
{
	ZenBatch   *batch = &state->batch;
	HeapTuple	ignored[ZEN_TIDS_PER_BLOCK];
	ListCell   *lc;

	foreach(lc, state->by_column)
	{
		Source	   *source = lfirst(lc);

		source->n = zen_column_load(&source->column, batch, source->values, ignored);
	}
	for (int i = 0; state->by_row != NIL && i < batch->n; i++)
	{
		zen_batch_show(batch, batch->rows[i]);
		ResetExprContext(state->scan->ps.ps_ExprContext);
		read_by_row(state, batch->slot);
	}
	add_to_totals(state, batch->n);
}

/* ---------- execution: blocks ---------- */

/* Filter and add what is in the batch, and empty it; returns how many rows were added. */
static int
take_batch(BatchState *state)
{
	int			added;

	if (state->batch.n == 0)
		return 0;
	filter_batch(state);
	added = state->batch.n;
	if (added > 0)
		add_batch(state);
	state->batch.n = 0;
	return added;
}

/* Filter and add the rows of a block; returns how many were added. */
static int
take_block(BatchState *state, ZenScanRows *block)
{
	ZenBatch   *batch = &state->batch;
	int			added = 0;

	for (uint64 left = block->found | block->apart; left != 0; left &= left - 1)
	{
		int			i = pg_rightmost_one_pos64(left);

		if (likely(block->found & (UINT64CONST(1) << i)))
		{
			batch->rows[batch->n++] = &block->block->tuples[i];
			continue;
		}
		/* the slot has place for one such row */
		added += take_batch(state);
		if (zen_scan_lone_row(state->scan->ss_currentScanDesc, batch->slot, i))
		{
			batch->rows[batch->n++] = ((HeapTupleTableSlot *) batch->slot)->tuple;
			added += take_batch(state);
		}
	}
	return added + take_batch(state);
}

/* Read the whole table.  The child's measurements are kept as if it had run. */
static void
read_blocks(BatchState *state)
{
	ScanState  *scan = state->scan;
	Instrumentation *instrument = scan->ps.instrument;
	ZenScanRows block;
	bool		more;

	if (scan->ss_currentScanDesc == NULL)
		scan->ss_currentScanDesc = table_beginscan(scan->ss_currentRelation, scan->ps.state->es_snapshot, 0, NULL);
	scan->ps.ps_ExprContext->ecxt_scantuple = scan->ss_ScanTupleSlot;
	do
	{
		int			added = 0;

		if (instrument)
			InstrStartNode(instrument);
		more = zen_scan_next_rows(scan->ss_currentScanDesc, scan->ss_ScanTupleSlot, &block);
		if (more)
			added = take_block(state, &block);
		if (instrument)
			InstrStopNode(instrument, added);
	} while (more);
	ExecClearTuple(scan->ss_ScanTupleSlot);
}

/* The same row by row, by way of the child. */
static void
read_rows(BatchState *state)
{
	ExprContext *econtext = state->scan->ps.ps_ExprContext;
	TupleTableSlot *slot;
	ListCell   *lc;

	for (slot = ExecProcNode(&state->scan->ps); !TupIsNull(slot); slot = ExecProcNode(&state->scan->ps))
	{
		/* the slot may have the projected row; the context has the table's */
		foreach(lc, state->by_column)
			read_source(lfirst(lc), econtext->ecxt_scantuple, econtext);
		read_by_row(state, econtext->ecxt_scantuple);
		add_to_totals(state, 1);
	}
}

/* ---------- execution: the node ---------- */

static void
store_results(BatchState *state, TupleTableSlot *slot, ExprContext *econtext)
{
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);

	ExecClearTuple(slot);
	for (int i = 0; i < state->naggs; i++)
		slot->tts_values[i] = zen_batchagg_result(state->aggs[i].kind, &state->aggs[i].total, &slot->tts_isnull[i]);
	ExecStoreVirtualTuple(slot);
	MemoryContextSwitchTo(old);
}

static TupleTableSlot *
exec_node(CustomScanState *node)
{
	BatchState *state = batch_state(node);
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (state->done)
		return NULL;
	state->done = true;
	ResetExprContext(econtext);
	for (int i = 0; i < state->naggs; i++)
		memset(&state->aggs[i].total, 0, sizeof(ZenAggTotal));
	if (node->ss.ps.state->es_epq_active == NULL && zen_rel_is_zen(state->scan->ss_currentRelation))
		read_blocks(state);
	else
		read_rows(state);
	store_results(state, slot, econtext);
	econtext->ecxt_scantuple = slot;
	if (!ExecQual(node->ss.ps.qual, econtext))
	{
		InstrCountFiltered1(node, 1);
		return NULL;
	}
	return node->ss.ps.ps_ProjInfo ? ExecProject(node->ss.ps.ps_ProjInfo) : slot;
}

static void
rescan_node(CustomScanState *node)
{
	BatchState *state = batch_state(node);

	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(&state->scan->ps, node->ss.ps.chgParam);
	ExecReScan(&state->scan->ps);
	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	state->done = false;
}

static void
end_node(CustomScanState *node)
{
	ExecEndNode(&batch_state(node)->scan->ps);
}

static Node *
create_state(CustomScan *node)
{
	BatchState *state = palloc0(sizeof(BatchState));

	state->css.ss.ps.type = T_CustomScanState;
	state->css.methods = &exec_methods;
	return (Node *) state;
}

void
zen_batchnode_init(void)
{
	path_methods.CustomName = scan_methods.CustomName = exec_methods.CustomName = ZEN_BATCH_NODE;
	path_methods.PlanCustomPath = make_plan;
	scan_methods.CreateCustomScanState = create_state;
	RegisterCustomScanMethods(&scan_methods);
	exec_methods.BeginCustomScan = begin_node;
	exec_methods.ExecCustomScan = exec_node;
	exec_methods.EndCustomScan = end_node;
	exec_methods.ReScanCustomScan = rescan_node;
	prev_upper_paths = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths;
}
