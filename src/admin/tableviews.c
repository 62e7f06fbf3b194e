/*
 * tableviews.c -- the rows of the views of tables and indexes, and a table's size.
 *
 * README, "Views", says how they hang together with the SQL file.  doc/views.md explains the columns.
 */
#include "base/compat.h"

#include "access/relation.h"
#include "admin/resultrow.h"
#include "base/locks.h"
#include "cache/tablestat.h"
#include "cache/tidmap.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "gc/collect.h"
#include "gc/reclaim.h"
#include "index/treedir.h"
#include "miscadmin.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "nvm/pool.h"
#include "nvm/slotalloc.h"
#include "recovery/gate.h"
#include "table/zenam_rel.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(zen_view_tables);
PG_FUNCTION_INFO_V1(zen_view_table_versions);
PG_FUNCTION_INFO_V1(zen_view_indexes);
PG_FUNCTION_INFO_V1(zen_relation_size);

/* ---------- zen_stat_tables ---------- */

/* The identity of an HTable, copied under the directory's lock. */
typedef struct Listed
{
	ZenHTable  *ht;
	Oid			db;
	Oid			spc;
	RelFileNumber relnumber;
} Listed;

static Listed *
list_htables(uint32 *n)
{
	Listed	   *list = palloc(ZEN_MAX_HTABLES * sizeof(Listed));

	*n = 0;
	LWLockAcquire(zen_lock(ZEN_LOCK_HTABLE), LW_SHARED);
	for (uint32 i = 1; i < ZEN_MAX_HTABLES; i++)
	{
		ZenHTable  *ht = &zen_htables[i];
		Listed		l = {.ht = ht,.db = ht->db,.spc = ht->spc,.relnumber = ht->relnumber};

		if (ht->in_use)
			list[(*n)++] = l;
	}
	LWLockRelease(zen_lock(ZEN_LOCK_HTABLE));
	return list;
}

/* Pages owned by each HTable, in one pass over all pages. */
static uint32 *
count_own_pages(void)
{
	uint32	   *counts = palloc0(ZEN_MAX_HTABLES * sizeof(uint32));

	for (uint32 p = zen_pool.first_data_page; p < zen_pool_pages(); p = zen_page_after(p))
		if (zen_pages[p].owned)
		{
			uint32		owner = zen_pages[p].owner.htable;

			/* a page may be changing hands */
			if (owner < ZEN_MAX_HTABLES)
				counts[owner]++;
		}
	return counts;
}

/* Whole pages count in full, what is free in them included; of shared pages, what the table has taken. */
static int64
nvm_bytes(ZenHTable *ht, uint32 own_pages)
{
	return (int64) own_pages * ZEN_PAGE_SIZE + (int64) ht->bytes_taken;
}

/*
 * On a standby nothing of a table is in DRAM.  Its own pages are known; what it has of shared pages is not.  So the
 * size of a table without own pages is null, as is all that is in DRAM on a primary.
 */
static uint32 *
count_pages_in_copy(void)
{
	uint32	   *counts = palloc0(ZEN_MAX_HTABLES * sizeof(uint32));

	Assert(RecoveryInProgress());
	zen_page_count_owned(counts);
	return counts;
}

static void
put_tables_of_copy(FunctionCallInfo fcinfo, ZenResultRow *row)
{
	uint32	   *own_pages = count_pages_in_copy();
	RelFileLocator loc;

	for (uint32 idx = 1; idx < ZEN_MAX_HTABLES; idx++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!zen_htable_named(idx, &loc))
			continue;
		zen_put_int32(row, (int32) idx);
		zen_put_oid(row, ZEN_LOCATOR_DB(loc));
		zen_put_oid(row, ZEN_LOCATOR_SPC(loc));
		zen_put_oid(row, ZEN_LOCATOR_NUMBER(loc));
		zen_put_int64_or_null(row, 0, true);	/* blocks */
		zen_put_int64_or_null(row, 0, true);	/* bytes of the map */
		zen_put_int64(row, own_pages[idx]);
		zen_put_int64_or_null(row, (int64) own_pages[idx] * ZEN_PAGE_SIZE, own_pages[idx] == 0);
		zen_put_datum(row, BOOLOID, (Datum) 0, true);	/* reindex */
		for (int c = 0; c < ZEN_T_NCOUNTERS; c++)
			zen_put_int64_or_null(row, 0, true);
		zen_put_int64_or_null(row, 0, true);	/* quota */
		zen_put_row(fcinfo, row);
	}
}

Datum
zen_view_tables(PG_FUNCTION_ARGS)
{
	ZenResultRow row;
	Listed	   *list;
	uint32		n;
	uint32	   *own_pages;

	zen_view_begin_rows(fcinfo, &row);
	if (RecoveryInProgress())
	{
		put_tables_of_copy(fcinfo, &row);
		return (Datum) 0;
	}
	zen_gate();
	zen_tablestat_flush();
	own_pages = count_own_pages();
	list = list_htables(&n);
	for (uint32 i = 0; i < n; i++)
	{
		ZenHTable  *ht = list[i].ht;
		uint64		quota = zen_tablestat_quota(ht->idx);
		int64		use[ZEN_T_NCOUNTERS];

		CHECK_FOR_INTERRUPTS();
		zen_put_int32(&row, (int32) ht->idx);
		zen_put_oid(&row, list[i].db);
		zen_put_oid(&row, list[i].spc);
		zen_put_oid(&row, list[i].relnumber);
		zen_put_int64(&row, (int64) zen_tidmap_nblocks(ht));
		zen_put_int64(&row, (int64) zen_tidmap_bytes(ht));
		zen_put_int64(&row, own_pages[ht->idx]);
		zen_put_int64(&row, nvm_bytes(ht, own_pages[ht->idx]));
		zen_put_bool(&row, pg_atomic_read_u32(&ht->reindex) != 0);
		zen_tablestat_read(ht->idx, use);
		for (int c = 0; c < ZEN_T_NCOUNTERS; c++)
			zen_put_int64(&row, use[c]);
		zen_put_int64_or_null(&row, (int64) quota, quota == 0);
		zen_put_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/* ---------- one table ---------- */

/* As pg_relation_size(): NULL for a relation that has just been dropped. */
static Relation
open_table(Oid relid, const char *hint)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	if (rel != NULL && (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) || !zen_rel_is_zen(rel)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a zen table", RelationGetRelationName(rel)),
				 hint ? errhint("%s", hint) : 0));
	return rel;
}

Datum
zen_view_table_versions(PG_FUNCTION_ARGS)
{
	ZenResultRow row;
	Relation	rel;
	ZenVersionCounts counts;

	zen_view_begin_row(fcinfo, &row);
	rel = open_table(PG_GETARG_OID(0), NULL);
	if (rel == NULL)
		PG_RETURN_NULL();
	zen_sweep_count(zen_rel_htable_raw(rel), &counts);
	relation_close(rel, AccessShareLock);
	zen_put_int64(&row, (int64) counts.entries);
	zen_put_int64(&row, (int64) counts.unfrozen);
	zen_put_int64(&row, (int64) counts.superseded);
	zen_put_int64(&row, (int64) counts.superseded_bytes);
	zen_put_int64(&row, (int64) counts.lockers);
	zen_put_xid(&row, counts.oldest);
	PG_RETURN_DATUM(zen_end_row(&row));
}

static uint32
own_pages_in_copy(RelFileLocator loc)
{
	uint32	   *own_pages = count_pages_in_copy();
	RelFileLocator named;

	for (uint32 idx = 1; idx < ZEN_MAX_HTABLES; idx++)
		if (zen_htable_named(idx, &named) && memcmp(&named, &loc, sizeof(loc)) == 0)
			return own_pages[idx];
	return 0;
}

Datum
zen_relation_size(PG_FUNCTION_ARGS)
{
	Relation	rel;
	ZenHTable  *ht;
	int64		bytes;

	zen_view_enter();
	rel = open_table(PG_GETARG_OID(0), "Use pg_relation_size() for relations that zen does not store.");
	if (rel == NULL)
		PG_RETURN_NULL();
	if (RecoveryInProgress())
	{
		uint32		own_pages = own_pages_in_copy(zen_rel_locator(rel));

		relation_close(rel, AccessShareLock);
		if (own_pages == 0)
			PG_RETURN_NULL();
		PG_RETURN_INT64((int64) own_pages * ZEN_PAGE_SIZE);
	}
	ht = zen_rel_htable_raw(rel);
	bytes = nvm_bytes(ht, zen_slotalloc_count_pages(ht->idx));
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(bytes);
}

/* ---------- zen_stat_indexes ---------- */

Datum
zen_view_indexes(PG_FUNCTION_ARGS)
{
	static const char *const kinds[] = {"word", "two words", "tuples"};
	ZenResultRow row;
	ZenTreeInfo *list;
	int			n;

	zen_view_begin_rows(fcinfo, &row);
	list = zen_tree_list(&n);
	for (int i = 0; i < n; i++)
	{
		zen_put_oid(&row, ZEN_LOCATOR_SPC(list[i].loc));
		zen_put_oid(&row, ZEN_LOCATOR_NUMBER(list[i].loc));
		zen_put_text(&row, kinds[list[i].kind]);
		zen_put_int32(&row, list[i].height);
		zen_put_int64(&row, (int64) list[i].nodes);
		zen_put_int64(&row, (int64) list[i].bytes);
		zen_put_row(fcinfo, &row);
	}
	return (Datum) 0;
}
