/*
 * keyjoin.c -- a nested loop whose inner row is found by a unique key.
 *
 * The planner has done its work.  The node ZenKeyJoin is put on top of such a loop wherever a plan has one.  So EXPLAIN
 * shows both, and the planner's choice and costs stay.
 *
 * README, "Joins by key", says what the node does instead of the loop, and where the loop itself runs (runs_loop).  It
 * also says when outer rows are read ahead (zen_keyjoin_looks_ahead, locks_rows, may_change).
 */
#include "exec/plannode.h"

#include "access/genam.h"
#include "access/parallel.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/guc.h"
#include "base/stats.h"
#include "cache/keycache.h"
#include "cache/tidmap.h"
#include "commands/explain.h"
#include "exec/keptnodes.h"
#include "exec/keyprobe.h"
#include "executor/executor.h"
#include "executor/nodeIndexscan.h"
#include "miscadmin.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "row/rowahead.h"
#include "row/rowread.h"
#include "table/zenam_fetch.h"
#include "table/zenam_rel.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#if ZEN_HAS_EXPLAIN_OPTIONS
#include "commands/explain_format.h"
#endif

#define FIRST_ROWS	4			/* outer rows read at once, at first */
#define MAX_ROWS	64			/* and at most; each time twice as many */

/* An outer row and what is known of its inner row. */
typedef struct OuterRow
{
	TupleTableSlot *slot;		/* shows it */
	TupleTableSlot *copy;		/* slot, if other rows are read before its
								 * turn; made when needed */
	bool		has_key;		/* no part of it is NULL */
	bool		hinted;			/* tidno is known */
	uint64		hash;
	uint64		tidno;
} OuterRow;

/* A scan key whose value is a column of the outer row, as it is. */
typedef struct DirectKey
{
	ScanKey		key;
	AttrNumber	attno;
} DirectKey;

typedef struct KeyJoin
{
	CustomScanState css;
	NestLoopState *join;
	PlanState  *outer;
	ScanState  *inner;			/* an index scan or an index-only scan */
	bool		may_look_ahead;

	/* of the inner scan; known once prepared */
	bool		prepared;
	ZenIndexState index;
	bool		is_direct;		/* runtime keys are these, or the same for all
								 * outer rows */
	int			ndirect;
	DirectKey	direct[INDEX_MAX_KEYS];
	TupleTableSlot *row;		/* of the table */
	AttrNumber *columns;		/* of an index-only scan: those of the table
								 * that the index has; else NULL */
	int			ncolumns;
	ZenKeyProbe probe;

	/* since the last rescan */
	bool		started;
	bool		by_loop;		/* the nested loop runs */
	bool		outer_done;
	int			next_limit;		/* rows to read at once */
	int			n;
	int			current;		/* of n rows; those before are done */
	OuterRow   *keyed;			/* whose key the scan keys have, or NULL */
	OuterRow	rows[MAX_ROWS];

	/* since the start, for EXPLAIN */
	uint64		hits,
				misses,
				stale;
} KeyJoin;

static KeyJoin *
key_join(CustomScanState *node)
{
	Assert(strcmp(node->methods->CustomName, ZEN_KEYJOIN_NODE) == 0);
	return (KeyJoin *) node;
}

/* ---------- execution: start ---------- */

static void
join_begin(CustomScanState *node, EState *estate, int eflags)
{
	KeyJoin    *kj = key_join(node);
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	outerPlanState(node) = ExecInitNode(outerPlan(plan), estate, eflags);
	if (!IsA(outerPlanState(node), NestLoopState))
		elog(ERROR, "a key join is not over a nested loop");
	kj->join = castNode(NestLoopState, outerPlanState(node));
	kj->outer = outerPlanState(kj->join);
	kj->inner = (ScanState *) innerPlanState(kj->join);
	kj->may_look_ahead = linitial_int(plan->custom_private) != 0;
}

/* The columns of the table that an index-only scan shows. */
static void
find_columns(KeyJoin *kj, Relation index)
{
	kj->ncolumns = IndexRelationGetNumberOfAttributes(index);
	kj->columns = palloc(kj->ncolumns * sizeof(AttrNumber));
	for (int i = 0; i < kj->ncolumns; i++)
		kj->columns[i] = index->rd_index->indkey.values[i];
}

/* Which runtime keys can be taken from the outer row without evaluating an expression? */
static void
find_direct_keys(KeyJoin *kj)
{
	List	   *params = ((NestLoop *) kj->join->js.ps.plan)->nestParams;

	kj->ndirect = 0;
	kj->is_direct = false;
	for (int i = 0; i < kj->index.nruntime_keys; i++)
	{
		IndexRuntimeKeyInfo *runtime = &kj->index.runtime_keys[i];
		Param	   *param = (Param *) runtime->key_expr->expr;
		ListCell   *lc;

		if (IsA(param, Param) && param->paramkind == PARAM_EXTERN)
			continue;
		foreach(lc, IsA(param, Param) ? params : NIL)
		{
			if (((NestLoopParam *) lfirst(lc))->paramno == param->paramid)
				break;
		}
		if (lc == NULL || runtime->key_toastable)
		{
			kj->ndirect = 0;
			return;
		}
		kj->direct[kj->ndirect].key = runtime->scan_key;
		kj->direct[kj->ndirect].attno = ((NestLoopParam *) lfirst(lc))->paramval->varattno;
		kj->ndirect++;
	}
	kj->is_direct = true;
}

/* Take from the inner scan what stays the same as long as it lives. */
static void
join_prepare(KeyJoin *kj)
{
	MemoryContext old = MemoryContextSwitchTo(kj->join->js.ps.state->es_query_cxt);

	if (!zen_keptnodes_index(&kj->inner->ps, &kj->index))
		elog(ERROR, "a key join is not over an index scan");
	if (IsA(kj->inner, IndexScanState))
		kj->row = kj->inner->ss_ScanTupleSlot;
	else
	{
		kj->row = ((IndexOnlyScanState *) kj->inner)->ioss_TableSlot;
		find_columns(kj, *kj->index.index);
	}
	find_direct_keys(kj);
	zen_keyprobe_init(&kj->probe, *kj->index.index, kj->index.keys, kj->index.nkeys);
	kj->prepared = true;
	MemoryContextSwitchTo(old);
}

static bool
runs_loop(KeyJoin *kj)
{
	EState	   *estate = kj->join->js.ps.state;

	return !zen_key_join || estate->es_epq_active != NULL || IsolationIsSerializable() || IsParallelWorker() ||
		zen_fetch_sees_key_twice() || !IsMVCCSnapshot(estate->es_snapshot);
}

static void
evaluate_keys(KeyJoin *kj)
{
	ResetExprContext(kj->index.runtime_context);
	ExecIndexEvalRuntimeKeys(kj->index.runtime_context, kj->index.runtime_keys, kj->index.nruntime_keys);
}

static void
join_start(KeyJoin *kj)
{
	kj->started = true;
	kj->by_loop = runs_loop(kj);
	if (kj->by_loop)
		return;
	if (!kj->prepared)
		join_prepare(kj);
	kj->by_loop = kj->probe.nkeys == 0;
	if (kj->by_loop)
		return;
	kj->outer_done = false;
	kj->n = kj->current = 0;
	kj->next_limit = kj->may_look_ahead ? FIRST_ROWS : 1;
	kj->keyed = NULL;
	/* those that are the same for all outer rows */
	if (kj->is_direct && kj->ndirect < kj->index.nruntime_keys)
		evaluate_keys(kj);
	ZEN_COUNT(key_joins, 1);
}

/* ---------- outer rows ---------- */

/* Let parameters and scan keys be those of an outer row; false if a part of its key is NULL. */
static bool
set_key(KeyJoin *kj, OuterRow *row)
{
	ParamExecData *params = kj->join->js.ps.state->es_param_exec_vals;
	ListCell   *lc;

	foreach(lc, ((NestLoop *) kj->join->js.ps.plan)->nestParams)
	{
		NestLoopParam *nlp = lfirst(lc);
		ParamExecData *param = &params[nlp->paramno];

		Assert(nlp->paramval->varno == OUTER_VAR && nlp->paramval->varattno > 0);
		param->value = slot_getattr(row->slot, nlp->paramval->varattno, &param->isnull);
	}
	if (!kj->is_direct)
		evaluate_keys(kj);
	for (int i = 0; i < kj->ndirect; i++)
	{
		ScanKey		key = kj->direct[i].key;
		bool		isnull;

		key->sk_argument = slot_getattr(row->slot, kj->direct[i].attno, &isnull);
		key->sk_flags = isnull ? key->sk_flags | SK_ISNULL : key->sk_flags & ~SK_ISNULL;
	}
	kj->keyed = row;
	for (int i = 0; i < kj->index.nkeys; i++)
		if (kj->index.keys[i].sk_flags & SK_ISNULL)
			return false;
	return true;
}

/* The outer side goes on to another row: keep this one. */
static void
outer_keep(KeyJoin *kj, OuterRow *row)
{
	TupleTableSlot *slot = row->slot;

	if (row->copy == NULL)
	{
		EState	   *estate = kj->join->js.ps.state;
		MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

		row->copy = ExecInitExtraTupleSlot(estate, slot->tts_tupleDescriptor, slot->tts_ops);
		MemoryContextSwitchTo(old);
	}
	ExecCopySlot(row->copy, slot);
	/* no pins on as many buffers */
	if (TTS_IS_BUFFERTUPLE(row->copy))
		ExecMaterializeSlot(row->copy);
	row->slot = row->copy;
}

/* Ask for the memory of all inner rows that the key cache knows. */
static void
outer_look_up(KeyJoin *kj)
{
	ZenHTable  *ht = zen_rel_htable(kj->inner->ss_currentRelation);
	uint64		tidnos[MAX_ROWS];
	int			n = 0;

	for (int i = 0; i < kj->n; i++)
	{
		OuterRow   *row = &kj->rows[i];

		row->hinted = row->has_key && zen_keyprobe_hint(ht, row->hash, &row->tidno);
		if (row->hinted)
			tidnos[n++] = row->tidno;
		else
			kj->misses += row->has_key;
	}
	if (kj->n > 1)
	{
		zen_row_prefetch_words(ht, tidnos, n);
		zen_row_prefetch(ht, tidnos, n);
	}
}

/* Read the next outer rows; false if there are none. */
static bool
outer_read(KeyJoin *kj)
{
	int			limit = kj->next_limit;

	kj->n = kj->current = 0;
	while (kj->n < limit)
	{
		OuterRow   *row = &kj->rows[kj->n];
		TupleTableSlot *slot = ExecProcNode(kj->outer);

		kj->outer_done = TupIsNull(slot);
		if (kj->outer_done)
			break;
		row->slot = slot;
		if (kj->n + 1 < limit)
			outer_keep(kj, row);
		row->has_key = set_key(kj, row);
		if (row->has_key)
		{
			row->hash = zen_keyprobe_hash(&kj->probe, kj->index.keys);
			if (limit > 1)
				zen_keycache_prefetch(row->hash);
		}
		kj->n++;
	}
	if (limit > 1)
		kj->next_limit = Min(2 * limit, MAX_ROWS);
	ZEN_COUNT(key_join_rows, kj->n);
	outer_look_up(kj);
	return kj->n > 0;
}

static OuterRow *
outer_next(KeyJoin *kj)
{
	if (kj->current < kj->n && ++kj->current < kj->n)
		return &kj->rows[kj->current];
	return !kj->outer_done && outer_read(kj) ? &kj->rows[0] : NULL;
}

/* ---------- the inner row ---------- */

/* The inner scan's own description of its search, as it would make it. */
static IndexScanDesc
index_scan(KeyJoin *kj)
{
	IndexScanDesc *scan = kj->index.scan;

	if (*scan == NULL)
	{
		*scan = zen_node_beginscan(kj->inner, *kj->index.index, kj->join->js.ps.state->es_snapshot, kj->index.nkeys);
		if (IsA(kj->inner, IndexOnlyScanState))
		{
			/* the scan itself may go on with it */
			(*scan)->xs_want_itup = true;
			((IndexOnlyScanState *) kj->inner)->ioss_VMBuffer = InvalidBuffer;
		}
	}
	return *scan;
}

/* The row of the search.  For an index-only scan the table would only be asked if the row is seen (indexahead.c). */
static bool
next_row(IndexScanDesc scan, TupleTableSlot *row)
{
	bool		index_only = scan->xs_want_itup;
	bool		found = false;

	while (!found && index_getnext_tid(scan, ForwardScanDirection) != NULL)
	{
		scan->xs_want_itup = false;
		found = index_fetch_heap(scan, row);
		scan->xs_want_itup = index_only;
	}
	return found;
}

/* Find the row with the key of an outer row, by a search of the index. */
static bool
join_fetch_by_index(KeyJoin *kj, OuterRow *row)
{
	IndexScanDesc scan = index_scan(kj);

	index_rescan(scan, kj->index.keys, kj->index.nkeys, NULL, 0);
	if (!next_row(scan, kj->row))
		return false;
	Assert(!scan->xs_recheck);
	zen_keycache_store(row->hash, zen_tidno(&kj->row->tts_tid));
	return true;
}

static bool
join_fetch_by_key(KeyJoin *kj, OuterRow *row)
{
	if (row->hinted)
	{
		if (zen_keyprobe_fetch(&kj->probe, kj->inner->ss_currentRelation, kj->index.keys, row->tidno,
							   kj->join->js.ps.state->es_snapshot, kj->row))
		{
			zen_keyprobe_count(*kj->index.index);
			kj->hits++;
			return true;
		}
		kj->stale++;
	}
	return join_fetch_by_index(kj, row);
}

/* Show the row of the table as the index has it. */
static TupleTableSlot *
show_columns(KeyJoin *kj)
{
	TupleTableSlot *slot = kj->inner->ss_ScanTupleSlot;

	ExecClearTuple(slot);
	for (int i = 0; i < kj->ncolumns; i++)
		slot->tts_values[i] = slot_getattr(kj->row, kj->columns[i], &slot->tts_isnull[i]);
	InstrCountTuples2(kj->inner, 1);
	return ExecStoreVirtualTuple(slot);
}

/* The inner scan's row for an outer row, as the scan would give it; NULL if there is none. */
static TupleTableSlot *
inner_row(KeyJoin *kj, OuterRow *row)
{
	PlanState  *scan = &kj->inner->ps;
	ExprContext *econtext = scan->ps_ExprContext;

	if (kj->keyed != row)
		(void) set_key(kj, row);
	if (!row->has_key || !join_fetch_by_key(kj, row))
		return NULL;
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = kj->columns ? show_columns(kj) : kj->row;
	if (!ExecQual(scan->qual, econtext))
	{
		InstrCountFiltered1(scan, 1);
		return NULL;
	}
	return scan->ps_ProjInfo ? ExecProject(scan->ps_ProjInfo) : econtext->ecxt_scantuple;
}

/* The same, measured as a run of the inner scan. */
static TupleTableSlot *
measured_inner_row(KeyJoin *kj, OuterRow *row)
{
	Instrumentation *instrument = kj->inner->ps.instrument;
	TupleTableSlot *slot;

	if (likely(instrument == NULL))
		return inner_row(kj, row);
	InstrStartNode(instrument);
	slot = inner_row(kj, row);
	InstrStopNode(instrument, TupIsNull(slot) ? 0 : 1);
	InstrEndLoop(instrument);
	return slot;
}

/* ---------- the join ---------- */

/* Joins the row in the loop's context with its outer row; NULL if there is nothing to give. */
static TupleTableSlot *
joined_row(KeyJoin *kj)
{
	JoinState  *join = &kj->join->js;
	ExprContext *econtext = join->ps.ps_ExprContext;
	bool		matches = false;

	if (!TupIsNull(econtext->ecxt_innertuple))
	{
		matches = ExecQual(join->joinqual, econtext);
		if (!matches)
			InstrCountFiltered1(join, 1);
	}
	if (matches && join->jointype == JOIN_ANTI)
		return NULL;
	if (!matches)
	{
		if (join->jointype != JOIN_LEFT && join->jointype != JOIN_ANTI)
			return NULL;
		econtext->ecxt_innertuple = kj->join->nl_NullInnerTupleSlot;
	}
	if (ExecQual(join->ps.qual, econtext))
		return ExecProject(join->ps.ps_ProjInfo);
	InstrCountFiltered2(join, 1);
	return NULL;
}

/* As ExecNestLoop() with an inner side that gives one row at most. */
static TupleTableSlot *
join_next(KeyJoin *kj)
{
	ExprContext *econtext = kj->join->js.ps.ps_ExprContext;
	OuterRow   *row;

	while ((row = outer_next(kj)) != NULL)
	{
		TupleTableSlot *result;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		econtext->ecxt_outertuple = row->slot;
		econtext->ecxt_innertuple = measured_inner_row(kj, row);
		result = joined_row(kj);
		if (result != NULL)
			return result;
	}
	return NULL;
}

/* ---------- execution: the node ---------- */

static TupleTableSlot *
join_exec(CustomScanState *node)
{
	KeyJoin    *kj = key_join(node);
	Instrumentation *instrument = kj->join->js.ps.instrument;
	TupleTableSlot *row;

	if (!kj->started)
		join_start(kj);
	if (kj->by_loop)
		return ExecProcNode(&kj->join->js.ps);
	if (likely(instrument == NULL))
		return join_next(kj);
	InstrStartNode(instrument);
	row = join_next(kj);
	InstrStopNode(instrument, row != NULL ? 1 : 0);
	return row;
}

static void
join_rescan(CustomScanState *node)
{
	key_join(node)->started = false;
	ExecReScan(outerPlanState(node));
}

static void
join_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	KeyJoin    *kj = key_join(node);

	if (!es->analyze)
		return;
	ExplainPropertyInteger("Key Cache Hits", NULL, (int64) kj->hits, es);
	ExplainPropertyInteger("Key Cache Misses", NULL, (int64) kj->misses, es);
	ExplainPropertyInteger("Key Cache Stale", NULL, (int64) kj->stale, es);
}

static ZenPlanNode join_node = {
	.scan.CustomName = ZEN_KEYJOIN_NODE,
	.exec.BeginCustomScan = join_begin,
	.exec.ExecCustomScan = join_exec,
	.exec.ReScanCustomScan = join_rescan,
	.exec.ExplainCustomScan = join_explain,
	.state_size = sizeof(KeyJoin),
};

/* ---------- plans: reading ahead ---------- */

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

/* Are rows locked that the statement only reads?  Other sessions could see a row locked too early. */
static bool
locks_rows(PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->rowMarks)
	{
		if (RowMarkRequiresRowShareLock(lfirst_node(PlanRowMark, lc)->markType))
			return true;
	}
	return false;
}

static bool
has_subplans(Node *node, void *context)
{
	return contain_subplans(node);
}

/*
 * May asking a plan for rows change others, by WITH (UPDATE ...)?  Only nodes that are known to read, and whose
 * expressions have no subqueries, do not.
 */
static bool
may_change(PlannedStmt *stmt, Plan *plan)
{
	const ZenNodeKind *kind;

	if (plan == NULL)
		return false;
	check_stack_depth();
	kind = zen_keptnodes_kind(plan);
	if (!kind->only_reads || plan->initPlan != NIL || zen_keptnodes_exprs(plan, has_subplans, NULL))
		return true;
	Assert(kind->plans == 0);
	if (kind->plan != 0 && may_change(stmt, ZEN_NODE_FIELD(plan, kind->plan, Plan *)))
		return true;
	if (IsA(plan, CteScan) && may_change(stmt, list_nth(stmt->subplans, ((CteScan *) plan)->ctePlanId - 1)))
		return true;
	return may_change(stmt, outerPlan(plan)) || may_change(stmt, innerPlan(plan));
}

/* ---------- plans: the form ---------- */

/*
 * Subqueries in the inner scan's expressions would have to be told that parameters have changed; the nested loop does
 * it.
 */
static bool
is_key_join(PlannedStmt *stmt, NestLoop *join)
{
	Plan	   *inner = innerPlan(join);
	Oid			index;
	List	   *quals;

	if (join->nestParams == NIL || join->join.plan.parallel_aware || inner->parallel_aware || inner->initPlan != NIL)
		return false;
	if (IsA(inner, IndexScan))
	{
		index = ((IndexScan *) inner)->indexid;
		quals = ((IndexScan *) inner)->indexqual;
	}
	else if (IsA(inner, IndexOnlyScan))
	{
		index = ((IndexOnlyScan *) inner)->indexid;
		quals = ((IndexOnlyScan *) inner)->indexqual;
	}
	else
		return false;
	return zen_keptnodes_kind(inner)->refuses(stmt, inner) == ZEN_WHY_NONE &&
		!zen_keptnodes_exprs(inner, has_subplans, NULL) &&
		zen_keyprobe_refuses(index, quals, true) == ZEN_WHY_NONE;
}

/* ---------- plans: marking ---------- */

typedef struct Marking
{
	PlannedStmt *stmt;
	bool		looks_ahead;
} Marking;

static Plan *
mark_one(Marking *marking, NestLoop *join)
{
	CustomScan *node = zen_plannode_make(&join->join.plan, &join_node);
	bool		ahead = marking->looks_ahead &&
	!(marking->stmt->hasModifyingCTE && may_change(marking->stmt, outerPlan(join)));

	node->custom_private = list_make1_int(ahead);
	return &node->scan.plan;
}

static void mark_list(Marking *marking, List *plans);

/* The plan, or the node on top of it; the same for all plans below. */
static Plan *
mark_plan(Marking *marking, Plan *plan)
{
	const ZenNodeKind *kind;

	if (plan == NULL)
		return NULL;
	check_stack_depth();
	kind = zen_keptnodes_kind(plan);
	plan->lefttree = mark_plan(marking, plan->lefttree);
	plan->righttree = mark_plan(marking, plan->righttree);
	if (kind->plan != 0)
		ZEN_NODE_FIELD(plan, kind->plan, Plan *) = mark_plan(marking, ZEN_NODE_FIELD(plan, kind->plan, Plan *));
	if (kind->plans != 0)
		mark_list(marking, ZEN_NODE_FIELD(plan, kind->plans, List *));
	if (IsA(plan, NestLoop) && is_key_join(marking->stmt, (NestLoop *) plan))
		return mark_one(marking, (NestLoop *) plan);
	return plan;
}

static void
mark_list(Marking *marking, List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		lfirst(lc) = mark_plan(marking, lfirst(lc));
}

/*
 * Not in a parallel plan: its processes measure nodes by numbers that this node does not have, and the workers do not
 * know the rows of their own transaction.
 */
void
zen_keyjoin_mark(PlannedStmt *stmt, bool looks_ahead)
{
	Marking		marking = {stmt, looks_ahead && !locks_rows(stmt)};

	if (stmt->commandType == CMD_UTILITY || stmt->utilityStmt != NULL || stmt->parallelModeNeeded)
		return;
	stmt->planTree = mark_plan(&marking, stmt->planTree);
	mark_list(&marking, stmt->subplans);
}

void
zen_keyjoin_init(void)
{
	zen_plannode_register(&join_node);
}
