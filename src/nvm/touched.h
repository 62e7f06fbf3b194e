/*
 * touched.h -- in NVM: which pages were touched since the map was saved while the server ran (R21).
 *
 * src/recovery/README, "The map saved while the server runs", has the argument.
 */
#ifndef ZEN_TOUCHED_H
#define ZEN_TOUCHED_H

#include "base/startup.h"
#include "nvm/pool.h"
#include "storage/spin.h"

typedef struct ZenTouched
{
	slock_t		lock;			/* all bits, ZenPage.touched */
	pg_atomic_uint32 noted;		/* 1: stores are noted; never cleared */
	pg_atomic_uint32 npages;	/* touched since the last save has begun */

	/* constant but for recovery's leader, and for the process that saves */
	bool		unbroken;		/* all stores since the map in force was saved
								 * were noted */
	uint64		chain;
	uint64		seq;
} ZenTouched;

extern ZenTouched *zen_touched;

/* zen_touched_shmem -- its part of shared memory; finds out if the chain is unbroken. */
extern const ZenShmem zen_touched_shmem;

/* zen_touched_has_bit -- has a page a bit?  Pages far behind in a large file have none. */
extern bool zen_touched_has_bit(uint32 pageno);

/*
 * zen_touched_bit -- a page's bit in NVM.
 *
 * zen_touched_store -- store it, under the lock; not flushed.  zen_touched_flush -- begin to write it back.
 */
extern bool zen_touched_bit(uint32 pageno);
extern void zen_touched_store(uint32 pageno, bool on);
extern void zen_touched_flush(uint32 pageno);

/*
 * The state line.  Durable on return.
 *
 * zen_touched_go_on -- recovery's leader: this run notes its stores, too, and the map with this number is in force.
 * zen_touched_break -- recovery's leader: no map in force fits any more.
 * zen_touched_saved -- the map with these numbers is in force, and durable.
 */
extern void zen_touched_go_on(uint64 seq);
extern void zen_touched_break(void);
extern void zen_touched_saved(uint64 chain, uint64 seq);

#endif							/* ZEN_TOUCHED_H */
