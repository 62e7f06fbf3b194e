/*
 * room.c -- how much of the pool and of DRAM is taken, what keeps garbage there, and the warnings about both.
 *
 * A transaction that finds the pool or DRAM full fails (53100, 53200), after it has collected all that it may.  An
 * operator wants to know before.  So the worker looks at both once a round.  It warns when the share that
 * zen.warning_level names is in use.
 *
 * The holder of the horizon is the process, the prepared transaction or the replication slot with the oldest xid or
 * xmin (src/gc/README, "The horizon").  They are looked at without the ProcArray's lock: the answer is for users, and
 * may be a moment old.
 */
#include "gc/room.h"

#include "access/twophase.h"
#include "base/arena.h"
#include "base/guc.h"
#include "gc/reclaim.h"
#include "nvm/grow.h"
#include "nvm/page.h"
#include "replication/slot.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/timestamp.h"

#define STEP		5			/* percent between two warnings of room */
#define REPEAT_MS	(60 * 60 * 1000)
#define MANY_CHANGES	1000000 /* so much garbage is worth a warning, however
								 * much room there is */
#define HOLDER_REPEAT_MS	60000

/* ---------- room ---------- */

/* The worker's last warning of one of them; 0 percent: none since there was room. */
typedef struct Warned
{
	uint32		percent;
	TimestampTz at;
} Warned;

void
zen_room(ZenRoomKind kind, ZenRoom *room)
{
	if (kind == ZEN_ROOM_POOL)
	{
		uint32		total,
					nfree;

		zen_page_free(&total, &nfree);
		room->size = total * ZEN_PAGE_SIZE;
		room->used = (total - Min(nfree, total)) * ZEN_PAGE_SIZE;
	}
	else
	{
		uint64		taken;

		room->size = (uint64) zen_dram_size_mb * 1024 * 1024;
		zen_arena_usage(&taken, &room->used);
		room->used = Min(room->used, room->size);
	}
	Assert(room->used <= room->size);
	room->used_percent = 100 - (uint32) ((room->size - room->used) * 100 / Max(room->size, 1));
}

/* Is zen.warning_level reached? */
static bool
is_low(const ZenRoom *room)
{
	return zen_warning_level > 0 && room->used_percent >= (uint32) zen_warning_level;
}

static void
room_warn(ZenRoomKind kind, const ZenRoom *room)
{
	uint64		mb = 1024 * 1024;

	if (kind == ZEN_ROOM_POOL)
		ereport(WARNING,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("%u %% of the zen pool is in use", room->used_percent),
				 errdetail("Rows and garbage take pages of " UINT64_FORMAT " of " UINT64_FORMAT " MB.  "
						   "A transaction that finds no room will fail.",
						   room->used / mb, room->size / mb),
				 errhint("See zen_stat_tables for the largest tables and zen_stat_garbage for what waits to be "
						 "collected.  Drop or truncate what is not needed, or make the pool larger with "
						 "zen_pool_grow().")));
	else
		ereport(WARNING,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("%u %% of zen.dram_size is in use", room->used_percent),
				 errdetail("Maps, row versions and garbage take " UINT64_FORMAT " of " UINT64_FORMAT " MB.  "
						   "A transaction that finds no room will fail.",
						   room->used / mb, room->size / mb),
				 errhint("Lower zen.met_cache_size, or raise zen.dram_size and restart.  "
						 "Each row takes 8 bytes at all times.")));
}

static void
room_watch(ZenRoomKind kind)
{
	static Warned warned[ZEN_ROOM_KINDS];
	Warned	   *last = &warned[kind];
	ZenRoom		room;
	uint32		percent;

	Assert(kind < ZEN_ROOM_KINDS);
	/* nothing is short that the worker will get more of */
	if (kind == ZEN_ROOM_POOL && zen_grow_may())
		return;
	zen_room(kind, &room);
	percent = room.used_percent;
	if (zen_warning_level == 0 || percent + STEP <= (uint32) zen_warning_level)
		last->percent = 0;		/* it has come down: a rise is new */
	if (!is_low(&room))
		return;
	if (last->percent != 0 && percent < last->percent + STEP &&
		!TimestampDifferenceExceeds(last->at, GetCurrentTimestamp(), REPEAT_MS))
		return;
	room_warn(kind, &room);
	last->percent = percent;
	last->at = GetCurrentTimestamp();
}

void
zen_room_watch(void)
{
	room_watch(ZEN_ROOM_POOL);
	room_watch(ZEN_ROOM_DRAM);
}

/* ---------- the holder ---------- */

const char *
zen_holder_kind(ZenHolderKind kind)
{
	static const char *const names[] = {
		[ZEN_HOLDER_NONE] = NULL,
		[ZEN_HOLDER_PROCESS] = "process",
		[ZEN_HOLDER_PREPARED] = "prepared transaction",
		[ZEN_HOLDER_SLOT] = "replication slot"
	};

	Assert((int) kind < lengthof(names));
	return names[kind];
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

/* ---------- the warning about the holder ---------- */

static uint32
free_percent(ZenRoomKind kind)
{
	ZenRoom		room;

	zen_room(kind, &room);
	return 100 - room.used_percent;
}

static bool
is_any_low(void)
{
	ZenRoom		pool,
				dram;

	zen_room(ZEN_ROOM_POOL, &pool);
	zen_room(ZEN_ROOM_DRAM, &dram);
	return is_low(&pool) || is_low(&dram);
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
holder_warn(uint64 pending, const ZenHolder *holder)
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
	if (pending < MANY_CHANGES && !is_any_low())
		return;
	zen_holder_find(&holder);
	if (holder.kind == ZEN_HOLDER_NONE)
		return;
	if (holder.kind == last.kind && holder.pid == last.pid && holder.xid == last.xid &&
		!TimestampDifferenceExceeds(last_warning, GetCurrentTimestamp(), HOLDER_REPEAT_MS))
		return;
	holder_warn(pending, &holder);
	last = holder;
	last_warning = GetCurrentTimestamp();
}
