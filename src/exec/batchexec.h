/*
 * batchexec.h -- the node that aggregates a zen table block by block: its execution.
 */
#ifndef ZEN_BATCHEXEC_H
#define ZEN_BATCHEXEC_H

#include "base/compat.h"

#include "nodes/plannodes.h"

#define ZEN_BATCH_NODE	"ZenBatchAggregate"

/*
 * zen_batchexec_state -- CreateCustomScanState of the node.
 *
 * The node's only child is a SeqScan.  custom_scan_tlist has the Aggrefs, each of a kind that zen_batchagg_kind()
 * knows, plain, without a volatile function, a subquery, or a parameter of one.
 */
extern Node *zen_batchexec_state(CustomScan *node);

/* Before the first execution. */
extern void zen_batchexec_init(void);

#endif							/* ZEN_BATCHEXEC_H */
