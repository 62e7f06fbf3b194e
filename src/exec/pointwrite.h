/*
 * pointwrite.h -- the change that a point access makes.
 */
#ifndef ZEN_POINTWRITE_H
#define ZEN_POINTWRITE_H

#include "base/compat.h"

#include "exec/pointstate.h"

/*
 * zen_point_insert, zen_point_update, zen_point_delete -- make the change, with all that hangs on it: generated
 * columns, constraints, indexes, AFTER ROW triggers.
 *
 * Update and delete change the row in the scan's slot.  The result is the slot with the row that RETURNING is about,
 * NULL if nothing was changed.
 */
extern TupleTableSlot *zen_point_insert(ZenPoint *point);
extern TupleTableSlot *zen_point_update(ZenPoint *point);
extern TupleTableSlot *zen_point_delete(ZenPoint *point);

#endif							/* ZEN_POINTWRITE_H */
