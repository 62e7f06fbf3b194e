/*
 * tree.c -- a B+tree in shared DRAM: descent, insertion, and the entries of a range, a leaf at a time.
 *
 * src/index/README, "Versions and latches" and "Scans", has the arguments, and the order in which nodes are taken.
 *
 * Splits.  A descent that inserts splits each full node that it meets, and begins again.  So the parent of a node that
 * is to be split has room.  The root stays where it is: when it is split its contents go to two new nodes.
 *
 * Reading.  The words choose the entries of a leaf to be copied.  Comparison functions trim the copy.
 */
#include "index/tree.h"

#include <sched.h>

#include "base/arena.h"
#include "miscadmin.h"

/* ---------- memory ---------- */

static ZenNode *
node_alloc(ZenTree *tree)
{
	ZenNode    *node;

	SpinLockAcquire(&tree->lock);
	node = tree->free;
	if (node != NULL)
		tree->free = (ZenNode *) node->words[0];
	SpinLockRelease(&tree->lock);
	if (node != NULL)
		return node;
	node = zen_arena_alloc(ZEN_NODE_SIZE);
	if (node == NULL)
		return NULL;
	pg_atomic_init_u64(&node->version, 2);
	node->shown = 0;
	pg_atomic_fetch_add_u32(&tree->nodes, 1);
	return node;
}

void
zen_tree_node_free(ZenTree *tree, ZenNode *node)
{
	Assert((pg_atomic_read_u64(&node->version) & 1) == 0 && node != tree->root);
	SpinLockAcquire(&tree->lock);
	node->words[0] = (uint64) tree->free;
	tree->free = node;
	SpinLockRelease(&tree->lock);
}

static IndexTuple
tuple_alloc(ZenTree *tree, Size length)
{
	IndexTuple	tuple = zen_arena_alloc(length);

	if (tuple != NULL)
		pg_atomic_fetch_add_u64(&tree->tuple_bytes, zen_arena_rounded(length));
	return tuple;
}

void
zen_tree_tuple_free(ZenTree *tree, const ZenTreeSlot *slot)
{
	Size		length = zen_tuple_length(slot->tid);

	if (tree->kind != ZEN_TREE_TUPLES)
		return;
	Assert(length >= sizeof(IndexTupleData));
	pg_atomic_fetch_sub_u64(&tree->tuple_bytes, zen_arena_rounded(length));
	zen_arena_free(slot->tuple, length);
}

bool
zen_tree_tuple_copy(ZenTree *tree, ZenTreeSlot *slot)
{
	Size		length = zen_tuple_length(slot->tid);
	IndexTuple	copy = tuple_alloc(tree, length);

	if (copy != NULL)
		slot->tuple = memcpy(copy, slot->tuple, length);
	return copy != NULL;
}

bool
zen_tree_setup(ZenTree *tree, ZenTreeKind kind, bool nulls)
{
	tree->kind = kind;
	tree->nulls = nulls;
	tree->columns = kind == ZEN_TREE_WORD ? 2 : kind == ZEN_TREE_TWO_WORDS ? 3 : 4;
	tree->leaf_room = Min(ZEN_NODE_WORDS / tree->columns, ZEN_NODE_MOST);
	tree->inner_room = Min((ZEN_NODE_WORDS - 1) / (tree->columns + 1), ZEN_NODE_MOST);
	Assert(tree->root == NULL && tree->free == NULL);
	pg_atomic_init_u32(&tree->nodes, 0);
	pg_atomic_init_u64(&tree->tuple_bytes, 0);
	pg_atomic_init_u64(&tree->entries, 0);
	tree->root = node_alloc(tree);
	if (tree->root == NULL)
		return false;
	tree->root->level = 0;
	tree->root->n = 0;
	return true;
}

/* Free a node with all below.  The depth of the recursion is the tree's height. */
static void
clear_node(ZenTree *tree, ZenNode *node)
{
	int			room = zen_node_room(tree, node->level);
	ZenTreeSlot slot;

	for (int i = 0; i < node->n && tree->kind == ZEN_TREE_TUPLES; i++)
	{
		zen_node_get(tree, node, room, i, &slot);
		zen_tree_tuple_free(tree, &slot);
	}
	for (int i = 0; i <= node->n && node->level > 0; i++)
		clear_node(tree, zen_node_children(tree, node)[i]);
	zen_arena_free(node, ZEN_NODE_SIZE);
}

void
zen_tree_clear(ZenTree *tree)
{
	ZenNode    *node;

	if (tree->root != NULL)
		clear_node(tree, tree->root);
	tree->root = NULL;
	while ((node = tree->free) != NULL)
	{
		tree->free = (ZenNode *) node->words[0];
		zen_arena_free(node, ZEN_NODE_SIZE);
	}
}

void
zen_node_move(const ZenTree *tree, ZenNode *to, int to_i, const ZenNode *from, int from_i, int n, int level)
{
	int			room = zen_node_room(tree, level);

	Assert(n >= 0 && to_i + n <= room && from_i + n <= room);
	for (int c = 0; c < tree->columns; c++)
		memmove(&to->words[c * room + to_i], &from->words[c * room + from_i], n * sizeof(uint64));
}

/* ---------- entries of a node that may change ---------- */

bool
zen_tree_copy_tuples(const ZenTree *tree, ZenNode *node, uint64 version, ZenTreeSlot *slots, int n,
					 ZenTreeSpace *space)
{
	Size		total = 0;
	char	   *at;

	/* before this the pointers are not to be followed */
	if (!zen_node_is(node, version))
		return false;
	if (tree->kind != ZEN_TREE_TUPLES || n == 0)
		return true;
	for (int i = 0; i < n; i++)
		total += MAXALIGN(zen_tuple_length(slots[i].tid));
	if (total > space->size)
	{
		if (space->data != NULL)
			pfree(space->data);
		space->data = NULL;
		space->size = 0;
		space->data = palloc(total);
		space->size = total;
	}
	at = space->data;
	for (int i = 0; i < n; i++)
	{
		Size		length = zen_tuple_length(slots[i].tid);

		memcpy(at, slots[i].tuple, length);
		slots[i].tuple = (IndexTuple) at;
		at += MAXALIGN(length);
	}
	/* a tuple is freed after it was taken out of its node */
	return zen_node_is(node, version);
}

/* The words to search for, to find the first entry whose words do not put it before a position. */
static inline ZenWords
words_before(const ZenTree *tree, const ZenTreePos *pos)
{
	bool		upto = pos->ncmp == 0 && pos->tie == ZEN_TIE_AFTER;

	return zen_words_for(tree, upto ? pos->high : pos->low, upto);
}

/* How many entries lie before a TID, or with upto not after it, those whose key is the position's? */
static int
count_tids(const ZenNode *node, int room, int from, int n, uint64 tid, bool upto)
{
	while (from < n)
	{
		int			middle = (from + n) / 2;
		uint64		t = node->words[room + middle] & ZEN_TREE_TID;

		if (t < tid || (upto && t == tid))
			from = middle + 1;
		else
			n = middle;
	}
	return from;
}

/* The same by comparison, of copies of the entries. */
static int
count_compared(const ZenTree *tree, const ZenTreeShape *shape, ZenNode *node, uint64 version, int room,
			   int from, int n, const ZenTreePos *pos, bool upto, bool *equal)
{
	ZenTreeSlot slots[ZEN_NODE_SLOTS];
	ZenTreeSpace space = {0};
	int			low = 0;
	int			high = n - from;

	for (int i = 0; i < n - from; i++)
		zen_node_get(tree, node, room, from + i, &slots[i]);
	if (!zen_tree_copy_tuples(tree, node, version, slots, n - from, &space))
		low = -1;
	while (low >= 0 && low < high)
	{
		int			middle = (low + high) / 2;
		int			order = zen_shape_compare(shape, &slots[middle], pos);

		if (order == 0 && equal != NULL)
			*equal = true;
		if (order < 0 || (upto && order == 0))
			low = middle + 1;
		else
			high = middle;
	}
	if (space.data != NULL)
		pfree(space.data);
	return low < 0 ? -1 : from + low;
}

int
zen_tree_find(const ZenTree *tree, const ZenTreeShape *shape, ZenNode *node, uint64 version,
			  int level, int n, const ZenTreePos *pos, bool upto, bool *equal)
{
	int			room = zen_node_room(tree, level);
	ZenWords	words = words_before(tree, pos);
	int			low = zen_node_below(tree, node, room, 0, n, &words);
	int			high;

	if (equal != NULL)
		*equal = false;
	/* mostly the words decide */
	if (zen_pos_by_words(pos) || low == n || zen_node_above(tree, node, room, low, pos->high))
		return low;
	words = zen_words_for(tree, pos->high, true);
	high = zen_node_below(tree, node, room, low, n, &words);
	if (low == high)
		return low;
	if (pos->ncmp > 0)
		return count_compared(tree, shape, node, version, room, low, high, pos, upto, equal);
	Assert(pos->tie == ZEN_TIE_TID);
	low = count_tids(node, room, low, high, pos->tid, upto);
	if (equal != NULL && low < high)
		*equal = (node->words[room + low] & ZEN_TREE_TID) == pos->tid;
	return low;
}

/* ---------- descent ---------- */

/* The child of an inner node where a position is; -1: the node has changed. */
static inline int
find_child(const ZenTree *tree, const ZenTreeShape *shape, const ZenTreePath *path, int n, const ZenTreePos *pos,
		   const ZenWords *words, bool backward)
{
	int			i;

	if (pos == NULL)
		return backward ? n : 0;
	i = zen_node_below(tree, path->node, tree->inner_room, 0, n, words);
	if (zen_pos_by_words(pos) || i == n || zen_node_above(tree, path->node, tree->inner_room, i, pos->high))
		return i;
	return zen_tree_find(tree, shape, path->node, path->version, path->level, n, pos, !backward, NULL);
}

static inline void
set_fence(ZenTreeFence *fence, ZenNode *node, uint64 version, int i)
{
	fence->node = node;
	fence->version = version;
	fence->i = i;
}

bool
zen_tree_descend(ZenTree *tree, const ZenTreeShape *shape, const ZenTreePos *pos, bool backward,
				 int level, bool inserting, ZenTreePath *path)
{
	ZenWords	words = {0, 0, false};

	if (pos != NULL)
		words = words_before(tree, pos);
	path->node = tree->root;
	path->version = zen_node_begin(path->node);
	path->parent = path->low.node = path->high.node = NULL;
	path->index = 0;
	for (;;)
	{
		ZenNode    *node = path->node;
		uint64		version = path->version;
		ZenNode    *child;
		int			i;

		path->level = *(volatile uint16 *) &node->level;
		path->n = zen_node_n(tree, node, path->level);
		if (path->level <= level || (inserting && path->n == tree->inner_room))
			return zen_node_is(node, version);
		i = find_child(tree, shape, path, path->n, pos, &words, backward);
		if (i < 0)
			return false;
		child = ((ZenNode *volatile *) zen_node_children(tree, node))[i];
		if (!zen_node_is(node, version))
			return false;
		zen_node_prefetch(child);
		if (i > 0)
			set_fence(&path->low, node, version, i - 1);
		if (i < path->n)
			set_fence(&path->high, node, version, i);
		path->parent = node;
		path->parent_version = version;
		path->index = i;
		path->node = child;
		path->version = zen_node_begin(child);
		if (!zen_node_is(node, version))
			return false;
	}
}

/* ---------- splits ---------- */

/* Put an entry, and the child right of it, into an inner node that has room. */
static void
put_child(ZenTree *tree, ZenNode *parent, int i, const ZenTreeSlot *slot, ZenNode *child)
{
	ZenNode   **children = zen_node_children(tree, parent);

	Assert(parent->level > 0 && parent->n < tree->inner_room && i <= parent->n);
	zen_node_move(tree, parent, i + 1, parent, i, parent->n - i, parent->level);
	memmove(&children[i + 2], &children[i + 1], (parent->n - i) * sizeof(ZenNode *));
	zen_node_put(tree, parent, tree->inner_room, i, slot);
	children[i + 1] = child;
	parent->n++;
}

/* Move the entries of a node from i on to an empty one.  In an inner node entry i itself goes up. */
static void
move_upper(ZenTree *tree, ZenNode *node, int i, ZenNode *right)
{
	int			skip = node->level > 0 ? 1 : 0;

	right->level = node->level;
	right->n = node->n - i - skip;
	zen_node_move(tree, right, 0, node, i + skip, right->n, node->level);
	if (node->level > 0)
		memcpy(zen_node_children(tree, right), zen_node_children(tree, node) + i + 1,
			   (right->n + 1) * sizeof(ZenNode *));
	node->n = i;
}

/* What a split needs besides the nodes that it changes. */
typedef struct Split
{
	int			at;				/* the first entry of the right half */
	ZenTreeSlot between;
	ZenNode    *left;			/* of a root only */
	ZenNode    *right;
} Split;

static void
free_split(ZenTree *tree, Split *split)
{
	if (split->left != NULL)
		zen_tree_node_free(tree, split->left);
	if (split->right != NULL)
		zen_tree_node_free(tree, split->right);
	if (split->between.tuple != NULL)
		zen_tree_tuple_free(tree, &split->between);
}

/* Allocate what a split needs; false: no DRAM.  The node may change during the call. */
static bool
prepare_split(ZenTree *tree, const ZenTreePath *path, int at, Split *split)
{
	memset(split, 0, sizeof(*split));
	Assert(at > 0 && at < path->n);
	split->at = at;
	split->right = node_alloc(tree);
	if (path->parent == NULL)
		split->left = node_alloc(tree);
	if (split->right == NULL || (path->parent == NULL && split->left == NULL))
		return false;
	zen_node_get(tree, path->node, zen_node_room(tree, path->level), split->at, &split->between);
	split->between.tuple = NULL;
	if (tree->kind == ZEN_TREE_TUPLES && path->level == 0)
	{
		Size		length = zen_tuple_length(split->between.tid);

		if (length < sizeof(IndexTupleData))
			return true;		/* the node has changed, as will be seen */
		split->between.tuple = tuple_alloc(tree, length);
		return split->between.tuple != NULL;
	}
	return true;
}

/* The node is held, and was not changed since the split was prepared. */
static void
fill_between(ZenTree *tree, ZenNode *node, Split *split)
{
	IndexTuple	copy = split->between.tuple;

	zen_node_get(tree, node, zen_node_room(tree, node->level), split->at, &split->between);
	if (copy != NULL)
	{
		memcpy(copy, split->between.tuple, zen_tuple_length(split->between.tid));
		split->between.tuple = copy;
	}
}

static bool
split_root(ZenTree *tree, const ZenTreePath *path, Split *split)
{
	ZenNode    *root = path->node;
	ZenNode   **children = zen_node_children(tree, root);

	if (!zen_node_try_lock(root, path->version))
		return false;
	fill_between(tree, root, split);
	split->left->level = root->level;
	split->left->n = root->n;
	memcpy(split->left->words, root->words, sizeof(root->words));
	move_upper(tree, split->left, split->at, split->right);
	root->level++;
	root->n = 0;
	children[0] = split->left;
	put_child(tree, root, 0, &split->between, split->right);
	zen_node_unlock(root, path->version);
	return true;
}

/*
 * A fault: parent and node are shown to readers with even versions of their own while the upper half of the node is in
 * no tree.
 */
static void
show_half_done(ZenTreePath *path)
{
	path->parent->shown = path->node->shown = 1;
	pg_memory_barrier();
	path->parent_version += 2;
	path->version += 2;
	pg_atomic_write_u64(&path->parent->version, path->parent_version);
	pg_atomic_write_u64(&path->node->version, path->version);
	for (int i = 0; i < 4; i++)
		(void) sched_yield();
	pg_atomic_write_u64(&path->node->version, path->version + 1);
	pg_atomic_write_u64(&path->parent->version, path->parent_version + 1);
	pg_memory_barrier();
	path->parent->shown = path->node->shown = 0;
}

static bool
split_child(ZenTree *tree, ZenTreePath *path, Split *split)
{
	if (!zen_node_try_lock(path->parent, path->parent_version))
		return false;
	if (!zen_node_try_lock(path->node, path->version))
	{
		zen_node_unlock_same(path->parent, path->parent_version);
		return false;
	}
	fill_between(tree, path->node, split);
	move_upper(tree, path->node, split->at, split->right);
	if (ZEN_FAULT(TREE_SPLIT_SEEN))
		show_half_done(path);
	put_child(tree, path->parent, path->index, &split->between, split->right);
	zen_node_unlock(path->node, path->version);
	zen_node_unlock(path->parent, path->parent_version);
	return true;
}

bool
zen_tree_split(ZenTree *tree, ZenTreePath *path, int at)
{
	Split		split;
	bool		done;

	if (!prepare_split(tree, path, at, &split))
	{
		free_split(tree, &split);
		return false;
	}
	done = path->parent == NULL ? split_root(tree, path, &split) : split_child(tree, path, &split);
	if (!done)
		free_split(tree, &split);
	return true;
}

/* ---------- insertion ---------- */

/* Put an entry into a leaf that has room, if leaf and gate have not changed. */
static ZenTreeResult
put_entry(ZenTree *tree, const ZenTreePath *path, int i, const ZenTreeSlot *slot, const ZenTreeGate *gate)
{
	ZenNode    *leaf = path->node;
	bool		apart = gate != NULL && gate->node != leaf;

	ZEN_TREE_MEET();
	if (gate != NULL && !apart && gate->version != path->version)
		return ZEN_TREE_RETRY;
	if (apart && !zen_node_try_lock(gate->node, gate->version))
		return ZEN_TREE_RETRY;
	if (!zen_node_try_lock(leaf, path->version))
	{
		if (apart)
			zen_node_unlock_same(gate->node, gate->version);
		return ZEN_TREE_RETRY;
	}
	Assert(leaf->level == 0 && leaf->n == path->n && i <= leaf->n && leaf->n < tree->leaf_room);
	zen_node_move(tree, leaf, i + 1, leaf, i, leaf->n - i, 0);
	ZEN_TREE_MEET();
	zen_node_put(tree, leaf, tree->leaf_room, i, slot);
	leaf->n++;
	zen_node_unlock(leaf, path->version);
	if (apart)
		zen_node_unlock(gate->node, gate->version);
	return ZEN_TREE_DONE;
}

/* One attempt, at a leaf with room. */
static ZenTreeResult
insert_at(ZenTree *tree, const ZenTreePath *path, int i, const ZenTreePos *pos, uint64 flags, IndexTuple tuple,
		  const ZenTreeGate *gate)
{
	ZenTreeSlot slot = {{pos->low[0], pos->low[1]}, pos->tid | flags, NULL};
	ZenTreeResult result;

	if (tree->kind == ZEN_TREE_TUPLES)
	{
		slot.tid |= (uint64) IndexTupleSize(tuple) << ZEN_TREE_LENGTH;
		slot.tuple = tuple;
		if (!zen_tree_tuple_copy(tree, &slot))
			return ZEN_TREE_FULL;
	}
	result = put_entry(tree, path, i, &slot, gate);
	if (result != ZEN_TREE_DONE)
		zen_tree_tuple_free(tree, &slot);
	return result;
}

/* The gate is the entry's leaf, and has room: no descent is needed. */
static ZenTreeResult
insert_at_gate(ZenTree *tree, const ZenTreeShape *shape, const ZenTreePos *pos, uint64 flags, IndexTuple tuple,
			   const ZenTreeGate *gate)
{
	ZenTreePath path = {.node = gate->node,.version = gate->version,.n = gate->n};
	bool		equal;
	int			i = zen_tree_find(tree, shape, path.node, path.version, 0, path.n, pos, false, &equal);

	if (i < 0 || !zen_node_is(path.node, path.version))
		return ZEN_TREE_RETRY;
	return equal ? ZEN_TREE_THERE : insert_at(tree, &path, i, pos, flags, tuple, gate);
}

ZenTreeResult
zen_tree_insert(ZenTree *tree, const ZenTreeShape *shape, const ZenTreePos *pos, uint64 flags, IndexTuple tuple,
				const ZenTreeGate *gate)
{
	ZenTreePath path;

	Assert(pos->tie == ZEN_TIE_TID && (tree->kind == ZEN_TREE_TUPLES) == (tuple != NULL));
	if (gate != NULL && gate->n >= 0 && gate->n < tree->leaf_room)
		return insert_at_gate(tree, shape, pos, flags, tuple, gate);
	for (;;)
	{
		ZenTreeResult result;
		bool		equal;
		int			i;

		CHECK_FOR_INTERRUPTS();
		if (!zen_tree_descend(tree, shape, pos, false, 0, true, &path))
			continue;
		i = zen_tree_find(tree, shape, path.node, path.version, path.level, path.n, pos, false, &equal);
		if (i < 0 || !zen_node_is(path.node, path.version))
			continue;
		if (path.n == zen_node_room(tree, path.level))
		{
			if (!zen_tree_split(tree, &path, zen_split_point(path.n, i)))
				return ZEN_TREE_FULL;
			if (gate != NULL)
				return ZEN_TREE_RETRY;
			continue;
		}
		if (equal)
			return ZEN_TREE_THERE;
		result = insert_at(tree, &path, i, pos, flags, tuple, gate);
		if (result != ZEN_TREE_RETRY || gate != NULL)
			return result;
	}
}

/* ---------- reading ---------- */

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
		ZenWords	words = words_before(tree, from);

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

/* ---------- deletion ---------- */

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
