/*
 * streamcover.c -- a base backup of a standby ends behind all that it has of the pool.
 *
 * streamclients.c knows which processes may copy files.  A walsender that streams does not count.  So a standby of this
 * standby costs nothing.
 *
 * A session enters itself, and then raises minRecoveryPoint.  Redo looks for entries, and then stores.  PostgreSQL has
 * published the end of a record before redo looks.  With a full barrier on both sides one of the two sees the other:
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
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "stream/streamclients.h"

static ControlFileData *control;	/* PostgreSQL's, under ControlFileLock */
static bool is_covered = false; /* startup process: the record that is
								 * replayed */

void
zen_cover_init(void)
{
	bool		found;

	control = ShmemInitStruct("Control File", sizeof(ControlFileData), &found);
	Assert(found);
}

void
zen_cover_begin(void)
{
	if (!RecoveryInProgress() || !zen_clients_copy_begin())
		return;
	pg_memory_barrier();		/* pairs with that of zen_cover_redo() */
	XLogFlush(GetCurrentReplayRecPtr(NULL));
}

void
zen_cover_end(void)
{
	zen_clients_copy_end();
}

/* ---------- redo ---------- */

static bool
may_be_copied(void)
{
	return !ZEN_FAULT(R18_UNCOVERED) && zen_clients_may_copy();
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

/* XLogFlush() has nothing to do if minRecoveryPoint was raised ahead far enough. */
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
