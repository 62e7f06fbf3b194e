/*
 * epoch.c -- epoch-based reclamation.
 *
 * Each process keeps its retired objects in a list, oldest first.  Every BATCH retirements it raises the global
 * epoch and stamps the batch with the epoch before; an object may be released when every announced epoch is
 * greater than its stamp.  A reader that announces later has entered after the object was unlinked: the raise is a
 * full barrier after the unlinking, and the reader's own barrier comes before its first read.
 *
 * The list is linked through the objects, so retiring needs no memory and cannot fail.
 */
#include "base/epoch.h"

#include "access/twophase.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/s_lock.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define BATCH 32				/* retirements between two raises of the epoch */

ZenEpochShared *zen_epoch_shared;
ZenEpochSlot *zen_my_epoch;

static ZenEpochSlot *slots;
static void (*release_object) (ZenRetired *object);

/* stamped objects, oldest first, and those of the unfinished batch */
static ZenRetired *stamped_head,
		   *stamped_tail;
static ZenRetired *batch_head,
		   *batch_tail;
static int	batch_count;

static int
nprocs(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS + max_prepared_xacts + 1;
}

Size
zen_epoch_shmem_size(void)
{
	return sizeof(ZenEpochShared) + mul_size(nprocs() + 1, sizeof(ZenEpochSlot));
}

void
zen_epoch_init(void (*release) (ZenRetired *object))
{
	bool		found;

	release_object = release;
	zen_epoch_shared = ShmemInitStruct("zen epochs", zen_epoch_shmem_size(), &found);
	slots = (ZenEpochSlot *) TYPEALIGN(sizeof(ZenEpochSlot), (char *) zen_epoch_shared + sizeof(ZenEpochShared));
	zen_my_epoch = &slots[nprocs() - 1];
	stamped_head = stamped_tail = batch_head = batch_tail = NULL;
	batch_count = 0;
	if (found)
		return;
	pg_atomic_init_u64(&zen_epoch_shared->current, 1);
	SpinLockInit(&zen_epoch_shared->lock);
	zen_epoch_shared->orphans = NULL;
	zen_epoch_shared->nprocs = nprocs();
	for (int i = 0; i < nprocs(); i++)
		pg_atomic_init_u64(&slots[i].announced, 0);
}

void
zen_epoch_attach(void)
{
	if (MyProc != NULL)
		zen_my_epoch = &slots[GetNumberFromPGProc(MyProc)];
}

/* The smallest announced epoch, or PG_UINT64_MAX when nobody is inside. */
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
	return oldest;
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
	SpinLockRelease(&zen_epoch_shared->lock);
	while (list != NULL)
	{
		ZenRetired *next = list->next;

		zen_epoch_retire(list);
		list = next;
	}
}

/* Close the batch: stamp it, move it behind the stamped ones, release what has become free. */
static void
close_batch(void)
{
	uint64		stamp = pg_atomic_fetch_add_u64(&zen_epoch_shared->current, 1);
	uint64		oldest;

	for (ZenRetired *o = batch_head; o != NULL; o = o->next)
		o->epoch = stamp;
	if (batch_head != NULL)
	{
		if (stamped_tail != NULL)
			stamped_tail->next = batch_head;
		else
			stamped_head = batch_head;
		stamped_tail = batch_tail;
	}
	batch_head = batch_tail = NULL;
	batch_count = 0;

	oldest = oldest_announced();
	while (stamped_head != NULL && stamped_head->epoch < oldest)
	{
		ZenRetired *o = stamped_head;

		stamped_head = o->next;
		if (stamped_head == NULL)
			stamped_tail = NULL;
		release_object(o);
	}
}

void
zen_epoch_retire(ZenRetired *object)
{
	object->next = NULL;
	if (batch_tail != NULL)
		batch_tail->next = object;
	else
		batch_head = object;
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
	if (batch_count > 0 || stamped_head != NULL)
		close_batch();
}

void
zen_epoch_wait(void)
{
	uint64		stamp = pg_atomic_fetch_add_u64(&zen_epoch_shared->current, 1);
	SpinDelayStatus delay;

	init_local_spin_delay(&delay);
	while (oldest_announced() <= stamp)
		perform_spin_delay(&delay);
	finish_spin_delay(&delay);
}

void
zen_epoch_detach(void)
{
	zen_epoch_reset();
	if (batch_tail != NULL)
	{
		if (stamped_tail != NULL)
			stamped_tail->next = batch_head;
		else
			stamped_head = batch_head;
		stamped_tail = batch_tail;
	}
	if (stamped_head != NULL)
	{
		SpinLockAcquire(&zen_epoch_shared->lock);
		stamped_tail->next = zen_epoch_shared->orphans;
		zen_epoch_shared->orphans = stamped_head;
		SpinLockRelease(&zen_epoch_shared->lock);
	}
	stamped_head = stamped_tail = batch_head = batch_tail = NULL;
	batch_count = 0;
}
