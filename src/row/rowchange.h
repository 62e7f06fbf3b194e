/*
 * rowchange.h -- update and delete one row.
 *
 * All functions are called outside any epoch, and may throw ERRCODE_OUT_OF_MEMORY and ERRCODE_DATA_CORRUPTED.
 */
#ifndef ZEN_ROWCHANGE_H
#define ZEN_ROWCHANGE_H

#include "row/rowjudge.h"

/* zen_row_change -- one attempt; TM_BeingModified comes with a wait_xid. */
extern TM_Result zen_row_change(ZenChange *change);

/*
 * zen_row_change_abandon -- the end of a transaction or savepoint by an error: free what a change has left.
 *
 * Never throws.
 */
extern void zen_row_change_abandon(void);

#endif							/* ZEN_ROWCHANGE_H */
