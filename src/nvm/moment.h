/*
 * moment.h -- are pool and data directory of the same moment?
 */
#ifndef ZEN_MOMENT_H
#define ZEN_MOMENT_H

#include "nvm/datadir.h"

/*
 * zen_moment_check -- FATAL unless they are; moment.c has the table.
 *
 * The superblock of file 0 is in force, and a start that was cut short has been undone.  backup_of_standby: a base
 * backup has brought the pool of a standby, which counts its starts for itself.  Nothing is changed.
 */
extern void zen_moment_check(const ZenStateFile *state, const ZenClusterFacts *facts, bool backup_of_standby);

/*
 * zen_moment_step -- the worker, once a round: raise the mark from time to time if something was stored.  fences: of
 * all processes since the round before.
 *
 * zen_moment_stop -- the postmaster, at an orderly stop: raise it.  Durable on return.  The caller has put the other
 * fields of the superblocks into zen_super; they are written with it.
 */
extern void zen_moment_step(char *base, uint64 fences);
extern void zen_moment_stop(char *base);

#endif							/* ZEN_MOMENT_H */
