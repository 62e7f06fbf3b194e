/*
 * row.h -- fetch, insert and copy one row.
 *
 * Knows no Relation: triggers and predicate locks are the table layer's.  All functions are called outside any epoch,
 * and may throw ERRCODE_OUT_OF_MEMORY and ERRCODE_DATA_CORRUPTED.
 */
#ifndef ZEN_ROW_H
#define ZEN_ROW_H

#include "cache/version.h"

#include "access/tableam.h"

#define ZEN_ANY_CODE	(-1)

/*
 * A row copied out.  The buffer holds a HeapTuple image: HeapTupleHeader with xmin, xmax, cmin and ctid set, then the
 * null bitmap and the data.  It grows in mcxt as needed and is reused.
 */
typedef struct ZenRow
{
	MemoryContext mcxt;
	char	   *buf;
	Size		capacity;
	uint32		len;			/* bytes of the heap tuple */
	ItemPointerData tid;		/* with the version's code */
	TransactionId xmin;			/* writer, FrozenTransactionId if every
								 * snapshot sees it; the header has the raw
								 * xid */
} ZenRow;

/* What a serializable reader wants to know about the versions it passed over. */
typedef struct ZenPassed
{
	TransactionId *xids;		/* writers of newer versions, not aborted, not
								 * this transaction; in TopMemoryContext */
	uint32		n;
	uint32		capacity;
} ZenPassed;

/*
 * zen_row_fetch -- copy the version that the snapshot sees; false if there is none.
 *
 * With code >= 0 only the version with that code will do (SnapshotAny: whatever its fate).  *all_dead, if not NULL:
 * no snapshot will ever see a row under this TID again.  passed, if not NULL, is filled.
 */
extern bool zen_row_fetch(ZenHTable *ht, uint64 tidno, int code, Snapshot snapshot, ZenRow *row,
						  bool *all_dead, ZenPassed *passed);

/*
 * zen_row_read -- the same for a point read: it counts for the Met-Cache, and may bring the row there.
 *
 * Caller holds a lock on the table.
 */
extern bool zen_row_read(ZenHTable *ht, uint64 tidno, int code, Snapshot snapshot, ZenRow *row,
						 bool *all_dead, ZenPassed *passed);

/* zen_row_newest -- the code of the newest version that is committed or this transaction's; false if none. */
extern bool zen_row_newest(ZenHTable *ht, uint64 tidno, uint32 *code);

/* zen_row_forward -- does the snapshot see that the row has gone on under another TID?  Which? */
extern bool zen_row_forward(ZenHTable *ht, uint64 tidno, Snapshot snapshot, uint64 *next);

/* zen_row_state -- for ANALYZE and index builds: what stands under a TID. */
typedef enum ZenRowState
{
	ZEN_ROW_NONE,				/* nothing, or only what aborted */
	ZEN_ROW_DEAD,				/* deleted, waiting for VACUUM */
	ZEN_ROW_LIVE,				/* newest version committed */
	ZEN_ROW_INSERT_IN_PROGRESS,
	ZEN_ROW_DELETE_IN_PROGRESS,
	ZEN_ROW_RECENTLY_DEAD		/* deleted, but some snapshot may see it */
} ZenRowState;

typedef struct ZenRowInfo
{
	ZenRowState state;
	TransactionId xmin;			/* writer of the version copied */
	TransactionId xid;			/* the one in progress, or the deleter of a
								 * RECENTLY_DEAD row */
	bool		xid_is_mine;
	bool		older_versions; /* a snapshot that does not see xmin finds an
								 * older version */
} ZenRowInfo;

/*
 * zen_row_inspect -- copy the newest version with data that has not aborted and tell its state.
 *
 * Returns false, with state NONE or DEAD, when there is none.
 */
extern bool zen_row_inspect(ZenHTable *ht, uint64 tidno, ZenRow *row, ZenRowInfo *info);

/*
 * zen_row_make_version -- a version of this transaction with a copy of tuple (NULL: a tombstone), not yet published.
 *
 * Evicts if DRAM is full.  Throws if that does not help, or if the row is too big.  The caller publishes or frees it.
 */
extern ZenVersion *zen_row_make_version(MinimalTuple tuple, CommandId cid, uint32 flags);

/*
 * zen_row_insert -- a new row; returns its TID number.  tuple is copied.
 *
 * spec_token 0: an ordinary insertion; else it must be completed by zen_row_complete().  frozen: every snapshot that can
 * reach the table sees the row at once (COPY FREEZE and REFRESH: the table is new in this transaction).
 */
extern uint64 zen_row_insert(ZenHTable *ht, MinimalTuple tuple, CommandId cid, uint32 spec_token, bool frozen);

/*
 * CLUSTER and VACUUM FULL: take a row to another table with all versions that some snapshot may see, under their own
 * xids.  zen_row_clone gives a private copy of the chain, newest first, or NULL if there is no row; zen_row_reform
 * replaces one of its versions by the same with other contents; zen_row_place makes the chain a row of the other table.
 * When one of the latter throws, the chain is still the caller's, who frees it with zen_row_discard.
 */
extern ZenVersion *zen_row_clone(ZenHTable *from, uint64 tidno);
extern ZenVersion *zen_row_reform(ZenVersion *v, MinimalTuple tuple);
extern void zen_row_place(ZenHTable *to, ZenVersion *chain);
extern void zen_row_discard(ZenVersion *chain);

/* zen_row_complete -- confirm a speculative insertion, or take it back. */
extern void zen_row_complete(ZenHTable *ht, uint64 tidno, bool succeeded);

#endif							/* ZEN_ROW_H */
