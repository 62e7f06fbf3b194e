/*
 * batchagg.h -- the aggregate functions that take many values at once.
 */
#ifndef ZEN_BATCHAGG_H
#define ZEN_BATCHAGG_H

#include "base/compat.h"

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

typedef struct ZenAggKind
{
	Oid			function;		/* pg_proc.oid of the aggregate */
	void		(*add) (ZenAggTotal *total, const Datum *values, int n);
	Datum		(*result) (const ZenAggTotal *total);	/* of some values */
} ZenAggKind;

/* zen_batchagg_kind -- the aggregate with this pg_proc.oid, or NULL if it is none of ours. */
extern const ZenAggKind *zen_batchagg_kind(Oid function);

/* Does the aggregate look at its argument only to see if it is NULL? */
extern bool zen_batchagg_counts(const ZenAggKind *kind);

/*
 * zen_batchagg_result -- what PostgreSQL's aggregate would return; may throw as that does.
 *
 * A result that is passed by reference is in the current memory context.
 */
extern Datum zen_batchagg_result(const ZenAggKind *kind, const ZenAggTotal *total, bool *isnull);

#endif							/* ZEN_BATCHAGG_H */
