/*
 * streamsink.h -- what the engine tells the stream while it runs (nvm/sink.h), and in recovery.
 *
 * src/stream/README, "Copies of the pool", has the rules.  All state is process-local, but for the WAL.
 */
#ifndef ZEN_STREAMSINK_H
#define ZEN_STREAMSINK_H

#include "base/compat.h"

#include "base/guc.h"

static inline bool
zen_copies(void)
{
	return unlikely(zen_stream == ZEN_STREAM_REPLICA);
}

/* zen_streamsink_install -- fill zen_sink as zen.stream says.  By the postmaster. */
extern void zen_streamsink_install(void);

/*
 * zen_streamsink_committed -- recovery's leader knows what has committed, and has taken nothing away yet.  The commits
 * that the WAL has lost are logged again, and copies are told of the pool's pages, durably.  May throw.
 *
 * find_tail tells zen_streamtail_found() of slots; it is called if there may be any.  NULL: the last stop was in order.
 *
 * zen_streamsink_recovered -- recovery's leader, at its end, before any process can write: the pool is a primary's, its
 * copies have all of it, and the tail is over.  Durable on return.  May throw.
 */
extern void zen_streamsink_committed(void (*find_tail) (void));
extern void zen_streamsink_recovered(void);

/* ---------- notes ---------- */

/*
 * zen_copy_dram_needs -- bytes of zen.dram_size that a server needs to open the tables: what is in use now, without row
 * versions.
 *
 * zen_copy_tell_dram -- zen's worker, once a round: tell copies of that number if it has grown by an eighth since they
 * were last told.
 *
 * zen_copy_unseen -- a table is made whose rows will not be in the WAL: a server that replays this WAL from an archive,
 * and would lack the rows, stops.  Nothing if there is no archive, or zen.allow_copies_without_rows is on.
 */
extern uint64 zen_copy_dram_needs(void);
extern void zen_copy_tell_dram(void);
extern void zen_copy_unseen(void);

#endif							/* ZEN_STREAMSINK_H */
