/*
 * passon.h -- a CustomScan put on top of a plan, which hands on the columns that the plan gives.
 */
#ifndef ZEN_PASSON_H
#define ZEN_PASSON_H

#include "base/compat.h"

#include "nodes/extensible.h"

/*
 * zen_passon_make -- a node over a plan, which becomes its outer plan.
 *
 * The rows of node and plan are the same, so the node may stand wherever the plan stands.  The plan is a finished one:
 * it has been through the planner's last step.
 */
extern CustomScan *zen_passon_make(Plan *below, const CustomScanMethods *methods);

#endif							/* ZEN_PASSON_H */
