/*
 * zenam_build.c -- index builds: which rows an index has entries for, and how they are formed.
 *
 * The executor forms entries of rows that it writes.  Index builds, their validation and zen_verify() form them here:
 * from the row in a slot, by the predicate and the expressions of the index.  src/table/README, "ANALYZE and index
 * builds", says which rows have one.
 *
 * For an index on columns of fixed width a build does not copy rows that are settled.  It reads the key from the slot
 * in NVM, or the version, inside an epoch.  Nothing that could wait may be called there, so the entries go to the index
 * after the epoch.
 */
#include "table/zenam_build.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "base/epoch.h"
#include "cache/tidmap.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "row/rowahead.h"
#include "row/rowlook.h"
#include "row/rowread.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "table/keyfill.h"
#include "table/treeindex.h"
#include "table/zenam_callbacks.h"
#include "table/zenam_fetch.h"
#include "table/zenam_reindex.h"
#include "table/zenam_rel.h"
#include "table/zenam_scan.h"
#include "table/zenam_unlogged.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

/* ---------- the entry of a row ---------- */

void
zen_indexentry_begin(ZenIndexEntry *e, Relation table, IndexInfo *info)
{
	e->table = table;
	e->info = info;
	e->estate = CreateExecutorState();
	e->econtext = GetPerTupleExprContext(e->estate);
	e->slot = table_slot_create(table, NULL);
	e->econtext->ecxt_scantuple = e->slot;
	e->predicate = ExecPrepareQual(info->ii_Predicate, e->estate);
}

bool
zen_indexentry_is_wanted(ZenIndexEntry *e)
{
	Assert(!TTS_EMPTY(e->slot));
	Assert(e->econtext->ecxt_scantuple == e->slot);
	MemoryContextReset(e->econtext->ecxt_per_tuple_memory);
	return e->predicate == NULL || ExecQual(e->predicate, e->econtext);
}

void
zen_indexentry_form(ZenIndexEntry *e)
{
	Assert(!TTS_EMPTY(e->slot));
	FormIndexDatum(e->info, e->slot, e->estate, e->values, e->isnull);
}

void
zen_indexentry_end(ZenIndexEntry *e)
{
	ExecDropSingleTupleTableSlot(e->slot);
	FreeExecutorState(e->estate);
	/* they were in the executor's state */
	e->info->ii_ExpressionsState = NIL;
	e->info->ii_PredicateState = NULL;
}

/* ---------- the entries of a block, read where the rows are ---------- */

#define WIDEST	16				/* bytes of a column */

/* Entries of one block: those of rows whose bit is in found.  Entry i has its columns from values[i * n] on. */
typedef struct IndexKeys
{
	int			n;				/* columns; 0: the index is not of this kind */
	uint64		found;
	uint64		apart;			/* bit i: perhaps a row, not looked at */
	Datum	   *values;
	bool	   *isnull;

	/* private */
	TupleDesc	desc;
	char	   *space;
	AttrNumber	attnos[INDEX_MAX_KEYS];
	int16		lengths[INDEX_MAX_KEYS];	/* of those by reference, else 0 */
} IndexKeys;

/* Prepare to read entries of an index, in memory of the statement.  Only columns of fixed width are read here. */
static void
prepare_keys(IndexKeys *keys, Relation table, const IndexInfo *info)
{
	int			n = info->ii_NumIndexAttrs;

	keys->n = 0;
	if (info->ii_Expressions != NIL || info->ii_Predicate != NIL)
		return;
	keys->desc = RelationGetDescr(table);
	for (int i = 0; i < n; i++)
	{
		AttrNumber	attno = info->ii_IndexAttrNumbers[i];
		Form_pg_attribute att;

		if (attno <= 0)
			return;
		att = TupleDescAttr(keys->desc, attno - 1);
		if (att->attlen <= 0 || att->attlen > WIDEST)
			return;
		keys->attnos[i] = attno;
		keys->lengths[i] = att->attbyval ? 0 : att->attlen;
	}
	keys->n = n;
	keys->values = palloc(ZEN_TIDS_PER_BLOCK * n * sizeof(Datum));
	keys->isnull = palloc(ZEN_TIDS_PER_BLOCK * n * sizeof(bool));
	keys->space = palloc(ZEN_TIDS_PER_BLOCK * n * WIDEST);
}

static void
read_entry(int row, const HeapTupleData *tuple, void *arg)
{
	IndexKeys  *keys = arg;
	Datum	   *values = &keys->values[row * keys->n];
	bool	   *isnull = &keys->isnull[row * keys->n];

	for (int i = 0; i < keys->n; i++)
	{
		values[i] = heap_getattr((HeapTuple) tuple, keys->attnos[i], keys->desc, &isnull[i]);
		if (unlikely(keys->lengths[i] > 0) && !isnull[i])
		{
			char	   *copy = &keys->space[(row * keys->n + i) * WIDEST];

			memcpy(copy, DatumGetPointer(values[i]), keys->lengths[i]);
			values[i] = PointerGetDatum(copy);
		}
	}
}

/* ---------- index build ---------- */

/* The part that a tuple has in a build. */
typedef struct BuildRow
{
	bool		index_it;
	bool		alive;			/* counts for uniqueness and for reltuples */
} BuildRow;

/* Does a build put this row into the index, and does the row count for uniqueness? */
static BuildRow
judge_row(const ZenRowInfo *info, TransactionId oldest_xmin, IndexInfo *index_info)
{
	BuildRow	r = {.index_it = true,.alive = true};

	Assert(TransactionIdIsValid(oldest_xmin));
	switch (info->state)
	{
		case ZEN_ROW_NONE:
		case ZEN_ROW_DEAD:
			r.index_it = false;
			break;
		case ZEN_ROW_LIVE:
		case ZEN_ROW_INSERT_IN_PROGRESS:
			break;
		case ZEN_ROW_RECENTLY_DEAD:
			r.index_it = !TransactionIdPrecedes(info->xid, oldest_xmin);
			r.alive = false;
			break;
		case ZEN_ROW_DELETE_IN_PROGRESS:
			r.alive = false;
			break;
	}

	/* an older version that a snapshot sees may differ in these columns */
	if (r.index_it && info->older_versions && !TransactionIdPrecedes(info->xmin, oldest_xmin))
		index_info->ii_BrokenHotChain = true;

	/*
	 * such a snapshot may see two rows with a key that is unique now, and
	 * nulls in a primary key; what another transaction cannot see does not
	 * count
	 */
	if (r.index_it && !r.alive && index_info->ii_Unique && !TransactionIdIsCurrentTransactionId(info->xmin))
		index_info->ii_BrokenHotChain = true;
	return r;
}

/* Where a build's tuples come from, and where its entries go. */
typedef struct Build
{
	ZenHTable  *ht;
	TableScanDesc scan;
	Snapshot	snapshot;		/* MVCC if the build is concurrent; or
								 * SnapshotAny, all versions not dead to
								 * everyone, with: */
	TransactionId oldest_xmin;
	bool		own_snapshot;
	Relation	index;
	IndexBuildCallback callback;
	void	   *callback_state;
	ZenIndexEntry entry;
	IndexKeys	keys;			/* of a block */
	ZenKeyFill	fill;			/* for the key cache */
	double		rows;			/* that count for reltuples */
} Build;

/* Of nblocks blocks from first on; or of scan, if it is not NULL but a parallel worker's, with its snapshot. */
static void
begin_build(Build *b, Relation table, IndexInfo *info, BlockNumber first, BlockNumber nblocks, TableScanDesc scan)
{
	if (scan != NULL)
		b->snapshot = scan->rs_snapshot;
	else if (IsBootstrapProcessingMode() || info->ii_Concurrent)
	{
		b->snapshot = RegisterSnapshot(GetTransactionSnapshot());
		b->own_snapshot = true;
	}
	else
		b->snapshot = SnapshotAny;
	Assert(IsMVCCSnapshot(b->snapshot) || b->snapshot == SnapshotAny);
	b->scan = scan != NULL ? scan : zen_scan_begin_raw(table, b->snapshot, first, nblocks);
	if (!IsMVCCSnapshot(b->snapshot))
		b->oldest_xmin = GetOldestNonRemovableTransactionId(table);
	zen_indexentry_begin(&b->entry, table, info);
	prepare_keys(&b->keys, table, info);
	zen_key_shape_init(&b->fill.shape, b->index);

	/*
	 * a chunk of a long value is not read by its key alone; and a tree finds
	 * a row for the first time nearly as fast as the key cache
	 */
	if (!info->ii_Unique || table->rd_rel->relkind == RELKIND_TOASTVALUE || zen_index_is_tree(b->index))
		b->fill.shape.ncolumns = 0;
	zen_key_fill_begin(&b->fill, zen_tidmap_nblocks(b->ht) * ZEN_TIDS_PER_BLOCK);
}

/* Fetch one tuple, if it is to be indexed. */
static bool
build_fetch(Build *b, uint64 tidno, BuildRow *row)
{
	ZenRow	   *buffer = zenam_slot_row(b->entry.slot);

	if (IsMVCCSnapshot(b->snapshot))
	{
		ZenFetch	f = {.ht = b->ht,.tidno = tidno,.snapshot = b->snapshot,
		.code = ZEN_ANY_CODE,.row = buffer};

		row->index_it = row->alive = true;
		if (!zen_row_fetch(&f))
			return false;
	}
	else
	{
		ZenRowInfo	info;

		if (!zen_row_inspect(b->ht, tidno, buffer, &info))
			return false;
		*row = judge_row(&info, b->oldest_xmin, b->entry.info);
		if (!row->index_it)
			return false;
	}
	zenam_slot_store(b->entry.slot, RelationGetRelid(b->entry.table));
	return true;
}

static inline void
give_entry(Build *b, uint64 tidno, Datum *values, bool *isnull, bool alive)
{
	ItemPointerData tid;

	zen_make_tid(&tid, tidno, 0);
	b->callback(b->index, &tid, values, isnull, alive, b->callback_state);
	if (alive)
		zen_key_fill_add(&b->fill, values, isnull, tidno);
}

/* Give the index its entry of one tuple, if it is to have one. */
static void
build_row(Build *b, uint64 tidno)
{
	ZenIndexEntry *e = &b->entry;
	BuildRow	row;

	if (!build_fetch(b, tidno, &row))
		return;
	b->rows += row.alive;
	if (!zen_indexentry_is_wanted(e))
		return;
	zen_indexentry_form(e);
	give_entry(b, tidno, e->values, e->isnull, row.alive);
}

/* The same for all tuples of a block. */
static void
build_block(Build *b, BlockNumber block, bool believe)
{
	IndexKeys  *keys = &b->keys;
	uint64		first = (uint64) block * ZEN_TIDS_PER_BLOCK;
	uint64		left = PG_UINT64_MAX;

	if (keys->n > 0)
	{
		keys->found = zen_row_look_block(b->ht, block, believe, read_entry, keys, &keys->apart);
		for (uint64 bits = keys->found; bits != 0; bits &= bits - 1)
		{
			int			i = pg_rightmost_one_pos64(bits);

			give_entry(b, first + i, &keys->values[i * keys->n], &keys->isnull[i * keys->n], true);
		}
		b->rows += pg_popcount64(keys->found);
		left = keys->apart;
	}
	else
		zen_row_prefetch_block(b->ht, block);
	for (; left != 0; left &= left - 1)
		build_row(b, first + pg_rightmost_one_pos64(left));
}

/* Give the index an entry for each row that it needs, of all blocks or of a parallel scan's.  Returns the rows. */
static double
zenam_index_build_range_scan(Relation table_rel, Relation index_rel, struct IndexInfo *index_info,
							 bool allow_sync, bool anyvisible, bool progress, BlockNumber start_blockno,
							 BlockNumber numblocks, IndexBuildCallback callback, void *callback_state,
							 TableScanDesc scan)
{
	Build		b = {.ht = zen_rel_htable_raw(table_rel),.index = index_rel,
	.callback = callback,.callback_state = callback_state};
	BlockNumber block;
	BlockNumber done = 0;
	bool		believe;

	ZenAssertNotInEpoch();
	Assert(CheckRelationLockedByMe(table_rel, AccessShareLock, true));
	zen_index_before_build(table_rel, index_rel);
	if (zen_index_is_tree(index_rel) && !IsParallelWorker() && !zen_htable_flag(b.ht, ZEN_HTF_TREES))
		zen_htable_set_flag(b.ht, ZEN_HTF_TREES, true);
	begin_build(&b, table_rel, index_info, start_blockno, numblocks, scan);

	/* a rebuild after a crash: the start has just looked at all rows */
	believe = !zen_reindex_is_sound(b.ht);
	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, zen_tidmap_nblocks(b.ht));
	while (zen_scan_next_block(b.scan, &block))
	{
		if (progress)
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, scan != NULL ? block : done++);
		build_block(&b, block, believe);
	}
	zen_key_fill_end(&b.fill);
	/* a parallel worker's scan is ours to end, too */
	table_endscan(b.scan);
	if (b.own_snapshot)
		UnregisterSnapshot(b.snapshot);
	zen_indexentry_end(&b.entry);
	return b.rows;
}

/* ---------- a hot standby ---------- */

void
zen_build_settled(Relation table, IndexInfo *info, Relation index, IndexBuildCallback give, void *build,
				  void (*other) (uint64 tidno, void *arg), void *arg)
{
	ZenHTable  *ht = zen_rel_htable_raw(table);
	uint64		nblocks = zen_tidmap_nblocks(ht);
	IndexKeys	keys = {0};

	ZenAssertNotInEpoch();
	prepare_keys(&keys, table, info);
	for (uint64 block = 0; block < nblocks; block++)
	{
		uint64		first = block * ZEN_TIDS_PER_BLOCK;

		CHECK_FOR_INTERRUPTS();
		keys.found = 0;
		keys.apart = PG_UINT64_MAX;
		if (keys.n > 0)
			keys.found = zen_row_look_block(ht, block, false, read_entry, &keys, &keys.apart);
		for (uint64 bits = keys.found; bits != 0; bits &= bits - 1)
		{
			int			i = pg_rightmost_one_pos64(bits);
			ItemPointerData tid;

			zen_make_tid(&tid, first + i, 0);
			give(index, &tid, &keys.values[i * keys.n], &keys.isnull[i * keys.n], true, build);
		}
		for (uint64 left = keys.apart; left != 0; left &= left - 1)
			other(first + pg_rightmost_one_pos64(left), arg);
	}
}

/* ---------- CREATE INDEX CONCURRENTLY, third step ---------- */

/* Advance in the sorted list of the TIDs in the index to the first that is not below tid; true if that is tid. */
static bool
index_has_tid(struct ValidateIndexState *state, bool *exhausted, int64 *current, int64 wanted)
{
	while (!*exhausted && *current < wanted)
	{
		Datum		value;
		bool		isnull;

		if (!zen_tuplesort_getdatum(state->tuplesort, &value, &isnull))
			*exhausted = true;
		else
		{
			*current = DatumGetInt64(value);
#ifndef USE_FLOAT8_BYVAL
			pfree(DatumGetPointer(value));
#endif
		}
	}
	Assert(*exhausted || *current >= wanted);
	return !*exhausted && *current == wanted;
}

/* Enter the rows that the snapshot sees, and that the index's sorted TIDs lack. */
static void
zenam_index_validate_scan(Relation table_rel, Relation index_rel, struct IndexInfo *index_info,
						  Snapshot snapshot, struct ValidateIndexState *state)
{
	ZenHTable  *ht = zen_rel_htable_raw(table_rel);
	ZenIndexEntry e;
	TableScanDesc scan;
	bool		exhausted = false;
	int64		current = -1;
	BlockNumber block;

	Assert(IsMVCCSnapshot(snapshot));
	Assert(CheckRelationLockedByMe(table_rel, ShareUpdateExclusiveLock, true));
	zen_indexentry_begin(&e, table_rel, index_info);
	scan = zen_scan_begin_raw(table_rel, snapshot, 0, InvalidBlockNumber);
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, zen_tidmap_nblocks(ht));
	while (zen_scan_next_block(scan, &block))
	{
		zen_row_prefetch_block(ht, block);
		for (int i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
		{
			ItemPointerData tid;
			ZenFetch	f = {.ht = ht,.tidno = (uint64) block * ZEN_TIDS_PER_BLOCK + i,.snapshot = snapshot,
			.code = ZEN_ANY_CODE,.row = zenam_slot_row(e.slot)};

			CHECK_FOR_INTERRUPTS();
			if (!zen_row_fetch(&f))
				continue;
			zenam_slot_store(e.slot, RelationGetRelid(table_rel));
			state->htups += 1;
			zen_make_tid(&tid, f.tidno, 0);
			if (index_has_tid(state, &exhausted, &current, itemptr_encode(&tid)) || !zen_indexentry_is_wanted(&e))
				continue;
			zen_indexentry_form(&e);
			index_insert(index_rel, e.values, e.isnull, &tid, table_rel,
						 index_info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false, index_info);
			state->tups_inserted += 1;
		}
	}
	table_endscan(scan);
	zen_indexentry_end(&e);
}

void
zenam_build_callbacks(TableAmRoutine *routine)
{
	routine->index_build_range_scan = zenam_index_build_range_scan;
	routine->index_validate_scan = zenam_index_validate_scan;
}
