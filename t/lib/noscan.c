/*
 * noscan.c -- two index access methods for tests, both BRIN under another name: one lets itself be asked for all
 * entries and then refuses, as indexes of vectors do; the other asks for a key.
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/brin_internal.h"
#include "access/relscan.h"
#include "fmgr.h"
#include "utils/fmgrprotos.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(noscan_handler);
PG_FUNCTION_INFO_V1(needkey_handler);

static int64
refuse_without_key(IndexScanDesc scan, TIDBitmap *bitmap)
{
	if (scan->numberOfKeys == 0)
		elog(ERROR, "cannot scan noscan index without a key");
	return bringetbitmap(scan, bitmap);
}

Datum
noscan_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = (IndexAmRoutine *) DatumGetPointer(brinhandler(fcinfo));

	am->amgetbitmap = refuse_without_key;
	PG_RETURN_POINTER(am);
}

Datum
needkey_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = (IndexAmRoutine *) DatumGetPointer(brinhandler(fcinfo));

	am->amoptionalkey = false;
	PG_RETURN_POINTER(am);
}
