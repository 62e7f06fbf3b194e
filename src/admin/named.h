/*
 * named.h -- which tables does a utility statement name whose indexes it locks or replaces?
 */
#ifndef ZEN_NAMED_H
#define ZEN_NAMED_H

#include "base/compat.h"

#include "nodes/pg_list.h"

/*
 * zen_named_tables -- OIDs of the tables, and their toast tables, whose old indexes must be there before the
 * statement runs.
 *
 * NIL for statements that use no index of the tables that they name.  Locks nothing, so the list may be out of date.
 * In a transaction.
 */
extern List *zen_named_tables(Node *stmt);

#endif							/* ZEN_NAMED_H */
