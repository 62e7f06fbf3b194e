/*
 * batchagg.c -- aggregates in batches: which functions and which queries; path, costs and plan.
 *
 * README, "Aggregates: which queries" and "why the answers are the same", has the rules.  The comment above each group
 * of functions names those of PostgreSQL for which it stands.
 */
#include "exec/batch.h"

#include "base/guc.h"
#include "catalog/pg_aggregate_d.h"
#include "catalog/pg_class_d.h"
#include "exec/plannode.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "parser/parsetree.h"
#include "table/zenam_rel.h"
#include "utils/builtins.h"
#include "utils/cash.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

/* A row costs a third of the instructions that it costs in SeqScan and Agg (doc/performance.md); some caution. */
#define ROW_COST	0.4

static create_upper_paths_hook_type prev_upper_paths;
static CustomPathMethods path_methods;

/* ---------- count(*), count(x): int8inc, int8inc_any ---------- */

static void
add_count(ZenAggTotal *total, const Datum *values, int n)
{
	total->n += n;
}

static Datum
count_result(const ZenAggTotal *total)
{
	return Int64GetDatum(total->n);
}

/* ---------- sums of integers ---------- */

/* int2_sum, int4_sum, int2_avg_accum, int4_avg_accum: none of them looks for an overflow */
static void
add_int2(ZenAggTotal *total, const Datum *values, int n)
{
	uint64		sum = (uint64) total->sum;

	for (int i = 0; i < n; i++)
		sum += (uint64) (int64) DatumGetInt16(values[i]);
	total->sum = (int64) sum;
	total->n += n;
}

static void
add_int4(ZenAggTotal *total, const Datum *values, int n)
{
	uint64		sum = (uint64) total->sum;

	for (int i = 0; i < n; i++)
		sum += (uint64) (int64) DatumGetInt32(values[i]);
	total->sum = (int64) sum;
	total->n += n;
}

static Datum
sum_result(const ZenAggTotal *total)
{
	return Int64GetDatum(total->sum);
}

/* int8_avg */
static Datum
average(Numeric sum, int64 n)
{
	return DirectFunctionCall2(numeric_div, NumericGetDatum(sum), NumericGetDatum(int64_to_numeric(n)));
}

static Datum
avg_result(const ZenAggTotal *total)
{
	return average(int64_to_numeric(total->sum), total->n);
}

/* int8_avg_accum */
static void
add_int8(ZenAggTotal *total, const Datum *values, int n)
{
	int128		sum = total->wide_sum;

	for (int i = 0; i < n; i++)
		sum += (int128) DatumGetInt64(values[i]);
	total->wide_sum = sum;
	total->n += n;
}

static Numeric
wide_numeric(int128 value)
{
	char		digits[48];		/* 39, a sign, and the end */
	char	   *p = digits + sizeof(digits);
	bool		negative = value < 0;

	if (value >= PG_INT64_MIN && value <= PG_INT64_MAX)
		return int64_to_numeric((int64) value);
	*--p = '\0';
	for (; value != 0; value /= 10)
		*--p = (char) ('0' + (int) (negative ? -(value % 10) : value % 10));
	if (negative)
		*--p = '-';
	return DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(p), ObjectIdGetDatum(InvalidOid),
											   Int32GetDatum(-1)));
}

/* numeric_poly_sum, numeric_poly_avg */
static Datum
wide_sum_result(const ZenAggTotal *total)
{
	return NumericGetDatum(wide_numeric(total->wide_sum));
}

static Datum
wide_avg_result(const ZenAggTotal *total)
{
	return average(wide_numeric(total->wide_sum), total->n);
}

/* ---------- sums of floats ---------- */

/* float4pl, float8pl: strict, so the first value is the first sum */
static void
add_float4(ZenAggTotal *total, const Datum *values, int n)
{
	float4		sum = (float4) total->float_sum;
	int			i = 0;

	if (total->n == 0 && n > 0)
		sum = DatumGetFloat4(values[i++]);
	for (; i < n; i++)
		sum = float4_pl(sum, DatumGetFloat4(values[i]));
	total->float_sum = sum;
	total->n += n;
}

static void
add_float8(ZenAggTotal *total, const Datum *values, int n)
{
	float8		sum = total->float_sum;
	int			i = 0;

	if (total->n == 0 && n > 0)
		sum = DatumGetFloat8(values[i++]);
	for (; i < n; i++)
		sum = float8_pl(sum, DatumGetFloat8(values[i]));
	total->float_sum = sum;
	total->n += n;
}

static Datum
float4_sum_result(const ZenAggTotal *total)
{
	return Float4GetDatum((float4) total->float_sum);
}

static Datum
float8_sum_result(const ZenAggTotal *total)
{
	return Float8GetDatum(total->float_sum);
}

/* float4_accum, float8_accum: the squares are not asked for, but they may overflow */
static inline void
accumulate(ZenAggTotal *total, float8 value)
{
	float8		before = total->float_sum;
	float8		n = (float8) total->n + 1.0;

	total->float_sum += value;
	if (total->n > 0)
	{
		float8		tmp = value * n - total->float_sum;

		total->squares += tmp * tmp / (n * (float8) total->n);
		if (isinf(total->float_sum) || isinf(total->squares))
		{
			if (!isinf(before) && !isinf(value))
				float_overflow_error();
			total->squares = get_float8_nan();
		}
	}
	else if (isnan(value) || isinf(value))
		total->squares = get_float8_nan();
	total->n++;
}

static void
accumulate_float4(ZenAggTotal *total, const Datum *values, int n)
{
	for (int i = 0; i < n; i++)
		accumulate(total, DatumGetFloat4(values[i]));
}

static void
accumulate_float8(ZenAggTotal *total, const Datum *values, int n)
{
	for (int i = 0; i < n; i++)
		accumulate(total, DatumGetFloat8(values[i]));
}

/* float8_avg */
static Datum
float_avg_result(const ZenAggTotal *total)
{
	return Float8GetDatum(total->float_sum / (float8) total->n);
}

/* ---------- min and max: int4larger, float8smaller and the like ---------- */

#define GREATER(a, b)	((a) > (b))
#define LESS(a, b)		((a) < (b))

/* The earlier value stays only if it is beyond the new one: -0 and 0 are equal, and the later counts. */
#define DEFINE_EXTREME(add_extreme, type, get, put, beyond) \
static void \
add_extreme(ZenAggTotal *total, const Datum *values, int n) \
{ \
	type		best; \
	if (n == 0) \
		return; \
	best = get(total->n > 0 ? total->extreme : values[0]); \
	for (int i = total->n > 0 ? 0 : 1; i < n; i++) \
	{ \
		type		value = get(values[i]); \
		best = beyond(best, value) ? best : value; \
	} \
	total->extreme = put(best); \
	total->n += n; \
}

DEFINE_EXTREME(max_int2, int16, DatumGetInt16, Int16GetDatum, GREATER)
DEFINE_EXTREME(min_int2, int16, DatumGetInt16, Int16GetDatum, LESS)
DEFINE_EXTREME(max_int4, int32, DatumGetInt32, Int32GetDatum, GREATER)
DEFINE_EXTREME(min_int4, int32, DatumGetInt32, Int32GetDatum, LESS)
DEFINE_EXTREME(max_int8, int64, DatumGetInt64, Int64GetDatum, GREATER)
DEFINE_EXTREME(min_int8, int64, DatumGetInt64, Int64GetDatum, LESS)
DEFINE_EXTREME(max_oid, Oid, DatumGetObjectId, ObjectIdGetDatum, GREATER)
DEFINE_EXTREME(min_oid, Oid, DatumGetObjectId, ObjectIdGetDatum, LESS)
DEFINE_EXTREME(max_float4, float4, DatumGetFloat4, Float4GetDatum, float4_gt)
DEFINE_EXTREME(min_float4, float4, DatumGetFloat4, Float4GetDatum, float4_lt)
DEFINE_EXTREME(max_float8, float8, DatumGetFloat8, Float8GetDatum, float8_gt)
DEFINE_EXTREME(min_float8, float8, DatumGetFloat8, Float8GetDatum, float8_lt)

static Datum
extreme_result(const ZenAggTotal *total)
{
	return total->extreme;
}

StaticAssertDecl(sizeof(DateADT) == sizeof(int32), "dates are compared as int4");
StaticAssertDecl(sizeof(TimeADT) == sizeof(int64) && sizeof(Timestamp) == sizeof(int64),
				 "times and timestamps are compared as int8");
StaticAssertDecl(sizeof(Cash) == sizeof(int64), "money is compared as int8");

/* ---------- the list of functions ---------- */

static const ZenAggKind agg_kinds[] = {
	{F_COUNT_, add_count, count_result, true},
	{F_COUNT_ANY, add_count, count_result, true},
	{F_SUM_INT2, add_int2, sum_result},
	{F_SUM_INT4, add_int4, sum_result},
	{F_SUM_INT8, add_int8, wide_sum_result},
	{F_SUM_FLOAT4, add_float4, float4_sum_result},
	{F_SUM_FLOAT8, add_float8, float8_sum_result},
	{F_AVG_INT2, add_int2, avg_result},
	{F_AVG_INT4, add_int4, avg_result},
	{F_AVG_INT8, add_int8, wide_avg_result},
	{F_AVG_FLOAT4, accumulate_float4, float_avg_result},
	{F_AVG_FLOAT8, accumulate_float8, float_avg_result},
	{F_MAX_INT2, max_int2, extreme_result},
	{F_MIN_INT2, min_int2, extreme_result},
	{F_MAX_INT4, max_int4, extreme_result},
	{F_MIN_INT4, min_int4, extreme_result},
	{F_MAX_INT8, max_int8, extreme_result},
	{F_MIN_INT8, min_int8, extreme_result},
	{F_MAX_OID, max_oid, extreme_result},
	{F_MIN_OID, min_oid, extreme_result},
	{F_MAX_FLOAT4, max_float4, extreme_result},
	{F_MIN_FLOAT4, min_float4, extreme_result},
	{F_MAX_FLOAT8, max_float8, extreme_result},
	{F_MIN_FLOAT8, min_float8, extreme_result},
	{F_MAX_DATE, max_int4, extreme_result},
	{F_MIN_DATE, min_int4, extreme_result},
	{F_MAX_TIME, max_int8, extreme_result},
	{F_MIN_TIME, min_int8, extreme_result},
	{F_MAX_TIMESTAMP, max_int8, extreme_result},
	{F_MIN_TIMESTAMP, min_int8, extreme_result},
	{F_MAX_TIMESTAMPTZ, max_int8, extreme_result},
	{F_MIN_TIMESTAMPTZ, min_int8, extreme_result},
	{F_MAX_MONEY, max_int8, extreme_result},
	{F_MIN_MONEY, min_int8, extreme_result},
};

const ZenAggKind *
zen_batchagg_kind(Oid function)
{
	for (int i = 0; i < lengthof(agg_kinds); i++)
		if (agg_kinds[i].function == function)
			return &agg_kinds[i];
	return NULL;
}

/* ---------- which queries ---------- */

/*
 * Expressions that the node does not evaluate: values that belong to another node, and functions whose number of calls
 * matters.
 */
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
agg_is_known(Aggref *aggref)
{
	return zen_batchagg_kind(aggref->aggfnoid) != NULL && aggref->aggdirectargs == NIL && aggref->aggorder == NIL &&
		aggref->aggdistinct == NIL && !aggref->aggvariadic && aggref->aggkind == AGGKIND_NORMAL &&
		aggref->agglevelsup == 0 && aggref->aggsplit == AGGSPLIT_SIMPLE && list_length(aggref->args) <= 1 &&
		!has_foreign_parts((Node *) aggref->args, NULL) && !has_foreign_parts((Node *) aggref->aggfilter, NULL) &&
		!contain_volatile_functions((Node *) aggref->args) &&
		!contain_volatile_functions((Node *) aggref->aggfilter);
}

bool
zen_batchagg_is_plain(const Aggref *aggref)
{
	return zen_batchagg_kind(aggref->aggfnoid) != NULL && aggref->aggdirectargs == NIL && aggref->aggorder == NIL &&
		aggref->aggdistinct == NIL && aggref->aggfilter == NULL &&
		(aggref->args == NIL || IsA(linitial_node(TargetEntry, aggref->args)->expr, Var));
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
		if (!IsA(lfirst(lc), Aggref) || !agg_is_known(lfirst(lc)))
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
	node->methods = GetCustomScanMethods(ZEN_BATCH_NODE, false);
	return &node->scan.plan;
}

void
zen_batchagg_init(void)
{
	path_methods.CustomName = ZEN_BATCH_NODE;
	path_methods.PlanCustomPath = make_plan;
	prev_upper_paths = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths;
}
