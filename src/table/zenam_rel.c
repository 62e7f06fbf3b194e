/*
 * zenam_rel.c -- from a Relation to its HTable, and to the file that stands for its blocks.
 *
 * The main fork is a sparse file (src/table/README, "Relations and gates"), as long as the table has blocks.  Up to 17
 * the executor also prefetches for bitmap scans, from any block that the index names; where it checks a row again
 * (EvalPlanQual), no hook can stop it.  A block beyond the file's end is no error, but one in a segment that is not
 * there is.  So a segment is made before a scan can find a TID there: by the inserter of the row, and after a crash by
 * the scan.
 */
#include "table/zenam_rel.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "base/epoch.h"
#include "cache/tidmap.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "recovery/gate.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "stream/streamxids.h"
#include "table/zenam_reindex.h"
#include "txn/ddl.h"
#include "txn/prepared.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* In rd_amcache. */
typedef struct CachedHTable
{
	RelFileLocator loc;
	ZenHTable  *ht;
	BlockNumber segments;		/* of the main fork that are known to be
								 * there, besides the first */
	bool		key_known;
	ZenKeyShape key;
} CachedHTable;

TableAmRoutine zenam_routine;

bool
zen_rel_is_zen(Relation rel)
{
	return rel->rd_tableam == &zenam_routine;
}

bool
zen_relid_is_zen(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			am = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		am = ((Form_pg_class) GETSTRUCT(tuple))->relam;
		ReleaseSysCache(tuple);
	}
	return OidIsValid(am) && am == get_table_am_oid("zen", true);
}

RelFileLocator
zen_locator_of(Form_pg_class form)
{
	RelFileLocator loc;

	Assert(!form->relisshared);
	ZEN_LOCATOR_SPC(loc) = OidIsValid(form->reltablespace) ? form->reltablespace : MyDatabaseTableSpace;
	ZEN_LOCATOR_DB(loc) = MyDatabaseId;
	ZEN_LOCATOR_NUMBER(loc) = form->relfilenode;
	return loc;
}

/* The HTable of a relation's file; throws if the pool has none. */
static ZenHTable *
find_htable(Relation rel, RelFileLocator loc)
{
	ZenHTable  *ht = zen_ddl_find(loc, rel->rd_backend);

	/* a moved table: redo has made the commit visible, and not told the pool */
	if (ht == NULL && RecoveryInProgress())
		ht = zen_htable_find_moved(loc, zen_xids_committed);
	else if (ht == NULL)
	{
		/* a moved table: COMMIT PREPARED was seen before the pool was told */
		zen_prepared_resolve();
		ht = zen_ddl_find(loc, rel->rd_backend);
	}
	if (ht == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the zen pool does not know table \"%s\"", RelationGetRelationName(rel)),
				 errdetail("No entry for relfilenode %u of database %u.",
						   ZEN_LOCATOR_NUMBER(loc), ZEN_LOCATOR_DB(loc)),
				 errhint("Restore pool and data directory from copies of the same moment, or drop the table.  If a "
						 "tool has exchanged files and not access methods in pg_class, let the two tables exchange "
						 "relam, too.")));
	Assert(ht->idx > 0 && ht->in_use && ht->db == ZEN_LOCATOR_DB(loc));
	return ht;
}

/* I21: all is at hand, and nothing happens before it stands there. */
static void
remember_htable(Relation rel, RelFileLocator loc, ZenHTable *ht)
{
	CachedHTable *cached = rel->rd_amcache;

	if (cached == NULL)
	{
		cached = MemoryContextAllocZero(CacheMemoryContext, sizeof(CachedHTable));
		rel->rd_amcache = cached;
	}
	cached->ht = ht;
	cached->loc = loc;
	cached->segments = 0;
}

ZenHTable *
zen_rel_htable_raw(Relation rel)
{
	CachedHTable *cached;
	RelFileLocator loc = zen_rel_locator(rel);
	ZenHTable  *ht;

	ZenAssertNotInEpoch();
	Assert(zen_rel_is_zen(rel));
	zen_gate_read();
	cached = rel->rd_amcache;
	if (likely(cached != NULL && cached->ht != NULL && zen_same_locator(cached->loc, loc)))
		ht = cached->ht;
	else
	{
		ht = find_htable(rel, loc);
		remember_htable(rel, loc, ht);
	}
	Assert(ht->idx > 0 && ht->in_use && ht->db == ZEN_LOCATOR_DB(loc));
	zen_gate_table(ht);
	return ht;
}

ZenHTable *
zen_rel_htable(Relation rel)
{
	ZenHTable  *ht = zen_rel_htable_raw(rel);

	if (unlikely(!zen_reindex_is_sound(ht)))
		zen_reindex_table(rel, ht);
	return ht;
}

static void
look_for_key(Relation rel, ZenKeyShape *key)
{
	Oid			index_oid = zen_keycache_enabled() ? zen_primary_key(rel) : InvalidOid;
	Relation	index;

	key->index = InvalidOid;
	key->ncolumns = 0;
	if (!OidIsValid(index_oid))
		return;
	index = index_open(index_oid, AccessShareLock);
	zen_key_shape_init(key, index);
	index_close(index, AccessShareLock);
}

void
zen_rel_key(Relation rel, ZenKeyShape *key)
{
	CachedHTable *cached = rel->rd_amcache;

	if (likely(cached != NULL && cached->key_known))
	{
		*key = cached->key;
		return;
	}
	look_for_key(rel, key);
	/* I21: an invalidation during that frees only the memory of it */
	cached = rel->rd_amcache;
	if (cached != NULL)
	{
		cached->key = *key;
		cached->key_known = true;
	}
}

BlockNumber
zen_rel_nblocks(Relation rel)
{
	return (BlockNumber) zen_tidmap_nblocks(zen_rel_htable_raw(rel));
}

/* ---------- the main fork ---------- */

void
zen_rel_extend_file(Relation rel, BlockNumber nblocks)
{
	SMgrRelation smgr = RelationGetSmgr(rel);
	PGIOAlignedBlock zero;

	Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
	if (nblocks == 0 || smgrnblocks(smgr, MAIN_FORKNUM) >= nblocks)
		return;
	memset(zero.data, 0, BLCKSZ);
	/* one block at the end: the space before it is a hole */
	smgrextend(smgr, MAIN_FORKNUM, nblocks - 1, zero.data, true);
}

void
zen_rel_cover_block(Relation rel, BlockNumber block)
{
	CachedHTable *cached = rel->rd_amcache;
	BlockNumber segments = block / RELSEG_SIZE;

	if (likely(segments == 0) || (cached != NULL && segments <= cached->segments))
		return;
	Assert(cached == NULL || cached->ht == NULL || block < zen_tidmap_nblocks(cached->ht));
	zen_rel_extend_file(rel, segments * RELSEG_SIZE + 1);
	/* I21: an invalidation during that frees only the memory of it */
	cached = rel->rd_amcache;
	if (cached != NULL)
		cached->segments = segments;
}
