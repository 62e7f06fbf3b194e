/*
 * exec.c -- the door to this folder: hooks of the planner and of the executor, and the execution of marked plans.
 *
 * A marked plan is executed with the state kept for it: one row by the functions of this folder (run_rows), any rows by
 * the executor's own nodes (keptnodes.c).  The standard executor runs it, and zen_stat counts that,
 * - the first time, or if other plans have taken its place since;
 * - with instrumentation: EXPLAIN ANALYZE, auto_explain with log_analyze;
 * - in a cursor that goes backward or is rewound;
 * - while the same plan is under way further up, as in a trigger's function;
 * - where writing is bound to fail: in a transaction that is read-only, in parallel mode;
 * - above READ COMMITTED when the snapshot may see an own row beside one that another transaction has deleted;
 * - if something changes while it is started;
 * - after zen.executor was set without point (not counted).
 *
 * A plan that PostgreSQL makes for one execution is not marked, since state is worth its making only if it is used
 * again: one for the values of parameters, and one of a query just analyzed (point_planner).
 */
#include "exec/exec.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "base/stats.h"
#include "commands/trigger.h"
#include "exec/batchnode.h"
#include "exec/keptnodes.h"
#include "exec/keyjoin.h"
#include "exec/pointplan.h"
#include "exec/pointrow.h"
#include "exec/pointstate.h"
#include "exec/pointwhy.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "parser/analyze.h"
#include "table/zenam_fetch.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

static planner_hook_type prev_planner;
static post_parse_analyze_hook_type prev_analyzed;
static bool installed;

/* ---------- start ---------- */

/* May a marked plan be executed with kept state, as the query is asked for? */
static ZenPointWhy
execution_refuses(const QueryDesc *query, int eflags)
{
	bool		writes = query->operation != CMD_SELECT || query->plannedstmt->rowMarks != NIL;

	if (query->instrument_options != 0)
		return ZEN_WHY_instrumented;
	if ((eflags & ~EXEC_FLAG_SKIP_TRIGGERS) != 0)
		return ZEN_WHY_cursor;
	if (writes && (XactReadOnly || IsInParallelMode()))
		return ZEN_WHY_read_only;
	if (zen_point_kind(query->plannedstmt) == ZEN_POINT_ROW && zen_fetch_sees_key_twice())
		return ZEN_WHY_own_row;
	return ZEN_WHY_NONE;
}

static ZenPoint *
choose_state(QueryDesc *query, int eflags)
{
	uint32		serial = zen_point_serial(query->plannedstmt);
	ZenPoint   *point = NULL;
	ZenPointWhy why;

	if (serial == 0 || !zen_point_access || (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0)
		return NULL;
	why = execution_refuses(query, eflags);
	if (why == ZEN_WHY_NONE)
		why = zen_pointstate_of(serial, query, &point);
	if (why == ZEN_WHY_NONE && !zen_pointstate_open(point))
		why = ZEN_WHY_changed;
	if (why == ZEN_WHY_NONE)
		return point;
	ZEN_COUNT(point_fallbacks, 1);
	zen_point_count(why);
	return NULL;
}

static void
point_start(QueryDesc *query, int eflags)
{
	ZenPoint   *point = choose_state(query, eflags);

	if (point == NULL)
	{
		standard_ExecutorStart(query, eflags);
		return;
	}
	Assert(GetActiveSnapshot() == query->snapshot);
	zen_pointstate_begin(point, query, eflags);
	if (!point->skip_triggers)
		AfterTriggerBeginQuery();
	if (point->kind == ZEN_POINT_ROW)
		ZEN_COUNT(point_accesses, 1);
	else
		ZEN_COUNT(point_kept_plans, 1);
}

/* ---------- run ---------- */

static void
set_parameters(ZenPoint *point)
{
	ParamListInfo params = point->query->params;
	PlanState  *source = point->make_row ? outerPlanState(point->change) : NULL;

	if (point->scan != NULL)
	{
		point->scan->ss.ps.ps_ExprContext->ecxt_param_list_info = params;
		if (point->scan->iss_RuntimeContext != NULL)
			point->scan->iss_RuntimeContext->ecxt_param_list_info = params;
	}
	if (source != NULL)
		source->ps_ExprContext->ecxt_param_list_info = params;
	if (point->change != NULL && point->change->ps.ps_ExprContext != NULL)
		point->change->ps.ps_ExprContext->ecxt_param_list_info = params;
}

/* The row that a SELECT gives to its receiver. */
static TupleTableSlot *
selected(ZenPoint *point)
{
	ExprContext *econtext = point->scan->ss.ps.ps_ExprContext;
	TupleTableSlot *slot = point->scan->ss.ss_ScanTupleSlot;
	EState	   *estate = point->kept->estate;

	econtext->ecxt_scantuple = slot;
	if (point->mark != NULL)
	{
		/*
		 * LockRows gets rows that the scan has projected: an error there
		 * comes before the lock
		 */
		if (point->computes)
			(void) ExecProject(point->scan->ss.ps.ps_ProjInfo);
		if (!zen_point_lock(point))
			return NULL;
	}
	if (point->scan->ss.ps.ps_ProjInfo != NULL)
		slot = ExecProject(point->scan->ss.ps.ps_ProjInfo);
	if (estate->es_junkFilter != NULL)
		slot = ExecFilterJunk(estate->es_junkFilter, slot);
	estate->es_processed++;
	return slot;
}

/* The row that RETURNING gives. */
static TupleTableSlot *
returned(ZenPoint *point, TupleTableSlot *row)
{
	ProjectionInfo *returning = point->target->ri_projectReturning;

	if (row == NULL || returning == NULL)
		return NULL;
	row->tts_tableOid = point->relid;
	returning->pi_exprContext->ecxt_scantuple = row;
	return ExecProject(returning);
}

static void
before_statement_triggers(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;

	switch (point->shape.change->operation)
	{
		case CMD_INSERT:
			ExecBSInsertTriggers(estate, point->target);
			break;
		case CMD_UPDATE:
			ExecBSUpdateTriggers(estate, point->target);
			break;
		default:
			Assert(point->shape.change->operation == CMD_DELETE);
			ExecBSDeleteTriggers(estate, point->target);
	}
}

static void
after_statement_triggers(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;

	switch (point->shape.change->operation)
	{
		case CMD_INSERT:
			ExecASInsertTriggers(estate, point->target, NULL);
			break;
		case CMD_UPDATE:
			ExecASUpdateTriggers(estate, point->target, NULL);
			break;
		default:
			ExecASDeleteTriggers(estate, point->target, NULL);
	}
}

/* Nothing of the row stays, except where WHERE CURRENT OF looks for it. */
static void
clear_row(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;

	if (point->scan != NULL)
	{
		if (point->change != NULL)
			ExecClearTuple(point->scan->ss.ss_ScanTupleSlot);
		ResetExprContext(point->scan->ss.ps.ps_ExprContext);
	}
	if (point->new_row != NULL)
		ExecClearTuple(point->new_row);
	if (point->change != NULL && point->change->ps.ps_ExprContext != NULL)
		ResetExprContext(point->change->ps.ps_ExprContext);
	if (point->make_row != NULL)
		ResetExprContext(point->make_row->pi_exprContext);
	ResetPerTupleExprContext(estate);
}

static void
begin_rows(ZenPoint *point)
{
	point->started = true;
	set_parameters(point);
	if (point->has_triggers)
		before_statement_triggers(point);
	if (point->scan != NULL)
		zen_point_begin_read(point);
}

/* Read or change the next row.  Result: the slot to be sent to the client, or NULL.  Sets done after the last one. */
static TupleTableSlot *
next_row(ZenPoint *point)
{
	CmdType		operation = point->change != NULL ? point->shape.change->operation : CMD_SELECT;

	if (operation == CMD_INSERT)
	{
		point->done = true;
		return returned(point, zen_point_insert(point));
	}
	if (!zen_point_next(point))
		return NULL;
	if (operation == CMD_SELECT)
		return selected(point);
	return returned(point, operation == CMD_UPDATE ? zen_point_update(point) : zen_point_delete(point));
}

/* All rows, or as many as shall be sent at most. */
static void
run_rows(ZenPoint *point, bool send, uint64 count)
{
	uint64		sent = 0;
	bool		more = true;

	CHECK_FOR_INTERRUPTS();
	if (!point->started)
		begin_rows(point);
	while (more && !point->done)
	{
		TupleTableSlot *slot = next_row(point);

		if (send && !TupIsNull(slot))
			more = point->query->dest->receiveSlot(slot, point->query->dest) && ++sent != count;
		clear_row(point);
	}
	if (point->done && point->has_triggers)
		after_statement_triggers(point);
	if (point->scan != NULL)
		zen_point_end_read(point);
}

/* Trigger functions are looked up once, and what is found must stay; so must what nodes make when it is needed. */
static MemoryContext
execution_context(ZenPoint *point)
{
	return point->has_triggers || point->kind == ZEN_POINT_PLAN ? point->kept->estate->es_query_cxt :
		point->run_context;
}

static void
run_point(ZenPoint *point, ScanDirection direction, uint64 count)
{
	QueryDesc  *query = point->query;
	EState	   *estate = point->kept->estate;
	bool		send = query->operation == CMD_SELECT || query->plannedstmt->hasReturning;
	MemoryContext old = MemoryContextSwitchTo(execution_context(point));

	if (query->totaltime)
		InstrStartNode(query->totaltime);
	estate->es_processed = 0;
	if (send)
		query->dest->rStartup(query->dest, query->operation, query->tupDesc);
	Assert(!ScanDirectionIsBackward(direction));
	if (ScanDirectionIsForward(direction) && point->kind == ZEN_POINT_PLAN)
		zen_keptnodes_run(point, send, count);
	else if (ScanDirectionIsForward(direction) && !point->done)
		run_rows(point, send, count);
	zen_add_processed(estate);
	if (send)
		query->dest->rShutdown(query->dest);
	if (query->totaltime)
		InstrStopNode(query->totaltime, estate->es_processed);
	MemoryContextSwitchTo(old);
}

static void
point_run(ZEN_EXECUTOR_RUN_ARGS)
{
	ZenPoint   *point = zen_pointstate_running(queryDesc);

	if (point == NULL)
		standard_ExecutorRun(ZEN_EXECUTOR_RUN_PASS);
	else
		run_point(point, direction, count);
}

/* ---------- end ---------- */

static void
point_finish(QueryDesc *query)
{
	ZenPoint   *point = zen_pointstate_running(query);
	MemoryContext old;

	if (point == NULL)
	{
		standard_ExecutorFinish(query);
		return;
	}
	old = MemoryContextSwitchTo(execution_context(point));
	if (query->totaltime)
		InstrStartNode(query->totaltime);
	if (!point->skip_triggers)
		AfterTriggerEndQuery(point->kept->estate);
	if (query->totaltime)
		InstrStopNode(query->totaltime, 0);
	point->kept->estate->es_finished = true;
	MemoryContextSwitchTo(old);
}

static void
point_end(QueryDesc *query)
{
	ZenPoint   *point = zen_pointstate_running(query);

	if (point == NULL)
	{
		standard_ExecutorEnd(query);
		return;
	}
	zen_keptnodes_close(point);
	if (point->scan != NULL)
		ExecClearTuple(point->scan->ss.ss_ScanTupleSlot);
	zen_pointstate_end(point);
}

/* ---------- hooks ---------- */

/* A query that may be planned just as it was analyzed; NULL: none. */
static const Query *analyzed;

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

static PlannedStmt *
point_planner(Query *parse, const char *source, int options, ParamListInfo params)
{
	ZenPointWhy once = is_planned_once(parse, params);
	bool		looks_ahead = zen_key_join && zen_keyjoin_looks_ahead(parse);
	PlannedStmt *stmt = prev_planner ? prev_planner(parse, source, options, params) :
	standard_planner(parse, source, options, params);

	if (zen_key_join)
		zen_keyjoin_mark(stmt, looks_ahead);
	if (installed && zen_point_access)
		zen_point_mark(stmt, once);
	return stmt;
}

void
zen_exec_install(void)
{
	if (installed || ExecutorStart_hook != NULL || ExecutorRun_hook != NULL || ExecutorFinish_hook != NULL ||
		ExecutorEnd_hook != NULL)
		return;
	ExecutorStart_hook = point_start;
	ExecutorRun_hook = point_run;
	ExecutorFinish_hook = point_finish;
	ExecutorEnd_hook = point_end;
	installed = true;
}

void
zen_exec_yield(void)
{
	if (ExecutorStart_hook != point_start || ExecutorRun_hook != point_run || ExecutorFinish_hook != point_finish ||
		ExecutorEnd_hook != point_end)
		return;
	ExecutorStart_hook = NULL;
	ExecutorRun_hook = NULL;
	ExecutorFinish_hook = NULL;
	ExecutorEnd_hook = NULL;
	installed = false;
}

void
zen_exec_init(void)
{
	if (installed)
	{
		zen_pointplan_init();
		zen_pointstate_init();
	}
	zen_keyjoin_init();
	prev_planner = planner_hook;
	planner_hook = point_planner;
	prev_analyzed = post_parse_analyze_hook;
	post_parse_analyze_hook = point_analyzed;
	zen_batchnode_init();
}

/* ---------- the end of transactions ---------- */

void
zen_exec_event(XactEvent event)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_COMMIT || event == XACT_EVENT_PREPARE)
		zen_pointstate_forget(InvalidSubTransactionId);
}

void
zen_exec_subevent(SubXactEvent event, SubTransactionId subxact)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		zen_pointstate_forget(subxact);
}

/* ---------- what others ask ---------- */

bool
zen_exec_keeps(const PlannedStmt *stmt)
{
	return zen_point_serial(stmt) != 0;
}

const ZenPointReason *
zen_exec_reason(int why)
{
	return why < ZEN_NWHYS ? zen_point_reason((ZenPointWhy) why) : NULL;
}
