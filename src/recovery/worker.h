/*
 * worker.h -- zen's background worker: recovers after start-up, then collects what idle processes leave behind.
 */
#ifndef ZEN_WORKER_H
#define ZEN_WORKER_H

#include "base/compat.h"

/* Register the worker; _PG_init in the postmaster only. */
extern void zen_worker_register(void);

/* Called by the worker when the pool is recovered, until it returns true; set by the layer that knows indexes. */
extern bool (*zen_worker_after_recovery) (void);

extern PGDLLEXPORT void zen_worker_main(Datum arg);

#endif							/* ZEN_WORKER_H */
