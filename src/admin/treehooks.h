/*
 * treehooks.h -- what a utility statement has to do with indexes of zentree.
 */
#ifndef ZEN_TREEHOOKS_H
#define ZEN_TREEHOOKS_H

#include "base/compat.h"

#include "admin/utility.h"

/*
 * zen_treehooks_before -- before a statement: constraints of zen tables get the access method that zen.default_index
 * names, and trees of a table that becomes a partition, or leaves zen, become btrees.  May change the statement.
 *
 * Result: indexes whose files the statement moves.  zen_treehooks_after() builds them again after it.
 */
extern List *zen_treehooks_before(Node *stmt, const ZenAlterTable *alter);
extern void zen_treehooks_after(Node *stmt, List *moved);

#endif							/* ZEN_TREEHOOKS_H */
