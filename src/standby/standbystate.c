/*
 * standbystate.c -- reads on a hot standby: may zen tables be read, and who reads them?
 *
 * A transaction that reads zen tables in recovery notes its number (lxid) in its process's place, and looks at the
 * state behind that.  A process that takes the maps away changes the state, and looks at these places behind that.  So
 * either the reader is refused, or it is found.
 */
#include "standby/standbystate.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/fault.h"
#include "base/guc.h"
#include "base/locks.h"
#include "nvm/pool.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"

#define CANCEL_US	5000		/* between two requests to end, and two looks
								 * for one */

ZenStandby *zen_standby;

static Size
state_shmem_size(void)
{
	return offsetof(ZenStandby, readers) + mul_size(zen_nprocs(), sizeof(ZenStandbyReader));
}

static void
state_shmem_init(void)
{
	bool		found;

	zen_standby = ShmemInitStruct("zen standby", state_shmem_size(), &found);
	memset(zen_standby, 0, offsetof(ZenStandby, readers));
	zen_due_queue = &zen_standby->due;
	pg_atomic_init_u32(&zen_standby->state, ZEN_STANDBY_OFF);
	ConditionVariableInit(&zen_standby->changed);
	pg_atomic_init_u64(&zen_standby->seen_by_new, 0);
	pg_atomic_init_u64(&zen_standby->cut_until, 0);
	for (int i = 0; i < zen_nprocs(); i++)
	{
		pg_atomic_init_u32(&zen_standby->readers[i].transaction, InvalidLocalTransactionId);
		pg_atomic_init_u32(&zen_standby->readers[i].only, InvalidLocalTransactionId);
	}
	if (zen_pool.base != NULL)
		zen_standby->mark = zen_pool_replayed();
}

const ZenShmem zen_standbystate_shmem = {.size = state_shmem_size,.init = state_shmem_init};

const char *
zen_standby_state_name(void)
{
	static const char *const names[ZEN_STANDBY_NSTATES] = {
		[ZEN_STANDBY_OFF] = "off",
		[ZEN_STANDBY_WAITING] = "waiting",
		[ZEN_STANDBY_SCANNING] = "scanning",
		[ZEN_STANDBY_LIVE] = "live",
		[ZEN_STANDBY_STARVED] = "starved",
		[ZEN_STANDBY_ENDED] = "ended",
	};

	return names[zen_standby_state()];
}

void
zen_standby_become(ZenStandbyState state)
{
	Assert(LWLockHeldByMeInMode(zen_lock(ZEN_LOCK_STANDBY), LW_EXCLUSIVE));
	Assert(zen_standby_state() != ZEN_STANDBY_ENDED);
	pg_write_barrier();			/* pairs with zen_standby_state */
	pg_atomic_write_u32(&zen_standby->state, state);
	ConditionVariableBroadcast(&zen_standby->changed);
}

/* ---------- readers ---------- */

static inline ZenStandbyReader *
my_reader(void)
{
	return &zen_standby->readers[GetNumberFromPGProc(MyProc)];
}

bool
zen_standby_has_read(void)
{
	return pg_atomic_read_u32(&my_reader()->transaction) == zen_my_lxid() &&
		zen_my_lxid() != InvalidLocalTransactionId;
}

/* Another process may have the place next, and a transaction of the same number. */
static void
leave_reader(int code, Datum arg)
{
	pg_atomic_write_u32(&my_reader()->only, InvalidLocalTransactionId);
	pg_atomic_write_u32(&my_reader()->transaction, InvalidLocalTransactionId);
}

bool
zen_standby_enter(void)
{
	static bool known = false;
	ZenStandbyReader *mine = my_reader();

	if (zen_my_lxid() == InvalidLocalTransactionId || zen_standby_state() != ZEN_STANDBY_LIVE)
		return false;
	if (pg_atomic_read_u32(&mine->transaction) == zen_my_lxid())
		return true;
	if (!known)
		before_shmem_exit(leave_reader, (Datum) 0);
	known = true;
	pg_atomic_write_u32(&mine->transaction, zen_my_lxid());
	pg_memory_barrier();		/* pairs with zen_standby_end_readers */
	return zen_standby_state() == ZEN_STANDBY_LIVE;
}

uint32
zen_standby_count_readers(void)
{
	uint32		n = 0;

	for (int i = 0; i < zen_nprocs(); i++)
	{
		LocalTransactionId lxid = pg_atomic_read_u32(&zen_standby->readers[i].transaction);

		n += lxid != InvalidLocalTransactionId && zen_lxid_of((volatile PGPROC *) GetPGProcByNumber(i)) == lxid;
	}
	return n;
}

/* ---------- the only snapshot of a reader ---------- */

bool
zen_standby_only_snapshot(int procno, TransactionId *xmin, TransactionId *xmax)
{
	ZenStandbyReader *reader = &zen_standby->readers[procno];
	volatile PGPROC *proc = GetPGProcByNumber(procno);
	uint32		only = pg_atomic_read_u32(&reader->only);

	if (only == InvalidLocalTransactionId)
		return false;
	pg_read_barrier();
	*xmin = reader->xmin;
	*xmax = reader->xmax;
	pg_read_barrier();
	return pg_atomic_read_u32(&reader->only) == only && zen_lxid_of(proc) == only && proc->xmin == *xmin;
}

/* Redo may wait for this transaction's end while it has the lock: so the lock is waited for where that can be asked. */
static void
lock_as_reader(void)
{
	while (!LWLockConditionalAcquire(zen_lock(ZEN_LOCK_STANDBY), LW_EXCLUSIVE))
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(CANCEL_US);
	}
}

/*
 * The transaction reads by another snapshot than the one it has told.  Nobody has kept versions for this one, so that
 * must be seen: it does not need any if it sees all behind whose back versions went.
 */
static void
tell_another(Snapshot s)
{
	uint64		cut,
				next = U64FromFullTransactionId(ReadNextFullTransactionId());

	pg_atomic_write_u32(&my_reader()->only, InvalidLocalTransactionId);
	lock_as_reader();
	zen_standby->snapshot_changes++;
	cut = pg_atomic_read_u64(&zen_standby->cut_until);
	LWLockRelease(zen_lock(ZEN_LOCK_STANDBY));
	if (cut >= next + (int32) (s->xmin - (TransactionId) next))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("a transaction cannot read zen tables on this standby by two snapshots"),
				 errhint("Repeat the transaction.")));
}

/*
 * S8: a transaction of an isolation level that keeps its snapshot tells which it is.  In READ COMMITTED nobody knows
 * which snapshots it has, or will have, beside this one.
 */
static void
tell_snapshot(Snapshot s)
{
	static LocalTransactionId several = InvalidLocalTransactionId;
	ZenStandbyReader *mine = my_reader();

	if (!IsolationUsesXactSnapshot() || several == zen_my_lxid() || !zen_standby_has_read())
		return;
	if (pg_atomic_read_u32(&mine->only) != zen_my_lxid())
	{
		pg_atomic_write_u32(&mine->only, InvalidLocalTransactionId);
		pg_write_barrier();
		mine->xmin = s->xmin;
		mine->xmax = s->xmax;
		pg_write_barrier();
		pg_atomic_write_u32(&mine->only, zen_my_lxid());
	}
	else if (mine->xmin != s->xmin || mine->xmax != s->xmax)
	{
		several = zen_my_lxid();
		tell_another(s);
	}
}

/*
 * Snapshots of a standby are ordered: the newest xid that has ended grows, and beside the same one the number of those
 * that have not ended falls.
 */
static bool
is_older_than_maps(Snapshot s)
{
	return TransactionIdPrecedes(s->xmax, zen_standby->since_xmax) ||
		(s->xmax == zen_standby->since_xmax && s->subxcnt > zen_standby->since_count);
}

void
zen_standby_check(Snapshot s)
{
	if (s == NULL || !IsMVCCSnapshot(s) || !s->takenDuringRecovery)
		return;
	if (zen_standby_state() != ZEN_STANDBY_LIVE)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 RecoveryInProgress() ?
				 errmsg("the snapshot cannot read zen tables any more, whose maps were given up") :
				 errmsg("a snapshot from before the promotion cannot read zen tables any more"),
				 errhint("Repeat the transaction.")));
	if (is_older_than_maps(s) && !ZEN_FAULT(S14_OLD_SNAPSHOTS))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the snapshot is older than the first by which zen tables can be read on this standby"),
				 errhint("Repeat the transaction.")));
	tell_snapshot(s);
}

void
zen_standby_check_table(uint64 create_xid, Snapshot s)
{
	static uint64 checked = 0;	/* seen by the snapshot that is: */
	static TransactionId xmin,
				xmax;
	static int32 subxcnt;
	uint64		next;

	if (create_xid == 0 || (create_xid == checked && s->xmin == xmin && s->xmax == xmax && s->subxcnt == subxcnt))
		return;
	next = U64FromFullTransactionId(ReadNextFullTransactionId());
	if (create_xid >= next + (int32) (s->xmin - (TransactionId) next) &&
		XidInMVCCSnapshot(XidFromFullTransactionId(FullTransactionIdFromU64(create_xid)), s))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("a zen table was made or rewritten after the snapshot was taken"),
				 errhint("Repeat the transaction.")));
	checked = create_xid;
	xmin = s->xmin;
	xmax = s->xmax;
	subxcnt = s->subxcnt;
}

/* Has the process still the transaction, and a snapshot? */
static bool
still_reads(volatile PGPROC *proc, LocalTransactionId lxid)
{
	return zen_lxid_of(proc) == lxid && TransactionIdIsValid(proc->xmin);
}

static void
end_reader(PGPROC *proc, LocalTransactionId lxid)
{
	while (still_reads(proc, lxid))
	{
		VirtualTransactionId vxid;

		GET_VXID_FROM_PGPROC(vxid, *proc);
		if (vxid.localTransactionId != lxid)
			break;
		(void) CancelVirtualTransaction(vxid, PROCSIG_RECOVERY_CONFLICT_SNAPSHOT);
		pg_usleep(CANCEL_US);
	}
}

void
zen_standby_end_readers(void)
{
	Assert(zen_standby_state() != ZEN_STANDBY_LIVE);
	pg_memory_barrier();		/* pairs with zen_standby_enter */
	if (ZEN_FAULT(S15_READERS_STAY))
		return;
	for (int i = 0; i < zen_nprocs(); i++)
	{
		LocalTransactionId lxid = pg_atomic_read_u32(&zen_standby->readers[i].transaction);

		if (lxid != InvalidLocalTransactionId && GetPGProcByNumber(i) != MyProc)
			end_reader(GetPGProcByNumber(i), lxid);
	}
}
