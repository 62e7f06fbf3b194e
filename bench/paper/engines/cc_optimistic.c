/*
 * cc_optimistic.c -- optimistic concurrency control: read, validate, write.
 *
 * After H. Kung, J. Robinson: On Optimistic Methods for Concurrency Control, TODS 1981, with a version number of each
 * row, the time of its writer, as in Silo and in Falcon's paper (5.2.1).  At the commit the rows to write are latched;
 * then each row that was read must have the number that it had, and nobody else's exclusive latch.  A reader stores
 * nothing.
 */
#include "cc.h"

static void
begin(CcTxn *txn)
{
}

static bool
execute(CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
	{
		uint32		row = txn->ops[i].row;

		if (!cc_reads(&txn->ops[i]))
			continue;
		if (!cc_latch(row, false))
			return false;
		txn->seen[i] = pg_atomic_read_u64(&cc_rows[row].write_ts);
		cc_read(txn, i);
		cc_unlatch(row, false);
	}
	return true;
}

/* Is a row as it was read, and nobody about to change it? */
static bool
is_unchanged(const CcTxn *txn, int op)
{
	uint32		row = txn->ops[op].row;
	bool		ok;

	if (txn->ops[op].write)
		return pg_atomic_read_u64(&cc_rows[row].write_ts) == txn->seen[op];
	if (!cc_latch(row, false))
		return false;
	ok = pg_atomic_read_u64(&cc_rows[row].write_ts) == txn->seen[op];
	cc_unlatch(row, false);
	return ok;
}

static bool
are_unchanged(const CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (cc_reads(&txn->ops[i]) && !is_unchanged(txn, i))
			return false;
	return true;
}

/*
 * The time is drawn between the latches and the validation: who changes what was read here gets a later one.
 */
static bool
validate(CcTxn *txn)
{
	if (!cc_latch_writes(txn))
		return false;
	txn->ts = cc_next_ts();
	if (cc_valid(are_unchanged(txn)))
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

const CcMethod cc_occ = {
	.name = "occ",
	.what = "optimistic: rows that were read are validated at the commit",
	.begin = begin,
	.execute = execute,
	.validate = validate,
	.end = end,
};
