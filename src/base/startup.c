/*
 * startup.c -- what zen asks of the server when it starts: LWLocks, background processes, SQL objects of its version.
 *
 * The locks are one named tranche of PostgreSQL's, indexed by ZenLockId.  All background processes have access to
 * shared memory and databases, and start when PostgreSQL's own recovery is over.
 */
#include "base/startup.h"

#include "base/locks.h"
#include "postmaster/bgworker_internals.h"

#define LOCK_TRANCHE	"zen"

LWLockPadded *zen_locks;

void
zen_locks_request(void)
{
	RequestNamedLWLockTranche(LOCK_TRANCHE, ZEN_NLOCKS);
}

void
zen_locks_init(void)
{
	zen_locks = GetNamedLWLockTranche(LOCK_TRANCHE);
}

void
zen_bgworker_describe(BackgroundWorker *worker, const char *name, const char *function, Datum arg, int restart_s)
{
	memset(worker, 0, sizeof(*worker));
	strlcpy(worker->bgw_name, name, BGW_MAXLEN);
	strlcpy(worker->bgw_type, name, BGW_MAXLEN);
	strlcpy(worker->bgw_library_name, "zen", BGW_MAXLEN);
	strlcpy(worker->bgw_function_name, function, BGW_MAXLEN);
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = restart_s;
	worker->bgw_main_arg = arg;
}

bool
zen_bgworker_register(BackgroundWorker *worker)
{
	zen_worker_iter i;

	RegisterBackgroundWorker(worker);
	zen_foreach_worker(i)
	{
		if (strcmp(zen_worker_at(i)->rw_worker.bgw_name, worker->bgw_name) == 0)
			return true;
	}
	return false;
}

void
zen_sql_differs(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the SQL objects of extension zen do not fit the zen library that the server has loaded"),
			 errhint("Restart the server if the library was replaced, then run ALTER EXTENSION zen UPDATE.")));
}
