/*
 * latency_test.c -- proves the percentiles of latency.c; prints TAP.
 */
#include "latency.h"
#include "server.h"

#undef printf
#undef fprintf

void
ExceptionalCondition(ASSERTION_ARGS)
{
	fprintf(stderr, "latency_test: assertion failed: %s, %s:%d\n", condition, file, line);
	abort();
}

static int	ntests;
static int	failures;
static Latencies all;

/* Buckets are less than 1/64 wide, and the percentile is where one begins. */
static void
is_about(uint64 got, uint64 wanted, const char *what)
{
	bool		ok = got <= wanted && got >= wanted - wanted / LATENCY_STEPS;

	ntests++;
	failures += !ok;
	printf("%sok %d - %s\n", ok ? "" : "not ", ntests, what);
	if (!ok)
		printf("# got " UINT64_FORMAT ", wanted " UINT64_FORMAT "\n", got, wanted);
}

static void
add_range(Latencies *to, uint64 from, uint64 end, uint64 step)
{
	for (uint64 ns = from; ns < end; ns += step)
		latency_add(to, ns);
}

int
main(void)
{
	static Latencies other;

	is_about(latency_percentile(&all, 0.5), 0, "of nothing: 0");
	add_range(&all, 1, 101, 1);
	is_about(latency_percentile(&all, 0.5), 50, "p50 of 1 to 100");
	is_about(latency_percentile(&all, 0.99), 99, "p99 of 1 to 100");
	is_about(latency_percentile(&all, 1), 100, "the largest of them");
	add_range(&other, 1000, 1000 * 1000, 1000);
	latency_merge(&other, &all);
	is_about(latency_percentile(&other, 100.0 / 1099), 100, "merged: those of one come first");
	is_about(latency_percentile(&other, 0.5), 450 * 1000, "p50 of both");
	is_about(latency_percentile(&other, 0.99), 989 * 1000, "p99 of both");
	memset(&all, 0, sizeof(all));
	latency_add(&all, UINT64CONST(20000000000));
	is_about(latency_percentile(&all, 0.99), UINT64CONST(20000000000), "20 seconds");
	printf("1..%d\n", ntests);
	return failures > 0;
}
