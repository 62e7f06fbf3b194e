/*
 * zenam_copies.h -- no table becomes zen's while copies of this server would not have its rows.
 */
#ifndef ZENAM_COPIES_H
#define ZENAM_COPIES_H

#include "base/compat.h"

#include "utils/rel.h"

extern Size zen_copies_shmem_size(void);
extern void zen_copies_init(void);

/*
 * zen_copies_client -- this process serves a client of physical replication, and counts until its end.
 *
 * Whoever makes a zen table from here on is refused.  A table that the caller then does not find, and that is made all
 * the same, was made by one who has seen this one.
 */
extern void zen_copies_client(void);

/*
 * zen_copies_check_new -- the relation has just got its HTable: ERROR if it becomes zen's by that, and there are
 * standbys that would not have its rows.
 *
 * had_one: it had an HTable before.
 */
extern void zen_copies_check_new(Relation rel, char persistence, bool had_one);

#endif							/* ZENAM_COPIES_H */
