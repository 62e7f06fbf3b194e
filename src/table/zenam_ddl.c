/*
 * zenam_ddl.c -- creation, truncation, move, rewrite and size of zen tables; from a Relation to its HTable.
 *
 * A zen table has no files.  Its HTable is found by relfilenode and remembered in the relcache entry.
 */
#include "table/zenam.h"

#include <math.h>

#include "access/genam.h"
#include "access/multixact.h"
#include "access/xact.h"
#include "cache/tidmap.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "pgstat.h"
#include "storage/smgr.h"
#include "table/zenam_callbacks.h"
#include "table/zenam_reindex.h"
#include "txn/ddl.h"
#include "txn/recovery.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* In rd_amcache. */
typedef struct CachedHTable
{
	RelFileLocator loc;
	ZenHTable  *ht;
} CachedHTable;

bool
zen_rel_is_zen(Relation rel)
{
	return rel->rd_tableam != NULL && rel->rd_tableam->scan_begin == zenam_scan_begin;
}

static bool
same_locator(RelFileLocator a, RelFileLocator b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

ZenHTable *
zen_rel_htable_raw(Relation rel)
{
	CachedHTable *cached = rel->rd_amcache;
	RelFileLocator loc = zen_rel_locator(rel);

	zen_gate();
	if (cached == NULL)
	{
		cached = MemoryContextAllocZero(CacheMemoryContext, sizeof(CachedHTable));
		rel->rd_amcache = cached;
	}
	if (cached->ht == NULL || !same_locator(cached->loc, loc))
	{
		cached->ht = zen_ddl_find(loc);
		cached->loc = loc;
	}
	if (cached->ht == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the zen pool does not know table \"%s\"", RelationGetRelationName(rel)),
				 errdetail("No entry for relfilenode %u of database %u.",
						   ZEN_LOCATOR_NUMBER(loc), ZEN_LOCATOR_DB(loc)),
				 errhint("Restore pool and data directory from copies of the same moment, or drop the table.")));
	return cached->ht;
}

ZenHTable *
zen_rel_htable(Relation rel)
{
	ZenHTable  *ht = zen_rel_htable_raw(rel);

	if (unlikely(pg_atomic_read_u32(&ht->reindex) != 0))
		zen_reindex_table(rel, ht);
	return ht;
}

BlockNumber
zen_rel_nblocks(Relation rel)
{
	return (BlockNumber) zen_tidmap_nblocks(zen_rel_htable_raw(rel));
}

/* ---------- creation, truncation, move ---------- */

static void
refuse_persistence(char persistence)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("zen tables cannot be %s", persistence == RELPERSISTENCE_TEMP ? "temporary" : "unlogged"),
			 errdetail("Every zen table is durable, and none writes WAL."),
			 errhint("Use a permanent zen table, or CREATE %s TABLE ... USING heap.",
					 persistence == RELPERSISTENCE_TEMP ? "TEMPORARY" : "UNLOGGED")));
}

void
zenam_relation_set_new_filelocator(Relation rel, const RelFileLocator *newrlocator, char persistence,
								   TransactionId *freezeXid, MultiXactId *minmulti)
{
	ZenHTable  *old;

	if (persistence != RELPERSISTENCE_PERMANENT)
		refuse_persistence(persistence);
	zen_gate();
	old = zen_ddl_find(zen_rel_locator(rel));
	if (old != NULL && !same_locator(zen_rel_locator(rel), *newrlocator))
		zen_ddl_drop(old);
	zen_ddl_create(*newrlocator);

	/* no xid of ours outlives the transaction horizon: VACUUM need not freeze anything */
	*freezeXid = InvalidTransactionId;
	*minmulti = InvalidMultiXactId;
}

void
zenam_relation_nontransactional_truncate(Relation rel)
{
	zen_ddl_truncate(zen_rel_htable_raw(rel));
}

void
zenam_relation_copy_data(Relation rel, const RelFileLocator *newrlocator)
{
	/* the rows stay where they are; only the name of their table changes */
	zen_ddl_move(zen_rel_htable_raw(rel), *newrlocator);
}

/* ---------- CLUSTER, VACUUM FULL ---------- */

typedef struct CopyCounts
{
	double		live;
	double		dead;
} CopyCounts;

static void
copy_row(ZenHTable *from, uint64 tidno, ZenHTable *to, CopyCounts *counts)
{
	bool		dead;

	CHECK_FOR_INTERRUPTS();
	if (!zen_row_copy(from, tidno, to, &dead))
		return;
	if (dead)
		counts->dead++;
	else
		counts->live++;
	pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, counts->live + counts->dead);
	pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, counts->live + counts->dead);
}

/* Each TID stands once in the index, so its order is the order of the copy. */
static void
copy_by_index(Relation old_table, Relation index, ZenHTable *from, ZenHTable *to, CopyCounts *counts)
{
	IndexScanDesc scan = index_beginscan(old_table, index, SnapshotAny, 0, 0);
	ItemPointer tid;

	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
		copy_row(from, zen_tidno(tid), to, counts);
	index_endscan(scan);
}

void
zenam_relation_copy_for_cluster(Relation old_table, Relation new_table, Relation old_index, bool use_sort,
								TransactionId oldest_xmin, TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
								double *num_tuples, double *tups_vacuumed, double *tups_recently_dead)
{
	ZenHTable  *from = zen_rel_htable(old_table);
	ZenHTable  *to = zen_rel_htable_raw(new_table);
	CopyCounts	counts = {0};

	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, old_index ?
								 PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP : PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
	if (old_index != NULL)
		copy_by_index(old_table, old_index, from, to, &counts);
	else
	{
		uint64		n = zen_tidmap_nblocks(from) * ZEN_TIDS_PER_BLOCK;

		for (uint64 t = 0; t < n; t++)
			copy_row(from, t, to, &counts);
	}
	*num_tuples = counts.live + counts.dead;
	*tups_vacuumed = 0;
	*tups_recently_dead = counts.dead;
	*xid_cutoff = InvalidTransactionId;
	*multi_cutoff = InvalidMultiXactId;
}

/* ---------- size ---------- */

uint64
zenam_relation_size(Relation rel, ForkNumber fork)
{
	if (fork != MAIN_FORKNUM && fork != InvalidForkNumber)
		return 0;
	return (uint64) zen_rel_nblocks(rel) * BLCKSZ;
}

void
zenam_relation_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages, double *tuples,
							 double *allvisfrac)
{
	BlockNumber nblocks;
	double		density = ZEN_TIDS_PER_BLOCK;

	(void) zen_rel_htable(rel); /* the planner opens indexes next: they must be there */
	nblocks = zen_rel_nblocks(rel);

	/* as for heap: a table never looked at is taken to grow soon */
	if (nblocks < 10 && rel->rd_rel->reltuples < 0 && !rel->rd_rel->relhassubclass)
		nblocks = 10;
	if (rel->rd_rel->reltuples >= 0 && rel->rd_rel->relpages > 0)
		density = rel->rd_rel->reltuples / (double) rel->rd_rel->relpages;
	*pages = nblocks;
	*tuples = rint(density * (double) nblocks);
	*allvisfrac = 0;
}
