/*
 * zentree.h -- the index access method: its callbacks, and what they share.
 */
#ifndef ZENTREE_H
#define ZENTREE_H

#include "base/compat.h"

#include "access/amapi.h"
#include "index/treedir.h"

/* Each fills its callbacks into the routine of the access method. */
extern void zentree_build_callbacks(IndexAmRoutine *am);
extern void zentree_insert_callbacks(IndexAmRoutine *am);
extern void zentree_scan_callbacks(IndexAmRoutine *am);
extern void zentree_vacuum_callbacks(IndexAmRoutine *am);

/*
 * zen_gap_lock -- lock what a scan is about to read: the gap of the first nequal columns of a position, or without any
 * the index.
 */
extern void zen_gap_lock(Relation index, const ZenTreeShape *shape, const ZenTreePos *from, int nequal,
						 Snapshot snapshot);

/* zen_treeclasses_copy -- make the operator classes that are missing: in pg_catalog only, or in all schemas. */
extern void zen_treeclasses_copy(bool all_schemas);

#endif							/* ZENTREE_H */
