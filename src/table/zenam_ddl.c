/*
 * zenam_ddl.c -- creation, truncation, move and size of zen tables.
 *
 * A table's rows are in an HTable, which belongs to one relfilenode.  A new relfilenode, for TRUNCATE or a rewrite,
 * is a new HTable; a move (SET TABLESPACE) gives the HTable another name.  Both follow the fate of the transaction
 * (txn/ddl.c).
 */
#include "table/zenam_callbacks.h"

#include <math.h>

#include "access/multixact.h"
#include "base/guc.h"
#include "cache/version.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "nvm/moment.h"
#include "optimizer/plancat.h"
#include "recovery/gate.h"
#include "replication/slot.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "stream/streamclients.h"
#include "stream/streamsink.h"
#include "table/standbyplan.h"
#include "table/zenam_reindex.h"
#include "table/zenam_rel.h"
#include "table/zenam_stream.h"
#include "table/zenam_unlogged.h"
#include "txn/ddl.h"
#include "txn/prepared.h"

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
	routine->relation_size = zenam_relation_size;
	routine->relation_estimate_size = zenam_relation_estimate_size;
}
