/*
 * cc_order.c -- timestamp ordering: transactions take effect in the order in which they have begun.
 *
 * After P. Bernstein, N. Goodman: Concurrency Control in Distributed Database Systems, ACM Computing Surveys 1981, as
 * Falcon's paper has it (5.2.1).  A row has the time of its latest writer and of its latest reader.  Who reads what a
 * later transaction has written, or writes what a later one has read or written, starts again.  Writes are kept back to
 * the commit.  A reader stores to the row's time, wherever the design has it.
 */
#include "cc.h"

static void
begin(CcTxn *txn)
{
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
read_in_order(CcTxn *txn, int op)
{
	uint32		row = txn->ops[op].row;
	bool		ok;

	if (!cc_latch(row, false))
		return false;
	ok = pg_atomic_read_u64(&cc_rows[row].write_ts) <= txn->ts;
	if (ok)
	{
		raise_read_ts(&cc_rows[row], txn->ts);
		cc_read(txn, op);
	}
	cc_unlatch(row, false);
	return ok;
}

static bool
execute(CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (cc_reads(&txn->ops[i]) && !read_in_order(txn, i))
			return false;
	return true;
}

/* Has nobody later read or written the rows? */
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
	if (!cc_latch_writes(txn))
		return false;
	if (cc_valid(is_in_order(txn)))
		return true;
	cc_unlatch_writes(txn);
	return false;
}

static void
end(CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write)
			pg_atomic_write_u64(&cc_rows[txn->ops[i].row].write_ts, txn->ts);
	cc_unlatch_writes(txn);
}

const CcMethod cc_to = {
	.name = "to",
	.what = "timestamp ordering",
	.notes_reads = true,
	.begin = begin,
	.execute = execute,
	.validate = validate,
	.end = end,
};
