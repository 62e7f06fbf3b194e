/*
 * zenam_maint.c -- VACUUM, ANALYZE, index builds.
 *
 * VACUUM has one thing to do: make dead TIDs usable again.  Old versions and slots go without it (gc/collect.c).  It
 * marks DEAD words as DYING, lets every index remove the entries that lead to them, and makes them UNUSED.  The test
 * is one look at the word: no list of TIDs has to fit into memory.  If it ends early, DYING words wait for the next
 * one.
 *
 * An index entry leads to a logical tuple, so an index build has one entry per tuple with a version that some
 * snapshot may still see.  Versions of one tuple agree in all columns that were indexed when they were written.  A
 * new index may index others, so older versions mean a broken chain, as for heap.
 */
#include "table/zenam_callbacks.h"

#include "access/multixact.h"
#include "access/parallel.h"
#include "access/transam.h"
#include "access/xact.h"
#include "base/epoch.h"
#include "cache/spillmap.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "commands/dbcommands.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "gc/reclaim.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "recovery/gate.h"
#include "recovery/recovery.h"
#include "row/visibility.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "table/indexentry.h"
#include "table/indexkeys.h"
#include "table/indexvacuum.h"
#include "table/keyfill.h"
#include "table/treeindex.h"
#include "table/zenam_reindex.h"
#include "table/zenam_rel.h"
#include "table/zenam_scan.h"
#include "table/zenam_slot.h"
#include "table/zenam_unlogged.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

/* ---------- VACUUM ---------- */

typedef struct VacuumCounts
{
	double		live;
	uint64		dead;			/* TIDs to be removed from the indexes */
	uint64		remaining;		/* dead TIDs left alone */
} VacuumCounts;

/* Change a word's state, if it still has the one given. */
static bool
change_state(ZenWord *word, uint64 from, uint64 to)
{
	uint64		w = zen_word_lock(word);
	bool		is = zen_word_state(w) == from;

	if (is)
		w = zen_word_with(w, to, zen_word_ref(w));
	/* VACUUM makes these two transitions, and no other */
	Assert((from == ZEN_WORD_DEAD && to == ZEN_WORD_DYING) || (from == ZEN_WORD_DYING && to == ZEN_WORD_UNUSED));
	ZenAssertWordLocked(word);
	zen_word_unlock(word, w);
	return is;
}

/*
 * Is there a row, as far as is known now?  As for heap, a row whose insertion is not committed does not count; a row
 * whose deletion is not committed does.
 */
static bool
is_live(ZenHTable *ht, uint64 tidno, ZenWord *word)
{
	bool		live = true;
	ZenSpilledChain space;
	ZenVersion *head;
	uint64		w;

	zen_epoch_enter();
	head = zen_spillmap_word_chain(ht, tidno, word, &w, &space);
	if (head != NULL)
	{
		ZenVersion *top = zen_top_version(head);

		if (top == NULL)
			live = false;
		else if (zen_version_state(top) == ZEN_XID_IN_PROGRESS)
			live = top->older != NULL;
		else
			live = !(zen_version_flags(top) & ZEN_V_TOMBSTONE);
	}
	zen_epoch_leave();
	return live;
}

/* First pass: count, and mark dead TIDs. */
static void
mark_dead(ZenHTable *ht, uint64 ntids, bool remove, VacuumCounts *counts)
{
	for (uint64 t = 0; t < ntids; t++)
	{
		ZenWord    *word = zen_tidmap_word(ht, t);
		uint64		state = zen_word_state(zen_word_read(word));

		Assert(word != NULL);
		if (t % ZEN_TIDS_PER_BLOCK == 0)
		{
			zen_vacuum_delay_point();
			pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, t / ZEN_TIDS_PER_BLOCK);
		}
		if (state == ZEN_WORD_NVM || state == ZEN_WORD_ENTRY || state == ZEN_WORD_SPILLED)
			counts->live += is_live(ht, t, word);
		else if (state == ZEN_WORD_DYING ||
				 (state == ZEN_WORD_DEAD && remove && change_state(word, ZEN_WORD_DEAD, ZEN_WORD_DYING)))
			counts->dead++;
		else if (state == ZEN_WORD_DEAD)
			counts->remaining++;
	}
}

/* Last pass: no index knows the DYING ones any more.  Lists blocks with room for new rows. */
static void
free_dead(ZenHTable *ht, uint64 ntids, bool indexes_clean)
{
	uint32		nblocks = (uint32) (ntids / ZEN_TIDS_PER_BLOCK);
	uint32	   *with_room = palloc_extended(Max(nblocks, 1) * sizeof(uint32), MCXT_ALLOC_HUGE);
	uint32		n = 0;

	for (uint32 b = nblocks; b-- > 0;)
	{
		bool		room = false;

		for (uint32 i = 0; i < ZEN_TIDS_PER_BLOCK; i++)
		{
			ZenWord    *word = zen_tidmap_word(ht, (uint64) b * ZEN_TIDS_PER_BLOCK + i);
			uint64		w;

			if (indexes_clean && zen_word_state(zen_word_read(word)) == ZEN_WORD_DYING)
				change_state(word, ZEN_WORD_DYING, ZEN_WORD_UNUSED);
			w = zen_word_read(word);
			room |= zen_word_state(w) == ZEN_WORD_UNUSED && zen_word_ref(w) == 0;
		}
		if (room)
			with_room[n++] = b;
	}
	Assert(n <= nblocks);
	zen_tidmap_set_free_blocks(ht, with_room, n);
	pfree(with_room);
}

static bool
tid_is_dying(ItemPointer tid, void *state)
{
	ZenWord    *word = zen_tidmap_word((ZenHTable *) state, zen_tidno(tid));

	return word != NULL && zen_word_state(zen_word_read(word)) == ZEN_WORD_DYING;
}

/* The end of a subtransaction in an error takes the report of progress away. */
static void
report_progress_again(Relation rel, uint64 ntids)
{
	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));
	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, ntids / ZEN_TIDS_PER_BLOCK);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, ntids / ZEN_TIDS_PER_BLOCK);
}

/* Have every index remove its entries and clean up.  False if one was given up. */
static bool
vacuum_indexes(Relation rel, Relation *indexes, int nindexes, const VacuumCounts *counts, bool remove,
			   BufferAccessStrategy strategy, int elevel)
{
	ZenHTable  *ht = zen_rel_htable_raw(rel);
	bool		all = true;

	for (int i = 0; i < nindexes; i++)
	{
		ZenIndexVacuum v = {.table = rel};
		IndexBulkDeleteResult *stats;

		v.info.index = indexes[i];
		zen_set_vacuum_table(&v.info, rel);
		v.info.report_progress = false;
		v.info.estimated_count = false;
		v.info.message_level = elevel;
		v.info.num_heap_tuples = counts->live;
		v.info.strategy = strategy;
		v.arg = ht;
		if (remove && counts->dead > 0)
			v.is_dead = tid_is_dying;
		pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, v.is_dead != NULL ?
									 PROGRESS_VACUUM_PHASE_VACUUM_INDEX : PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
		if (!zen_index_vacuum(&v, &stats))
		{
			all = false;
			report_progress_again(rel, zen_tidmap_nblocks(ht) * ZEN_TIDS_PER_BLOCK);
			continue;
		}
		if (stats != NULL && !stats->estimated_count)
			zen_vac_update_relstats(indexes[i], stats->num_pages, stats->num_index_tuples, false,
									InvalidTransactionId, InvalidMultiXactId);
		if (stats != NULL)
			pfree(stats);
	}
	return all;
}

/*
 * zen freezes by itself, so its tables have neither xid nor multixact to show.  But a rewrite gives both to a table of
 * any access method.  As long as a table has them, VACUUM must advance them, or the server runs out of xids some day.
 */
static void
choose_frozen(Relation rel, TransactionId *xid, MultiXactId *multi)
{
	*xid = TransactionIdIsNormal(rel->rd_rel->relfrozenxid) ? GetOldestNonRemovableTransactionId(rel) :
		InvalidTransactionId;
	*multi = MultiXactIdIsValid(rel->rd_rel->relminmxid) ? GetOldestMultiXactId() : InvalidMultiXactId;
}

/*
 * VACUUM of all tables, and autovacuum, leave out all zen tables when recovery has failed, and after a crash a table
 * whose indexes are still to be rebuilt.  Such a table is the worker's, which reports its errors; and functions in its
 * indexes may not run here, where snapshots protect nothing (PROC_IN_VACUUM).  Tables named have come through
 * admin/named.c before.
 */
static bool
leave_out(Relation rel)
{
	int			elevel = AmAutoVacuumWorkerProcess() ? DEBUG1 : WARNING;

	if (pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_FAILED)
		ereport(elevel,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not vacuumed: recovery of the zen pool has failed", RelationGetRelationName(rel)),
				 errhint("See the server log for the reason, mend it, and restart the server.")));
	else if (!zen_reindex_is_passed(zen_rel_htable_raw(rel)))
		ereport(elevel,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not vacuumed: its indexes are not rebuilt yet after the crash",
						RelationGetRelationName(rel)),
				 errhint("VACUUM the table by its name to have them rebuilt first.")));
	else
		return false;
	return true;
}

void
zenam_relation_vacuum(Relation rel, struct VacuumParams *params, BufferAccessStrategy bstrategy)
{
	ZenHTable  *ht;
	int			elevel = (params->options & VACOPT_VERBOSE) ? INFO : DEBUG2;
	bool		remove = params->index_cleanup != VACOPTVALUE_DISABLED;
	VacuumCounts counts = {0};
	TimestampTz started = GetCurrentTimestamp();
	Relation   *indexes;
	int			nindexes;
	bool		clean;
	uint64		ntids;
	TransactionId frozen_xid;
	MultiXactId frozen_multi;

	ZenAssertNotInEpoch();
	Assert(CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true));
	if (leave_out(rel))
		return;
	zen_gate();
	ht = zen_rel_htable_raw(rel);
	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));
	ereport(elevel,
			(errmsg("vacuuming \"%s.%s.%s\"", get_database_name(MyDatabaseId),
					get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel))));

	zen_reclaim_all();
	zen_reclaim_pages();
	ntids = zen_tidmap_nblocks(ht) * ZEN_TIDS_PER_BLOCK;
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, ntids / ZEN_TIDS_PER_BLOCK);
	vac_open_indexes(rel, RowExclusiveLock, &nindexes, &indexes);
	mark_dead(ht, ntids, remove || nindexes == 0, &counts);
	clean = vacuum_indexes(rel, indexes, nindexes, &counts, remove, bstrategy, elevel) && (remove || nindexes == 0);
	free_dead(ht, ntids, clean);
	/* the words that are left stay DYING: autovacuum comes again */
	if (!clean)
		counts.remaining += counts.dead;
	Assert(!clean || remove || nindexes == 0);
	vac_close_indexes(nindexes, indexes, NoLock);
	zen_rel_extend_file(rel, (BlockNumber) (ntids / ZEN_TIDS_PER_BLOCK));

	choose_frozen(rel, &frozen_xid, &frozen_multi);
	zen_vac_update_relstats(rel, (BlockNumber) (ntids / ZEN_TIDS_PER_BLOCK), counts.live, nindexes > 0,
							frozen_xid, frozen_multi);
	zen_report_vacuum(rel, (PgStat_Counter) counts.live, (PgStat_Counter) counts.remaining, started);
	ereport(elevel,
			(errmsg("table \"%s\": removed " UINT64_FORMAT " dead row identifiers from %d indexes, %.0f rows remain",
					RelationGetRelationName(rel), clean ? counts.dead : 0, nindexes, counts.live)));
	pgstat_progress_end_command();
}

/* ---------- ANALYZE ---------- */

bool
zenam_scan_analyze_next_block(TableScanDesc sscan, ZEN_ANALYZE_SAMPLE)
{
	BlockNumber block = zen_next_sample_block(sample);

	if (block == InvalidBlockNumber)
		return false;
	zen_scan_set_block(sscan, block);
	return true;
}

bool
zenam_scan_analyze_next_tuple(TableScanDesc sscan, TransactionId oldest_xmin, double *liverows,
							  double *deadrows, TupleTableSlot *slot)
{
	ZenHTable  *ht = zen_rel_htable_raw(sscan->rs_rd);
	uint64		tidno;

	while (zen_scan_next_in_block(sscan, &tidno))
	{
		bool		dead;

		if (zen_row_sample(ht, tidno, zenam_slot_row(slot), &dead))
		{
			zenam_slot_store(slot, RelationGetRelid(sscan->rs_rd));
			(*liverows)++;
			return true;
		}
		*deadrows += dead;
	}
	ExecClearTuple(slot);
	return false;
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

	/*
	 * an older version that some snapshot sees may differ in this index's
	 * columns
	 */
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
	ZenIndexKeys keys;			/* of a block */
	ZenKeyFill	fill;			/* for the key cache */
	double		rows;			/* that count for reltuples */
} Build;

/* Scan is NULL, or a parallel worker's, with its snapshot. */
static void
begin_build(Build *b, Relation table, IndexInfo *info, TableScanDesc scan)
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
	b->scan = scan != NULL ? scan : zen_scan_begin_raw(table, b->snapshot);
	if (!IsMVCCSnapshot(b->snapshot))
		b->oldest_xmin = GetOldestNonRemovableTransactionId(table);
	zen_indexentry_begin(&b->entry, table, info);
	zen_indexkeys_begin(&b->keys, table, info);
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
	ZenIndexKeys *keys = &b->keys;
	uint64		first = (uint64) block * ZEN_TIDS_PER_BLOCK;
	uint64		left = PG_UINT64_MAX;

	if (keys->n > 0)
	{
		zen_indexkeys_read(keys, b->ht, block, believe);
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

double
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
	zen_index_before_build(table_rel);
	zen_index_note_build(index_rel);
	if (zen_index_is_tree(index_rel) && !IsParallelWorker())
		zen_htable_note_trees(b.ht);
	begin_build(&b, table_rel, index_info, scan);

	/*
	 * a rebuild after a crash comes when the start has just looked at all
	 * rows
	 */
	believe = !zen_reindex_is_sound(b.ht);
	if (!(start_blockno == 0 && numblocks == InvalidBlockNumber))
		zen_scan_set_blocks(b.scan, start_blockno, numblocks);
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
	zenam_scan_end(b.scan);
	if (b.own_snapshot)
		UnregisterSnapshot(b.snapshot);
	zen_indexkeys_end(&b.keys);
	zen_indexentry_end(&b.entry);
	return b.rows;
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

void
zenam_index_validate_scan(Relation table_rel, Relation index_rel, struct IndexInfo *index_info,
						  Snapshot snapshot, struct ValidateIndexState *state)
{
	ZenHTable  *ht = zen_rel_htable_raw(table_rel);
	ZenIndexEntry e;
	TableScanDesc scan;
	bool		exhausted = false;
	int64		current = -1;
	uint64		tidno;

	Assert(IsMVCCSnapshot(snapshot));
	Assert(CheckRelationLockedByMe(table_rel, ShareUpdateExclusiveLock, true));
	zen_indexentry_begin(&e, table_rel, index_info);
	scan = zen_scan_begin_raw(table_rel, snapshot);
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, zen_tidmap_nblocks(ht));
	while (zen_scan_next(scan, &tidno))
	{
		ItemPointerData tid;
		ZenFetch	f = {.ht = ht,.tidno = tidno,.snapshot = snapshot,.code = ZEN_ANY_CODE};

		CHECK_FOR_INTERRUPTS();
		f.row = zenam_slot_row(e.slot);
		if (!zen_row_fetch(&f))
			continue;
		zenam_slot_store(e.slot, RelationGetRelid(table_rel));
		state->htups += 1;
		zen_make_tid(&tid, tidno, 0);
		if (index_has_tid(state, &exhausted, &current, itemptr_encode(&tid)) || !zen_indexentry_is_wanted(&e))
			continue;
		zen_indexentry_form(&e);
		index_insert(index_rel, e.values, e.isnull, &tid, table_rel,
					 index_info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false, index_info);
		state->tups_inserted += 1;
	}
	zenam_scan_end(scan);
	zen_indexentry_end(&e);
}
