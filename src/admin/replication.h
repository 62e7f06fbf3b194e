/*
 * replication.h -- logical replication does not carry zen tables: say so.
 */
#ifndef ZEN_REPLICATION_H
#define ZEN_REPLICATION_H

#include "nodes/parsenodes.h"

/* zen_replication_check_copy -- refuse the first copy of a zen table to a subscriber; before the COPY runs. */
extern void zen_replication_check_copy(CopyStmt *stmt);

/* zen_replication_check_publication -- warn of zen tables in a publication that CREATE or ALTER PUBLICATION has made. */
extern void zen_replication_check_publication(const char *name);

#endif							/* ZEN_REPLICATION_H */
