/*
 * pointkeys.h -- the keys that a point access names: one, or one for each element of a list.
 */
#ifndef ZEN_POINTKEYS_H
#define ZEN_POINTKEYS_H

#include "base/compat.h"

#include "exec/point.h"

/* zen_pointkeys_init -- prepare the keys of a state that is being made; its scan is started. */
extern void zen_pointkeys_init(ZenPoint *point);

/* zen_pointkeys_begin -- take the execution's values.  False: there is no key, since NULL equals nothing. */
extern bool zen_pointkeys_begin(ZenPoint *point);

/* zen_pointkeys_next -- let point->scan_keys be the next key, in the order of the scan.  False: it is the last. */
extern bool zen_pointkeys_next(ZenPoint *point);

/* zen_pointkeys_end -- forget the values. */
extern void zen_pointkeys_end(ZenPoint *point);

#endif							/* ZEN_POINTKEYS_H */
