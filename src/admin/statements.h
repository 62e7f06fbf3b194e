/*
 * statements.h -- counters by statement, for zen_stat_statements().
 */
#ifndef ZEN_STATEMENTS_H
#define ZEN_STATEMENTS_H

#include "base/compat.h"

/* Bytes of shared memory; in shmem_request_hook, where it also asks for a lock. */
extern Size zen_statements_shmem_request(void);

/* In shmem_startup_hook. */
extern void zen_statements_shmem_init(void);

/*
 * zen_statements_register -- register the transaction callback; in _PG_init, before zen_xact_init.
 *
 * Transaction callbacks run in the opposite order, so this one sees the work of zen's own for the commit.
 */
extern void zen_statements_register(void);

/* zen_statements_init -- install hooks; when all libraries are loaded. */
extern void zen_statements_init(void);

#endif							/* ZEN_STATEMENTS_H */
