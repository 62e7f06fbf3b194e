/*
 * exec.c -- the door to this folder: marked plans are executed with executor state that outlives an execution.
 *
 * The planner's hook (planhook.c) has plans marked.  At the second execution of a marked plan the standard
 * executor starts a copy of it in memory that stays; with zen.debug_keep_plans, at the first.  Then the state is
 * parked: relations, index, snapshot and tuple descriptors go back.  The executor's hooks use the state: pointrow.c
 * reads and changes rows named by keys, the executor's own nodes any rows (keptnodes.c).  README, "What makes it
 * invalid", says when a state ends; what functions learn while they run is no part of it (pointmemory.c).
 *
 * Where an execution cannot use the state, the standard executor runs the marked plan.  pointplan.c has the reasons
 * (NOT_USED), which zen_stat counts; not counted is that zen.executor was set without point.
 */
#include "exec/exec.h"

#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/guc.h"
#include "base/stats.h"
#include "catalog/objectaccess.h"
#include "commands/trigger.h"
#include "exec/batch.h"
#include "exec/indexonly.h"
#include "exec/indexscan.h"
#include "exec/keptnodes.h"
#include "exec/planhook.h"
#include "exec/plannode.h"
#include "exec/point.h"
#include "exec/seqscan.h"
#include "exec/shape.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "pgstat.h"
#include "table/zenam_fetch.h"
#include "tcop/dest.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* ---------- states ---------- */

#define NSTATES			256		/* in a process; serial numbers are
								 * consecutive */
#define NEXECUTED		4096	/* plans of which it is known that they were
								 * executed, with state or without */
#define MAX_CONTEXT_SIZE (256 * 1024)	/* bytes; a state that has grown
										 * beyond goes */

/* The state kept for a serial number, in place serial % NSTATES. */
typedef struct Kept
{
	uint32		serial;			/* 0: none */
	ZenPoint   *point;			/* NULL: the plan was executed once */
} Kept;

/*
 * The catalogs, beside those of relations, from which expressions are compiled.  Of others, as operators and the
 * members of operator families, PostgreSQL's plan cache plans anew what uses them.
 */
static const int sources[] = {TYPEOID, CASTSOURCETARGET, CONSTROID, CLAOID, AMPROCNUM};

/* Catalogs from which plans of shapes are made, beside those and beside functions (shape.h). */
static const int plan_sources[] = {NAMESPACEOID, OPEROID, AMOPOPID};

static Kept states[NSTATES];
static int	nrunning;			/* executions under way */
static uint64 nchanges;			/* invalidations heard of */

static Kept *
state_place(uint32 serial)
{
	return &states[serial % NSTATES];
}

static void
discard(Kept *k)
{
	ZenPoint   *point = k->point;

	k->point = NULL;
	if (point == NULL)
		return;
	Assert(point->query == NULL);
	MemoryContextDelete(point->context);
}

/* Has this plan been executed before?  True also if it has lost its place since.  From now on it has. */
static bool
was_executed(uint32 serial)
{
	static uint32 executed[NEXECUTED];	/* in place serial % NEXECUTED */
	bool		known = executed[serial % NEXECUTED] == serial;

	executed[serial % NEXECUTED] = serial;
	return known;
}

/* ---------- what ends a state or an execution ---------- */

static void
state_relation_changed(Datum arg, Oid relid)
{
	nchanges++;
	zen_shape_relation_changed(relid);
	for (int i = 0; i < NSTATES; i++)
	{
		ZenPoint   *point = states[i].point;

		if (point != NULL && (relid == InvalidOid || point->knows_catalogs || list_member_oid(point->relations, relid)))
			point->valid = false;
	}
}

static void
catalog_changed(Datum arg, int cacheid, uint32 hash)
{
	state_relation_changed(arg, InvalidOid);
}

/* Something has changed from which plans are made, and by which no state was compiled. */
static void
plan_source_changed(Datum arg, int cacheid, uint32 hash)
{
	zen_shape_relation_changed(InvalidOid);
}

/* Something has changed from which expressions are compiled. */
static void
source_changed(Datum arg, int cacheid, uint32 hash)
{
	nchanges++;
	if (cacheid == TYPEOID)
		zen_shape_type_changed(hash);
	else
		zen_shape_relation_changed(InvalidOid);
	for (int i = 0; i < NSTATES; i++)
	{
		if (states[i].point != NULL && states[i].point->knows_catalogs)
			states[i].point->valid = false;
	}
}

/*
 * An error, or the end of a transaction, has ended the executions that began in this subtransaction or a later one;
 * InvalidSubTransactionId: all.  What they held is gone already.
 */
static void
state_forget(SubTransactionId from)
{
	if (nrunning == 0)
		return;
	for (int i = 0; i < NSTATES; i++)
	{
		ZenPoint   *point = states[i].point;

		if (point == NULL || point->query == NULL || point->subxact < from)
			continue;
		point->query = NULL;
		nrunning--;
		/* it may have stood anywhere: the state is made anew */
		point->valid = false;
	}
}

/* ---------- making a state ---------- */

static bool
collect_function(Oid function, void *functions)
{
	List	  **list = functions;

	*list = list_append_unique_oid(*list, function);
	return false;
}

/* The functions of a plan: object access hooks hear of them whenever an executor starts. */
static bool
collect_functions(Node *node, void *functions)
{
	if (node == NULL)
		return false;
	(void) check_functions_in_node(node, collect_function, functions);
	return expression_tree_walker(node, collect_functions, functions);
}

/*
 * Slots keep their descriptors beyond the transaction: they get copies.  The executor makes some slots late, as for
 * triggers.
 */
static void
own_descriptors(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;
	MemoryContext old;
	ListCell   *lc;

	if (list_length(estate->es_tupleTable) == point->nslots)
		return;
	old = MemoryContextSwitchTo(estate->es_query_cxt);
	foreach(lc, estate->es_tupleTable)
	{
		TupleTableSlot *slot = lfirst(lc);
		TupleDesc	desc = slot->tts_tupleDescriptor;

		if (desc == NULL || desc->tdrefcount < 0)
			continue;
		slot->tts_tupleDescriptor = CreateTupleDescCopyConstr(desc);
		ReleaseTupleDesc(desc);
	}
	MemoryContextSwitchTo(old);
	point->nslots = list_length(estate->es_tupleTable);
}

static void
close_tables(ZenPoint *point)
{
	for (int i = 0; i < point->ntables; i++)
		table_close(point->tables[i].rel, NoLock);
}

/* Give back all that belongs to the transaction. */
static void
park(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;

	Assert(point->query == NULL && point->ntables > 0);
	own_descriptors(point);
	if (point->scan != NULL)
	{
		point->parked_index = point->scan->iss_RelationDesc;
		index_close(point->scan->iss_RelationDesc, NoLock);
		point->scan->iss_RelationDesc = NULL;
	}
	zen_keptnodes_close(point);
	close_tables(point);
	UnregisterSnapshot(estate->es_snapshot);
	estate->es_snapshot = InvalidSnapshot;
	Assert(estate->es_crosscheck_snapshot == InvalidSnapshot);
	UnregisterSnapshot(point->kept->snapshot);
	point->kept->snapshot = InvalidSnapshot;
}

static void
find_tables(ZenPoint *point)
{
	EState	   *estate = point->kept->estate;

	point->tables = palloc0(Max(estate->es_range_table_size, 1) * sizeof(ZenPointTable));
	for (Index rti = 1; rti <= estate->es_range_table_size; rti++)
	{
		Relation	rel = estate->es_relations[rti - 1];
		ZenPointTable *table = &point->tables[point->ntables];

		if (rel == NULL)
			continue;
		table->relid = RelationGetRelid(rel);
		table->rel = rel;
		point->ntables++;
		point->relations = lappend_oid(point->relations, RelationGetRelid(rel));
	}
}

/* Expressions that are compiled when a row is changed. */
static bool
has_expressions(Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	return rel->rd_rel->relispartition ||
		(constr != NULL && (constr->num_check > 0 || constr->has_generated_stored || zen_has_virtual(constr)));
}

/* What is changed, if the plan changes anything.  Result: the node that gives the rows. */
static PlanState *
find_change(ZenPoint *point, PlanState *state)
{
	point->writes = IsA(state, ModifyTableState) || point->kept->plannedstmt->rowMarks != NIL;
	if (!IsA(state, ModifyTableState))
		return state;
	point->change = (ModifyTableState *) state;
	point->target = point->change->resultRelInfo;
	point->has_triggers = point->target->ri_TrigDesc != NULL;
	point->has_expressions = has_expressions(point->target->ri_RelationDesc) || point->has_triggers;
	return outerPlanState(state);
}

/* Find the parts of the state that the standard executor has made. */
static void
find_parts(ZenPoint *point)
{
	PlannedStmt *stmt = point->kept->plannedstmt;
	PlanState  *source = find_change(point, outerPlanState(castNode(CustomScanState, point->kept->planstate)));

	find_tables(point);
	if (point->kind == ZEN_POINT_ROW)
		zen_pointrow_init(point, source);
	else
		zen_keptnodes_find(point);
	point->knows_catalogs = zen_memory_kind(stmt, outerPlan(stmt->planTree)) != ZEN_MEMORY_NONE;
	zen_memory_find(point);
}

/* Have nodes of a plan that was just started run by functions of zen's, where there are such. */
static bool
take_over(PlanState *state, void *ignored)
{
	if (IsA(state, IndexOnlyScanState))
		zen_indexonly_take_over((IndexOnlyScanState *) state);
	else if (IsA(state, IndexScanState))
		zen_indexscan_take_over((IndexScanState *) state);
	else if (IsA(state, SeqScanState))
		zen_seqscan_take_over((SeqScanState *) state);
	return planstate_tree_walker(state, take_over, ignored);
}

/* Let the standard executor start the plan, the state's own copy. */
static void
start_kept(ZenPoint *point, PlannedStmt *stmt, Snapshot snapshot)
{
	stmt->jitFlags = 0;			/* compiled code would go with the transaction */
	(void) zen_keptnodes_walk(outerPlan(stmt->planTree), collect_functions, &point->functions);
	point->kept = CreateQueryDesc(stmt, "", snapshot, InvalidSnapshot, None_Receiver, NULL, NULL, 0);
	standard_ExecutorStart(point->kept, EXEC_FLAG_SKIP_TRIGGERS);
	(void) take_over(point->kept->planstate, NULL);
}

/*
 * Start the plan once and keep its state.  The state is not valid if something has changed during that.  NULL: the plan
 * is not what it was marked as any more.
 */
static ZenPoint *
make_state(QueryDesc *query)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "zen point access",
												  ALLOCSET_START_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	ZenPoint   *point = palloc0(sizeof(ZenPoint));
	PlannedStmt *stmt = zen_point_copy(query->plannedstmt);
	uint64		before;

	MemoryContextSwitchTo(old);
	if (!zen_point_still_fits(stmt, &point->shape))
	{
		MemoryContextDelete(context);
		return NULL;
	}
	before = nchanges;
	point->kind = zen_point_kind(stmt);
	point->context = context;
	point->user = GetUserId();
	point->track_functions = pgstat_track_functions;

	MemoryContextSwitchTo(context);
	start_kept(point, stmt, query->snapshot);
	MemoryContextSwitchTo(point->kept->estate->es_query_cxt);
	point->run_context = AllocSetContextCreate(context, "zen point access, one execution",
											   ALLOCSET_SMALL_SIZES);
	find_parts(point);
	park(point);

	/*
	 * a change during this call may concern the state, which had no place yet
	 * where invalidations find it
	 */
	point->valid = nchanges == before && !point->memory.unknown;
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(context, CacheMemoryContext);
	return point;
}

/* ---------- using one ---------- */

/* The state is at hand and valid: check what ExecutorStart checks each time. */
static void
check_again(ZenPoint *point)
{
	ListCell   *lc;

	if (ExecutorCheckPerms_hook != NULL)
		(void) zen_check_permissions(point->kept->plannedstmt);
	foreach(lc, object_access_hook != NULL ? point->functions : NIL)
	{
		InvokeFunctionExecuteHook(lfirst_oid(lc));
	}
}

/* The state is made anew.  Result: why it cannot be used. */
static ZenPointWhy
remake(Kept *k, QueryDesc *query)
{
	uint32		serial = k->serial;
	ZenPoint   *point;

	discard(k);
	point = make_state(query);
	if (point == NULL)
		return ZEN_WHY_changed;
	ZEN_COUNT(point_states_made, 1);
	/* a function that make_state() has called may have made one, too */
	if (k->serial != serial || k->point != NULL)
	{
		MemoryContextDelete(point->context);
		return ZEN_WHY_nested;
	}
	k->point = point;
	return point->valid ? ZEN_WHY_NONE : ZEN_WHY_changed;
}

/* Is a state what ExecutorStart would make now? */
static bool
is_up_to_date(const ZenPoint *point)
{
	return point->valid && point->user == GetUserId() && point->track_functions == pgstat_track_functions;
}

/*
 * *point gets the state kept for a plan.  Result: why it may not be executed with it now.
 *
 * Makes it at the second execution, under query's snapshot.  Permissions are checked then, and whenever they may have
 * changed.  Throws what ExecutorStart throws.
 */
static ZenPointWhy
state_of(uint32 serial, QueryDesc *query, ZenPoint **point)
{
	Kept	   *k = state_place(serial);
	ZenPointWhy why = ZEN_WHY_NONE;

	Assert(serial != 0);
	/* it, or another in its place, is under way */
	if (k->point != NULL && k->point->query != NULL)
		return ZEN_WHY_nested;
	if (k->serial != serial)
	{
		bool		known = was_executed(serial);

		/* the plan gets the place */
		discard(k);
		k->serial = serial;
		if (!zen_debug_keep_plans)
			return known ? ZEN_WHY_forgotten : ZEN_WHY_first_run;
	}
	if (k->point == NULL || !is_up_to_date(k->point))
		why = remake(k, query);
	else
		check_again(k->point);
	*point = k->point;
	return why;
}

/* The state with which a query is being executed; NULL if it is executed otherwise. */
static ZenPoint *
state_running(const QueryDesc *query)
{
	uint32		serial;
	ZenPoint   *point;

	if (query->planstate == NULL)
		return NULL;
	serial = zen_point_serial(query->plannedstmt);
	point = serial != 0 ? state_place(serial)->point : NULL;
	/* after an error another query may have come to lie where that one was */
	return point != NULL && point->query == query && point->kept->estate == query->estate ? point : NULL;
}

/*
 * Open the tables.  False: one is described anew, and the state is not valid any more.
 *
 * An error from here to state_end leaves them to the resource owner.
 */
static bool
state_open(ZenPoint *point)
{
	for (int i = 0; i < point->ntables; i++)
	{
		Relation	rel = table_open(point->tables[i].relid, NoLock);

		point->valid = point->valid && rel == point->tables[i].rel;
		point->tables[i].rel = rel;
	}
	if (!point->valid)
		close_tables(point);
	return point->valid;
}

static void
state_begin(ZenPoint *point, QueryDesc *query, int eflags)
{
	EState	   *estate = point->kept->estate;

	Assert(point->query == NULL && point->valid);
	point->query = query;
	nrunning++;
	point->subxact = GetCurrentSubTransactionId();
	point->skip_triggers = (eflags & EXEC_FLAG_SKIP_TRIGGERS) != 0 || !point->has_triggers;
	point->started = point->done = false;

	estate->es_top_eflags = eflags;
	estate->es_snapshot = query->snapshot;
	estate->es_crosscheck_snapshot = query->crosscheck_snapshot;
	estate->es_param_list_info = zen_point_params(query->plannedstmt->planTree, query->params, point->run_context);
	estate->es_sourceText = query->sourceText;
	estate->es_queryEnv = query->queryEnv;
	zen_clear_processed(estate);
	estate->es_finished = false;
	if (point->writes)
		estate->es_output_cid = GetCurrentCommandId(true);

	query->estate = estate;
	query->planstate = point->kept->planstate;
	query->tupDesc = point->kept->tupDesc;
}

/* Triggers of this query's level may have been those of other tables: a foreign key's cascade leaves them to it. */
static void
close_trigger_targets(EState *estate)
{
	ListCell   *lc;

	foreach(lc, estate->es_trig_target_relations)
		table_close(((ResultRelInfo *) lfirst(lc))->ri_RelationDesc, NoLock);
	estate->es_trig_target_relations = NIL;
}

/* The execution has ended in an orderly way. */
static void
state_end(ZenPoint *point)
{
	QueryDesc  *query = point->query;
	EState	   *estate = point->kept->estate;

	Assert(query != NULL && query->estate == estate);

	/*
	 * other libraries allocate it where they think that it goes with the
	 * execution
	 */
	if (query->totaltime != NULL && GetMemoryChunkContext(query->totaltime) == estate->es_query_cxt)
		pfree(query->totaltime);
	own_descriptors(point);
	zen_memory_forget(point);
	close_trigger_targets(estate);
	close_tables(point);
	query->totaltime = NULL;
	query->estate = NULL;
	query->planstate = NULL;
	query->tupDesc = NULL;
	estate->es_snapshot = InvalidSnapshot;
	estate->es_crosscheck_snapshot = InvalidSnapshot;
	estate->es_param_list_info = NULL;
	MemoryContextReset(point->run_context);
	Assert(point->index == NULL && point->index_scan == NULL);
	Assert(point->kind == ZEN_POINT_ROW || !point->started);
	point->query = NULL;
	nrunning--;
	Assert(nrunning >= 0);
	if (point->memory.unknown || MemoryContextMemAllocated(point->context, true) > MAX_CONTEXT_SIZE)
		point->valid = false;
}

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
		why = state_of(serial, query, &point);
	if (why == ZEN_WHY_NONE && !state_open(point))
		why = ZEN_WHY_changed;
	if (why == ZEN_WHY_NONE)
		return point;
	ZEN_COUNT(point_fallbacks, 1);
	zen_point_count_reason(why);
	return NULL;
}

ParamListInfo
zen_exec_params(const QueryDesc *query)
{
	if (zen_point_serial(query->plannedstmt) == 0)
		return query->params;
	return zen_point_params(query->plannedstmt->planTree, query->params, CurrentMemoryContext);
}

static void
point_start(QueryDesc *query, int eflags)
{
	ZenPoint   *point = choose_state(query, eflags);

	if (point == NULL)
	{
		standard_ExecutorStart(query, eflags);
		(void) take_over(query->planstate, NULL);
		return;
	}
	Assert(GetActiveSnapshot() == query->snapshot);
	state_begin(point, query, eflags);
	if (!point->skip_triggers)
		AfterTriggerBeginQuery();
	if (point->kind == ZEN_POINT_ROW)
		ZEN_COUNT(point_accesses, 1);
	else
		ZEN_COUNT(point_kept_plans, 1);
}

/* ---------- run ---------- */

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
		zen_pointrow_run(point, send, count);
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
	ZenPoint   *point = state_running(queryDesc);

	if (point == NULL)
		standard_ExecutorRun(ZEN_EXECUTOR_RUN_PASS);
	else
		run_point(point, direction, count);
}

/* ---------- end ---------- */

static void
point_finish(QueryDesc *query)
{
	ZenPoint   *point = state_running(query);
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
	ZenPoint   *point = state_running(query);

	if (point == NULL)
	{
		standard_ExecutorEnd(query);
		return;
	}
	zen_keptnodes_close(point);
	if (point->scan != NULL)
		ExecClearTuple(point->scan->ss.ss_ScanTupleSlot);
	state_end(point);
}

/* ---------- hooks ---------- */

static bool installed;

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
	installed = zen_planhook_marks = true;
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
	installed = zen_planhook_marks = false;
}

static void
register_callbacks(void)
{
	CacheRegisterRelcacheCallback(state_relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(LANGOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMMEMROLE, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(DATABASEOID, catalog_changed, (Datum) 0);
	for (int i = 0; i < lengthof(sources); i++)
		CacheRegisterSyscacheCallback(sources[i], source_changed, (Datum) 0);
	for (int i = 0; i < lengthof(plan_sources); i++)
		CacheRegisterSyscacheCallback(plan_sources[i], plan_source_changed, (Datum) 0);
}

void
zen_exec_init(void)
{
	if (installed)
	{
		zen_pointplan_init();
		register_callbacks();
	}
	zen_keyjoin_init();
	zen_planhook_init();
	zen_batchnode_init();
	zen_batchagg_init();
}

/* ---------- the end of transactions ---------- */

void
zen_exec_event(XactEvent event)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_COMMIT || event == XACT_EVENT_PREPARE)
		state_forget(InvalidSubTransactionId);
}

void
zen_exec_subevent(SubXactEvent event, SubTransactionId subxact)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		state_forget(subxact);
}
