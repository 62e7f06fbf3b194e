/*
 * damage.h -- telling users of a row that cannot be read.
 */
#ifndef ZEN_DAMAGE_H
#define ZEN_DAMAGE_H

#include "base/compat.h"
#include "nvm/layout.h"

/*
 * zen_tuple_corrupted -- the row at slot cannot be read: throws ERRCODE_DATA_CORRUPTED naming it.
 * zen_tuple_unreadable -- a reader has met such a row: a warning if zen.skip_damaged_rows is on, else the same error.
 *
 * Both leave the epoch, if the caller is inside, before they report.
 */
pg_noreturn extern void zen_tuple_corrupted(ZenSlot slot, uint64 tidno);
extern void zen_tuple_unreadable(ZenSlot slot, uint64 tidno);

#endif							/* ZEN_DAMAGE_H */
