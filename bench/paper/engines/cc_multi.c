/*
 * cc_multi.c -- old versions for transactions that only read, beside two-phase locking or validation for the others.
 *
 * Falcon's MV2PL and MVOCC (5.2.1).  A transaction that only reads takes a snapshot of what was committed when it
 * began.  It locks and validates nothing, and stores nothing to metadata; where somebody is just writing it starts
 * again, where Falcon's would read the old version.  The others work as without old versions, and
 * keep those that they replace (chain.c).  Their time is drawn when they have locks on all rows that they write, and
 * before what they read may change: so a snapshot has all of those that come before one that it has.
 */
#include "chain.h"

static bool
only_reads(const CcTxn *txn)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->ops[i].write)
			return false;
	return true;
}

static void
begin(CcTxn *txn)
{
	txn->silent = only_reads(txn);
	if (txn->silent)
		chain_begin_snapshot(txn);
}

static bool
read_only(CcTxn *txn)
{
	bool		ok = chain_read_snapshot(txn);

	chain_done(txn->thread);
	return ok;
}

static bool
validate_with(const CcMethod *others, CcTxn *txn)
{
	if (txn->silent)
		return true;
	if (!others->validate(txn))
		return false;
	chain_push_writes(txn);
	return true;
}

static bool
execute_2pl(CcTxn *txn)
{
	return txn->silent ? read_only(txn) : cc_2pl.execute(txn);
}

static bool
validate_2pl(CcTxn *txn)
{
	return validate_with(&cc_2pl, txn);
}

static void
end_2pl(CcTxn *txn)
{
	if (!txn->silent)
		cc_2pl.end(txn);
}

static bool
execute_occ(CcTxn *txn)
{
	return txn->silent ? read_only(txn) : cc_occ.execute(txn);
}

static bool
validate_occ(CcTxn *txn)
{
	return validate_with(&cc_occ, txn);
}

static void
end_occ(CcTxn *txn)
{
	if (!txn->silent)
		cc_occ.end(txn);
}

const CcMethod cc_mv2pl = {
	.name = "mv2pl",
	.what = "2pl, with snapshots for those that only read",
	.notes_reads = true,
	.begin = begin,
	.execute = execute_2pl,
	.validate = validate_2pl,
	.end = end_2pl,
};

const CcMethod cc_mvocc = {
	.name = "mvocc",
	.what = "occ, with snapshots for those that only read",
	.begin = begin,
	.execute = execute_occ,
	.validate = validate_occ,
	.end = end_occ,
};
