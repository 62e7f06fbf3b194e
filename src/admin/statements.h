/*
 * statements.h -- counters by statement, for zen_stat_statements.
 */
#ifndef ZEN_STATEMENTS_H
#define ZEN_STATEMENTS_H

#include "base/compat.h"

#include "access/xact.h"
#include "admin/chain.h"

/* Bytes of shared memory; in shmem_request_hook, where it also asks for a lock. */
extern Size zen_statements_shmem_request(void);

/* In shmem_startup_hook. */
extern void zen_statements_shmem_init(void);

/* Links of hook chains: statements that run behind them are counted, while zen.track_statements is on. */
extern void zen_statements_utility(ZenUtility *u);
extern void zen_statements_start(const ZenStartLink *rest, QueryDesc *query, int eflags);
extern void zen_statements_run(const ZenRunLink *rest, ZEN_EXECUTOR_RUN_ARGS);
extern void zen_statements_finish(const ZenFinishLink *rest, QueryDesc *query);

/*
 * zen_statements_event -- a transaction has ended: its cost goes to the last statement that has written.  After
 * zen_xact_event().
 */
extern void zen_statements_event(XactEvent event);

/* zen_statements_reset -- forget all statements. */
extern void zen_statements_reset(void);

#endif							/* ZEN_STATEMENTS_H */
