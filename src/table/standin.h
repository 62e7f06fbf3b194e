/*
 * standin.h -- on a hot standby the executor reads a tree where its plan names a btree of a zen table.
 */
#ifndef ZEN_STANDIN_H
#define ZEN_STANDIN_H

#include "base/compat.h"

#include "executor/execdesc.h"
#include "utils/rel.h"

/*
 * zen_standin_of -- a relation that stands in for an open btree: its scans read a tree.  It is no longer of use when
 * the btree is closed.
 */
extern Relation zen_standin_of(Relation index);

/*
 * zen_standin_before -- a plan is about to be started: it may be one from before the promotion.
 *
 * zen_standin_start -- it was started, in recovery: trees stand in for btrees of zen tables.  A promotion may have come
 * since: then the snapshot is refused when the scan begins.
 *
 * zen_standin_end -- it is about to be ended.
 */
extern void zen_standin_before(const PlannedStmt *stmt);
extern void zen_standin_start(QueryDesc *query);
extern void zen_standin_end(QueryDesc *query);

#endif							/* ZEN_STANDIN_H */
