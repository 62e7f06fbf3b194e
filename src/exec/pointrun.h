/*
 * pointrun.h -- execution of point accesses.
 */
#ifndef ZEN_POINTRUN_H
#define ZEN_POINTRUN_H

#include "base/compat.h"

/*
 * zen_pointrun_install -- take the executor's hooks, unless it is done or a library has taken one before.
 *
 * A library's hook that was there before expects the standard executor.  Then no plan is marked, and nothing changes.
 * So it is best done early, in _PG_init: zen_pointrun_install_early.  But some libraries, as Citus, refuse to be loaded
 * when a hook is taken.  With libraries behind zen that are not known it is done in shmem_request_hook, before zen's
 * other hooks of the executor.
 */
extern void zen_pointrun_install_early(void);
extern void zen_pointrun_install(void);

/* zen_pointrun_init -- take the hooks of parser and planner; after other libraries have taken theirs. */
extern void zen_pointrun_init(void);

#endif							/* ZEN_POINTRUN_H */
