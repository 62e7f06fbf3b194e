/*
 * statements.h -- what zen does when a statement is executed: gates before it, and what it costs.
 */
#ifndef ZEN_STATEMENTS_H
#define ZEN_STATEMENTS_H

#include "base/compat.h"

#include "base/startup.h"
#include "access/xact.h"
#include "admin/utility.h"
#include "executor/executor.h"

/* zen_statements_shmem -- its part of shared memory. */
extern const ZenShmem zen_statements_shmem;

/* zen_statements_install -- the option of EXPLAIN, from PostgreSQL 18 on.  Once, in zen_dispatch_install(). */
extern void zen_statements_install(void);

/*
 * These go on to the rest: the hook of another library, or PostgreSQL itself.  While zen.track_statements is on, they
 * count what it costs.  zen_statements_start() also has the tables of the plan ready for the executor.
 */
extern void zen_statements_utility(ZenUtility *u);
extern void zen_statements_start(ExecutorStart_hook_type rest, QueryDesc *query, int eflags);
extern void zen_statements_run(ExecutorRun_hook_type rest, ZEN_EXECUTOR_RUN_ARGS);
extern void zen_statements_finish(ExecutorFinish_hook_type rest, QueryDesc *query);

/*
 * zen_statements_event -- a transaction has ended: its cost goes to the last statement that has written.  After
 * zen_xact_event().
 */
extern void zen_statements_event(XactEvent event);

/* zen_statements_reset -- forget all statements. */
extern void zen_statements_reset(void);

#endif							/* ZEN_STATEMENTS_H */
