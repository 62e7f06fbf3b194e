/*
 * verify_report.c -- findings as rows: kind, relation, tid, location, detail.
 */
#include "verify/verify_report.h"

#include "base/epoch.h"
#include "cache/tidmap.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nvm/page.h"
#include "utils/builtins.h"

#define NCOLUMNS	5

void
zen_report_begin(ZenReport *report, FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	report->store = rsinfo->setResult;
	report->desc = rsinfo->setDesc;
	report->n = 0;
	if (report->desc->natts != NCOLUMNS || TupleDescAttr(report->desc, 1)->atttypid != REGCLASSOID ||
		TupleDescAttr(report->desc, 2)->atttypid != TIDOID)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the SQL objects of extension zen do not fit the zen library that the server has loaded"),
				 errhint("Restart the server if the library was replaced, then run ALTER EXTENSION zen UPDATE.")));
}

/* Where a slot is; its page may have no owner. */
static char *
slot_location(ZenSlot slot)
{
	Size		offset = slot * ZEN_SLOT_UNIT;

	if (!zen_page_holds(slot))
		return psprintf("offset %zu", offset);
	return psprintf("page %u, slot %u, offset %zu", zen_slot_page(slot), zen_page_slot_index(slot), offset);
}

void
zen_report(ZenReport *report, const ZenFinding *finding, const char *fmt,...)
{
	Datum		values[NCOLUMNS] = {0};
	bool		isnull[NCOLUMNS] = {false};
	ItemPointerData tid;
	char		detail[1024];
	va_list		args;

	/* it allocates, and may throw */
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	Assert(finding->kind != NULL && report->store != NULL);
	va_start(args, fmt);
	vsnprintf(detail, sizeof(detail), fmt, args);
	va_end(args);
	values[0] = CStringGetTextDatum(finding->kind);
	values[1] = ObjectIdGetDatum(finding->relation);
	isnull[1] = !OidIsValid(finding->relation);
	if (finding->has_tid)
	{
		zen_make_tid(&tid, finding->tidno, 0);
		values[2] = PointerGetDatum(&tid);
	}
	isnull[2] = !finding->has_tid;
	if (finding->slot != InvalidZenSlot)
		values[3] = CStringGetTextDatum(slot_location(finding->slot));
	else if (finding->location != NULL)
		values[3] = CStringGetTextDatum(finding->location);
	isnull[3] = finding->slot == InvalidZenSlot && finding->location == NULL;
	values[4] = CStringGetTextDatum(detail);
	tuplestore_putvalues(report->store, report->desc, values, isnull);
	report->n++;
}
