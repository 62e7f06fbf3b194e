/*
 * planhook.c -- the hooks of parser and planner: which plans are marked, and which statements run by the plan of their
 * shape.
 *
 * A plan that PostgreSQL makes for one execution is not marked, since state is worth its making only if it is used
 * again: one for the values of parameters, and one of a query just analyzed (is_planned_once).
 */
#include "exec/planhook.h"

#include "access/xlog.h"
#include "base/guc.h"
#include "exec/plannode.h"
#include "exec/point.h"
#include "exec/shape.h"
#include "optimizer/planner.h"
#include "parser/analyze.h"

bool		zen_planhook_marks = false;

static planner_hook_type prev_planner;
static post_parse_analyze_hook_type prev_analyzed;

/* A query that may be planned just as it was analyzed; NULL: none. */
static const Query *analyzed;

/* A command that shows plans, or makes one for a cursor, tells of its query, too. */
static const Query *shown;

/*
 * The parser has no hook for parameters if there can be none.  EXPLAIN and other commands tell of their queries with a
 * state that has not analyzed them: what they show is a plan that is made to be kept.
 */
static void
point_analyzed(ParseState *pstate, Query *query, JumbleState *jumble)
{
	if (prev_analyzed)
		prev_analyzed(pstate, query, jumble);
	analyzed = pstate->p_paramref_hook == NULL && pstate->p_rtable != NIL ? query : NULL;
	shown = pstate->p_rtable == NIL ? query : NULL;
}

/*
 * Will a plan be executed once only?  The plan cache plans copies of queries.  So if the query is the very one that was
 * analyzed last, it came by the simple protocol, or as dynamic SQL.  A wrong answer would cost time only.
 */
static ZenPointWhy
is_planned_once(const Query *parse, ParamListInfo params)
{
	bool		just_analyzed = parse == analyzed;

	analyzed = NULL;
	if (zen_debug_keep_plans)
		return ZEN_WHY_NONE;
	if (params != NULL)
		return ZEN_WHY_custom_plan;
	return just_analyzed ? ZEN_WHY_planned_once : ZEN_WHY_NONE;
}

/*
 * May a query be executed by the plan kept for its shape?  Not
 *
 * * that of EXPLAIN, which shows the plan for the values;
 * * one whose caller wants a plan for the values;
 * * one whose parameters are computed when they are asked for.
 */
static bool
may_have_shape(const Query *parse, int options, ParamListInfo params)
{
	bool		is_shown = parse == shown && (options & CURSOR_OPT_FAST_PLAN) == 0;

	shown = NULL;
	return zen_planhook_marks && zen_point_access && !RecoveryInProgress() && !is_shown &&
		(options & CURSOR_OPT_CUSTOM_PLAN) == 0 &&
		(params == NULL || params->paramFetch == NULL);
}

/* As ever; then zen's nodes are put on top of joins. */
static PlannedStmt *
plan_query(Query *parse, const char *source, int options, ParamListInfo params)
{
	/*
	 * on a standby trees stand in for btrees, of which kept state knows
	 * nothing
	 */
	bool		joins = zen_key_join && !RecoveryInProgress();
	bool		looks_ahead = joins && zen_keyjoin_looks_ahead(parse);
	PlannedStmt *stmt = prev_planner ? prev_planner(parse, source, options, params) :
	standard_planner(parse, source, options, params);

	if (joins)
		zen_keyjoin_mark(stmt, looks_ahead);
	return stmt;
}

static PlannedStmt *
plan_shape(Query *shape, const char *source, int options, ZenPointWhy *why)
{
	PlannedStmt *stmt = plan_query(shape, source, options, NULL);

	*why = zen_point_mark(stmt, ZEN_WHY_NONE, true);
	return stmt;
}

/* A plan is for one execution, or seems to be: the reason that counts is why its shape has none. */
static ZenPointWhy
reason_of(ZenPointWhy why, ZenPointWhy of_shape)
{
	bool		once = why == ZEN_WHY_planned_once || why == ZEN_WHY_custom_plan || why == ZEN_WHY_no_parameters;

	return once && of_shape != ZEN_WHY_NONE ? of_shape : why;
}

static PlannedStmt *
point_planner(Query *parse, const char *source, int options, ParamListInfo params)
{
	ZenPointWhy once = is_planned_once(parse, params);
	bool		shaped = may_have_shape(parse, options, params);
	ZenShapeKey key;
	PlannedStmt *stmt;

	key.why = ZEN_WHY_NONE;
	if (shaped)
	{
		stmt = zen_shape_plan(&key, parse, source, options, params, plan_shape);
		if (stmt != NULL)
			return stmt;
	}
	stmt = plan_query(parse, source, options, params);
	if (shaped)
		zen_shape_learn(&key, stmt);
	if (zen_planhook_marks && zen_point_access && !RecoveryInProgress())
		zen_point_count_reason(reason_of(zen_point_mark(stmt, once, false), key.why));
	return stmt;
}

void
zen_planhook_init(void)
{
	prev_planner = planner_hook;
	planner_hook = point_planner;
	prev_analyzed = post_parse_analyze_hook;
	post_parse_analyze_hook = point_analyzed;
}
