/*
 * visibility.c -- snapshots against version chains, and the xid horizon.
 *
 * One rule for all snapshots, and one function for each type that says what "see" means (src/row/README, "Visibility").
 *
 * - pg_xact shows a writer as aborted before it has popped its versions.  So every walk must expect aborted versions
 *   anywhere above the committed ones.
 * - The ProcArray is asked before pg_xact.  A transaction is in pg_xact first and leaves the ProcArray then, so one
 *   that is in neither has aborted.
 * - A hint bit is only set when the answer is final.
 *
 * The horizon comes from the ProcArray, and costs a look at every process.  So a process keeps what it has found, and
 * looks again when its caller cannot go on otherwise.  An old answer is safe: the horizon never falls.
 */
#include "row/visibility.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/fault.h"
#include "base/ownwal.h"
#include "base/stats.h"
#include "nvm/persist.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"

/* Has the writer of v, which is no longer in progress, committed?  Leaves the hint bit. */
static inline bool
has_committed(ZenVersion *v)
{
	bool		committed = TransactionIdDidCommit(v->xmin);

	zen_version_set(v, committed ? ZEN_V_COMMITTED : ZEN_V_ABORTED);
	return committed;
}

ZenXidState
zen_version_state(ZenVersion *v)
{
	uint32		flags = zen_version_flags(v);

	if (flags & (ZEN_V_COMMITTED | ZEN_V_FROZEN))
		return ZEN_XID_COMMITTED;
	if (flags & ZEN_V_ABORTED)
		return ZEN_XID_ABORTED;
	ZenAssertNoWordLocked();	/* pg_xact may have to be read */
	Assert(TransactionIdIsNormal(v->xmin));
	if (TransactionIdIsCurrentTransactionId(v->xmin))
		return ZEN_XID_CURRENT;
	if (TransactionIdIsInProgress(v->xmin))
		return ZEN_XID_IN_PROGRESS;
	return has_committed(v) ? ZEN_XID_COMMITTED : ZEN_XID_ABORTED;
}

/* Does an MVCC snapshot see the writer of v? */
static bool
mvcc_sees(ZenVersion *v, Snapshot snapshot)
{
	uint32		flags = zen_version_flags(v);

	if (flags & ZEN_V_FROZEN)
		return true;
	if (flags & ZEN_V_ABORTED)
		return false;
	Assert(TransactionIdIsNormal(v->xmin));
	if (!(flags & ZEN_V_COMMITTED) && TransactionIdIsCurrentTransactionId(v->xmin))
		return v->cmin < snapshot->curcid;
	if (XidInMVCCSnapshot(v->xmin, snapshot))
		return false;
	return (flags & ZEN_V_COMMITTED) || has_committed(v);
}

/*
 * SnapshotDirty: a version counts that is committed or still may be.
 *
 * The snapshot's xmin is a transaction that inserts the row, its xmax one that updates or deletes it: the caller waits
 * for that.
 */
static ZenVersion *
dirty_version(ZenVersion *head, Snapshot snapshot, ZenVersion **successor)
{
	snapshot->xmin = snapshot->xmax = InvalidTransactionId;
	snapshot->speculativeToken = 0;
	*successor = NULL;
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		switch (zen_version_state(v))
		{
			case ZEN_XID_ABORTED:
				continue;
			case ZEN_XID_IN_PROGRESS:
				if (v->older != NULL && zen_top_version(v->older) != NULL)
				{
					/*
					 * an update or delete under way: the row is there, and
					 * xmax says so
					 */
					snapshot->xmax = v->xmin;
					*successor = v;
					v = zen_top_version(v->older);
					while (v != NULL && zen_version_state(v) == ZEN_XID_IN_PROGRESS && v->older != NULL)
					{
						*successor = v;
						v = zen_top_version(v->older);
					}
					if (v == NULL || (zen_version_flags(v) & ZEN_V_TOMBSTONE))
						return NULL;
					return v;
				}
				if (zen_version_flags(v) & ZEN_V_TOMBSTONE)
					return NULL;
				snapshot->xmin = v->xmin;
				if (zen_version_flags(v) & ZEN_V_SPECULATIVE)
					snapshot->speculativeToken = v->spec_token;
				return v;
			case ZEN_XID_CURRENT:
			case ZEN_XID_COMMITTED:
				return (zen_version_flags(v) & ZEN_V_TOMBSTONE) ? NULL : v;
		}
	}
	return NULL;
}

bool
zen_snapshot_sees(ZenVersion *v, Snapshot snapshot)
{
	ZenXidState state;

	switch (snapshot->snapshot_type)
	{
		case SNAPSHOT_MVCC:
			return mvcc_sees(v, snapshot);
		case SNAPSHOT_SELF:
			state = zen_version_state(v);
			return state == ZEN_XID_CURRENT || state == ZEN_XID_COMMITTED;
		case SNAPSHOT_ANY:
			return zen_version_state(v) != ZEN_XID_ABORTED;
		default:
			elog(ERROR, "unexpected snapshot type %d", (int) snapshot->snapshot_type);
			return false;
	}
}

/*
 * SnapshotToast and SnapshotNonVacuumable: the newest version with data that has not aborted, deleted or not; the
 * latter only as long as some snapshot may still see it.
 */
static ZenVersion *
version_with_data(ZenVersion *head, Snapshot snapshot, ZenVersion **successor)
{
	*successor = NULL;
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		if (zen_version_state(v) == ZEN_XID_ABORTED)
			continue;
		if (!(zen_version_flags(v) & ZEN_V_TOMBSTONE))
			return v;
		if (snapshot->snapshot_type == SNAPSHOT_NON_VACUUMABLE &&
			((zen_version_flags(v) & ZEN_V_FROZEN) ||
			 (zen_version_state(v) == ZEN_XID_COMMITTED &&
			  GlobalVisTestIsRemovableXid(snapshot->vistest, v->xmin))))
			return NULL;
		*successor = v;
	}
	return NULL;
}

ZenVersion *
zen_visible_version(ZenVersion *head, Snapshot snapshot, ZenVersion **successor)
{
	ZenAssertInEpoch();
	Assert(head != NULL);
	switch (snapshot->snapshot_type)
	{
		case SNAPSHOT_DIRTY:
			return dirty_version(head, snapshot, successor);
		case SNAPSHOT_TOAST:
		case SNAPSHOT_NON_VACUUMABLE:
			return version_with_data(head, snapshot, successor);
		default:
			break;
	}
	*successor = NULL;
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		if (zen_snapshot_sees(v, snapshot))
			return (zen_version_flags(v) & ZEN_V_TOMBSTONE) ? NULL : v;
		if (zen_version_state(v) != ZEN_XID_ABORTED)
			*successor = v;
	}
	return NULL;
}

ZenVersion *
zen_find_version(ZenVersion *head, uint32 code, ZenVersion **successor)
{
	ZenAssertInEpoch();
	Assert(head != NULL);
	*successor = NULL;
	for (ZenVersion *v = head; v != NULL; v = v->older)
	{
		if (v->code == code)
			return v;
		if (zen_version_state(v) != ZEN_XID_ABORTED)
			*successor = v;
	}
	return NULL;
}

ZenVersion *
zen_top_version(ZenVersion *head)
{
	ZenAssertInEpoch();
	for (ZenVersion *v = head; v != NULL; v = v->older)
		if (zen_version_state(v) != ZEN_XID_ABORTED)
			return v;
	return NULL;
}

/* ---------- the horizon ---------- */

ZenHorizon	zen_horizon = {.passed = {FrozenTransactionId}};

void
zen_horizon_set_now(void)
{
	FullTransactionId own = GetTopFullTransactionIdIfAny();

	zen_horizon.now = FullTransactionIdIsValid(own) ? own : ReadNextFullTransactionId();
}

/* Asynchronous commits since the start: those that have begun to commit, and those that have ended. */
typedef struct AsyncCommits
{
	pg_atomic_uint64 begun;
	pg_atomic_uint64 ended;
} AsyncCommits;

static AsyncCommits *async_commits;
static bool is_async = false;	/* this process's transaction is one */

static void
horizon_shmem_init(void)
{
	bool		found;

	async_commits = ShmemInitStruct("zen asynchronous commits", sizeof(AsyncCommits), &found);
	pg_atomic_init_u64(&async_commits->begun, 0);
	pg_atomic_init_u64(&async_commits->ended, 0);
}

const ZenShmem zen_horizon_shmem = {.bytes = sizeof(AsyncCommits),.init = horizon_shmem_init};

void
zen_horizon_begin_async(void)
{
	Assert(!is_async);
	is_async = true;
	pg_atomic_fetch_add_u64(&async_commits->begun, 1);
}

void
zen_horizon_end_async(void)
{
	if (is_async)
		pg_atomic_fetch_add_u64(&async_commits->ended, 1);
	is_async = false;
}

/*
 * W4: all transactions up to `found` have ended.  Returns the newest of which all commit records are flushed, as far as
 * this process knows.
 *
 * It knows by asking: the records of all that have ended lie before the WAL's end.  When that is flushed, a later look
 * is given the answer.  Nothing is asked if no asynchronous commit has begun since the last answer, and none was under
 * way then.
 */
static FullTransactionId
flushed_horizon(FullTransactionId found)
{
	static uint64 settled = 0;	/* asynchronous commits that are flushed */
	static uint64 asked = 0;
	static FullTransactionId asked_for;
	static XLogRecPtr asked_until = InvalidXLogRecPtr;
	static FullTransactionId answer = {FrozenTransactionId};
	uint64		ended = pg_atomic_read_u64(&async_commits->ended);
	uint64		begun;

	pg_read_barrier();
	begun = pg_atomic_read_u64(&async_commits->begun);
	if (begun == settled || ZEN_FAULT(W4_NO_LAG))
		return found;
	if (!XLogRecPtrIsInvalid(asked_until) && GetFlushRecPtr(NULL) >= asked_until)
	{
		answer = asked_for;
		settled = Max(settled, asked);
		asked_until = InvalidXLogRecPtr;
	}
	if (XLogRecPtrIsInvalid(asked_until))
	{
		asked = ended == begun ? begun : 0;
		asked_for = found;
		asked_until = zen_wal_end();
		XLogSetAsyncXactLSN(asked_until);
	}
	return answer;
}

FullTransactionId
zen_horizon_look(void)
{
	/*
	 * The look at the ProcArray comes first: the horizon that it finds is at
	 * most the next xid.
	 */
	TransactionId xid,
				catalog_xmin;	/* of logical slots: keeps no rows */
	FullTransactionId horizon,
				before;

	GetReplicationHorizons(&xid, &catalog_xmin);
	ZEN_COUNT(horizon_looks, 1);
	zen_horizon.now = ReadNextFullTransactionId();
	horizon = zen_horizon_widen(xid);
	Assert(FullTransactionIdPrecedesOrEquals(horizon, zen_horizon.now));
	before = FullTransactionIdFromU64(U64FromFullTransactionId(horizon) - 1);
	if (zen_nvm_is_lazy())
		before = flushed_horizon(before);
	if (FullTransactionIdPrecedes(zen_horizon.passed, before))
		zen_horizon.passed = before;
	zen_horizon.xmin = RecentXmin;
	Assert(FullTransactionIdPrecedes(zen_horizon.passed, zen_horizon.now));
	return horizon;
}
