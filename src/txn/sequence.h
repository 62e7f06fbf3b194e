/*
 * sequence.h -- log-free commits and PostgreSQL's sequences.
 */
#ifndef ZEN_SEQUENCE_H
#define ZEN_SEQUENCE_H

#include "base/compat.h"

#include "base/startup.h"
#include "access/xact.h"

/* zen_sequence_shmem -- in shmem_startup_hook. */
extern const ZenShmem zen_sequence_shmem;

/* zen_sequence_message -- a message of this type is about to be sent to the client: it may bear a number. */
extern void zen_sequence_message(char type);

/*
 * zen_sequence_publish -- before a commit or PREPARE, and in an abort: the numbers that this transaction knows are
 * about to be known to others.
 *
 * From here on no zen-only commit, by any session, becomes durable before the WAL that these sequences need
 * (zen_sequence_flush).  Called for every transaction, while its locks are still held.  Before PREPARE it writes no
 * WAL; in an abort it reads no catalog, and does not throw.
 */
extern void zen_sequence_publish(XactEvent event);

/* zen_sequence_logged_alone -- is nextval()'s the one WAL record of this transaction?  After zen_sequence_publish(). */
extern bool zen_sequence_logged_alone(void);

/*
 * zen_sequence_flush -- flush the WAL as far as published sequences need it, that of this transaction included.
 *
 * Called before a zen-only commit becomes durable.  Mostly it has nothing to do.  If nextval() has logged, numbers are
 * first logged ahead, so that it need not log any for longer.  PostgreSQL has nothing to flush then.  May throw.
 */
extern void zen_sequence_flush(void);

/*
 * zen_sequence_subabort -- a savepoint was rolled back, as first of all its callbacks.
 *
 * The record that says so makes no transaction mixed: it needs to be on disk no sooner than the commit record.
 */
extern void zen_sequence_subabort(void);

/* zen_sequence_end -- a transaction has ended, and all of its WAL is written. */
extern void zen_sequence_end(void);

#endif							/* ZEN_SEQUENCE_H */
