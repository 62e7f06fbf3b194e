/*
 * writeset.h -- what this transaction has written and locked.
 *
 * Process-local.  rowmake.c and rowchange.c fill it, txn/ consumes it.  The entries of a savepoint that is
 * rolled back are taken out.
 */
#ifndef ZEN_WRITESET_H
#define ZEN_WRITESET_H

#include "cache/version.h"

typedef struct ZenWrite
{
	ZenHTable  *ht;
	uint64		tidno;
	ZenWord    *word;
	ZenVersion *version;		/* pushed by this transaction; NULL: the slot
								 * holds no row, and belongs to HTable 0 */
	int			nest_level;		/* of the (sub)transaction that owns it now */
	uint32		delta;			/* commit: which one it is to be written as,
								 * 0: whole (txn/deltas.h) */
	ZenSlot		slot;			/* commit: where it was written, or
								 * InvalidZenSlot */
	ZenTupleHeader former;		/* commit: the header that the slot had before
								 * (R5) */

	/*
	 * commit: of the version, which the collector may take as soon as it is
	 * visible
	 */
	TransactionId xid;
	bool		frozen;
	bool		aborted;		/* never valid: a failed speculative insertion */
	bool		superseded;		/* by this transaction */
} ZenWrite;

typedef struct ZenLockedRow
{
	ZenHTable  *ht;
	uint64		tidno;
	TransactionId xid;
	LockTupleMode mode;
	bool		followed;		/* the row was locked under another TID, and
								 * has led here */
	int			nest_level;
} ZenLockedRow;

/* A block of 64 TIDs in which this transaction has spilled rows. */
typedef struct ZenSpilledBlock
{
	ZenHTable  *ht;
	uint32		block;
	int			nest_level;		/* at which that happened; never falls from
								 * one to the next */
} ZenSpilledBlock;

typedef struct ZenWriteSet
{
	ZenWrite   *writes;
	uint32		nwrites;
	uint32		writes_capacity;
	ZenLockedRow *locks;
	uint32		nlocks;
	uint32		locks_capacity;
	ZenSpilledBlock *blocks;
	uint32		nblocks;
	uint32		blocks_capacity;
	uint32		region;			/* where they were spilled */
	Size		bytes;			/* of DRAM that the writes take, about; those
								 * of savepoints rolled back still count */
	Size		spared;			/* of these, what the last spilling has left */
	Size		bare;			/* of bytes, those of versions without data
								 * over others without data */
	Size		bare_spared;	/* of these, what the last spilling has left */
	bool		writes_closed;	/* zen's part of the end has been written: */
	bool		locks_closed;	/* no writes, no row locks any more */
} ZenWriteSet;

extern ZenWriteSet zen_writeset;

/* zen_writeset_check_open -- throws ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE if no more may be written. */
extern void zen_writeset_check_open(void);

/* Make room for n more, so that the add cannot fail; throws, also if the set is closed. */
extern void zen_writeset_reserve(uint32 nwrites, uint32 nlocks);
extern void zen_writeset_reserve_blocks(uint32 nblocks);

extern void zen_writeset_add(ZenHTable *ht, uint64 tidno, ZenWord *word, ZenVersion *version);

/* zen_writeset_add_rows -- n rows that are new, so their versions replace none. */
extern void zen_writeset_add_rows(ZenHTable *ht, const ZenTakenTid *taken, ZenVersion **versions, uint32 n);

/* zen_writeset_add_block -- rows of this transaction in a block were spilled; room was reserved. */
extern void zen_writeset_add_block(ZenHTable *ht, uint32 block);

/*
 * zen_write_bytes -- the bytes of DRAM that a version of this transaction takes, with the one that it replaces.
 *
 * Inside an epoch, if it replaces one.
 */
static inline Size
zen_write_bytes(ZenVersion *v)
{
	Size		bytes = sizeof(ZenWrite) + offsetof(ZenVersion, data) + v->len;

	return v->older != NULL ? bytes + offsetof(ZenVersion, data) + v->older->len : bytes;
}

/* Does neither a version nor the one that it replaces have data in DRAM?  Inside an epoch. */
static inline bool
zen_write_is_bare(const ZenVersion *v)
{
	return v->len == 0 && v->older != NULL && v->older->len == 0;
}

/* The bytes that a version takes in NVM. */
static inline Size
zen_write_nvm_size(ZenVersion *v)
{
	return (zen_version_flags(v) & ZEN_V_TOMBSTONE) ? ZEN_TOMBSTONE_SIZE : zen_tuple_size(v->len);
}

extern void zen_writeset_add_lock(ZenHTable *ht, uint64 tidno, TransactionId xid, LockTupleMode mode, bool followed);

/* Forget everything. */
extern void zen_writeset_clear(void);

#endif							/* ZEN_WRITESET_H */
