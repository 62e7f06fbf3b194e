/*
 * treefill.c -- many entries at once, for a build: they are collected, sorted, and put into the tree leaf by leaf.
 *
 * Several processes fill a tree at once, each with rows of its own.  They use versions and latches as all writers do.
 * A process descends to the leaf that has its next entry, copies the fence above, takes the leaf, and puts in as many
 * entries as belong there and fit.
 *
 * Rows often come in the order of their keys, in parts at least.  Then a few entries are collected, which stay in the
 * processor's cache and need no sorting.
 */
#include "index/treefill.h"

#include "base/arena.h"
#include "base/fault.h"
#include "index/treedir.h"
#include "index/treesort.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#define ORDERED_RUN	4096		/* so many entries that came in order do not
								 * wait for others */

void
zen_fill_begin(ZenTreeFill *fill, ZenTree *tree, const ZenTreeShape *shape, Size limit)
{
	memset(fill, 0, sizeof(*fill));
	fill->tree = tree;
	fill->shape = shape;
	fill->limit = limit;
	fill->in_order = true;
	fill->room = ORDERED_RUN;
	fill->slots = palloc(fill->room * sizeof(ZenTreeSlot));
	fill->tuples = AllocSetContextCreate(CurrentMemoryContext, "zen tree fill", ALLOCSET_DEFAULT_SIZES);
}

/* ---------- a leaf ---------- */

static inline bool
same_words(const ZenTreeSlot *a, const ZenTreeSlot *b)
{
	return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/* Does an entry lie before another, as far as can be told without comparison functions? */
static inline bool
is_before(const ZenTree *tree, const ZenTreeSlot *a, const ZenTreeSlot *b)
{
	if (a->words[0] != b->words[0])
		return a->words[0] < b->words[0];
	if (a->words[1] != b->words[1])
		return a->words[1] < b->words[1];
	return tree->kind != ZEN_TREE_TUPLES && (a->tid & ZEN_TREE_TID) < (b->tid & ZEN_TREE_TID);
}

/* What bounds the entries of a leaf. */
typedef struct Bounds
{
	bool		has_low,
				has_high;
	ZenTreeSlot low,
				high;
} Bounds;

static bool
copy_fence(const ZenTree *tree, const ZenTreeFence *fence, bool *has, ZenTreeSlot *slot)
{
	*has = fence->node != NULL;
	if (!*has)
		return true;
	zen_node_get(tree, fence->node, tree->inner_room, fence->i, slot);
	return zen_node_is(fence->node, fence->version);
}

/* Where an entry goes among those of a leaf, from one on. */
static int
find_place(const ZenTree *tree, const ZenNode *leaf, int from, const ZenTreeSlot *slot)
{
	int			end = leaf->n;

	while (from < end)
	{
		int			middle = (from + end) / 2;
		ZenTreeSlot other;

		zen_node_get(tree, leaf, tree->leaf_room, middle, &other);
		if (is_before(tree, &other, slot))
			from = middle + 1;
		else
			end = middle;
	}
	return from;
}

/*
 * Has the entry the words of one of its neighbours?  If not, no other entry of the tree has them: those between the two
 * would have them, too, and so would the bound of a leaf between the two.
 */
static bool
meets(const ZenTree *tree, const ZenNode *leaf, int i, const ZenTreeSlot *slot, const Bounds *bounds)
{
	ZenTreeSlot other;

	if (i == 0 && bounds->has_low && same_words(&bounds->low, slot) && !ZEN_FAULT(TREE_FENCE_UNASKED))
		return true;
	if (i > 0)
	{
		zen_node_get(tree, leaf, tree->leaf_room, i - 1, &other);
		if (same_words(&other, slot))
			return true;
	}
	if (i == leaf->n)
		return bounds->has_high && same_words(&bounds->high, slot) && !ZEN_FAULT(TREE_FENCE_UNASKED);
	zen_node_get(tree, leaf, tree->leaf_room, i, &other);
	return same_words(&other, slot);
}

/* Put entries into a leaf that this process holds: all that belong there and fit.  Returns their number. */
static Size
put_many(ZenTreeFill *fill, ZenNode *leaf, const ZenTreeSlot *slots, Size n, const Bounds *bounds)
{
	ZenTree    *tree = fill->tree;
	Size		done = 0;
	int			i = 0;

	while (done < n && leaf->n < tree->leaf_room &&
		   (!bounds->has_high || is_before(tree, &slots[done], &bounds->high)))
	{
		i = find_place(tree, leaf, i, &slots[done]);
		fill->met |= meets(tree, leaf, i, &slots[done], bounds);
		if (i < leaf->n)
			zen_node_move(tree, leaf, i + 1, leaf, i, leaf->n - i, 0);
		zen_node_put(tree, leaf, tree->leaf_room, i, &slots[done]);
		leaf->n++;
		done++;
		i++;
		ZEN_TREE_MEET();
	}
	return done;
}

/*
 * Split a full node on the way to the leaf that has the first of some entries.  If the second entry goes to the same
 * place, more are likely to follow: then the node is split there, and they fill the left half.
 */
static void
split_for(ZenTreeFill *fill, ZenTreePath *path, const ZenTreePos *pos, const ZenTreeSlot *slots, Size n,
		  TimestampTz *since)
{
	ZenTree    *tree = fill->tree;
	int			room = zen_node_room(tree, path->level);
	int			i = zen_tree_find(tree, fill->shape, path->node, path->version, path->level, path->n, pos, false, NULL);
	int			at = zen_split_point(path->n, i);

	if (i > 0 && i < path->n && path->level == 0 && n > 1)
	{
		ZenTreeSlot next;

		zen_node_get(tree, path->node, room, i, &next);
		if (is_before(tree, &slots[1], &next))
			at = i;
	}
	if (i >= 0 && zen_node_is(path->node, path->version) && !zen_tree_split(tree, path, at))
		zen_tree_room(since);
}

/* One attempt to put entries of a tree of whole keys into the leaf that has the first; returns how many are there. */
static Size
put_next(ZenTreeFill *fill, const ZenTreeSlot *slots, Size n, TimestampTz *since)
{
	ZenTree    *tree = fill->tree;
	ZenTreePos	pos;
	ZenTreePath path;
	Bounds		bounds = {0};
	Size		done;

	zen_shape_pos_of(fill->shape, &pos, slots);
	if (!zen_tree_descend(tree, fill->shape, &pos, false, 0, true, &path))
		return 0;
	if (path.n == zen_node_room(tree, path.level))
	{
		split_for(fill, &path, &pos, slots, n, since);
		return 0;
	}
	if (!copy_fence(tree, &path.low, &bounds.has_low, &bounds.low) ||
		!copy_fence(tree, &path.high, &bounds.has_high, &bounds.high) ||
		!zen_node_try_lock(path.node, path.version))
		return 0;
	done = put_many(fill, path.node, slots, n, &bounds);
	zen_node_unlock(path.node, path.version);
	Assert(done > 0);
	return done;
}

static void
put_tuple(ZenTreeFill *fill, const ZenTreeSlot *slot)
{
	ZenTreePos	pos;

	zen_shape_pos_of(fill->shape, &pos, slot);
	(void) zen_tree_put(fill->tree, fill->shape, &pos, slot->tid & ZEN_TREE_DEAD, slot->tuple, NULL);
	fill->met = true;
}

/* ---------- collecting ---------- */

/* Put what was collected into the tree. */
static void
flush(ZenTreeFill *fill)
{
	TimestampTz since = 0;
	Size		done = 0;

	if (!fill->in_order)
		zen_slots_sort(fill->shape, fill->slots, fill->n);
	while (done < fill->n)
	{
		CHECK_FOR_INTERRUPTS();
		if (fill->tree->kind == ZEN_TREE_TUPLES)
			put_tuple(fill, &fill->slots[done++]);
		else
			done += put_next(fill, fill->slots + done, fill->n - done, &since);
	}
	fill->entries += fill->n;
	fill->n = 0;
	fill->bytes = 0;
	fill->in_order = true;
	MemoryContextReset(fill->tuples);
}

void
zen_fill_add(ZenTreeFill *fill, const Datum *values, const bool *isnull, uint64 tid)
{
	const ZenTreeShape *shape = fill->shape;
	ZenTreeSlot *slot;

	if (fill->n == fill->room)
	{
		fill->room *= 2;
		fill->slots = repalloc_huge(fill->slots, fill->room * sizeof(ZenTreeSlot));
	}
	slot = &fill->slots[fill->n];
	slot->tuple = NULL;
	if (shape->kind == ZEN_TREE_TUPLES)
	{
		MemoryContext old = MemoryContextSwitchTo(fill->tuples);

		slot->tuple = index_form_tuple(shape->desc, (Datum *) values, (bool *) isnull);
		fill->bytes += IndexTupleSize(slot->tuple) + sizeof(void *);
		MemoryContextSwitchTo(old);
	}
	zen_shape_words(shape, values, isnull, slot->words);
	slot->tid = tid;
	fill->bytes += sizeof(ZenTreeSlot);
	fill->in_order &= fill->n == 0 || is_before(fill->tree, slot - 1, slot);
	fill->n++;
	if (fill->bytes >= fill->limit || (fill->in_order && fill->n >= ORDERED_RUN))
		flush(fill);
}

void
zen_fill_end(ZenTreeFill *fill)
{
	flush(fill);
	MemoryContextDelete(fill->tuples);
	pfree(fill->slots);
}
