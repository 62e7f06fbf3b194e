/*
 * moment.h -- do pool and data directory belong together?
 */
#ifndef ZEN_MOMENT_H
#define ZEN_MOMENT_H

#include "nvm/datadir.h"
#include "nvm/poolfile.h"

/*
 * zen_moment_check -- FATAL unless they are of one cluster and of the same moment, or the pool may be taken over by a
 * cluster that pg_upgrade has made.
 *
 * The superblock of file 0 is in force; pair has both copies.  A start that was cut short is taken as not begun.  Files
 * are not changed.  Returns true if both are as the last orderly stop has left them.
 */
extern bool zen_moment_check(const ZenSuperblockPair *pair, const ZenStateFile *state, const ZenClusterFacts *facts);

/*
 * zen_moment_step -- the worker, once a round: raise the mark from time to time if something was stored.  fences: of
 * all processes since the round before.
 *
 * zen_moment_stop -- the postmaster, at an orderly stop: raise it.  Durable on return.  The caller has put the other
 * fields of the superblocks into zen_supers; they are written with it.
 */
extern void zen_moment_step(char *base, uint64 fences);
extern void zen_moment_stop(char *base);

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

#endif							/* ZEN_MOMENT_H */
