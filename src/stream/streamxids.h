/*
 * streamxids.h -- what pg_xact says of the transactions that the pool names (R19).
 *
 * The pool has full xids: of descriptors, of tables that come and go, of the tail.  PostgreSQL compares 32 bits of
 * them, and cuts pg_xact off behind the oldest xid of any table.  A pool may be older than both can tell.
 */
#ifndef ZEN_STREAMXIDS_H
#define ZEN_STREAMXIDS_H

#include "base/compat.h"

/* zen_xids_full -- of an xid within 2^31 of the next one, as this server knows that. */
extern uint64 zen_xids_full(TransactionId xid);

/*
 * zen_xids_committed -- has the transaction committed?  Not if its xid was not given out yet.
 *
 * One that pg_xact has forgotten has, since an abort leaves no xid behind in the pool (R19).  May throw if pg_xact
 * cannot be read.
 */
extern bool zen_xids_committed(uint64 full_xid);

/* zen_xids_in_progress -- does it run, or is it prepared?  Not before replay has ended. */
extern bool zen_xids_in_progress(uint64 full_xid);

#endif							/* ZEN_STREAMXIDS_H */
