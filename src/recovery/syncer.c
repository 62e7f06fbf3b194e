/*
 * syncer.c -- mode wal: a process syncs the pool at each checkpoint, and no checkpoint passes without it.
 *
 * PostgreSQL has no hook in a checkpoint.  But CreateCheckPoint() waits, behind all that it writes itself, for each
 * process that has DELAY_CHKPT_COMPLETE set, until the process ends its transaction.  The syncer begins no transaction.
 * It sets the flag for good, and gives itself the number of a transaction.  To let a checkpoint go, it takes the next
 * number.
 *
 *	redo pointer	the checkpoint moves it first, and then waits for DELAY_CHKPT_START of all processes
 *	sync			the syncer sees that it has moved, and syncs: all that was stored before is on disk
 *	let go			the checkpoint may note in its WAL record that replay can begin there
 *
 * src/recovery/README, "Mode wal", says why no checkpoint slips through (W1).
 */
#include "recovery/syncer.h"

#include <signal.h>
#include <unistd.h>

#include "access/xlog.h"
#include "base/fault.h"
#include "miscadmin.h"
#include "nvm/persist.h"
#include "nvm/pool.h"
#include "nvm/region.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "postmaster/interrupt.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#define POLL_MS			20		/* between two looks at the redo pointer ... */
#define IDLE_POLL_MS	200		/* ... when no WAL has been written for ... */
#define IDLE_ROUNDS		500		/* ... so many of them */
#define AWAIT_MS		60000	/* that recovery waits for the syncer */
#define RESTART_S		1		/* after a crash of the server */
#define CHANGES_POLL_US 50

typedef enum SyncerState
{
	SYNCER_ABSENT,
	SYNCER_ASKED,				/* recovery is over, and waits for it */
	SYNCER_COMING,				/* it is on its way, and recovery waits on */
	SYNCER_ON_DUTY,
	SYNCER_GONE					/* it comes no more before the next start */
} SyncerState;

typedef struct Syncer
{
	volatile uint32 lazy;		/* 1: on duty, and stores are lazy */
	pg_atomic_uint32 state;		/* SyncerState */
	ConditionVariable changed;	/* state */
} Syncer;

static Syncer *syncer;
static bool has_slot = false;	/* of a background worker */
static XLogRecPtr synced_for = InvalidXLogRecPtr;	/* the redo pointer that
													 * the last sync has seen */

static void
syncer_shmem_init(void)
{
	bool		found;

	syncer = ShmemInitStruct("zen syncer", sizeof(Syncer), &found);
	syncer->lazy = 0;
	pg_atomic_init_u32(&syncer->state, has_slot ? SYNCER_ABSENT : SYNCER_GONE);
	ConditionVariableInit(&syncer->changed);
	if (zen_nvm_mode() == ZEN_POOL_WAL)
		zen_nvm_lazy_when(&syncer->lazy);
}

const ZenShmem zen_syncer_shmem = {.bytes = sizeof(Syncer),.init = syncer_shmem_init};

/* ---------- the state ---------- */

static bool
is_in(SyncerState state)
{
	return pg_atomic_read_u32(&syncer->state) == (uint32) state;
}

/* False: it is in another state than the first one. */
static bool
change(SyncerState from, SyncerState to)
{
	uint32		expected = from;

	if (!pg_atomic_compare_exchange_u32(&syncer->state, &expected, to))
		return false;
	ConditionVariableBroadcast(&syncer->changed);
	return true;
}

void
zen_syncer_await(void)
{
	TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), AWAIT_MS);

	if (zen_nvm_mode() != ZEN_POOL_WAL || !IsUnderPostmaster || !zen_pool_is_copied())
		return;
	(void) change(SYNCER_ABSENT, SYNCER_ASKED);
	ConditionVariablePrepareToSleep(&syncer->changed);
	while ((is_in(SYNCER_ASKED) && GetCurrentTimestamp() < end) || is_in(SYNCER_COMING))
		(void) ConditionVariableTimedSleep(&syncer->changed, 1000, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
	(void) change(SYNCER_ASKED, SYNCER_GONE);
	if (is_in(SYNCER_GONE))
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("zen's syncer has not started: each commit waits for a sync of the pool"),
				 has_slot ?
				 errhint("The log has the reason.  Restart the server.") :
				 errhint("Raise max_worker_processes and restart the server.")));
}

/* False: the server stops before recovery is over. */
static bool
await_order(void)
{
	ConditionVariablePrepareToSleep(&syncer->changed);
	while (is_in(SYNCER_ABSENT) && !ShutdownRequestPending)
		(void) ConditionVariableTimedSleep(&syncer->changed, 1000, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
	return is_in(SYNCER_ASKED);
}

/*
 * Behind the postmaster's end a checkpointer at work does not look for it.  It would wait for the syncer for good, and
 * keep the next server from starting.  It and its like end as at an immediate stop.
 */
static void
end_auxiliaries(void)
{
	for (int i = 0; i < NUM_AUXILIARY_PROCS; i++)
	{
		int			pid = ((volatile PGPROC *) &ProcGlobal->allProcs[MaxBackends + i])->pid;

		if (pid != 0)
			(void) kill(pid, SIGQUIT);
	}
}

/*
 * If the syncer ends by an error, no process would hold the next checkpoint back.
 *
 * Behind the postmaster's end other processes may live on for a moment.  The flags stay in shared memory, so that no
 * checkpoint ends.
 */
static void
syncer_gone(int code, Datum arg)
{
	(void) change(SYNCER_ABSENT, SYNCER_GONE);
	(void) change(SYNCER_ASKED, SYNCER_GONE);
	if (!is_in(SYNCER_COMING) && !is_in(SYNCER_ON_DUTY))
		return;
	if (!PostmasterIsAlive())
	{
		end_auxiliaries();
		_exit(1);
	}
	ereport(PANIC,
			(errmsg("zen's syncer cannot go on")));
}

/* ---------- syncing ---------- */

/*
 * A process that has logged a change, and not stored it yet, keeps checkpoints from going on.  The syncer may see the
 * new redo pointer before the checkpoint has waited for that.  The flags are looked at by process: in an abort they are
 * set when the process has no transaction any more.
 */
static void
await_changes(void)
{
	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		volatile PGPROC *proc = &ProcGlobal->allProcs[i];

		while (proc != MyProc && proc->pid != 0 && (proc->delayChkptFlags & DELAY_CHKPT_START) != 0 &&
			   PostmasterIsAlive())
			pg_usleep(CHANGES_POLL_US);
	}
	pg_memory_barrier();
}

static void
sync_pool(void)
{
	instr_time	start,
				took;

	INSTR_TIME_SET_CURRENT(start);
	await_changes();
	if (!ZEN_FAULT(W3_LINES_STAY))
		zen_region_store_lines(XLogFlush, false);
	if (!ZEN_FAULT(W1_NO_SYNC))
		zen_pool_sync();
	INSTR_TIME_SET_CURRENT(took);
	INSTR_TIME_SUBTRACT(took, start);
	if (log_checkpoints)
		ereport(LOG,
				(errmsg("zen pool synced for a checkpoint: %.0f ms", INSTR_TIME_GET_MILLISEC(took))));
}

/* ---------- holding checkpoints ---------- */

static void
hold(void)
{
	/* a transaction's end would clear both */
	Assert(!LocalTransactionIdIsValid(zen_my_lxid()));
	zen_my_lxid() = 1;
	pg_memory_barrier();
	if (!ZEN_FAULT(W1_NO_HOLD))
		MyProc->delayChkptFlags |= DELAY_CHKPT_COMPLETE;
	pg_memory_barrier();
}

/*
 * W1: let checkpoints go that have the redo pointer for which the pool was synced, and no later one.
 *
 * While DELAY_CHKPT_START is set, a checkpoint that moves the redo pointer waits before it does anything else.  So if
 * the pointer is still the one, no later checkpoint has noted the old number.
 */
static void
let_go(void)
{
	MyProc->delayChkptFlags |= DELAY_CHKPT_START;
	pg_memory_barrier();
	if (GetRedoRecPtr() == synced_for || ZEN_FAULT(W1_LET_GO_BLINDLY))
	{
		LocalTransactionId next = zen_my_lxid() + 1;

		zen_my_lxid() = LocalTransactionIdIsValid(next) ? next : 1;
	}
	pg_memory_barrier();
	MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
}

static void
release_checkpoints(void)
{
	MyProc->delayChkptFlags &= ~(DELAY_CHKPT_START | DELAY_CHKPT_COMPLETE);
	pg_memory_barrier();
	zen_my_lxid() = InvalidLocalTransactionId;
}

/* ---------- duty ---------- */

/* W6: the pool says that it is lazy before any store is.  False: recovery has given up waiting. */
static bool
go_on_duty(void)
{
	if (!change(SYNCER_ASKED, SYNCER_COMING))
		return false;
	if (!ZEN_FAULT(W6_ROLE_LATE))
		zen_pool_make_lazy();
	hold();
	syncer->lazy = 1;
	return change(SYNCER_COMING, SYNCER_ON_DUTY);
}

/* How many walsenders are in a transaction that has written, or are in none.  A signal other than 0 is sent to them. */
static int
walsenders(bool writing, int signal)
{
	int			n = 0;

	for (int i = 0; i < max_wal_senders; i++)
	{
		int			pid = ((volatile WalSnd *) &WalSndCtl->walsnds[i])->pid;
		PGPROC	   *proc = pid != 0 ? BackendPidGetProc(pid) : NULL;

		if (proc == NULL || TransactionIdIsValid(((volatile PGPROC *) proc)->xid) != writing)
			continue;
		n++;
		if (signal != 0)
			(void) kill(pid, signal);
	}
	return n;
}

/*
 * Is there no process that may be in the middle of a store?  The checkpointer and its like are not counted.
 *
 * Walsenders stay until the shutdown checkpoint is written, which begins when the syncer has gone.  One that runs
 * statements, as for a connection with replication=database, would be ended then.  If it has written it is ended now.
 */
static bool
is_alone(void)
{
	int			others = CountDBBackends(InvalidOid) - 1;
	int			idle = walsenders(false, 0);

	if (others > idle && others == idle + walsenders(true, 0))
		(void) walsenders(true, SIGTERM);
	return others <= idle;
}

/* The server stops, and no other process stores any more, but for those whose stores are not lazy. */
static void
go_off_duty(void)
{
	zen_region_store_lines(XLogFlush, true);
	syncer->lazy = 0;
	pg_memory_barrier();
	zen_pool_sync();
	(void) change(SYNCER_ON_DUTY, SYNCER_GONE);
	release_checkpoints();
}

/* Poll less often when no process writes WAL: then checkpoints are rare. */
static void
nap(void)
{
	static XLogRecPtr last = InvalidXLogRecPtr;
	static int	idle = 0;
	XLogRecPtr	now = GetXLogInsertRecPtr();

	idle = now == last ? Min(idle + 1, IDLE_ROUNDS) : 0;
	last = now;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 idle < IDLE_ROUNDS || ShutdownRequestPending ? POLL_MS : IDLE_POLL_MS, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

static void
syncer_round(void)
{
	XLogRecPtr	redo = GetRedoRecPtr();

	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	if (redo != synced_for)
	{
		sync_pool();
		synced_for = redo;
	}
	/* also later: a checkpoint with little to write notes the number last */
	let_go();
	nap();
}

/*
 * The server stops, if the postmaster says so.  pg_terminate_backend() asks, too: as for PostgreSQL's own checkpointer,
 * nothing happens then.
 */
static void
asked_to_end(int signo, siginfo_t * info, void *context)
{
	int			save_errno = errno;

	if (info->si_pid == PostmasterPid)
		SignalHandlerForShutdownRequest(signo);
	errno = save_errno;
}

static void
listen_for_end(void)
{
	struct sigaction action = {0};

	action.sa_sigaction = asked_to_end;
	action.sa_flags = SA_SIGINFO | SA_RESTART;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGTERM, &action, NULL) != 0)
		elog(FATAL, "could not set a signal handler: %m");
}

void
zen_syncer_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	listen_for_end();
	pqsignal(SIGINT, SIG_IGN);
	BackgroundWorkerUnblockSignals();
	/* to no database, but into the ProcArray, where checkpoints look */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	before_shmem_exit(syncer_gone, (Datum) 0);
	if (!await_order() || !go_on_duty())
		proc_exit(0);
	while (!ShutdownRequestPending || !is_alone())
		syncer_round();
	go_off_duty();
	proc_exit(0);
}

void
zen_syncer_register(void)
{
	BackgroundWorker worker;

	Assert(!IsUnderPostmaster);
	if (zen_pool_wanted_mode() != ZEN_POOL_WAL || IsBinaryUpgrade)
		return;
	zen_bgworker_describe(&worker, "zen syncer", "zen_syncer_main", (Datum) 0, RESTART_S);
	has_slot = zen_bgworker_register(&worker);
}
