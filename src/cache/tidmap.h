/*
 * tidmap.h -- the logical-tuple map: from a TID to its newest version.
 *
 * The paper's primary index.  Each HTable has an array with one 64-bit word per logical tuple, in DRAM, reached by two
 * loads.  A word's bits:
 *
 *	63		lock: held for a few instructions by a writer; readers do not look at it
 *	62..60	state
 *	59		seen, of ENTRY only: every snapshot sees the entry, and it is no tombstone (I10)
 *	58..40	stale: slots with an intact header of an older version of this tuple (R5), saturating
 *	39..0	reference: an NVM slot or an arena object, by state
 *
 *	UNUSED	no row and in no index; the TID may be handed out.  Reference: a tombstone still needed (R5), or 0
 *	DEAD	no row, but indexes may hold the TID: VACUUM turns it into UNUSED.  Reference as in UNUSED
 *	DYING	DEAD, and being removed from the indexes by a VACUUM
 *	NVM		the newest version is in this slot, and every snapshot sees it
 *	ENTRY	the newest version is this Met-Cache entry (ZenVersion), maybe with older ones behind it
 *	SPILLED	the newest version is in this slot; the block's spill record names its writer and the version replaced
 *
 * A TID is named by its number: block * 64 + offset - 1.
 */
#ifndef ZEN_TIDMAP_H
#define ZEN_TIDMAP_H

#include "base/arena.h"
#include "base/startup.h"
#include "base/stats.h"
#include "nvm/htable.h"
#include "nvm/tuple.h"
#include "port/atomics.h"
#include "storage/itemptr.h"
#include "storage/s_lock.h"

typedef pg_atomic_uint64 ZenWord;

#define ZEN_LEAF_WORDS		512 /* words of TIDs in a row that lie together; 4
								 * KB */

#define ZEN_DAMAGED_GAP		1024	/* blocks by which a damaged slot may
									 * lengthen a table */

#define ZEN_WORD_LOCK		(UINT64CONST(1) << 63)
#define ZEN_WORD_STATE		(UINT64CONST(7) << 60)
#define ZEN_WORD_UNUSED		(UINT64CONST(0) << 60)
#define ZEN_WORD_DEAD		(UINT64CONST(1) << 60)
#define ZEN_WORD_DYING		(UINT64CONST(2) << 60)
#define ZEN_WORD_NVM		(UINT64CONST(3) << 60)
#define ZEN_WORD_ENTRY		(UINT64CONST(4) << 60)
#define ZEN_WORD_SPILLED	(UINT64CONST(5) << 60)
#define ZEN_WORD_SEEN		(UINT64CONST(1) << 59)
#define ZEN_WORD_STALE_ONE	(UINT64CONST(1) << 40)
#define ZEN_WORD_STALE		(UINT64CONST(0x7FFFF) << 40)
#define ZEN_WORD_REF		((UINT64CONST(1) << 40) - 1)

static inline uint64
zen_word_state(uint64 w)
{
	return w & ZEN_WORD_STATE;
}

static inline uint64
zen_word_ref(uint64 w)
{
	return w & ZEN_WORD_REF;
}

/* Do two values lead to the same version?  Lock and stale count may differ. */
static inline bool
zen_word_same(uint64 a, uint64 b)
{
	return ((a ^ b) & (ZEN_WORD_STATE | ZEN_WORD_REF)) == 0;
}

#ifdef USE_ASSERT_CHECKING
#define ZEN_WORD_BIT(state)		(1 << ((state) >> 60))

/*
 * May a word go from one state to another?
 *
 * States are as listed above.  Recovery meets a row's versions in any order.  So it goes to and fro among the states
 * without an entry.
 */
static inline bool
zen_word_may_become(uint64 from, uint64 to)
{
	static const int legal[] = {
		/* UNUSED: taken for a row, or found by recovery */
		ZEN_WORD_BIT(ZEN_WORD_UNUSED) | ZEN_WORD_BIT(ZEN_WORD_ENTRY) | ZEN_WORD_BIT(ZEN_WORD_NVM) |
		ZEN_WORD_BIT(ZEN_WORD_DEAD) | ZEN_WORD_BIT(ZEN_WORD_SPILLED),
		/* DEAD: VACUUM begins; recovery finds a newer version */
		ZEN_WORD_BIT(ZEN_WORD_DEAD) | ZEN_WORD_BIT(ZEN_WORD_DYING) | ZEN_WORD_BIT(ZEN_WORD_NVM) |
		ZEN_WORD_BIT(ZEN_WORD_SPILLED) | ZEN_WORD_BIT(ZEN_WORD_ENTRY),
		/* DYING: VACUUM ends; one that is given up leaves it to the next */
		ZEN_WORD_BIT(ZEN_WORD_DYING) | ZEN_WORD_BIT(ZEN_WORD_UNUSED),

		/*
		 * NVM: admitted, spilled over, or superseded by a tombstone in
		 * recovery
		 */
		ZEN_WORD_BIT(ZEN_WORD_NVM) | ZEN_WORD_BIT(ZEN_WORD_ENTRY) | ZEN_WORD_BIT(ZEN_WORD_SPILLED) |
		ZEN_WORD_BIT(ZEN_WORD_DEAD),
		/* ENTRY: evicted, spilled, or collected */
		ZEN_WORD_BIT(ZEN_WORD_ENTRY) | ZEN_WORD_BIT(ZEN_WORD_NVM) | ZEN_WORD_BIT(ZEN_WORD_SPILLED) |
		ZEN_WORD_BIT(ZEN_WORD_DEAD),
		/* SPILLED: settled, admitted, or taken back */
		ZEN_WORD_BIT(ZEN_WORD_SPILLED) | ZEN_WORD_BIT(ZEN_WORD_NVM) | ZEN_WORD_BIT(ZEN_WORD_ENTRY) |
		ZEN_WORD_BIT(ZEN_WORD_DEAD)
	};

	return zen_word_state(from) <= ZEN_WORD_SPILLED && zen_word_state(to) <= ZEN_WORD_SPILLED &&
		(legal[zen_word_state(from) >> 60] & ZEN_WORD_BIT(zen_word_state(to))) != 0;
}

/* Only a word without a row may lead nowhere, and only an entry is marked as seen. */
static inline bool
zen_word_is_sound(uint64 w)
{
	return (zen_word_ref(w) != 0 || zen_word_state(w) < ZEN_WORD_NVM) &&
		(!(w & ZEN_WORD_SEEN) || zen_word_state(w) == ZEN_WORD_ENTRY);
}
#endif

/* w with another state and reference; lock and stale count are kept.  Whoever knows that all see it adds SEEN. */
static inline uint64
zen_word_with(uint64 w, uint64 state, uint64 ref)
{
	uint64		kept = ZEN_WORD_LOCK | ZEN_WORD_STALE;

	Assert((ref & ~ZEN_WORD_REF) == 0);
	Assert((state & ~ZEN_WORD_STATE) == 0);
	if (ZEN_FAULT(SEEN_KEPT) && state == ZEN_WORD_ENTRY)
		kept |= ZEN_WORD_SEEN;
	return (w & kept) | state | ref;
}

/* Does every snapshot see a row under the TID?  Its version need not be looked at. */
static inline bool
zen_word_is_seen(uint64 w)
{
	return zen_word_state(w) == ZEN_WORD_NVM || (w & ZEN_WORD_SEEN) != 0;
}

/* One stale slot more.  A full count stays full, which keeps the tombstone until the next restart. */
static inline uint64
zen_word_stale_inc(uint64 w)
{
	return (w & ZEN_WORD_STALE) == ZEN_WORD_STALE ? w : w + ZEN_WORD_STALE_ONE;
}

static inline uint64
zen_word_stale_dec(uint64 w)
{
	return (w & ZEN_WORD_STALE) == ZEN_WORD_STALE || (w & ZEN_WORD_STALE) == 0 ? w : w - ZEN_WORD_STALE_ONE;
}

static inline uint64
zen_word_read(ZenWord *word)
{
	uint64		w = pg_atomic_read_u64(word);

	/*
	 * the version that the word points to was written before the word: pairs
	 * with the barrier in zen_word_unlock
	 */
	pg_read_barrier();
	return w;
}

/*
 * In assert builds a process knows which word it has locked: one at a time, and none when it allocates, waits, or
 * throws.
 */
#ifdef USE_ASSERT_CHECKING
extern ZenWord *zen_word_held;
#endif

/*
 * The asserts for "under the word's lock" in comments; word is a ZenWord *.  ZenAssertAnyWordLocked is for functions
 * that are given the value of the word only.
 */
#define ZenAssertWordLocked(word)	Assert(zen_word_held == (word))
#define ZenAssertAnyWordLocked()	Assert(zen_word_held != NULL)
#define ZenAssertNoWordLocked()		Assert(zen_word_held == NULL)

/*
 * zen_word_lock -- set the lock bit; returns the word with the bit set.
 *
 * Until zen_word_unlock: no error, no palloc, no wait, no store to NVM.
 */
static inline uint64
zen_word_lock(ZenWord *word)
{
	uint64		w;

	ZenAssertNoWordLocked();
	w = pg_atomic_fetch_or_u64(word, ZEN_WORD_LOCK);
	if (unlikely(w & ZEN_WORD_LOCK))
	{
		SpinDelayStatus delay;

		init_local_spin_delay(&delay);
		do
		{
			perform_spin_delay(&delay);
			w = pg_atomic_read_u64(word);
			if (!(w & ZEN_WORD_LOCK))
				w = pg_atomic_fetch_or_u64(word, ZEN_WORD_LOCK);
		} while (w & ZEN_WORD_LOCK);
		finish_spin_delay(&delay);
		ZEN_COUNT(word_spins, 1);
	}
#ifdef USE_ASSERT_CHECKING
	zen_word_held = word;
#endif
	return w | ZEN_WORD_LOCK;
}

/*
 * zen_leaf_stir -- the leaf of a word is not quiet any more (src/cache/README, "Quiet leaves").  Under the word's lock,
 * before the word is published.
 */
#define ZEN_LEAF_BYTES	(ZEN_LEAF_WORDS * sizeof(ZenWord))

extern volatile uint8 *zen_leaf_quiet;	/* one for each ZEN_LEAF_BYTES of the
										 * arena: 1 is quiet */

static inline volatile uint8 *
zen_leaf_quiet_of(const ZenWord *word)
{
	return &zen_leaf_quiet[(Size) ((const char *) word - zen_arena_base) / ZEN_LEAF_BYTES];
}

static inline void
zen_leaf_stir(ZenWord *word)
{
	volatile uint8 *quiet = zen_leaf_quiet_of(word);

	if (unlikely(*quiet))
		*quiet = 0;
}

/* zen_word_unlock -- publish a new value and clear the lock bit. */
static inline void
zen_word_unlock(ZenWord *word, uint64 w)
{
	ZenAssertWordLocked(word);
	Assert(pg_atomic_read_u64(word) & ZEN_WORD_LOCK);
	Assert(zen_word_may_become(pg_atomic_read_u64(word), w));
	Assert(zen_word_is_sound(w));
#ifdef USE_ASSERT_CHECKING
	zen_word_held = NULL;
#endif
	if (!zen_word_is_seen(w))
		zen_leaf_stir(word);
	pg_write_barrier();
	pg_atomic_write_u64(word, w & ~ZEN_WORD_LOCK);
}

/* zen_word_unlock_empty -- the same for a table that is emptied: the word becomes UNUSED from any state. */
static inline void
zen_word_unlock_empty(ZenWord *word)
{
	ZenAssertWordLocked(word);
#ifdef USE_ASSERT_CHECKING
	zen_word_held = NULL;
#endif
	zen_leaf_stir(word);
	pg_write_barrier();
	pg_atomic_write_u64(word, ZEN_WORD_UNUSED);
}

/*
 * zen_word_take -- make a free word lead to a new row; false if it is not free, or locked just now.
 *
 * A TID whose tombstone is still needed (reference not 0) is passed over.
 */
static inline bool
zen_word_is_free(uint64 w)
{
	return (w & (ZEN_WORD_STATE | ZEN_WORD_REF | ZEN_WORD_LOCK)) == ZEN_WORD_UNUSED;
}

static inline bool
zen_word_take(ZenWord *word, uint64 state, uint64 ref)
{
	uint64		old = pg_atomic_read_u64(word);

	Assert(ref != 0 && zen_word_may_become(ZEN_WORD_UNUSED, state));
	return zen_word_is_free(old) && pg_atomic_compare_exchange_u64(word, &old, zen_word_with(old, state, ref));
}

/* zen_tidmap_shmem -- make the maps or attach to them. */
extern const ZenShmem zen_tidmap_shmem;

/* zen_tidmap_nblocks -- blocks of 64 TIDs handed out so far. */
extern uint64 zen_tidmap_nblocks(ZenHTable *ht);

/*
 * zen_tidmap_word -- the word of a TID, or NULL if it was never handed out.
 *
 * Inside an epoch, or while the caller's lock on the table keeps its map.  Never throws.
 */
extern ZenWord *zen_tidmap_word(ZenHTable *ht, uint64 tidno);

/* Words of many TIDs of one table: neighbours in an index are often of one leaf.  Begins as ZEN_NO_LEAF. */
typedef struct ZenLeaf
{
	uint64		number;			/* of the leaf of the last TID */
	ZenWord    *words;			/* NULL: no TID of it was ever handed out */
} ZenLeaf;

#define ZEN_NO_LEAF		{PG_UINT64_MAX, NULL}

/* zen_tidmap_word_near -- the same as zen_tidmap_word(); leaf is for all calls with the same table, in one epoch. */
static inline ZenWord *
zen_tidmap_word_near(ZenHTable *ht, uint64 tidno, ZenLeaf *leaf)
{
	if (tidno / ZEN_LEAF_WORDS != leaf->number)
	{
		leaf->number = tidno / ZEN_LEAF_WORDS;
		leaf->words = zen_tidmap_word(ht, leaf->number * ZEN_LEAF_WORDS);
	}
	return leaf->words != NULL ? leaf->words + tidno % ZEN_LEAF_WORDS : NULL;
}

/* A TID for a new row. */
typedef struct ZenTakenTid
{
	uint64		tidno;
	ZenWord    *word;
} ZenTakenTid;

/*
 * zen_tidmap_take -- TIDs for up to n new rows; their words become ENTRY with the given references.
 *
 * A process takes TIDs in sequence; blocks freed by VACUUM are used first.  Returns how many were taken: at least one,
 * and all of one block; 0 when DRAM or the table's address space is full.  Never throws.
 *
 * zen_tidmap_find_free -- the same TIDs, but they are not taken: other processes may take them first.
 *
 * zen_tidmap_full_error -- throws the error that tells which of the two is full.
 */
extern uint32 zen_tidmap_take(ZenHTable *ht, const uint64 *entry_refs, uint32 n, ZenTakenTid *taken);
extern uint32 zen_tidmap_find_free(ZenHTable *ht, uint32 n, ZenTakenTid *found);
pg_noreturn extern void zen_tidmap_full_error(ZenHTable *ht);

/*
 * zen_tidmap_extend -- recovery: make room up to and including a TID; throws.
 *
 * zen_tidmap_try_extend -- the same, for redo on a hot standby; NULL if DRAM is full.
 */
extern ZenWord *zen_tidmap_extend(ZenHTable *ht, uint64 tidno);
extern ZenWord *zen_tidmap_try_extend(ZenHTable *ht, uint64 tidno);

/*
 * zen_tidmap_reserve -- recovery: make room for so many blocks in an empty map, with words of any contents; throws.
 *
 * zen_tidmap_reserve_words -- the same, but the blocks are not handed out yet: zen_tidmap_extend() does that.
 */
extern void zen_tidmap_reserve(ZenHTable *ht, uint64 nblocks);
extern void zen_tidmap_reserve_words(ZenHTable *ht, uint64 nblocks);

/*
 * zen_tidmap_leaf_is_full -- VACUUM: do all words of the leaf that a TID begins say that every snapshot sees a row?
 *
 * The words of a leaf are looked at again only if one of them has changed since a call that has found them so.  One
 * process at a time for a table.
 */
extern bool zen_tidmap_leaf_is_full(ZenHTable *ht, uint64 tidno);

/* zen_tidmap_set_free_blocks -- VACUUM: these blocks have UNUSED words; the array is copied.  Never throws. */
extern void zen_tidmap_set_free_blocks(ZenHTable *ht, const uint32 *blocks, uint32 n);

/* zen_tidmap_drop -- free a table's map, which only collectors may still reach.  Outside any epoch.  Never throws. */
extern void zen_tidmap_drop(ZenHTable *ht);

/* zen_tidmap_detach -- at process end: unfinished blocks go back. */
extern void zen_tidmap_detach(void);

/* zen_tidmap_bytes -- bytes of DRAM that a table's map takes. */
extern uint64 zen_tidmap_bytes(ZenHTable *ht);

static inline uint64
zen_tidno(const ItemPointerData *tid)
{
	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) * ZEN_TIDS_PER_BLOCK +
		(ItemPointerGetOffsetNumberNoCheck(tid) - 1) % ZEN_TIDS_PER_BLOCK;
}

static inline uint32
zen_tid_code(const ItemPointerData *tid)
{
	return (ItemPointerGetOffsetNumberNoCheck(tid) - 1) / ZEN_TIDS_PER_BLOCK;
}

/*
 * The block number's halves are stored at once: callers copy the TID next, and a load that has to wait for two stores
 * costs a dozen cycles.
 */
static inline void
zen_make_tid(ItemPointerData *tid, uint64 tidno, uint32 code)
{
	BlockNumber block = (BlockNumber) (tidno / ZEN_TIDS_PER_BLOCK);
#ifdef WORDS_BIGENDIAN
	uint32		halves = block;
#else
	uint32		halves = block >> 16 | block << 16;
#endif

	Assert(tidno / ZEN_TIDS_PER_BLOCK < MaxBlockNumber);
	memcpy(&tid->ip_blkid, &halves, sizeof(halves));
	tid->ip_posid = (OffsetNumber) (tidno % ZEN_TIDS_PER_BLOCK + 1 + code * ZEN_TIDS_PER_BLOCK);
	Assert(ItemPointerGetBlockNumberNoCheck(tid) == block);
}

StaticAssertDecl(sizeof(BlockIdData) == sizeof(uint32), "a block number is two halves, the high one first");

#endif							/* ZEN_TIDMAP_H */
