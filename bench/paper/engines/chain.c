/*
 * chain.c -- old versions of rows in DRAM, as in Falcon's paper (5.2.3, 5.4).
 *
 * A version is copied here before the next one takes its place.  A row's chain is trimmed when another one is pushed,
 * and by the thread that has pushed to it last: each thread has a queue of such rows.
 *
 * A thread announces the clock before it draws its own time, so its time is not smaller.  Who looks for the smallest
 * one reads the clock first: a thread that it does not find will draw a larger time than that.
 */
#include "chain.h"

#define NOBODY			PG_UINT64_MAX
#define FIRST_QUEUE		1024	/* rows */

typedef struct Queue
{
	uint32	   *rows;
	uint32		n,
				max;
} Queue;

/* pg_atomic: 0 is nobody, else the time + 1 */
static pg_atomic_uint64 readers[MAX_THREADS];
static Queue queues[MAX_THREADS];

void
chain_reader(int thread)
{
	pg_atomic_write_u64(&readers[thread], cc_now() + 1);
	/* pairs with the one in smallest_time() */
	pg_memory_barrier();
}

void
chain_done(int thread)
{
	pg_atomic_write_u64(&readers[thread], 0);
}

static uint64
smallest_time(void)
{
	uint64		smallest = cc_now();

	pg_memory_barrier();
	for (int t = 0; t < settings.threads; t++)
	{
		uint64		time = pg_atomic_read_u64(&readers[t]);

		if (time != 0)
			smallest = Min(smallest, time - 1);
	}
	return smallest;
}

static OldVersion *
find_version(uint32 row, uint64 ts)
{
	OldVersion *v = cc_rows[row].old;

	while (v != NULL && v->begin_ts > ts)
		v = v->older;
	return v;
}

int
chain_trim(uint32 row)
{
	OldVersion **next = &cc_rows[row].old;
	uint64		smallest = smallest_time();
	int			left = 0;

	for (; *next != NULL && (*next)->end_ts > smallest; next = &(*next)->older)
		left++;
	while (*next != NULL)
	{
		OldVersion *gone = *next;

		*next = gone->older;
		free(gone);
	}
	return left;
}

/* Rows that are latched by others, or are still read, stay in the queue. */
static void
collect(Queue *queue)
{
	uint32		kept = 0;

	for (uint32 i = 0; i < queue->n; i++)
	{
		uint32		row = queue->rows[i];
		bool		keep = true;

		if (cc_latch(row, true))
		{
			keep = chain_trim(row) > 0;
			cc_unlatch(row, true);
		}
		if (keep)
			queue->rows[kept++] = row;
	}
	queue->n = kept;
}

static void
note_row(Queue *queue, uint32 row)
{
	if (queue->n == queue->max)
		collect(queue);
	if (queue->n >= queue->max / 2)
	{
		queue->max = queue->max * 2 + FIRST_QUEUE;
		queue->rows = realloc(queue->rows, queue->max * sizeof(uint32));
		if (queue->rows == NULL)
			die("no memory for old versions");
	}
	queue->rows[queue->n++] = row;
}

static void
keep_version(int thread, uint32 row, uint64 end_ts)
{
	uint32		size = table_of(row)->size;
	OldVersion *v = malloc(sizeof(OldVersion) + size);

	if (v == NULL)
		die("no memory for old versions");
	chain_trim(row);
	v->begin_ts = pg_atomic_read_u64(&cc_rows[row].write_ts);
	v->end_ts = end_ts;
	v->version = model_version(row);
	v->present = design->read(thread, row, v->data);
	v->older = cc_rows[row].old;
	cc_rows[row].old = v;
	note_row(&queues[thread], row);
}

/* ---------- snapshots ---------- */

void
chain_begin_snapshot(CcTxn *txn)
{
	chain_reader(txn->thread);
	txn->ts = cc_now();
}

void
chain_read_old(CcTxn *txn, int op)
{
	uint32		row = txn->ops[op].row;
	OldVersion *v = find_version(row, txn->ts);

	if (v == NULL)
		die("row %u: no version is as old as its reader", row);
	txn->version[op] = v->version;
	if (checking)
		model_expect(row, v->version, v->present, v->data);
}

bool
chain_read_snapshot(CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
	{
		uint32		row = txn->ops[i].row;

		if (!cc_reads(&txn->ops[i]))
			continue;
		if (!cc_latch(row, false))
			return false;
		if (pg_atomic_read_u64(&cc_rows[row].write_ts) <= txn->ts)
			cc_read(txn, i);
		else
			chain_read_old(txn, i);
		cc_unlatch(row, false);
	}
	return true;
}

void
chain_push_writes(const CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write)
			keep_version(txn->thread, txn->ops[i].row, txn->ts);
}
