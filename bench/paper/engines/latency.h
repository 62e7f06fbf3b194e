/*
 * latency.h -- how long transactions take: a histogram.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include "postgres.h"

#define LATENCY_STEPS	64		/* from a power of 2 to the next one */
#define LATENCY_BUCKETS (40 * LATENCY_STEPS)

typedef struct Latencies
{
	uint32		n[LATENCY_BUCKETS];
} Latencies;

extern void latency_add(Latencies *l, uint64 ns);
extern void latency_merge(Latencies *to, const Latencies *from);

/* ns that so great a share of the transactions does not exceed; less than 1/64 too small. */
extern uint64 latency_percentile(const Latencies *l, double share);

#endif							/* LATENCY_H */
