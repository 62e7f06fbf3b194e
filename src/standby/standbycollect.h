/*
 * standbycollect.h -- a hot standby: versions leave their chains when no snapshot needs them.
 *
 * All but zen_standby_collect() are called under ZEN_LOCK_STANDBY.
 */
#ifndef ZEN_STANDBYCOLLECT_H
#define ZEN_STANDBYCOLLECT_H

#include "standby/standbyqueue.h"

/* zen_standby_committed -- what pg_xact says of a full xid; set once in the postmaster. */
extern bool (*zen_standby_committed) (uint64 full_xid);

/* zen_standby_dirty -- readers may be at what no row leads to; this process has taken it out of its chain. */
extern bool zen_standby_dirty;

/*
 * zen_standby_writer_committed -- has the writer of a version in a chain committed?  Redo of its commit record is over,
 * or has not begun.  Leaves the hint.
 */
extern bool zen_standby_writer_committed(ZenVersion *v);

/*
 * zen_standby_retire -- no row leads to the version any more.
 *
 * zen_standby_retire_all -- nor to those behind it.
 *
 * zen_standby_unlink -- take a version, which no snapshot sees, out of its chain; newer: the one above it, or NULL.
 */
extern void zen_standby_retire(ZenVersion *v);
extern void zen_standby_retire_all(ZenVersion *list);
extern void zen_standby_unlink(ZenWord *word, ZenVersion *newer, ZenVersion *v);

/*
 * zen_standby_look -- what may go now?  Looks at the snapshots of all processes.
 *
 * zen_standby_settle -- do up to n items for which every snapshot sees the transaction as ended, and look at up to n
 * others for what goes from the middle of a chain (S8); true: there may be more.
 *
 * zen_standby_settle_due -- all that may go goes, and its memory is given back.
 */
extern void zen_standby_look(void);
extern bool zen_standby_settle(uint32 n);
extern void zen_standby_settle_due(void);

/*
 * zen_standby_collect -- S7: the worker: take back what no snapshot needs, a step; true: there is more.
 *
 * zen_standby_note_new -- the worker, in a transaction: which transactions does every new snapshot see as ended?
 */
extern bool zen_standby_collect(void);
extern void zen_standby_note_new(void);

#endif							/* ZEN_STANDBYCOLLECT_H */
