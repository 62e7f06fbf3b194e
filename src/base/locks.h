/*
 * locks.h -- zen's LWLocks, in the order in which they may be taken.
 *
 * No LWLock is taken while a map word's lock bit is set; a spinlock may be taken under any of them.
 */
#ifndef ZEN_LOCKS_H
#define ZEN_LOCKS_H

#include "base/compat.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

typedef enum ZenLockId
{
	ZEN_LOCK_STANDBY,			/* maps and versions on a hot standby: redo of
								 * a record, the scan, or the worker */
	ZEN_LOCK_RECOVERY,			/* one process recovers, the others wait */
	ZEN_LOCK_HTABLE,			/* HTable directory and its hash table */
	ZEN_LOCK_ALLOC,				/* page contexts (hash table) */
	ZEN_LOCK_MARK,				/* watermarks and the Tx-CTS high-water mark */
	ZEN_LOCK_SUPER,				/* both copies of the superblock, while the
								 * server runs */
	ZEN_LOCK_TREES,				/* which index has which tree */
	ZEN_LOCK_FOLLOWERS,			/* what trees of a hot standby are told */
	ZEN_LOCK_STATS,				/* what resets of counters have noted */
	ZEN_NLOCKS
} ZenLockId;

extern LWLockPadded *zen_locks; /* found at the start (base/startup.c) */

#define zen_lock(id)	(&zen_locks[id].lock)

/*
 * The assert for "under the lock" of a spinlock in comments.  It sees that some process holds the lock, not which one.
 */
#define ZenAssertSpinLocked(lock)	Assert(!SpinLockFree(lock))

#endif							/* ZEN_LOCKS_H */
