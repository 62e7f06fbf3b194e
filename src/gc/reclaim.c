/*
 * reclaim.c -- giving room back: regions, pages, slots, DRAM.
 *
 * The collector leases a region, handles the items of its queue that have come due, and gives empty pages back.  It
 * runs in these processes:
 * - a commit collects in its own region;
 * - the worker collects in regions that are free;
 * - VACUUM, and a writer that finds no room, collect in all regions that can be leased.
 *
 * A process that holds a region never waits without end for another: it tries for PATIENCE_MS in all.
 */
#include "gc/reclaim.h"

#include "base/arena.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/guc.h"
#include "cache/clock.h"
#include "gc/collect.h"
#include "gc/gcqueue.h"
#include "miscadmin.h"
#include "nvm/grow.h"
#include "nvm/region.h"
#include "nvm/slotalloc.h"
#include "row/visibility.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define EVICT_WHEN_FULL	65536	/* entries that the CLOCK hand passes when
								 * DRAM is full */
#define KEEP_PAGES		3		/* empty ones of a context that the worker
								 * leaves: a writer would take them again
								 * soon, and each time they would be zeroed */
#define PATIENCE_MS		100		/* for regions that others are at work in */
#define WORKER_TIMEOUT_MS	10000	/* that the worker gets to begin to make
									 * the pool larger */
#define FULL_NAP_MS		100		/* between two looks for room in a full pool
								 * or DRAM */
#define PAGES_PER_STEP	64		/* that one look at a region gives back */

/*
 * The number of empty pages of a context that stay where they are, as its next writer would take them again: keep.
 *
 * Regions that only a server with more writers has used have no next writer, unless the pool is full: none.  The fault
 * keeps none either: with it all empty pages go at once.
 */
static uint32
pages_to_keep(uint32 region, uint32 keep)
{
	return region < zen_nregions && !ZEN_FAULT(R18_STOP_CONDEMNED) ? keep : 0;
}

/* The free lists' state when this process last looked for slots everywhere, for zen_pages_are_coming(). */
static uint64 pages_seen;

static void
collect_region(uint32 region)
{
	ZenAssertRegionMine(region);
	zen_collect_run(region, PG_UINT32_MAX);
	zen_epoch_flush();
	zen_slotalloc_release_empty(region, pages_to_keep(region, 1), PG_UINT32_MAX, zen_collect_forget_header);
}

void
zen_reclaim_region(uint32 region)
{
	(void) zen_horizon_look();
	collect_region(region);
}

/*
 * Lease a region for a process that needs the room in it now.  If another process is at work there, a collector
 * perhaps, wait for it.
 *
 * *patience: milliseconds left.
 */
static bool
lease_patiently(uint32 region, int *patience)
{
	Assert(region < ZEN_MAX_REGIONS && *patience >= 0);
	while (!zen_region_try_lease(region))
	{
		if (pg_atomic_read_u32(&zen_regions[region].leased) != ZEN_LEASE_BUSY ||
			zen_regions[region].holder == MyProcPid || *patience <= 0)
			return false;
		pg_usleep(1000L);
		(*patience)--;
	}
	return true;
}

void
zen_reclaim_all(void)
{
	int			patience = PATIENCE_MS;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	if (zen_gcqueue_pending() == 0)
		return;
	(void) zen_horizon_look();
	for (uint32 r = 0; r < zen_gcqueue_end(); r++)
	{
		if (zen_gcqueue_length(r) == 0 || !lease_patiently(r, &patience))
			continue;
		collect_region(r);
		zen_region_release(r);
	}
}

uint32
zen_reclaim_some(uint32 max)
{
	uint32		done = 0;

	ZenAssertNotInEpoch();
	for (uint32 r = 0; r < zen_gcqueue_end() && done < max; r++)
	{
		uint64		oldest = zen_gcqueue_oldest_of(r);

		if (oldest == 0 || oldest > U64FromFullTransactionId(zen_horizon.passed) || !zen_region_try_lease(r))
			continue;
		done += zen_collect_run(r, max - done);
		zen_region_release(r);
	}
	zen_epoch_flush();
	return done;
}

bool
zen_reclaim_some_pages(void)
{
	bool		more = false;

	ZenAssertNotInEpoch();
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		if (pg_atomic_read_u32(&zen_regions[r].emptied) == 0 || !zen_region_try_lease(r))
			continue;
		pg_atomic_write_u32(&zen_regions[r].emptied, 0);
		pg_memory_barrier();	/* a page that is emptied from here on sets it
								 * again */
		if (zen_slotalloc_release_empty(r, pages_to_keep(r, KEEP_PAGES), PAGES_PER_STEP,
										zen_collect_forget_header) == PAGES_PER_STEP)
		{
			pg_atomic_write_u32(&zen_regions[r].emptied, 1);
			more = true;
		}
		zen_region_release(r);
	}
	return more;
}

void
zen_reclaim_pages(void)
{
	int			patience = PATIENCE_MS;

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	/* versions that this process has retired may hold slots of empty pages */
	zen_epoch_flush();
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		/* beyond there are many regions and few pages, of which none is kept */
		if ((r >= zen_nregions && pg_atomic_read_u32(&zen_regions[r].emptied) == 0) || !lease_patiently(r, &patience))
			continue;
		pg_atomic_write_u32(&zen_regions[r].emptied, 0);
		pg_memory_barrier();	/* a page that is emptied from here on sets it
								 * again */
		zen_slotalloc_release_empty(r, pages_to_keep(r, 1), PG_UINT32_MAX, zen_collect_forget_header);
		zen_region_release(r);
	}
}

void
zen_reclaim_for_slots(uint32 own)
{
	ZenAssertRegionMine(own);
	zen_reclaim_region(own);
	zen_reclaim_all();
	zen_reclaim_pages();
	(void) zen_pages_are_coming(&pages_seen);
}

/* Does garbage wait for other processes, and not for this process's own snapshots and changes? */
static bool
others_keep_garbage(void)
{
	FullTransactionId oldest = zen_gcqueue_oldest();
	TransactionId own[] = {MyProc->xmin, MyProc->xid};

	if (!FullTransactionIdIsValid(oldest))
		return false;
	zen_horizon_set_now();
	for (int i = 0; i < lengthof(own); i++)
		if (TransactionIdIsValid(own[i]) && FullTransactionIdFollowsOrEquals(oldest, zen_horizon_widen(own[i])))
			return false;
	return true;
}

/* Sleep for a moment, unless a time is over that began at *since, 0 at the first call. */
static bool
nap(TimestampTz *since, int timeout_ms, const char *wait_event)
{
	TimestampTz now = GetCurrentTimestamp();

	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	if (*since == 0)
		*since = now;
	if (now - *since >= (TimestampTz) timeout_ms * 1000)
		return false;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, FULL_NAP_MS, zen_wait_event(wait_event));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return true;
}

bool
zen_reclaim_await_slots(TimestampTz *since)
{
	ZenGrowHope hope = zen_grow_ask();
	int			timeout_ms = hope == ZEN_GROW_ASKED ? Max(zen_full_timeout_ms, WORKER_TIMEOUT_MS) : zen_full_timeout_ms;

	/*
	 * others may be at work on empty pages: they flush the WAL before these
	 * are free
	 */
	if (hope == ZEN_GROW_NOT && !others_keep_garbage() && !zen_pages_are_coming(&pages_seen))
		return false;
	if (hope == ZEN_GROW_GROWING)
		*since = 0;
	return nap(since, timeout_ms, "ZenPoolFull");
}

/* DRAM is full; see zen_find_room. */
static bool
await_room(TimestampTz *since)
{
	return others_keep_garbage() && nap(since, zen_full_timeout_ms, "ZenDramFull");
}

/*
 * DRAM is full.  Free these, in this order:
 * - old versions that no snapshot sees;
 * - entries of rows that can be read from NVM, those read least first;
 * - entries that stand in the way of whole spans, since the object asked for may have another size.
 */
static void
make_room(void)
{
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	zen_reclaim_all();
	zen_clock_evict_any(EVICT_WHEN_FULL);
	zen_epoch_flush();
	zen_arena_drain();
	zen_clock_evict_spans();
}

static bool
find_room(TimestampTz *since)
{
	if (*since == 0)
		*since = GetCurrentTimestamp();
	else if (!await_room(since))
		return false;
	make_room();
	return true;
}

void
zen_reclaim_init(void)
{
	zen_make_room = make_room;
	zen_find_room = find_room;
}
