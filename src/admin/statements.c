/*
 * statements.c -- what zen does when a statement is executed: gates before it, and what it costs.
 *
 * README, "What hooks do" (Executor) and "What a statement costs", says what is done, what is counted, and for whom.
 */
#include "admin/statements.h"

#include "access/parallel.h"
#include "access/table.h"
#include "access/xlog.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/startup.h"
#include "base/stats.h"
#include "catalog/pg_authid.h"
#include "exec/exec.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "recovery/gate.h"
#include "recovery/recovery.h"
#include "row/writeset.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "table/standbyplan.h"
#include "table/standin.h"
#include "table/treeindex.h"
#include "table/zenam_rel.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/rel.h"
#if ZEN_HAS_EXPLAIN_OPTIONS
#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

PG_FUNCTION_INFO_V1(zen_view_statements);

/* ---------- gates ---------- */

/*
 * The tables that a plan writes pass their gates before the executor opens their indexes: one that must be rebuilt
 * while others may use it (zenam_reindex.c) must not be open here.  The planner has locked them.
 */
static void
enter_targets(PlannedStmt *stmt)
{
	ListCell   *lc;

	if (stmt->resultRelations == NIL || pg_atomic_read_u32(&zen_recovery->rebuilt_in_use) == 0)
		return;
	foreach(lc, stmt->resultRelations)
	{
		Relation	rel = table_open(rt_fetch(lfirst_int(lc), stmt->rtable)->relid, NoLock);

		if (zen_rel_is_zen(rel))
			(void) zen_rel_htable(rel);
		table_close(rel, NoLock);
	}
}

/* ---------- on a standby ---------- */

/* Does the statement, or a part of it, change or lock rows?  As ExecCheckXactReadOnly() judges; *context is unused. */
static bool
changes_or_locks(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, changes_or_locks, context);
	return zen_query_asks_for_more(castNode(Query, node), ACL_SELECT) ||
		query_tree_walker(castNode(Query, node), changes_or_locks, context, 0);
}

PlannedStmt *
zen_statements_plan_on_standby(planner_hook_type rest, Query *query, const char *text, int options,
							   ParamListInfo params)
{
	const char *before = zen_gate_refused;
	int			begun = zen_standbyplan_begin();
	PlannedStmt *plan;

	Assert(RecoveryInProgress());
	zen_gate_refused = changes_or_locks((Node *) query, NULL) ? CreateCommandName((Node *) query) : NULL;
	PG_TRY();
	{
		plan = rest(query, text, options, params);
	}
	PG_FINALLY();
	{
		zen_gate_refused = before;
		zen_standbyplan_end(begun);
	}
	PG_END_TRY();
	return plan;
}

/* ---------- ON CONFLICT ---------- */

static bool
open_targets(PlanState *state, void *context)
{
	ModifyTableState *modify = (ModifyTableState *) state;

	if (state == NULL)
		return false;
	if (IsA(state, ModifyTableState) && ((ModifyTable *) state->plan)->onConflictAction != ONCONFLICT_NONE)
		for (int i = 0; i < modify->mt_nrels; i++)
			if (zen_rel_is_zen(modify->resultRelInfo[i].ri_RelationDesc))
				zen_index_open_for_conflict(&modify->resultRelInfo[i]);
	return planstate_tree_walker(state, open_targets, context);
}

/* Only INSERT has ON CONFLICT; its plan says so at the top, or below a node of zen's. */
static bool
may_have_targets(PlannedStmt *stmt)
{
	Plan	   *top = stmt->planTree;

	if (stmt->hasModifyingCTE)
		return true;
	if (stmt->commandType != CMD_INSERT)
		return false;
	if (IsA(top, CustomScan) && outerPlan(top) != NULL)
		top = outerPlan(top);
	return !IsA(top, ModifyTable) || ((ModifyTable *) top)->onConflictAction != ONCONFLICT_NONE;
}

static void
open_conflict_indexes(QueryDesc *query, int eflags)
{
	ListCell   *lc;

	if (!ZEN_CONFLICT_WANTS_BTREE || (eflags & EXEC_FLAG_EXPLAIN_ONLY) || query->planstate == NULL ||
		!may_have_targets(query->plannedstmt))
		return;
	(void) open_targets(query->planstate, NULL);
	foreach(lc, query->estate->es_auxmodifytables)
		(void) open_targets(lfirst(lc), NULL);
}

/* ---------- prefetching ---------- */

static bool
stop_prefetch(PlanState *state, void *context)
{
	if (state == NULL)
		return false;
	if (IsA(state, BitmapHeapScanState))
	{
		BitmapHeapScanState *scan = (BitmapHeapScanState *) state;

		if (zen_rel_is_zen(scan->ss.ss_currentRelation))
			zen_stop_prefetch(scan);
	}
	return planstate_tree_walker(state, stop_prefetch, context);
}

/* ---------- what a statement costs ---------- */

/* counters of zen_stat that are told of statements; zen_stat_statements shows them in this order */
#define QUERY_COSTS(X) \
	X(metcache_hits) \
	X(metcache_misses) \
	X(slots_written) \
	X(rows_spilled) \
	X(lines_flushed) \
	X(fences) \
	X(point_accesses) \
	X(point_kept_plans) \
	X(point_fallbacks)

typedef enum CostKind
{
#define X(name) COST_##name,
	QUERY_COSTS(X)
#undef X
	N_COSTS
} CostKind;

typedef struct StatementCost
{
	uint64		n[N_COSTS];
} StatementCost;

/* This process's counts so far. */
static StatementCost
cost_now(void)
{
	StatementCost now = {{
#define X(name) zen_my_counters[ZEN_C_##name],
			QUERY_COSTS(X)
#undef X
	}};

	return now;
}

/* Add to sum the counts since before. */
static void
cost_add(StatementCost *sum, const StatementCost *before)
{
	StatementCost now = cost_now();

	for (int i = 0; i < N_COSTS; i++)
		sum->n[i] += now.n[i] - before->n[i];
}

#define TRANCHE		"zen statements"
#define MAX_STATEMENTS 1000		/* that are kept */
#define DROP_SHARE	20			/* when the table is full, one entry in so
								 * many goes, of the least called */

typedef struct StatementKey
{
	Oid			user;
	Oid			db;
	uint64		queryid;
} StatementKey;

typedef struct Statement
{
	StatementKey key;
	slock_t		mutex;			/* guards the rest */
	uint64		calls;
	StatementCost cost;
} Statement;

static HTAB *statements;		/* by StatementKey; entries come and go under
								 * the lock, exclusive */
static LWLock *lock;

static int	nesting;			/* executor and utility calls under way */
static StatementKey writer;		/* queryid 0: nothing is written yet in this
								 * transaction */
static StatementCost last_end;	/* when the last statement was counted */

static Size
statements_shmem_size(void)
{
	RequestNamedLWLockTranche(TRANCHE, 1);
	return hash_estimate_size(MAX_STATEMENTS, sizeof(Statement));
}

static void
statements_shmem_init(void)
{
	HASHCTL		info = {.keysize = sizeof(StatementKey),.entrysize = sizeof(Statement)};

	statements = ShmemInitHash(TRANCHE, MAX_STATEMENTS, MAX_STATEMENTS, &info, HASH_ELEM | HASH_BLOBS);
	lock = &GetNamedLWLockTranche(TRANCHE)->lock;
}

const ZenShmem zen_statements_shmem = {.size = statements_shmem_size,.init = statements_shmem_init};

/* ---------- the table ---------- */

static int
by_calls(const void *a, const void *b)
{
	uint64		x = (*(Statement *const *) a)->calls;
	uint64		y = (*(Statement *const *) b)->calls;

	return x < y ? -1 : x > y;
}

/* Make room: the least called go.  Under the lock, exclusive. */
static void
drop_some(void)
{
	long		n = hash_get_num_entries(statements);
	Statement **all = palloc(n * sizeof(Statement *));
	HASH_SEQ_STATUS status;
	Statement  *s;
	long		i = 0;

	Assert(LWLockHeldByMeInMode(lock, LW_EXCLUSIVE));
	hash_seq_init(&status, statements);
	while ((s = hash_seq_search(&status)) != NULL)
		all[i++] = s;
	qsort(all, i, sizeof(Statement *), by_calls);
	for (long victim = 0; victim < Max(i / DROP_SHARE, 1) && victim < i; victim++)
		hash_search(statements, &all[victim]->key, HASH_REMOVE, NULL);
	pfree(all);
}

/* A new entry, or the one that another process has made since the search.  Under the lock, exclusive. */
static Statement *
enter_statement(const StatementKey *key)
{
	bool		found;
	Statement  *s;

	Assert(LWLockHeldByMeInMode(lock, LW_EXCLUSIVE));
	if (hash_get_num_entries(statements) >= MAX_STATEMENTS)
		drop_some();
	s = hash_search(statements, key, HASH_ENTER, &found);
	if (!found)
	{
		SpinLockInit(&s->mutex);
		s->calls = 0;
		memset(&s->cost, 0, sizeof(s->cost));
	}
	return s;
}

/*
 * Add the counts since before, with so many calls.  At the end of a transaction nothing may fail: an entry that has
 * gone by then is not made again.
 */
static void
count_for(const StatementKey *key, uint64 calls, const StatementCost *before, bool may_enter)
{
	Statement  *s;

	Assert(key->queryid != 0);
	Assert(!LWLockHeldByMe(lock) && statements != NULL);
	LWLockAcquire(lock, LW_SHARED);
	s = hash_search(statements, key, HASH_FIND, NULL);
	if (s == NULL && !may_enter)
	{
		LWLockRelease(lock);
		return;
	}
	if (s == NULL)
	{
		LWLockRelease(lock);
		LWLockAcquire(lock, LW_EXCLUSIVE);
		s = enter_statement(key);
	}
	SpinLockAcquire(&s->mutex);
	s->calls += calls;
	cost_add(&s->cost, before);
	SpinLockRelease(&s->mutex);
	LWLockRelease(lock);
}

/* ---------- statements ---------- */

/* A statement runs, or a part of it: where the counters were before. */
typedef struct Running
{
	StatementKey key;
	StatementCost before;
	Size		written;		/* of the transaction's writes, bytes */
	uint32		nlocks;
	uint32		nblocks;
} Running;

static bool
is_counted(uint64 queryid)
{
	return zen_track_statements && nesting == 0 && queryid != 0;
}

static void
begin_counting(Running *run, uint64 queryid)
{
	memset(run, 0, sizeof(*run));	/* the key is hashed with its padding */
	Assert(queryid != 0);
	run->key.user = GetUserId();
	run->key.db = MyDatabaseId;
	run->key.queryid = queryid;
	run->before = cost_now();
	run->written = zen_writeset.bytes;
	run->nlocks = zen_writeset.nlocks;
	run->nblocks = zen_writeset.nblocks;
}

static void
end_counting(const Running *run, uint64 calls)
{
	if (zen_writeset.bytes != run->written || zen_writeset.nlocks != run->nlocks ||
		zen_writeset.nblocks != run->nblocks)
		writer = run->key;
	count_for(&run->key, IsParallelWorker() ? 0 : calls, &run->before, true);
	last_end = cost_now();
}

/* Of a statement that the executor runs: the statements within do not count by themselves. */
static void
begin_if_counted(Running *run, uint64 queryid)
{
	if (is_counted(queryid))
		begin_counting(run, queryid);
	else
		run->key.queryid = 0;
	nesting++;
}

static void
end_if_counted(const Running *run, uint64 calls)
{
	if (run->key.queryid != 0)
		end_counting(run, calls);
}

/* Here it is decided if executor state that is kept will do, so these counters are told of the statement. */
static void
start_counted(ExecutorStart_hook_type rest, QueryDesc *query, int eflags)
{
	Running		run;

	begin_counting(&run, query->plannedstmt->queryId);
	rest(query, eflags);
	if (cost_now().n[COST_point_accesses] != run.before.n[COST_point_accesses] ||
		cost_now().n[COST_point_kept_plans] != run.before.n[COST_point_kept_plans] ||
		cost_now().n[COST_point_fallbacks] != run.before.n[COST_point_fallbacks])
		count_for(&run.key, 0, &run.before, true);
}

void
zen_statements_start(ExecutorStart_hook_type rest, QueryDesc *query, int eflags)
{
	zen_standin_before(query->plannedstmt);
	enter_targets(query->plannedstmt);
	if (is_counted(query->plannedstmt->queryId))
		start_counted(rest, query, eflags);
	else
		rest(query, eflags);
	if (unlikely(RecoveryInProgress()))
		zen_standin_start(query);
	open_conflict_indexes(query, eflags);
	/* a plan with kept state has no bitmap scan */
	if (zen_point_serial(query->plannedstmt) == 0)
		stop_prefetch(query->planstate, NULL);
}

static void
run_counted(ExecutorRun_hook_type rest, ZEN_EXECUTOR_RUN_ARGS)
{
	int			outer = nesting;
	Running		run;

	begin_if_counted(&run, queryDesc->plannedstmt->queryId);
	PG_TRY();
	{
		rest(ZEN_EXECUTOR_RUN_PASS);
	}
	PG_FINALLY();
	{
		nesting = outer;
	}
	PG_END_TRY();
	end_if_counted(&run, 0);	/* a cursor runs often, and finishes once */
}

void
zen_statements_run(ExecutorRun_hook_type rest, ZEN_EXECUTOR_RUN_ARGS)
{
	if (zen_track_statements)
		run_counted(rest, ZEN_EXECUTOR_RUN_PASS);
	else
		rest(ZEN_EXECUTOR_RUN_PASS);
}

static void
finish_counted(ExecutorFinish_hook_type rest, QueryDesc *query)
{
	int			outer = nesting;
	Running		run;

	begin_if_counted(&run, query->plannedstmt->queryId);
	PG_TRY();
	{
		rest(query);
	}
	PG_FINALLY();
	{
		Assert(nesting == outer + 1);
		nesting = outer;
	}
	PG_END_TRY();
	end_if_counted(&run, 1);
}

void
zen_statements_finish(ExecutorFinish_hook_type rest, QueryDesc *query)
{
	if (zen_track_statements)
		finish_counted(rest, query);
	else
		rest(query);
}

/* These only run others, which count by themselves, or end the transaction, whose cost goes to the writer. */
static bool
is_transparent(Node *stmt)
{
	return IsA(stmt, ExecuteStmt) || IsA(stmt, PrepareStmt) || IsA(stmt, ExplainStmt) || IsA(stmt, DeclareCursorStmt) ||
		IsA(stmt, FetchStmt) || IsA(stmt, TransactionStmt);
}

void
zen_statements_utility(ZenUtility *u)
{
	bool		transparent = is_transparent(u->pstmt->utilityStmt);
	bool		counted = !transparent && is_counted(u->pstmt->queryId);
	int			outer = nesting;
	Running		run;

	if (counted)
		begin_counting(&run, u->pstmt->queryId);
	nesting += !transparent;
	PG_TRY();
	{
		u->others(u->pstmt, u->query, u->read_only, u->context, u->params, u->env, u->dest, u->qc);
	}
	PG_FINALLY();
	{
		nesting = outer;
	}
	PG_END_TRY();
	if (counted)
		end_counting(&run, 1);
}

/* ---------- the end of a transaction ---------- */

/* The counts since the last statement belong to the commit, or to the rollback. */
void
zen_statements_event(XactEvent event)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_PREPARE && event != XACT_EVENT_ABORT)
		return;
	if (writer.queryid != 0)
		count_for(&writer, 0, &last_end, false);
	memset(&writer, 0, sizeof(writer));
	nesting = 0;
}

/* ---------- EXPLAIN ---------- */

#if ZEN_HAS_EXPLAIN_OPTIONS

/* From when the options were read until the plan is printed. */
typedef struct ExplainCost
{
	StatementCost before;
	uint32		nwrites;		/* of the transaction */
} ExplainCost;

static int	extension_id;
static explain_per_plan_hook_type prev_per_plan;

static void
explain_mark(ExplainCost *cost)
{
	cost->before = cost_now();
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
	explain_mark(cost);
	SetExplainExtensionState(es, extension_id, cost);
}

static void
print(ExplainState *es, const StatementCost *sum, uint32 to_write)
{
	static const char *const label[N_COSTS] = {
		"Rows Read from DRAM", "Rows Read from NVM", "Rows Written", "Rows Spilled", "Lines Flushed", "Fences"
	};

	ExplainOpenGroup("Zen", "Zen", true, es);
	/* the others are of the statements within, since this one is measured */
	for (int i = 0; i < N_COSTS; i++)
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
		StatementCost sum = {0};

		cost_add(&sum, &cost->before);
		print(es, &sum, zen_writeset.nwrites - Min(cost->nwrites, zen_writeset.nwrites));
		explain_mark(cost);		/* a rule may have made several plans */
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
zen_statements_install(void)
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
zen_statements_install(void)
{
}

#endif

/* ---------- SQL ---------- */

#define NCOLUMNS	(4 + N_COSTS)

/* Reads an entry's counters at one moment. */
static void
put_statement(ReturnSetInfo *result, Statement *s, bool may_see)
{
	Datum		values[NCOLUMNS];
	bool		isnull[NCOLUMNS] = {false};
	uint64		calls;
	StatementCost cost;

	Assert(LWLockHeldByMe(lock) && s->key.queryid != 0);
	SpinLockAcquire(&s->mutex);
	calls = s->calls;
	cost = s->cost;
	SpinLockRelease(&s->mutex);
	values[0] = ObjectIdGetDatum(s->key.user);
	values[1] = ObjectIdGetDatum(s->key.db);
	values[2] = Int64GetDatum((int64) s->key.queryid);
	isnull[2] = !may_see;
	values[3] = Int64GetDatum((int64) calls);
	for (int i = 0; i < N_COSTS; i++)
		values[4 + i] = Int64GetDatum((int64) cost.n[i]);
	tuplestore_putvalues(result->setResult, result->setDesc, values, isnull);
}

/*
 * zen_view_statements -- one row for each statement, user and database.
 *
 * The query id of others' statements is shown to members of pg_read_all_stats only, as in pg_stat_statements.
 */
Datum
zen_view_statements(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		sees_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	HASH_SEQ_STATUS status;
	Statement  *s;

	InitMaterializedSRF(fcinfo, 0);
	if (result->setDesc->natts != NCOLUMNS)
		zen_sql_differs();
	LWLockAcquire(lock, LW_SHARED);
	hash_seq_init(&status, statements);
	while ((s = hash_seq_search(&status)) != NULL)
		put_statement(result, s, sees_all || s->key.user == GetUserId());
	LWLockRelease(lock);
	return (Datum) 0;
}

void
zen_statements_reset(void)
{
	HASH_SEQ_STATUS status;
	Statement  *s;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	hash_seq_init(&status, statements);
	while ((s = hash_seq_search(&status)) != NULL)
		hash_search(statements, &s->key, HASH_REMOVE, NULL);
	LWLockRelease(lock);
}
