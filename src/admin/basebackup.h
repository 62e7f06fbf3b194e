/*
 * basebackup.h -- physical copies do not hold zen tables: say so when one begins.
 */
#ifndef ZEN_BASEBACKUP_H
#define ZEN_BASEBACKUP_H

#include "base/compat.h"

/* A function is about to be run: is it one that begins a base backup?  WARNING if there are zen tables. */
extern void zen_basebackup_check_function(Oid function);

/* Install the hook that looks at new physical replication connections. */
extern void zen_basebackup_init(void);

#endif							/* ZEN_BASEBACKUP_H */
