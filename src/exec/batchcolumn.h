/*
 * batchcolumn.h -- columns of many rows at once: their values, and comparisons with a value.
 */
#ifndef ZEN_BATCHCOLUMN_H
#define ZEN_BATCHCOLUMN_H

#include "base/compat.h"

#include "nodes/execnodes.h"
#include "row/rowread.h"
#include "table/zenam_fetch.h"

/* Where a column is in the rows of a table. */
typedef struct ZenColumn
{
	AttrNumber	attno;
	int16		len;			/* bytes; 0: only its being NULL is of
								 * interest */
	int32		offset;			/* in a row without NULLs before it, or -1 */
} ZenColumn;

/* Rows that are read together, and the slot that can show each. */
typedef struct ZenBatch
{
	TupleTableSlot *slot;		/* of a zen table */
	Oid			tableoid;
	bool		in_place;		/* the slot must not show them */
	bool		needs_slot;		/* of rows in place: it would have to */
	int			n;
	HeapTuple	rows[ZEN_TIDS_PER_BLOCK];
} ZenBatch;

/* Have the slot show a row of the batch. */
static inline void
zen_batch_show_row(ZenBatch *batch, HeapTuple row)
{
	if (((HeapTupleTableSlot *) batch->slot)->tuple != row)
		zenam_slot_show(batch->slot, row, batch->tableoid);
}

/* Can the column be read without looking at those before it, in most rows? */
static inline bool
zen_column_is_fixed(const ZenColumn *column)
{
	return column->offset >= 0;
}

/* zen_column_find -- describe a user column; needs_value: not only whether it is NULL. */
extern ZenColumn zen_column_find(TupleDesc desc, AttrNumber attno, bool needs_value);

/*
 * zen_column_load -- the column's values, NULLs left out, and the rows that have them; returns how many.
 *
 * The column is fixed.  rows may be batch->rows.  The values of a column whose value is not needed are undefined.  With
 * rows in place it neither allocates nor throws.
 */
extern int	zen_column_load(const ZenColumn *column, ZenBatch *batch, Datum *values, HeapTuple *rows);

/* ---------- comparisons of a column with a value ---------- */

/* How values are compared. */
typedef enum ZenOrder
{
	BY_INT,						/* as 64-bit integers */
	BY_FLOAT					/* as float8, with its place for NaN */
} ZenOrder;

/* A comparison of a column with a value that is the same for all rows. */
typedef struct ZenComparison
{
	ZenColumn	column;
	Oid			column_type;
	Oid			value_type;
	ZenOrder	order;
	int			accepted;		/* of IS_LESS and so on */
	ExprState  *value;
	bool		is_null;		/* the value is: true for no row */
	int64		low;			/* BY_INT: true for low to high, or for all */
	int64		high;			/* but these */
	bool		outside;
	float8		key;			/* BY_FLOAT */
} ZenComparison;

/*
 * zen_comparison_make -- a qual as such a comparison; NULL if it is none that can be done here.
 *
 * zen_comparison_start -- evaluate the value, a constant or a parameter of the statement; before the first row.
 *
 * zen_comparison_keep -- take the rows out for which it is not true.  With rows in place it neither allocates nor
 * throws.
 */
extern ZenComparison *zen_comparison_make(Expr *qual, TupleDesc desc, PlanState *parent);
extern void zen_comparison_start(ZenComparison *c, ExprContext *econtext);
extern void zen_comparison_keep(ZenComparison *c, ZenBatch *batch);

#endif							/* ZEN_BATCHCOLUMN_H */
