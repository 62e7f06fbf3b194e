/*
 * exec.h -- statements that zen runs faster than the standard executor: the only header of this folder for others.
 *
 * The engine is whole without this folder.  A build with EXECUTOR=no has none of it: then nothing is hooked, no plan is
 * kept, and there are no reasons why not.
 */
#ifndef ZEN_EXEC_H
#define ZEN_EXEC_H

#include "base/compat.h"

#include "access/xact.h"
#include "exec/pointwhy.h"
#include "executor/execdesc.h"

#ifndef ZEN_NO_EXECUTOR

/*
 * zen_exec_install -- take the executor's hooks, unless it is done or a library has taken one before.
 *
 * A library's hook that was there before expects the standard executor.  Then no plan is marked, and nothing changes.
 * So it is best done early, in _PG_init.
 *
 * zen_exec_yield -- give them back, unless another library's hook stands before them by now.
 */
extern void zen_exec_install(void);
extern void zen_exec_yield(void);

/* zen_exec_init -- take the hooks of parser and planner; after other libraries have taken theirs. */
extern void zen_exec_init(void);

/*
 * zen_exec_params -- the parameters by which a plan is about to be executed.
 *
 * Those of the query, and behind them the values of a statement that runs by the plan of its shape.  Made in the
 * current memory context.
 */
extern ParamListInfo zen_exec_params(const QueryDesc *query);

/* zen_exec_event, zen_exec_subevent -- executions that a transaction or subtransaction leaves are over. */
extern void zen_exec_event(XactEvent event);
extern void zen_exec_subevent(SubXactEvent event, SubTransactionId subxact);

#else

#define zen_exec_install()			((void) 0)
#define zen_exec_init()				((void) 0)
#define zen_exec_params(query)		((query)->params)
#define zen_point_serial(stmt)		0
#define zen_point_reason(why)		((const ZenPointReason *) NULL)

#endif

#endif							/* ZEN_EXEC_H */
