/*
 * zentree_vacuum.c -- VACUUM of a tree: entries that lead nowhere go, and small nodes are merged.
 *
 * src/index/README, "Deletion", has the walk over the leaves.  It holds nothing while it calls back, and waits for no
 * other process.  Only VACUUM merges nodes.  It takes parent, left and right node by one attempt each.
 */
#include "index/zentree.h"

#include "commands/vacuum.h"
#include "miscadmin.h"

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

/* All three nodes are held.  Returns the entry between left and right, which above the leaves goes down into left. */
static ZenTreeSlot
merge(ZenTree *tree, ZenNode *parent, int i, ZenNode *left, ZenNode *right)
{
	ZenTreeSlot between;

	zen_node_get(tree, parent, tree->inner_room, i, &between);
	if (left->level > 0)
	{
		zen_node_put(tree, left, tree->inner_room, left->n, &between);
		memcpy(zen_node_children(tree, left) + left->n + 1, zen_node_children(tree, right),
			   (right->n + 1) * sizeof(ZenNode *));
		left->n++;
	}
	zen_node_move(tree, left, left->n, right, 0, right->n, left->level);
	left->n += right->n;
	right->n = 0;
	take_child(tree, parent, i);
	return between;
}

/* Is one node better than two? */
static bool
is_worth(const ZenTree *tree, int level, int left, int right)
{
	int			room = zen_node_room(tree, level);
	int			all = left + right + (level > 0 ? 1 : 0);

	return all <= (left == 0 || right == 0 ? room : room * 3 / 4);
}

/*
 * If the node of a path and its left neighbour under the same parent fit into one, and one of them has become small,
 * make one node of them.  The path is of no use afterwards.  Nothing is done if anything has changed.
 */
static void
merge_left(ZenTree *tree, const ZenTreePath *path)
{
	ZenNode    *parent = path->parent;
	ZenNode    *left;
	ZenNode    *right = path->node;
	uint64		left_version;

	if (parent == NULL || path->index == 0 || !zen_node_try_lock(parent, path->parent_version))
		return;
	left = zen_node_children(tree, parent)[path->index - 1];
	left_version = pg_atomic_read_u64(&left->version);
	pg_read_barrier();
	if ((left_version & 1) == 0 && is_worth(tree, path->level, left->n, path->n) &&
		zen_node_try_lock(left, left_version))
	{
		if (zen_node_try_lock(right, path->version))
		{
			ZenTreeSlot between = merge(tree, parent, path->index - 1, left, right);

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
			if (path->level == 0)
				zen_tree_tuple_free(tree, &between);
			return;
		}
		zen_node_unlock_same(left, left_version);
	}
	zen_node_unlock_same(parent, path->parent_version);
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
			if (!zen_tree_copy_tuples(tree, path->high.node, path->high.version, &batch->fence, 1,
									  &batch->fence_space))
				continue;
		}
		merge_left(tree, path);
		if (path->high.node == NULL)
			break;
		zen_batch_next(shape, batch, &pos);
		begun = true;
	}
	zen_batch_end(batch);
	pfree(batch);
}

/* Merge the nodes of each level above the leaves; at the top, take roots with one child away. */
static void
vacuum_shrink(ZenTree *tree, const ZenTreeShape *shape)
{
	for (int level = 1; level < tree->root->level; level++)
		shrink_level(tree, shape, level);
	while (lower_root(tree))
		;
}

/* ---------- the walk ---------- */

typedef struct Walk
{
	ZenTree    *tree;
	ZenTreeShape shape;
	ZenTreeBatch batch;
	ZenTreePos	pos;
	bool		begun;			/* pos is set */
	IndexBulkDeleteCallback callback;
	void	   *state;
	IndexBulkDeleteResult *stats;
} Walk;

/* Ask about each entry of the batch; the number of those that go. */
static int
vacuum_judge(Walk *w, bool *wanted)
{
	int			n = 0;

	for (int i = 0; i < w->batch.n; i++)
	{
		ItemPointerData tid;

		zen_tid_of_word(w->batch.slots[i].tid, &tid);
		wanted[i] = w->callback(&tid, w->state);
		n += wanted[i];
	}
	return n;
}

/* One leaf; false: it is to be read again. */
static bool
vacuum_visit(Walk *w)
{
	bool		wanted[ZEN_NODE_SLOTS];
	int			n;

	zen_tree_read(w->tree, &w->shape, w->begun ? &w->pos : NULL, NULL, false, &w->batch);
	n = vacuum_judge(w, wanted);
	if (n > 0 && !zen_tree_delete(w->tree, &w->batch, wanted))
		return false;
	w->stats->tuples_removed += n;
	w->stats->num_index_tuples += w->batch.n - n;
	merge_left(w->tree, &w->batch.path);
	return true;
}

/* From one end of the tree to the other. */
static void
walk_leaves(Walk *w, ZenTree *tree, Relation index)
{
	w->tree = tree;
	zen_shape_make(&w->shape, index, tree->kind, tree->nulls);
	zen_batch_init(&w->batch);
	do
	{
		zen_vacuum_delay_point();
		while (!vacuum_visit(w))
			;
		if (w->batch.more)
			zen_batch_next(&w->shape, &w->batch, &w->pos);
		w->begun = true;
	} while (w->batch.more);
	vacuum_shrink(tree, &w->shape);
	pg_atomic_write_u64(&tree->entries, (uint64) w->stats->num_index_tuples);
	zen_batch_end(&w->batch);
}

IndexBulkDeleteResult *
zentree_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback, void *state)
{
	Walk	   *w = palloc0(sizeof(Walk));
	ZenTree    *tree = zen_tree_open(info->index);

	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	stats->num_index_tuples = 0;
	/* it could not be built: no process reads or writes it */
	if (tree == NULL || tree->root == NULL)
	{
		Assert(!info->index->rd_index->indisvalid);
		return stats;
	}
	w->callback = callback;
	w->state = state;
	w->stats = stats;
	walk_leaves(w, tree, info->index);
	stats->num_pages = (BlockNumber) ((uint64) pg_atomic_read_u32(&tree->nodes) * ZEN_NODE_SIZE / BLCKSZ + 1);
	pfree(w);
	return stats;
}

void
zentree_clean(ZenTree *tree, Relation index, IndexBulkDeleteCallback callback, void *state)
{
	Walk	   *w = palloc0(sizeof(Walk));
	IndexBulkDeleteResult stats = {0};

	w->callback = callback;
	w->state = state;
	w->stats = &stats;
	walk_leaves(w, tree, index);
	pfree(w);
}
