/*
 * zenam_ddl.c -- creation, truncation, move, rewrite and size of zen tables.
 *
 * A table's rows are in an HTable, which belongs to one relfilenode.  A new relfilenode, for TRUNCATE or a rewrite,
 * is a new HTable; a move (SET TABLESPACE) gives the HTable another name.  Both follow the fate of the transaction
 * (txn/ddl.c).  CLUSTER and VACUUM FULL copy rows with their versions: snapshots of other transactions go on seeing
 * them.
 */
#include "table/zenam_callbacks.h"

#include <math.h>

#include "access/genam.h"
#include "access/multixact.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "cache/version.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "nvm/moment.h"
#include "optimizer/plancat.h"
#include "pgstat.h"
#include "recovery/gate.h"
#include "replication/slot.h"
#include "row/rowmake.h"
#include "row/visibility.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "stream/streamclients.h"
#include "stream/streamsink.h"
#include "table/standbyplan.h"
#include "table/zenam_reindex.h"
#include "table/zenam_rel.h"
#include "table/zenam_stream.h"
#include "table/zenam_toast.h"
#include "table/zenam_unlogged.h"
#include "txn/ddl.h"
#include "txn/prepared.h"
#include "txn/spill.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* ---------- standbys ---------- */

/*
 * Says what has, or may get, a copy of this server; NULL: nothing does.  src/stream/README, "Who has no copy".
 *
 * A slot keeps the WAL for a standby that is away.  When that comes, it is a client.
 */
static const char *
find_copy(void)
{
	const char *found = NULL;

	/* the table is in the directory */
	if (zen_clients_physical())
		return pstrdup("A client of physical replication is connected");
	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots && found == NULL; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];

		if (slot->in_use && SlotIsPhysical(slot))
			found = psprintf("There is the physical replication slot \"%s\"", NameStr(slot->data.name));
	}
	LWLockRelease(ReplicationSlotControlLock);
	return found;
}

/*
 * Is the relation the new place for the rows of a zen table, made by VACUUM FULL, ALTER TABLE or REFRESH MATERIALIZED
 * VIEW?
 */
static bool
is_rewrite(Relation rel)
{
	Oid			old;
	char		rest;

	return sscanf(RelationGetRelationName(rel), "pg_temp_%u%c", &old, &rest) == 1 && zen_relid_is_zen(old);
}

/* The relation has just got its HTable.  An error if standbys would not have its rows. */
static void
check_copies(Relation rel, char persistence, bool had_one)
{
	const char *copy;

	/* a toast table comes with its table */
	if (zen_copies() || zen_allow_copies_without_rows || IsBinaryUpgrade || had_one ||
		persistence != RELPERSISTENCE_PERMANENT || rel->rd_rel->relkind == RELKIND_TOASTVALUE || is_rewrite(rel))
		return;
	copy = find_copy();
	if (copy != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" cannot be a zen table: standbys would not have its rows",
						RelationGetRelationName(rel)),
				 errdetail("%s, and the changes of zen tables are not in the write-ahead log.", copy),
				 errhint("Set zen.stream to replica and restart the server, or make the table USING heap.  To do "
						 "without the rows of zen tables on standbys, set zen.allow_copies_without_rows to on.")));
	zen_copy_unseen();
}

/* ---------- creation, truncation, move ---------- */

/* A new HTable: for a new table, or in place of the old one, which goes if the transaction commits. */
static void
zenam_relation_set_new_filelocator(Relation rel, const RelFileLocator *newrlocator, char persistence,
								   TransactionId *freezeXid, MultiXactId *minmulti)
{
	ZenHTable  *old;

	ZenAssertNotInEpoch();

	/*
	 * Users are refused temporary zen tables (admin/commands.c), but REFRESH
	 * MATERIALIZED VIEW CONCURRENTLY needs one for a moment.
	 */
	if (persistence == RELPERSISTENCE_UNLOGGED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("zen tables cannot be unlogged"),
				 errdetail("Every zen table is durable, and none writes WAL."),
				 errhint("Use a permanent zen table, or CREATE UNLOGGED TABLE ... USING heap.")));
	if (IsBinaryUpgrade)
		zen_adopt_note();
	/* new files for a table that has some: TRUNCATE */
	if (!zen_same_locator(zen_rel_locator(rel), *newrlocator))
		zen_check_change(rel);
	zen_gate();
	zen_prepared_resolve();		/* nothing of an ended transaction is left to
								 * do in the old table */
	old = zen_ddl_find(zen_rel_locator(rel), rel->rd_backend);
	if (old != NULL && !zen_same_locator(zen_rel_locator(rel), *newrlocator))
		zen_ddl_drop(old);
	zen_ddl_create(*newrlocator, rel->rd_backend);
	check_copies(rel, persistence, old != NULL);
	smgrclose(RelationCreateStorage(*newrlocator, persistence, true));

	/* no xid of ours outlives the horizon: VACUUM need not freeze anything */
	*freezeXid = InvalidTransactionId;
	*minmulti = InvalidMultiXactId;
}

/*
 * PostgreSQL truncates in place if this subtransaction has given the table a new relfilenode.  SET TABLESPACE does
 * that too, but moves neither zen's rows nor indexes: these are still those that a rollback needs.
 */
static void
zenam_relation_nontransactional_truncate(Relation rel)
{
	ZenHTable  *ht = zen_rel_htable_raw(rel);

	Assert(CheckRelationLockedByMe(rel, AccessExclusiveLock, false));
	zen_gate();
	zen_check_change(rel);
	if (!zen_ddl_truncate(ht))
		RelationSetNewRelfilenumber(rel, rel->rd_rel->relpersistence);
	zen_index_before_truncate(rel);
}

static void
zenam_relation_copy_data(Relation rel, const RelFileLocator *newrlocator)
{
	Assert(CheckRelationLockedByMe(rel, AccessExclusiveLock, false));
	Assert(!zen_same_locator(zen_rel_locator(rel), *newrlocator));
	zen_gate();
	/* the rows stay where they are; only the name of their table changes */
	zen_ddl_move(zen_rel_htable_raw(rel), *newrlocator);
	smgrclose(RelationCreateStorage(*newrlocator, rel->rd_rel->relpersistence, true));
	RelationDropStorage(rel);
}

/* ---------- CLUSTER, VACUUM FULL ---------- */

/*
 * Form a version's contents anew for the new table: dropped columns become null, out-of-line values move to the
 * new toast table.
 */
static ZenVersion *
reform_version(ZenVersion *v, Relation old_table, Relation new_table)
{
	TupleDesc	desc = RelationGetDescr(old_table);
	Datum	   *values = palloc(desc->natts * sizeof(Datum));
	bool	   *isnull = palloc(desc->natts * sizeof(bool));
	HeapTuple	tuple = heap_tuple_from_minimal_tuple((MinimalTuple) v->data);
	HeapTuple	formed,
				stored;
	MinimalTuple minimal;

	Assert(v->len > 0);
	heap_deform_tuple(tuple, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescAttr(desc, i)->attisdropped)
			isnull[i] = true;
	formed = heap_form_tuple(RelationGetDescr(new_table), values, isnull);
	stored = zen_toast_needed(new_table, formed) ? zen_toast_insert_or_update(new_table, formed, NULL) : formed;
	minimal = zen_minimal_copy(stored);
	return zen_row_reform(v, minimal);
}

typedef struct Copy
{
	Relation	old_table;
	Relation	new_table;
	ZenHTable  *from;
	ZenHTable  *to;
	MemoryContext per_row;
	double		live;
	double		dead;
} Copy;

/* Form all versions of the chain in hand anew, and give it to the new table. */
static void
place_chain(Copy *copy, ZenVersion **chain)
{
	MemoryContext old = MemoryContextSwitchTo(copy->per_row);

	ZenAssertNotInEpoch();
	Assert(*chain != NULL);
	for (ZenVersion **link = chain; *link != NULL; link = &(*link)->older)
		if ((*link)->len > 0)
			*link = reform_version(*link, copy->old_table, copy->new_table);
	MemoryContextSwitchTo(old);
	MemoryContextReset(copy->per_row);
	if (zen_version_flags(*chain) & ZEN_V_TOMBSTONE)
		copy->dead++;
	else
		copy->live++;
	zen_spill_if_large();
	zen_row_place(copy->to);
}

static void
copy_old_row(Copy *copy, uint64 tidno)
{
	ZenVersion **chain;

	CHECK_FOR_INTERRUPTS();
	chain = zen_row_clone(copy->from, tidno);
	if (chain == NULL)
		return;
	place_chain(copy, chain);
	pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, copy->live + copy->dead);
	pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, copy->live + copy->dead);
}

/* Each TID stands once in the index, so its order is the order of the copy. */
static void
copy_by_index(Copy *copy, Relation index)
{
	IndexScanDesc scan = zen_index_beginscan(copy->old_table, index, SnapshotAny, 0);
	ItemPointer tid;

	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
		copy_old_row(copy, zen_tidno(tid));
	index_endscan(scan);
}

static void
copy_by_block(Copy *copy)
{
	uint64		nblocks = zen_tidmap_nblocks(copy->from);

	pgstat_progress_update_param(PROGRESS_CLUSTER_TOTAL_HEAP_BLKS, nblocks);
	for (uint64 block = 0; block < nblocks; block++)
	{
		for (uint64 i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
			copy_old_row(copy, block * ZEN_TIDS_PER_BLOCK + i);
		pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, block + 1);
	}
}

static void
zenam_relation_copy_for_cluster(Relation old_table, Relation new_table, Relation old_index, bool use_sort,
								TransactionId oldest_xmin, TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
								double *num_tuples, double *tups_vacuumed, double *tups_recently_dead)
{
	Copy		copy = {.old_table = old_table,.new_table = new_table};

	zen_gate();
	copy.from = zen_rel_htable(old_table);
	copy.to = zen_rel_htable_raw(new_table);
	Assert(copy.from != copy.to);
	Assert(CheckRelationLockedByMe(old_table, AccessExclusiveLock, false));
	copy.per_row = AllocSetContextCreate(CurrentMemoryContext, "zen copy", ALLOCSET_DEFAULT_SIZES);
	(void) zen_horizon_look();	/* versions that every snapshot sees are
								 * copied as such */
	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, old_index ?
								 PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP : PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
	if (old_index != NULL)
		copy_by_index(&copy, old_index);
	else
		copy_by_block(&copy);
	MemoryContextDelete(copy.per_row);
	*num_tuples = copy.live + copy.dead;
	*tups_vacuumed = 0;
	*tups_recently_dead = copy.dead;
	*xid_cutoff = InvalidTransactionId;
	*multi_cutoff = InvalidMultiXactId;
}

/* ---------- size ---------- */

static uint64
zenam_relation_size(Relation rel, ForkNumber fork)
{
	if (fork != MAIN_FORKNUM && fork != InvalidForkNumber)
		return 0;
	return (uint64) zen_rel_nblocks(rel) * BLCKSZ;
}

/*
 * For the planner a page is 8 KB to be read, not a block of 64 TIDs: a page takes as many rows as one of heap, so that
 * a table gets the same plans as in heap, and cost settings have the same meaning.  TIDs without a row count, as dead
 * space does in heap, except at the end of the last block.  An index-only scan fetches no row (indexahead.c),
 * so all pages count as all-visible.
 */
static void
zenam_relation_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages, double *tuples,
							 double *allvisfrac)
{
	Form_pg_class form = rel->rd_rel;
	int			row_size = get_rel_data_width(rel, attr_widths) + MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData);
	int			rows_per_page = Max((BLCKSZ - SizeOfPageHeaderData) / row_size, 1);
	double		nblocks,
				rows;

	Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
	/* the planner opens indexes next: they must be there, or be hidden */
	zen_reindex_hide(rel, zen_rel_htable(rel));
	zen_index_before_build(rel, NULL);	/* a build asks for the size first */
	nblocks = zen_rel_nblocks(rel);
	rows = nblocks * ZEN_TIDS_PER_BLOCK;

	/* of a table that was empty nothing is known */
	if (form->reltuples > 0 && form->relpages > 0)
	{
		*tuples = rint(form->reltuples / form->relpages * nblocks);
		if (form->reltuples > (form->relpages - 1) * (double) ZEN_TIDS_PER_BLOCK)
			rows = *tuples;
		*pages = ceil(rows / rows_per_page);
	}
	else
	{
		*pages = ceil(rows / rows_per_page);
		/* as for heap: a table never looked at is taken to grow soon */
		if (*pages < 10 && form->reltuples < 0 && !form->relhassubclass)
			*pages = 10;
		*tuples = (double) rows_per_page * *pages;
	}
	*allvisfrac = 1;
	zen_standbyplan_hide(rel);
}

void
zenam_ddl_callbacks(TableAmRoutine *routine)
{
	routine->ZEN_AM_SET_NEW_FILELOCATOR = zenam_relation_set_new_filelocator;
	routine->relation_nontransactional_truncate = zenam_relation_nontransactional_truncate;
	routine->relation_copy_data = zenam_relation_copy_data;
	routine->relation_copy_for_cluster = zenam_relation_copy_for_cluster;
	routine->relation_size = zenam_relation_size;
	routine->relation_estimate_size = zenam_relation_estimate_size;
}
