/*
 * grow.h -- the pool grows while the server runs.
 */
#ifndef ZEN_GROW_H
#define ZEN_GROW_H

#include "base/compat.h"

#include "base/startup.h"

/* zen_grow_shmem -- in shmem_startup_hook, before zen_pool_open(). */
extern const ZenShmem zen_grow_shmem;

/* zen_grow_max_size -- bytes that a file can grow to while this server runs. */
extern Size zen_grow_max_size(int file);

/*
 * zen_grow_to -- make a file of the pool larger; returns its size in bytes then.
 *
 * size is a multiple of the page size, at most zen_grow_max_size().  Waits for another process that makes the pool
 * larger.  A file that has that size by then is left as it is.  Durable on return (R16), and its pages are free.  If it
 * cannot be done, there is a report of this level, and file and pool are as they were.  May be cancelled.
 *
 * The pool has been recovered.  No lock is held.
 */
extern Size zen_grow_to(int file, Size size, int elevel);

/*
 * zen_grow_replay -- redo on a copy of the pool: a file has so many pages on the primary server.  False, or an error,
 * if that cannot be.
 */
extern bool zen_grow_replay(int file, uint32 npages);

/* zen_grow_progress -- is a file growing now?  To which size, and how much of it is there, in bytes? */
extern bool zen_grow_progress(int *file, Size *target, Size *done);

/*
 * zen_grow_serve -- the worker: from now on this process does what zen_grow_ask() asks for.
 * zen_grow_is_asked -- has a process asked?
 * zen_grow_step -- if there are few free pages, make the pool larger by zen.pool_grow_by, as often as it takes.  Throws
 * nothing, but ends at elog(FATAL) and at a shutdown.
 */
extern void zen_grow_serve(void);
extern bool zen_grow_is_asked(void);
extern void zen_grow_step(void);

/* What a process that has found no page can hope for. */
typedef enum ZenGrowHope
{
	ZEN_GROW_NOT,				/* the pool stays as it is */
	ZEN_GROW_ASKED,				/* the worker was told */
	ZEN_GROW_GROWING			/* it is under way */
} ZenGrowHope;

/* zen_grow_ask -- the pool is full for this process.  zen_grow_may -- would the worker make it larger? */
extern ZenGrowHope zen_grow_ask(void);
extern bool zen_grow_may(void);

#endif							/* ZEN_GROW_H */
