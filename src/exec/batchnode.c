/*
 * batchnode.c -- the node that aggregates a zen table block by block.
 *
 * The node is a CustomScan that stands for Agg (batchagg.c plans it); its tuple has the aggregates' results.  It reads
 * the scan of its child, a SeqScan.  README, "Aggregates over a whole table" and the sections behind it, has the rest.
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
 * If there are no other quals and arguments than columns of known place, rows are read where they are, without a copy.
 */
#include "exec/batch.h"

#include "access/htup_details.h"
#include "access/tableam.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc_d.h"
#include "exec/batchcolumn.h"
#include "exec/plannode.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "port/pg_bitutils.h"
#include "table/zenam_rel.h"
#include "table/zenam_scan.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#define MAX_PAUSE	32			/* blocks that are copied, after some that
								 * could not be read in place */

/* ---------- the state ---------- */

/* What some aggregates have as their argument. */
typedef struct Source
{
	Aggref	   *aggref;			/* the first of them: has the argument, and
								 * FILTER (WHERE ...) */
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
	bool		may_view;		/* all is read from columns: rows may be read
								 * in place */
	ZenRowView	view;
	int			pause;			/* blocks until the next try to do so */
	int			last_pause;
} BatchState;

static BatchState *
batch_state(CustomScanState *node)
{
	Assert(strcmp(node->methods->CustomName, ZEN_BATCH_NODE) == 0);
	return (BatchState *) node;
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

/* Take the rows out for which a comparison is not true. */
static void
compare_batch(BatchState *state)
{
	ListCell   *lc;

	Assert(state->started || state->comparisons == NIL);
	foreach(lc, state->comparisons)
		zen_comparison_keep(lfirst(lc), &state->batch);
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
	compare_batch(state);
	if (state->quals != NULL)
	{
		int			m = 0;

		for (int i = 0; i < batch->n; i++)
		{
			zen_batch_show_row(batch, batch->rows[i]);
			ResetExprContext(econtext);
			batch->rows[m] = batch->rows[i];
			m += ExecQual(state->quals, econtext) ? 1 : 0;
		}
		batch->n = m;
	}
	InstrCountFiltered1(state->scan, before - batch->n);
}

/* Have the sources read their columns from the rows of the batch. */
static void
load_columns(BatchState *state)
{
	HeapTuple	ignored[ZEN_TIDS_PER_BLOCK];
	ListCell   *lc;

	foreach(lc, state->by_column)
	{
		Source	   *source = lfirst(lc);

		source->n = zen_column_load(&source->column, &state->batch, source->values, ignored);
	}
}

static void
add_batch(BatchState *state)
{
	ZenBatch   *batch = &state->batch;

	load_columns(state);
	for (int i = 0; state->by_row != NIL && i < batch->n; i++)
	{
		zen_batch_show_row(batch, batch->rows[i]);
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
batch_take_block(BatchState *state, ZenScanRows *block)
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

/* ---------- execution: blocks in place ---------- */

/* A ZenRowView's use(): filter rows, and read columns of those that are left.  Nothing here allocates or throws. */
static bool
read_in_place(HeapTupleData *rows, int n, void *arg)
{
	BatchState *state = arg;
	ZenBatch   *batch = &state->batch;

	Assert(batch->n == 0 && n <= ZEN_TIDS_PER_BLOCK);
	for (int i = 0; i < n; i++)
		batch->rows[i] = &rows[i];
	batch->n = n;
	batch->in_place = true;
	batch->needs_slot = false;
	compare_batch(state);
	load_columns(state);
	batch->in_place = false;
	if (batch->needs_slot)
		batch->n = 0;			/* the block is copied: its rows come again */
	return !batch->needs_slot;
}

/*
 * The view for the next block, or NULL: it is to be copied.
 *
 * The values of comparisons are evaluated before the first row, which is copied.  After a block that could not be read
 * in place some are not tried.
 */
static const ZenRowView *
next_view(BatchState *state)
{
	if (!state->may_view || (state->comparisons != NIL && !state->started))
		return NULL;
	if (state->pause == 0)
		return &state->view;
	state->pause--;
	return NULL;
}

/* Add what the view has read of a number of rows; returns how many were added. */
static int
take_view(BatchState *state, int viewed)
{
	int			added = state->view.lines > 0 ? state->batch.n : viewed;

	add_to_totals(state, added);
	InstrCountFiltered1(state->scan, viewed - added);
	state->batch.n = 0;
	return added;
}

/* Go on to the next block, and add its rows; false at the end.  *added: how many. */
static bool
read_block(BatchState *state, int *added)
{
	ScanState  *scan = state->scan;
	const ZenRowView *view = next_view(state);
	ZenScanRows block;

	*added = 0;
	if (!zen_scan_next_rows(scan->ss_currentScanDesc, scan->ss_ScanTupleSlot, view, &block))
		return false;
	if (block.viewed >= 0)
	{
		state->last_pause = 0;
		*added = take_view(state, block.viewed);
		return true;
	}
	if (view != NULL)
		state->pause = state->last_pause = Min(2 * state->last_pause + 1, MAX_PAUSE);
	*added = batch_take_block(state, &block);
	return true;
}

/* Read the whole table.  The child's measurements are kept as if it had run. */
static void
read_blocks(BatchState *state)
{
	ScanState  *scan = state->scan;
	Instrumentation *instrument = scan->ps.instrument;
	int			added;
	bool		more;

	if (scan->ss_currentScanDesc == NULL)
		scan->ss_currentScanDesc = table_beginscan(scan->ss_currentRelation, scan->ps.state->es_snapshot, 0, NULL);
	scan->ps.ps_ExprContext->ecxt_scantuple = scan->ss_ScanTupleSlot;
	do
	{
		if (instrument)
			InstrStartNode(instrument);
		more = read_block(state, &added);
		if (instrument)
			InstrStopNode(instrument, added);
	} while (more);
	ExecClearTuple(scan->ss_ScanTupleSlot);
}

/* The same row by row, by way of the child. */
static void
batch_read_rows(BatchState *state)
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

/* ---------- execution: begin ---------- */

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
		if (source->needs_value == needs_value && equal(source->aggref->args, aggref->args) &&
			equal(source->aggref->aggfilter, aggref->aggfilter))
			return source;
	}
	source = palloc0(sizeof(Source));
	source->aggref = aggref;
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

/* Lines at the start of a row that have a column. */
static int
lines_of(const ZenColumn *column)
{
	Size		before = ZEN_HEADER_SIZE + MAXALIGN(SizeofMinimalTupleHeader);

	return (int) ((before + column->offset + column->len + ZEN_LINE - 1) / ZEN_LINE);
}

/* Find out if rows may be read in place, and how much of them. */
static void
prepare_view(BatchState *state)
{
	int			lines = 0;
	ListCell   *lc;

	state->may_view = state->quals == NULL && state->by_row == NIL;
	if (!state->may_view)
		return;
	foreach(lc, state->by_column)
		lines = Max(lines, lines_of(&((Source *) lfirst(lc))->column));
	foreach(lc, state->comparisons)
		lines = Max(lines, lines_of(&((ZenComparison *) lfirst(lc))->column));
	state->view.use = read_in_place;
	state->view.arg = state;
	state->view.lines = lines;
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
batch_begin(CustomScanState *node, EState *estate, int eflags)
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
			agg->source = source_of(state, aggref, !agg->kind->counts);
	}
	prepare_view(state);
	state->batch.slot = state->scan->ss_ScanTupleSlot;
	state->batch.tableoid = RelationGetRelid(state->scan->ss_currentRelation);
}

/* ---------- execution: the node ---------- */

static void
store_results(BatchState *state, TupleTableSlot *slot, ExprContext *econtext)
{
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);

	ExecClearTuple(slot);
	for (int i = 0; i < state->naggs; i++)
	{
		const Aggregate *agg = &state->aggs[i];
		bool		isnull = agg->total.n == 0 && !agg->kind->counts;

		slot->tts_isnull[i] = isnull;
		slot->tts_values[i] = isnull ? (Datum) 0 : agg->kind->result(&agg->total);
	}
	ExecStoreVirtualTuple(slot);
	MemoryContextSwitchTo(old);
}

static TupleTableSlot *
batch_exec(CustomScanState *node)
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
		batch_read_rows(state);
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
batch_rescan(CustomScanState *node)
{
	BatchState *state = batch_state(node);

	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(&state->scan->ps, node->ss.ps.chgParam);
	ExecReScan(&state->scan->ps);
	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	state->done = false;
}

static void
batch_end(CustomScanState *node)
{
	ExecEndNode(&batch_state(node)->scan->ps);
}

static ZenPlanNode batch_node = {
	.scan.CustomName = ZEN_BATCH_NODE,
	.exec.BeginCustomScan = batch_begin,
	.exec.ExecCustomScan = batch_exec,
	.exec.EndCustomScan = batch_end,
	.exec.ReScanCustomScan = batch_rescan,
	.state_size = sizeof(BatchState),
};

void
zen_batchnode_init(void)
{
	zen_plannode_register(&batch_node);
}
