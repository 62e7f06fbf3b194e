/*
 * pointrow.h -- the rows of a point access: named by keys, found, locked and changed, one after the other.
 */
#ifndef ZEN_POINTROW_H
#define ZEN_POINTROW_H

#include "base/compat.h"

#include "exec/point.h"

/* zen_pointrow_init -- prepare the keys of a state that is being made; its scan is started. */
extern void zen_pointrow_init(ZenPoint *point);

/* zen_point_begin_read, zen_point_end_read -- take the execution's keys; give the index back.  The table is open. */
extern void zen_point_begin_read(ZenPoint *point);
extern void zen_point_end_read(ZenPoint *point);

/*
 * zen_point_next -- bring the next row with one of the keys, which the snapshot sees and further quals hold for, into
 * the scan's slot.  False if there is none.
 */
extern bool zen_point_next(ZenPoint *point);

/* zen_point_lock -- lock the row in the scan's slot, as LockRows does.  False: it is not to be returned. */
extern bool zen_point_lock(ZenPoint *point);

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

#endif							/* ZEN_POINTROW_H */
