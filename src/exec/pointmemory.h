/*
 * pointmemory.h -- what a kept state remembers from one execution to the next, and what it must not.
 */
#ifndef ZEN_POINTMEMORY_H
#define ZEN_POINTMEMORY_H

#include "base/compat.h"

#include "exec/point.h"

/*
 * zen_memory_find -- note all places of a state, just made, where functions and expressions remember something.
 *
 * Sets memory.unknown if that is not possible: the state serves one execution.
 */
extern void zen_memory_find(ZenPoint *point);

/* zen_memory_forget -- an execution has ended, its tables are open yet: nothing of it is remembered. */
extern void zen_memory_forget(ZenPoint *point);

#endif							/* ZEN_POINTMEMORY_H */
