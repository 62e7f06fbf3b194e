/*
 * dispatch.h -- which part of zen is called at which moment, in which order.
 */
#ifndef ZEN_DISPATCH_H
#define ZEN_DISPATCH_H

#include "base/compat.h"

/*
 * zen_dispatch_register -- register zen's transaction callbacks, and find out whether they are the last to run
 * (zen_xact_is_last); warns if not.
 *
 * Once, from _PG_init, before anything else that zen does there may fail.
 */
extern void zen_dispatch_register(void);

/*
 * zen_dispatch_install_innermost -- set hooks that are to be inside those of libraries behind zen, and load these.
 *
 * Last in _PG_init: the libraries find zen as if PostgreSQL had loaded them.
 */
extern void zen_dispatch_install_innermost(void);

/* zen_dispatch_install -- set all other hooks; once, when all libraries are loaded. */
extern void zen_dispatch_install(void);

#endif							/* ZEN_DISPATCH_H */
