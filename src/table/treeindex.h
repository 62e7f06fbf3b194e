/*
 * treeindex.h -- which indexes are zentree's.
 */
#ifndef ZEN_TREEINDEX_H
#define ZEN_TREEINDEX_H

#include "base/compat.h"

#include "nodes/execnodes.h"
#include "utils/rel.h"

/* zen_index_is_tree -- is the index a tree in DRAM, which is gone after each start? */
extern bool zen_index_is_tree(Relation index);

/* zen_index_is_like_btree -- is it one of btree or zentree? */
extern bool zen_index_is_like_btree(Relation index);

/* zen_index_can_stand_in -- is it one for which a tree may stand in on a hot standby? */
extern bool zen_index_can_stand_in(Relation index);

/* zen_index_calls_users -- does the index call functions of users: in expressions, predicate, operator classes? */
extern bool zen_index_calls_users(Relation index);

/* zen_relid_is_tree -- the same of a relation that need not be an index, or be there. */
extern bool zen_relid_is_tree(Oid relid);

/*
 * zen_index_borrow_classes -- let an index of zentree that was just created name the operator classes of btree.
 *
 * PostgreSQL asks some questions of the operator class where it means the order of a btree: foreign keys, proofs that a
 * join finds one row.  Does nothing if it does name them.
 *
 * Refuses a unique tree of a partition where PostgreSQL cannot use it.
 */
extern void zen_index_borrow_classes(Oid indexoid);

/*
 * zen_index_lacks_class -- has btree an operator class for a type by default, of which zentree has no copy that it
 * takes by default?
 */
extern bool zen_index_lacks_class(Oid type);

/* zen_index_make_tree -- let an index that was just created, and is not built, be of zentree and not of btree. */
extern void zen_index_make_tree(Relation index);

/*
 * zen_index_fit_partition -- a table is about to be attached to a partitioned one, both named by the statement: unique
 * trees of it become btrees, as the indexes are that they must fit.  A NOTICE tells of each.
 *
 * Does nothing if the caller owns one of them only, or if the partitioned table has a unique tree (PostgreSQL 18).
 */
extern void zen_index_fit_partition(Oid whole, Oid partition);

/* zen_index_leave_zen -- a zen table is about to get another access method: its trees become btrees, with a notice. */
extern void zen_index_leave_zen(Oid relid);

/*
 * zen_index_open_for_conflict -- open the indexes of a target of INSERT ... ON CONFLICT, if trees are among them: there
 * PostgreSQL would refuse any unique index but a btree.
 */
extern void zen_index_open_for_conflict(ResultRelInfo *target);

/* zen_index_build_again -- REINDEX an index, in the transaction that has it locked. */
extern void zen_index_build_again(Oid indexoid);

#endif							/* ZEN_TREEINDEX_H */
