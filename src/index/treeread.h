/*
 * treeread.h -- the entries of a range, a leaf at a time: read, and taken out.
 */
#ifndef ZEN_TREEREAD_H
#define ZEN_TREEREAD_H

#include "base/compat.h"

#include "index/tree.h"

/* Some entries in order, and where the next ones are. */
typedef struct ZenTreeBatch
{
	int			n;
	bool		more;			/* there may be others of the range beyond */
	bool		backward;
	ZenTreeSlot fence;			/* if more: they begin, or end, here */
	ZenTreePath path;			/* the leaf of which all is a copy */
	int			first;			/* entry of it that slots[0] is */
	ZenTreeSlot slots[ZEN_NODE_SLOTS];
	ZenTreeSpace space;			/* of the tuples of slots */
	ZenTreeSpace fence_space;	/* of fence */
	ZenTreeSpace next_space;	/* of a position made by zen_batch_next */
} ZenTreeBatch;

/* zen_batch_init -- make a batch in memory of any contents; zen_batch_end frees what it has palloced. */
extern void zen_batch_init(ZenTreeBatch *batch);
extern void zen_batch_end(ZenTreeBatch *batch);

/*
 * zen_tree_read -- read the entries of one leaf between two positions: the first of the range, or with backward the
 * last.
 *
 * NULL stands for the end of the tree.  An entry at `from` is in the range, an entry at `to` is not.  The batch may be
 * empty while there are more.  Memory is of the current context.  Runs comparison functions.
 */
extern void zen_tree_read(ZenTree *tree, const ZenTreeShape *shape, const ZenTreePos *from, const ZenTreePos *to,
						  bool backward, ZenTreeBatch *batch);

/* zen_batch_next -- the batch's fence, and its position.  They live until the next call.  Once for each fence. */
extern ZenTreeSlot zen_batch_next(const ZenTreeShape *shape, ZenTreeBatch *batch, ZenTreePos *pos);

/*
 * zen_tree_delete -- take entries of a batch out of its leaf: those that are marked in wanted[].
 *
 * False, and nothing is done, if the leaf has changed since it was read.  batch->path follows the change.
 */
extern bool zen_tree_delete(ZenTree *tree, ZenTreeBatch *batch, const bool *wanted);

#endif							/* ZEN_TREEREAD_H */
