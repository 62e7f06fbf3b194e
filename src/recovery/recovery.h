/*
 * recovery.h -- from the pool's bytes to a running engine: one scan, no log.
 */
#ifndef ZEN_RECOVERY_H
#define ZEN_RECOVERY_H

#include "base/compat.h"
#include "recovery/passes.h"
#include "txn/xact.h"

extern Size zen_recovery_shmem_size(void);
extern void zen_recovery_init(void);

/* zen_recovery_wait -- return when the engine is ready, doing (part of) the work; throws if it cannot be. */
extern void zen_recovery_wait(void);

/* zen_recovery_wait_open -- return when tables that are not late can be read, or as zen_recovery_wait does. */
extern void zen_recovery_wait_open(void);

/* zen_recovery_shutdown -- at the end of an orderly stop: leave the pool clean.  Postmaster or single-user process. */
extern void zen_recovery_shutdown(void);

/* A background worker that helps; started by the process that recovers. */
extern PGDLLEXPORT void zen_recovery_worker_main(Datum arg);

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

/*
 * zen_gate_read -- for who will only read, and asks zen_gate_table() as soon as he knows what: tables that are not large are
 * open earlier.
 */
static inline void
zen_gate_read(void)
{
	zen_xact_attach();
	if (unlikely(pg_atomic_read_u32(&zen_recovery->state) != ZEN_RECOVERY_READY))
		zen_recovery_wait_open();
}

/* zen_gate_table -- after zen_gate_read(): the table can be read. */
static inline void
zen_gate_table(const ZenHTable *ht)
{
	if (unlikely(pg_atomic_read_u32(&zen_recovery->state) != ZEN_RECOVERY_READY) && !zen_passes_is_open(ht))
		zen_recovery_wait();
}

#endif							/* ZEN_RECOVERY_H */
