/*
 * streamtail.h -- transactions that have committed in NVM, and whose records the WAL may yet lose (R17).
 */
#ifndef ZEN_STREAMTAIL_H
#define ZEN_STREAMTAIL_H

#include "base/compat.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "nvm/sink.h"
#include "storage/latch.h"

/* ---------- commit ---------- */

/*
 * zen_streamtail_begin -- bytes of the slot that this transaction's records need; 0 if it has none; ZEN_SINK_BY_RECORD
 * if they are too many to be kept.  May throw.
 *
 * nversions: so many slots it writes at most, with so many bytes, which copies of the pool are to know, if there may be
 * any.
 *
 * zen_streamtail_write -- write the records to their slot, with LP = 0, flushed and not fenced.  The versions are
 * written.  Never throws.
 *
 * zen_streamtail_keep -- the transaction has committed: the slot is free when the WAL is flushed up to lsn, which is
 * behind its commit record.  Frees slots of earlier transactions.  Waits for the WAL if too many are kept.  Outside any
 * epoch.
 */
extern int64 zen_streamtail_begin(uint32 nversions, Size bytes);
extern void zen_streamtail_write(ZenSlot slot, uint32 region, uint64 cts, uint64 full_xid);
extern void zen_streamtail_keep(ZenSlot slot, XLogRecPtr lsn);

/* zen_streamtail_keeps -- is it one of these slots? */
extern bool zen_streamtail_keeps(ZenSlot slot);

/*
 * zen_streamtail_arm -- where the commit record of the newest transaction ends that has a slot.
 *
 * If that is not behind `done`, the next one that is kept sets the latch, once.  NULL: none does.  For one process.
 */
extern XLogRecPtr zen_streamtail_arm(XLogRecPtr done, Latch *latch);

/* How large the tail is now. */
typedef struct ZenTailLook
{
	uint32		kept;			/* transactions whose slots are kept */
	Size		bytes;			/* of these slots */
	uint32		again;			/* transactions logged again at this start */
	uint32		unflushed;		/* transactions kept whose commit records are
								 * not flushed */
	uint64		unflushed_bytes;	/* of WAL, up to the newest commit record */
	TimestampTz unflushed_since;	/* the oldest of these commits */
} ZenTailLook;

extern void zen_streamtail_look(ZenTailLook *look);

/* ---------- start ---------- */

/* zen_streamtail_replayed -- startup process: replay of the WAL is over, and no xid was given out since. */
extern void zen_streamtail_replayed(void);

/*
 * zen_streamtail_expected -- may there be lost transactions?  Then the leader of recovery must be a process that can
 * run a transaction of its own.  Constant until recovery is over.
 */
extern bool zen_streamtail_expected(void);

/*
 * zen_streamtail_found -- recovery's leader: a slot of HTable 0, intact and committed, which may hold the records of a
 * lost transaction.  In the order of slots.
 *
 * zen_streamtail_log -- when it has told of all: log these transactions again, in one of its own, before anything that
 * they have superseded is taken away, here or in copies (R18).  Flushed on return.  May throw.
 *
 * zen_streamtail_is_lost -- is it the slot of one of these?  Then it is in use until zen_streamtail_recover().
 */
extern void zen_streamtail_found(ZenSlot slot, uint64 cts);
extern void zen_streamtail_log(void);
extern bool zen_streamtail_is_lost(ZenSlot slot);

/*
 * zen_streamtail_recover -- recovery's leader, at its end, before any process can write: the slots of the tail are
 * empty and free, durably, and the WAL says if changes before this start are missing.  May throw.
 */
extern void zen_streamtail_recover(void);

extern Size zen_streamtail_shmem_size(void);
extern void zen_streamtail_init(void);

#endif							/* ZEN_STREAMTAIL_H */
