/*
 * streamredo.h -- redo of zen's records: the pool of a standby or of a restored server follows the WAL.
 */
#ifndef ZEN_STREAMREDO_H
#define ZEN_STREAMREDO_H

#include "base/compat.h"

#include "access/xlogreader.h"

/*
 * zen_stream_redo -- the resource manager's redo, in the startup process.
 *
 * It does nothing if the pool is a primary's: what is in NVM is newer than the WAL.  Else it stores what the record
 * says, blindly and durably.  PANIC if the pool cannot be the one that the record is about.
 */
extern void zen_stream_redo(XLogReaderState *record);

/* zen_stream_redo_begins -- before the first record: WARNING if a copy has too little DRAM for its tables. */
extern void zen_stream_redo_begins(void);

/*
 * zen_stream_redo_forgets -- before redo of a record that is not ours: pg_xact will not be asked any more of
 * transactions before this xid.  They have ended, and so the copy settles what depends on them, durably (R19).
 */
extern void zen_stream_redo_forgets(TransactionId xid, XLogReaderState *record);

#endif							/* ZEN_STREAMREDO_H */
