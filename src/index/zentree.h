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
 * zentree_keeps_whole -- does the tree of a scan keep whole columns, not tuples, and are all passed by value?
 *
 * zentree_entry -- then these are the columns of the entry to which the scan has come: it need not form a tuple, so
 * xs_want_itup may be false.
 */
extern bool zentree_keeps_whole(IndexScanDesc scan);
extern void zentree_entry(IndexScanDesc scan, Datum *values, bool *isnull);

/*
 * zen_gap_lock -- lock what a scan is about to read: the gap of the first nequal columns of a position, or without any
 * the index.
 */
extern void zen_gap_lock(Relation index, const ZenTreeShape *shape, const ZenTreePos *from, int nequal,
						 Snapshot snapshot);

/* zen_treeclasses_copy -- make the operator classes that are missing: in pg_catalog only, or in all schemas. */
extern void zen_treeclasses_copy(bool all_schemas);

#endif							/* ZENTREE_H */
