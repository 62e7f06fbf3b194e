/*
 * truncate.h -- TRUNCATE of zen tables is not decoded.
 */
#ifndef ZEN_TRUNCATE_H
#define ZEN_TRUNCATE_H

#include "base/compat.h"

/*
 * zen_truncate_init -- install the utility hook that executes TRUNCATE of zen tables while changes are decoded; in
 * _PG_init, before zen's other utility hooks, which have their part in the statement.  Locks, permissions, errors and
 * effects are PostgreSQL's.
 */
extern void zen_truncate_init(void);

#endif							/* ZEN_TRUNCATE_H */
