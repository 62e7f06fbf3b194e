/*
 * treeread.c -- the entries of a range, a leaf at a time: read, and taken out.
 *
 * A leaf holds the entries between two fences, which stand in nodes above.  A reader copies entries and fence, and then
 * looks at the versions of both nodes: the copy is of one moment.  It goes on from the fence by a descent of its own,
 * in either direction.  So leaves need no links, and it does not matter how leaves are split or merged between two
 * reads.
 *
 * The words choose the entries to be copied.  Comparison functions trim the copy.
 */
#include "index/treeread.h"

#include "base/arena.h"
#include "miscadmin.h"

void
zen_batch_init(ZenTreeBatch *batch)
{
	ZenTreeSpace none = {NULL, 0};

	batch->n = 0;
	batch->more = false;
	batch->space = batch->fence_space = batch->next_space = none;
}

void
zen_batch_end(ZenTreeBatch *batch)
{
	if (batch->space.data != NULL)
		pfree(batch->space.data);
	if (batch->fence_space.data != NULL)
		pfree(batch->fence_space.data);
	if (batch->next_space.data != NULL)
		pfree(batch->next_space.data);
	zen_batch_init(batch);
}

/* The first entry of the leaf that words put behind the range.  Mostly it is near. */
static inline int
find_end(const ZenTree *tree, const ZenNode *leaf, int first, int n, const ZenTreePos *to)
{
	bool		upto = !zen_pos_by_words(to) || to->tie == ZEN_TIE_AFTER;
	ZenWords	words;

	for (int i = first; i < first + 2; i++)
	{
		if (i >= n || zen_node_above(tree, leaf, tree->leaf_room, i, to->high))
		{
			n = i;
			break;
		}
	}
	if (n <= first + 1 && upto)
		return n;
	words = zen_words_for(tree, upto ? to->high : to->low, upto);
	return zen_node_below(tree, leaf, tree->leaf_room, first, n, &words);
}

/* Copy entries of the leaf: all that words do not put out of the range. */
static bool
copy_entries(ZenTree *tree, const ZenTreePos *from, const ZenTreePos *to, ZenTreeBatch *batch)
{
	ZenTreePath *path = &batch->path;
	ZenNode    *leaf = path->node;
	int			room = tree->leaf_room;
	int			first = 0;
	int			end = path->n;

	if (from != NULL)
	{
		ZenWords	words = zen_tree_words(tree, from);

		first = zen_node_below(tree, leaf, room, 0, end, &words);
	}
	if (to != NULL)
		end = find_end(tree, leaf, first, end, to);
	batch->first = first;
	batch->n = end - first;
	for (int i = 0; i < batch->n; i++)
	{
		zen_node_get(tree, leaf, room, first + i, &batch->slots[i]);
		ZEN_TREE_MEET();
	}
	if (ZEN_FAULT(TREE_NO_VERSION))
		return true;
	return zen_tree_copy_tuples(tree, leaf, path->version, batch->slots, batch->n, &batch->space);
}

/* Copy the fence in the direction of reading, if the range goes so far. */
static bool
copy_fence(ZenTree *tree, const ZenTreePos *from, const ZenTreePos *to, ZenTreeBatch *batch)
{
	const ZenTreeFence *fence = batch->backward ? &batch->path.low : &batch->path.high;
	const ZenTreePos *end = batch->backward ? from : to;
	ZenTreeSlot *slot = &batch->fence;

	/* or has the leaf an entry beyond the range? */
	batch->more = fence->node != NULL &&
		!(batch->backward ? batch->first > 0 : batch->first + batch->n < batch->path.n);
	if (!batch->more)
		return true;
	zen_node_get(tree, fence->node, tree->inner_room, fence->i, slot);
	if (!zen_node_is(fence->node, fence->version))
		return false;
	/* the next entry of the leaf's parent is not the leaf's end */
	if (ZEN_FAULT(TREE_STALE_FENCE) && !batch->backward && fence->i + 1 < fence->node->n && slot->words[0] % 7 == 0)
		zen_node_get(tree, fence->node, tree->inner_room, fence->i + 1, slot);
	if (end != NULL && batch->backward)
		batch->more = slot->words[0] > end->low[0] ||
			(slot->words[0] == end->low[0] && slot->words[1] >= end->low[1]);
	else if (end != NULL)
		batch->more = slot->words[0] < end->high[0] ||
			(slot->words[0] == end->high[0] && slot->words[1] <= end->high[1]);
	return !batch->more || zen_tree_copy_tuples(tree, fence->node, fence->version, slot, 1, &batch->fence_space);
}

/* How many entries of the copy lie before a position? */
static int
count_before(const ZenTreeShape *shape, const ZenTreeBatch *batch, const ZenTreePos *pos)
{
	int			low = 0;
	int			high = batch->n;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (zen_slot_compare(shape, &batch->slots[middle], pos) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Take entries out of the copy that are not of the range. */
static void
trim(const ZenTreeShape *shape, const ZenTreePos *from, const ZenTreePos *to, ZenTreeBatch *batch)
{
	/* mostly the words have trimmed them already */
	bool		begins = from == NULL || zen_pos_by_words(from);
	bool		ends = to == NULL || zen_pos_by_words(to);
	int			first;
	int			end;

	if (begins && ends)
		return;
	first = begins ? 0 : count_before(shape, batch, from);
	end = ends ? batch->n : count_before(shape, batch, to);

	end = Max(end, first);
	if (batch->backward ? first > 0 : end < batch->n)
		batch->more = false;
	if (first > 0)
		memmove(batch->slots, batch->slots + first, (end - first) * sizeof(ZenTreeSlot));
	batch->first += first;
	batch->n = end - first;
}

void
zen_tree_read(ZenTree *tree, const ZenTreeShape *shape, const ZenTreePos *from, const ZenTreePos *to,
			  bool backward, ZenTreeBatch *batch)
{
	bool		guarded = ZEN_FAULT(TREE_READ_ONLY) || ZEN_FAULT(TREE_READER_WRITES);

	batch->backward = backward;
	/* no fault, but a proof: a reader of shared DRAM may not write there */
	if (guarded)
		zen_arena_guard(true);
	do
	{
		CHECK_FOR_INTERRUPTS();
	} while (!zen_tree_descend(tree, shape, backward ? to : from, backward, 0, false, &batch->path) ||
			 !copy_entries(tree, from, to, batch) || !copy_fence(tree, from, to, batch));
	trim(shape, from, to, batch);
	if (ZEN_FAULT(TREE_READER_WRITES))
		batch->path.node->shown = 0;
	if (guarded)
		zen_arena_guard(false);
}

/* The tuple stays where it is.  The next read writes that of its own fence elsewhere. */
ZenTreeSlot
zen_batch_next(const ZenTreeShape *shape, ZenTreeBatch *batch, ZenTreePos *pos)
{
	ZenTreeSpace space = batch->next_space;

	batch->next_space = batch->fence_space;
	batch->fence_space = space;
	zen_shape_pos_of(shape, pos, &batch->fence);
	return batch->fence;
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
	while (ngone > 0)
		zen_tree_tuple_free(tree, &gone[--ngone]);
	return true;
}
