/*
 * epoch.c -- epoch-based reclamation (R12); src/base/README, "Epochs", says how it works.
 */
#include "base/epoch.h"

#include "access/twophase.h"
#include "base/arena.h"
#include "base/stats.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/s_lock.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define MAX_RETIRED	UINT64CONST(1000000000) /* more cannot be in a list */
#define NSLOTS		(zen_nprocs() + 1)	/* the last one is that of processes
										 * without a PGPROC */
#define BATCH 32				/* retirements between two raises of the epoch */

ZenEpochShared *zen_epoch_shared;
ZenEpochSlot *zen_my_epoch;

static ZenEpochSlot *slots;
static void (*release_object[ZEN_RETIRED_KINDS]) (ZenRetired *object);

/* the ends of this process's lists, whose heads are in zen_my_epoch */
static ZenRetired *stamped_tail;
static ZenRetired *batch_tail;
static int	batch_count;

Size
zen_epoch_shmem_size(void)
{
	return sizeof(ZenEpochShared) + mul_size(NSLOTS + 1, sizeof(ZenEpochSlot));
}

void
zen_epoch_init(void (*const release[ZEN_RETIRED_KINDS]) (ZenRetired *object))
{
	bool		found;

	memcpy(release_object, release, sizeof(release_object));
	zen_epoch_shared = ShmemInitStruct("zen epochs", zen_epoch_shmem_size(), &found);
	slots = (ZenEpochSlot *) TYPEALIGN(sizeof(ZenEpochSlot), (char *) zen_epoch_shared + sizeof(ZenEpochShared));
	zen_my_epoch = &slots[NSLOTS - 1];
	stamped_tail = batch_tail = NULL;
	batch_count = 0;
	if (found)
		return;
	pg_atomic_init_u64(&zen_epoch_shared->current, 1);
	SpinLockInit(&zen_epoch_shared->lock);
	zen_epoch_shared->orphans = NULL;
	zen_epoch_shared->orphan_changes = 0;
	zen_epoch_shared->nprocs = NSLOTS;
	for (int i = 0; i < NSLOTS; i++)
	{
		pg_atomic_init_u64(&slots[i].announced, 0);
		pg_atomic_init_u64(&slots[i].changes, 0);
		slots[i].stamped = slots[i].batch = NULL;
	}
}

void
zen_epoch_attach(void)
{
	if (MyProc != NULL)
		zen_my_epoch = &slots[GetNumberFromPGProc(MyProc)];
}

/* The smallest announced epoch, or PG_UINT64_MAX when no process is inside. */
static uint64
oldest_announced(void)
{
	uint64		oldest = PG_UINT64_MAX;

	/*
	 * pairs with zen_epoch_enter: unlinking before, looking at announcements
	 * after
	 */
	pg_memory_barrier();
	for (int i = 0; i < zen_epoch_shared->nprocs; i++)
	{
		uint64		e = pg_atomic_read_u64(&slots[i].announced);

		if (e != 0 && e < oldest)
			oldest = e;
	}
	pg_read_barrier();			/* pairs with zen_epoch_end */
	return oldest;
}

/* Between these two calls zen_epoch_visit() takes this process's lists for incomplete. */
static void
begin_change(void)
{
	Assert(pg_atomic_read_u64(&zen_my_epoch->changes) % 2 == 0);
	pg_atomic_write_u64(&zen_my_epoch->changes, pg_atomic_read_u64(&zen_my_epoch->changes) + 1);
	pg_write_barrier();
}

static void
end_change(void)
{
	Assert(pg_atomic_read_u64(&zen_my_epoch->changes) % 2 == 1);
	pg_write_barrier();
	pg_atomic_write_u64(&zen_my_epoch->changes, pg_atomic_read_u64(&zen_my_epoch->changes) + 1);
}

/* Take over what ended processes have left behind. */
static void
adopt_orphans(void)
{
	ZenRetired *list;

	if (zen_epoch_shared->orphans == NULL)	/* unlocked look; a later call
											 * sees what this one misses */
		return;
	SpinLockAcquire(&zen_epoch_shared->lock);
	list = zen_epoch_shared->orphans;
	zen_epoch_shared->orphans = NULL;
	zen_epoch_shared->orphan_changes++;
	SpinLockRelease(&zen_epoch_shared->lock);
	while (list != NULL)
	{
		ZenRetired *next = list->next;

		zen_epoch_retire(list);
		list = next;
	}
}

/* Move the batch behind the stamped objects. */
static void
append_batch(void)
{
	ZenEpochSlot *my = zen_my_epoch;

	Assert((my->batch == NULL) == (batch_tail == NULL) && (my->batch == NULL) == (batch_count == 0));
	if (my->batch != NULL)
	{
		if (stamped_tail != NULL)
			stamped_tail->next = my->batch;
		else
			my->stamped = my->batch;
		stamped_tail = batch_tail;
	}
	my->batch = batch_tail = NULL;
	batch_count = 0;
}

/* Close the batch: stamp it, move it behind the stamped ones, release all objects that have become free. */
static void
close_batch(void)
{
	ZenEpochSlot *my = zen_my_epoch;
	uint64		stamp = pg_atomic_fetch_add_u64(&zen_epoch_shared->current, 1);
	uint64		oldest;

	ZEN_COUNT(epoch_raises, 1);
	ZenAssertNotInEpoch();
	for (ZenRetired *o = my->batch; o != NULL; o = o->next)
		o->epoch = stamp;
	begin_change();
	append_batch();
	oldest = oldest_announced();
	while (my->stamped != NULL && my->stamped->epoch < oldest)
	{
		ZenRetired *o = my->stamped;

		/* R12: in the order of their stamps, so the first that stays ends it */
		Assert(o->next == NULL || o->next->epoch >= o->epoch);
		Assert(o->kind < ZEN_RETIRED_KINDS);
		my->stamped = o->next;
		if (my->stamped == NULL)
			stamped_tail = NULL;
		release_object[o->kind] (o);
	}
	end_change();
}

void
zen_epoch_retire(ZenRetired *object)
{
	Assert(object->kind < ZEN_RETIRED_KINDS);
	ZenAssertNotInEpoch();
	object->next = NULL;
	pg_write_barrier();			/* for zen_epoch_visit() */
	if (batch_tail != NULL)
		batch_tail->next = object;
	else
		zen_my_epoch->batch = object;
	batch_tail = object;
	if (++batch_count >= BATCH)
	{
		close_batch();
		adopt_orphans();
	}
}

void
zen_epoch_flush(void)
{
	ZenAssertNotInEpoch();
	adopt_orphans();
	if (batch_count > 0 || zen_my_epoch->stamped != NULL)
		close_batch();
}

void
zen_epoch_wait(void)
{
	uint64		stamp = pg_atomic_fetch_add_u64(&zen_epoch_shared->current, 1);
	SpinDelayStatus delay;

	ZenAssertNotInEpoch();
	init_local_spin_delay(&delay);
	while (oldest_announced() <= stamp)
		perform_spin_delay(&delay);
	finish_spin_delay(&delay);
}

void
zen_epoch_detach(void)
{
	ZenEpochSlot *my = zen_my_epoch;

	zen_epoch_reset();
	begin_change();
	append_batch();
	if (my->stamped != NULL)
	{
		SpinLockAcquire(&zen_epoch_shared->lock);
		stamped_tail->next = zen_epoch_shared->orphans;
		zen_epoch_shared->orphans = my->stamped;
		zen_epoch_shared->orphan_changes++;
		SpinLockRelease(&zen_epoch_shared->lock);
	}
	my->stamped = stamped_tail = NULL;
	end_change();
}

/* ---------- verification ---------- */

static void
visit_list(ZenRetired *list, void (*visit) (ZenRetired *object, void *arg), void *arg, pg_atomic_uint64 *changes)
{
	uint64		before = pg_atomic_read_u64(changes);

	/* a list that changes may lead anywhere in the arena, in circles also */
	for (uint64 n = 0; list != NULL && zen_arena_holds(list, sizeof(*list)) && pg_atomic_read_u64(changes) == before &&
		 n < MAX_RETIRED; n++)
	{
		visit(list, arg);
		list = *(ZenRetired *volatile *) &list->next;
	}
}

/* The lists of one process; false if they have changed. */
static bool
visit_process(ZenEpochSlot *slot, void (*visit) (ZenRetired *object, void *arg), void *arg)
{
	uint64		before = pg_atomic_read_u64(&slot->changes);

	if (before % 2 != 0)
		return false;
	pg_read_barrier();
	visit_list(*(ZenRetired *volatile *) &slot->stamped, visit, arg, &slot->changes);
	visit_list(*(ZenRetired *volatile *) &slot->batch, visit, arg, &slot->changes);
	pg_read_barrier();
	return pg_atomic_read_u64(&slot->changes) == before;
}

static uint64
orphan_changes(ZenRetired **orphans)
{
	uint64		changes;

	SpinLockAcquire(&zen_epoch_shared->lock);
	*orphans = zen_epoch_shared->orphans;
	changes = zen_epoch_shared->orphan_changes;
	SpinLockRelease(&zen_epoch_shared->lock);
	return changes;
}

bool
zen_epoch_visit(void (*visit) (ZenRetired *object, void *arg), void *arg)
{
	pg_atomic_uint64 fixed;
	ZenRetired *orphans;
	uint64		before = orphan_changes(&orphans);
	bool		complete = true;

	for (int i = 0; i < zen_epoch_shared->nprocs; i++)
	{
		int			tries = 100;

		while (!visit_process(&slots[i], visit, arg) && --tries > 0)
			pg_spin_delay();
		complete &= tries > 0;
	}

	/*
	 * orphans go to one process at a time, as a whole: if that has happened,
	 * the count tells
	 */
	pg_atomic_init_u64(&fixed, 0);
	if (complete && orphan_changes(&orphans) == before)
		visit_list(orphans, visit, arg, &fixed);
	return complete && orphan_changes(&orphans) == before;
}
