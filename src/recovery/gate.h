/*
 * gate.h -- every way into zen begins here: the process is attached and the pool is recovered.
 */
#ifndef ZEN_GATE_H
#define ZEN_GATE_H

#include "recovery/recstate.h"
#include "standby/standbystate.h"
#include "txn/xact.h"
#include "utils/snapmgr.h"

/*
 * zen_gate_wait -- return when the engine is ready, doing (part of) the work; throws if it cannot be.
 *
 * zen_gate_wait_open -- return when tables that are not late can be read, or as zen_gate_wait() does.
 *
 * zen_gate_wait_table -- return when any table can be read.
 *
 * The last two also return on a hot standby whose tables are read.
 */
extern void zen_gate_wait(void);
extern void zen_gate_wait_open(void);
extern void zen_gate_wait_table(void);

/*
 * zen_gate_refused -- while a statement is planned on a standby that PostgreSQL would refuse once it is planned, as it
 * changes or locks rows: what that is, for the message.  NULL at other times.  The gate throws the same error then.
 */
extern const char *zen_gate_refused;

extern bool zen_recovery_is_worker; /* this process is the background worker,
									 * and in no transaction */

static inline bool
zen_gate_is_ready(void)
{
	bool		ready = pg_atomic_read_u32(&zen_recovery->state) == ZEN_RECOVERY_READY;

	/* what recovery has made is there: pairs with set_state() */
	pg_read_barrier();
	return likely(ready);
}

static inline void
zen_gate(void)
{
	zen_xact_attach();
	if (!zen_gate_is_ready())
		zen_gate_wait();
}

/*
 * zen_gate_read -- for a process that will only read, and calls zen_gate_table() as soon as it knows the table.
 * Tables that are not large are open earlier.
 */
static inline void
zen_gate_read(void)
{
	zen_xact_attach();
	if (!zen_gate_is_ready())
		zen_gate_wait_open();
}

/* zen_gate_table -- after zen_gate_read(): the table can be read. */
static inline void
zen_gate_table(const ZenHTable *ht)
{
	if (!zen_gate_is_ready() && !zen_recovery_is_open(ht))
		zen_gate_wait_table();
}

/* zen_gate_snapshot -- a table is about to be read by this snapshot, behind the gate. */
static inline void
zen_gate_snapshot(const ZenHTable *ht, Snapshot snapshot)
{
	if (unlikely(snapshot != NULL && IsMVCCSnapshot(snapshot) && snapshot->takenDuringRecovery))
	{
		zen_standby_check(snapshot);
		zen_standby_check_table(ht->create_xid, snapshot);
	}
}

#endif							/* ZEN_GATE_H */
