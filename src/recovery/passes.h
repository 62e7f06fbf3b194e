/*
 * passes.h -- recovery's two passes over a page, and what becomes of damaged slots.
 *
 * A participant calls zen_passes_commits, and later zen_passes_maps, once for each owned page.  Between the two lies
 * a barrier: no second pass begins before the first one is done for all pages.  What a pass has flushed is durable
 * after the caller's next fence.
 */
#ifndef ZEN_PASSES_H
#define ZEN_PASSES_H

#include "recovery/recstate.h"

/* zen_passes_count_damaged -- count something damaged; true if it is to be named in the log, as the first ones are. */
extern bool zen_passes_count_damaged(void);

/* First pass: raise the anchor of the page's region.  Flushes every header line after a crash (R10).  Never throws. */
extern void zen_passes_commits(uint32 pageno);

/* Between the two, leader only: find the lost transactions of a page of HTable 0.  Throws when there are too many. */
extern void zen_passes_tail(uint32 pageno);

/* Second pass: losers are scrubbed, committed versions enter the maps.  Throws when DRAM is full. */
extern void zen_passes_maps(uint32 pageno);

/*
 * After the second pass, leader only: decide what is to be done with the damaged slots of a page that has some.  Throws
 * when DRAM is full.
 */
extern void zen_passes_damaged(uint32 pageno);

/*
 * The same for a page whose directory word is damaged.  Each whole version on it that would be its row's newest makes
 * the row an error to read, so that no older one takes its place.
 */
extern void zen_passes_lost(uint32 pageno);

#endif							/* ZEN_PASSES_H */
