/*
 * indexonly.h -- index-only scans of zen tables.
 */
#ifndef ZEN_INDEXONLY_H
#define ZEN_INDEXONLY_H

#include "base/compat.h"

#include "nodes/execnodes.h"

/* zen_indexonly_take_over -- have the index-only scans of zen tables, in a plan that was just started, run faster. */
extern void zen_indexonly_take_over(PlanState *top);

#endif							/* ZEN_INDEXONLY_H */
