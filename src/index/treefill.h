/*
 * treefill.h -- many entries at once, for a build: they are collected, sorted, and put into the tree leaf by leaf.
 */
#ifndef ZEN_TREEFILL_H
#define ZEN_TREEFILL_H

#include "base/compat.h"

#include "index/tree.h"

/* One process's part of a build. */
typedef struct ZenTreeFill
{
	ZenTree    *tree;
	const ZenTreeShape *shape;
	Size		limit;			/* bytes to be collected */
	uint64		entries;		/* so far */

	/*
	 * Two entries with the same words have met: two keys may be equal.  If no
	 * process that fills the tree has seen any, all keys differ.
	 */
	bool		met;

	/* entries collected */
	ZenTreeSlot *slots;
	Size		n;
	Size		room;
	Size		bytes;			/* with tuples */
	bool		in_order;
	MemoryContext tuples;
} ZenTreeFill;

/*
 * zen_fill_begin -- collect entries for a tree, up to so many bytes.  Memory is of the current context.
 *
 * zen_fill_add -- one more entry; it may not yet be in the tree.  Several processes may fill one tree.  Throws as
 * zen_tree_put().
 *
 * zen_fill_end -- all are in the tree.
 */
extern void zen_fill_begin(ZenTreeFill *fill, ZenTree *tree, const ZenTreeShape *shape, Size limit);
extern void zen_fill_add(ZenTreeFill *fill, const Datum *values, const bool *isnull, uint64 tid);
extern void zen_fill_end(ZenTreeFill *fill);

/*
 * zen_tree_pack -- the tree has so many entries now, and is the caller's alone: if its nodes are far from full, some of
 * them go.
 */
extern void zen_tree_pack(ZenTree *tree, uint64 entries);

#endif							/* ZEN_TREEFILL_H */
