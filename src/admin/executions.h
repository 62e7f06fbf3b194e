/*
 * executions.h -- what the start of an execution must do for the zen tables in its plan.
 */
#ifndef ZEN_EXECUTIONS_H
#define ZEN_EXECUTIONS_H

#include "base/compat.h"

#include "admin/chain.h"

/* zen_executions_start -- link of ExecutorStart. */
extern void zen_executions_start(const ZenStartLink *rest, QueryDesc *query, int eflags);

#endif							/* ZEN_EXECUTIONS_H */
