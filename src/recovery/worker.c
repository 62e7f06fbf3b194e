/*
 * worker.c -- the background worker: it recovers the pool, and then makes rounds.
 *
 * src/recovery/README, "The background worker", lists what it does in a round.
 */
#include "recovery/recovery.h"

#include "access/xact.h"
#include "base/arena.h"
#include "base/epoch.h"
#include "base/startup.h"
#include "cache/clock.h"
#include "gc/collect.h"
#include "gc/reclaim.h"
#include "gc/room.h"
#include "miscadmin.h"
#include "numa/partition.h"
#include "nvm/filetime.h"
#include "nvm/grow.h"
#include "nvm/moment.h"
#include "nvm/persist.h"
#include "nvm/pool.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "recovery/gate.h"
#include "recovery/runmap.h"
#include "row/visibility.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "stream/streamsink.h"
#include "txn/prepared.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

#define NAP_MS		1000		/* while garbage is waiting */
#define LONG_NAP_MS 5000
#define SHORT_NAP_MS	20		/* between two steps of a sweep */
#define GC_STEP		4096		/* items between two looks around */
#define WORKER_RESTART_S	10	/* after a failure */
#define EVICT_STEP	100000		/* entries passed between two looks */

bool		(*zen_worker_after_recovery) (void) = NULL;

void
zen_worker_register(void)
{
	BackgroundWorker worker;

	Assert(!IsUnderPostmaster);
	zen_bgworker_describe(&worker, "zen worker", "zen_worker_main", (Datum) 0, WORKER_RESTART_S);
	RegisterBackgroundWorker(&worker);
}

/*
 * PostgreSQL compares xids with the xmin of the last snapshot taken.  In a process that has taken none for 2^31
 * transactions TransactionIdIsInProgress() would be wrong.
 */
static void
take_snapshot(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	CommitTransactionCommand();
}

/* Was something stored lately?  If so, the files' times and marks are raised. */
static bool
look_at_stores(void)
{
	uint64		stored;
	bool		rests = zen_filetime_round(&stored);

	if (!zen_pool.scratch)
		zen_moment_step(zen_pool.base, stored);
	return !rests;
}

static void
between_steps(void)
{
	CHECK_FOR_INTERRUPTS();
	if (zen_grow_is_asked())
		zen_grow_step();
	(void) look_at_stores();
}

static void
collect_all(void)
{
	if (zen_gcqueue_pending() > 0)
	{
		FullTransactionId horizon = zen_horizon_look();

		while (zen_reclaim_some(GC_STEP) == GC_STEP && !ShutdownRequestPending)
			between_steps();
		zen_holder_watch(horizon);
	}
	/* of processes that have ended, too */
	zen_epoch_flush();
	while (zen_reclaim_some_pages() && !ShutdownRequestPending)
		between_steps();
}

static void
evict_rows(void)
{
	while (zen_clock_needs_room() && !ShutdownRequestPending)
	{
		uint64		before = zen_version_bytes();

		between_steps();
		zen_clock_evict(EVICT_STEP);
		zen_epoch_flush();
		if (zen_version_bytes() >= before)
			break;				/* what is there is in use */
	}
	zen_clock_evict_spans();
}

/* What the worker has still to do after one round. */
typedef struct Agenda
{
	bool		after_recovery; /* what follows recovery is not done */
	bool		prepared;		/* prepared transactions wait for their end */
	bool		sweeping;
	bool		stored;			/* something was, lately */
} Agenda;

static void
worker_nap(long ms)
{
	ZenAssertNotInEpoch();
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

/*
 * In time this process touches all of the pool and of DRAM.  The OOM killer counts that as memory of this process, and
 * may choose it, though its end would free none of it.
 */
static void
let_memory_go(void)
{
	zen_nvm_let_go(zen_pool.base, zen_pool_pages() * ZEN_PAGE_SIZE);
	zen_arena_let_go();
}

/*
 * Nothing to do: sleep long, and when a commit has queued something, a nap more.  So busy servers have a round a
 * second and no more.
 */
static void
sleep_until_next_round(const Agenda *agenda)
{
	if (agenda->sweeping)
		worker_nap(SHORT_NAP_MS);
	else if (agenda->after_recovery || agenda->prepared || agenda->stored || zen_clock_needs_room() ||
			 !zen_gcqueue_arm())
		worker_nap(NAP_MS);
	else
	{
		let_memory_go();
		worker_nap(zen_partition_soft ? NAP_MS : LONG_NAP_MS);
		if (zen_gcqueue_disarm() && !ShutdownRequestPending && !ConfigReloadPending && !zen_grow_is_asked())
			worker_nap(NAP_MS);
	}
}

void
zen_worker_main(Datum arg)
{
	Agenda		agenda = {0};

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
	zen_recovery_is_worker = true;
	if (ZEN_FAULT(R17_WORKER_LATE))
		pg_usleep(1000000L);	/* statements come before it */
	zen_gate();
	Assert(zen_gate_is_ready());
	zen_grow_serve();
	zen_filetime_serve();
	agenda.after_recovery = zen_worker_after_recovery != NULL && !zen_worker_after_recovery();
	while (!ShutdownRequestPending)
	{
		sleep_until_next_round(&agenda);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (agenda.after_recovery)
			agenda.after_recovery = !zen_worker_after_recovery();
		zen_grow_step();
		agenda.stored = look_at_stores();
		take_snapshot();
		agenda.prepared = zen_prepared_resolve();
		collect_all();
		agenda.sweeping = zen_sweep_step();
		zen_runmap_step();
		zen_clock_tick();
		evict_rows();
		zen_room_watch();
		zen_copy_tell_dram();
		zen_partition_tick();
	}

	/* with 0 no other worker would start after a pg_terminate_backend() */
	proc_exit(1);
}
