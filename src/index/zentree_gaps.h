/*
 * zentree_gaps.h -- predicate locks of a tree, for SERIALIZABLE.
 *
 * A scan with equalities on the first columns locks a gap: all keys that have these values there, whether any entry has
 * them or not.  A gap stands in the lock manager as a page of the index, whose number is computed from the values.  Any
 * other scan locks the index.  An inserter looks at the gaps of its key: one for each number of first columns.
 */
#ifndef ZENTREE_GAPS_H
#define ZENTREE_GAPS_H

#include "base/compat.h"

#include "index/zentree_keys.h"
#include "utils/snapshot.h"

/* zen_gap_lock -- lock the gap, or the index, that a scan with these conditions is about to read. */
extern void zen_gap_lock(Relation index, const ZenTreeShape *shape, const ZenConditions *c, Snapshot snapshot);

/*
 * zen_gap_check -- has another transaction locked a gap to which a key belongs?  Its entry is in the tree.  May throw.
 */
extern void zen_gap_check(Relation index, const ZenTreeShape *shape, const ZenTreePos *pos);

#endif							/* ZENTREE_GAPS_H */
