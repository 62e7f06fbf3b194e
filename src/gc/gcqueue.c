/*
 * gcqueue.c -- queues of items that wait to be collected.
 *
 * A queue is a list of chunks in DRAM.  The lease holder of the region reserves places before a commit's first durable
 * store, so that adding an item cannot fail (I16).  Sums of all queues are about right only: other processes read them
 * while holders write.
 */
#include "gc/gcqueue.h"

#include "base/arena.h"
#include "miscadmin.h"
#include "nvm/region.h"
#include "nvm/tuple.h"
#include "row/visibility.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#define CHUNK_ITEMS		255
#define UNIT			64		/* bytes */
#define MAX_UNITS		((1 << 10) - 1)

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

static GcQueue *queues;			/* [ZEN_MAX_REGIONS] */
static GcAlarm *alarm_clock;

bool
zen_gcqueue_reserve(uint32 region, uint32 n)
{
	GcQueue    *q = &queues[region];
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

uint32
zen_gcqueue_end(void)
{
	return pg_atomic_read_u32(&alarm_clock->end);
}

static void
extend_queues(uint32 end)
{
	uint32		old = zen_gcqueue_end();

	while (old < end && !pg_atomic_compare_exchange_u32(&alarm_clock->end, &old, end))
		;
}

static void
wake_worker(void)
{
	if (pg_atomic_exchange_u32(&alarm_clock->armed, 0))
		SetLatch(alarm_clock->latch);
}

/* Add an item; there is room. */
static void
push(uint32 region, ZenGcItem item, TransactionId xid, Size bytes)
{
	GcQueue    *q = &queues[region];
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
	if (unlikely(region >= zen_gcqueue_end()))
		extend_queues(region + 1);
	if (unlikely(pg_atomic_read_u32(&alarm_clock->armed)))
		wake_worker();
}

void
zen_gcqueue_push(uint32 region, ZenHTable *ht, uint64 tidno, TransactionId xid, Size bytes)
{
	ZenGcItem	item = {.tidno = tidno,.htable = ht->idx};

	push(region, item, xid, bytes);
}

void
zen_gcqueue_push_block(uint32 region, ZenHTable *ht, uint32 block, TransactionId xid, Size bytes)
{
	ZenGcItem	item = {.tidno = (uint64) block * ZEN_TIDS_PER_BLOCK,.htable = ht->idx,.spilled = true};

	push(region, item, xid, bytes);
}

ZenGcItem *
zen_gcqueue_first(uint32 region)
{
	GcQueue    *q = &queues[region];

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

void
zen_gcqueue_drop_first(uint32 region)
{
	GcQueue    *q = &queues[region];

	ZenAssertRegionMine(region);
	Assert(pg_atomic_read_u32(&q->n) > 0);
	Assert(pg_atomic_read_u64(&q->bytes) >= q->head->items[q->head_pos].units * UNIT);
	pg_atomic_write_u64(&q->bytes, pg_atomic_read_u64(&q->bytes) - q->head->items[q->head_pos].units * UNIT);
	q->head_pos++;
	pg_atomic_write_u32(&q->n, pg_atomic_read_u32(&q->n) - 1);
}

void
zen_gcqueue_note_oldest(uint32 region)
{
	ZenGcItem  *item = zen_gcqueue_first(region);

	Assert((item == NULL) == (pg_atomic_read_u32(&queues[region].n) == 0));
	pg_atomic_write_u64(&queues[region].oldest, item ? U64FromFullTransactionId(item->xid) : 0);
}

uint32
zen_gcqueue_length(uint32 region)
{
	return pg_atomic_read_u32(&queues[region].n);
}

uint64
zen_gcqueue_oldest_of(uint32 region)
{
	return pg_atomic_read_u64(&queues[region].oldest);
}

uint64
zen_gcqueue_pending(void)
{
	uint64		n = 0;

	for (uint32 r = 0; r < zen_gcqueue_end(); r++)
		n += pg_atomic_read_u32(&queues[r].n);
	return n;
}

uint64
zen_gcqueue_bytes(void)
{
	uint64		bytes = 0;

	for (uint32 r = 0; r < zen_gcqueue_end(); r++)
		bytes += pg_atomic_read_u64(&queues[r].bytes);
	return bytes;
}

FullTransactionId
zen_gcqueue_oldest(void)
{
	uint64		oldest = 0;

	for (uint32 r = 0; r < zen_gcqueue_end(); r++)
	{
		uint64		xid = pg_atomic_read_u64(&queues[r].oldest);

		if (xid != 0 && (oldest == 0 || xid < oldest))
			oldest = xid;
	}
	return FullTransactionIdFromU64(oldest);
}

bool
zen_gcqueue_arm(void)
{
	alarm_clock->latch = MyLatch;

	/*
	 * a full barrier: a process that queues after the look below sees the
	 * alarm armed
	 */
	pg_atomic_exchange_u32(&alarm_clock->armed, 1);
	if (zen_gcqueue_pending() == 0)
		return true;
	(void) zen_gcqueue_disarm();
	return false;
}

bool
zen_gcqueue_disarm(void)
{
	return pg_atomic_exchange_u32(&alarm_clock->armed, 0) == 0;
}

Size
zen_gcqueue_shmem_size(void)
{
	return add_size(mul_size(ZEN_MAX_REGIONS, sizeof(GcQueue)), sizeof(GcAlarm));
}

void
zen_gcqueue_init(void)
{
	bool		found;

	queues = ShmemInitStruct("zen garbage queues", zen_gcqueue_shmem_size(), &found);
	alarm_clock = (GcAlarm *) (queues + ZEN_MAX_REGIONS);
	if (found)
		return;
	memset(queues, 0, zen_gcqueue_shmem_size());
	pg_atomic_init_u32(&alarm_clock->armed, 0);
	pg_atomic_init_u32(&alarm_clock->end, 0);
	for (uint32 r = 0; r < ZEN_MAX_REGIONS; r++)
	{
		pg_atomic_init_u32(&queues[r].n, 0);
		pg_atomic_init_u64(&queues[r].bytes, 0);
		pg_atomic_init_u64(&queues[r].oldest, 0);
	}
}
