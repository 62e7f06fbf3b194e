/*
 * page.h -- 64 KB pages: the owner of each, and its free slots.
 *
 * The persistent half is one word per page in the page directory; the rest (free-slot bitmap, links) lives in DRAM and
 * is rebuilt by recovery.  A page changes hands only clean (R8).
 */
#ifndef ZEN_PAGE_H
#define ZEN_PAGE_H

#include "base/startup.h"
#include "nvm/pool.h"
#include "nvm/region.h"
#include "nvm/tuple.h"
#include "port/atomics.h"

#define ZEN_NO_PAGE		0		/* page 0 holds the superblock */
#define ZEN_MAX_CLASSES	128

typedef struct ZenPageOwner
{
	uint32		htable;			/* 0: shared by small tables */
	uint32		region;
	uint32		class;
} ZenPageOwner;

/* Is a page in its context's list of pages with room?  slotalloc.c */
typedef enum ZenPageRoom
{
	ZEN_ROOM_UNLISTED,
	ZEN_ROOM_LISTED,
	ZEN_ROOM_CURRENT			/* no: its slots are being taken */
} ZenPageRoom;

typedef struct ZenPage
{
	ZenPageOwner owner;			/* constant while owned */
	bool		owned;			/* false = on the free list */
	bool		suspect;		/* recovery has found a damaged slot on it; on
								 * a hot standby: see zen_page_doubt() */
	bool		lost;			/* its directory word is damaged: owner is
								 * made up, no slot is handed out */
	bool		prepared;		/* free, and its word is ZEROING (W5) */
	bool		deltas;			/* it may have versions that hold only what
								 * changed (R22); set by the lease holder
								 * before it has the first one */
	uint32		nslots;
	uint32		hint;			/* bitmap word to look at first; lease holder
								 * only */
	uint32		next;			/* next page of the same context, or of the
								 * free list */
	uint32		prev;			/* in the same context */
	struct ZenPageContext *context; /* that holds the page; NULL = none, or it
									 * is about to go */
	ZenPageRoom room;			/* this and the next two: under the region's
								 * room_lock */
	uint32		room_next;
	uint32		room_prev;
	pg_atomic_uint32 generation;	/* raised when the page leaves its owner */
	uint64		zeroed_at;		/* what zen_sink.zeroed() has said; 0: nothing */
	pg_atomic_uint32 nfree;		/* bits set in the bitmap */
	uint32		touched;		/* save_no of its region when it was touched
								 * last; under the lock of touched.h */
	pg_atomic_uint64 *free;		/* one bit per slot, 1 = free; set by any
								 * process, cleared by the lease holder.
								 * Behind these bits as many again: 1 =
								 * checked (I20) */
} ZenPage;

extern ZenPage *zen_pages;
extern const uint32 *zen_class_sizes;	/* [ZEN_MAX_CLASSES]; 0 behind the
										 * last */
extern const uint32 *zen_class_inverses;	/* floor(2^32 / size) + 1 */

/* Bytes of slots of a class; the smallest class that holds size bytes (or ZEN_MAX_CLASSES). */
extern uint32 zen_class_of(Size size);

static inline Size
zen_class_size(uint32 class)
{
	Assert(class < ZEN_MAX_CLASSES && zen_class_sizes[class] != 0);
	return zen_class_sizes[class];
}

#define ZEN_MAX_TUPLE	(ZEN_PAGE_SIZE - 64)	/* bytes of MinimalTuple that
												 * a slot can hold */

/* zen_page_shmem -- its part of shared memory. */
extern const ZenShmem zen_page_shmem;

/*
 * zen_page_take -- take a page from the pool for an owner; all its slots are free.
 *
 * The owner is durable on return, so a crash can leave the page to its owner but not hand it out twice.
 * Returns ZEN_NO_PAGE when the pool or the arena is full; never throws.
 */
extern uint32 zen_page_take(ZenPageOwner owner);

/*
 * R21: before anything is stored to a page of which the saved map tells, the page is noted as touched, durably.
 *
 * zen_page_touch -- by the lease holder, before it takes a slot of the page.
 *
 * zen_page_is_told -- does a map that is being saved tell of the page?  Not if it was touched since its region was last
 * at rest for a save, nor if it is shared by small tables, lost, or without a bit.
 *
 * zen_page_untouch -- such a map is saved, durably: if the page was not touched since, take its bit back, and begin to
 * write that back.
 *
 * zen_page_note_touched -- recovery: was an owned page touched since the map in force, or may it have been?
 */
extern void zen_page_touch_now(uint32 pageno);
extern bool zen_page_is_told(uint32 pageno);
extern void zen_page_untouch(uint32 pageno);
extern void zen_page_note_touched(uint32 pageno, bool touched);

static inline void
zen_page_touch(uint32 pageno)
{
	const ZenPage *page = &zen_pages[pageno];

	if (unlikely(page->touched != zen_regions[page->owner.region].save_no))
		zen_page_touch_now(pageno);
}

/*
 * zen_page_may_use -- may room on an owned page be taken?  On a page of another node only if the region's node has no
 * free page left.
 */
extern bool zen_page_may_use(uint32 pageno);

/* Called after a page was taken; grow.c sets it. */
extern void (*zen_page_taken) (void);

/*
 * zen_page_reserve -- how many of the last free pages are kept for tombstones.
 *
 * zen_page_add -- the file now has npages pages, and the new ones are free.  One process at a time; the new part of the
 * file is zero, and that it belongs to the pool is durable (R16).  Never throws.
 */
extern uint32 zen_page_reserve(void);
extern void zen_page_add(int file, uint32 npages);

/*
 * Return a page whose slots are all free (or whose table is gone) to the pool: R8.
 *
 * zen_page_condemn takes it from its owner: from now on, also after a crash, nothing on it counts.  The caller has made
 * the region's watermark cover what the page could prove (R13).  Then zen_page_zero makes it zero, and
 * zen_page_give_back free.  Each is durable on return.
 */
extern void zen_page_condemn(uint32 pageno);
extern void zen_page_zero(uint32 pageno);
extern void zen_page_give_back(uint32 pageno);

/*
 * zen_page_unprepare -- W5: at an orderly stop, when what was lazy is durable: free pages that were to be zeroed after
 * a crash are zero, and say so, durably.  Else the next start would zero them, with a sync for each.
 */
extern void zen_page_unprepare(void);

/*
 * zen_pages_are_coming -- is a page condemned and not yet free, or have the free lists changed since an earlier call
 * has set *changes?  Sets it.
 */
extern bool zen_pages_are_coming(uint64 *changes);

/*
 * zen_page_word_fits -- can this word stand in the directory?  False: it is damaged.
 * zen_page_word_owner -- the owner that a word names; it is that of a page with an owner.
 */
extern bool zen_page_word_fits(uint32 pageno, uint64 word);
extern ZenPageOwner zen_page_word_owner(uint64 word);

/*
 * zen_page_adopt -- recovery: read what the directory says of a page, and make it known: with no free slots, or on the
 * free list.  False if it is free (a crash while it was zeroed is made good).
 *
 * A page whose word is damaged is lost.  Its slots count as 32 bytes each.  So no row there can be read, but each has a
 * bit of its own.
 */
extern bool zen_page_adopt(uint32 pageno);

/*
 * A hot standby, whose startup process is the only one to call these, or the one that has its place.
 *
 * zen_page_follow -- the directory's word may have changed: the DRAM half is as it says.  No reader can be at the page
 * if it changes hands.  False: there is no DRAM for it.
 *
 * zen_page_forget -- the page has no DRAM half any more.
 *
 * zen_page_describe_grown -- a file has so many pages now; the new ones are zero.
 *
 * zen_page_of_word -- the page whose word is at this offset of the pool; ZEN_NO_PAGE: there is none.
 */
extern bool zen_page_follow(uint32 pageno);
extern void zen_page_forget(uint32 pageno);
extern void zen_page_describe_grown(int file, uint32 npages);
extern uint32 zen_page_of_word(uint64 offset);

/* A hot standby: the page may have a slot that counts, or will, and to which no row leads.  A promotion reads it. */
static inline void
zen_page_doubt(uint32 pageno)
{
	zen_pages[pageno].suspect = true;
}

/* Recovery: R10, make the files' heads and all directories of pages durable, as they have been read. */
extern void zen_page_persist_directories(void);

/*
 * Recovery, of a page that was just made known.
 *
 * zen_page_set_free -- which of its slots are free, one bit per slot.
 *
 * zen_page_free_all -- all of them are, or none is, whatever was said before.
 *
 * zen_page_claim -- a slot that counts as free is in use; false: it does not.
 */
extern void zen_page_set_free(uint32 pageno, const uint64 *bits);
extern void zen_page_free_all(uint32 pageno, bool free);
extern bool zen_page_claim(uint32 pageno, uint32 n);

/*
 * zen_page_counts -- pages in all, free ones, those shared by small tables.
 * zen_page_free -- the same without a look at each; zen_page_free_of -- of one file, returns the free ones.
 */
extern void zen_page_counts(uint32 *total, uint32 *nfree, uint32 *shared);
extern void zen_page_free(uint32 *total, uint32 *nfree);
extern uint32 zen_page_free_of(int file, uint32 *total);

/*
 * zen_page_holds -- is this the address of a slot of a page that has an owner?
 *
 * zen_page_count_free -- bits set in a page's bitmap, those of no slot included.
 *
 * zen_page_agrees -- does the directory say of a page the same as its descriptor?  May be false for a moment while the
 * page changes hands.
 *
 * zen_page_walk_free -- call visit for each page of the free list.  Takes no lock: false if the list has changed
 * under it so that some pages may have been left out.
 */
extern bool zen_page_holds(ZenSlot slot);
extern uint32 zen_page_count_free(uint32 pageno);

/*
 * zen_page_count_owned -- add to counts[ZEN_MAX_HTABLES] the pages of each HTable, shared ones to [0], by the directory
 * as it is in NVM.
 *
 * For a copy in recovery, of which nothing is in DRAM.  Redo may change the directory meanwhile.
 */
extern void zen_page_count_owned(uint32 *counts);
extern bool zen_page_agrees(uint32 pageno);
extern bool zen_page_walk_free(void (*visit) (uint32 pageno, void *arg), void *arg);

/* Slot number n of a page, and the page-relative number of a slot. */
static inline ZenSlot
zen_page_slot(uint32 pageno, uint32 n)
{
	return ((Size) pageno * ZEN_PAGE_SIZE + n * zen_class_size(zen_pages[pageno].owner.class)) / ZEN_SLOT_UNIT;
}

static inline uint32
zen_page_slot_index(ZenSlot slot)
{
	uint32		at = (uint32) (slot % (ZEN_PAGE_SIZE / ZEN_SLOT_UNIT)) * ZEN_SLOT_UNIT;
	uint32		class = zen_pages[zen_slot_page(slot)].owner.class;
	uint32		n = (uint32) (((uint64) at * zen_class_inverses[class]) >> 32);

	/*
	 * A division takes longer than all else here.  The inverse is too large
	 * by at most 1, so n is exact as long as at * size is below 2^32.
	 */
	StaticAssertStmt((uint64) ZEN_PAGE_SIZE * ZEN_PAGE_SIZE <= (UINT64CONST(1) << 32), "the inverse is exact enough");
	Assert(n == at / (uint32) zen_class_size(class));
	return n;
}

/* zen_page_has_deltas -- a version that holds only what changed is about to be in this slot, or was found there. */
static inline void
zen_page_has_deltas(ZenSlot slot)
{
	zen_pages[zen_slot_page(slot)].deltas = true;
}

static inline Size
zen_slot_size(ZenSlot slot)
{
	return zen_class_size(zen_pages[zen_slot_page(slot)].owner.class);
}

/* Words of a bitmap with one bit per slot. */
static inline uint32
zen_page_bitmap_words(uint32 nslots)
{
	return (nslots + 63) / 64;
}

/* The word of a page's checked bits that has slot n's (I20). */
static inline pg_atomic_uint64 *
zen_page_checked_word(const ZenPage *page, uint32 n)
{
	Assert(page->owned && n < page->nslots);
	return &page->free[zen_page_bitmap_words(page->nslots) + n / 64];
}

#endif							/* ZEN_PAGE_H */
