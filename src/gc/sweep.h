/*
 * sweep.h -- no xid stays in DRAM for as long as xids can be compared.
 *
 * Versions are frozen, and lockers leave, when their transactions' time has come, within seconds (collect.c, lockers.c).  What
 * that leaves behind is found here: every zen.freeze_age transactions zen's worker walks over the maps of all
 * tables.  See "Xids in DRAM" in src/README.
 */
#ifndef ZEN_SWEEP_H
#define ZEN_SWEEP_H

#include "cache/version.h"

#include "access/transam.h"

typedef struct ZenSweepShared
{
	pg_atomic_uint64 sweeps;	/* finished since the server has started */
	pg_atomic_uint64 frozen_to; /* full xid: of no older transaction is there
								 * a version to be frozen or a locker, as of
								 * the last sweep; 0 = none has finished */
} ZenSweepShared;

extern ZenSweepShared *zen_sweep;

extern Size zen_sweep_shmem_size(void);
extern void zen_sweep_init(void);

/*
 * zen_sweep_step -- the worker: begin a sweep if it is time, or go on with it for a bounded number of rows; true if it is
 * not finished.  Called after zen_horizon_look().
 */
extern bool zen_sweep_step(void);

/* What stands in DRAM of a table. */
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

/* zen_sweep_count -- count them, at leisure; interruptible. */
extern void zen_sweep_count(ZenHTable *ht, ZenVersionCounts *counts);

#endif							/* ZEN_SWEEP_H */
