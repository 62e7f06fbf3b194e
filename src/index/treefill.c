/*
 * treefill.c -- many entries at once, for a build: they are collected, sorted, and put into the tree leaf by leaf.
 *
 * Several processes fill a tree at once, each with rows of its own.  They use versions and latches as all writers do.
 * A process descends to the leaf that has its next entry, copies the fence above, takes the leaf, and puts in as many
 * entries as belong there and fit.
 *
 * Rows often come in the order of their keys, in parts at least.  Then a few entries are collected, which stay in the
 * processor's cache and need no sorting.
 *
 * Sorting.  Most entries differ in their words.  So they are divided by one byte of the words after the other, the
 * highest first, in place.  Few entries that are left together are sorted by comparison, and so are those with the same
 * words.  Only these ask the operator class.
 *
 * Packing.  Entries that come in many runs, each of them all over the keys, split leaves that are full, and more at a
 * time than single ones would.  So the leaves of each node above them are filled anew.  Inner nodes stay: they are few.
 */
#include "index/treefill.h"

#include "base/arena.h"
#include "base/fault.h"
#include "index/treedir.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#define SORT_FEW	32			/* entries that are not divided */
#define WORD_BYTES	16
#define ORDERED_RUN	4096		/* so many entries that came in order do not
								 * wait for others */

/* ---------- the order of entries ---------- */

static inline bool
same_words(const ZenTreeSlot *a, const ZenTreeSlot *b)
{
	return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/* Does an entry lie before another, as far as can be told without comparison functions? */
static inline bool
is_before(const ZenTreeShape *shape, const ZenTreeSlot *a, const ZenTreeSlot *b)
{
	if (a->words[0] != b->words[0])
		return a->words[0] < b->words[0];
	if (a->words[1] != b->words[1])
		return a->words[1] < b->words[1];
	return shape->kind != ZEN_TREE_TUPLES && (a->tid & ZEN_TREE_TID) < (b->tid & ZEN_TREE_TID);
}

static int
slot_order(const ZenTreeShape *shape, const ZenTreeSlot *a, const ZenTreeSlot *b)
{
	ZenTreePos	pos;

	if (is_before(shape, a, b))
		return -1;
	if (shape->kind != ZEN_TREE_TUPLES || !same_words(a, b))
		return is_before(shape, b, a);
	zen_shape_pos_of(shape, &pos, b);
	return zen_shape_compare(shape, a, &pos);
}

static int
sort_compare(const void *a, const void *b, void *arg)
{
	return slot_order(arg, a, b);
}

static void
sort_few(const ZenTreeShape *shape, ZenTreeSlot *slots, Size n)
{
	for (Size i = 1; i < n; i++)
	{
		ZenTreeSlot slot = slots[i];
		Size		at = i;

		for (; at > 0 && slot_order(shape, &slots[at - 1], &slot) > 0; at--)
			slots[at] = slots[at - 1];
		slots[at] = slot;
	}
}

/* Byte 0 is the highest one of the first word. */
static inline uint8
byte_of(const ZenTreeSlot *slot, int byte)
{
	return (uint8) (slot->words[byte / 8] >> (56 - 8 * (byte % 8)));
}

/* The first byte, from one on, in which entries differ; WORD_BYTES: none. */
static int
first_difference(const ZenTreeSlot *slots, Size n, int byte)
{
	ZenTreeSlot differ = {{0, 0}};

	for (Size i = 1; i < n; i++)
	{
		differ.words[0] |= slots[i].words[0] ^ slots[0].words[0];
		differ.words[1] |= slots[i].words[1] ^ slots[0].words[1];
	}
	while (byte < WORD_BYTES && byte_of(&differ, byte) == 0)
		byte++;
	return byte;
}

/* Sort entries that agree in the bytes before this one.  The depth of the recursion is at most that of the bytes. */
static void
sort_from(const ZenTreeShape *shape, ZenTreeSlot *slots, Size n, int byte)
{
	Size		begin[256];
	Size		end[256];
	Size		at = 0;

	if (n <= SORT_FEW)
	{
		sort_few(shape, slots, n);
		return;
	}
	CHECK_FOR_INTERRUPTS();
	byte = first_difference(slots, n, byte);
	if (byte == WORD_BYTES)
	{
		qsort_arg(slots, n, sizeof(ZenTreeSlot), sort_compare, (void *) shape);
		return;
	}
	memset(end, 0, sizeof(end));
	for (Size i = 0; i < n; i++)
		end[byte_of(&slots[i], byte)]++;
	for (int b = 0; b < 256; b++)
	{
		begin[b] = at;
		at += end[b];
		end[b] = at;
	}
	/* each entry that is not in its part changes places with one there */
	for (int b = 0; b < 256; b++)
		while (begin[b] < end[b])
		{
			ZenTreeSlot *slot = &slots[begin[b]];
			uint8		to = byte_of(slot, byte);

			if (to != b)
			{
				ZenTreeSlot other = slots[begin[to]];

				slots[begin[to]] = *slot;
				*slot = other;
			}
			begin[to]++;
		}
	for (int b = 0; b < 256; b++)
	{
		Size		from = b == 0 ? 0 : end[b - 1];

		if (end[b] - from > 1)
			sort_from(shape, slots + from, end[b] - from, byte + 1);
	}
}

/* ---------- a leaf ---------- */

/* What bounds the entries of a leaf. */
typedef struct Bounds
{
	bool		has_low,
				has_high;
	ZenTreeSlot low,
				high;
} Bounds;

static bool
fill_copy_fence(const ZenTree *tree, const ZenTreeFence *fence, bool *has, ZenTreeSlot *slot)
{
	*has = fence->node != NULL;
	if (!*has)
		return true;
	zen_node_get(tree, fence->node, tree->inner_room, fence->i, slot);
	return zen_node_is(fence->node, fence->version);
}

/* Where an entry goes among those of a leaf, from one on. */
static int
fill_find_place(const ZenTreeFill *fill, const ZenNode *leaf, int from, const ZenTreeSlot *slot)
{
	int			end = leaf->n;

	while (from < end)
	{
		int			middle = (from + end) / 2;
		ZenTreeSlot other;

		zen_node_get(fill->tree, leaf, fill->tree->leaf_room, middle, &other);
		if (is_before(fill->shape, &other, slot))
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
		   (!bounds->has_high || is_before(fill->shape, &slots[done], &bounds->high)))
	{
		i = fill_find_place(fill, leaf, i, &slots[done]);
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
		if (is_before(fill->shape, &slots[1], &next))
			at = i;
	}
	if (i >= 0 && zen_node_is(path->node, path->version) && !zen_tree_split(tree, path, at) &&
		!zen_find_room(since))
		zen_arena_full_error();
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
	if (!fill_copy_fence(tree, &path.low, &bounds.has_low, &bounds.low) ||
		!fill_copy_fence(tree, &path.high, &bounds.has_high, &bounds.high) ||
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

/* Put what was collected into the tree. */
static void
fill_flush(ZenTreeFill *fill)
{
	TimestampTz since = 0;
	Size		done = 0;

	if (!fill->in_order)
		sort_from(fill->shape, fill->slots, fill->n, 0);
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
	fill->in_order &= fill->n == 0 || is_before(shape, slot - 1, slot);
	fill->n++;
	if (fill->bytes >= fill->limit || (fill->in_order && fill->n >= ORDERED_RUN))
		fill_flush(fill);
}

void
zen_fill_end(ZenTreeFill *fill)
{
	fill_flush(fill);
	MemoryContextDelete(fill->tuples);
	pfree(fill->slots);
}

/* ---------- packing ---------- */

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
pack_first(const Packer *packer, int leaf)
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

		*bound = packer->slots[pack_first(packer, leaf)];
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
		leaf->n = pack_first(packer, c + 1) - pack_first(packer, c);
		for (int i = 0; i < leaf->n; i++)
			zen_node_put(tree, leaf, tree->leaf_room, i, &packer->slots[pack_first(packer, c) + i]);
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
