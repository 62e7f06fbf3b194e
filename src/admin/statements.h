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
#include "optimizer/planner.h"

/* zen_statements_shmem -- its part of shared memory. */
extern const ZenShmem zen_statements_shmem;

/* zen_statements_install -- the option of EXPLAIN, from PostgreSQL 18 on.  Once, in zen_dispatch_install(). */
extern void zen_statements_install(void);

/*
 * zen_statements_plan_on_standby -- plan a statement of a server in recovery by the rest, a planner.
 *
 * To plan a statement on a zen table is to pass the gate, which refuses.  If the statement changes or locks rows, the
 * error is ERRCODE_READ_ONLY_SQL_TRANSACTION, which PostgreSQL throws for heap tables when execution begins.  Drivers
 * and poolers tell by it that a server is no primary.
 */
extern PlannedStmt *zen_statements_plan_on_standby(planner_hook_type rest, Query *query, const char *text,
												   int options, ParamListInfo params);

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
