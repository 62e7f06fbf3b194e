/*
 * streamtail.h -- transactions that have committed in NVM, and whose records the WAL may yet lose (R17).
 */
#ifndef ZEN_STREAMTAIL_H
#define ZEN_STREAMTAIL_H

#include "base/compat.h"

#include "access/xlogdefs.h"
#include "nvm/layout.h"

/* ---------- commit ---------- */

/*
 * zen_streamtail_size -- bytes of the slot that this transaction's records need, one of `copy` bytes for copies of the
 * pool among them (0: none); 0 if it has none.
 *
 * zen_streamtail_fits -- are so many bytes few enough to be kept?
 */
extern Size zen_streamtail_size(Size copy);
extern bool zen_streamtail_fits(Size copy);

/*
 * zen_streamtail_write -- write the records to their slot, with LP = 0, flushed and not fenced.  Never throws.
 *
 * copy, copy_len: that record, or NULL, 0.
 */
extern void zen_streamtail_write(ZenSlot slot, uint64 cts, uint64 full_xid, const char *copy, uint32 copy_len);

/*
 * zen_streamtail_keep -- the transaction has committed: the slot is free when the WAL is flushed up to lsn, which is
 * behind its commit record.
 *
 * Frees slots of earlier transactions.  Waits for the WAL if too many are kept.  Outside any epoch.
 */
extern void zen_streamtail_keep(ZenSlot slot, XLogRecPtr lsn);

/* zen_streamtail_keeps -- is it one of these slots? */
extern bool zen_streamtail_keeps(ZenSlot slot);

/* zen_streamtail_look -- transactions whose slots are kept now, bytes of these, and transactions logged again. */
extern void zen_streamtail_look(uint32 *kept, Size *bytes, uint32 *again);

/* ---------- start ---------- */

/* zen_streamtail_replayed -- startup process: replay of the WAL is over, and no xid was given out since. */
extern void zen_streamtail_replayed(void);

/*
 * zen_streamtail_expected -- may there be lost transactions?  Then the leader of recovery must be a process that can
 * run a transaction of its own.  Constant until recovery is over.
 */
extern bool zen_streamtail_expected(void);

/*
 * zen_streamtail_found -- recovery: a slot of HTable 0, intact and committed.  True if it holds the records of a lost
 * transaction: then it is in use until they are logged again.
 */
extern bool zen_streamtail_found(ZenSlot slot, uint64 cts);

/*
 * zen_streamtail_recover -- recovery's leader, before anybody can write: log lost transactions again, all in one.
 *
 * Durable on return, and not repeated by a later recovery.  May throw.
 */
extern void zen_streamtail_recover(void);

extern Size zen_streamtail_shmem_size(void);
extern void zen_streamtail_init(void);

#endif							/* ZEN_STREAMTAIL_H */
