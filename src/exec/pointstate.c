/*
 * pointstate.c -- executor state that outlives an execution, kept by the serial number of a plan.
 *
 * At the second execution of a marked plan the standard executor starts a copy of it in memory that stays; with
 * zen.debug_keep_plans, at the first.  Then the state is parked: relations, index, snapshot and tuple descriptors go
 * back.  Expressions, slots, scan keys and the description of the target stay.  So everything compiled is PostgreSQL's
 * own work.
 *
 * A state is valid as long as all that it was made from is the same:
 * - the table and the index: a relcache invalidation of either ends it;
 * - functions, languages, roles and their membership: any invalidation in these catalogs ends all states;
 * - the current user: another one has it made anew;
 * - what expressions are compiled from: the columns of composite types, constraints of domains, casts, default operator
 *   classes.  Any invalidation of a relation or in these catalogs ends the states that have such expressions.
 * What functions and expressions learn while they run is no part of a state (pointmemory.c).
 * A state during whose making anything was invalidated is not used: the standard executor runs the plan.
 *
 * An execution under way goes on with a state that has become invalid, as the standard executor would with its own.
 *
 * An error may end an execution without a word.  So the end of each transaction and subtransaction forgets the
 * executions that began in it.
 */
#include "exec/pointstate.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/guc.h"
#include "base/stats.h"
#include "catalog/objectaccess.h"
#include "exec/keptnodes.h"
#include "exec/pointmemory.h"
#include "exec/pointplan.h"
#include "exec/pointrow.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "tcop/dest.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

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

static Kept kept[NSTATES];
static int	nrunning;			/* executions under way */
static uint64 nchanges;			/* invalidations heard of */

static Kept *
place(uint32 serial)
{
	return &kept[serial % NSTATES];
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

/* ---------- invalidation ---------- */

static void
relation_changed(Datum arg, Oid relid)
{
	nchanges++;
	for (int i = 0; i < NSTATES; i++)
		if (kept[i].point != NULL && (relid == InvalidOid || kept[i].point->knows_catalogs ||
									  list_member_oid(kept[i].point->relations, relid)))
			kept[i].point->valid = false;
}

static void
catalog_changed(Datum arg, int cacheid, uint32 hash)
{
	relation_changed(arg, InvalidOid);
}

/* Something has changed from which expressions are compiled. */
static void
source_changed(Datum arg, int cacheid, uint32 hash)
{
	nchanges++;
	for (int i = 0; i < NSTATES; i++)
		if (kept[i].point != NULL && kept[i].point->knows_catalogs)
			kept[i].point->valid = false;
}

/* ---------- transactions ---------- */

void
zen_pointstate_forget(SubTransactionId from)
{
	if (nrunning == 0)
		return;
	for (int i = 0; i < NSTATES; i++)
	{
		ZenPoint   *point = kept[i].point;

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
note_function(Oid function, void *functions)
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
	(void) check_functions_in_node(node, note_function, functions);
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

/* How an INSERT or UPDATE makes the new row from what the statement says, and from the old row. */
static void
init_new_row(ZenPoint *point)
{
	ModifyTable *plan = point->shape.change;
	PlanState  *source = outerPlanState(point->change);
	TupleDesc	desc = CreateTupleDescCopyConstr(RelationGetDescr(point->rel));

	if (plan->operation == CMD_DELETE)
		return;
	point->new_row = MakeSingleTupleTableSlot(desc, table_slot_callbacks(point->rel));
	if (plan->operation == CMD_UPDATE)
		point->make_row = ExecBuildUpdateProjection(source->plan->targetlist, true,
													(List *) linitial(plan->updateColnosLists), desc,
													source->ps_ExprContext, point->new_row, source);
	else
		point->make_row = ExecBuildProjectionInfo(source->plan->targetlist, source->ps_ExprContext,
												  point->new_row, source, NULL);
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

static bool
has_more_than_columns(List *targetlist)
{
	ListCell   *lc;

	foreach(lc, targetlist)
		if (!IsA(lfirst_node(TargetEntry, lc)->expr, Var))
		return true;
	return false;
}

/* Find the parts of a point access. */
static void
find_row_parts(ZenPoint *point, PlanState *state)
{
	EState	   *estate = point->kept->estate;

	Assert(point->ntables == 1);
	if (point->shape.lock != NULL)
	{
		point->mark = ExecFindRowMark(estate, point->shape.rti, false);
		point->computes = has_more_than_columns(point->shape.scan->scan.plan.targetlist);
		state = outerPlanState(state);
	}
	point->rel = point->tables[0].rel;
	point->relid = point->tables[0].relid;
	if (point->shape.scan != NULL)
	{
		point->scan = castNode(IndexScanState, state);
		point->index_lock = exec_rt_fetch(point->shape.rti, estate)->rellockmode;
		point->relations = lappend_oid(point->relations, point->shape.scan->indexid);
		zen_pointrow_init(point);
	}
	if (point->change != NULL)
		init_new_row(point);
}

/* Find the parts of the state that the standard executor has made. */
static void
find_parts(ZenPoint *point)
{
	PlannedStmt *stmt = point->kept->plannedstmt;
	PlanState  *source = find_change(point, outerPlanState(castNode(CustomScanState, point->kept->planstate)));

	find_tables(point);
	if (point->kind == ZEN_POINT_ROW)
		find_row_parts(point, source);
	else
		zen_keptnodes_find(point);
	point->knows_catalogs = zen_memory_kind(stmt, zen_point_plan(stmt)) != ZEN_MEMORY_NONE;
	zen_memory_find(point);
}

/* Let the standard executor start a copy of the plan, in a context that stays. */
static void
start_kept(ZenPoint *point, QueryDesc *query)
{
	PlannedStmt *stmt = copyObject(query->plannedstmt);

	stmt->jitFlags = 0;			/* compiled code would go with the transaction */
	if (point->kind == ZEN_POINT_ROW && !zen_point_shape(stmt, zen_point_plan(stmt), &point->shape))
		elog(ERROR, "a plan marked as a point access is none");
	(void) zen_keptnodes_walk(zen_point_plan(stmt), collect_functions, &point->functions);
	point->kept = CreateQueryDesc(stmt, "", query->snapshot, InvalidSnapshot, None_Receiver, NULL, NULL, 0);
	standard_ExecutorStart(point->kept, EXEC_FLAG_SKIP_TRIGGERS);
}

/* Start the plan once and keep its state.  The state is not valid if something has changed during that. */
static ZenPoint *
make_state(uint32 serial, QueryDesc *query)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "zen point access",
												  ALLOCSET_START_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	ZenPoint   *point = palloc0(sizeof(ZenPoint));
	uint64		before = nchanges;

	point->serial = serial;
	point->kind = zen_point_kind(query->plannedstmt);
	point->context = context;
	point->user = GetUserId();

	start_kept(point, query);
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
	if (object_access_hook != NULL)
		foreach(lc, point->functions)
			InvokeFunctionExecuteHook(lfirst_oid(lc));
}

/* The plan gets the place; whatever had it goes.  Result: has the plan been executed before? */
static bool
take_place(Kept *k, uint32 serial)
{
	discard(k);
	k->serial = serial;
	return was_executed(serial);
}

/* The state is made anew.  Result: why it cannot be used. */
static ZenPointWhy
remake(Kept *k, QueryDesc *query)
{
	uint32		serial = k->serial;
	ZenPoint   *point;

	discard(k);
	if (!zen_point_still_fits(query->plannedstmt))
		return ZEN_WHY_changed;
	point = make_state(serial, query);
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

ZenPointWhy
zen_pointstate_of(uint32 serial, QueryDesc *query, ZenPoint **point)
{
	Kept	   *k = place(serial);
	ZenPointWhy why = ZEN_WHY_NONE;

	Assert(serial != 0);
	/* it, or another in its place, is under way */
	if (k->point != NULL && k->point->query != NULL)
		return ZEN_WHY_nested;
	if (k->serial != serial)
	{
		bool		known = take_place(k, serial);

		if (!zen_debug_keep_plans)
			return known ? ZEN_WHY_forgotten : ZEN_WHY_first_run;
	}
	if (k->point == NULL || !k->point->valid || k->point->user != GetUserId())
		why = remake(k, query);
	else
		check_again(k->point);
	*point = k->point;
	return why;
}

ZenPoint *
zen_pointstate_running(const QueryDesc *query)
{
	uint32		serial;
	ZenPoint   *point;

	if (query->planstate == NULL)
		return NULL;
	serial = zen_point_serial(query->plannedstmt);
	point = serial != 0 ? place(serial)->point : NULL;
	/* after an error another query may have come to lie where that one was */
	return point != NULL && point->query == query && point->kept->estate == query->estate ? point : NULL;
}

bool
zen_pointstate_open(ZenPoint *point)
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

void
zen_pointstate_begin(ZenPoint *point, QueryDesc *query, int eflags)
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
	estate->es_param_list_info = query->params;
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

void
zen_pointstate_end(ZenPoint *point)
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

void
zen_pointstate_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(LANGOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMMEMROLE, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(DATABASEOID, catalog_changed, (Datum) 0);
	for (int i = 0; i < lengthof(sources); i++)
		CacheRegisterSyscacheCallback(sources[i], source_changed, (Datum) 0);
}
