/*
 * explain.c -- EXPLAIN (ANALYZE, ZEN), where the server lets an extension have an option.
 *
 * Below the plan it shows what the statement has read from DRAM and from NVM, and written, in this process.  A commit
 * writes a transaction's rows, so what an ordinary UPDATE will write shows as "Rows to Write"; its lines and fences are
 * counted by zen_stat_statements when it commits.
 */
#include "admin/explain.h"

#if ZEN_HAS_EXPLAIN_OPTIONS

#include "admin/querycost.h"
#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "row/writeset.h"

/* From when the options were read until the plan is printed. */
typedef struct ExplainCost
{
	ZenQueryCost before;
	uint32		nwrites;		/* of the transaction */
} ExplainCost;

static int	extension_id;
static explain_per_plan_hook_type prev_per_plan;

static void
mark(ExplainCost *cost)
{
	cost->before = zen_cost_now();
	cost->nwrites = zen_writeset.nwrites;
}

/* The option ZEN was given. */
static void
read_option(ExplainState *es, DefElem *option, ParseState *pstate)
{
	ExplainCost *cost;

	if (!defGetBoolean(option))
	{
		SetExplainExtensionState(es, extension_id, NULL);
		return;
	}
	cost = palloc0(sizeof(ExplainCost));
	mark(cost);
	SetExplainExtensionState(es, extension_id, cost);
}

static void
print(ExplainState *es, const ZenQueryCost *sum, uint32 to_write)
{
	static const char *const label[ZEN_NCOSTS] = {
		"Rows Read from DRAM", "Rows Read from NVM", "Rows Written", "Rows Spilled", "Lines Flushed", "Fences"
	};

	ExplainOpenGroup("Zen", "Zen", true, es);
	/* the others are of the statements within, since this one is measured */
	for (int i = 0; i < ZEN_NCOSTS; i++)
		if (label[i] != NULL)
			ExplainPropertyUInteger(label[i], NULL, sum->n[i], es);
	ExplainPropertyUInteger("Rows to Write", NULL, to_write, es);
	ExplainCloseGroup("Zen", "Zen", true, es);
}

static void
per_plan(PlannedStmt *plannedstmt, IntoClause *into, ExplainState *es, const char *query, ParamListInfo params,
		 QueryEnvironment *env)
{
	ExplainCost *cost = GetExplainExtensionState(es, extension_id);

	if (prev_per_plan)
		prev_per_plan(plannedstmt, into, es, query, params, env);
	if (cost != NULL && es->analyze)
	{
		ZenQueryCost sum = {0};

		zen_cost_add(&sum, &cost->before);
		print(es, &sum, zen_writeset.nwrites - Min(cost->nwrites, zen_writeset.nwrites));
		mark(cost);				/* a rule may have made several plans */
	}
}

/* As with WAL and BUFFERS, there is nothing to show for a plan that is not run. */
static explain_validate_options_hook_type prev_validate;

static void
validate(ExplainState *es, List *options, ParseState *pstate)
{
	if (prev_validate)
		prev_validate(es, options, pstate);
	if (GetExplainExtensionState(es, extension_id) != NULL && !es->analyze)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("EXPLAIN option %s requires ANALYZE", "ZEN")));
}

void
zen_explain_init(void)
{
	extension_id = GetExplainExtensionId("zen");
	RegisterExtensionExplainOption("zen", read_option);
	prev_per_plan = explain_per_plan_hook;
	explain_per_plan_hook = per_plan;
	prev_validate = explain_validate_options_hook;
	explain_validate_options_hook = validate;
}

#else

void
zen_explain_init(void)
{
}

#endif
