/*
 * dispatch.c -- which part of zen is called at which moment, in which order.
 *
 * PostgreSQL has one callback or hook of zen of each kind, all set here.  For each kind there is a function or a table
 * that calls the parts of zen, with comments on their order.  src/admin/README, "The order of hooks", has the picture
 * with other libraries.  A hook of which one part alone makes use is set by that part (zen_dispatch_install).
 *
 * Transaction callbacks.  PostgreSQL runs them last registered first.  So zen's are the last to run if zen is the first
 * library of shared_preload_libraries.  Libraries that are loaded later, by LOAD or session_preload_libraries too, run
 * before it.
 *
 * If zen is not the first, it looks whether the libraries ahead of it have registered any.  PostgreSQL's list
 * starts with zen's own entry by then, and has to end there.
 *
 * The list is private to PostgreSQL, but each entry is a chunk of TopMemoryContext, which hands out the chunk that was
 * freed last.  The chunk's content tells whether it is zen's entry.  If it is not, zen assumes that callbacks of others
 * run after its own.  That is always safe: see src/txn/README, "Other libraries".
 *
 * Innermost hooks.  A hook that stands for PostgreSQL's own code must be there before a library behind zen sets its
 * own, which then calls it.  But a library may insist on finding no hook, and nothing tells which one does.  So zen
 * tries: zen loads the libraries behind it, as PostgreSQL is about to do, while its hooks are set.  If one refuses, zen
 * gives the hooks back, and leaves that library and the rest to PostgreSQL.
 */
#include "admin/dispatch.h"

#include <dlfcn.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "admin/commands.h"
#include "admin/replication.h"
#include "admin/statements.h"
#include "base/epoch.h"
#include "catalog/objectaccess.h"
#include "exec/exec.h"
#include "index/treedir.h"
#include "lib/stringinfo.h"
#include "libpq/auth.h"
#include "libpq/libpq.h"
#include "miscadmin.h"
#include "numa/partition.h"
#include "numa/votes.h"
#include "optimizer/plancat.h"
#include "replication/walsender.h"
#include "stream/streamclients.h"
#include "table/bulkinsert.h"
#include "table/standbyplan.h"
#include "table/standin.h"
#include "table/zenam_reindex.h"
#include "txn/exclusive.h"
#include "txn/sequence.h"
#include "txn/xact.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

/* ---------- the place among the libraries of shared_preload_libraries ---------- */

/* An entry of PostgreSQL's list (XactCallbackItem). */
typedef struct CallbackEntry
{
	struct CallbackEntry *next;
	XactCallback callback;
	void	   *arg;
} CallbackEntry;

static char marker;				/* zen's entry bears its address */

/* The name of a library, as "zen" for "$libdir/zen.so".  Changes path. */
static const char *
library_name(char *path)
{
	char	   *slash = strrchr(path, '/');
	char	   *name = slash ? slash + 1 : path;
	char	   *suffix = strstr(name, DLSUFFIX);

	if (suffix != NULL && suffix[strlen(DLSUFFIX)] == '\0')
		*suffix = '\0';
	return name;
}

/* Is zen the first of shared_preload_libraries? */
static bool
is_first_library(void)
{
	char	   *list = pstrdup(shared_preload_libraries_string);
	List	   *paths = NIL;
	bool		first = SplitDirectoriesString(list, ',', &paths) && paths != NIL &&
	strcmp(library_name(linitial(paths)), "zen") == 0;

	list_free_deep(paths);
	pfree(list);
	return first;
}

/* Register the callback; returns its entry in PostgreSQL's list, or NULL if it is not where it was expected. */
static const CallbackEntry *
register_and_find(XactCallback callback)
{
	volatile CallbackEntry *entry = MemoryContextAlloc(TopMemoryContext, sizeof(CallbackEntry));

	pfree((void *) entry);
	RegisterXactCallback(callback, &marker);
	if (entry->callback != callback || entry->arg != &marker)
		return NULL;
	return (const CallbackEntry *) entry;
}

/* The libraries whose callbacks these are, each once. */
static char *
libraries_of(const CallbackEntry *entry)
{
	StringInfoData names;
	char	   *last = NULL;

	initStringInfo(&names);
	for (; entry != NULL; entry = entry->next)
	{
		Dl_info		info;
		char	   *name;

		if (dladdr((void *) entry->callback, &info) == 0 || info.dli_fname == NULL)
			continue;
		name = (char *) library_name(pstrdup(info.dli_fname));
		if (last == NULL || strcmp(name, last) != 0)
			appendStringInfo(&names, "%s\"%s\"", last ? ", " : "", name);
		last = name;
	}
	return names.len > 0 ? names.data : pstrdup("unknown");
}

#ifndef ZEN_NO_EXECUTOR
/* Load a library, as PostgreSQL does; false if it has raised an error. */
static bool
try_to_load(const char *path)
{
	MemoryContext old = CurrentMemoryContext;
	volatile bool loaded = true;
	ErrorData  *error;

	PG_TRY();
	{
		load_file(path, false);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(old);
		error = CopyErrorData();
		FlushErrorState();
		ereport(LOG,
				(errmsg("library \"%s\" refuses to be loaded behind executor hooks of zen: %s", path, error->message),
				 errdetail("It is loaded again without them.")));
		FreeErrorData(error);
		loaded = false;
	}
	PG_END_TRY();
	return loaded;
}

/*
 * Load the libraries behind zen while its innermost hooks are set.  If one refuses, zen gives the hooks back, and
 * PostgreSQL loads that library in its turn.
 */
static void
load_libraries_behind(void)
{
	char	   *list = pstrdup(shared_preload_libraries_string);
	List	   *paths = NIL;
	bool		behind = false;
	ListCell   *lc;

	Assert(process_shared_preload_libraries_in_progress);
	if (SplitDirectoriesString(list, ',', &paths))
	{
		foreach(lc, paths)
		{
			if (behind && !try_to_load(lfirst(lc)))
			{
				zen_exec_yield();
				break;
			}
			behind = behind || strcmp(library_name(pstrdup(lfirst(lc))), "zen") == 0;
		}
	}
	list_free_deep(paths);
	pfree(list);
}
#endif							/* ZEN_NO_EXECUTOR */

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
	 * parts that undo something come before zen_xact_event: at an abort that
	 * one flushes a record, and the flush may fail
	 */
	{zen_reindex_event, zen_reindex_subevent},
#ifndef ZEN_NO_EXECUTOR
	{zen_exec_event, zen_exec_subevent},
#endif
	{zen_treedir_event, zen_treedir_subevent},

	/*
	 * parts that may throw before a commit come before zen_xact_event, which
	 * makes the commit durable
	 */
	{zen_replication_event, NULL},
	{zen_bulk_event, zen_bulk_subevent},
	/* last of these: it changes catalogs, and builds indexes */
	{zen_commands_event, NULL},
	{zen_xact_event, zen_xact_subevent},
	/* behind zen_xact_event, whose work it counts */
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
	const CallbackEntry *entry;

	/* each process inherits the list */
	Assert(!IsUnderPostmaster && !zen_xact_is_last);
	entry = register_and_find(transaction_event);
	RegisterSubXactCallback(subtransaction_event, NULL);
	zen_xact_is_last = is_first_library() || (entry != NULL && entry->next == NULL);
	if (zen_xact_is_last)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("libraries with transaction callbacks are ahead of zen in shared_preload_libraries: %s",
					entry ? libraries_of(entry->next) : "unknown"),
			 errdetail("They act after zen at the end of a transaction, so each commit that changes zen tables "
					   "is written to the WAL and flushed."),
			 errhint("Name zen first in shared_preload_libraries, and restart the server.")));
}

/* ---------- utility statements ---------- */

static ProcessUtility_hook_type prev_utility;

/* zen_commands_utility() goes on to zen_statements_utility(), and this to the others. */
static void
run_utility(PlannedStmt *pstmt, const char *query, bool read_only, ProcessUtilityContext context,
			ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	ZenUtility	u = {.pstmt = pstmt,.query = query,.read_only = read_only,.context = context,.params = params,
	.env = env,.dest = dest,.qc = qc,.others = prev_utility};

	zen_commands_utility(&u);
}

/* ---------- plans ---------- */

static planner_hook_type rest_planner;

static PlannedStmt *
plan_statement(Query *query, const char *text, int options, ParamListInfo params)
{
	if (unlikely(RecoveryInProgress()))
		return zen_statements_plan_on_standby(rest_planner, query, text, options, params);
	return rest_planner(query, text, options, params);
}

static get_relation_info_hook_type prev_relation_info;

static void
relation_described(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	zen_standbyplan_described(root, relid, inhparent, rel);
	if (prev_relation_info)
		prev_relation_info(root, relid, inhparent, rel);
}

/* ---------- executions ---------- */

/*
 * These are the outermost of their chains.  Kept executor state stands for PostgreSQL's executor, so it is the
 * innermost and has hooks of its own, below those of other libraries (zen_exec_install).
 */
static ExecutorStart_hook_type prev_start;
static ExecutorRun_hook_type prev_run;
static ExecutorFinish_hook_type prev_finish;
static ExecutorEnd_hook_type prev_end;

static void
start_execution(QueryDesc *query, int eflags)
{
	ZenAssertNotInEpoch();
	/* the process moves to another node before it allocates anything */
	if (unlikely(zen_partition_soft))
		zen_votes_begin(query, zen_exec_params(query), eflags);
	zen_statements_start(prev_start, query, eflags);
}

static void
run_execution(ZEN_EXECUTOR_RUN_ARGS)
{
	zen_statements_run(prev_run, ZEN_EXECUTOR_RUN_PASS);
	/* a backup that the statement has begun is noted when it is done */
	zen_replication_note_backup();
}

static void
end_execution(QueryDesc *query)
{
	zen_standin_end(query);
	if (prev_end)
		prev_end(query);
	else
		standard_ExecutorEnd(query);
}

static void
finish_execution(QueryDesc *query)
{
	zen_statements_finish(prev_finish, query);
}

/* ---------- objects ---------- */

static object_access_hook_type prev_object_access;

static void
object_accessed(ObjectAccessType access, Oid class, Oid object, int sub, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class, object, sub, arg);
	if (sub != 0 || IsBootstrapProcessingMode())
		return;
	/* a function is about to be called, which happens often */
	if (access == OAT_FUNCTION_EXECUTE)
		zen_replication_check_function(object);
	else
		zen_commands_object(access, class, object);
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
	zen_replication_client();
}

static const PQcommMethods *next_methods;

/* Parallel workers, which send to their leader, have methods of their own. */
static int
put_message(char type, const char *s, size_t len)
{
	if (type == 'T' && am_walsender)
		zen_replication_row_described();
	zen_sequence_message(type);
	return next_methods->putmessage(type, s, len);
}

static void
watch_messages(void)
{
	static PQcommMethods methods;

	Assert(next_methods == NULL && !IsUnderPostmaster);
	next_methods = PqCommMethods;
	methods = *next_methods;
	methods.putmessage = put_message;
	PqCommMethods = &methods;
}

/* ---------- hooks ---------- */

/* Kept executor state: a library behind zen sees it as it sees PostgreSQL's executor. */
void
zen_dispatch_install_innermost(void)
{
#ifndef ZEN_NO_EXECUTOR
	zen_exec_install();
	load_libraries_behind();
#endif
}

void
zen_dispatch_install(void)
{
	Assert(ProcessUtility_hook != run_utility); /* once */
	/* again, if a library has refused it, but has set no such hook */
	zen_exec_install();

	prev_utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = run_utility;
	prev_start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = start_execution;
	prev_run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	ExecutorRun_hook = run_execution;
	prev_finish = ExecutorFinish_hook ? ExecutorFinish_hook : standard_ExecutorFinish;
	ExecutorFinish_hook = finish_execution;
	prev_end = ExecutorEnd_hook;
	ExecutorEnd_hook = end_execution;
	prev_object_access = object_access_hook;
	object_access_hook = object_accessed;
	rest_planner = planner_hook ? planner_hook : standard_planner;
	planner_hook = plan_statement;
	prev_relation_info = get_relation_info_hook;
	get_relation_info_hook = relation_described;
	prev_authentication = ClientAuthentication_hook;
	ClientAuthentication_hook = client_authenticated;
	watch_messages();

	/* hooks that one part of zen has for itself, in any order */
	zen_exclusive_install();	/* errors */
	zen_statements_install();	/* EXPLAIN */
	zen_exec_init();			/* parser, planner, paths of aggregates */
}
