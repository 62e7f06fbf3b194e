/*
 * standbyscan.h -- a hot standby: maps from the pool, once.
 */
#ifndef ZEN_STANDBYSCAN_H
#define ZEN_STANDBYSCAN_H

#include "base/compat.h"

/*
 * zen_standby_try_scan -- make the maps, if they are to be made and replay has come far enough; true: nothing is left
 * to be done.  The caller is in no transaction.
 */
extern bool zen_standby_try_scan(void);

#endif							/* ZEN_STANDBYSCAN_H */
