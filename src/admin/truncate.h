/*
 * truncate.h -- TRUNCATE of zen tables is not decoded.
 */
#ifndef ZEN_TRUNCATE_H
#define ZEN_TRUNCATE_H

#include "base/compat.h"

#include "nodes/parsenodes.h"

/*
 * zen_truncate -- execute a TRUNCATE that reaches zen tables while changes are decoded; false if it is another, which is left
 * to PostgreSQL.  Locks, permissions, errors and effects are PostgreSQL's.
 */
extern bool zen_truncate(TruncateStmt *stmt);

#endif							/* ZEN_TRUNCATE_H */
