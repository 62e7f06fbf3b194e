/*
 * ownxact.h -- work in a transaction, or with a snapshot, of its own.
 */
#ifndef ZEN_OWNXACT_H
#define ZEN_OWNXACT_H

#include "base/compat.h"

/* zen_own_snapshot -- push the transaction's snapshot if none is active; true: the caller pops it. */
extern bool zen_own_snapshot(void);

/*
 * zen_own_transaction -- do work(arg) in a transaction of its own, with an active snapshot.
 *
 * The process is connected and in no transaction, before and after.  Never throws: *error is NULL if all went well,
 * else the error, in the caller's memory context.  The error was reported then, and the transaction aborted.
 */
extern void zen_own_transaction(void (*work) (void *), void *arg, ErrorData **error);

#endif							/* ZEN_OWNXACT_H */
