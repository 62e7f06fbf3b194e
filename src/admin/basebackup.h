/*
 * basebackup.h -- physical copies that would not hold the rows of zen tables are refused.
 */
#ifndef ZEN_BASEBACKUP_H
#define ZEN_BASEBACKUP_H

#include "base/compat.h"

#include "access/xact.h"
#include "admin/chain.h"

/*
 * zen_basebackup_lacks -- why a base backup that is taken now would not have the rows of zen tables, as a sentence;
 * NULL: it would, or there are none.
 */
extern char *zen_basebackup_lacks(void);

/* A function is about to be run: does it begin or end a base backup without the rows?  ERROR then. */
extern void zen_basebackup_check_function(Oid function);

/* zen_basebackup_run -- link of ExecutorRun.  After: if a base backup has begun, the pool's files get their times. */
extern void zen_basebackup_run(const ZenRunLink *rest, ZEN_EXECUTOR_RUN_ARGS);

/* zen_basebackup_event -- the same before a commit, for a backup that was begun without the executor. */
extern void zen_basebackup_event(XactEvent event);

/*
 * zen_basebackup_client -- this process is a walsender, and counted (zen_clients_enter).  FATAL if its client could get
 * nothing but copies without the rows.  Else its BASE_BACKUP will be looked at.
 */
extern void zen_basebackup_client(void);

#endif							/* ZEN_BASEBACKUP_H */
