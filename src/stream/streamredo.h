/*
 * streamredo.h -- the resource manager of zen's records (streamrmgr.c), and its redo: the pool of a standby or of a
 * restored server follows the WAL.
 */
#ifndef ZEN_STREAMREDO_H
#define ZEN_STREAMREDO_H

#include "base/compat.h"

#include "access/xlog_internal.h"

/*
 * zen_stream_redo_install -- fill in redo in zen's resource manager, before it is registered; and watch PostgreSQL's
 * records by which pg_xact forgets transactions.
 */
extern void zen_stream_redo_install(RmgrData *rmgr);

/*
 * zen_streamrmgr_register -- tell PostgreSQL of the resource manager.  Called once from _PG_init, when the settings
 * are known, and whatever zen.stream is: the WAL may hold records of an earlier start.
 *
 * Throws if the server cannot do what zen.stream asks for.
 */
extern void zen_streamrmgr_register(void);

#endif							/* ZEN_STREAMREDO_H */
