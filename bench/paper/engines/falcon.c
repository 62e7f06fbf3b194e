/*
 * falcon.c -- the engine falcon: updates in place, for caches that are persistent.
 *
 * Source of the design: Z. Ji, K. Chen, L. Wang, M. Zhang, Y. Wu: Falcon: Fast OLTP Engine for Persistent Cache and
 * Non-Volatile Memory, SOSP 2023.
 *
 * Small log window: the log is two records long, per thread.  On eADR it is never flushed, and as it is written again
 * and again it stays in the cache: logging costs no write to NVM.
 *
 * Selective flush: changed rows are flushed although nothing demands it, so that the lines of a row reach the
 * medium together and merge into its 256-byte units, instead of being evicted one by one.  Rows that are changed
 * often are left to the cache: each thread remembers the last settings.hot_rows rows that it has changed.
 *
 * Commit on eADR: new rows | fence | log record | fence | changes in place, hinted flushes.  The next record's fence
 * orders the changes before it.  In flush mode the caches lose everything, so log and rows are flushed and fenced as
 * inp does it; what remains is the small window.
 */
#include "inplace.h"

#define WAYS	4				/* rows of one set, the last one used first */

typedef struct Hot
{
	uint32	   *rows;			/* nsets sets of WAYS rows, + 1; 0 = none */
	uint32		nsets;
} Hot;

static Hot	hot[MAX_THREADS];

static Size
falcon_size(void)
{
	return ring_size(2 * settings.max_record) + inplace_size();
}

static void
falcon_open(bool fresh)
{
	ring_open(2 * settings.max_record);
	inplace_open(fresh);
	for (int t = 0; t < settings.threads; t++)
	{
		hot[t].nsets = Max(1, settings.hot_rows / WAYS);
		hot[t].rows = calloc(hot[t].nsets * WAYS, sizeof(uint32));
	}
}

/* Has this thread changed the row lately?  It has now. */
static bool
is_hot(int thread, uint32 row)
{
	uint32	   *set = &hot[thread].rows[(row * UINT64CONST(0x9E3779B97F4A7C15) >> 32) % hot[thread].nsets * WAYS];
	int			i = 0;
	bool		found;

	while (i < WAYS - 1 && set[i] != row + 1)
		i++;
	found = set[i] == row + 1;
	memmove(set + 1, set, i * sizeof(uint32));
	set[0] = row + 1;
	return found;
}

static void
no_flush(const void *addr, Size len)
{
}

static void
falcon_commit(int thread, const Write *writes, int n)
{
	uint64		cts;

	if (n == 0)
		return;
	if (!medium.eadr)
	{
		inplace_commit_flushed(thread, writes, n);
		return;
	}
	cts = next_cts();
	inplace_write_inserts(writes, n);
	ring_append(thread, writes, n, cts);
	zen_fence();
	for (int i = 0; i < n; i++)
		inplace_apply(&writes[i], cts, is_hot(thread, writes[i].row) ? no_flush : nvm_hint_flush);
}

const Engine falcon_engine = {
	.name = "falcon",
	.size = falcon_size,
	.open = falcon_open,
	.load = inplace_load,
	.load_end = inplace_load_end,
	.read = inplace_read,
	.commit = falcon_commit,
	.recover = inplace_recover,
};
