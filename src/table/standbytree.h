/*
 * standbytree.h -- trees that stand in for the indexes of a zen table on a hot standby.
 */
#ifndef ZEN_STANDBYTREE_H
#define ZEN_STANDBYTREE_H

#include "base/compat.h"

#include "utils/rel.h"

/* zen_standbytree_init -- tell the layers below how trees are read and freed; in the postmaster. */
extern void zen_standbytree_init(void);

/* zen_standbytree_has -- is the index one for which a tree may stand in? */
extern bool zen_standbytree_has(Relation index);

#endif							/* ZEN_STANDBYTREE_H */
