/*
 * filetime.c -- the time of modification of the pool's files tells of stores.
 *
 * src/nvm/README, "Times of files", says which process raises the times and when, and what a tool can see at each
 * moment.  A process that does so looks for what was stored, and sets the time after that look.  So a time is later
 * than all stores that were looked at.
 */
#include "nvm/filetime.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "access/xlogutils.h"
#include "base/stats.h"
#include "miscadmin.h"
#include "nvm/datadir.h"
#include "nvm/persist.h"
#include "nvm/pool.h"
#include "nvm/poolfile.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define ROUND_MS	1000
#define AHEAD_S		5			/* starts, stops and stores at rest, one right
								 * after the other, do not come so far into
								 * the future */

typedef struct FileTimes
{
	pg_atomic_uint32 told;		/* 0: all is at rest, and a process that
								 * stores raises the times and sets this; the
								 * process that has rounds clears it */
	pg_atomic_uint64 last;		/* second of the times, or more; only grows */
	pg_atomic_uint32 error;		/* of a time that could not be set; 0: none */
	Latch	   *worker;			/* NULL: there is none */
} FileTimes;

static FileTimes *times;

/* ---------- setting them ---------- */

/* If the file is another user's, only the present can be set. */
static void
set_time(int fd, struct timespec at)
{
	struct timespec both[2] = {{.tv_nsec = UTIME_OMIT}, at};

	if (futimens(fd, both) != 0 && (errno != EPERM || futimens(fd, NULL) != 0))
		pg_atomic_write_u32(&times->error, (uint32) errno);
}

/* Not called by a process that stores, which may hold any lock. */
static void
report_error(void)
{
	static bool reported = false;

	if (reported || pg_atomic_read_u32(&times->error) == 0)
		return;
	reported = true;
	errno = (int) pg_atomic_read_u32(&times->error);
	ereport(WARNING,
			(errcode_for_file_access(),
			 errmsg("could not set the time of a file of the zen pool: %m"),
			 errdetail("Backups that go by the times of files may take an older copy for this one.")));
}

static void
note_second(uint64 second)
{
	uint64		last = pg_atomic_read_u64(&times->last);

	while (last < second && !pg_atomic_compare_exchange_u64(&times->last, &last, second))
		;
}

/*
 * The second of the latest of the files' times.  The kernel raises them, too, at the first store to a page, or they
 * came from another machine.
 */
static uint64
latest_second(void)
{
	time_t		latest = 0;

	for (int i = 0; i < zen_pool.nfiles; i++)
	{
		struct stat st;

		if (fstat(zen_files[i].fd, &st) == 0)
			latest = Max(latest, st.st_mtim.tv_sec);
	}
	return (uint64) latest;
}

/* A second that no listing of the files can have gone beyond so far. */
static uint64
second_so_far(void)
{
	return Max(pg_atomic_read_u64(&times->last), latest_second());
}

/*
 * Set the times to a second later than `last`, which was read behind the stores that the times are to tell of.  Also in
 * a signal's handler.
 */
static void
raise_times(uint64 last)
{
	struct timespec at = zen_time_after((time_t) last);

	for (int i = 0; i < zen_pool.nfiles; i++)
		set_time(zen_files[i].fd, at);
	note_second((uint64) at.tv_sec);
}

void
zen_filetime_raise(void)
{
	Assert(zen_pool.base != NULL);
	if (times == NULL || zen_pool.scratch)
		return;
	raise_times(second_so_far());
	report_error();
}

/* From now to the second of the last time; less than 0 also if the clock was set back, which is not waited for. */
static int64
seconds_ahead(void)
{
	int64		ahead = (int64) pg_atomic_read_u64(&times->last) - (int64) time(NULL);

	return ahead < AHEAD_S ? ahead : -1;
}

/*
 * The kernel may set the present as a time at any store.  So that this is not before the second of our times, wait
 * until that second has come.
 */
void
zen_filetime_backup_begins(void)
{
	if (zen_pool.base == NULL || times == NULL)
		return;
	zen_filetime_raise();
	while (seconds_ahead() > 0)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000L);
	}
}

/* ---------- stores at rest ---------- */

/*
 * Several processes may do so at once, and come to the same second.  told is set after the times, so no process's fence
 * returns before the times are raised.  It is read after `last`.  A process that finds it set does nothing: another one
 * has raised the times.
 */
static void
stored_at_rest(void)
{
	Latch	   *worker = times->worker;
	uint64		last = second_so_far();

	pg_read_barrier();
	if (pg_atomic_read_u32(&times->told) != 0)
		return;
	raise_times(last);
	pg_write_barrier();
	pg_atomic_write_u32(&times->told, 1);
	if (worker != NULL)
		SetLatch(worker);
}

/* From here on a process that stores raises the times.  True if this was so before. */
static bool
rest(void)
{
	bool		before = pg_atomic_read_u32(&times->told) == 0;

	pg_atomic_write_u32(&times->told, 0);
	return before;
}

/* ---------- rounds of the worker ---------- */

static void
filetime_stop_serving(int code, Datum arg)
{
	times->worker = NULL;
}

void
zen_filetime_serve(void)
{
	times->worker = MyLatch;
	before_shmem_exit(filetime_stop_serving, (Datum) 0);
}

/*
 * A store is seen before its fence is counted.  A store that is not counted yet may also have missed that it is at
 * rest: the next round finds it.
 */
bool
zen_filetime_round(uint64 *stored)
{
	static uint64 seen = PG_UINT64_MAX;
	uint64		fences;

	*stored = 0;
	if (seconds_ahead() >= 0)
		return false;
	fences = zen_stats_sum_of(ZEN_C_fences);
	if (fences == seen)
		return rest();
	*stored = fences - seen;
	seen = fences;
	pg_read_barrier();
	zen_filetime_raise();
	return false;
}

/* ---------- rounds of redo ---------- */

/*
 * The timer is not one of PostgreSQL's.  Each alarm of theirs ends the startup process's waits for locks, which then
 * begin anew, and so come to look for a deadlock with readers again and again later than the next alarm.
 */
#define REDO_SIGNAL	SIGVTALRM	/* that no part of PostgreSQL uses */

static volatile sig_atomic_t redone = false;
static volatile sig_atomic_t redo_has_rounds = false;
static timer_t redo_timer;
static bool redo_has_timer = false;

/* In the startup process alone, which alone stores. */
static void
redo_round(void)
{
	/* of a replay that has failed: the shared memory may have gone */
	if (proc_exit_inprogress || !redo_has_rounds)
		return;
	Assert(InRecovery);
	if (!redone)
		(void) rest();
	else if (seconds_ahead() < 0)
	{
		redone = false;
		raise_times(second_so_far());
	}
}

static void
redo_signal(int signo)
{
	int			before = errno;

	redo_round();
	errno = before;
}

static void
begin_redo_rounds(void)
{
	struct sigaction action = {.sa_handler = redo_signal,.sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,.sigev_signo = REDO_SIGNAL};
	struct timespec round = {.tv_sec = ROUND_MS / 1000,.tv_nsec = ROUND_MS % 1000 * 1000000L};
	struct itimerspec rounds = {round, round};

	sigemptyset(&action.sa_mask);
	redo_has_rounds = true;
	redo_has_timer = sigaction(REDO_SIGNAL, &action, NULL) == 0 &&
		timer_create(CLOCK_MONOTONIC, &event, &redo_timer) == 0;
	if (redo_has_timer && timer_settime(redo_timer, 0, &rounds, NULL) == 0)
		return;
	pg_atomic_write_u32(&times->error, (uint32) errno);
	report_error();
}

void
zen_filetime_redone(void)
{
	redone = true;
	if (!redo_has_rounds)
		begin_redo_rounds();
}

/*
 * In single-user mode the process that has replayed goes on.  A round in its end would look at shared memory that is
 * no longer there.
 */
void
zen_filetime_redo_ends(void)
{
	if (!redo_has_rounds)
		return;
	redo_has_rounds = false;
	if (redo_has_timer)
		(void) timer_delete(redo_timer);
	if (redone)
		zen_filetime_raise();
}

/* ---------- start ---------- */

static void
filetime_shmem_init(void)
{
	bool		found;

	Assert(!IsUnderPostmaster && zen_pool.base != NULL);
	times = ShmemInitStruct("zen file times", sizeof(FileTimes), &found);
	pg_atomic_init_u32(&times->told, 0);
	pg_atomic_init_u64(&times->last, latest_second());
	pg_atomic_init_u32(&times->error, 0);
	times->worker = NULL;
	if (zen_pool.scratch)
		return;
	zen_filetime_raise();
	zen_nvm_watch(&times->told.value, stored_at_rest);
}

const ZenShmem zen_filetime_shmem = {.bytes = sizeof(FileTimes),.init = filetime_shmem_init};
