/*
 * streamclients.c -- clients of replication: they read commits soon, and copy files that are whole.
 *
 * This file counts the processes that serve them.
 *
 * - A walsender counts from its authentication to its end.  While there is one, the flusher works (src/stream/README,
 *   "How soon commits leave").
 * - One of physical replication keeps tables from becoming zen's whose rows its client could not get
 *   (table/zenam_ddl.c).
 * - On a standby redo asks whether any process may copy files (src/stream/README, "Copies of a copy").  A walsender
 *   that streams does not count.  So it is known by its pid, and a standby of this standby costs nothing.
 */
#include "stream/streamclients.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"

#include "base/fault.h"
#include "base/guc.h"
#include "base/startup.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "postmaster/interrupt.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "stream/streamtail.h"
#include "utils/guc.h"

#define REST_MS			2
#define RESTART_S		1		/* of the flusher after a failure */

typedef struct Clients
{
	pg_atomic_uint32 readers;	/* walsenders */
	pg_atomic_uint32 physical;	/* of these, of physical replication */
	PGPROC	   *volatile flusher;	/* NULL before its first start */
	pg_atomic_uint32 sessions;	/* that may copy, and have no entry of pids */
	pg_atomic_uint32 walsenders;	/* that may copy, with an entry of pids */
	pg_atomic_uint32 pids[FLEXIBLE_ARRAY_MEMBER];	/* of these, 0: none;
													 * [max_wal_senders] */
} Clients;

static Clients *clients;
static ControlFileData *control_file;	/* PostgreSQL's, under ControlFileLock */
static bool copies = false;		/* this process may */
static int	my_place = -1;		/* of pids */
static bool is_covered = false; /* startup process: the record in replay */

static Size
clients_shmem_size(void)
{
	return add_size(offsetof(Clients, pids), mul_size(max_wal_senders, sizeof(pg_atomic_uint32)));
}

static void
clients_shmem_init(void)
{
	bool		found;

	control_file = ShmemInitStruct("Control File", sizeof(ControlFileData), &found);
	Assert(found);
	clients = ShmemInitStruct("zen clients", clients_shmem_size(), &found);
	if (found)
		return;
	pg_atomic_init_u32(&clients->readers, 0);
	pg_atomic_init_u32(&clients->physical, 0);
	clients->flusher = NULL;
	pg_atomic_init_u32(&clients->sessions, 0);
	pg_atomic_init_u32(&clients->walsenders, 0);
	for (int i = 0; i < max_wal_senders; i++)
		pg_atomic_init_u32(&clients->pids[i], 0);
}

const ZenShmem zen_clients_shmem = {.size = clients_shmem_size,.init = clients_shmem_init};

/* ---------- walsenders ---------- */

/* The latch of a process that has ended belongs to no process, or to another one, which it does no harm to wake. */
static void
wake_flusher(void)
{
	PGPROC	   *flusher = clients->flusher;

	if (flusher != NULL)
		SetLatch(&flusher->procLatch);
}

static void
stop_counting(int code, Datum arg)
{
	if (!am_db_walsender)
		pg_atomic_fetch_sub_u32(&clients->physical, 1);
	pg_atomic_fetch_sub_u32(&clients->readers, 1);
	wake_flusher();
}

void
zen_clients_enter(void)
{
	Assert(am_walsender);
	pg_atomic_fetch_add_u32(&clients->readers, 1);
	if (!am_db_walsender)
		pg_atomic_fetch_add_u32(&clients->physical, 1);
	before_shmem_exit(stop_counting, (Datum) 0);
	wake_flusher();
}

bool
zen_clients_physical(void)
{
	pg_memory_barrier();
	return pg_atomic_read_u32(&clients->physical) > 0;
}

/* ---------- processes that may copy ---------- */

void
zen_cover_end(void)
{
	if (!copies)
		return;
	pg_atomic_fetch_sub_u32(my_place >= 0 ? &clients->walsenders : &clients->sessions, 1);
	if (my_place >= 0)
		pg_atomic_write_u32(&clients->pids[my_place], 0);
	my_place = -1;
	copies = false;
}

static void
end_at_exit(int code, Datum arg)
{
	zen_cover_end();
}

/* A walsender without a place counts as any session does, even while it streams. */
static void
find_pid_place(void)
{
	for (int i = 0; i < max_wal_senders && my_place < 0; i++)
	{
		uint32		free = 0;

		if (pg_atomic_compare_exchange_u32(&clients->pids[i], &free, (uint32) MyProcPid))
			my_place = i;
	}
}

void
zen_cover_begin(void)
{
	static bool registered = false;

	if (copies || !RecoveryInProgress())
		return;
	if (!registered)
		before_shmem_exit(end_at_exit, (Datum) 0);
	registered = true;
	copies = true;
	if (am_walsender)
		find_pid_place();
	pg_atomic_fetch_add_u32(my_place >= 0 ? &clients->walsenders : &clients->sessions, 1);
	pg_memory_barrier();		/* pairs with that of zen_cover_redo() */
	XLogFlush(GetCurrentReplayRecPtr(NULL));
}

/* A walsender that has streamed may take a backup later: by then its state is BACKUP. */
static bool
streams(uint32 pid)
{
	for (int i = 0; i < max_wal_senders; i++)
	{
		volatile WalSnd *walsender = &WalSndCtl->walsnds[i];

		if (walsender->pid == (pid_t) pid)
			return walsender->state == WALSNDSTATE_CATCHUP || walsender->state == WALSNDSTATE_STREAMING;
	}
	return false;
}

/* May any process copy files now? */
static bool
may_be_copied(void)
{
	if (ZEN_FAULT(R18_UNCOVERED))
		return false;
	if (pg_atomic_read_u32(&clients->sessions) > 0)
		return true;
	if (likely(pg_atomic_read_u32(&clients->walsenders) == 0))
		return false;
	for (int i = 0; i < max_wal_senders; i++)
	{
		uint32		pid = pg_atomic_read_u32(&clients->pids[i]);

		if (pid != 0 && !streams(pid))
			return true;
	}
	return false;
}

/* ---------- copies of a standby: redo ---------- */

/* Records of another timeline may follow this one.  PostgreSQL reads no further ahead. */
static bool
may_end_timeline(const DecodedXLogRecord *record)
{
	uint8		info = record->header.xl_info & ~XLR_INFO_MASK;

	return record->header.xl_rmid == RM_XLOG_ID && (info == XLOG_CHECKPOINT_SHUTDOWN || info == XLOG_END_OF_RECOVERY);
}

XLogRecPtr
zen_read_end(const XLogReaderState *reader)
{
	XLogRecPtr	end = reader->EndRecPtr;

	for (const DecodedXLogRecord *next = reader->record->next; next != NULL && !may_end_timeline(next);
		 next = next->next)
	{
		end = next->next_lsn;
	}
	return end;
}

/* A recovery target may end recovery before the next record. */
static XLogRecPtr
known_end(const XLogReaderState *reader)
{
	return recoveryTarget == RECOVERY_TARGET_UNSET ? zen_read_end(reader) : reader->EndRecPtr;
}

/* As UpdateMinRecoveryPoint() does in PostgreSQL, but ahead of replay. */
static void
raise_ahead(XLogRecPtr end)
{
	TimeLineID	timeline;

	(void) GetCurrentReplayRecPtr(&timeline);
	LWLockAcquire(ControlFileLock, LW_EXCLUSIVE);
	if (control_file->state == DB_IN_ARCHIVE_RECOVERY && !XLogRecPtrIsInvalid(control_file->minRecoveryPoint) &&
		control_file->minRecoveryPoint < end)
	{
		control_file->minRecoveryPoint = end;
		control_file->minRecoveryPointTLI = timeline;
		update_controlfile(DataDir, control_file, true);
	}
	LWLockRelease(ControlFileLock);
}

/* XLogFlush() has nothing to do if minRecoveryPoint was raised ahead far enough. */
static void
raise_for(const XLogReaderState *reader)
{
	static XLogRecPtr raised = InvalidXLogRecPtr;

	if (reader->EndRecPtr > raised)
	{
		raised = known_end(reader);
		if (raised > reader->EndRecPtr)
			raise_ahead(raised);
	}
	XLogFlush(reader->EndRecPtr);
}

void
zen_cover_redo(XLogReaderState *record)
{
	pg_memory_barrier();		/* pairs with that of zen_cover_begin() */
	is_covered = may_be_copied();
	if (is_covered)
		raise_for(record);
}

void
zen_cover_redo_done(XLogReaderState *record)
{
	pg_memory_barrier();
	if (!is_covered && may_be_copied())
		raise_for(record);
}

/* ---------- the flusher ---------- */

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
	bool		read = pg_atomic_read_u32(&clients->readers) > 0;
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
	clients->flusher = MyProc;
	pg_memory_barrier();		/* a reader finds it, or is found */
	while (!ShutdownRequestPending)
	{
		look_around();
		flush_or_sleep(&done);
	}

	/* with 0 no other worker would start after a pg_terminate_backend() */
	proc_exit(1);
}

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
