/*
 * cc_versions.c -- multi-version timestamp ordering: readers find the version of their time.
 *
 * After P. Bernstein, N. Goodman: Concurrency Control in Distributed Database Systems, ACM Computing Surveys 1981; in
 * Falcon's paper MVTO (5.2.1), in Zen's MVCC.  A transaction reads the newest version that is not later than itself, so
 * one that only reads never meets a later one.  Who writes a row that a later one has read or written starts again.
 * Old versions are in DRAM (chain.c).  A reader of the newest one stores to the row's time of reading.
 */
#include "chain.h"

static void
begin(CcTxn *txn)
{
	chain_reader(txn->thread);
	txn->ts = cc_next_ts();
}

static void
raise_read_ts(CcRow *row, uint64 ts)
{
	uint64		old = pg_atomic_read_u64(&row->read_ts);

	while (old < ts && !pg_atomic_compare_exchange_u64(&row->read_ts, &old, ts))
		;
}

static bool
read_version(CcTxn *txn, int op)
{
	uint32		row = txn->ops[op].row;
	bool		ok = true;

	if (!cc_latch(row, false))
		return false;
	if (pg_atomic_read_u64(&cc_rows[row].write_ts) <= txn->ts)
	{
		raise_read_ts(&cc_rows[row], txn->ts);
		cc_read(txn, op);
	}
	else
	{
		/* a later one has changed the row; who is to write it is too late */
		chain_read_old(txn, op);
		ok = !txn->ops[op].write;
	}
	cc_unlatch(row, false);
	return ok;
}

static bool
execute(CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (cc_reads(&txn->ops[i]) && !read_version(txn, i))
		{
			chain_done(txn->thread);
			return false;
		}
	return true;
}

static bool
is_in_order(const CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
	{
		CcRow	   *row = &cc_rows[txn->ops[i].row];

		if (txn->ops[i].write && (pg_atomic_read_u64(&row->write_ts) > txn->ts ||
								  pg_atomic_read_u64(&row->read_ts) > txn->ts))
			return false;
	}
	return true;
}

static bool
validate(CcTxn *txn)
{
	bool		ok = cc_latch_writes(txn);

	if (ok && !cc_valid(is_in_order(txn)))
	{
		cc_unlatch_writes(txn);
		ok = false;
	}
	if (!ok)
	{
		chain_done(txn->thread);
		return false;
	}
	chain_push_writes(txn);
	return true;
}

static void
end(CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write)
			pg_atomic_write_u64(&cc_rows[txn->ops[i].row].write_ts, txn->ts);
	chain_done(txn->thread);
	cc_unlatch_writes(txn);
}

const CcMethod cc_mvcc = {
	.name = "mvcc",
	.what = "multi-version timestamp ordering, old versions in DRAM",
	.notes_reads = true,
	.begin = begin,
	.execute = execute,
	.validate = validate,
	.end = end,
};
