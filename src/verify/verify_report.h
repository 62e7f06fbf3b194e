/*
 * verify_report.h -- the rows that zen_verify() and zen_verify_pool() return: one for each thing found wrong.
 */
#ifndef ZEN_VERIFY_REPORT_H
#define ZEN_VERIFY_REPORT_H

#include "base/compat.h"

#include "fmgr.h"
#include "nvm/layout.h"
#include "storage/itemptr.h"
#include "utils/tuplestore.h"

typedef struct ZenReport
{
	Tuplestorestate *store;
	TupleDesc	desc;
	uint64		n;				/* rows so far */
} ZenReport;

/* Begin the result of a set-returning function; it goes to disk when it grows large. */
extern void zen_report_begin(ZenReport *report, FunctionCallInfo fcinfo);

/* A thing found wrong, and its place. */
typedef struct ZenFinding
{
	const char *kind;
	Oid			relation;		/* or InvalidOid */
	bool		has_tid;
	uint64		tidno;
	ZenSlot		slot;			/* or InvalidZenSlot */
	const char *location;		/* shown if there is no slot; or NULL */
} ZenFinding;

extern void zen_report(ZenReport *report, const ZenFinding *finding, const char *fmt,...) pg_attribute_printf(3, 4);

#endif							/* ZEN_VERIFY_REPORT_H */
