/*
 * treesort.h -- entries out of their nodes, in the order of the tree.
 */
#ifndef ZEN_TREESORT_H
#define ZEN_TREESORT_H

#include "base/compat.h"

#include "index/treeshape.h"

/* zen_slot_order -- the order of two entries. */
extern int	zen_slot_order(const ZenTreeShape *shape, const ZenTreeSlot *a, const ZenTreeSlot *b);

/* zen_slots_sort -- sort entries in place.  Runs comparison functions, and throws their errors. */
extern void zen_slots_sort(const ZenTreeShape *shape, ZenTreeSlot *slots, Size n);

#endif							/* ZEN_TREESORT_H */
