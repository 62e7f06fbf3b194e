/*
 * pointrun.h -- execution of point accesses.
 */
#ifndef ZEN_POINTRUN_H
#define ZEN_POINTRUN_H

#include "base/compat.h"

/*
 * zen_pointrun_install -- take the executor's hooks, if no library has taken one before; in _PG_init.
 *
 * A library's hook that was there before expects the standard executor.  Then no plan is marked, and nothing changes.
 */
extern void zen_pointrun_install(void);

/* zen_pointrun_init -- take the planner's hook; after other libraries have taken theirs. */
extern void zen_pointrun_init(void);

#endif							/* ZEN_POINTRUN_H */
