/*
 * keyjoin.h -- a nested loop whose inner row is found by a unique key: its execution.
 */
#ifndef ZEN_KEYJOIN_H
#define ZEN_KEYJOIN_H

#include "base/compat.h"

#include "nodes/extensible.h"
#include "nodes/plannodes.h"

/*
 * zen_keyjoin_state -- the node's state, to be begun by the executor.
 *
 * The node has the nested loop as its outer plan.  custom_private has one integer: may it read ahead?
 */
extern Node *zen_keyjoin_state(CustomScan *node);

/* zen_keyjoin_is -- is a plan such a node? */
extern bool zen_keyjoin_is(const Plan *plan);

/* Fill in the node's methods.  Once a process, before the first of the above. */
extern void zen_keyjoin_init(const char *name);

#endif							/* ZEN_KEYJOIN_H */
