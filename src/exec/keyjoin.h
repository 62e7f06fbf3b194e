/*
 * keyjoin.h -- a nested loop whose inner row is found by a unique key.
 */
#ifndef ZEN_KEYJOIN_H
#define ZEN_KEYJOIN_H

#include "base/compat.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/*
 * zen_keyjoin_looks_ahead -- may a query's key joins read outer rows before they are asked for?
 *
 * To be called before the query is planned.
 */
extern bool zen_keyjoin_looks_ahead(Query *query);

/* zen_keyjoin_mark -- put the node on top of each nested loop of a finished plan that is a key join. */
extern void zen_keyjoin_mark(PlannedStmt *stmt, bool looks_ahead);

/* Register the node.  Once a process, before the first of the above. */
extern void zen_keyjoin_init(void);

#endif							/* ZEN_KEYJOIN_H */
