/*
 * votes.h -- which values of partition keys does a plan name?
 */
#ifndef ZEN_VOTES_H
#define ZEN_VOTES_H

#include "base/compat.h"

#include "executor/execdesc.h"

/*
 * zen_votes_started -- an execution begins: if it is the first of a transaction that looks at a table, its point
 * accesses vote for the node on which the transaction runs.  Before anything of it is done.
 */
extern void zen_votes_started(QueryDesc *query, int eflags);

#endif							/* ZEN_VOTES_H */
