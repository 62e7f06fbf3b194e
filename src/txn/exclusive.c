/*
 * exclusive.c -- the exclusive stage: one transaction runs while other writers wait.
 *
 * There is at most one stage.  A flag announces it; a transaction looks at the flag once, before its first write.  So a
 * server without a stage pays one read of a line that no process writes.
 *
 * The wait is not a lock.  A waiter looks at the privileged process every LOOK_MS, and may give the stage up for all.
 * src/txn/README, "The exclusive stage", says when, and why no transaction waits for ever or fails because of it.
 */
#include "txn/exclusive.h"

#include <time.h>

#include "access/xact.h"
#include "base/guc.h"
#include "gc/reclaim.h"
#include "miscadmin.h"
#include "nvm/page.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#define LOOK_MS			50
#define BLOCKED_LOOKS	4		/* in which the privileged process waits for a
								 * lock, until the stage is given up */
#define LONGEST			10		/* times zen.exclusive_timeout; a stage ends
								 * then in any case */
#define PATIENCE_LOG2	10		/* log2 of the most that both are multiplied
								 * with */
#define COLLECT_PAUSE_MS 10000	/* what one collection has not freed, another
								 * one soon after will not */

typedef enum Reason
{
	EXCLUSIVE_MEMORY,
	EXCLUSIVE_FREE_POOL,
	EXCLUSIVE_FAILURES
} Reason;

static const char *const reason_names[] = {
	[EXCLUSIVE_MEMORY] = "memory",
	[EXCLUSIVE_FREE_POOL] = "free pool",
	[EXCLUSIVE_FAILURES] = "failures"
};

static const char *const end_names[] = {
	[ZEN_EXCLUSIVE_RUNNING] = "running",
	[ZEN_EXCLUSIVE_COMMITTED] = "committed",
	[ZEN_EXCLUSIVE_PREPARED] = "prepared",
	[ZEN_EXCLUSIVE_ABORTED] = "aborted",
	[ZEN_EXCLUSIVE_GONE] = "session ended",
	[ZEN_EXCLUSIVE_BLOCKED] = "given up: waited for a lock",
	[ZEN_EXCLUSIVE_IDLE] = "given up: made no progress",
	[ZEN_EXCLUSIVE_TIMEOUT] = "given up: lasted too long"
};

typedef struct Stage
{
	int			pid;
	int			procno;
	Reason		reason;
	ZenExclusiveEnd end;
	TimestampTz began;
	TimestampTz ended;			/* while not RUNNING */
	uint32		held_back;
	uint32		patience;		/* waiters wait so many times longer */
} Stage;

typedef struct ExclusiveShared
{
	pg_atomic_uint32 announced; /* 1: there is a stage; written under lock */
	slock_t		lock;			/* protects the rest */
	uint64		nstages;		/* since the start of the server: the number
								 * of the last one */
	Stage		history[ZEN_EXCLUSIVE_HISTORY]; /* by number */
	TimestampTz free_pool_ended;
	ConditionVariable ended;	/* has its own lock */
} ExclusiveShared;

static ExclusiveShared *exclusive;

uint64		zen_exclusive_limit = 0;

static bool joined = false;		/* this transaction has passed
								 * zen_exclusive_write() */
static uint64 my_stage = 0;		/* number of the stage that is or was this
								 * session's; 0 = none */
static Reason my_reason;
static int	failed = 0;			/* in a row */
static int	stages_given_up = 0;	/* stages of this session, in a row,
									 * because of the time */
static bool failing = false;	/* this transaction, by one that counts */
static emit_log_hook_type prev_emit_log;

static void
exclusive_shmem_init(void)
{
	bool		found;

	exclusive = ShmemInitStruct("zen exclusive stage", sizeof(ExclusiveShared), &found);
	if (found)
		return;
	memset(exclusive, 0, sizeof(*exclusive));
	pg_atomic_init_u32(&exclusive->announced, 0);
	SpinLockInit(&exclusive->lock);
	ConditionVariableInit(&exclusive->ended);
}

const ZenShmem zen_exclusive_shmem = {.bytes = sizeof(ExclusiveShared),.init = exclusive_shmem_init};

/* ---------- beginning and end of a stage ---------- */

/* Under the lock. */
static Stage *
record_of(uint64 number)
{
	return &exclusive->history[number % ZEN_EXCLUSIVE_HISTORY];
}

static int
describe_reason(Reason reason)
{
	switch (reason)
	{
		case EXCLUSIVE_MEMORY:
			return errdetail("The transaction has " UINT64_FORMAT " kB of row versions in DRAM, which is more than "
							 "%d %% of zen.met_cache_size (zen.exclusive_memory).",
							 zen_writeset.bytes / 1024, zen_exclusive_memory);
		case EXCLUSIVE_FREE_POOL:
			return errdetail("Less than %d %% of the pool is free (zen.exclusive_free_pool).",
							 zen_exclusive_free_pool);
		default:
			return errdetail("The client has lost %d transactions in a row to serialization failures or deadlocks "
							 "(zen.exclusive_failures).", failed);
	}
}

/* Is a stage running that is this session's? */
static bool
is_mine(void)
{
	bool		mine;

	if (my_stage == 0)
		return false;
	SpinLockAcquire(&exclusive->lock);
	Assert(my_stage <= exclusive->nstages);
	mine = pg_atomic_read_u32(&exclusive->announced) == 1 && exclusive->nstages == my_stage;
	SpinLockRelease(&exclusive->lock);
	return mine;
}

/* Others have given this session's stage up, as it took them too long: its next one has twice the time. */
static void
note_given_up(void)
{
	ZenExclusiveEnd end = ZEN_EXCLUSIVE_RUNNING;

	if (my_stage == 0 || is_mine())
		return;
	SpinLockAcquire(&exclusive->lock);
	if (exclusive->nstages - my_stage < ZEN_EXCLUSIVE_HISTORY)
		end = record_of(my_stage)->end;
	SpinLockRelease(&exclusive->lock);
	if (end == ZEN_EXCLUSIVE_IDLE || end == ZEN_EXCLUSIVE_TIMEOUT)
		stages_given_up++;
	my_stage = 0;
}

/* Make this session the privileged one; false if another one is. */
static bool
exclusive_enter(Reason reason)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		entered = false;

	Assert(joined && MyProc != NULL);
	note_given_up();
	SpinLockAcquire(&exclusive->lock);
	if (pg_atomic_read_u32(&exclusive->announced) == 0)
	{
		Stage	   *r = record_of(++exclusive->nstages);

		Assert(r->end != ZEN_EXCLUSIVE_RUNNING || exclusive->nstages <= ZEN_EXCLUSIVE_HISTORY);
		memset(r, 0, sizeof(*r));
		r->pid = MyProcPid;
		r->procno = GetNumberFromPGProc(MyProc);
		r->reason = reason;
		r->end = ZEN_EXCLUSIVE_RUNNING;
		r->began = now;
		r->patience = (uint32) 1 << Min(stages_given_up, PATIENCE_LOG2);
		my_stage = exclusive->nstages;
		my_reason = reason;
		pg_atomic_write_u32(&exclusive->announced, 1);
		entered = true;
	}
	SpinLockRelease(&exclusive->lock);
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
	Stage		r;
	bool		ended = false;

	Assert(number > 0 && end != ZEN_EXCLUSIVE_RUNNING);
	SpinLockAcquire(&exclusive->lock);
	if (pg_atomic_read_u32(&exclusive->announced) == 1 && exclusive->nstages == number)
	{
		Assert(record_of(number)->end == ZEN_EXCLUSIVE_RUNNING);
		record_of(number)->end = end;
		record_of(number)->ended = now;
		r = *record_of(number);
		if (r.reason == EXCLUSIVE_FREE_POOL)
			exclusive->free_pool_ended = now;
		pg_atomic_write_u32(&exclusive->announced, 0);
		ended = true;
	}
	SpinLockRelease(&exclusive->lock);
	if (!ended)
		return;
	ConditionVariableBroadcast(&exclusive->ended);
	ereport(LOG,
			(errmsg("exclusive stage of zen for process %d ends after " INT64_FORMAT " ms, %s",
					r.pid, (int64) (r.ended - r.began) / 1000, end_names[r.end]),
			 errdetail("%u other transactions have waited.", r.held_back)));
}

/* ---------- others ---------- */

/* The stage that is running, and its number; false if there is none.  count: this transaction waits for it. */
static bool
running_stage(uint64 *number, Stage *stage, bool count)
{
	bool		running;

	SpinLockAcquire(&exclusive->lock);
	running = pg_atomic_read_u32(&exclusive->announced) == 1;
	*number = exclusive->nstages;
	if (running && count)
		record_of(exclusive->nstages)->held_back++;
	*stage = *record_of(exclusive->nstages);
	SpinLockRelease(&exclusive->lock);
	return running;
}

static uint32
wait_class(const PGPROC *proc)
{
	return *(const volatile uint32 *) &proc->wait_event_info & 0xFF000000;
}

/* Does a process wait for a heavyweight lock, a row among them, or a buffer pin?  Read while it changes. */
static bool
waits_for_lock(int procno)
{
	uint32		class = wait_class(&ProcGlobal->allProcs[procno]);

	return class == PG_WAIT_LOCK || class == ZEN_WAIT_BUFFER_PIN;
}

/* What a transaction's processes have done until now. */
typedef struct Work
{
	int64		processor_ns;
	bool		waits_for_disk; /* one of them, now */
} Work;

static void
add_work(Work *work, const PGPROC *proc)
{
	int			pid = *(const volatile int *) &proc->pid;
	struct timespec t;
	clockid_t	clock;

	/* 0: it has gone; to the clock that would be this process */
	if (pid != 0 && clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &t) == 0)
		work->processor_ns += (int64) t.tv_sec * 1000000000 + t.tv_nsec;
	if (wait_class(proc) == PG_WAIT_IO)
		work->waits_for_disk = true;
}

/* Of a process and its parallel workers.  The process may end meanwhile: then another one may bear its number. */
static Work
work_of(int procno)
{
	PGPROC	   *proc = &ProcGlobal->allProcs[procno];
	Work		work = {0};
	LWLock	   *lock;
	dlist_iter	i;

	if (*(PGPROC *volatile *) &proc->lockGroupLeader == NULL)
	{
		add_work(&work, proc);
		return work;
	}
	lock = LockHashPartitionLockByProc(proc);
	LWLockAcquire(lock, LW_SHARED);
	dlist_foreach(i, &proc->lockGroupMembers)
		add_work(&work, dlist_container(PGPROC, lockGroupLink, i.cur));
	LWLockRelease(lock);
	return work;
}

/* Why a waiter that has seen no progress since then gives a stage up; RUNNING: it does not. */
static ZenExclusiveEnd
judge_time(const Stage *stage, TimestampTz progress)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		patience_us = (int64) zen_exclusive_timeout_ms * 1000 * stage->patience;

	if (now - progress >= patience_us)
		return ZEN_EXCLUSIVE_IDLE;
	return now - stage->began >= LONGEST * patience_us ? ZEN_EXCLUSIVE_TIMEOUT : ZEN_EXCLUSIVE_RUNNING;
}

/* Wait until no other session is privileged. */
static void
hold_back(void)
{
	TimestampTz progress = 0;
	ZenExclusiveEnd end;
	Stage		stage;
	Work		before = {0},
				work;
	uint64		number,
				last = 0;
	int			blocked = 0;
	uint32		wait_event = zen_wait_event("ZenExclusiveStage");

	Assert(!joined && zen_writeset.nwrites == 0);
	ZenAssertNotInEpoch();
	ZenAssertNoWordLocked();
	ConditionVariablePrepareToSleep(&exclusive->ended);
	while (running_stage(&number, &stage, false))
	{
		if (number != last)
		{
			last = number;
			blocked = 0;
			if (!running_stage(&number, &stage, true))
				break;
			progress = GetCurrentTimestamp();
			before = work_of(stage.procno);
		}
		(void) ConditionVariableTimedSleep(&exclusive->ended, LOOK_MS, wait_event);
		blocked = waits_for_lock(stage.procno) ? blocked + 1 : 0;
		work = work_of(stage.procno);
		if (work.processor_ns != before.processor_ns || work.waits_for_disk)
			progress = GetCurrentTimestamp();
		before = work;
		end = blocked >= BLOCKED_LOOKS ? ZEN_EXCLUSIVE_BLOCKED : judge_time(&stage, progress);
		if (end != ZEN_EXCLUSIVE_RUNNING)
			end_stage(number, end);
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
	SpinLockAcquire(&exclusive->lock);
	last = exclusive->free_pool_ended;
	SpinLockRelease(&exclusive->lock);
	return TimestampDifferenceExceeds(last, GetCurrentTimestamp(), COLLECT_PAUSE_MS);
}

/* The first write of a transaction. */
static void
join(void)
{
	if (pg_atomic_read_u32(&exclusive->announced) != 0 && !is_mine())
		hold_back();
	joined = true;
	zen_exclusive_limit = PG_UINT64_MAX;
	if (is_mine())
		return;
	if (zen_exclusive_failures > 0 && failed >= zen_exclusive_failures && exclusive_enter(EXCLUSIVE_FAILURES))
		return;
	if (is_short_of_pages() && exclusive_enter(EXCLUSIVE_FREE_POOL))
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
	if (!joined)
		join();
	else if (exclusive_enter(EXCLUSIVE_MEMORY))
		zen_exclusive_limit = PG_UINT64_MAX;
	else
		zen_exclusive_limit += zen_exclusive_limit / 4; /* another one is
														 * privileged: ask again
														 * later */
	Assert(joined);
}

/* ---------- the end of a transaction ---------- */

/* The garbage that has piled up during the exclusive stage is collected for all, then the others go on. */
static void
exclusive_leave(ZenExclusiveEnd end)
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

/*
 * A client that has failed too often is privileged from now on, before it takes its next snapshot.  After that only
 * transactions that were running already can commit changes that conflict with it.  If it fails by one of them it stays
 * privileged.
 *
 * True: it is privileged by that.
 */
static bool
is_privileged_by_failures(void)
{
	if (!failing)
		return false;
	failed++;
	if (zen_exclusive_failures == 0 || failed < zen_exclusive_failures || proc_exit_inprogress)
		return false;
	return is_mine() ? my_reason == EXCLUSIVE_FAILURES : exclusive_enter(EXCLUSIVE_FAILURES);
}

void
zen_exclusive_end(ZenExclusiveEnd end)
{
	bool		stays = false;

	if (end == ZEN_EXCLUSIVE_GONE)
	{
		if (my_stage != 0)
			end_stage(my_stage, end);
		my_stage = 0;
		return;
	}
	note_given_up();
	if (joined && end == ZEN_EXCLUSIVE_ABORTED)
		stays = is_privileged_by_failures();
	else if (joined)
		failed = stages_given_up = 0;
	if (joined && my_stage != 0 && !stays)
		exclusive_leave(end);
	joined = failing = false;
	zen_exclusive_limit = 0;
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
	TimestampTz now = GetCurrentTimestamp();
	int			n = 0;

	SpinLockAcquire(&exclusive->lock);
	for (uint64 i = exclusive->nstages; i > 0 && n < ZEN_EXCLUSIVE_HISTORY; i--, n++)
	{
		const Stage *s = record_of(i);

		records[n].running = s->end == ZEN_EXCLUSIVE_RUNNING;
		records[n].pid = s->pid;
		records[n].reason = reason_names[s->reason];
		records[n].end = end_names[s->end];
		records[n].began = s->began;
		records[n].ended = records[n].running ? now : s->ended;
		records[n].held_back = s->held_back;
	}
	SpinLockRelease(&exclusive->lock);
	Assert(n <= ZEN_EXCLUSIVE_HISTORY);
	return n;
}
