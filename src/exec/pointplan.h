/*
 * pointplan.h -- which plans are point accesses or can be kept, and the nodes that mark them.
 */
#ifndef ZEN_POINTPLAN_H
#define ZEN_POINTPLAN_H

#include "base/compat.h"

#include "exec/point.h"

/* Is this plan a point access by its form?  *shape gets its parts.  Looks at no catalog. */
extern bool zen_point_shape(PlannedStmt *stmt, Plan *plan, ZenPointShape *shape);

/*
 * zen_point_mark -- put the node on top of a plan if it is of one of the kinds, and count why not.
 *
 * once: why the plan is made for one execution; ZEN_WHY_NONE: it is not.
 */
extern void zen_point_mark(PlannedStmt *stmt, ZenPointWhy once);

/* The serial number of a marked plan, and 0 of any other.  Plans with the same number are copies of one. */
extern uint32 zen_point_serial(const PlannedStmt *stmt);

/* The kind of a marked plan. */
extern ZenPointKind zen_point_kind(const PlannedStmt *stmt);

/* The plan below the node of a marked one. */
extern Plan *zen_point_plan(const PlannedStmt *stmt);

/*
 * zen_point_still_fits -- is a marked plan yet what it was marked as, as its tables and indexes are defined now?
 *
 * Caller holds the locks that the plan needs.
 */
extern bool zen_point_still_fits(PlannedStmt *stmt);

/* Register the node.  In _PG_init. */
extern void zen_pointplan_init(void);

#endif							/* ZEN_POINTPLAN_H */
