/*
 * filetime.h -- the time of modification of the pool's files tells of stores.
 *
 * What is stored through a mapping need not change a file's time.  Tools that copy only files that have changed go by
 * it.  filetime.c says which process raises it, and when.
 */
#ifndef ZEN_FILETIME_H
#define ZEN_FILETIME_H

#include "base/compat.h"

#include "base/startup.h"

/*
 * zen_filetime_raise -- the files' times become later, by a second at least, than any listing so far has shown.
 *
 * The pool is open.  Never throws; a file whose time cannot be set is named in the log, once.
 */
extern void zen_filetime_raise(void);

/*
 * zen_filetime_backup_begins -- the same; it waits for the next second rather than have a time in the future.
 */
extern void zen_filetime_backup_begins(void);

/*
 * zen_filetime_round -- the worker, at least once a second: raise the times if something was stored since the last one.
 *
 * *stored: the fences since then; 0: nothing was.  Cheap within the second of the times.  True is returned when nothing
 * was stored for two rounds.  Then the next round may wait: a process that stores raises the times at once, and wakes
 * the worker.
 *
 * zen_filetime_serve -- the worker will have rounds.
 */
extern bool zen_filetime_round(uint64 *stored);
extern void zen_filetime_serve(void);

/*
 * zen_filetime_redone -- the startup process of a copy has stored something: it has rounds by a timer from now on.
 *
 * zen_filetime_redo_ends -- replay has ended: the rounds end, and the times tell of all that was stored.
 */
extern void zen_filetime_redone(void);
extern void zen_filetime_redo_ends(void);

/* zen_filetime_shmem -- postmaster, once the pool is open: the times are raised now, and after stores from now on. */
extern const ZenShmem zen_filetime_shmem;

#endif							/* ZEN_FILETIME_H */
