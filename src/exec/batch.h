/*
 * batch.h -- a zen table is aggregated block by block: the functions, the plans and the node.
 */
#ifndef ZEN_BATCH_H
#define ZEN_BATCH_H

#include "base/compat.h"

#include "nodes/primnodes.h"

/* What an aggregate knows of the values so far.  All zero: there were none. */
typedef struct ZenAggTotal
{
	int64		n;				/* values that were not NULL */
	int64		sum;			/* of 2 and 4 bytes */
	int128		wide_sum;		/* of 8 bytes */
	float8		float_sum;
	float8		squares;		/* float8_accum()'s Sxx */
	Datum		extreme;		/* the smallest or largest */
} ZenAggTotal;

/* An aggregate function; add and result may throw what PostgreSQL's functions throw. */
typedef struct ZenAggKind
{
	Oid			function;		/* pg_proc.oid of the aggregate */
	void		(*add) (ZenAggTotal *total, const Datum *values, int n);
	Datum		(*result) (const ZenAggTotal *total);
	bool		counts;			/* looks at its argument only to see if it is
								 * NULL; others are NULL without values */
} ZenAggKind;

/* zen_batchagg_kind -- the aggregate with this pg_proc.oid, or NULL if it is none of ours. */
extern const ZenAggKind *zen_batchagg_kind(Oid function);

/*
 * zen_batchagg_is_plain -- is an aggregate in a plan one of ours, of a column or of nothing, without FILTER?
 *
 * Such functions, PostgreSQL's own, remember nothing from one execution to the next.
 */
extern bool zen_batchagg_is_plain(const Aggref *aggref);

/* zen_batchagg_init -- take the planner's hook for paths of aggregates.  Once a process. */
extern void zen_batchagg_init(void);

/* zen_batchnode_init -- register the node.  Once a process, before the first plan. */
extern void zen_batchnode_init(void);

#endif							/* ZEN_BATCH_H */
