/*
 * pointmemory.c -- what a kept state remembers from one execution to the next, and what it must not.
 *
 * README, "What a kept state may remember", gives the rule and its three parts.  Places where a function remembers
 * something are noted as the state is made (zen_memory_find), and emptied when an execution ends (zen_memory_forget).
 * What is compiled into an expression stays until a catalog changes (exec.c).  A plan with an expression that may
 * remember anything is not kept (zen_memory_kind).
 */
#include "exec/point.h"

#include "access/table.h"
#include "catalog/pg_language_d.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "exec/batch.h"
#include "exec/keptnodes.h"
#include "executor/execExpr.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* How far an expression is on its way. */
typedef enum ExprStage
{
	EXPR_STORED,				/* the bodies of functions in SQL may come
								 * into it yet */
	EXPR_PLANNED,
	EXPR_COMPILED				/* so are the constraints of its domains */
} ExprStage;

typedef struct Judgement
{
	ZenMemoryKind kind;			/* the most that has been seen */
	ExprStage	stage;
} Judgement;

/* ---------- what expressions have in them ---------- */

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
		case T_Aggref:
			return zen_batchagg_is_plain((Aggref *) node) ? ZEN_MEMORY_NONE : ZEN_MEMORY_ANY;
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

/*
 * Look at an expression, or a list of some; the walker of a tree.  Result: it may remember anything, so there is no
 * need to look on.  Runs no functions: domains are looked into only where they have been compiled.
 */
static bool
memory_judge(Node *node, void *judgement)
{
	Judgement  *j = judgement;

	if (node == NULL)
		return false;
	j->kind = Max(j->kind, node_kind(node));
	if (j->stage == EXPR_STORED && check_functions_in_node(node, is_sql_function, NULL))
		j->kind = Max(j->kind, ZEN_MEMORY_CATALOGS);

	/*
	 * not at an earlier stage: planning them would call functions that the
	 * query does not call
	 */
	if (j->stage == EXPR_COMPILED && IsA(node, CoerceToDomain))
	{
		DomainConstraintRef *domain = palloc(sizeof(DomainConstraintRef));
		ListCell   *lc;

		InitDomainConstraintRef(((CoerceToDomain *) node)->resulttype, domain, CurrentMemoryContext, false);
		foreach(lc, domain->constraints)
			(void) memory_judge((Node *) ((DomainConstraintState *) lfirst(lc))->check_expr, j);
	}
	return j->kind == ZEN_MEMORY_ANY || expression_tree_walker(node, memory_judge, judgement);
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

/* Look at what is evaluated when a row of the table changes, as it is stored. */
static void
judge_table(Relation rel, Judgement *j)
{
	ListCell   *lc;

	foreach(lc, expressions_of(rel))
		(void) memory_judge(stringToNode(lfirst(lc)), j);
	if (rel->rd_rel->relispartition)
		(void) memory_judge((Node *) RelationGetPartitionQual(rel), j);
}

ZenMemoryKind
zen_memory_kind(const PlannedStmt *stmt, Plan *plan)
{
	Judgement	j = {ZEN_MEMORY_NONE, EXPR_PLANNED};
	ListCell   *lc;

	(void) zen_keptnodes_walk(plan, memory_judge, &j);
	if (!IsA(plan, ModifyTable))
		return j.kind;
	j.stage = EXPR_STORED;
	foreach(lc, ((ModifyTable *) plan)->resultRelations)
	{
		Relation	rel = table_open(rt_fetch(lfirst_int(lc), stmt->rtable)->relid, NoLock);

		judge_table(rel, &j);
		table_close(rel, NoLock);
	}
	return j.kind;
}

/* ---------- places ---------- */

static void
note_place(ZenPoint *point, void **place)
{
	MemoryContext old = MemoryContextSwitchTo(point->context);

	point->memory.places = lappend(point->memory.places, place);
	MemoryContextSwitchTo(old);
}

static void
memory_note_function(ZenPoint *point, FmgrInfo *function)
{
	/* what it remembers lies where it goes with the execution */
	function->fn_mcxt = point->run_context;
	note_place(point, &function->fn_extra);
}

/* No function of PostgreSQL that hashes or compares such values looks at a catalog. */
static bool
is_plain_list(ScalarArrayOpExpr *list)
{
	Oid			type = exprType(linitial(list->args));

	return type < FirstGenbkiObjectId && get_typtype(type) == TYPTYPE_BASE && !OidIsValid(get_element_type(type)) &&
		list->opfuncid < FirstGenbkiObjectId && list->hashfuncid < FirstGenbkiObjectId;
}

/* What one step of an expression remembers.  Result: the expression that it applies to each element of an array. */
static ExprState *
note_step(ZenPoint *point, ExprState *state, ExprEvalStep *op)
{
	switch (ExecEvalStepOp(state, op))
	{
		case EEOP_FUNCEXPR:
		case EEOP_FUNCEXPR_STRICT:
#if ZEN_HAS_COUNTED_STRICT_STEPS
		case EEOP_FUNCEXPR_STRICT_1:
		case EEOP_FUNCEXPR_STRICT_2:
#endif
		case EEOP_FUNCEXPR_FUSAGE:
		case EEOP_FUNCEXPR_STRICT_FUSAGE:
		case EEOP_DISTINCT:
		case EEOP_NOT_DISTINCT:
		case EEOP_NULLIF:
			memory_note_function(point, op->d.func.finfo);
			break;
		case EEOP_IOCOERCE:
#if ZEN_HAS_JSON_STEPS
		case EEOP_IOCOERCE_SAFE:
#endif
			memory_note_function(point, op->d.iocoerce.finfo_out);
			memory_note_function(point, op->d.iocoerce.finfo_in);
			break;
		case EEOP_ARRAYCOERCE:
			return op->d.arraycoerce.elemexprstate;
		case EEOP_ROWCOMPARE_STEP:
			memory_note_function(point, op->d.rowcompare_step.finfo);
			break;
		case EEOP_MINMAX:
			memory_note_function(point, op->d.minmax.finfo);
			break;
		case EEOP_SCALARARRAYOP:
			memory_note_function(point, op->d.scalararrayop.finfo);
			break;
		case EEOP_HASHED_SCALARARRAYOP:
			memory_note_function(point, op->d.hashedscalararrayop.finfo);
			if (!is_plain_list(op->d.hashedscalararrayop.saop))
				note_place(point, (void **) &op->d.hashedscalararrayop.elements_tab);
			break;
#if ZEN_HAS_JSON_STEPS
		case EEOP_JSONEXPR_PATH:
			if (op->d.jsonexpr.jsestate->input_fcinfo != NULL)
				memory_note_function(point, op->d.jsonexpr.jsestate->input_fcinfo->flinfo);
			break;
		case EEOP_JSONEXPR_COERCION:
			note_place(point, &op->d.jsonexpr_coercion.json_coercion_cache);
			break;
#endif
		default:
			/* all else of the kinds of nodes above remembers nothing */
			break;
	}
	return NULL;
}

static void
note_state(ZenPoint *point, ExprState *state)
{
	if (state == NULL)
		return;
	for (int i = 0; i < state->steps_len; i++)
		note_state(point, note_step(point, state, &state->steps[i]));
}

static void
note_projection(ZenPoint *point, ProjectionInfo *projection)
{
	if (projection != NULL)
		note_state(point, &projection->pi_state);
}

static void
note_keys(ZenPoint *point, ScanKey keys, int nkeys)
{
	for (int i = 0; i < nkeys; i++)
	{
		ScanKey		part = (keys[i].sk_flags & SK_ROW_HEADER) ? (ScanKey) DatumGetPointer(keys[i].sk_argument) :
		&keys[i];

		memory_note_function(point, &part->sk_func);
		while ((part->sk_flags & SK_ROW_MEMBER) != 0 && (part->sk_flags & SK_ROW_END) == 0)
		{
			part++;
			memory_note_function(point, &part->sk_func);
		}
	}
}

/* What is compiled when a change is started. */
static void
note_change(ZenPoint *point, ResultRelInfo *target)
{
	OnConflictSetState *conflict = target->ri_onConflict;
	ListCell   *lc;

	note_projection(point, target->ri_projectReturning);
	foreach(lc, target->ri_WithCheckOptionExprs)
		note_state(point, lfirst(lc));
	if (conflict != NULL)
	{
		note_projection(point, conflict->oc_ProjInfo);
		note_state(point, conflict->oc_WhereClause);
	}
}

static bool
memory_note_node(PlanState *node, void *context)
{
	ZenPoint   *point = context;
	const ZenNodeKind *kind = zen_keptnodes_kind(node->plan);
	ZenIndexState index;

	note_state(point, node->qual);
	note_projection(point, node->ps_ProjInfo);
	for (int i = 0; i < ZEN_NODE_EXPRS && kind->states[i] != 0; i++)
		note_state(point, ZEN_NODE_FIELD(node, kind->states[i], ExprState *));
	if (zen_keptnodes_index(node, &index))
	{
		note_keys(point, index.keys, index.nkeys);
		for (int i = 0; i < index.nruntime_keys; i++)
			note_state(point, index.runtime_keys[i].key_expr);
	}
	if (IsA(node, ModifyTableState))
		note_change(point, ((ModifyTableState *) node)->resultRelInfo);
	return planstate_tree_walker(node, memory_note_node, point);
}

/* What a point access has beside the executor's nodes. */
static void
note_row_access(ZenPoint *point)
{
	note_projection(point, point->make_row);
	if (point->list.nkey >= 0 && point->scan != NULL)
	{
		/* the keys are a copy then */
		memory_note_function(point, &point->list.compare);
		note_keys(point, point->scan_keys, point->scan->iss_NumScanKeys);
	}
}

/* ---------- what is looked up late ---------- */

typedef struct Late
{
	ZenPoint   *point;			/* NULL: only count */
	int			n;
	Judgement	judgement;
} Late;

static void
take_state(Late *late, ExprState *state)
{
	if (state == NULL)
		return;
	late->n++;
	if (late->point == NULL)
		return;
	note_state(late->point, state);
	(void) memory_judge((Node *) state->expr, &late->judgement);
}

static void
take_states(Late *late, ExprState **states, int n)
{
	for (int i = 0; states != NULL && i < n; i++)
		take_state(late, states[i]);
}

/* The expressions of a table, and its trigger functions, that have been looked up by now. */
static void
take_late(Late *late, ResultRelInfo *target)
{
	TupleDesc	desc = RelationGetDescr(target->ri_RelationDesc);
	int			ntriggers = target->ri_TrigDesc != NULL ? target->ri_TrigDesc->numtriggers : 0;

	take_states(late, zen_check_exprs(target), desc->constr != NULL ? desc->constr->num_check : 0);
	take_states(late, zen_generated_exprs(target, CMD_INSERT), desc->natts);
	take_states(late, zen_generated_exprs(target, CMD_UPDATE), desc->natts);
	if (zen_virtual_exprs(target) != NULL)
		take_states(late, zen_virtual_exprs(target), zen_virtual_not_null(desc));
	take_states(late, target->ri_TrigWhenExprs, ntriggers);
	take_state(late, target->ri_PartitionCheckExpr);
	for (int i = 0; i < ntriggers; i++)
		if (OidIsValid(target->ri_TrigFunctions[i].fn_oid))
		{
			late->n++;
			if (late->point != NULL)
				memory_note_function(late->point, &target->ri_TrigFunctions[i]);
		}
}

static void
note_late(ZenPoint *point)
{
	Late		late = {point, 0, {ZEN_MEMORY_NONE, EXPR_COMPILED}};

	take_late(&late, point->target);
	point->memory.unknown |= late.judgement.kind == ZEN_MEMORY_ANY;
	point->memory.nlate = late.n;
}

static bool
has_looked_up(ZenPoint *point)
{
	Late		late = {NULL};

	take_late(&late, point->target);
	return late.n != point->memory.nlate;
}

/* ---------- a state ---------- */

void
zen_memory_find(ZenPoint *point)
{
	Judgement	j = {ZEN_MEMORY_NONE, EXPR_COMPILED};

	/*
	 * a domain, or a function in SQL that has been put into a constraint, may
	 * have something in it that was not to be seen in the plan
	 */
	(void) zen_keptnodes_walk(outerPlan(point->kept->plannedstmt->planTree), memory_judge, &j);
	point->memory.unknown = j.kind == ZEN_MEMORY_ANY;
	list_free(point->memory.places);
	point->memory.places = NIL;
	point->memory.nlate = 0;
	(void) memory_note_node(point->kept->planstate, point);
	if (point->kind == ZEN_POINT_ROW)
		note_row_access(point);
	if (point->target != NULL)
		note_late(point);
}

void
zen_memory_forget(ZenPoint *point)
{
	ListCell   *lc;

	if (point->has_expressions && has_looked_up(point))
	{
		MemoryContext old = MemoryContextSwitchTo(point->run_context);

		zen_memory_find(point);
		MemoryContextSwitchTo(old);
	}
	foreach(lc, point->memory.places)
	{
		*(void **) lfirst(lc) = NULL;
	}
}
