/*
 * stats.c -- per-process counters in shared memory.
 *
 * A process is found by its PGPROC number, which is reused after it ends.  So counts add up over the life of the
 * server.  Before zen_stats_attach() a process counts into a private block that no view reads.  So counting code needs
 * no test.
 *
 * A block has one writer, so a reset cannot clear it.  It notes the sums instead, and readers subtract these.
 */
#include "base/stats.h"

#include "access/twophase.h"
#include "base/locks.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define LINE_SIZE	64			/* bytes */
#define NBLOCKS		(zen_nprocs() + 1)	/* the last one is the postmaster's
										 * and single-user mode's */
#define BLOCK_SIZE	TYPEALIGN(LINE_SIZE, ZEN_NCOUNTERS * sizeof(uint64))

static uint64 unattached[ZEN_NCOUNTERS];
uint64	   *zen_my_counters = unattached;

/* The last reset.  Under ZEN_LOCK_STATS. */
typedef struct StatsReset
{
	TimestampTz at;				/* or the start of the server */
	uint64		sums[ZEN_NCOUNTERS];	/* at that time */
} StatsReset;

static char *stats_blocks;		/* NBLOCKS blocks of BLOCK_SIZE bytes */
static StatsReset *reset;

static Size
stats_shmem_size(void)
{
	return mul_size(NBLOCKS, BLOCK_SIZE) + LINE_SIZE + sizeof(StatsReset);
}

static void
stats_shmem_init(void)
{
	bool		found;
	char	   *raw = ShmemInitStruct("zen statistics", stats_shmem_size(), &found);

	stats_blocks = (char *) TYPEALIGN(LINE_SIZE, raw);
	reset = (StatsReset *) (stats_blocks + mul_size(NBLOCKS, BLOCK_SIZE));
	if (!found)
	{
		memset(stats_blocks, 0, mul_size(NBLOCKS, BLOCK_SIZE) + sizeof(StatsReset));
		reset->at = GetCurrentTimestamp();
	}
	zen_my_counters = (uint64 *) (stats_blocks + (Size) (NBLOCKS - 1) * BLOCK_SIZE);
}

const ZenShmem zen_stats_shmem = {.size = stats_shmem_size,.init = stats_shmem_init};

void
zen_stats_attach(void)
{
	Assert(stats_blocks != NULL);
	if (MyProc != NULL)
		zen_my_counters = (uint64 *) (stats_blocks + (Size) GetNumberFromPGProc(MyProc) * BLOCK_SIZE);
}

uint64
zen_stats_sum_of(ZenCounter counter)
{
	uint64		total = 0;

	for (int b = 0; b < NBLOCKS; b++)
		total += ((volatile uint64 *) (stats_blocks + (Size) b * BLOCK_SIZE))[counter];
	return total;
}

static void
stats_sum_blocks(uint64 *totals)
{
	memset(totals, 0, ZEN_NCOUNTERS * sizeof(uint64));
	for (int b = 0; b < NBLOCKS; b++)
	{
		volatile uint64 *block = (volatile uint64 *) (stats_blocks + (Size) b * BLOCK_SIZE);

		for (int i = 0; i < ZEN_NCOUNTERS; i++)
			totals[i] += block[i];
	}
}

TimestampTz
zen_stats_sum(uint64 *totals)
{
	TimestampTz since;

	LWLockAcquire(zen_lock(ZEN_LOCK_STATS), LW_SHARED);
	stats_sum_blocks(totals);
	for (int i = 0; i < ZEN_NCOUNTERS; i++)
		totals[i] -= reset->sums[i];
	since = reset->at;
	LWLockRelease(zen_lock(ZEN_LOCK_STATS));
	return since;
}

void
zen_stats_reset(void)
{
	LWLockAcquire(zen_lock(ZEN_LOCK_STATS), LW_EXCLUSIVE);
	stats_sum_blocks(reset->sums);
	reset->at = GetCurrentTimestamp();
	LWLockRelease(zen_lock(ZEN_LOCK_STATS));
}
