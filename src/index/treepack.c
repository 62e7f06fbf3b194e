/*
 * treepack.c -- a tree that a build has left half empty takes less memory.
 *
 * Entries that come in many runs, each of them all over the keys, split leaves that are full, and more at a time than
 * single ones would.  So the leaves of each node above them are filled anew.  Inner nodes stay: they are few.
 */
#include "index/treefill.h"

#include "base/arena.h"
#include "miscadmin.h"

/* Entries of the leaves of one node, and the bounds that these leaves are to get. */
typedef struct Packer
{
	ZenTree    *tree;
	int			n;
	int			nleaves;		/* wanted */
	ZenTreeSlot bounds[ZEN_NODE_SLOTS];
	ZenTreeSlot slots[ZEN_NODE_SLOTS * (ZEN_NODE_SLOTS + 1)];
} Packer;

static int
first_of(const Packer *packer, int leaf)
{
	return (int) ((int64) packer->n * leaf / packer->nleaves);
}

static void
read_leaves(Packer *packer, ZenNode *parent)
{
	ZenTree    *tree = packer->tree;
	int			full = tree->leaf_room - tree->leaf_room / 16;

	packer->n = 0;
	for (int c = 0; c <= parent->n; c++)
	{
		ZenNode    *leaf = zen_node_children(tree, parent)[c];

		for (int i = 0; i < leaf->n; i++)
			zen_node_get(tree, leaf, tree->leaf_room, i, &packer->slots[packer->n++]);
	}
	packer->nleaves = Max((packer->n + full - 1) / full, 1);
}

/* The least entries of all leaves but the first, with tuples of their own; false: no DRAM. */
static bool
make_bounds(Packer *packer)
{
	for (int leaf = 1; leaf < packer->nleaves; leaf++)
	{
		ZenTreeSlot *bound = &packer->bounds[leaf - 1];

		*bound = packer->slots[first_of(packer, leaf)];
		if (packer->tree->kind != ZEN_TREE_TUPLES || zen_tree_tuple_copy(packer->tree, bound))
			continue;
		while (--leaf > 0)
			zen_tree_tuple_free(packer->tree, &packer->bounds[leaf - 1]);
		return false;
	}
	return true;
}

/* Put the packed entries into the leaves of a parent.  Leaves that are left over are freed. */
static void
write_leaves(Packer *packer, ZenNode *parent)
{
	ZenTree    *tree = packer->tree;
	ZenTreeSlot old;

	for (int c = 0; c <= parent->n; c++)
	{
		ZenNode    *leaf = zen_node_children(tree, parent)[c];

		if (c < parent->n && tree->kind == ZEN_TREE_TUPLES)
		{
			zen_node_get(tree, parent, tree->inner_room, c, &old);
			zen_tree_tuple_free(tree, &old);
		}
		if (c >= packer->nleaves)
		{
			zen_arena_free(leaf, ZEN_NODE_SIZE);
			pg_atomic_fetch_sub_u32(&tree->nodes, 1);
			continue;
		}
		leaf->n = first_of(packer, c + 1) - first_of(packer, c);
		for (int i = 0; i < leaf->n; i++)
			zen_node_put(tree, leaf, tree->leaf_room, i, &packer->slots[first_of(packer, c) + i]);
	}
	parent->n = packer->nleaves - 1;
	for (int i = 0; i < parent->n; i++)
		zen_node_put(tree, parent, tree->inner_room, i, &packer->bounds[i]);
}

static void
pack_below(Packer *packer, ZenNode *node)
{
	if (node->level > 1)
	{
		for (int c = 0; c <= node->n; c++)
			pack_below(packer, zen_node_children(packer->tree, node)[c]);
		return;
	}
	CHECK_FOR_INTERRUPTS();
	read_leaves(packer, node);
	if (packer->nleaves <= node->n && make_bounds(packer))
		write_leaves(packer, node);
}

void
zen_tree_pack(ZenTree *tree, uint64 entries)
{
	uint64		room = (uint64) pg_atomic_read_u32(&tree->nodes) * tree->leaf_room;
	Packer	   *packer;

	if (tree->root->level == 0 || entries >= room / 4 * 3)
		return;
	packer = palloc(sizeof(Packer));
	packer->tree = tree;
	pack_below(packer, tree->root);
	pfree(packer);
}
