/*
 * zenam_slot.h -- the tuple table slot of zen tables.
 */
#ifndef ZENAM_SLOT_H
#define ZENAM_SLOT_H

#include "base/compat.h"

#include "access/tableam.h"
#include "base/epoch.h"
#include "executor/tuptable.h"
#include "row/rowlook.h"
#include "row/rowread.h"

typedef struct ZenTupleSlot
{
	HeapTupleTableSlot base;	/* tuple is &tupdata when the slot shows row */
	ZenRow		row;
	ZenRowBlock *block;			/* rows that a scan has fetched ahead, or NULL */
	struct ZenSlotColumns *columns; /* what a scan has read of rows, or NULL */
	bool		part;			/* tuple is NULL, and the slot shows the
								 * columns of a row, whose others are fetched
								 * when they are asked for */
	bool		asked;			/* for a whole row, or a copy of one */
} ZenTupleSlot;

#define ZEN_MAX_WHOLE	8

/*
 * Columns of a block's rows, which a scan has read where the rows are.  The scan's snapshot and table stay as long as
 * the slot may show one of the rows.
 */
typedef struct ZenSlotColumns
{
	uint64		serial;			/* of what a scan has put there; 0: it is not
								 * to be shown any more */
	uint64		left;			/* bits of rows that are still to be shown */
	int			whole;			/* so many rows had to be fetched after all;
								 * after ZEN_MAX_WHOLE serial is 0 */
	uint64		first;			/* TID number of the block's first row */
	int			shown;			/* the row that was shown last */
	ZenHTable  *ht;
	Snapshot	snapshot;
	Oid			tableoid;
	int			nrows;			/* there is room for */
	ZenRowColumns rows;			/* must be last */
} ZenSlotColumns;

/* zenam_slot_row -- the row buffer of a slot, emptied, to be filled by zen_row_fetch. */
extern ZenRow *zenam_slot_row(TupleTableSlot *slot);

/* zenam_slot_store -- the slot now shows the row in its buffer. */
extern void zenam_slot_store(TupleTableSlot *slot, Oid tableoid);

/*
 * zenam_slot_block -- the block buffer of a slot, emptied, to be filled by zen_row_fetch_block.
 *
 * zenam_slot_find_block -- what is in the buffer, if it has this serial number; else NULL.
 *
 * zenam_slot_show -- the slot now shows a row of its block buffer.  zenam_slot_point: the same for a slot that has
 * nothing to free.
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
zenam_slot_point(TupleTableSlot *slot, HeapTuple tuple, Oid tableoid)
{
	HeapTupleTableSlot *hslot = (HeapTupleTableSlot *) slot;

	Assert(((ZenTupleSlot *) slot)->block != NULL && tuple->t_len >= SizeofHeapTupleHeader);
	Assert(!TTS_SHOULDFREE(slot));
	tuple->t_tableOid = tableoid;
	hslot->tuple = tuple;
	hslot->off = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = 0;
	slot->tts_tid = tuple->t_self;
	slot->tts_tableOid = tableoid;
}

static inline void
zenam_slot_show(TupleTableSlot *slot, HeapTuple tuple, Oid tableoid)
{
	/* the rest of clearing is done there */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	zenam_slot_point(slot, tuple, tableoid);
}

/*
 * zenam_slot_columns -- the place for columns of so many rows in a slot of a zen table.
 *
 * zenam_slot_show_part -- the slot now shows row i of what is there.
 */
extern ZenSlotColumns *zenam_slot_columns(TupleTableSlot *slot, int nrows);

static inline void
zenam_slot_show_part(TupleTableSlot *slot, ZenSlotColumns *columns, int i)
{
	ZenTupleSlot *zslot = (ZenTupleSlot *) slot;
	const int	natts = columns->rows.natts;
	const Datum *values = &columns->rows.values[i * natts];
	uint32		nulls = columns->rows.nulls[i];

	/* a cursor may stand on the row for hours: nothing holds the epoch then */
	ZenAssertNotInEpoch();
	Assert(zslot->columns == columns && columns->rows.found >> i & 1);
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	for (int a = 0; a < natts; a++)
	{
		slot->tts_values[a] = values[a];
		slot->tts_isnull[a] = nulls >> a & 1;
	}
	columns->shown = i;
	zslot->part = true;
	zslot->base.tuple = NULL;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = natts;
	zen_make_tid(&slot->tts_tid, columns->first + i, columns->rows.codes[i]);
	slot->tts_tableOid = columns->tableoid;
}

/* zenam_slot_init -- fill in the slot's operations.  Once a process, before the first slot. */
extern void zenam_slot_init(void);

#endif							/* ZENAM_SLOT_H */
