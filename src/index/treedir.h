/*
 * treedir.h -- which index has which tree, and when a tree goes.
 */
#ifndef ZEN_TREEDIR_H
#define ZEN_TREEDIR_H

#include "base/compat.h"

#include "base/startup.h"
#include "access/xact.h"
#include "index/tree.h"

/* zen_treedir_shmem -- make the directory, empty, or attach to it. */
extern const ZenShmem zen_treedir_shmem;

/* zen_treedir_event, zen_treedir_subevent -- trees go with the files that the end of a transaction takes away. */
extern void zen_treedir_event(XactEvent event);
extern void zen_treedir_subevent(SubXactEvent event, SubTransactionId subxact);

/* zen_tree_open -- the tree of an index; NULL: it has none. */
extern ZenTree *zen_tree_open(Relation index);

/* zen_tree_exists -- has a file a tree? */
extern bool zen_tree_exists(const RelFileLocator *loc);

/* zen_tree_need -- the tree of an index; throws if it has none. */
extern ZenTree *zen_tree_need(Relation index);

/* zen_tree_shape -- the shape of the index's tree, from the relation cache: only what is in use of it is set. */
extern void zen_tree_shape(Relation index, const ZenTree *tree, ZenTreeShape *shape);

/*
 * zen_tree_create -- an empty tree for an index that is being built, in place of any that it has.
 *
 * The tree goes with the index's file: at the end of the transaction that drops it, or has made it and aborts.  Caller
 * has the index for itself.  Throws ERRCODE_OUT_OF_MEMORY.
 */
extern ZenTree *zen_tree_create(Relation index, ZenTreeKind kind, bool nulls);

/*
 * zen_tree_is_built -- that tree is whole; if the transaction, or subtransaction, aborts before, its nodes are freed,
 * and zen_tree_need() throws until another build.
 */
extern void zen_tree_is_built(ZenTree *tree);

/*
 * zen_tree_adopt -- a whole tree that no other process can reach becomes the index's.
 *
 * Caller has the index for itself, and zen_tree_exists() has said that it has none.  Throws nothing.
 */
extern void zen_tree_adopt(Relation index, ZenTree *tree);

/* zen_tree_put -- zen_tree_insert() that makes room where DRAM is full, or throws ERRCODE_OUT_OF_MEMORY. */
extern ZenTreeResult zen_tree_put(ZenTree *tree, const ZenTreeShape *shape, const ZenTreePos *pos, uint64 flags,
								  IndexTuple tuple, const ZenTreeGate *gate);

/* zen_tree_database_dropped -- the trees of a database go if this transaction commits. */
extern void zen_tree_database_dropped(Oid db);

/* zen_tree_settle -- a prepared transaction has ended: free trees whose files it has taken away. */
extern void zen_tree_settle(void);

/* One tree, for views. */
typedef struct ZenTreeInfo
{
	RelFileLocator loc;
	ZenTreeKind kind;
	int			height;
	uint64		nodes;
	uint64		bytes;
} ZenTreeInfo;

/* zen_tree_list -- the trees of this database, palloced. */
extern ZenTreeInfo *zen_tree_list(int *n);

#endif							/* ZEN_TREEDIR_H */
