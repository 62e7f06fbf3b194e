/*
 * noscan.c -- an index access method for tests: a hash index that may be asked for all entries, and then refuses, as indexes
 * of vectors do.
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/hash.h"
#include "access/relscan.h"
#include "fmgr.h"
#include "utils/fmgrprotos.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(noscan_handler);

static bool
refuse_without_key(IndexScanDesc scan, ScanDirection direction)
{
	if (scan->numberOfKeys == 0)
		elog(ERROR, "cannot scan noscan index without a key");
	return hashgettuple(scan, direction);
}

Datum
noscan_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = (IndexAmRoutine *) DatumGetPointer(hashhandler(fcinfo));

	am->amoptionalkey = true;
	am->amgettuple = refuse_without_key;
	PG_RETURN_POINTER(am);
}
