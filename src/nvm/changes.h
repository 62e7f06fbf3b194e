/*
 * changes.h -- who is to hear of each change of the pool: with zen.stream = replica, the WAL, for the pool's copies.
 *
 * This folder knows nothing of WAL.  stream/streamcopy sets the sink at the start; else there is none, which costs a
 * test.
 */
#ifndef ZEN_CHANGES_H
#define ZEN_CHANGES_H

#include "nvm/layout.h"

typedef struct ZenChangeSink
{
	/* bytes of a directory are stored, durably; nothing relies on them yet */
	void		(*stored) (const void *at, Size len);

	/* a version is about to be written to this slot, with so many bytes */
	void		(*written) (ZenSlot slot, Size size);

	/* a slot of which nothing tells recovery is about to be scrubbed */
	void		(*vanishes) (ZenSlot slot);

	/*
	 * a page is zero, and about to be free; returns what await() wants before
	 * it has a new owner: recovery could not tell it from the old one
	 */
	uint64		(*zeroed) (uint32 pageno);
	void		(*await) (uint64 position);

	/* all that this process has told so far is to survive a crash */
	void		(*flush) (void);

	/*
	 * a watermark is durable: from now on other evidence of what it says may
	 * go
	 */
	void		(*covered) (uint32 region, uint64 cts);

	/*
	 * a file of the pool has so many pages, durably; none of the new ones is
	 * used before this returns
	 */
	void		(*grown) (int file, uint32 npages);
} ZenChangeSink;

extern const ZenChangeSink *zen_change_sink;	/* NULL: nobody */

static inline void
zen_changed(const void *at, Size len)
{
	if (unlikely(zen_change_sink != NULL))
		zen_change_sink->stored(at, len);
}

static inline void
zen_slot_changes(ZenSlot slot, Size size)
{
	if (unlikely(zen_change_sink != NULL))
		zen_change_sink->written(slot, size);
}

static inline void
zen_changes_flush(void)
{
	if (unlikely(zen_change_sink != NULL))
		zen_change_sink->flush();
}

#endif							/* ZEN_CHANGES_H */
