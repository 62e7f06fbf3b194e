/* bgworker.h -- the description that zen's background processes have in common. */
#ifndef ZEN_BGWORKER_H
#define ZEN_BGWORKER_H

#include "base/compat.h"
#include "postmaster/bgworker.h"

/*
 * zen_bgworker_describe -- describe a background process named name.
 *
 * It runs the exported function of zen's library with arg and may connect to a database.  It starts once PostgreSQL's
 * own recovery is over.  restart_s: seconds until it is started again after it has failed, or BGW_NEVER_RESTART.
 */
extern void zen_bgworker_describe(BackgroundWorker *worker, const char *name, const char *function, Datum arg,
								  int restart_s);

#endif							/* ZEN_BGWORKER_H */
