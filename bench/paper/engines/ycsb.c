/*
 * ycsb.c -- YCSB's mixes: the Zen paper's, by share of updates, and the standard's A to F.
 *
 * One table; a request reads a whole row or changes bytes of it.  A is ba, C is ro.
 *
 * D and E insert: into a ring of each thread, beside the loaded rows.  When it is full a new row takes the place of the
 * oldest one.  A thread sees the loaded rows and its own.  D draws from the newest on.  E scans 1 to MAX_SCAN rows.
 */
#include "workload.h"

#define MAX_SCAN	100

void
ycsb_setup(void)
{
	WorkloadSettings *s = &workload_settings;

	add_table("usertable", s->rows, s->row_size, s->update_bytes, true);
	zipf_setup(s->rows, s->theta);
	set_max_record(s->requests, s->requests * (s->update_bytes + 8), s->requests * (s->row_size + 8));
}

static bool
has_row(const Op *ops, int n, uint32 row)
{
	for (int i = 0; i < n; i++)
		if (ops[i].row == row)
			return true;
	return false;
}

/* percent: share of updates */
static int
ycsb_next(Generator *g, Op *ops, uint32 percent)
{
	WorkloadSettings *s = &workload_settings;

	for (uint32 i = 0; i < s->requests;)
	{
		Op			op = {.row = zipf_row(g, s->rows, s->theta)};

		if (has_row(ops, i, op.row))
			continue;
		op.write = random_below(g, 100) < percent;
		op.len = s->update_bytes;
		ops[i++] = op;
	}
	return s->requests;
}

int
ycsb_ro(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 0);
}

int
ycsb_rh(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 10);
}

int
ycsb_ba(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 50);
}

int
ycsb_wh(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 90);
}

int
ycsb_up(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 100);
}

int
ycsb_b(Generator *g, Op *ops)
{
	return ycsb_next(g, ops, 5);
}

int
ycsb_f(Generator *g, Op *ops)
{
	int			n = ycsb_next(g, ops, 50);

	for (int i = 0; i < n; i++)
		ops[i].read = true;
	return n;
}

/* ---------- inserts ---------- */

/* Places of a thread for rows that it inserts: few, so that they do not change what DRAM has room for. */
static uint32
insert_ring(void)
{
	return Max(2 * MAX_REQUESTS, workload_settings.rows / 8 / settings.threads);
}

void
ycsb_insert_setup(void)
{
	WorkloadSettings *s = &workload_settings;

	ycsb_setup();
	add_table("inserted", insert_ring() * settings.threads, s->row_size, s->update_bytes, false);
	set_max_record(s->requests, s->requests * (s->row_size + 8), s->requests * (s->row_size + 8));
}

/* A new row, or one that takes the place of the thread's oldest. */
static Op
next_insert(Generator *g)
{
	Op			op = {.row = tables[1].first + g->thread * insert_ring() + g->inserted++ % insert_ring(),.write = true};

	return op;
}

/* The thread's inserts that a transaction may read: its own will not take their places. */
static uint32
readable(uint32 inserted)
{
	return Min(inserted, insert_ring() - MAX_REQUESTS);
}

/* The row of a key: the loaded ones come first, in their order, then those that the thread has inserted. */
static uint32
row_of_key(const Generator *g, uint32 inserted, uint32 key)
{
	uint32		loaded = workload_settings.rows;
	uint32		n = inserted - readable(inserted) + (key - loaded);

	return key < loaded ? key : tables[1].first + g->thread * insert_ring() + n % insert_ring();
}

int
ycsb_d(Generator *g, Op *ops)
{
	WorkloadSettings *s = &workload_settings;
	uint32		inserted = g->inserted;
	uint32		nkeys = s->rows + readable(inserted);

	for (uint32 i = 0; i < s->requests;)
	{
		Op			op;

		if (random_below(g, 100) < 5)
			op = next_insert(g);
		else
			op = (Op)
		{
			.row = row_of_key(g, inserted, nkeys - 1 - zipf_rank(g, s->rows, s->theta))
		};
		if (!has_row(ops, i, op.row))
			ops[i++] = op;
	}
	return s->requests;
}

/* Scans of a transaction may meet. */
int
ycsb_e(Generator *g, Op *ops)
{
	WorkloadSettings *s = &workload_settings;
	uint32		inserted = g->inserted;
	uint32		nkeys = s->rows + readable(inserted);
	int			n = 0;

	for (uint32 i = 0; i < s->requests; i++)
	{
		uint32		first;
		uint32		len;

		if (random_below(g, 100) < 5)
		{
			ops[n++] = next_insert(g);
			continue;
		}
		first = zipf_row(g, s->rows, s->theta);
		len = 1 + random_below(g, Min(MAX_SCAN, (MAX_OPS - n) / (s->requests - i)));
		for (uint32 key = first; key < Min(nkeys, first + len); key++)
			ops[n++] = (Op)
		{
			.row = row_of_key(g, inserted, key)
		};
	}
	return n;
}

/* ---------- churn ---------- */

/* Rows are inserted, updated and deleted in turn (run.c goes by their versions). */
void
churn_setup(void)
{
	WorkloadSettings *s = &workload_settings;

	ycsb_setup();
	tables[0].cycles = true;
	set_max_record(s->requests, s->requests * (s->row_size + 8), s->requests * (s->row_size + 8));
}
