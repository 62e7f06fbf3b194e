/*
 * indexonly.h -- index-only scans of zen tables.
 */
#ifndef ZEN_INDEXONLY_H
#define ZEN_INDEXONLY_H

#include "base/compat.h"

#include "nodes/execnodes.h"

/* zen_indexonly_take_over -- have an index-only scan that was just started run faster, if it reads a zen table. */
extern void zen_indexonly_take_over(IndexOnlyScanState *node);

#endif							/* ZEN_INDEXONLY_H */
