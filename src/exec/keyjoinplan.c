/*
 * keyjoinplan.c -- which nested loops are key joins.
 *
 * The planner has done its work.  Wherever its plan has a nested loop whose inner side is an index scan by equality on
 * all columns of a unique index of a zen table, the node ZenKeyJoin is put on top of the loop.  It does the loop's work
 * (keyjoin.c), or lets the loop do it.  So EXPLAIN shows both, and the planner's choice and costs stay.
 *
 * Outer rows are read ahead only where nobody can tell (zen_keyjoin_looks_ahead, locks_rows, may_change).
 */
#include "exec/keyjoinplan.h"

#include "catalog/pg_class.h"
#include "exec/keyjoin.h"
#include "exec/keyprobe.h"
#include "exec/passon.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "table/zenam_rel.h"

static CustomScanMethods scan_methods;

typedef struct Marking
{
	PlannedStmt *stmt;
	bool		looks_ahead;
} Marking;

/* ---------- reading ahead ---------- */

/*
 * The order in which volatile functions are called shows.  Other functions see the same whenever they are called, since
 * the statement's snapshot stays the same.  A query on one table cannot have a join; most statements are such.
 */
bool
zen_keyjoin_looks_ahead(Query *query)
{
	if (query->commandType == CMD_UTILITY)
		return false;
	if (list_length(query->rtable) == 1 && linitial_node(RangeTblEntry, query->rtable)->rtekind == RTE_RELATION &&
		!query->hasSubLinks)
		return false;
	return !contain_volatile_functions((Node *) query);
}

/* Are rows locked that the statement only reads?  One that is locked before its time shows. */
static bool
locks_rows(PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->rowMarks)
		if (RowMarkRequiresRowShareLock(lfirst_node(PlanRowMark, lc)->markType))
		return true;
	return false;
}

/*
 * May asking a plan for rows change others, by WITH (UPDATE ...)?  Only nodes whose expressions are looked at here, and
 * have no subqueries, are known not to.
 */
static bool
may_change(PlannedStmt *stmt, Plan *plan)
{
	Node	   *more = NULL;

	if (plan == NULL)
		return false;
	check_stack_depth();
	switch (nodeTag(plan))
	{
		case T_SubqueryScan:
			if (may_change(stmt, ((SubqueryScan *) plan)->subplan))
				return true;
			break;
		case T_CteScan:
			if (may_change(stmt, list_nth(stmt->subplans, ((CteScan *) plan)->ctePlanId - 1)))
				return true;
			break;
		case T_FunctionScan:
			more = (Node *) ((FunctionScan *) plan)->functions;
			break;
		case T_ValuesScan:
			more = (Node *) ((ValuesScan *) plan)->values_lists;
			break;
		case T_NestLoop:
			more = (Node *) ((NestLoop *) plan)->join.joinqual;
			break;
		case T_IndexScan:
			more = (Node *) ((IndexScan *) plan)->indexqual;
			break;
		case T_IndexOnlyScan:
			more = (Node *) ((IndexOnlyScan *) plan)->indexqual;
			break;
		case T_CustomScan:
			if (!zen_keyjoin_is(plan))
				return true;
			break;
		case T_SeqScan:
		case T_Sort:
		case T_Agg:
			break;
		default:
			return true;
	}
	return plan->initPlan != NIL || contain_subplans((Node *) plan->targetlist) ||
		contain_subplans((Node *) plan->qual) || contain_subplans(more) ||
		may_change(stmt, outerPlan(plan)) || may_change(stmt, innerPlan(plan));
}

/* ---------- the form ---------- */

/* The scan of the inner side: its index and the quals by which it is searched. */
static bool
inner_index(Plan *inner, Oid *index, List **quals)
{
	if (IsA(inner, IndexScan))
	{
		IndexScan  *scan = (IndexScan *) inner;

		*index = scan->indexid;
		*quals = scan->indexqual;
		return scan->indexorderby == NIL;
	}
	if (IsA(inner, IndexOnlyScan))
	{
		IndexOnlyScan *scan = (IndexOnlyScan *) inner;

		*index = scan->indexid;
		*quals = scan->indexqual;
		return scan->indexorderby == NIL;
	}
	return false;
}

/*
 * Subqueries in the inner scan's expressions would have to be told that parameters have changed; the nested loop does
 * it.
 */
static bool
is_key_join(PlannedStmt *stmt, NestLoop *join)
{
	Plan	   *inner = innerPlan(join);
	RangeTblEntry *rte;
	Oid			index;
	List	   *quals;

	if (join->nestParams == NIL || join->join.plan.parallel_aware || inner->parallel_aware ||
		!inner_index(inner, &index, &quals))
		return false;
	if (inner->initPlan != NIL || contain_subplans((Node *) inner->qual) || contain_subplans((Node *) quals) ||
		contain_subplans((Node *) inner->targetlist))
		return false;
	rte = rt_fetch(((Scan *) inner)->scanrelid, stmt->rtable);
	return rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION && zen_relid_is_zen(rte->relid) &&
		zen_keyprobe_refuses(index, quals, false) == ZEN_WHY_NONE && zen_keyprobe_fits(index);
}

/* ---------- marking ---------- */

static Plan *
mark_one(Marking *marking, NestLoop *join)
{
	CustomScan *node = zen_passon_make(&join->join.plan, &scan_methods);
	bool		ahead = marking->looks_ahead &&
	!(marking->stmt->hasModifyingCTE && may_change(marking->stmt, outerPlan(join)));

	node->custom_private = list_make1_int(ahead);
	return &node->scan.plan;
}

static void mark_list(Marking *marking, List *plans);

/* The plan, or the node on top of it; the same for all plans below. */
static Plan *
mark(Marking *marking, Plan *plan)
{
	if (plan == NULL)
		return NULL;
	check_stack_depth();
	plan->lefttree = mark(marking, plan->lefttree);
	plan->righttree = mark(marking, plan->righttree);
	switch (nodeTag(plan))
	{
		case T_Append:
			mark_list(marking, ((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			mark_list(marking, ((MergeAppend *) plan)->mergeplans);
			break;
		case T_SubqueryScan:
			((SubqueryScan *) plan)->subplan = mark(marking, ((SubqueryScan *) plan)->subplan);
			break;
		case T_CustomScan:
			mark_list(marking, ((CustomScan *) plan)->custom_plans);
			break;
		case T_NestLoop:
			if (is_key_join(marking->stmt, (NestLoop *) plan))
				return mark_one(marking, (NestLoop *) plan);
			break;
		default:
			break;
	}
	return plan;
}

static void
mark_list(Marking *marking, List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		lfirst(lc) = mark(marking, lfirst(lc));
}

/* Processes of a parallel plan measure nodes by numbers that the node has not; and they do not know own rows. */
void
zen_keyjoin_mark(PlannedStmt *stmt, bool looks_ahead)
{
	Marking		marking = {stmt, looks_ahead && !locks_rows(stmt)};

	if (stmt->commandType == CMD_UTILITY || stmt->utilityStmt != NULL || stmt->parallelModeNeeded)
		return;
	stmt->planTree = mark(&marking, stmt->planTree);
	mark_list(&marking, stmt->subplans);
}

void
zen_keyjoinplan_init(void)
{
	scan_methods.CustomName = ZEN_KEYJOIN_NODE;
	scan_methods.CreateCustomScanState = zen_keyjoin_state;
	RegisterCustomScanMethods(&scan_methods);
	zen_keyjoin_init(ZEN_KEYJOIN_NODE);
}
