/*
 * streamsink.h -- what the engine tells the stream while it runs (nvm/sink.h), and in recovery.
 */
#ifndef ZEN_STREAMSINK_H
#define ZEN_STREAMSINK_H

#include "base/compat.h"

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

#endif							/* ZEN_STREAMSINK_H */
