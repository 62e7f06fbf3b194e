/*
 * zenam_scan.c -- reading: sequential, TID-range, bitmap and sample scans, and ANALYZE.
 *
 * All of them come down to zen_fetch(): one row, one snapshot.  Scans of many rows fetch those of a block (64 TIDs) in
 * one go, as heap does a page's: an MVCC snapshot sees the same of a block whenever it looks, its own transaction's
 * later commands included.
 */
#include "table/zenam_scan.h"

#include "access/relscan.h"
#include "access/tsmapi.h"
#include "base/epoch.h"
#include "cache/tidmap.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "recovery/gate.h"
#include "row/rowread.h"
#include "table/bulkinsert.h"
#include "table/zenam_callbacks.h"
#include "table/zenam_fetch.h"
#include "table/zenam_rel.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#define FEW_ROWS		128		/* rows of a bitmap that are point reads */

typedef struct ZenScan
{
	TableScanDescData base;
	ZenHTable  *ht;
	BlockNumber nblocks;		/* at the scan's start: later blocks hold no
								 * row that the snapshot sees */
	bool		started;
	BlockNumber block;			/* current block */
	int			offset;			/* current TID within it, 0..63 */
	uint64		rows;			/* 0, or those of the current block are in a
								 * slot under this serial number */
	uint64		in_order;		/* of these: bits of rows that a sequential
								 * scan shows next, one after the other, going
								 * forward */
	ParallelBlockTableScanWorkerData *worker;	/* parallel scan, or NULL */

	/* TID-range scan */
	ItemPointerData mintid;
	ItemPointerData maxtid;

	/* bitmap scan */
	uint64		nvisited;		/* TIDs of the bitmap so far */
	uint64		candidates;		/* TIDs of the block to come, as bits */
	bool		recheck;		/* rows of the block are to be checked again */
} ZenScan;

/* zen_fetch() of the logical tuple at a TID, by the snapshot of a scan. */
static bool
fetch_for_scan(ZenScan *scan, uint64 tidno, TupleTableSlot *slot, ZenReadKind kind)
{
	ZenFetch	f = {.ht = scan->ht,.tidno = tidno,.snapshot = scan->base.rs_snapshot,.code = ZEN_ANY_CODE};

	return zen_fetch(scan->base.rs_rd, &f, slot, kind);
}

/* ---------- the rows of a block ---------- */

/*
 * The rows of a block are fetched into the slot that is to show the first.  If the scan goes on with another slot, or
 * another scan has used this one, the block's other rows are fetched one by one.
 */

/* May the rows of a block be fetched ahead?  Not those that a serializable reader must note one by one. */
static inline bool
may_fetch_ahead(ZenScan *scan)
{
	TableScanDesc sscan = &scan->base;

	return IsMVCCSnapshot(sscan->rs_snapshot) &&
		!CheckForSerializableConflictOutNeeded(sscan->rs_rd, sscan->rs_snapshot);
}

/*
 * Fetch the row at a TID of the current block; wanted: the TIDs of the block that will be read.  As zen_fetch() with
 * the same kind.
 */
static bool
fetch_in_block(ZenScan *scan, uint64 tidno, uint64 wanted, TupleTableSlot *slot, ZenReadKind kind)
{
	int			i = (int) (tidno % ZEN_TIDS_PER_BLOCK);
	uint64		bit = UINT64CONST(1) << i;
	ZenRowBlock *rows;

	Assert(tidno / ZEN_TIDS_PER_BLOCK == scan->block);
	if (scan->rows == 0)
	{
		if (!may_fetch_ahead(scan))
			return fetch_for_scan(scan, tidno, slot, kind);
		Assert(wanted & bit);
		rows = zenam_slot_block(slot);
		zen_row_fetch_block(scan->ht, scan->block, wanted, scan->base.rs_snapshot, rows);
		scan->rows = rows->serial;
	}
	else
		rows = zenam_slot_find_block(slot, scan->rows);
	if (rows == NULL || (rows->apart & bit))
		return fetch_for_scan(scan, tidno, slot, kind);
	if (!(rows->found & bit))
		return false;
	zenam_slot_show(slot, &rows->tuples[i], RelationGetRelid(scan->base.rs_rd));
	return true;
}

/* ---------- sequential scan ---------- */

static void
init_scan(ZenScan *scan)
{
	if (scan->base.rs_parallel != NULL)
		scan->nblocks = ((ParallelBlockTableScanDesc) scan->base.rs_parallel)->phs_nblocks;
	else
		scan->nblocks = (BlockNumber) zen_tidmap_nblocks(scan->ht);
	scan->started = false;
	scan->rows = 0;
	scan->in_order = 0;
	scan->candidates = 0;
	scan->nvisited = 0;
	ItemPointerSet(&scan->mintid, 0, 1);
	ItemPointerSet(&scan->maxtid, MaxBlockNumber, MaxOffsetNumber);
	if (scan->base.rs_flags & SO_TYPE_SEQSCAN)
		pgstat_count_heap_scan(scan->base.rs_rd);
}

/* All kinds of scans begin here: of the whole table, a TID range, a sample, a bitmap, or in parallel. */
static TableScanDesc
zenam_scan_begin(Relation rel, Snapshot snapshot, int nkeys, struct ScanKeyData *key,
				 ParallelTableScanDesc pscan, uint32 flags)
{
	ZenScan    *scan = palloc0(sizeof(ZenScan));

	ZenAssertNotInEpoch();
	Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
	Assert(snapshot != NULL || (flags & SO_TYPE_ANALYZE));
	zen_refuse_while_decoding(rel);
	zen_bulk_before_read(rel);
	RelationIncrementReferenceCount(rel);
	scan->base.rs_rd = rel;
	scan->base.rs_snapshot = snapshot;
	scan->base.rs_nkeys = nkeys;
	scan->base.rs_flags = flags;
	scan->base.rs_parallel = pscan;
	if (nkeys > 0)
	{
		scan->base.rs_key = palloc(sizeof(ScanKeyData) * nkeys);
		memcpy(scan->base.rs_key, key, sizeof(ScanKeyData) * nkeys);
	}
	if (pscan != NULL)
		scan->worker = palloc0(sizeof(ParallelBlockTableScanWorkerData));
	scan->ht = zen_rel_htable_raw(rel);
	zen_gate_snapshot(scan->ht, snapshot);

	/*
	 * an index build reads the table to rebuild its indexes: all other
	 * processes wait for that, but ANALYZE, which uses none
	 */
	if (!(flags & SO_TYPE_ANALYZE) && (snapshot == NULL || snapshot->snapshot_type != SNAPSHOT_ANY))
		scan->ht = zen_rel_htable(rel);
	if ((flags & (SO_TYPE_SEQSCAN | SO_TYPE_SAMPLESCAN)) && snapshot != NULL)
		PredicateLockRelation(rel, snapshot);
	init_scan(scan);
	if (flags & SO_TYPE_ANALYZE)
		zen_rel_extend_file(rel, scan->nblocks);
	if ((flags & SO_TYPE_BITMAPSCAN) && scan->nblocks > 0)
		zen_rel_cover_block(rel, scan->nblocks - 1);
	return &scan->base;
}

static void
zenam_scan_end(TableScanDesc sscan)
{
	ZenScan    *scan = (ZenScan *) sscan;

	ZenAssertNotInEpoch();
	RelationDecrementReferenceCount(sscan->rs_rd);
	if (sscan->rs_key)
		pfree(sscan->rs_key);
	if (scan->worker)
		pfree(scan->worker);
	if (sscan->rs_flags & SO_TEMP_SNAPSHOT)
		UnregisterSnapshot(sscan->rs_snapshot);
	pfree(scan);
}

static void
zenam_scan_rescan(TableScanDesc sscan, struct ScanKeyData *key, bool set_params, bool allow_strat,
				  bool allow_sync, bool allow_pagemode)
{
	if (key != NULL && sscan->rs_nkeys > 0)
		memcpy(sscan->rs_key, key, sizeof(ScanKeyData) * sscan->rs_nkeys);
	zen_bulk_before_read(sscan->rs_rd);
	init_scan((ZenScan *) sscan);
}

/* Step to the next block; false at the end. */
static bool
scan_next_block(ZenScan *scan, bool forward)
{
	CHECK_FOR_INTERRUPTS();
	scan->rows = 0;
	scan->in_order = 0;
	if (scan->worker != NULL)
	{
		ParallelBlockTableScanDesc shared = (ParallelBlockTableScanDesc) scan->base.rs_parallel;

		Assert(forward);
		if (!scan->started)
			table_block_parallelscan_startblock_init(scan->base.rs_rd, scan->worker, shared);
		scan->block = table_block_parallelscan_nextpage(scan->base.rs_rd, scan->worker, shared);
		scan->started = true;
		scan->offset = -1;
		if (scan->block == InvalidBlockNumber)
			return false;
		zen_count_block(scan->base.rs_rd);
		return true;
	}
	if (!scan->started)
	{
		if (scan->nblocks == 0)
			return false;
		scan->block = forward ? 0 : scan->nblocks - 1;
		scan->started = true;
	}
	else if (forward)
	{
		if (scan->block + 1 >= scan->nblocks)
			return false;
		scan->block++;
	}
	else
	{
		if (scan->block == 0)
			return false;
		scan->block--;
	}
	Assert(scan->block < scan->nblocks);
	scan->offset = forward ? -1 : ZEN_TIDS_PER_BLOCK;
	zen_count_block(scan->base.rs_rd);
	return true;
}

/* Go on to the next TID number in the table; false at the end, where a later call in the other direction goes on. */
static bool
scan_next_tid(ZenScan *scan, bool forward, uint64 *tidno)
{
	if (!scan->started && !scan_next_block(scan, forward))
		return false;
	for (;;)
	{
		scan->offset += forward ? 1 : -1;
		if (scan->offset >= 0 && scan->offset < ZEN_TIDS_PER_BLOCK)
			break;
		if (!scan_next_block(scan, forward))
		{
			scan->offset = forward ? ZEN_TIDS_PER_BLOCK : -1;
			return false;
		}
	}
	Assert(scan->block < scan->nblocks);
	*tidno = (uint64) scan->block * ZEN_TIDS_PER_BLOCK + scan->offset;
	return true;
}

TableScanDesc
zen_scan_begin_raw(Relation rel, Snapshot snapshot, BlockNumber first, BlockNumber n)
{
	ZenScan    *scan = palloc0(sizeof(ZenScan));

	RelationIncrementReferenceCount(rel);
	scan->base.rs_rd = rel;
	scan->base.rs_snapshot = snapshot;
	scan->ht = zen_rel_htable_raw(rel);
	init_scan(scan);
	if (n != InvalidBlockNumber && (uint64) first + n < scan->nblocks)
		scan->nblocks = first + n;
	if (first > 0)
	{
		scan->started = true;
		scan->block = first - 1;
		scan->offset = ZEN_TIDS_PER_BLOCK;
	}
	return &scan->base;
}

bool
zen_scan_next_block(TableScanDesc sscan, BlockNumber *block)
{
	ZenScan    *scan = (ZenScan *) sscan;

	if (!scan_next_block(scan, true))
		return false;
	*block = scan->block;
	return true;
}

static pg_noinline bool
keys_match(ZenScan *scan, TupleTableSlot *slot)
{
	for (int i = 0; i < scan->base.rs_nkeys; i++)
	{
		ScanKey		key = &scan->base.rs_key[i];
		bool		isnull;
		Datum		value = slot_getattr(slot, key->sk_attno, &isnull);

		if ((key->sk_flags & SK_ISNULL) || isnull ||
			!DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation, value, key->sk_argument)))
			return false;
	}
	return true;
}

/* The TIDs of the current block that are still to come, as bits. */
static inline uint64
tids_ahead(const ZenScan *scan, bool forward)
{
	if (forward)
		return scan->offset >= ZEN_TIDS_PER_BLOCK - 1 ? 0 : PG_UINT64_MAX << (scan->offset + 1);
	return scan->offset <= 0 ? 0 : PG_UINT64_MAX >> (ZEN_TIDS_PER_BLOCK - scan->offset);
}

/*
 * Show the next row of the current block, if the slot has it.  Else stand before the next TID that is to be looked at.
 */
static bool
next_at_hand(ZenScan *scan, bool forward, TupleTableSlot *slot)
{
	ZenRowBlock *rows = scan->rows != 0 ? zenam_slot_find_block(slot, scan->rows) : NULL;
	uint64		ahead;
	int			i;

	if (rows == NULL)
		return false;
	ahead = (rows->found | rows->apart) & tids_ahead(scan, forward);
	if (ahead == 0)
	{
		scan->offset = forward ? ZEN_TIDS_PER_BLOCK - 1 : 0;
		return false;
	}
	i = forward ? pg_rightmost_one_pos64(ahead) : pg_leftmost_one_pos64(ahead);
	if (rows->apart & (UINT64CONST(1) << i))
	{
		scan->offset = forward ? i - 1 : i + 1;
		return false;
	}
	scan->offset = i;
	zenam_slot_show(slot, &rows->tuples[i], RelationGetRelid(scan->base.rs_rd));
	return true;
}

/* Note which rows of the block come next, in order: those behind the current one, up to one that is fetched apart. */
static void
note_in_order(ZenScan *scan, bool forward, TupleTableSlot *slot)
{
	ZenRowBlock *rows = forward && scan->rows != 0 ? zenam_slot_find_block(slot, scan->rows) : NULL;
	uint64		apart;

	scan->in_order = 0;
	if (rows == NULL)
		return;
	apart = rows->apart & tids_ahead(scan, true);
	scan->in_order = rows->found & tids_ahead(scan, true) & ((apart & -apart) - 1);
}

/* Go on to the next row of the table, one that is not the next in order. */
static pg_noinline bool
scan_next_row(ZenScan *scan, bool forward, TupleTableSlot *slot)
{
	uint64		tidno;

	do
	{
		if (next_at_hand(scan, forward, slot))
			break;
		if (!scan_next_tid(scan, forward, &tidno))
			return false;
	} while (!fetch_in_block(scan, tidno, PG_UINT64_MAX, slot, ZEN_READ_TABLE));
	note_in_order(scan, forward, slot);
	return true;
}

/* The rows of the current block, if the slot has them still and can show the next in order; else NULL. */
static inline ZenRowBlock *
rows_in_order(const ZenScan *scan, ScanDirection direction, TupleTableSlot *slot)
{
	if (scan->in_order == 0 || ScanDirectionIsBackward(direction) || TTS_SHOULDFREE(slot))
		return NULL;
	return zenam_slot_find_block(slot, scan->rows);
}

/* zenam_scan_getnextslot() in all other cases. */
static pg_noinline bool
scan_next_match(ZenScan *scan, bool forward, TupleTableSlot *slot)
{
	if (scan->worker == NULL || !scan->started || scan->block != InvalidBlockNumber)
	{
		while (scan_next_row(scan, forward, slot))
		{
			if (scan->base.rs_nkeys == 0 || keys_match(scan, slot))
			{
				pgstat_count_heap_getnext(scan->base.rs_rd);
				return true;
			}
		}
	}
	ExecClearTuple(slot);
	return false;
}

/* The common case calls nothing, and so needs no stack frame. */
static bool
zenam_scan_getnextslot(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot)
{
	ZenScan    *scan = (ZenScan *) sscan;
	ZenRowBlock *rows = rows_in_order(scan, direction, slot);

	if (unlikely(rows == NULL || sscan->rs_nkeys != 0 || sscan->rs_rd->pgstat_info == NULL))
		return scan_next_match(scan, !ScanDirectionIsBackward(direction), slot);
	pgstat_count_heap_getnext(sscan->rs_rd);
	scan->offset = pg_rightmost_one_pos64(scan->in_order);
	scan->in_order &= scan->in_order - 1;
	zenam_slot_point(slot, &rows->tuples[scan->offset], RelationGetRelid(sscan->rs_rd));
	return true;
}

bool
zen_scan_next_rows(TableScanDesc sscan, TupleTableSlot *slot, const ZenRowView *view, ZenScanRows *rows)
{
	ZenScan    *scan = (ZenScan *) sscan;

	Assert(scan->worker == NULL && sscan->rs_nkeys == 0);
	rows->block = NULL;
	rows->found = rows->apart = 0;
	rows->viewed = -1;
	if (!scan_next_block(scan, true))
	{
		ExecClearTuple(slot);
		return false;
	}
	if (!may_fetch_ahead(scan))
	{
		rows->apart = PG_UINT64_MAX;
		return true;
	}
	if (view != NULL)
		rows->viewed = zen_row_view_block(scan->ht, scan->block, view);
	if (rows->viewed < 0)
	{
		rows->block = zenam_slot_block(slot);
		zen_row_fetch_block(scan->ht, scan->block, PG_UINT64_MAX, sscan->rs_snapshot, rows->block);
		rows->found = rows->block->found;
		rows->apart = rows->block->apart;
	}

	/* named after indexes, but adds as pgstat_count_heap_getnext() does */
	pgstat_count_index_tuples(sscan->rs_rd, rows->viewed < 0 ? pg_popcount64(rows->found) : rows->viewed);
	return true;
}

bool
zen_scan_lone_row(TableScanDesc sscan, TupleTableSlot *slot, int i)
{
	ZenScan    *scan = (ZenScan *) sscan;

	Assert(scan->started && i >= 0 && i < ZEN_TIDS_PER_BLOCK);
	if (!fetch_for_scan(scan, (uint64) scan->block * ZEN_TIDS_PER_BLOCK + i, slot, ZEN_READ_TABLE))
		return false;
	pgstat_count_heap_getnext(sscan->rs_rd);
	return true;
}

/* ---------- TID-range scan ---------- */

static void
zenam_scan_set_tidrange(TableScanDesc sscan, ItemPointer mintid, ItemPointer maxtid)
{
	ZenScan    *scan = (ZenScan *) sscan;

	Assert(scan->worker == NULL);
	scan->mintid = *mintid;
	scan->maxtid = *maxtid;
	scan->nblocks = (BlockNumber) zen_tidmap_nblocks(scan->ht);
	scan->started = false;
	scan->rows = 0;
}

/* The blocks of the range; false if there are none. */
static bool
range_blocks(ZenScan *scan, BlockNumber *first, BlockNumber *last)
{
	if (scan->nblocks == 0 || ItemPointerCompare(&scan->mintid, &scan->maxtid) > 0)
		return false;
	*first = ItemPointerGetBlockNumberNoCheck(&scan->mintid);
	*last = Min(ItemPointerGetBlockNumberNoCheck(&scan->maxtid), scan->nblocks - 1);
	return *first <= *last;
}

/* The next row of the range, in either direction; a scan that has left the range stands at its border. */
static bool
zenam_scan_getnextslot_tidrange(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot)
{
	ZenScan    *scan = (ZenScan *) sscan;
	bool		forward = !ScanDirectionIsBackward(direction);
	BlockNumber first,
				last;

	if (range_blocks(scan, &first, &last))
	{
		uint64		tidno;

		if (!scan->started)
		{
			/* stand just outside the range, so that the first step enters it */
			scan->started = true;
			scan->block = forward ? first : last;
			scan->offset = forward ? -1 : ZEN_TIDS_PER_BLOCK;
			scan->rows = 0;
		}
		while (scan_next_tid(scan, forward, &tidno))
		{
			if (scan->block < first || scan->block > last)
			{
				/* step back onto the border */
				scan->block = scan->block < first ? first : last;
				scan->offset = forward ? ZEN_TIDS_PER_BLOCK : -1;
				break;
			}

			/*
			 * versions carry their code in the offset, so the exact bounds
			 * are tested on the version that was found
			 */
			if (fetch_in_block(scan, tidno, PG_UINT64_MAX, slot, ZEN_READ_RANGE) &&
				ItemPointerCompare(&slot->tts_tid, &scan->mintid) >= 0 &&
				ItemPointerCompare(&slot->tts_tid, &scan->maxtid) <= 0)
			{
				pgstat_count_heap_getnext(sscan->rs_rd);
				return true;
			}
		}
	}
	ExecClearTuple(slot);
	return false;
}

/* ---------- bitmap scan ---------- */

/* Go to a block of the bitmap; false if the table has none of its TIDs. */
static bool
set_bitmap_block(ZenScan *scan, TBMIterateResult *block)
{
	OffsetNumber offsets[ZEN_TIDS_PER_BLOCK];
	int			n;

	scan->candidates = 0;
	scan->rows = 0;
	if (block->blockno >= scan->nblocks)
		return false;
	scan->block = block->blockno;
	zen_count_block(scan->base.rs_rd);
	if (zen_bitmap_is_lossy(block))
		scan->candidates = PG_UINT64_MAX;
	else
	{
		n = zen_bitmap_offsets(block, offsets, ZEN_TIDS_PER_BLOCK);
		for (int i = 0; i < n; i++)
		{
			Assert(offsets[i] >= 1 && offsets[i] <= ZEN_TIDS_PER_BLOCK);
			scan->candidates |= UINT64CONST(1) << (offsets[i] - 1);
		}
	}
	scan->nvisited += pg_popcount64(scan->candidates);
	return scan->candidates != 0;
}

/* The next visible row of the block.  A bitmap of few TIDs counts as some point reads. */
static bool
next_in_bitmap_block(ZenScan *scan, TupleTableSlot *slot)
{
	bool		few = scan->nvisited <= FEW_ROWS;

	while (scan->candidates != 0)
	{
		uint64		wanted = scan->candidates;
		uint64		tidno = (uint64) scan->block * ZEN_TIDS_PER_BLOCK + pg_rightmost_one_pos64(wanted);

		scan->candidates &= wanted - 1;
		if (few ? fetch_for_scan(scan, tidno, slot, ZEN_READ_POINT) :
			fetch_in_block(scan, tidno, wanted, slot, ZEN_READ_RANGE))
		{
			pgstat_count_heap_fetch(scan->base.rs_rd);
			return true;
		}
	}
	ExecClearTuple(slot);
	return false;
}

#if ZEN_AM_DRIVES_BITMAP_SCAN
static bool
zenam_scan_bitmap_next_tuple(TableScanDesc sscan, TupleTableSlot *slot, bool *recheck,
							 uint64 *lossy_pages, uint64 *exact_pages)
{
	ZenScan    *scan = (ZenScan *) sscan;
	TBMIterateResult block;

	while (!next_in_bitmap_block(scan, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (!tbm_iterate(&sscan->st.rs_tbmiterator, &block))
			return false;
		(void) set_bitmap_block(scan, &block);
		scan->recheck = block.recheck;
		if (zen_bitmap_is_lossy(&block))
			(*lossy_pages)++;
		else
			(*exact_pages)++;
	}
	*recheck = scan->recheck;
	return true;
}
#else
static bool
zenam_scan_bitmap_next_block(TableScanDesc sscan, TBMIterateResult *block)
{
	return set_bitmap_block((ZenScan *) sscan, block);
}

static bool
zenam_scan_bitmap_next_tuple(TableScanDesc sscan, TBMIterateResult *block, TupleTableSlot *slot)
{
	return next_in_bitmap_block((ZenScan *) sscan, slot);
}
#endif

/* ---------- sample scan ---------- */

/*
 * A method is asked for one row at a time, since it may look at how many have been shown so far (donetuples).  What it
 * chooses is fetched ahead nevertheless:
 *
 * - A method that chooses blocks (SYSTEM, SYSTEM_ROWS, SYSTEM_TIME) wants most rows of each.  So the first that it asks
 *   for brings all of them.
 * - BERNOULLI chooses each row by a hash of its TID.  So it can be asked for a block's rows at once.
 * - Another method that goes through all blocks may want few rows of each.  They are fetched one by one.
 */
static inline bool
is_bernoulli(const SampleScanState *scanstate)
{
	return castNode(SampleScan, scanstate->ss.ps.plan)->tablesample->tsmhandler == F_BERNOULLI;
}

static bool
zenam_scan_sample_next_block(TableScanDesc sscan, struct SampleScanState *scanstate)
{
	ZenScan    *scan = (ZenScan *) sscan;
	TsmRoutine *tsm = scanstate->tsmroutine;
	OffsetNumber offset;

	CHECK_FOR_INTERRUPTS();
	scan->rows = 0;
	scan->candidates = 0;
	if (scan->nblocks == 0)
		return false;
	if (tsm->NextSampleBlock)
		scan->block = tsm->NextSampleBlock(scanstate, scan->nblocks);
	else if (!scan->started)
		scan->block = 0;
	else
		scan->block = scan->block + 1 < scan->nblocks ? scan->block + 1 : InvalidBlockNumber;
	scan->started = true;
	if (!BlockNumberIsValid(scan->block))
		return false;
	if (is_bernoulli(scanstate))
		while ((offset = tsm->NextSampleTuple(scanstate, scan->block, ZEN_TIDS_PER_BLOCK)) != InvalidOffsetNumber)
			scan->candidates |= UINT64CONST(1) << (offset - 1);
	return true;
}

/* The next row of the block that the method has chosen; false at the end of the block. */
static bool
next_in_sample(ZenScan *scan, struct SampleScanState *scanstate, TupleTableSlot *slot)
{
	TsmRoutine *tsm = scanstate->tsmroutine;
	uint64		first = (uint64) scan->block * ZEN_TIDS_PER_BLOCK;
	OffsetNumber offset;

	while ((offset = tsm->NextSampleTuple(scanstate, scan->block, ZEN_TIDS_PER_BLOCK)) != InvalidOffsetNumber)
	{
		uint64		tidno = first + offset - 1;

		Assert(offset <= ZEN_TIDS_PER_BLOCK);
		if (tsm->NextSampleBlock ? fetch_in_block(scan, tidno, PG_UINT64_MAX, slot, ZEN_READ_TABLE) :
			fetch_for_scan(scan, tidno, slot, ZEN_READ_TABLE))
			return true;
	}
	return false;
}

/* The same, if the rows were chosen before. */
static bool
next_candidate(ZenScan *scan, TupleTableSlot *slot)
{
	uint64		first = (uint64) scan->block * ZEN_TIDS_PER_BLOCK;

	while (scan->candidates != 0)
	{
		uint64		wanted = scan->candidates;

		scan->candidates &= wanted - 1;
		if (fetch_in_block(scan, first + pg_rightmost_one_pos64(wanted), wanted, slot, ZEN_READ_TABLE))
			return true;
	}
	return false;
}

static bool
zenam_scan_sample_next_tuple(TableScanDesc sscan, struct SampleScanState *scanstate, TupleTableSlot *slot)
{
	ZenScan    *scan = (ZenScan *) sscan;

	Assert(scan->started && scan->block < scan->nblocks);
	if (is_bernoulli(scanstate) ? next_candidate(scan, slot) : next_in_sample(scan, scanstate, slot))
	{
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
	ExecClearTuple(slot);
	return false;
}

/* ---------- ANALYZE ---------- */

static bool
zenam_scan_analyze_next_block(TableScanDesc sscan, ZEN_ANALYZE_SAMPLE)
{
	ZenScan    *scan = (ZenScan *) sscan;
	BlockNumber block = zen_next_sample_block(sample);

	if (block == InvalidBlockNumber)
		return false;
	scan->started = true;
	scan->block = block;
	scan->rows = 0;
	zen_count_block(sscan->rs_rd);
	return true;
}

/* Fetch all rows of the block into the slot.  Those that have to be fetched apart are candidates, too. */
static void
sample_block(ZenScan *scan, TupleTableSlot *slot, double *deadrows)
{
	ZenRowBlock *rows = zenam_slot_block(slot);

	*deadrows += zen_row_sample_block(scan->ht, scan->block, rows);
	scan->candidates = rows->found | rows->apart;
	scan->rows = rows->serial;
}

static bool
zenam_scan_analyze_next_tuple(TableScanDesc sscan, TransactionId oldest_xmin, double *liverows, double *deadrows,
							  TupleTableSlot *slot)
{
	ZenScan    *scan = (ZenScan *) sscan;

	Assert(scan->started);
	if (scan->rows == 0)
		sample_block(scan, slot, deadrows);
	while (scan->candidates != 0)
	{
		int			i = pg_rightmost_one_pos64(scan->candidates);
		ZenRowBlock *rows = zenam_slot_find_block(slot, scan->rows);
		bool		dead;

		scan->candidates &= scan->candidates - 1;
		if (rows != NULL && (rows->found & (UINT64CONST(1) << i)) != 0)
			zenam_slot_show(slot, &rows->tuples[i], RelationGetRelid(sscan->rs_rd));
		else if (zen_row_sample(scan->ht, (uint64) scan->block * ZEN_TIDS_PER_BLOCK + i, zenam_slot_row(slot), &dead))
			zenam_slot_store(slot, RelationGetRelid(sscan->rs_rd));
		else
			continue;
		(*liverows)++;
		return true;
	}
	ExecClearTuple(slot);
	return false;
}

/* ---------- by TID ---------- */

static bool
zenam_tuple_tid_valid(TableScanDesc sscan, ItemPointer tid)
{
	ZenScan    *scan = (ZenScan *) sscan;

	return zen_tid_has_form(tid) && ItemPointerGetBlockNumber(tid) < scan->nblocks;
}

static void
zenam_tuple_get_latest_tid(TableScanDesc sscan, ItemPointer tid)
{
	ZenScan    *scan = (ZenScan *) sscan;
	TupleTableSlot *slot;
	uint64		tidno;

	if (!zen_tid_has_form(tid))
		return;
	tidno = zen_tidno(tid);
	while (zen_row_forward(scan->ht, tidno, sscan->rs_snapshot, &tidno))
		;
	slot = table_slot_create(sscan->rs_rd, NULL);
	if (fetch_for_scan(scan, tidno, slot, ZEN_READ_TABLE))
		*tid = slot->tts_tid;
	ExecDropSingleTupleTableSlot(slot);
}

void
zenam_scan_callbacks(TableAmRoutine *routine)
{
	routine->scan_begin = zenam_scan_begin;
	routine->scan_end = zenam_scan_end;
	routine->scan_rescan = zenam_scan_rescan;
	routine->scan_getnextslot = zenam_scan_getnextslot;
	routine->scan_set_tidrange = zenam_scan_set_tidrange;
	routine->scan_getnextslot_tidrange = zenam_scan_getnextslot_tidrange;
	routine->parallelscan_estimate = table_block_parallelscan_estimate;
	routine->parallelscan_initialize = table_block_parallelscan_initialize;
	routine->parallelscan_reinitialize = table_block_parallelscan_reinitialize;
	routine->tuple_tid_valid = zenam_tuple_tid_valid;
	routine->tuple_get_latest_tid = zenam_tuple_get_latest_tid;
	routine->scan_analyze_next_block = zenam_scan_analyze_next_block;
	routine->scan_analyze_next_tuple = zenam_scan_analyze_next_tuple;
#if !ZEN_AM_DRIVES_BITMAP_SCAN
	routine->scan_bitmap_next_block = zenam_scan_bitmap_next_block;
#endif
	routine->scan_bitmap_next_tuple = zenam_scan_bitmap_next_tuple;
	routine->scan_sample_next_block = zenam_scan_sample_next_block;
	routine->scan_sample_next_tuple = zenam_scan_sample_next_tuple;
}
