/*
 * callbacks.c -- a library with transaction callbacks, for t/735_callbacks.pl.
 *
 * Compiled with NAME, the prefix of its settings.  What it does before the end of a transaction is told by settings:
 *
 *	NAME.pre_commit		in PRE_COMMIT; NAME.pre_prepare in PRE_PREPARE; NAME.abort in ABORT
 *	NAME.invalidation	when it hears of a change to a relation after its own PRE_COMMIT; once
 *
 * Each is a list of actions with "|" between them: swallow (raise an error and catch it), rethrow (catch it and pass it
 * on), throw, kill (SIGKILL to itself), or else an SQL statement.
 *
 * With INSISTS it refuses to be loaded behind a library that has set a hook.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"

#define TEXT_OF(name)	#name
#define PREFIX_OF(name)	TEXT_OF(name)
#define PREFIX			PREFIX_OF(NAME)

PG_MODULE_MAGIC;

void		_PG_init(void);

static char *at_pre_commit;
static char *at_pre_prepare;
static char *at_abort;
static char *at_invalidation;
static bool committing = false;

static void
raise_error(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
			 errmsg("raised by library %s", PREFIX)));
}

static void
catch_error(bool rethrow)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		raise_error();
	}
	PG_CATCH();
	{
		if (rethrow)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
}

static void
run_sql(const char *sql)
{
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_execute(sql, false, 0) < 0)
		elog(ERROR, "SPI_execute failed: %s", sql);
	PopActiveSnapshot();
	SPI_finish();
}

static void
act(const char *actions)
{
	char	   *list = pstrdup(actions ? actions : "");
	char	   *rest;

	for (char *action = strtok_r(list, "|", &rest); action != NULL; action = strtok_r(NULL, "|", &rest))
	{
		if (strcmp(action, "swallow") == 0)
			catch_error(false);
		else if (strcmp(action, "rethrow") == 0)
			catch_error(true);
		else if (strcmp(action, "throw") == 0)
			raise_error();
		else if (strcmp(action, "kill") == 0)
			kill(MyProcPid, SIGKILL);
		else
			run_sql(action);
	}
	pfree(list);
}

static void
xact_callback(XactEvent event, void *arg)
{
	committing = event == XACT_EVENT_PRE_COMMIT;
	if (event == XACT_EVENT_PRE_COMMIT)
		act(at_pre_commit);
	else if (event == XACT_EVENT_PRE_PREPARE)
		act(at_pre_prepare);
	else if (event == XACT_EVENT_ABORT)
		act(at_abort);
}

static void
relation_changed(Datum arg, Oid relid)
{
	if (!committing)
		return;
	committing = false;
	act(at_invalidation);
}

static void
define(const char *name, char **value)
{
	DefineCustomStringVariable(name, "What the library does then.", NULL, value, "", PGC_USERSET, 0, NULL, NULL, NULL);
}

void
_PG_init(void)
{
#ifdef INSISTS
	if (planner_hook != NULL || ProcessUtility_hook != NULL || ExecutorStart_hook != NULL ||
		ExecutorRun_hook != NULL || ExplainOneQuery_hook != NULL)
		elog(ERROR, "library %s has to be loaded before all that set hooks", PREFIX);
#endif
	define(PREFIX ".pre_commit", &at_pre_commit);
	define(PREFIX ".pre_prepare", &at_pre_prepare);
	define(PREFIX ".abort", &at_abort);
	define(PREFIX ".invalidation", &at_invalidation);
	RegisterXactCallback(xact_callback, NULL);
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
}
