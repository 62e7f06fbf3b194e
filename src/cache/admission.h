/*
 * admission.h -- which rows come into the Met-Cache.
 *
 * Rows are admitted when they are written or locked, and when they have been read: once as long as half of the cache is
 * empty, then more than once of late.
 */
#ifndef ZEN_ADMISSION_H
#define ZEN_ADMISSION_H

#include "cache/version.h"

/*
 * zen_admission_admit -- copy a row whose newest version is in NVM into an entry.
 *
 * On return the word may be in any state: look again.  Throws ERRCODE_OUT_OF_MEMORY, ERRCODE_DATA_CORRUPTED.
 * Caller is outside any epoch.
 */
extern void zen_admission_admit(ZenHTable *ht, uint64 tidno, ZenWord *word);

/*
 * zen_admission_missed -- a point read has found the row in NVM: maybe it is worth an entry.
 *
 * Caller holds a lock on the table, so that its map stays, and is outside any epoch.  Never throws, never waits.
 */
extern void zen_admission_missed(ZenHTable *ht, uint64 tidno);

/* zen_admission_end_xact -- at the end of each transaction: misses are counted anew.  Never throws. */
extern void zen_admission_end_xact(void);

/* zen_admission_age -- zen's worker: halve the counts of reads when it is time.  Never throws. */
extern void zen_admission_age(void);

#endif							/* ZEN_ADMISSION_H */
