/*
 * batchcolumn.c -- columns of many rows at once: their values, and comparisons with a value.
 */
#include "exec/batchcolumn.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/tupmacs.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* ---------- columns: where they are ---------- */

/* Describe a user column; needs_value: not only whether it is NULL. */
ZenColumn
zen_column_find(TupleDesc desc, AttrNumber attno, bool needs_value)
{
	Form_pg_attribute att = TupleDescAttr(desc, attno - 1);
	ZenColumn	column = {.attno = attno,.len = needs_value ? att->attlen : 0,.offset = 0};

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
odd_place(HeapTupleHeader h, const ZenColumn *column)
{
	if (HeapTupleHeaderGetNatts(h) < column->attno)
		return ASK_SLOT;
	if ((h->t_infomask & HEAP_HASNULL) == 0)
		return AT_OFFSET;
	if (att_isnull(column->attno - 1, h->t_bits))
		return NULL_HERE;
	return column->len > 0 && has_null_before(h->t_bits, column->attno - 1) ? ASK_SLOT : AT_OFFSET;
}

/* The column of a row that the slot must show; false: NULL, or the row must be copied first. */
static pg_noinline bool
ask_slot(ZenBatch *batch, HeapTuple row, AttrNumber attno, Datum *value)
{
	bool		isnull;

	if (batch->in_place)
	{
		batch->needs_slot = true;
		return false;
	}
	zen_batch_show_row(batch, row);
	*value = slot_getattr(batch->slot, attno, &isnull);
	return !isnull;
}

/* zen_column_load, for a width that the compiler knows. */
static inline int
column_load_width(const ZenColumn *column, ZenBatch *batch, Datum *values, HeapTuple *rows, const int16 len)
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
int
zen_column_load(const ZenColumn *column, ZenBatch *batch, Datum *values, HeapTuple *rows)
{
	Assert(zen_column_is_fixed(column));
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

#define IS_LESS			1
#define IS_EQUAL		2
#define IS_GREATER		4

static const int accepted_by[] = {
	[BTLessStrategyNumber] = IS_LESS,
	[BTLessEqualStrategyNumber] = IS_LESS | IS_EQUAL,
	[BTEqualStrategyNumber] = IS_EQUAL,
	[BTGreaterEqualStrategyNumber] = IS_GREATER | IS_EQUAL,
	[BTGreaterStrategyNumber] = IS_GREATER,
};

/* Can values of two types be compared here?  *order: how. */
static bool
are_comparable(Oid a, Oid b, ZenOrder *order)
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
ZenComparison *
zen_comparison_make(Expr *qual, TupleDesc desc, PlanState *parent)
{
	OpExpr	   *op = (OpExpr *) qual;
	Node	   *column;
	Node	   *value;
	ZenComparison c = {0};
	ZenComparison *result;
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
	c.column = zen_column_find(desc, ((Var *) column)->varattno, true);
	if (c.accepted == 0 || !zen_column_is_fixed(&c.column))
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
set_range(ZenComparison *c, int64 key)
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
void
zen_comparison_start(ZenComparison *c, ExprContext *econtext)
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
keep_by_int(const ZenComparison *c, const Datum *values, HeapTuple *rows, int n, const Oid type)
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
keep_by_float(const ZenComparison *c, const Datum *values, HeapTuple *rows, int n)
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
void
zen_comparison_keep(ZenComparison *c, ZenBatch *batch)
{
	Datum		values[ZEN_TIDS_PER_BLOCK];
	int			n;

	if (c->is_null)
	{
		batch->n = 0;
		return;
	}
	n = zen_column_load(&c->column, batch, values, batch->rows);
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
