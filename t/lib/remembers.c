/*
 * remembers.c -- functions for tests that keep something in their FmgrInfo, as functions of extensions do: the number
 * of their calls in this query.
 *
 * calls() gives it.  The others, whose result is something else, refuse to be called more often than a query of the
 * test calls them.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
#include "executor/execExpr.h"
#include "fmgr.h"
#include "nodes/subscripting.h"
#include "parser/parse_expr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define FEW		24

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(calls);
PG_FUNCTION_INFO_V1(few_equal);
PG_FUNCTION_INFO_V1(few_compare);
PG_FUNCTION_INFO_V1(few_hash);
PG_FUNCTION_INFO_V1(few_in);
PG_FUNCTION_INFO_V1(few_out);
PG_FUNCTION_INFO_V1(few_trigger);
PG_FUNCTION_INFO_V1(few_subscripts);

static int
count_call(FmgrInfo *function)
{
	int		   *n = function->fn_extra;

	if (n == NULL)
		function->fn_extra = n = MemoryContextAllocZero(function->fn_mcxt, sizeof(int));
	return ++*n;
}

static void
expect_few(FmgrInfo *function)
{
	if (count_call(function) > FEW)
		elog(ERROR, "function %u remembers more than %d calls", function->fn_oid, FEW);
}

Datum
calls(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(count_call(fcinfo->flinfo));
}

Datum
few_equal(PG_FUNCTION_ARGS)
{
	expect_few(fcinfo->flinfo);
	PG_RETURN_BOOL(PG_GETARG_INT32(0) == PG_GETARG_INT32(1));
}

Datum
few_compare(PG_FUNCTION_ARGS)
{
	int32		a = PG_GETARG_INT32(0);
	int32		b = PG_GETARG_INT32(1);

	expect_few(fcinfo->flinfo);
	PG_RETURN_INT32(a < b ? -1 : a > b);
}

Datum
few_hash(PG_FUNCTION_ARGS)
{
	expect_few(fcinfo->flinfo);
	PG_RETURN_INT32(PG_GETARG_INT32(0) * 7);
}

Datum
few_in(PG_FUNCTION_ARGS)
{
	expect_few(fcinfo->flinfo);
	PG_RETURN_INT32(atoi(PG_GETARG_CSTRING(0)));
}

Datum
few_out(PG_FUNCTION_ARGS)
{
	expect_few(fcinfo->flinfo);
	PG_RETURN_CSTRING(psprintf("%d", PG_GETARG_INT32(0)));
}

Datum
few_trigger(PG_FUNCTION_ARGS)
{
	expect_few(fcinfo->flinfo);
	return PointerGetDatum(((TriggerData *) fcinfo->context)->tg_trigtuple);
}

/* A value's subscript is the number of calls, too: what is remembered is the expression's. */
static void
transform(SubscriptingRef *ref, List *indirection, struct ParseState *pstate, bool slice, bool assignment)
{
	A_Indices  *index = linitial_node(A_Indices, indirection);

	ref->refupperindexpr = list_make1(transformExpr(pstate, index->uidx, pstate->p_expr_kind));
	ref->refrestype = INT4OID;
	ref->reftypmod = -1;
}

static void
fetch(ExprState *state, ExprEvalStep *op, ExprContext *econtext)
{
	int		   *n = op->d.sbsref.state->workspace;

	*op->resvalue = Int32GetDatum(++*n);
	*op->resnull = false;
}

static bool
check(ExprState *state, ExprEvalStep *op, ExprContext *econtext)
{
	return true;
}

static void
setup(const SubscriptingRef *ref, SubscriptingRefState *state, SubscriptExecSteps *steps)
{
	state->workspace = palloc0(sizeof(int));
	steps->sbs_check_subscripts = check;
	steps->sbs_fetch = fetch;
}

Datum
few_subscripts(PG_FUNCTION_ARGS)
{
	static const SubscriptRoutines routines = {.transform = transform, .exec_setup = setup, .fetch_strict = true};

	PG_RETURN_POINTER(&routines);
}
