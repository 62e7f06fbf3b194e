/*
 * zentree.h -- the callbacks of the index access method, and what they share.
 */
#ifndef ZENTREE_H
#define ZENTREE_H

#include "base/compat.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "index/treedir.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "storage/dsm.h"
#include "storage/shm_toc.h"

/* zentree_build.c */
extern IndexBuildResult *zentree_build(Relation table, Relation index, struct IndexInfo *info);
extern void zentree_buildempty(Relation index);
PGDLLEXPORT extern void zentree_build_worker(dsm_segment *segment, shm_toc *toc);

/* zentree_insert.c */
extern bool zentree_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation table,
						   IndexUniqueCheck check, bool unchanged, struct IndexInfo *info);

/*
 * zen_gap_lock -- lock what a scan is about to read: the gap of the first nequal columns of a position, or the index, if
 * there are none.
 */
extern void zen_gap_lock(Relation index, const ZenTreeShape *shape, const ZenTreePos *from, int nequal,
						 Snapshot snapshot);

/* zentree_scan.c */
extern void zentree_scan_callbacks(IndexAmRoutine *am);

/* zentree_vacuum.c */
extern void zentree_vacuum_callbacks(IndexAmRoutine *am);

#endif							/* ZENTREE_H */
