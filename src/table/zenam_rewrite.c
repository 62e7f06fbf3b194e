/*
 * zenam_rewrite.c -- CLUSTER and VACUUM FULL: rows are copied with their versions, so that snapshots of other
 * transactions go on seeing them.
 *
 * Most rows are such that every snapshot sees them, and have no other version that counts.  They are inserted together,
 * as rows of a load (src/txn/README, "Rows of a load").  All others are copied as chains of versions, one by one.
 */
#include "table/zenam_callbacks.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "base/epoch.h"
#include "commands/progress.h"
#include "gc/collect.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "recovery/gate.h"
#include "row/rowmake.h"
#include "row/rowread.h"
#include "row/visibility.h"
#include "storage/lmgr.h"
#include "table/zenam_change.h"
#include "table/zenam_rel.h"
#include "table/zenam_toast.h"
#include "txn/spill.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* Rows that every snapshot sees, on their way into the new table. */
typedef struct Batch
{
	HeapTuple	rows[ZEN_INSERT_ROWS];
	TransactionId xmins[ZEN_INSERT_ROWS];
	uint32		n;
} Batch;

typedef struct Copy
{
	Relation	old_table;
	Relation	new_table;
	ZenHTable  *from;
	ZenHTable  *to;
	bool		forms_anew;		/* every row: the table has dropped columns */
	ZenRowBlock rows;			/* fetched */
	Batch		batch;
	MemoryContext mcxt;			/* of the batch, or of a chain */
	double		live;
	double		dead;
} Copy;

/*
 * Form a row anew for the new table: dropped columns become null, out-of-line values move to the new toast table.
 */
static HeapTuple
reform(Copy *copy, HeapTuple tuple)
{
	TupleDesc	desc = RelationGetDescr(copy->old_table);
	Datum	   *values = palloc(desc->natts * sizeof(Datum));
	bool	   *isnull = palloc(desc->natts * sizeof(bool));
	HeapTuple	formed;

	heap_deform_tuple(tuple, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescAttr(desc, i)->attisdropped)
			isnull[i] = true;
	formed = heap_form_tuple(RelationGetDescr(copy->new_table), values, isnull);
	if (zen_toast_needed(copy->new_table, formed))
		formed = zen_toast_insert_or_update(copy->new_table, formed, NULL);
	return formed;
}

/* The same of a version. */
static ZenVersion *
reform_version(Copy *copy, ZenVersion *v)
{
	Assert(v->len > 0);
	return zen_row_reform(v, zen_minimal_copy(reform(copy, heap_tuple_from_minimal_tuple((MinimalTuple) v->data))));
}

/* ---------- rows with older versions ---------- */

/* Form all versions of the chain in hand anew, and give it to the new table. */
static void
place_chain(Copy *copy, ZenVersion **chain)
{
	MemoryContext old = MemoryContextSwitchTo(copy->mcxt);

	ZenAssertNotInEpoch();
	Assert(*chain != NULL && copy->batch.n == 0);
	for (ZenVersion **link = chain; *link != NULL; link = &(*link)->older)
		if ((*link)->len > 0)
			*link = reform_version(copy, *link);
	MemoryContextSwitchTo(old);
	MemoryContextReset(copy->mcxt);
	if (zen_version_flags(*chain) & ZEN_V_TOMBSTONE)
		copy->dead++;
	else
		copy->live++;
	zen_spill_if_large();
	zen_row_place(copy->to);
}

/* ---------- rows that every snapshot sees ---------- */

/* May a row be taken over as it is?  Columns that were added later may be missing in it. */
static bool
fits(const Copy *copy, HeapTuple tuple)
{
	return !copy->forms_anew && !HeapTupleHasExternal(tuple) && !zen_toast_needed(copy->new_table, tuple) &&
		HeapTupleHeaderGetNatts(tuple->t_data) == RelationGetDescr(copy->new_table)->natts;
}

static void
batch_insert(Copy *copy)
{
	Batch	   *batch = &copy->batch;

	if (batch->n > 0)
		zenam_change_insert_many(copy->new_table, batch->rows, batch->n, FirstCommandId, HEAP_INSERT_FROZEN,
								 batch->xmins);
	copy->live += batch->n;
	batch->n = 0;
	MemoryContextReset(copy->mcxt);
}

/* stays: the tuple is there until the batch is inserted. */
static void
batch_add(Copy *copy, HeapTuple tuple, bool stays)
{
	Batch	   *batch = &copy->batch;
	MemoryContext old;

	if (batch->n == ZEN_INSERT_ROWS)
		batch_insert(copy);
	old = MemoryContextSwitchTo(copy->mcxt);
	batch->xmins[batch->n] = HeapTupleHeaderGetRawXmin(tuple->t_data);
	if (!fits(copy, tuple))
		tuple = reform(copy, tuple);
	else if (!stays)
		tuple = heap_copytuple(tuple);
	batch->rows[batch->n++] = tuple;
	MemoryContextSwitchTo(old);
}

/* ---------- all rows, in their order ---------- */

/* Fetch the wanted rows of a block that every snapshot sees.  Most others only wait for the collector. */
static void
fetch(Copy *copy, uint64 block, uint64 wanted)
{
	zen_row_fetch_block(copy->from, block, wanted, InvalidSnapshot, &copy->rows);
	if (copy->rows.apart == 0)
		return;
	(void) zen_collect_item(copy->from, block * ZEN_TIDS_PER_BLOCK, true);
	zen_row_fetch_block(copy->from, block, wanted, InvalidSnapshot, &copy->rows);
}

/* Copy wanted rows of a block.  stays: the batch is inserted before more rows are fetched. */
static void
copy_rows(Copy *copy, uint64 block, uint64 wanted, bool stays)
{
	CHECK_FOR_INTERRUPTS();
	fetch(copy, block, wanted);
	for (uint64 left = copy->rows.found | copy->rows.apart; left != 0; left &= left - 1)
	{
		int			i = pg_rightmost_one_pos64(left);
		ZenVersion **chain;

		if (copy->rows.found >> i & 1)
		{
			batch_add(copy, &copy->rows.tuples[i], stays);
			continue;
		}
		batch_insert(copy);
		chain = zen_row_clone(copy->from, block * ZEN_TIDS_PER_BLOCK + i);
		if (chain != NULL)
			place_chain(copy, chain);
	}
}

static void
tell_progress(const Copy *copy)
{
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
	{
		uint64		tidno = zen_tidno(tid);

		copy_rows(copy, tidno / ZEN_TIDS_PER_BLOCK, UINT64CONST(1) << tidno % ZEN_TIDS_PER_BLOCK, false);
		tell_progress(copy);
	}
	batch_insert(copy);
	index_endscan(scan);
}

static void
copy_by_block(Copy *copy)
{
	uint64		nblocks = zen_tidmap_nblocks(copy->from);

	pgstat_progress_update_param(PROGRESS_CLUSTER_TOTAL_HEAP_BLKS, nblocks);
	for (uint64 block = 0; block < nblocks; block++)
	{
		copy_rows(copy, block, PG_UINT64_MAX, true);
		batch_insert(copy);
		pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, block + 1);
		tell_progress(copy);
	}
}

/* ---------- the callback ---------- */

static bool
has_dropped_columns(TupleDesc desc)
{
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescAttr(desc, i)->attisdropped)
			return true;
	return false;
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
	copy.forms_anew = has_dropped_columns(RelationGetDescr(old_table));
	copy.rows.mcxt = CurrentMemoryContext;
	copy.mcxt = AllocSetContextCreate(CurrentMemoryContext, "zen rewrite", ALLOCSET_DEFAULT_SIZES);
	(void) zen_horizon_look();	/* versions that every snapshot sees are
								 * copied as such */
	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, old_index ?
								 PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP : PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
	if (old_index != NULL)
		copy_by_index(&copy, old_index);
	else
		copy_by_block(&copy);
	zen_row_block_free(&copy.rows);
	MemoryContextDelete(copy.mcxt);
	*num_tuples = copy.live + copy.dead;
	*tups_vacuumed = 0;
	*tups_recently_dead = copy.dead;
	*xid_cutoff = InvalidTransactionId;
	*multi_cutoff = InvalidMultiXactId;
}

void
zenam_rewrite_callbacks(TableAmRoutine *routine)
{
	routine->relation_copy_for_cluster = zenam_relation_copy_for_cluster;
}
