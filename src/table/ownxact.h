/*
 * ownxact.h -- one piece of a background process's work, in a transaction of its own.
 */
#ifndef ZEN_OWNXACT_H
#define ZEN_OWNXACT_H

#include "base/compat.h"

/*
 * zen_own_transaction -- do work(arg) in a transaction of its own, with an active snapshot.
 *
 * The process is connected and in no transaction, before and after.  Never throws: *error is NULL if all went well, else the
 * error, in the caller's memory context.  The error was reported then, and the transaction aborted.
 */
extern void zen_own_transaction(void (*work) (void *), void *arg, ErrorData **error);

#endif							/* ZEN_OWNXACT_H */
