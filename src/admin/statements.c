/*
 * statements.c -- counters by statement, for zen_stat_statements.
 *
 * As in pg_stat_statements, whose query ids are used, an entry stands for one statement of one user in one database,
 * constants left out.  Statements that a client sends are counted, with all that functions and triggers do in them;
 * so are COPY and other utility statements.
 *
 * A transaction's rows are written when it commits.  The cost of the commit is counted for the last statement that
 * has changed or locked rows of zen tables in it: exact for a transaction of one statement.  Parallel workers count
 * for the statement that has started them.
 *
 * Counting is off by default: a statement then costs a test.  When a function turns it on, the statements that run
 * within count by themselves.  While it is on, a statement and its commit cost a look-up each in a shared hash table,
 * under a shared lock, and an addition under the entry's spinlock; so does the start of a statement with kept executor
 * state.
 */
#include "admin/statements.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "admin/querycost.h"
#include "base/guc.h"
#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "row/writeset.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/acl.h"

#define TRANCHE		"zen statements"
#define MAX_STATEMENTS 1000		/* that are kept */
#define DROP_SHARE	20			/* when the table is full, one entry in so
								 * many goes, of the least called */

PG_FUNCTION_INFO_V1(zen_view_statements);

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
	ZenQueryCost cost;
} Statement;

static HTAB *statements;		/* by StatementKey; entries come and go under
								 * the lock, exclusive */
static LWLock *lock;

static int	nesting;			/* executor and utility calls under way */
static StatementKey writer;		/* queryid 0: nothing is written yet in this
								 * transaction */
static ZenQueryCost last_end;	/* when the last statement was counted */

Size
zen_statements_shmem_request(void)
{
	RequestNamedLWLockTranche(TRANCHE, 1);
	return hash_estimate_size(MAX_STATEMENTS, sizeof(Statement));
}

void
zen_statements_shmem_init(void)
{
	HASHCTL		info = {.keysize = sizeof(StatementKey),.entrysize = sizeof(Statement)};

	statements = ShmemInitHash(TRANCHE, MAX_STATEMENTS, MAX_STATEMENTS, &info, HASH_ELEM | HASH_BLOBS);
	lock = &GetNamedLWLockTranche(TRANCHE)->lock;
}

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
count(const StatementKey *key, uint64 calls, const ZenQueryCost *before, bool may_enter)
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
	zen_cost_add(&s->cost, before);
	SpinLockRelease(&s->mutex);
	LWLockRelease(lock);
}

/* ---------- statements ---------- */

/* A statement runs, or a part of it: where the counters were before. */
typedef struct Running
{
	StatementKey key;
	ZenQueryCost before;
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
begin(Running *run, uint64 queryid)
{
	memset(run, 0, sizeof(*run));	/* the key is hashed with its padding */
	Assert(queryid != 0);
	run->key.user = GetUserId();
	run->key.db = MyDatabaseId;
	run->key.queryid = queryid;
	run->before = zen_cost_now();
	run->written = zen_writeset.bytes;
	run->nlocks = zen_writeset.nlocks;
	run->nblocks = zen_writeset.nblocks;
}

static void
end(const Running *run, uint64 calls)
{
	if (zen_writeset.bytes != run->written || zen_writeset.nlocks != run->nlocks ||
		zen_writeset.nblocks != run->nblocks)
		writer = run->key;
	count(&run->key, IsParallelWorker() ? 0 : calls, &run->before, true);
	last_end = zen_cost_now();
}

/* Of a statement that the executor runs: the statements within do not count by themselves. */
static void
begin_if_counted(Running *run, uint64 queryid)
{
	if (is_counted(queryid))
		begin(run, queryid);
	else
		run->key.queryid = 0;
	nesting++;
}

static void
end_if_counted(const Running *run, uint64 calls)
{
	if (run->key.queryid != 0)
		end(run, calls);
}

/* Here it is decided if executor state that is kept will do, so these counters are told of the statement. */
void
zen_statements_start(const ZenStartLink *rest, QueryDesc *query, int eflags)
{
	Running		run;

	if (!is_counted(query->plannedstmt->queryId))
	{
		zen_start_rest(rest, query, eflags);
		return;
	}
	begin(&run, query->plannedstmt->queryId);
	zen_start_rest(rest, query, eflags);
	if (zen_cost_now().n[ZEN_COST_point_accesses] != run.before.n[ZEN_COST_point_accesses] ||
		zen_cost_now().n[ZEN_COST_point_kept_plans] != run.before.n[ZEN_COST_point_kept_plans] ||
		zen_cost_now().n[ZEN_COST_point_fallbacks] != run.before.n[ZEN_COST_point_fallbacks])
		count(&run.key, 0, &run.before, true);
}

static void
run_counted(const ZenRunLink *rest, ZEN_EXECUTOR_RUN_ARGS)
{
	int			outer = nesting;
	Running		run;

	begin_if_counted(&run, queryDesc->plannedstmt->queryId);
	PG_TRY();
	{
		zen_run_rest(rest, ZEN_EXECUTOR_RUN_PASS);
	}
	PG_FINALLY();
	{
		nesting = outer;
	}
	PG_END_TRY();
	end_if_counted(&run, 0);	/* a cursor runs often, and finishes once */
}

void
zen_statements_run(const ZenRunLink *rest, ZEN_EXECUTOR_RUN_ARGS)
{
	if (zen_track_statements)
		run_counted(rest, ZEN_EXECUTOR_RUN_PASS);
	else
		zen_run_rest(rest, ZEN_EXECUTOR_RUN_PASS);
}

static void
finish_counted(const ZenFinishLink *rest, QueryDesc *query)
{
	int			outer = nesting;
	Running		run;

	begin_if_counted(&run, query->plannedstmt->queryId);
	PG_TRY();
	{
		zen_finish_rest(rest, query);
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
zen_statements_finish(const ZenFinishLink *rest, QueryDesc *query)
{
	if (zen_track_statements)
		finish_counted(rest, query);
	else
		zen_finish_rest(rest, query);
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
	bool		transparent = is_transparent(u->stmt);
	bool		counted = !transparent && is_counted(u->pstmt->queryId);
	int			outer = nesting;
	Running		run;

	if (counted)
		begin(&run, u->pstmt->queryId);
	nesting += !transparent;
	PG_TRY();
	{
		zen_utility_rest(u);
	}
	PG_FINALLY();
	{
		nesting = outer;
	}
	PG_END_TRY();
	if (counted)
		end(&run, 1);
}

/* ---------- the end of a transaction ---------- */

/* The counts since the last statement belong to the commit, or to the rollback. */
void
zen_statements_event(XactEvent event)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_PREPARE && event != XACT_EVENT_ABORT)
		return;
	if (writer.queryid != 0)
		count(&writer, 0, &last_end, false);
	memset(&writer, 0, sizeof(writer));
	nesting = 0;
}

/* ---------- SQL ---------- */

#define NCOLUMNS	(4 + ZEN_NCOSTS)

/* Reads an entry's counters at one moment. */
static void
put_statement(ReturnSetInfo *result, Statement *s, bool may_see)
{
	Datum		values[NCOLUMNS];
	bool		isnull[NCOLUMNS] = {false};
	uint64		calls;
	ZenQueryCost cost;

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
	for (int i = 0; i < ZEN_NCOSTS; i++)
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
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the SQL objects of extension zen do not fit the zen library that the server has loaded"),
				 errhint("Restart the server if the library was replaced, then run ALTER EXTENSION zen UPDATE.")));
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
