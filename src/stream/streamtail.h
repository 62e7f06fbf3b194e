/*
 * streamtail.h -- records of changes of rows: on their way into the WAL, and kept in NVM until the WAL has them (R17).
 */
#ifndef ZEN_STREAMTAIL_H
#define ZEN_STREAMTAIL_H

#include "base/compat.h"

#include "base/startup.h"
#include "access/htup.h"
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "nvm/sink.h"
#include "storage/latch.h"
#include "stream/streamformat.h"

/* ---------- records of a transaction ---------- */

/*
 * Process-local.  A record is built by begin, one add for each row, and end.
 *
 * zen_streamlog_begin -- begin a record of changes of one table.  A record that an error has left incomplete is
 * dropped.
 *
 * zen_streamlog_add -- add a row; each of the two tuples may be NULL.  May throw for lack of memory.
 *
 * zen_streamlog_end -- put the record into the WAL, under the xid of the present (sub)transaction, which has one.  Not
 * flushed, and no reason to flush the commit record as long as the transaction's records are few enough to be kept.
 * May throw.
 *
 * zen_streamlog_reset -- the transaction has ended.
 */
extern void zen_streamlog_begin(RelFileLocator locator, bool is_toast);
extern void zen_streamlog_add(ZenStreamKind kind, HeapTuple new, HeapTuple old);
extern void zen_streamlog_end(void);
extern void zen_streamlog_reset(void);

/*
 * zen_streamlog_mark -- a record without changes; its end.  with_xid: it bears the xid of the (sub)transaction.
 *
 * Without zen.stream it is an empty logical message, which needs no resource manager to be replayed.
 */
extern XLogRecPtr zen_streamlog_mark(bool with_xid);

/* ---------- commit ---------- */

/* zen_streamtail_install -- fill in the members of the sink that need nothing but this module. */
extern void zen_streamtail_install(ZenSink *sink);

/*
 * zen_streamtail_begin -- bytes of the slot that this transaction's records need; 0 if it has none; ZEN_SINK_BY_RECORD
 * if they are too many to be kept, or the commit is to wait for another server.  May throw.
 *
 * refs: so many bytes name the slots that copies of the pool are to know, 0 if there are no copies; versions: bytes in
 * these slots.  Both at most.
 *
 * zen_streamtail_write -- write the records, and those names, to their slot, with LP = 0, flushed and not fenced.  The
 * versions are written.  Never throws.
 */
extern int64 zen_streamtail_begin(Size refs, Size versions);
extern void zen_streamtail_write(ZenSlot slot, uint64 cts, uint64 full_xid, const void *refs, Size refs_len);

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
	uint32		unflushed;		/* of these, with unflushed commit records */
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
 * they have superseded is taken away, here or in copies (R18).  Flushed on return.  May throw.  It tells again() of
 * what zen_streamtail_write() was given, unless that is NULL, and then calls told_all(), within that transaction.
 *
 * zen_streamtail_is_lost -- is it the slot of one of these?  Then it is in use until zen_streamtail_recover().
 */
typedef void (*ZenTailAgain) (const char *refs, uint32 len, uint64 cts, ZenSlot slot);

extern void zen_streamtail_found(ZenSlot slot, uint64 cts);
extern void zen_streamtail_log(ZenTailAgain again, void (*told_all) (void));
extern bool zen_streamtail_is_lost(ZenSlot slot);

/*
 * zen_streamtail_recover -- recovery's leader, at its end, before any process can write: the slots of the tail are
 * empty and free, durably, and the WAL says if changes before this start are missing.  May throw.
 */
extern void zen_streamtail_recover(void);

/* zen_streamtail_shmem -- its part of shared memory. */
extern const ZenShmem zen_streamtail_shmem;

#endif							/* ZEN_STREAMTAIL_H */
