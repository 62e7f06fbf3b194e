/*
 * votes.c -- which values of partition keys does a plan name?
 *
 * A vote is a value that a partition key must equal: a constant, a parameter of the statement, or each element of an
 * array of these.  The key of each row of an INSERT also votes.  Values that are only found in the execution, as on the
 * inner side of a nested loop, do not vote.
 *
 * A plan that looks at no table, as that of SELECT f(1), is not the first of its transaction: the first one in the
 * function is.
 */
#include "admin/votes.h"

#include "access/hash.h"
#include "access/transam.h"
#include "admin/partitionkey.h"
#include "base/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "parser/parsetree.h"
#include "storage/proc.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

typedef struct Collector
{
	List	   *rtable;
	ParamListInfo params;
	ZenPartitionVotes votes;
} Collector;

/* ---------- values ---------- */

/* Casts that change nothing are no concern. */
static Node *
strip(Node *node)
{
	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}

/* A value that is known before the execution, and is not null. */
static bool
known_value(Collector *c, Node *node, Datum *value)
{
	ParamExternData workspace,
			   *param;

	node = strip(node);
	if (node != NULL && IsA(node, Const))
	{
		*value = ((Const *) node)->constvalue;
		return !((Const *) node)->constisnull;
	}
	if (node == NULL || !IsA(node, Param) || ((Param *) node)->paramkind != PARAM_EXTERN || c->params == NULL ||
		((Param *) node)->paramid <= 0 || ((Param *) node)->paramid > c->params->numParams)
		return false;
	param = &c->params->params[((Param *) node)->paramid - 1];
	if (c->params->paramFetch != NULL)
		param = c->params->paramFetch(c->params, ((Param *) node)->paramid, true, &workspace);
	*value = param->value;
	return !param->isnull && param->ptype == ((Param *) node)->paramtype;
}

static void
vote(Collector *c, const ZenPartitionKey *key, Oid type, Datum value)
{
	if (c->votes.n < ZEN_MAX_VOTES && zen_partitionkey_hash(key, type, value, &c->votes.hash[c->votes.n]))
		c->votes.n++;
}

static void
vote_elements(Collector *c, const ZenPartitionKey *key, Oid type, Datum value)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	int16		length;
	bool		by_value,
			   *nulls;
	char		align;
	Datum	   *elements;
	int			n;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			vote(c, key, type, elements[i]);
}

/* ---------- conditions ---------- */

/* The columns of an index: conditions of an index-only scan name those in place of the table's. */
static AttrNumber
column_of_index(Oid index, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	AttrNumber	column = InvalidAttrNumber;

	if (!HeapTupleIsValid(tuple))
		return InvalidAttrNumber;
	if (attno > 0 && attno <= ((Form_pg_index) GETSTRUCT(tuple))->indnatts)
		column = ((Form_pg_index) GETSTRUCT(tuple))->indkey.values[attno - 1];
	ReleaseSysCache(tuple);
	return column;
}

static bool
is_key(const ZenPartitionKey *key, Oid index, Node *node)
{
	Var		   *var = (Var *) strip(node);

	if (var == NULL || !IsA(var, Var))
		return false;
	return (var->varno == INDEX_VAR ? column_of_index(index, var->varattno) : var->varattno) == key->attno;
}

/* One condition.  index: that of an index-only scan. */
static void
look_at_condition(Collector *c, const ZenPartitionKey *key, Oid index, Node *condition)
{
	bool		is_list = IsA(condition, ScalarArrayOpExpr);
	List	   *args;
	Oid			op,
				left,
				right;
	Datum		value;

	if (is_list && ((ScalarArrayOpExpr *) condition)->useOr)
	{
		op = ((ScalarArrayOpExpr *) condition)->opno;
		args = ((ScalarArrayOpExpr *) condition)->args;
	}
	else if (IsA(condition, OpExpr) && list_length(((OpExpr *) condition)->args) == 2)
	{
		op = ((OpExpr *) condition)->opno;
		args = ((OpExpr *) condition)->args;
		if (!is_key(key, index, linitial(args)) && is_key(key, index, lsecond(args)))
		{
			op = get_commutator(op);
			args = list_make2(lsecond(args), linitial(args));
		}
	}
	else
		return;
	if (!is_key(key, index, linitial(args)) || !OidIsValid(op) ||
		get_op_opfamily_strategy(op, key->opfamily) != HTEqualStrategyNumber ||
		!known_value(c, lsecond(args), &value))
		return;
	op_input_types(op, &left, &right);
	if (is_list)
		vote_elements(c, key, right, value);
	else
		vote(c, key, right, value);
}

static const ZenPartitionKey *
key_of(Collector *c, Index rti)
{
	RangeTblEntry *rte = rti > 0 && rti <= list_length(c->rtable) ? rt_fetch(rti, c->rtable) : NULL;
	const ZenPartitionKey *key;

	if (rte == NULL || rte->rtekind != RTE_RELATION || rte->relid < FirstNormalObjectId)
		return NULL;
	key = zen_partitionkey_of(rte->relid);
	return key->attno != InvalidAttrNumber ? key : NULL;
}

static void
look_at_scan(Collector *c, Plan *plan, Oid index, List *conditions)
{
	const ZenPartitionKey *key = key_of(c, ((Scan *) plan)->scanrelid);
	ListCell   *lc;

	if (key == NULL)
		return;
	foreach(lc, conditions)
		look_at_condition(c, key, index, lfirst(lc));
	foreach(lc, plan->qual)
		look_at_condition(c, key, index, lfirst(lc));
}

/* ---------- rows that are inserted ---------- */

/* The expression from which a column of a plan's rows is computed.  *plan becomes the plan below that computes it. */
static Node *
origin(Plan **plan, Node *node)
{
	for (node = strip(node); node != NULL && IsA(node, Var); node = strip(node))
	{
		Var		   *var = (Var *) node;
		Plan	   *below = IsA(*plan, SubqueryScan) && var->varno == ((Scan *) *plan)->scanrelid ?
		((SubqueryScan *) *plan)->subplan : var->varno == OUTER_VAR ? outerPlan(*plan) : NULL;

		if (below == NULL || var->varattno <= 0 || var->varattno > list_length(below->targetlist))
			break;
		*plan = below;
		node = (Node *) list_nth_node(TargetEntry, below->targetlist, var->varattno - 1)->expr;
	}
	return node;
}

/* A column of the rows of VALUES. */
static void
look_at_values(Collector *c, const ZenPartitionKey *key, ValuesScan *scan, AttrNumber column)
{
	ListCell   *lc;
	Datum		value;

	foreach(lc, scan->values_lists)
	{
		if (column > 0 && column <= list_length(lfirst(lc)) &&
			known_value(c, list_nth(lfirst(lc), column - 1), &value))
			vote(c, key, key->type, value);
	}
}

static void
look_at_insert(Collector *c, ModifyTable *change)
{
	const ZenPartitionKey *key = key_of(c, (Index) linitial_int(change->resultRelations));
	Plan	   *source = outerPlan(change);
	ListCell   *lc;
	Datum		value;

	if (key == NULL || source == NULL)
		return;
	foreach(lc, source->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Plan	   *plan = source;
		Node	   *node = entry->resno == key->attno ? origin(&plan, (Node *) entry->expr) : NULL;

		if (node == NULL)
			continue;
		if (IsA(plan, ValuesScan) && IsA(node, Var))
			look_at_values(c, key, (ValuesScan *) plan, ((Var *) node)->varattno);
		else if (known_value(c, node, &value))
			vote(c, key, key->type, value);
	}
}

/* ---------- plans ---------- */

static void look_at_plan(Collector *c, Plan *plan);

static void
look_at_plans(Collector *c, List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		look_at_plan(c, lfirst(lc));
}

/* Look at a plan node and at all below it. */
static void
look_at_plan(Collector *c, Plan *plan)
{
	if (plan == NULL)
		return;
	check_stack_depth();
	switch (nodeTag(plan))
	{
		case T_SeqScan:
			look_at_scan(c, plan, InvalidOid, NIL);
			break;
		case T_IndexScan:
			look_at_scan(c, plan, InvalidOid, ((IndexScan *) plan)->indexqualorig);
			break;
		case T_IndexOnlyScan:
			look_at_scan(c, plan, ((IndexOnlyScan *) plan)->indexid, ((IndexOnlyScan *) plan)->indexqual);
			break;
		case T_BitmapHeapScan:
			look_at_scan(c, plan, InvalidOid, ((BitmapHeapScan *) plan)->bitmapqualorig);
			break;
		case T_ModifyTable:
			if (((ModifyTable *) plan)->operation == CMD_INSERT)
				look_at_insert(c, (ModifyTable *) plan);
			break;
		case T_Append:
			look_at_plans(c, ((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			look_at_plans(c, ((MergeAppend *) plan)->mergeplans);
			break;
		case T_SubqueryScan:
			look_at_plan(c, ((SubqueryScan *) plan)->subplan);
			break;
		case T_CustomScan:
			look_at_plans(c, ((CustomScan *) plan)->custom_plans);
			break;
		default:
			break;
	}
	look_at_plan(c, plan->lefttree);
	look_at_plan(c, plan->righttree);
}

static bool
looks_at_table(const PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->rtable)
	{
		if (lfirst_node(RangeTblEntry, lc)->rtekind == RTE_RELATION)
			return true;
	}
	return false;
}

/* Parallel workers stay where they are started, and so do processes that serve no client. */
static bool
may_move(void)
{
	return MyBackendType == B_BACKEND && MyProc != NULL;
}

static void
vote_at_start(QueryDesc *query, int eflags)
{
	static LocalTransactionId last = InvalidLocalTransactionId;
	Collector	c = {.rtable = query->plannedstmt->rtable,.params = query->params};

	if (last == zen_my_lxid() || !may_move() || (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0 ||
		!looks_at_table(query->plannedstmt))
		return;
	last = zen_my_lxid();
	zen_partitionkey_fresh();
	look_at_plan(&c, query->plannedstmt->planTree);
	look_at_plans(&c, query->plannedstmt->subplans);
	zen_partition_begin(&c.votes);
}

void
zen_votes_start(const ZenStartLink *rest, QueryDesc *query, int eflags)
{
	if (unlikely(zen_partition_soft))
		vote_at_start(query, eflags);
	zen_start_rest(rest, query, eflags);
}
