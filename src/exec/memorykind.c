/*
 * memorykind.c -- what an expression has in it for as long as it stays compiled, beside what its functions remember.
 *
 * Most nodes have nothing: they look at their arguments, and at types that stay as they are.  Some are compiled from
 * what catalogs say, as of the columns of a type.  A node that is not in the list here may remember anything.
 * README, "What a kept state may remember", has the rule.
 */
#include "exec/memorykind.h"

#include "catalog/pg_language_d.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_proc.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* PostgreSQL's own containers keep nothing while an expression stays compiled; those of extensions may. */
static ZenMemoryKind
container_kind(Oid type)
{
	switch (get_typsubscript(type, NULL))
	{
		case F_ARRAY_SUBSCRIPT_HANDLER:
		case F_RAW_ARRAY_SUBSCRIPT_HANDLER:
		case F_JSONB_SUBSCRIPT_HANDLER:
			return ZEN_MEMORY_NONE;
		default:
			return ZEN_MEMORY_ANY;
	}
}

/*
 * One node.  Those that read a row by its type (FieldSelect, NullTest) see for themselves whether the type is as it
 * was.
 */
static ZenMemoryKind
node_kind(Node *node)
{
	if (zen_is_json_node(node))
		return ZEN_MEMORY_CATALOGS;
	if (zen_is_returning_node(node))
		return ZEN_MEMORY_NONE;
	switch (nodeTag(node))
	{
		case T_List:
		case T_TargetEntry:
		case T_WithCheckOption:
		case T_Var:
		case T_Const:
		case T_Param:
		case T_FuncExpr:
		case T_NamedArgExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_FieldSelect:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_CollateExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_ArrayExpr:
		case T_CoalesceExpr:
		case T_SQLValueFunction:
		case T_XmlExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CoerceToDomainValue:
		case T_CurrentOfExpr:
		case T_NextValueExpr:
			return ZEN_MEMORY_NONE;
		case T_FieldStore:
		case T_RowExpr:
		case T_RowCompareExpr:
		case T_MinMaxExpr:
		case T_ConvertRowtypeExpr:
		case T_CoerceToDomain:
			return ZEN_MEMORY_CATALOGS;
		case T_SubscriptingRef:
			return container_kind(((SubscriptingRef *) node)->refcontainertype);
		default:
			return ZEN_MEMORY_ANY;
	}
}

static bool
is_sql_function(Oid function, void *context)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		result = HeapTupleIsValid(tuple) && ((Form_pg_proc) GETSTRUCT(tuple))->prolang == SQLlanguageId;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return result;
}

bool
zen_memory_judge(Node *node, void *judgement)
{
	ZenMemoryJudgement *j = judgement;

	if (node == NULL)
		return false;
	j->kind = Max(j->kind, node_kind(node));
	if (j->stage == ZEN_EXPR_STORED && check_functions_in_node(node, is_sql_function, NULL))
		j->kind = Max(j->kind, ZEN_MEMORY_CATALOGS);
	/* sooner, planning them would call functions that nobody has asked for */
	if (j->stage == ZEN_EXPR_COMPILED && IsA(node, CoerceToDomain))
	{
		DomainConstraintRef *domain = palloc(sizeof(DomainConstraintRef));
		ListCell   *lc;

		InitDomainConstraintRef(((CoerceToDomain *) node)->resulttype, domain, CurrentMemoryContext, false);
		foreach(lc, domain->constraints)
			(void) zen_memory_judge((Node *) ((DomainConstraintState *) lfirst(lc))->check_expr, j);
	}
	return j->kind == ZEN_MEMORY_ANY || expression_tree_walker(node, zen_memory_judge, judgement);
}

static List *
add_text(List *list, const char *expression)
{
	return expression == NULL ? list : lappend(list, pstrdup(expression));
}

/* Copies, as the relcache entry may be made anew at each look into a catalog (I21). */
static List *
expressions_of(Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;
	TriggerDesc *triggers = rel->trigdesc;
	List	   *list = NIL;

	for (int i = 0; constr != NULL && i < constr->num_check; i++)
		list = add_text(list, constr->check[i].ccbin);
	for (int i = 0; constr != NULL && i < constr->num_defval; i++)
		list = add_text(list, constr->defval[i].adbin);
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		list = add_text(list, triggers->triggers[i].tgqual);
	return list;
}

void
zen_memory_judge_table(Relation rel, ZenMemoryJudgement *j)
{
	ListCell   *lc;

	foreach(lc, expressions_of(rel))
		(void) zen_memory_judge(stringToNode(lfirst(lc)), j);
	if (rel->rd_rel->relispartition)
		(void) zen_memory_judge((Node *) RelationGetPartitionQual(rel), j);
}
