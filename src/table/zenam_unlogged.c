/*
 * zenam_unlogged.c -- keep indexes on zen tables off the WAL.
 *
 * src/table/README, "Unlogged indexes", says when PostgreSQL makes an index logged, when its new files can be exchanged
 * for unlogged ones at no cost, and when it is built a second time.
 */
#include "table/zenam_unlogged.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/epoch.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "table/treeindex.h"
#include "table/zenam_rel.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

static List *logged_builds = NIL;	/* OIDs, in TopMemoryContext; may name
									 * indexes that are gone or sound */

/*
 * Set its mark in pg_class.  If new files have made the number of its entries unknown, clear that, as in any new index.
 */
static void
mark_unlogged(Oid indexoid)
{
	Relation	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(indexoid));
	Form_pg_class form;
	ItemPointerData tid;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexoid);
	form = (Form_pg_class) GETSTRUCT(tuple);
	Assert(form->relkind == RELKIND_INDEX);
	form->relpersistence = RELPERSISTENCE_UNLOGGED;
	form->reltuples = 0;

	/* newer servers demand it of each change; no session sees the row yet */
	tid = tuple->t_self;
	LockTuple(pg_class, &tid, ExclusiveLock);
	CatalogTupleUpdate(pg_class, &tid, tuple);
	UnlockTuple(pg_class, &tid, ExclusiveLock);
	heap_freetuple(tuple);
	table_close(pg_class, RowExclusiveLock);
}

/*
 * A new index gets new files: those it was created with a moment ago are in the WAL, and replay would make them again
 * where a crash wants none.  (ALTER TABLE may give the unlogged files of an index that it drops to one that it
 * creates.  A new index is known by its file number, which is its OID.)
 */
void
zen_index_set_unlogged(Oid indexoid)
{
	Relation	index = index_open(indexoid, AccessExclusiveLock);	/* no other session sees
																	 * it yet */

	/* pg_upgrade gives number and files, and replays no WAL of this */
	if (ZEN_LOCATOR_NUMBER(zen_rel_locator(index)) == indexoid && !IsBinaryUpgrade)
		RelationSetNewRelfilenumber(index, RELPERSISTENCE_UNLOGGED);
	mark_unlogged(indexoid);
	index_close(index, NoLock);
	CommandCounterIncrement();
}

/* Is the index logged, with files of this subtransaction that are empty yet? */
static bool
is_logged_and_empty(Relation index)
{
	return index->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT &&
		ZEN_NEW_LOCATOR_SUBID(index) == GetCurrentSubTransactionId() &&
		RelationGetNumberOfBlocks(index) == 0;
}

/* Give an index new, unlogged files if test() says so. */
static void
renew_files(Oid indexoid, bool (*test) (Relation index))
{
	Relation	index = index_open(indexoid, AccessExclusiveLock);

	if (test(index))
		RelationSetNewRelfilenumber(index, RELPERSISTENCE_UNLOGGED);
	index_close(index, NoLock);
}

/* Give unlogged files to the index of the table that is being rebuilt, and to those that are to follow. */
static void
renew_empty_files(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Oid			indexoid = lfirst_oid(lc);

		if (ReindexIsProcessingIndex(indexoid) && get_rel_persistence(indexoid) == RELPERSISTENCE_PERMANENT)
			renew_files(indexoid, is_logged_and_empty);
	}
	list_free(indexes);
}

void
zen_index_before_build(Relation rel, Relation index)
{
	MemoryContext old;

	Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
	Assert(index == NULL || index->rd_rel->relkind == RELKIND_INDEX);
	if (ReindexIsProcessingHeap(RelationGetRelid(rel)) && !IsInParallelMode())
		renew_empty_files(rel);
	/* a worker's build is its leader's */
	if (index == NULL || index->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT || IsParallelWorker())
		return;
	old = MemoryContextSwitchTo(TopMemoryContext);
	logged_builds = list_append_unique_oid(logged_builds, RelationGetRelid(index));
	MemoryContextSwitchTo(old);
}

/* New files of this subtransaction go with it anyway. */
static bool
has_older_files(Relation index)
{
	SubTransactionId me = GetCurrentSubTransactionId();

	return index->rd_createSubid != me && ZEN_NEW_LOCATOR_SUBID(index) != me;
}

void
zen_index_before_truncate(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	Assert(CheckRelationLockedByMe(rel, AccessExclusiveLock, false));
	foreach(lc, indexes)
		renew_files(lfirst_oid(lc), has_older_files);
	list_free(indexes);
}

/* Is it still there, logged, and on a zen table? */
static bool
needs_repair(Oid indexoid)
{
	return get_rel_relkind(indexoid) == RELKIND_INDEX && get_rel_persistence(indexoid) == RELPERSISTENCE_PERMANENT &&
		zen_relid_is_zen(IndexGetRelation(indexoid, true));
}

void
zen_index_repair(void)
{
	List	   *indexes = logged_builds;
	ListCell   *lc;

	if (indexes == NIL || !IsTransactionState() || RecoveryInProgress())
		return;
	ZenAssertNotInEpoch();

	/* cleared first: if it fails, later statements shall not repeat it */
	logged_builds = NIL;
	CommandCounterIncrement();
	foreach(lc, indexes)
		if (needs_repair(lfirst_oid(lc)))
		zen_index_build_again(lfirst_oid(lc));
	CommandCounterIncrement();
	list_free(indexes);
}
