/*
 * cc_htm.c -- DBXN's: optimistic, validated in hardware transactional memory, visible to commits when durable.
 *
 * Source: X. Wei and others: Reducing Transaction Processing Latency in Hardware Transactional Memory-based Database
 * with Non-volatile Memory, 2022 (3.1).  A row's version is even when what it says is durable.  Validation compares the
 * versions of what was read, makes those of the rows to write odd, and changes these rows, all in one region (htm.c).
 * Then the log is written; then the versions become even.  Who reads a row at an odd version expects the next even one:
 * if it is not there when the reader is validated, the reader starts again.
 *
 * dbx-naive writes the log inside the region.  A flush aborts a hardware transaction, so this is always under the lock.
 */
#include "cc.h"
#include "htm.h"

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
		txn->seen[i] = TYPEALIGN(2, pg_atomic_read_u64(&cc_rows[row].write_ts));
		cc_read(txn, i);
		cc_unlatch(row, false);
	}
	return true;
}

static bool
is_durable_and_unchanged(const CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
	{
		uint64		version = pg_atomic_read_u64(&cc_rows[txn->ops[i].row].write_ts);

		if (cc_reads(&txn->ops[i]) && version != txn->seen[i])
			return false;
	}
	return true;
}

/* Nobody may write over what is not durable, even blindly. */
static bool
may_write(const CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write && pg_atomic_read_u64(&cc_rows[txn->ops[i].row].write_ts) % 2 != 0)
			return false;
	return true;
}

/* Even to odd, or odd to even. */
static void
raise_versions(const CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write)
			pg_atomic_fetch_add_u64(&cc_rows[txn->ops[i].row].write_ts, 1);
}

static void
leave(CcTxn *txn)
{
	cc_unlatch_writes(txn);
	htm_counters.region_ns += charge_counters.ns - txn->serial;
	htm_leave();
	txn->in_region = false;
}

static bool
validate(CcTxn *txn)
{
	htm_enter();
	txn->in_region = true;
	txn->serial = charge_counters.ns;
	if (!cc_latch_writes(txn))
	{
		htm_leave();
		txn->in_region = false;
		return false;
	}
	if (may_write(txn) && cc_valid(is_durable_and_unchanged(txn)))
	{
		raise_versions(txn);
		return true;
	}
	leave(txn);
	return false;
}

static void
end(CcTxn *txn)
{
	raise_versions(txn);
}

const CcMethod cc_htm = {
	.name = "htm",
	.what = "optimistic, validated in hardware transactional memory",
	.begin = begin,
	.execute = execute,
	.validate = validate,
	.end = end,
	.leave = leave,
};
