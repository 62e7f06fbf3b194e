/*
 * pointmemory.h -- what a kept state remembers from one execution to the next, and what it must not.
 */
#ifndef ZEN_POINTMEMORY_H
#define ZEN_POINTMEMORY_H

#include "base/compat.h"

#include "exec/point.h"

/* What an expression has in it for as long as it stays compiled, beside what its functions remember. */
typedef enum ZenMemoryKind
{
	ZEN_MEMORY_NONE,
	ZEN_MEMORY_CATALOGS,		/* what catalogs said when it was compiled */
	ZEN_MEMORY_ANY				/* unknown: the state may not stay */
} ZenMemoryKind;

/*
 * zen_memory_kind -- the most that expressions of a plan, and of the table that it changes, have in them.
 *
 * What domains and functions in SQL bring in is not all seen (zen_memory_find).  Looks at catalogs.  Caller holds the
 * locks that the plan needs.
 */
extern ZenMemoryKind zen_memory_kind(const PlannedStmt *stmt, Plan *plan);

/*
 * zen_memory_find -- note all places of a state, just made, where functions and expressions remember something.
 *
 * Sets memory.unknown if that is not possible: the state serves one execution.
 */
extern void zen_memory_find(ZenPoint *point);

/* zen_memory_forget -- an execution has ended, its tables are open yet: nothing of it is remembered. */
extern void zen_memory_forget(ZenPoint *point);

#endif							/* ZEN_POINTMEMORY_H */
