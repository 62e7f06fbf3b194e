/*
 * rowchange.h -- update, delete and lock one row.
 *
 * Knows no Relation: waiting for other transactions, triggers, predicate locks are the table layer's.  All functions
 * are called outside any epoch, and may throw ERRCODE_OUT_OF_MEMORY and ERRCODE_DATA_CORRUPTED.
 */
#ifndef ZEN_ROWCHANGE_H
#define ZEN_ROWCHANGE_H

#include "row/rowjudge.h"

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
