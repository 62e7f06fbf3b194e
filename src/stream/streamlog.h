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

/*
 * zen_streamlog_begin -- begin a record of changes of one table.  A record that an error has left incomplete is
 * dropped.
 */
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
 * zen_streamlog_kept_len -- bytes of the records that this transaction has put into the WAL and that are kept, each
 * with its length (uint32) before it.
 *
 * zen_streamlog_kept -- these records, in memory: ZEN_STREAM_ROOM bytes before them and `behind` bytes behind them are
 * the caller's, until the next record is begun.  May throw, but not if it has been called with as much before.
 *
 * zen_streamlog_has_room -- will it not throw?
 *
 * zen_streamlog_is_beyond -- there are records that were not kept, since there are too many.
 */
extern Size zen_streamlog_kept_len(void);
extern char *zen_streamlog_kept(Size behind);
extern bool zen_streamlog_has_room(Size behind);
extern bool zen_streamlog_is_beyond(void);

/*
 * zen_streamlog_subcommit, zen_streamlog_subabort -- the savepoint of this level is released, or rolled back: then its
 * records are no longer kept.  zen_streamlog_reset -- the transaction has ended.
 */
extern void zen_streamlog_subcommit(int nest_level);
extern void zen_streamlog_subabort(int nest_level);
extern void zen_streamlog_reset(void);

/* zen_streamlog_insert -- put bytes that were kept into the WAL again, as they are. */
extern void zen_streamlog_insert(const char *record, uint32 len);

#define ZEN_STREAM_KEPT_MAX	65000	/* bytes of records that are kept */
#define ZEN_STREAM_ROOM		64	/* bytes before them, a multiple of 8 */

/*
 * zen_streamlog_mark -- a record without changes; its end.  with_xid: it bears the xid of the (sub)transaction.
 *
 * Without zen.stream it is an empty logical message, which needs no resource manager to be replayed.
 */
extern XLogRecPtr zen_streamlog_mark(bool with_xid);

/* zen_streamlog_gap -- a record that says that changes before it are missing; its end. */
extern XLogRecPtr zen_streamlog_gap(void);

#endif							/* ZEN_STREAMLOG_H */
