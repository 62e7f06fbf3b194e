/*
 * zenam_handler.c -- the table access method's routine, put together from its modules' parts.
 */
#include "table/zenam_callbacks.h"

#include "base/compat.h"
#include "fmgr.h"
#include "table/zenam_rel.h"

PG_FUNCTION_INFO_V1(zen_tableam_handler);

Datum
zen_tableam_handler(PG_FUNCTION_ARGS)
{
	TableAmRoutine *routine = &zenam_routine;

	if (routine->type != T_TableAmRoutine)
	{
		zenam_fetch_callbacks(routine);
		zenam_scan_callbacks(routine);
		zenam_toast_callbacks(routine);
		zenam_dml_callbacks(routine);
		zenam_ddl_callbacks(routine);
		zenam_rewrite_callbacks(routine);
		zenam_vacuum_callbacks(routine);
		zenam_build_callbacks(routine);
		routine->type = T_TableAmRoutine;
	}
	PG_RETURN_POINTER(routine);
}
