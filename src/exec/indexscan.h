/*
 * indexscan.h -- index scans of zen tables.
 */
#ifndef ZEN_INDEXSCAN_H
#define ZEN_INDEXSCAN_H

#include "base/compat.h"

#include "nodes/execnodes.h"

/* zen_indexscan_take_over -- have an index scan that was just started run faster, if it reads a zen table. */
extern void zen_indexscan_take_over(IndexScanState *node);

#endif							/* ZEN_INDEXSCAN_H */
