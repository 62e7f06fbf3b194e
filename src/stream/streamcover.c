/*
 * streamcover.c -- a base backup of a standby ends behind all that it has of the pool.
 *
 * Who may copy files has an entry here: replication connections, and sessions that have called pg_backup_start() or
 * that read files as pg_rewind does.  A walsender that streams does not count.  So a standby of this standby costs
 * nothing.
 *
 * A session tells of itself, and then raises minRecoveryPoint; redo looks, and then stores.  PostgreSQL has published
 * the end of a record before redo looks for entries.  With a full barrier on both sides one of the two sees the other:
 * redo raises minRecoveryPoint for this record, or the session has done so.
 *
 * To raise it is to write pg_control to disk.  So redo raises it for all records that PostgreSQL has read ahead: it
 * will replay them in any case, before it ends recovery.
 */
#include "stream/streamcover.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "base/fault.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

typedef struct Cover
{
	pg_atomic_uint32 sessions;	/* that may copy, and are no walsenders */
	pg_atomic_uint32 walsenders;	/* with an entry of pids */
	pg_atomic_uint32 pids[FLEXIBLE_ARRAY_MEMBER];	/* of these, 0: none;
													 * [max_wal_senders] */
} Cover;

static Cover *cover;
static ControlFileData *control;	/* PostgreSQL's, under ControlFileLock */
static bool is_noted = false;	/* this session */
static int	my_place = -1;		/* of a walsender */
static bool is_covered = false; /* startup process: the record that is
								 * replayed */

/* ---------- shared memory ---------- */

Size
zen_cover_shmem_size(void)
{
	return add_size(offsetof(Cover, pids), mul_size(max_wal_senders, sizeof(pg_atomic_uint32)));
}

void
zen_cover_init(void)
{
	bool		found;

	cover = ShmemInitStruct("zen copying sessions", zen_cover_shmem_size(), &found);
	pg_atomic_init_u32(&cover->sessions, 0);
	pg_atomic_init_u32(&cover->walsenders, 0);
	for (int i = 0; i < max_wal_senders; i++)
		pg_atomic_init_u32(&cover->pids[i], 0);
	control = ShmemInitStruct("Control File", sizeof(ControlFileData), &found);
	Assert(found);
}

/* ---------- sessions ---------- */

/* A walsender without a place counts as any session does, even while it streams. */
static void
enter(void)
{
	for (int i = 0; am_walsender && i < max_wal_senders && my_place < 0; i++)
	{
		uint32		free = 0;

		if (pg_atomic_compare_exchange_u32(&cover->pids[i], &free, (uint32) MyProcPid))
			my_place = i;
	}
	pg_atomic_fetch_add_u32(my_place >= 0 ? &cover->walsenders : &cover->sessions, 1);
}

void
zen_cover_end(void)
{
	if (!is_noted)
		return;
	pg_atomic_fetch_sub_u32(my_place >= 0 ? &cover->walsenders : &cover->sessions, 1);
	if (my_place >= 0)
		pg_atomic_write_u32(&cover->pids[my_place], 0);
	my_place = -1;
	is_noted = false;
}

static void
at_exit(int code, Datum arg)
{
	zen_cover_end();
}

void
zen_cover_begin(void)
{
	static bool registered = false;

	if (is_noted || !RecoveryInProgress())
		return;
	if (!registered)
		before_shmem_exit(at_exit, (Datum) 0);
	registered = true;
	is_noted = true;
	enter();
	pg_memory_barrier();		/* pairs with that of zen_cover_redo() */
	XLogFlush(GetCurrentReplayRecPtr(NULL));
}

/* ---------- redo ---------- */

/* One that has streamed may take a backup later, and has said BACKUP by then. */
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

static bool
may_be_copied(void)
{
	if (ZEN_FAULT(R18_UNCOVERED))
		return false;
	if (pg_atomic_read_u32(&cover->sessions) > 0)
		return true;
	if (likely(pg_atomic_read_u32(&cover->walsenders) == 0))
		return false;
	for (int i = 0; i < max_wal_senders; i++)
	{
		uint32		pid = pg_atomic_read_u32(&cover->pids[i]);

		if (pid != 0 && !streams(pid))
			return true;
	}
	return false;
}

/* Records of another timeline may follow this one.  PostgreSQL reads no further ahead. */
static bool
may_end_timeline(const DecodedXLogRecord *record)
{
	uint8		info = record->header.xl_info & ~XLR_INFO_MASK;

	return record->header.xl_rmid == RM_XLOG_ID && (info == XLOG_CHECKPOINT_SHUTDOWN || info == XLOG_END_OF_RECOVERY);
}

/*
 * The end of what is sure to be replayed, on the timeline of the record that is being replayed.  A recovery target may
 * end recovery before the next record.
 */
static XLogRecPtr
end_of_known(const XLogReaderState *reader)
{
	XLogRecPtr	end = reader->EndRecPtr;

	if (recoveryTarget != RECOVERY_TARGET_UNSET)
		return end;
	for (const DecodedXLogRecord *next = reader->record->next; next != NULL && !may_end_timeline(next);
		 next = next->next)
		end = next->next_lsn;
	return end;
}

/* As UpdateMinRecoveryPoint() does in PostgreSQL, but ahead of replay. */
static void
raise_ahead(XLogRecPtr end)
{
	TimeLineID	timeline;

	(void) GetCurrentReplayRecPtr(&timeline);
	LWLockAcquire(ControlFileLock, LW_EXCLUSIVE);
	if (control->state == DB_IN_ARCHIVE_RECOVERY && !XLogRecPtrIsInvalid(control->minRecoveryPoint) &&
		control->minRecoveryPoint < end)
	{
		control->minRecoveryPoint = end;
		control->minRecoveryPointTLI = timeline;
		update_controlfile(DataDir, control, true);
	}
	LWLockRelease(ControlFileLock);
}

/* XLogFlush() has nothing to do if what was raised ahead is enough. */
static void
raise_for(const XLogReaderState *reader)
{
	static XLogRecPtr raised = InvalidXLogRecPtr;

	if (reader->EndRecPtr > raised)
	{
		raised = end_of_known(reader);
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
