/*
 * votes.h -- partition keys of tables, and the values of them that a plan names.
 */
#ifndef ZEN_VOTES_H
#define ZEN_VOTES_H

#include "base/compat.h"

#include "executor/execdesc.h"

/* zen_votes_init -- register the provider of labels, which mark the keys; in _PG_init. */
extern void zen_votes_init(void);

/*
 * zen_votes_begin -- a plan is about to be executed: if it is the first of a transaction that looks at a table, its
 * point accesses vote for the node on which the transaction runs.  params: by which the plan is executed.  With
 * zen_partition_soft.
 */
extern void zen_votes_begin(QueryDesc *query, ParamListInfo params, int eflags);

#endif							/* ZEN_VOTES_H */
