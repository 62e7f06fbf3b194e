/*
 * zenam_change.h -- one change of a row of an open table: attempts, and waiting between them.
 *
 * All functions may wait for locks and throw.  The caller is outside any epoch and holds no LWLock.
 */
#ifndef ZENAM_CHANGE_H
#define ZENAM_CHANGE_H

#include "base/compat.h"

#include "access/htup.h"
#include "row/rowchange.h"
#include "storage/lmgr.h"
#include "utils/rel.h"

/* How to wait for a row, and whether the tuple lock was taken on the way. */
typedef struct ZenWaiter
{
	Relation	rel;
	ItemPointerData tid;		/* canonical */
	LockTupleMode mode;
	LockWaitPolicy policy;
	XLTW_Oper	oper;
	bool		have_tuple_lock;
} ZenWaiter;

/* zenam_change_view -- see the MinimalTuple inside a heap tuple; the header before it is scratch. */
extern MinimalTuple zenam_change_view(HeapTuple tuple);

/* zenam_change_mark -- give a tuple the system columns that its new version has. */
extern void zenam_change_mark(HeapTuple tuple, ItemPointer tid, CommandId cid);

/*
 * zenam_change_insert -- insert a heap tuple as it is: no toasting, no indexes; sets its t_self.
 *
 * options: HEAP_INSERT_FROZEN counts.  spec_token: of a speculative insertion, else 0.
 */
extern void zenam_change_insert(Relation rel, HeapTuple tuple, CommandId cid, int options, uint32 spec_token);

/*
 * zenam_change_insert_many -- the same for n tuples, at most ZEN_INSERT_ROWS.
 *
 * What holds for all is looked at once: the gate, the exclusive stage, the size of the transaction, and predicate locks
 * of the table after the last row.
 */
extern void zenam_change_insert_many(Relation rel, HeapTuple *tuples, uint32 n, CommandId cid, int options);

/* zenam_change_begin -- a change of the version at tid; the caller fills in the new contents.  Passes the gate. */
extern ZenChange zenam_change_begin(Relation rel, ItemPointer tid, CommandId cid, LockTupleMode mode,
									Snapshot crosscheck);

/*
 * zenam_change_attempt -- attempt a change until its result is final; TM_WouldBlock if the waiter's policy is to skip.
 *
 * try: zen_row_lock or zenam_change_row.  Throws if the policy is to fail.  A tuple lock that was taken on the way is
 * the caller's until zenam_change_end_wait(), so that no other waiter overtakes it between two changes of one row.
 */
extern ZenWaiter zenam_change_waiter(Relation rel, ItemPointer tid, LockTupleMode mode, LockWaitPolicy policy,
									 XLTW_Oper oper);
extern TM_Result zenam_change_attempt(ZenChange *c, ZenWaiter *w, TM_Result (*try) (ZenChange *));
extern void zenam_change_end_wait(ZenWaiter *w);

/* zenam_change_row -- zen_row_change(), after a large transaction has made room for one more version. */
extern TM_Result zenam_change_row(ZenChange *c);

/*
 * zenam_change_conflicts -- SSI: which transactions have read the version that was just replaced?
 *
 * A reader locks the version before it reads again.  So a reader that is not found here will find the new version: the
 * check comes after the change.
 */
extern void zenam_change_conflicts(Relation rel, ItemPointer tid);

/*
 * zenam_change_delete -- delete a row, waiting for others if wait; TM_BeingModified if it would have to and may not.
 *
 * Leaves the row's out-of-line values, and its count in statistics, to the caller.  c is of zenam_change_begin().
 */
extern TM_Result zenam_change_delete(ZenChange *c, Relation rel, ItemPointer tid, bool wait);

/* zen_simple_insert -- insert one row (no toasting, no indexes); sets tuple->t_self. */
extern void zen_simple_insert(Relation rel, HeapTuple tuple, CommandId cid);

/*
 * zen_simple_delete -- delete the row version at tid, which no other transaction can be changing; elog(ERROR)
 * otherwise.
 */
extern void zen_simple_delete(Relation rel, ItemPointer tid, CommandId cid);

#endif							/* ZENAM_CHANGE_H */
