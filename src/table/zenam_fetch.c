/*
 * zenam_fetch.c -- one row in a slot: fetched by TID, for an index scan or a scan of the table.
 *
 * Serializable reads follow heap: a relation lock for sequential scans, else a lock on each TID read; and each newer
 * version that was passed over is a conflict out.
 */
#include "table/zenam_fetch.h"

#include "access/htup_details.h"
#include "access/subtrans.h"
#include "access/transam.h"
#include "access/xact.h"
#include "base/epoch.h"
#include "cache/tidmap.h"
#include "recovery/gate.h"
#include "row/rowahead.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "table/indexahead.h"
#include "table/scancolumns.h"
#include "table/zenam_callbacks.h"
#include "table/zenam_rel.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* ---------- one row ---------- */

static ZenPassed passed;		/* reused; see zen_fetch() */

/* SSI: the row was read; newer versions were passed over. */
static void
note_conflicts(Relation rel, Snapshot snapshot)
{
	for (uint32 i = 0; i < passed.n; i++)
	{
		TransactionId xid = passed.xids[i];

		if (TransactionIdPrecedes(xid, TransactionXmin))
			continue;
		xid = SubTransGetTopmostTransaction(xid);
		if (TransactionIdPrecedes(xid, TransactionXmin))
			continue;
		CheckForSerializableConflictOut(rel, xid, snapshot);
	}
}

bool
zen_fetch(Relation rel, ZenFetch *f, TupleTableSlot *slot, ZenReadKind kind)
{
	bool		conflicts = CheckForSerializableConflictOutNeeded(rel, f->snapshot);
	bool		found;

	zen_gate_snapshot(f->ht, f->snapshot);
	f->row = zenam_slot_row(slot);
	f->passed = conflicts ? &passed : NULL;
	found = kind == ZEN_READ_POINT ? zen_row_read(f) : zen_row_fetch(f);
	Assert(!found || zen_tidno(&f->row->tid) == f->tidno);
	if (conflicts)
	{
		if (found && kind != ZEN_READ_TABLE)
		{
			/*
			 * A writer that replaces this version conflicts with the reader,
			 * one that replaces its successor does not.  No lock is taken if
			 * the whole table is locked.
			 */
			PredicateLockTID(rel, &f->row->tid, f->snapshot, f->row->xmin);
			found = zen_row_fetch(f);
		}
		note_conflicts(rel, f->snapshot);
	}
	if (found)
		zenam_slot_store(slot, RelationGetRelid(rel));
	return found;
}

/* An output plugin reads by a snapshot of the past, whose row versions zen does not keep (zen_horizon_look). */
void
zen_refuse_while_decoding(Relation rel)
{
	if (unlikely(HistoricSnapshotActive()))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("zen table \"%s\" cannot be read while changes are decoded", RelationGetRelationName(rel)),
				 errhint("Use heap for tables that an output plugin reads.")));
}

/* ---------- index scan ---------- */

typedef struct ZenIndexFetch
{
	IndexFetchTableData base;
	ZenHTable  *ht;
	BlockNumber block;			/* of the last row */
	ZenIndexAhead ahead;
	ZenIndexSeen *seen;			/* of an index-only scan */
	uint32		visible;		/* rows of an index-only scan, not counted yet */
	bool		shows_parts;	/* zen_fetch_show_parts() */
	ZenScanColumns columns;
} ZenIndexFetch;

static IndexFetchTableData *
zenam_index_fetch_begin(Relation rel)
{
	ZenIndexFetch *f = palloc0(sizeof(ZenIndexFetch));

	ZenAssertNotInEpoch();
	Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
	zen_refuse_while_decoding(rel);
	f->base.rel = rel;
	f->ht = zen_rel_htable(rel);
	f->block = InvalidBlockNumber;
	return &f->base;
}

static void
zenam_index_fetch_reset(IndexFetchTableData *data)
{
	ZenIndexFetch *index = (ZenIndexFetch *) data;

	memset(&index->ahead, 0, sizeof(index->ahead));
	if (index->seen != NULL)
		zen_index_seen_begin(index->seen);
	if (index->visible > 0)
		zen_row_count_scanned(index->ht, index->visible, 0);
	index->visible = 0;
}

static void
zenam_index_fetch_end(IndexFetchTableData *data)
{
	ZenIndexFetch *index = (ZenIndexFetch *) data;

	zenam_index_fetch_reset(data);
	if (index->seen != NULL)
		pfree(index->seen);
	pfree(data);
}

static TransactionId sees_twice = InvalidTransactionId;

bool
zen_fetch_sees_key_twice(void)
{
	return TransactionIdIsValid(sees_twice) && sees_twice == GetTopTransactionIdIfAny();
}

/*
 * A check of a unique index has found nothing under a TID: this transaction's row may have the key.  If the
 * transaction's snapshot does see a row there, another transaction has deleted it since, and this transaction's row is
 * a second one with the key.
 */
static void
note_key_seen_twice(ZenFetch *f)
{
	SnapshotData snapshot = *GetTransactionSnapshot();

	snapshot.curcid = InvalidCommandId; /* the own changes are no others' */
	f->snapshot = &snapshot;
	f->passed = NULL;
	if (zen_row_fetch(f))
		sees_twice = GetTopTransactionIdIfAny();
}

static bool
fetch_indexed(IndexFetchTableData *data, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
			  bool *call_again, bool *all_dead)
{
	ZenIndexFetch *index = (ZenIndexFetch *) data;
	ZenFetch	f = {.ht = index->ht,.tidno = zen_tidno(tid),.snapshot = snapshot,.code = ZEN_ANY_CODE};
	bool		found;

	*call_again = false;
	if (ItemPointerGetBlockNumber(tid) != index->block)
	{
		index->block = ItemPointerGetBlockNumber(tid);
		zen_count_block(data->rel);
	}
	if (index->shows_parts && zen_scancolumns_next(&index->columns, slot) &&
		zen_scancolumns_read_row(&index->columns, &f, RelationGetRelid(data->rel), slot))
	{
		if (all_dead != NULL)
			*all_dead = false;
		*tid = slot->tts_tid;
		return true;
	}
	found = zen_fetch(data->rel, &f, slot, ZEN_READ_POINT);
	if (all_dead != NULL)
		*all_dead = f.all_dead;
	if (!found)
	{
		if (snapshot->snapshot_type == SNAPSHOT_DIRTY && IsolationUsesXactSnapshot())
			note_key_seen_twice(&f);
		return false;
	}
	/* as heap does for HOT chains: the caller learns which version it was */
	*tid = slot->tts_tid;
	return true;
}

/* For a scan that wants no row (src/table/README, "Index scans"): ask the map word, and if that is silent, the row. */
static pg_noinline ZenEntrySight
judge_sight(ZenIndexFetch *index, IndexScanDesc scan)
{
	ZenFetch	f = {.ht = index->ht,.tidno = zen_tidno(&scan->xs_heaptid),.snapshot = scan->xs_snapshot,
	.code = ZEN_ANY_CODE};

	if (zen_row_seen(index->ht, &scan->xs_heaptid, 1) != 0)
		return ZEN_ENTRY_SEEN;
	if (zen_row_visible(&f))
		return ZEN_ENTRY_VISIBLE;
	return f.all_dead ? ZEN_ENTRY_DEAD : ZEN_ENTRY_HIDDEN;
}

static pg_noinline void
make_seen(ZenIndexFetch *index)
{
	index->seen = MemoryContextAlloc(GetMemoryChunkContext(index), sizeof(ZenIndexSeen));
	zen_index_seen_begin(index->seen);
}

static inline ZenEntrySight
see_entry(ZenIndexFetch *index, IndexScanDesc scan)
{
	ZenEntrySight sight = ZEN_ENTRY_SEEN;

	Assert(scan->heapRelation == index->base.rel);
	if (unlikely(index->seen == NULL))
	{
		zen_gate_snapshot(index->ht, scan->xs_snapshot);
		make_seen(index);
	}
	if (!zen_index_seen(index->seen, scan, index->ht))
		sight = judge_sight(index, scan);
	index->visible += sight <= ZEN_ENTRY_VISIBLE;
	return sight;
}

void
zen_fetch_show_parts(IndexScanDesc scan)
{
	ZenIndexFetch *index = (ZenIndexFetch *) scan->xs_heapfetch;

	if (index->shows_parts || !IsMVCCSnapshot(scan->xs_snapshot) ||
		CheckForSerializableConflictOutNeeded(index->base.rel, scan->xs_snapshot))
		return;
	index->shows_parts = true;
}

static bool
zenam_index_fetch_tuple(IndexFetchTableData *data, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
						bool *call_again, bool *all_dead)
{
	ZenIndexFetch *index = (ZenIndexFetch *) data;
	IndexScanDesc scan = zen_index_scan_of(data, tid, call_again);

	Assert(zen_tid_has_form(tid));
	Assert(index->ht->in_use);
	if (scan != NULL)
	{
		Assert(scan->heapRelation == data->rel && scan->xs_snapshot == snapshot);
		if (zen_index_wants_no_row(scan))
		{
			ZenEntrySight sight = see_entry(index, scan);

			*call_again = false;
			if (!TTS_EMPTY(slot))
				ExecClearTuple(slot);
			if (all_dead != NULL)
				*all_dead = sight == ZEN_ENTRY_DEAD;
			return sight <= ZEN_ENTRY_VISIBLE;
		}
		zen_index_ahead(&index->ahead, scan, index->ht);
	}
	return fetch_indexed(data, tid, snapshot, slot, call_again, all_dead);
}

ZenEntrySight
zen_fetch_see_entry(IndexScanDesc scan)
{
	ZenEntrySight sight = see_entry((ZenIndexFetch *) scan->xs_heapfetch, scan);

	/* as index_fetch_heap() */
	if (sight == ZEN_ENTRY_DEAD && !scan->xactStartedInRecovery)
		scan->kill_prior_tuple = true;
	return sight;
}

bool
zen_fetch_hinted(Relation rel, ZenHTable *ht, uint64 tidno, Snapshot snapshot, TupleTableSlot *slot)
{
	ZenFetch	f = {.ht = ht,.tidno = tidno,.snapshot = snapshot,.code = ZEN_ANY_CODE};

	ZenAssertNotInEpoch();
	Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
	Assert(IsMVCCSnapshot(snapshot));
	zen_refuse_while_decoding(rel);
	zen_count_block(rel);
	return zen_fetch(rel, &f, slot, ZEN_READ_POINT);
}

/* ---------- by TID ---------- */

static bool
zenam_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	ZenFetch	f = {.tidno = zen_tidno(tid),.snapshot = snapshot,.code = (int) zen_tid_code(tid)};

	if (!zen_tid_has_form(tid))
		return false;
	f.ht = zen_rel_htable(rel);

	/*
	 * by SnapshotAny the executor fetches once more what the statement has
	 * read, to change it or for a trigger
	 */
	return zen_fetch(rel, &f, slot, snapshot->snapshot_type == SNAPSHOT_ANY ? ZEN_READ_TABLE : ZEN_READ_POINT);
}

static bool
zenam_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot)
{
	TupleTableSlot *probe = table_slot_create(rel, NULL);
	ItemPointer tid = &slot->tts_tid;
	ZenFetch	f = {.ht = zen_rel_htable(rel),.tidno = zen_tidno(tid),.snapshot = snapshot,.code = ZEN_ANY_CODE};
	bool		found;

	found = zen_fetch(rel, &f, probe, ZEN_READ_TABLE) && ItemPointerEquals(&probe->tts_tid, tid);
	ExecDropSingleTupleTableSlot(probe);
	return found;
}

/* ---------- deletion of index entries ---------- */

/*
 * An index wants to know which of its entries lead nowhere.  An entry may go when its TID is dead; the TID itself stays
 * dead until VACUUM has seen all indexes.
 */
static TransactionId
zenam_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate)
{
	ZenHTable  *ht = zen_rel_htable_raw(rel);
	int			ndeletable = 0;

	ZenAssertNotInEpoch();
	for (int i = 0; i < delstate->ndeltids; i++)
	{
		TM_IndexStatus *status = &delstate->status[delstate->deltids[i].id];
		ZenWord    *word = zen_tidmap_word(ht, zen_tidno(&delstate->deltids[i].tid));
		uint64		state = word ? zen_word_state(zen_word_read(word)) : ZEN_WORD_UNUSED;

		if (state == ZEN_WORD_DEAD || state == ZEN_WORD_DYING)
			status->knowndeletable = true;
		ndeletable += status->knowndeletable;
	}
	/* a bottom-up deletion that finds nothing must be told so */
	if (delstate->bottomup && ndeletable == 0)
		delstate->ndeltids = 0;
	/* indexes of zen tables write no WAL: no standby can conflict */
	return InvalidTransactionId;
}

static const TupleTableSlotOps *
zenam_slot_callbacks(Relation rel)
{
	return &zenam_slot_ops;
}

void
zenam_fetch_callbacks(TableAmRoutine *routine)
{
	zenam_slot_init();
	routine->slot_callbacks = zenam_slot_callbacks;
	routine->index_fetch_begin = zenam_index_fetch_begin;
	routine->index_fetch_reset = zenam_index_fetch_reset;
	routine->index_fetch_end = zenam_index_fetch_end;
	routine->index_fetch_tuple = zenam_index_fetch_tuple;
	routine->tuple_fetch_row_version = zenam_tuple_fetch_row_version;
	routine->tuple_satisfies_snapshot = zenam_tuple_satisfies_snapshot;
	routine->index_delete_tuples = zenam_index_delete_tuples;
}
