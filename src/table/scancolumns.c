/*
 * scancolumns.c -- a scan reads the columns that are wanted of rows where the rows are.
 *
 * Most readers look at a few columns of a row.  To copy the row, and to take it apart afterwards, costs more than to
 * read these columns at once.  README, "Scans that read columns", says why the answers are the same.
 *
 * Which columns?  The scan copies the rows of its first block, and looks how far the slot was taken apart when the
 * reader asks for the next row.  If a reader wants more later, the row is fetched (fetch_whole in zenam_slot.c).  A
 * scan whose rows are fetched so too often copies some blocks, and learns again.
 *
 * An index scan has no blocks.  It learns from ZEN_ROWS_TO_LEARN rows, and counts each 64 rows as a block.
 */
#include "table/scancolumns.h"

#include "recovery/gate.h"
#include "utils/snapmgr.h"

#define MAX_PAUSE	512

/* The columns of a table that can be read so: how many, and where they are. */
static int
columns_of_table(TupleDesc desc, ZenRowColumn *columns)
{
	int			offset = 0;
	int			n;

	for (n = 0; n < desc->natts && n < ZEN_MAX_ROW_COLUMNS; n++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, n);

		if (att->attlen <= 0 || !att->attbyval)
			break;
		offset = att_align_nominal(offset, att->attalign);
		columns[n].offset = (int16) offset;
		columns[n].len = att->attlen;
		columns[n].align = att->attalign;
		offset += att->attlen;
	}
	return n;
}

static void
begin_pause(ZenScanColumns *c)
{
	c->way = ZEN_SCAN_COPY;
	c->pause = c->last_pause = Min(2 * c->last_pause + 1, MAX_PAUSE);
}

void
zen_scancolumns_note(ZenScanColumns *c, TupleTableSlot *slot)
{
	ZenTupleSlot *zslot = (ZenTupleSlot *) slot;
	ZenRowColumn columns[ZEN_MAX_ROW_COLUMNS];

	if (c->serial != 0 && zen_scancolumns_find(c, slot) == NULL)
		begin_pause(c);			/* too many rows were fetched after all */
	if (c->way != ZEN_SCAN_LEARN || TTS_EMPTY(slot))
		return;
	c->rows++;
	if (zslot->asked)
		c->beyond++;
	else if (slot->tts_nvalid > c->wanted)
	{
		if (slot->tts_nvalid <= columns_of_table(slot->tts_tupleDescriptor, columns))
			c->wanted = slot->tts_nvalid;
		else
			c->beyond++;
	}
	zslot->asked = false;
}

bool
zen_scancolumns_try(ZenScanColumns *c, TupleTableSlot *slot)
{
	switch (c->way)
	{
		case ZEN_SCAN_LEARN:
			if (c->rows == 0)
				break;
			if (c->beyond * ZEN_TIDS_PER_BLOCK > c->rows * ZEN_MAX_WHOLE)
				begin_pause(c);
			else
				c->way = ZEN_SCAN_COLUMNS;
			break;
		case ZEN_SCAN_COLUMNS:
			c->last_pause = 0;
			break;
		case ZEN_SCAN_COPY:
			if (--c->pause > 0)
				break;
			c->way = ZEN_SCAN_LEARN;
			c->rows = c->beyond = c->wanted = 0;
			break;
	}
	return c->way == ZEN_SCAN_COLUMNS;
}

/* Get the slot ready for what is to be read of a block, or a row. */
static ZenSlotColumns *
begin_reading(ZenScanColumns *c, const ZenFetch *f, int nrows, Oid tableoid, TupleTableSlot *slot)
{
	ZenSlotColumns *columns = zenam_slot_columns(slot, nrows);

	Assert(c->way == ZEN_SCAN_COLUMNS && IsMVCCSnapshot(f->snapshot));
	columns->serial = c->serial = 0;
	columns->rows.natts = Min(c->wanted, columns_of_table(slot->tts_tupleDescriptor, columns->rows.columns));
	columns->left = 0;
	columns->whole = 0;
	columns->first = f->tidno;
	columns->ht = f->ht;
	columns->snapshot = f->snapshot;
	columns->tableoid = tableoid;
	return columns;
}

static inline void
mark_columns(ZenScanColumns *c, ZenSlotColumns *columns)
{
	static uint64 last_serial = 0;

	columns->serial = c->serial = ++last_serial;
}

bool
zen_scancolumns_read(ZenScanColumns *c, const ZenFetch *block, Oid tableoid, TupleTableSlot *slot)
{
	ZenSlotColumns *columns = begin_reading(c, block, ZEN_TIDS_PER_BLOCK, tableoid, slot);

	zen_gate_snapshot(block->ht, block->snapshot);
	if (!zen_row_read_columns(block->ht, block->tidno / ZEN_TIDS_PER_BLOCK, &columns->rows))
	{
		begin_pause(c);
		return false;
	}
	columns->left = columns->rows.found;
	mark_columns(c, columns);
	return true;
}

/* What there is to be seen to now and then. */
static pg_noinline bool
learn(ZenScanColumns *c, TupleTableSlot *slot)
{
	ZenSlotColumns *columns;

	zen_scancolumns_note(c, slot);
	if (c->way == ZEN_SCAN_LEARN ? c->rows < ZEN_ROWS_TO_LEARN : --c->left > 0)
		return c->way == ZEN_SCAN_COLUMNS;
	c->left = ZEN_TIDS_PER_BLOCK;
	columns = zen_scancolumns_find(c, slot);
	if (columns != NULL)
		columns->whole = 0;
	return zen_scancolumns_try(c, slot);
}

bool
zen_scancolumns_next(ZenScanColumns *c, TupleTableSlot *slot)
{
	if (c->way != ZEN_SCAN_COLUMNS || c->left <= 1 || zen_scancolumns_find(c, slot) == NULL)
		return learn(c, slot);
	c->left--;
	return true;
}

bool
zen_scancolumns_read_row(ZenScanColumns *c, const ZenFetch *row, Oid tableoid, TupleTableSlot *slot)
{
	ZenSlotColumns *columns = zen_scancolumns_find(c, slot);

	zen_gate_snapshot(row->ht, row->snapshot);
	if (unlikely(columns == NULL))
	{
		columns = begin_reading(c, row, 1, tableoid, slot);
		mark_columns(c, columns);
	}
	Assert(columns->snapshot == row->snapshot && columns->ht == row->ht);
	columns->first = row->tidno;
	if (!zen_row_read_columns_of(row->ht, row->tidno, &columns->rows))
	{
		if (++columns->whole > ZEN_MAX_WHOLE)
			columns->serial = 0;
		return false;
	}
	zenam_slot_show_part(slot, columns, 0);
	return true;
}
