/*
 * exclusive.h -- the exclusive stage: one transaction runs while other writers wait (Zen+, section 4.1).
 *
 * A transaction becomes privileged for one of three reasons:
 * - it holds more than a share of the Met-Cache in DRAM (zen.exclusive_memory; alpha in the paper);
 * - less than a share of the pool is free (zen.exclusive_free_pool; beta);
 * - its client has lost some transactions in a row to serialization failures and deadlocks
 *   (zen.exclusive_failures; gamma).
 *
 * From then to its end other transactions wait before their first write to a zen table.  At the end garbage is
 * collected for all.  Why no transaction waits for ever is in src/txn/README, "The exclusive stage".
 */
#ifndef ZEN_EXCLUSIVE_H
#define ZEN_EXCLUSIVE_H

#include "base/startup.h"
#include "row/writeset.h"

#include "datatype/timestamp.h"

typedef enum ZenExclusiveEnd
{
	ZEN_EXCLUSIVE_RUNNING,
	ZEN_EXCLUSIVE_COMMITTED,
	ZEN_EXCLUSIVE_PREPARED,
	ZEN_EXCLUSIVE_ABORTED,
	ZEN_EXCLUSIVE_GONE,			/* the session has ended */
	ZEN_EXCLUSIVE_BLOCKED,		/* given up: it waited for a lock */
	ZEN_EXCLUSIVE_IDLE,			/* given up: it did nothing while others
								 * waited */
	ZEN_EXCLUSIVE_TIMEOUT		/* given up: it lasted too long */
} ZenExclusiveEnd;

/* One stage, as zen_stat_exclusive shows it. */
typedef struct ZenExclusiveRecord
{
	bool		running;
	int			pid;
	const char *reason;
	const char *end;
	TimestampTz began;
	TimestampTz ended;			/* or now */
	uint32		held_back;		/* transactions that have waited */
} ZenExclusiveRecord;

#define ZEN_EXCLUSIVE_HISTORY	32

/* So many bytes may this transaction have in DRAM before it is looked at again; 0: it has not written yet. */
extern uint64 zen_exclusive_limit;

/* zen_exclusive_shmem -- its part of shared memory. */
extern const ZenShmem zen_exclusive_shmem;

/* Called once, in the postmaster: failures are counted where they are reported. */
extern void zen_exclusive_install(void);

/* zen_exclusive_check -- zen_exclusive_write(), if there is anything to look at. */
extern void zen_exclusive_check(void);

/*
 * zen_exclusive_write -- before each write and row lock.
 *
 * Waits if another transaction is privileged and this one has not written yet.  Makes this one privileged if it has
 * crossed a threshold.  Interruptible.  The caller holds no LWLock and is outside any epoch.
 */
static inline void
zen_exclusive_write(void)
{
	if (unlikely(zen_writeset.bytes >= zen_exclusive_limit))
		zen_exclusive_check();
}

/*
 * zen_exclusive_end -- the end of a transaction, after its writes are settled, or of the session: a stage that was its
 * own ends.  Never throws.
 */
extern void zen_exclusive_end(ZenExclusiveEnd end);

/* zen_exclusive_list -- copy the last stages, newest first, into records[ZEN_EXCLUSIVE_HISTORY]; returns how many. */
extern int	zen_exclusive_list(ZenExclusiveRecord *records);

#endif							/* ZEN_EXCLUSIVE_H */
