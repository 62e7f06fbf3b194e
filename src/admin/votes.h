/*
 * votes.h -- which values of partition keys does a plan name?
 */
#ifndef ZEN_VOTES_H
#define ZEN_VOTES_H

#include "base/compat.h"

#include "admin/chain.h"

/*
 * zen_votes_start -- link of ExecutorStart.  Before: if the execution is the first of a transaction that looks at a
 * table, its point accesses vote for the node on which the transaction runs, with zen.numa = soft.
 */
extern void zen_votes_start(const ZenStartLink *rest, QueryDesc *query, int eflags);

#endif							/* ZEN_VOTES_H */
