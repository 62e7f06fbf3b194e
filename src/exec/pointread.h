/*
 * pointread.h -- find, and lock, the rows of a point access.
 */
#ifndef ZEN_POINTREAD_H
#define ZEN_POINTREAD_H

#include "base/compat.h"

#include "access/tableam.h"
#include "exec/point.h"

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

/* zen_point_follow -- a change has met a newer version: lock that; does it still have the key, and do quals hold? */
extern bool zen_point_follow(ZenPoint *point, ItemPointer tid, LockTupleMode mode);

/*
 * zen_point_self_modified -- a change has met a version that this transaction has made since: an error unless this
 * very statement has.
 */
extern void zen_point_self_modified(ZenPoint *point, const TM_FailureData *tmfd);

#endif							/* ZEN_POINTREAD_H */
