/*
 * syncer.h -- mode wal: a process syncs the pool at each checkpoint, and no checkpoint passes without it.
 *
 * src/recovery/README, "Mode wal", has the argument.
 */
#ifndef ZEN_SYNCER_H
#define ZEN_SYNCER_H

#include "base/startup.h"

/* zen_syncer_shmem -- its part of shared memory; behind the pool's opening. */
extern const ZenShmem zen_syncer_shmem;

/* zen_syncer_register -- have the syncer started with the server.  At postmaster start, when the mode is chosen. */
extern void zen_syncer_register(void);

/*
 * zen_syncer_await -- recovery's leader, before any process can write: wait until the syncer is on duty.  From then on
 * stores are lazy.  If there is none after a minute, a WARNING says so, and stores are durable at once, as in mode
 * msync.  Nothing in other modes.
 */
extern void zen_syncer_await(void);

extern PGDLLEXPORT void zen_syncer_main(Datum arg);

#endif							/* ZEN_SYNCER_H */
