/*
 * pointnodes.h -- run the executor's own nodes again, with the state that they have kept.
 */
#ifndef ZEN_POINTNODES_H
#define ZEN_POINTNODES_H

#include "base/compat.h"

#include "exec/point.h"

/* zen_pointnodes_find -- note the nodes of a plan that the standard executor has just started. */
extern void zen_pointnodes_find(ZenPoint *point, PlanState *top);

/*
 * zen_pointnodes_run -- give the next rows, as ExecutorRun does; count 0: all that are left.
 *
 * The tables are open.  Call it in the state's query context.
 */
extern void zen_pointnodes_run(ZenPoint *point, bool send, uint64 count);

/* zen_pointnodes_close -- end scans and close indexes, wherever the nodes stand.  Nothing to do for a point access. */
extern void zen_pointnodes_close(ZenPoint *point);

#endif							/* ZEN_POINTNODES_H */
