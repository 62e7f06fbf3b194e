/*
 * keptnodes.h -- the one table of the executor's nodes: which can be kept and how these start again, and why the others
 * cannot.
 */
#ifndef ZEN_KEPTNODES_H
#define ZEN_KEPTNODES_H

#include "base/compat.h"

#include "access/genam.h"
#include "exec/point.h"
#include "exec/pointwhy.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"

/* Names of zen's own nodes below the top of a plan. */
#define ZEN_KEYJOIN_NODE	"ZenKeyJoin"
#define ZEN_BATCH_NODE		"ZenBatchAggregate"

#define ZEN_NODE_EXPRS		4

/* What zen knows of a node.  Fields are offsets in the struct of its plan or its state; 0: there is none. */
typedef struct ZenNodeKind
{
	NodeTag		tag;			/* of its plan */
	const char *name;			/* of a CustomScan; NULL: of any other */

	/*
	 * why it cannot be kept; or a function that says so of one plan; or
	 * neither: it can
	 */
	ZenPointWhy why;
	ZenPointWhy (*refuses) (const PlannedStmt *stmt, const Plan *plan);

	/*
	 * its expressions, beside targetlist and qual; and those of its state
	 * that are compiled from them
	 */
	uint16		exprs[ZEN_NODE_EXPRS];
	uint16		states[ZEN_NODE_EXPRS];

	/* plans below it, beside lefttree and righttree: one, or a list */
	uint16		plan;
	uint16		plans;

	bool		has_table;		/* reads or changes a table by itself */
	bool		only_reads;		/* asking it for rows changes nothing, unless
								 * its expressions or plans below do */

	/*
	 * a kept one between its executions; it starts again by ExecReScan,
	 * ModifyTable by what open does
	 */
	void		(*open) (PlanState *node);
	void		(*close) (PlanState *node);
} ZenNodeKind;

/* A field of a plan or a state, by its offset. */
#define ZEN_NODE_FIELD(node, offset, type)	(*(type *) ((char *) (node) + (offset)))

/* zen_keptnodes_kind -- what is known of a plan's uppermost node. */
extern const ZenNodeKind *zen_keptnodes_kind(const Plan *plan);

/*
 * zen_keptnodes_refuse -- why a plan cannot be kept whole: for its first node from above that cannot, or else for the
 * statement.
 *
 * Caller holds the locks that the plan needs.
 */
extern ZenPointWhy zen_keptnodes_refuse(const PlannedStmt *stmt, const Plan *plan);

/*
 * zen_keptnodes_exprs -- call walker for the expressions of a plan's uppermost node, until it says true.  Result: has
 * it?
 */
extern bool zen_keptnodes_exprs(Plan *plan, bool (*walker) (Node *, void *), void *context);

/* zen_keptnodes_walk -- the same for all nodes of a plan that is kept, or might be. */
extern bool zen_keptnodes_walk(Plan *plan, bool (*walker) (Node *, void *), void *context);

/* What the states of an index scan and of an index-only scan have in common. */
typedef struct ZenIndexState
{
	Relation   *index;
	IndexScanDesc *scan;
	ScanKey		keys;
	int			nkeys;
	IndexRuntimeKeyInfo *runtime_keys;
	int			nruntime_keys;
	ExprContext *runtime_context;
	bool	   *keys_ready;
} ZenIndexState;

/* zen_keptnodes_index -- the parts of such a node; false if it is none. */
extern bool zen_keptnodes_index(PlanState *node, ZenIndexState *parts);

/* zen_keptnodes_find -- note the nodes of a plan that the standard executor has just started. */
extern void zen_keptnodes_find(ZenPoint *point);

/*
 * zen_keptnodes_run -- give the next rows, as ExecutorRun does; count 0: all that are left.
 *
 * The tables are open.  Call it in the state's query context.
 */
extern void zen_keptnodes_run(ZenPoint *point, bool send, uint64 count);

/* zen_keptnodes_close -- end scans and close indexes, wherever the nodes stand.  Nothing to do for a point access. */
extern void zen_keptnodes_close(ZenPoint *point);

#endif							/* ZEN_KEPTNODES_H */
