/*
 * adopt.h -- a cluster that pg_upgrade makes takes over the pool of the one it is made of.
 */
#ifndef ZEN_ADOPT_H
#define ZEN_ADOPT_H

#include "nvm/datadir.h"
#include "nvm/layout.h"

/*
 * zen_adopt_check -- ERROR with a hint unless zen.pool_path names a pool that this new cluster could take over.
 *
 * For a server in binary-upgrade mode.  The old cluster's server may be running, as pg_upgrade --check allows it to.
 */
extern void zen_adopt_check(void);

/*
 * zen_adopt_note -- pg_upgrade makes a zen table: the pool that holds its rows is noted in zen.state, durable on
 * return.
 *
 * As zen_adopt_check(), and the pool must have been left in order.  The pool itself is not changed.
 */
extern void zen_adopt_note(void);

/*
 * zen_adopt_server_starts, zen_adopt_server_stops -- called by the postmaster of such a server.
 *
 * They note in zen.state how far the upgrade has come, durable on return.
 */
extern void zen_adopt_server_starts(ZenStateFile *state, const ZenClusterFacts *facts);
extern void zen_adopt_server_stops(void);

/* zen_adopt_is_as_left -- has no server run since pg_upgrade has finished? */
extern bool zen_adopt_is_as_left(const ZenStateFile *state, const ZenClusterFacts *facts);

/*
 * zen_adopt_check_start -- FATAL unless the first start of an upgraded cluster may take the pool over.
 *
 * sb is the superblock in force, after a takeover that was cut short has been undone; state is what zen_adopt_note()
 * has left.
 */
extern void zen_adopt_check_start(const char *pool_path, const ZenSuperblock *sb, const ZenStateFile *state,
								  const ZenClusterFacts *facts);

#endif							/* ZEN_ADOPT_H */
