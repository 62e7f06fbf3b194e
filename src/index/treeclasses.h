/*
 * treeclasses.h -- operator classes of zentree: copies of those of btree.
 */
#ifndef ZEN_TREECLASSES_H
#define ZEN_TREECLASSES_H

#include "base/compat.h"

/* zen_treeclasses_copy -- make those that are missing: in pg_catalog only, or in all schemas.  In a transaction. */
extern void zen_treeclasses_copy(bool all_schemas);

#endif							/* ZEN_TREECLASSES_H */
