/*
 * pointstate.h -- executor state that outlives an execution, kept by the serial number of a plan.
 */
#ifndef ZEN_POINTSTATE_H
#define ZEN_POINTSTATE_H

#include "base/compat.h"

#include "exec/point.h"

/*
 * zen_pointstate_of -- *point gets the state kept for a plan.  Result: why it may not be executed with it now.
 *
 * Makes it at the second execution, under query's snapshot.  Permissions are checked then, and whenever they may have
 * changed.  Throws what ExecutorStart throws.
 */
extern ZenPointWhy zen_pointstate_of(uint32 serial, QueryDesc *query, ZenPoint **point);

/* zen_pointstate_running -- the state with which a query is being executed; NULL if it is executed otherwise. */
extern ZenPoint *zen_pointstate_running(const QueryDesc *query);

/*
 * zen_pointstate_open -- open the tables.  False: one is described anew, and the state is not valid any more.
 *
 * An error from here to zen_pointstate_end leaves them to the resource owner.
 */
extern bool zen_pointstate_open(ZenPoint *point);

/* zen_pointstate_begin, zen_pointstate_end -- an execution begins, or has ended in an orderly way. */
extern void zen_pointstate_begin(ZenPoint *point, QueryDesc *query, int eflags);
extern void zen_pointstate_end(ZenPoint *point);

/*
 * zen_pointstate_forget -- an error, or the end of a transaction, has ended the executions that began in this
 * subtransaction or a later one; InvalidSubTransactionId: all.  What they held is gone already.
 */
extern void zen_pointstate_forget(SubTransactionId from);

/* Register callbacks.  Once a process, before the first call of the above. */
extern void zen_pointstate_init(void);

#endif							/* ZEN_POINTSTATE_H */
