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
 * Not flushed.  May throw.
 */
extern void zen_streamlog_end(void);

/*
 * zen_streamlog_mark -- a record without changes; its end.  with_xid: it bears the xid of the (sub)transaction.
 *
 * Without zen.stream it is an empty logical message, which needs no resource manager to be replayed.
 */
extern XLogRecPtr zen_streamlog_mark(bool with_xid);

#endif							/* ZEN_STREAMLOG_H */
