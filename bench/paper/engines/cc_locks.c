/*
 * cc_locks.c -- two-phase locking, without waiting: locks on rows, shared or exclusive, held to the end.
 *
 * As "no waiting" in X. Yu and others: Staring into the Abyss, PVLDB 2014, and in Falcon's paper.  A row's lock is its
 * latch.  A design that has the lock with the row stores to it when it is taken.
 */
#include "cc.h"

static void
begin(CcTxn *txn)
{
}

static void
unlock_before(const CcTxn *txn, int n)
{
	while (--n >= 0)
		cc_unlatch(txn->ops[n].row, txn->ops[n].write);
}

static bool
execute(CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
	{
		if (!cc_latch(txn->ops[i].row, txn->ops[i].write))
		{
			unlock_before(txn, i);
			return false;
		}
		if (cc_reads(&txn->ops[i]))
			cc_read(txn, i);
	}
	return true;
}

static bool
validate(CcTxn *txn)
{
	txn->ts = cc_next_ts();
	return true;
}

static void
end(CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write)
			pg_atomic_write_u64(&cc_rows[txn->ops[i].row].write_ts, txn->ts);
	unlock_before(txn, txn->n);
}

const CcMethod cc_2pl = {
	.name = "2pl",
	.what = "two-phase locking without waiting",
	.notes_reads = true,
	.begin = begin,
	.execute = execute,
	.validate = validate,
	.end = end,
};
