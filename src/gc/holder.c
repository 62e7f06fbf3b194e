/*
 * holder.c -- the holder of the horizon, which keeps garbage from being collected, and the warning about it.
 *
 * A row version stays as long as a snapshot may see it.  That is a snapshot older than the transaction that superseded
 * the version.  These may have one:
 * - a process (its xmin or xid);
 * - a prepared transaction (its xid);
 * - a replication slot (the xmin that its standby may need).
 *
 * They are looked at without the ProcArray's lock: the answer is for users, and may be a moment old.
 */
#include "gc/holder.h"

#include "access/twophase.h"
#include "base/guc.h"
#include "gc/gcqueue.h"
#include "gc/room.h"
#include "replication/slot.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/timestamp.h"

#define MANY_CHANGES	1000000 /* so much garbage is worth a warning, however
								 * much room there is */
#define REPEAT_MS		60000

/* ---------- the holder ---------- */

const char *
zen_holder_kind(ZenHolderKind kind)
{
	switch (kind)
	{
		case ZEN_HOLDER_NONE:
			return NULL;
		case ZEN_HOLDER_PROCESS:
			return "process";
		case ZEN_HOLDER_PREPARED:
			return "prepared transaction";
		case ZEN_HOLDER_SLOT:
			return "replication slot";
	}
	return NULL;
}

/*
 * Does xid take the horizon further back than the holder found before?
 *
 * A snapshot's xmin is often another process's xid.  Then that process is the holder.
 */
static bool
is_worse(const ZenHolder *holder, TransactionId xid, bool its_own)
{
	return TransactionIdIsNormal(xid) &&
		(holder->kind == ZEN_HOLDER_NONE || TransactionIdPrecedes(xid, holder->xid) ||
		 (its_own && xid == holder->xid));
}

static void
look_at_processes(ZenHolder *holder)
{
	/* those of prepared transactions come last, and are not counted */
	for (uint32 i = 0; i < ProcGlobal->allProcCount + max_prepared_xacts; i++)
	{
		volatile PGPROC *proc = &ProcGlobal->allProcs[i];
		TransactionId xid = proc->xid;
		TransactionId xmin = proc->xmin;
		int			pid = proc->pid;

		/* as ComputeXidHorizons() does */
		if (proc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING))
			continue;
		if (!TransactionIdIsNormal(xmin) || (TransactionIdIsNormal(xid) && TransactionIdPrecedes(xid, xmin)))
			xmin = xid;
		/* the entry of a prepared transaction is not cleared at its end */
		if (!is_worse(holder, xmin, xmin == xid) || (pid == 0 && !TransactionIdIsInProgress(xmin)))
			continue;
		holder->kind = pid == 0 ? ZEN_HOLDER_PREPARED : ZEN_HOLDER_PROCESS;
		holder->pid = pid;
		holder->xid = xmin;
	}
}

static void
look_at_slots(ZenHolder *holder)
{
	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];
		TransactionId xmin;

		if (!slot->in_use)
			continue;
		/* catalog_xmin keeps no rows (zen_horizon_look) */
		SpinLockAcquire(&slot->mutex);
		xmin = slot->effective_xmin;
		SpinLockRelease(&slot->mutex);
		if (!is_worse(holder, xmin, false))
			continue;
		holder->kind = ZEN_HOLDER_SLOT;
		holder->pid = 0;
		holder->xid = xmin;
		holder->name = slot->data.name;
	}
	LWLockRelease(ReplicationSlotControlLock);
}

void
zen_holder_find(ZenHolder *holder)
{
	memset(holder, 0, sizeof(*holder));
	holder->kind = ZEN_HOLDER_NONE;
	look_at_processes(holder);
	look_at_slots(holder);
	if (holder->kind != ZEN_HOLDER_NONE)
		holder->age = (uint32) (XidFromFullTransactionId(ReadNextFullTransactionId()) - holder->xid);
}

/* ---------- the warning ---------- */

static uint32
free_percent(ZenRoomKind kind)
{
	ZenRoom		room;

	zen_room(kind, &room);
	return zen_room_free_percent(&room);
}

static bool
is_low(ZenRoomKind kind)
{
	ZenRoom		room;

	zen_room(kind, &room);
	return zen_room_is_low(&room);
}

static int
describe_holder(const ZenHolder *holder)
{
	switch (holder->kind)
	{
		case ZEN_HOLDER_PREPARED:
			return errdetail("Prepared transaction %u has been open for " UINT64_FORMAT " transactions.  "
							 "%u %% of the pool's pages and %u %% of zen.dram_size are free.",
							 holder->xid, holder->age, free_percent(ZEN_ROOM_POOL), free_percent(ZEN_ROOM_DRAM));
		case ZEN_HOLDER_SLOT:
			return errdetail("Replication slot \"%s\" keeps xmin %u, which is " UINT64_FORMAT " transactions old.  "
							 "%u %% of the pool's pages and %u %% of zen.dram_size are free.",
							 NameStr(holder->name), holder->xid, holder->age,
							 free_percent(ZEN_ROOM_POOL), free_percent(ZEN_ROOM_DRAM));
		default:
			return errdetail("Process %d keeps xmin %u, which is " UINT64_FORMAT " transactions old.  "
							 "%u %% of the pool's pages and %u %% of zen.dram_size are free.",
							 holder->pid, holder->xid, holder->age,
							 free_percent(ZEN_ROOM_POOL), free_percent(ZEN_ROOM_DRAM));
	}
}

static int
advise(const ZenHolder *holder)
{
	switch (holder->kind)
	{
		case ZEN_HOLDER_PREPARED:
			return errhint("Look it up in pg_prepared_xacts, then COMMIT PREPARED or ROLLBACK PREPARED.");
		case ZEN_HOLDER_SLOT:
			return errhint("Let its standby or subscriber catch up, or drop the slot with pg_drop_replication_slot().");
		default:
			return errhint("See pg_stat_activity.  End the transaction, or the process with pg_terminate_backend(%d).",
						   holder->pid);
	}
}

static void
warn(uint64 pending, const ZenHolder *holder)
{
	ereport(WARNING,
			(errmsg("zen keeps the predecessors of " UINT64_FORMAT " row changes, " UINT64_FORMAT " MB, "
					"for an old snapshot",
					pending, zen_gcqueue_bytes() / (1024 * 1024)),
			 describe_holder(holder),
			 advise(holder)));
}

void
zen_holder_watch(FullTransactionId horizon)
{
	static FullTransactionId last_horizon;
	static TimestampTz last_warning = 0;
	static ZenHolder last;
	bool		stands = FullTransactionIdEquals(horizon, last_horizon);
	uint64		pending = zen_gcqueue_pending();
	ZenHolder	holder;

	last_horizon = horizon;

	/*
	 * all due items are collected, except in a region that a prepared
	 * transaction keeps, which is then the holder
	 */
	if (!stands || pending == 0 || zen_warning_level == 0)
		return;
	if (pending < MANY_CHANGES && !is_low(ZEN_ROOM_POOL) && !is_low(ZEN_ROOM_DRAM))
		return;
	zen_holder_find(&holder);
	if (holder.kind == ZEN_HOLDER_NONE)
		return;
	if (holder.kind == last.kind && holder.pid == last.pid && holder.xid == last.xid &&
		!TimestampDifferenceExceeds(last_warning, GetCurrentTimestamp(), REPEAT_MS))
		return;
	warn(pending, &holder);
	last = holder;
	last_warning = GetCurrentTimestamp();
}
