/*
 * collect.h -- collecting a row, and the sweep over all rows.
 *
 * When the xid horizon has passed a version's writer (R12), the versions that it superseded go, and the version itself
 * is frozen.
 */
#ifndef ZEN_COLLECT_H
#define ZEN_COLLECT_H

#include "cache/version.h"

#include "access/transam.h"

/*
 * zen_collect_item -- freeze the newest version of a row that is behind the horizon, and collect what it superseded.
 *
 * block: of all rows of the block in which tidno is the first, spilled ones included.  False if that must be tried
 * again, when there is more DRAM.  Outside any epoch.  Never throws.
 */
extern bool zen_collect_item(ZenHTable *ht, uint64 tidno, bool block);

/*
 * zen_collect_forget_header -- R5: an intact header of a tuple is no more (overwritten and fenced, or its page is
 * gone).
 *
 * Outside any epoch.  Never throws.
 */
extern void zen_collect_forget_header(ZenTupleHeader header);

/*
 * zen_collect_forget_when -- the same, but not before the sink has made durable what it was told of at this position
 * (nvm/sink.h, await).  With the transaction, or later.
 *
 * zen_collect_forget_waiting -- the transaction has ended: forget what has waited.  Where stores are lazy, and its
 * commit was asynchronous, it may wait on, unless it is `all`.
 *
 * Outside any epoch.  They wait for the disk when many headers have come together.  Never throw.
 */
extern void zen_collect_forget_when(ZenTupleHeader header, uint64 position);
extern void zen_collect_forget_waiting(bool all);

/*
 * The sweep: no xid stays in DRAM for as long as xids can be compared.
 *
 * Versions are frozen, and lockers leave, when their transactions' time has come, within seconds.  A sweep finds the
 * versions and lockers that this leaves behind.  Every zen.freeze_age transactions it walks over the maps of all
 * tables.  See "Xids in DRAM" in src/gc/README.
 */
typedef struct ZenSweepShared
{
	pg_atomic_uint64 sweeps;	/* finished since the server has started */
	pg_atomic_uint64 frozen_to; /* full xid: the last sweep has left no
								 * version to be frozen, and no locker, of an
								 * older transaction; 0 = no sweep has
								 * finished */
} ZenSweepShared;

extern ZenSweepShared *zen_sweep;

/*
 * zen_sweep_step -- the worker: begin a sweep if it is time, or go on with it for a bounded number of rows.
 *
 * True if it is not finished.  Called after zen_horizon_look(), outside any epoch.
 */
extern bool zen_sweep_step(void);

/* Versions and lockers of a table in DRAM. */
typedef struct ZenVersionCounts
{
	uint64		entries;		/* rows whose newest version is in DRAM */
	uint64		unfrozen;		/* of these, newest versions that are not
								 * frozen */
	uint64		superseded;		/* older versions behind them */
	uint64		superseded_bytes;	/* in DRAM and NVM */
	uint64		lockers;
	TransactionId oldest;		/* of unfrozen versions and of lockers */
} ZenVersionCounts;

/* zen_sweep_count -- count them, at leisure.  Outside any epoch.  Throws if it is cancelled. */
extern void zen_sweep_count(ZenHTable *ht, ZenVersionCounts *counts);

#endif							/* ZEN_COLLECT_H */
