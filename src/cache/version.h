/*
 * version.h -- row versions in DRAM: the Met-Cache entry with its CC-Meta.
 *
 * A map word in state ENTRY leads to the newest version of a logical tuple; each version links to the older one.  A
 * version is immutable once published, except the fields marked otherwise.  It is ended by its successor, not by an
 * xmax of its own: a reader walks from the newest and takes the first version that its snapshot sees.
 */
#ifndef ZEN_VERSION_H
#define ZEN_VERSION_H

#include "base/epoch.h"
#include "base/startup.h"
#include "cache/sketch.h"
#include "cache/tidmap.h"
#include "nvm/page.h"

#include "access/htup_details.h"
#include "nodes/lockoptions.h"

/* Bits of ZenVersion.flags */
#define ZEN_V_TOMBSTONE		0x0001	/* the row is deleted; no data */
#define ZEN_V_COMMITTED		0x0002	/* xmin has committed */
#define ZEN_V_FROZEN		0x0004	/* every snapshot, now and later, sees
									 * xmin as committed */
#define ZEN_V_ABORTED		0x0008	/* xmin has aborted */
#define ZEN_V_KEY_UPDATE	0x0010	/* the writer excludes FOR KEY SHARE
									 * (delete, key change) */
#define ZEN_V_MOVED			0x0020	/* tombstone: the row went to another
									 * partition */
#define ZEN_V_FORWARD		0x0040	/* tombstone: the row goes on under
									 * forward_tidno */
#define ZEN_V_SPECULATIVE	0x0080	/* speculative insertion not yet confirmed */
#define ZEN_V_IN_CLOCK		0x0200	/* newest version only: its row stands in
									 * the CLOCK; under the word's lock */
#define ZEN_V_PENDING		0x0800	/* looks older than its writer, which has
									 * not committed and holds on to it:
									 * neither to be evicted nor collected */
#define ZEN_V_FREE_SLOT		0x0400	/* retired: its slot is to be freed with
									 * it */
#define ZEN_V_IN_NVM		0x1000	/* lean, or read back (spillmap.h): the
									 * data is only in the slot */
#define ZEN_V_SPILLED		0x2000	/* its slot was written before the commit,
									 * and its transaction is not settled: a
									 * spill record names the slot */

/* Kinds of retired objects */
#define ZEN_RETIRED_VERSION	0
#define ZEN_RETIRED_SPILL	1

/*
 * The upper half says how often the row was read, and which item of the CLOCK is its own.  It goes along with
 * ZEN_V_IN_CLOCK from version to version (I19).
 */
#define ZEN_V_READS_SHIFT	16	/* 4 bits: reads, halved at each age of the
								 * sketch */
#define ZEN_V_AGE_SHIFT		20	/* 4 bits: age of that count, modulo 16 */
#define ZEN_V_MARK_SHIFT	24	/* 8 bits: mark of the item */
#define ZEN_V_READS			0x000F0000
#define ZEN_V_AGE			0x00F00000
#define ZEN_V_MARK			0xFF000000
#define ZEN_V_CLOCK_STATE	(ZEN_V_IN_CLOCK | ZEN_V_READS | ZEN_V_AGE | ZEN_V_MARK)

/* Transactions that hold row locks on a logical tuple; kept at the newest version, under the word's lock. */
typedef struct ZenLocker
{
	TransactionId xid;			/* may be a subtransaction's */
	LockTupleMode mode;
} ZenLocker;

typedef struct ZenLockers
{
	uint32		n;
	uint32		capacity;
	ZenLocker	l[FLEXIBLE_ARRAY_MEMBER];
} ZenLockers;

/*
 * A header of one line, and the data.
 *
 * Lockers and lock_seq give their place to the epochs' link once the version is retired.  Readers that hold on to the
 * version do not look there.  Writers look there under the word's lock, and only in a version that the word leads to.
 */
typedef struct ZenVersion
{
	struct ZenVersion *older;	/* next older version; cut off by the
								 * collector under the word's lock */
	ZenSlot		slot;			/* where it is persistent, 0 if nowhere; set
								 * by its writer before it commits */
	union
	{
		struct
		{
			ZenLockers *lockers;	/* newest version only; under the word's
									 * lock */
			uint32		lock_seq;	/* raised with every change of lockers;
									 * under the word's lock */
		};
		ZenRetired	retired;	/* of kind ZEN_RETIRED_VERSION */
	};
	union
	{
		uint64		forward_tidno;	/* while FORWARD */
		uint32		spec_token; /* while SPECULATIVE, which a tombstone never
								 * is */
	};
	pg_atomic_uint32 flags;		/* ZEN_V_*; hint bits by anyone */
	TransactionId xmin;			/* writer, subtransaction included; once
								 * FROZEN, only shown to users */
	CommandId	cmin;
	uint16		code;			/* version code: tells versions of one TID
								 * apart */
	uint16		depth;			/* upper bound of the chain's length from here */
	uint32		slot_generation;	/* of the slot's page when condemned */
	uint32		len;			/* bytes of data; 0 for a tombstone */
	char		data[FLEXIBLE_ARRAY_MEMBER];	/* MinimalTuple */
} ZenVersion;

StaticAssertDecl(offsetof(ZenVersion, data) == 64, "a version's header takes one line");

/* zen_version_ask -- ask for the memory of a version's header, which may lie in two lines. */
static inline void
zen_version_ask(const ZenVersion *v)
{
	__builtin_prefetch(v);
	__builtin_prefetch((const char *) v + offsetof(ZenVersion, data) - 1);
}

static inline MinimalTuple
zen_version_tuple(ZenVersion *v)
{
	return v->len ? (MinimalTuple) v->data : NULL;
}

static inline uint32
zen_version_flags(ZenVersion *v)
{
	return pg_atomic_read_u32(&v->flags);
}

/* May a version have values that are stored out of line?  One whose data is in its slot only may: that is not read. */
static inline bool
zen_version_may_point_out(ZenVersion *v)
{
	if (zen_version_flags(v) & ZEN_V_IN_NVM)
		return true;
	return v->len > 0 && (((MinimalTuple) v->data)->t_infomask & HEAP_HASEXTERNAL) != 0;
}

/* Is it a row in DRAM, with its data, that every snapshot sees, if it is the newest version? */
static inline bool
zen_version_is_frozen_row(ZenVersion *v)
{
	return (zen_version_flags(v) & (ZEN_V_FROZEN | ZEN_V_TOMBSTONE | ZEN_V_IN_NVM)) == ZEN_V_FROZEN;
}

static inline void
zen_version_set(ZenVersion *v, uint32 bits)
{
	if ((pg_atomic_read_u32(&v->flags) & bits) != bits)
		pg_atomic_fetch_or_u32(&v->flags, bits);
}

static inline void
zen_version_clear(ZenVersion *v, uint32 bits)
{
	pg_atomic_fetch_and_u32(&v->flags, ~bits);
}

/* zen_version_reads -- how often the row was read of late, as of the sketch's present age. */
static inline uint32
zen_version_reads(uint32 flags, uint32 age)
{
	return ((flags & ZEN_V_READS) >> ZEN_V_READS_SHIFT) >> ((age - (flags >> ZEN_V_AGE_SHIFT)) % 16);
}

/* Flags with another count of reads. */
static inline uint32
zen_version_with_reads(uint32 flags, uint32 reads, uint32 age)
{
	Assert(reads <= ZEN_SKETCH_MAX);
	return (flags & ~(ZEN_V_READS | ZEN_V_AGE)) | (reads << ZEN_V_READS_SHIFT) | (age % 16 << ZEN_V_AGE_SHIFT);
}

/* zen_version_touch -- the row is read.  A count that is full costs no store until the next age. */
static inline void
zen_version_touch(ZenVersion *v, uint32 age)
{
	uint32		flags = pg_atomic_read_u32(&v->flags);
	uint32		reads = zen_version_reads(flags, age);
	uint32		now = zen_version_with_reads(flags, Min(reads + 1, ZEN_SKETCH_MAX), age);

	/*
	 * a count may be lost to another process's change of a flag; that does no
	 * harm
	 */
	if (now != flags)
		(void) pg_atomic_compare_exchange_u32(&v->flags, &flags, now);
}

/*
 * zen_version_pass_clock -- the row's newest version will be another: it gets the CLOCK's state.  Under the word's
 * lock.
 */
static inline void
zen_version_pass_clock(ZenVersion *from, ZenVersion *to)
{
	uint32		state = zen_version_flags(from) & ZEN_V_CLOCK_STATE;

	ZenAssertAnyWordLocked();
	Assert(from != to);
	if (state & ZEN_V_IN_CLOCK)
		zen_version_clear(from, ZEN_V_IN_CLOCK);
	if (zen_version_flags(to) & ZEN_V_CLOCK_STATE)
		zen_version_clear(to, ZEN_V_CLOCK_STATE);
	zen_version_set(to, state);
}

/* zen_version_link_flags -- the flags of a tombstone with this link: where its row went, and if the key has changed. */
static inline uint32
zen_version_link_flags(uint64 link)
{
	return (zen_link_leads_on(link) ? ZEN_V_FORWARD : link != 0 ? ZEN_V_MOVED : 0) |
		(zen_link_keeps_key(link) ? 0 : ZEN_V_KEY_UPDATE);
}

/* zen_new_row_flags -- the flags of a row that is inserted; frozen: every snapshot is to see it at once. */
static inline uint32
zen_new_row_flags(bool frozen)
{
	return frozen ? ZEN_V_FROZEN | ZEN_V_COMMITTED | ZEN_V_PENDING : 0;
}

/*
 * zen_version_mark_lone -- can a newest version be evicted now, and has it no item in the CLOCK yet?  Then it is marked
 * for one.  Under the word's lock.
 */
static inline bool
zen_version_mark_lone(ZenVersion *head)
{
	ZenAssertAnyWordLocked();
	if (head->older != NULL || head->lockers != NULL ||
		(zen_version_flags(head) & (ZEN_V_FROZEN | ZEN_V_IN_CLOCK | ZEN_V_TOMBSTONE)) != ZEN_V_FROZEN)
		return false;
	zen_version_set(head, ZEN_V_IN_CLOCK);
	return true;
}

/*
 * zen_version_is_needless -- is a newest version lean, alone, seen by every snapshot, and locked by none?  Then the
 * word may lead to its slot.  Under the word's lock.
 */
static inline bool
zen_version_is_needless(ZenVersion *head)
{
	const uint32 asked = ZEN_V_FROZEN | ZEN_V_IN_NVM | ZEN_V_PENDING;

	ZenAssertAnyWordLocked();
	return (zen_version_flags(head) & asked) == (ZEN_V_FROZEN | ZEN_V_IN_NVM) &&
		head->older == NULL && head->lockers == NULL;
}

/* zen_version_copy_history -- give a copy of v, not yet published, its place in history. */
static inline void
zen_version_copy_history(ZenVersion *copy, const ZenVersion *v, uint32 flags)
{
	copy->xmin = v->xmin;
	copy->cmin = v->cmin;
	copy->code = v->code;
	copy->depth = v->depth;
	pg_atomic_write_u32(&copy->flags, flags);
}

static inline ZenVersion *
zen_word_entry(uint64 w)
{
	Assert(zen_word_state(w) == ZEN_WORD_ENTRY);
	return (ZenVersion *) zen_arena_ptr(zen_word_ref(w));
}

static inline bool
zen_word_leads_to(uint64 w, ZenVersion *v)
{
	return zen_word_state(w) == ZEN_WORD_ENTRY && zen_word_entry(w) == v;
}

static inline uint64
zen_word_with_entry(uint64 w, ZenVersion *v)
{
	return zen_word_with(w, ZEN_WORD_ENTRY, zen_arena_ref(v));
}

/* A row that has an entry, under its word's lock. */
typedef struct ZenLockedEntry
{
	ZenWord    *word;
	uint64		w;				/* what zen_entry_unlock() is to publish */
	ZenVersion *head;			/* the newest version */
} ZenLockedEntry;

/*
 * zen_entry_lock -- find a row's word and lock it, if it leads to an entry; else false, and nothing is locked.
 *
 * The word is looked at before it is locked, so that rows without an entry are left alone, and again under the lock.
 * Caller is inside an epoch, or has a lock on the table.
 */
static inline bool
zen_entry_lock(ZenHTable *ht, uint64 tidno, ZenLockedEntry *e)
{
	e->word = zen_tidmap_word(ht, tidno);
	if (e->word == NULL || zen_word_state(zen_word_read(e->word)) != ZEN_WORD_ENTRY)
		return false;
	e->w = zen_word_lock(e->word);
	if (zen_word_state(e->w) != ZEN_WORD_ENTRY)
	{
		zen_word_unlock(e->word, e->w);
		return false;
	}
	e->head = zen_word_entry(e->w);
	return true;
}

static inline void
zen_entry_unlock(ZenLockedEntry *e)
{
	zen_word_unlock(e->word, e->w);
}

/* ---------- invariants of a chain of versions ---------- */

#ifdef USE_ASSERT_CHECKING

#define ZEN_CHAIN_CHECKED	32	/* versions; longer chains cost no more */

/* One version: what its flags imply and exclude. */
static inline void
zen_chain_check_version(ZenVersion *v)
{
	uint32		flags = zen_version_flags(v);
	bool		deleted = (flags & ZEN_V_TOMBSTONE) != 0;

	Assert(!(flags & ZEN_V_COMMITTED) || !(flags & ZEN_V_ABORTED));
	Assert(!(flags & ZEN_V_FROZEN) || (flags & ZEN_V_COMMITTED));
	Assert(!(flags & ZEN_V_FORWARD) || !(flags & ZEN_V_MOVED));
	Assert(deleted || !(flags & (ZEN_V_FORWARD | ZEN_V_MOVED)));
	Assert(!deleted || (v->len == 0 && !(flags & (ZEN_V_SPECULATIVE | ZEN_V_IN_NVM))));
	Assert(!(flags & ZEN_V_IN_NVM) || v->len == 0);
	Assert(!(flags & (ZEN_V_IN_NVM | ZEN_V_SPILLED)) || v->slot != InvalidZenSlot);
	/* its slot goes with it only when it is no longer in a chain */
	Assert(!(flags & ZEN_V_FREE_SLOT));
	Assert(v->code <= ZEN_MAX_CODE);
	/* that of a frozen one is only for show */
	Assert((flags & ZEN_V_FROZEN) || TransactionIdIsNormal(v->xmin));
}

/* zen_chain_check -- the versions that a word leads to, if it is in state ENTRY; under the word's lock. */
static inline void
zen_chain_check(uint64 w)
{
	ZenVersion *head = zen_word_state(w) == ZEN_WORD_ENTRY ? zen_word_entry(w) : NULL;
	ZenVersion *newer = NULL;
	uint32		n = 0;

	Assert(w & ZEN_WORD_LOCK);
	for (ZenVersion *v = head; v != NULL && n < ZEN_CHAIN_CHECKED; v = v->older)
	{
		zen_chain_check_version(v);
		n++;
		if (newer != NULL)
		{
			/* these belong to the newest version, and codes tell apart */
			Assert(v->lockers == NULL && !(zen_version_flags(v) & (ZEN_V_IN_CLOCK | ZEN_V_SPECULATIVE)));
			Assert(v->code != newer->code && v->code != head->code);
			/* a writer leaves out aborted versions */
			Assert(!(zen_version_flags(newer) & ZEN_V_COMMITTED) || !(zen_version_flags(v) & ZEN_V_ABORTED));
		}
		newer = v;
	}
	Assert(head == NULL || n <= (uint32) head->depth + 1);
	/* I10 */
	Assert(!(w & ZEN_WORD_SEEN) ||
		   (zen_version_flags(head) & (ZEN_V_FROZEN | ZEN_V_TOMBSTONE)) == ZEN_V_FROZEN ||
		   ZEN_FAULT(SEEN_KEPT));
}

/* zen_chain_has -- is a version among the first that a word leads to?  Under the word's lock. */
static inline bool
zen_chain_has(uint64 w, const ZenVersion *version)
{
	ZenVersion *v = zen_word_state(w) == ZEN_WORD_ENTRY ? zen_word_entry(w) : NULL;

	for (uint32 n = 0; v != NULL && n < ZEN_CHAIN_CHECKED; v = v->older, n++)
		if (v == version)
			return true;
	return false;
}

#else
#define zen_chain_check(w)	((void) 0)
#endif

/* ---------- memory of versions ---------- */

/* zen_version_alloc -- a version with room for len bytes of data, all fields zero; NULL if DRAM is full. */
extern ZenVersion *zen_version_alloc(uint32 len);

/* zen_version_footprint -- the room of a version, in DRAM and in NVM.  As long as its slot is its own. */
static inline Size
zen_version_footprint(ZenVersion *v)
{
	return offsetof(ZenVersion, data) + v->len + (v->slot != InvalidZenSlot ? zen_slot_size(v->slot) : 0);
}

/*
 * zen_version_slim -- lean, of len 0, takes v's place in the chain that the word leads to.  From now on v's data is in
 * its slot only.
 *
 * v has a slot that was written.  newer is the version above it, NULL if it is the head.  Under the word's lock;
 * returns the word's new value.  The caller retires v.  So a process that holds on to a version that another
 * transaction may have written has to be inside an epoch.
 */
extern uint64 zen_version_slim(uint64 w, ZenVersion *newer, ZenVersion *v, ZenVersion *lean);

/* zen_version_free -- a version that was never published. */
extern void zen_version_free(ZenVersion *v);

/*
 * zen_version_condemn -- a version is being unlinked and takes its slot along.
 *
 * Called before the epoch in which it was unlinked ends: the slot's page may change hands after that.
 */
extern void zen_version_condemn(ZenVersion *v);

/*
 * zen_version_retire -- a version was unlinked: free it, and its slot if condemned, when no reader holds it.
 *
 * Its lockers belong to another version by now.  Outside any epoch.  Never throws.
 */
extern void zen_version_retire(ZenVersion *v);

/*
 * zen_version_pop -- take the newest version, which is aborted, off its chain.
 *
 * Under the word's lock; returns the word's new value.  *lone: the row that remains is to be put into the CLOCK.
 * *lockers: to be freed; those of a row that remains go along.  *ended: NULL, or to be retired; the word leads to its
 * slot.
 */
extern uint64 zen_version_pop(uint64 w, ZenVersion *v, bool *lone, ZenLockers **lockers, ZenVersion **ended);

/* zen_version_release -- the callback for zen_epoch_init() that frees a retired version. */
extern void zen_version_release(ZenRetired *object);

/*
 * zen_version_lockers_alloc -- room for n lockers; NULL if DRAM is full.
 * zen_version_lockers_free -- gives it back.
 *
 * Not under a word's lock.
 */
extern ZenLockers *zen_version_lockers_alloc(uint32 n);
extern void zen_version_lockers_free(ZenLockers *lockers);

/* zen_version_size -- the DRAM that a version takes. */
extern Size zen_version_size(const ZenVersion *v);

/* zen_version_bytes -- bytes that versions take now, about; those retired and not yet released are left out. */
extern uint64 zen_version_bytes(void);

/* zen_version_detach -- at the end of a process: add the rest of its part to that sum. */
extern void zen_version_detach(void);

/* zen_version_shmem -- make the sum or attach to it. */
extern const ZenShmem zen_version_shmem;

/* ---------- a row that cannot be read ---------- */

/*
 * zen_tuple_corrupted -- the row at slot cannot be read: throws ERRCODE_DATA_CORRUPTED naming it.
 * zen_tuple_unreadable -- a reader has met such a row: a warning if zen.skip_damaged_rows is on, else the same error.
 *
 * Both leave the epoch, if the caller is inside, before they report.
 */
pg_noreturn extern void zen_tuple_corrupted(ZenSlot slot, uint64 tidno);
extern void zen_tuple_unreadable(ZenSlot slot, uint64 tidno);

#endif							/* ZEN_VERSION_H */
