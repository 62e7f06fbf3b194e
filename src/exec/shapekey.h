/*
 * shapekey.h -- the shape of a query: its tree without the values that change from one execution to the next.
 */
#ifndef ZEN_SHAPEKEY_H
#define ZEN_SHAPEKEY_H

#include "base/compat.h"

#include "exec/pointwhy.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

#define ZEN_MAX_VALUES		100 /* constants of a query that has a shape */

/* A constant that is a value, in the tree of the query. */
typedef struct ZenShapeValue
{
	Const	   *where;
	Const		was;			/* while a Param stands in its place */
} ZenShapeValue;

/* What zen_shapekey_find() has found. */
typedef struct ZenShapeKey
{
	ZenPointWhy why;			/* the query has no shape */
	uint64		hash;			/* equal for equal shapes */
	int			ntables;		/* entries of range tables for tables, those
								 * of views as well */
	int			nparams;		/* that came with the query */
	int			nvalues;
	ZenShapeValue values[ZEN_MAX_VALUES];
} ZenShapeKey;

/*
 * zen_shapekey_find -- find the values of a query, which has nparams parameters, and hash the rest of it.
 *
 * A query has no shape if it reads or changes something else than zen tables, or if no plan of its kind can be kept.
 * Then key->why says why, and nothing else of the key is valid.  Looks at the relcache.  Caller holds the locks on the
 * tables.
 */
extern void zen_shapekey_find(ZenShapeKey *key, Query *query, int nparams);

/*
 * zen_shapekey_take_out -- put Params into the places of the values: the query becomes its shape.
 *
 * They are numbered from nparams + 1 on, in the order in which the values were found.
 *
 * zen_shapekey_put_back -- put the values back, the same nodes at the same addresses.
 */
extern void zen_shapekey_take_out(ZenShapeKey *key);
extern void zen_shapekey_put_back(ZenShapeKey *key);

/*
 * zen_shapekey_session -- a hash of all that a plan depends on beside its query and the catalogs.
 *
 * That is the settings of the planner and of zen.executor, and the current user; and search path, time zone and style
 * of dates.  By these the planner reads the bodies of functions in SQL that it puts in place of a call.
 *
 * 0: the search path has too many schemas to be told from others.
 */
extern uint64 zen_shapekey_session(void);

#endif							/* ZEN_SHAPEKEY_H */
