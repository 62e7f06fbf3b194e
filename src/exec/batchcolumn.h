/*
 * batchcolumn.h -- a column of many rows at once, and comparisons with it.
 */
#ifndef ZEN_BATCHCOLUMN_H
#define ZEN_BATCHCOLUMN_H

#include "base/compat.h"

#include "access/htup.h"
#include "nodes/execnodes.h"
#include "table/zenam_fetch.h"

/* Where a column is in the rows of a table. */
typedef struct ZenColumn
{
	AttrNumber	attno;
	int16		len;			/* bytes; 0: only its being NULL is of
								 * interest */
	int32		offset;			/* in a row without NULLs before it, or -1 */
} ZenColumn;

/* Rows that a node reads together, and the slot that can show each. */
typedef struct ZenBatch
{
	TupleTableSlot *slot;		/* of a zen table */
	Oid			tableoid;
	int			n;
	HeapTuple	rows[ZEN_TIDS_PER_BLOCK];
} ZenBatch;

/* zen_batch_show -- have the slot show a row of the batch. */
static inline void
zen_batch_show(ZenBatch *batch, HeapTuple row)
{
	if (((HeapTupleTableSlot *) batch->slot)->tuple != row)
		zenam_slot_show(batch->slot, row, batch->tableoid);
}

/* zen_column_find -- describe a user column; needs_value: not only whether it is NULL. */
extern ZenColumn zen_column_find(TupleDesc desc, AttrNumber attno, bool needs_value);

/* Can the column be read without looking at those before it, in most rows? */
static inline bool
zen_column_is_fixed(const ZenColumn *column)
{
	return column->offset >= 0;
}

/*
 * zen_column_load -- the column's values, NULLs left out, and the rows that have them; returns how many.
 *
 * The column is fixed.  rows may be batch->rows.  The values of a column whose value is not needed are undefined.
 */
extern int	zen_column_load(const ZenColumn *column, ZenBatch *batch, Datum *values, HeapTuple *rows);

/* A comparison of a column with a value that is the same for all rows. */
typedef struct ZenComparison ZenComparison;

/* zen_comparison_make -- a qual as such a comparison; NULL if it is none that can be done here. */
extern ZenComparison *zen_comparison_make(Expr *qual, TupleDesc desc, PlanState *parent);

/* zen_comparison_start -- evaluate the value, a constant or a parameter of the statement; before the first row. */
extern void zen_comparison_start(ZenComparison *comparison, ExprContext *econtext);

/* zen_comparison_keep -- take the rows out for which it is not true. */
extern void zen_comparison_keep(ZenComparison *comparison, ZenBatch *batch);

#endif							/* ZEN_BATCHCOLUMN_H */
