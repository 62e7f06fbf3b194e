/*
 * libraries.h -- zen's place among the libraries of shared_preload_libraries.
 */
#ifndef ZEN_LIBRARIES_H
#define ZEN_LIBRARIES_H

#include "base/compat.h"

#include "access/xact.h"

/*
 * zen_libraries_register -- register zen's two callbacks, and find out whether they are the last to run
 * (zen_xact_is_last); warns if not.
 *
 * Once, from _PG_init, before anything else that zen does there may fail.
 */
extern void zen_libraries_register(XactCallback xact, SubXactCallback subxact);

/*
 * zen_libraries_try -- load the libraries behind zen while its innermost hooks are set.  yield() gives these back; it
 * is called if a library refuses to be loaded, which PostgreSQL then loads in its turn.
 *
 * Last in _PG_init: the libraries find zen as if PostgreSQL had loaded them.
 */
extern void zen_libraries_try(void (*yield) (void));

#endif							/* ZEN_LIBRARIES_H */
