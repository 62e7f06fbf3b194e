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
 */
#include "exec/batch.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "access/tupmacs.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc_d.h"
#include "catalog/pg_type_d.h"
#include "exec/plannode.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "port/pg_bitutils.h"
#include "table/zenam_fetch.h"
#include "table/zenam_rel.h"
#include "table/zenam_scan.h"
#include "utils/acl.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* Where a column is in the rows of a table. */
typedef struct Column
{
	AttrNumber	attno;
	int16		len;			/* bytes; 0: only its being NULL is of
								 * interest */
	int32		offset;			/* in a row without NULLs before it, or -1 */
} Column;

/* Rows that are read together, and the slot that can show each. */
typedef struct Batch
{
	TupleTableSlot *slot;		/* of a zen table */
	Oid			tableoid;
	int			n;
	HeapTuple	rows[ZEN_TIDS_PER_BLOCK];
} Batch;

/* Have the slot show a row of the batch. */
static inline void
show_row(Batch *batch, HeapTuple row)
{
	if (((HeapTupleTableSlot *) batch->slot)->tuple != row)
		zenam_slot_show(batch->slot, row, batch->tableoid);
}

/* ---------- columns: where they are ---------- */

/* Can the column be read without looking at those before it, in most rows? */
static inline bool
column_is_fixed(const Column *column)
{
	return column->offset >= 0;
}

/* Describe a user column; needs_value: not only whether it is NULL. */
static Column
column_find(TupleDesc desc, AttrNumber attno, bool needs_value)
{
	Form_pg_attribute att = TupleDescAttr(desc, attno - 1);
	Column		column = {.attno = attno,.len = needs_value ? att->attlen : 0,.offset = 0};

	for (int i = 0; i < attno && column.offset >= 0; i++)
	{
		att = TupleDescAttr(desc, i);
		if (i == attno - 1 && !needs_value)
			break;				/* the offset is of no interest */
		if (att->attlen <= 0)
			column.offset = needs_value ? -1 : 0;
		else
		{
			column.offset = att_align_nominal(column.offset, att->attalign);
			if (i < attno - 1)
				column.offset += att->attlen;
		}
	}
	return column;
}

/* ---------- columns: their values ---------- */

/* Is one of the first n columns NULL? */
static inline bool
has_null_before(const bits8 *bits, int n)
{
	for (; n >= 8; n -= 8)
		if (*bits++ != 0xFF)
			return true;
	return n > 0 && ((*bits | (0xFF << n)) & 0xFF) != 0xFF;
}

typedef enum Place
{
	AT_OFFSET,
	NULL_HERE,
	ASK_SLOT
} Place;

/* Where a row has the column, if the row has NULLs or lacks columns. */
static pg_noinline Place
odd_place(HeapTupleHeader h, const Column *column)
{
	if (HeapTupleHeaderGetNatts(h) < column->attno)
		return ASK_SLOT;
	if ((h->t_infomask & HEAP_HASNULL) == 0)
		return AT_OFFSET;
	if (att_isnull(column->attno - 1, h->t_bits))
		return NULL_HERE;
	return column->len > 0 && has_null_before(h->t_bits, column->attno - 1) ? ASK_SLOT : AT_OFFSET;
}

/* The column of a row that the slot must show; false: NULL. */
static pg_noinline bool
ask_slot(Batch *batch, HeapTuple row, AttrNumber attno, Datum *value)
{
	bool		isnull;

	show_row(batch, row);
	*value = slot_getattr(batch->slot, attno, &isnull);
	return !isnull;
}

/* column_load, for a width that the compiler knows. */
static inline int
column_load_width(const Column *column, Batch *batch, Datum *values, HeapTuple *rows, const int16 len)
{
	const int32 offset = column->offset;
	const int	attno = column->attno;
	int			m = 0;

	for (int i = 0; i < batch->n; i++)
	{
		HeapTuple	row = batch->rows[i];
		HeapTupleHeader h = row->t_data;

		if (unlikely((h->t_infomask & HEAP_HASNULL) != 0 || HeapTupleHeaderGetNatts(h) < attno))
		{
			Place		place = odd_place(h, column);

			if (place == NULL_HERE)
				continue;
			if (place == ASK_SLOT)
			{
				if (ask_slot(batch, row, attno, &values[m]))
					rows[m++] = row;
				continue;
			}
		}
		if (len > 0)
			values[m] = fetch_att((char *) h + h->t_hoff + offset, true, len);
		rows[m++] = row;
	}
	return m;
}

/*
 * The column's values, NULLs left out, and the rows that have them; returns how many.
 *
 * The column is fixed.  rows may be batch->rows.  The values of a column whose value is not needed are undefined.
 */
static int
column_load(const Column *column, Batch *batch, Datum *values, HeapTuple *rows)
{
	Assert(column_is_fixed(column));
	switch (column->len)
	{
		case sizeof(int64):
			return column_load_width(column, batch, values, rows, sizeof(int64));
		case sizeof(int32):
			return column_load_width(column, batch, values, rows, sizeof(int32));
		case sizeof(int16):
			return column_load_width(column, batch, values, rows, sizeof(int16));
		default:
			Assert(column->len == 0);
			return column_load_width(column, batch, values, rows, 0);
	}
}

/* ---------- comparisons of a column with a value ---------- */

/* How values are compared. */
typedef enum Order
{
	BY_INT,						/* as 64-bit integers */
	BY_FLOAT					/* as float8, with its place for NaN */
} Order;

#define IS_LESS			1
#define IS_EQUAL		2
#define IS_GREATER		4

/* A comparison of a column with a value that is the same for all rows. */
typedef struct Comparison
{
	Column		column;
	Oid			column_type;
	Oid			value_type;
	Order		order;
	int			accepted;		/* of IS_LESS and so on */
	ExprState  *value;
	bool		is_null;		/* the value is: true for no row */
	int64		low;			/* BY_INT: true for low to high, or for all */
	int64		high;			/* but these */
	bool		outside;
	float8		key;			/* BY_FLOAT */
} Comparison;

static const int accepted_by[] = {
	[BTLessStrategyNumber] = IS_LESS,
	[BTLessEqualStrategyNumber] = IS_LESS | IS_EQUAL,
	[BTEqualStrategyNumber] = IS_EQUAL,
	[BTGreaterEqualStrategyNumber] = IS_GREATER | IS_EQUAL,
	[BTGreaterStrategyNumber] = IS_GREATER,
};

/* Can values of two types be compared here?  *order: how. */
static bool
are_comparable(Oid a, Oid b, Order *order)
{
	*order = BY_INT;
	switch (a)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return b == INT2OID || b == INT4OID || b == INT8OID;
		case FLOAT4OID:
		case FLOAT8OID:
			*order = BY_FLOAT;
			return b == FLOAT4OID || b == FLOAT8OID;
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case OIDOID:
			return a == b;
		default:
			return false;
	}
}

static inline int64
as_int(Datum value, Oid type)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
		case DATEOID:
			return DatumGetInt32(value);
		case OIDOID:
			return DatumGetObjectId(value);
		default:
			return DatumGetInt64(value);
	}
}

static inline float8
as_float(Datum value, Oid type)
{
	return type == FLOAT4OID ? (float8) DatumGetFloat4(value) : DatumGetFloat8(value);
}

/* The orders of its arguments that an operator accepts; 0: it is not a comparison. */
static int
accepted_by_operator(Oid operator, Oid type)
{
	Oid			family = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	int			strategy = get_op_opfamily_strategy(operator, family);

	if (strategy != 0)
		return accepted_by[strategy];
	operator = get_negator(operator);
	if (OidIsValid(operator) && get_op_opfamily_strategy(operator, family) == BTEqualStrategyNumber)
		return IS_LESS | IS_GREATER;
	return 0;
}

static bool
is_column(Node *node)
{
	return IsA(node, Var) && !IS_SPECIAL_VARNO(((Var *) node)->varno) && ((Var *) node)->varattno > 0;
}

/* Not the result of a subquery, which must not run before it is needed. */
static bool
is_value(Node *node)
{
	return IsA(node, Const) || (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXTERN);
}

/* A qual as such a comparison; NULL if it is none that can be done here. */
static Comparison *
comparison_make(Expr *qual, TupleDesc desc, PlanState *parent)
{
	OpExpr	   *op = (OpExpr *) qual;
	Node	   *column;
	Node	   *value;
	Comparison	c = {0};
	Comparison *result;
	bool		swapped;

	if (!IsA(qual, OpExpr) || list_length(op->args) != 2)
		return NULL;
	swapped = is_column(lsecond(op->args));
	column = swapped ? lsecond(op->args) : linitial(op->args);
	value = swapped ? linitial(op->args) : lsecond(op->args);
	if (!is_column(column) || !is_value(value))
		return NULL;
	c.column_type = exprType(column);
	c.value_type = exprType(value);
	if (!are_comparable(c.column_type, c.value_type, &c.order))
		return NULL;
	c.accepted = accepted_by_operator(op->opno, c.column_type);
	c.column = column_find(desc, ((Var *) column)->varattno, true);
	if (c.accepted == 0 || !column_is_fixed(&c.column))
		return NULL;
	if (swapped)
		c.accepted = (c.accepted & IS_EQUAL) | (c.accepted & IS_LESS ? IS_GREATER : 0) |
			(c.accepted & IS_GREATER ? IS_LESS : 0);
	c.value = ExecInitExpr((Expr *) value, parent);
	result = palloc(sizeof(c));
	*result = c;
	return result;
}

/* An integer comparison as a range of what it accepts. */
static void
set_range(Comparison *c, int64 key)
{
	c->outside = c->accepted == (IS_LESS | IS_GREATER);
	c->low = (c->accepted & IS_LESS) && !c->outside ? PG_INT64_MIN : key;
	c->high = (c->accepted & IS_GREATER) && !c->outside ? PG_INT64_MAX : key;
	if ((c->accepted & IS_EQUAL) || c->outside)
		return;
	/* nothing is below the smallest, or above the largest */
	if (key == (c->accepted & IS_LESS ? PG_INT64_MIN : PG_INT64_MAX))
		c->is_null = true;
	else if (c->accepted & IS_LESS)
		c->high--;
	else
		c->low++;
}

/* Evaluate the value, a constant or a parameter of the statement; before the first row. */
static void
comparison_start(Comparison *c, ExprContext *econtext)
{
	Datum		value = ExecEvalExprSwitchContext(c->value, econtext, &c->is_null);

	if (c->is_null)
		return;
	if (c->order == BY_INT)
		set_range(c, as_int(value, c->value_type));
	else
		c->key = as_float(value, c->value_type);
}

/* Keep rows by their values, of a type that the compiler knows. */
static inline int
keep_by_int(const Comparison *c, const Datum *values, HeapTuple *rows, int n, const Oid type)
{
	const int64 low = c->low;
	const int64 high = c->high;
	const bool	outside = c->outside;
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		int64		value = as_int(values[i], type);

		rows[m] = rows[i];
		m += (value >= low && value <= high) != outside;
	}
	return m;
}

static int
keep_by_float(const Comparison *c, const Datum *values, HeapTuple *rows, int n)
{
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		float8		value = as_float(values[i], c->column_type);
		int			found = float8_lt(value, c->key) ? IS_LESS : float8_eq(value, c->key) ? IS_EQUAL : IS_GREATER;

		rows[m] = rows[i];
		m += (c->accepted & found) != 0;
	}
	return m;
}

/* Take the rows out for which it is not true. */
static void
comparison_keep(Comparison *c, Batch *batch)
{
	Datum		values[ZEN_TIDS_PER_BLOCK];
	int			n;

	if (c->is_null)
	{
		batch->n = 0;
		return;
	}
	n = column_load(&c->column, batch, values, batch->rows);
	if (c->order == BY_FLOAT)
		batch->n = keep_by_float(c, values, batch->rows, n);
	else if (c->column.len == sizeof(int64))
		batch->n = keep_by_int(c, values, batch->rows, n, INT8OID);
	else if (c->column_type == OIDOID)
		batch->n = keep_by_int(c, values, batch->rows, n, OIDOID);
	else if (c->column.len == sizeof(int32))
		batch->n = keep_by_int(c, values, batch->rows, n, INT4OID);
	else
		batch->n = keep_by_int(c, values, batch->rows, n, INT2OID);
}

/* ---------- the state ---------- */

/* What some aggregates have as their argument. */
typedef struct Source
{
	Aggref	   *aggref;			/* the first of them: has the argument, and
								 * FILTER (WHERE ...) */
	bool		needs_value;
	Column		column;			/* the argument, if attno > 0 */
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
	List	   *comparisons;	/* of Comparison */
	ExprState  *quals;			/* the others */
	int			naggs;
	Aggregate  *aggs;
	List	   *by_column;		/* Sources that are read from all rows */
	List	   *by_row;			/* those that are evaluated for each */
	bool		started;		/* the comparisons know their values, which
								 * stay the same in rescans */
	bool		done;
	Batch		batch;
} BatchState;

/* ---------- execution: begin ---------- */

static BatchState *
batch_state(CustomScanState *node)
{
	Assert(strcmp(node->methods->CustomName, ZEN_BATCH_NODE) == 0);
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
		Comparison *comparison = comparison_make(lfirst(lc), desc, &state->scan->ps);

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
		source->column = column_find(RelationGetDescr(state->scan->ss_currentRelation),
									 ((Var *) argument)->varattno, needs_value);
	else
		source->expr = ExecInitExpr(argument, scan);
	if (is_column && source->filter == NULL && column_is_fixed(&source->column))
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
	Batch	   *batch = &state->batch;
	ExprContext *econtext = state->scan->ps.ps_ExprContext;
	int			before = batch->n;
	ListCell   *lc;

	if (!state->started)
	{
		foreach(lc, state->comparisons)
			comparison_start(lfirst(lc), econtext);
		state->started = true;
	}
	foreach(lc, state->comparisons)
		comparison_keep(lfirst(lc), batch);
	if (state->quals != NULL)
	{
		int			m = 0;

		for (int i = 0; i < batch->n; i++)
		{
			show_row(batch, batch->rows[i]);
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
	Batch	   *batch = &state->batch;
	HeapTuple	ignored[ZEN_TIDS_PER_BLOCK];
	ListCell   *lc;

	foreach(lc, state->by_column)
	{
		Source	   *source = lfirst(lc);

		source->n = column_load(&source->column, batch, source->values, ignored);
	}
	for (int i = 0; state->by_row != NIL && i < batch->n; i++)
	{
		show_row(batch, batch->rows[i]);
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
	Batch	   *batch = &state->batch;
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
			added = batch_take_block(state, &block);
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
