/*
 * standbyworker.c -- the background process of a hot standby whose zen tables are read.
 *
 * It makes the maps when the standby is consistent, and again when they were given up.  In between it collects, so that
 * what no snapshot needs goes also if no record of zen comes (S7).  It has no snapshot and no heavyweight lock while it
 * does so (S4), and ends when the server is promoted.
 */
#include "recovery/standbyworker.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "base/startup.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "standby/followers.h"
#include "standby/standbycollect.h"
#include "standby/standbyscan.h"
#include "standby/standbystate.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "txn/xact.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define ROUND_MS	1000
#define BUSY_MS		100			/* while versions wait that snapshots need */
#define TRY_MS		50			/* while replay has not come far enough */
#define STARVED_MS	10000
#define FILES_MS	10000		/* between two looks for files of indexes */
#define RESTART_S	1

void
zen_standby_worker_register(void)
{
	BackgroundWorker worker;

	Assert(!IsUnderPostmaster);
	if (!zen_standby_reads)
		return;
	zen_bgworker_describe(&worker, "zen standby", "zen_standby_worker_main", (Datum) 0, RESTART_S);
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	RegisterBackgroundWorker(&worker);
}

static void
standby_nap(long ms)
{
	ZenAssertNotInEpoch();
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* On a standby an index that writes no WAL has an init fork and no other. */
static bool
index_exists(RelFileLocator loc)
{
	SMgrRelation rel = smgropen(loc, INVALID_PROC_NUMBER);
	bool		exists = smgrexists(rel, INIT_FORKNUM);

	smgrclose(rel);
	return exists;
}

/* Trees that are lost, and those of indexes that have gone. */
static void
collect_trees(void)
{
	static TimestampTz looked = 0;

	(void) zen_followers_sweep();
	if (!TimestampDifferenceExceeds(looked, GetCurrentTimestamp(), FILES_MS))
		return;
	looked = GetCurrentTimestamp();
	zen_followers_forget_files(index_exists);
}

/* A round; returns how long to sleep. */
static long
make_round(void)
{
	collect_trees();
	if (zen_standby_state() != ZEN_STANDBY_LIVE && !zen_standby_try_scan())
		return zen_standby_state() == ZEN_STANDBY_STARVED ? STARVED_MS : TRY_MS;
	if (zen_standby->due.pending == 0)
		return ROUND_MS;
	StartTransactionCommand();
	zen_standby_note_new();
	CommitTransactionCommand();
	while (zen_standby_collect() && !ShutdownRequestPending)
		CHECK_FOR_INTERRUPTS();
	return BUSY_MS;
}

void
zen_standby_worker_main(Datum arg)
{
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	/* with 0 it is not started again */
	if (!RecoveryInProgress())
		proc_exit(0);
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	zen_xact_attach();
	while (!ShutdownRequestPending && RecoveryInProgress())
		standby_nap(make_round());
	proc_exit(RecoveryInProgress() ? 1 : 0);
}
