/*
 * recovery.h -- from the pool's bytes to a running engine: one scan, no log.
 */
#ifndef ZEN_RECOVERY_H
#define ZEN_RECOVERY_H

#include "base/startup.h"
#include "recovery/recstate.h"

/* zen_recovery_shmem -- its part of shared memory. */
extern const ZenShmem zen_recovery_shmem;

/*
 * zen_recovery_lead -- recover the pool; this process has just changed the state from NEEDED to RUNNING.  The state is
 * READY on return.  Throws after it was set to FAILED.
 */
extern void zen_recovery_lead(void);

/* zen_recovery_phase_name -- what the leader is doing, for views and the log. */
extern const char *zen_recovery_phase_name(void);

/* zen_recovery_shutdown -- at the end of an orderly stop: leave the pool clean.  Postmaster or single-user process. */
extern void zen_recovery_shutdown(void);

/* ---------- the background worker (worker.c) ---------- */

/* Register the worker; _PG_init in the postmaster only. */
extern void zen_worker_register(void);

/* Called by the worker when the pool is recovered, until it returns true; set by the layer that knows indexes. */
extern bool (*zen_worker_after_recovery) (void);

extern PGDLLEXPORT void zen_worker_main(Datum arg);

#endif							/* ZEN_RECOVERY_H */
