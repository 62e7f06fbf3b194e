/*
 * callbacks.h -- zen's place among the transaction callbacks of all libraries.
 */
#ifndef ZEN_CALLBACKS_H
#define ZEN_CALLBACKS_H

#include "base/compat.h"

#include "access/xact.h"

/*
 * No library's callback runs after zen's, so none writes anything after zen's PRE_COMMIT.  Set in the
 * postmaster, before it has children.
 */
extern bool zen_callbacks_last;

/*
 * zen_callbacks_register -- register both callbacks, and find out whether they are the last to run; warns if not.
 *
 * Once, from _PG_init, before anything else that zen does there may fail.
 */
extern void zen_callbacks_register(XactCallback xact, SubXactCallback subxact);

#endif							/* ZEN_CALLBACKS_H */
