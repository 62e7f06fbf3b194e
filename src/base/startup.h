/*
 * startup.h -- what zen asks of the server when it starts: LWLocks, background processes, SQL objects of its version.
 */
#ifndef ZEN_STARTUP_H
#define ZEN_STARTUP_H

#include "base/compat.h"

#include "postmaster/bgworker.h"

/*
 * A module's part of shared memory; zen_am.c has the list of all.
 *
 * bytes: its size, maybe 0; if that depends on settings, size tells it, asked once in shmem_request_hook.  init: in
 * shmem_startup_hook, makes the part, or attaches to it; after a crash of a backend the postmaster makes it again.
 */
typedef struct ZenShmem
{
	Size		bytes;
	Size		(*size) (void); /* NULL: see bytes */
	void		(*init) (void);
} ZenShmem;

/* How many processes may have a PGPROC; its users include access/twophase.h, miscadmin.h and storage/proc.h. */
#define zen_nprocs()	(MaxBackends + NUM_AUXILIARY_PROCS + max_prepared_xacts)

/* zen_locks_request -- ask for the locks of base/locks.h, in shmem_request_hook; zen_locks_init -- find them later. */
extern void zen_locks_request(void);
extern void zen_locks_init(void);

/*
 * zen_bgworker_describe -- describe a background process named name.
 *
 * It runs the exported function of zen's library with arg and may connect to a database.  It starts once PostgreSQL's
 * own recovery is over.  restart_s: seconds until it is started again after it has failed, or BGW_NEVER_RESTART.
 */
extern void zen_bgworker_describe(BackgroundWorker *worker, const char *name, const char *function, Datum arg,
								  int restart_s);

/* zen_bgworker_register -- at postmaster start; false if there is no slot for it, and PostgreSQL has logged that. */
extern bool zen_bgworker_register(BackgroundWorker *worker);

/* zen_sql_differs -- throws: the extension's SQL objects in the database are of another version than the library. */
pg_noreturn extern void zen_sql_differs(void);

#endif							/* ZEN_STARTUP_H */
