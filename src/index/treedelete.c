/*
 * treedelete.c -- entries that are taken out, and nodes that become empty.
 *
 * Only VACUUM merges nodes.  It holds parent, left and right node, which it takes by one attempt each.  The right node
 * is emptied into the left one.  A reader on its way to either of them finds the parent changed, and begins again.
 */
#include "index/treedelete.h"

#include "miscadmin.h"

/* Free the tuples of entries that are in no node any more. */
static void
free_tuples(ZenTree *tree, const ZenTreeSlot *slots, int n)
{
	for (int i = 0; i < n && tree->kind == ZEN_TREE_TUPLES; i++)
		zen_tree_tuple_free(tree, &slots[i]);
}

bool
zen_tree_delete(ZenTree *tree, ZenTreeBatch *batch, const bool *wanted)
{
	ZenNode    *leaf = batch->path.node;
	uint64		version = batch->path.version;
	ZenTreeSlot gone[ZEN_NODE_SLOTS];
	int			ngone = 0;

	if (!zen_node_try_lock(leaf, version))
		return false;
	for (int i = batch->n - 1; i >= 0; i--)
	{
		int			at = batch->first + i;

		if (!wanted[i])
			continue;
		zen_node_get(tree, leaf, tree->leaf_room, at, &gone[ngone++]);
		zen_node_move(tree, leaf, at, leaf, at + 1, leaf->n - at - 1, 0);
		leaf->n--;
	}
	batch->path.n = leaf->n;
	batch->path.version = version + 2;
	zen_node_unlock(leaf, version);
	free_tuples(tree, gone, ngone);
	return true;
}

/* ---------- merging ---------- */

/* Entry i of the parent goes, and the child right of it. */
static void
take_child(ZenTree *tree, ZenNode *parent, int i)
{
	ZenNode   **children = zen_node_children(tree, parent);

	zen_node_move(tree, parent, i, parent, i + 1, parent->n - i - 1, parent->level);
	memmove(&children[i + 1], &children[i + 2], (parent->n - i - 1) * sizeof(ZenNode *));
	parent->n--;
}

/* All three nodes are held.  Returns the number of entries that have no node any more. */
static int
merge(ZenTree *tree, ZenNode *parent, int i, ZenNode *left, ZenNode *right, ZenTreeSlot *between)
{
	int			level = left->level;

	zen_node_get(tree, parent, tree->inner_room, i, between);
	if (level > 0)
	{
		zen_node_put(tree, left, tree->inner_room, left->n, between);
		memcpy(zen_node_children(tree, left) + left->n + 1, zen_node_children(tree, right),
			   (right->n + 1) * sizeof(ZenNode *));
		left->n++;
	}
	zen_node_move(tree, left, left->n, right, 0, right->n, level);
	left->n += right->n;
	right->n = 0;
	take_child(tree, parent, i);
	return level > 0 ? 0 : 1;
}

/* Is one node better than two? */
static bool
is_worth(const ZenTree *tree, int level, int left, int right)
{
	int			room = zen_node_room(tree, level);
	int			all = left + right + (level > 0 ? 1 : 0);

	return all <= (left == 0 || right == 0 ? room : room * 3 / 4);
}

bool
zen_tree_merge_left(ZenTree *tree, const ZenTreePath *path)
{
	ZenNode    *parent = path->parent;
	ZenNode    *left;
	ZenNode    *right = path->node;
	uint64		left_version;
	ZenTreeSlot between;
	bool		done = false;

	if (parent == NULL || path->index == 0 || !zen_node_try_lock(parent, path->parent_version))
		return false;
	left = zen_node_children(tree, parent)[path->index - 1];
	left_version = pg_atomic_read_u64(&left->version);
	pg_read_barrier();
	if ((left_version & 1) == 0 && is_worth(tree, path->level, left->n, path->n) &&
		zen_node_try_lock(left, left_version))
	{
		if (zen_node_try_lock(right, path->version))
		{
			int			n = merge(tree, parent, path->index - 1, left, right, &between);

			zen_node_unlock(right, path->version);
			zen_node_unlock(left, left_version);

			/*
			 * a reader that has read the parent before does not go on to the
			 * right node
			 */
			if (ZEN_FAULT(TREE_MERGE_UNSEEN))
				zen_node_unlock_same(parent, path->parent_version);
			else
				zen_node_unlock(parent, path->parent_version);
			zen_tree_node_free(tree, right);
			free_tuples(tree, &between, n);
			return true;
		}
		zen_node_unlock_same(left, left_version);
	}
	zen_node_unlock_same(parent, path->parent_version);
	return done;
}

/* A root with one child takes over its contents. */
static bool
lower_root(ZenTree *tree)
{
	ZenNode    *root = tree->root;
	uint64		version = zen_node_begin(root);
	ZenNode    *child;
	uint64		child_version;

	if (root->level == 0 || root->n > 0 || !zen_node_try_lock(root, version))
		return false;
	child = zen_node_children(tree, root)[0];
	child_version = pg_atomic_read_u64(&child->version);
	if ((child_version & 1) != 0 || !zen_node_try_lock(child, child_version))
	{
		zen_node_unlock_same(root, version);
		return false;
	}
	root->level = child->level;
	root->n = child->n;
	memcpy(root->words, child->words, sizeof(root->words));
	zen_node_unlock(child, child_version);
	zen_node_unlock(root, version);
	zen_tree_node_free(tree, child);
	return true;
}

/* Merge what can be merged of one level. */
static void
shrink_level(ZenTree *tree, const ZenTreeShape *shape, int level)
{
	ZenTreeBatch *batch = palloc(sizeof(ZenTreeBatch));
	ZenTreePos	pos;
	bool		begun = false;

	zen_batch_init(batch);
	for (;;)
	{
		ZenTreePath *path = &batch->path;

		CHECK_FOR_INTERRUPTS();
		if (!zen_tree_descend(tree, shape, begun ? &pos : NULL, false, level, false, path))
			continue;
		if (path->parent == NULL)
			break;
		if (path->high.node != NULL)
		{
			zen_node_get(tree, path->high.node, tree->inner_room, path->high.i, &batch->fence);
			if (tree->kind == ZEN_TREE_TUPLES ?
				!zen_tree_copy_tuples(path->high.node, path->high.version, &batch->fence, 1,
									  &batch->fence_space, &batch->fence_size) :
				!zen_node_is(path->high.node, path->high.version))
				continue;
		}
		(void) zen_tree_merge_left(tree, path);
		if (path->high.node == NULL)
			break;
		zen_batch_next(shape, batch, &pos);
		begun = true;
	}
	zen_batch_end(batch);
	pfree(batch);
}

void
zen_tree_shrink(ZenTree *tree, const ZenTreeShape *shape)
{
	for (int level = 1; level < tree->root->level; level++)
		shrink_level(tree, shape, level);
	while (lower_root(tree))
		;
}
