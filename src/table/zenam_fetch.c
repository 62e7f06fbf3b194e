/*
 * zenam_fetch.c -- one row: fetched by TID, for an index scan or a scan of the table.
 *
 * Serializable reads follow heap: a relation lock for sequential scans, else a lock on each TID read; and each newer
 * version that was passed over is a conflict out.
 */
#include "table/zenam_fetch.h"

#include "access/subtrans.h"
#include "access/transam.h"
#include "access/xact.h"
#include "base/epoch.h"
#include "cache/tidmap.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "table/zenam_callbacks.h"
#include "table/zenam_rel.h"
#include "table/zenam_slot.h"
#include "utils/snapmgr.h"

typedef struct ZenIndexFetch
{
	IndexFetchTableData base;
	ZenHTable  *ht;
	BlockNumber block;			/* of the last row */
} ZenIndexFetch;

static ZenPassed passed;		/* reused; see zen_fetch() */

/* ---------- one row ---------- */

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

/*
 * SSI: lock the version that was read, unless the whole table is.  A writer that replaces it conflicts with the
 * reader; one that replaces its successor does not.
 */
static void
lock_version(Relation rel, Snapshot snapshot, ZenRow *row)
{
	PredicateLockTID(rel, &row->tid, snapshot, row->xmin);
}

bool
zen_fetch(Relation rel, ZenFetch *f, TupleTableSlot *slot, ZenReadKind kind)
{
	bool		conflicts = CheckForSerializableConflictOutNeeded(rel, f->snapshot);
	bool		found;

	f->row = zenam_slot_row(slot);
	f->passed = conflicts ? &passed : NULL;
	found = kind == ZEN_READ_POINT ? zen_row_read(f) : zen_row_fetch(f);
	Assert(!found || zen_tidno(&f->row->tid) == f->tidno);
	if (conflicts)
	{
		if (found && kind != ZEN_READ_TABLE)
		{
			lock_version(rel, f->snapshot, f->row);
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

IndexFetchTableData *
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

void
zenam_index_fetch_reset(IndexFetchTableData *data)
{
}

void
zenam_index_fetch_end(IndexFetchTableData *data)
{
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

bool
zenam_index_fetch_tuple(IndexFetchTableData *data, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
						bool *call_again, bool *all_dead)
{
	ZenIndexFetch *index = (ZenIndexFetch *) data;
	ZenFetch	f = {.ht = index->ht,.tidno = zen_tidno(tid),.snapshot = snapshot,.code = ZEN_ANY_CODE};
	bool		found;

	Assert(zen_tid_has_form(tid));
	Assert(index->ht->in_use);
	*call_again = false;
	if (ItemPointerGetBlockNumber(tid) != index->block)
	{
		index->block = ItemPointerGetBlockNumber(tid);
		zen_count_block(data->rel);
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

bool
zenam_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	ZenFetch	f = {.tidno = zen_tidno(tid),.snapshot = snapshot,.code = (int) zen_tid_code(tid)};

	if (!zen_tid_has_form(tid))
		return false;
	f.ht = zen_rel_htable(rel);
	return zen_fetch(rel, &f, slot, ZEN_READ_POINT);
}

bool
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
TransactionId
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
