/*
 * reclaim.c -- the queues of rows that wait to be collected, and giving room back: regions, pages, slots, DRAM.
 *
 * Each region has a queue of the rows that its transactions have written, a list of chunks in DRAM.  The lease holder
 * reserves places before a commit's first durable store, so that adding an item cannot fail (I16).  Sums of all queues
 * are about right only: other processes read them while holders write.
 *
 * The collector leases a region, handles the items of its queue that have come due, and gives empty pages back.  A
 * commit collects in its own region, the worker in those that are free.  VACUUM, and a writer that finds no room,
 * collect in all regions that can be leased.
 *
 * A process that holds a region never waits without end for another: it tries for PATIENCE_MS in all.
 */
#include "gc/reclaim.h"

#include "base/arena.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/guc.h"
#include "cache/clock.h"
#include "miscadmin.h"
#include "nvm/grow.h"
#include "nvm/region.h"
#include "nvm/slotalloc.h"
#include "nvm/tuple.h"
#include "row/lockers.h"
#include "row/visibility.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define CHUNK_ITEMS		255
#define UNIT			64		/* bytes */
#define MAX_UNITS		((1 << 10) - 1)

#define ITEMS_PER_RUN	64
#define LOOK_EVERY		16		/* runs between two looks at the xid horizon,
								 * when nothing is due by the last one */

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

/* ---------- queues ---------- */

typedef struct GcChunk
{
	struct GcChunk *next;
	ZenGcItem	items[CHUNK_ITEMS];
} GcChunk;

/* Belongs to the region's lease holder, except n, bytes and oldest, which others may read. */
typedef struct GcQueue
{
	GcChunk    *head;
	GcChunk    *tail;			/* the chunk being filled; empty chunks
								 * reserved may follow it */
	uint32		head_pos;
	uint32		tail_pos;
	uint32		reserved;		/* places in chunks behind tail */
	pg_atomic_uint32 n;
	pg_atomic_uint64 bytes;		/* superseded by its items, about */
	pg_atomic_uint64 oldest;	/* full xid of the first item, 0 = none */
} GcQueue;

/* How a commit wakes a worker that has been idle. */
typedef struct GcAlarm
{
	pg_atomic_uint32 armed;		/* set by the worker; cleared by the process
								 * that wakes it */
	Latch	   *latch;			/* the worker's; written before armed */
	pg_atomic_uint32 end;		/* of the regions that have had items */
} GcAlarm;

typedef struct GcShared
{
	GcQueue		queues[ZEN_MAX_REGIONS];
	GcAlarm		alarm;
	ZenSweepShared sweep;
} GcShared;

static GcShared *gc;

bool
zen_gcqueue_reserve(uint32 region, uint32 n)
{
	GcQueue    *q = &gc->queues[region];
	GcChunk    *last = q->tail;
	uint32		places = q->reserved + (q->tail ? CHUNK_ITEMS - q->tail_pos : 0);

	/*
	 * recovery reserves for prepared transactions, whose regions no process
	 * holds
	 */
	Assert(pg_atomic_read_u32(&zen_regions[region].leased) != 0);
	while (last != NULL && last->next != NULL)
		last = last->next;
	while (places < n)
	{
		GcChunk    *chunk = zen_arena_alloc(sizeof(GcChunk));

		if (chunk == NULL)
			return false;
		chunk->next = NULL;
		if (last != NULL)
		{
			last->next = chunk;
			q->reserved += CHUNK_ITEMS;
		}
		else
		{
			q->head = q->tail = chunk;
			q->head_pos = q->tail_pos = 0;
		}
		last = chunk;
		places += CHUNK_ITEMS;
	}
	return true;
}

/* Regions from this one on have never had items. */
static uint32
queues_end(void)
{
	return pg_atomic_read_u32(&gc->alarm.end);
}

static void
extend_queues(uint32 end)
{
	uint32		old = queues_end();

	while (old < end && !pg_atomic_compare_exchange_u32(&gc->alarm.end, &old, end))
		;
}

static void
wake_worker(void)
{
	if (pg_atomic_exchange_u32(&gc->alarm.armed, 0))
		SetLatch(gc->alarm.latch);
}

void
zen_gcqueue_push(uint32 region, ZenGcItem item, TransactionId xid, Size bytes)
{
	GcQueue    *q = &gc->queues[region];
	uint32		n = pg_atomic_read_u32(&q->n);

	ZenAssertRegionMine(region);
	Assert(q->tail != NULL && item.htable != 0);
	zen_horizon_set_now();
	if (q->tail_pos == CHUNK_ITEMS)
	{
		Assert(q->tail->next != NULL);
		q->tail = q->tail->next;
		q->tail_pos = 0;
		Assert(q->reserved >= CHUNK_ITEMS);
		q->reserved -= CHUNK_ITEMS;
	}
	item.units = Min((bytes + UNIT - 1) / UNIT, MAX_UNITS);
	item.xid = zen_horizon_widen(xid);
	Assert(FullTransactionIdIsValid(item.xid));
	q->tail->items[q->tail_pos++] = item;
	pg_atomic_write_u64(&q->bytes, pg_atomic_read_u64(&q->bytes) + item.units * UNIT);
	if (n == 0)
		pg_atomic_write_u64(&q->oldest, U64FromFullTransactionId(item.xid));
	pg_atomic_write_u32(&q->n, n + 1);
	if (unlikely(region >= queues_end()))
		extend_queues(region + 1);
	if (unlikely(pg_atomic_read_u32(&gc->alarm.armed)))
		wake_worker();
}

/* The oldest item, or NULL. */
static ZenGcItem *
first_item(uint32 region)
{
	GcQueue    *q = &gc->queues[region];

	ZenAssertRegionMine(region);
	if (q->head == NULL)
		return NULL;
	if (q->head_pos == CHUNK_ITEMS && q->head != q->tail)
	{
		GcChunk    *empty = q->head;

		q->head = empty->next;
		q->head_pos = 0;
		zen_arena_free(empty, sizeof(GcChunk));
	}
	if (q->head == q->tail && q->head_pos == q->tail_pos)
		return NULL;
	Assert(q->head_pos < CHUNK_ITEMS);
	return &q->head->items[q->head_pos];
}

/* The oldest item is done. */
static void
drop_item(uint32 region)
{
	GcQueue    *q = &gc->queues[region];

	ZenAssertRegionMine(region);
	Assert(pg_atomic_read_u32(&q->n) > 0);
	Assert(pg_atomic_read_u64(&q->bytes) >= q->head->items[q->head_pos].units * UNIT);
	pg_atomic_write_u64(&q->bytes, pg_atomic_read_u64(&q->bytes) - q->head->items[q->head_pos].units * UNIT);
	q->head_pos++;
	pg_atomic_write_u32(&q->n, pg_atomic_read_u32(&q->n) - 1);
}

/* After items were dropped: show other processes which xid comes first now. */
static void
note_oldest(uint32 region)
{
	ZenGcItem  *item = first_item(region);

	Assert((item == NULL) == (pg_atomic_read_u32(&gc->queues[region].n) == 0));
	pg_atomic_write_u64(&gc->queues[region].oldest, item ? U64FromFullTransactionId(item->xid) : 0);
}

uint64
zen_gcqueue_pending(void)
{
	uint64		n = 0;

	for (uint32 r = 0; r < queues_end(); r++)
		n += pg_atomic_read_u32(&gc->queues[r].n);
	return n;
}

uint64
zen_gcqueue_bytes(void)
{
	uint64		bytes = 0;

	for (uint32 r = 0; r < queues_end(); r++)
		bytes += pg_atomic_read_u64(&gc->queues[r].bytes);
	return bytes;
}

FullTransactionId
zen_gcqueue_oldest(void)
{
	uint64		oldest = 0;

	for (uint32 r = 0; r < queues_end(); r++)
	{
		uint64		xid = pg_atomic_read_u64(&gc->queues[r].oldest);

		if (xid != 0 && (oldest == 0 || xid < oldest))
			oldest = xid;
	}
	return FullTransactionIdFromU64(oldest);
}

bool
zen_gcqueue_arm(void)
{
	gc->alarm.latch = MyLatch;

	/*
	 * A process that queues after the look below sees the alarm armed.  One
	 * that queues at the same moment may miss it: the worker looks again when
	 * its nap is over.
	 */
	pg_atomic_exchange_u32(&gc->alarm.armed, 1);
	pg_memory_barrier();
	if (zen_gcqueue_pending() == 0)
		return true;
	(void) zen_gcqueue_disarm();
	return false;
}

bool
zen_gcqueue_disarm(void)
{
	return pg_atomic_exchange_u32(&gc->alarm.armed, 0) == 0;
}

/* ---------- collecting in a region ---------- */

static uint32 runs_since_look = 0;

/*
 * Does every snapshot see the item's transaction as ended?
 *
 * This process mostly knows it from an earlier look.  It looks at the ProcArray once in LOOK_EVERY runs at most, and
 * only under two conditions.  Its last snapshot says that the horizon may have moved, and that the item may be due.
 */
static bool
is_due(ZenGcItem *item, bool *looking)
{
	if (FullTransactionIdPrecedesOrEquals(item->xid, zen_horizon.passed))
		return true;
	if (!*looking)
	{
		if (runs_since_look < LOOK_EVERY)
			return false;
		*looking = true;
		runs_since_look = 0;
	}
	if (zen_horizon.xmin == RecentXmin || FullTransactionIdFollowsOrEquals(item->xid, zen_horizon_widen(RecentXmin)))
		return false;
	(void) zen_horizon_look();
	return FullTransactionIdPrecedesOrEquals(item->xid, zen_horizon.passed);
}

uint32
zen_collect_run(uint32 region, uint32 max)
{
	uint32		done = 0;
	bool		looking = false;
	ZenGcItem  *item;

	ZenAssertRegionMine(region);
	ZenAssertNotInEpoch();
	zen_horizon_set_now();
	/* a large transaction counts for many */
	runs_since_look += 1 + Min(max, LOOK_EVERY * ITEMS_PER_RUN) / ITEMS_PER_RUN;
	while ((item = first_item(region)) != NULL && done < max && is_due(item, &looking))
	{
		uint32		weight = item->spilled ? ZEN_TIDS_PER_BLOCK : 1;

		if (!zen_collect_item(&zen_htables[item->htable], item->tidno, item->spilled))
			break;
		drop_item(region);
		done += weight;
	}
	note_oldest(region);
	/* items left may be due, too: the next run asks at once */
	if (done >= max)
		runs_since_look = LOOK_EVERY;
	return done;
}

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
	for (uint32 r = 0; r < queues_end(); r++)
	{
		if (pg_atomic_read_u32(&gc->queues[r].n) == 0 || !lease_patiently(r, &patience))
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
	for (uint32 r = 0; r < queues_end() && done < max; r++)
	{
		uint64		oldest = pg_atomic_read_u64(&gc->queues[r].oldest);

		if (oldest == 0 || oldest > U64FromFullTransactionId(zen_horizon.passed) || !zen_region_try_lease(r))
			continue;
		done += zen_collect_run(r, max - done);
		zen_region_release(r);
	}
	zen_epoch_flush();
	return done;
}

/* Give back at most max pages of a region that have become empty; returns how many. */
static uint32
release_emptied(uint32 region, uint32 keep, uint32 max)
{
	ZenAssertRegionMine(region);
	pg_atomic_write_u32(&zen_regions[region].emptied, 0);
	pg_memory_barrier();		/* a page that is emptied from here on sets it
								 * again */
	return zen_slotalloc_release_empty(region, pages_to_keep(region, keep), max, zen_collect_forget_header);
}

bool
zen_reclaim_some_pages(void)
{
	bool		more = false;

	ZenAssertNotInEpoch();
	for (uint32 r = 0; r < zen_slotalloc_regions_end(); r++)
	{
		if (pg_atomic_read_u32(&zen_regions[r].emptied) == 0 || !zen_region_try_lease(r))
			continue;
		if (release_emptied(r, KEEP_PAGES, PAGES_PER_STEP) == PAGES_PER_STEP)
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
	for (uint32 r = 0; r < zen_slotalloc_regions_end(); r++)
	{
		/* beyond there are many regions and few pages, of which none is kept */
		if ((r >= zen_nregions && pg_atomic_read_u32(&zen_regions[r].emptied) == 0) || !lease_patiently(r, &patience))
			continue;
		(void) release_emptied(r, 1, PG_UINT32_MAX);
		zen_region_release(r);
	}
}

void
zen_reclaim_for_slots(uint32 own)
{
	ZenAssertRegionMine(own);
	(void) zen_horizon_look();
	collect_region(own);
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
reclaim_nap(TimestampTz *since, int timeout_ms, const char *wait_event)
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
	return reclaim_nap(since, timeout_ms, "ZenPoolFull");
}

/* DRAM is full; see zen_find_room. */
static bool
await_room(TimestampTz *since)
{
	return others_keep_garbage() && reclaim_nap(since, zen_full_timeout_ms, "ZenDramFull");
}

/*
 * DRAM is full.  Free these, in this order:
 * - old versions that no snapshot sees;
 * - entries of rows that can be read from NVM, those read least first;
 * - entries that stand in the way of whole spans, since the object asked for may have another size.
 */
static void
reclaim_room(void)
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
reclaim_find(TimestampTz *since)
{
	if (*since == 0)
		*since = GetCurrentTimestamp();
	else if (!await_room(since))
		return false;
	reclaim_room();
	return true;
}

/* ---------- shared memory ---------- */

static void
reclaim_shmem_init(void)
{
	bool		found;

	gc = ShmemInitStruct("zen garbage", sizeof(GcShared), &found);
	zen_sweep = &gc->sweep;
	zen_lockers_collect = zen_collect_item;
	zen_make_room = reclaim_room;
	zen_find_room = reclaim_find;
	if (found)
		return;
	memset(gc, 0, sizeof(*gc));
	pg_atomic_init_u32(&gc->alarm.armed, 0);
	pg_atomic_init_u32(&gc->alarm.end, 0);
	pg_atomic_init_u64(&gc->sweep.sweeps, 0);
	pg_atomic_init_u64(&gc->sweep.frozen_to, 0);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		pg_atomic_init_u32(&gc->queues[r].n, 0);
		pg_atomic_init_u64(&gc->queues[r].bytes, 0);
		pg_atomic_init_u64(&gc->queues[r].oldest, 0);
	}
}

const ZenShmem zen_reclaim_shmem = {.bytes = sizeof(GcShared),.init = reclaim_shmem_init};
