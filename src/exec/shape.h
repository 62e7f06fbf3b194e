/*
 * shape.h -- plans for statements that nobody has prepared, kept by their shape.
 */
#ifndef ZEN_SHAPE_H
#define ZEN_SHAPE_H

#include "base/compat.h"

#include "exec/shapekey.h"
#include "nodes/params.h"
#include "nodes/plannodes.h"

/*
 * zen_shape_plan -- the plan kept for the shape of a query, with the query's values; NULL: plan the query as ever.
 *
 * params: those that came with the query, or NULL.  *key tells zen_shape_learn() what was found, and key->why says why
 * there is no plan; ZEN_WHY_NONE: shapes are not in use.  make_plan() makes a generic one when the shape has come often
 * enough, and says why that is not kept.  Throws what make_plan() throws.  Caller holds the locks on the tables.
 *
 * The plan is valid up to the end of the transaction, if the query's tree is.  A copy of it is valid for as long as a
 * copy of any plan.
 */
typedef PlannedStmt *(*ZenMakePlan) (Query *query, const char *source, int options, ZenPointWhy *why);

extern PlannedStmt *zen_shape_plan(ZenShapeKey *key, Query *query, const char *source, int options,
								   ParamListInfo params, ZenMakePlan make_plan);

/* zen_shape_learn -- the query was planned for its values, as stmt, not marked yet: note what that costs. */
extern void zen_shape_learn(const ZenShapeKey *key, PlannedStmt *stmt);

/*
 * zen_shape_relation_changed, zen_shape_type_changed -- an invalidation has come: plans that depend on the relation, or
 * the type of this hash, are made anew.  InvalidOid, 0: any.
 *
 * Of any other catalog the plan cache does not look closer, either: any relation.
 */
extern void zen_shape_relation_changed(Oid relid);
extern void zen_shape_type_changed(uint32 hash);

#endif							/* ZEN_SHAPE_H */
