/*
 * slotalloc.h -- NVM slots: taken by the lease holder of a region, freed by any process, never logged; read.
 *
 * Taking and freeing touch DRAM only (the paper's light-weight space management); NVM is written when a page changes
 * hands.  Only its header tells what a slot holds.
 */
#ifndef ZEN_SLOTALLOC_H
#define ZEN_SLOTALLOC_H

#include "base/startup.h"
#include "nvm/htable.h"
#include "nvm/page.h"
#include "nvm/region.h"

/* A table that has taken this many bytes of shared pages gets pages of its own. */
#define ZEN_PRIVATE_BYTES	((uint64) 256 * 1024)

/* zen_slotalloc_shmem -- its part of shared memory. */
extern const ZenShmem zen_slotalloc_shmem;

/*
 * zen_slot_alloc -- a free slot for a version of size bytes; never the region's anchor (R4).
 *
 * The caller holds the region.  Returns InvalidZenSlot when the pool is full; never throws.  The slot still shows the
 * header of the version that it held before, for which the caller may have to account (R5).
 */
extern ZenSlot zen_slot_alloc(uint32 region, ZenHTable *ht, Size size);

/* zen_slot_alloc_many -- up to n such slots, for little more than one costs; how many?  0 if the pool is full. */
extern uint32 zen_slot_alloc_many(uint32 region, ZenHTable *ht, Size size, uint32 n, ZenSlot *slots);

/*
 * zen_slotalloc_lease -- zen_region_lease().  If this process had to take fresh pages lately, the region that has the
 * most pages with room for the same is tried first.
 */
extern uint32 zen_slotalloc_lease(void);

/* zen_slot_take_back -- recovery's leader: a slot is in use, though it was found to be free. */
extern void zen_slot_take_back(ZenSlot slot);

/* zen_slot_free -- the slot may be taken again.  No reader can hold it, and its header need not be intact. */
extern void zen_slot_free(ZenSlot slot);

/*
 * zen_slot_free_retired -- zen_slot_free for a slot that was unlinked earlier, when zen_slot_generation() of it was
 * page_generation; does nothing if its page has changed hands since (its table was dropped).
 */
extern uint32 zen_slot_generation(ZenSlot slot);
extern void zen_slot_free_retired(ZenSlot slot, uint32 page_generation);

/*
 * zen_slotalloc_release_empty -- give wholly free pages of a region back to the pool, except keep per context, and at
 * most max; returns how many.
 *
 * The caller holds the region.  forget is told each intact header on such a page (R5).
 */
extern uint32 zen_slotalloc_release_empty(uint32 region, uint32 keep, uint32 max,
										  void (*forget) (ZenTupleHeader header));

/* zen_slotalloc_regions_end -- regions from this one on have had no pages since the start. */
extern uint32 zen_slotalloc_regions_end(void);

/*
 * zen_slotalloc_give_back -- pages that were condemned, linked by `next`, become free.
 *
 * forget is told each intact header there (R5); NULL: their table is gone.  With zen.stream = replica it waits for a
 * flush of the WAL first.  Outside any epoch.  Never throws.
 */
extern void zen_slotalloc_give_back(uint32 list, void (*forget) (ZenTupleHeader header));

/* zen_slotalloc_drop_htable -- give back every page that belongs to a table that is gone (R13 first). */
extern void zen_slotalloc_drop_htable(uint32 htable);

/* Recovery: put an owned page into its context. */
extern void zen_slotalloc_adopt_page(uint32 pageno);

/* Pages owned by an HTable alone. */
extern uint32 zen_slotalloc_count_pages(uint32 htable);

/* zen_slot_is_free -- may the slot be taken?  Its page has an owner. */
extern bool zen_slot_is_free(ZenSlot slot);

/* zen_slotalloc_walk_region -- call visit for each page in the contexts of a region.  The caller holds the region. */
extern void zen_slotalloc_walk_region(uint32 region, void (*visit) (uint32 pageno, void *arg), void *arg);

#endif							/* ZEN_SLOTALLOC_H */
