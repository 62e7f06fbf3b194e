/*
 * cc_snapshot.c -- snapshot isolation with two versions of a row.
 *
 * After J. Gu and others: Pisces: A Scalable and Efficient Persistent Transactional Memory, USENIX ATC 2019.  A
 * transaction reads what was committed when it began.  The second version, the one before the newest, stays while
 * somebody may read it.  A writer of the row starts again until then, where Pisces waits before it writes back.  Of two
 * concurrent writers of a row the first one wins.  A reader stores nothing.
 *
 * A writer draws its time when it has all latches: whoever has begun with a later time finds the latch, or the row.
 */
#include "chain.h"

static void
begin(CcTxn *txn)
{
	chain_begin_snapshot(txn);
}

static bool
execute(CcTxn *txn)
{
	if (chain_read_snapshot(txn))
		return true;
	chain_done(txn->thread);
	return false;
}

/* Is this the first writer since the snapshot, and is there room for its version? */
static bool
may_write(const CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write && (!cc_valid(pg_atomic_read_u64(&cc_rows[txn->ops[i].row].write_ts) <= txn->ts) ||
								  chain_trim(txn->ops[i].row) > 0))
			return false;
	return true;
}

static bool
validate(CcTxn *txn)
{
	bool		ok;

	/* it reads nothing more */
	chain_done(txn->thread);
	if (!cc_latch_writes(txn))
		return false;
	ok = may_write(txn);
	if (!ok)
	{
		cc_unlatch_writes(txn);
		return false;
	}
	txn->ts = cc_next_ts();
	chain_push_writes(txn);
	return true;
}

static void
end(CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write)
			pg_atomic_write_u64(&cc_rows[txn->ops[i].row].write_ts, txn->ts);
	cc_unlatch_writes(txn);
}

const CcMethod cc_si = {
	.name = "si",
	.what = "snapshot isolation, two versions of a row",
	.write_skew = true,
	.begin = begin,
	.execute = execute,
	.validate = validate,
	.end = end,
};
