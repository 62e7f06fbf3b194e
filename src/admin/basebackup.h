/*
 * basebackup.h -- physical copies that would not hold the rows of zen tables are refused.
 */
#ifndef ZEN_BASEBACKUP_H
#define ZEN_BASEBACKUP_H

#include "base/compat.h"

/*
 * zen_basebackup_lacks -- why a base backup that is taken now would not have the rows of zen tables, as a sentence;
 * NULL: it would, or there are none.
 */
extern char *zen_basebackup_lacks(void);

/* A function is about to be run: does it begin or end a base backup without the rows?  ERROR then. */
extern void zen_basebackup_check_function(Oid function);

/*
 * zen_basebackup_ran -- a statement has been run: if it has begun a base backup, the pool's files get their times.
 */
extern bool zen_backup_begins;
extern void zen_basebackup_began(void);

static inline void
zen_basebackup_ran(void)
{
	if (unlikely(zen_backup_begins))
		zen_basebackup_began();
}

/* Install the hook that looks at new physical replication connections. */
extern void zen_basebackup_init(void);

#endif							/* ZEN_BASEBACKUP_H */
