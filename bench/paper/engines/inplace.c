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

static char *table_base[MAX_TABLES];
static pg_atomic_flag row_locks[ROW_LOCKS]; /* recovery only */

static Size
stride(const Table *table)
{
	return TYPEALIGN(ZEN_LINE, sizeof(RowHeader) + table->size);
}

Size
inplace_size(void)
{
	Size		size = 0;

	for (int t = 0; t < ntables; t++)
		size += pool_carved(stride(&tables[t]) * tables[t].nrows);
	return size;
}

void
inplace_open(bool fresh)
{
	for (int t = 0; t < ntables; t++)
		table_base[t] = pool_carve(stride(&tables[t]) * tables[t].nrows);
	for (int i = 0; i < ROW_LOCKS; i++)
		pg_atomic_init_flag(&row_locks[i]);
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

void
inplace_write_inserts(const Write *writes, int n)
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

void
inplace_apply(const Write *w, uint64 cts, void (*flush) (const void *addr, Size len))
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
	if (w->kind != WRITE_UPDATE || from + w->len <= line)
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
			inplace_apply(&w, r->cts, zen_flush);
		pg_atomic_clear_flag(&row_locks[e->row % ROW_LOCKS]);
	}
	zen_fence();
	recovery_barrier();
	for (int t = 0; t < settings.threads; t++)
		largest = Max(largest, newest[t]);
	if (thread == 0)
		restart_cts(largest);
}

void
inplace_commit_flushed(int thread, const Write *writes, int n)
{
	uint64		cts;

	if (n == 0)
		return;
	cts = next_cts();
	inplace_write_inserts(writes, n);
	ring_append(thread, writes, n, cts);
	zen_fence();
	for (int i = 0; i < n; i++)
		inplace_apply(&writes[i], cts, zen_flush);
	zen_fence();
}
