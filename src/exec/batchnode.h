/*
 * batchnode.h -- a zen table is aggregated block by block: which queries, and the node.
 */
#ifndef ZEN_BATCHNODE_H
#define ZEN_BATCHNODE_H

#include "base/compat.h"

/* zen_batchnode_init -- register the node and the planner's hook.  Once, when shared memory is requested. */
extern void zen_batchnode_init(void);

#endif							/* ZEN_BATCHNODE_H */
