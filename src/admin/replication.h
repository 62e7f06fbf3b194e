/*
 * replication.h -- publications that could not send a zen table, and readers of the WAL.
 */
#ifndef ZEN_REPLICATION_H
#define ZEN_REPLICATION_H

#include "base/compat.h"

#include "nodes/parsenodes.h"

/*
 * zen_replication_check -- a statement has run: throws ERRCODE_FEATURE_NOT_SUPPORTED if it has brought a zen table into
 * a publication that could not send the table's changes.
 */
extern void zen_replication_check(Node *stmt);

/*
 * zen_replication_check_function -- a function is about to be called.  If its caller relies on the position up to which
 * WAL is written, all WAL is flushed first: an acknowledged zen-only commit may not be written yet.
 */
extern void zen_replication_check_function(Oid function);

#endif							/* ZEN_REPLICATION_H */
