/*
 * pointplan.h -- which plans are point accesses or can be kept, and the nodes that mark them.
 */
#ifndef ZEN_POINTPLAN_H
#define ZEN_POINTPLAN_H

#include "base/compat.h"

#include "exec/memorykind.h"
#include "exec/pointwhy.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"

/* How a plan is executed with kept state. */
typedef enum ZenPointKind
{
	ZEN_POINT_NONE,
	ZEN_POINT_ROW,				/* rows by their keys, by one function
								 * (ZenPointShape) */
	ZEN_POINT_PLAN,				/* any rows, by the executor's own nodes */
} ZenPointKind;

/* The plan below the node, by its parts; those that it does not have are NULL. */
typedef struct ZenPointShape
{
	IndexScan  *scan;			/* of the one table; NULL: an INSERT */
	LockRows   *lock;			/* SELECT ... FOR UPDATE and the like */
	ModifyTable *change;
	Index		rti;			/* of the table */
} ZenPointShape;

/* Is this plan a point access by its form?  *shape gets its parts.  Looks at no catalog. */
extern bool zen_point_shape(PlannedStmt *stmt, Plan *plan, ZenPointShape *shape);

/*
 * zen_point_refuses -- why a table's or an index's definition keeps a plan of that shape from being a point access.
 *
 * Caller holds the lock on the table that the plan needs.
 */
extern ZenPointWhy zen_point_refuses(PlannedStmt *stmt, const ZenPointShape *shape);

/*
 * zen_point_keepable -- does a plan consist of nodes whose state can be kept, on zen tables only?
 *
 * Caller holds the locks that the plan needs.
 */
extern bool zen_point_keepable(PlannedStmt *stmt, Plan *plan);

/*
 * zen_point_walk_plan -- call walker for all expressions of a plan of either kind, until it says true.  Result: has it?
 */
extern bool zen_point_walk_plan(Plan *plan, bool (*walker) (Node *, void *), void *context);

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

/*
 * zen_point_memory_kind -- the most that expressions of a plan, and of the table that it changes, have in them.
 *
 * What domains and functions in SQL bring in is not all seen (zen_memory_find).  Caller holds the locks that the plan
 * needs.
 */
extern ZenMemoryKind zen_point_memory_kind(const PlannedStmt *stmt, Plan *plan);

/* Register the node.  In _PG_init. */
extern void zen_pointplan_init(void);

#endif							/* ZEN_POINTPLAN_H */
