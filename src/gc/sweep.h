/*
 * sweep.h -- no xid stays in DRAM for as long as xids can be compared.
 *
 * Versions are frozen, and lockers leave, when their transactions' time has come, within seconds (collect.c,
 * lockers.c).  A sweep finds the versions and lockers that this leaves behind.  Every zen.freeze_age transactions it
 * walks over the maps of all tables.  See "Xids in DRAM" in src/gc/README.
 */
#ifndef ZEN_SWEEP_H
#define ZEN_SWEEP_H

#include "cache/version.h"

#include "access/transam.h"

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
 * zen_sweep_shmem_size -- bytes of shared memory that zen_sweep_init() takes.
 * zen_sweep_init -- make the shared part or attach to it.
 */
extern Size zen_sweep_shmem_size(void);
extern void zen_sweep_init(void);

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

#endif							/* ZEN_SWEEP_H */
