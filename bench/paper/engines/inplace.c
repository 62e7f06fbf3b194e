/*
 * inplace.c -- rows that stay where they are in NVM.
 *
 * A row has one place, which begins on a cache line: a header of 16 bytes and the row.  A transaction logs what it
 * will change, then changes it.  Of a crash in between recovery makes good what the last record of each thread's ring
 * says, as everything before it is in place already; a row with a larger Tx-CTS has been changed by a later
 * transaction, whose own record counts.
 */
#include "inplace.h"

#include <sched.h>

#define ROW_LOCKS	256
#define WAYS		4			/* rows of one set, the last one used first */

/* The rows that a thread has changed last. */
typedef struct Hot
{
	uint32	   *rows;			/* nsets sets of WAYS rows, + 1; 0 = none */
	uint32		nsets;
} Hot;

static Hot	hot[MAX_THREADS];

static char *table_base[MAX_TABLES];
static pg_atomic_flag row_locks[ROW_LOCKS]; /* recovery only */

static Size
stride(const Table *table)
{
	return TYPEALIGN(ZEN_LINE, sizeof(RowHeader) + table->size);
}

/* Bytes of each thread's log. */
static Size
log_bytes(void)
{
	return design->window ? 2 * settings.max_record : settings.log_size;
}

Size
inplace_size(void)
{
	Size		size = ring_size(log_bytes());

	for (int t = 0; t < ntables; t++)
		size += pool_carved(stride(&tables[t]) * tables[t].nrows);
	return size;
}

void
inplace_open(bool fresh)
{
	ring_open(log_bytes());
	for (int t = 0; t < ntables; t++)
		table_base[t] = pool_carve(stride(&tables[t]) * tables[t].nrows);
	for (int i = 0; i < ROW_LOCKS; i++)
		pg_atomic_init_flag(&row_locks[i]);
	for (int t = 0; t < settings.threads; t++)
	{
		hot[t].nsets = Max(1, settings.hot_rows / WAYS);
		hot[t].rows = calloc(hot[t].nsets * WAYS, sizeof(uint32));
	}
}

static RowHeader *
row_at(uint32 row)
{
	const Table *table = table_of(row);

	return (RowHeader *) (table_base[table - tables] + stride(table) * (row - table->first));
}

void
inplace_load(int thread, uint32 row, const char *data)
{
	RowHeader  *h = row_at(row);
	uint32		size = table_of(row)->size;

	nvm_store(h + 1, data, size);
	nvm_store64(&h->cts, next_cts());
	nvm_store64(&h->present, 1);
	zen_flush(h, sizeof(*h) + size);
}

void
inplace_load_end(int thread)
{
	zen_fence();
}

bool
inplace_read(int thread, uint32 row, char *data)
{
	RowHeader  *h = row_at(row);

	if (h->present == 0)
		return false;
	nvm_read(data, h + 1, table_of(row)->size);
	return true;
}

/* New rows are written, durably, before the commit makes them present. */
static void
write_inserts(const Write *writes, int n)
{
	bool		any = false;

	for (int i = 0; i < n; i++)
		if (writes[i].kind == WRITE_INSERT)
		{
			RowHeader  *h = row_at(writes[i].row);

			nvm_store(h + 1, writes[i].data, writes[i].len);
			zen_flush(h + 1, writes[i].len);
			any = true;
		}

	/*
	 * the record may reach the medium before its fence, and must not find
	 * half a row
	 */
	if (any)
		zen_fence();
}

/*
 * Apply a write of a transaction that is in the log; flush is called for each range changed.  A new row was flushed
 * before, unless caches survive.
 */
static void
apply(const Write *w, uint64 cts, RangeFlush flush)
{
	RowHeader  *h = row_at(w->row);
	char	   *line = (char *) h + ZEN_LINE;
	char	   *from = (char *) (h + 1) + w->offset;

	nvm_store64(&h->cts, cts);
	if (w->kind != WRITE_UPDATE)
		nvm_store64(&h->present, w->kind == WRITE_INSERT);
	else
		nvm_store(from, w->data, w->len);

	/* each line once, in ascending order */
	if (w->kind == WRITE_INSERT && medium.eadr)
		flush(h, sizeof(*h) + w->len);
	else if (w->kind != WRITE_UPDATE || from + w->len <= line)
		flush(h, sizeof(*h));
	else if (from <= line)
		flush(h, from + w->len - (char *) h);
	else
	{
		flush(h, sizeof(*h));
		flush(from, w->len);
	}
}

void
inplace_recover(int thread)
{
	static uint64 newest[MAX_THREADS];
	uint64		largest = 0;
	const LogRecord *r = ring_last(thread);
	const LogEntry *e = (const LogEntry *) (r + 1);

	newest[thread] = r != NULL ? r->cts : 0;
	for (uint32 i = 0; r != NULL && i < r->nentries; i++, e = log_next(e))
	{
		Write		w = log_write_of(e);

		/* two rings may name one row: its header decides, whoever comes first */
		while (!pg_atomic_test_set_flag(&row_locks[e->row % ROW_LOCKS]))
			sched_yield();
		if (row_at(e->row)->cts <= r->cts)
			apply(&w, r->cts, zen_flush);
		pg_atomic_clear_flag(&row_locks[e->row % ROW_LOCKS]);
	}
	zen_fence();
	recovery_barrier();
	for (int t = 0; t < settings.threads; t++)
		largest = Max(largest, newest[t]);
	if (thread == 0)
		restart_cts(largest);
}

/* Has this thread changed the row lately?  It has now. */
static bool
is_hot(int thread, uint32 row)
{
	uint32	   *set = &hot[thread].rows[(row * UINT64CONST(0x9E3779B97F4A7C15) >> 32) % hot[thread].nsets * WAYS];
	int			i = 0;
	bool		found;

	while (i < WAYS - 1 && set[i] != row + 1)
		i++;
	found = set[i] == row + 1;
	memmove(set + 1, set, i * sizeof(uint32));
	set[0] = row + 1;
	return found;
}

static void
no_flush(const void *addr, Size len)
{
}

/* How a row that was changed is flushed. */
static RangeFlush
flush_of(int thread, uint32 row)
{
	if (!medium.eadr)
		return zen_flush;
	if (design->hints == HINTS_NONE || (design->hints == HINTS_COLD && is_hot(thread, row)))
		return no_flush;
	return nvm_hint_flush;
}

void
inplace_commit(int thread, const Write *writes, int n)
{
	uint64		cts;

	if (n == 0)
		return;
	cts = next_cts();
	write_inserts(writes, n);
	ring_append(thread, writes, n, cts, medium.eadr && design->flush_log ? nvm_hint_flush : zen_flush);
	zen_fence();
	for (int i = 0; i < n; i++)
		apply(&writes[i], cts, flush_of(thread, writes[i].row));
	if (!medium.eadr)
		zen_fence();
}
