/*
 * passes.h -- recovery's passes over the pages, in chunks by several processes, and what becomes of damaged slots.
 *
 * Each owned page is in a first pass, and later in a second one.  No second pass begins before the first one is done
 * for all pages.
 */
#ifndef ZEN_PASSES_H
#define ZEN_PASSES_H

#include "recovery/recstate.h"

#define ZEN_CHUNK_PAGES	16		/* pages taken at a time: about a millisecond */

/*
 * zen_passes_begin -- leader: a pass over all pages, or pieces, begins.  All processes that take a chunk see what the
 * leader has found.  Up to nhelpers more background workers take part, as slots for them allow.
 *
 * zen_passes_end -- leader: take part, and wait until the pass is done.  On return the leader sees what all
 * participants have found.  report is called now and then.  Throws if a participant could not finish its chunk.
 */
extern void zen_passes_begin(ZenRecoveryPass pass, uint32 nhelpers);
extern void zen_passes_end(ZenRecoveryPass pass, void (*report) (void));

/*
 * zen_passes_help -- take part in a recovery that is under way until enough() is true.
 *
 * On return this process sees what the leader has done before that.  Throws what do_chunk() and an interrupt throw.
 */
extern void zen_passes_help(bool (*enough) (void));

/* A background worker that helps. */
extern PGDLLEXPORT void zen_passes_worker_main(Datum arg);

/* zen_passes_count_damaged -- count something damaged; true if it is to be named in the log, as the first ones are. */
extern bool zen_passes_count_damaged(void);

/* zen_passes_tail -- between the two passes, leader only: find the lost transactions.  Throws if there are too many. */
extern void zen_passes_tail(void);

/*
 * zen_passes_damaged -- after the second pass, leader only: decide what is to be done with the damaged slots of all
 * pages, durably.  Throws when DRAM is full.
 */
extern void zen_passes_damaged(void);

/*
 * zen_passes_bases -- leader, then: the bases of versions that hold only what changed are no free slots (R22).  Rows
 * whose base is damaged are named in the log.
 */
extern void zen_passes_bases(void);

#endif							/* ZEN_PASSES_H */
