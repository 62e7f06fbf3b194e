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

/* How to wait for a row.  The caller fills in what is not private. */
typedef struct ZenWaiter
{
	Relation	rel;
	LockWaitPolicy policy;
	XLTW_Oper	oper;

	/* private: the tuple lock that was taken on the way */
	LOCKMODE	tuple_lock;		/* or NoLock */
	ItemPointerData tid;		/* canonical */
} ZenWaiter;

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
 * of the table after the last row.  xmins: as in ZenNewRows.
 */
extern void zenam_change_insert_many(Relation rel, HeapTuple *tuples, uint32 n, CommandId cid, int options,
									 const TransactionId *xmins);

/* zenam_change_begin -- a change of the version at tid; the caller fills in the new contents.  Passes the gate. */
extern void zenam_change_begin(ZenChange *c, Relation rel, ItemPointer tid, CommandId cid, LockTupleMode mode,
							   Snapshot crosscheck);

/*
 * zenam_change_lock -- lock the row for c->mode.
 * zenam_change_update -- replace the row by a tuple as it is to be stored, of c->mode.  Has the block of its new place
 * in the main fork, and has told SSI of the change.
 *
 * Both attempt until the result is final; TM_WouldBlock if the waiter's policy is to skip.  They throw if it is to
 * fail.  A tuple lock that was taken on the way is the caller's until zenam_change_end_wait(), so that no other waiter
 * overtakes it between two changes of one row.
 */
extern TM_Result zenam_change_lock(ZenChange *c, ZenWaiter *w);
extern TM_Result zenam_change_update(ZenChange *c, ZenWaiter *w, HeapTuple stored);
extern void zenam_change_end_wait(ZenWaiter *w);

/*
 * zenam_change_delete -- delete a row, waiting for others if wait; TM_BeingModified if it would have to and may not.
 *
 * Leaves the row's out-of-line values, and its count in statistics, to the caller.  c is of zenam_change_begin().
 */
extern TM_Result zenam_change_delete(ZenChange *c, Relation rel, bool wait);

#endif							/* ZENAM_CHANGE_H */
