/*
 * zenam_dml.c -- insert, update, delete, lock.
 *
 * Thin over row/rowchange.c and row/rowlock.c, which judge and apply one attempt.  This file waits for other transactions
 * between attempts, in heap's manner: the heavyweight tuple lock first, so that waiters queue fairly, then the other
 * transaction's end; and it sees to toasting, predicate locks and statistics.
 *
 * Toasting an update deletes out-of-line values of the old row, so the row is locked before: nobody else may then put
 * a version in between that still needs them.
 */
#include "table/zenam.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/stats.h"
#include "cache/tidmap.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "recovery/gate.h"
#include "row/lockers.h"
#include "row/rowchange.h"
#include "row/rowlock.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "table/zenam_callbacks.h"
#include "table/zenam_publish.h"
#include "txn/exclusive.h"
#include "txn/spill.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* ---------- tuples ---------- */

/* The heap tuple of a slot, without another table's or transaction's marks. */
static HeapTuple
slot_tuple(Relation rel, TupleTableSlot *slot, bool *should_free)
{
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, true, should_free);

	slot->tts_tableOid = RelationGetRelid(rel);
	tuple->t_tableOid = RelationGetRelid(rel);
	return tuple;
}

/* See the MinimalTuple inside a heap tuple; what precedes it in the header is scratch. */
static MinimalTuple
minimal_view(HeapTuple tuple)
{
	MinimalTuple mtup = (MinimalTuple) ((char *) tuple->t_data + MINIMAL_TUPLE_OFFSET);

	mtup->t_len = tuple->t_len - MINIMAL_TUPLE_OFFSET;
	memset(mtup->mt_padding, 0, sizeof(mtup->mt_padding));
	mtup->t_infomask &= ~HEAP_XACT_MASK;
	mtup->t_infomask2 &= ~HEAP2_XACT_MASK;
	return mtup;
}

/* Give a tuple the system columns that its new version has. */
static void
mark_tuple(HeapTuple tuple, ItemPointer tid, CommandId cid)
{
	HeapTupleHeader h = tuple->t_data;

	h->t_choice.t_heap.t_xmin = GetCurrentTransactionId();
	h->t_choice.t_heap.t_xmax = InvalidTransactionId;
	h->t_choice.t_heap.t_field3.t_cid = cid;
	h->t_ctid = *tid;
	tuple->t_self = *tid;
}

/* ---------- a row as it is stored ---------- */

static ZenRow old_row;			/* reused */

/* Fetch exactly the version at tid as a heap tuple; false if it is gone. */
static bool
fetch_old(Relation rel, ItemPointer tid, HeapTuple old)
{
	ZenFetch	f = {.ht = zen_rel_htable(rel),.tidno = zen_tidno(tid),.snapshot = SnapshotAny,
	.code = (int) zen_tid_code(tid),.row = &old_row};

	old_row.mcxt = TopMemoryContext;
	if (!zen_row_fetch(&f))
		return false;
	old->t_data = (HeapTupleHeader) old_row.buf;
	old->t_len = old_row.len;
	old->t_self = *tid;
	old->t_tableOid = RelationGetRelid(rel);
	return true;
}

/* ---------- insert ---------- */

/* Insert a heap tuple as it is; sets its t_self. */
static void
insert_tuple(Relation rel, HeapTuple tuple, CommandId cid, int options, uint32 spec_token)
{
	ItemPointerData tid;
	uint64		tidno;

	zen_gate();
	zen_exclusive_write();
	zen_spill_if_large();
	tidno = zen_row_insert(zen_rel_htable(rel), minimal_view(tuple), cid, spec_token,
						   (options & HEAP_INSERT_FROZEN) != 0);
	zen_rel_cover_block(rel, (BlockNumber) (tidno / ZEN_TIDS_PER_BLOCK));
	CheckForSerializableConflictIn(rel, NULL, InvalidBlockNumber);
	zen_make_tid(&tid, tidno, 0);
	mark_tuple(tuple, &tid, cid);
}

static void
insert_slot(Relation rel, TupleTableSlot *slot, CommandId cid, int options, uint32 spec_token)
{
	bool		should_free;
	HeapTuple	tuple = slot_tuple(rel, slot, &should_free);
	HeapTuple	stored = tuple;

	zen_check_change(rel);
	if (zen_toast_needed(rel, tuple))
		stored = zen_toast_insert_or_update(rel, tuple, NULL, options);
	insert_tuple(rel, stored, cid, options, spec_token);
	if (stored != tuple)
	{
		mark_tuple(tuple, &stored->t_self, cid);
		heap_freetuple(stored);
	}
	slot->tts_tid = tuple->t_self;
	if (should_free)
		pfree(tuple);
	pgstat_count_heap_insert(rel, 1);
}

void
zenam_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
				   struct BulkInsertStateData *bistate)
{
	insert_slot(rel, slot, cid, options, 0);
}

void
zenam_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
							   struct BulkInsertStateData *bistate, uint32 specToken)
{
	insert_slot(rel, slot, cid, options | HEAP_INSERT_SPECULATIVE, specToken);
}

void
zenam_tuple_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 specToken, bool succeeded)
{
	ZenHTable  *ht = zen_rel_htable(rel);
	HeapTupleData stored;
	bool		delete_values = !succeeded && OidIsValid(rel->rd_rel->reltoastrelid) &&
	fetch_old(rel, &slot->tts_tid, &stored) && HeapTupleHasExternal(&stored);

	zen_row_complete(ht, zen_tidno(&slot->tts_tid), succeeded);
	if (delete_values)
		zen_toast_delete(rel, &stored, true);
}

void
zenam_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid, int options,
				   struct BulkInsertStateData *bistate)
{
	for (int i = 0; i < nslots; i++)
		insert_slot(rel, slots[i], cid, options, 0);
}

void
zen_simple_insert(Relation rel, HeapTuple tuple, CommandId cid)
{
	insert_tuple(rel, tuple, cid, 0, 0);
	pgstat_count_heap_insert(rel, 1);
}

/* ---------- waiting ---------- */

/* How to wait for a row, and what has been taken on the way. */
typedef struct Waiter
{
	Relation	rel;
	ItemPointerData tid;		/* canonical */
	LockTupleMode mode;
	LockWaitPolicy policy;
	XLTW_Oper	oper;
	bool		have_tuple_lock;
} Waiter;

static Waiter
make_waiter(Relation rel, ItemPointer tid, LockTupleMode mode, LockWaitPolicy policy, XLTW_Oper oper)
{
	Waiter		w = {.rel = rel,.mode = mode,.policy = policy,.oper = oper};

	zen_make_tid(&w.tid, zen_tidno(tid), 0);
	return w;
}

static void
could_not_lock(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not obtain lock on row in relation \"%s\"", RelationGetRelationName(rel))));
}

/*
 * Wait for xid's end.  False if the policy is to skip; throws if it is to fail.
 *
 * Who waits first comes first, by the tuple lock.  But a transaction that has locked the row already does not queue up: the
 * holder of the tuple lock may be waiting for it.
 */
static bool
wait_for(Waiter *w, TransactionId xid, bool queue)
{
	LOCKMODE	mode = zen_lock_mode(w->mode);

	queue = queue && !w->have_tuple_lock;

	switch (w->policy)
	{
		case LockWaitBlock:
			ZEN_COUNT(row_waits, 1);
			if (queue)
			{
				LockTuple(w->rel, &w->tid, mode);
				w->have_tuple_lock = true;
			}
			XactLockTableWait(xid, w->rel, &w->tid, w->oper);
			return true;
		case LockWaitSkip:
		case LockWaitError:
			if (!queue || zen_conditional_lock_tuple(w->rel, &w->tid, mode, w->policy == LockWaitError))
			{
				w->have_tuple_lock |= queue;
				if (zen_conditional_xact_wait(xid, w->policy == LockWaitError))
					return true;
			}
			if (w->policy == LockWaitError)
				could_not_lock(w->rel);
			return false;
	}
	return false;
}

static void
end_wait(Waiter *w)
{
	if (w->have_tuple_lock)
		UnlockTuple(w->rel, &w->tid, zen_lock_mode(w->mode));
	w->have_tuple_lock = false;
}

/* Attempt until the result is final. */
static TM_Result
attempt(ZenChange *c, Waiter *w, TM_Result (*try) (ZenChange *))
{
	zen_exclusive_write();
	for (;;)
	{
		TM_Result	result = try(c);

		if (result != TM_BeingModified)
			return result;
		if (!wait_for(w, c->wait_xid, !c->held_before))
			return TM_WouldBlock;
	}
}

/*
 * SSI: who has read the version that was just replaced?  Readers lock it before they read again, so whoever is not found
 * here will find the new version: the check comes after the change.
 */
static void
check_conflict_in(Relation rel, ItemPointer tid)
{
	CheckForSerializableConflictIn(rel, tid, ItemPointerGetBlockNumber(tid));
}

static ZenChange
make_change(Relation rel, ItemPointer tid, CommandId cid, LockTupleMode mode, Snapshot crosscheck)
{
	ZenChange	c;

	zen_gate();
	memset(&c, 0, sizeof(c));
	c.ht = zen_rel_htable(rel);
	c.tidno = zen_tidno(tid);
	c.code = zen_tid_code(tid);
	c.cid = cid;
	c.mode = mode;
	c.crosscheck = crosscheck;
	return c;
}

/* ---------- what an update changes ---------- */

/* Is a column (as attribute bitmaps number it) the same, byte by byte, in both rows? */
static bool
column_unchanged(TupleDesc desc, int attnum, HeapTuple old, HeapTuple new)
{
	Datum		a,
				b;
	bool		a_null,
				b_null;
	Form_pg_attribute att;

	if (attnum == 0)
		return false;			/* a whole-row reference: assume the worst */
	if (attnum < 0)
		return attnum == TableOidAttributeNumber;
	a = heap_getattr(old, attnum, desc, &a_null);
	b = heap_getattr(new, attnum, desc, &b_null);
	if (a_null || b_null)
		return a_null == b_null;
	att = TupleDescAttr(desc, attnum - 1);
	return datumIsEqual(a, b, att->attbyval, att->attlen);
}

static bool
columns_unchanged(TupleDesc desc, Bitmapset *columns, HeapTuple old, HeapTuple new)
{
	int			k = -1;

	while ((k = bms_next_member(columns, k)) >= 0)
		if (!column_unchanged(desc, k + FirstLowInvalidHeapAttributeNumber, old, new))
			return false;
	return true;
}

/*
 * Which lock does the update need, and do indexes need to know the row under a new TID?
 *
 * Columns of summarizing indexes (BRIN) are no exception: who summarizes would find only the newer value under the row's
 * TID, and if the update is rolled back after that, its range would not have the older one.
 */
static void
classify_update(Relation rel, HeapTuple old, HeapTuple new, ZenChange *c)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *indexed = zen_indexed_attrs(rel);

	c->mode = LockTupleNoKeyExclusive;
	c->new_tid = !columns_unchanged(desc, indexed, old, new);
	if (c->new_tid)
	{
		Bitmapset  *key = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_KEY);

		if (!columns_unchanged(desc, key, old, new))
			c->mode = LockTupleExclusive;
		bms_free(key);
	}
	bms_free(indexed);
}

/* zen_row_change(), after a large transaction has made room for one more version. */
static TM_Result
change_row(ZenChange *c)
{
	zen_spill_if_large();
	return zen_row_change(c);
}

/* ---------- update ---------- */

static void
count_update(Relation rel, bool new_tid)
{
#if ZEN_HAS_NEWPAGE_UPDATE_COUNT
	pgstat_count_heap_update(rel, !new_tid, false);
#else
	pgstat_count_heap_update(rel, !new_tid);
#endif

	/*
	 * the old version needs no VACUUM unless indexes hold its TID: take back
	 * what core will count as dead
	 */
	if (!new_tid)
		pgstat_update_heap_dead_tuples(rel, 1);
}

/* Lock the row, so that it can be toasted; the result of the lock if it cannot be had. */
static TM_Result
lock_for_toasting(ZenChange *c, Waiter *w)
{
	ZenChange	lock = *c;
	TM_Result	result = attempt(&lock, w, zen_row_lock);

	c->tmfd = lock.tmfd;
	return result;
}

TM_Result
zenam_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid, Snapshot snapshot,
				   Snapshot crosscheck, bool wait, TM_FailureData *tmfd, LockTupleMode *lockmode,
				   TU_UpdateIndexes *update_indexes)
{
	ZenChange	c = make_change(rel, otid, cid, LockTupleExclusive, crosscheck);
	HeapTupleData old;
	bool		should_free;
	HeapTuple	tuple = slot_tuple(rel, slot, &should_free);
	HeapTuple	stored = tuple;
	TM_Result	result = TM_Ok;
	bool		have_old = fetch_old(rel, otid, &old);
	Waiter		w;

	zen_check_change(rel);
	if (have_old)
		classify_update(rel, &old, tuple, &c);
	/* else it is gone, and the attempt will tell how */
	*lockmode = c.mode;
	w = make_waiter(rel, otid, c.mode, wait ? LockWaitBlock : LockWaitSkip, XLTW_Update);

	if (have_old && (zen_toast_needed(rel, tuple) || HeapTupleHasExternal(&old)))
	{
		result = lock_for_toasting(&c, &w);
		if (result == TM_Ok)
			stored = zen_toast_insert_or_update(rel, tuple, &old, 0);
	}
	if (result == TM_Ok)
	{
		c.tuple = minimal_view(stored);
		result = attempt(&c, &w, change_row);
	}
	end_wait(&w);
	*update_indexes = TU_None;
	if (result == TM_Ok)
	{
		ItemPointerData tid;

		zen_rel_cover_block(rel, (BlockNumber) (c.result_tidno / ZEN_TIDS_PER_BLOCK));
		check_conflict_in(rel, otid);
		zen_make_tid(&tid, c.result_tidno, c.result_code);
		mark_tuple(tuple, &tid, cid);
		if (c.held_before)		/* as heap: a row that was locked first
								 * carries its locker on */
			tuple->t_data->t_choice.t_heap.t_xmax = GetCurrentTransactionId();
		slot->tts_tid = tid;
		*update_indexes = c.indexes_needed ? TU_All : TU_None;
		count_update(rel, c.indexes_needed);
	}
	else
	{
		*tmfd = c.tmfd;
		if (result == TM_WouldBlock)
			result = TM_BeingModified;
	}
	if (stored != tuple)
		heap_freetuple(stored);
	if (should_free)
		pfree(tuple);
	return result;
}

/* ---------- delete ---------- */

TM_Result
zenam_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot, Snapshot crosscheck,
				   bool wait, TM_FailureData *tmfd, bool changingPart)
{
	ZenChange	c = make_change(rel, tid, cid, LockTupleExclusive, crosscheck);
	Waiter		w = make_waiter(rel, tid, LockTupleExclusive, wait ? LockWaitBlock : LockWaitSkip, XLTW_Delete);
	HeapTupleData old;
	TM_Result	result;

	zen_check_change(rel);
	c.moved = changingPart;
	result = attempt(&c, &w, change_row);
	end_wait(&w);
	if (result != TM_Ok)
	{
		*tmfd = c.tmfd;
		return result == TM_WouldBlock ? TM_BeingModified : result;
	}
	check_conflict_in(rel, tid);
	if (OidIsValid(rel->rd_rel->reltoastrelid) && fetch_old(rel, tid, &old) && HeapTupleHasExternal(&old))
		zen_toast_delete(rel, &old, false);
	pgstat_count_heap_delete(rel);
	return TM_Ok;
}

void
zen_simple_delete(Relation rel, ItemPointer tid, CommandId cid)
{
	TM_FailureData tmfd;
	TM_Result	result = zenam_tuple_delete(rel, tid, cid, InvalidSnapshot, InvalidSnapshot, true, &tmfd, false);

	if (result != TM_Ok)
		elog(ERROR, "tuple of relation \"%s\" could not be deleted: result %d",
			 RelationGetRelationName(rel), (int) result);
}

/* ---------- lock ---------- */

/*
 * Lock one version and show it in the slot, locked or not: callers look at its system columns.
 */
static TM_Result
lock_version(Relation rel, ItemPointer tid, TupleTableSlot *slot, CommandId cid, LockTupleMode mode,
			 LockWaitPolicy policy, TM_FailureData *tmfd)
{
	ZenChange	c = make_change(rel, tid, cid, mode, InvalidSnapshot);
	Waiter		w = make_waiter(rel, tid, mode, policy, XLTW_Lock);
	TM_Result	result = attempt(&c, &w, zen_row_lock);
	ZenFetch	f = {.ht = c.ht,.tidno = c.tidno,.snapshot = SnapshotAny,.code = (int) c.code};

	end_wait(&w);
	*tmfd = c.tmfd;
	f.row = zenam_slot_row(slot);
	if (zen_row_fetch(&f))
		zenam_slot_store(slot, RelationGetRelid(rel));
	else if (result == TM_Ok)
		elog(ERROR, "locked row version is gone");
	return result;
}

/* From a version that has taken the row's place to the newest one that is committed or this transaction's. */
static void
newest_version(ZenHTable *ht, ItemPointer tid)
{
	uint64		tidno = zen_tidno(tid);
	uint32		code;

	while (zen_row_forward(ht, tidno, SnapshotSelf, &tidno))
		;
	if (zen_row_newest(ht, tidno, &code))
		zen_make_tid(tid, tidno, code);
}

TM_Result
zenam_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot, CommandId cid,
				 LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags, TM_FailureData *tmfd)
{
	bool		traversed = false;
	TM_Result	result;

	for (;;)
	{
		/* the caller goes on with the TID of the version that was locked */
		result = lock_version(rel, tid, slot, cid, mode, wait_policy, tmfd);
		if (result == TM_Invisible && traversed)
			result = TM_SelfModified;	/* the newest version is by a later
										 * command of this transaction */
		if (result != TM_Updated || !(flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION))
			break;
		if (ItemPointerIndicatesMovedPartitions(&tmfd->ctid))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("tuple to be locked was already moved to another partition due to concurrent update")));
		*tid = tmfd->ctid;
		newest_version(zen_rel_htable_raw(rel), tid);
		traversed = true;
	}
	tmfd->traversed = traversed;
	return result;
}
