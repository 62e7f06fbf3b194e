/*
 * resultrow.c -- rows of the functions behind the views.
 *
 * A column of another type than the SQL file says, or one too many, is an error: the database has other SQL objects
 * than the library.
 */
#include "admin/resultrow.h"

#include "base/startup.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "recovery/recovery.h"
#include "txn/xact.h"
#include "utils/builtins.h"
#include "utils/xid8.h"

void
zen_put_datum(ZenResultRow *row, Oid type, Datum value, bool isnull)
{
	if (row->n >= row->desc->natts || row->n >= ZEN_MAX_COLUMNS || TupleDescAttr(row->desc, row->n)->atttypid != type)
		zen_sql_differs();
	row->values[row->n] = value;
	row->isnull[row->n] = isnull;
	row->n++;
}

void
zen_put_int64_or_null(ZenResultRow *row, int64 value, bool isnull)
{
	zen_put_datum(row, INT8OID, Int64GetDatum(value), isnull);
}

void
zen_put_int64(ZenResultRow *row, int64 value)
{
	zen_put_int64_or_null(row, value, false);
}

void
zen_put_int32(ZenResultRow *row, int32 value)
{
	zen_put_datum(row, INT4OID, Int32GetDatum(value), false);
}

void
zen_put_float8(ZenResultRow *row, double value)
{
	zen_put_datum(row, FLOAT8OID, Float8GetDatum(value), false);
}

void
zen_put_bool(ZenResultRow *row, bool value)
{
	zen_put_datum(row, BOOLOID, BoolGetDatum(value), false);
}

void
zen_put_oid(ZenResultRow *row, Oid value)
{
	zen_put_datum(row, OIDOID, ObjectIdGetDatum(value), false);
}

void
zen_put_text(ZenResultRow *row, const char *value)
{
	zen_put_datum(row, TEXTOID, value ? CStringGetTextDatum(value) : (Datum) 0, value == NULL);
}

void
zen_put_xid(ZenResultRow *row, TransactionId value)
{
	zen_put_datum(row, XIDOID, TransactionIdGetDatum(value), !TransactionIdIsValid(value));
}

void
zen_put_xid8(ZenResultRow *row, FullTransactionId value)
{
	zen_put_datum(row, XID8OID, FullTransactionIdGetDatum(value), !FullTransactionIdIsValid(value));
}

void
zen_view_enter(void)
{
	if (zen_recovery == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zen is not running in this server"),
				 errhint("Add zen to shared_preload_libraries and restart the server.")));
	zen_xact_attach();
}

void
zen_view_begin_row(FunctionCallInfo fcinfo, ZenResultRow *row)
{
	zen_view_enter();
	if (get_call_result_type(fcinfo, NULL, &row->desc) != TYPEFUNC_COMPOSITE)
		zen_sql_differs();
	row->desc = BlessTupleDesc(row->desc);
	row->n = 0;
}

Datum
zen_end_row(ZenResultRow *row)
{
	if (row->n != row->desc->natts)
		zen_sql_differs();
	return HeapTupleGetDatum(heap_form_tuple(row->desc, row->values, row->isnull));
}

void
zen_view_begin_rows(FunctionCallInfo fcinfo, ZenResultRow *row)
{
	zen_view_enter();
	InitMaterializedSRF(fcinfo, 0);
	row->desc = ((ReturnSetInfo *) fcinfo->resultinfo)->setDesc;
	row->n = 0;
}

void
zen_put_row(FunctionCallInfo fcinfo, ZenResultRow *row)
{
	if (row->n != row->desc->natts)
		zen_sql_differs();
	Assert(row->n <= ZEN_MAX_COLUMNS);
	tuplestore_putvalues(((ReturnSetInfo *) fcinfo->resultinfo)->setResult, row->desc, row->values, row->isnull);
	row->n = 0;
}
