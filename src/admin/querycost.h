/*
 * querycost.h -- the cost of a statement in the terms of zen: rows read from DRAM and from NVM, lines and fences.
 */
#ifndef ZEN_QUERYCOST_H
#define ZEN_QUERYCOST_H

#include "base/stats.h"

/* counters of zen_stat that are told of statements; zen_stat_statements shows them in this order */
#define ZEN_QUERY_COSTS(X) \
	X(metcache_hits) \
	X(metcache_misses) \
	X(slots_written) \
	X(rows_spilled) \
	X(lines_flushed) \
	X(fences) \
	X(point_accesses) \
	X(point_kept_plans) \
	X(point_fallbacks)

typedef enum ZenQueryCostKind
{
#define X(name) ZEN_COST_##name,
	ZEN_QUERY_COSTS(X)
#undef X
	ZEN_NCOSTS
} ZenQueryCostKind;

typedef struct ZenQueryCost
{
	uint64		n[ZEN_NCOSTS];
} ZenQueryCost;

/* zen_cost_now -- this process's counts so far. */
static inline ZenQueryCost
zen_cost_now(void)
{
	ZenQueryCost now = {{
#define X(name) zen_my_counters[ZEN_C_##name],
			ZEN_QUERY_COSTS(X)
#undef X
	}};

	return now;
}

/* zen_cost_add -- add to sum the counts since before. */
static inline void
zen_cost_add(ZenQueryCost *sum, const ZenQueryCost *before)
{
	ZenQueryCost now = zen_cost_now();

	for (int i = 0; i < ZEN_NCOSTS; i++)
		sum->n[i] += now.n[i] - before->n[i];
}

#endif							/* ZEN_QUERYCOST_H */
