/*
 * streamflush.c -- the flusher: commits reach the readers of the WAL within milliseconds.
 *
 * A zen-only commit does not flush its records, and walsenders send what is flushed.  So while a client reads the WAL,
 * this process flushes up to the newest commit record, which wakes the walsenders.  No commit waits for it.
 *
 * - A walsender counts from its authentication to its end (streamclients.c).  While there is none, the flusher is not
 *   armed, and a commit does nothing for it.
 * - With no commit to flush it sleeps, armed: the next commit sets its latch, the ones behind it do not.
 * - Between two flushes it rests for REST_MS, so that many commits share one.
 */
#include "stream/streamflush.h"

#include "access/xlog.h"
#include "base/guc.h"
#include "base/startup.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "replication/walsender.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "stream/streamclients.h"
#include "stream/streamtail.h"
#include "utils/guc.h"

#define REST_MS			2
#define RESTART_S		1		/* after a failure */

/* ---------- the process ---------- */

static void
sleep_ms(long ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (ms >= 0 ? WL_TIMEOUT : 0), ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

static void
look_around(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/*
 * One round: flush what has committed, or sleep until something has.
 *
 * A reader that comes, or goes, sets the latch behind its change of the count.  So this process, which has looked at
 * the count before it sleeps, does not sleep on.
 */
static void
flush_or_sleep(XLogRecPtr *done)
{
	bool		read = zen_clients_readers();
	XLogRecPtr	newest = zen_streamtail_arm(*done, read ? MyLatch : NULL);

	if (!read || newest <= *done)
	{
		pgstat_report_wal(false);
		sleep_ms(-1);
		return;
	}
	XLogFlush(newest);
	*done = newest;
	sleep_ms(REST_MS);
}

void
zen_streamflush_main(Datum arg)
{
	XLogRecPtr	done = InvalidXLogRecPtr;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	/* to no database: so pg_stat_activity has it */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	Assert(!RecoveryInProgress());
	zen_clients_watch(MyProc);
	while (!ShutdownRequestPending)
	{
		look_around();
		flush_or_sleep(&done);
	}

	/*
	 * with 0 the postmaster would not start another one, should this have
	 * been pg_terminate_backend()
	 */
	proc_exit(1);
}

/* ---------- start ---------- */

void
zen_streamflush_register(void)
{
	BackgroundWorker worker;

	Assert(!IsUnderPostmaster);
	if (zen_stream == ZEN_STREAM_OFF || max_wal_senders == 0)
		return;
	zen_bgworker_describe(&worker, "zen flusher", "zen_streamflush_main", (Datum) 0, RESTART_S);
	RegisterBackgroundWorker(&worker);
}
