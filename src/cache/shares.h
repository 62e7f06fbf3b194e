/*
 * shares.h -- the shares of tables in the Met-Cache.
 */
#ifndef ZEN_SHARES_H
#define ZEN_SHARES_H

#include "base/compat.h"

/*
 * zen_shares_plan -- zen's worker: plan the shares of a cache of so many bytes anew if it is time, or drop them if
 * zen.met_cache_split is off.
 */
extern void zen_shares_plan(uint64 capacity);

#endif							/* ZEN_SHARES_H */
