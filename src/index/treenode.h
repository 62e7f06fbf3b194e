/*
 * treenode.h -- nodes of a tree.
 *
 * A node is 1 KB of shared DRAM.  Its header is followed by arrays of words, one for each part of an entry: the first
 * word of the key, the TID, the second word, the tuple, and in inner nodes the child.  So a search by the first word
 * touches few lines.  README, "A tree" and "Versions and latches", says what entries, children and versions mean.
 */
#ifndef ZEN_TREENODE_H
#define ZEN_TREENODE_H

#include "base/compat.h"

#include "base/fault.h"
#include "index/treeshape.h"
#include "port/atomics.h"
#include "storage/s_lock.h"
#include "storage/spin.h"

#define ZEN_NODE_SIZE		1024
#define ZEN_NODE_WORDS		126
#define ZEN_NODE_SLOTS		(ZEN_NODE_WORDS / 2)	/* at most */

/*
 * A build for tests has trees of few entries a node, and gives way to other processes where they may meet a state
 * between two others.
 */
#ifdef ZEN_FAULTS
#include <sched.h>

#include "common/pg_prng.h"

#define ZEN_NODE_MOST	5
#define ZEN_TREE_MEET()	((void) (pg_prng_uint32(&pg_global_prng_state) % 16 == 0 && sched_yield()))
#else
#define ZEN_NODE_MOST	ZEN_NODE_SLOTS
#define ZEN_TREE_MEET()	((void) 0)
#endif

typedef struct ZenNode
{
	pg_atomic_uint64 version;
	uint16		level;			/* 0: leaf */
	uint16		n;				/* entries */
	uint32		shown;			/* by a fault: no writer may take it */
	uint64		words[ZEN_NODE_WORDS];
} ZenNode;

StaticAssertDecl(sizeof(ZenNode) == ZEN_NODE_SIZE, "a node is 1 KB");

typedef struct ZenTree
{
	struct ZenTree *next;		/* in the directory; under its lock */
	RelFileLocator loc;			/* constant */
	bool		in_doubt;		/* a prepared transaction decides; under the
								 * directory's lock */

	/* constant while the tree can be seen */
	ZenTreeKind kind;
	bool		nulls;
	uint8		columns;		/* arrays of words in a leaf */
	uint8		leaf_room;		/* entries */
	uint8		inner_room;
	ZenNode    *root;

	slock_t		lock;
	ZenNode    *free;			/* nodes; under lock */
	pg_atomic_uint32 nodes;		/* free ones included */
	pg_atomic_uint64 tuple_bytes;
	pg_atomic_uint64 entries;	/* of the last build or VACUUM */
} ZenTree;

static inline uint64
zen_tid_word(ItemPointer tid)
{
	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16 | ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline void
zen_tid_of_word(uint64 word, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) ((word & ZEN_TREE_TID) >> 16), (OffsetNumber) (word & 0xFFFF));
}

static inline Size
zen_tuple_length(uint64 tid_word)
{
	return (Size) (tid_word >> ZEN_TREE_LENGTH & 0x1FFF);
}

/* ---------- versions ---------- */

/* The version of a node that no writer changes: waits for one that does.  Caller holds no node. */
static inline uint64
zen_node_begin(ZenNode *node)
{
	uint64		v = pg_atomic_read_u64(&node->version);

	if (unlikely(v & 1))
	{
		SpinDelayStatus delay;

		init_local_spin_delay(&delay);
		while ((v = pg_atomic_read_u64(&node->version)) & 1)
			perform_spin_delay(&delay);
		finish_spin_delay(&delay);
	}
	/* pairs with zen_node_unlock: the node's contents are at least as new */
	pg_read_barrier();
	return v;
}

static inline bool
zen_node_is(ZenNode *node, uint64 version)
{
	ZEN_TREE_MEET();
	/* pairs with zen_node_try_lock: a writer is seen before what it writes */
	pg_read_barrier();
	return pg_atomic_read_u64(&node->version) == version;
}

static inline bool
zen_node_try_lock(ZenNode *node, uint64 version)
{
	Assert((version & 1) == 0);
	if (ZEN_FAULT(TREE_SPLIT_SEEN) && node->shown)
		return false;
	if (!pg_atomic_compare_exchange_u64(&node->version, &version, version + 1))
		return false;
	/* pairs with zen_node_is; src/base/README, "Machines that reorder" */
	pg_write_barrier();
	return true;
}

static inline void
zen_node_unlock(ZenNode *node, uint64 version)
{
	Assert(pg_atomic_read_u64(&node->version) == version + 1);
	pg_write_barrier();
	pg_atomic_write_u64(&node->version, version + 2);
}

/* Nothing was changed. */
static inline void
zen_node_unlock_same(ZenNode *node, uint64 version)
{
	Assert(pg_atomic_read_u64(&node->version) == version + 1);
	pg_write_barrier();
	pg_atomic_write_u64(&node->version, version);
}

/* ---------- entries ---------- */

static inline int
zen_node_room(const ZenTree *tree, int level)
{
	return level == 0 ? tree->leaf_room : tree->inner_room;
}

/* The number of entries, bounded: it may be read while a writer changes it. */
static inline int
zen_node_n(const ZenTree *tree, const ZenNode *node, int level)
{
	int			n = *(volatile const uint16 *) &node->n;

	return Min(n, zen_node_room(tree, level));
}

static inline ZenNode **
zen_node_children(const ZenTree *tree, ZenNode *node)
{
	return (ZenNode **) &node->words[tree->columns * tree->inner_room];
}

static inline void
zen_node_get(const ZenTree *tree, const ZenNode *node, int room, int i, ZenTreeSlot *slot)
{
	Assert(i >= 0 && i < room);
	slot->words[0] = node->words[i];
	slot->tid = node->words[room + i];
	slot->words[1] = tree->columns > 2 ? node->words[2 * room + i] : 0;
	slot->tuple = tree->columns > 3 ? (IndexTuple) node->words[3 * room + i] : NULL;
}

static inline void
zen_node_put(const ZenTree *tree, ZenNode *node, int room, int i, const ZenTreeSlot *slot)
{
	Assert(i >= 0 && i < room);
	node->words[i] = slot->words[0];
	node->words[room + i] = slot->tid;
	if (tree->columns > 2)
		node->words[2 * room + i] = slot->words[1];
	if (tree->columns > 3)
		node->words[3 * room + i] = (uint64) slot->tuple;
}

/* A search will begin here soon. */
static inline void
zen_node_prefetch(const ZenNode *node)
{
	__builtin_prefetch(node);
	__builtin_prefetch(&node->words[ZEN_NODE_SLOTS / 4]);
	__builtin_prefetch(&node->words[ZEN_NODE_SLOTS / 2]);
}

/*
 * How many of n ascending words are below one?  Without branches, since the processor cannot predict which way a search
 * goes.
 */
static inline int
zen_words_below(const uint64 *words, int n, uint64 word)
{
	const uint64 *from = words;

	while (n > 1)
	{
		int			half = n / 2;

		from = from[half - 1] < word ? from + half : from;
		n -= half;
	}
	return (int) (from - words) + (n > 0 && *from < word ? 1 : 0);
}

/* The same of pairs. */
static inline int
zen_pairs_below(const uint64 *first, const uint64 *second, int n, uint64 word, uint64 second_word)
{
	uint128		pair = (uint128) word << 64 | second_word;
	int			from = 0;

	while (n > 1)
	{
		int			half = n / 2;
		int			i = from + half - 1;

		from = ((uint128) first[i] << 64 | second[i]) < pair ? from + half : from;
		n -= half;
	}
	return from + (n > 0 && ((uint128) first[from] << 64 | second[from]) < pair ? 1 : 0);
}

/* Words that a search compares with.  To find what is not above words, it looks for what is below the next ones. */
typedef struct ZenWords
{
	uint64		first;
	uint64		second;
	bool		beyond;			/* above all words */
} ZenWords;

static inline ZenWords
zen_words_for(const ZenTree *tree, const uint64 *words, bool upto)
{
	ZenWords	w = {words[0], words[1], false};

	if (!upto)
		return w;
	if (tree->columns == 2 || ++w.second == 0)
		w.beyond = ++w.first == 0;
	return w;
}

/* How many entries have words below those?  The first `from` do.  The words may change while they are read. */
static inline int
zen_node_below(const ZenTree *tree, const ZenNode *node, int room, int from, int n, const ZenWords *words)
{
	const uint64 *first = node->words + from;

	if (unlikely(words->beyond))
		return n;
	if (tree->columns == 2)
		return from + zen_words_below(first, n - from, words->first);
	return from + zen_pairs_below(first, first + 2 * room, n - from, words->first, words->second);
}

/* Are the words of entry i above those? */
static inline bool
zen_node_above(const ZenTree *tree, const ZenNode *node, int room, int i, const uint64 *words)
{
	uint64		w = node->words[i];

	if (w != words[0])
		return w > words[0];
	return tree->columns > 2 && node->words[2 * room + i] > words[1];
}

#endif							/* ZEN_TREENODE_H */
