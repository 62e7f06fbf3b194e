/*
 * epoch.h -- when may memory that readers reach without a lock be used again?
 *
 * A reader announces the current epoch, follows pointers, copies the data that it needs, and leaves.  Memory (or an NVM
 * slot) that was unlinked is retired.  It is released only when every process that was inside at that time has left
 * (R12).
 *
 * Between enter and leave there is no waiting and no user code.  After an error thrown inside, the abort of the
 * (sub)transaction calls zen_epoch_reset().  Sections do not nest.
 */
#ifndef ZEN_EPOCH_H
#define ZEN_EPOCH_H

#include "base/compat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/spin.h"

/* The link of a retired object.  It stands where the unlinked object's readers do not look. */
typedef struct ZenRetired
{
	struct ZenRetired *next;
	uint64		epoch:56;
	uint64		kind:8;			/* whose release callback it is for; set by
								 * its owner */
} ZenRetired;

#define ZEN_RETIRED_KINDS	2

typedef struct ZenEpochShared
{
	pg_atomic_uint64 current;	/* starts at 1 */
	ZenRetired *orphans;		/* retired by processes that have ended; under
								 * lock */
	uint64		orphan_changes; /* under lock */
	slock_t		lock;
	int			nprocs;
} ZenEpochShared;

/* One line per process, written by its owner only. */
typedef union ZenEpochSlot
{
	struct
	{
		pg_atomic_uint64 announced; /* 0 = outside */
		ZenRetired *stamped;	/* retired objects, oldest first */
		ZenRetired *batch;		/* those of the unfinished batch */
		pg_atomic_uint64 changes;	/* of the two lists, appending aside; odd
									 * while they change */
	};
	char		pad[64];
} ZenEpochSlot;

extern ZenEpochShared *zen_epoch_shared;
extern ZenEpochSlot *zen_my_epoch;

/*
 * zen_epoch_shmem_size -- bytes of shared memory that zen_epoch_init() takes.
 *
 * zen_epoch_init -- make the epochs or attach to them.  release[kind] is called for each retired object of that kind
 * when no reader can hold it any more.  It must not throw.
 *
 * zen_epoch_attach -- from now on this process announces in a slot of its own.
 * zen_epoch_detach -- at the end of a process: leave, and hand over retired objects to the others.
 */
extern Size zen_epoch_shmem_size(void);
extern void zen_epoch_init(void (*const release[ZEN_RETIRED_KINDS]) (ZenRetired *object));
extern void zen_epoch_attach(void);
extern void zen_epoch_detach(void);

/*
 * zen_epoch_retire -- release an unlinked object when the time has come.  Outside any epoch.  Never throws, never
 * waits.
 */
extern void zen_epoch_retire(ZenRetired *object);

/*
 * zen_epoch_flush -- release all that can be released now, without waiting for a batch to fill.
 *
 * This includes objects of processes that have ended.  Outside any epoch.  Never throws.
 */
extern void zen_epoch_flush(void);

/*
 * zen_epoch_visit -- call visit for each object that is retired and not released yet, of all processes.
 *
 * Takes no lock.  So an object may be released, and its memory become another object, while visit looks at it: visit
 * must only compare.  False if lists have changed so that some objects may have been left out.
 */
extern bool zen_epoch_visit(void (*visit) (ZenRetired *object, void *arg), void *arg);

/* zen_epoch_wait -- return when every reader that is inside now has left.  Caller is outside any epoch. */
extern void zen_epoch_wait(void);

/*
 * The asserts for "inside the epoch" and "outside any epoch" in comments.  The postmaster has no epoch: it saves the
 * map when no other process is left.
 */
#define ZenAssertInEpoch() \
	Assert(!IsUnderPostmaster || pg_atomic_read_u64(&zen_my_epoch->announced) != 0)
#define ZenAssertNotInEpoch() \
	Assert(zen_my_epoch == NULL || pg_atomic_read_u64(&zen_my_epoch->announced) == 0)

static inline void
zen_epoch_enter(void)
{
	ZenAssertNotInEpoch();
	pg_atomic_write_u64(&zen_my_epoch->announced, pg_atomic_read_u64(&zen_epoch_shared->current));

	/*
	 * pairs with the barrier in zen_epoch_retire's scan: announce before
	 * reading shared pointers
	 */
	pg_memory_barrier();
}

static inline void
zen_epoch_end(void)
{
	/*
	 * All reads and writes of the section are done before the announcement
	 * ends.  Later reads and writes may come before that: it may be seen
	 * late.
	 */
	pg_read_barrier();
	pg_write_barrier();
	pg_atomic_write_u64(&zen_my_epoch->announced, 0);
}

static inline void
zen_epoch_leave(void)
{
	ZenAssertInEpoch();

	zen_epoch_end();
}

static inline void
zen_epoch_reset(void)
{
	if (zen_my_epoch != NULL)
		zen_epoch_end();
}

#endif							/* ZEN_EPOCH_H */
