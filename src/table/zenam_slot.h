/*
 * zenam_slot.h -- the tuple table slot of zen tables.
 */
#ifndef ZENAM_SLOT_H
#define ZENAM_SLOT_H

#include "base/compat.h"

#include "executor/tuptable.h"
#include "row/rowread.h"
#include "utils/rel.h"

extern const TupleTableSlotOps *zenam_slot_callbacks(Relation rel);

typedef struct ZenTupleSlot
{
	HeapTupleTableSlot base;	/* tuple is &tupdata when the slot shows row */
	ZenRow		row;
	ZenRowBlock *block;			/* rows that a scan has fetched ahead, or NULL */
} ZenTupleSlot;

/* zenam_slot_row -- the row buffer of a slot, emptied, to be filled by zen_row_fetch. */
extern ZenRow *zenam_slot_row(TupleTableSlot *slot);

/* zenam_slot_store -- the slot now shows the row in its buffer. */
extern void zenam_slot_store(TupleTableSlot *slot, Oid tableoid);

/*
 * zenam_slot_block -- the block buffer of a slot, emptied, to be filled by zen_row_fetch_block.
 *
 * zenam_slot_find_block -- what is in the buffer, if it has this serial number; else NULL.
 *
 * zenam_slot_show -- the slot now shows a row of its block buffer.
 */
extern ZenRowBlock *zenam_slot_block(TupleTableSlot *slot);

extern TupleTableSlotOps zenam_slot_ops;

static inline ZenRowBlock *
zenam_slot_find_block(TupleTableSlot *slot, uint64 serial)
{
	ZenRowBlock *block = slot->tts_ops == &zenam_slot_ops ? ((ZenTupleSlot *) slot)->block : NULL;

	return block != NULL && block->serial == serial ? block : NULL;
}

static inline void
zenam_slot_show(TupleTableSlot *slot, HeapTuple tuple, Oid tableoid)
{
	HeapTupleTableSlot *hslot = (HeapTupleTableSlot *) slot;

	Assert(((ZenTupleSlot *) slot)->block != NULL && tuple->t_len >= SizeofHeapTupleHeader);
	/* the rest of clearing is done below */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	tuple->t_tableOid = tableoid;
	hslot->tuple = tuple;
	hslot->off = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = 0;
	slot->tts_tid = tuple->t_self;
	slot->tts_tableOid = tableoid;
}

#endif							/* ZENAM_SLOT_H */
