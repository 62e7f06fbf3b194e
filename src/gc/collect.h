/*
 * collect.h -- collecting rows.
 *
 * When the xid horizon has passed a version's writer (R12), the versions that it superseded go, and the version itself
 * is frozen.
 */
#ifndef ZEN_COLLECT_H
#define ZEN_COLLECT_H

#include "cache/version.h"

/*
 * zen_collect_run -- handle at most max items whose time has come; returns how many.
 *
 * A block of spilled rows counts for 64.  Lease holder; outside any epoch.  Never throws.
 */
extern uint32 zen_collect_run(uint32 region, uint32 max);

/*
 * zen_collect_tuple -- freeze the newest version of a tuple that is behind the horizon, and collect all that it
 * superseded.
 *
 * False if that must be tried again, when there is more DRAM.  Outside any epoch.  Never throws.
 */
extern bool zen_collect_tuple(ZenHTable *ht, uint64 tidno);

/*
 * zen_collect_forget_header -- R5: an intact header of a tuple is no more (overwritten and fenced, or its page is
 * gone).
 *
 * Outside any epoch.  Never throws.
 */
extern void zen_collect_forget_header(ZenTupleHeader header);

#endif							/* ZEN_COLLECT_H */
