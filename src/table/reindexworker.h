/*
 * reindexworker.h -- which tables are to be rebuilt after a crash, and the background worker that rebuilds them.
 */
#ifndef ZEN_REINDEXWORKER_H
#define ZEN_REINDEXWORKER_H

#include "base/compat.h"

/*
 * zen_reindex_relation -- zen_reindex_table() for a relation that is neither open nor locked; nothing if it is gone
 * or no zen table, or if a prepared transaction has it locked.  Takes no lock unless there is something to rebuild.
 *
 * Run before commands that lock or replace indexes of the table.  Such a command would hold a lock that the rebuild
 * waits for, or rebuild into files that its own abort takes away.  In a transaction.
 */
extern void zen_reindex_relation(Oid relid);

/*
 * zen_reindex_start_workers -- start one background worker per database that has tables to rebuild.
 *
 * False if there was no slot for some of them: to be called again.
 */
extern bool zen_reindex_start_workers(void);

extern PGDLLEXPORT void zen_reindex_worker_main(Datum arg);

#endif							/* ZEN_REINDEXWORKER_H */
