/*
 * zenam_reindex.h -- indexes after a crash.
 *
 * Indexes on zen tables are unlogged: a crash empties them.  They are rebuilt in place, from the rows, before anyone
 * can use the table: by the first backend that comes, and by a background worker for the others.
 */
#ifndef ZENAM_REINDEX_H
#define ZENAM_REINDEX_H

#include "base/compat.h"

#include "nvm/htable.h"
#include "utils/rel.h"

/*
 * zen_reindex_table -- rebuild the indexes of a table, or wait until someone has.
 *
 * The table is open and locked.  Returns at once if this process is rebuilding it already.  Throws what a build throws, and
 * ERRCODE_T_R_DEADLOCK_DETECTED where processes need each other's tables.
 */
extern void zen_reindex_table(Relation rel, ZenHTable *ht);

/*
 * zen_reindex_relation -- the same for a relation that is neither open nor locked; nothing if it is gone or no zen table, or if a
 * prepared transaction has it locked.  Takes no lock unless there is something to rebuild.
 *
 * Run before commands that lock or replace indexes of the table: they would hold what the rebuild waits for, or rebuild into
 * files that their own abort takes away.  In a transaction.
 */
extern void zen_reindex_relation(Oid relid);

/* zen_reindex_is_passed -- are the indexes there, without waiting for anybody? */
extern bool zen_reindex_is_passed(ZenHTable *ht);

/* zen_reindex_hide -- the planner is about to look at the table: if this process is rebuilding its indexes, it sees none. */
extern void zen_reindex_hide(Relation rel, ZenHTable *ht);

/* zen_reindex_index_dropped -- this transaction drops an index, which its abort brings back as it is now. */
extern void zen_reindex_index_dropped(Oid indexoid);

/*
 * zen_reindex_hold -- before COMMIT PREPARED: nobody gets to tables of which a prepared transaction from before the crash may
 * have created an index, which is empty since.  Waits for nobody.  In a transaction.  A process that ends lets go by itself.
 *
 * zen_reindex_let_go -- after it, or if it has failed: their indexes are rebuilt once more by whoever comes first.  Never throws.
 */
extern void zen_reindex_hold(void);
extern void zen_reindex_let_go(void);

/*
 * zen_reindex_start_workers -- start one background worker per database that has tables to rebuild.
 *
 * False if there was no slot for some of them: to be called again.
 */
extern bool zen_reindex_start_workers(void);

extern PGDLLEXPORT void zen_reindex_worker_main(Datum arg);

#endif							/* ZENAM_REINDEX_H */
