/*
 * replication.h -- logical replication does not carry zen tables: say so.
 */
#ifndef ZEN_REPLICATION_H
#define ZEN_REPLICATION_H

#include "catalog/objectaccess.h"
#include "nodes/parsenodes.h"

/* zen_replication_check_copy -- refuse the first copy of a zen table to a subscriber; before the COPY runs. */
extern void zen_replication_check_copy(CopyStmt *stmt);

/*
 * zen_replication_note -- an object is created or altered: remember it if a zen table and a publication may meet by
 * that.  Called by the object access hook, when the object's new catalog row is not visible yet.
 */
extern void zen_replication_note(ObjectAccessType access, Oid class, Oid object);

/*
 * zen_replication_check -- look at the objects remembered: throws ERRCODE_FEATURE_NOT_SUPPORTED, or warns, if a
 * publication would send a zen table now.  After each statement and before commit; in a transaction, or nothing.
 */
extern void zen_replication_check(void);

/*
 * zen_replication_check_function -- a function is about to be called.  If its caller goes by what has been written to
 * the WAL, all of that is flushed first: a zen-only commit that was acknowledged may not be written yet.
 */
extern void zen_replication_check_function(Oid function);

#endif							/* ZEN_REPLICATION_H */
