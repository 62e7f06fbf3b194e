/*
 * chunks.h -- recovery's passes, in chunks that several processes do.
 */
#ifndef ZEN_CHUNKS_H
#define ZEN_CHUNKS_H

#include "recovery/recstate.h"

#define ZEN_CHUNK_PAGES	16		/* pages taken at a time: about a millisecond */

/* zen_chunks_start_helpers -- leader: start up to n background workers to take part, as slots for them allow. */
extern void zen_chunks_start_helpers(uint32 n);

/*
 * zen_chunks_begin -- leader: a pass over all pages, or pieces, begins.  All processes that take a chunk see what the
 * leader has found.
 *
 * zen_chunks_end -- leader: take part, and wait until the pass is done.  On return the leader sees what all
 * participants have found.  report is called now and then.  Throws if a participant could not finish its chunk.
 */
extern void zen_chunks_begin(ZenRecoveryPass pass);
extern void zen_chunks_end(ZenRecoveryPass pass, void (*report) (void));

/*
 * zen_chunks_help -- take part in a recovery that is under way until enough() is true.
 *
 * On return this process sees what the leader has done before that.  Throws what do_chunk() and an interrupt throw.
 */
extern void zen_chunks_help(bool (*enough) (void));

/* A background worker that helps. */
extern PGDLLEXPORT void zen_chunks_worker_main(Datum arg);

#endif							/* ZEN_CHUNKS_H */
