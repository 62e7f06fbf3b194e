/*
 * shares.c -- the shares of tables in the Met-Cache.
 *
 * The paper's greedy rule: tables in the order of (accesses per transaction) / (size) get room for all their rows.
 * This ends when the cache is used up.  Transactions are the same for all tables, so accesses since the last plan do
 * instead; half of the older ones counts as well.  1 / MINIMUM_PART of the cache is divided equally first, so that
 * every table has a little.
 *
 * A table's size is the DRAM that all its rows would take: row addresses handed out, times the mean size of its
 * entries.  If all tables fit, or there is but one, no table has a limit.
 *
 * Only zen's worker plans, so its memory of past accesses needs no lock.
 */
#include "cache/tablestat.h"

#include "base/guc.h"
#include "cache/tidmap.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define PLAN_MS			5000
#define MINIMUM_PART	8
#define DEFAULT_ROW		256		/* bytes of an entry, before there is one */

/* The worker's memory of a table's accesses. */
typedef struct Past
{
	uint32		generation;
	int64		seen;			/* hits and misses at the last plan */
	double		accesses;		/* since then, and older ones by half and half */
} Past;

typedef struct Candidate
{
	uint32		htable;
	uint64		size;			/* bytes */
	uint64		quota;
	double		density;		/* accesses by byte */
} Candidate;

static Past *pasts = NULL;		/* [ZEN_MAX_HTABLES] */
static Candidate *candidates;	/* the same */
static TimestampTz last_plan = 0;
static bool planned = false;	/* there may be quotas */

static void
look_at_table(ZenHTable *ht, Candidate *c)
{
	Past	   *past = &pasts[ht->idx];
	uint32		generation = zen_tablestat_generation(ht->idx);
	int64		values[ZEN_T_NCOUNTERS];
	int64		seen;
	uint64		row_bytes;

	zen_tablestat_read(ht->idx, values);
	seen = values[ZEN_T_HITS] + values[ZEN_T_MISSES];
	if (past->generation != generation || seen < past->seen)
	{
		past->accesses = 0;
		past->seen = 0;
		past->generation = generation;
	}
	past->accesses = past->accesses / 2 + (double) (seen - past->seen);
	past->seen = seen;

	row_bytes = values[ZEN_T_ENTRIES] > 0 ? values[ZEN_T_BYTES] / values[ZEN_T_ENTRIES] : DEFAULT_ROW;
	c->htable = ht->idx;
	c->size = zen_tidmap_nblocks(ht) * ZEN_TIDS_PER_BLOCK * Max(row_bytes, ZEN_ARENA_UNIT);
	c->density = past->accesses / Max((double) c->size, 1);
}

/* Those with the most accesses by byte first. */
static int
compare_density(const void *a, const void *b)
{
	const Candidate *x = a;
	const Candidate *y = b;

	return x->density > y->density ? -1 : x->density < y->density ? 1 : 0;
}

/* The greedy rule. */
static void
divide(Candidate *c, uint32 n, uint64 capacity)
{
	uint64		left = capacity;

	for (uint32 i = 0; i < n; i++)
	{
		c[i].quota = Min(c[i].size, capacity / MINIMUM_PART / n);
		left -= c[i].quota;
	}
	qsort(c, n, sizeof(Candidate), compare_density);
	for (uint32 i = 0; i < n; i++)
	{
		uint64		more = Min(c[i].size - c[i].quota, left);

		Assert(c[i].quota <= c[i].size);
		c[i].quota += more;
		left -= more;
	}
}

static void
set_quotas(uint64 capacity)
{
	uint32		n = 0;
	uint64		sum = 0;

	for (uint32 t = 1; t < ZEN_MAX_HTABLES; t++)
		if (zen_htables[t].in_use && zen_tidmap_nblocks(&zen_htables[t]) > 0)
		{
			look_at_table(&zen_htables[t], &candidates[n]);
			sum += candidates[n++].size;
		}
	Assert(n < ZEN_MAX_HTABLES);
	planned = n > 1 && sum > capacity;
	if (planned)
		divide(candidates, n, capacity);
	for (uint32 i = 0; i < n; i++)
		zen_tablestat_set_quota(candidates[i].htable, planned ? Max(candidates[i].quota, 1) : 0);
}

static void
drop_quotas(void)
{
	for (uint32 t = 1; t < ZEN_MAX_HTABLES; t++)
		zen_tablestat_set_quota(t, 0);
	planned = false;
}

void
zen_shares_plan(uint64 capacity)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!zen_met_cache_split)
	{
		if (planned)
			drop_quotas();
		return;
	}
	if (!TimestampDifferenceExceeds(last_plan, now, PLAN_MS))
		return;
	last_plan = now;
	if (pasts == NULL)
	{
		pasts = MemoryContextAllocZero(TopMemoryContext, ZEN_MAX_HTABLES * sizeof(Past));
		candidates = MemoryContextAlloc(TopMemoryContext, ZEN_MAX_HTABLES * sizeof(Candidate));
	}
	set_quotas(capacity);
}
