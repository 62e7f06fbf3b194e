/*
 * scancolumns.h -- a scan reads the columns that are wanted of rows where the rows are.
 */
#ifndef ZEN_SCANCOLUMNS_H
#define ZEN_SCANCOLUMNS_H

#include "table/zenam_slot.h"

/* How a scan shows the rows of a block. */
typedef enum ZenScanWay
{
	ZEN_SCAN_LEARN,				/* they are copied, and what is read of them
								 * is noted */
	ZEN_SCAN_COLUMNS,			/* their columns are read where they are */
	ZEN_SCAN_COPY				/* they are copied */
} ZenScanWay;

/* What a scan has learned of its reader.  All zero at first. */
typedef struct ZenScanColumns
{
	ZenScanWay	way;
	int			pause;			/* blocks to be copied before it learns again */
	int			last_pause;
	int			rows;			/* of a block at which it learns; ... */
	int			beyond;			/* ... of these, more was read than columns
								 * that can be read where they are */
	int			wanted;			/* of the others, so many columns at most */
	uint64		serial;			/* of what is in the slot; 0: nothing */
	int			left;			/* of an index scan: rows until it is as if a
								 * block had ended */
} ZenScanColumns;

/* zen_scancolumns_note -- the reader has done with the row in the slot: the scan learns how much it has read. */
extern void zen_scancolumns_note(ZenScanColumns *c, TupleTableSlot *slot);

/* zen_scancolumns_try -- a block has ended: are the columns of the next one to be read? */
extern bool zen_scancolumns_try(ZenScanColumns *c, TupleTableSlot *slot);

/* zen_scancolumns_read -- read them; false: the block has to be copied. */
extern bool zen_scancolumns_read(ZenScanColumns *c, const ZenFetch *block, Oid tableoid, TupleTableSlot *slot);

#define ZEN_ROWS_TO_LEARN	8	/* of an index scan */

/*
 * zen_scancolumns_next -- an index scan comes to a row: may its columns be read?  The slot has the row before it.
 *
 * zen_scancolumns_read_row -- read them, and have the slot show them; false: the row has to be fetched.
 */
extern bool zen_scancolumns_next(ZenScanColumns *c, TupleTableSlot *slot);
extern bool zen_scancolumns_read_row(ZenScanColumns *c, const ZenFetch *row, Oid tableoid, TupleTableSlot *slot);

/* What was read for the scan, and is in the slot still; NULL: nothing. */
static inline ZenSlotColumns *
zen_scancolumns_find(const ZenScanColumns *c, TupleTableSlot *slot)
{
	ZenSlotColumns *columns = ((ZenTupleSlot *) slot)->columns;

	return columns != NULL && columns->serial == c->serial && c->serial != 0 ? columns : NULL;
}

#endif							/* ZEN_SCANCOLUMNS_H */
