/*
 * zenam_change.c -- one change of a row of an open table: attempts, and waiting between them.
 *
 * Thin over row/rowchange.c, which judges and applies one attempt, and knows no Relation.  This file sees to the gate,
 * to the exclusive stage, to large transactions, to predicate locks, and to waiting for other transactions
 * (src/table/README, "Waiting for a row").  No lock of zen is held during the wait, and no epoch.  It knows nothing of
 * toasting and of slots: the toaster writes chunks with it, and zenam_dml.c changes rows with it.
 */
#include "table/zenam_change.h"

#include "access/htup_details.h"
#include "access/heapam.h"
#include "access/xact.h"
#include "base/epoch.h"
#include "base/stats.h"
#include "cache/tidmap.h"
#include "miscadmin.h"
#include "recovery/gate.h"
#include "row/lockers.h"
#include "row/rowmake.h"
#include "storage/predicate.h"
#include "table/zenam_rel.h"
#include "table/zenam_stream.h"
#include "txn/exclusive.h"
#include "txn/spill.h"

/* ---------- tuples ---------- */

/* The MinimalTuple inside a heap tuple; the header before it is scratch. */
static MinimalTuple
change_view(HeapTuple tuple)
{
	MinimalTuple mtup = (MinimalTuple) ((char *) tuple->t_data + MINIMAL_TUPLE_OFFSET);

	Assert(tuple->t_len >= SizeofHeapTupleHeader);
	mtup->t_len = tuple->t_len - MINIMAL_TUPLE_OFFSET;
	memset(mtup->mt_padding, 0, sizeof(mtup->mt_padding));
	mtup->t_infomask &= ~HEAP_XACT_MASK;
	mtup->t_infomask2 &= ~HEAP2_XACT_MASK;
	return mtup;
}

void
zenam_change_mark(HeapTuple tuple, ItemPointer tid, CommandId cid)
{
	HeapTupleHeader h = tuple->t_data;

	Assert(ItemPointerIsValid(tid));
	h->t_choice.t_heap.t_xmin = GetCurrentTransactionId();
	h->t_choice.t_heap.t_xmax = InvalidTransactionId;
	h->t_choice.t_heap.t_field3.t_cid = cid;
	h->t_ctid = *tid;
	tuple->t_self = *tid;
}

/* ---------- insert ---------- */

static inline ZenHTable *
begin_insertion(Relation rel)
{
	ZenAssertNotInEpoch();
	Assert(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	zen_gate();
	zen_exclusive_write();
	zen_spill_if_large();
	return zen_rel_htable(rel);
}

/* The row of a tuple stands at a TID. */
static inline void
mark_inserted(Relation rel, HeapTuple tuple, uint64 tidno, CommandId cid)
{
	ItemPointerData tid;

	zen_rel_cover_block(rel, (BlockNumber) (tidno / ZEN_TIDS_PER_BLOCK));
	zen_make_tid(&tid, tidno, 0);
	zenam_change_mark(tuple, &tid, cid);
}

void
zenam_change_insert(Relation rel, HeapTuple tuple, CommandId cid, int options, uint32 spec_token)
{
	ZenHTable  *ht = begin_insertion(rel);
	uint64		tidno = zen_row_insert(ht, change_view(tuple), cid, spec_token, (options & HEAP_INSERT_FROZEN) != 0);

	mark_inserted(rel, tuple, tidno, cid);
	CheckForSerializableConflictIn(rel, NULL, InvalidBlockNumber);
}

/* Insert into DRAM the rows that have no bit in done. */
static void
insert_rest(ZenHTable *ht, const ZenNewRows *rows, uint64 done, ZenTakenTid *taken)
{
	uint32		i = 0;

	while (i < rows->n)
	{
		ZenNewRows	rest = *rows;
		uint32		end = i;

		while (end < rows->n && !(done >> end & 1))
			end++;
		rest.tuples += i;
		rest.n = end - i;
		if (rest.xmins != NULL)
			rest.xmins += i;
		if (rest.n > 0)
			zen_row_insert_many(ht, &rest, taken + i);
		i = end + 1;
	}
}

void
zenam_change_insert_many(Relation rel, HeapTuple *tuples, uint32 n, CommandId cid, int options,
						 const TransactionId *xmins)
{
	MinimalTuple views[ZEN_INSERT_ROWS];
	ZenTakenTid taken[ZEN_INSERT_ROWS];
	ZenNewRows	rows = {.tuples = views,.n = n,.cid = cid,.frozen = (options & HEAP_INSERT_FROZEN) != 0,.xmins = xmins};
	ZenHTable  *ht = begin_insertion(rel);

	Assert(n <= ZEN_INSERT_ROWS);
	for (uint32 i = 0; i < n; i++)
		views[i] = change_view(tuples[i]);
	insert_rest(ht, &rows, zen_spill_new_rows(ht, &rows, taken), taken);
	for (uint32 i = 0; i < n; i++)
		mark_inserted(rel, tuples[i], taken[i].tidno, cid);
	CheckForSerializableConflictIn(rel, NULL, InvalidBlockNumber);
}

/* ---------- waiting ---------- */

/*
 * Wait for the end of the transaction that is in the way.  False if the policy is to skip; throws if it is to fail.
 *
 * The first to wait comes first, by the tuple lock.  But a transaction that has locked the row already does not queue
 * up: the holder of the tuple lock may be waiting for it.
 */
static bool
wait_for_row(ZenWaiter *w, const ZenChange *c)
{
	TransactionId xid = c->wait_xid;
	LOCKMODE	mode = zen_lock_mode(c->mode);
	bool		queue = !c->held_before && w->tuple_lock == NoLock;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	Assert(TransactionIdIsValid(xid) && !TransactionIdIsCurrentTransactionId(xid));
	zen_make_tid(&w->tid, c->tidno, 0);

	switch (w->policy)
	{
		case LockWaitBlock:
			ZEN_COUNT(row_waits, 1);
			if (queue)
			{
				LockTuple(w->rel, &w->tid, mode);
				w->tuple_lock = mode;
			}
			XactLockTableWait(xid, w->rel, &w->tid, w->oper);
			return true;
		case LockWaitSkip:
		case LockWaitError:
			if (!queue || zen_conditional_lock_tuple(w->rel, &w->tid, mode, w->policy == LockWaitError))
			{
				if (queue)
					w->tuple_lock = mode;
				if (zen_conditional_xact_wait(xid, w->policy == LockWaitError))
					return true;
			}
			if (w->policy == LockWaitError)
				ereport(ERROR,
						(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
						 errmsg("could not obtain lock on row in relation \"%s\"", RelationGetRelationName(w->rel))));
			return false;
	}
	return false;
}

void
zenam_change_end_wait(ZenWaiter *w)
{
	if (w->tuple_lock != NoLock)
		UnlockTuple(w->rel, &w->tid, w->tuple_lock);
	w->tuple_lock = NoLock;
}

/* ---------- one change ---------- */

void
zenam_change_begin(ZenChange *c, Relation rel, ItemPointer tid, CommandId cid, LockTupleMode mode, Snapshot crosscheck)
{
	ZenAssertNotInEpoch();
	Assert(CheckRelationLockedByMe(rel, RowShareLock, true));
	Assert(ItemPointerIsValid(tid) && zen_tid_code(tid) <= ZEN_MAX_CODE);
	zen_gate();
	memset(c, 0, sizeof(*c));
	c->ht = zen_rel_htable(rel);
	c->tidno = zen_tidno(tid);
	c->code = zen_tid_code(tid);
	c->cid = cid;
	c->mode = mode;
	c->crosscheck = crosscheck;
}

/* Attempt a change, by zen_row_lock() or change_row(), until the result is final. */
static inline TM_Result
attempt(ZenChange *c, ZenWaiter *w, TM_Result (*try) (ZenChange *))
{
	zen_exclusive_write();
	for (;;)
	{
		TM_Result	result = try(c);

		ZenAssertNotInEpoch();
		Assert(result != TM_WouldBlock);
		if (result != TM_BeingModified)
			return result;
		if (!wait_for_row(w, c))
			return TM_WouldBlock;
	}
}

TM_Result
zenam_change_lock(ZenChange *c, ZenWaiter *w)
{
	return attempt(c, w, zen_row_lock);
}

/* zen_row_change(), after a large transaction has made room for one more version. */
static TM_Result
change_row(ZenChange *c)
{
	Assert(c->mode == LockTupleExclusive || (c->mode == LockTupleNoKeyExclusive && c->tuple != NULL));
	zen_spill_if_large();
	return zen_row_change(c);
}

/*
 * SSI: which transactions have read the version that was replaced?  The check comes after the change.  A reader locks
 * the version before it reads again, so a reader that is not found here will find the new version.
 */
static void
check_readers(Relation rel, const ZenChange *c)
{
	ItemPointerData tid;

	zen_make_tid(&tid, c->tidno, c->code);
	CheckForSerializableConflictIn(rel, &tid, ItemPointerGetBlockNumber(&tid));
}

TM_Result
zenam_change_update(ZenChange *c, ZenWaiter *w, HeapTuple stored)
{
	TM_Result	result;

	c->tuple = change_view(stored);
	result = attempt(c, w, change_row);
	if (result == TM_Ok)
	{
		zen_rel_cover_block(w->rel, (BlockNumber) (c->result_tidno / ZEN_TIDS_PER_BLOCK));
		check_readers(w->rel, c);
	}
	return result;
}

TM_Result
zenam_change_delete(ZenChange *c, Relation rel, bool wait)
{
	ZenWaiter	w = {.rel = rel,.policy = wait ? LockWaitBlock : LockWaitSkip,.oper = XLTW_Delete};
	TM_Result	result;

	Assert(c->tuple == NULL && c->mode == LockTupleExclusive);
	Assert(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	zen_check_change(rel);
	result = attempt(c, &w, change_row);
	zenam_change_end_wait(&w);
	if (result != TM_Ok)
		return result == TM_WouldBlock ? TM_BeingModified : result;
	check_readers(rel, c);
	return TM_Ok;
}
