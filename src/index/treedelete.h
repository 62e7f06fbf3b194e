/*
 * treedelete.h -- entries that are taken out, and nodes that become empty.
 */
#ifndef ZEN_TREEDELETE_H
#define ZEN_TREEDELETE_H

#include "base/compat.h"

#include "index/treeread.h"

/*
 * zen_tree_delete -- take entries of a batch out of its leaf: those that are marked in wanted[].
 *
 * False, and nothing is done, if the leaf has changed since it was read.  batch->path follows the change.
 */
extern bool zen_tree_delete(ZenTree *tree, ZenTreeBatch *batch, const bool *wanted);

/*
 * zen_tree_merge_left -- if the node of a path and its left neighbour under the same parent fit into one, and one of
 * them has become small, make one node of them.
 *
 * Nothing is done if anything has changed.  The path is of no use afterwards if the result is true.
 */
extern bool zen_tree_merge_left(ZenTree *tree, const ZenTreePath *path);

/* zen_tree_shrink -- merge the nodes of a level above the leaves; at the top, take a root with one child away. */
extern void zen_tree_shrink(ZenTree *tree, const ZenTreeShape *shape);

#endif							/* ZEN_TREEDELETE_H */
