/*
 * standbytree.h -- trees that stand in for the indexes of a zen table on a hot standby.
 */
#ifndef ZEN_STANDBYTREE_H
#define ZEN_STANDBYTREE_H

#include "base/compat.h"

/* zen_standbytree_init -- tell the layers below how trees are read and freed; in the postmaster. */
extern void zen_standbytree_init(void);

#endif							/* ZEN_STANDBYTREE_H */
