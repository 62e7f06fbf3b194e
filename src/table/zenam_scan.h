/*
 * zenam_scan.h -- scans for the access method's own use: they yield TIDs, not rows.
 */
#ifndef ZENAM_SCAN_H
#define ZENAM_SCAN_H

#include "base/compat.h"

#include "access/tableam.h"

/* A scan of all TIDs that does not wait for indexes (it may be part of their rebuild). */
extern TableScanDesc zen_scan_begin_raw(Relation rel, Snapshot snapshot);

/* Restrict a scan to n blocks from first on (InvalidBlockNumber: to the end). */
extern void zen_scan_set_blocks(TableScanDesc scan, BlockNumber first, BlockNumber n);

/* The next TID number, forward, of a serial or parallel scan; false at the end. */
extern bool zen_scan_next(TableScanDesc scan, uint64 *tidno);

/* Stand before the first TID of a block; step within it. */
extern void zen_scan_set_block(TableScanDesc scan, BlockNumber block);
extern bool zen_scan_next_in_block(TableScanDesc scan, uint64 *tidno);

/*
 * May the transaction's snapshot see two rows with one key of a unique index?  One was deleted by another transaction
 * meanwhile, the other one is own.
 */
extern bool zen_scan_sees_key_twice(void);

#endif							/* ZENAM_SCAN_H */
