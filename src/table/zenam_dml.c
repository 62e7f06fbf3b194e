/*
 * zenam_dml.c -- insert, update, delete, lock: the callbacks.
 *
 * Thin over table/zenam_change.c, which attempts a change and waits for other transactions.  This file sees to slots,
 * toasting and statistics, and finds out which columns an update changes.
 */
#include "table/zenam_change.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/epoch.h"
#include "cache/tidmap.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "row/rowmake.h"
#include "row/rowread.h"
#include "table/bulkinsert.h"
#include "table/zenam_callbacks.h"
#include "table/zenam_fetch.h"
#include "table/zenam_rel.h"
#include "table/zenam_stream.h"
#include "table/zenam_toast.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* ---------- tuples ---------- */

/* The heap tuple of a slot, without another table's or transaction's marks. */
static HeapTuple
slot_tuple(Relation rel, TupleTableSlot *slot, bool *should_free)
{
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, true, should_free);

	slot->tts_tableOid = RelationGetRelid(rel);
	tuple->t_tableOid = RelationGetRelid(rel);
	return tuple;
}

/* ---------- a row as it is stored ---------- */

static ZenRow old_row;			/* reused */

/* Fetch exactly the version at tid as a heap tuple; false if it is gone.  ht is the table's. */
static bool
fetch_old(Relation rel, ZenHTable *ht, ItemPointer tid, HeapTuple old)
{
	ZenFetch	f = {.ht = ht,.tidno = zen_tidno(tid),.snapshot = SnapshotAny,
	.code = (int) zen_tid_code(tid),.row = &old_row};

	Assert(ItemPointerIsValid(tid) && ht == zen_rel_htable_raw(rel));
	old_row.mcxt = TopMemoryContext;
	if (!zen_row_fetch(&f))
		return false;
	old->t_data = (HeapTupleHeader) old_row.buf;
	old->t_len = old_row.len;
	old->t_self = *tid;
	old->t_tableOid = RelationGetRelid(rel);
	return true;
}

/* ---------- insert ---------- */

/* A slot's tuple on its way into the table. */
typedef struct NewTuple
{
	HeapTuple	tuple;
	HeapTuple	stored;			/* another one, if long values were moved out */
	bool		should_free;	/* tuple */
} NewTuple;

static inline NewTuple
begin_insert(Relation rel, TupleTableSlot *slot)
{
	NewTuple	new;

	ZenAssertNotInEpoch();
	new.tuple = new.stored = slot_tuple(rel, slot, &new.should_free);
	if (zen_toast_needed(rel, new.tuple))
		new.stored = zen_toast_insert_or_update(rel, new.tuple, NULL);
	return new;
}

/* The tuple is stored: the slot learns its place. */
static inline void
end_insert(NewTuple *new, TupleTableSlot *slot, CommandId cid)
{
	Assert(ItemPointerIsValid(&new->stored->t_self));
	if (new->stored != new->tuple)
	{
		zenam_change_mark(new->tuple, &new->stored->t_self, cid);
		heap_freetuple(new->stored);
	}
	slot->tts_tid = new->tuple->t_self;
	if (new->should_free)
		pfree(new->tuple);
}

/*
 * The hash of the primary key of a row that is to be inserted, which becomes known when it was; false if it has none.
 *
 * The key cache's memory is on its way while the row is inserted.
 */
static inline bool
expect_key(Relation rel, TupleTableSlot *slot, uint64 *hash)
{
	ZenKeyShape key;

	zen_rel_key(rel, &key);
	if (key.ncolumns == 0 || !zen_key_hash_row(&key, slot, hash))
		return false;
	zen_keycache_prefetch(*hash);
	return true;
}

static void
insert_slot(Relation rel, TupleTableSlot *slot, CommandId cid, int options, uint32 spec_token)
{
	NewTuple	new;
	uint64		hash;
	bool		has_key;

	zen_check_change(rel);
	new = begin_insert(rel, slot);
	has_key = expect_key(rel, slot, &hash);
	zenam_change_insert(rel, new.stored, cid, options, spec_token);

	/* a speculative row is logged when it is known to stay */
	if (spec_token == 0 && zenam_stream_logs(rel))
		zenam_stream_insert(rel, &new.stored, 1);
	end_insert(&new, slot, cid);
	if (has_key)
		zen_keycache_fill(hash, zen_tidno(&slot->tts_tid));
	pgstat_count_heap_insert(rel, 1);
}

static void
zenam_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
				   struct BulkInsertStateData *bistate)
{
	if (bistate == NULL || !zen_bulk_insert(rel, slot, cid, options))
		insert_slot(rel, slot, cid, options, 0);
}

static void
zenam_finish_bulk_insert(Relation rel, int options)
{
	zen_bulk_finish(rel);
}

static void
zenam_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
							   struct BulkInsertStateData *bistate, uint32 specToken)
{
	insert_slot(rel, slot, cid, options, specToken);
}

static void
zenam_tuple_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 specToken, bool succeeded)
{
	ZenHTable  *ht = zen_rel_htable(rel);
	HeapTupleData stored;
	HeapTuple	row = &stored;
	bool		log = succeeded && zenam_stream_logs(rel);
	bool		wanted = log || (!succeeded && OidIsValid(rel->rd_rel->reltoastrelid));
	bool		found = wanted && fetch_old(rel, ht, &slot->tts_tid, &stored);

	Assert(ItemPointerIsValid(&slot->tts_tid) && zen_tid_code(&slot->tts_tid) == 0);
	Assert(found == wanted);
	zen_row_complete(ht, zen_tidno(&slot->tts_tid), succeeded);
	if (log)
		zenam_stream_insert(rel, &row, 1);
	else if (found && HeapTupleHasExternal(&stored))
		zen_toast_delete(rel, &stored, true);
}

static void
insert_slots(Relation rel, TupleTableSlot **slots, uint32 n, CommandId cid, int options, ZenKeyFill *fill)
{
	NewTuple	new[ZEN_INSERT_ROWS];
	HeapTuple	stored[ZEN_INSERT_ROWS];

	for (uint32 i = 0; i < n; i++)
	{
		new[i] = begin_insert(rel, slots[i]);
		stored[i] = new[i].stored;
	}
	zenam_change_insert_many(rel, stored, n, cid, options, NULL);
	if (zenam_stream_logs(rel))
		zenam_stream_insert(rel, stored, n);
	for (uint32 i = 0; i < n; i++)
	{
		end_insert(&new[i], slots[i], cid);
		zen_key_fill_add_row(fill, slots[i]);
	}
}

static void
zenam_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid, int options,
				   struct BulkInsertStateData *bistate)
{
	ZenKeyFill	fill;

	zen_check_change(rel);
	zen_rel_key(rel, &fill.shape);
	zen_key_fill_begin(&fill, (uint64) zen_rel_nblocks(rel) * ZEN_TIDS_PER_BLOCK);
	for (int done = 0; done < nslots; done += ZEN_INSERT_ROWS)
		insert_slots(rel, slots + done, (uint32) Min(nslots - done, ZEN_INSERT_ROWS), cid, options, &fill);
	zen_key_fill_end(&fill);
	pgstat_count_heap_insert(rel, nslots);
}

/* ---------- what an update changes ---------- */

/* Is a column (as attribute bitmaps number it) the same, byte by byte, in both rows? */
static bool
column_unchanged(TupleDesc desc, int attnum, HeapTuple old, HeapTuple new)
{
	Datum		a,
				b;
	bool		a_null,
				b_null;
	Form_pg_attribute att;

	if (attnum == 0)
		return false;			/* a whole-row reference: assume the worst */
	if (attnum < 0)
		return attnum == TableOidAttributeNumber;
	a = heap_getattr(old, attnum, desc, &a_null);
	b = heap_getattr(new, attnum, desc, &b_null);
	if (a_null || b_null)
		return a_null == b_null;
	att = TupleDescAttr(desc, attnum - 1);
	return datumIsEqual(a, b, att->attbyval, att->attlen);
}

static bool
columns_unchanged(TupleDesc desc, Bitmapset *columns, HeapTuple old, HeapTuple new)
{
	int			k = -1;

	while ((k = bms_next_member(columns, k)) >= 0)
		if (!column_unchanged(desc, k + FirstLowInvalidHeapAttributeNumber, old, new))
			return false;
	return true;
}

/*
 * The same of all columns that indexes know.
 *
 * The relcache's own sets are looked at, if they are there: nothing here processes invalidations.
 */
static bool
indexed_unchanged(Relation rel, HeapTuple old, HeapTuple new)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *copy;
	bool		unchanged;

	if (likely(zen_has_indexed_attrs(rel)))
		return zen_all_indexed_attrs(rel, columns_unchanged, desc, old, new);
	copy = zen_indexed_attrs(rel);
	unchanged = columns_unchanged(desc, copy, old, new);
	bms_free(copy);
	return unchanged;
}

/*
 * Which lock does the update need, and do indexes need to know the row under a new TID?
 *
 * Columns of summarizing indexes (BRIN) are no exception.  A summary would have only the newer value under the row's
 * TID.  If the update is rolled back after that, the range would not have the older value.
 */
static void
classify_update(Relation rel, HeapTuple old, HeapTuple new, ZenChange *c)
{
	TupleDesc	desc = RelationGetDescr(rel);

	c->mode = LockTupleNoKeyExclusive;
	c->new_tid = !indexed_unchanged(rel, old, new);
	if (c->new_tid)
	{
		Bitmapset  *key = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_KEY);

		if (!columns_unchanged(desc, key, old, new))
			c->mode = LockTupleExclusive;
		bms_free(key);
	}
}

/* ---------- update ---------- */

/*
 * Is a column of the replica identity changed?  A column whose value is stored out of line counts as changed: the new
 * row would only point to that value.  The columns are indexed.
 */
static bool
identity_needed(Relation rel, const ZenChange *c, HeapTuple old, HeapTuple new)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *identity;
	bool		needed = false;
	int			k = -1;

	if (!c->new_tid && !HeapTupleHasExternal(old))
		return false;
	identity = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_IDENTITY_KEY);
	while (!needed && (k = bms_next_member(identity, k)) >= 0)
	{
		int			attnum = k + FirstLowInvalidHeapAttributeNumber;
		bool		isnull;
		Datum		value = heap_getattr(old, attnum, desc, &isnull);

		needed = !column_unchanged(desc, attnum, old, new) ||
			(!isnull && attnum > 0 && TupleDescAttr(desc, attnum - 1)->attlen == -1 &&
			 VARATT_IS_EXTERNAL(DatumGetPointer(value)));
	}
	bms_free(identity);
	return needed;
}

static void
count_update(Relation rel, bool new_tid)
{
#if ZEN_HAS_NEWPAGE_UPDATE_COUNT
	pgstat_count_heap_update(rel, !new_tid, false);
#else
	pgstat_count_heap_update(rel, !new_tid);
#endif

	/* core counts it as dead, but no index holds its TID: take that back */
	if (!new_tid)
		pgstat_update_heap_dead_tuples(rel, 1);
}

/* Lock the row, so that it can be toasted; the result of the lock if it cannot be had. */
static TM_Result
lock_for_toasting(ZenChange *c, ZenWaiter *w)
{
	ZenChange	lock = *c;
	TM_Result	result = zenam_change_lock(&lock, w);

	c->tmfd = lock.tmfd;
	return result;
}

/* The row is updated: give the slot's tuple its new TID, and tell which indexes need an entry. */
static TU_UpdateIndexes
finish_update(Relation rel, ItemPointer otid, const ZenChange *c, HeapTuple tuple, TupleTableSlot *slot)
{
	ItemPointerData tid;

	Assert(c->result_code <= ZEN_MAX_CODE);

	/* a row that has got a new TID is one that indexes must be told of */
	Assert((c->result_tidno != zen_tidno(otid)) == c->indexes_needed);
	zen_make_tid(&tid, c->result_tidno, c->result_code);
	zenam_change_mark(tuple, &tid, c->cid);
	/* as heap: a row that was locked first carries its locker on */
	if (c->held_before)
		tuple->t_data->t_choice.t_heap.t_xmax = GetCurrentTransactionId();
	slot->tts_tid = tid;
	count_update(rel, c->indexes_needed);
	return c->indexes_needed ? TU_All : TU_None;
}

/* Change a row under its TID.  Long values are stored first, and that needs the row's lock. */
static TM_Result
zenam_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid, Snapshot snapshot,
				   Snapshot crosscheck, bool wait, TM_FailureData *tmfd, LockTupleMode *lockmode,
				   TU_UpdateIndexes *update_indexes)
{
	ZenChange	c;
	HeapTupleData old;
	bool		should_free;
	HeapTuple	tuple;
	HeapTuple	stored;
	TM_Result	result = TM_Ok;
	bool		have_old;
	ZenWaiter	w = {.rel = rel,.policy = wait ? LockWaitBlock : LockWaitSkip,.oper = XLTW_Update};

	zenam_change_begin(&c, rel, otid, cid, LockTupleExclusive, crosscheck);
	tuple = stored = slot_tuple(rel, slot, &should_free);
	have_old = fetch_old(rel, c.ht, otid, &old);
	zen_check_change(rel);
	if (have_old)
		classify_update(rel, &old, tuple, &c);
	/* else it is gone, and the attempt will tell how */
	*lockmode = c.mode;
	if (have_old && (zen_toast_needed(rel, tuple) || HeapTupleHasExternal(&old)))
	{
		result = lock_for_toasting(&c, &w);
		if (result == TM_Ok)
			stored = zen_toast_insert_or_update(rel, tuple, &old);
	}
	if (result == TM_Ok)
		result = zenam_change_update(&c, &w, stored);
	zenam_change_end_wait(&w);
	*update_indexes = TU_None;
	if (result == TM_Ok)
	{
		Assert(have_old);
		if (zenam_stream_logs(rel))
			zenam_stream_change(rel, &old, stored, identity_needed(rel, &c, &old, tuple));
		*update_indexes = finish_update(rel, otid, &c, tuple, slot);
	}
	else
	{
		*tmfd = c.tmfd;
		if (result == TM_WouldBlock)
			result = TM_BeingModified;
	}
	if (stored != tuple)
		heap_freetuple(stored);
	if (should_free)
		pfree(tuple);
	return result;
}

/* ---------- delete ---------- */

static TM_Result
zenam_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot, Snapshot crosscheck,
				   bool wait, TM_FailureData *tmfd, bool changingPart)
{
	ZenChange	c;
	HeapTupleData old;
	TM_Result	result;
	bool		log;

	Assert(!changingPart || rel->rd_rel->relispartition);
	zenam_change_begin(&c, rel, tid, cid, LockTupleExclusive, crosscheck);
	c.moved = changingPart;
	result = zenam_change_delete(&c, rel, wait);
	if (result != TM_Ok)
	{
		*tmfd = c.tmfd;
		return result;
	}
	log = zenam_stream_logs(rel);
	if ((log || (c.points_out && OidIsValid(rel->rd_rel->reltoastrelid))) && fetch_old(rel, c.ht, tid, &old))
	{
		if (log)
			zenam_stream_change(rel, &old, NULL, true);
		if (HeapTupleHasExternal(&old))
			zen_toast_delete(rel, &old, false);
	}
	pgstat_count_heap_delete(rel);
	return TM_Ok;
}

/* ---------- lock ---------- */

/*
 * Lock one version and show it in the slot, locked or not: callers look at its system columns.
 *
 * With most locks comes the copy.  The row may have to be fetched nevertheless: if it cannot be locked, or if the lock
 * has found the version gone or damaged.
 */
static TM_Result
lock_and_show(Relation rel, ItemPointer tid, TupleTableSlot *slot, CommandId cid, LockTupleMode mode,
			  LockWaitPolicy policy, TM_FailureData *tmfd)
{
	ZenChange	c;
	ZenWaiter	w = {.rel = rel,.policy = policy,.oper = XLTW_Lock};
	ZenFetch	f = {.snapshot = SnapshotAny};
	TM_Result	result;

	zenam_change_begin(&c, rel, tid, cid, mode, InvalidSnapshot);
	f.ht = c.ht;
	f.tidno = c.tidno;
	f.code = (int) c.code;
	c.row = f.row = zenam_slot_row(slot);
	result = zenam_change_lock(&c, &w);
	zenam_change_end_wait(&w);
	*tmfd = c.tmfd;
	if ((result == TM_Ok && c.copied) || zen_row_fetch(&f))
		zenam_slot_store(slot, RelationGetRelid(rel));
	else if (result == TM_Ok)
		elog(ERROR, "locked row version is gone");
	return result;
}

/* From a version that has taken the row's place to the newest one that is committed or this transaction's. */
static void
newest_version(ZenHTable *ht, ItemPointer tid)
{
	uint64		tidno = zen_tidno(tid);
	uint32		code;

	while (zen_row_forward(ht, tidno, SnapshotSelf, &tidno))
		;
	ZenAssertNotInEpoch();
	if (zen_row_newest(ht, tidno, &code))
		zen_make_tid(tid, tidno, code);
}

static TM_Result
zenam_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot, CommandId cid,
				 LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags, TM_FailureData *tmfd)
{
	bool		traversed = false;
	TM_Result	result;

	Assert(CheckRelationLockedByMe(rel, RowShareLock, true));
	for (;;)
	{
		/* the caller goes on with the TID of the version that was locked */
		result = lock_and_show(rel, tid, slot, cid, mode, wait_policy, tmfd);
		if (result == TM_Invisible && traversed)
			result = TM_SelfModified;	/* the newest version is by a later
										 * command of this transaction */
		if (result != TM_Updated || !(flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION))
			break;
		if (ItemPointerIndicatesMovedPartitions(&tmfd->ctid))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("tuple to be locked was already moved to another partition due to concurrent update")));
		*tid = tmfd->ctid;
		newest_version(zen_rel_htable_raw(rel), tid);
		traversed = true;
	}
	tmfd->traversed = traversed;
	return result;
}

void
zenam_dml_callbacks(TableAmRoutine *routine)
{
	routine->tuple_insert = zenam_tuple_insert;
	routine->tuple_insert_speculative = zenam_tuple_insert_speculative;
	routine->tuple_complete_speculative = zenam_tuple_complete_speculative;
	routine->multi_insert = zenam_multi_insert;
	routine->finish_bulk_insert = zenam_finish_bulk_insert;
	routine->tuple_delete = zenam_tuple_delete;
	routine->tuple_update = zenam_tuple_update;
	routine->tuple_lock = zenam_tuple_lock;
}
