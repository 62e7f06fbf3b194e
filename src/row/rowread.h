/*
 * rowread.h -- fetch rows.
 *
 * Knows no Relation: predicate locks are the table layer's.  All functions are called outside any epoch, and may throw
 * ERRCODE_OUT_OF_MEMORY and ERRCODE_DATA_CORRUPTED.
 */
#ifndef ZEN_ROWREAD_H
#define ZEN_ROWREAD_H

#include "cache/version.h"

#include "access/tableam.h"

#define ZEN_ANY_CODE	(-1)

typedef struct ZenRowBlock ZenRowBlock;

/*
 * A row copied out.  The buffer holds a HeapTuple image: HeapTupleHeader with xmin, xmax, cmin and ctid set, then the
 * null bitmap and the data.  It grows in mcxt as needed and is reused.
 */
typedef struct ZenRow
{
	MemoryContext mcxt;
	ZenRowBlock *block;			/* NULL, or buf is a piece of this one's
								 * buffer */
	char	   *buf;
	Size		capacity;
	uint32		len;			/* bytes of the heap tuple */
	ItemPointerData tid;		/* with the version's code */
	TransactionId xmin;			/* writer, FrozenTransactionId if every
								 * snapshot sees it; the header has the raw
								 * xid */
} ZenRow;

/* zen_row_enlarge -- make the buffer larger; its contents are lost. */
extern void zen_row_enlarge(ZenRow *row, Size needed);

/* What a serializable reader wants to know about the versions that it passed over. */
typedef struct ZenPassed
{
	TransactionId *xids;		/* writers of newer versions, not aborted, not
								 * this transaction; in TopMemoryContext */
	uint32		n;
	uint32		capacity;
} ZenPassed;

/* What to fetch, and what came of it. */
typedef struct ZenFetch
{
	ZenHTable  *ht;
	uint64		tidno;
	Snapshot	snapshot;
	int			code;			/* the only version that will do (by
								 * SnapshotAny even an aborted one), or
								 * ZEN_ANY_CODE */
	bool		all_dead;		/* result, if none is found: no snapshot will
								 * ever see a row under this TID again */
	ZenRow	   *row;			/* gets the copy */
	ZenPassed  *passed;			/* NULL, or is filled */
} ZenFetch;

/* zen_row_fetch -- copy the version that the snapshot sees; false if there is none. */
extern bool zen_row_fetch(ZenFetch *fetch);

/*
 * zen_row_read -- the same for a point read: it counts for the Met-Cache, and may bring the row there.
 *
 * Caller holds a lock on the table.
 */
extern bool zen_row_read(ZenFetch *fetch);

/*
 * zen_row_visible -- does the snapshot, an MVCC snapshot, see a row under the TID?  Nothing is copied, and a slot in
 * NVM is not read.  Mostly zen_row_seen() tells it for less.
 *
 * Of the fetch it takes ht, tidno and snapshot, and sets all_dead.
 */
extern bool zen_row_visible(ZenFetch *fetch);

/* zen_row_count_scanned -- so many rows were found, in DRAM and in NVM: they count as scanned, as hits and misses. */
extern void zen_row_count_scanned(ZenHTable *ht, uint32 hits, uint32 misses);

/* Memory for the rows of a block, one after the other. */
typedef struct ZenRowChunk
{
	struct ZenRowChunk *older;	/* was too small, and has the block's first
								 * rows */
	Size		size;			/* of data; a multiple of MAXIMUM_ALIGNOF */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} ZenRowChunk;

/* The rows of a block of TIDs that a snapshot sees.  All zero at first, but for mcxt. */
struct ZenRowBlock
{
	MemoryContext mcxt;
	uint64		serial;			/* of what zen_row_fetch_block has put there;
								 * no two are the same in a process */
	uint64		found;			/* bit i: tuples[i] is the row at offset i + 1 */
	uint64		apart;			/* bit i: not known, zen_row_fetch will tell */
	ZenRowChunk *chunk;
	HeapTupleData tuples[ZEN_TIDS_PER_BLOCK];	/* of those found; without
												 * t_tableOid */
};

StaticAssertDecl(ZEN_TIDS_PER_BLOCK == 64, "a TID of a block has a bit");
StaticAssertDecl(offsetof(ZenRowChunk, data) % MAXIMUM_ALIGNOF == 0, "a HeapTupleHeader is aligned");

/*
 * zen_row_fetch_block -- copy those of a block's rows that are wanted and that the snapshot sees.
 *
 * wanted has bits as ZenRowBlock.  The same as zen_row_fetch() with ZEN_ANY_CODE, but faster.  Rows that an abort is
 * taking back, and damaged ones, are left to that.  Earlier contents of rows are lost.
 *
 * With InvalidSnapshot: rows that every snapshot sees.  Those that have another newest version are apart.
 *
 * zen_row_block_free -- free the rows' memory.
 */
extern void zen_row_fetch_block(ZenHTable *ht, uint64 block, uint64 wanted, Snapshot snapshot, ZenRowBlock *rows);
extern void zen_row_block_free(ZenRowBlock *rows);

/* zen_row_newest -- the code of the newest version that is committed or this transaction's; false if there is none. */
extern bool zen_row_newest(ZenHTable *ht, uint64 tidno, uint32 *code);

/* zen_row_forward -- does the snapshot see that the row has gone on under another TID?  *next: under which one. */
extern bool zen_row_forward(ZenHTable *ht, uint64 tidno, Snapshot snapshot, uint64 *next);

/* ZenRowState -- for index builds: what stands under a TID. */
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
 * zen_row_sample -- for ANALYZE: copy the newest version that is committed or this transaction's.
 *
 * Changes that other transactions have not committed do not count, as if they were undone.  False if there is no row;
 * *dead: there is a deleted one, which waits for VACUUM or for this transaction's end.
 *
 * zen_row_sample_block -- the same of all rows of a block; returns how many are dead.  Damaged ones are left to
 * zen_row_sample(), as apart.
 */
extern bool zen_row_sample(ZenHTable *ht, uint64 tidno, ZenRow *row, bool *dead);
extern uint32 zen_row_sample_block(ZenHTable *ht, uint64 block, ZenRowBlock *rows);

/*
 * zen_row_copy -- copy a version of a chain.  False if v is NULL or a tombstone, or its slot is damaged or scrubbed.
 *
 * Inside the epoch in which the version was found.  successor may be NULL.
 */
extern bool zen_row_copy(ZenRow *row, uint64 tidno, ZenVersion *v, ZenVersion *successor);

/* zen_row_copy_stored -- the same of a slot to which a word in state NVM leads, inside the same epoch. */
extern bool zen_row_copy_stored(ZenRow *row, uint64 tidno, ZenSlot slot);

#endif							/* ZEN_ROWREAD_H */
