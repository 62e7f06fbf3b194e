/*
 * outp.c -- the engine outp: updates out of place, no log.
 *
 * Source of the design: the engine of this name in Z. Ji, K. Chen, L. Wang, M. Zhang, Y. Wu: Falcon: Fast OLTP Engine
 * for Persistent Cache and Non-Volatile Memory, SOSP 2023.
 *
 * Rows are read from NVM: this engine has nothing in DRAM but its array of rows.
 *
 * Commit: new versions, ends of the old ones, all flushed | fence | the thread's commit mark, flushed | fence.  A stamp
 * is a Tx-CTS and a thread; it is committed if the thread's mark has reached it.  Marks rotate over several lines, so
 * that none is flushed twice in a row.
 */
#include "versions.h"

#define MARK_LINES	8

static uint64 *marks;			/* in NVM: MARK_LINES lines for each of
								 * MAX_THREADS */
static uint64 nmarks[MAX_THREADS];	/* written so far; the thread's own */
static uint64 recovered[MAX_THREADS];	/* newest mark of each thread after a
										 * crash */

static uint64
stamp_of(uint64 cts, int thread)
{
	return cts * MAX_THREADS + thread;
}

static Size
outp_size(void)
{
	return pool_carved(MAX_THREADS * MARK_LINES * ZEN_LINE) + versions_size();
}

static void
outp_open(bool fresh)
{
	marks = pool_carve(MAX_THREADS * MARK_LINES * ZEN_LINE);
	versions_open(fresh, false);
}

static void
set_mark(int thread, uint64 cts)
{
	uint64	   *mark = &marks[(thread * MARK_LINES + nmarks[thread]++ % MARK_LINES) * 8];

	nvm_store64(mark, cts);
	zen_persist(mark, sizeof(*mark));
}

static void
outp_commit(int thread, const Write *writes, int n)
{
	VersionHeader *made[MAX_WRITES];
	VersionHeader *ended[MAX_WRITES];
	uint64		cts;

	if (n == 0)
		return;
	cts = next_cts();
	for (int i = 0; i < n; i++)
	{
		versions_write(thread, &writes[i], stamp_of(cts, thread), &made[i], &ended[i]);
		if (made[i] != NULL)
			zen_flush(made[i], version_bytes(writes[i].row));
		if (ended[i] != NULL)
			zen_flush(ended[i], sizeof(VersionHeader));
	}
	zen_fence();
	set_mark(thread, cts);
	for (int i = 0; i < n; i++)
	{
		versions_publish(&writes[i], made[i]);
		if (ended[i] != NULL)
			versions_free(thread, ended[i]);
	}
}

static void
outp_load(int thread, uint32 row, const char *data)
{
	Write		w = {.kind = WRITE_INSERT,.row = row,.len = table_of(row)->size,.data = data};

	outp_commit(thread, &w, 1);
}

static void
outp_load_end(int thread)
{
}

static bool
outp_committed(uint64 stamp)
{
	return stamp / MAX_THREADS <= recovered[stamp % MAX_THREADS];
}

static void
outp_recover(int thread)
{
	if (thread == 0)
		for (int t = 0; t < MAX_THREADS; t++)
			for (int i = 0; i < MARK_LINES; i++)
				recovered[t] = Max(recovered[t], marks[(t * MARK_LINES + i) * 8]);
	recovery_barrier();
	versions_recover(thread, outp_committed);
	if (thread == 0)
		restart_cts(versions_newest() / MAX_THREADS + 1);
}

const Engine outp_engine = {
	.name = "outp",
	.size = outp_size,
	.open = outp_open,
	.load = outp_load,
	.load_end = outp_load_end,
	.read = versions_read,
	.commit = outp_commit,
	.recover = outp_recover,
};
