/*
 * pointmemory.c -- what a kept state remembers from one execution to the next, and what it must not.
 *
 * A function may keep what it likes in its FmgrInfo, at fn_extra, until its query ends: the columns of a type, a cast,
 * a row of some table, how often it was called.  Expressions do likewise.  A kept state would make that life endless,
 * and no invalidation message tells of all that may have changed.  So the rule (README, "What a kept state may
 * remember"):
 * - What is remembered while a statement runs goes when the execution ends, whosever function it is.  All places where
 *   it may stand are noted as the state is made (zen_memory_find), and emptied (zen_memory_forget).
 * - What is put into an expression as it is compiled stays as long as no catalog has changed that it may come from
 *   (pointstate.c).
 * - A plan with an expression that may remember anything is not kept (memorykind.c).
 *
 * Constraints, generated columns, conditions of triggers, and trigger functions are looked up when they are needed
 * first.  So their number is compared after each execution.
 */
#include "exec/pointmemory.h"

#include "catalog/pg_type_d.h"
#include "exec/memorykind.h"
#include "exec/pointplan.h"
#include "executor/execExpr.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* ---------- places ---------- */

static void
note_place(ZenPoint *point, void **place)
{
	ZenPointMemory *m = &point->memory;

	if (m->n == m->size)
	{
		m->size = Max(2 * m->size, 8);
		m->places = m->places == NULL ? MemoryContextAlloc(point->context, m->size * sizeof(void **)) :
			repalloc(m->places, m->size * sizeof(void **));
	}
	m->places[m->n++] = place;
}

static void
note_function(ZenPoint *point, FmgrInfo *function)
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
			note_function(point, op->d.func.finfo);
			break;
		case EEOP_IOCOERCE:
#if ZEN_HAS_JSON_STEPS
		case EEOP_IOCOERCE_SAFE:
#endif
			note_function(point, op->d.iocoerce.finfo_out);
			note_function(point, op->d.iocoerce.finfo_in);
			break;
		case EEOP_ARRAYCOERCE:
			return op->d.arraycoerce.elemexprstate;
		case EEOP_ROWCOMPARE_STEP:
			note_function(point, op->d.rowcompare_step.finfo);
			break;
		case EEOP_MINMAX:
			note_function(point, op->d.minmax.finfo);
			break;
		case EEOP_SCALARARRAYOP:
			note_function(point, op->d.scalararrayop.finfo);
			break;
		case EEOP_HASHED_SCALARARRAYOP:
			note_function(point, op->d.hashedscalararrayop.finfo);
			if (!is_plain_list(op->d.hashedscalararrayop.saop))
				note_place(point, (void **) &op->d.hashedscalararrayop.elements_tab);
			break;
#if ZEN_HAS_JSON_STEPS
		case EEOP_JSONEXPR_PATH:
			if (op->d.jsonexpr.jsestate->input_fcinfo != NULL)
				note_function(point, op->d.jsonexpr.jsestate->input_fcinfo->flinfo);
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

		note_function(point, &part->sk_func);
		while ((part->sk_flags & SK_ROW_MEMBER) != 0 && (part->sk_flags & SK_ROW_END) == 0)
		{
			part++;
			note_function(point, &part->sk_func);
		}
	}
}

static void
note_runtime_keys(ZenPoint *point, IndexRuntimeKeyInfo *keys, int nkeys)
{
	for (int i = 0; i < nkeys; i++)
		note_state(point, keys[i].key_expr);
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
note_node(PlanState *node, void *context)
{
	ZenPoint   *point = context;

	note_state(point, node->qual);
	note_projection(point, node->ps_ProjInfo);
	switch (nodeTag(node))
	{
		case T_IndexScanState:
			{
				IndexScanState *scan = (IndexScanState *) node;

				note_state(point, scan->indexqualorig);
				note_keys(point, scan->iss_ScanKeys, scan->iss_NumScanKeys);
				note_runtime_keys(point, scan->iss_RuntimeKeys, scan->iss_NumRuntimeKeys);
				break;
			}
		case T_IndexOnlyScanState:
			{
				IndexOnlyScanState *scan = (IndexOnlyScanState *) node;

				note_state(point, scan->recheckqual);
				note_keys(point, scan->ioss_ScanKeys, scan->ioss_NumScanKeys);
				note_runtime_keys(point, scan->ioss_RuntimeKeys, scan->ioss_NumRuntimeKeys);
				break;
			}
		case T_ResultState:
			note_state(point, ((ResultState *) node)->resconstantqual);
			break;
		case T_NestLoopState:
			note_state(point, ((NestLoopState *) node)->js.joinqual);
			break;
		case T_LimitState:
			note_state(point, ((LimitState *) node)->limitOffset);
			note_state(point, ((LimitState *) node)->limitCount);
			note_state(point, ((LimitState *) node)->eqfunction);
			break;
		case T_ModifyTableState:
			note_change(point, ((ModifyTableState *) node)->resultRelInfo);
			break;
		default:
			/* the list of is_keepable (pointplan.c) has no others with more */
			Assert(IsA(node, SeqScanState) || IsA(node, ValuesScanState) || IsA(node, LockRowsState) ||
				   IsA(node, CustomScanState));
			break;
	}
	return planstate_tree_walker(node, note_node, point);
}

/* What a point access has beside the executor's nodes. */
static void
note_row_access(ZenPoint *point)
{
	note_projection(point, point->make_row);
	if (point->list.nkey >= 0 && point->scan != NULL)
	{
		/* the keys are a copy then */
		note_function(point, &point->list.compare);
		note_keys(point, point->scan_keys, point->scan->iss_NumScanKeys);
	}
}

/* ---------- what is looked up late ---------- */

typedef struct Late
{
	ZenPoint   *point;			/* NULL: only count */
	int			n;
	ZenMemoryJudgement judgement;
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
	(void) zen_memory_judge((Node *) state->expr, &late->judgement);
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
				note_function(late->point, &target->ri_TrigFunctions[i]);
		}
}

static void
note_late(ZenPoint *point)
{
	Late		late = {point, 0, {ZEN_MEMORY_NONE, ZEN_EXPR_COMPILED}};

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
	ZenMemoryJudgement j = {ZEN_MEMORY_NONE, ZEN_EXPR_COMPILED};

	/*
	 * a domain, or a function in SQL that has been put into a constraint, may
	 * have something in it that was not to be seen in the plan
	 */
	(void) zen_point_walk_plan(outerPlan(point->kept->plannedstmt->planTree), zen_memory_judge, &j);
	point->memory.unknown = j.kind == ZEN_MEMORY_ANY;
	point->memory.n = point->memory.nlate = 0;
	(void) note_node(point->kept->planstate, point);
	if (point->kind == ZEN_POINT_ROW)
		note_row_access(point);
	if (point->target != NULL)
		note_late(point);
}

void
zen_memory_forget(ZenPoint *point)
{
	void	 ***places;
	int			n;

	if (point->has_expressions && has_looked_up(point))
	{
		MemoryContext old = MemoryContextSwitchTo(point->run_context);

		zen_memory_find(point);
		MemoryContextSwitchTo(old);
	}
	places = point->memory.places;
	n = point->memory.n;
	for (int i = 0; i < n; i++)
		*places[i] = NULL;
}
