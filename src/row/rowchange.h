/*
 * rowchange.h -- update, delete and lock one row.
 *
 * Knows no Relation: waiting for other transactions, triggers, predicate locks are the table layer's.  All functions
 * are called outside any epoch, and may throw ERRCODE_OUT_OF_MEMORY and ERRCODE_DATA_CORRUPTED.
 */
#ifndef ZEN_ROWCHANGE_H
#define ZEN_ROWCHANGE_H

#include "cache/version.h"
#include "row/rowread.h"

#include "access/tableam.h"

/* An update, a delete or a lock of the version (tidno, code) that the caller saw. */
typedef struct ZenChange
{
	ZenHTable  *ht;
	uint64		tidno;
	uint32		code;
	CommandId	cid;
	LockTupleMode mode;			/* update: NoKeyExclusive or Exclusive;
								 * delete: Exclusive */
	MinimalTuple tuple;			/* new contents; NULL deletes */
	bool		new_tid;		/* an indexed column changes: the row goes on
								 * under a new TID */
	bool		moved;			/* delete: the row goes to another partition */
	Snapshot	crosscheck;		/* or InvalidSnapshot */
	ZenRow	   *row;			/* lock: NULL, or gets a copy of the version */

	/* results */
	TransactionId wait_xid;		/* with TM_BeingModified: wait for it and try
								 * again */
	TM_FailureData tmfd;		/* with TM_Updated, TM_Deleted,
								 * TM_SelfModified */
	uint64		result_tidno;	/* with TM_Ok after an update: where the row
								 * is now */
	uint32		result_code;
	bool		held_before;	/* with TM_Ok and TM_BeingModified: this
								 * transaction had locked the row before */
	bool		indexes_needed; /* with TM_Ok after an update: it took a new
								 * TID */
	bool		points_out;		/* with TM_Ok after a change: the version that
								 * it replaced may have values out of line */
	bool		copied;			/* with TM_Ok after a lock: row has the copy */
} ZenChange;

/* zen_row_change -- update or delete: one attempt; TM_BeingModified comes with a wait_xid. */
extern TM_Result zen_row_change(ZenChange *change);

/*
 * zen_row_lock -- lock the row for change->mode.
 *
 * TM_BeingModified comes with a wait_xid, and TM_WouldBlock never: waiting is the caller's.  With TM_Ok the row is also
 * locked under the TIDs to which it has gone on.
 */
extern TM_Result zen_row_lock(ZenChange *change);

/*
 * zen_row_change_abandon -- the end of a transaction or savepoint by an error: free what a change or a lock has left.
 *
 * Never throws.
 */
extern void zen_row_change_abandon(void);

#endif							/* ZEN_ROWCHANGE_H */
