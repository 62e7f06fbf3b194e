/*
 * zentree_keys.h -- the conditions of a scan: the range of the tree to be read, and the further conditions on its
 * entries.
 */
#ifndef ZENTREE_KEYS_H
#define ZENTREE_KEYS_H

#include "base/compat.h"

#include "access/skey.h"
#include "index/treeshape.h"

/* One condition on a column. */
typedef struct ZenCondition
{
	ScanKeyData key;			/* with an array: its argument is the element
								 * in turn, if the array is stepped */
	FmgrInfo   *order;			/* compares a column's value with the argument
								 * of another type; or NULL */
	bool		inexact;		/* that type has no order in common with the
								 * column's (treeshape.h) */
	bool		bound;			/* the range sees to it */

	/* = ANY (array) */
	bool		stepped;		/* the range is read once for each element */
	int			nelems;			/* 0: no array */
	int			at;
	Datum	   *elems;			/* in the index's order, each once */
} ZenCondition;

#define ZEN_FEW_CONDITIONS	3

typedef struct ZenConditions
{
	Relation	index;
	MemoryContext parent;		/* of the scan */
	MemoryContext mcxt;			/* of all that a rescan makes; NULL: nothing
								 * yet */
	bool		never;			/* no row satisfies them */
	int			n;
	ZenCondition *conditions;
	ZenCondition few[ZEN_FEW_CONDITIONS];
	bool		stepped;		/* one of them is */
	bool		for_null;		/* one of them is IS NULL */
	bool		any_filter;		/* the range does not see to all */
	int			nequal;			/* leading columns with an equality */
	int			skip_column;	/* the second one without an equality */
	bool		has_from;
	bool		has_to;
	ZenTreePos	from;
	ZenTreePos	to;
} ZenConditions;

/* zen_conditions_set -- take over the keys of a scan, which may change their order. */
extern void zen_conditions_set(ZenConditions *c, const ZenTreeShape *shape, ScanKey keys, int nkeys);

/* zen_conditions_first -- begin with the first elements of arrays, or backward with the last; sets the range. */
extern void zen_conditions_first(ZenConditions *c, const ZenTreeShape *shape, bool backward);

/* zen_conditions_next -- go on to the next elements; false: there are none. */
extern bool zen_conditions_next(ZenConditions *c, const ZenTreeShape *shape, bool backward);

/* zen_conditions_range -- set the range after ZenCondition.at was changed. */
extern void zen_conditions_range(ZenConditions *c, const ZenTreeShape *shape);

/*
 * zen_conditions_skip -- a scan is about to go on at an entry, of which pos is the position.  If no entry satisfies the
 * conditions up to some other position, in the direction of the scan, pos becomes that one.
 *
 * It refers to the fence's tuple.
 */
extern void zen_conditions_skip(ZenConditions *c, const ZenTreeShape *shape, const ZenTreeSlot *fence, bool backward,
								ZenTreePos *pos);

/* zen_conditions_hold -- does an entry in the range satisfy the other conditions? */
extern bool zen_conditions_hold(ZenConditions *c, const ZenTreeShape *shape, const ZenTreeSlot *slot);

#endif							/* ZENTREE_KEYS_H */
