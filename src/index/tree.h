/*
 * tree.h -- a B+tree in shared DRAM: descent and insertion.
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
 * zen_tree_words -- the words to search for, to find the first entry whose words do not put it before a position.
 */
static inline ZenWords
zen_tree_words(const ZenTree *tree, const ZenTreePos *pos)
{
	bool		upto = pos->ncmp == 0 && pos->tie == ZEN_TIE_AFTER;

	return zen_words_for(tree, upto ? pos->high : pos->low, upto);
}

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

#endif							/* ZEN_TREE_H */
