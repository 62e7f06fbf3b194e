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

#include "row/writeset.h"

#include "datatype/timestamp.h"

typedef enum ZenExclusiveReason
{
	ZEN_EXCLUSIVE_MEMORY,
	ZEN_EXCLUSIVE_FREE_POOL,
	ZEN_EXCLUSIVE_FAILURES
} ZenExclusiveReason;

typedef enum ZenExclusiveEnd
{
	ZEN_EXCLUSIVE_RUNNING,
	ZEN_EXCLUSIVE_COMMITTED,
	ZEN_EXCLUSIVE_PREPARED,
	ZEN_EXCLUSIVE_ABORTED,
	ZEN_EXCLUSIVE_GONE,			/* the session has ended */
	ZEN_EXCLUSIVE_BLOCKED,		/* given up: it waited for a lock */
	ZEN_EXCLUSIVE_TIMEOUT		/* given up: others waited for too long */
} ZenExclusiveEnd;

/* One stage, as zen_stat_exclusive shows it. */
typedef struct ZenExclusiveRecord
{
	int			pid;
	int			procno;
	ZenExclusiveReason reason;
	ZenExclusiveEnd end;
	TimestampTz began;
	TimestampTz ended;			/* while not RUNNING */
	uint32		held_back;		/* transactions that have waited */
} ZenExclusiveRecord;

#define ZEN_EXCLUSIVE_HISTORY	32

/*
 * This transaction has passed zen_exclusive_write(), and may hold so many bytes in DRAM before it is looked at again.
 */
extern bool zen_exclusive_joined;
extern uint64 zen_exclusive_limit;

extern Size zen_exclusive_shmem_size(void);
extern void zen_exclusive_init(void);

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
	if (unlikely(!zen_exclusive_joined || zen_writeset.bytes > zen_exclusive_limit))
		zen_exclusive_check();
}

/* The end of a transaction, after its writes are settled: a stage that was its own ends.  Never throw. */
extern void zen_exclusive_commit(void);
extern void zen_exclusive_prepare(void);
extern void zen_exclusive_abort(void);

/* The end of a session. */
extern void zen_exclusive_detach(void);

/* zen_exclusive_list -- copy the last stages, newest first, into records[ZEN_EXCLUSIVE_HISTORY]; returns how many. */
extern int	zen_exclusive_list(ZenExclusiveRecord *records);

extern const char *zen_exclusive_reason(ZenExclusiveReason reason);
extern const char *zen_exclusive_end(ZenExclusiveEnd end);

#endif							/* ZEN_EXCLUSIVE_H */
