/*
 * resultrow.h -- rows of the functions behind the views.
 */
#ifndef ZEN_RESULTROW_H
#define ZEN_RESULTROW_H

#include "base/compat.h"

#include "access/tupdesc.h"
#include "access/transam.h"
#include "fmgr.h"

#define ZEN_MAX_COLUMNS		64

/* A result row, filled from left to right. */
typedef struct ZenResultRow
{
	TupleDesc	desc;
	int			n;				/* columns filled */
	Datum		values[ZEN_MAX_COLUMNS];
	bool		isnull[ZEN_MAX_COLUMNS];
} ZenResultRow;

/* zen_view_enter -- each function calls this first, most of them to begin a row.  Does not wait for recovery. */
extern void zen_view_enter(void);

/*
 * zen_view_begin_row -- begin the only row of a result; zen_end_row returns it.
 *
 * zen_view_begin_rows -- begin a result of several rows; zen_put_row adds what was put, and begins the next one.
 */
extern void zen_view_begin_row(FunctionCallInfo fcinfo, ZenResultRow *row);
extern Datum zen_end_row(ZenResultRow *row);
extern void zen_view_begin_rows(FunctionCallInfo fcinfo, ZenResultRow *row);
extern void zen_put_row(FunctionCallInfo fcinfo, ZenResultRow *row);

/* The next column.  A text NULL, or an xid that is not valid, is null. */
extern void zen_put_datum(ZenResultRow *row, Oid type, Datum value, bool isnull);
extern void zen_put_int64_or_null(ZenResultRow *row, int64 value, bool isnull);
extern void zen_put_int64(ZenResultRow *row, int64 value);
extern void zen_put_int32(ZenResultRow *row, int32 value);
extern void zen_put_float8(ZenResultRow *row, double value);
extern void zen_put_bool(ZenResultRow *row, bool value);
extern void zen_put_oid(ZenResultRow *row, Oid value);
extern void zen_put_text(ZenResultRow *row, const char *value);
extern void zen_put_xid(ZenResultRow *row, TransactionId value);
extern void zen_put_xid8(ZenResultRow *row, FullTransactionId value);

#endif							/* ZEN_RESULTROW_H */
