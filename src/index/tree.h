/*
 * tree.h -- a B+tree in shared DRAM: descent, insertion, and the entries of a range, a leaf at a time.
 *
 * Readers take no lock and write nothing.  Writers change nodes under the odd version of each (treenode.h).  Comparison
 * functions run when no node is held.  src/index/README has the arguments.
 */
#ifndef ZEN_TREE_H
#define ZEN_TREE_H

#include "base/compat.h"

#include "index/treenode.h"

/* An entry of an inner node that bounds the nodes below. */
typedef struct ZenTreeFence
{
	ZenNode    *node;			/* NULL: none */
	uint64		version;
	int			i;
} ZenTreeFence;

/* The place that a descent has reached.  As long as the versions are the same, all fields are of one moment. */
typedef struct ZenTreePath
{
	ZenNode    *node;
	uint64		version;
	ZenNode    *parent;			/* NULL: node is the root */
	uint64		parent_version;
	int			index;			/* of node among the children */
	int			level;
	int			n;				/* entries of node */
	ZenTreeFence low;			/* entries of node are not before it */
	ZenTreeFence high;			/* ... and before this one */
} ZenTreePath;

/* A leaf that must not have changed: see zen_tree_insert. */
typedef struct ZenTreeGate
{
	ZenNode    *node;
	uint64		version;
	int			n;				/* its entries, if it is the leaf of the entry
								 * to be inserted; or -1: not known */
} ZenTreeGate;

typedef enum ZenTreeResult
{
	ZEN_TREE_DONE,
	ZEN_TREE_THERE,				/* it is in the tree already */
	ZEN_TREE_RETRY,				/* the gate has changed, or may have */
	ZEN_TREE_FULL				/* no DRAM */
} ZenTreeResult;

/*
 * zen_tree_setup -- make an empty tree of one that has been cleared.  False: no DRAM.
 * zen_tree_clear -- free all nodes and tuples.  No other process can reach the tree.
 */
extern bool zen_tree_setup(ZenTree *tree, ZenTreeKind kind, bool nulls);
extern void zen_tree_clear(ZenTree *tree);

/*
 * zen_tree_find -- among the first n entries of a node, how many lie before a position; with upto, before or at it.
 *
 * -1 if the node has changed.  The result is valid if the node still has the version afterwards.  Runs comparison
 * functions.  *equal, if not NULL: the entry found is at the position.
 */
extern int	zen_tree_find(const ZenTree *tree, const ZenTreeShape *shape, ZenNode *node, uint64 version,
						  int level, int n, const ZenTreePos *pos, bool upto, bool *equal);

/*
 * zen_tree_descend -- go to the node of a level that has a position: the one whose entries begin at it, or with
 * backward the one whose entries end before it.  pos NULL: the first node, or with backward the last one.
 *
 * False if another process was in the way: to be called again.  Runs comparison functions, and holds nothing on return.
 * With inserting it stops at the first inner node that is full.
 */
extern bool zen_tree_descend(ZenTree *tree, const ZenTreeShape *shape, const ZenTreePos *pos, bool backward,
							 int level, bool inserting, ZenTreePath *path);

/*
 * zen_tree_insert -- insert an entry: position (ZEN_TIE_TID), flags of the TID's word, and in a tree of TUPLES a tuple,
 * which is copied.
 *
 * With a gate, only if that leaf has not changed; it changes with the insertion.  The tree is whole whatever the
 * result.  Runs comparison functions, and may throw their errors.  Never waits for more than a latch.
 */
extern ZenTreeResult zen_tree_insert(ZenTree *tree, const ZenTreeShape *shape, const ZenTreePos *pos, uint64 flags,
									 IndexTuple tuple, const ZenTreeGate *gate);

/*
 * zen_tree_split -- split the full node at the end of a path, at an entry that goes to the right half, if the node is
 * still what it was.  False: no DRAM.
 *
 * zen_split_point -- such an entry, if the next one is to stand before entry i: entries that come in order leave full
 * nodes behind.
 */
extern bool zen_tree_split(ZenTree *tree, ZenTreePath *path, int at);

static inline int
zen_split_point(int n, int i)
{
	return i == n ? n - 1 - n / 16 : n / 2;
}

/* zen_tree_node_free -- a node that is no longer reachable, and not held, may serve again in this tree. */
extern void zen_tree_node_free(ZenTree *tree, ZenNode *node);

/*
 * zen_tree_tuple_free -- free the tuple of an entry that was taken out of its node.  In a tree without tuples it does
 * nothing.
 */
extern void zen_tree_tuple_free(ZenTree *tree, const ZenTreeSlot *slot);

/* zen_tree_tuple_copy -- give an entry of a tree of TUPLES a copy of its tuple.  False: no DRAM. */
extern bool zen_tree_tuple_copy(ZenTree *tree, ZenTreeSlot *slot);

/* Memory for tuples, which may grow: palloced, or none yet. */
typedef struct ZenTreeSpace
{
	char	   *data;
	Size		size;
} ZenTreeSpace;

/*
 * zen_tree_copy_tuples -- have entries been read from a node of this version?  If so, copy their tuples to *space, and
 * let the entries point to the copies.
 */
extern bool zen_tree_copy_tuples(const ZenTree *tree, ZenNode *node, uint64 version, ZenTreeSlot *slots, int n,
								 ZenTreeSpace *space);

/* Move entries, and make room or close it, in a node that the caller holds or that no other process can reach. */
extern void zen_node_move(const ZenTree *tree, ZenNode *to, int to_i, const ZenNode *from, int from_i, int n,
						  int level);

/* ---------- the entries of a range, a leaf at a time ---------- */

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

#endif							/* ZEN_TREE_H */
