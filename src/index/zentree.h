/*
 * zentree.h -- the index access method: its callbacks, and what they share.
 */
#ifndef ZENTREE_H
#define ZENTREE_H

#include "base/compat.h"

#include "access/amapi.h"
#include "access/tableam.h"
#include "index/treedir.h"

/* Callbacks of the access method; zentree_scan_callbacks fills in those of scans. */
extern IndexBuildResult *zentree_build(Relation table, Relation index, struct IndexInfo *info);
extern bool zentree_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation table,
						   IndexUniqueCheck check, bool unchanged, struct IndexInfo *info);
extern IndexBulkDeleteResult *zentree_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
												 IndexBulkDeleteCallback callback, void *state);
extern void zentree_scan_callbacks(IndexAmRoutine *am);

/* ---------- trees that stand in for indexes of a hot standby: admin/ has them ---------- */

/* Gives all entries of a table to a build. */
typedef void (*ZenTreeRows) (IndexBuildCallback give, void *build, void *arg);

/*
 * zentree_new -- an empty tree for an index, which no other process knows.  Throws ERRCODE_OUT_OF_MEMORY.
 *
 * zentree_fill -- fill it, and return the number of entries: it may be given one more than once.
 *
 * zentree_drop -- free it.
 *
 * zentree_enter -- put an entry into a tree that others may read, if it is not there.
 *
 * zentree_clean -- take all entries out for whose TIDs callback() is true.
 *
 * zentree_is_of -- is it the entry of a row with these columns?  *tuple, if not NULL: what an index-only scan shows of
 * the row, palloced; NULL if the entry itself will do.
 */
extern ZenTree *zentree_new(Relation index);
extern uint64 zentree_fill(ZenTree *tree, Relation table, Relation index, struct IndexInfo *info, ZenTreeRows rows,
						   void *arg);
extern void zentree_drop(ZenTree *tree);
extern void zentree_enter(ZenTree *tree, const ZenTreeShape *shape, Datum *values, bool *isnull, ItemPointer tid);
extern void zentree_clean(ZenTree *tree, Relation index, IndexBulkDeleteCallback callback, void *state);
extern bool zentree_is_of(const ZenTreeShape *shape, const ZenTreeSlot *slot, Datum *values, bool *isnull,
						  IndexTuple *tuple);

/*
 * What a scan asks in recovery.
 *
 * open: the tree of the scan, which has all that its snapshot sees; *reader is closed when the scan ends, or when its
 * memory goes.  NULL: the index's own tree is to be read.
 *
 * doubts: may the tree have an entry of another row for the TID?  shows: does the row that the snapshot sees have the
 * entry?  *tuple as zentree_is_of.
 */
typedef struct ZenTreeStandby
{
	ZenTree    *(*open) (IndexScanDesc scan, void **reader);
	void		(*close) (void *reader, bool failed);
	bool		(*doubts) (void *reader, ItemPointer tid);
	bool		(*shows) (void *reader, const ZenTreeShape *shape, const ZenTreeSlot *slot, IndexTuple *tuple);
} ZenTreeStandby;

extern const ZenTreeStandby *zen_tree_standby;

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
