/*
 * rowadmit.h -- have a row that is only in NVM in DRAM, before it is changed or locked.
 */
#ifndef ZEN_ROWADMIT_H
#define ZEN_ROWADMIT_H

#include "cache/spillmap.h"
#include "row/writeset.h"

/*
 * zen_row_admit -- have a row that is only in NVM in an entry.
 *
 * On return the word was in another state than NVM or SPILLED for a moment.  Throws as zen_admission_admit().  Caller
 * is outside any epoch.
 */
extern void zen_row_admit(ZenHTable *ht, uint64 tidno, ZenWord *word);

/*
 * zen_row_admit_unread -- the same in recovery, while no other process is at work.  False when DRAM is full.
 *
 * The data stays unread in the slots, be it sound or damaged.  A tombstone that says where its row goes on becomes an
 * entry, too.
 */
extern bool zen_row_admit_unread(ZenHTable *ht, uint64 tidno, ZenWord *word);

/* zen_twophase_resolve(), which is above this module; set when shared memory is initialized. */
extern bool (*zen_row_admit_resolve) (void);

/*
 * zen_row_admit_wait_for_undo -- wait a little, because a row was met that an aborted transaction has spilled and has
 * to take back.
 *
 * A row of a prepared transaction is taken back here, if no other process does.  Outside of epochs, without LWLocks.
 */
extern void zen_row_admit_wait_for_undo(void);

#endif							/* ZEN_ROWADMIT_H */
