/*
 * dispatch.c -- which part of zen is called at which moment, in which order.
 *
 * PostgreSQL has one callback or hook of zen of each kind, all set here.  Each kind has a table of the parts of zen
 * that take part, with comments on their order.  src/admin/README, "The order of hooks", has the picture with other
 * libraries.
 *
 * A hook of which one part alone makes use is set by that part (zen_dispatch_install).
 */
#include "admin/dispatch.h"

#include "access/xact.h"
#include "admin/basebackup.h"
#include "admin/chain.h"
#include "admin/commands.h"
#include "admin/executions.h"
#include "admin/explain.h"
#include "admin/libraries.h"
#include "admin/objects.h"
#include "admin/replication.h"
#include "admin/standby.h"
#include "admin/statements.h"
#include "admin/treehooks.h"
#include "base/epoch.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "exec/exec.h"
#include "index/treedir.h"
#include "libpq/auth.h"
#include "miscadmin.h"
#include "numa/partition.h"
#include "numa/votes.h"
#include "replication/walsender.h"
#include "stream/streamclients.h"
#include "table/zenam_reindex.h"
#include "txn/exclusive.h"
#include "txn/sequence.h"
#include "txn/xact.h"

/* ---------- the end of transactions and subtransactions ---------- */

/*
 * First to last, behind the callbacks of other libraries (src/txn/README, "Other libraries").  All are called at each
 * event.
 */
static const struct
{
	void		(*event) (XactEvent event);
	void		(*subevent) (SubXactEvent event, SubTransactionId subxact);
}			transaction[] = {

	/*
	 * parts that undo something come before zen_xact: at an abort that one
	 * flushes a record, and the flush may fail
	 */
	{zen_reindex_event, zen_reindex_subevent},
#ifndef ZEN_NO_EXECUTOR
	{zen_exec_event, zen_exec_subevent},
#endif
	{zen_treedir_event, zen_treedir_subevent},

	/*
	 * parts that may throw before a commit come before zen_xact, which makes
	 * the commit durable
	 */
	{zen_basebackup_event, NULL},
	/* last of these: it changes catalogs, and builds indexes */
	{zen_commands_event, NULL},
	{zen_xact_event, zen_xact_subevent},
	/* behind zen_xact, whose work it counts */
	{zen_statements_event, NULL},
};

static void
transaction_event(XactEvent event, void *arg)
{
	for (int i = 0; i < lengthof(transaction); i++)
		transaction[i].event(event);
}

static void
subtransaction_event(SubXactEvent event, SubTransactionId subxact, SubTransactionId parent, void *arg)
{
	for (int i = 0; i < lengthof(transaction); i++)
		if (transaction[i].subevent != NULL)
			transaction[i].subevent(event, subxact);
}

void
zen_dispatch_register(void)
{
	zen_libraries_register(transaction_event, subtransaction_event);
}

/* ---------- utility statements ---------- */

static ProcessUtility_hook_type prev_utility;

static void
utility_others(ZenUtility *u)
{
	if (prev_utility)
		prev_utility(u->pstmt, u->query, u->read_only, u->context, u->params, u->env, u->dest, u->qc);
	else
		standard_ProcessUtility(u->pstmt, u->query, u->read_only, u->context, u->params, u->env, u->dest, u->qc);
}

/* Outermost to innermost: the first link before a statement is the last one after it. */
static const ZenUtilityLink utility[] = {
	/*
	 * outermost: after the statement everything else is done, and its results
	 * can be judged and repaired
	 */
	zen_commands_finish,

	/*
	 * before anything is done: it refuses statements, and chooses the access
	 * method by which others go
	 */
	zen_commands_check,

	/*
	 * around what rebuilds indexes: before, trees become btrees; after, trees
	 * are built, with heap no more the default
	 */
	zen_treehooks_utility,
	/* anywhere before the statement, which may commit by itself */
	zen_commands_sync,
	/* behind treehooks: it may have exchanged indexes */
	zen_commands_rebuild,

	/*
	 * next to the statement: they change settings that hold while it runs,
	 * and no longer
	 */
	zen_commands_end_prepared,
	zen_commands_extension,

	/*
	 * innermost: the cost of the statement alone is counted, without zen's
	 * work around it
	 */
	zen_statements_utility,
	utility_others,
};

/* Links that change the statement get one of their own. */
static void
run_utility(PlannedStmt *pstmt, const char *query, bool read_only, ProcessUtilityContext context,
			ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	bool		changes = zen_commands_changes(pstmt->utilityStmt) || zen_treehooks_changes(pstmt->utilityStmt);
	ZenUtility	u = {.rest = utility,.query = query,.read_only = read_only && !changes,.context = context,
	.params = params,.env = env,.dest = dest,.qc = qc};

	ZenAssertNotInEpoch();
	u.pstmt = read_only && changes ? copyObject(pstmt) : pstmt;
	u.stmt = u.pstmt->utilityStmt;
	u.alter = zen_named_alter(u.stmt);
	zen_utility_rest(&u);
}

/* ---------- executions ---------- */

static ExecutorStart_hook_type prev_start;
static ExecutorRun_hook_type prev_run;
static ExecutorFinish_hook_type prev_finish;

/*
 * These are the outermost of their chains.  Kept executor state stands for PostgreSQL's executor, so it is the
 * innermost and has hooks of its own, below those of other libraries (zen_exec_install).
 */
static void
start_others(const ZenStartLink *rest, QueryDesc *query, int eflags)
{
	if (prev_start)
		prev_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

static void
run_others(const ZenRunLink *rest, ZEN_EXECUTOR_RUN_ARGS)
{
	if (prev_run)
		prev_run(ZEN_EXECUTOR_RUN_PASS);
	else
		standard_ExecutorRun(ZEN_EXECUTOR_RUN_PASS);
}

static void
finish_others(const ZenFinishLink *rest, QueryDesc *query)
{
	if (prev_finish)
		prev_finish(query);
	else
		standard_ExecutorFinish(query);
}

static void
start_on_node(const ZenStartLink *rest, QueryDesc *query, int eflags)
{
	if (unlikely(zen_partition_soft))
		zen_votes_begin(query, eflags);
	zen_start_rest(rest, query, eflags);
}

static const ZenStartLink starts[] = {
	/* the process moves to another node before it allocates anything */
	{start_on_node},

	/*
	 * gates are passed before the executor opens indexes; its nodes are
	 * looked at when it has made them
	 */
	{zen_executions_start},
	/* innermost: here it is counted if kept state will do */
	{zen_statements_start},
	{start_others},
};

static const ZenRunLink runs[] = {
	/*
	 * a backup that the statement has begun is noted when the statement is
	 * done
	 */
	{zen_basebackup_run},
	{zen_statements_run},
	{run_others},
};

static const ZenFinishLink finishes[] = {
	{zen_statements_finish},
	{finish_others},
};

static void
start_execution(QueryDesc *query, int eflags)
{
	ZenAssertNotInEpoch();
	zen_start_rest(starts, query, eflags);
}

static void
run_execution(ZEN_EXECUTOR_RUN_ARGS)
{
	zen_run_rest(runs, ZEN_EXECUTOR_RUN_PASS);
}

static void
finish_execution(QueryDesc *query)
{
	zen_finish_rest(finishes, query);
}

/* ---------- objects ---------- */

static object_access_hook_type prev_object_access;

/* A function is about to be called, which happens often.  First to last: they refuse the call, or note its effect. */
static const struct
{
	void		(*check) (Oid function);
}			functions[] = {
	{zen_standby_check_function},
	/* behind what refuses */
	{zen_basebackup_check_function},
	{zen_replication_check_function},
};

/* All else, first to last. */
static const struct
{
	ObjectAccessType access;
	Oid			class;
	void		(*act) (Oid object);
}			objects[] = {

	/* it makes the new rows of the catalogs visible */
	{OAT_POST_CREATE, RelationRelationId, zen_objects_created},
	{OAT_POST_CREATE, RelationRelationId, zen_commands_created},
	/* what may refuse comes before what acts */
	{OAT_DROP, RelationRelationId, zen_objects_check_file},
	{OAT_TRUNCATE, RelationRelationId, zen_objects_check_file},
	{OAT_POST_ALTER, RelationRelationId, zen_objects_check_file},
	{OAT_DROP, RelationRelationId, zen_objects_dropped},
	{OAT_DROP, DatabaseRelationId, zen_objects_database_dropped},
};

static void
object_accessed(ObjectAccessType access, Oid class, Oid object, int sub, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class, object, sub, arg);
	if (sub != 0 || IsBootstrapProcessingMode())
		return;
	if (access == OAT_FUNCTION_EXECUTE)
	{
		for (int i = 0; i < lengthof(functions); i++)
			functions[i].check(object);
		return;
	}

	for (int i = 0; i < lengthof(objects); i++)
		if (objects[i].access == access && objects[i].class == class)
			objects[i].act(object);
}

/* ---------- clients ---------- */

static ClientAuthentication_hook_type prev_authentication;

static void
client_authenticated(Port *port, int status)
{
	if (prev_authentication)
		prev_authentication(port, status);
	if (status != STATUS_OK || !am_walsender)
		return;

	/*
	 * the client is counted before it looks for zen tables, since sessions
	 * that make tables look for clients
	 */
	zen_clients_enter();
	zen_basebackup_client();
}

/* ---------- hooks ---------- */

/* Kept executor state: a library behind zen sees it as it sees PostgreSQL's executor. */
void
zen_dispatch_install_innermost(void)
{
#ifndef ZEN_NO_EXECUTOR
	zen_exec_install();
	zen_libraries_try(zen_exec_yield);
#endif
}

void
zen_dispatch_install(void)
{
	Assert(ProcessUtility_hook != run_utility); /* once */
	/* again, if a library has refused it, but has set no such hook */
	zen_exec_install();

	prev_utility = ProcessUtility_hook;
	ProcessUtility_hook = run_utility;
	prev_start = ExecutorStart_hook;
	ExecutorStart_hook = start_execution;
	prev_run = ExecutorRun_hook;
	ExecutorRun_hook = run_execution;
	prev_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = finish_execution;
	prev_object_access = object_access_hook;
	object_access_hook = object_accessed;
	prev_authentication = ClientAuthentication_hook;
	ClientAuthentication_hook = client_authenticated;

	/* hooks that one part of zen has for itself, in any order */
	zen_exclusive_install();	/* errors */
	zen_sequence_install();		/* messages to the client */
	zen_explain_init();			/* EXPLAIN */
	zen_exec_init();			/* parser, planner, paths of aggregates */
}
