/*
 * exclusive.c -- the exclusive stage: one transaction runs while other writers wait.
 *
 * There is at most one stage.  A flag announces it; a transaction looks at the flag once, before its first write.  So a
 * server without a stage pays one read of a line that no process writes.  No transaction is interrupted: those that
 * have written already go on to their end beside the privileged one.
 *
 * The wait is not a lock, so no process can wait for ever, and no transaction becomes a deadlock's victim.  A waiter
 * looks at the privileged process every LOOK_MS.  It gives the stage up for all if that process itself waits for a
 * lock, or if its own wait lasts longer than zen.exclusive_timeout.
 */
#include "txn/exclusive.h"

#include "access/xact.h"
#include "base/guc.h"
#include "gc/reclaim.h"
#include "miscadmin.h"
#include "nvm/page.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#define LOOK_MS			50
#define BLOCKED_LOOKS	4		/* in which the privileged process waits for a
								 * lock, until the stage is given up */
#define COLLECT_PAUSE_MS 10000	/* what one collection has not freed, another
								 * one soon after will not */

typedef struct ExclusiveShared
{
	pg_atomic_uint32 announced; /* 1: there is a stage; written under lock */
	slock_t		lock;			/* protects the rest */
	uint64		nstages;		/* since the start of the server: the number
								 * of the last one */
	ZenExclusiveRecord history[ZEN_EXCLUSIVE_HISTORY];	/* by number */
	TimestampTz free_pool_ended;
	ConditionVariable ended;	/* has its own lock */
} ExclusiveShared;

static ExclusiveShared *shared;

bool		zen_exclusive_joined = false;
uint64		zen_exclusive_limit = 0;

static uint64 my_stage = 0;		/* number of the stage that is or was this
								 * session's; 0 = none */
static ZenExclusiveReason my_reason;
static int	failures = 0;		/* in a row */
static bool failing = false;	/* this transaction, by one that counts */
static emit_log_hook_type prev_emit_log;

Size
zen_exclusive_shmem_size(void)
{
	return sizeof(ExclusiveShared);
}

void
zen_exclusive_init(void)
{
	bool		found;

	shared = ShmemInitStruct("zen exclusive stage", sizeof(ExclusiveShared), &found);
	zen_exclusive_joined = false;
	my_stage = 0;
	failures = 0;
	if (found)
		return;
	memset(shared, 0, sizeof(*shared));
	pg_atomic_init_u32(&shared->announced, 0);
	SpinLockInit(&shared->lock);
	ConditionVariableInit(&shared->ended);
}

/* ---------- names ---------- */

const char *
zen_exclusive_reason(ZenExclusiveReason reason)
{
	switch (reason)
	{
		case ZEN_EXCLUSIVE_MEMORY:
			return "memory";
		case ZEN_EXCLUSIVE_FREE_POOL:
			return "free pool";
		case ZEN_EXCLUSIVE_FAILURES:
			return "failures";
	}
	return NULL;
}

const char *
zen_exclusive_end(ZenExclusiveEnd end)
{
	switch (end)
	{
		case ZEN_EXCLUSIVE_RUNNING:
			return "running";
		case ZEN_EXCLUSIVE_COMMITTED:
			return "committed";
		case ZEN_EXCLUSIVE_PREPARED:
			return "prepared";
		case ZEN_EXCLUSIVE_ABORTED:
			return "aborted";
		case ZEN_EXCLUSIVE_GONE:
			return "session ended";
		case ZEN_EXCLUSIVE_BLOCKED:
			return "given up: waited for a lock";
		case ZEN_EXCLUSIVE_TIMEOUT:
			return "given up: lasted too long";
	}
	return NULL;
}

/* ---------- beginning and end of a stage ---------- */

/* Under the lock. */
static ZenExclusiveRecord *
record_of(uint64 number)
{
	return &shared->history[number % ZEN_EXCLUSIVE_HISTORY];
}

static int
describe_reason(ZenExclusiveReason reason)
{
	switch (reason)
	{
		case ZEN_EXCLUSIVE_MEMORY:
			return errdetail("The transaction has " UINT64_FORMAT " kB of row versions in DRAM, which is more than "
							 "%d %% of zen.met_cache_size (zen.exclusive_memory).",
							 zen_writeset.bytes / 1024, zen_exclusive_memory);
		case ZEN_EXCLUSIVE_FREE_POOL:
			return errdetail("Less than %d %% of the pool is free (zen.exclusive_free_pool).",
							 zen_exclusive_free_pool);
		default:
			return errdetail("The client has lost %d transactions in a row to serialization failures or deadlocks "
							 "(zen.exclusive_failures).", failures);
	}
}

/* Make this session the privileged one; false if another one is. */
static bool
enter(ZenExclusiveReason reason)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		entered = false;

	Assert(zen_exclusive_joined && MyProc != NULL);
	SpinLockAcquire(&shared->lock);
	if (pg_atomic_read_u32(&shared->announced) == 0)
	{
		ZenExclusiveRecord *r = record_of(++shared->nstages);

		Assert(r->end != ZEN_EXCLUSIVE_RUNNING || shared->nstages <= ZEN_EXCLUSIVE_HISTORY);
		memset(r, 0, sizeof(*r));
		r->pid = MyProcPid;
		r->procno = GetNumberFromPGProc(MyProc);
		r->reason = reason;
		r->end = ZEN_EXCLUSIVE_RUNNING;
		r->began = now;
		my_stage = shared->nstages;
		my_reason = reason;
		pg_atomic_write_u32(&shared->announced, 1);
		entered = true;
	}
	SpinLockRelease(&shared->lock);
	if (entered)
		ereport(LOG,
				(errmsg("exclusive stage of zen begins for process %d", MyProcPid),
				 describe_reason(reason)));
	return entered;
}

/* End the stage of this number if it is still running.  The holder's own process or any other one. */
static void
end_stage(uint64 number, ZenExclusiveEnd end)
{
	TimestampTz now = GetCurrentTimestamp();
	ZenExclusiveRecord r;
	bool		ended = false;

	Assert(number > 0 && end != ZEN_EXCLUSIVE_RUNNING);
	SpinLockAcquire(&shared->lock);
	if (pg_atomic_read_u32(&shared->announced) == 1 && shared->nstages == number)
	{
		Assert(record_of(number)->end == ZEN_EXCLUSIVE_RUNNING);
		record_of(number)->end = end;
		record_of(number)->ended = now;
		r = *record_of(number);
		if (r.reason == ZEN_EXCLUSIVE_FREE_POOL)
			shared->free_pool_ended = now;
		pg_atomic_write_u32(&shared->announced, 0);
		ended = true;
	}
	SpinLockRelease(&shared->lock);
	if (!ended)
		return;
	ConditionVariableBroadcast(&shared->ended);
	ereport(LOG,
			(errmsg("exclusive stage of zen for process %d ends after " INT64_FORMAT " ms, %s",
					r.pid, (int64) (r.ended - r.began) / 1000, zen_exclusive_end(r.end)),
			 errdetail("%u other transactions have waited.", r.held_back)));
}

/* Is a stage running that is this session's? */
static bool
is_mine(void)
{
	bool		mine;

	if (my_stage == 0)
		return false;
	SpinLockAcquire(&shared->lock);
	Assert(my_stage <= shared->nstages);
	mine = pg_atomic_read_u32(&shared->announced) == 1 && shared->nstages == my_stage;
	SpinLockRelease(&shared->lock);
	return mine;
}

/* ---------- others ---------- */

/* The stage that is running; false if there is none.  count: this transaction waits for it. */
static bool
running_stage(uint64 *number, int *procno, bool count)
{
	bool		running;

	SpinLockAcquire(&shared->lock);
	running = pg_atomic_read_u32(&shared->announced) == 1;
	*number = shared->nstages;
	*procno = record_of(shared->nstages)->procno;
	if (running && count)
		record_of(shared->nstages)->held_back++;
	SpinLockRelease(&shared->lock);
	return running;
}

/* Does a process wait for a heavyweight lock, a row among them, or a buffer pin?  Read while it changes. */
static bool
waits_for_lock(int procno)
{
	uint32		class = *(volatile uint32 *) &ProcGlobal->allProcs[procno].wait_event_info & 0xFF000000;

	return class == PG_WAIT_LOCK || class == ZEN_WAIT_BUFFER_PIN;
}

/* Wait until no other session is privileged. */
static void
hold_back(void)
{
	TimestampTz start = GetCurrentTimestamp();
	uint64		number,
				last = 0;
	int			procno,
				blocked = 0;
	uint32		wait_event = zen_wait_event("ZenExclusiveStage");

	Assert(!zen_exclusive_joined && zen_writeset.nwrites == 0);
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	ConditionVariablePrepareToSleep(&shared->ended);
	while (running_stage(&number, &procno, false))
	{
		if (number != last)
		{
			last = number;
			blocked = 0;
			if (!running_stage(&number, &procno, true))
				break;
		}
		(void) ConditionVariableTimedSleep(&shared->ended, LOOK_MS, wait_event);
		blocked = waits_for_lock(procno) ? blocked + 1 : 0;
		if (blocked >= BLOCKED_LOOKS)
			end_stage(number, ZEN_EXCLUSIVE_BLOCKED);
		else if (TimestampDifferenceExceeds(start, GetCurrentTimestamp(), zen_exclusive_timeout_ms))
			end_stage(number, ZEN_EXCLUSIVE_TIMEOUT);
	}
	ConditionVariableCancelSleep();
}

/* ---------- thresholds ---------- */

static bool
is_short_of_pages(void)
{
	uint32		total,
				nfree;
	TimestampTz last;

	if (zen_exclusive_free_pool == 0)
		return false;
	zen_page_free(&total, &nfree);
	if ((uint64) nfree * 100 >= (uint64) total * zen_exclusive_free_pool || zen_gcqueue_pending() == 0)
		return false;
	SpinLockAcquire(&shared->lock);
	last = shared->free_pool_ended;
	SpinLockRelease(&shared->lock);
	return TimestampDifferenceExceeds(last, GetCurrentTimestamp(), COLLECT_PAUSE_MS);
}

/* The first write of a transaction. */
static void
join(void)
{
	if (pg_atomic_read_u32(&shared->announced) != 0 && !is_mine())
		hold_back();
	zen_exclusive_joined = true;
	zen_exclusive_limit = PG_UINT64_MAX;
	if (is_mine())
		return;
	if (zen_exclusive_failures > 0 && failures >= zen_exclusive_failures && enter(ZEN_EXCLUSIVE_FAILURES))
		return;
	if (is_short_of_pages() && enter(ZEN_EXCLUSIVE_FREE_POOL))
		return;
	if (zen_exclusive_memory > 0)
		zen_exclusive_limit = (uint64) zen_met_cache_size_kb * 1024 / 100 * zen_exclusive_memory;
}

void
zen_exclusive_check(void)
{
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	Assert(InterruptHoldoffCount == 0 && CritSectionCount == 0);
	if (!zen_exclusive_joined)
		join();
	else if (enter(ZEN_EXCLUSIVE_MEMORY))
		zen_exclusive_limit = PG_UINT64_MAX;
	else
		zen_exclusive_limit += zen_exclusive_limit / 4; /* another one is
														 * privileged: ask again
														 * later */
	Assert(zen_exclusive_joined);
}

/* ---------- the end of a transaction ---------- */

/* The garbage that has piled up during the exclusive stage is collected for all, then the others go on. */
static void
leave(ZenExclusiveEnd end)
{
	Assert(my_stage != 0 && end != ZEN_EXCLUSIVE_RUNNING);
	if (is_mine())
	{
		zen_reclaim_all();
		while (zen_reclaim_some_pages())
			;
		end_stage(my_stage, end);
	}
	my_stage = 0;
}

static void
next_transaction(void)
{
	zen_exclusive_joined = false;
	failing = false;
}

void
zen_exclusive_commit(void)
{
	if (zen_exclusive_joined)
	{
		failures = 0;
		if (my_stage != 0)
			leave(ZEN_EXCLUSIVE_COMMITTED);
	}
	next_transaction();
}

void
zen_exclusive_prepare(void)
{
	if (zen_exclusive_joined)
	{
		failures = 0;
		if (my_stage != 0)
			leave(ZEN_EXCLUSIVE_PREPARED);
	}
	next_transaction();
}

/*
 * A client that has failed too often is privileged from now on, before it takes its next snapshot.  After that only
 * transactions that were running already can commit changes that conflict with it.  If it fails by one of them it stays
 * privileged.
 */
void
zen_exclusive_abort(void)
{
	bool		stays = false;

	if (zen_exclusive_joined && failing)
	{
		failures++;
		if (zen_exclusive_failures > 0 && failures >= zen_exclusive_failures && !proc_exit_inprogress)
			stays = is_mine() ? my_reason == ZEN_EXCLUSIVE_FAILURES : enter(ZEN_EXCLUSIVE_FAILURES);
	}
	if (zen_exclusive_joined && my_stage != 0 && !stays)
		leave(ZEN_EXCLUSIVE_ABORTED);
	next_transaction();
}

void
zen_exclusive_detach(void)
{
	if (my_stage != 0)
		end_stage(my_stage, ZEN_EXCLUSIVE_GONE);
	my_stage = 0;
}

/* ---------- failures ---------- */

static void
note_error(ErrorData *edata)
{
	if (edata->elevel == ERROR && (edata->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE ||
								   edata->sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED))
		failing = true;
	if (prev_emit_log)
		prev_emit_log(edata);
}

void
zen_exclusive_install(void)
{
	Assert(!IsUnderPostmaster && emit_log_hook != note_error);
	prev_emit_log = emit_log_hook;
	emit_log_hook = note_error;
}

/* ---------- for the view ---------- */

int
zen_exclusive_list(ZenExclusiveRecord *records)
{
	int			n = 0;

	SpinLockAcquire(&shared->lock);
	for (uint64 i = shared->nstages; i > 0 && n < ZEN_EXCLUSIVE_HISTORY; i--)
		records[n++] = *record_of(i);
	SpinLockRelease(&shared->lock);
	Assert(n <= ZEN_EXCLUSIVE_HISTORY);
	return n;
}
