/*
 * treehooks.h -- what hooks do for indexes of zentree.
 */
#ifndef ZEN_TREEHOOKS_H
#define ZEN_TREEHOOKS_H

#include "base/compat.h"

#include "admin/chain.h"

/* zen_treehooks_changes -- may zen_treehooks_utility() change the statement? */
extern bool zen_treehooks_changes(Node *stmt);

/*
 * zen_treehooks_utility -- link of utility statements.  Before: constraints of zen tables get the access method that
 * zen.default_index names, and trees of a table that becomes a partition, or leaves zen, become btrees.  After: trees
 * whose files were moved are built again.
 */
extern void zen_treehooks_utility(ZenUtility *u);

/* zen_treehooks_created -- an index of a zen table was created, and is not built yet. */
extern void zen_treehooks_created(Oid indexoid);

#endif							/* ZEN_TREEHOOKS_H */
