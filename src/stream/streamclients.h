/*
 * streamclients.h -- clients of replication: they read commits soon, and copy files that are whole.
 */
#ifndef ZEN_STREAMCLIENTS_H
#define ZEN_STREAMCLIENTS_H

#include "base/compat.h"

#include "base/startup.h"
#include "access/xlogreader.h"

/* zen_clients_shmem -- its part of shared memory. */
extern const ZenShmem zen_clients_shmem;

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
 * zen_cover_begin -- this session may copy files from now on, if the server is a standby.  On return minRecoveryPoint
 * covers all that redo has stored without having looked.  Until zen_cover_end(), or the session's end.  A walsender
 * does not count while it streams.
 */
extern void zen_cover_begin(void);
extern void zen_cover_end(void);

/*
 * zen_cover_redo -- redo, before it stores anything of this record.  zen_cover_redo_done -- when it has stored all.
 */
extern void zen_cover_redo(XLogReaderState *record);
extern void zen_cover_redo_done(XLogReaderState *record);

/*
 * zen_read_end -- the end of what PostgreSQL has read ahead, on the timeline of the record that is being replayed: of
 * this record at least.  It is sure to be replayed if no recovery target ends recovery before.
 */
extern XLogRecPtr zen_read_end(const XLogReaderState *reader);

/* zen_streamflush_register -- have the flusher started with the server.  At postmaster start. */
extern void zen_streamflush_register(void);

/* The flusher's main function. */
extern PGDLLEXPORT void zen_streamflush_main(Datum arg);

#endif							/* ZEN_STREAMCLIENTS_H */
