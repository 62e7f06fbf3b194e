/*
 * swapped.h -- tools that exchange the files of two relations in pg_class by themselves.
 */
#ifndef ZEN_SWAPPED_H
#define ZEN_SWAPPED_H

#include "base/compat.h"

#include "nodes/primnodes.h"

/*
 * zen_swapped_check -- a relation is dropped, truncated or altered: throws ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE
 * if it is none of zen's, but bears the file number of a zen table, whose rows the command would lose.
 */
extern void zen_swapped_check(Oid relid);

/* zen_swapped_is_copy -- is a table of this name made to take the place of a zen table? */
extern bool zen_swapped_is_copy(RangeVar *rel);

#endif							/* ZEN_SWAPPED_H */
