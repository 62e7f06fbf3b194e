/*
 * latency.c -- a histogram whose buckets grow with the time: 64 of them for each power of 2.
 *
 * What was added in another order, or merged from other threads, gives the same percentiles.
 */
#include "latency.h"

static uint32
bucket_of(uint64 ns)
{
	uint32		shift = 0;

	while (ns >> shift >= 2 * LATENCY_STEPS)
		shift++;
	return Min(shift * LATENCY_STEPS + (uint32) (ns >> shift), LATENCY_BUCKETS - 1);
}

/* The least time of a bucket. */
static uint64
bucket_start(uint32 bucket)
{
	uint32		shift = bucket < 2 * LATENCY_STEPS ? 0 : bucket / LATENCY_STEPS - 1;

	return (uint64) (bucket - shift * LATENCY_STEPS) << shift;
}

void
latency_add(Latencies *l, uint64 ns)
{
	Assert(bucket_start(bucket_of(ns)) <= ns);
	l->n[bucket_of(ns)]++;
}

void
latency_merge(Latencies *to, const Latencies *from)
{
	for (int i = 0; i < LATENCY_BUCKETS; i++)
		to->n[i] += from->n[i];
}

uint64
latency_percentile(const Latencies *l, double share)
{
	uint64		all = 0;
	uint64		below = 0;

	for (int i = 0; i < LATENCY_BUCKETS; i++)
		all += l->n[i];
	for (int i = 0; i < LATENCY_BUCKETS; i++)
	{
		below += l->n[i];
		if (below > 0 && below >= share * all)
			return bucket_start(i);
	}
	return 0;
}
