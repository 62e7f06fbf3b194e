/*
 * zenam_slot.c -- the tuple table slot of zen tables.
 *
 * The slot is a HeapTupleTableSlot with buffers behind it.  A fetched row is copied out of the engine once, into a
 * buffer that lives as long as the slot.  There it has the form of a heap tuple with its system columns set.  So
 * deforming, system columns and copies are PostgreSQL's own heap-tuple code, and a scan allocates nothing per row.
 *
 * One buffer is for a single row.  Another one is for the rows of a block, which a scan fetches in one go and shows one
 * by one.  It belongs to the slot and not to the scan, so what the slot shows outlives the end of the scan, as it does
 * with heap, whose slots hold a pin.  It stays until the slot is used for another fetch.
 *
 * The third place is for columns of rows that were not copied.  Such a row is fetched when more of it is asked for.
 */
#include "table/zenam_slot.h"

#include "access/htup_details.h"
#include "base/epoch.h"
#include "recovery/gate.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

TupleTableSlotOps zenam_slot_ops;

/* In the manner of TTS_IS_HEAPTUPLE(). */
#define TTS_IS_ZEN(slot)	((slot)->tts_ops == &zenam_slot_ops)

static void
slot_init(TupleTableSlot *slot)
{
	ZenTupleSlot *zslot = (ZenTupleSlot *) slot;

	Assert(TTS_IS_ZEN(slot));
	memset(&zslot->row, 0, sizeof(zslot->row));
	zslot->row.mcxt = slot->tts_mcxt;
	zslot->block = NULL;
	zslot->columns = NULL;
	zslot->part = zslot->asked = false;
}

static void
slot_release(TupleTableSlot *slot)
{
	ZenTupleSlot *zslot = (ZenTupleSlot *) slot;

	Assert(TTS_IS_ZEN(slot));
	if (zslot->row.buf)
		pfree(zslot->row.buf);
	zslot->row.buf = NULL;
	zslot->row.capacity = 0;
	if (zslot->block)
	{
		zen_row_block_free(zslot->block);
		pfree(zslot->block);
	}
	zslot->block = NULL;
	if (zslot->columns)
		pfree(zslot->columns);
	zslot->columns = NULL;
	zslot->part = false;
}

/* The slot now shows the row in its buffer. */
static inline void
point_at_row(ZenTupleSlot *zslot, Oid tableoid)
{
	TupleTableSlot *slot = &zslot->base.base;
	HeapTuple	tuple = &zslot->base.tupdata;

	Assert(zslot->row.buf != NULL && zslot->row.len >= SizeofHeapTupleHeader);
	Assert(ItemPointerIsValid(&zslot->row.tid));
	tuple->t_data = (HeapTupleHeader) zslot->row.buf;
	tuple->t_len = zslot->row.len;
	tuple->t_self = zslot->row.tid;
	tuple->t_tableOid = tableoid;
	zslot->base.tuple = tuple;
	zslot->base.off = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = 0;
	slot->tts_tid = tuple->t_self;
	slot->tts_tableOid = tableoid;
}

static void
slot_clear(TupleTableSlot *slot)
{
	Assert(TTS_IS_ZEN(slot));
	((ZenTupleSlot *) slot)->part = false;
	TTSOpsHeapTuple.clear(slot);
}

/*
 * Fetch the row of which the slot shows the first columns (README, "Scans that read columns").  These stay as they are:
 * a reader may be at them.  So do the TID and the table that the slot tells: the slot's user may have set them.
 */
static pg_noinline void
fetch_whole(TupleTableSlot *slot)
{
	ZenTupleSlot *zslot = (ZenTupleSlot *) slot;
	ZenSlotColumns *columns = zslot->columns;
	ZenFetch	f = {.ht = columns->ht,.tidno = columns->first + columns->shown,.snapshot = columns->snapshot,
	.code = ZEN_ANY_CODE,.row = &zslot->row};
	ItemPointerData tid = slot->tts_tid;
	Oid			tableoid = slot->tts_tableOid;
	int			natts = slot->tts_nvalid;

	Assert(zslot->part && zslot->base.tuple == NULL && natts == columns->rows.natts);
	zen_gate_snapshot(f.ht, f.snapshot);
	if (!zen_row_fetch_again(&f) || zen_tid_code(&zslot->row.tid) != columns->rows.codes[columns->shown])
		elog(ERROR, "row (%u,%u) of table %u was seen, and is not there any more",
			 ItemPointerGetBlockNumber(&tid), ItemPointerGetOffsetNumber(&tid), columns->tableoid);
	if (++columns->whole > ZEN_MAX_WHOLE)
		columns->serial = 0;
	point_at_row(zslot, columns->tableoid);
	if (natts > 0)
		TTSOpsHeapTuple.getsomeattrs(slot, natts);
	slot->tts_tid = tid;
	slot->tts_tableOid = tableoid;
}

/* Have more of the row in the slot than it may show. */
static inline void
need_more(TupleTableSlot *slot)
{
	Assert(TTS_IS_ZEN(slot) && !TTS_EMPTY(slot));
	if (unlikely(((ZenTupleSlot *) slot)->base.tuple == NULL && ((ZenTupleSlot *) slot)->part))
		fetch_whole(slot);
}

/* Have the whole row in the slot, and note that it was asked for. */
static inline void
need_whole(TupleTableSlot *slot)
{
	((ZenTupleSlot *) slot)->asked = true;
	need_more(slot);
}

static void
slot_getsomeattrs_of_row(TupleTableSlot *slot, int natts)
{
	need_more(slot);
	TTSOpsHeapTuple.getsomeattrs(slot, natts);
}

static Datum
slot_getsysattr_of_row(TupleTableSlot *slot, int attnum, bool *isnull)
{
	need_whole(slot);
	return TTSOpsHeapTuple.getsysattr(slot, attnum, isnull);
}

static HeapTuple
slot_copy_heap_tuple(TupleTableSlot *slot)
{
	need_whole(slot);
	return TTSOpsHeapTuple.copy_heap_tuple(slot);
}

static MinimalTuple
slot_copy_minimal_tuple(TupleTableSlot *slot ZEN_COPY_MINIMAL_ARGS)
{
	need_whole(slot);
	return TTSOpsHeapTuple.copy_minimal_tuple(slot ZEN_COPY_MINIMAL_PASS);
}

#if ZEN_SLOT_KNOWS_WRITER
static bool
slot_is_current_of_row(TupleTableSlot *slot)
{
	need_whole(slot);
	return TTSOpsHeapTuple.is_current_xact_tuple(slot);
}
#endif

/* A row in a buffer is the slot's own already; only virtual contents have to be formed. */
static void
slot_materialize(TupleTableSlot *slot)
{
	need_whole(slot);
	if (((ZenTupleSlot *) slot)->base.tuple == NULL)
		TTSOpsHeapTuple.materialize(slot);
}

static HeapTuple
slot_get_heap_tuple(TupleTableSlot *slot)
{
	ZenTupleSlot *zslot = (ZenTupleSlot *) slot;

	Assert(!TTS_EMPTY(slot));
	if (zslot->base.tuple == NULL)
		slot_materialize(slot);
	return zslot->base.tuple;
}

/*
 * Copy the row that a zen slot shows into dst's buffer, which stays for the next one.  False if it is dst's already, or
 * if it was formed in the slot and has no place in a table.
 */
static bool
slot_copy_row(ZenTupleSlot *dst, TupleTableSlot *src)
{
	HeapTuple	tuple = ((ZenTupleSlot *) src)->base.tuple;
	ZenRow	   *row = &dst->row;
	char	   *data = (char *) tuple->t_data;

	if (!ItemPointerIsValid(&src->tts_tid) ||
		(row->buf != NULL && data >= row->buf && data < row->buf + row->capacity) ||
		(dst->base.tuple != NULL && data == (char *) dst->base.tuple->t_data))
		return false;
	ExecClearTuple(&dst->base.base);
	if (row->capacity < tuple->t_len)
		zen_row_enlarge(row, tuple->t_len);
	memcpy(row->buf, data, tuple->t_len);
	row->len = tuple->t_len;
	row->tid = src->tts_tid;
	zenam_slot_store(&dst->base.base, src->tts_tableOid);
	return true;
}

/* TupleTableSlotOps.copyslot: copy the row of any slot, with its TID and table. */
static void
slot_copyslot(TupleTableSlot *dst, TupleTableSlot *src)
{
	ZenTupleSlot *zslot = (ZenTupleSlot *) dst;
	MemoryContext old;
	HeapTuple	copy;

	Assert(TTS_IS_ZEN(dst) && !TTS_EMPTY(src));
	if (TTS_IS_ZEN(src))
		need_whole(src);
	if (dst != src && TTS_IS_ZEN(src) && ((ZenTupleSlot *) src)->base.tuple != NULL && slot_copy_row(zslot, src))
		return;

	/* the source may be dst's contents through another slot: copy first */
	old = MemoryContextSwitchTo(dst->tts_mcxt);
	copy = ExecCopySlotHeapTuple(src);
	MemoryContextSwitchTo(old);
	copy->t_self = src->tts_tid;
	copy->t_tableOid = src->tts_tableOid;
	ExecClearTuple(dst);
	zslot->base.tuple = copy;
	dst->tts_flags &= ~TTS_FLAG_EMPTY;
	dst->tts_flags |= TTS_FLAG_SHOULDFREE;
	dst->tts_nvalid = 0;
	zslot->base.off = 0;
	dst->tts_tid = src->tts_tid;
	dst->tts_tableOid = src->tts_tableOid;
}

/* Empty a slot of a zen table. */
static ZenTupleSlot *
emptied(TupleTableSlot *slot)
{
	if (!TTS_IS_ZEN(slot))
		elog(ERROR, "slot does not belong to a zen table");
	ExecClearTuple(slot);
	return (ZenTupleSlot *) slot;
}

ZenRow *
zenam_slot_row(TupleTableSlot *slot)
{
	return &emptied(slot)->row;
}

ZenRowBlock *
zenam_slot_block(TupleTableSlot *slot)
{
	ZenTupleSlot *zslot = emptied(slot);

	if (zslot->block == NULL)
	{
		zslot->block = MemoryContextAllocZero(slot->tts_mcxt, sizeof(ZenRowBlock));
		zslot->block->mcxt = slot->tts_mcxt;
	}
	return zslot->block;
}

ZenSlotColumns *
zenam_slot_columns(TupleTableSlot *slot, int nrows)
{
	ZenTupleSlot *zslot = emptied(slot);

	if (zslot->columns != NULL && zslot->columns->nrows < nrows)
	{
		pfree(zslot->columns);
		zslot->columns = NULL;
	}
	if (zslot->columns == NULL)
	{
		zslot->columns = MemoryContextAlloc(slot->tts_mcxt, offsetof(ZenSlotColumns, rows.values) +
											nrows * ZEN_MAX_ROW_COLUMNS * sizeof(Datum));
		zslot->columns->nrows = nrows;
		zslot->columns->serial = 0;
	}
	return zslot->columns;
}

void
zenam_slot_store(TupleTableSlot *slot, Oid tableoid)
{
	Assert(TTS_IS_ZEN(slot) && TTS_EMPTY(slot));
	point_at_row((ZenTupleSlot *) slot, tableoid);
}

void
zenam_slot_init(void)
{
	zenam_slot_ops = TTSOpsHeapTuple;
	zenam_slot_ops.init = slot_init;
	zenam_slot_ops.release = slot_release;
	zenam_slot_ops.clear = slot_clear;
	zenam_slot_ops.getsomeattrs = slot_getsomeattrs_of_row;
	zenam_slot_ops.getsysattr = slot_getsysattr_of_row;
	zenam_slot_ops.copy_heap_tuple = slot_copy_heap_tuple;
	zenam_slot_ops.copy_minimal_tuple = slot_copy_minimal_tuple;
#if ZEN_SLOT_KNOWS_WRITER
	zenam_slot_ops.is_current_xact_tuple = slot_is_current_of_row;
#endif
	zenam_slot_ops.materialize = slot_materialize;
	zenam_slot_ops.copyslot = slot_copyslot;
	zenam_slot_ops.get_heap_tuple = slot_get_heap_tuple;
	zenam_slot_ops.base_slot_size = sizeof(ZenTupleSlot);
}
