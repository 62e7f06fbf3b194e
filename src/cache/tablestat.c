/*
 * tablestat.c -- counters of each HTable, batched by process.
 *
 * A table's number may go to another table while a process still holds counts of the old one.  So each number has a
 * generation:
 * - counts are collected under the generation that held when the event happened;
 * - they are added, inside an epoch, only if it still holds.
 *
 * The process that takes the number away raises the generation, waits until all readers have left, and then clears the
 * counters.  An addition that has seen the old generation is over by then.  A later one sees the new generation.
 */
#include "cache/tablestat.h"

#include "base/epoch.h"
#include "storage/shmem.h"

#define NBATCHES		64		/* tables that a process collects for at a
								 * time */
#define FLUSH_EVENTS	256
#define FLUSH_BYTES		(64 * 1024)

typedef struct TableStat
{
	pg_atomic_uint64 counters[ZEN_T_NCOUNTERS];
	pg_atomic_uint64 quota;
	pg_atomic_uint32 generation;
} TableStat;

typedef struct Batch
{
	uint32		htable;			/* 0: none */
	uint32		generation;
	uint32		events;
	int64		counters[ZEN_T_NCOUNTERS];
} Batch;

static TableStat *stats;		/* [ZEN_MAX_HTABLES] */
static Batch batches[NBATCHES];

Size
zen_tablestat_shmem_size(void)
{
	return mul_size(ZEN_MAX_HTABLES, sizeof(TableStat));
}

void
zen_tablestat_init(void)
{
	bool		found;

	stats = ShmemInitStruct("zen table statistics", zen_tablestat_shmem_size(), &found);
	memset(batches, 0, sizeof(batches));
	if (found)
		return;
	for (uint32 t = 0; t < ZEN_MAX_HTABLES; t++)
	{
		for (int i = 0; i < ZEN_T_NCOUNTERS; i++)
			pg_atomic_init_u64(&stats[t].counters[i], 0);
		pg_atomic_init_u64(&stats[t].quota, 0);
		pg_atomic_init_u32(&stats[t].generation, 0);
	}
}

uint32
zen_tablestat_generation(uint32 htable)
{
	return pg_atomic_read_u32(&stats[htable].generation);
}

static void
flush_batch(Batch *b)
{
	TableStat  *t = &stats[b->htable];

	Assert(b->events > 0);
	zen_epoch_enter();
	if (pg_atomic_read_u32(&t->generation) == b->generation)
		for (int i = 0; i < ZEN_T_NCOUNTERS; i++)
			if (b->counters[i] != 0)
				pg_atomic_fetch_add_u64(&t->counters[i], b->counters[i]);
	zen_epoch_leave();
	memset(b->counters, 0, sizeof(b->counters));
	b->events = 0;
}

void
zen_tablestat_add(uint32 htable, uint32 generation, ZenTableCounter counter, int64 n)
{
	Batch	   *b = &batches[htable % NBATCHES];

	ZenAssertNotInEpoch();
	Assert(htable < ZEN_MAX_HTABLES && counter < ZEN_T_NCOUNTERS);
	if (unlikely(b->htable != htable || b->generation != generation))
	{
		if (b->events > 0)
			flush_batch(b);
		b->htable = htable;
		b->generation = generation;
	}
	b->counters[counter] += n;
	if (++b->events >= FLUSH_EVENTS ||
		b->counters[ZEN_T_BYTES] >= FLUSH_BYTES || b->counters[ZEN_T_BYTES] <= -FLUSH_BYTES)
		flush_batch(b);
}

void
zen_tablestat_flush(void)
{
	ZenAssertNotInEpoch();
	for (int i = 0; i < NBATCHES; i++)
		if (batches[i].events > 0)
			flush_batch(&batches[i]);
}

void
zen_tablestat_read(uint32 htable, int64 values[ZEN_T_NCOUNTERS])
{
	for (int i = 0; i < ZEN_T_NCOUNTERS; i++)
		values[i] = (int64) pg_atomic_read_u64(&stats[htable].counters[i]);
	/* one process's subtraction may be here before another's addition */
	values[ZEN_T_ENTRIES] = Max(values[ZEN_T_ENTRIES], 0);
	values[ZEN_T_BYTES] = Max(values[ZEN_T_BYTES], 0);
}

void
zen_tablestat_reset(void)
{
	for (uint32 t = 0; t < ZEN_MAX_HTABLES; t++)
		for (int i = 0; i < ZEN_T_NCOUNTERS; i++)
			if (i != ZEN_T_ENTRIES && i != ZEN_T_BYTES)
				pg_atomic_write_u64(&stats[t].counters[i], 0);
}

void
zen_tablestat_drop(uint32 htable)
{
	pg_atomic_fetch_add_u32(&stats[htable].generation, 1);
	zen_epoch_wait();
	for (int i = 0; i < ZEN_T_NCOUNTERS; i++)
		pg_atomic_write_u64(&stats[htable].counters[i], 0);
	pg_atomic_write_u64(&stats[htable].quota, 0);
}

uint64
zen_tablestat_quota(uint32 htable)
{
	return pg_atomic_read_u64(&stats[htable].quota);
}

void
zen_tablestat_set_quota(uint32 htable, uint64 bytes)
{
	Assert(htable < ZEN_MAX_HTABLES);
	pg_atomic_write_u64(&stats[htable].quota, bytes);
}

bool
zen_tablestat_over_quota(uint32 htable)
{
	uint64		quota = zen_tablestat_quota(htable);

	return quota != 0 && (int64) pg_atomic_read_u64(&stats[htable].counters[ZEN_T_BYTES]) > (int64) quota;
}
