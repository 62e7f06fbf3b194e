/*
 * poolopen.h -- open the NVM pool, or say exactly why not; record a stop.
 */
#ifndef ZEN_POOLOPEN_H
#define ZEN_POOLOPEN_H

#include "base/compat.h"

/*
 * zen_pool_open -- map the pool, creating it on the very first start.
 *
 * Postmaster or single-user backend only, in shmem_startup_hook, before any fork.  On return zen_pool is set, the files
 * are locked, and generation + 1 with clean = 0 is durable in pool and data directory.  Any doubt is a FATAL with
 * detail and hint.  Until all checks have passed neither the pool nor zen.state is changed, and nothing is ever created
 * over or beside an existing pool.  zen_pool.base is set last.  So an exit callback that runs after a FATAL finds no
 * pool to mark clean.
 *
 * Called again in the same postmaster after a crash of a backend, when it finds the mapping in place and only re-reads
 * the state.
 */
extern void zen_pool_open(void);

/*
 * zen_pool_stopped -- record an orderly stop, durable on return.
 *
 * Postmaster or single-user backend only, when no other process is left, everything else is durable, and PostgreSQL's
 * shutdown checkpoint is on disk.  clean: nothing in the pool is in doubt.  FATAL when pg_control cannot be read: the
 * pool then stays unclean.
 */
extern void zen_pool_stopped(bool clean);

#endif							/* ZEN_POOLOPEN_H */
