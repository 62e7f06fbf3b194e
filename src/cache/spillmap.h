/*
 * spillmap.h -- rows of large transactions: in NVM before their commit, and without an entry in DRAM.
 *
 * A map word in state SPILLED leads to the slot of the newest version.  The rest of an entry stands in the spill record
 * of the word's block of 64 TIDs.  For each TID it names the writer of the version, and the slot of the row that the
 * version replaces.  Every snapshot sees that row.  This takes 10 bytes for a row inserted and 18 for a row changed,
 * beside the word itself.
 *
 * A record is found by (HTable, block), inside an epoch and without a lock.  It is changed under a lock of its own.
 * All that it says of a TID is complete before the TID's word is SPILLED, and does not change as long as it is.
 *
 * Readers get the versions as a chain of their own (zen_spillmap_word_chain), and need not know the difference.  A
 * process that changes or locks the row makes entries of it first (zen_row_admit, row/rowmake.h).
 */
#ifndef ZEN_SPILLMAP_H
#define ZEN_SPILLMAP_H

#include "base/startup.h"
#include "cache/version.h"

/* A flag of a writer besides ZEN_V_*: its transaction has ended, and all rows that it has left were settled. */
#define ZEN_SPILL_SETTLED	0x80000000

/* One command of one (sub)transaction. */
typedef struct ZenSpillWriter
{
	TransactionId xid;
	CommandId	cmin;
	uint32		region;			/* that of the transaction (R11) */
	uint32		flags;			/* KEY_UPDATE, FORWARD, MOVED, FROZEN;
								 * COMMITTED or ABORTED once known; SETTLED */
} ZenSpillWriter;

typedef struct ZenSpill
{
	ZenRetired	retired;
	struct ZenSpill *next;		/* in its hash chain */
	uint32		htable;
	uint32		block;
	uint16		nwriters;
	uint16		capacity;		/* of writers */
	bool		has_old;
	uint8		writer_of[ZEN_TIDS_PER_BLOCK];
	ZenSlot		slot[ZEN_TIDS_PER_BLOCK];	/* 0: nothing is known of this TID */
	ZenSpillWriter writers[FLEXIBLE_ARRAY_MEMBER];	/* behind them, if
													 * has_old, ZenSlot
													 * old[ZEN_TIDS_PER_BLOCK] */
} ZenSpill;

/* Versions read back from a record and from NVM; their data is in their slots (ZEN_V_IN_NVM). */
typedef struct ZenSpilledChain
{
	ZenVersion	newest;
	ZenVersion	older;
} ZenSpilledChain;

/* zen_spillmap_shmem -- make the table of records or attach to it. */
extern const ZenShmem zen_spillmap_shmem;

/*
 * zen_spillmap_word_chain -- the newest version that a word leads to, in state ENTRY or SPILLED; NULL in any other.
 *
 * *w: the value of the word for which this is true.  A chain read back stands in *space.  Inside an epoch.  Never
 * throws.
 */
extern ZenVersion *zen_spillmap_word_chain(ZenHTable *ht, uint64 tidno, ZenWord *word, uint64 *w,
										   ZenSpilledChain *space);

/*
 * zen_spillmap_tid_chain -- zen_spillmap_word_chain for a TID; *w is ZEN_WORD_UNUSED if it was never handed out.
 * Inside an epoch.
 */
static inline ZenVersion *
zen_spillmap_tid_chain(ZenHTable *ht, uint64 tidno, uint64 *w, ZenSpilledChain *space)
{
	ZenWord    *word = zen_tidmap_word(ht, tidno);

	ZenAssertInEpoch();
	*w = ZEN_WORD_UNUSED;
	return word != NULL ? zen_spillmap_word_chain(ht, tidno, word, w, space) : NULL;
}

/*
 * zen_spillmap_find -- the record of a block, or NULL.  Inside an epoch, or while the caller's own rows keep the
 * record.
 */
extern ZenSpill *zen_spillmap_find(ZenHTable *ht, uint32 block);

/* zen_spillmap_old -- the slot of the version that a TID's spilled one replaces; 0: none. */
extern ZenSlot zen_spillmap_old(const ZenSpill *spill, uint32 i);

/*
 * zen_spillmap_note -- note all about rows of one block that must be known when their words are SPILLED; all or none.
 *
 * olds: the slots of the versions that they replace, or NULL if they replace none.  False when DRAM is full.  Outside
 * any epoch.  Never throws.
 */
extern bool zen_spillmap_note(ZenHTable *ht, const ZenTakenTid *tids, const ZenSlot *slots, const ZenSlot *olds,
							  uint32 n, const ZenSpillWriter *writer);

/*
 * zen_spillmap_take -- new rows in these slots: note them, and make the words of their TIDs SPILLED, in one step.
 *
 * The TIDs are of one block, and were found free.  Result: a bit for each that was free still; 0 when DRAM is full.
 * Outside any epoch.  Never throws.
 */
extern uint64 zen_spillmap_take(ZenHTable *ht, const ZenTakenTid *tids, const ZenSlot *slots, uint32 n,
								const ZenSpillWriter *writer);

/*
 * zen_spillmap_mark -- set flags in the writers of a record that belong to a region (and xid, if valid) and are not
 * settled.
 *
 * zen_spillmap_forget -- a TID's slot is not to be scrubbed any more, and its word is not SPILLED.
 *
 * zen_spillmap_trim -- drop the record of a block if no TID needs it.  gone: the table has no readers any more, so drop
 * it in any case.
 *
 * All outside any epoch.  Never throw.
 */
extern void zen_spillmap_mark(ZenHTable *ht, uint32 block, uint32 region, TransactionId xid, uint32 flags);
extern void zen_spillmap_forget(ZenHTable *ht, uint64 tidno);
extern void zen_spillmap_trim(ZenHTable *ht, uint32 block, bool gone);

/* zen_spillmap_release -- the callback for zen_epoch_init() that frees a retired record. */
extern void zen_spillmap_release(ZenRetired *object);

#endif							/* ZEN_SPILLMAP_H */
