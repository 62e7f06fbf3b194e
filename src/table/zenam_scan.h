/*
 * zenam_scan.h -- scans for the access method's own use: they yield TIDs, or the rows of a block at once.
 */
#ifndef ZENAM_SCAN_H
#define ZENAM_SCAN_H

#include "base/compat.h"

#include "access/tableam.h"
#include "row/rowlook.h"
#include "row/rowread.h"

/*
 * zen_scan_begin_raw -- scan n blocks from first on (InvalidBlockNumber: to the end) of a table.
 *
 * Does not wait for the table's indexes, whose rebuild it may be part of.
 */
extern TableScanDesc zen_scan_begin_raw(Relation rel, Snapshot snapshot, BlockNumber first, BlockNumber n);

/* Go on to the next block, forward, of a serial or parallel scan, before its first TID; false at the end. */
extern bool zen_scan_next_block(TableScanDesc scan, BlockNumber *block);

/* What a scan has to show of a block. */
typedef struct ZenScanRows
{
	ZenRowBlock *block;			/* has the rows whose bits are in found */
	uint64		found;
	uint64		apart;			/* bit i: zen_scan_lone_row() will tell */
	int			viewed;			/* rows that the view has had, instead of the
								 * fields above; or -1 */
} ZenScanRows;

/*
 * zen_scan_next_rows -- go on to the next block of a serial sequential scan, forward; false at the end.
 *
 * The rows are what table_scan_getnextslot() would show one by one, and count as such in statistics.  They are in the
 * slot's memory until the slot is used for another block.  The slot shows none of them.  A scan is read either so or
 * row by row.
 *
 * With a view, which may be NULL, the rows are viewed where they are, if all that there are can be.
 *
 * zen_scan_lone_row -- fetch the row whose bit i is in apart; false if there is none.  The slot shows it.
 */
extern bool zen_scan_next_rows(TableScanDesc scan, TupleTableSlot *slot, const ZenRowView *view,
							   ZenScanRows *rows);
extern bool zen_scan_lone_row(TableScanDesc scan, TupleTableSlot *slot, int i);

#endif							/* ZENAM_SCAN_H */
