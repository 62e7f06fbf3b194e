/*
 * worker.c -- the background worker.
 *
 * It starts as soon as connections are allowed and recovers the pool (a backend that comes first does it itself: then the
 * worker waits).  After that it wakes up once a NAP_MS, leases regions that have garbage and no writer, collects
 * there, and finishes prepared transactions whose end nobody has seen to.
 */
#include "txn/worker.h"

#include "base/bgworker.h"
#include "cache/metcache.h"
#include "cache/split.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "txn/gc.h"
#include "txn/recovery.h"
#include "txn/twophase.h"
#include "utils/guc.h"

#define NAP_MS		1000
#define WORKER_RESTART_S	10	/* after a failure */
#define EVICT_STEP	100000		/* entries that the CLOCK hand passes between
								 * two looks */

bool		(*zen_worker_after_recovery) (void) = NULL;

void
zen_worker_register(void)
{
	BackgroundWorker worker;

	zen_bgworker_describe(&worker, "zen worker", "zen_worker_main", (Datum) 0, WORKER_RESTART_S);
	RegisterBackgroundWorker(&worker);
}

void
zen_worker_main(Datum arg)
{
	bool		done;			/* with what follows recovery */

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	/*
	 * to no database, but into the ProcArray: TransactionIdIsInProgress()
	 * leaves out its caller's place there
	 */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	/* when recovery has failed nothing is left to be done until a restart */
	if (pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_FAILED)
		proc_exit(0);
	zen_gate();
	done = zen_worker_after_recovery == NULL || zen_worker_after_recovery();
	while (!ShutdownRequestPending)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, NAP_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (!done)
			done = zen_worker_after_recovery();
		zen_twophase_resolve();
		zen_gc_all();
		zen_metcache_age();
		zen_split_plan();
		while (zen_metcache_needs_room() && !ShutdownRequestPending)
		{
			uint64		before = zen_version_bytes();

			zen_metcache_evict(EVICT_STEP);
			zen_epoch_flush();
			if (zen_version_bytes() >= before)
				break;			/* nothing that may go: what is there is in
								 * use */
		}
	}
	proc_exit(0);
}
