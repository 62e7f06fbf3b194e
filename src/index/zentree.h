/*
 * zentree.h -- the index access method: its callbacks, and what they share.
 */
#ifndef ZENTREE_H
#define ZENTREE_H

#include "base/compat.h"

#include "access/amapi.h"
#include "index/treedir.h"

/* Callbacks of the access method; zentree_scan_callbacks fills in those of scans. */
extern IndexBuildResult *zentree_build(Relation table, Relation index, struct IndexInfo *info);
extern bool zentree_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation table,
						   IndexUniqueCheck check, bool unchanged, struct IndexInfo *info);
extern IndexBulkDeleteResult *zentree_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
												 IndexBulkDeleteCallback callback, void *state);
extern void zentree_scan_callbacks(IndexAmRoutine *am);

/*
 * zentree_ahead -- the entries that a scan has read, and hands out next: up to max TIDs; returns how many.
 */
extern int	zentree_ahead(IndexScanDesc scan, ItemPointer tids, int max);

/*
 * zen_gap_lock -- lock what a scan is about to read: the gap of the first nequal columns of a position, or without any
 * the index.
 */
extern void zen_gap_lock(Relation index, const ZenTreeShape *shape, const ZenTreePos *from, int nequal,
						 Snapshot snapshot);

/* zen_treeclasses_copy -- make the operator classes that are missing: in pg_catalog only, or in all schemas. */
extern void zen_treeclasses_copy(bool all_schemas);

#endif							/* ZENTREE_H */
