/*
 * pointread.c -- find, and lock, the rows of a point access.
 *
 * What the executor's nodes do with any rows is done here for one after the other: IndexScan, LockRows, and the part of
 * EvalPlanQual that judges key and quals again on a row that another transaction has changed.
 */
#include "exec/pointread.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "cache/keycache.h"
#include "cache/tidmap.h"
#include "exec/pointkeys.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "table/zenam_rel.h"
#include "utils/rel.h"

/* Do the key and the further quals hold for the row in the scan's slot? */
static bool
row_fits(ZenPoint *point, bool key)
{
	ExprContext *econtext = point->scan->ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = point->scan->ss.ss_ScanTupleSlot;
	return (!key || ExecQual(point->scan->indexqualorig, econtext)) && ExecQual(point->scan->ss.ps.qual, econtext);
}

/* ---------- finding a row ---------- */

/* The index, which an execution keeps open once it has had to ask it. */
static bool
fetch_by_index(ZenPoint *point)
{
	IndexScanState *scan = point->scan;
	bool		found;

	Assert(CheckRelationLockedByMe(point->rel, AccessShareLock, true));
	if (point->index == NULL)
	{
		point->index = index_open(point->shape.scan->indexid, point->index_lock);
		point->index_scan = zen_index_beginscan(point->rel, point->index, point->query->snapshot,
												scan->iss_NumScanKeys);
	}
	index_rescan(point->index_scan, point->scan_keys, scan->iss_NumScanKeys, NULL, 0);
	found = index_getnext_slot(point->index_scan, ForwardScanDirection, scan->ss.ss_ScanTupleSlot);
	Assert(!found || !point->index_scan->xs_recheck);
	return found;
}

/*
 * By the key cache, or else by the index.  A serializable transaction goes to the index, which locks the key's place
 * against rows that come there.
 */
static bool
fetch_by_key(ZenPoint *point)
{
	TupleTableSlot *slot = point->scan->ss.ss_ScanTupleSlot;
	uint64		hash;
	uint64		tidno;

	if (point->probe.nkeys == 0 || IsolationIsSerializable())
		return fetch_by_index(point);
	hash = zen_keyprobe_hash(&point->probe, point->scan_keys);
	if (zen_keyprobe_hint(zen_rel_htable(point->rel), hash, &tidno) &&
		zen_keyprobe_fetch(&point->probe, point->rel, point->scan_keys, tidno, point->query->snapshot, slot))
		return true;
	if (!fetch_by_index(point))
		return false;
	zen_keycache_store(hash, zen_tidno(&slot->tts_tid));
	return true;
}

void
zen_point_begin_read(ZenPoint *point)
{
	/* the gate before the index is opened, which a rebuild replaces */
	(void) zen_rel_htable(point->rel);
	Assert(point->index == NULL && point->query != NULL);
	point->done = !zen_pointkeys_begin(point);
}

bool
zen_point_next(ZenPoint *point)
{
	while (!point->done)
	{
		bool		found;

		point->done = !zen_pointkeys_next(point);
		found = fetch_by_key(point) && row_fits(point, false);
		if (found)
			return true;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

void
zen_point_end_read(ZenPoint *point)
{
	if (point->done)
		zen_pointkeys_end(point);
	if (point->index == NULL)
		return;
	index_endscan(point->index_scan);
	index_close(point->index, NoLock);
	point->index_scan = NULL;
	point->index = NULL;
}

/* ---------- locks ---------- */

static LockTupleMode
lock_mode(RowMarkType mark)
{
	switch (mark)
	{
		case ROW_MARK_EXCLUSIVE:
			return LockTupleExclusive;
		case ROW_MARK_NOKEYEXCLUSIVE:
			return LockTupleNoKeyExclusive;
		case ROW_MARK_SHARE:
			return LockTupleShare;
		case ROW_MARK_KEYSHARE:
			return LockTupleKeyShare;
		default:
			elog(ERROR, "unsupported rowmark type");
	}
}

static void
cannot_serialize(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent %s", what)));
}

bool
zen_point_lock(ZenPoint *point)
{
	TupleTableSlot *slot = point->scan->ss.ss_ScanTupleSlot;
	ItemPointerData tid = slot->tts_tid;
	int			flags = TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS;
	TM_FailureData tmfd;

	Assert(point->mark != NULL && ItemPointerIsValid(&tid));
	Assert(CheckRelationLockedByMe(point->rel, RowShareLock, true));
	if (!IsolationUsesXactSnapshot())
		flags |= TUPLE_LOCK_FLAG_FIND_LAST_VERSION;
	switch (table_tuple_lock(point->rel, &tid, point->query->snapshot, slot, point->kept->estate->es_output_cid,
							 lock_mode(point->mark->markType), point->mark->waitPolicy, flags, &tmfd))
	{
		case TM_Ok:
			break;
		case TM_WouldBlock:		/* SKIP LOCKED */
		case TM_SelfModified:	/* by a later command: not seen by this one */
			return false;
		case TM_Deleted:
			if (IsolationUsesXactSnapshot())
				cannot_serialize("update");
			return false;
		case TM_Updated:
			cannot_serialize("update");
			return false;
		case TM_Invisible:
			elog(ERROR, "attempted to lock invisible tuple");
			return false;
		default:
			elog(ERROR, "unexpected result of a row lock");
			return false;
	}
	/* where WHERE CURRENT OF looks */
	point->mark->curCtid = tid;
	point->mark->ermActive = true;
	return !tmfd.traversed || row_fits(point, true);
}

void
zen_point_self_modified(ZenPoint *point, const TM_FailureData *tmfd)
{
	const char *verb = point->shape.change->operation == CMD_DELETE ? "deleted" : "updated";

	if (tmfd->cmax == point->kept->estate->es_output_cid)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
			 errmsg("tuple to be %s was already modified by an operation triggered by the current command", verb),
			 errhint("Consider using an AFTER trigger instead of a BEFORE trigger "
					 "to propagate changes to other rows.")));
}

bool
zen_point_follow(ZenPoint *point, ItemPointer tid, LockTupleMode mode)
{
	CommandId	cid = point->kept->estate->es_output_cid;
	TM_FailureData tmfd;

	if (IsolationUsesXactSnapshot())
		cannot_serialize("update");
	switch (table_tuple_lock(point->rel, tid, point->query->snapshot, point->scan->ss.ss_ScanTupleSlot, cid, mode,
							 LockWaitBlock, TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &tmfd))
	{
		case TM_Ok:
			Assert(tmfd.traversed);
			return row_fits(point, true);
		case TM_Deleted:
			return false;
		case TM_SelfModified:
			zen_point_self_modified(point, &tmfd);
			return false;
		default:
			elog(ERROR, "unexpected result of a row lock");
			return false;
	}
}
