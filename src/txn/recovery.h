/*
 * recovery.h -- from the pool's bytes to a running engine: one scan, no log.
 */
#ifndef ZEN_RECOVERY_H
#define ZEN_RECOVERY_H

#include "base/compat.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "txn/xact.h"

typedef enum ZenRecoveryState
{
	ZEN_RECOVERY_NEEDED,
	ZEN_RECOVERY_RUNNING,
	ZEN_RECOVERY_READY,
	ZEN_RECOVERY_FAILED
} ZenRecoveryState;

/* Shared; written by the process that recovers, read by the view. */
typedef struct ZenRecovery
{
	pg_atomic_uint32 state;		/* ZenRecoveryState */
	ConditionVariable changed;
	bool		after_crash;
	const char *phase;			/* what is being done */
	uint32		pages_total;
	pg_atomic_uint32 pages_done;	/* of the present phase */
	uint64		rows;			/* live rows found */
	uint64		losers;			/* slots of unfinished transactions scrubbed */
	double		scan_ms;		/* time of the two passes over the pages */
	double		total_ms;
} ZenRecovery;

extern ZenRecovery *zen_recovery;

extern Size zen_recovery_shmem_size(void);
extern void zen_recovery_init(void);

/* zen_recovery_wait -- return when the engine is ready, doing the work if nobody does; throws if it cannot be. */
extern void zen_recovery_wait(void);

/* zen_recovery_shutdown -- at the end of an orderly stop: leave the pool clean.  Postmaster or single-user process. */
extern void zen_recovery_shutdown(void);

/*
 * zen_gate -- every way into zen begins here: the process is attached and the pool is recovered.
 */
static inline void
zen_gate(void)
{
	zen_xact_attach();
	if (unlikely(pg_atomic_read_u32(&zen_recovery->state) != ZEN_RECOVERY_READY))
		zen_recovery_wait();
}

#endif							/* ZEN_RECOVERY_H */
