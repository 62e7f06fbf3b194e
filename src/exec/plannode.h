/*
 * plannode.h -- zen's own nodes in plans, CustomScans: how one is registered, and put on top of a plan; key joins.
 */
#ifndef ZEN_PLANNODE_H
#define ZEN_PLANNODE_H

#include "base/compat.h"

#include "nodes/extensible.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* Names of the nodes that stand below the top of a plan, too. */
#define ZEN_KEYJOIN_NODE	"ZenKeyJoin"
#define ZEN_BATCH_NODE		"ZenBatchAggregate"

/* A node.  Its module gives the name, the size, and the methods of execution that it needs. */
typedef struct ZenPlanNode
{
	CustomScanMethods scan;		/* first: a plan leads to all of this */
	CustomExecMethods exec;
	Size		state_size;		/* of the struct that begins with a
								 * CustomScanState */
} ZenPlanNode;

/*
 * zen_plannode_register -- fill in the rest of a node, and let PostgreSQL know it.  Once a process, before any plan.
 *
 * A state is made of zeros.  A node without a method to end or to rescan does that to its outer plan, and only that.
 */
extern void zen_plannode_register(ZenPlanNode *kind);

/*
 * zen_plannode_make -- a node over a plan, which becomes its outer plan.
 *
 * The rows of node and plan are the same, so the node may stand wherever the plan stands.  The plan is a finished one:
 * it has been through the planner's last step.
 */
extern CustomScan *zen_plannode_make(Plan *below, const ZenPlanNode *kind);

/* ---------- keyjoin.c: nested loops whose inner row is found by a key ---------- */

/*
 * zen_keyjoin_looks_ahead -- may a query's key joins read outer rows before they are asked for?
 *
 * To be called before the query is planned.
 */
extern bool zen_keyjoin_looks_ahead(Query *query);

/* zen_keyjoin_mark -- put the node on top of each nested loop of a finished plan that is a key join. */
extern void zen_keyjoin_mark(PlannedStmt *stmt, bool looks_ahead);

/* zen_keyjoin_init -- register the node.  Once a process, before the first of the above. */
extern void zen_keyjoin_init(void);

#endif							/* ZEN_PLANNODE_H */
