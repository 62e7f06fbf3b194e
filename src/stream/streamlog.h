/*
 * streamlog.h -- changes of rows on their way into the WAL.
 *
 * Process-local.  A record is built by begin, one add for each row, and end.
 */
#ifndef ZEN_STREAMLOG_H
#define ZEN_STREAMLOG_H

#include "base/compat.h"

#include "access/htup.h"
#include "access/xlogdefs.h"
#include "stream/streamformat.h"

/* zen_streamlog_begin -- begin a record of changes of one table.  What an error has left of another one is dropped. */
extern void zen_streamlog_begin(RelFileLocator locator, bool is_toast);

/* zen_streamlog_add -- add a row; each of the two tuples may be NULL.  May throw for lack of memory. */
extern void zen_streamlog_add(ZenStreamKind kind, HeapTuple new, HeapTuple old);

/*
 * zen_streamlog_end -- put the record into the WAL, under the xid of the present (sub)transaction, which has one.
 *
 * Not flushed, and no reason to flush the commit record as long as the transaction's records are few enough to be
 * kept (zen_streamlog_kept).  May throw.
 */
extern void zen_streamlog_end(void);

/*
 * zen_streamlog_kept -- the records that this transaction has put into the WAL, each behind its length (uint32); *len:
 * bytes of all, 0 if there are none.
 *
 * zen_streamlog_is_beyond -- there are records that were not kept: too many, or of a savepoint that was rolled back.
 */
extern const char *zen_streamlog_kept(Size *len);
extern bool zen_streamlog_is_beyond(void);

/* zen_streamlog_subabort -- a savepoint is rolled back.  zen_streamlog_reset -- the transaction has ended. */
extern void zen_streamlog_subabort(void);
extern void zen_streamlog_reset(void);

/* zen_streamlog_insert -- put bytes that were kept into the WAL again, as they are. */
extern void zen_streamlog_insert(const char *record, uint32 len);

/* Records that this process has put into the WAL. */
extern uint64 zen_streamlog_records;

#define ZEN_STREAM_KEPT_MAX	8000	/* bytes of records that are kept */

/*
 * zen_streamlog_mark -- a record without changes; its end.  with_xid: it bears the xid of the (sub)transaction.
 *
 * Without zen.stream it is an empty logical message, which needs no resource manager to be replayed.
 */
extern XLogRecPtr zen_streamlog_mark(bool with_xid);

/* zen_streamlog_gap -- a record that says that changes before it are missing; its end. */
extern XLogRecPtr zen_streamlog_gap(void);

#endif							/* ZEN_STREAMLOG_H */
