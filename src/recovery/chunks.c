/*
 * chunks.c -- work in chunks by several processes: attach, hand out, count, wait.
 *
 * A pass goes over all pages, or over all pieces of the saved map.  Pages are taken in chunks from a shared counter, by
 * the leader, by background workers, and by every process that waits for the engine.  A chunk that was taken is
 * finished: interrupts are held, and an error in it ends the whole recovery.  A pass is over when all its pages are
 * counted as done.  So the pass does not depend on any one participant, and each may come and go between chunks.
 *
 * ZenRecovery.work holds the pass and its next chunk in one word.  So a process that adds to it gets a chunk of the
 * pass under way at that moment, and the leader cannot end that pass before the chunk is done.
 */
#include "recovery/chunks.h"

#include "base/startup.h"
#include "miscadmin.h"
#include "nvm/page.h"
#include "nvm/persist.h"
#include "recovery/mapload.h"
#include "recovery/passes.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "txn/xact.h"
#include "utils/wait_event.h"

#define LOOK_MS			10000	/* between two calls of report */

static uint32
nchunks(ZenRecoveryPass pass)
{
	return pass == ZEN_PASS_LOAD ? zen_recovery->npieces :
		(zen_recovery->pages_total + ZEN_CHUNK_PAGES - 1) / ZEN_CHUNK_PAGES;
}

static bool
pass_is_done(ZenRecoveryPass pass)
{
	return pass == ZEN_PASS_LOAD ? pg_atomic_read_u32(&zen_recovery->pieces_done) >= zen_recovery->npieces :
		pg_atomic_read_u32(&zen_recovery->pages_done) >= zen_recovery->pages_total;
}

/* Take a chunk of the pass under way; false if there is none left. */
static bool
take_chunk(ZenRecoveryPass *pass, uint32 *chunk)
{
	uint64		work = pg_atomic_read_u64(&zen_recovery->work);

	/* looked at before, so that the counter cannot run over into the pass */
	*pass = (ZenRecoveryPass) (work >> 32);
	if (*pass == ZEN_PASS_NONE || (uint32) work >= nchunks(*pass) || pg_atomic_read_u32(&zen_recovery->failed))
		return false;
	work = pg_atomic_fetch_add_u64(&zen_recovery->work, 1);
	*pass = (ZenRecoveryPass) (work >> 32);
	*chunk = (uint32) work;
	return *pass != ZEN_PASS_NONE && *chunk < nchunks(*pass);
}

static void
do_piece(uint32 piece)
{
	uint32		done;

	zen_mapload_piece(piece);
	done = pg_atomic_add_fetch_u32(&zen_recovery->pieces_done, 1);
	Assert(done <= zen_recovery->npieces);
	if (done == zen_recovery->npieces)
		ConditionVariableBroadcast(&zen_recovery->changed);
}

/* Is the page one that this pass is for? */
static bool
is_for_pass(const ZenPage *page, ZenRecoveryPass pass)
{
	if (!page->owned || page->lost)
		return false;
	return pass == ZEN_PASS_COMMITS || (pass == ZEN_PASS_LATE) == zen_htables[page->owner.htable].late;
}

/* Do the pass for n pages in a row, and count them as done. */
static void
do_pages(ZenRecoveryPass pass, uint32 first, uint32 n)
{
	uint32		done;

	Assert(n > 0 && first >= zen_pool.first_data_page && first + n <= zen_pool_pages());
	for (uint32 p = first; p < first + n; p++)
	{
		if (!is_for_pass(&zen_pages[p], pass))
			continue;
		if (pass == ZEN_PASS_COMMITS)
			zen_passes_commits(p);
		else
			zen_passes_maps(p);
	}

	/*
	 * R10: what this process has flushed is durable before its pages count as
	 * done.  No other process can fence it.
	 */
	zen_fence();
	zen_nvm_let_go(zen_page_ptr(first), (Size) n * ZEN_PAGE_SIZE);
	done = pg_atomic_add_fetch_u32(&zen_recovery->pages_done, n);
	Assert(done <= zen_recovery->pages_total);
	if (done == zen_recovery->pages_total)
		ConditionVariableBroadcast(&zen_recovery->changed);
}

/* Do one chunk: a piece of the saved map, or some pages. */
static void
do_chunk(ZenRecoveryPass pass, uint32 chunk)
{
	uint32		next,
				end;

	/* the pass cannot end without this chunk, unless recovery has failed */
	Assert(pass == zen_recovery_pass() || pg_atomic_read_u32(&zen_recovery->failed));
	Assert(chunk < nchunks(pass));
	Assert(InterruptHoldoffCount > 0);
	if (pass == ZEN_PASS_LOAD)
	{
		do_piece(chunk);
		return;
	}
	next = chunk * ZEN_CHUNK_PAGES;
	end = Min(next + ZEN_CHUNK_PAGES, zen_recovery->pages_total);
	while (next < end)
	{
		uint32		run;
		uint32		first = zen_page_nth(next, &run);

		run = Min(run, end - next);
		do_pages(pass, first, run);
		next += run;
	}
}

/* A chunk that was taken will not be done. */
static void
fail(int code, Datum arg)
{
	pg_atomic_write_u32(&zen_recovery->failed, 1);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

/* Do one chunk, if there is one. */
static bool
take_part(void)
{
	static bool counted = false;
	ZenRecoveryPass pass;
	uint32		chunk;
	bool		taken;

	/* nothing may come between taking a chunk and doing it */
	HOLD_INTERRUPTS();
	taken = take_chunk(&pass, &chunk);
	if (taken)
	{
		if (!counted)
			pg_atomic_fetch_add_u32(&zen_recovery->processes, 1);
		counted = true;
		PG_ENSURE_ERROR_CLEANUP(fail, (Datum) 0);
		{
			do_chunk(pass, chunk);
		}
		PG_END_ENSURE_ERROR_CLEANUP(fail, (Datum) 0);
	}
	RESUME_INTERRUPTS();
	return taken;
}

void
zen_chunks_start_helpers(uint32 n)
{
	BackgroundWorker worker;

	ZenAssertRecoveryLeader();
	zen_bgworker_describe(&worker, "zen recovery", "zen_chunks_worker_main", (Datum) 0, BGW_NEVER_RESTART);
	while (n > 0 && RegisterDynamicBackgroundWorker(&worker, NULL))
		n--;
}

void
zen_chunks_begin(ZenRecoveryPass pass)
{
	ZenAssertRecoveryLeader();
	/* one pass at a time, and no page of the last one counts for this one */
	Assert(zen_recovery_pass() == ZEN_PASS_NONE && pass != ZEN_PASS_NONE);
	Assert(pass == ZEN_PASS_LOAD ? zen_recovery->pieces != NULL : zen_recovery->npieces == 0);
	Assert(pg_atomic_read_u32(&zen_recovery->pages_done) == 0);
	/* what the leader has found is seen by each process that takes a chunk */
	pg_write_barrier();
	pg_atomic_write_u64(&zen_recovery->work, (uint64) pass << 32);
	ConditionVariableBroadcast(&zen_recovery->changed);
}

void
zen_chunks_end(ZenRecoveryPass pass, void (*report) (void))
{
	ZenAssertRecoveryLeader();
	Assert(zen_recovery_pass() == pass);
	while (take_part())
		report();

	ConditionVariablePrepareToSleep(&zen_recovery->changed);
	while (!pass_is_done(pass) && !pg_atomic_read_u32(&zen_recovery->failed))
	{
		ConditionVariableTimedSleep(&zen_recovery->changed, LOOK_MS, PG_WAIT_EXTENSION);
		report();
	}
	ConditionVariableCancelSleep();
	pg_atomic_write_u64(&zen_recovery->work, (uint64) ZEN_PASS_NONE << 32);
	if (pg_atomic_read_u32(&zen_recovery->failed))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery of the zen pool has failed in another process"),
				 errhint("See the server log for the reason, mend it, and restart the server.")));
	/* what all have found is seen by the leader */
	pg_memory_barrier();
}

void
zen_chunks_help(bool (*enough) (void))
{
	/* the leader would wait for itself */
	Assert(zen_recovery->leader != MyProcPid || zen_recovery_is_over());
	ConditionVariablePrepareToSleep(&zen_recovery->changed);
	while (!enough())
	{
		if (take_part())
			CHECK_FOR_INTERRUPTS();
		else
			ConditionVariableSleep(&zen_recovery->changed, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	/* pairs with the barriers in open_tables() and set_state() */
	pg_read_barrier();
}

void
zen_chunks_worker_main(Datum arg)
{
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	zen_xact_attach();
	zen_chunks_help(zen_recovery_is_over);
	proc_exit(0);
}
