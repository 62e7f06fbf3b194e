/*
 * streamredo.h -- redo of zen's records: the pool of a standby or of a restored server follows the WAL.
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

#endif							/* ZEN_STREAMREDO_H */
