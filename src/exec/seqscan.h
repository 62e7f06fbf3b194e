/*
 * seqscan.h -- sequential scans of zen tables.
 */
#ifndef ZEN_SEQSCAN_H
#define ZEN_SEQSCAN_H

#include "base/compat.h"

#include "nodes/execnodes.h"

/* zen_seqscan_take_over -- have a sequential scan that was just started run faster, if it reads a zen table. */
extern void zen_seqscan_take_over(SeqScanState *node);

#endif							/* ZEN_SEQSCAN_H */
