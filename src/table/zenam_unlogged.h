/*
 * zenam_unlogged.h -- indexes on zen tables write no WAL: src/table/README, "Unlogged indexes".
 */
#ifndef ZENAM_UNLOGGED_H
#define ZENAM_UNLOGGED_H

#include "base/compat.h"

#include "utils/rel.h"

/* zen_index_set_unlogged -- make an index unlogged that was created in this transaction and is not built yet. */
extern void zen_index_set_unlogged(Oid indexoid);

/*
 * zen_index_before_build -- if an index of the table is being rebuilt as a logged one and nothing is in it yet, make it
 * unlogged.  The table is open and locked.
 *
 * index: the one whose build begins; it is remembered if it is too late for that.  NULL: it is not known yet.
 */
extern void zen_index_before_build(Relation rel, Relation index);

/* zen_index_before_truncate -- give those indexes of the table new files whose files a rollback still needs. */
extern void zen_index_before_truncate(Relation rel);

/*
 * zen_index_repair -- build again, as unlogged ones, the indexes that were remembered.  After each statement, and
 * before commit, when nothing is written to NVM yet: it may throw.  In a transaction, or nothing.
 */
extern void zen_index_repair(void);

#endif							/* ZENAM_UNLOGGED_H */
