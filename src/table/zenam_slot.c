/*
 * zenam_slot.c -- the tuple table slot of zen tables.
 *
 * A HeapTupleTableSlot with buffers behind it: a fetched row is copied out of the engine once, into a buffer that
 * lives as long as the slot.  There it has the form of a heap tuple with its system columns set.  So deforming, system
 * columns and copies are PostgreSQL's own heap-tuple code, and a scan allocates nothing per row.
 *
 * One buffer is for a single row.  The other is for the rows of a block, which a scan fetches in one go and shows one
 * by one.  It belongs to the slot and not to the scan, so what the slot shows outlives the end of the scan, as it does
 * with heap, whose slots hold a pin.  It stays until the slot is used for another fetch.
 */
#include "table/zenam_slot.h"

#include "access/htup_details.h"
#include "table/zenam_callbacks.h"
#include "utils/memutils.h"

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
}

/* A row in a buffer is the slot's own already; only virtual contents have to be formed. */
static void
slot_materialize(TupleTableSlot *slot)
{
	Assert(TTS_IS_ZEN(slot) && !TTS_EMPTY(slot));
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
copy_row(ZenTupleSlot *dst, TupleTableSlot *src)
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
	if (dst != src && TTS_IS_ZEN(src) && ((ZenTupleSlot *) src)->base.tuple != NULL && copy_row(zslot, src))
		return;

	/*
	 * the source may be dst's own contents seen through another slot: copy
	 * first
	 */
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

const TupleTableSlotOps *
zenam_slot_callbacks(Relation rel)
{
	if (zenam_slot_ops.base_slot_size == 0)
	{
		zenam_slot_ops = TTSOpsHeapTuple;
		zenam_slot_ops.init = slot_init;
		zenam_slot_ops.release = slot_release;
		zenam_slot_ops.materialize = slot_materialize;
		zenam_slot_ops.copyslot = slot_copyslot;
		zenam_slot_ops.get_heap_tuple = slot_get_heap_tuple;
		zenam_slot_ops.base_slot_size = sizeof(ZenTupleSlot);
	}
	return &zenam_slot_ops;
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

void
zenam_slot_store(TupleTableSlot *slot, Oid tableoid)
{
	ZenTupleSlot *zslot = (ZenTupleSlot *) slot;
	HeapTuple	tuple = &zslot->base.tupdata;

	Assert(TTS_IS_ZEN(slot) && TTS_EMPTY(slot));
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
