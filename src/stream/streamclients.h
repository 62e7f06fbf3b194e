/*
 * streamclients.h -- which processes serve clients of replication, and which may copy files of this server.
 */
#ifndef ZEN_STREAMCLIENTS_H
#define ZEN_STREAMCLIENTS_H

#include "base/compat.h"

#include "storage/proc.h"

extern Size zen_clients_shmem_size(void);
extern void zen_clients_init(void);

/*
 * zen_clients_enter -- this process is a walsender, and counts as one until its end.  A full memory barrier.
 *
 * A session that makes a zen table from here on finds a client of physical replication.  So if this process then does
 * not find a table that is made all the same, the session that makes it has seen this client.
 */
extern void zen_clients_enter(void);

/* zen_clients_physical -- does any process serve physical replication?  A full memory barrier before. */
extern bool zen_clients_physical(void);

/*
 * zen_clients_readers -- are there walsenders?  zen_clients_watch: the latch of this process, the flusher, is set
 * whenever that may have changed.
 */
extern bool zen_clients_readers(void);
extern void zen_clients_watch(PGPROC *flusher);

/*
 * zen_clients_copy_begin -- this process may copy files from now on, until zen_clients_copy_end() or its end.  A full
 * memory barrier.  False: it has said so before.
 *
 * zen_clients_may_copy -- may any process?  A walsender does not count while it streams.
 */
extern bool zen_clients_copy_begin(void);
extern void zen_clients_copy_end(void);
extern bool zen_clients_may_copy(void);

#endif							/* ZEN_STREAMCLIENTS_H */
