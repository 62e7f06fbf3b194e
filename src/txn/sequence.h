/*
 * sequence.h -- log-free commits and PostgreSQL's sequences.
 */
#ifndef ZEN_SEQUENCE_H
#define ZEN_SEQUENCE_H

#include "base/compat.h"

/*
 * zen_sequence_init: in shmem_startup_hook; zen_sequence_install: when all libraries are loaded, watches messages to
 * clients.
 */
extern Size zen_sequence_shmem_size(void);
extern void zen_sequence_init(void);
extern void zen_sequence_install(void);

/*
 * zen_sequence_publish -- the numbers that this transaction knows are about to be known to others.
 *
 * From here on no zen-only commit, by any session, becomes durable before the WAL that these sequences need
 * (zen_sequence_flush).  Called for every transaction, before its commit.  May throw.
 */
extern void zen_sequence_publish(void);

/* zen_sequence_publish_prepare -- the same before PREPARE: writes no WAL. */
extern void zen_sequence_publish_prepare(void);

/* zen_sequence_publish_abort -- the same in the abort of a transaction: reads no catalog.  Locks are still held. */
extern void zen_sequence_publish_abort(void);

/* zen_sequence_logged_alone -- is nextval()'s the one WAL record of this transaction?  After zen_sequence_publish(). */
extern bool zen_sequence_logged_alone(void);

/*
 * zen_sequence_extend -- log numbers ahead in the sequence that zen_sequence_logged_alone() has told of.
 *
 * So nextval() need not log any for longer.  zen_sequence_flush() must follow.  May throw.
 */
extern void zen_sequence_extend(void);

/*
 * zen_sequence_flush -- flush the WAL as far as published sequences need it, that of this transaction included.
 *
 * Called before a zen-only commit becomes durable.  Mostly it has nothing to do.  May throw.
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
