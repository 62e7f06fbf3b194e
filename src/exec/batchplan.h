/*
 * batchplan.h -- which queries are aggregated block by block.
 */
#ifndef ZEN_BATCHPLAN_H
#define ZEN_BATCHPLAN_H

#include "base/compat.h"

/* zen_batchplan_init -- register the node and the planner's hook.  Once, when shared memory is requested. */
extern void zen_batchplan_init(void);

#endif							/* ZEN_BATCHPLAN_H */
