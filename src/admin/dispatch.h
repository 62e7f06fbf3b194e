/*
 * dispatch.h -- which part of zen is called at which moment, in which order.
 */
#ifndef ZEN_DISPATCH_H
#define ZEN_DISPATCH_H

#include "base/compat.h"

/* zen_dispatch_register -- register the transaction callbacks; in _PG_init, before anything else. */
extern void zen_dispatch_register(void);

/* zen_dispatch_install_innermost -- set hooks that are to be inside those of libraries behind zen; last in _PG_init. */
extern void zen_dispatch_install_innermost(void);

/* zen_dispatch_install -- set all other hooks; once, when all libraries are loaded. */
extern void zen_dispatch_install(void);

#endif							/* ZEN_DISPATCH_H */
