/*
 * pointwhy.c -- why a statement on zen tables is not run with kept executor state.
 *
 * Three things may happen.  A plan is not kept: its form does not allow it, or it is made for one execution.  A plan is
 * kept whole, although it reads one table by an index: something hinders that it is a point access.  Or a plan is kept,
 * and one execution cannot make use of it.
 *
 * Each is counted by its reason, once a plan or once an execution.  A plan of other tables is not counted.
 */
#include "exec/pointwhy.h"

#define NOT_KEPT	"not kept"
#define WHOLE		"kept whole"
#define NOT_USED	"not used"

/* R(name, outcome, hint): each sentence of a hint is about the plan or the execution that was counted. */
#define R(name, outcome, hint)	[ZEN_WHY_##name] = {#name, outcome, hint}

static const ZenPointReason reasons[ZEN_NWHYS] = {
	R(planned_once, NOT_KEPT,
	  "It came by the simple protocol, or as dynamic SQL. Use prepared statements."),
	R(custom_plan, NOT_KEPT,
	  "It is made for certain values of the parameters: the first five times, and where the values matter. "
	  "See plan_cache_mode."),
	R(no_parameters, NOT_KEPT,
	  "It has no parameters, and is no point access. Mostly such plans are executed once."),
	R(compiled, NOT_KEPT,
	  "It is so costly that its expressions are compiled. See jit_above_cost."),
	R(parallel, NOT_KEPT,
	  "Parallel workers take part. See max_parallel_workers_per_gather."),
	R(subquery, NOT_KEPT,
	  "It has subqueries or common table expressions that are not joins."),
	R(merge, NOT_KEPT,
	  "It is a MERGE. INSERT ... ON CONFLICT can be kept."),
	R(several_targets, NOT_KEPT,
	  "It changes a partitioned table, or one with children. Name the partition."),
	R(transition_table, NOT_KEPT,
	  "A trigger of the table has a transition table."),
	R(other_table, NOT_KEPT,
	  "Something else than a zen table takes part, as a table of another access method, or a materialized view."),
	R(aggregate, NOT_KEPT,
	  "It computes aggregates, groups or windows."),
	R(sort, NOT_KEPT,
	  "It sorts. An index may give the order."),
	R(join, NOT_KEPT,
	  "It joins by hash or merge, or keeps rows for a join. Nested loops over indexes can be kept."),
	R(append, NOT_KEPT,
	  "It reads a partitioned table, or one with children, or is a UNION."),
	R(bitmap_scan, NOT_KEPT,
	  "It reads by a bitmap of rows. See enable_bitmapscan."),
	R(other_node, NOT_KEPT,
	  "It has another node that cannot be kept. EXPLAIN shows it."),
	R(no_table, NOT_KEPT,
	  "It reads no table: the planner knows that there is no row."),
	R(unknown_expression, NOT_KEPT,
	  "It, or its table, has an expression that may remember anything, as a subscript of an extension's type."),
	R(row_trigger, WHOLE,
	  "The table has a BEFORE row trigger for it."),
	R(returning, WHOLE,
	  "RETURNING names more than the new row."),
	R(volatile_lock, WHOLE,
	  "It locks rows and calls a volatile function."),
	R(deferrable_key, WHOLE,
	  "The index is deferrable, or not valid."),
	R(not_by_key, WHOLE,
	  "It does not name all columns of a unique index by equality, or not by values of the columns' types."),
	R(first_run, NOT_USED,
	  "The plan was executed for the first time."),
	R(forgotten, NOT_USED,
	  "A session keeps 256 plans, and others had taken the plan's place since its last execution."),
	R(nested, NOT_USED,
	  "The same plan was being executed, as when a trigger calls its function again."),
	R(instrumented, NOT_USED,
	  "Somebody measured its nodes: EXPLAIN ANALYZE, or auto_explain.log_analyze."),
	R(cursor, NOT_USED,
	  "A cursor may go back. Declare it with NO SCROLL."),
	R(read_only, NOT_USED,
	  "The transaction may not write."),
	R(own_row, NOT_USED,
	  "A transaction with one snapshot has inserted a key that another has deleted meanwhile."),
	R(changed, NOT_USED,
	  "A table or a function was changed since the plan was made, or while it was started."),
};

const ZenPointReason *
zen_point_reason(ZenPointWhy why)
{
	Assert(why > ZEN_WHY_NONE && why < ZEN_NWHYS && reasons[why].hint != NULL);
	return &reasons[why];
}

void
zen_point_count(ZenPointWhy why)
{
	const ZenPointReason *reason = zen_point_reason(why);

	zen_my_counters[ZEN_C_no_reason + why]++;
	if (unlikely(message_level_is_interesting(DEBUG1)))
		ereport(DEBUG1,
				(errmsg_internal("zen: executor state is %s: %s", reason->outcome, reason->name),
				 errdetail_internal("%s", reason->hint)));
}
