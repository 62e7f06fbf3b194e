/*
 * batchplan.c -- which queries are aggregated block by block.
 *
 * A query over one zen table without GROUP BY, all of whose aggregates are known (batchagg.c), gets one more path
 * beside PostgreSQL's.  The planner takes it if it is the cheapest: an index-only scan of few rows may be cheaper, or
 * a parallel plan.
 *
 * The node is a CustomScan that stands for Agg; its tuple has the aggregates' results.  Its child is the SeqScan that
 * would be below the Agg.
 */
#include "exec/batchplan.h"

#include "base/guc.h"
#include "catalog/pg_aggregate_d.h"
#include "catalog/pg_class_d.h"
#include "exec/batchagg.h"
#include "exec/batchexec.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "table/zenam_rel.h"

/* A row costs a third of the instructions that it costs in SeqScan and Agg (doc/performance.md); some caution. */
#define ROW_COST	0.4

static create_upper_paths_hook_type prev_upper_paths;
static CustomPathMethods path_methods;
static CustomScanMethods scan_methods;

/* ---------- the form ---------- */

/* What the node does not evaluate: values that belong to another node, and functions whose calls count. */
static bool
has_foreign_parts(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) || IsA(node, SubLink))
		return true;
	if (IsA(node, Param) && ((Param *) node)->paramkind != PARAM_EXTERN)
		return true;
	return expression_tree_walker(node, has_foreign_parts, context);
}

static bool
is_known(Aggref *aggref)
{
	return zen_batchagg_kind(aggref->aggfnoid) != NULL && aggref->aggdirectargs == NIL && aggref->aggorder == NIL &&
		aggref->aggdistinct == NIL && !aggref->aggvariadic && aggref->aggkind == AGGKIND_NORMAL &&
		aggref->agglevelsup == 0 && aggref->aggsplit == AGGSPLIT_SIMPLE && list_length(aggref->args) <= 1 &&
		!has_foreign_parts((Node *) aggref->args, NULL) && !has_foreign_parts((Node *) aggref->aggfilter, NULL) &&
		!contain_volatile_functions((Node *) aggref->args) &&
		!contain_volatile_functions((Node *) aggref->aggfilter);
}

/* The different aggregates of the query; NIL if there is none, or one that is not known. */
static List *
known_aggregates(RelOptInfo *grouped, List *having)
{
	List	   *exprs = list_concat_copy(grouped->reltarget->exprs, having);
	List	   *parts = pull_var_clause((Node *) exprs, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_WINDOWFUNCS |
										PVC_INCLUDE_PLACEHOLDERS);
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, parts)
	{
		if (!IsA(lfirst(lc), Aggref) || !is_known(lfirst(lc)))
			return NIL;
		result = list_append_unique(result, lfirst(lc));
	}
	return result;
}

/* Is it a whole table of zen's, read by nothing but quals? */
static bool
is_plain_table(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte;
	ListCell   *lc;

	if (rel->reloptkind != RELOPT_BASEREL || rel->rtekind != RTE_RELATION || IS_DUMMY_REL(rel))
		return false;
	rte = planner_rt_fetch(rel->relid, root);
	if (rte->relkind != RELKIND_RELATION || rte->inh || rte->tablesample != NULL || !zen_relid_is_zen(rte->relid))
		return false;
	/* quals without a column of the table stand above the scan */
	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, lc);

		if (info->pseudoconstant || contain_volatile_functions((Node *) info->clause))
			return false;
	}
	return true;
}

static bool
is_plain_query(PlannerInfo *root, GroupPathExtraData *extra)
{
	Query	   *parse = root->parse;

	return parse->hasAggs && parse->groupClause == NIL && parse->groupingSets == NIL && parse->rowMarks == NIL &&
		root->rowMarks == NIL && extra->patype == PARTITIONWISE_AGGREGATE_NONE;
}

/* ---------- path and plan ---------- */

/*
 * As cost_agg() for plain aggregation, with less for handing on rows and for calling transition functions.  Quals and
 * arguments cost the same.
 */
static void
set_costs(PlannerInfo *root, Path *path, const Path *scan, double tuples)
{
	AggClauseCosts costs = {0};
	QualCost   *target = &path->pathtarget->cost;
	double		calls = list_length(root->aggtransinfos) * scan->rows;
	Cost		saved = (1 - ROW_COST) * (cpu_tuple_cost * tuples + cpu_operator_cost * calls);

	get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &costs);
	zen_copy_disabled_nodes(path, scan);
	path->rows = 1;
	path->startup_cost = scan->total_cost - saved +
		costs.transCost.startup + costs.transCost.per_tuple * scan->rows +
		costs.finalCost.startup + costs.finalCost.per_tuple + target->startup;
	path->total_cost = path->startup_cost + cpu_tuple_cost + target->per_tuple;
}

static void
add_batch_path(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped, GroupPathExtraData *extra)
{
	CustomPath *path;
	Path	   *scan;
	List	   *aggregates;

	if (!is_plain_query(root, extra) || !is_plain_table(root, input))
		return;
	aggregates = known_aggregates(grouped, (List *) extra->havingQual);
	if (aggregates == NIL)
		return;
	scan = create_seqscan_path(root, input, NULL, 0);
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = grouped;
	path->path.pathtarget = grouped->reltarget;
	path->path.parallel_safe = grouped->consider_parallel && scan->parallel_safe;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make1(scan);
	path->custom_private = list_make2(aggregates, extra->havingQual);
	path->methods = &path_methods;
	set_costs(root, &path->path, scan, input->tuples);
	add_path(grouped, &path->path);
}

static void
upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output, void *extra)
{
	if (prev_upper_paths)
		prev_upper_paths(root, stage, input, output, extra);
	if (zen_batch_aggregate && stage == UPPERREL_GROUP_AGG && extra != NULL)
		add_batch_path(root, input, output, extra);
}

static Plan *
make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *node = makeNode(CustomScan);
	ListCell   *lc;

	node->scan.plan.targetlist = tlist;
	node->scan.plan.qual = lsecond(path->custom_private);
	node->flags = path->flags;
	node->custom_plans = custom_plans;
	foreach(lc, (List *) linitial(path->custom_private))
		node->custom_scan_tlist = lappend(node->custom_scan_tlist,
										  makeTargetEntry(copyObject(lfirst(lc)), foreach_current_index(lc) + 1, NULL,
														  false));
	node->methods = &scan_methods;
	return &node->scan.plan;
}

void
zen_batchplan_init(void)
{
	zen_batchexec_init();
	path_methods.CustomName = ZEN_BATCH_NODE;
	path_methods.PlanCustomPath = make_plan;
	scan_methods.CustomName = ZEN_BATCH_NODE;
	scan_methods.CreateCustomScanState = zen_batchexec_state;
	RegisterCustomScanMethods(&scan_methods);
	prev_upper_paths = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths;
}
