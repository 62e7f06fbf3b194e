/*
 * treehooks.h -- what hooks do for indexes of zentree.
 */
#ifndef ZEN_TREEHOOKS_H
#define ZEN_TREEHOOKS_H

#include "base/compat.h"

#include "executor/execdesc.h"
#include "nodes/parsenodes.h"

/* zen_treehooks_changes -- may zen_treehooks_before() change the statement? */
extern bool zen_treehooks_changes(Node *stmt);

/*
 * zen_treehooks_before -- before a utility statement: give constraints of zen tables the access method that
 * zen.default_index names.  May change the tree.  The result is for zen_treehooks_after(), when the statement has run:
 * an index whose file the statement moves.
 */
extern List *zen_treehooks_before(Node *stmt);
extern void zen_treehooks_after(Node *stmt, List *moved);

/* zen_treehooks_created -- an index of a zen table was created, and is not built yet. */
extern void zen_treehooks_created(Oid indexoid);

/*
 * zen_treehooks_started -- the executor has been started: open the indexes of targets of INSERT ... ON CONFLICT, where
 * PostgreSQL would refuse any unique index but a btree.
 */
extern void zen_treehooks_started(QueryDesc *query, int eflags);

#endif							/* ZEN_TREEHOOKS_H */
