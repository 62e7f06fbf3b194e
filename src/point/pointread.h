/*
 * pointread.h -- find, and lock, the row of a point access.
 */
#ifndef ZEN_POINTREAD_H
#define ZEN_POINTREAD_H

#include "base/compat.h"

#include "access/tableam.h"
#include "point/pointstate.h"

/*
 * zen_point_fetch -- bring the row that the key names, and that the snapshot sees, into the scan's slot.
 *
 * False if there is none, or further quals do not hold.  The table is open.
 */
extern bool zen_point_fetch(ZenPoint *point);

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
