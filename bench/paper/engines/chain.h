/*
 * chain.h -- old versions of rows in DRAM, for those who have begun before the newest one.
 */
#ifndef CHAIN_H
#define CHAIN_H

#include "cc.h"

typedef struct OldVersion
{
	struct OldVersion *older;
	uint64		begin_ts;		/* of its writer */
	uint64		end_ts;			/* of the next one's */
	uint32		version;		/* the model's */
	bool		present;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} OldVersion;

/* The thread may read what was committed up to a time that it has not drawn yet, until chain_done(). */
extern void chain_reader(int thread);
extern void chain_done(int thread);

/* Read the version of the transaction's time; the caller has a latch on the row. */
extern void chain_read_old(CcTxn *txn, int op);

/*
 * A snapshot of what was committed when the transaction began.  Reading ends with false, and no latch, where somebody
 * is about to write.  chain_done() is up to the caller.
 */
extern void chain_begin_snapshot(CcTxn *txn);
extern bool chain_read_snapshot(CcTxn *txn);

/* Keep the versions that end with the transaction, which has its time and exclusive latches. */
extern void chain_push_writes(const CcTxn *txn);

/* Free what nobody can read any more; the caller has the exclusive latch.  How many versions are left? */
extern int	chain_trim(uint32 row);

#endif							/* CHAIN_H */
