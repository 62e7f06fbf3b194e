/*
 * cc.c -- what methods of concurrency control have in common: latches, times, reads, notes in NVM.
 *
 * A latch protects a row while it is copied or changed.  Only in cc_locks.c is it held longer, as a lock.
 */
#include "cc.h"

#define EXCLUSIVE		PG_UINT32_MAX

Fault		fault = FAULT_NONE;
bool		checking = false;
CcRow	   *cc_rows;
const CcMethod *cc = &cc_2pl;

static pg_atomic_uint64 clock_ts;

void
cc_open(void)
{
	cc_rows = calloc(nrows, sizeof(CcRow));
	if (cc_rows == NULL)
		die("no memory for %u rows", nrows);
	/* 0 is the time of what was loaded; even, for cc_htm.c */
	pg_atomic_init_u64(&clock_ts, 0);
}

void
cc_prepare(CcTxn *txn, int thread, const Op *ops, int n)
{
	Assert(n <= MAX_OPS);
	txn->thread = thread;
	txn->ops = ops;
	txn->n = n;
	txn->in_region = false;
	txn->silent = false;
}

void
cc_leave(CcTxn *txn)
{
	if (txn->in_region)
		cc->leave(txn);
	Assert(!txn->in_region);
}

/* ---------- latches ---------- */

bool
cc_latch(uint32 row, bool exclusive)
{
	pg_atomic_uint32 *latch = &cc_rows[row].latch;
	uint32		old = pg_atomic_read_u32(latch);

	do
	{
		if (old == EXCLUSIVE || (exclusive && old != 0))
			return false;
	} while (!pg_atomic_compare_exchange_u32(latch, &old, exclusive ? EXCLUSIVE : old + 1));
	return true;
}

void
cc_unlatch(uint32 row, bool exclusive)
{
	Assert(pg_atomic_read_u32(&cc_rows[row].latch) != 0);
	if (exclusive)
	{
		pg_write_barrier();
		pg_atomic_write_u32(&cc_rows[row].latch, 0);
	}
	else
		pg_atomic_fetch_sub_u32(&cc_rows[row].latch, 1);
}

static void
unlatch_writes_before(const CcTxn *txn, int n)
{
	while (--n >= 0)
		if (txn->ops[n].write)
			cc_unlatch(txn->ops[n].row, true);
}

bool
cc_latch_writes(const CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write && !cc_latch(txn->ops[i].row, true))
		{
			unlatch_writes_before(txn, i);
			return false;
		}
	return true;
}

void
cc_unlatch_writes(const CcTxn *txn)
{
	unlatch_writes_before(txn, txn->n);
}

/* ---------- rows ---------- */

/* The word with the row: it means nothing after a crash, but some designs make it durable. */
static void
note(const CcTxn *txn, uint32 row)
{
	uint64	   *word = design->metadata ? design->metadata(row) : NULL;

	if (word == NULL)
		return;
	/* never 0: some designs have there that the row is present */
	nvm_store64(word, (txn->ts << 1) | 1);
	if (design->metadata_durable)
		zen_persist(word, sizeof(*word));
}

bool
cc_reads(const Op *op)
{
	return !op->write || op->read;
}

void
cc_read(CcTxn *txn, int op)
{
	uint32		row = txn->ops[op].row;
	char		data[MAX_ROW];
	bool		found = design->read(txn->thread, row, data);

	txn->version[op] = model_version(row);
	if (cc->notes_reads && !txn->silent && !txn->ops[op].write)
		note(txn, row);
	if (checking)
		model_expect(row, txn->version[op], found, data);
}

void
cc_note_write(const CcTxn *txn, int op)
{
	if (!design->metadata_of_readers)
		note(txn, txn->ops[op].row);
}

/* ---------- validation ---------- */

bool
cc_valid(bool found)
{
	return found || fault == FAULT_BLIND;
}

uint64
cc_next_ts(void)
{
	return pg_atomic_add_fetch_u64(&clock_ts, 1);
}

uint64
cc_now(void)
{
	return pg_atomic_read_u64(&clock_ts);
}
